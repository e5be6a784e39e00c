//! A metric that counts its evaluations.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{Coordinates, Distances, Metric};

/// A metric that counts its evaluations. Their number is the usual measure of cost in the
/// literature on metric spaces.
///
/// ```
/// use metric_index::metric::{CountingMetric, Edit, Metric};
///
/// let counted = CountingMetric::new(Edit);
/// counted.distance("a", "b");
/// assert_eq!(counted.calls(), 1);
/// ```
#[derive(Debug, Default)]
pub struct CountingMetric<M> {
    metric: M,
    calls: AtomicU64,
}

impl<M> CountingMetric<M> {
    /// Wraps a metric. The count starts at 0.
    pub fn new(metric: M) -> Self {
        Self { metric, calls: AtomicU64::new(0) }
    }

    /// Returns the number of distances evaluated.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }
}

impl<P: ?Sized, M: Metric<P>> Metric<P> for CountingMetric<M> {
    fn distance(&self, a: &P, b: &P) -> f32 {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.metric.distance(a, b)
    }

    fn relative_error(&self) -> f32 {
        self.metric.relative_error()
    }

    fn absolute_error(&self) -> f32 {
        self.metric.absolute_error()
    }

    fn distance_within(&self, a: &P, b: &P, radius: f32) -> Option<f32> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.metric.distance_within(a, b, radius)
    }

    fn distances_from<'a>(&'a self, point: &'a P) -> Option<Box<dyn Distances<P> + 'a>> {
        let distances = self.metric.distances_from(point)?;
        Some(Box::new(CountingDistances { distances, calls: &self.calls }))
    }

    /// Distances from boxes are not counted.
    fn coordinates(&self) -> Option<&dyn Coordinates<P>> {
        self.metric.coordinates()
    }

    fn name(&self) -> Option<String> {
        self.metric.name()
    }
}

struct CountingDistances<'a, P: ?Sized> {
    distances: Box<dyn Distances<P> + 'a>,
    calls: &'a AtomicU64,
}

impl<P: ?Sized> Distances<P> for CountingDistances<'_, P> {
    fn to(&self, other: &P) -> f32 {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.distances.to(other)
    }

    fn to_within(&self, other: &P, radius: f32) -> Option<f32> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.distances.to_within(other, radius)
    }
}
