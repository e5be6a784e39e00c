//! Learns how neighbors vote: k, the vote weighting, the decision, and learned vote weights.
//!
//! Each training document is classified by the other documents. Its neighbors are found once, for
//! the largest k. Every smaller k, vote and decision reuses these lists. Vocabulary, document
//! frequencies and term selection come from all training documents: a document is held out only as
//! a neighbor.
//!
//! * Input: the leave-one-out neighbors of [`held_out`](super::held_out).
//! * Evaluation: five folds; thresholds and vote weights of a fold are learned from the other
//!   folds.
//! * Output: the best [`Trial`] of a [`Grid`], and
//!   [`LearnedVotes`](crate::decide::vote::LearnedVotes).

mod grid;
mod ranking;
mod rules;
mod sample;
mod search;
mod table;
mod totals;
mod try_weights;
mod weights;

pub use grid::{Candidate, Trial};
pub(in crate::learn) use grid::{Grid, Rules, distinct, thin_out};
pub(in crate::learn) use rules::RuleSearch;
pub(in crate::learn) use search::{GridResult, ROUND_ONE_KS, evaluate_grid, search_grid};
pub(in crate::learn) use table::VoteTable;
pub(in crate::learn) use try_weights::{held_out_scores, learn, try_vote_weights};
pub use weights::VoteLearning;
