//! Why a document gets its labels: the neighbors that voted, the terms that they share with it, and what these terms
//! say for and against each label.
//!
//! ```
//! use classify::classifier::{Classifier, train};
//! use classify::text::corpus::{Corpus, LabelUse, ReadOptions};
//! use classify::decide::decision::Decision;
//! use classify::classifier::explain::explain;
//! use classify::model::{InputSpec, TrainSettings};
//! use classify::threads::Threads;
//!
//! let corpus = "{\"text\": \"bake the bread\", \"label\": \"cooking\"}
//! {\"text\": \"the guitar strings\", \"label\": \"music\"}";
//! let mut documents = Corpus::from_bytes("two lines", corpus.into(), ReadOptions::default())?;
//! let settings = TrainSettings::new(InputSpec::default(), Decision::Single);
//! let threads = Threads::available()?;
//! let model = train(&mut documents, settings, Default::default(), &threads)?;
//! let classifier = Classifier::new(model.into(), &threads)?;
//!
//! let options = ReadOptions { labels: LabelUse::Optional, ..ReadOptions::default() };
//! let mut fresh = Corpus::from_bytes("one line", "{\"text\": \"fresh bread\"}".into(), options)?;
//! let document = fresh.next().expect("a line")?;
//! let explanation = &explain(&classifier, &[document], &classifier.options())?[0];
//! let neighbor = &explanation.neighbors[0];
//! assert_eq!(classifier.model().vocabulary().term(neighbor.terms[0].term), Some("bread"));
//! assert_eq!(neighbor.terms[0].part as f32, neighbor.similarity);
//! assert_eq!(explanation.unknown, ["fresh"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use crate::classifier::{
    Classifier, ClassifyError, ClassifyOptions, FoundNeighbors, Prediction, Reason,
};
use crate::decide::calibrate::ConfidenceLimit;
use crate::decide::decision::Decision;
use crate::decide::vote::{TrainingLabels, VoteWeight, Voters};
use crate::model::Model;
use crate::rows::matrix::row;
use crate::search::{NEVER, Neighbor, SearchError, Stop};
use crate::text::corpus::{Content, Document};

pub mod html;
mod marks;

pub use marks::{Marked, marks};

/// Why a document gets its labels.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// The prediction.
    pub prediction: Prediction,
    /// The document's terms that are not in the vocabulary, each once, in order.
    pub unknown: Vec<String>,
    /// The neighbors that voted: those found by terms, best first, then those found by dense vectors.
    pub neighbors: Vec<ExplainedNeighbor>,
    /// The labels with a vote, by decreasing score.
    pub labels: Vec<ExplainedLabel>,
    /// How labels were chosen.
    pub decision: Decision,
    /// When the model abstains.
    pub abstention: Option<ConfidenceLimit>,
}

/// A neighbor, its vote, and what makes it similar.
#[derive(Debug, Clone, PartialEq)]
pub struct ExplainedNeighbor {
    /// The training document.
    pub row: u32,
    /// The similarity.
    pub similarity: f32,
    /// Its share of all votes, before these are multiplied by what they are worth for a label (`learned`, `/size^G`).
    pub vote: f64,
    /// Whether it was found by its dense vector.
    pub by_vector: bool,
    /// The shared terms, by decreasing part. Added as `f64` in order of term ids and rounded once to `f32`, the parts are the
    /// similarity. Empty for a neighbor found by its dense vector.
    pub terms: Vec<TermPart>,
}

/// A term and its part of a sum.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TermPart {
    /// The term's id.
    pub term: u32,
    /// Its part.
    pub part: f64,
}

/// A label, its score, and the terms that speak for and against it.
#[derive(Debug, Clone, PartialEq)]
pub struct ExplainedLabel {
    /// The label's number.
    pub label: u32,
    /// Its score: the share of the votes.
    pub score: f64,
    /// Its probability, of a calibrated model.
    pub probability: Option<f64>,
    /// The score that it needs; `None` if no threshold decides.
    pub threshold: Option<f64>,
    /// Whether the document gets it.
    pub is_given: bool,
    /// What each shared term says: positive for the label, negative against it; the greatest first. See [`explain`].
    pub evidence: Vec<TermPart>,
    /// What its prototype says, if prototypes have a share in the score.
    pub prototype: Option<ExplainedPrototype>,
}

