//! Events that are reported while a model is trained.

use super::features::Step;
use super::report::TuningReport;
use crate::decide::calibrate::{ConfidenceLimit, NoveltyLimit};
use crate::decide::objective::Objective;
use crate::rows::dense::DensePart;

/// An event during training.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The number of documents read so far.
    Read(u64),
    /// Number of documents before and after each that are excluded while settings are compared.
    Window(u32),
    /// Near-duplicates were found.
    NearDuplicates {
        /// The number of documents that have a near-duplicate.
        documents: usize,
        /// The cosine above which documents are near-duplicates.
        above: f32,
    },
    /// A feature was tried.
    Step {
        /// The feature and its metrics.
        step: &'a Step,
        /// The objective to maximize.
        objective: Objective,
    },
    /// The dense vectors of the training documents were computed.
    Dense {
        /// The dense part of the model.
        part: &'a DensePart,
        /// The numbers of terms with a word vector and of all terms, if word vectors are used.
        known: Option<(usize, usize)>,
    },
    /// Number of documents held out so far.
    HeldOut(u64),
    /// The limit for abstaining was learned.
    Abstention(&'a ConfidenceLimit),
    /// The limit of the novelty score was learned.
    Novelty(&'a NoveltyLimit),
    /// Tuning is done.
    Tuned(&'a TuningReport),
}
