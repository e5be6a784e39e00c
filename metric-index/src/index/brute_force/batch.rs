//! Batches of queries against vectors in Euclidean space. Matrix products in `f32` determine which
//! distances must be computed.
//!
//! With `h = |x|²/2`, the distance between q and x is at most D if and only if
//! `q·x ≥ h + (|q|² − D²)/2`.
//!
//! The error of a computed product of d terms is at most `γ |q||x|`, in any order of summation
//! (Higham 2002, section 3.1). Here `γ = d u / (1 − d u)`, `u = 2⁻²⁴` and `|q||x| ≤ (|q|² +
//! |x|²)/2`. All rounding errors together are therefore below `(d + 8) 2⁻²³ (|q|² + |x|² + D²)`,
//! and the threshold is lowered by this amount. Underflow adds less than `(d + 8) 2⁻¹⁴⁶`.
//!
//! The metric then computes the distances to the points whose product reaches the threshold, as in
//! every index.

use std::num::NonZero;
use std::ops::Range;

use multiversion::multiversion;
use rayon::prelude::*;

use super::BruteForce;
use crate::collector::Answer;
use crate::error::Error;
use crate::index::search::search;
use crate::lists::NeighborLists;
use crate::metric::{Coordinates, Euclidean, Metric};
use crate::neighbor::Neighbor;
use crate::points::Points;
use crate::threads::map_parallel;

/// Number of points per product.
const POINTS_PER_PRODUCT: usize = 512;
/// Number of queries per product.
const QUERIES_PER_PRODUCT: u32 = 512;
/// Number of points compared with a threshold at a time.
const LANES: usize = 32;
/// Maximum squared length for which squares and their sums cannot overflow.
const MAX_SQUARE: f64 = 1e37;

impl<S: Points<Point = [f32]>> BruteForce<S, Euclidean> {
    /// Answers many queries on all threads of the current thread pool. Gives the same answers as
    /// [`search`] in a fraction of the time. `ask` creates the collector of a query from its
    /// number.
    ///
    /// ```
    /// use metric_index::collector::Nearest;
    /// use metric_index::index::BruteForce;
    /// use metric_index::metric::Euclidean;
    /// use metric_index::points::Vectors;
    ///
    /// let plane = Vectors::new(vec![0.0f32, 0.0, 3.0, 4.0], 2)?;
    /// let queries = Vectors::new(vec![3.0f32, 3.0, 1.0, 0.0], 2)?;
    /// let answers = BruteForce::new(plane, Euclidean)?.batch(&queries, |_| Nearest::new(1));
    /// assert_eq!((answers.get(0)?[0].point, answers.get(1)?[0].point), (1, 0));
    /// # Ok::<(), metric_index::error::Error>(())
    /// ```
    ///
    /// # Panics
    /// Panics if there are 2^32 queries or more.
    pub fn batch<Q: Points<Point = [f32]>, C: Answer>(
        &self,
        queries: &Q,
        ask: impl Fn(u32) -> C + Sync,
    ) -> NeighborLists {
        let threads = NonZero::new(rayon::current_num_threads()).unwrap_or(NonZero::<usize>::MIN);
        let batch = Batch::new(self, &Euclidean, queries, &ask);
        let ranges = batch.ranges(threads);
        let parts = ranges.into_par_iter().map(|range| batch.answers(range)).collect();
        NeighborLists::concatenated(parts)
    }
}

impl<S: Points, M: Metric<S::Point>> BruteForce<S, M> {
    /// Answers many queries by matrix products if the metric is Euclidean and products are faster
    /// than blocks. Otherwise, returns `None`.
    pub(super) fn answer_by_products<Q: Points<Point = S::Point>, C: Answer>(
        &self,
        queries: &Q,
        threads: NonZero<usize>,
        ask: &(impl Fn(u32) -> C + Sync),
    ) -> Option<NeighborLists> {
        /// Minimum number of queries for which products are faster than blocks.
        const MIN_QUERIES: usize = 16;
        /// Minimum dimension for which products are faster than blocks.
        const MIN_DIMENSION: usize = 12;
        let coordinates = self.space.metric.coordinates().filter(|found| found.is_euclidean())?;
        let dimension = self.space.points.is_empty().then_some(0);
        let dimension =
            dimension.unwrap_or_else(|| coordinates.of(self.space.points.point(0)).len());
        if queries.len() < MIN_QUERIES || dimension < MIN_DIMENSION {
            return None;
        }
        let batch = Batch::new(self, coordinates, queries, ask);
        let ranges = batch.ranges(threads);
        let parts =
            map_parallel(ranges.len(), threads, &|index| batch.answers(ranges[index].clone()));
        Some(NeighborLists::concatenated(parts))
    }
}

/// A batch of queries to an index.
struct Batch<'a, S: Points, M, Q, A> {
    index: &'a BruteForce<S, M>,
    coordinates: &'a dyn Coordinates<S::Point>,
    /// The squared lengths of the points; `None` if the points are unsuitable for products.
    norms: Option<Norms>,
    queries: &'a Q,
    ask: &'a A,
}

