//! `--map`: how models and vectors files are opened.

use std::path::Path;

use classify::classifier::vectors::{StoredVectors, VectorsError};
use classify::model::{Model, ModelError};
use classify::threads::Threads;

/// How models and vectors files are opened.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Opening {
    /// Memory-map the model (and a vectors file), so that processes share the memory. While it is
    /// mapped, replace the file only by renaming; never overwrite it
    #[arg(long)]
    map: bool,
}

impl Opening {
    #[expect(unsafe_code, reason = "the user maps the file")]
    pub(crate) fn model(self, path: &Path) -> Result<Model, ModelError> {
        if !self.map {
            return Model::open(path);
        }
        // SAFETY: whoever gives `--map` promises what its help asks for.
        unsafe { Model::map(path) }
    }

    /// Like [`model`](Self::model), but checks the model on these threads.
    pub(crate) fn model_on(self, path: &Path, threads: &Threads) -> Result<Model, ModelError> {
        threads.run(|| self.model(path))
    }

    #[expect(unsafe_code, reason = "the user maps the file")]
    pub(crate) fn vectors(self, path: &Path, model: &Model) -> Result<StoredVectors, VectorsError> {
        if !self.map {
            return StoredVectors::open(path, model);
        }
        // SAFETY: whoever gives `--map` promises what its help asks for.
        unsafe { StoredVectors::map(path, model) }
    }
}
