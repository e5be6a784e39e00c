//! Labels that are probably wrong or missing.

use serde::Serialize;

use super::found_document::FoundDocument;
use crate::learn::{ErrorRate, HeldOutCorpus, Suspect};

/// The options of a check.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CheckOptions {
    /// The minimum probability that a label is wrong or missing, from 0 to 1. Less probable errors
    /// are not listed.
    pub min_probability: f64,
}

impl Default for CheckOptions {
    fn default() -> Self {
        Self { min_probability: 0.5 }
    }
}

/// Labels that are probably wrong or missing.
#[derive(Debug, Clone, Serialize)]
pub struct LabelFindings {
    /// The estimated number of wrong labels.
    pub wrong: ErrorRate,
    /// The estimated number of missing labels, if documents can have several.
    pub missing: Option<ErrorRate>,
    /// The labels that are probably wrong or missing, most probable errors first.
    pub suspicious: Vec<SuspiciousLabel>,
}

/// A label that is probably wrong or missing.
#[derive(Debug, Clone, Serialize)]
pub struct SuspiciousLabel {
    /// The document.
    pub document: FoundDocument,
    /// The label that is probably wrong; `None` if a label is probably missing.
    pub given: Option<String>,
    /// The label that is probably right; `None` if one label of several is superfluous.
    pub suggested: Option<String>,
    /// The probability that the corpus is wrong here, from 0 to 1.
    pub probability: f64,
    /// The most similar documents that contradict the corpus, most similar first: they do not have
    /// the given label or, if a label is missing, they have it. At most three.
    pub contradicted_by: Vec<SimilarDocument>,
}

/// A document that is similar to another.
#[derive(Debug, Clone, Serialize)]
pub struct SimilarDocument {
    /// The document.
    #[serde(flatten)]
    pub document: FoundDocument,
    /// The similarity of the two documents.
    pub similarity: f32,
}

/// The maximum number of documents that contradict a label.
const CONTRADICTIONS: usize = 3;

impl LabelFindings {
    pub(super) fn of(corpus: &HeldOutCorpus, options: CheckOptions) -> Self {
        let errors = &corpus.rows.label_errors;
        let is_listed = |suspect: &&Suspect| suspect.probability >= options.min_probability;
        let listed = errors.suspects.iter().take_while(is_listed);
        Self {
            wrong: errors.wrong,
            missing: errors.missing,
            suspicious: listed.map(|suspect| SuspiciousLabel::of(corpus, suspect)).collect(),
        }
    }
}

impl SuspiciousLabel {
    fn of(corpus: &HeldOutCorpus, suspect: &Suspect) -> Self {
        let name = |label: u32| corpus.label_names()[label as usize].clone();
        let has = |row: u32, label: u32| corpus.labels(row).binary_search(&label).is_ok();
        let contradicts = |row: u32| match (suspect.given, suspect.suggested) {
            (Some(given), _) => !has(row, given),
            (None, Some(missing)) => has(row, missing),
            (None, None) => false,
        };
        let nearest = corpus.rows.nearest[suspect.row as usize].iter();
        let against = nearest.filter(|neighbor| contradicts(neighbor.row));
        let similar = against.map(|neighbor| SimilarDocument {
            document: FoundDocument::of_row(corpus, neighbor.row),
            similarity: neighbor.similarity,
        });
        Self {
            document: FoundDocument::of_row(corpus, suspect.row),
            given: suspect.given.map(name),
            suggested: suspect.suggested.map(name),
            probability: suspect.probability,
            contradicted_by: similar.take(CONTRADICTIONS).collect(),
        }
    }
}
