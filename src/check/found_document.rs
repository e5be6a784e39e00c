//! A document as findings show it.

use serde::Serialize;

use crate::learn::HeldOutCorpus;
use crate::text::corpus::Document;

/// A document that a finding is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FoundDocument {
    /// The identifier.
    pub id: String,
    /// The place in the corpus: `FILE:LINE`, or the file alone.
    pub place: String,
    /// The labels in the corpus.
    pub labels: Vec<String>,
    /// The beginning of the text; empty for features.
    pub text: String,
}

/// The maximum number of characters of a text that are kept.
const EXCERPT: usize = 200;

impl FoundDocument {
    pub(super) fn new(document: &Document) -> Self {
        let text = document.content.text().unwrap_or_default().chars().take(EXCERPT).collect();
        Self {
            id: document.id.clone(),
            place: document.place.to_string(),
            labels: document.labels.clone(),
            text,
        }
    }

    pub(super) fn of_row(corpus: &HeldOutCorpus, row: u32) -> Self {
        Self::new(&corpus.documents[row as usize])
    }
}
