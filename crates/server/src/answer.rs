//! Requests about documents, and their answers as JSON.

use std::num::NonZeroUsize;

use classify::classifier::answer::{Answer, Extras};
use serde::Deserialize;

use crate::documents::text_of;
use crate::failure::Failure;
use crate::live::LiveModel;
use crate::parameters::{whole_number, yes_or_no};
use crate::queue::{AnswerMode, AnsweredRequest, Results};

/// Maximum number of terms that support a label in an explanation, and of terms that oppose it.
const EXPLAINED_TERMS: usize = 20;
/// Maximum number of explanations in one request.
const MAX_EXPLANATIONS: usize = 64;
/// Maximum number of documents per batch of a stream.
const MAX_STREAM_BATCH: usize = 64;
/// Maximum number of neighbors of all documents in such a batch. More would delay other requests.
const MAX_STREAM_NEIGHBORS: usize = 16_384;
/// Maximum number of neighbors in one answer.
const MAX_LISTED_NEIGHBORS: usize = 200_000;
/// Maximum number of neighbors with their texts in one answer.
const MAX_TEXTS: usize = 1_000;
/// Maximum `k` of a request.
const MAX_K: usize = 10_000;

/// Kind of answer that a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerKind {
    Prediction,
    Neighbors,
    Explanation,
}

/// URL parameters of requests about documents.
#[derive(Debug, Clone, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct AnswerParameters {
    /// Include the scores of this many labels, predicted or not.
    #[serde(default, deserialize_with = "whole_number")]
    top: Option<usize>,
    /// Comma-separated list of extras: `scores` (of all labels with a vote) and `neighbors` (the
    /// training documents that voted).
    with: Option<String>,
    /// Number of neighbors that vote, or that `/v1/neighbors` lists; replaces the model's number.
    #[serde(default, deserialize_with = "whole_number")]
    k: Option<usize>,
    /// Include the texts of neighbors, if the model stores texts.
    #[serde(default, deserialize_with = "yes_or_no")]
    texts: Option<bool>,
    /// Mark the terms of an explanation in the texts.
    #[serde(default, deserialize_with = "yes_or_no")]
    marks: Option<bool>,
}

/// The checked URL parameters of a request about documents.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    kind: AnswerKind,
    k: Option<NonZeroUsize>,
    /// Number of labels whose scores are included.
    scores: Option<usize>,
    neighbors: bool,
    texts: bool,
    marks: bool,
}

impl Question {
    /// Checks the parameters of a request.
    pub(crate) fn new(kind: AnswerKind, parameters: &AnswerParameters) -> Result<Self, Failure> {
        let extras = || parameters.with.as_deref().unwrap_or_default().split(',');
        if let Some(name) = extras().find(|name| !matches!(*name, "" | "scores" | "neighbors")) {
            return Err(Failure::Parameter(format!(
                "with: `{name}`, expected `scores`, `neighbors`, or both with a comma"
            )));
        }
        let k = match parameters.k {
            None => None,
            Some(k) => match NonZeroUsize::new(k) {
                Some(positive) if k <= MAX_K => Some(positive),
                _ => {
                    let what = format!("k: `{k}`, expected a whole number from 1 to {MAX_K}");
                    return Err(Failure::Parameter(what));
                }
            },
        };
        let all_scores = extras().any(|name| name == "scores");
        Ok(Self {
            kind,
            k,
            scores: parameters.top.or(all_scores.then_some(usize::MAX)),
            neighbors: kind == AnswerKind::Neighbors || extras().any(|name| name == "neighbors"),
            texts: parameters.texts == Some(true),
            marks: parameters.marks == Some(true),
        })
    }

    /// Requests an explanation with marks, which is allowed for a single document only.
    pub(crate) fn with_marks() -> Self {
        let kind = AnswerKind::Explanation;
        Self { kind, k: None, scores: None, neighbors: false, texts: false, marks: true }
    }

    pub(crate) fn mode(&self) -> AnswerMode {
        match (self.kind, self.k) {
            (AnswerKind::Explanation, _) => AnswerMode::Explain,
            (_, Some(k)) => AnswerMode::PredictWith(k),
            (_, None) => AnswerMode::Predict,
        }
    }

    /// Whether an answer is short enough to be written without yielding. Writing a long answer
    /// takes time.
    pub(crate) fn is_short(&self) -> bool {
        self.kind == AnswerKind::Prediction && !self.neighbors
    }

    /// Returns the maximum number of documents per batch of a stream.
    pub(crate) fn max_batch(&self, live: &LiveModel) -> usize {
        let k = self.k.unwrap_or(live.options.k).get();
        (MAX_STREAM_NEIGHBORS / k).clamp(1, MAX_STREAM_BATCH)
    }

    /// Refuses requests whose answers would be very long.
    pub(crate) fn check_size(&self, documents: usize, live: &LiveModel) -> Result<(), Failure> {
        let explains = self.kind == AnswerKind::Explanation;
        let k = self.k.unwrap_or(live.options.k).get();
        let neighbor_count = if self.neighbors { documents.saturating_mul(k) } else { 0 };
        let what = if explains && documents > MAX_EXPLANATIONS {
            format!("{documents} explanations in one request, at most {MAX_EXPLANATIONS}")
        } else if explains && self.marks && documents > 1 {
            format!("marks for {documents} documents in one request, at most 1")
        } else if neighbor_count > MAX_LISTED_NEIGHBORS {
            format!("{k} neighbors of {documents} documents, at most {MAX_LISTED_NEIGHBORS} in all")
        } else if self.texts && neighbor_count > MAX_TEXTS {
            format!("texts of {k} neighbors of {documents} documents, at most {MAX_TEXTS} in all")
        } else {
            return Ok(());
        };
        Err(Failure::TooMany(what))
    }

    /// Writes the answers for all documents: an object if `is_one` is true, otherwise a list.
    pub(crate) fn write_all(&self, answered: &AnsweredRequest, is_one: bool) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        if is_one {
            self.write(answered, 0, &mut out);
        } else {
            out.extend_from_slice(b"{\"answers\":[");
            for index in 0..answered.documents.len() {
                if index > 0 {
                    out.push(b',');
                }
                self.write(answered, index, &mut out);
            }
            out.extend_from_slice(b"]}");
        }
        out.push(b'\n');
        out
    }

    /// Writes the answer for the document at `index`.
    pub(crate) fn write(&self, answered: &AnsweredRequest, index: usize, out: &mut Vec<u8>) {
        let AnsweredRequest { live, documents, results } = answered;
        let model = live.model();
        let document = &documents[index];
        let result = match results {
            Results::Explanations(explanations) if self.marks => {
                let text = text_of(&document.content);
                let marked =
                    explanations[index].marked(model, &document.id, &text, EXPLAINED_TERMS);
                serde_json::to_writer(out, &marked)
            }
            Results::Explanations(explanations) => {
                let mut named = explanations[index].named(model, &document.id, EXPLAINED_TERMS);
                if !self.texts {
                    named.without_texts();
                }
                serde_json::to_writer(out, &named)
            }
            Results::Predictions(predictions) => {
                let extras = Extras {
                    scores: self.scores,
                    neighbors: self.neighbors,
                    texts: self.texts,
                    learned: model.learned_votes().filter(|_| live.options.vote.learned),
                };
                let answer = Answer::new(model, &document.id, &predictions[index], extras);
                serde_json::to_writer(out, &answer)
            }
        };
        // Serializing names and numbers to memory cannot fail.
        result.unwrap_or_default();
    }
}
