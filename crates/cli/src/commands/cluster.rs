//! `classify cluster`

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Instant;

use classify::classifier::train;
use classify::decide::decision::Decision;
use classify::evaluate::cluster::{Agreement, ClusterOptions, Clusters, cluster};
use classify::model::{FeatureSpec, InputSpec, Model, TrainSettings};
use classify::printable::printable;
use classify::text::corpus::{Content, CorpusError, Document, LabelUse, Place, Problem};
use classify::text::counts::{DfLimit, TermLimits};
use classify::text::tfidf::Weighting;
use classify::threads::Threads;
use serde::Serialize;

use crate::failure::Failure;
use crate::flags::reading::{Reading, name, open};
use crate::flags::searching::Searching;
use crate::flags::training::Analysis;
use crate::output::files::Files;
use crate::output::progress::{Progress, Talk};

#[derive(Debug, clap::Args)]
pub(crate) struct Cluster {
    /// Documents: files, folders, or - for standard input; labels, if there are any, are compared with the clusters
    #[arg(required = true, value_name = "CORPUS")]
    corpora: Vec<PathBuf>,
    /// The number of clusters
    #[arg(long, value_name = "N")]
    k: NonZeroUsize,
    /// How often to start; the best one counts
    #[arg(long, value_name = "N", default_value = "10")]
    starts: NonZeroUsize,
    /// The number of terms that describe a cluster
    #[arg(long, value_name = "N", default_value_t = 8)]
    terms: usize,
    /// Where to write the cluster of each document, as JSONL
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// SMART letters of the weighting, of which the third is c (cosine)
    #[arg(long, value_name = "LETTERS", default_value = "ltc")]
    weighting: Weighting,
    /// Drop terms of fewer documents: a number, or a share such as 1%
    #[arg(long, value_name = "N", default_value = "2")]
    min_df: DfLimit,
    /// Drop terms of more documents: a number, or a share such as 50%
    #[arg(long, value_name = "N", default_value = "100%")]
    max_df: DfLimit,
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    analysis: Analysis,
    #[command(flatten)]
    searching: Searching,
}

/// A line of the output.
#[derive(Debug, Serialize)]
struct Line<'a> {
    id: &'a str,
    cluster: Option<u32>,
    similarity: f32,
}

impl Cluster {
    pub(crate) fn run(self, threads: &Threads, seed: u64, talk: Talk) -> Result<(), Failure> {
        if !self.weighting.is_cosine() {
            let message = "--weighting: clusters are of rows of length 1, so its third letter is c";
            return Err(Failure::Usage(message.to_owned()));
        }
        let files = Files::default().reads_corpora(&self.corpora, self.reading.format());
        let mut files = files.reads(self.reading.files());
        let out = files.optional(self.output.as_ref())?;
        let mut report = files.report()?;
        let model = self.weighed(threads, talk)?;
        let engines = self.searching.engines(threads, talk)?;
        let options = ClusterOptions { starts: self.starts, seed, ..ClusterOptions::new(self.k) };
        let start = Instant::now();
        let found = cluster(model.rows(), options, &engines)?;
        let took = start.elapsed().as_secs_f64();
        if let Some(mut out) = out {
            for (number, (cluster, similarity)) in
                found.of_row.iter().zip(&found.similarities).enumerate()
            {
                let id = model.ids().get(number).unwrap_or_default();
                let line = Line { id, cluster: *cluster, similarity: *similarity };
                let line = serde_json::to_string(&line).map_err(|error| out.error(error.into()))?;
                writeln!(out, "{line}").map_err(|error| out.error(error))?;
            }
            out.commit()?;
        }
        if let Some(out) = &mut report {
            let text = self.text(&model, &found);
            out.write_all(text.as_bytes()).map_err(|error| out.error(error))?;
        }
        report.map_or(Ok(()), array_file::output::Output::commit)?;
        let mean = found.objective / (found.of_row.len().max(1) as f64);
        talk.say(&format!(
            "{} documents, {} clusters, mean similarity {mean:.4}, {took:.1} s{}",
            found.of_row.len(),
            found.centers.rows(),
            agreement(&model, &found)
        ));
        Ok(())
    }

