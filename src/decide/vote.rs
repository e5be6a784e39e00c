//! Scores of labels by weighted k-nearest-neighbor voting.
//!
//! Each neighbor votes for each of its labels. A vote is the neighbor's document weight times a
//! value that depends on its similarity s and rank r (from 1):
//!
//! | vote | value |
//! |---|---|
//! | `similarity` | s (Bresler et al. 2011, weighted k-NN) |
//! | `similarity^p` | (s / s₁)ᵖ, where s₁ is the best neighbor's similarity and p is above 0 |
//! | `uniform` | 1 |
//! | `rank` | 1 / r |
//! | `exp` | exp(β (s − s₁)), β = 10; `exp:β` for another β |
//!
//! The score of a label is its share of all votes, from 0 to 1, summed in `f64` in the order of the
//! neighbors. Labels are sorted by decreasing score, then by the rank of their best neighbor, then
//! by name.
//!
//! A model that searches both terms and dense vectors has two lists of neighbors. A label's share
//! of the votes is computed in each list. Its score is (1 − m) · share by terms + m · share by
//! vectors, where m is the *dense share*. If one list is empty, the other list has all votes.
//!
//! Frequent labels are more common among the neighbors of any document. `/size^γ` after a vote
//! compensates for this by multiplying a label's score by (n₀ / n)^γ. Here n is the number of
//! training documents with the label, and n₀ is this number for the rarest label. In
//! neighbor-weighted k-NN (Tan 2005), γ is 1 / exponent.
//!
//! With `/learned` after a vote, each training document has a learned vote weight per label (see
//! [`LearnedVotes`]). With `/prototypes:SHARE` at the end, [label prototypes](Prototypes) determine
//! that share of the scores.

mod learned;
mod prototypes;
mod rule;
mod score;
mod tally;
mod training_labels;
mod voters;

pub use learned::{LabelWeight, LearnedVotes};
pub(crate) use learned::{sums_to_scores, vote_shares};
pub use prototypes::Prototypes;
pub(crate) use prototypes::{
    PrototypeLearning, PrototypeTrainer, WarmStart, highest_margin, margins_to_scores, mix_scores,
};
pub use rule::{Vote, VoteWeight};
pub use score::vote;
pub(crate) use score::{Outcome, label_score, vote_with};
pub(crate) use tally::with_tally;
pub(crate) use training_labels::most_frequent_label;
pub use training_labels::{LabelScore, TrainingLabels};
pub use voters::Voters;