/// What the [prototype](crate::decide::vote::Prototypes) of a label says about a document.
#[derive(Debug, Clone, PartialEq)]
pub struct ExplainedPrototype {
    /// Its score, from 0 to 1.
    pub score: f64,
    /// The share of prototypes in the scores of labels; the votes of neighbors have the rest.
    pub share: f64,
    /// The part of the margin that does not depend on the document.
    pub constant: f32,
    /// The parts of the margin by terms: positive for the label, negative against it; the greatest first.
    pub terms: Vec<TermPart>,
}

/// Classifies documents and explains each prediction.
///
/// A neighbor's vote is divided among the terms that it shares with the document, in proportion to their parts of the
/// similarity. A term's evidence for a label is its share of the votes of the neighbors that have the label, less what a
/// label with the same share of the training documents would get of its votes by chance. So the evidence of all terms sums to
/// the label's share of the votes less its share of the training documents (but for votes that are multiplied by what they
/// are worth, and neighbors found by dense vectors, which have no terms; what prototypes say comes on top), and a term whose neighbors have the label
/// less often than the training documents do speaks against it.
///
/// # Errors
/// As [`Classifier::classify`].
pub fn explain(
    classifier: &Classifier,
    documents: &[Document],
    options: &ClassifyOptions,
) -> Result<Vec<Explanation>, ClassifyError> {
    explain_until(classifier, documents, options, &NEVER)
}

/// Like [`explain`], but can be ended early by `stop`.
///
/// # Errors
/// As [`explain`], or if it was stopped.
pub fn explain_until(
    classifier: &Classifier,
    documents: &[Document],
    options: &ClassifyOptions,
    stop: &Stop,
) -> Result<Vec<Explanation>, ClassifyError> {
    let vectors = classifier.vectorize(documents)?;
    let mut found = FoundNeighbors::default();
    let _ = classifier.neighbors_until(&vectors, options, stop, &mut found)?;
    let predictions = classifier.predict(&vectors, &found, options);
    let model = classifier.model();
    let explained = predictions.into_iter().zip(documents).enumerate().map(
        |(query, (prediction, document))| {
            if stop.is_stopped() {
                return Err(SearchError::Stopped.into());
            }
            let voters = found.get(query).first(options.k.get());
            let rows = vectors.rows.view();
            let neighbors = neighbors(model, voters, options, row(&rows, query));
            let mut labels = labels(model, &prediction, &neighbors, &options.decision);
            add_prototypes(model, options, row(&rows, query), &mut labels);
            let unknown = unknown(model, &document.content);
            let (decision, abstention) = (options.decision.clone(), options.abstention);
            Ok(Explanation { prediction, unknown, neighbors, labels, decision, abstention })
        },
    );
    explained.collect()
}

/// The terms of a text that the model does not know.
fn unknown(model: &Model, content: &Content) -> Vec<String> {
    let Some(analyzer) = model.analyzer() else { return Vec::new() };
    let texts: &[String] = match content {
        Content::Text(text) => std::slice::from_ref(text),
        Content::Fields(fields) => fields,
        Content::Features(_) => return Vec::new(),
    };
    let mut unknown = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for term in texts.iter().flat_map(|text| analyzer.terms(text)) {
        if model.vocabulary().id(&term).is_none() && seen.insert(term.clone()) {
            unknown.push(term);
        }
    }
    unknown
}

fn neighbors(
    model: &Model,
    voters: Voters<'_>,
    options: &ClassifyOptions,
    query: (&[u32], &[f32]),
) -> Vec<ExplainedNeighbor> {
    let among = model.training_labels();
    let lists = voters.lists();
    let by_terms = options.dense_share < 1.0;
    let mut all = Vec::new();
    for (list, (neighbors, share)) in lists.into_iter().enumerate() {
        let values = votes(neighbors, options.vote.weight, &among);
        let by_vector = list == 1 || !by_terms;
        all.extend(neighbors.iter().zip(values).map(|(neighbor, vote)| ExplainedNeighbor {
            row: neighbor.row,
            similarity: neighbor.similarity,
            vote: share * vote,
            by_vector,
            terms: if by_vector {
                Vec::new()
            } else {
                by_part(shared(query, model.document_terms(neighbor.row)))
            },
        }));
    }
    all
}

