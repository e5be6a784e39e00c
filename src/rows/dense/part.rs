//! The dense part of a model.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::metric::{Kernel, Metric, normalize};
use super::projection::Projection;
use super::rows::{ShapeError, Vectors};

/// Where a model's dense vectors come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum DenseFeatures {
    /// Every document brings its own.
    Given {
        /// The field of the vectors in JSONL, CSV and TSV; `None`: they were in a file next to the
        /// corpus, or were its features.
        field: Option<String>,
    },
    /// Latent semantic analysis of the weighted training rows.
    Lsa {
        /// The seed of the random start.
        seed: u64,
    },
    /// The mean of the vectors of a text's words, weighted as its terms are.
    WordVectors,
}

impl fmt::Display for DenseFeatures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Given { .. } => "given",
            Self::Lsa { .. } => "lsa",
            Self::WordVectors => "word-vectors",
        })
    }
}

/// The dense part of a model's settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DenseSpec {
    /// Where the vectors come from.
    pub features: DenseFeatures,
    /// The number of values of a vector.
    pub dimension: u32,
    /// The distance.
    pub metric: Metric,
    /// σ: see the [module](super).
    pub scale: f64,
    /// Whether only the vectors are searched: terms, if there are any, only make them.
    pub alone: bool,
}

impl DenseSpec {
    /// From distances to similarities.
    pub fn kernel(&self) -> Kernel {
        Kernel { metric: self.metric, scale: self.scale }
    }
}

/// The dense part of a model: its vectors, and how to make those of queries.
#[derive(Debug, Clone)]
pub struct DensePart {
    pub(crate) spec: DenseSpec,
    pub(crate) vectors: Arc<Vectors>,
    pub(crate) projection: Option<Projection>,
}

impl DensePart {
    /// A part of vectors as documents bring them along, or as a projection makes them: a row for
    /// each training document.
    ///
    /// # Errors
    /// If the values cannot be divided into whole rows.
    pub(crate) fn new(
        spec: DenseSpec,
        mut values: Vec<f32>,
        projection: Option<Projection>,
    ) -> Result<Self, ShapeError> {
        let dimension = spec.dimension as usize;
        if spec.metric == Metric::Angular {
            values.chunks_exact_mut(dimension.max(1)).for_each(normalize);
        }
        let vectors = Arc::new(Vectors::new(dimension, values)?);
        Ok(Self { spec, vectors, projection })
    }

    /// The same with another scale of its metric.
    #[must_use]
    pub(crate) fn with_scale(mut self, scale: f64) -> Self {
        self.spec.scale = scale;
        self
    }

    /// Whether the search skips zero vectors.
    pub(crate) fn skips_zeros(&self) -> bool {
        self.spec.metric == Metric::Angular || self.projection.is_some()
    }

    /// What the part is.
    pub fn spec(&self) -> &DenseSpec {
        &self.spec
    }

    /// The vectors of the training documents, scaled to length 1 if the metric is angular.
    pub fn vectors(&self) -> &Arc<Vectors> {
        &self.vectors
    }

    /// From term weights to vectors, unless documents bring vectors along.
    pub fn projection(&self) -> Option<&Projection> {
        self.projection.as_ref()
    }
}
