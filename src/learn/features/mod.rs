//! Chooses features by trial: weighting, stems, word pairs, title, and term selection. A change is
//! kept if it improves a leave-one-out search of a sample.
//!
//! The search is greedy: one dimension after another, keeping the best value of each; then once
//! more, because the best weighting changes when terms are dropped. The first time, the best cosine
//! weighting and BM25 are pursued separately, because stems and term selection help one more than
//! the other. Each trial weights all training documents, searches the neighbors of held-out
//! documents, and evaluates a coarse grid of votes. Most changes are dropped after a fifth of the
//! sample: those that are clearly worse there than the best (successive halving with two steps).

mod greedy;
mod setup;

pub(super) use greedy::FeatureSearch;
pub use setup::Step;
pub(super) use setup::{ChosenFeatures, FeatureError, Free, TrialSetup};
