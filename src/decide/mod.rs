//! Turns neighbors into labels.
//!
//! ```text
//! neighbors ──▶ label scores ──▶ labels ──▶ probabilities
//!               vote             decision    calibrate
//! ```
//!
//! The input is the neighbors of a document, with their similarities and labels. The output is the
//! document's labels, each with a score and the probability that it is correct. Read [`vote`]
//! first.
//!
//! | module | description |
//! |---|---|
//! | [`vote`] | turns neighbors into a score for each label; also label prototypes |
//! | [`decision`] | turns scores into labels, by thresholds or by rank |
//! | [`calibrate`] | turns scores into probabilities, and decides when to abstain |
//! | [`outcomes`] | counts right and wrong decisions and computes metrics with their intervals |
//! | [`objective`] | defines the metrics that tuning can maximize |

pub mod vote;
pub mod decision;
pub mod calibrate;
pub mod outcomes;
pub mod objective;
