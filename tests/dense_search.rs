//! Compares dense engines with an exhaustive scan, bit for bit, for every index, metric, filter and
//! number of threads.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::num::NonZeroUsize;
use std::sync::Arc;

use classify::random::Random;
use classify::rows::dense::{Kernel, Metric, Vectors};
use classify::search::{
    Allow, Composite, Dense, DenseIndex, Neighbor, NeighborLists, Request, RowLists, RowRange,
    RowSet, Search, SearchError, Segment, Stop, learn_scale,
};
use classify::threads::Threads;
use metric_index::metric::{Euclidean, Manhattan, Metric as _};
use proptest::prelude::*;

const INDEXES: [&str; 9] = [
    "auto",
    "brute-force",
    "kd-tree",
    "vp-tree",
    "lc:8",
    "sss-index:4p",
    "sss-tree:0.4",
    "egnat:4x8",
    "m-tree:8",
];
const METRICS: [Metric; 3] = [Metric::Angular, Metric::Euclidean, Metric::Manhattan];

fn threads(count: usize) -> Threads {
    Threads::new(NonZeroUsize::new(count).unwrap()).unwrap()
}

fn normalized(row: &[f32]) -> Vec<f32> {
    let length = row.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt();
    #[expect(clippy::cast_possible_truncation, reason = "the engine rounds in the same way")]
    let unit = |&x: &f32| if length > 0.0 { (f64::from(x) / length) as f32 } else { x };
    row.iter().map(unit).collect()
}

fn prepared(rows: &Vectors, metric: Metric) -> Arc<Vectors> {
    if metric != Metric::Angular {
        return Arc::new(rows.clone());
    }
    let values: Vec<f32> = (0..rows.rows()).flat_map(|row| normalized(rows.row(row))).collect();
    Arc::new(Vectors::new(rows.dimension(), values).unwrap())
}

/// Returns the neighbors found by scanning all rows.
fn oracle(
    rows: &Vectors,
    query: &[f32],
    kernel: Kernel,
    k: usize,
    allows: impl Fn(u32) -> bool,
) -> Vec<Neighbor> {
    let is_zero = |row: &[f32]| row.iter().all(|&x| x == 0.0);
    let query = if kernel.metric == Metric::Angular { normalized(query) } else { query.to_vec() };
    let mut all: Vec<Neighbor> = (0u32..)
        .take(rows.rows())
        .filter(|&row| allows(row))
        .filter(|&row| {
            kernel.metric != Metric::Angular
                || !(is_zero(&query) || is_zero(rows.row(row as usize)))
        })
        .map(|row| {
            let point = rows.row(row as usize);
            let distance = match kernel.metric {
                Metric::Manhattan => Manhattan.distance(&query[..], point),
                Metric::Angular | Metric::Euclidean => Euclidean.distance(&query[..], point),
            };
            Neighbor { row, similarity: kernel.similarity(distance) }
        })
        .filter(|neighbor| neighbor.similarity > 0.0)
        .collect();
    all.sort_unstable();
    all.truncate(k);
    all
}

fn assert_same(found: &[Neighbor], expected: &[Neighbor], what: &str) {
    let bits = |list: &[Neighbor]| -> Vec<(u32, u32)> {
        list.iter().map(|n| (n.row, n.similarity.to_bits())).collect()
    };
    assert_eq!(bits(found), bits(expected), "{what}");
}

/// Returns vectors with few distinct values, which make many distances equal, and with some zero
/// vectors.
fn coarse(rows: usize, dimension: usize, seed: u64) -> Vectors {
    let mut random = Random::new(seed);
    let values: Vec<f32> =
        (0..rows * dimension).map(|_| [-1.0, 0.0, 0.0, 0.5, 1.0, 2.0][random.below(6)]).collect();
    Vectors::new(dimension, values).unwrap()
}

fn fine(rows: usize, dimension: usize, seed: u64) -> Vectors {
    let mut random = Random::new(seed);
    let values: Vec<f32> = (0..rows * dimension).map(|_| random.unit_f32() - 0.25).collect();
    Vectors::new(dimension, values).unwrap()
}

/// The settings of an engine, and the number of neighbors to find.
#[derive(Clone, Copy)]
struct Case {
    metric: Metric,
    index: &'static str,
    k: usize,
    threads: usize,
}

