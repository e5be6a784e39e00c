//! Neighbors → label scores: weighted k-nearest-neighbor voting.
//!
//! Each neighbor votes for each of its labels. A vote is the neighbor's document weight times a
//! value that depends on its similarity s and rank r (from 1):
//!
//! | vote | value |
//! |---|---|
//! | `similarity` | s (Bresler et al. 2011, weighted kNN) |
//! | `similarity^p` | (s / s₁)ᵖ, s₁ being the best neighbor's similarity, p above 0 |
//! | `uniform` | 1 |
//! | `rank` | 1 / r |
//! | `exp` | exp(β (s − s₁)), β = 10; `exp:β` for another β |
//!
//! The score of a label is its share of all votes, from 0 to 1, summed in `f64` in the order of the
//! neighbors. Labels are sorted by decreasing score, then by the rank of their best neighbor, then
//! by name.
//!
//! A model that searches both terms and dense vectors has two lists of neighbors. In each, a label's share of the votes
//! is counted as above; its score is (1 − m) · the share by terms + m · the share by vectors, m being the *dense share*.
//! Where one list is empty, the other has all votes.
//!
//! Frequent labels have more neighbors everywhere. `/size^γ` after any vote compensates for this: a
//! label's score is multiplied by (n₀ / n)^γ, where n is the number of training documents with the
//! label and n₀ that of the rarest label (neighbor-weighted kNN, Tan 2005, where γ is 1 /
//! exponent).
//!
//! With `/learned` after a vote, what a training document's vote is worth for each label is learned: see
//! [`LearnedVotes`]. With `/prototypes:SHARE` at the end, [prototypes of labels](Prototypes) have that share of the
//! scores.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::search::Neighbor;

mod ballots;
mod learned;
mod prototypes;

use ballots::Ranked;
pub(crate) use ballots::with_ballots;
pub use learned::{LearnedVotes, WorthOf};
pub(crate) use learned::{link, shares};
pub use prototypes::Prototypes;
pub(crate) use prototypes::{
    HighestMargins, PrototypeLearning, Taught, joined, link as link_prototypes,
};

/// How votes are weighted.
///
/// ```
/// use classify::decide::vote::{VoteWeight, Vote};
///
/// let vote: Vote = "similarity^2/size^0.5".parse().unwrap();
/// assert_eq!((vote.weight, vote.compensation), (VoteWeight::Similarity { power: 2.0 }, 0.5));
/// assert_eq!(Vote::default().to_string(), "similarity");
/// assert!("similarity^2/learned".parse::<Vote>().unwrap().learned);
/// assert_eq!("exp/learned/prototypes:0.7".parse::<Vote>().unwrap().prototypes, 0.7);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Vote {
    /// The value of a neighbor's vote.
    pub weight: VoteWeight,
    /// The exponent γ of the label-size compensation; 0: none.
    pub compensation: f64,
    /// Whether a vote is also multiplied by [what it is worth](LearnedVotes) for the label.
    pub learned: bool,
    /// The share of [prototypes](Prototypes) in the scores, from 0 to 1; 0: there are none.
    pub prototypes: f64,
}

impl Vote {
    /// Learned votes, whose value before learning is chosen by tuning; `learned` for short.
    pub const LEARNED: Self = Self {
        weight: VoteWeight::Similarity { power: 1.0 },
        compensation: 0.0,
        learned: true,
        prototypes: 0.0,
    };
}

/// The value of a neighbor's vote.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum VoteWeight {
    /// A power of the similarity.
    Similarity {
        /// The exponent, above 0.
        power: f64,
    },
    /// One.
    Uniform,
    /// One divided by the rank.
    Rank,
    /// `exp(β (similarity − best similarity))`, β above 0.
    Exp {
        /// How fast votes decrease with the similarity.
        beta: f64,
    },
}

impl Default for VoteWeight {
    fn default() -> Self {
        Self::Similarity { power: 1.0 }
    }
}

