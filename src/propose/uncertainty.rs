//! How uncertain a prediction is, and why its document is proposed.

use serde::Serialize;

use crate::classifier::RawPrediction;
use crate::decide::vote::LabelScore;
use crate::model::Model;

/// Why a document is proposed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", content = "labels", rename_all = "kebab-case")]
pub enum Reason<'a> {
    /// No labeled document is similar.
    Unknown,
    /// The model hesitates between two labels.
    Undecided([&'a str; 2]),
    /// The model is unsure of one label.
    Perhaps(&'a str),
    /// Without a model, documents are drawn from the whole pool.
    Typical,
}

impl<'a> Reason<'a> {
    /// Returns why a document with this prediction is proposed.
    ///
    /// # Panics
    /// If the prediction belongs to another model.
    pub fn of(model: &'a Model, prediction: &RawPrediction) -> Self {
        let name = |label: u32| model.label_name(label);
        match &*prediction.scores {
            [] => Self::Unknown,
            _ if model.settings().decision.is_multi() => {
                let label = most_uncertain_label(prediction);
                label.map_or(Self::Unknown, |(label, _)| Self::Perhaps(name(label)))
            }
            [best] => Self::Perhaps(name(best.label)),
            [best, second, ..] => Self::Undecided([name(best.label), name(second.label)]),
        }
    }
}

/// Returns how uncertain a prediction is, from 0 to 1: one minus the difference between the scores
/// of the two best labels or, if documents can have several labels, the uncertainty of the label
/// whose probability is nearest to one half. 1 without votes.
pub fn uncertainty(prediction: &RawPrediction, multi_label: bool) -> f64 {
    let scores = &prediction.scores;
    let Some(best) = scores.first() else { return 1.0 };
    if multi_label {
        return most_uncertain_label(prediction).map_or(1.0, |(_, uncertainty)| uncertainty);
    }
    let second = scores.get(1).map_or(0.0, |second| second.score);
    (1.0 - (best.score - second)).clamp(0.0, 1.0)
}

/// Returns the label whose probability is nearest to one half, and how uncertain it is, from 0 to
/// 1. `None` without votes.
fn most_uncertain_label(prediction: &RawPrediction) -> Option<(u32, f64)> {
    let of_label = |(at, found): (usize, &LabelScore)| {
        let probability = prediction.probabilities.get(at).copied().unwrap_or(found.score);
        (found.label, (1.0 - (2.0 * probability - 1.0).abs()).clamp(0.0, 1.0))
    };
    let labels = prediction.scores.iter().enumerate().map(of_label);
    labels.max_by(|a, b| a.1.total_cmp(&b.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uncertainty_of_scores() {
        let scores = |all: &[f64]| RawPrediction {
            scores: (0u32..).zip(all).map(|(label, &score)| LabelScore { label, score }).collect(),
            ..RawPrediction::default()
        };
        let cases = [
            (vec![], false, 1.0),
            (vec![1.0], false, 0.0),
            (vec![0.5, 0.5], false, 1.0),
            (vec![0.6, 0.3, 0.1], false, 0.7),
            (vec![0.9, 0.4], true, 0.8),
            (vec![1.0], true, 0.0),
        ];
        for (all, multi_label, expected) in cases {
            let found = uncertainty(&scores(&all), multi_label);
            assert!((found - expected).abs() < 1e-12, "{all:?}: {found}");
        }
    }
}
