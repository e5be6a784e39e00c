//! Explanations with names instead of numbers, for JSON.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{
    ExplainedLabel, ExplainedNeighbor, ExplainedPrototype, Explanation, MarkedText,
    TermContribution, against, in_favor, marks,
};
use crate::classifier::Reason;
use crate::decide::decision::Decision;
use crate::model::Model;

/// Maximum number of neighbors in whose texts terms are marked.
const MAX_MARKED_NEIGHBORS: usize = 50;

/// An [`Explanation`] with names instead of numbers. Its JSON follows the schema
/// `classify.explanation/1`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NamedExplanation<'a> {
    /// The name of the schema.
    pub schema: &'static str,
    /// The identifier of the document.
    pub id: &'a str,
    /// The predicted labels, best first.
    pub labels: Vec<&'a str>,
    /// The expected share of correct labels among the predicted labels; only if the model is
    /// calibrated.
    pub confidence: Option<f64>,
    /// The reason why no label was predicted.
    pub reason: Option<&'static str>,
    /// The decision in words.
    pub decided: String,
    /// The document's terms that are not in the vocabulary.
    pub unknown: &'a [String],
    /// The document's text, divided at the terms that it shares with neighbors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub marked: Option<Vec<MarkedText<'a>>>,
    /// The labels with a vote, by decreasing score.
    pub scores: Vec<NamedLabel<'a>>,
    /// The neighbors that voted. Neighbors found by terms come first, best first, then neighbors
    /// found by dense vectors.
    pub neighbors: Vec<NamedNeighbor<'a>>,
}

/// A label, its score, and the terms that support and oppose it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NamedLabel<'a> {
    /// The label.
    pub label: &'a str,
    /// The score: the label's share of the votes.
    pub score: f64,
    /// The probability that the label is correct, if the model is calibrated.
    pub probability: Option<f64>,
    /// The score that the label needs; `None` if the decision uses no threshold.
    pub threshold: Option<f64>,
    /// Whether the label is predicted.
    pub given: bool,
    /// The terms that support the label, strongest first.
    #[serde(rename = "for")]
    pub in_favor: Vec<NamedContribution>,
    /// The terms that oppose the label, strongest first.
    pub against: Vec<NamedContribution>,
    /// The contribution of the label's prototype, if prototypes have a share in the score.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prototype: Option<NamedPrototype>,
}

/// The contribution of a label's [prototype](crate::decide::vote::Prototypes).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NamedPrototype {
    /// The prototype's score, from 0 to 1.
    pub score: f64,
    /// The share of prototypes in the scores of labels.
    pub share: f64,
    /// The constant term of the margin, which does not depend on the document.
    pub constant: f32,
    /// The contribution of the document's dense vector to the margin, if prototypes use vectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vector: Option<f64>,
    /// The terms that support the label, strongest first.
    #[serde(rename = "for")]
    pub in_favor: Vec<NamedContribution>,
    /// The terms that oppose the label, strongest first.
    pub against: Vec<NamedContribution>,
}

/// A neighbor, its vote, and the terms that it shares with the document.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NamedNeighbor<'a> {
    /// The identifier of the training document.
    pub id: &'a str,
    /// The row of the training document.
    pub row: u32,
    /// The similarity.
    pub similarity: f32,
    /// The neighbor's share of all votes.
    pub vote: f64,
    /// How the neighbor was found: by `terms` or by its `vector`.
    pub by: &'static str,
    /// The labels of the training document.
    pub labels: Vec<&'a str>,
    /// The shared terms, by decreasing contribution to the similarity.
    pub terms: Vec<NamedContribution>,
    /// The text of the training document, if the model keeps texts and the text is not in `marked`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<&'a str>,
    /// The text of the training document, divided at the terms that it shares with the explained
    /// document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub marked: Option<Vec<MarkedText<'a>>>,
}

/// A term and its contribution to a sum.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NamedContribution {
    /// The term.
    pub term: String,
    /// The contribution of the term.
    pub part: f64,
}

impl NamedExplanation<'_> {
    /// Removes unmarked texts of neighbors.
    pub fn without_texts(&mut self) {
        for neighbor in &mut self.neighbors {
            neighbor.text = None;
        }
    }
}

impl Explanation {
    /// Returns the explanation as JSON in the schema `classify.explanation/1`. It lists at most
    /// `terms` terms that support each label, and at most `terms` terms that oppose it.
    ///
    /// # Panics
    /// Panics if the explanation was made with another model.
    pub fn json(&self, model: &Model, id: &str, terms: usize) -> String {
        serde_json::to_string(&self.named(model, id, terms)).expect("names and numbers")
    }

