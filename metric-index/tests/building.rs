//! Tests the progress reports of builders, the node counts, and tables of many blocks.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Mutex;

use metric_index::collector::{Nearest, Within};
use metric_index::index::{
    BruteForce, ClusterSize, Egnat, EgnatOptions, Index, KdTree, Kind, ListOfClusters, Pivots,
    Progress, SssIndex, SssTree, VpTree, search,
};
use metric_index::metric::{Chebyshev, CountingMetric, Euclidean, Manhattan, Metric};
use metric_index::points::{Points, Vectors};
use proptest::prelude::*;

/// Returns `count` points of a 50 x 50 grid, some of them equal.
fn grid(count: u32) -> Vectors<f32> {
    let coordinates = |point: u32| {
        let mixed = point.wrapping_mul(2_654_435_761) >> 16;
        [(mixed % 50) as f32, (mixed / 50 % 50) as f32]
    };
    Vectors::new((0..count).flat_map(coordinates).collect(), 2).unwrap()
}

/// Runs a build and returns its progress reports.
fn with_reports<T>(build: impl FnOnce(&Progress<'_>) -> T) -> (Vec<(u64, u64)>, T) {
    let calls = Mutex::new(Vec::new());
    let report = |done, all| calls.lock().unwrap().push((done, all));
    let index = build(&Progress::new(&report));
    (calls.into_inner().unwrap(), index)
}

#[test]
fn builds_report_their_progress() {
    let variants = [
        Kind::ListOfClusters(ClusterSize::Radius(3.0)),
        Kind::SssIndex(Pivots::Spread(0.3)),
        Kind::SssIndex(Pivots::Count(0)),
        Kind::SssIndex(Pivots::Count(7)),
        Kind::Egnat(EgnatOptions { arity: 2, bucket: 1 }),
    ];
    for count in [0, 1, 2, 63, 700, 3_000] {
        let points = grid(count);
        let mut all_reports = Vec::new();
        for kind in Kind::all().into_iter().chain(variants) {
            let (calls, built) =
                with_reports(|progress| kind.build_with(&points, Euclidean, progress));
            built.unwrap();
            all_reports.push((kind.to_string(), calls));
        }
        for (kind, calls) in all_reports {
            let (first, all) = calls[0];
            assert_eq!(first, 0, "{kind} of {count}");
            assert!(calls.iter().all(|&(done, of)| done <= all && of == all), "{kind}: {calls:?}");
            assert!(calls.contains(&(all, all)), "{kind} of {count}: {calls:?}");
            assert!(calls.len() <= 1_001, "{kind}: {} calls", calls.len());
            // No amount is reported twice.
            let mut sorted = calls.clone();
            sorted.sort_unstable();
            sorted.dedup();
            assert_eq!(sorted.len(), calls.len(), "{kind}: {calls:?}");
            // Without clusters or pivots, there is nothing to build.
            let is_short = count < 3_000 || ["brute-force", "sss-index:0p"].contains(&&*kind);
            assert!(is_short || calls.len() > 4, "{kind}: {calls:?}");
        }
    }
}

#[test]
fn nodes_are_counted() {
    let points = grid(3_000);
    for kind in Kind::all() {
        let index = kind.build(&points, Euclidean).unwrap();
        let everything = search(&index, &[25.0, 25.0][..], Within::new(f32::INFINITY)).unwrap().1;
        let near = search(&index, &[25.0, 25.0][..], Within::new(0.5)).unwrap().1;
        assert!(near.nodes <= everything.nodes && near.nodes > 0, "{kind}: {near:?}");
        let nodes = index.nodes() as u64;
        assert!((nodes / 3..=nodes).contains(&everything.nodes), "{kind}: {everything:?}");
    }
    assert_eq!(BruteForce::new(&points, Euclidean).unwrap().nodes(), 1);
    let list = ListOfClusters::build(&points, Euclidean, ClusterSize::Points(9)).unwrap();
    assert_eq!(list.nodes(), 300);
    // Leaves have at most 256 and 64 points, after four and six halvings.
    assert_eq!(VpTree::build(&points, Euclidean).unwrap().nodes(), 31);
    assert_eq!(KdTree::build(&points, Euclidean).unwrap().nodes(), 127);
    // If the metric has no blocks, leaves have at most 16 and 32 points, after eight and seven
    // halvings.
    let plain = CountingMetric::new(Euclidean);
    assert_eq!(VpTree::build(&points, &plain).unwrap().nodes(), 511);
    assert_eq!(KdTree::build(&points, &plain).unwrap().nodes(), 255);
    // The points that are not pivots are in 47 blocks of 64 points. Six groups contain the blocks,
    // and one group contains the six groups.
    let table = SssIndex::build(&points, Euclidean, Pivots::Count(5)).unwrap();
    assert_eq!(table.nodes(), 47 + 6 + 1);
    let tree = SssTree::build(grid(16), Euclidean, 0.4).unwrap();
    assert_eq!(tree.nodes(), 1);
    let tree = Egnat::build(grid(0), Euclidean, EgnatOptions::default()).unwrap();
    assert_eq!(tree.nodes(), 1);
}

/// Returns a configuration with the number of cases in `PROPTEST_CASES`, or with `default` cases.
fn cases(default: u32) -> ProptestConfig {
    let requested = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig::with_cases(requested.unwrap_or(default))
}

proptest! {
    #![proptest_config(cases(12))]

    /// Tests tables with several levels of groups, whose last block and last group are not full.
    #[test]
    fn partial_groups(count in 0u32..6_000, pivots in 0u32..9, x in -5f32..60.0, y in 0u8..50) {
        let points = grid(count);
        assert_table_agrees(&points, &Euclidean, pivots, &[x, f32::from(y)]);
        assert_table_agrees(&points, &Chebyshev, pivots, &[x.round(), f32::from(y)]);
        assert_table_agrees(&points, &Manhattan, pivots, &[x.round(), f32::from(y)]);
    }
}

/// Tests points that are extremely close together, with a query so far away that its scaled
/// distance exceeds the range of `f32`.
#[test]
fn distant_queries_agree_with_brute_force() {
    for spread in [0.0, 1e-30] {
        for count in [2, 200] {
            let coordinate = |point: u8| f32::from(point % 3) * spread;
            let points = Vectors::new((0..count).map(coordinate).collect(), 1).unwrap();
            for far in [1e9, 1e30] {
                assert_table_agrees(&points, &Euclidean, 1, &[far]);
                let table = SssIndex::build(&points, Euclidean, Pivots::Count(1)).unwrap();
                assert_eq!(table.within(&[far], far).unwrap().len(), usize::from(count));
            }
        }
    }
}

fn assert_table_agrees(
    points: &Vectors<f32>,
    metric: &dyn Metric<[f32]>,
    pivots: u32,
    query: &[f32],
) {
    let oracle = BruteForce::new(points, metric).unwrap();
    let table = SssIndex::build(points, metric, Pivots::Count(pivots)).unwrap();
    for k in [1, 30, usize::MAX] {
        let (found, cost) = search(&table, query, Nearest::new(k)).unwrap();
        assert_eq!(found.into_sorted(), oracle.nearest(query, k).unwrap());
        assert!(cost.evaluations <= points.len() as u64 + 1);
    }
    for radius in [0.0, 1.0, 5.0, 7.5, 30.0, f32::INFINITY] {
        assert_eq!(table.within(query, radius).unwrap(), oracle.within(query, radius).unwrap());
    }
}
