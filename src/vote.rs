//! Neighbors → label scores: weighted k-nearest-neighbor voting.
//!
//! Each neighbor gives its vote to each of its labels. With similarity s and rank r (from 1),
//! times the document's own weight, a vote counts
//!
//! | vote | counts |
//! |---|---|
//! | `similarity` | s (Bresler et al. 2011, weighted kNN) |
//! | `uniform` | 1 |
//! | `rank` | 1 / r |
//! | `exp` | exp(β (s − s₁)), s₁ the best neighbor's similarity, β = 10; `exp:β` for another β |
//!
//! The score of a label is its share of all votes, from 0 to 1, summed in `f64` in the order of
//! the neighbors. Labels come by falling score, then by the rank of their best neighbor, then by
//! name.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::search::Neighbor;

/// How much a neighbor's vote counts.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Vote {
    /// Its similarity.
    #[default]
    Similarity,
    /// One.
    Uniform,
    /// One divided by its rank.
    Rank,
    /// `exp(β (similarity − best similarity))`, β above 0.
    Exp {
        /// How fast votes fall with the similarity.
        beta: f64,
    },
}

impl Vote {
    fn weight(self, similarity: f32, rank: usize, best: f32) -> f64 {
        match self {
            Self::Similarity => f64::from(similarity),
            Self::Uniform => 1.0,
            Self::Rank => 1.0 / (rank + 1) as f64,
            Self::Exp { beta } => libm::exp(beta * (f64::from(similarity) - f64::from(best))),
        }
    }
}

impl fmt::Display for Vote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Similarity => f.write_str("similarity"),
            Self::Uniform => f.write_str("uniform"),
            Self::Rank => f.write_str("rank"),
            Self::Exp { beta } => write!(f, "exp:{beta}"),
        }
    }
}

impl FromStr for Vote {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "similarity" => Self::Similarity,
            "uniform" => Self::Uniform,
            "rank" => Self::Rank,
            "exp" => Self::Exp { beta: 10.0 },
            _ => {
                let beta = text.strip_prefix("exp:").and_then(|beta| beta.parse().ok());
                let beta = beta.filter(|beta: &f64| beta.is_finite() && *beta > 0.0);
                let beta = beta.ok_or_else(|| {
                    format!(
                        "`{text}` is no vote; it is similarity, uniform, rank, exp or exp:NUMBER"
                    )
                })?;
                Self::Exp { beta }
            }
        })
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
    /// The label's number in the model; numbers follow the names' byte order.
    pub label: u32,
    /// The share of the vote, from 0 to 1.
    pub score: f64,
}

