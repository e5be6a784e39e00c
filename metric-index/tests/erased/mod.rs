//! One type for all points and one type for all metrics. A test file therefore compiles each index
//! once, not once per store and metric. A `dyn Metric` forwards to the metrics, so distances are
//! unchanged.

use std::marker::PhantomData;
use std::sync::Arc;

use metric_index::index::{AnyIndex, Kind};
use metric_index::metric::{Blocks, Coordinates, CountingMetric, Distances, Metric, Scan};
use metric_index::points::Items;
use proptest::prelude::ProptestConfig;

/// A point of any space.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Point {
    Vector(Vec<f32>),
    Bytes(Vec<u8>),
    Word(String),
    Set(Vec<u32>),
}

/// Points of one space.
pub(crate) type All = Items<Point, Point>;

/// A metric chosen at run time.
pub(crate) type AnyMetric = Arc<dyn Metric<Point> + Send>;

/// An index of any kind, over any points.
pub(crate) type Erased = AnyIndex<All, AnyMetric>;

/// The part of a point that a metric uses.
pub(crate) trait View: Sync + 'static {
    fn of(point: &Point) -> &Self;
}

macro_rules! views {
    ($($view:ty: $variant:ident),*) => {$(
        impl View for $view {
            fn of(point: &Point) -> &Self {
                match point {
                    Point::$variant(point) => point,
                    other => panic!("{other:?} is not a point of this space"),
                }
            }
        }
    )*};
}

views!([f32]: Vector, [u8]: Bytes, str: Word, [u32]: Set);

/// A metric of one type of points, adapted to all points.
struct MetricAdapter<T: ?Sized, M>(M, PhantomData<fn(&T)>);

/// Adapts a metric of vectors, bytes, words or sets to all points.
pub(crate) fn on<T: View + ?Sized + 'static, M: Metric<T> + Send + 'static>(
    metric: M,
) -> AnyMetric {
    Arc::new(MetricAdapter::<T, M>(metric, PhantomData))
}

/// Returns the same metric without blocks, for oracles.
pub(crate) fn plain(metric: &AnyMetric) -> AnyMetric {
    Arc::new(CountingMetric::new(Arc::clone(metric)))
}

impl<T: View + ?Sized, M: Metric<T>> Metric<Point> for MetricAdapter<T, M> {
    fn distance(&self, a: &Point, b: &Point) -> f32 {
        self.0.distance(T::of(a), T::of(b))
    }

    fn relative_error(&self) -> f32 {
        self.0.relative_error()
    }

    fn absolute_error(&self) -> f32 {
        self.0.absolute_error()
    }

    fn distance_within(&self, a: &Point, b: &Point, radius: f32) -> Option<f32> {
        self.0.distance_within(T::of(a), T::of(b), radius)
    }

    fn distances_from<'a>(&'a self, point: &'a Point) -> Option<Box<dyn Distances<Point> + 'a>> {
        let prepared = self.0.distances_from(T::of(point))?;
        Some(Box::new(PreparedPoint(prepared)))
    }

    fn blocks(&self, points: &[&Point]) -> Option<Box<dyn Blocks<Point>>> {
        let points: Vec<&T> = points.iter().map(|point| T::of(point)).collect();
        Some(Box::new(PointBlocks(self.0.blocks(&points)?)))
    }

    fn size(&self, point: &Point) -> usize {
        self.0.size(T::of(point))
    }

    fn coordinates(&self) -> Option<&dyn Coordinates<Point>> {
        self.0.coordinates().map(|_| self as _)
    }
}

struct PointBlocks<T: ?Sized>(Box<dyn Blocks<T>>);

impl<T: ?Sized> std::fmt::Debug for PointBlocks<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PointBlocks")
    }
}

impl<T: View + ?Sized> Blocks<Point> for PointBlocks<T> {
    fn from<'a>(&'a self, query: &'a Point) -> Option<Box<dyn Scan + 'a>> {
        self.0.from(T::of(query))
    }
}

impl<T: View + ?Sized, M: Metric<T>> Coordinates<Point> for MetricAdapter<T, M> {
    fn of<'a>(&self, point: &'a Point) -> &'a [f32] {
        self.0.coordinates().unwrap().of(T::of(point))
    }

    fn is_euclidean(&self) -> bool {
        self.0.coordinates().unwrap().is_euclidean()
    }

    fn bound_from_box(&self, coordinates: &[f32], low: &[f32], high: &[f32]) -> f32 {
        self.0.coordinates().unwrap().bound_from_box(coordinates, low, high)
    }
}

struct PreparedPoint<'a, T: ?Sized>(Box<dyn Distances<T> + 'a>);

impl<T: View + ?Sized> Distances<Point> for PreparedPoint<'_, T> {
    fn to(&self, other: &Point) -> f32 {
        self.0.to(T::of(other))
    }

    fn to_within(&self, other: &Point, radius: f32) -> Option<f32> {
        self.0.to_within(T::of(other), radius)
    }
}

/// Creates vectors from their concatenated values.
pub(crate) fn vectors(values: &[f32], dimension: usize) -> All {
    values.chunks(dimension).map(|vector| Point::Vector(vector.to_vec())).collect()
}

/// Builds an index of some points.
pub(crate) fn built(kind: Kind, points: &All, metric: &AnyMetric) -> Erased {
    kind.build(points.clone(), metric.clone()).unwrap()
}

/// Returns a configuration with the number of cases in `PROPTEST_CASES`, or with `default` cases.
pub(crate) fn cases(default: u32) -> ProptestConfig {
    let requested = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig::with_cases(requested.unwrap_or(default))
}
