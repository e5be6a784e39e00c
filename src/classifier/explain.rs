//! Explanations of predictions: the neighbors that voted, the terms that they share with the
//! document, and how these terms support or oppose each label.
//!
//! ```
//! use classify::classifier::Classifier;
//! use classify::classifier::explain::explain;
//! use classify::learn::Trainer;
//! use classify::text::corpus::Document;
//! use classify::threads::Threads;
//!
//! let documents = [
//!     Document::text("a", "bake the bread").labels(["cooking"]),
//!     Document::text("b", "the guitar strings").labels(["music"]),
//! ];
//! let model = Trainer::builder().build().train(documents)?.model;
//! let classifier = Classifier::new(model.into(), &Threads::available()?)?;
//!
//! let document = Document::text("c", "fresh bread");
//! let explanation = &explain(&classifier, &[document], &classifier.options())?[0];
//! let neighbor = &explanation.neighbors[0];
//! assert_eq!(classifier.model().vocabulary().term(neighbor.terms[0].term), Some("bread"));
//! assert_eq!(neighbor.terms[0].contribution as f32, neighbor.similarity);
//! assert_eq!(explanation.unknown, ["fresh"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::{BTreeMap, HashSet};

use crate::classifier::{
    Classifier, ClassifyError, ClassifyOptions, DocumentVectors, FoundNeighbors, RawPrediction,
};
use crate::decide::calibrate::ConfidenceLimit;
use crate::decide::decision::Decision;
use crate::decide::vote::{LabelScore, TrainingLabels, VoteWeight, Voters};
use crate::model::Model;
use crate::rows::matrix::row;
use crate::search::{NEVER, Neighbor, SearchError, Stop};
use crate::text::corpus::{Content, Document};

mod marks;
mod named;

pub use marks::{MarkedText, marks};
pub use named::{NamedContribution, NamedExplanation, NamedLabel, NamedNeighbor, NamedPrototype};

/// The explanation of a prediction.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// The prediction.
    pub prediction: RawPrediction,
    /// The document's terms that are not in the vocabulary, without repetitions, in text order.
    pub unknown: Vec<String>,
    /// The neighbors that voted. Neighbors found by terms come first, best first, then neighbors
    /// found by dense vectors.
    pub neighbors: Vec<ExplainedNeighbor>,
    /// The labels with a vote, by decreasing score.
    pub labels: Vec<ExplainedLabel>,
    /// How labels were chosen.
    pub decision: Decision,
    /// The confidence limit below which the model abstains.
    pub abstention: Option<ConfidenceLimit>,
}

/// A neighbor, its vote, and the terms that it shares with the document.
#[derive(Debug, Clone, PartialEq)]
pub struct ExplainedNeighbor {
    /// The row of the training document.
    pub row: u32,
    /// The similarity.
    pub similarity: f32,
    /// The neighbor's share of all votes, before weights per label (`learned`, `/size^G`) are
    /// applied.
    pub vote: f64,
    /// Whether the neighbor was found by its dense vector.
    pub by_vector: bool,
    /// The shared terms, by decreasing contribution. The similarity is the sum of the
    /// contributions, added as `f64` in order of term ids and rounded once to `f32`. Empty for a
    /// neighbor found by its dense vector.
    pub terms: Vec<TermContribution>,
}

/// A term and its contribution to a sum.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TermContribution {
    /// The term's id.
    pub term: u32,
    /// The contribution of the term.
    pub contribution: f64,
}

/// A label, its score, and the terms that support and oppose it.
#[derive(Debug, Clone, PartialEq)]
pub struct ExplainedLabel {
    /// The label's number.
    pub label: u32,
    /// The score: the label's share of the votes.
    pub score: f64,
    /// The probability that the label is correct, if the model is calibrated.
    pub probability: Option<f64>,
    /// The score that the label needs; `None` if the decision uses no threshold.
    pub threshold: Option<f64>,
    /// Whether the label is predicted.
    pub is_given: bool,
    /// The evidence of each shared term, highest first. It is positive if the term supports the
    /// label, and negative if the term opposes it. See [`explain`].
    pub evidence: Vec<TermContribution>,
    /// The contribution of the label's prototype, if prototypes have a share in the score.
    pub prototype: Option<ExplainedPrototype>,
}

/// The contribution of a label's [prototype](crate::decide::vote::Prototypes) to its score.
#[derive(Debug, Clone, PartialEq)]
pub struct ExplainedPrototype {
    /// The prototype's score, from 0 to 1.
    pub score: f64,
    /// The share of prototypes in the scores of labels. The votes of neighbors have the rest.
    pub share: f64,
    /// The constant term of the margin, which does not depend on the document.
    pub constant: f32,
    /// The contribution of the document's dense vector to the margin, if prototypes use vectors.
    pub vector: Option<f64>,
    /// The contributions of terms to the margin, highest first. They are positive if the term
    /// supports the label.
    pub terms: Vec<TermContribution>,
}

