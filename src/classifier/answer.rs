//! Predictions with names instead of numbers, for JSON.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::classifier::explain::NamedExplanation;
use crate::classifier::{Prediction, Reason};
use crate::decide::vote::LearnedVotes;
use crate::model::Model;
use crate::search::Neighbor;

/// What an answer contains besides its labels.
#[derive(Debug, Clone, Copy, Default)]
pub struct Extras<'a> {
    /// Number of best labels whose scores are included, given or not.
    pub scores: Option<usize>,
    /// Whether the training documents that voted are included.
    pub neighbors: bool,
    /// Whether their texts are included, if the model keeps texts.
    pub texts: bool,
    /// The learned weights of their votes, if the vote uses them.
    pub learned: Option<&'a LearnedVotes>,
}

/// A prediction with names.
///
/// ```
/// use classify::classifier::answer::{Answer, Extras};
/// use classify::classifier::{Classifier, train};
/// use classify::text::corpus::{Corpus, ReadOptions};
/// use classify::decide::decision::Decision;
/// use classify::model::TrainSettings;
/// use classify::threads::Threads;
///
/// let corpus = "{\"text\": \"bake the bread\", \"label\": \"cooking\"}";
/// let mut documents = Corpus::from_bytes("a line", corpus.into(), ReadOptions::default())?;
/// let settings = TrainSettings::new(Default::default(), Decision::Single);
/// let threads = Threads::available()?;
/// let model = train(&mut documents, settings, Default::default(), &threads)?;
/// let classifier = Classifier::new(model.into(), &threads)?;
/// let prediction = &classifier.classify_texts(&["fresh bread"])?[0];
/// let answer = Answer::new(classifier.model(), "a", prediction, Extras::default());
/// assert_eq!(answer.labels, ["cooking"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Serialize)]
pub struct Answer<'a> {
    /// The document.
    pub id: &'a str,
    /// The labels, best first.
    pub labels: Vec<&'a str>,
    /// The share of the vote of the best label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// The probability that the best label is right; only if the model is calibrated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
    /// The expected share of right labels among those given; only if the model is calibrated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// Why there are no labels, or unreliable ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    /// The best labels, given or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scores: Option<Vec<Scored<'a>>>,
    /// The training documents that voted, best first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub neighbors: Option<Vec<Near<'a>>>,
    /// The neighbors by dense vectors, if the neighbors above are those by terms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_vectors: Option<Vec<Near<'a>>>,
    /// Why the document gets its labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<NamedExplanation<'a>>,
}

/// A label with its score.
#[derive(Debug, Serialize)]
pub struct Scored<'a> {
    /// The label.
    pub label: &'a str,
    /// Its share of the vote.
    pub score: f64,
    /// The probability that it is right; only if the model is calibrated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
}

/// A training document that voted.
#[derive(Debug, Serialize)]
pub struct Near<'a> {
    /// Its identifier.
    pub id: &'a str,
    /// The similarity.
    pub similarity: f32,
    /// Its labels.
    pub labels: Vec<&'a str>,
    /// The learned weights of its vote by label, without zeros; only if they are requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "worth")]
    pub vote_weights: Option<BTreeMap<&'a str, f32>>,
    /// Its text, if the model keeps texts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<&'a str>,
}

impl<'a> Answer<'a> {
    /// Creates the answer for a document.
    ///
    /// # Panics
    /// If the prediction is of another model.
    pub fn new(
        model: &'a Model,
        id: &'a str,
        prediction: &'a Prediction,
        extras: Extras<'_>,
    ) -> Self {
        let label = |label: u32| model.labels().get(label as usize).expect("a label of the model");
        let scores = extras.scores.map(|shown| {
            let shown = prediction.scores.iter().take(shown).enumerate();
            let scored = shown.map(|(at, found)| Scored {
                label: label(found.label),
                score: found.score,
                probability: prediction.probabilities.get(at).copied(),
            });
            scored.collect()
        });
        let near = |neighbors: &[Neighbor]| {
            let near = |neighbor: &Neighbor| Near {
                id: model.ids().get(neighbor.row as usize).expect("a training document"),
                similarity: neighbor.similarity,
                labels: model.document_labels(neighbor.row).iter().map(|&l| label(l)).collect(),
                vote_weights: extras.learned.map(|votes| {
                    let weights = votes.of(neighbor.row).map(|of| (label(of.label), of.weight));
                    weights.filter(|(_, weight)| *weight != 0.0).collect()
                }),
                text: model.text(neighbor.row).filter(|_| extras.texts),
            };
            neighbors.iter().map(near).collect()
        };
        let neighbors = extras.neighbors.then(|| near(&prediction.neighbors));
        let by_vectors = extras.neighbors && !prediction.by_vectors.is_empty();
        Self {
            id,
            labels: prediction.labels.iter().map(|&l| label(l)).collect(),
            score: prediction.scores.first().map(|score| score.score),
            probability: prediction.probabilities.first().copied(),
            confidence: prediction.confidence,
            reason: prediction.reason.map(Reason::name),
            scores,
            neighbors,
            by_vectors: by_vectors.then(|| near(&prediction.by_vectors)),
            explanation: None,
        }
    }
}
