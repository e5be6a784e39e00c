//! `classify next`

use std::borrow::Cow;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use classify::classifier::{Classifier, RawPrediction};
use classify::learn::{TrainOptions, Trainer};
use classify::model::Model;
use classify::propose::{
    LearningCurve, Pool, Proposal, Reason, expected_right, options_like, uncertainty,
};
use classify::text::corpus::{Document, LabelUse};
use classify::threads::Threads;
use classify_report::proposals::{Outlook, Proposed, outlook, reason, terminal};
use serde::Serialize;

use crate::failure::Failure;
use crate::flags::opening::OpeningFlags;
use crate::flags::reading::{ReadingFlags, apply_model_settings, name, pool_ids, read_all};
use crate::flags::searching::SearchFlags;
use crate::flags::seed::SeedFlag;
use crate::output::files::{Files, write};
use crate::output::list::{ListFormat, write_list};
use crate::output::progress::Verbosity;

#[derive(Debug, clap::Args)]
pub(crate) struct Next {
    /// The model, then the documents from which to choose: files, folders, or - for standard input
    #[arg(required = true, value_name = "MODEL POOL")]
    paths: Vec<PathBuf>,
    /// There is no model yet: all paths are documents, and typical documents are proposed
    #[arg(long)]
    without_model: bool,
    /// The number of documents to propose
    #[arg(short = 'n', long, value_name = "N", default_value = "20")]
    count: NonZeroUsize,
    /// Write the proposals to a file, one per line, with an empty column `labels` to fill in
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The format of --output [default: by the ending of the file]
    #[arg(long, value_enum, value_name = "FORMAT", requires = "output")]
    to: Option<ListFormat>,
    #[command(flatten)]
    opening: OpeningFlags,
    #[command(flatten)]
    reading: ReadingFlags,
    #[command(flatten)]
    seed: SeedFlag,
    #[command(flatten)]
    searching: SearchFlags,
}

/// A line of the list of proposals.
#[derive(Serialize)]
struct Line<'a> {
    id: &'a str,
    /// Empty: the reviewer fills it in.
    labels: &'static str,
    suggested: String,
    uncertainty: f64,
    reason: String,
    text: Cow<'a, str>,
    place: String,
}

impl<'a> Line<'a> {
    fn new(proposed: &Proposed<'a>) -> Self {
        let Proposed { document, suggested, uncertainty, reason: why } = proposed;
        Self {
            id: &document.id,
            labels: "",
            suggested: suggested.join(";"),
            uncertainty: *uncertainty,
            reason: reason(why),
            text: document.content.text().unwrap_or_default(),
            place: document.place.to_string(),
        }
    }
}

impl Next {
    pub(crate) fn run(self, threads: &Threads, verbosity: Verbosity) -> Result<(), Failure> {
        let (model_path, pool_paths) = match &*self.paths {
            all if self.without_model => (None, all),
            [model, pool @ ..] if !pool.is_empty() => (Some(model), pool),
            _ => {
                let message = "name a model and the documents from which to choose; before there \
                               is a model, use --without-model";
                return Err(Failure::Usage(message.into()));
            }
        };
        let files = Files::default().with_corpora(pool_paths, self.reading.format());
        let mut files = files.with_inputs(model_path).with_inputs(self.reading.files());
        let list = files.optional(self.output.as_ref())?;
        let printed = files.report()?;
        let mut read_options = self.reading.options(LabelUse::Optional, Some(threads))?;
        read_options.ids = pool_ids(pool_paths);
        let model = model_path.map(|path| self.opening.model_on(path, threads)).transpose()?;
        let model = model.map(Arc::new);
        if let Some(model) = &model {
            if !model.has_terms() {
                let message = "this model compares dense vectors only; `next` needs terms";
                return Err(Failure::Usage(message.into()));
            }
            let dense_share = model.settings().dense_share;
            apply_model_settings(model, dense_share, &mut read_options)?;
        }
        let documents = read_all(pool_paths, read_options, verbosity)?;
        let options =
            model.as_ref().map_or_else(TrainOptions::default, |model| options_like(model));
        let trainer = Trainer::builder().options(options).corpus_name(name(pool_paths));
        let trainer = trainer.engines(self.searching.engines(threads, verbosity)?);
        let pool = Pool::new(&trainer.build(), &documents)?;
        let suggestions = match &model {
            Some(model) => Suggestions::new(model, &documents, threads)?,
            None => Suggestions::none(documents.len()),
        };
        if suggestions.known > 0 {
            let known = suggestions.known;
            verbosity.print(&format!("{known} documents of the pool are in the model already"));
        }
        let proposals = pool.propose(&suggestions.uncertainty, self.count.get(), self.seed.value);
        let proposed: Vec<Proposed<'_>> =
            proposals.iter().map(|proposal| suggestions.proposed(proposal, &documents)).collect();
        if let Some(printed) = printed {
            let mut report = terminal(&proposed);
            if let Some(classifier) = &suggestions.classifier {
                report.push('\n');
                report.push_str(&outlook(&suggestions.outlook(classifier, self.seed.value)?));
            }
            write(printed, report.as_bytes())?;
        }
        if let Some((list, path)) = list.zip(self.output.as_deref()) {
            let lines = proposed.iter().map(Line::new);
            write_list(list, ListFormat::of(self.to, path), lines)?;
        }
        Ok(())
    }
}