    /// Returns the explanation with names instead of numbers. It lists at most `terms` terms that
    /// support each label, and at most `terms` terms that oppose it.
    ///
    /// # Panics
    /// Panics if the explanation was made with another model.
    pub fn named<'a>(
        &'a self,
        model: &'a Model,
        id: &'a str,
        terms: usize,
    ) -> NamedExplanation<'a> {
        NamedExplanation {
            schema: "classify.explanation/1",
            id,
            labels: self.prediction.labels.iter().map(|&label| model.label_name(label)).collect(),
            confidence: self.prediction.confidence,
            reason: self.prediction.reason.map(Reason::name),
            decided: self.describe_decision(model),
            unknown: &self.unknown,
            marked: None,
            scores: self.labels.iter().map(|label| label.named(model, terms)).collect(),
            neighbors: self.neighbors.iter().map(|neighbor| neighbor.named(model)).collect(),
        }
    }

    /// Like [`named`](Self::named), but with marked terms in the document's `text` and, if the
    /// model keeps texts, in the texts of the first 50 neighbors.
    ///
    /// # Panics
    /// Panics if the explanation was made with another model.
    pub fn marked<'a>(
        &'a self,
        model: &'a Model,
        id: &'a str,
        text: &'a str,
        terms: usize,
    ) -> NamedExplanation<'a> {
        let mut named = self.named(model, id, terms);
        let mut all: BTreeMap<u32, f64> = BTreeMap::new();
        let neighbors = self.neighbors.iter().zip(&mut named.neighbors);
        for (rank, (neighbor, named)) in neighbors.enumerate() {
            for term in &neighbor.terms {
                *all.entry(term.term).or_default() += term.contribution * neighbor.vote;
            }
            let text = named.text.take().filter(|_| rank < MAX_MARKED_NEIGHBORS);
            named.marked = text.map(|text| marks(model, text, &neighbor.terms));
        }
        let all: Vec<TermContribution> = all
            .into_iter()
            .map(|(term, contribution)| TermContribution { term, contribution })
            .collect();
        named.marked = Some(marks(model, text, &all));
        named
    }

    /// Describes the decision in words.
    fn describe_decision(&self, model: &Model) -> String {
        let labels: Vec<&str> =
            self.prediction.labels.iter().map(|&label| model.label_name(label)).collect();
        let labels = if labels.is_empty() { "no label".to_owned() } else { labels.join(", ") };
        let why = match self.prediction.reason {
            Some(reason) => self.reason_for_no_label(reason),
            None => self.reason_for_labels(model),
        };
        let confidence = self.prediction.confidence.filter(|_| self.prediction.reason.is_none());
        let confidence =
            confidence.map_or(String::new(), |value| format!(", confidence {value:.3}"));
        format!("{labels} ({why}{confidence})")
    }

    fn reason_for_labels(&self, model: &Model) -> String {
        match &self.labels[..] {
            [first, second, ..] if self.decision == Decision::Single => format!(
                "{}, {:.3} more than {}",
                first.score_in_words(),
                first.score - second.score,
                model.label_name(second.label)
            ),
            [first, ..] if self.decision == Decision::Single => first.score_in_words(),
            _ => self.decision.to_string(),
        }
    }

    fn reason_for_no_label(&self, reason: Reason) -> String {
        let why = match reason {
            Reason::NoKnownTerm => "the model knows none of its terms",
            Reason::NoNeighbor => "no training document is similar",
            Reason::NoLabel => "no neighbor has a label",
            Reason::OutOfDistribution => {
                "it seems to have none of the model's labels, so it gets none"
            }
            Reason::LowConfidence => {
                let confidence = self.prediction.confidence.unwrap_or(0.0);
                let limit = self.abstention.and_then(|limit| limit.confidence);
                let limit = limit.map_or("of 1".to_owned(), |limit| format!("{limit:.3}"));
                return format!(
                    "its confidence {confidence:.3} is below the limit {limit}, so no label is \
                     given"
                );
            }
        };
        why.to_owned()
    }
}

impl ExplainedLabel {
    fn named<'a>(&self, model: &'a Model, terms: usize) -> NamedLabel<'a> {
        NamedLabel {
            label: model.label_name(self.label),
            score: self.score,
            probability: self.probability,
            threshold: self.threshold,
            given: self.is_given,
            in_favor: contributions(model, in_favor(&self.evidence).take(terms)),
            against: contributions(model, against(&self.evidence).take(terms)),
            prototype: self.prototype.as_ref().map(|prototype| prototype.named(model, terms)),
        }
    }

    fn score_in_words(&self) -> String {
        match self.prototype {
            Some(_) => format!("score {:.3}", self.score),
            None => format!("{:.3} of the votes", self.score),
        }
    }
}

impl ExplainedPrototype {
    fn named(&self, model: &Model, terms: usize) -> NamedPrototype {
        NamedPrototype {
            score: self.score,
            share: self.share,
            constant: self.constant,
            vector: self.vector,
            in_favor: contributions(model, in_favor(&self.terms).take(terms)),
            against: contributions(model, against(&self.terms).take(terms)),
        }
    }
}

impl ExplainedNeighbor {
    fn named<'a>(&self, model: &'a Model) -> NamedNeighbor<'a> {
        let labels = model.document_labels(self.row);
        NamedNeighbor {
            id: model.ids().get(self.row as usize).expect("a training document"),
            row: self.row,
            similarity: self.similarity,
            vote: self.vote,
            by: if self.by_vector { "vector" } else { "terms" },
            labels: labels.iter().map(|&label| model.label_name(label)).collect(),
            terms: contributions(model, self.terms.iter()),
            text: model.text(self.row),
            marked: None,
        }
    }
}

fn contributions<'a>(
    model: &Model,
    terms: impl Iterator<Item = &'a TermContribution>,
) -> Vec<NamedContribution> {
    let vocabulary = model.vocabulary();
    let named = |term: &TermContribution| NamedContribution {
        term: vocabulary.term(term.term).expect("a term of this model").to_owned(),
        part: term.contribution,
    };
    terms.map(named).collect()
}