/// Each neighbor's share of the votes of its list.
fn votes(neighbors: &[Neighbor], weight: VoteWeight, among: &TrainingLabels<'_>) -> Vec<f64> {
    let best = neighbors.first().map_or(0.0, |neighbor| neighbor.similarity);
    let value = |(rank, neighbor): (usize, &Neighbor)| {
        weight.value(neighbor.similarity, rank, best)
            * f64::from(among.weights[neighbor.row as usize])
    };
    let values: Vec<f64> = neighbors.iter().enumerate().map(value).collect();
    let total: f64 = values.iter().sum();
    values.into_iter().map(|value| if total > 0.0 { value / total } else { 0.0 }).collect()
}

/// The products of the weights of the terms that two rows share, in order of term ids.
fn shared(a: (&[u32], &[f32]), b: (&[u32], &[f32])) -> Vec<TermPart> {
    let mut other = b.0.iter().zip(b.1).peekable();
    let mut parts = Vec::new();
    for (&term, &weight) in a.0.iter().zip(a.1) {
        while other.next_if(|(candidate, _)| **candidate < term).is_some() {}
        if let Some((_, &of_other)) = other.next_if(|(candidate, _)| **candidate == term) {
            parts.push(TermPart { term, part: f64::from(weight) * f64::from(of_other) });
        }
    }
    parts
}

fn by_part(mut parts: Vec<TermPart>) -> Vec<TermPart> {
    parts.sort_by(|a, b| b.part.total_cmp(&a.part).then(a.term.cmp(&b.term)));
    parts
}

fn labels(
    model: &Model,
    prediction: &Prediction,
    neighbors: &[ExplainedNeighbor],
    decision: &Decision,
) -> Vec<ExplainedLabel> {
    let among = model.training_labels();
    let shares = model.label_shares();
    // For each neighbor with terms, what part of its vote goes to a unit of similarity.
    let unit = |neighbor: &ExplainedNeighbor| {
        let sum: f64 = neighbor.terms.iter().map(|term| term.part).sum();
        if sum > 0.0 { neighbor.vote / sum } else { 0.0 }
    };
    let explained = prediction.scores.iter().enumerate().map(|(rank, found)| {
        let has = |neighbor: &ExplainedNeighbor| {
            among.labels(neighbor.row).binary_search(&found.label).is_ok()
        };
        let share = shares[found.label as usize];
        let mut evidence: BTreeMap<u32, f64> = BTreeMap::new();
        for neighbor in neighbors {
            let speaks = (if has(neighbor) { 1.0 } else { 0.0 } - share) * unit(neighbor);
            for term in &neighbor.terms {
                *evidence.entry(term.term).or_default() += speaks * term.part;
            }
        }
        let evidence = evidence.into_iter().map(|(term, part)| TermPart { term, part });
        ExplainedLabel {
            label: found.label,
            score: found.score,
            probability: prediction.probabilities.get(rank).copied(),
            threshold: match decision {
                Decision::Multi { threshold, .. } => Some(*threshold),
                Decision::PerLabel { rule, thresholds, .. } => {
                    let own = thresholds.get(found.label as usize).copied().flatten();
                    // A threshold that the rank enters is shown as the score that this rank needs.
                    own.map(|own| own - rule.value(found.score, rank) + found.score)
                }
                _ => None,
            },
            is_given: prediction.labels.contains(&found.label),
            evidence: by_part(evidence.collect()),
            prototype: None,
        }
    });
    explained.collect()
}

