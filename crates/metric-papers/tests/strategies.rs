//! Tests that every strategy returns the answers of a search, with any number of threads and any
//! arrivals.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::num::NonZero;
use std::time::Duration;

use metric_index::collector::{Nearest, Within};
use metric_index::error::Error;
use metric_index::generate::Random;
use metric_index::index::{ClusterSize, EgnatOptions, Index, Kind, Pivots};
use metric_index::metric::{
    Angular, Chebyshev, Edit, Euclidean, Hamming, Jaccard, Manhattan, Metric, Minkowski,
};
use metric_index::neighbor::Neighbor;
use metric_index::points::Points;
use metric_papers::strategy::{Arrivals, Options, Run, RunError, Strategy, run, run_distributed};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use erased::{All, AnyMetric, Erased, Point, built, cases, on, plain, vectors};

#[path = "../../../metric-index/tests/erased/mod.rs"]
mod erased;

const STRATEGIES: [Strategy; 5] = [
    Strategy::Local,
    Strategy::BulkCircular,
    Strategy::BulkCritical,
    Strategy::BulkLocal,
    Strategy::Hybrid,
];

fn options(strategy: Strategy, threads: usize, evaluations: u64, arrivals: Arrivals) -> Options {
    Options {
        evaluations: NonZero::new(evaluations).unwrap(),
        arrivals,
        waiting: 1,
        ..Options::new(strategy, NonZero::new(threads).unwrap())
    }
}

/// Returns points on a small grid, with tied distances and equal points.
fn grid(count: usize, seed: u64) -> All {
    let mut random = Random::new(seed);
    let mut next = || random.below(12) as f32 / 10.0;
    vectors(&(0..count * 3).map(|_| next()).collect::<Vec<f32>>(), 3)
}

fn words(count: usize, seed: u64) -> All {
    let mut random = Random::new(seed);
    let mut next = |below| random.below(below);
    let mut word = |_: usize| {
        let length = next(6);
        (0..length).map(|_| char::from(b'a' + u8::try_from(next(3)).unwrap())).collect::<String>()
    };
    (0..count).map(|number| Point::Word(word(number))).collect()
}

/// Returns an iterator over all points.
fn every(points: &All) -> impl Iterator<Item = &Point> {
    (0..u32::try_from(points.len()).unwrap()).map(|number| points.point(number))
}

fn check_run(done: Run, expected: &[Vec<Neighbor>], options: &Options) {
    let Run { answers, measures } = done;
    let answers: Vec<&[Neighbor]> = answers.iter().map(Result::unwrap).collect();
    assert_eq!(answers, expected, "{options:?}");
    assert_eq!(measures.latencies.len(), expected.len());
    let taken: u64 = measures.workers.iter().map(|worker| worker.queries).sum();
    assert!(taken >= expected.len() as u64);
    assert!(measures.evaluations() >= expected.len() as u64);
    for share in [measures.balance(), measures.efficiency(), measures.idle()] {
        assert!((0.0..=1.0).contains(&share), "{share}");
    }
    let is_silent = matches!(options.strategy, Strategy::Local | Strategy::BulkLocal);
    assert!(!is_silent || measures.messages() == 0);
}

fn all_strategies(index: &Erased, queries: &All, radius: f32) {
    let balls: Vec<_> = every(queries).map(|query| index.within(query, radius).unwrap()).collect();
    let nearest: Vec<_> = every(queries).map(|query| index.nearest(query, 5).unwrap()).collect();
    for strategy in STRATEGIES {
        for (threads, evaluations) in [(1, 7), (2, 1), (3, 40), (5, 1_000)] {
            let options = options(strategy, threads, evaluations, Arrivals::AllAtOnce);
            let done = run(index, queries, |_| Within::new(radius), &options).unwrap();
            check_run(done, &balls, &options);
            let done = run(index, queries, |_| Nearest::new(5), &options).unwrap();
            check_run(done, &nearest, &options);
        }
    }
}

