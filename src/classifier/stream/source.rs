//! Sources of the documents of a stream.

use std::num::NonZeroUsize;

use crate::classifier::ClassifyOptions;
use crate::classifier::vectors::StoredVectors;
use crate::text::corpus::{CorpusError, Document};

/// Maximum number of neighbors in the lists of a batch, unless k is larger.
const MAX_NEIGHBORS: usize = 1_000_000;

/// Returns the number of documents to classify together: at most `max`, and fewer if each has many
/// neighbors.
pub(super) fn batch_size(max: usize, options: &ClassifyOptions) -> usize {
    if options.decision.needs_batch() {
        return usize::MAX;
    }
    (MAX_NEIGHBORS / options.k).max(16).min(max)
}

/// A source of documents.
pub enum Source {
    /// A stream of documents.
    Documents(Box<dyn Iterator<Item = Result<Document, CorpusError>> + Send>),
    /// The first `count` documents of a file of vectors.
    Vectors {
        /// The file.
        stored: Box<StoredVectors>,
        /// Number of documents to read.
        count: usize,
    },
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Documents(_) => f.write_str("Documents"),
            Self::Vectors { count, .. } => write!(f, "Vectors({count})"),
        }
    }
}

impl From<StoredVectors> for Source {
    fn from(stored: StoredVectors) -> Self {
        Self::Vectors { count: stored.len(), stored: Box::new(stored) }
    }
}

impl Source {
    /// Limits the source to its first `max` documents.
    #[must_use]
    pub fn first(self, max: NonZeroUsize) -> Self {
        match self {
            Self::Documents(documents) => Self::Documents(Box::new(documents.take(max.get()))),
            Self::Vectors { stored, count } => {
                Self::Vectors { stored, count: count.min(max.get()) }
            }
        }
    }
}