/// Adds what prototypes say, if they have a share in the scores.
fn add_prototypes(
    model: &Model,
    options: &ClassifyOptions,
    query: (&[u32], &[f32]),
    labels: &mut [ExplainedLabel],
) {
    let share = options.vote.prototypes;
    let Some(prototypes) = model.prototypes().filter(|_| share > 0.0) else { return };
    let scores = prototypes.scores(query.0, query.1);
    for label in labels {
        label.prototype = scores[label.label as usize].map(|score| {
            let (parts, constant) = prototypes.contributions(label.label, query.0, query.1);
            let terms = parts.into_iter().map(|(term, part)| TermPart { term, part }).collect();
            ExplainedPrototype { score: score.into(), share, constant, terms: by_part(terms) }
        });
    }
}

/// An [`Explanation`] with names, as it is written in JSON: schema `classify.explanation/1`.
#[derive(Debug, Serialize)]
pub struct Named<'a> {
    schema: &'static str,
    id: &'a str,
    labels: Vec<&'a str>,
    confidence: Option<f64>,
    reason: Option<&'static str>,
    decided: String,
    unknown: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    marked: Option<Vec<Marked<'a>>>,
    scores: Vec<NamedLabel<'a>>,
    neighbors: Vec<NamedNeighbor<'a>>,
}

#[derive(Debug, Serialize)]
struct NamedLabel<'a> {
    label: &'a str,
    score: f64,
    probability: Option<f64>,
    threshold: Option<f64>,
    given: bool,
    #[serde(rename = "for")]
    in_favor: Vec<NamedPart>,
    against: Vec<NamedPart>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prototype: Option<NamedPrototype>,
}

#[derive(Debug, Serialize)]
struct NamedPrototype {
    score: f64,
    share: f64,
    constant: f32,
    #[serde(rename = "for")]
    in_favor: Vec<NamedPart>,
    against: Vec<NamedPart>,
}

#[derive(Debug, Serialize)]
struct NamedNeighbor<'a> {
    id: &'a str,
    row: u32,
    similarity: f32,
    vote: f64,
    by: &'static str,
    labels: Vec<&'a str>,
    terms: Vec<NamedPart>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    marked: Option<Vec<Marked<'a>>>,
}

#[derive(Debug, Serialize)]
struct NamedPart {
    term: String,
    part: f64,
}

impl Named<'_> {
    /// Leaves the neighbors' texts out.
    pub fn without_texts(&mut self) {
        for neighbor in &mut self.neighbors {
            neighbor.text = None;
        }
    }
}

/// How many neighbors' texts are marked.
const MARKED: usize = 50;
/// How many terms stand in a line of text.
const SHOWN: usize = 6;
/// How many labels that are not given stand in a text.
const OTHERS: usize = 2;

impl Explanation {
    /// The explanation as JSON, with names instead of numbers: schema `classify.explanation/1`. At most `terms` terms speak
    /// for a label, and as many against it.
    ///
    /// # Panics
    /// If the explanation is of another model.
    pub fn json(&self, model: &Model, id: &str, terms: usize) -> String {
        serde_json::to_string(&self.named(model, id, terms)).expect("names and numbers")
    }