fn all_indexes(points: &All, metric: &AnyMetric, queries: &All, radius: f32) {
    let kinds = [
        Kind::BruteForce,
        Kind::ListOfClusters(ClusterSize::Points(8)),
        Kind::SssIndex(Pivots::Count(6)),
        Kind::SssTree(0.4),
        Kind::VpTree,
        Kind::Egnat(EgnatOptions { arity: 5, bucket: 9 }),
        Kind::MTree(8),
    ];
    for kind in kinds.into_iter().chain(metric.coordinates().map(|_| Kind::KdTree)) {
        all_strategies(&built(kind, points, metric), queries, radius);
    }
}

proptest! {
    #![proptest_config(cases(16))]

    /// Any strategy must return the answers of brute force, regardless of the number of threads,
    /// the length of supersteps and the arrivals.
    #[test]
    fn any_strategy_equals_brute_force(
        kind in select(Kind::of_any_metric().to_vec()),
        strategy in select(&STRATEGIES[..]),
        threads in 1usize..7,
        evaluations in 1u64..60,
        waiting in 0u32..4,
        count in 0usize..260,
        seed in any::<u64>(),
        mut trace in vec(0u64..1_500, 0..16),
        k in 0usize..300,
        radius in 0f32..2.0,
    ) {
        trace.sort_unstable();
        let arrivals = Arrivals::Trace(trace.iter().copied().map(Duration::from_micros).collect());
        let options = Options { waiting, ..options(strategy, threads, evaluations, arrivals) };
        let case = Case { kind, options, k, radius };
        let points = &grid(count, seed);
        let queries = &grid(trace.len(), !seed);
        case.agrees(points, queries, &on::<[f32], _>(Euclidean));
        case.agrees(points, queries, &on::<[f32], _>(Manhattan));
        case.agrees(points, queries, &on::<[f32], _>(Chebyshev));
        case.agrees(points, queries, &on::<[f32], _>(Minkowski::new(3.0).unwrap()));
        case.agrees(points, queries, &on::<[f32], _>(Hamming));
        let boxes = Case { kind: Kind::KdTree, ..case.clone() };
        boxes.agrees(points, queries, &on::<[f32], _>(Euclidean));
        boxes.agrees(points, queries, &on::<[f32], _>(Chebyshev));
        let values = |point: &Point| match point {
            Point::Vector(values) => values.clone(),
            other => panic!("{other:?} is not a vector"),
        };
        let away = |points: &All| -> All {
            let away = |point| values(point).iter().map(|x| x + 0.1).collect();
            every(points).map(|point| Point::Vector(away(point))).collect()
        };
        case.agrees(&away(points), &away(queries), &on::<[f32], _>(Angular));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 11")]
        let tenths = |x: &f32| (x * 10.0).round() as u8;
        let bytes = |points: &All| -> All {
            let bytes = |point| values(point).iter().map(tenths).collect();
            every(points).map(|point| Point::Bytes(bytes(point))).collect()
        };
        case.agrees(&bytes(points), &bytes(queries), &on::<[u8], _>(Manhattan));
        let points = words(count, seed);
        let queries = words(trace.len(), !seed);
        case.agrees(&points, &queries, &on::<str, _>(Edit));
        let set = |word: &Point| match word {
            Point::Word(word) => {
                let letters: BTreeSet<u32> = word.bytes().map(u32::from).collect();
                Point::Set(letters.into_iter().collect())
            }
            other => panic!("{other:?} is not a word"),
        };
        let sets = |words: &All| -> All { every(words).map(set).collect() };
        case.agrees(&sets(&points), &sets(&queries), &on::<[u32], _>(Jaccard));
    }
}

/// A kind of index, the options of a run, and the parameters of both kinds of query.
#[derive(Clone)]
struct Case {
    kind: Kind,
    options: Options,
    k: usize,
    radius: f32,
}

impl Case {
    /// Compares the answers of the strategy with brute force.
    fn agrees(&self, points: &All, queries: &All, metric: &AnyMetric) {
        let Self { kind, options, k, radius } = self;
        let index = built(*kind, points, metric);
        let oracle = built(Kind::BruteForce, points, &plain(metric));
        let nearest: Vec<_> =
            every(queries).map(|query| oracle.nearest(query, *k).unwrap()).collect();
        check_run(run(&index, queries, |_| Nearest::new(*k), options).unwrap(), &nearest, options);
        let balls: Vec<_> =
            every(queries).map(|query| oracle.within(query, *radius).unwrap()).collect();
        check_run(
            run(&index, queries, |_| Within::new(*radius), options).unwrap(),
            &balls,
            options,
        );
    }
}

