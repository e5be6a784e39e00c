//! How far to look: the only thing in which range and nearest-neighbor queries differ.

use std::collections::BinaryHeap;

use crate::neighbor::Neighbor;

/// Takes the points that a search comes by.
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
    /// No point farther than this can enter the answer. It never grows during a search. Below 0: none can.
    fn radius(&self) -> f32;

    /// Takes a point if it belongs in the answer.
    fn offer(&mut self, candidate: Neighbor);
}

/// A collector that ends with an answer. Parts of an answer, found by several threads, are put together by
/// offering them to one of them.
///
/// ```
/// use metric_index::collector::{Answer, Collector, Nearest};
/// use metric_index::neighbor::Neighbor;
///
/// let mut nearest = Nearest::new(1);
/// nearest.offer(Neighbor { point: 7, distance: 2.0 });
/// nearest.offer(Neighbor { point: 3, distance: 2.0 });
/// assert_eq!(Answer::into_sorted(nearest)[0].point, 3);
/// ```
pub trait Answer: Collector + Send {
    /// What was found, nearest first.
    fn into_sorted(self) -> Vec<Neighbor>;
}

/// All points within a radius: a closed ball.
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
    /// Nothing yet.
    ///
    /// ```
    /// use metric_index::collector::{Collector, Within};
    ///
    /// assert_eq!(Within::new(2.0).radius(), 2.0);
    /// ```
    pub fn new(radius: f32) -> Self {
        Self { radius, found: Vec::new() }
    }

    /// What was found, nearest first.
    ///
    /// ```
    /// use metric_index::collector::{Collector, Within};
    /// use metric_index::neighbor::Neighbor;
    ///
    /// let mut within = Within::new(2.0);
    /// for (point, distance) in [(7, 2.0), (8, 1.0), (9, 2.5)] {
    ///     within.offer(Neighbor { point, distance });
    /// }
    /// let found: Vec<u32> = within.into_sorted().iter().map(|near| near.point).collect();
    /// assert_eq!(found, [8, 7]);
    /// ```
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

/// The k nearest points, of equally distant ones those of lower number. The radius shrinks with what is
/// found.
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
    /// The worst on top.
    found: BinaryHeap<Neighbor>,
}

impl Nearest {
    /// Nothing yet.
    ///
    /// ```
    /// use metric_index::collector::{Collector, Nearest};
    ///
    /// assert_eq!(Nearest::new(3).radius(), f32::INFINITY);
    /// ```
    pub fn new(k: usize) -> Self {
        Self { k, found: BinaryHeap::new() }
    }

    /// What was found, nearest first.
    ///
    /// ```
    /// use metric_index::collector::{Collector, Nearest};
    /// use metric_index::neighbor::Neighbor;
    ///
    /// let mut nearest = Nearest::new(1);
    /// for (point, distance) in [(9, 1.0), (7, 2.0), (8, 1.0)] {
    ///     nearest.offer(Neighbor { point, distance });
    /// }
    /// assert_eq!(nearest.into_sorted(), [Neighbor { point: 8, distance: 1.0 }]);
    /// ```
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
