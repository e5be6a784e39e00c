//! Chooses features by trial: weighting, stemming, word pairs, title, and term selection. A change
//! is kept if it improves a leave-one-out search of a sample.
//!
//! The search is greedy: it changes one dimension at a time and keeps the best value of each. It
//! makes two passes, because the best weighting changes when terms are dropped. In the first pass,
//! the best cosine weighting and BM25 are pursued separately, because stemming and term selection
//! help them to different degrees. Each trial weights all training documents, finds the neighbors
//! of held-out documents, and evaluates a coarse grid of votes. Changes that are clearly worse than
//! the best on a fifth of the sample are dropped (successive halving with two rounds).

mod greedy;
mod setup;

pub(super) use greedy::{FeatureSearch, MAX_ENTRIES_FOR_CHARACTERS, describe_characters, language};
pub use setup::Step;
pub(super) use setup::{ChosenFeatures, FeatureError, FreeDimensions, Recount, TrialSetup};
