//! Tests that distances computed in blocks equal single distances, bit for bit, and that none is
//! missing.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};

use metric_index::generate::{Random, clustered, held_out};
use metric_index::index::{BruteForce, Index, Kind};
use metric_index::lists::NeighborLists;
use metric_index::metric::{
    Blocks, Chebyshev, Coordinates, CountingMetric, Edit, Euclidean, Manhattan, Metric,
};
use metric_index::neighbor::Neighbor;
use metric_index::points::{Items, Points, Vectors};
use proptest::prelude::*;

/// Compares the results for several ranges of positions and many radii. The radii include distances
/// of points and the adjacent floating-point numbers.
fn assert_agree<P: ?Sized>(metric: &impl Metric<P>, points: &[&P], queries: &[&P]) {
    let blocks = metric.blocks(points).expect("the metric has blocks");
    let end = u32::try_from(points.len()).unwrap();
    for query in queries {
        let all: Vec<f32> = points.iter().map(|point| metric.distance(query, point)).collect();
        let Some(mut scan) = blocks.from(query) else {
            panic!("the blocks do not support the query");
        };
        let mut radii = vec![-1.0, 0.0, 1.0, f32::MAX, f32::INFINITY];
        for &distance in all.iter().step_by(all.len() / 7 + 1) {
            radii.extend([distance, distance.next_up(), distance.next_down()]);
        }
        for radius in radii {
            for positions in [0..end, 0..end / 2, end / 3..end, end / 2..end / 2] {
                let mut near = vec![(7, 7.0)];
                scan.within(positions.clone(), radius, &mut near);
                let expected = positions.map(|position| (position, all[position as usize]));
                let expected: Vec<(u32, f32)> = expected.filter(|&(_, d)| d <= radius).collect();
                assert_eq!(near[1..], expected, "within {radius}");
                assert_eq!(near[0], (7, 7.0), "earlier results are kept");
            }
        }
    }
}

/// Generates numbers of very different magnitudes, so that sums of squares overflow, underflow and
/// cancel in `f32`.
fn coordinate() -> impl Strategy<Value = f32> {
    let whole = (-4i8..4).prop_map(f32::from);
    prop_oneof![
        4 => whole.clone(),
        4 => whole.prop_map(|x| x / 10.0),
        1 => prop_oneof![Just(1e19f32), Just(-1e19), Just(1e30), Just(1e-23), Just(-3e-23)],
        1 => prop_oneof![Just(f32::MIN_POSITIVE), Just(1e-45), Just(-1e-44), Just(1e-38)],
        1 => any::<i32>().prop_map(|bits| bits as f32),
    ]
}

