//! Predictions as JSON records, with names instead of numbers.

use serde::Serialize;

use crate::classifier::explain::NamedExplanation;
use crate::classifier::{NamedNeighbor, RawPrediction, Reason, ScoredLabel};
use crate::decide::vote::LearnedVotes;
use crate::model::Model;
use crate::search::Neighbor;

/// The optional contents of an answer, in addition to its labels.
#[derive(Debug, Clone, Copy, Default)]
pub struct Extras<'a> {
    /// Number of top-ranked labels whose scores are included, whether predicted or not.
    pub scores: Option<usize>,
    /// Whether the training documents that voted are included.
    pub neighbors: bool,
    /// Whether the texts of these documents are included, if the model keeps texts.
    pub texts: bool,
    /// The learned vote weights to include, if the vote uses them.
    pub learned: Option<&'a LearnedVotes>,
}

/// A prediction as one JSON record.
///
/// ```
/// use classify::classifier::Classifier;
/// use classify::classifier::answer::{Answer, Extras};
/// use classify::learn::Trainer;
/// use classify::text::corpus::Document;
/// use classify::threads::Threads;
///
/// let bread = Document::text("a", "bake the bread").labels(["cooking"]);
/// let model = Trainer::builder().build().train([bread])?.model;
/// let classifier = Classifier::new(model.into(), &Threads::available()?)?;
/// let query = Document::text("b", "fresh bread");
/// let raw = &classifier.predict_documents(&[query], &classifier.options())?[0];
/// let answer = Answer::new(classifier.model(), "b", raw, Extras::default());
/// assert_eq!(answer.labels, ["cooking"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Serialize)]
pub struct Answer<'a> {
    /// The identifier of the document.
    pub id: &'a str,
    /// The labels, best first.
    pub labels: Vec<&'a str>,
    /// The score of the best label: its share of the vote.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// The probability that the best label is correct; only if the model is calibrated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
    /// The expected share of correct labels among the predicted labels; only if the model is
    /// calibrated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// The reason why labels are missing or unreliable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    /// The labels with the highest scores, whether predicted or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scores: Option<Vec<ScoredLabel<'a>>>,
    /// The training documents that voted, best first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub neighbors: Option<Vec<NamedNeighbor<'a>>>,
    /// The neighbors found by dense vectors, if `neighbors` contains the neighbors found by terms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_vectors: Option<Vec<NamedNeighbor<'a>>>,
    /// The explanation of the prediction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<NamedExplanation<'a>>,
}

impl<'a> Answer<'a> {
    /// Creates the answer for a document.
    ///
    /// # Panics
    /// Panics if the prediction belongs to another model.
    pub fn new(
        model: &'a Model,
        id: &'a str,
        prediction: &RawPrediction,
        extras: Extras<'_>,
    ) -> Self {
        let named_neighbors = |neighbors: &[Neighbor]| {
            let named_neighbor = |&neighbor: &Neighbor| {
                let named = NamedNeighbor::new(model, neighbor);
                let vote_weights = extras.learned.map(|votes| {
                    let weights = votes.of(neighbor.row);
                    let weights =
                        weights.map(|entry| (model.label_name(entry.label), entry.weight));
                    weights.filter(|(_, weight)| *weight != 0.0).collect()
                });
                NamedNeighbor { vote_weights, text: named.text.filter(|_| extras.texts), ..named }
            };
            neighbors.iter().map(named_neighbor).collect()
        };
        let neighbors = extras.neighbors.then(|| named_neighbors(&prediction.neighbors));
        let has_by_vectors = extras.neighbors && !prediction.by_vectors.is_empty();
        Self {
            id,
            labels: prediction.label_names(model),
            score: prediction.scores.first().map(|score| score.score),
            probability: prediction.probabilities.first().copied(),
            confidence: prediction.confidence,
            reason: prediction.reason.map(Reason::name),
            scores: extras.scores.map(|max| prediction.scored_labels(model).take(max).collect()),
            neighbors,
            by_vectors: has_by_vectors.then(|| named_neighbors(&prediction.by_vectors)),
            explanation: None,
        }
    }
}
