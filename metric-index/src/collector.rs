//! Collectors, which define the search radius: the only difference between range and
//! nearest-neighbor queries.

use std::collections::BinaryHeap;

use crate::neighbor::Neighbor;

/// A collector of the candidates that a search visits.
///
/// ```
/// use metric_index::collector::Collector;
/// use metric_index::index::{VpTree, search};
/// use metric_index::metric::Edit;
/// use metric_index::neighbor::Neighbor;
/// use metric_index::points::Strings;
///
/// /// Counts the points within a distance of 1.
/// struct Count(usize);
///
/// impl Collector for Count {
///     fn radius(&self) -> f32 {
///         1.0
///     }
///
///     fn offer(&mut self, candidate: Neighbor) {
///         self.0 += usize::from(candidate.distance <= 1.0);
///     }
/// }
///
/// let words: Strings = ["casa", "cosa", "caso", "pez"].into_iter().collect();
/// let (count, _) = search(&VpTree::build(words, Edit)?, "casa", Count(0))?;
/// assert_eq!(count.0, 3);
/// # Ok::<(), metric_index::error::Error>(())
/// ```
pub trait Collector {
    /// Returns the search radius, beyond which no point can enter the answer. It never grows during
    /// a search. A negative radius excludes all points.
    fn radius(&self) -> f32;

    /// Keeps the candidate if it belongs in the answer.
    fn offer(&mut self, candidate: Neighbor);
}

/// A borrowed collector, which several probes can fill one after the other.
impl<C: Collector> Collector for &mut C {
    fn radius(&self) -> f32 {
        (**self).radius()
    }

    fn offer(&mut self, candidate: Neighbor) {
        (**self).offer(candidate);
    }
}

/// A collector that returns an answer. To merge the partial answers of several threads, offer their
/// neighbors to one of the collectors.
pub trait Answer: Collector + Send {
    /// Returns the neighbors found, nearest first.
    fn into_sorted(self) -> Vec<Neighbor>;
}

/// A collector of all points within a radius (a closed ball).
///
/// ```
/// use metric_index::collector::{Collector, Within};
/// use metric_index::neighbor::Neighbor;
///
/// let mut ball = Within::new(2.0);
/// ball.offer(Neighbor { point: 7, distance: 2.0 });
/// ball.offer(Neighbor { point: 3, distance: 2.1 });
/// assert_eq!(ball.into_sorted().len(), 1);
/// ```
#[derive(Debug, Clone)]
pub struct Within {
    radius: f32,
    found: Vec<Neighbor>,
}

impl Within {
    /// Creates an empty collector.
    pub fn new(radius: f32) -> Self {
        Self { radius, found: Vec::new() }
    }

    /// Returns the neighbors found, nearest first.
    pub fn into_sorted(mut self) -> Vec<Neighbor> {
        self.found.sort_unstable();
        self.found
    }
}

impl Answer for Within {
    fn into_sorted(self) -> Vec<Neighbor> {
        self.into_sorted()
    }
}

impl Collector for Within {
    fn radius(&self) -> f32 {
        self.radius
    }

    fn offer(&mut self, candidate: Neighbor) {
        if candidate.distance <= self.radius {
            self.found.push(candidate);
        }
    }
}

/// A collector of the k nearest points. Ties go to the lower point number. The radius shrinks as
/// points are found.
///
/// ```
/// use metric_index::collector::{Collector, Nearest};
/// use metric_index::neighbor::Neighbor;
///
/// let mut nearest = Nearest::new(1);
/// assert_eq!(nearest.radius(), f32::INFINITY);
/// nearest.offer(Neighbor { point: 7, distance: 2.0 });
/// assert_eq!(nearest.radius(), 2.0);
/// ```
#[derive(Debug, Clone)]
pub struct Nearest {
    k: usize,
    /// A max-heap: the worst neighbor is on top.
    found: BinaryHeap<Neighbor>,
}

impl Nearest {
    /// Creates an empty collector.
    pub fn new(k: usize) -> Self {
        Self { k, found: BinaryHeap::with_capacity(k.min(256)) }
    }

