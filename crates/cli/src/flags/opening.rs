//! The flag `--map`: how models and vectors files are opened.

use std::path::Path;

use classify::classifier::vectors::{StoredVectors, VectorsError};
use classify::model::{Model, ModelError};
use classify::threads::Threads;

/// Flags for opening models and vectors files.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct OpeningFlags {
    /// Memory-map the model (and a vectors file), so that processes share the memory. While it is
    /// mapped, replace the file only by renaming; never overwrite it
    #[arg(long)]
    map: bool,
}

impl OpeningFlags {
    #[expect(unsafe_code, reason = "the user requests the mapping")]
    pub(crate) fn model(self, path: &Path) -> Result<Model, ModelError> {
        if !self.map {
            return Model::open(path);
        }
        // SAFETY: with `--map`, the user guarantees that the file does not change while it is
        // mapped.
        unsafe { Model::map(path) }
    }

    /// Opens and validates a model on `threads`.
    pub(crate) fn model_on(self, path: &Path, threads: &Threads) -> Result<Model, ModelError> {
        threads.run(|| self.model(path))
    }

    #[expect(unsafe_code, reason = "the user requests the mapping")]
    pub(crate) fn vectors(self, path: &Path, model: &Model) -> Result<StoredVectors, VectorsError> {
        if !self.map {
            return StoredVectors::open(path, model);
        }
        // SAFETY: with `--map`, the user guarantees that the file does not change while it is
        // mapped.
        unsafe { StoredVectors::map(path, model) }
    }
}
