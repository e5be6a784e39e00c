//! Documents as rows of weighted terms and dense vectors.

use crate::rows::dense::Vectors;
use crate::rows::matrix::Csr;

/// Documents converted to query rows.
#[derive(Debug)]
pub struct DocumentVectors {
    /// The weighted rows: documents × terms of the model.
    pub rows: Csr,
    /// The numbers of known and unknown terms of each document.
    pub terms: Vec<TermUse>,
    /// The dense vectors, if the model has them.
    pub dense: Option<Vectors>,
}

/// The numbers of terms of a document, counting repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TermUse {
    /// Number of terms in the vocabulary.
    pub known: usize,
    /// Number of terms not in the vocabulary.
    pub unknown: usize,
}

impl TermUse {
    /// Returns the share of the terms that are not in the vocabulary; 0 without terms.
    pub(crate) fn unknown_share(self) -> f64 {
        self.unknown as f64 / (self.known + self.unknown).max(1) as f64
    }
}
