//! Every strategy gives the answers of a search, with any number of threads and any pattern of arrivals.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::num::NonZero;
use std::time::Duration;

use metric_index::collector::{Nearest, Within};
use metric_index::error::Error;
use metric_index::index::{
    BruteForce, ClusterSize, Egnat, EgnatOptions, Index, KdTree, Kind, ListOfClusters, MTree,
    Pivots, SssIndex, SssTree, VpTree,
};
use metric_index::metric::{
    Angular, Chebyshev, Edit, Euclidean, Hamming, Jaccard, Manhattan, Metric, Minkowski,
};
use metric_index::neighbor::Neighbor;
use metric_index::points::{Items, Points, Sets, Strings, Vectors};
use metric_index::strategy::{Arrivals, Options, Run, Strategy, run, run_distributed};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

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

/// Points on a small grid: distances tie, points are equal.
fn grid(count: usize, seed: u64) -> Vectors<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        f32::from(u8::try_from((state >> 33) % 12).unwrap()) / 10.0
    };
    Vectors::new((0..count * 3).map(|_| next()).collect(), 3).unwrap()
}

fn words(count: usize, seed: u64) -> Strings {
    let mut state = seed;
    let mut next = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    };
    let mut word = |_| {
        let length = next(6);
        (0..length).map(|_| char::from(b'a' + u8::try_from(next(3)).unwrap())).collect::<String>()
    };
    (0..count).map(&mut word).collect()
}

fn checked(done: Run, expected: &[Vec<Neighbor>], options: &Options) {
    let Run { answers, measures } = done;
    let answers: Vec<Vec<Neighbor>> = answers.into_iter().map(Result::unwrap).collect();
    assert_eq!(answers, expected, "{options:?}");
    assert_eq!(measures.latencies.len(), expected.len());
    let taken: u64 = measures.workers.iter().map(|worker| worker.queries).sum();
    assert!(taken >= expected.len() as u64);
    assert!(measures.evaluations() >= expected.len() as u64);
    for share in [measures.balance(), measures.efficiency(), measures.idle()] {
        assert!((0.0..=1.0).contains(&share), "{share}");
    }
    let sends = matches!(options.strategy, Strategy::Local | Strategy::BulkLocal);
    assert!(!sends || measures.messages() == 0);
}

fn all_strategies<I: Index, Q: Points<Point = <I::Points as Points>::Point>>(
    index: &I,
    queries: &Q,
    radius: f32,
) {
    let every = || (0..u32::try_from(queries.len()).unwrap()).map(|query| queries.point(query));
    let balls: Vec<_> = every().map(|query| index.within(query, radius).unwrap()).collect();
    let nearest: Vec<_> = every().map(|query| index.nearest(query, 5).unwrap()).collect();
    for strategy in STRATEGIES {
        for (threads, evaluations) in [(1, 7), (2, 1), (3, 40), (5, 1_000)] {
            let options = options(strategy, threads, evaluations, Arrivals::AllAtOnce);
            let done = run(index, queries, |_| Within::new(radius), &options).unwrap();
            checked(done, &balls, &options);
            let done = run(index, queries, |_| Nearest::new(5), &options).unwrap();
            checked(done, &nearest, &options);
        }
    }
}

fn all_indexes<S: Points + Clone, M: Metric<S::Point> + Copy>(
    points: &S,
    metric: M,
    queries: &S,
    radius: f32,
) {
    let p = || points.clone();
    all_strategies(&BruteForce::new(p(), metric).unwrap(), queries, radius);
    let size = ClusterSize::Points(8);
    all_strategies(&ListOfClusters::build(p(), metric, size).unwrap(), queries, radius);
    all_strategies(&SssIndex::build(p(), metric, Pivots::Count(6)).unwrap(), queries, radius);
    all_strategies(&SssTree::build(p(), metric, 0.4).unwrap(), queries, radius);
    all_strategies(&VpTree::build(p(), metric).unwrap(), queries, radius);
    let shape = EgnatOptions { arity: 5, bucket: 9 };
    all_strategies(&Egnat::build(p(), metric, shape).unwrap(), queries, radius);
    all_strategies(&MTree::build(p(), metric, 8).unwrap(), queries, radius);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Any strategy of any number of threads, however few distances a superstep has and whenever queries come,
    /// gives what brute force finds, one query after the other.
    #[test]
    fn any_of_all(
        kind in select(Kind::all().to_vec()),
        strategy in select(&STRATEGIES[..]),
        (threads, evaluations, waiting) in (1usize..7, 1u64..60, 0u32..4),
        (count, seed) in (0usize..260, any::<u64>()),
        mut trace in vec(0u64..1_500, 0..16),
        (k, radius) in (0usize..300, 0f32..2.0),
    ) {
        trace.sort_unstable();
        let arrivals = Arrivals::Trace(trace.iter().copied().map(Duration::from_micros).collect());
        let options = Options { waiting, ..options(strategy, threads, evaluations, arrivals) };
        let case = Case { kind, options, k, radius };
        let (points, queries) = (&grid(count, seed), &grid(trace.len(), !seed));
        case.with(points, queries, Euclidean);
        case.with(points, queries, Manhattan);
        case.with(points, queries, Chebyshev);
        case.with(points, queries, Minkowski::new(3.0).unwrap());
        case.with(points, queries, Hamming);
        case.agrees(&KdTree::build(points, Euclidean).unwrap(), queries);
        case.agrees(&KdTree::build(points, Chebyshev).unwrap(), queries);
        let away = |points: &Vectors<f32>| {
            Vectors::new(points.values().iter().map(|x| x + 0.1).collect(), 3).unwrap()
        };
        case.with(&away(points), &away(queries), Angular);
        let bytes = |points: &Vectors<f32>| {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 11")]
            let tenths = |x: &f32| (x * 10.0).round() as u8;
            Vectors::new(points.values().iter().map(tenths).collect::<Vec<u8>>(), 3).unwrap()
        };
        case.with(&bytes(points), &bytes(queries), Manhattan);
        let (points, queries) = (words(count, seed), words(trace.len(), !seed));
        case.with(&points, &queries, Edit);
        let sets = |words: &Strings| {
            let places = (0u32..).take(words.len());
            let letters = |place| words.point(place).bytes().map(u32::from);
            let set = |place| letters(place).collect::<BTreeSet<u32>>().into_iter().collect();
            Sets::new(places.map(set).collect::<Vec<Vec<u32>>>()).unwrap()
        };
        case.with(&sets(&points), &sets(&queries), Jaccard);
    }
}