fn cases(default: u32) -> ProptestConfig {
    let requested = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig::with_cases(requested.unwrap_or(default))
}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn block_vectors(
        dimension in prop_oneof![1usize..20, 60usize..70, Just(130)],
        count in 1usize..50,
        values in prop::collection::vec(coordinate(), 1..400),
    ) {
        let vector = |point: usize| -> Vec<f32> {
            (0..dimension).map(|c| values[(point * dimension + c) % values.len()]).collect()
        };
        let all: Vec<Vec<f32>> = (0..count + 2).map(vector).collect();
        let all: Vec<&[f32]> = all.iter().map(Vec::as_slice).collect();
        let (points, queries) = all.split_at(count);
        assert_agree(&Euclidean, points, queries);
        assert_agree(&Manhattan, points, queries);
        assert_agree(&Chebyshev, points, queries);
    }

    /// Tests distances around 1e-22, whose squares underflow and lose precision.
    #[test]
    fn tiny_vectors(values in prop::collection::vec(0u8..60, 240), dimension in 1usize..13) {
        let values: Vec<f32> = values.iter().map(|&x| f32::from(x) * 1e-24).collect();
        let all: Vec<&[f32]> = values.chunks_exact(dimension).collect();
        let (queries, points) = all.split_at(2);
        assert_agree(&Euclidean, points, queries);
        let bound = Euclidean.bound_from_box(queries[0], points[0], points[0]);
        prop_assert!(bound <= Euclidean.distance(queries[0], points[0]));
    }

    #[test]
    fn block_words(
        words in prop::collection::vec("[aábc]{0,9}|[a-d]{14,19}|[ab]{30,35}|[ab]{60,66}", 1..90),
        queries in prop::collection::vec("[aábcz]{1,9}|[a-d]{15,18}|[ab]{31,34}|[ab]{60,64}", 1..4),
    ) {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let queries: Vec<&str> = queries.iter().map(String::as_str).collect();
        assert_agree(&Edit, &words, &queries);
    }

    /// The bound of a box is at most the distance from every point of the box.
    #[test]
    fn box_bounds_are_lower_bounds(
        dimension in 1usize..20,
        values in prop::collection::vec(coordinate(), 60),
        shares in prop::collection::vec(0u8..=4, 20),
    ) {
        let query = &values[..dimension];
        let ends = &values[20..];
        let low: Vec<f32> = (0..dimension).map(|c| ends[c].min(ends[c + 20])).collect();
        let high: Vec<f32> = (0..dimension).map(|c| ends[c].max(ends[c + 20])).collect();
        // Each coordinate of the point is at an end of the box, in the middle, or nearest to the
        // query.
        let within = |c: usize| match shares[c] {
            0 => low[c],
            1 => high[c],
            2 => f32::midpoint(low[c], high[c]),
            _ => query[c].clamp(low[c], high[c]),
        };
        let point: Vec<f32> = (0..dimension).map(within).collect();
        let bound = |metric: &dyn Coordinates| metric.bound_from_box(query, &low, &high);
        prop_assert!(bound(&Euclidean) <= Euclidean.distance(query, &point));
        prop_assert!(bound(&Manhattan) <= Manhattan.distance(query, &point));
        prop_assert!(bound(&Chebyshev) <= Chebyshev.distance(query, &point));
    }
}

/// A metric that counts the distances of single points. Distances computed in blocks are not
/// counted.
#[derive(Default)]
struct SingleCounter<M> {
    metric: M,
    calls: AtomicU64,
}

impl<P: ?Sized, M: Metric<P>> Metric<P> for SingleCounter<M> {
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

    fn blocks(&self, points: &[&P]) -> Option<Box<dyn Blocks<P>>> {
        self.metric.blocks(points)
    }

    fn size(&self, point: &P) -> usize {
        self.metric.size(point)
    }

    fn coordinates(&self) -> Option<&dyn Coordinates<P>> {
        self.metric.coordinates()
    }
}

/// Returns the answers of an index to queries, and the number of distances of single points.
fn count_single_distances<S: Points, M: Metric<S::Point> + Default>(
    kind: Kind,
    points: &S,
    queries: &S,
) -> (NeighborLists, u64) {
    let metric = SingleCounter::<M>::default();
    let index = kind.build(points, &metric).unwrap();
    let built = metric.calls.load(Ordering::Relaxed);
    let one = NonZero::<usize>::MIN;
    let mut answers = index.nearest_many(queries, 5, one);
    answers.append(&index.within_many(queries, 1.0, one));
    (answers, metric.calls.load(Ordering::Relaxed) - built)
}

/// Brute force evaluates only one distance outside blocks: the distance from the query to itself.
/// Other indexes also evaluate the distances of centers, pivots and a few other points.
#[test]
fn indexes_use_blocks() {
    let (points, queries) = clustered(4_000, 40, 3);
    let expected = answers_one_by_one(&points, &queries);
    for (kind, max_calls) in [("brute-force", 1), ("kd-tree", 1), ("vp-tree", 40), ("lc:64", 70)] {
        let kind: Kind = kind.parse().unwrap();
        let (answers, calls) = count_single_distances::<_, Euclidean>(kind, &points, &queries);
        assert!(answers == expected, "{kind}");
        assert!(calls <= max_calls * answers.len() as u64, "{kind}: {calls} single distances");
    }
    let mut random = Random::new(5);
    let word = |_| (0..3 + random.below(6)).map(|_| ['a', 'b', 'é'][random.below(3)]).collect();
    let words: Vec<String> = (0..3_000).map(word).collect();
    let (words, queries) = held_out(words.iter().map(String::as_str), 30, 1);
    let index = BruteForce::new(&words, CountingMetric::new(Edit)).unwrap();
    assert!(index.blocks().is_none(), "a counting metric has no blocks");
    let one = NonZero::<usize>::MIN;
    let mut expected = index.nearest_many(&queries, 5, one);
    expected.append(&index.within_many(&queries, 1.0, one));
    for (kind, max_calls) in
        [("brute-force", 1), ("vp-tree", 40), ("lc:32", 100), ("sss-index:8p", 80)]
    {
        let kind: Kind = kind.parse().unwrap();
        let (answers, calls) = count_single_distances::<_, Edit>(kind, &words, &queries);
        assert!(answers == expected, "{kind}");
        assert!(calls <= max_calls * answers.len() as u64, "{kind}: {calls} single distances");
    }
}

