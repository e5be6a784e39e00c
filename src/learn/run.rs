//! A training run: its options, engines, and event callback.

use super::given_vectors::GivenVectors;
use super::options::DenseSource;
use super::{Event, TrainError, TrainOptions};
use crate::decide::decision::{Decision, MultiLabelOption};
use crate::model::{InputSpec, TrainSettings, VectorSpec};
use crate::search::Engines;
use crate::text::corpus::{Content, CorpusError, Document, Place, Problem};
use crate::text::counts::{ClassWeights, CountOptions, Counts, Input};
use crate::threads::Threads;

/// A stream of documents.
pub(super) type Documents<'a> = &'a mut (dyn Iterator<Item = Result<Document, CorpusError>> + Send);

/// A function that is called with each event of a training run.
pub type OnEvent<'a> = &'a (dyn Fn(Event<'_>) + Sync);

/// The inputs that all steps of a training run share.
#[derive(Clone, Copy)]
pub(super) struct Run<'a> {
    pub(super) options: &'a TrainOptions,
    pub(super) engines: &'a Engines,
    /// The name of the corpus in error messages.
    pub(super) corpus_name: &'a str,
    pub(super) on_event: OnEvent<'a>,
    /// The number of documents at the end of the corpus that are never held out.
    pub(super) never_held_out: usize,
    /// Whether the documents are those of a corpus without a fold, so that requirements on the
    /// whole corpus do not apply to them.
    pub(super) is_without_fold: bool,
}

impl<'a> Run<'a> {
    pub(super) fn threads(&self) -> &'a Threads {
        self.engines.threads()
    }

    /// Reports an event.
    pub(super) fn report(&self, event: Event<'_>) {
        (self.on_event)(event);
    }

    /// Returns an error about the corpus as a whole.
    pub(super) fn corpus_error(&self, problem: Problem) -> CorpusError {
        CorpusError { place: Place { source: self.corpus_name.into(), line: None }, problem }
    }

    /// Whether dense vectors are given with the documents.
    pub(super) fn has_given_vectors(&self) -> bool {
        let dense = self.options.dense.as_ref();
        dense.is_some_and(|dense| matches!(dense.source, DenseSource::Given { .. }))
    }

    /// Reads all documents, and the vectors given with them.
    pub(super) fn read_all(
        &self,
        documents: Documents<'_>,
    ) -> Result<(Vec<Document>, GivenVectors), CorpusError> {
        let mut given = GivenVectors::new(self.options.features.first_column);
        let mut all = Vec::new();
        for (document, count) in documents.zip(1..) {
            self.report(Event::Read(count));
            let mut document = document?;
            if self.has_given_vectors() {
                given.take(&mut document)?;
            }
            all.push(document);
        }
        Ok((all, given))
    }

    /// Counts the terms of a corpus and adds the ancestors of its labels.
    pub(super) fn count(
        &self,
        documents: Documents<'_>,
        input: &Input,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Counts, CorpusError> {
        let TrainOptions { limits, keep_text, hierarchy, .. } = self.options;
        let count_options = CountOptions { input, limits: *limits, keep_text: *keep_text };
        let mut counts = Counts::read(documents, &count_options, self.threads(), progress)?;
        counts.close_labels(hierarchy);
        Ok(counts)
    }

    /// Applies the class weights of the options to the documents.
    pub(super) fn apply_class_weights(&self, counts: &mut Counts) -> Result<(), TrainError> {
        let Some(weights) = &self.options.class_weights else { return Ok(()) };
        let mut weights = weights.clone();
        if self.is_without_fold
            && let ClassWeights::Given(given) = &mut weights
        {
            given.retain(|(label, _)| counts.label_names.contains(label));
        }
        counts.weigh_classes(&weights).map_err(TrainError::UnknownLabel)
    }

    /// Returns the settings for a corpus, without the decision, which depends on the whole corpus.
    pub(super) fn settings(&self, first: &Document) -> Result<TrainSettings, TrainError> {
        let options = self.options;
        let mut weighting = options.weighting;
        let input = match &first.content {
            _ if options.has_no_terms() => {
                if options.keep_text {
                    return Err(TrainError::NoText);
                }
                InputSpec::Vectors(VectorSpec { first_column: options.features.first_column })
            }
            Content::Text(_) | Content::Fields(_) if options.features.counts => {
                return Err(TrainError::NoFeatures);
            }
            Content::Text(_) | Content::Fields(_) => InputSpec::Text(options.analyzer.clone()),
            Content::Features(_) if options.keep_text => return Err(TrainError::NoText),
            Content::Features(_) => {
                if !options.features.counts {
                    weighting = weighting.of_weights();
                }
                InputSpec::Features(options.features)
            }
        };
        if !options.hierarchy.is_empty() {
            options.decision.reject_single_label(MultiLabelOption::Hierarchy)?;
        }
        Ok(TrainSettings {
            input,
            fields: options.fields.clone(),
            weighting,
            k: options.k.unwrap_or(TrainSettings::K),
            vote: options.vote.unwrap_or_default(),
            decision: Decision::Single,
            selection: options.selection,
            tuning: None,
            abstention: None,
            hierarchy: options.hierarchy.clone(),
            reading: options.reading.clone(),
        })
    }
}
