//! `classify cluster`

use std::io::Write;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Instant;

use classify::evaluate::cluster::{Agreement, ClusterOptions, Clusters, cluster};
use classify::learn::{TrainOptions, Trainer};
use classify::model::{FeatureSpec, Model};
use classify::search::Engines;
use classify::text::corpus::{CorpusError, LabelUse, Place, Problem};
use classify::text::counts::{DfLimit, TermLimits};
use classify::text::tfidf::Weighting;
use classify::threads::Threads;
use classify_report::clusters::terminal;
use serde::Serialize;

use crate::failure::Failure;
use crate::flags::positive::positive;
use crate::flags::reading::{ReadingFlags, name, open};
use crate::flags::searching::SearchFlags;
use crate::flags::seed::SeedFlag;
use crate::flags::training::Analysis;
use crate::output::files::Files;
use crate::output::progress::{Progress, Verbosity};

#[derive(Debug, clap::Args)]
pub(crate) struct Cluster {
    /// Documents: files, folders, or - for standard input. If they have labels, the command
    /// compares the clusters with the labels
    #[arg(required = true, value_name = "CORPUS")]
    corpora: Vec<PathBuf>,
    /// The number of clusters
    #[arg(short, long, value_name = "N", value_parser = positive)]
    k: NonZeroUsize,
    /// The number of runs from different starting centers; the best run is kept
    #[arg(long, value_name = "N", default_value = "10", value_parser = positive)]
    starts: NonZeroUsize,
    /// The number of terms that describe a cluster
    #[arg(long, value_name = "N", default_value_t = 8)]
    terms: usize,
    /// The file for the cluster of each document, as JSONL
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The SMART code of the weighting; its third letter must be c (cosine)
    #[arg(long, value_name = "LETTERS", default_value = "ltc")]
    weighting: Weighting,
    /// Drop terms that occur in fewer documents: a count, or a share such as 1%
    #[arg(long, value_name = "N", default_value = "2")]
    min_df: DfLimit,
    /// Drop terms that occur in more documents: a count, or a share such as 50%
    #[arg(long, value_name = "N", default_value = "100%")]
    max_df: DfLimit,
    #[command(flatten)]
    seed: SeedFlag,
    #[command(flatten)]
    reading: ReadingFlags,
    #[command(flatten)]
    analysis: Analysis,
    #[command(flatten)]
    searching: SearchFlags,
}

/// A line of the JSONL output.
#[derive(Debug, Serialize)]
struct Line<'a> {
    id: &'a str,
    cluster: Option<u32>,
    similarity: f32,
}

impl Cluster {
    pub(crate) fn run(self, threads: &Threads, verbosity: Verbosity) -> Result<(), Failure> {
        self.reading.refuse_vectors("cluster")?;
        if !self.weighting.is_cosine() {
            let message = "--weighting: clustering needs rows of length 1; use a SMART code whose \
                           third letter is c, such as ltc";
            return Err(Failure::Usage(message.to_owned()));
        }
        let files = Files::default().with_corpora(&self.corpora, self.reading.format());
        let mut files = files.with_inputs(self.reading.files());
        let out = files.optional(self.output.as_ref())?;
        let mut report = files.report()?;
        let model = self.weighted(threads, verbosity)?;
        let documents = model.rows().rows();
        if self.k.get() > documents {
            return Err(Failure::Usage(format!(
                "--k {}: there are only {documents} documents, and a cluster has at least one",
                self.k
            )));
        }
        let engines = self.searching.engines(threads, verbosity)?;
        let seed = self.seed.value;
        let options = ClusterOptions { starts: self.starts, seed, ..ClusterOptions::new(self.k) };
        let start = Instant::now();
        let clustering = cluster(model.rows(), options, &engines)?;
        let seconds = start.elapsed().as_secs_f64();
        if let Some(mut out) = out {
            for (number, (cluster, similarity)) in
                clustering.cluster_of_row.iter().zip(&clustering.similarities).enumerate()
            {
                let id = model.ids().get(number).unwrap_or_default();
                let line = Line { id, cluster: *cluster, similarity: *similarity };
                let line = serde_json::to_string(&line).map_err(|error| out.error(error.into()))?;
                writeln!(out, "{line}").map_err(|error| out.error(error))?;
            }
            out.commit()?;
        }
        if let Some(out) = &mut report {
            let text = terminal(&model, &clustering, self.terms);
            out.write_all(text.as_bytes()).map_err(|error| out.error(error))?;
        }
        report.map_or(Ok(()), array_file::output::Output::commit)?;
        let mean = clustering.objective / (clustering.cluster_of_row.len().max(1) as f64);
        verbosity.print(&format!(
            "{} documents, {} clusters, mean similarity {mean:.4}, {seconds:.1} s{}",
            clustering.cluster_of_row.len(),
            clustering.centers.rows(),
            agreement(&model, &clustering)
        ));
        Ok(())
    }

    /// Reads and weights the documents.
    fn weighted(&self, threads: &Threads, verbosity: Verbosity) -> Result<Model, Failure> {
        let mut read_options = self.reading.options(LabelUse::Optional, Some(threads))?;
        if read_options.encoder.is_some() {
            let message = "--encoder: cluster compares documents by terms".to_owned();
            return Err(Failure::Usage(message));
        }
        let fields = self.analysis.fields();
        fields.read_apart(&mut read_options);
        let first_column = read_options.first_column.unwrap_or(1);
        let progress = Progress::new(verbosity, "reading", &self.corpora);
        let corpus = open(&self.corpora, read_options, verbosity, &progress)?;
        let options = TrainOptions {
            analyzer: self.analysis.spec(false),
            fields,
            features: FeatureSpec { counts: false, first_column },
            weighting: self.weighting,
            limits: TermLimits { min_df: self.min_df, max_df: self.max_df, max_terms: None },
            tuning: None,
            ..TrainOptions::default()
        };
        let name = name(&self.corpora);
        let trainer = Trainer::builder().options(options).engines(Engines::cpu(threads));
        let model = trainer.corpus_name(name.as_str()).build().train(corpus)?.model;
        drop(progress);
        if model.rows().nnz() == 0 {
            let place = Place { source: name.as_str().into(), line: None };
            return Err(CorpusError { place, problem: Problem::NoTerm }.into());
        }
        Ok(model)
    }
}

/// Describes how well the clusters match the labels of documents that have exactly one label.
fn agreement(model: &Model, clustering: &Clusters) -> String {
    let mut labels = Vec::new();
    let mut clusters = Vec::new();
    for (row, cluster) in (0..).zip(&clustering.cluster_of_row) {
        if let [label] = model.document_labels(row) {
            labels.push(*label);
            // All documents without a cluster form one group.
            clusters.push(cluster.unwrap_or(u32::MAX));
        }
    }
    if labels.is_empty() {
        return String::new();
    }
    let Agreement { nmi, ari } = Agreement::of(&labels, &clusters);
    format!("; with the labels of {} documents: NMI {nmi:.4}, ARI {ari:.4}", labels.len())
}