    /// The documents, weighted.
    fn weighed(&self, threads: &Threads, talk: Talk) -> Result<Model, Failure> {
        let mut read = self.reading.options(LabelUse::Optional, Some(threads))?;
        let fields = self.analysis.fields();
        fields.read_apart(&mut read);
        let first_column = read.first_column.unwrap_or(1);
        let progress = Progress::new(talk, "reading", &self.corpora);
        let mut corpus = open(&self.corpora, read, talk, &progress)?;
        let place = || Place { source: name(&self.corpora).as_str().into(), line: None };
        let nothing = |problem| CorpusError { place: place(), problem };
        let first: Document =
            corpus.next().transpose()?.ok_or_else(|| nothing(Problem::NoDocument))?;
        let (input, weighting) = match &first.content {
            Content::Features(_) => {
                let spec = FeatureSpec { counts: false, first_column };
                (InputSpec::Features(spec), self.weighting.of_weights())
            }
            _ => (InputSpec::Text(self.analysis.spec(false)), self.weighting),
        };
        let settings =
            TrainSettings { fields, weighting, ..TrainSettings::new(input, Decision::Single) };
        let limits = TermLimits { min_df: self.min_df, max_df: self.max_df, max_terms: None };
        let mut documents = std::iter::once(Ok(first)).chain(corpus);
        let model = train(&mut documents, settings, limits, threads)?;
        drop(progress);
        if model.rows().nnz() == 0 {
            return Err(nothing(Problem::NoTerm).into());
        }
        Ok(model)
    }

    /// The clusters with their terms and labels.
    fn text(&self, model: &Model, found: &Clusters) -> String {
        let mut labels: Vec<BTreeMap<u32, usize>> = vec![BTreeMap::new(); found.centers.rows()];
        for (row, cluster) in (0..).zip(&found.of_row) {
            if let Some(cluster) = cluster {
                for &label in model.document_labels(row) {
                    *labels[*cluster as usize].entry(label).or_default() += 1;
                }
            }
        }
        let mut text = String::from("cluster  documents  terms\n");
        let terms = found.best_terms(self.terms);
        let clusters = found.sizes().into_iter().zip(labels).zip(terms).enumerate();
        for (cluster, ((size, labels), terms)) in clusters {
            let terms: Vec<&str> =
                terms.iter().filter_map(|&term| model.vocabulary().term(term)).collect();
            let mut labels: Vec<(u32, usize)> = labels.into_iter().collect();
            labels.sort_by_key(|&(label, count)| (std::cmp::Reverse(count), label));
            let labels: Vec<String> = labels
                .iter()
                .take(3)
                .map(|&(label, count)| {
                    format!("{} {count}", model.labels().get(label as usize).unwrap_or_default())
                })
                .collect();
            let labels = if labels.is_empty() {
                String::new()
            } else {
                format!("  [{}]", labels.join(", "))
            };
            let line = format!("{cluster:>7}  {size:>9}  {}{labels}", terms.join(" "));
            text.push_str(&printable(line).to_string());
            text.push('\n');
        }
        let without = found.of_row.iter().filter(|cluster| cluster.is_none()).count();
        if without > 0 {
            let _ = writeln!(text, "   none  {without:>9}  documents without a term of any center");
        }
        text
    }
}

/// How well the clusters agree with the labels, of documents with one label.
fn agreement(model: &Model, found: &Clusters) -> String {
    let (mut labels, mut clusters) = (Vec::new(), Vec::new());
    for (row, cluster) in (0..).zip(&found.of_row) {
        if let [label] = model.document_labels(row) {
            labels.push(*label);
            // Documents without a cluster are a group of their own.
            clusters.push(cluster.unwrap_or(u32::MAX));
        }
    }
    if labels.is_empty() {
        return String::new();
    }
    let Agreement { nmi, ari } = Agreement::of(&labels, &clusters);
    format!("; with the labels of {} documents: NMI {nmi:.4}, ARI {ari:.4}", labels.len())
}
