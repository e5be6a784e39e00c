//! Vector metrics that are chosen by name.

use std::str::FromStr;

use super::{
    Angular, Blocks, Chebyshev, Coordinates, Distances, Euclidean, Formula, Hamming, Manhattan,
    Metric, Minkowski,
};

/// A vector metric that is chosen by name at run time.
///
/// ```
/// use metric_index::metric::{Metric, VectorMetric};
///
/// let metric: VectorMetric = "minkowski:1".parse()?;
/// assert_eq!(metric.distance(&[0.0, 0.0], &[3.0, 4.0]), 7.0);
/// assert!("cosine".parse::<VectorMetric>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub enum VectorMetric {
    /// The [`Euclidean`] distance, named `euclidean`.
    Euclidean,
    /// The [`Manhattan`] distance, named `manhattan`.
    Manhattan,
    /// The [`Chebyshev`] distance, named `chebyshev`.
    Chebyshev,
    /// A [`Minkowski`] distance, named `minkowski:P` with P at least 1.
    Minkowski(Minkowski),
    /// The [`Angular`] distance, named `angular`.
    Angular,
    /// The [`Hamming`] distance, named `hamming`.
    Hamming,
}

impl FromStr for VectorMetric {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let expected =
            "expected euclidean, manhattan, chebyshev, minkowski:P (P from 1), angular or hamming";
        Ok(match name {
            "euclidean" => Self::Euclidean,
            "manhattan" => Self::Manhattan,
            "chebyshev" => Self::Chebyshev,
            "angular" => Self::Angular,
            "hamming" => Self::Hamming,
            _ => {
                let p = name.strip_prefix("minkowski:").and_then(|p| p.parse().ok());
                let minkowski = p.and_then(Minkowski::new);
                let unknown = || format!("unknown vector metric {name}, {expected}");
                Self::Minkowski(minkowski.ok_or_else(unknown)?)
            }
        })
    }
}

/// Forwards a call to the metric in the variant.
macro_rules! forward {
    ($self:ident, $metric:ident => $call:expr) => {
        match $self {
            VectorMetric::Euclidean => {
                let $metric = &Euclidean;
                $call
            }
            VectorMetric::Manhattan => {
                let $metric = &Manhattan;
                $call
            }
            VectorMetric::Chebyshev => {
                let $metric = &Chebyshev;
                $call
            }
            VectorMetric::Minkowski($metric) => $call,
            VectorMetric::Angular => {
                let $metric = &Angular;
                $call
            }
            VectorMetric::Hamming => {
                let $metric = &Hamming;
                $call
            }
        }
    };
}

impl Metric<[f32]> for VectorMetric {
    fn distance(&self, a: &[f32], b: &[f32]) -> f32 {
        forward!(self, metric => metric.distance(a, b))
    }

    fn relative_error(&self) -> f32 {
        forward!(self, metric => Metric::<[f32]>::relative_error(metric))
    }

    fn absolute_error(&self) -> f32 {
        forward!(self, metric => Metric::<[f32]>::absolute_error(metric))
    }

    fn distance_within(&self, a: &[f32], b: &[f32], radius: f32) -> Option<f32> {
        forward!(self, metric => metric.distance_within(a, b, radius))
    }

    fn distances_from<'a>(&'a self, point: &'a [f32]) -> Option<Box<dyn Distances<[f32]> + 'a>> {
        forward!(self, metric => metric.distances_from(point))
    }

    fn blocks(&self, points: &[&[f32]]) -> Option<Box<dyn Blocks<[f32]>>> {
        forward!(self, metric => metric.blocks(points))
    }

    fn size(&self, point: &[f32]) -> usize {
        forward!(self, metric => Metric::<[f32]>::size(metric, point))
    }

    fn coordinates(&self) -> Option<&dyn Coordinates> {
        forward!(self, metric => metric.coordinates())
    }

    fn formula(&self) -> Option<Formula> {
        forward!(self, metric => Metric::<[f32]>::formula(metric))
    }

    fn name(&self) -> Option<String> {
        forward!(self, metric => Metric::<[f32]>::name(metric))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A metric chosen at run time supports everything that the metric itself supports.
    #[test]
    fn forwards_every_method() {
        let points: [&[f32]; 2] = [&[0.0, 1.0], &[2.0, 3.0]];
        for metric in [VectorMetric::Euclidean, VectorMetric::Manhattan, VectorMetric::Chebyshev] {
            assert!(metric.blocks(&points).is_some() && metric.coordinates().is_some());
        }
        let euclidean = VectorMetric::Euclidean;
        assert_eq!(euclidean.size(points[0]), Metric::<[f32]>::size(&Euclidean, points[0]));
        assert_eq!(
            euclidean.distances_from(points[0]).is_some(),
            Euclidean.distances_from(points[0]).is_some()
        );
    }
}
