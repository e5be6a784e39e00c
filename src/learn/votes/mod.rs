//! Learns how neighbors vote: k, the weight of a vote, the decision, and learned vote weights.
//!
//! Each training document is classified by the others. Its neighbors are searched once, for the
//! largest k. Every smaller k, every vote and every decision only votes again on the same lists.
//! Vocabulary, document frequencies and term selection are those of all training documents: a
//! document is held out only as a neighbor.
//!
//! * Learns from: the leave-one-out neighbors of [`held_out`](super::held_out).
//! * Estimates by: five folds; thresholds and vote weights of a fold are learned from the others.
//! * Yields: the best [`Trial`] of a [`Grid`], and
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
pub(in crate::learn) use grid::{Grid, Rules, distinct, thinned};
pub(in crate::learn) use rules::RuleSearch;
pub(in crate::learn) use search::{MAX_SLOTS, ROUND_ONE_KS, Tuned, evaluate_grid, search_grid};
pub(in crate::learn) use table::VoteTable;
pub(in crate::learn) use try_weights::{held_out_scores, learn, try_vote_weights};
pub use weights::VoteLearning;
