//! Evaluation of predictions: the metrics of single-label and multi-label classification.
//!
//! A ratio of 0 / 0 counts as 0, as in scikit-learn. For the true positives tp, false positives fp
//! and false negatives fn of each label:
//!
//! * **micro** precision, recall and F1 use the sums of tp, fp and fn over all labels. Labels that
//!   only the test corpus has are included: their documents are misses.
//! * **macro** is the mean over all labels of the training corpus, **`macro_present`** the mean
//!   over the labels of the test corpus, **weighted** the latter weighted by support.
//! * **samples** is the mean over documents of precision, recall and F1 of each document's labels.
//! * **P@n** is the mean share of right labels among the first n of the ranking.
//! * **Hamming loss** is the share of wrong decisions among all pairs of a document and a label.

pub mod cluster;
mod compare;
mod confidence;
mod evaluation;
mod evaluator;
mod part;
mod result;
mod run;
mod summary;

pub use crate::decide::outcomes::{HeadlineMetrics, Intervals, Kind, Outcomes, Prf};
pub use compare::{CompareError, Comparison, Difference, SavedEvaluation, Test, compare};
pub use confidence::{Answered, Bin, Coverage, Point};
pub use evaluation::Evaluation;
pub use evaluator::{Evaluator, peak_memory};
pub use result::{
    Confusion, DocumentCounts, DocumentResult, ErrorNeighbor, LabelCounts, LabelResult,
    LevelResult, Method, PrecisionAt, WorstError,
};
pub use run::{EvaluateError, EvaluateOptions, EvaluationTally, evaluate, tally};
