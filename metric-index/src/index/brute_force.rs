//! No index: every query against every point. The oracle of every other index.

use std::marker::PhantomData;

use crate::error::Error;
use crate::metric::Metric;
use crate::neighbor::Neighbor;

/// Points and a metric.
#[derive(Debug, Clone)]
pub struct BruteForce<P: ?Sized, B, M> {
    points: Vec<B>,
    metric: M,
    point: PhantomData<fn(&P)>,
}

impl<P: ?Sized, B: AsRef<P>, M: Metric<P>> BruteForce<P, B, M> {
    /// An index of points.
    ///
    /// # Errors
    /// If a point has no distance of 0 from itself, as a vector with a NaN.
    pub fn new(points: impl IntoIterator<Item = B>, metric: M) -> Result<Self, Error> {
        let points: Vec<B> = points.into_iter().collect();
        for (number, point) in points.iter().enumerate() {
            let distance = metric.distance(point.as_ref(), point.as_ref());
            if distance != 0.0 {
                return Err(Error::NotFinite { point: number });
            }
        }
        Ok(Self { points, metric, point: PhantomData })
    }

    /// The points at distance `<= radius` from `query`, nearest first, ties by lower point.
    ///
    /// # Errors
    /// If the radius is negative or NaN, or the query has no distance to a point.
    pub fn within(&self, query: &P, radius: f32) -> Result<Vec<Neighbor>, Error> {
        if radius.is_nan() || radius < 0.0 {
            return Err(Error::Radius { radius });
        }
        let mut neighbors = self.all(query)?;
        neighbors.retain(|neighbor| neighbor.distance <= radius);
        neighbors.sort_unstable();
        Ok(neighbors)
    }

    /// The `k` points nearest to `query` (all if there are fewer), nearest first, ties by lower
    /// point.
    ///
    /// # Errors
    /// If the query has no distance to a point.
    pub fn nearest(&self, query: &P, k: usize) -> Result<Vec<Neighbor>, Error> {
        let mut neighbors = self.all(query)?;
        neighbors.sort_unstable();
        neighbors.truncate(k);
        Ok(neighbors)
    }

    fn all(&self, query: &P) -> Result<Vec<Neighbor>, Error> {
        let neighbor = |(number, point): (usize, &B)| {
            let distance = self.metric.distance(query, point.as_ref());
            if distance.is_finite() && distance >= 0.0 {
                Ok(Neighbor { point: number, distance })
            } else {
                Err(Error::NoDistance { point: number, distance })
            }
        };
        self.points.iter().enumerate().map(neighbor).collect()
    }
}
