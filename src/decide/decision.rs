//! Rules that choose labels by their scores.
//!
//! | rule | result |
//! |---|---|
//! | [`Single`](Decision::Single) | the label with the highest score |
//! | [`Multi`](Decision::Multi) | every label whose score reaches one threshold |
//! | [`PerLabel`](Decision::PerLabel) | every label whose score reaches its own threshold |
//! | [`First`](Decision::First) | the n labels with the highest scores (RCut, Yang 2001) |
//! | [`LargestGap`](Decision::LargestGap) | the labels before the largest drop in score |
//! | [`Proportional`](Decision::Proportional) | the best documents for each label |
//!
//! `LargestGap` is MCut (Largeron et al. 2012). `Proportional` is PCut (Yang 2001), which needs the
//! whole batch. It assigns each label to the documents with the highest scores, in proportion to
//! the label's training documents.

mod options;
mod rules;

pub use options::{DecisionError, DecisionOptions, MultiLabelOption, Rule, RuleOption};
pub use rules::{Decision, ThresholdRule, decide, decide_batch};
pub(crate) use rules::{before_largest_gap, label_shares};