#[test]
fn all_indexes_of_vectors() {
    all_indexes(&grid(700, 1), &on::<[f32], _>(Euclidean), &grid(40, 2), 0.3);
}

#[test]
fn all_indexes_of_strings() {
    all_indexes(&words(600, 3), &on::<str, _>(Edit), &words(40, 4), 1.0);
}

#[test]
fn arrivals() {
    let tree = built(Kind::VpTree, &grid(500, 1), &on::<[f32], _>(Euclidean));
    let queries = grid(60, 2);
    let expected: Vec<_> = every(&queries).map(|query| tree.nearest(query, 3).unwrap()).collect();
    let periodic = |queries, micros| Arrivals::Periodic {
        queries: NonZero::new(queries).unwrap(),
        every: Duration::from_micros(micros),
    };
    let trace = (0..60).map(|query| Duration::from_micros(query / 7 * 300)).collect();
    for arrivals in [periodic(1, 100), periodic(13, 900), Arrivals::Trace(trace)] {
        for strategy in STRATEGIES {
            let options = options(strategy, 3, 20, arrivals.clone());
            let done = run(&tree, &queries, |_| Nearest::new(3), &options).unwrap();
            let min_elapsed = match &arrivals {
                Arrivals::Trace(times) => *times.last().unwrap(),
                Arrivals::Periodic { queries, every } => *every * (59 / queries.get()),
                Arrivals::AllAtOnce => Duration::ZERO,
            };
            assert!(
                done.measures.elapsed >= min_elapsed,
                "answered before it arrived: {options:?}"
            );
            check_run(done, &expected, &options);
        }
    }
}

/// `BulkCircular` distributes the tasks of a single query over all threads. The local strategies do
/// not.
#[test]
fn one_query_is_shared() {
    let kind = Kind::SssIndex(Pivots::Count(2));
    let index = built(kind, &grid(20_000, 1), &on::<[f32], _>(Euclidean));
    let one = grid(1, 9);
    let work = |strategy| {
        let options = options(strategy, 4, 64, Arrivals::AllAtOnce);
        let done = run(&index, &one, |_| Within::new(0.5), &options).unwrap();
        done.measures.workers.iter().filter(|worker| worker.evaluations > 0).count()
    };
    assert_eq!(work(Strategy::Local), 1);
    assert_eq!(work(Strategy::BulkLocal), 1);
    assert_eq!(work(Strategy::BulkCircular), 4);
}

#[test]
fn distributed_points() {
    let points = grid(601, 1);
    let queries = grid(30, 2);
    let metric = on::<[f32], _>(Euclidean);
    let whole = built(Kind::BruteForce, &points, &metric);
    for shares in [1, 2, 3, 7] {
        let share = |first: usize| {
            let share = every(&points).skip(first).step_by(shares).cloned().collect();
            built(Kind::ListOfClusters(ClusterSize::Points(8)), &share, &metric)
        };
        let indexes: Vec<_> = (0..shares).map(share).collect();
        let options = options(Strategy::Local, shares, 50, Arrivals::AllAtOnce);
        let done = run_distributed(&indexes, &queries, |_| Nearest::new(6), &options).unwrap();
        for (query, answer) in (0..).zip(&done.answers) {
            assert_eq!(answer.unwrap(), whole.nearest(queries.point(query), 6).unwrap());
        }
        let done = run_distributed(&indexes, &queries, |_| Within::new(0.3), &options).unwrap();
        for (query, answer) in (0..).zip(&done.answers) {
            assert_eq!(answer.unwrap(), whole.within(queries.point(query), 0.3).unwrap());
        }
    }
    let none: [Erased; 0] = [];
    let options = options(Strategy::Local, 1, 1, Arrivals::AllAtOnce);
    assert!(run_distributed(&none, &queries, |_| Nearest::new(1), &options).is_err());
}

