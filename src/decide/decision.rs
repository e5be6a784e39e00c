//! Label scores → labels.
//!
//! | rule | result |
//! |---|---|
//! | [`Single`](Decision::Single) | the label with the highest score |
//! | [`Multi`](Decision::Multi) | every label whose score reaches one threshold |
//! | [`PerLabel`](Decision::PerLabel) | every label whose score reaches its own threshold |
//! | [`First`](Decision::First) | the best n labels (RCut, Yang 2001) |
//! | [`LargestGap`](Decision::LargestGap) | the labels before the largest drop of the score (MCut, Largeron et al. 2012) |
//! | [`Proportional`](Decision::Proportional) | for each label, the documents with the highest scores, in proportion to its training documents (PCut, Yang 2001); needs the whole batch |

mod options;
mod rules;

pub use options::{DecisionError, DecisionOptions, Rule, RuleOption};
pub use rules::{Decision, ThresholdRule, decide, decide_batch};
pub(crate) use rules::{before_largest_gap, label_shares};
