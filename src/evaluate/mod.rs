//! Evaluates predictions with the metrics of single-label and multi-label classification.
//!
//! A ratio of 0 / 0 counts as 0, as in scikit-learn. Let tp, fp and fn be the true positives, false
//! positives and false negatives of each label:
//!
//! * **micro** precision, recall and F1 use the sums of tp, fp and fn over all labels. Labels that
//!   only the test corpus has are included, and all of their documents count as fn.
//! * **macro** is the mean over all labels of the training corpus.
//! * **`macro_present`** is the mean over the labels of the test corpus.
//! * **weighted** is the mean over the labels of the test corpus, weighted by support.
//! * **samples** is the mean over documents of precision, recall and F1 of each document's labels.
//! * **P@n** is the mean share of correct labels among the first n labels of the ranking.
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
pub use confidence::{AnsweredDocuments, Bin, Coverage, Point};
pub use evaluation::Evaluation;
pub use evaluator::{Evaluator, peak_memory};
pub use result::{
    Confusion, DocumentCounts, DocumentResult, ErrorNeighbor, LabelCounts, LabelResult,
    LevelResult, Method, PrecisionAt, WorstError,
};
pub use run::{EvaluateError, EvaluateOptions, EvaluationTally, evaluate, tally};
