//! Converts scores to probabilities and decides when to abstain.
//!
//! A score is a share of the vote. A probability is the expected frequency with which a label with
//! such votes is correct. It comes from a logistic regression on the votes, learned from held-out
//! documents (see [`Calibration`]). The confidence in an answer is the mean probability of its
//! labels: the expected share of correct labels among them.
//!
//! | module | description |
//! |---|---|
//! | `probabilities` | computes probabilities of labels and the confidence in an answer |
//! | `logistic` | fits logistic regressions by Newton's method |
//! | `quantiles` | makes similarities of different weightings comparable |
//! | `abstention` | learns the confidence below which a model abstains |
//! | `novelty` | computes novelty scores and learns their limit |
//! | `shift` | detects that documents differ from the training documents |

mod abstention;
mod logistic;
mod novelty;
mod probabilities;
mod quantiles;
mod shift;

pub use abstention::{Answer, ConfidenceLimit};
pub(crate) use logistic::line;
pub(crate) use novelty::NoveltyEvidence;
pub use novelty::{NoveltyLimit, NoveltyScore};
#[cfg(test)]
pub(crate) use probabilities::VALUES;
pub use probabilities::{Calibration, CalibrationDocument};
pub(crate) use probabilities::{Votes, confidence};
pub use shift::{Property, Shift};
pub(crate) use shift::{PropertyValues, ShiftMonitor, TrainingProfile};