/// The number of documents whose gain is estimated.
const MORE: u64 = 100;

/// What a model says about the documents of a pool.
struct Suggestions {
    /// The classifier; `None` without a model.
    classifier: Option<Classifier>,
    /// The predictions; empty without a model.
    predictions: Vec<RawPrediction>,
    /// How uncertain the labels are; 0 for documents that are in the model already.
    uncertainty: Vec<f64>,
    /// Whether each document is in the model already.
    is_known: Vec<bool>,
    /// The number of these documents.
    known: usize,
}

impl Suggestions {
    fn new(model: &Arc<Model>, documents: &[Document], threads: &Threads) -> Result<Self, Failure> {
        let classifier = Classifier::new(Arc::clone(model), threads)?;
        let predictions = classifier.predict_documents(documents, &classifier.options())?;
        let is_known: Vec<bool> =
            documents.iter().map(|document| model.row_of(&document.id).is_some()).collect();
        let multi_label = model.settings().decision.is_multi();
        let uncertainty = predictions.iter().zip(&is_known).map(|(prediction, &known)| {
            if known { 0.0 } else { uncertainty(prediction, multi_label) }
        });
        let uncertainty = uncertainty.collect();
        let known = is_known.iter().filter(|&&known| known).count();
        Ok(Self { classifier: Some(classifier), predictions, uncertainty, is_known, known })
    }

    fn none(documents: usize) -> Self {
        let uncertainty = vec![1.0; documents];
        Self {
            classifier: None,
            predictions: Vec::new(),
            uncertainty,
            is_known: Vec::new(),
            known: 0,
        }
    }

    /// Returns what to expect of the documents that are not in the model.
    fn outlook(&self, classifier: &Classifier, seed: u64) -> Result<Outlook, Failure> {
        let left = self.predictions.iter().zip(&self.is_known).filter(|(_, known)| !**known);
        let expected = expected_right(classifier.model(), left.map(|(found, _)| found));
        let left = self.predictions.len() - self.known;
        let curve = LearningCurve::of(classifier, seed)?;
        Ok(Outlook {
            left,
            expected,
            held_out: curve.map(|curve| (curve.right(), curve.gain(MORE, seed))),
            more: MORE,
        })
    }

    /// Returns a proposal with its document, the suggested labels, and the reason for it.
    fn proposed<'a>(&'a self, proposal: &Proposal, documents: &'a [Document]) -> Proposed<'a> {
        let row = proposal.row as usize;
        let model = self.classifier.as_ref().map(Classifier::model);
        let found = model.zip(self.predictions.get(row));
        let name = |label: u32| model.map_or("", |model| model.label_name(label));
        let labels = found.map_or(Vec::new(), |(_, found)| found.labels.clone());
        let reason = found.map_or(Reason::Typical, |(model, found)| Reason::of(model, found));
        Proposed {
            document: &documents[row],
            suggested: labels.into_iter().map(name).collect(),
            uncertainty: proposal.uncertainty,
            reason,
        }
    }
}