impl<'a, S, M, Q, A, C> Batch<'a, S, M, Q, A>
where
    S: Points,
    M: Metric<S::Point>,
    Q: Points<Point = S::Point>,
    A: Fn(u32) -> C + Sync,
    C: Answer,
{
    fn new(
        index: &'a BruteForce<S, M>,
        coordinates: &'a dyn Coordinates<S::Point>,
        queries: &'a Q,
        ask: &'a A,
    ) -> Self {
        let norms = Norms::of(&index.space.points, coordinates);
        Self { index, coordinates, norms, queries, ask }
    }

    /// Splits the queries into ranges that are small enough for every thread to get a range.
    fn ranges(&self, threads: NonZero<usize>) -> Vec<Range<u32>> {
        let count = u32::try_from(self.queries.len()).expect("fewer than 2^32 queries");
        let threads = u32::try_from(threads.get()).unwrap_or(u32::MAX);
        let size = count.div_ceil(threads).clamp(1, QUERIES_PER_PRODUCT);
        let end = |start: u32| count.min(start.saturating_add(size));
        (0..count).step_by(size as usize).map(|start| start..end(start)).collect()
    }

    /// Answers one query without products.
    fn answer_single(&self, query: u32) -> Result<Vec<Neighbor>, Error> {
        let found = search(self.index, self.queries.point(query), (self.ask)(query));
        found.map(|(found, _)| found.into_sorted())
    }

    fn answers(&self, range: Range<u32>) -> NeighborLists {
        let Some(norms) = &self.norms else {
            return range.map(|query| self.answer_single(query)).collect();
        };
        let dimension = norms.dimension;
        let mut active: Vec<Query<'_, C>> = Vec::with_capacity(range.len());
        let mut values = Vec::with_capacity(range.len() * dimension);
        let mut answers: Vec<Option<Result<Vec<Neighbor>, Error>>> = Vec::new();
        for number in range {
            let query = self.coordinates.of(self.queries.point(number));
            let square = squared_length(query);
            // Answer invalid queries and queries with large coordinates one by one.
            if query.len() != dimension || square.is_nan() || square > MAX_SQUARE {
                answers.push(Some(self.answer_single(number)));
                continue;
            }
            answers.push(None);
            values.extend_from_slice(query);
            let collector = (self.ask)(number);
            active.push(Query { point: query, square, collector, error: None });
        }
        let point = |number: u32| self.coordinates.of(self.index.space.points.point(number));
        let mut products = vec![0.0; active.len() * POINTS_PER_PRODUCT];
        let mut rows = Vec::with_capacity(POINTS_PER_PRODUCT * dimension);
        for (first, halves) in
            (0..).step_by(POINTS_PER_PRODUCT).zip(norms.halves.chunks(POINTS_PER_PRODUCT))
        {
            rows.clear();
            let numbers =
                first..first + u32::try_from(halves.len()).expect("at most POINTS_PER_PRODUCT");
            numbers.for_each(|number| rows.extend_from_slice(point(number)));
            multiply(&rows, &values, dimension, &mut products);
            let block = Block { first, halves, max_square: norms.max_square };
            for (query, products) in active.iter_mut().zip(products.chunks_mut(POINTS_PER_PRODUCT))
            {
                query.scan(&point, &block, products);
            }
        }
        let mut results = active.into_iter().map(|query| match query.error {
            Some(error) => Err(error),
            None => Ok(query.collector.into_sorted()),
        });
        let answer = |answer: Option<_>| {
            answer.or_else(|| results.next()).expect("each query has an answer")
        };
        answers.into_iter().map(answer).collect()
    }
}

/// The points of one matrix product.
struct Block<'a> {
    /// The number of the first point.
    first: u32,
    /// Half the squared length of each point.
    halves: &'a [f32],
    /// The maximum squared length of all points of the index.
    max_square: f64,
}

struct Query<'a, C> {
    point: &'a [f32],
    square: f64,
    collector: C,
    error: Option<Error>,
}