/// Classifies documents and explains each prediction.
///
/// A neighbor's vote is divided among the terms that it shares with the document, in proportion to
/// their contributions to the similarity. A term's evidence for a label is its observed share of
/// the votes minus its expected share. The observed share counts only the votes of neighbors that
/// have the label. The expected share is the term's share of all votes times the label's share of
/// the training documents. A term opposes a label if the neighbors with the term have the label
/// less often than the training documents do.
///
/// The evidence of all terms sums to the label's share of the votes minus its share of the training
/// documents. This holds if votes have no weights per label and all neighbors were found by terms.
/// Neighbors found by dense vectors have no shared terms. Contributions of prototypes are separate.
///
/// # Errors
/// Returns the errors of [`Classifier::predict_documents`].
pub fn explain(
    classifier: &Classifier,
    documents: &[Document],
    options: &ClassifyOptions,
) -> Result<Vec<Explanation>, ClassifyError> {
    explain_until(classifier, documents, options, &NEVER)
}

/// Like [`explain`], but `stop` can end it early.
///
/// # Errors
/// Returns the errors of [`explain`]. Also fails if the search was stopped.
pub fn explain_until(
    classifier: &Classifier,
    documents: &[Document],
    options: &ClassifyOptions,
    stop: &Stop,
) -> Result<Vec<Explanation>, ClassifyError> {
    let vectors = classifier.vectorize(documents)?;
    let mut found = FoundNeighbors::default();
    let _ = classifier.neighbors_until(&vectors, options, stop, &mut found)?;
    let predictions = classifier.predict_from_neighbors(&vectors, &found, options);
    let model = classifier.model();
    let rows = vectors.rows.view();
    let mut explanations = Vec::with_capacity(documents.len());
    for (query, (prediction, document)) in predictions.into_iter().zip(documents).enumerate() {
        if stop.is_stopped() {
            return Err(SearchError::Stopped.into());
        }
        let (terms, weights) = row(&rows, query);
        let query_row = TermRow { terms, weights };
        let voters = found.get(query).first(options.k.get());
        let neighbors = explain_neighbors(model, voters, options, query_row);
        let mut labels = explain_labels(model, &prediction, &neighbors, &options.decision);
        add_prototypes(model, options, &vectors, query, &mut labels);
        explanations.push(Explanation {
            prediction,
            unknown: unknown_terms(model, &document.content),
            neighbors,
            labels,
            decision: options.decision.clone(),
            abstention: options.abstention,
        });
    }
    Ok(explanations)
}

/// Returns the terms of a text that are not in the vocabulary, without repetitions, in text order.
fn unknown_terms(model: &Model, content: &Content) -> Vec<String> {
    let Some(analyzer) = model.analyzer() else { return Vec::new() };
    let texts: &[String] = match content {
        Content::Text(text) => std::slice::from_ref(text),
        Content::Fields(fields) => fields,
        Content::Features(_) => return Vec::new(),
    };
    let mut unknown = Vec::new();
    let mut seen = HashSet::new();
    for term in texts.iter().flat_map(|text| analyzer.terms(text)) {
        if model.vocabulary().id(&term).is_none() && seen.insert(term.clone()) {
            unknown.push(term);
        }
    }
    unknown
}

/// The weighted terms of a document, by term id.
#[derive(Debug, Clone, Copy)]
struct TermRow<'a> {
    terms: &'a [u32],
    weights: &'a [f32],
}

impl TermRow<'_> {
    /// Returns the product of the two weights of each common term, in order of term ids.
    fn products(self, other: TermRow<'_>) -> Vec<TermContribution> {
        let mut others = other.terms.iter().zip(other.weights).peekable();
        let mut products = Vec::new();
        for (&term, &weight) in self.terms.iter().zip(self.weights) {
            while others.next_if(|(candidate, _)| **candidate < term).is_some() {}
            if let Some((_, &other)) = others.next_if(|(candidate, _)| **candidate == term) {
                products.push(TermContribution {
                    term,
                    contribution: f64::from(weight) * f64::from(other),
                });
            }
        }
        products
    }
}

fn explain_neighbors(
    model: &Model,
    voters: Voters<'_>,
    options: &ClassifyOptions,
    query: TermRow<'_>,
) -> Vec<ExplainedNeighbor> {
    let training = model.training_labels();
    let only_vectors = options.dense_share >= 1.0;
    let mut all = Vec::new();
    for (list, (neighbors, share)) in voters.lists().into_iter().enumerate() {
        let by_vector = list == 1 || only_vectors;
        let shares = vote_shares(neighbors, options.vote.weight, &training);
        all.extend(neighbors.iter().zip(shares).map(|(neighbor, vote)| {
            let terms = if by_vector {
                Vec::new()
            } else {
                let (terms, weights) = model.document_terms(neighbor.row);
                sort_by_contribution(query.products(TermRow { terms, weights }))
            };
            ExplainedNeighbor {
                row: neighbor.row,
                similarity: neighbor.similarity,
                vote: share * vote,
                by_vector,
                terms,
            }
        }));
    }
    all
}

