//! Points with their metric, and the distances that are evaluated while an index is built.

use crate::error::Error;
use crate::metric::{Metric, Origin};
use crate::points::Points;
use crate::prune::Bounds;

/// Points and their metric. The distance from each point to itself has been checked to be 0.
#[derive(Debug, Clone)]
pub struct Space<S, M> {
    pub(super) points: S,
    pub(super) metric: M,
    pub(super) bounds: Bounds,
}

impl<S: Points, M: Metric<S::Point>> Space<S, M> {
    /// Creates a space. Checks the number of points and the distance from each point to itself.
    pub(crate) fn new(points: S, metric: M) -> Result<Self, Error> {
        let count = u32::try_from(points.len()).ok().filter(|&count| count < u32::MAX);
        let count = count.ok_or(Error::TooMany { count: points.len() })?;
        for point in 0..count {
            let distance = metric.distance(points.point(point), points.point(point));
            if distance != 0.0 {
                return Err(Error::NotItself { point, distance });
            }
        }
        Ok(Self { bounds: Bounds::of(&metric), points, metric })
    }

    pub(crate) fn points(&self) -> &S {
        &self.points
    }

    pub(crate) fn metric(&self) -> &M {
        &self.metric
    }

    /// Returns the number of points.
    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.points.len()).expect("checked by `new` and `check_new`")
    }

    /// Returns the numbers of all points.
    pub(super) fn numbers(&self) -> Vec<u32> {
        (0..self.count()).collect()
    }

    /// Checks that a new point is valid for the metric, and returns its number.
    pub(super) fn check_new(&self, point: &S::Point) -> Result<u32, Error> {
        let count = self.points.len();
        let number = u32::try_from(count).ok().filter(|&number| number < u32::MAX - 1);
        let number = number.ok_or(Error::TooMany { count: count + 1 })?;
        let distance = self.metric.distance(point, point);
        if distance != 0.0 {
            return Err(Error::NotItself { point: number, distance });
        }
        Ok(number)
    }

    /// Prepares one of the points for computing distances from it.
    pub(super) fn origin(&self, number: u32) -> PointOrigin<'_, S, M> {
        PointOrigin { number, ..self.origin_of(self.points.point(number)) }
    }

    /// Prepares several of the points for computing distances from them.
    pub(super) fn origins(&self, numbers: &[u32]) -> Vec<PointOrigin<'_, S, M>> {
        numbers.iter().map(|&number| self.origin(number)).collect()
    }

    /// Prepares a new point for computing distances from it.
    pub(super) fn origin_of<'a>(&'a self, point: &'a S::Point) -> PointOrigin<'a, S, M> {
        let origin = Origin::new(&self.metric, point);
        PointOrigin { points: &self.points, origin, number: self.count() }
    }

    /// Returns the distance between two points.
    pub(super) fn distance_between(&self, a: u32, b: u32) -> Result<f32, Error> {
        self.origin(a).to(b)
    }
}

/// A point from which the distances to other points are computed.
pub(super) struct PointOrigin<'a, S: Points, M> {
    pub(super) number: u32,
    points: &'a S,
    origin: Origin<'a, S::Point, M>,
}

impl<S: Points, M: Metric<S::Point>> PointOrigin<'_, S, M> {
    /// Returns whether the distance to a point is at least `min_distance`.
    pub(super) fn is_separated(&self, point: u32, min_distance: f32) -> bool {
        let distance = self.origin.to_within(self.points.point(point), min_distance);
        distance.is_none_or(|distance| distance >= min_distance)
    }

    /// Returns the distance to a point.
    pub(super) fn to(&self, point: u32) -> Result<f32, Error> {
        let distance = self.origin.to(self.points.point(point));
        if (0.0..f32::INFINITY).contains(&distance) {
            Ok(distance)
        } else {
            Err(Error::NoDistance { point, distance })
        }
    }
}
