//! The vote rule and its text form, such as `similarity^2/size^0.5`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A vote rule, which determines how votes are weighted.
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
    /// The exponent γ of the compensation for label sizes; 0 turns it off.
    pub compensation: f64,
    /// Whether a vote is also multiplied by its [learned weight](super::LearnedVotes) for the
    /// label.
    pub learned: bool,
    /// The share of [label prototypes](super::Prototypes) in the scores, from 0 (no prototypes) to
    /// 1.
    pub prototypes: f64,
}

impl Vote {
    /// Learned vote weights with a base rule that tuning chooses. The text form is `learned`.
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
    /// The constant 1.
    Uniform,
    /// One divided by the rank.
    Rank,
    /// `exp(β (similarity − best similarity))`, β above 0.
    Exp {
        /// The rate at which votes decrease with the similarity.
        beta: f64,
    },
}

impl Default for VoteWeight {
    fn default() -> Self {
        Self::Similarity { power: 1.0 }
    }
}

impl VoteWeight {
    /// Returns the value of a vote, given the neighbor's similarity, its rank (from 0), and the
    /// best similarity.
    pub(crate) fn value(self, similarity: f32, rank: usize, best: f32) -> f64 {
        let similarity = f64::from(similarity);
        let best = f64::from(best);
        match self {
            Self::Similarity { power } if power.to_bits() == 1f64.to_bits() => similarity,
            // Powers are relative to the best similarity, because a power of a small similarity may
            // underflow to 0.
            Self::Similarity { power } => {
                let share = similarity / best;
                let square = share * share;
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
                "`{text}` is not a vote; use similarity, similarity^2, uniform, rank, exp, exp:10 \
                 or learned"
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_are_relative_to_the_best() {
        for power in [0.5, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0] {
            let value = VoteWeight::Similarity { power }.value(0.3, 1, 0.5);
            let expected = libm::pow(f64::from(0.3f32) / 0.5, power);
            assert!((value - expected).abs() < 1e-14, "{power}: {value} and {expected}");
        }
    }

    #[test]
    fn vote_rules_round_trip_through_text() {
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
}