/// A kind of index, how it is asked, and for what.
struct Case {
    kind: Kind,
    options: Options,
    k: usize,
    radius: f32,
}

impl Case {
    fn with<S: Points, M: Metric<S::Point> + Copy>(&self, points: &S, queries: &S, metric: M) {
        self.agrees(&self.kind.build(points, metric).unwrap(), queries);
    }

    /// With what brute force finds, one query after the other.
    fn agrees<I: Index, Q: Points<Point = <I::Points as Points>::Point>>(
        &self,
        index: &I,
        queries: &Q,
    ) {
        let Self { options, k, radius, .. } = self;
        let oracle = BruteForce::new(index.points(), index.metric()).unwrap();
        let every = || (0..u32::try_from(queries.len()).unwrap()).map(|query| queries.point(query));
        let nearest: Vec<_> = every().map(|query| oracle.nearest(query, *k).unwrap()).collect();
        checked(run(index, queries, |_| Nearest::new(*k), options).unwrap(), &nearest, options);
        let balls: Vec<_> = every().map(|query| oracle.within(query, *radius).unwrap()).collect();
        checked(run(index, queries, |_| Within::new(*radius), options).unwrap(), &balls, options);
    }
}

#[test]
fn vectors() {
    let (points, queries) = (grid(700, 1), grid(40, 2));
    all_indexes(&points, Euclidean, &queries, 0.3);
    all_strategies(&KdTree::build(points, Euclidean).unwrap(), &queries, 0.3);
}

#[test]
fn strings() {
    all_indexes(&words(600, 3), Edit, &words(40, 4), 1.0);
}

#[test]
fn arrivals() {
    let tree = VpTree::build(grid(500, 1), Euclidean).unwrap();
    let queries = grid(60, 2);
    let expected: Vec<_> =
        (0..60).map(|query| tree.nearest(queries.point(query), 3).unwrap()).collect();
    let periodic = |queries, micros| Arrivals::Periodic {
        queries: NonZero::new(queries).unwrap(),
        every: Duration::from_micros(micros),
    };
    let trace = (0..60).map(|query| Duration::from_micros(query / 7 * 300)).collect();
    for arrivals in [periodic(1, 100), periodic(13, 900), Arrivals::Trace(trace)] {
        for strategy in STRATEGIES {
            let options = options(strategy, 3, 20, arrivals.clone());
            let done = run(&tree, &queries, |_| Nearest::new(3), &options).unwrap();
            let least = match &arrivals {
                Arrivals::Trace(times) => *times.last().unwrap(),
                Arrivals::Periodic { queries, every } => *every * (59 / queries.get()),
                Arrivals::AllAtOnce => Duration::ZERO,
            };
            assert!(done.measures.elapsed >= least, "answered before it came: {options:?}");
            checked(done, &expected, &options);
        }
    }
}