    /// The explanation with names instead of numbers; at most `terms` terms speak for a label, and as many against it.
    ///
    /// # Panics
    /// If the explanation is of another model.
    pub fn named<'a>(&'a self, model: &'a Model, id: &'a str, terms: usize) -> Named<'a> {
        Named {
            schema: "classify.explanation/1",
            id,
            labels: self.prediction.labels.iter().map(|&label| name(model, label)).collect(),
            confidence: self.prediction.confidence,
            reason: self.prediction.reason.map(Reason::name),
            decided: self.decided(model),
            unknown: &self.unknown,
            marked: None,
            scores: self
                .labels
                .iter()
                .map(|label| NamedLabel {
                    label: name(model, label.label),
                    score: label.score,
                    probability: label.probability,
                    threshold: label.threshold,
                    given: label.is_given,
                    in_favor: parts(model, label.in_favor().take(terms)),
                    against: parts(model, label.against().take(terms)),
                    prototype: label.prototype.as_ref().map(|prototype| NamedPrototype {
                        score: prototype.score,
                        share: prototype.share,
                        constant: prototype.constant,
                        in_favor: parts(model, in_favor(&prototype.terms).take(terms)),
                        against: parts(model, against(&prototype.terms).take(terms)),
                    }),
                })
                .collect(),
            neighbors: self
                .neighbors
                .iter()
                .map(|neighbor| NamedNeighbor {
                    id: model.ids().get(neighbor.row as usize).expect("a training document"),
                    row: neighbor.row,
                    similarity: neighbor.similarity,
                    vote: neighbor.vote,
                    by: if neighbor.by_vector { "vector" } else { "terms" },
                    labels: names(model, neighbor.row),
                    terms: parts(model, neighbor.terms.iter()),
                    text: model.text(neighbor.row),
                    marked: None,
                })
                .collect(),
        }
    }

    /// The same with the places of the terms that the neighbors share: in the text, and in those of the first 50 neighbors if
    /// the model keeps them.
    ///
    /// # Panics
    /// If the explanation is of another model.
    pub fn marked<'a>(
        &'a self,
        model: &'a Model,
        (id, text): (&'a str, &'a str),
        terms: usize,
    ) -> Named<'a> {
        let mut named = self.named(model, id, terms);
        let mut left = MARKED;
        let mut all: BTreeMap<u32, f64> = BTreeMap::new();
        for (neighbor, named) in self.neighbors.iter().zip(&mut named.neighbors) {
            for term in &neighbor.terms {
                *all.entry(term.term).or_default() += term.part * neighbor.vote;
            }
            // Not twice.
            if left > 0 {
                named.marked = named.text.take().map(|text| marks(model, text, &neighbor.terms));
                left -= 1;
            }
            named.text = None;
        }
        let all: Vec<TermPart> =
            all.into_iter().map(|(term, part)| TermPart { term, part }).collect();
        named.marked = Some(marks(model, text, &all));
        named
    }

    /// The explanation as lines of text: the labels that are given and the next two, what speaks for and against each, and at
    /// most `neighbors` neighbors.
    ///
    /// # Panics
    /// If the explanation is of another model.
    pub fn text(&self, model: &Model, id: &str, neighbors: usize) -> String {
        let mut text = format!("{id}: {}\n", self.decided(model));
        let mut others = 0;
        let mut is_shown = |label: &ExplainedLabel| {
            others += usize::from(!label.is_given);
            label.is_given || others <= OTHERS
        };
        for label in self.labels.iter().filter(|label| is_shown(label)) {
            let mark = if label.is_given { '*' } else { ' ' };
            let _ = write!(text, "{mark} {}  score {:.3}", name(model, label.label), label.score);
            if let Some(probability) = label.probability {
                let _ = write!(text, ", probability {probability:.3}");
            }
            if let Some(threshold) = label.threshold {
                let _ = write!(text, ", needs {threshold:.3}");
            }
            text.push('\n');
            let lines = [
                ("for", parts(model, label.in_favor().take(SHOWN))),
                ("against", parts(model, label.against().take(SHOWN))),
            ];
            for (what, parts) in lines.iter().filter(|(_, parts)| !parts.is_empty()) {
                let parts: Vec<String> =
                    parts.iter().map(|part| format!("{} {:+.3}", part.term, part.part)).collect();
                let _ = writeln!(text, "    {what}: {}", parts.join(", "));
            }
            if let Some(ExplainedPrototype { score, share, terms, .. }) = &label.prototype {
                let _ = write!(text, "    prototype: {score:.3}, a share of {share} of the score");
                let strongest =
                    in_favor(terms).take(SHOWN / 2).chain(against(terms).take(SHOWN / 2));
                for part in parts(model, strongest) {
                    let _ = write!(text, ", {} {:+.3}", part.term, part.part);
                }
                text.push('\n');
            }
        }
        if let [_, ..] = self.neighbors[..] {
            let shown = neighbors.min(self.neighbors.len());
            let _ = writeln!(text, "neighbors ({shown} of {}):", self.neighbors.len());
        }
        for neighbor in self.neighbors.iter().take(neighbors) {
            let id = model.ids().get(neighbor.row as usize).expect("a training document");
            let (similarity, vote) = (neighbor.similarity, neighbor.vote);
            let labels = names(model, neighbor.row).join(", ");
            let by = if neighbor.by_vector { " (by its vector)" } else { "" };
            let _ = writeln!(text, "  {similarity:.3}{by}  vote {vote:.3}  {id}  {labels}");
            let shared = parts(model, neighbor.terms.iter().take(SHOWN));
            let shared: Vec<String> =
                shared.iter().map(|part| format!("{} {:.3}", part.term, part.part)).collect();
            if !shared.is_empty() {
                let more = neighbor.terms.len().saturating_sub(SHOWN);
                let more = if more > 0 { format!(", {more} more") } else { String::new() };
                let _ = writeln!(text, "         {}{more}", shared.join(", "));
            }
        }
        if !self.unknown.is_empty() {
            let shown: Vec<&str> = self.unknown.iter().take(20).map(String::as_str).collect();
            let more = self.unknown.len().saturating_sub(20);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let _ = writeln!(text, "unknown terms: {}{more}", shown.join(" "));
        }
        text
    }

    /// What decided, in words.
    ///
    /// # Panics
    /// If the explanation is of another model.
    pub fn decided(&self, model: &Model) -> String {
        let labels: Vec<&str> =
            self.prediction.labels.iter().map(|&label| name(model, label)).collect();
        let labels = if labels.is_empty() { "no label".to_owned() } else { labels.join(", ") };
        let because = match self.prediction.reason {
            Some(Reason::NoKnownTerm) => "the model knows none of its terms".to_owned(),
            Some(Reason::NoNeighbor) => "no training document is similar".to_owned(),
            Some(Reason::NoLabel) => "no neighbor has a label".to_owned(),
            Some(Reason::OutOfDistribution) => {
                "it seems to have none of the model's labels, so none is given".to_owned()
            }
            Some(Reason::Unsure) => {
                let limit = self.abstention.and_then(|limit| limit.confidence);
                format!(
                    "its confidence {:.3} is below the limit {}, so no label is given",
                    self.prediction.confidence.unwrap_or(0.0),
                    limit.map_or("of 1".to_owned(), |least| format!("{least:.3}")),
                )
            }
            None => match &self.labels[..] {
                [first, second, ..] if self.decision == Decision::Single => format!(
                    "{}, {:.3} more than {}",
                    first.reached(),
                    first.score - second.score,
                    name(model, second.label)
                ),
                [first, ..] if self.decision == Decision::Single => first.reached(),
                _ => self.decision.to_string(),
            },
        };
        let confidence = self.prediction.confidence.filter(|_| self.prediction.reason.is_none());
        let sure = confidence.map_or(String::new(), |sure| format!(", confidence {sure:.3}"));
        format!("{labels} ({because}{sure})")
    }
}

