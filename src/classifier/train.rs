//! Trains a model on a corpus with given settings.

use crate::model::{InputSpec, Model, TrainSettings};
use crate::text::analyze::Analyzer;
use crate::text::corpus::{CorpusError, Document};
use crate::text::counts::{CountOptions, Counts, Fields, Input, TermLimits};
use crate::threads::Threads;

/// Reads a corpus and trains a model on it; see the example in the [crate documentation](crate).
///
/// # Errors
/// The corpus's first error.
pub fn train(
    documents: &mut (dyn Iterator<Item = Result<Document, CorpusError>> + Send),
    settings: TrainSettings,
    limits: TermLimits,
    threads: &Threads,
) -> Result<Model, CorpusError> {
    let input = Input::new(&settings.input, &settings.fields);
    let options = CountOptions { input: &input, limits, keep_text: false };
    let counts = Counts::read(documents, &options, threads, &|_| ())?;
    Ok(Model::of_counts(counts, settings, threads))
}

/// Trains like [`train`], with the term selection in the settings and the learned factors of a
/// model's terms. Texts are kept.
pub(crate) fn train_counts(
    documents: &mut (dyn Iterator<Item = Result<Document, CorpusError>> + Send),
    settings: TrainSettings,
    limits: TermLimits,
    factors_of: &Model,
    threads: &Threads,
) -> Result<Model, CorpusError> {
    let input = Input::new(&settings.input, &settings.fields);
    let options = CountOptions { input: &input, limits, keep_text: true };
    let mut counts = Counts::read(documents, &options, threads, &|_| ())?;
    if let Some(selection) = settings.selection {
        counts = selection.apply(counts, threads);
    }
    let factors = factors_of.term_factors_of(&counts.vocabulary);
    Ok(Model::with_term_factors(counts, settings, factors, threads))
}

impl Input {
    /// Creates the counting input for a model.
    pub fn new(input: &InputSpec, fields: &Fields) -> Self {
        match input {
            InputSpec::Text(spec) => {
                Self::Text { analyzer: Analyzer::new(spec.clone()), fields: fields.clone() }
            }
            InputSpec::Features(spec) => Self::Features { counts: spec.counts },
            InputSpec::Vectors(_) => Self::Nothing,
        }
    }
}