/// Bulk strategies deal what comes up: with one query all threads work.
#[test]
fn one_query_is_shared() {
    let index = SssIndex::build(grid(20_000, 1), Euclidean, Pivots::Count(2)).unwrap();
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
fn shares_of_the_points() {
    let (points, queries) = (grid(601, 1), grid(30, 2));
    let whole = BruteForce::new(&points, Euclidean).unwrap();
    for shares in [1, 2, 3, 7] {
        let share = |first: usize| {
            let numbers = (first..points.len()).step_by(shares);
            let of = |number| points.point(u32::try_from(number).unwrap()).to_vec();
            let share = Items::<[f32], _>::new(numbers.map(of).collect());
            ListOfClusters::build(share, Euclidean, ClusterSize::Points(8)).unwrap()
        };
        let indexes: Vec<_> = (0..shares).map(share).collect();
        let options = options(Strategy::Local, shares, 50, Arrivals::AllAtOnce);
        let done = run_distributed(&indexes, &queries, |_| Nearest::new(6), &options).unwrap();
        for (query, answer) in (0..).zip(done.answers) {
            assert_eq!(answer.unwrap(), whole.nearest(queries.point(query), 6).unwrap());
        }
        let done = run_distributed(&indexes, &queries, |_| Within::new(0.3), &options).unwrap();
        for (query, answer) in (0..).zip(done.answers) {
            assert_eq!(answer.unwrap(), whole.within(queries.point(query), 0.3).unwrap());
        }
    }
    let none: [BruteForce<&Vectors<f32>, Euclidean>; 0] = [];
    let options = options(Strategy::Local, 1, 1, Arrivals::AllAtOnce);
    assert!(run_distributed(&none, &queries, |_| Nearest::new(1), &options).is_err());
}

/// A bad query fails alone.
#[test]
fn bad_queries() {
    let tree = VpTree::build(grid(300, 1), Euclidean).unwrap();
    let queries = Items::<[f32], _>::new(vec![
        vec![0.1, 0.1, 0.1],
        vec![f32::NAN, 0.0, 0.0],
        vec![0.5],
        vec![0.9, 0.9, 0.9],
    ]);
    for strategy in STRATEGIES {
        for threads in [1, 2, 4] {
            let options = options(strategy, threads, 5, Arrivals::AllAtOnce);
            let answers = run(&tree, &queries, |_| Nearest::new(2), &options).unwrap().answers;
            assert!(answers[0].is_ok() && answers[3].is_ok(), "{options:?}");
            assert!(matches!(answers[1], Err(Error::Query { .. })));
            assert!(matches!(answers[2], Err(Error::NoDistance { .. })));
        }
    }
    let wrong = |arrivals| {
        let options = options(Strategy::Hybrid, 2, 5, arrivals);
        run(&tree, &queries, |_| Nearest::new(2), &options).unwrap_err()
    };
    assert!(matches!(wrong(Arrivals::Trace(vec![])), Error::Trace { .. }));
    let back = [3, 2, 5, 6].map(Duration::from_millis).to_vec();
    assert_eq!(wrong(Arrivals::Trace(back)), Error::TraceOrder { query: 1 });
    let window =
        Options { window: Duration::ZERO, ..options(Strategy::Local, 1, 1, Arrivals::AllAtOnce) };
    assert!(run(&tree, &queries, |_| Nearest::new(2), &window).is_err());
}

/// A metric that panics ends the run: no thread waits for one that will not come.
#[test]
fn a_panic_is_passed_on() {
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
    let points = Items::<[f32], _>::new((0..500u16).map(|x| vec![f32::from(x % 90)]).collect());
    let tree = VpTree::build(points, Panics).unwrap();
    let mut queries: Vec<Vec<f32>> = (0..40u8).map(|x| vec![f32::from(x)]).collect();
    queries[17] = vec![100.0];
    let queries = Items::<[f32], _>::new(queries);
    for strategy in STRATEGIES {
        let options = options(strategy, 3, 10, Arrivals::AllAtOnce);
        let run = || run(&tree, &queries, |_| Nearest::new(2), &options);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        assert!(panicked.is_err(), "{strategy:?}");
    }
}

/// Many supersteps of few distances, more threads than cores, again and again.
#[test]
fn stress() {
    let index = SssIndex::build(grid(2_000, 1), Euclidean, Pivots::Count(3)).unwrap();
    let tree = Egnat::build(words(400, 1), Edit, EgnatOptions { arity: 3, bucket: 2 }).unwrap();
    let (vectors, strings) = (grid(50, 7), words(50, 8));
    let of_vectors: Vec<_> =
        (0..50).map(|query| index.nearest(vectors.point(query), 4).unwrap()).collect();
    let of_strings: Vec<_> =
        (0..50).map(|query| tree.within(strings.point(query), 1.0).unwrap()).collect();
    for round in 0..12 {
        for strategy in STRATEGIES {
            let threads = 2 + round % 7;
            let options = options(strategy, threads, 1 + round as u64 % 3, Arrivals::AllAtOnce);
            let done = run(&index, &vectors, |_| Nearest::new(4), &options).unwrap();
            checked(done, &of_vectors, &options);
            let done = run(&tree, &strings, |_| Within::new(1.0), &options).unwrap();
            checked(done, &of_strings, &options);
        }
    }
}