impl VoteWeight {
    /// The value of a vote, given the neighbor's similarity, its rank from 0, and the best
    /// similarity.
    pub(crate) fn counts(self, similarity: f32, rank: usize, best: f32) -> f64 {
        let (similarity, best) = (f64::from(similarity), f64::from(best));
        match self {
            Self::Similarity { power } if power.to_bits() == 1f64.to_bits() => similarity,
            // Relative to the best: a power of a small similarity may underflow to 0.
            Self::Similarity { power } => {
                let (share, square) =
                    (similarity / best, (similarity / best) * (similarity / best));
                match power {
                    2.0 => square,
                    3.0 => square * share,
                    4.0 => square * square,
                    6.0 => square * square * square,
                    power => libm::pow(share, power),
                }
            }
            Self::Uniform => 1.0,
            Self::Rank => 1.0 / (rank + 1) as f64,
            Self::Exp { beta } => libm::exp(beta * (similarity - best)),
        }
    }
}

impl fmt::Display for Vote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.weight {
            VoteWeight::Similarity { power } if power.to_bits() == 1f64.to_bits() => {
                f.write_str("similarity")
            }
            VoteWeight::Similarity { power } => write!(f, "similarity^{power}"),
            VoteWeight::Uniform => f.write_str("uniform"),
            VoteWeight::Rank => f.write_str("rank"),
            VoteWeight::Exp { beta } => write!(f, "exp:{beta}"),
        }?;
        if self.compensation > 0.0 {
            write!(f, "/size^{}", self.compensation)?;
        }
        f.write_str(if self.learned { "/learned" } else { "" })?;
        if self.prototypes > 0.0 { write!(f, "/prototypes:{}", self.prototypes) } else { Ok(()) }
    }
}

impl FromStr for Vote {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || {
            format!(
                "`{text}` is not a vote: use similarity, similarity^NUMBER, uniform, rank, exp or \
                 exp:NUMBER, each optionally followed by /size^NUMBER or by /learned, then by \
                 /prototypes:SHARE, or learned"
            )
        };
        if let Some((votes, share)) = text.split_once("/prototypes:") {
            let vote: Self = votes.parse().map_err(|_| unknown())?;
            let share = share.parse().ok().filter(|share| (0.0..=1.0).contains(share));
            let prototypes = share.filter(|&share: &f64| share > 0.0).ok_or_else(unknown)?;
            return Ok(Self { prototypes, ..vote });
        }
        let positive = |number: &str| {
            number.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0)
        };
        if text == "learned" {
            return Ok(Self::LEARNED);
        }
        if let Some(weight) = text.strip_suffix("/learned") {
            let vote: Self = weight.parse().map_err(|_| unknown())?;
            let learned = Self { learned: true, ..vote };
            return if vote.compensation > 0.0 || vote.learned {
                Err(unknown())
            } else {
                Ok(learned)
            };
        }
        let (weight, compensation) = match text.split_once("/size^") {
            Some((weight, power)) => (weight, positive(power).ok_or_else(unknown)?),
            None => (text, 0.0),
        };
        let weight = match weight {
            "similarity" => VoteWeight::default(),
            "uniform" => VoteWeight::Uniform,
            "rank" => VoteWeight::Rank,
            "exp" => VoteWeight::Exp { beta: 10.0 },
            _ => {
                let power = weight.strip_prefix("similarity^").and_then(positive);
                let beta = weight.strip_prefix("exp:").and_then(positive);
                power
                    .map(|power| VoteWeight::Similarity { power })
                    .or(beta.map(|beta| VoteWeight::Exp { beta }))
                    .ok_or_else(unknown)?
            }
        };
        Ok(Self { weight, compensation, learned: false, prototypes: 0.0 })
    }
}

impl From<VoteWeight> for Vote {
    fn from(weight: VoteWeight) -> Self {
        Self { weight, compensation: 0.0, learned: false, prototypes: 0.0 }
    }
}