impl ExplainedLabel {
    /// The terms that speak for the label, the strongest first.
    pub fn in_favor(&self) -> impl Iterator<Item = &TermPart> {
        in_favor(&self.evidence)
    }

    /// The terms that speak against the label, the strongest first.
    pub fn against(&self) -> impl Iterator<Item = &TermPart> {
        against(&self.evidence)
    }

    /// Its score in words.
    fn reached(&self) -> String {
        match self.prototype {
            Some(_) => format!("score {:.3}", self.score),
            None => format!("{:.3} of the votes", self.score),
        }
    }
}

fn in_favor(terms: &[TermPart]) -> impl Iterator<Item = &TermPart> {
    terms.iter().take_while(|term| term.part > 0.0)
}

fn against(terms: &[TermPart]) -> impl Iterator<Item = &TermPart> {
    terms.iter().rev().take_while(|term| term.part < 0.0)
}

fn name(model: &Model, label: u32) -> &str {
    model.labels().get(label as usize).expect("a label of this model")
}

fn names(model: &Model, row: u32) -> Vec<&str> {
    model.document_labels(row).iter().map(|&label| name(model, label)).collect()
}

fn parts<'a>(model: &Model, terms: impl Iterator<Item = &'a TermPart>) -> Vec<NamedPart> {
    let vocabulary = model.vocabulary();
    let named = |term: &TermPart| NamedPart {
        term: vocabulary.term(term.term).expect("a term of this model").to_owned(),
        part: term.part,
    };
    terms.map(named).collect()
}
