//! The dense part of a model.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::metric::{Kernel, Metric, normalize};
use super::projection::Projection;
use super::rows::{ShapeError, Vectors};

/// The source of a model's dense vectors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum DenseFeatures {
    /// Each document has a vector when it is read.
    Given {
        /// The vector field in JSONL, CSV and TSV. `None` if the vectors were in a separate file,
        /// were the features of the corpus, or were computed by an encoder.
        field: Option<String>,
        /// The encoder that computed the vectors from the texts, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        encoder: Option<EncoderSpec>,
    },
    /// Latent semantic analysis of the weighted training rows.
    Lsa {
        /// The seed of the random start.
        seed: u64,
    },
    /// The mean of the word vectors of a text, weighted by term weights.
    WordVectors,
}

impl fmt::Display for DenseFeatures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Given { encoder: Some(_), .. } => "encoder",
            Self::Given { .. } => "given",
            Self::Lsa { .. } => "lsa",
            Self::WordVectors => "word-vectors",
        })
    }
}

/// A pretrained model that computes vectors from texts. The weights are not stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EncoderSpec {
    /// The folder of the encoder, as the user named it.
    pub folder: String,
    /// The kind of the encoder, such as `static` or `bert`.
    pub kind: String,
    /// The hash of its files. Other files give other vectors, which cannot be compared.
    pub hash: String,
}

/// The settings of the dense part of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DenseSpec {
    /// The source of the vectors.
    pub features: DenseFeatures,
    /// The number of values per vector.
    pub dimension: u32,
    /// The distance between vectors.
    pub metric: Metric,
    /// σ, the scale of distances (see the [module](super)).
    pub scale: f64,
    /// Whether only the vectors are searched. Terms, if any, are then used only to compute vectors.
    pub alone: bool,
}

impl DenseSpec {
    /// Returns the encoder that computed the vectors, if any.
    pub fn encoder(&self) -> Option<&EncoderSpec> {
        match &self.features {
            DenseFeatures::Given { encoder, .. } => encoder.as_ref(),
            DenseFeatures::Lsa { .. } | DenseFeatures::WordVectors => None,
        }
    }

    /// Returns the conversion of distances to similarities.
    pub fn kernel(&self) -> Kernel {
        Kernel { metric: self.metric, scale: self.scale }
    }
}

/// The dense part of a model: the training vectors, and the projection that computes query vectors.
#[derive(Debug, Clone)]
pub struct DensePart {
    pub(crate) spec: DenseSpec,
    pub(crate) vectors: Arc<Vectors>,
    pub(crate) projection: Option<Projection>,
}

impl DensePart {
    /// Creates the dense part from given or projected vectors, one row per training document.
    ///
    /// # Errors
    /// If the values cannot be divided into complete rows.
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

    /// Replaces the scale σ.
    #[must_use]
    pub(crate) fn with_scale(mut self, scale: f64) -> Self {
        self.spec.scale = scale;
        self
    }

    /// Returns whether the search skips zero vectors.
    pub(crate) fn skips_zeros(&self) -> bool {
        self.spec.metric == Metric::Angular || self.projection.is_some()
    }

    /// The settings of the part.
    pub fn spec(&self) -> &DenseSpec {
        &self.spec
    }

    /// The vectors of the training documents, scaled to length 1 if the metric is angular.
    pub fn vectors(&self) -> &Arc<Vectors> {
        &self.vectors
    }

    /// The projection of term weights to vectors, or `None` if the corpus contains vectors.
    pub fn projection(&self) -> Option<&Projection> {
        self.projection.as_ref()
    }
}
