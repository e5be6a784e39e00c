//! Distances between dense vectors, and their conversion to similarities.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The maximum absolute value in a dense vector. Up to this value, all distances are finite.
pub const MAX_ABS_VALUE: f32 = 1e30;

/// The maximum number of dimensions.
pub const MAX_DIMENSIONS: usize = 1 << 16;

/// A distance between dense vectors.
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
    /// The angle between the vectors. Neighbors vote with its cosine.
    #[default]
    Angular,
    /// The Euclidean length of the difference of the vectors.
    Euclidean,
    /// The sum of the absolute differences of the values.
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

/// The conversion of a distance to the similarity with which a neighbor votes (see the
/// [module](super)).
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
    /// σ, the distance at which the similarity is ½. Ignored for [`Metric::Angular`].
    pub scale: f64,
}

/// Cosines up to this value count as 0. Unit vectors of `f32` at a right angle can have a computed
/// cosine of about 2⁻²².
const MIN_COSINE: f64 = 1e-6;

impl Kernel {
    /// Returns the similarity at a distance, from 0 to 1. It never increases with the distance. For
    /// [`Metric::Angular`], `distance` is the Euclidean distance of the vectors scaled to length 1.
    #[expect(clippy::cast_possible_truncation, reason = "the only rounding to f32")]
    pub fn similarity(&self, distance: f32) -> f32 {
        let distance = f64::from(distance);
        match self.metric {
            Metric::Angular => {
                let cosine = 1.0 - distance * distance / 2.0;
                // A smaller cosine is mostly rounding error of the vectors.
                if cosine > MIN_COSINE { cosine as f32 } else { 0.0 }
            }
            // Keep the similarity positive: a row is a neighbor at any distance.
            Metric::Euclidean | Metric::Manhattan => {
                ((1.0 / (1.0 + distance / self.scale)) as f32).max(f32::MIN_POSITIVE)
            }
        }
    }

    /// Returns a distance beyond which all similarities are below `similarity`.
    #[expect(clippy::cast_possible_truncation, reason = "rounded up")]
    pub(crate) fn radius(&self, similarity: f32) -> f32 {
        // Values that round to this similarity are above the previous `f32`.
        let lower_bound = f64::from(similarity.next_down()).max(0.0);
        let distance = match self.metric {
            Metric::Angular => (2.0 * (1.0 - lower_bound)).sqrt(),
            _ if similarity <= f32::MIN_POSITIVE => f64::INFINITY,
            Metric::Euclidean | Metric::Manhattan => self.scale * (1.0 / lower_bound - 1.0),
        };
        // The margin exceeds the rounding errors of these four operations and of the four in
        // `similarity`.
        ((distance * (1.0 + 1e-14) + self.scale * 1e-15) as f32).next_up()
    }
}

/// Scales a vector to length 1 and rounds it to `f32`. A zero vector remains zero.
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