fn check(rows: &Vectors, queries: &Vectors, case: Case) {
    let Case { metric, index, k, threads: workers } = case;
    let kernel = Kernel { metric, scale: 0.7 };
    let training = prepared(rows, metric);
    let index: DenseIndex = index.parse().unwrap();
    let engine = Dense::new(Arc::clone(&training), kernel, index, threads(workers)).unwrap();
    let count = u32::try_from(rows.rows()).unwrap();
    let even = RowSet::from_fn(count, |row| row % 3 != 1);
    let around: Vec<RowRange> =
        (0u32..).take(queries.rows()).map(|query| RowRange::around(query, 1)).collect();
    let bounds: Vec<usize> = (0..=queries.rows()).map(|query| query.min(count as usize)).collect();
    let listed: Vec<u32> = (0..count).collect();
    let of_rows: Vec<u32> = (0..count).map(|row| row / 4).collect();
    let of_queries: Vec<u32> = (0u32..).take(queries.rows()).map(|query| query % 5).collect();
    let all = Allow::all();
    let filters = [
        all,
        all.only(&even),
        all.except_range(&around),
        all.except_listed(RowLists::new(&bounds, &listed)),
        all.except_group(&of_rows, &of_queries).only(&even),
    ];
    let mut found = NeighborLists::default();
    for allow in filters {
        let k = NonZeroUsize::new(k).unwrap();
        let report =
            engine.search(&Request::new(queries.view(), k).among(allow), &mut found).unwrap();
        assert_eq!(report.fast, queries.rows() as u64);
        for query in 0..queries.rows() {
            let allows = |row| allow.allows(query, row);
            let expected = oracle(&training, queries.row(query), kernel, k.get(), allows);
            let what = format!("{metric} {index} k = {k}, query {query}, {allow:?}");
            assert_same(found.get(query), &expected, &what);
        }
    }
}

