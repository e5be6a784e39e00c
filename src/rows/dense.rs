//! Dense vectors: embeddings that documents bring along, or features made from their terms.
//!
//! ```text
//! given: JSONL field, .npy beside the corpus, svmlight ─┐
//! terms ─▶ TF-IDF row ─▶ [Projection] LSA, word vectors ─┴▶ Vectors ─▶ search::Dense ─▶ neighbors
//! ```
//!
//! # The similarity
//!
//! Neighbors vote with a similarity, so a [`Metric`] gives each distance d one, above 0 and at most 1:
//!
//! | metric | distance | similarity |
//! |---|---|---|
//! | `angular` | the angle of two vectors | its cosine; from 90° on (a cosine below 10⁻⁶) they are not neighbors |
//! | `euclidean` | √Σ(x − y)² | σ / (σ + d) |
//! | `manhattan` | Σ\|x − y\| | σ / (σ + d) |
//!
//! σ is learned from the training vectors: the median distance of a vector from its nearest one at another place, of up to
//! 1,000 vectors, so that a neighbor at that distance has similarity ½. A zero vector has no angle, and so no neighbors by
//! it. Where vectors are made of terms, a zero vector has nothing to compare, so it has no neighbors by any metric.
//!
//! For `angular`, vectors are scaled to length 1 and rounded to `f32`; with their Euclidean distance d the
//! cosine is 1 − d²/2, so every index of Euclidean space serves. A similarity is computed in `f64` from the distance,
//! an `f32`, and rounded once to `f32`. Every operation in it is monotone in floating point: of two neighbors the nearer
//! one is never the less similar one. Neighbors are sorted by decreasing similarity, ties by increasing row.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Values of dense vectors beyond ± this are refused: distances of vectors within it are finite.
pub const GREATEST: f32 = 1e30;

mod lsa;
mod projection;
mod rows;

pub use lsa::lsa;
pub use projection::Projection;
pub use rows::{ShapeError, Vectors, VectorsView};

/// The largest number of dimensions.
pub const MOST_DIMENSIONS: usize = 1 << 16;

/// The distance between dense vectors.
///
/// ```
/// use classify::rows::dense::Metric;
///
/// let metric: Metric = "euclidean".parse()?;
/// assert_eq!(metric.to_string(), "euclidean");
/// assert!("cosine-ish".parse::<Metric>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// The angle; neighbors vote with its cosine.
    #[default]
    Angular,
    /// The straight line.
    Euclidean,
    /// The sum of the absolute differences.
    Manhattan,
}

impl Metric {
    const ALL: [(Self, &'static str); 3] = [
        (Self::Angular, "angular"),
        (Self::Euclidean, "euclidean"),
        (Self::Manhattan, "manhattan"),
    ];
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(metric, _)| metric == self).map(|(_, name)| name);
        f.pad(name.expect("every metric has a name"))
    }
}

impl FromStr for Metric {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let metric = Self::ALL.iter().find(|(_, name)| *name == text).map(|&(metric, _)| metric);
        metric.ok_or_else(|| "expected angular, euclidean or manhattan".to_owned())
    }
}

/// From a distance to the similarity that a neighbor votes with: see the [module](self).
///
/// ```
/// use classify::rows::dense::{Kernel, Metric};
///
/// // Two unit vectors at a right angle are √2 apart.
/// let angular = Kernel { metric: Metric::Angular, scale: 1.0 };
/// assert_eq!((angular.similarity(0.0), angular.similarity(1.0)), (1.0, 0.5));
/// assert_eq!(angular.similarity(2f32.sqrt()), 0.0);
/// let euclidean = Kernel { metric: Metric::Euclidean, scale: 3.0 };
/// assert_eq!(euclidean.similarity(9.0), 0.25);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Kernel {
    /// The metric.
    pub metric: Metric,
    /// σ, the distance at which the similarity is ½; angles have no scale.
    pub scale: f64,
}

/// Smaller cosines count as 0: unit vectors of `f32` at a right angle have one of up to about 2⁻²².
const LEAST_COSINE: f64 = 1e-6;

impl Kernel {
    /// The similarity at a distance: from 0 to 1, never larger at a larger distance. For
    /// [`Metric::Angular`] the distance is the Euclidean one of the vectors scaled to length 1.
    #[expect(clippy::cast_possible_truncation, reason = "the one rounding to f32")]
    pub fn similarity(&self, distance: f32) -> f32 {
        let distance = f64::from(distance);
        match self.metric {
            Metric::Angular => {
                let cosine = 1.0 - distance * distance / 2.0;
                // Below, it is the rounding of the vectors that tells.
                if cosine > LEAST_COSINE { cosine as f32 } else { 0.0 }
            }
            // However far, it is a neighbor.
            Metric::Euclidean | Metric::Manhattan => {
                ((1.0 / (1.0 + distance / self.scale)) as f32).max(f32::MIN_POSITIVE)
            }
        }
    }

    /// A distance beyond which every similarity is below `similarity`.
    #[expect(clippy::cast_possible_truncation, reason = "rounded up")]
    pub(crate) fn radius(&self, similarity: f32) -> f32 {
        // A similarity that rounds to this one is above the one before it.
        let least = f64::from(similarity.next_down()).max(0.0);
        let distance = match self.metric {
            Metric::Angular => (2.0 * (1.0 - least)).sqrt(),
            _ if similarity <= f32::MIN_POSITIVE => f64::INFINITY,
            Metric::Euclidean | Metric::Manhattan => self.scale * (1.0 / least - 1.0),
        };
        // More than these four operations and the four of `similarity` can be wrong by.
        ((distance * (1.0 + 1e-14) + self.scale * 1e-15) as f32).next_up()
    }
}

/// Scales a vector to length 1 and rounds it to `f32`; a zero vector stays zero.
pub(crate) fn normalize(vector: &mut [f32]) {
    let square: f64 = vector.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
    if square > 0.0 {
        let length = square.sqrt();
        for x in vector {
            #[expect(clippy::cast_possible_truncation, reason = "rounded to f32")]
            let scaled = (f64::from(*x) / length) as f32;
            *x = scaled;
        }
    }
}

/// Where a model's dense vectors come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum DenseFeatures {
    /// Every document brings its own.
    Given {
        /// The field of the vectors in JSONL, CSV and TSV; `None`: they were in a file beside the corpus, or were its features.
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
    /// σ: see the [module](self).
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
    /// A part from vectors as documents bring them along, or as a projection makes them: a row for each training document. The
    /// scale of the metric is 1.
    ///
    /// # Errors
    /// If the values cannot be divided into whole rows.
    pub(crate) fn new(
        features: DenseFeatures,
        (metric, alone): (Metric, bool),
        mut values: Vec<f32>,
        dimension: usize,
        projection: Option<Projection>,
    ) -> Result<Self, ShapeError> {
        if metric == Metric::Angular {
            values.chunks_exact_mut(dimension.max(1)).for_each(normalize);
        }
        let vectors = Arc::new(Vectors::new(dimension, values)?);
        let narrow = u32::try_from(dimension).unwrap_or(u32::MAX);
        let spec = DenseSpec { features, dimension: narrow, metric, scale: 1.0, alone };
        Ok(Self { spec, vectors, projection })
    }

    /// The same with another scale of its metric.
    #[must_use]
    pub(crate) fn with_scale(mut self, scale: f64) -> Self {
        self.spec.scale = scale;
        self
    }

    /// Whether zero vectors are left out of the search.
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
