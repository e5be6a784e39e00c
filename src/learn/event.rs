//! The events that training reports.

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
    /// Nearby documents share labels, so the corpus may be in chronological order.
    TimeOrder(TimeOrder),
    /// Near-duplicates were found.
    NearDuplicates {
        /// The number of documents that have a near-duplicate.
        documents: usize,
        /// The cosine above which documents are near-duplicates.
        above: f32,
    },
    /// The English name of the language of the texts; `None` if it was not recognized, and
    /// stemming and stop words are therefore not tried.
    Language(Option<&'static str>),
    /// A change of the features was evaluated.
    Step {
        /// The change and its metrics.
        step: &'a Step,
        /// The objective that tuning maximizes.
        objective: Objective,
    },
    /// The dense vectors of the training documents are ready.
    Dense {
        /// The dense vectors and their index.
        part: &'a DensePart,
        /// The number of terms with a word vector and the total number of terms, if word vectors
        /// are used.
        known: Option<(usize, usize)>,
    },
    /// Number of documents held out so far.
    HeldOut(u64),
    /// Cross-validation of the whole training begins, which takes as long as training once per
    /// fold.
    CrossValidation {
        /// The number of folds.
        folds: usize,
    },
    /// The confidence limit for abstaining was learned.
    Abstention(&'a ConfidenceLimit),
    /// The limit of the novelty score was learned.
    Novelty(&'a NoveltyLimit),
    /// Tuning finished.
    Tuned(&'a TuningReport),
}

/// Whether documents that look chronological are treated as such.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimeOrder {
    /// The number of documents before and after each document that share its labels more often than
    /// other documents do.
    pub window: u32,
    /// Whether these documents are excluded while settings are compared.
    pub is_excluded: bool,
    /// The comparison that decided. `None` if an option did.
    pub comparison: Option<OrderComparison>,
}

/// The objective on the latest documents with two settings that were chosen on earlier documents.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OrderComparison {
    /// The objective of tuning.
    pub objective: Objective,
    /// Number of latest documents.
    pub documents: usize,
    /// The objective with settings that were chosen without nearby documents.
    pub without_nearby: f64,
    /// The objective with settings that were chosen with all documents.
    pub with_nearby: f64,
}
