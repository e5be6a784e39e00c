//! From neighbors to labels.
//!
//! ```text
//! neighbors ──▶ label scores ──▶ labels ──▶ probabilities
//!               vote             decision    calibrate
//! ```
//!
//! Comes in: the neighbors of a document, with their similarities and labels. Goes out: its labels,
//! a score for each, and the probability that the answer is right. Read [`vote`] first.
//!
//! | module | what it does |
//! |---|---|
//! | [`vote`] | turns neighbors into a score for each label; also label prototypes |
//! | [`decision`] | turns scores into labels, by thresholds or by rank |
//! | [`calibrate`] | turns scores into probabilities, and decides when to abstain |
//! | [`outcomes`] | counts right and wrong decisions, and computes metrics with their intervals |
//! | [`objective`] | names the metric that tuning maximizes |

pub mod vote;
pub mod decision;
pub mod calibrate;
pub mod outcomes;
pub mod objective;