    /// Returns the neighbors found, nearest first.
    pub fn into_sorted(self) -> Vec<Neighbor> {
        self.found.into_sorted_vec()
    }
}

impl Answer for Nearest {
    fn into_sorted(self) -> Vec<Neighbor> {
        self.into_sorted()
    }
}

impl Collector for Nearest {
    fn radius(&self) -> f32 {
        match self.found.peek() {
            _ if self.k == 0 => -1.0,
            Some(worst) if self.found.len() == self.k => worst.distance,
            _ => f32::INFINITY,
        }
    }

    fn offer(&mut self, candidate: Neighbor) {
        if self.found.len() < self.k {
            self.found.push(candidate);
        } else if let Some(mut worst) = self.found.peek_mut()
            && candidate < *worst
        {
            *worst = candidate;
        }
    }
}

/// A collector for a range or a nearest-neighbor query, chosen at run time.
///
/// ```
/// use metric_index::collector::{Answer, AnyCollector, Nearest, Within};
/// use metric_index::index::{VpTree, search};
/// use metric_index::metric::Edit;
/// use metric_index::points::Strings;
///
/// let words: Strings = ["casa", "cosa", "caso", "pez"].into_iter().collect();
/// let tree = VpTree::build(words, Edit)?;
/// for (collector, count) in [
///     (AnyCollector::Within(Within::new(1.0)), 3),
///     (AnyCollector::Nearest(Nearest::new(2)), 2),
/// ] {
///     assert_eq!(search(&tree, "casa", collector)?.0.into_sorted().len(), count);
/// }
/// # Ok::<(), metric_index::error::Error>(())
/// ```
#[derive(Debug, Clone)]
pub enum AnyCollector {
    /// All points within a radius.
    Within(Within),
    /// The k nearest points.
    Nearest(Nearest),
}

impl Collector for AnyCollector {
    fn radius(&self) -> f32 {
        match self {
            Self::Within(ball) => ball.radius(),
            Self::Nearest(nearest) => nearest.radius(),
        }
    }

    fn offer(&mut self, candidate: Neighbor) {
        match self {
            Self::Within(ball) => ball.offer(candidate),
            Self::Nearest(nearest) => nearest.offer(candidate),
        }
    }
}

impl Answer for AnyCollector {
    fn into_sorted(self) -> Vec<Neighbor> {
        match self {
            Self::Within(ball) => ball.into_sorted(),
            Self::Nearest(nearest) => nearest.into_sorted(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the radius after each of the `offers`.
    fn radii(mut nearest: Nearest, offers: &[f32]) -> Vec<f32> {
        (0..)
            .zip(offers)
            .map(|(point, &distance)| {
                nearest.offer(Neighbor { point, distance });
                nearest.radius()
            })
            .collect()
    }

    #[test]
    fn the_radius_is_the_distance_of_the_kth_neighbor() {
        let offers = [5.0, 3.0, 4.0, 9.0, 1.0];
        let far = f32::INFINITY;
        assert_eq!(radii(Nearest::new(3), &offers), [far, far, 5.0, 5.0, 4.0]);
        assert_eq!(radii(Nearest::new(1), &offers), [5.0, 3.0, 3.0, 3.0, 1.0]);
        assert!(Nearest::new(1).radius().is_infinite());
        // With k = 0, no point is near enough, not even the query itself.
        assert!(Nearest::new(0).radius() < 0.0);
        assert_eq!(radii(Nearest::new(0), &offers), [-1.0; 5]);
    }

    #[test]
    fn ties_are_broken_by_the_lower_number() {
        let mut within = Within::new(2.0);
        let mut nearest = Nearest::new(3);
        for (point, distance) in [(4, 2.0), (9, 1.0), (2, 2.0), (5, 2.5), (3, 2.0)] {
            within.offer(Neighbor { point, distance });
            nearest.offer(Neighbor { point, distance });
        }
        let points = |found: Vec<Neighbor>| found.iter().map(|near| near.point).collect::<Vec<_>>();
        assert_eq!(points(within.into_sorted()), [9, 2, 3, 4]);
        assert_eq!(points(nearest.into_sorted()), [9, 2, 3]);
    }
}