impl From<Vote> for String {
    fn from(vote: Vote) -> Self {
        vote.to_string()
    }
}

impl TryFrom<String> for Vote {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// A label and its share of the vote.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LabelScore {
    /// The label's number in the model; numbers are in byte order of the names.
    pub label: u32,
    /// The share of the vote, from 0 to 1.
    pub score: f64,
}

/// The labels and weights of the training documents, for voting.
#[derive(Debug, Clone, Copy)]
pub struct TrainingLabels<'a> {
    /// The labels of row `i`, in increasing order, are `indices[indptr[i]..indptr[i + 1]]`.
    pub indptr: &'a [u64],
    /// The label numbers of all rows.
    pub indices: &'a [u32],
    /// The weight of each row's vote.
    pub weights: &'a [f32],
    /// The number of rows with each label.
    pub sizes: &'a [u32],
}

impl<'a> TrainingLabels<'a> {
    /// The labels of a row, in increasing order.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn labels(&self, row: u32) -> &'a [u32] {
        &self.indices[self.own(row)]
    }

    /// Where the labels of a row are among all.
    #[expect(clippy::cast_possible_truncation, reason = "bounds of a slice in memory")]
    fn own(&self, row: u32) -> Range<usize> {
        let row = row as usize;
        self.indptr[row] as usize..self.indptr[row + 1] as usize
    }

    /// The factor of each label's score under `vote`; empty: 1 for all.
    pub(crate) fn factors(&self, vote: Vote) -> Vec<f64> {
        if vote.compensation <= 0.0 {
            return Vec::new();
        }
        let rarest =
            f64::from(self.sizes.iter().copied().filter(|&size| size > 0).min().unwrap_or(1));
        let factor = |&size: &u32| libm::pow(rarest / f64::from(size.max(1)), vote.compensation);
        self.sizes.iter().map(factor).collect()
    }
}

/// The labels of the voters by decreasing score.
///
/// ```
/// use classify::search::Neighbor;
/// use classify::decide::vote::{TrainingLabels, Vote, vote};
///
/// let neighbors = [Neighbor { row: 0, similarity: 0.5 }, Neighbor { row: 1, similarity: 0.25 }];
/// // Row 0 has label 1, row 1 the labels 0 and 1.
/// let among = TrainingLabels { indptr: &[0, 1, 3], indices: &[1, 0, 1], weights: &[1.0; 2], sizes: &[1, 2] };
/// let scores = vote(&neighbors, Vote::default(), &among);
/// assert_eq!((scores[0].label, scores[0].score), (1, 1.0));
/// assert_eq!((scores[1].label, scores[1].score), (0, 0.25 / 0.75));
/// ```
///
/// # Panics
/// If a neighbor is no training document, or a label has no size.
pub fn vote<'a>(
    voters: impl Into<Voters<'a>>,
    by: Vote,
    among: &TrainingLabels<'_>,
) -> Vec<LabelScore> {
    let mut outcome = Outcome::default();
    vote_with(voters.into(), by.weight, &among.factors(by), among, &mut outcome);
    outcome.scores
}

/// The neighbors that vote on a document: those found by its terms, by its dense vector, or both.
///
/// ```
/// use classify::search::Neighbor;
/// use classify::decide::vote::Voters;
///
/// let (near, far) = (Neighbor { row: 7, similarity: 0.5 }, Neighbor { row: 8, similarity: 0.1 });
/// let (terms, vectors) = ([near, far], [far]);
/// let voters = Voters::both(&terms, &vectors, 0.25);
/// assert_eq!(voters.first(1).lists(), [(&[near][..], 0.75), (&[far], 0.25)]);
/// assert_eq!(Voters::both(&terms, &[], 0.25).lists()[0].1, 1.0);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Voters<'a> {
    terms: &'a [Neighbor],
    vectors: &'a [Neighbor],
    dense_share: f64,
}