fn answers_one_by_one(points: &Vectors<f32>, queries: &Vectors<f32>) -> NeighborLists {
    let index = BruteForce::new(points, CountingMetric::new(Euclidean)).unwrap();
    let one = NonZero::<usize>::MIN;
    let mut answers = index.nearest_many(queries, 5, one);
    answers.append(&index.within_many(queries, 1.0, one));
    assert!(answers.iter().all(|answer| answer.is_ok()));
    answers
}

/// If blocks do not support a query, its distances are computed one at a time.
#[test]
fn queries_without_block_support_use_single_distances() {
    let long = "ab".repeat(40);
    assert!(Edit.blocks(&["ab"]).unwrap().from(&long).is_none());
    assert!(Edit.blocks(&["ab"]).unwrap().from("").is_none());
    assert!(Edit.blocks(&[&*"a".repeat(5_000)]).is_none());
    assert!(Metric::<str>::blocks(&Edit, &[]).is_none());
    let plane: [&[f32]; 2] = [&[0.0, 0.0], &[3.0, 4.0]];
    assert!(Euclidean.blocks(&plane).unwrap().from(&[1.0]).is_none());
    assert!(Euclidean.blocks(&[&[0.0][..], &[3.0, 4.0]]).is_none());
    let empty: Items<[f32], Vec<f32>> = (0..300).map(|_| Vec::new()).collect();
    for kind in Kind::all() {
        let index = kind.build(&empty, Euclidean).unwrap();
        assert_eq!(index.nearest(&[], 300).unwrap().len(), 300, "{kind}");
    }
    let words = metric_index::points::Strings::from_iter(["ab", "abc", &*long]);
    let index = BruteForce::new(words, Edit).unwrap();
    assert_eq!(index.nearest(&long, 1).unwrap()[0].point, 2);
    assert_eq!(index.nearest("", 1).unwrap()[0].point, 0);
}

/// Many queries are answered by matrix products. A query without a distance does not affect other
/// queries.
#[test]
fn matrix_products_answer_many_queries() {
    let (points, queries) = clustered(3_000, 40, 9);
    let plain = BruteForce::new(&points, CountingMetric::new(Euclidean)).unwrap();
    let index = "brute-force".parse::<Kind>().unwrap().build(&points, Euclidean).unwrap();
    let mut values = queries.values().to_vec();
    values[20 * 3] = f32::NAN;
    values[20 * 5] = 1e30;
    let queries = Vectors::new(values, 20).unwrap();
    for threads in [1, 3, 64].map(|threads| NonZero::new(threads).unwrap()) {
        let near = index.nearest_many(&queries, 7, threads);
        let within = index.within_many(&queries, 1.5, threads);
        for (query, (near, within)) in (0..).zip(near.iter().zip(&within)) {
            // The error contains NaN, which does not equal itself.
            let are_equal =
                |a: Result<_, _>, b: Result<Vec<Neighbor>, _>| format!("{a:?}") == format!("{b:?}");
            assert!(are_equal(near, plain.nearest(queries.point(query), 7)), "{query}");
            assert!(are_equal(within, plain.within(queries.point(query), 1.5)), "{query}");
        }
    }
    assert!(
        index.within_many(&queries, -1.0, NonZero::<usize>::MIN).iter().all(|list| list.is_err())
    );
    let none = Vectors::<f32>::new(Vec::new(), 20).unwrap();
    assert!(index.nearest_many(&none, 7, NonZero::<usize>::MIN).is_empty());
}