impl<C: Answer> Query<'_, C> {
    /// Computes the distances to those points of a block that can be within the radius.
    fn scan<'p>(
        &mut self,
        point_of: &impl Fn(u32) -> &'p [f32],
        block: &Block<'_>,
        products: &mut [f32],
    ) {
        let &Block { first, halves, max_square } = block;
        let mut threshold = self.threshold(max_square);
        if threshold == f32::NEG_INFINITY {
            // The radius is still infinite, so begin with the points that seem nearest.
            let mut order: Vec<(f32, u32)> =
                products.iter().zip(halves).map(|(p, h)| p - h).zip(first..).collect();
            order.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
            for (nearness, point) in order {
                if nearness < threshold {
                    continue;
                }
                threshold = self.measure(point_of, point, threshold, max_square);
            }
            return;
        }
        let chunks = halves.chunks(LANES).zip(products.chunks(LANES));
        for (chunk, (halves, products)) in (first..).step_by(LANES).zip(chunks) {
            if !any_reaches(halves, products, threshold) {
                continue;
            }
            for ((point, &half), &product) in (chunk..).zip(halves).zip(products) {
                if product < half + threshold {
                    continue;
                }
                threshold = self.measure(point_of, point, threshold, max_square);
            }
        }
    }

    /// Computes the distance to a point and returns the new threshold.
    fn measure<'p>(
        &mut self,
        point_of: &impl Fn(u32) -> &'p [f32],
        point: u32,
        threshold: f32,
        max_square: f64,
    ) -> f32 {
        let distance = Euclidean.distance(self.point, point_of(point));
        if !(0.0..f32::INFINITY).contains(&distance) {
            self.error = self.error.or(Some(Error::NoDistance { point, distance }));
        } else if distance <= self.collector.radius() {
            self.collector.offer(Neighbor { point, distance });
            return self.threshold(max_square);
        }
        threshold
    }

    /// Returns a lower bound on the product minus half the point's squared length, for points
    /// within the radius.
    #[expect(clippy::cast_possible_truncation, reason = "rounded down below")]
    fn threshold(&self, max_square: f64) -> f32 {
        let radius = self.collector.radius();
        if radius < 0.0 {
            return f32::INFINITY;
        }
        // An upper bound on the true distance of points whose computed distance is at most the
        // radius.
        let error = f64::from(Metric::<[f32]>::relative_error(&Euclidean));
        let distance = f64::from(radius.next_up()) * (1.0 + 4.0 * error);
        let squares = self.square + max_square + distance * distance;
        let terms = (self.point.len() + 8) as f64;
        let underflow = f64::from(f32::from_bits(8));
        let slack = terms * (f64::from(f32::EPSILON) * squares + underflow);
        let bound = (self.square - distance * distance) / 2.0 - slack;
        if bound > -MAX_SQUARE { (bound as f32).next_down() } else { f32::NEG_INFINITY }
    }
}

/// Half the squared lengths of all points.
struct Norms {
    dimension: usize,
    halves: Vec<f32>,
    /// The maximum squared length.
    max_square: f64,
}

impl Norms {
    /// Computes the squared lengths. Returns `None` if the points differ in dimension, have no
    /// coordinates, or are so large that squares overflow.
    #[expect(clippy::cast_possible_truncation, reason = "the threshold allows for the rounding")]
    fn of<S: Points>(points: &S, coordinates: &dyn Coordinates<S::Point>) -> Option<Self> {
        let point = |number: u32| coordinates.of(points.point(number));
        let dimension = if points.is_empty() { 0 } else { point(0).len() };
        let count = u32::try_from(points.len()).ok().filter(|_| dimension > 0)?;
        let squares = (0..count).map(|number| {
            let point = point(number);
            let square = (point.len() == dimension).then(|| squared_length(point));
            square.filter(|&square| square <= MAX_SQUARE)
        });
        let squares: Vec<f64> = squares.collect::<Option<_>>()?;
        let max_square = squares.iter().copied().fold(0.0, f64::max);
        let halves = squares.into_iter().map(|square| (square / 2.0) as f32).collect();
        Some(Self { dimension, halves, max_square })
    }
}

fn squared_length(point: &[f32]) -> f64 {
    point.iter().map(|&x| f64::from(x) * f64::from(x)).sum()
}

/// Returns whether at least one product reaches the threshold.
#[multiversion(targets("x86_64+avx512f+avx512vl", "x86_64+avx2", "aarch64+neon"))]
fn any_reaches(halves: &[f32], products: &[f32], threshold: f32) -> bool {
    let halves = <&[f32; LANES]>::try_from(halves);
    let products = <&[f32; LANES]>::try_from(products);
    let Ok(halves) = halves else { return true };
    let Ok(products) = products else { return true };
    let mut any = 0u32;
    for (&half, &product) in halves.iter().zip(products) {
        any |= u32::from(product >= half + threshold);
    }
    any != 0
}

/// Computes the products of all rows with all queries. The products of query q begin at
/// `q * POINTS_PER_PRODUCT`.
fn multiply(rows: &[f32], queries: &[f32], dimension: usize, products: &mut [f32]) {
    let row_count = rows.len() / dimension;
    let query_count = queries.len() / dimension;
    let fits =
        row_count <= POINTS_PER_PRODUCT && query_count * POINTS_PER_PRODUCT <= products.len();
    assert!(fits, "the products fit in the buffer");
    let stride = |n: usize| isize::try_from(n).expect("a vector fits in memory");
    #[expect(unsafe_code, reason = "`gemm` takes raw pointers")]
    // SAFETY: `rows` contains `row_count * dimension` values, and `queries` contains
    // `query_count * dimension` values. As asserted above, `products` contains `query_count`
    // columns of `POINTS_PER_PRODUCT` values, of which the first `row_count` are written. The
    // mutable borrow of `products` overlaps nothing.
    unsafe {
        gemm::gemm(
            row_count,
            query_count,
            dimension,
            products.as_mut_ptr(),
            stride(POINTS_PER_PRODUCT),
            1,
            false,
            rows.as_ptr(),
            1,
            stride(dimension),
            queries.as_ptr(),
            stride(dimension),
            1,
            0.0,
            1.0,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}