impl<'a> From<&'a [Neighbor]> for Voters<'a> {
    fn from(neighbors: &'a [Neighbor]) -> Self {
        Self::one(neighbors)
    }
}

impl<'a, const N: usize> From<&'a [Neighbor; N]> for Voters<'a> {
    fn from(neighbors: &'a [Neighbor; N]) -> Self {
        Self::one(neighbors)
    }
}

impl<'a> Voters<'a> {
    /// One list, best first.
    pub fn one(neighbors: &'a [Neighbor]) -> Self {
        Self { terms: neighbors, vectors: &[], dense_share: 0.0 }
    }

    /// Two lists, best first, and the share of the second one in the votes, from 0 to 1. A list whose share is 0 does not vote.
    pub fn both(terms: &'a [Neighbor], vectors: &'a [Neighbor], dense_share: f64) -> Self {
        let terms = if dense_share < 1.0 { terms } else { &[] };
        let vectors = if dense_share > 0.0 { vectors } else { &[] };
        Self { terms, vectors, dense_share }
    }

    /// The first `k` of each list.
    #[must_use]
    pub fn first(self, k: usize) -> Self {
        let (terms, vectors) = (self.terms, self.vectors);
        Self {
            terms: &terms[..terms.len().min(k)],
            vectors: &vectors[..vectors.len().min(k)],
            ..self
        }
    }

