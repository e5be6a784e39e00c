//! The methods of excluding points, and the radii of nearest-neighbor searches.

use metric_index::index::Index;
use metric_index::points::{Points, Subset};

/// The method by which a search excludes points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Brute force: algorithm 11, and for nearest neighbors one heap per thread.
    Brute,
    /// Brute force that sorts all distances to find nearest neighbors (section 4.2.1). For range
    /// queries, it is the same as `Brute`.
    Sort,
    /// A List of Clusters: algorithms 12 and 15.
    Clusters,
    /// A List of Clusters with a decreasing radius (figure 4.3). For range queries, it is the same
    /// as `Clusters`.
    ClustersDecreasing,
    /// A table of distances to pivots: algorithms 13 and 16.
    Pivots,
    /// A table of distances to pivots. The threads of a warp share the pivots of a point. For
    /// nearest neighbors, it is the same as `Pivots`.
    PivotsShared,
}

/// The radii of a search with an increasing radius; see [`learn_radii`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Radii {
    /// The radius of the first launch.
    pub first: f32,
    /// The amount by which the radius increases until k neighbors are found.
    pub step: f32,
}

/// Estimates the radii from one hundredth of the points, but at most about 1,000 points.
///
/// The first radius is the median distance to the k-th neighbor. The step is the difference between
/// the ninth decile of these distances and the median, but at least one eighth of the median. If
/// the median is 0, the step is at least 1.
///
/// ```
/// use metric_papers::barrientos::learn_radii;
/// use metric_index::index::BruteForce;
/// use metric_index::metric::Edit;
/// use metric_index::points::Strings;
///
/// let words: Strings = ["casa", "cosa", "caso", "pez"].into_iter().collect();
/// assert_eq!(learn_radii(&BruteForce::new(words, Edit)?, 1)?.first, 1.0);
/// # Ok::<(), metric_index::error::Error>(())
/// ```
///
/// # Errors
/// Fails if the distance between two points is undefined.
pub fn learn_radii<I: Index>(index: &I, k: usize) -> Result<Radii, metric_index::error::Error> {
    let points = index.points();
    let step = (points.len() / (points.len() / 100).clamp(1, 1000)).max(1);
    let sample = Subset::every(points, 0, step);
    let threads = std::thread::available_parallelism().unwrap_or(std::num::NonZero::<usize>::MIN);
    let mut radii = Vec::with_capacity(sample.len());
    // The first neighbor of a point is the point itself.
    for found in &index.nearest_many(&sample, k.saturating_add(1), threads) {
        radii.extend(found?.last().map(|near| near.distance));
    }
    radii.sort_unstable_by(f32::total_cmp);
    let decile = |tenths: usize| radii.get(radii.len() * tenths / 10).copied().unwrap_or(0.0);
    let first = decile(5);
    let min_step = if first > 0.0 { first / 8.0 } else { 1.0 };
    Ok(Radii { first, step: (decile(9) - first).max(min_step) })
}