/// An invalid query fails without affecting other queries.
#[test]
fn invalid_queries() {
    let tree = built(Kind::VpTree, &grid(300, 1), &on::<[f32], _>(Euclidean));
    let queries: All =
        [vec![0.1, 0.1, 0.1], vec![f32::NAN, 0.0, 0.0], vec![0.5], vec![0.9, 0.9, 0.9]]
            .map(Point::Vector)
            .into_iter()
            .collect();
    for strategy in STRATEGIES {
        for threads in [1, 2, 4] {
            let options = options(strategy, threads, 5, Arrivals::AllAtOnce);
            let answers = run(&tree, &queries, |_| Nearest::new(2), &options).unwrap().answers;
            assert!(answers.get(0).is_ok() && answers.get(3).is_ok(), "{options:?}");
            assert!(matches!(answers.get(1), Err(Error::Query { .. })));
            assert!(matches!(answers.get(2), Err(Error::NoDistance { .. })));
        }
    }
    let wrong = |arrivals| {
        let options = options(Strategy::Hybrid, 2, 5, arrivals);
        run(&tree, &queries, |_| Nearest::new(2), &options).unwrap_err()
    };
    assert!(matches!(wrong(Arrivals::Trace(vec![])), RunError::Trace { .. }));
    let back = [3, 2, 5, 6].map(Duration::from_millis).to_vec();
    assert_eq!(wrong(Arrivals::Trace(back)), RunError::TraceOrder { query: 1 });
    let window =
        Options { window: Duration::ZERO, ..options(Strategy::Local, 1, 1, Arrivals::AllAtOnce) };
    assert!(run(&tree, &queries, |_| Nearest::new(2), &window).is_err());
}

/// A metric that panics ends the run: no thread waits for the thread that panicked.
#[test]
fn a_panic_is_propagated() {
    struct Panics;
    impl Metric<[f32]> for Panics {
        fn distance(&self, a: &[f32], b: &[f32]) -> f32 {
            assert!(a[0] < 100.0, "this query panics");
            (a[0] - b[0]).abs()
        }

        fn relative_error(&self) -> f32 {
            f32::EPSILON
        }
    }
    let points: Vec<f32> = (0..500u16).map(|x| f32::from(x % 90)).collect();
    let tree = built(Kind::VpTree, &vectors(&points, 1), &on::<[f32], _>(Panics));
    let mut queries: Vec<f32> = (0..40u8).map(f32::from).collect();
    queries[17] = 100.0;
    let queries = vectors(&queries, 1);
    for strategy in STRATEGIES {
        let options = options(strategy, 3, 10, Arrivals::AllAtOnce);
        let run = || run(&tree, &queries, |_| Nearest::new(2), &options);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        assert!(panicked.is_err(), "{strategy:?}");
    }
}

/// Tests many supersteps of a few distances, on more threads than cores.
#[test]
fn stress() {
    let kind = Kind::SssIndex(Pivots::Count(3));
    let index = built(kind, &grid(2_000, 1), &on::<[f32], _>(Euclidean));
    let kind = Kind::Egnat(EgnatOptions { arity: 3, bucket: 2 });
    let tree = built(kind, &words(400, 1), &on::<str, _>(Edit));
    let vectors = grid(50, 7);
    let strings = words(50, 8);
    let of_vectors: Vec<_> =
        every(&vectors).map(|query| index.nearest(query, 4).unwrap()).collect();
    let of_strings: Vec<_> =
        every(&strings).map(|query| tree.within(query, 1.0).unwrap()).collect();
    for round in 0..12 {
        for strategy in STRATEGIES {
            let threads = 2 + round % 7;
            let options = options(strategy, threads, 1 + round as u64 % 3, Arrivals::AllAtOnce);
            let done = run(&index, &vectors, |_| Nearest::new(4), &options).unwrap();
            check_run(done, &of_vectors, &options);
            let done = run(&tree, &strings, |_| Within::new(1.0), &options).unwrap();
            check_run(done, &of_strings, &options);
        }
    }
}