    /// The lists, by terms and by vectors, with their shares of the votes: an empty list has none.
    pub fn lists(self) -> [(&'a [Neighbor], f64); 2] {
        let shares = match (self.terms.is_empty(), self.vectors.is_empty()) {
            (false, false) => [1.0 - self.dense_share, self.dense_share],
            (false, true) => [1.0, 0.0],
            (true, _) => [0.0, 1.0],
        };
        [(self.terms, shares[0]), (self.vectors, shares[1])]
    }

    /// Whether nobody votes.
    pub fn is_empty(self) -> bool {
        self.terms.is_empty() && self.vectors.is_empty()
    }

    /// The length of the longer list.
    pub(crate) fn len(self) -> usize {
        self.terms.len().max(self.vectors.len())
    }

    /// The number of neighbors in both lists.
    pub(crate) fn count(self) -> usize {
        self.terms.len() + self.vectors.len()
    }

    /// The similarity of the best neighbor; of two lists, the mean by their shares.
    pub(crate) fn best_similarity(self) -> f32 {
        self.best_similarity_among(&|_| true)
    }

    /// The same among some training documents; 0 if none of them is a neighbor.
    #[expect(clippy::cast_possible_truncation, reason = "between two f32")]
    pub(crate) fn best_similarity_among(self, takes: &dyn Fn(u32) -> bool) -> f32 {
        let best = |(list, share): (&[Neighbor], f64)| {
            let first = list.iter().find(|neighbor| takes(neighbor.row));
            share * first.map_or(0.0, |neighbor| f64::from(neighbor.similarity))
        };
        let [terms, vectors] = self.lists().map(best);
        (terms + vectors) as f32
    }

    /// All neighbors with the number of their list and their rank, by rank; of equal ranks, by list.
    pub(crate) fn ranked(self) -> impl Iterator<Item = (usize, usize, &'a Neighbor)> {
        self.ranked_from(0, usize::MAX)
    }

    /// Calls `visit` with the number of the list, the rank and the neighbor of each, in the order of [`ranked`](Self::ranked).
    #[inline]
    pub(crate) fn each(self, mut visit: impl FnMut(usize, usize, &'a Neighbor)) {
        for rank in 0..self.len() {
            for (list, neighbors) in [self.terms, self.vectors].into_iter().enumerate() {
                if let Some(neighbor) = neighbors.get(rank) {
                    visit(list, rank, neighbor);
                }
            }
        }
    }

    /// The same from a rank on, up to another one.
    pub(crate) fn ranked_from(
        self,
        from: usize,
        to: usize,
    ) -> impl Iterator<Item = (usize, usize, &'a Neighbor)> {
        (from..self.len().min(to)).flat_map(move |rank| {
            [self.terms, self.vectors]
                .into_iter()
                .enumerate()
                .filter_map(move |(list, neighbors)| Some((list, rank, neighbors.get(rank)?)))
        })
    }
}

/// The outcome of the vote on a document.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outcome {
    /// The labels by decreasing score.
    pub(crate) scores: Vec<LabelScore>,
    /// How many voters have each of these labels; empty: that was not counted.
    pub(crate) supporters: Vec<u32>,
}

/// Counts the votes on a document, with precomputed label factors. `outcome` keeps its memory.
pub(crate) fn vote_with(
    voters: Voters<'_>,
    weight: VoteWeight,
    factors: &[f64],
    among: &TrainingLabels<'_>,
    outcome: &mut Outcome,
) {
    let lists = voters.lists();
    let best = lists.map(|(list, _)| list.first().map_or(0.0, |neighbor| neighbor.similarity));
    outcome.scores.clear();
    outcome.supporters.clear();
    with_ballots(|ballots| {
        let mut totals = [0.0; 2];
        ballots.count(voters, among, |list, rank, neighbor| {
            let counts = weight.counts(neighbor.similarity, rank, best[list])
                * f64::from(among.weights[neighbor.row as usize]);
            totals[list] += counts;
            counts
        });
        let shares = lists.map(|(_, share)| share);
        let score = |label: u32, sums| {
            mixed(sums, totals, shares) * factors.get(label as usize).unwrap_or(&1.0)
        };
        for Ranked { label, score, voters } in ballots.ranked(score) {
            outcome.scores.push(LabelScore { label, score });
            outcome.supporters.push(voters);
        }
    });
}

/// A label's score from its votes, all votes and the share of each list.
pub(crate) fn mixed(sums: [f64; 2], totals: [f64; 2], shares: [f64; 2]) -> f64 {
    let of = |list: usize| shares[list] * share(sums[list], totals[list]);
    (of(0) + of(1)).min(1.0)
}

/// A label's share of all votes; 0 if the votes underflow.
fn share(sum: f64, total: f64) -> f64 {
    if total > 0.0 { (sum / total).min(1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEIGHBORS: [Neighbor; 3] = [
        Neighbor { row: 0, similarity: 0.5 },
        Neighbor { row: 1, similarity: 0.25 },
        Neighbor { row: 2, similarity: 0.25 },
    ];

    fn scores(by: impl Into<Vote>, weights: [f32; 3]) -> Vec<(u32, f64)> {
        let among = TrainingLabels {
            indptr: &[0, 1, 2, 4],
            indices: &[2, 1, 0, 1],
            weights: &weights,
            sizes: &[1, 4, 1],
        };
        vote(&NEIGHBORS, by.into(), &among)
            .into_iter()
            .map(|score| (score.label, score.score))
            .collect()
    }

    /// Labels 2 and 1 tie under `similarity`, but 2 has the better neighbor.
    #[test]
    fn every_vote_by_hand() {
        let ones = [1.0; 3];
        assert_eq!(scores(VoteWeight::default(), ones), [(2, 0.5), (1, 0.5), (0, 0.25)]);
        assert_eq!(
            scores(VoteWeight::Uniform, ones),
            [(1, 2.0 / 3.0), (2, 1.0 / 3.0), (0, 1.0 / 3.0)]
        );
        let total = 1.0 + 0.5 + 1.0 / 3.0;
        let rank = scores(VoteWeight::Rank, ones);
        assert_eq!(rank[0], (2, 1.0 / total));
        assert_eq!(rank[1], (1, (0.5 + 1.0 / 3.0) / total));
        let exp = scores(VoteWeight::Exp { beta: 4.0 }, ones);
        let near = libm::exp(-2.0);
        let far = libm::exp(-3.0);
        assert!((exp[0].1 - near / (near + 2.0 * far)).abs() < 1e-12);
        assert!((exp[1].1 - 2.0 * far / (near + 2.0 * far)).abs() < 1e-12);
        assert_eq!(scores(VoteWeight::default(), [1.0, 3.0, 1.0])[0], (1, 1.0 / 1.5));
        // Squares of similarities relative to the best: 1, 1/4, 1/4.
        let squares = scores(VoteWeight::Similarity { power: 2.0 }, ones);
        assert_eq!(squares, [(2, 1.0 / 1.5), (1, 0.5 / 1.5), (0, 0.25 / 1.5)]);
        // Label 1 has four times the documents of the others, so half its share.
        let compensated = scores("uniform/size^0.5".parse::<Vote>().unwrap(), ones);
        assert_eq!(compensated, [(2, 1.0 / 3.0), (1, 1.0 / 3.0), (0, 1.0 / 3.0)]);
    }

    #[test]
    fn powers_are_relative_to_the_best() {
        for power in [0.5, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0] {
            let counts = VoteWeight::Similarity { power }.counts(0.3, 1, 0.5);
            let expected = libm::pow(f64::from(0.3f32) / 0.5, power);
            assert!((counts - expected).abs() < 1e-14, "{power}: {counts} and {expected}");
        }
    }

    /// As it can be read in the module's table, on rows of no, few and many labels.
    #[test]
    fn votes_as_defined() {
        let mut random = crate::random::Random::new(5);
        let (mut indptr, mut indices, labels) = (vec![0], Vec::new(), 30u32);
        for row in 0..200 {
            let share = [0, 2, 10, 25][row % 4];
            indices.extend((0..labels).filter(|_| random.below(30) < share));
            indptr.push(indices.len() as u64);
        }
        let weights: Vec<f32> = (0..200).map(|_| [0.0, 0.5, 1.0][random.below(3)]).collect();
        let sizes: Vec<u32> = (1..=labels).collect();
        let among =
            TrainingLabels { indptr: &indptr, indices: &indices, weights: &weights, sizes: &sizes };
        for round in 0..300 {
            let mut list = |most: usize| -> Vec<Neighbor> {
                let neighbor = |rank: u32| Neighbor {
                    row: u32::try_from(random.below(200)).expect("few"),
                    similarity: 1.0 / (rank / 3 + 1) as f32,
                };
                (0..u32::try_from(most).expect("few")).map(neighbor).collect()
            };
            let (terms, vectors) = (list(round % 20), list(if round % 3 == 0 { 9 } else { 0 }));
            let voters = Voters::both(&terms, &vectors, 0.25);
            let by: Vote = ["similarity^2", "rank", "uniform/size^0.5"][round % 3].parse().unwrap();
            let counts = |list: &[Neighbor], rank: usize| {
                let Neighbor { row, similarity } = list[rank];
                let best = list[0].similarity;
                by.weight.counts(similarity, rank, best) * f64::from(weights[row as usize])
            };
            let share = |list: &[Neighbor], label: u32| {
                let (mut sum, mut total) = (0.0, 0.0);
                for (rank, neighbor) in list.iter().enumerate() {
                    total += counts(list, rank);
                    if among.labels(neighbor.row).contains(&label) {
                        sum += counts(list, rank);
                    }
                }
                if total > 0.0 { (sum / total).min(1.0) } else { 0.0 }
            };
            let supporters = |label: u32| {
                let has = |neighbor: &&Neighbor| among.labels(neighbor.row).contains(&label);
                u32::try_from(terms.iter().chain(&vectors).filter(has).count()).expect("few")
            };
            // The place of the best neighbor that has the label, by rank, then by list.
            let first = |label: u32| {
                voters.ranked().position(|(.., near)| among.labels(near.row).contains(&label))
            };
            let factors = among.factors(by);
            let mut expected: Vec<(LabelScore, u32)> = (0..labels)
                .filter(|&label| supporters(label) > 0)
                .map(|label| {
                    let [terms, vectors] = voters.lists().map(|(list, of)| of * share(list, label));
                    let factor = factors.get(label as usize).unwrap_or(&1.0);
                    let score = (terms + vectors).min(1.0) * factor;
                    (LabelScore { label, score }, supporters(label))
                })
                .collect();
            expected.sort_by(|(a, _), (b, _)| {
                b.score.total_cmp(&a.score).then(first(a.label).cmp(&first(b.label)))
            });
            let mut outcome = Outcome::default();
            vote_with(voters, by.weight, &factors, &among, &mut outcome);
            let found: Vec<_> = outcome.scores.into_iter().zip(outcome.supporters).collect();
            assert_eq!(found, expected, "{by}");
        }
    }

    /// BM25 similarities are far above 1.
    #[test]
    fn exp_of_large_similarities() {
        let neighbors =
            [Neighbor { row: 0, similarity: 900.0 }, Neighbor { row: 1, similarity: 899.9 }];
        let among = TrainingLabels {
            indptr: &[0, 1, 2],
            indices: &[0, 1],
            weights: &[1.0; 2],
            sizes: &[1, 1],
        };
        let scores = vote(&neighbors, VoteWeight::Exp { beta: 10.0 }.into(), &among);
        assert!((scores[0].score + scores[1].score - 1.0).abs() < 1e-9);
        assert!(scores[0].score > 0.7 && scores[0].score < 0.74, "{scores:?}");
    }

    #[test]
    fn names() {
        for name in [
            "similarity",
            "similarity^4",
            "uniform",
            "rank",
            "exp:2.5",
            "rank/size^0.5",
            "exp:2.5/learned",
            "exp:2.5/size^0.5/prototypes:0.25",
            "rank/learned/prototypes:1",
        ] {
            assert_eq!(name.parse::<Vote>().unwrap().to_string(), name);
        }
        for name in [
            "",
            "cosine",
            "exp:0",
            "exp:-1",
            "exp:nan",
            "exp:",
            "exp:inf",
            "similarity^0",
            "rank/size^",
            "rank/size^1/learned",
            "/learned",
            "rank/learned/learned",
            "rank/prototypes:0",
            "rank/prototypes:1.5",
            "rank/prototypes:0.5/learned",
            "/prototypes:0.5",
        ] {
            assert!(name.parse::<Vote>().is_err());
        }
    }

    /// Powers are taken relative to the best similarity, so those of tiny ones do not vanish.
    #[test]
    fn tiny_votes() {
        let neighbors =
            [Neighbor { row: 0, similarity: 1e-30 }, Neighbor { row: 1, similarity: 5e-31 }];
        let among = |weights| TrainingLabels {
            indptr: &[0, 1, 2],
            indices: &[0, 1],
            weights,
            sizes: &[1, 1],
        };
        let power = VoteWeight::Similarity { power: 8.0 };
        let found = vote(&neighbors, power.into(), &among(&[1.0; 2]));
        assert!((found[0].score - 1.0 / (1.0 + 1.0 / 256.0)).abs() < 1e-6, "{found:?}");
        // If all votes are 0, so are the scores.
        let found = vote(&neighbors, power.into(), &among(&[0.0; 2]));
        assert!(found.iter().all(|score| score.score <= 0.0), "{found:?}");
    }

    /// Factors are relative to the rarest label that documents have.
    #[test]
    fn compensation_by_the_rarest_label() {
        let among = TrainingLabels {
            indptr: &[0, 1, 2, 2],
            indices: &[0, 1],
            weights: &[1.0; 3],
            sizes: &[2, 8, 0],
        };
        let by = "uniform/size^0.5".parse().unwrap();
        let found = vote(&NEIGHBORS[..2], by, &among);
        assert_eq!(found.iter().map(|score| score.score).collect::<Vec<_>>(), [0.5, 0.25]);
    }
}