#[test]
fn every_index_equals_the_exhaustive_scan() {
    for (number, index) in (0u64..).zip(INDEXES) {
        for metric in METRICS {
            for (rows, queries) in [
                (coarse(150, 3, number), coarse(20, 3, number + 50)),
                (fine(150, 14, number), fine(20, 14, number + 50)),
                (coarse(1, 2, number), coarse(3, 2, number + 50)),
            ] {
                for k in [1, 7, 200] {
                    check(&rows, &queries, Case { metric, index, k, threads: 2 });
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn random_rows(
        rows in 1usize..80,
        dimension in 1usize..20,
        is_coarse in any::<bool>(),
        seed in any::<u64>(),
        k in 1usize..12,
        metric in 0usize..3,
        index in 0usize..INDEXES.len(),
        workers in 1usize..4,
    ) {
        let make = if is_coarse { coarse } else { fine };
        let rows = make(rows, dimension, seed);
        let queries = make(17, dimension, seed ^ 1);
        let metric = METRICS[metric];
        check(&rows, &queries, Case { metric, index: INDEXES[index], k, threads: workers });
    }

    /// A smaller distance never has a lower similarity. The collector relies on this.
    #[test]
    fn similarities_decrease_with_distance(
        bits in 0u32..0x7180_0000,
        scale in 1e-30f64..1e30,
        metric in 0usize..3,
    ) {
        let kernel = Kernel { metric: METRICS[metric], scale };
        let distance = f32::from_bits(bits);
        let near = kernel.similarity(distance);
        let far = kernel.similarity(distance.next_up());
        prop_assert!((0.0..=1.0).contains(&near) && far <= near);
    }
}

/// Searches more queries than fit in a batch.
#[test]
fn filters_of_many_queries() {
    let rows = fine(40, 2, 3);
    let values: Vec<f32> = (0..20_000).flat_map(|query| rows.row(query % 40).to_vec()).collect();
    let queries = Vectors::new(2, values).unwrap();
    let own_rows: Vec<RowRange> = (0..20_000).map(|query| RowRange::one(query % 40)).collect();
    let kernel = Kernel { metric: Metric::Euclidean, scale: 1.0 };
    let engine = Dense::new(Arc::new(rows.clone()), kernel, DenseIndex::Auto, threads(2)).unwrap();
    let stop = Stop::new();
    let request = Request::new(queries.view(), NonZeroUsize::MIN);
    let request = request.among(Allow::all().except_range(&own_rows));
    for request in [request, request.until(&stop)] {
        let mut found = NeighborLists::default();
        let _ = engine.search(&request, &mut found).unwrap();
        for query in 0..20_000 {
            assert_eq!(found.get(query)[0].row, found.get(query % 40)[0].row, "{query}");
            assert_ne!(found.get(query)[0].row as usize, query % 40, "{query}");
        }
    }
}

#[test]
fn values_of_different_magnitude() {
    for metric in METRICS {
        for scale in [1e-30, 1.0, 1e30] {
            let values = vec![1e30, -1e30, 0.0, 0.0, 1e-30, 1e-45, -1e-30, 1.0, 1e30, 1e30];
            let rows = Vectors::new(2, values).unwrap();
            let kernel = Kernel { metric, scale };
            let training = prepared(&rows, metric);
            for index in INDEXES {
                let index = index.parse().unwrap();
                let engine = Dense::new(Arc::clone(&training), kernel, index, threads(1)).unwrap();
                let mut found = NeighborLists::default();
                let k = NonZeroUsize::new(3).unwrap();
                let _ = engine.search(&Request::new(rows.view(), k), &mut found).unwrap();
                for query in 0..rows.rows() {
                    let expected = oracle(&training, rows.row(query), kernel, 3, |_| true);
                    assert_same(found.get(query), &expected, &format!("{metric} {index} {scale}"));
                }
            }
        }
    }
}

#[test]
fn segments_equal_the_whole() {
    let rows = coarse(90, 4, 1);
    let queries = coarse(15, 4, 2);
    for metric in METRICS {
        let kernel = Kernel { metric, scale: 1.5 };
        let training = prepared(&rows, metric);
        let engine = |rows: Arc<Vectors>| -> Arc<dyn Search> {
            Arc::new(Dense::new(rows, kernel, DenseIndex::Auto, threads(2)).unwrap())
        };
        let part = |range: std::ops::Range<usize>| {
            let values: Vec<f32> = range.flat_map(|row| training.row(row).to_vec()).collect();
            engine(Arc::new(Vectors::new(4, values).unwrap()))
        };
        let segments = [0..40, 40..90].map(|rows| Segment { engine: part(rows), kept: None });
        let composite = Composite::of_segments(segments, threads(2)).unwrap();
        let mut one = NeighborLists::default();
        let mut two = NeighborLists::default();
        let request = Request::new(queries.view(), NonZeroUsize::new(9).unwrap());
        let _ = engine(Arc::clone(&training)).search(&request, &mut one).unwrap();
        let _ = composite.search(&request, &mut two).unwrap();
        for query in 0..queries.rows() {
            assert_same(two.get(query), one.get(query), &format!("{metric} {query}"));
        }
    }
}

#[test]
fn wrong_requests() {
    let rows = Arc::new(fine(30, 3, 0));
    let kernel = Kernel { metric: Metric::Euclidean, scale: 1.0 };
    let engine = Dense::new(Arc::clone(&rows), kernel, DenseIndex::Auto, threads(1)).unwrap();
    let mut found = NeighborLists::default();
    let k = NonZeroUsize::MIN;
    let other = fine(1, 2, 0);
    let error = engine.search(&Request::new(other.view(), k), &mut found).unwrap_err();
    assert!(matches!(error, SearchError::Columns { found: 2, expected: 3 }), "{error}");
    let sparse = classify::rows::matrix::CsrBuilder::default().build(9);
    let error = engine.search(&Request::new(&sparse, k), &mut found).unwrap_err();
    assert!(matches!(error, SearchError::Columns { found: 9, expected: 3 }), "{error}");
    let nan = Vectors::new(3, vec![f32::NAN; 3]).unwrap();
    let error = engine.search(&Request::new(nan.view(), k), &mut found).unwrap_err();
    assert!(matches!(error, SearchError::NotFinite { what: "query" }), "{error}");
    let made = Dense::new(Arc::new(nan), kernel, DenseIndex::Auto, threads(1));
    assert!(matches!(made.unwrap_err(), SearchError::NotFinite { what: "training" }));
    let stop = Stop::new();
    stop.stop();
    let stopped = engine.search(&Request::new(rows.view(), k).until(&stop), &mut found);
    assert!(matches!(stopped.unwrap_err(), SearchError::Stopped));
    assert!("sss-index:7".parse::<DenseIndex>().unwrap_err().contains("share 7"));
}

#[test]
fn auto_suits_the_rows() {
    let kind = |rows: Vectors| {
        let kernel = Kernel { metric: Metric::Euclidean, scale: 1.0 };
        Dense::new(Arc::new(rows), kernel, DenseIndex::Auto, threads(2)).unwrap().kind()
    };
    assert_eq!(kind(fine(5_000, 3, 0)), "kd-tree");
    assert_eq!(kind(fine(5_000, 40, 0)), "brute-force");
    assert_eq!(kind(fine(100, 2, 0)), "brute-force");
}

#[test]
fn distance_scales() {
    let scale = |values: Vec<f32>, metric| {
        learn_scale(&Arc::new(Vectors::new(1, values).unwrap()), metric, &threads(1)).unwrap()
    };
    // The nearest other values are at distances 1, 1, 2 and 4. The second 0 is a copy.
    let line = vec![0.0, 0.0, 1.0, 3.0, 7.0];
    assert_eq!(scale(line.clone(), Metric::Euclidean).to_bits(), 1f64.to_bits());
    assert_eq!(scale(vec![0.0, 5.0], Metric::Manhattan).to_bits(), 5f64.to_bits());
    for (values, metric) in
        [(line, Metric::Angular), (vec![2.0; 9], Metric::Euclidean), (vec![], Metric::Euclidean)]
    {
        assert_eq!(scale(values, metric).to_bits(), 1f64.to_bits());
    }
}