/// Returns each neighbor's share of the votes of its list.
fn vote_shares(
    neighbors: &[Neighbor],
    weight: VoteWeight,
    training: &TrainingLabels<'_>,
) -> Vec<f64> {
    let best = neighbors.first().map_or(0.0, |neighbor| neighbor.similarity);
    let vote = |(rank, neighbor): (usize, &Neighbor)| {
        let document_weight = f64::from(training.weights[neighbor.row as usize]);
        weight.value(neighbor.similarity, rank, best) * document_weight
    };
    let votes: Vec<f64> = neighbors.iter().enumerate().map(vote).collect();
    let total: f64 = votes.iter().sum();
    votes.into_iter().map(|vote| if total > 0.0 { vote / total } else { 0.0 }).collect()
}

/// Sorts terms by decreasing contribution.
fn sort_by_contribution(mut contributions: Vec<TermContribution>) -> Vec<TermContribution> {
    contributions
        .sort_by(|a, b| b.contribution.total_cmp(&a.contribution).then(a.term.cmp(&b.term)));
    contributions
}

fn explain_labels(
    model: &Model,
    prediction: &RawPrediction,
    neighbors: &[ExplainedNeighbor],
    decision: &Decision,
) -> Vec<ExplainedLabel> {
    let shares = model.label_shares();
    let explained = prediction.scores.iter().enumerate().map(|(rank, found)| ExplainedLabel {
        label: found.label,
        score: found.score,
        probability: prediction.probabilities.get(rank).copied(),
        threshold: threshold(decision, found, rank),
        is_given: prediction.labels.contains(&found.label),
        evidence: evidence(model, neighbors, found.label, shares[found.label as usize]),
        prototype: None,
    });
    explained.collect()
}

/// Returns the score that the label at a rank needs.
fn threshold(decision: &Decision, found: &LabelScore, rank: usize) -> Option<f64> {
    match decision {
        Decision::Multi { threshold, .. } => Some(*threshold),
        Decision::PerLabel { rule, thresholds, .. } => {
            let threshold = thresholds.get(found.label as usize).copied().flatten();
            // If the rule uses the rank, convert its threshold to the score that a label at this
            // rank needs.
            threshold.map(|threshold| threshold - rule.value(found.score, rank) + found.score)
        }
        _ => None,
    }
}

/// Computes the evidence of each shared term for a label, given the label's share of the training
/// documents.
fn evidence(
    model: &Model,
    neighbors: &[ExplainedNeighbor],
    label: u32,
    label_share: f64,
) -> Vec<TermContribution> {
    let training = model.training_labels();
    let mut evidence: BTreeMap<u32, f64> = BTreeMap::new();
    for neighbor in neighbors {
        let has_label = training.labels(neighbor.row).binary_search(&label).is_ok();
        let beyond_chance = f64::from(u8::from(has_label)) - label_share;
        let similarity: f64 = neighbor.terms.iter().map(|term| term.contribution).sum();
        let vote_per_similarity = if similarity > 0.0 { neighbor.vote / similarity } else { 0.0 };
        for term in &neighbor.terms {
            *evidence.entry(term.term).or_default() +=
                beyond_chance * vote_per_similarity * term.contribution;
        }
    }
    sort_by_contribution(
        evidence
            .into_iter()
            .map(|(term, contribution)| TermContribution { term, contribution })
            .collect(),
    )
}

/// Adds the contributions of prototypes, if they have a share in the scores.
fn add_prototypes(
    model: &Model,
    options: &ClassifyOptions,
    vectors: &DocumentVectors,
    document: usize,
    labels: &mut [ExplainedLabel],
) {
    let share = options.vote.prototypes;
    let Some(prototypes) = model.prototypes().filter(|_| share > 0.0) else { return };
    let row = vectors.prototype_row(document, model, prototypes);
    let scores = prototypes.scores(&row.columns, &row.values);
    let term_count = model.prototype_terms();
    for label in labels {
        label.prototype = scores[label.label as usize].map(|score| {
            let (contributions, constant) =
                prototypes.contributions(label.label, &row.columns, &row.values);
            let is_term = |&(column, _): &(u32, f64)| (column as usize) < term_count;
            let (terms, of_vector): (Vec<_>, Vec<_>) = contributions.into_iter().partition(is_term);
            let vector = of_vector.iter().map(|&(_, contribution)| contribution).sum();
            let terms = terms
                .into_iter()
                .map(|(term, contribution)| TermContribution { term, contribution })
                .collect();
            ExplainedPrototype {
                score: score.into(),
                share,
                constant,
                vector: prototypes.use_vectors().then_some(vector),
                terms: sort_by_contribution(terms),
            }
        });
    }
}

/// Returns the terms that support a label, strongest first.
fn in_favor(terms: &[TermContribution]) -> impl Iterator<Item = &TermContribution> {
    terms.iter().take_while(|term| term.contribution > 0.0)
}

/// Returns the terms that oppose a label, strongest first.
fn against(terms: &[TermContribution]) -> impl Iterator<Item = &TermContribution> {
    terms.iter().rev().take_while(|term| term.contribution < 0.0)
}