/// The labels of `neighbors` by falling score. `labels` gives a row's labels, `weight` its own
/// weight.
///
/// ```
/// use classify::search::Neighbor;
/// use classify::vote::{Vote, vote};
///
/// let neighbors = [Neighbor { row: 4, similarity: 0.5 }, Neighbor { row: 7, similarity: 0.25 }];
/// let labels: [&[u32]; 2] = [&[1], &[0, 1]];
/// let scores = vote(&neighbors, Vote::Similarity, |row| labels[usize::from(row == 7)], |_| 1.0);
/// assert_eq!((scores[0].label, scores[0].score), (1, 1.0));
/// assert_eq!((scores[1].label, scores[1].score), (0, 0.25 / 0.75));
/// ```
pub fn vote<'a>(
    neighbors: &[Neighbor],
    vote: Vote,
    labels: impl Fn(u32) -> &'a [u32],
    weight: impl Fn(u32) -> f32,
) -> Vec<LabelScore> {
    let best = neighbors.first().map_or(0.0, |neighbor| neighbor.similarity);
    let mut total = 0.0;
    let mut votes: Vec<(u32, usize, f64)> = Vec::new();
    for (rank, neighbor) in neighbors.iter().enumerate() {
        let counts = vote.weight(neighbor.similarity, rank, best) * f64::from(weight(neighbor.row));
        total += counts;
        votes.extend(labels(neighbor.row).iter().map(|&label| (label, rank, counts)));
    }
    // Stable: a label's votes stay in the order of the neighbors, the best first.
    votes.sort_by_key(|&(label, ..)| label);
    let mut scores: Vec<(LabelScore, usize)> = votes
        .chunk_by(|a, b| a.0 == b.0)
        .map(|votes| {
            let sum: f64 = votes.iter().map(|&(.., counts)| counts).sum();
            // Votes can be too small for a share, or all neighbors without labels.
            let score = if total > 0.0 { (sum / total).min(1.0) } else { 0.0 };
            (LabelScore { label: votes[0].0, score }, votes[0].1)
        })
        .collect();
    scores.sort_by(|(a, a_rank), (b, b_rank)| {
        b.score.total_cmp(&a.score).then(a_rank.cmp(b_rank)).then(a.label.cmp(&b.label))
    });
    scores.into_iter().map(|(score, _)| score).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEIGHBORS: [Neighbor; 3] = [
        Neighbor { row: 0, similarity: 0.5 },
        Neighbor { row: 1, similarity: 0.25 },
        Neighbor { row: 2, similarity: 0.25 },
    ];

    fn scores(by: Vote, weights: [f32; 3]) -> Vec<(u32, f64)> {
        let labels: [&[u32]; 3] = [&[2], &[1], &[0, 1]];
        vote(&NEIGHBORS, by, |row| labels[row as usize], |row| weights[row as usize])
            .into_iter()
            .map(|score| (score.label, score.score))
            .collect()
    }

    /// Labels 2 and 1 tie under `similarity`: 2 has the better neighbor.
    #[test]
    fn every_vote_by_hand() {
        let ones = [1.0; 3];
        assert_eq!(scores(Vote::Similarity, ones), [(2, 0.5), (1, 0.5), (0, 0.25)]);
        assert_eq!(scores(Vote::Uniform, ones), [(1, 2.0 / 3.0), (2, 1.0 / 3.0), (0, 1.0 / 3.0)]);
        let total = 1.0 + 0.5 + 1.0 / 3.0;
        let rank = scores(Vote::Rank, ones);
        assert_eq!(rank[0], (2, 1.0 / total));
        assert_eq!(rank[1], (1, (0.5 + 1.0 / 3.0) / total));
        let exp = scores(Vote::Exp { beta: 4.0 }, ones);
        let (near, far) = ((-2.0f64).exp(), (-3.0f64).exp());
        assert!((exp[0].1 - near / (near + 2.0 * far)).abs() < 1e-12);
        assert!((exp[1].1 - 2.0 * far / (near + 2.0 * far)).abs() < 1e-12);
        assert_eq!(scores(Vote::Similarity, [1.0, 3.0, 1.0])[0], (1, 1.0 / 1.5));
    }

    /// BM25 similarities are far above 1.
    #[test]
    fn exp_of_large_similarities() {
        let neighbors =
            [Neighbor { row: 0, similarity: 900.0 }, Neighbor { row: 1, similarity: 899.9 }];
        let labels: [&[u32]; 2] = [&[0], &[1]];
        let by = Vote::Exp { beta: 10.0 };
        let scores = vote(&neighbors, by, |row| labels[row as usize], |_| 1.0);
        assert!((scores[0].score + scores[1].score - 1.0).abs() < 1e-9);
        assert!(scores[0].score > 0.7 && scores[0].score < 0.74, "{scores:?}");
    }

    #[test]
    fn names() {
        for name in ["similarity", "uniform", "rank", "exp:2.5"] {
            assert_eq!(name.parse::<Vote>().unwrap().to_string(), name);
        }
        for name in ["", "cosine", "exp:0", "exp:-1", "exp:nan", "exp:"] {
            assert!(name.parse::<Vote>().is_err());
        }
    }
}
