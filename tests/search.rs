//! Compares every CPU engine with `exhaustive`, bit for bit, on data with ties. The tests of the
//! fast path check the report to verify that it was used.

#![expect(clippy::disallowed_methods, reason = "powers and logarithms of data for tests")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use classify::random::Random;
use classify::rows::dense::ShapeError;
use classify::rows::matrix::{Csr, CsrBuilder};
use classify::search::{
    Allow, Composite, Exhaustive, Inverted, NeighborLists, Part, Report, Request, RowLists, RowMap,
    RowRange, RowSet, Search, SearchError, Segment, Stop, VectorsView,
};
use classify::threads::Threads;
use proptest::prelude::*;

mod fixtures;

use fixtures::{Bits, Filters, Rows, bits, matrix};

/// Returns a configuration with `PROPTEST_CASES` cases, or with `default` cases if the variable is
/// not set.
fn cases(default: u32) -> ProptestConfig {
    let configured = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig::with_cases(configured.unwrap_or(default))
}

/// Returns the pool with this number of threads. Pools are shared, because starting threads would
/// take most of the time.
fn threads(count: usize) -> Threads {
    static POOLS: Mutex<BTreeMap<usize, Threads>> = Mutex::new(BTreeMap::new());
    let count = NonZeroUsize::new(count).unwrap();
    let mut pools = POOLS.lock().unwrap();
    pools.entry(count.get()).or_insert_with(|| Threads::new(count).unwrap()).clone()
}

fn answer(engine: &dyn Search, request: &Request<'_>) -> (Bits, Report) {
    let mut found = NeighborLists::default();
    let report = engine.search(request, &mut found).unwrap();
    assert_eq!(found.len() as u64, report.fast + report.fell_back);
    (bits(&found), report)
}

fn inverted(training: &Arc<Csr>, block_rows: usize, count: usize) -> Inverted {
    Inverted::with_block_rows(Arc::clone(training), threads(count), block_rows).unwrap()
}

fn oracle(training: &Arc<Csr>) -> Exhaustive {
    Exhaustive::new(Arc::clone(training), threads(1)).unwrap()
}

/// Returns a composite engine of three parts. `part_of` returns the part of a row.
fn composite(training: &Arc<Csr>, part_of: impl Fn(u32) -> usize) -> Composite {
    let mut shards: Vec<(Vec<u32>, CsrBuilder)> = vec![Default::default(); 3];
    for (number, (terms, weights)) in (0..).zip(training.iter()) {
        let shard = &mut shards[part_of(number)];
        shard.0.push(number);
        shard.1.push_slices(terms, weights);
    }
    let engine = |(numbers, rows): (Vec<u32>, CsrBuilder)| {
        let rows = Arc::new(rows.build(training.cols()));
        let engine: Arc<dyn Search> = if numbers.len() % 2 == 0 {
            Arc::new(Exhaustive::new(rows, threads(1)).unwrap())
        } else {
            Arc::new(Inverted::new(rows, threads(1)).unwrap())
        };
        Part { engine, rows: RowMap::Rows(numbers.into()) }
    };
    Composite::new(shards.into_iter().map(engine).collect(), threads(2)).unwrap()
}

/// Returns an engine with the same rows in three segments, interleaved with removed rows.
fn updated(training: &Arc<Csr>) -> Composite {
    let rows = u32::try_from(training.rows()).unwrap();
    let segments = [(0, rows / 2), (rows / 2, rows / 2), (rows / 2, rows)].map(|(start, end)| {
        let mut builder = CsrBuilder::default();
        let mut kept = Vec::new();
        let mut next = 0;
        for number in start..end {
            let (terms, weights) = training.row(number as usize);
            // Removed copies before and after the kept rows would be ties.
            for copy in 0..=number % 3 {
                builder.push_slices(terms, weights);
                if copy == number % 2 % (1 + number % 3) {
                    kept.push(next);
                }
                next += 1;
            }
        }
        let rows = Arc::new(builder.build(training.cols()));
        let engine: Arc<dyn Search> = if start == 0 {
            Arc::new(Inverted::new(rows, threads(1)).unwrap())
        } else {
            Arc::new(Exhaustive::new(rows, threads(1)).unwrap())
        };
        Segment { engine, kept: Some(kept.into()) }
    });
    Composite::of_segments(segments, threads(2)).unwrap()
}

/// Compares all engines, with several block sizes, numbers of threads, and filters.
fn agree(training: &Arc<Csr>, queries: &Csr, k: usize) -> Result<(), TestCaseError> {
    let k = NonZeroUsize::new(k).unwrap();
    let filters = Filters::new(training.rows(), queries.rows());
    for allow in filters.all() {
        let request = Request::new(queries, k).among(allow);
        let (expected, _) = answer(&oracle(training), &request);
        for (block_rows, count) in [(1, 1), (3, 7), (8_192, 1), (65_536, 7)] {
            let (found, _) = answer(&inverted(training, block_rows, count), &request);
            prop_assert_eq!(&found, &expected, "blocks of {} rows, {} threads", block_rows, count);
        }
        let shards = composite(training, |row| (row * 5 / 2 % 3) as usize);
        prop_assert_eq!(&answer(&shards, &request).0, &expected, "shards");
        let shards = shards.concurrently();
        prop_assert_eq!(&answer(&shards, &request).0, &expected, "concurrent shards");
        prop_assert_eq!(answer(&updated(training), &request).0, expected, "segments");
    }
    Ok(())
}

/// Compares all engines like `agree`; in a single block, every query must take the fast path.
fn agree_fast(training: &Arc<Csr>, queries: &Csr, k: usize) -> Result<(), TestCaseError> {
    agree(training, queries, k)?;
    let request = Request::new(queries, NonZeroUsize::new(k).unwrap());
    let (_, report) = answer(&inverted(training, 8_192, 1), &request);
    prop_assert_eq!(report, Report { fast: queries.rows() as u64, fell_back: 0 });
    Ok(())
}

const COLUMNS: u32 = 12;

fn rows(weight: impl Strategy<Value = f32> + Clone) -> impl Strategy<Value = Rows> {
    let row = prop::collection::btree_map(0..COLUMNS, weight, 0..6);
    prop::collection::vec(row.prop_map(|row| row.into_iter().collect()), 0..40)
}

fn small_integers() -> impl Strategy<Value = f32> + Clone {
    (0u8..4).prop_map(f32::from)
}

fn signed() -> impl Strategy<Value = f32> + Clone {
    prop_oneof![(-3i8..4).prop_map(f32::from), -1.0f32..1.0]
}

fn extreme() -> impl Strategy<Value = f32> + Clone {
    let exponent = prop_oneof![Just(-45i32), Just(-30), Just(-20), Just(0), Just(19), Just(37)];
    (exponent, -9.0f32..9.0).prop_map(|(exponent, x)| x * 10f32.powi(exponent))
}

/// Returns weights so small that some products underflow, together with weights whose products do
/// not.
fn tiny() -> impl Strategy<Value = f32> + Clone {
    let exponent = prop_oneof![Just(-40i32), Just(-22), Just(-19), Just(-2), Just(0), Just(0)];
    (exponent, 1.0f32..9.0).prop_map(|(exponent, x)| x * 10f32.powi(exponent))
}

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn ties_duplicates_empties_and_zeros(
        t in rows(small_integers()),
        q in rows(small_integers()),
        k in 1usize..60,
    ) {
        agree_fast(&matrix(&t, COLUMNS as usize), &matrix(&q, COLUMNS as usize), k)?;
    }

    #[test]
    fn negative_weights(t in rows(signed()), q in rows(signed()), k in 1usize..60) {
        agree(&matrix(&t, COLUMNS as usize), &matrix(&q, COLUMNS as usize), k)?;
    }

    #[test]
    fn overflow_and_underflow(t in rows(extreme()), q in rows(extreme()), k in 1usize..60) {
        agree(&matrix(&t, COLUMNS as usize), &matrix(&q, COLUMNS as usize), k)?;
    }

    #[test]
    fn products_below_the_normal_range(t in rows(tiny()), q in rows(tiny()), k in 1usize..60) {
        agree(&matrix(&t, COLUMNS as usize), &matrix(&q, COLUMNS as usize), k)?;
    }
}

proptest! {
    // There are fewer cases, because each case has many rows.
    #![proptest_config(cases(4))]

    #[test]
    fn unit_rows_of_close_similarities(seed in 0u64..u64::MAX, k in 1usize..40) {
        let t = close_rows(seed, 1_500);
        let q = close_rows(seed ^ 1, 20);
        agree_fast(&matrix(&t, 64), &matrix(&q, 64), k)?;
    }
}

/// Returns rows whose similarities differ only in the last bits, and many of which are equal.
fn close_rows(seed: u64, count: usize) -> Rows {
    let mut random = Random::new(seed);
    let mut next = move || random.next_u64() >> 33;
    (0..count)
        .map(|_| {
            (0..64)
                .filter_map(|term| {
                    let nudge = f32::from(u8::try_from(next() % 3).unwrap()) * f32::EPSILON;
                    (next() % 4 != 0).then_some((term, 0.125 + nudge))
                })
                .collect()
        })
        .collect()
}

/// With many rows and few neighbors, the threshold is far above the error, even if weights are
/// negative.
#[test]
fn negative_weights_take_the_fast_path() {
    let signed: Rows = close_rows(3, 2_000)
        .into_iter()
        .map(|row| row.into_iter().map(|(t, w)| (t, if t % 9 == 4 { -w } else { w })).collect())
        .collect();
    let training = matrix(&signed, 64);
    let queries = matrix(&signed[..40].to_vec(), 64);
    agree_fast(&training, &queries, 10).unwrap();
}

/// One weight near the lower end of the range must not slow down the other queries.
#[test]
fn one_tiny_weight_slows_no_other_query() {
    let mut rows = close_rows(5, 3_000);
    rows[1_234].push((64, 1e-37));
    let mut queries = close_rows(6, 30);
    queries[7].push((64, 1e-30));
    let training = matrix(&rows, 65);
    let queries = matrix(&queries, 65);
    agree_fast(&training, &queries, 30).unwrap();
}

#[test]
fn sums_beyond_the_range_fall_back() {
    let training = matrix(&vec![vec![(0, 1e30)], vec![(0, 2e30)]], 1);
    let queries = matrix(&vec![vec![(0, 1e30)]], 1);
    agree(&training, &queries, 1).unwrap();
    let (_, report) = answer(&inverted(&training, 10, 1), &Request::new(&*queries, one()));
    assert_eq!(report, Report { fast: 0, fell_back: 1 });
    // There are more queries than fit in a batch. The report must count the queries of all batches.
    let queries = matrix(&(0..50u8).map(|at| vec![(0, 10f32.powi((at % 38).into()))]).collect(), 1);
    agree(&training, &queries, 2).unwrap();
    for count in [1, 7] {
        let (_, report) = answer(&inverted(&training, 10, count), &Request::new(&*queries, one()));
        assert_eq!(report, Report { fast: 14, fell_back: 36 });
    }
}

/// The similarities are far below 1, but in the normal range.
#[test]
fn small_similarities_are_found() {
    let training = matrix(&vec![vec![(0, 1e-10)], vec![(0, 1e-20)], vec![(0, 1e-36)]], 1);
    let queries = matrix(&vec![vec![(0, 1.0)]], 1);
    agree_fast(&training, &queries, 1).unwrap();
    agree_fast(&training, &queries, 5).unwrap();
    assert_eq!(
        answer(&oracle(&training), &Request::new(&*queries, NonZeroUsize::MAX)).0[0].len(),
        3
    );
}

/// The last block is shorter by one strip of rows.
#[test]
fn blocks_of_different_lengths() {
    let training = matrix(&close_rows(17, 129), 64);
    let queries = matrix(&close_rows(18, 20), 64);
    for k in [1, 30, 200] {
        let request = Request::new(&*queries, NonZeroUsize::new(k).unwrap());
        let expected = answer(&oracle(&training), &request).0;
        for block_rows in [65, 128, 129] {
            assert_eq!(answer(&inverted(&training, block_rows, 1), &request).0, expected);
        }
    }
}

/// There are several blocks, more queries than a thread processes at once, and few queries in the
/// last group.
#[test]
fn many_queries_at_a_time() {
    let training = matrix(&close_rows(19, 400), 64);
    let queries = matrix(&close_rows(20, 333), 64);
    for k in [1, 30] {
        let request = Request::new(&*queries, NonZeroUsize::new(k).unwrap());
        let expected = answer(&oracle(&training), &request).0;
        for (block_rows, count) in [(100, 1), (400, 1), (100, 2)] {
            let (found, report) = answer(&inverted(&training, block_rows, count), &request);
            assert_eq!((found, report.fell_back), (expected.clone(), 0));
        }
    }
}

fn one() -> NonZeroUsize {
    NonZeroUsize::MIN
}

#[test]
fn one_row_one_term_and_nothing() {
    let single = matrix(&vec![vec![(0, 1.0)]], 1);
    let empty = matrix(&vec![], 1);
    let blank = matrix(&vec![vec![], vec![]], 1);
    for training in [&single, &empty, &blank] {
        for queries in [&single, &empty, &blank] {
            agree_fast(training, queries, 1).unwrap();
            agree(training, queries, 1_000_000).unwrap();
        }
    }
}

/// The products are in the normal range, but their sum is not.
#[test]
fn cancellation_into_the_subnormal_range() {
    let training = matrix(&vec![vec![(0, 2.000_2e-19), (1, -2e-19)]], 2);
    let queries = matrix(&vec![vec![(0, 1e-18), (1, 1e-18)]], 2);
    agree(&training, &queries, 1).unwrap();
}

#[test]
fn equal_rows_are_sorted_by_row_number() {
    let rows: Rows = (0..20_000).map(|_| vec![(3, 0.6), (5, 0.8)]).collect();
    let training = matrix(&rows, 8);
    let queries = matrix(&vec![vec![(3, 1.0)]], 8);
    let request = Request::new(&*queries, 30.try_into().unwrap());
    let (found, report) = answer(&inverted(&training, 16_384, 2), &request);
    let numbers: Vec<u32> = found[0].iter().map(|neighbor| neighbor.0).collect();
    assert_eq!(numbers, (0..30).collect::<Vec<u32>>());
    assert_eq!(report.fast, 1);
    agree_fast(&training, &queries, 600).unwrap();
}

#[test]
fn dense_queries_are_answered_like_sparse_ones() {
    let training = matrix(&close_rows(8, 500), 64);
    let sparse = matrix(&close_rows(9, 20), 64);
    let mut values = vec![0f32; 20 * 64];
    for (number, (columns, weights)) in sparse.iter().enumerate() {
        for (&column, &weight) in columns.iter().zip(weights) {
            values[number * 64 + column as usize] = weight;
        }
    }
    let dense = VectorsView::new(64, &values).unwrap();
    let k = NonZeroUsize::new(9).unwrap();
    let expected = answer(&oracle(&training), &Request::new(&*sparse, k)).0;
    let shards = composite(&training, |row| (row % 3) as usize);
    for engine in [&oracle(&training) as &dyn Search, &inverted(&training, 100, 2), &shards] {
        assert_eq!(answer(engine, &Request::new(dense, k)).0, expected);
    }
}

/// Reused lists give the same results as new ones.
#[test]
fn reused_lists_equal_new_lists() {
    let training = matrix(&close_rows(10, 300), 64);
    let engine = inverted(&training, 100, 2);
    let mut found = NeighborLists::default();
    for (queries, k) in [(40, 17), (3, 2), (25, 300), (0, 1), (8, 5)] {
        let queries = matrix(&close_rows(queries, usize::try_from(queries).unwrap()), 64);
        let request = Request::new(&*queries, NonZeroUsize::new(k).unwrap());
        let _ = engine.search(&request, &mut found).unwrap();
        let mut fresh = NeighborLists::default();
        let _ = engine.search(&request, &mut fresh).unwrap();
        assert!(found.iter().eq(fresh.iter()) && found.len() == queries.rows());
    }
}

#[test]
fn a_stopped_search_returns_nothing() {
    let training = matrix(&close_rows(11, 2_000), 64);
    let queries = matrix(&close_rows(12, 200), 64);
    let engines: [Arc<dyn Search>; 3] = [
        Arc::new(oracle(&training)),
        Arc::new(inverted(&training, 100, 2)),
        Arc::new(composite(&training, |row| (row % 3) as usize)),
    ];
    for engine in engines {
        let mut found = NeighborLists::default();
        let request = Request::new(&*queries, one());
        let _ = engine.search(&request, &mut found).unwrap();
        for stop in [Stop::after(Duration::ZERO), Stop::new()] {
            stop.stop();
            let stopped = engine.search(&request.until(&stop), &mut found);
            assert!(matches!(stopped, Err(SearchError::Stopped)), "{engine:?}");
            assert!(found.is_empty());
        }
        // The search is stopped while it runs, by another thread.
        let many = matrix(&close_rows(13, 20_000), 64);
        let stop = Stop::new();
        std::thread::scope(|scope| {
            let search = scope.spawn(|| {
                let k = NonZeroUsize::new(50).unwrap();
                let mut found = NeighborLists::default();
                engine.search(&Request::new(&*many, k).until(&stop), &mut found).map(|_| ())
            });
            std::thread::sleep(Duration::from_millis(3));
            stop.stop();
            assert!(matches!(search.join().unwrap(), Err(SearchError::Stopped)));
        });
    }
}

#[test]
fn only_reached_deadlines_stop_a_search() {
    let training = matrix(&close_rows(14, 50), 64);
    let engine = inverted(&training, 20, 1);
    let stopped = |stop: &Stop| {
        let request = Request::new(&*training, one());
        // The order in which filter and stop are set does not matter.
        [request.until(stop).among(Allow::all()), request.among(Allow::all()).until(stop)].map(
            |request| {
                let found = engine.search(&request, &mut NeighborLists::default());
                matches!(found, Err(SearchError::Stopped))
            },
        )
    };
    let later = Duration::from_hours(1);
    assert_eq!(stopped(&Stop::new()), [false; 2]);
    assert_eq!(stopped(&Stop::after(later)), [false; 2]);
    assert_eq!(stopped(&Stop::at(Instant::now() + later)), [false; 2]);
    assert_eq!(stopped(&Stop::after(Duration::MAX)), [false; 2]);
    assert_eq!(stopped(&Stop::after(Duration::ZERO)), [true; 2]);
    assert_eq!(stopped(&Stop::at(Instant::now())), [true; 2]);
    let by_hand = Stop::after(later);
    by_hand.stop();
    assert_eq!(stopped(&by_hand), [true; 2]);
    // Not even an empty answer is returned.
    let none = matrix(&vec![], 64);
    let request = Request::new(&*none, one()).until(&by_hand);
    for engine in [&oracle(&training) as &dyn Search, &engine] {
        let found = engine.search(&request, &mut NeighborLists::default());
        assert!(matches!(found, Err(SearchError::Stopped)));
    }
    let filter = RowSet::from_fn(50, |row| row == 7);
    let request = Request::new(&*training, one()).among(Allow::all().only(&filter));
    let (found, _) = answer(&engine, &request.until(&Stop::new()));
    assert!(found.iter().all(|found| found.len() == 1 && found[0].0 == 7));
}

/// Blocks have 65,536 rows, the largest number that 16 bits can index.
#[test]
fn rows_at_the_ends_of_the_largest_blocks() {
    const ROWS: u32 = 2 * 65_536;
    let rows: Rows = (0..ROWS).map(|row| vec![(row, 0.5)]).collect();
    let training = matrix(&rows, ROWS as usize);
    let wanted = [0, 1, 65_535, 65_536, 65_537, ROWS - 1];
    let queries = matrix(&wanted.map(|row| vec![(row, 1.0)]).to_vec(), ROWS as usize);
    let request = Request::new(&*queries, NonZeroUsize::MAX);
    for block_rows in [0, 65_536, 100_000] {
        let (found, report) = answer(&inverted(&training, block_rows, 2), &request);
        assert_eq!(found, wanted.map(|row| vec![(row, 0.5f32.to_bits())]));
        assert_eq!(report, Report { fast: 6, fell_back: 0 });
    }
}

/// Shards of consecutive rows are searched in any order, with every filter.
#[test]
fn shards_of_consecutive_rows() {
    let all = close_rows(15, 90);
    let training = matrix(&all, 64);
    let queries = matrix(&close_rows(16, 21), 64);
    let part = |rows: std::ops::Range<usize>| {
        let map = RowMap::From(u32::try_from(rows.start).unwrap());
        Part { engine: Arc::new(inverted(&matrix(&all[rows].to_vec(), 64), 10, 1)), rows: map }
    };
    let parts = vec![part(30..55), part(0..30), part(55..55), part(55..90)];
    let engine = Composite::new(parts, threads(1)).unwrap();
    let filters = Filters::new(90, 21);
    for allow in filters.all() {
        for k in [one(), NonZeroUsize::new(12).unwrap(), NonZeroUsize::MAX] {
            let request = Request::new(&*queries, k).among(allow);
            let (found, report) = answer(&engine, &request);
            assert_eq!(found, answer(&oracle(&training), &request).0);
            assert_eq!(found, answer(&inverted(&training, 16, 1), &request).0);
            assert_eq!(report, Report { fast: 21, fell_back: 0 });
        }
    }
}

/// A query is fast in a composite engine only if it is fast in every part.
#[test]
fn reports_count_fallbacks() {
    let shard = |rows: &Rows| -> Arc<dyn Search> { Arc::new(inverted(&matrix(rows, 1), 10, 1)) };
    let huge = vec![vec![(0, 1e30)]; 3];
    let plain = vec![vec![(0, 1.0)]; 3];
    let queries = matrix(&vec![vec![(0, 1e30)], vec![(0, 1.0)]], 1);
    let request = Request::new(&*queries, one());
    let engine = |shards: Vec<&Rows>| {
        let segment = |rows: &Rows| Segment { engine: shard(rows), kept: None };
        Composite::of_segments(shards.into_iter().map(segment), threads(1)).unwrap()
    };
    let report = |shards| answer(&engine(shards), &request).1;
    assert_eq!(report(vec![&plain, &plain]), Report { fast: 2, fell_back: 0 });
    assert_eq!(report(vec![&huge, &plain]), Report { fast: 1, fell_back: 1 });
    assert_eq!(report(vec![&plain, &huge]), Report { fast: 1, fell_back: 1 });
    // A query that fell back in several parts counts once.
    assert_eq!(report(vec![&huge, &huge, &huge]), Report { fast: 1, fell_back: 1 });
    // A different query falls back in each part.
    let tiny = vec![vec![(0, 1e-31)]; 3];
    assert_eq!(report(vec![&tiny, &plain]), Report { fast: 1, fell_back: 1 });
    assert_eq!(report(vec![&huge, &tiny]), Report { fast: 0, fell_back: 2 });
    let mut found = NeighborLists::default();
    let _ = engine(vec![&plain, &tiny, &tiny]).search(&request, &mut found).unwrap();
    assert_eq!([0, 1].map(|query| found.fell_back(query)), [false, true]);
    let found = answer(&oracle(&matrix(&plain, 1)), &request).1;
    assert_eq!(found, Report { fast: 0, fell_back: 2 });
}

/// The sum exceeds the range of `f32`, so the similarity is the largest finite number.
#[test]
fn similarities_end_at_the_largest_number() {
    let training = matrix(&vec![vec![(0, 1e30)], vec![(0, f32::MAX)]], 1);
    let request = Request::new(&*training, NonZeroUsize::MAX);
    for engine in [&oracle(&training) as &dyn Search, &inverted(&training, 10, 1)] {
        let (found, _) = answer(engine, &request);
        assert_eq!(found, vec![vec![(0, f32::MAX.to_bits()), (1, f32::MAX.to_bits())]; 2]);
    }
}

/// Returns rows with Zipf-distributed terms, as in natural language: about 1 / (t + 1) of the rows
/// contain term t.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small and positive")]
fn zipf_rows(seed: u64, count: usize, terms: u32) -> Rows {
    let mut random = Random::new(seed);
    let mut next = move || (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    let words = f64::from(terms).ln();
    (0..count)
        .map(|_| {
            let mut row = BTreeMap::new();
            for _ in 0..(20.0 + 60.0 * next()) as usize {
                let term = ((next() * words).exp() as u32 - 1).min(terms - 1);
                *row.entry(term).or_insert(0.0) += f64::from(term + 2).ln() / 10.0;
            }
            let length = row.values().map(|w: &f64| w * w).sum::<f64>().sqrt();
            row.into_iter().map(|(term, weight)| (term, (weight / length) as f32)).collect()
        })
        .collect()
}

/// Tests batches with frequent and rare terms, in blocks of all sizes.
#[test]
fn batches_of_a_language() {
    const TERMS: u32 = 70_000;
    let rows = zipf_rows(1, 3_000, TERMS);
    let training = matrix(&rows, TERMS as usize);
    let queries = matrix(&zipf_rows(2, 150, TERMS), TERMS as usize);
    for k in [1, 30, 600, 3_000] {
        agree_fast(&training, &queries, k).unwrap();
    }
    // Queries of different lengths, and a single query.
    let some: Rows = rows.iter().take(17).map(|row| row[..row.len() / 3].to_vec()).collect();
    agree_fast(&training, &matrix(&some, TERMS as usize), 30).unwrap();
    agree_fast(&training, &matrix(&some[..1].to_vec(), TERMS as usize), 30).unwrap();
}

/// Returns rows that share most of their words with other rows of their subject. The engine uses
/// bounds only if a query has similar rows.
fn rows_of_subjects(subjects: usize, count: usize, terms: u32) -> Rows {
    let subjects = zipf_rows(5, subjects, terms);
    let rows = zipf_rows(6, count, terms);
    let with_subject = |(index, row): (usize, &Vec<(u32, f32)>)| {
        let subject = subjects[index % subjects.len()].iter();
        let subject_terms = subject.filter(|(term, _)| !term.is_multiple_of(3));
        let all = subject_terms.chain(&row[..row.len() / 3]).copied();
        all.collect::<BTreeMap<_, _>>().into_iter().collect()
    };
    rows.iter().enumerate().map(with_subject).collect()
}

/// Single queries, for rows of unit length and of other lengths. The filter allows all rows, all
/// rows except the query itself, or a few rows.
#[test]
fn queries_of_a_language_one_at_a_time() {
    const TERMS: u32 = 20_000;
    let few = RowSet::from_fn(3_000, |row| row % 50 < 3);
    let mut rows = rows_of_subjects(300, 3_000, TERMS);
    for unit in [true, false] {
        for (at, row) in (0u16..).zip(&mut rows) {
            let length = row.iter().map(|(_, weight)| weight * weight).sum::<f32>().sqrt();
            let scale = if unit { 1.0 } else { 0.3 + f32::from(at % 97) / 10.0 };
            for (_, weight) in row {
                *weight *= scale / length;
            }
        }
        let training = matrix(&rows, TERMS as usize);
        let exhaustive = oracle(&training);
        for block_rows in [700, 4_000] {
            let engine = inverted(&training, block_rows, 1);
            for (row, k) in (0u32..60).zip([1, 10, 100, 1_000].into_iter().cycle()) {
                let query = matrix(&rows[row as usize..][..1].to_vec(), TERMS as usize);
                let k = NonZeroUsize::new(k).unwrap();
                let own_rows = [RowRange::one(row)];
                let all = Allow::all();
                for allow in [all, all.except_range(&own_rows), all.only(&few)] {
                    let request = Request::new(&*query, k).among(allow);
                    let expected = answer(&exhaustive, &request).0;
                    assert_eq!(answer(&engine, &request).0, expected, "query {row}, k = {k}");
                }
            }
        }
    }
}

/// Batches over many blocks, which are answered by bounds.
#[test]
fn batches_of_a_language_by_bounds() {
    const TERMS: u32 = 5_000;
    let rows = rows_of_subjects(300, 6_000, TERMS);
    let queries = matrix(&rows[..200].to_vec(), TERMS as usize);
    let training = matrix(&rows, TERMS as usize);
    let exhaustive = oracle(&training);
    let few = RowSet::from_fn(6_000, |row| row % 50 < 3);
    let own_rows: Vec<RowRange> = (0..200).map(RowRange::one).collect();
    let all = Allow::all();
    for allow in [all, all.except_range(&own_rows), all.only(&few)] {
        for (block_rows, k) in [(120, 10), (120, 50), (300, 20), (750, 1)] {
            let request = Request::new(&*queries, NonZeroUsize::new(k).unwrap()).among(allow);
            let expected = answer(&exhaustive, &request).0;
            let found = answer(&inverted(&training, block_rows, 1), &request).0;
            assert_eq!(found, expected, "k = {k}, blocks of {block_rows} rows");
        }
    }
}

/// Queries with negative weights, for training rows without negative weights, in one request and in
/// several requests.
#[test]
fn negative_weights_of_queries_only() {
    let training = matrix(&zipf_rows(3, 2_000, 500), 500);
    let mut rows = zipf_rows(4, 60, 500);
    agree_fast(&training, &matrix(&rows, 500), 10).unwrap();
    for row in rows.iter_mut().step_by(3) {
        row.iter_mut().step_by(4).for_each(|(_, weight)| *weight = -*weight);
    }
    agree_fast(&training, &matrix(&rows, 500), 10).unwrap();
    let engine = inverted(&training, 700, 1);
    let signed = matrix(&rows, 500);
    let request = Request::new(&*signed, one());
    let expected = answer(&oracle(&training), &request).0;
    assert_eq!(answer(&engine, &request).0, expected);
    assert_eq!(answer(&engine, &Request::new(&*training, one())).1.fell_back, 0);
    assert_eq!(answer(&engine, &request).0, expected);
}

/// For long queries in a batch, the sums from postings and the sums from the dense head have errors
/// of opposite signs.
#[test]
fn queries_longer_than_rows() {
    let mut rows: Rows = (0..64).map(|term| vec![(term, 1.0)]).collect();
    let near = 0.375_066_76;
    rows.push(vec![(0, near), (1, near), (2, 0.374_929_43)]);
    rows.push((61..64).map(|term| (term, 0.375_051_5)).collect());
    rows.extend((0..134).map(|at| vec![(61 + at % 3, 1.0)]));
    let training = matrix(&rows, 64);
    let query: Vec<(u32, f32)> = (0..64).map(|term| (term, 1.0)).collect();
    agree(&training, &matrix(&vec![query; 16], 64), 1).unwrap();
    // Repeat with many rows of nearly the same similarity.
    let mut random = Random::new(8);
    let mut close = |terms: std::ops::Range<u32>| -> Vec<(u32, f32)> {
        let mut weight = || 0.375 + f32::from(u8::try_from(random.below(200)).unwrap()) * 1e-6;
        terms.map(|term| (term, weight())).collect()
    };
    for first in (0..60).step_by(3).cycle().take(400) {
        rows.push(close(first..first + 3));
        rows.push(close(61..64));
    }
    let training = matrix(&rows, 64);
    let queries = (0..40).map(|_| close(0..64)).collect();
    for k in [1, 7, 50] {
        agree(&training, &matrix(&queries, 64), k).unwrap();
    }
}

/// Rows with enough terms for 16-bit rounding errors to accumulate.
#[test]
fn rows_of_many_terms() {
    const TERMS: u32 = 100_000;
    let row = |every: u32, from: u32| -> Vec<(u32, f32)> {
        let terms = (from..TERMS).step_by(every as usize);
        terms.map(|term| (term, 1.0 / (1.0 + (term % 97) as f32))).collect()
    };
    let mut rows: Rows = (1..40).map(|every| row(every, every / 2)).collect();
    rows.push(vec![(99_999, 1.0)]);
    let training = matrix(&rows, TERMS as usize);
    for k in [1, 5, 40] {
        agree(&training, &training, k).unwrap();
    }
}

#[test]
fn parts_contain_every_row_once() {
    let part = |rows: RowMap, count: usize| {
        let engine = Arc::new(oracle(&matrix(&vec![vec![(0, 1.0)]; count], 1)));
        Part { engine, rows }
    };
    let rows = |rows: &[u32]| RowMap::Rows(rows.into());
    let kept = |first: u32, kept: &[u32]| RowMap::Kept { first, kept: kept.into() };
    let made = |parts| Composite::new(parts, threads(1)).map(|engine| engine.rows());
    for (parts, count) in [
        (vec![], 0),
        (vec![part(RowMap::From(2), 3), part(RowMap::From(0), 2)], 5),
        (vec![part(kept(1, &[0, 4]), 5), part(rows(&[0, 3]), 2)], 4),
    ] {
        assert_eq!(made(parts).unwrap(), count);
    }
    for wrong in [
        vec![part(RowMap::From(1), 3)],
        vec![part(RowMap::From(0), 3), part(RowMap::From(2), 2)],
        vec![part(RowMap::From(u32::MAX - 1), 3)],
        vec![part(rows(&[1, 0]), 2)],
        vec![part(rows(&[0]), 2)],
        vec![part(rows(&[0, 0]), 2)],
        vec![part(kept(0, &[1, 0]), 2)],
        vec![part(kept(0, &[2]), 2)],
        vec![part(kept(1, &[0]), 2)],
    ] {
        assert!(matches!(made(wrong), Err(SearchError::Parts { .. })));
    }
    for wrong in [[1, 0], [0, 2]] {
        let segment = Segment { engine: part(RowMap::From(0), 2).engine, kept: Some(wrong.into()) };
        let made = Composite::of_segments([segment], threads(1));
        assert!(matches!(made, Err(SearchError::Parts { .. })));
    }
}

#[test]
fn invalid_requests_are_rejected() {
    let training = matrix(&vec![vec![(0, 1.0)]], 2);
    let nan = matrix(&vec![vec![(0, f32::NAN)]], 2);
    let other = matrix(&vec![vec![(0, 1.0)]], 3);
    let engines: [Arc<dyn Search>; 3] = [
        Arc::new(inverted(&training, 10, 1)),
        Arc::new(oracle(&training)),
        Arc::new(composite(&training, |_| 0)),
    ];
    for engine in engines {
        let mut found = NeighborLists::default();
        let mut refused = |request: Request<'_>| {
            let refused = engine.search(&request, &mut found).unwrap_err();
            assert!(found.is_empty());
            refused.to_string()
        };
        assert_eq!(
            refused(Request::new(&*other, one())),
            "the queries have 3 columns, but the training rows have 2"
        );
        assert_eq!(
            refused(Request::new(&*nan, one())),
            "a query row contains a weight that is not finite"
        );
        let ranges = [RowRange::one(0), RowRange::one(1)];
        assert_eq!(
            refused(Request::new(&*training, one()).among(Allow::all().except_range(&ranges))),
            "the filter has 2 ranges, expected 1"
        );
        let lists = RowLists::new(&[0, 0, 0], &[]);
        assert_eq!(
            refused(Request::new(&*training, one()).among(Allow::all().except_listed(lists))),
            "the filter has 2 lists, expected 1"
        );
        for (of_rows, of_queries, expected) in [
            (&[0, 0][..], &[0][..], "the filter has 2 groups of rows, expected 1"),
            (&[0], &[], "the filter has 0 groups of queries, expected 1"),
        ] {
            let allow = Allow::all().except_group(of_rows, of_queries);
            assert_eq!(refused(Request::new(&*training, one()).among(allow)), expected);
        }
        let set = RowSet::from_fn(7, |_| true);
        assert_eq!(
            refused(Request::new(&*training, one()).among(Allow::all().only(&set))),
            "the filter has 7 rows of the set, expected 1"
        );
    }
    // The weights are beyond the range that one thread checks.
    let weight = |at: u32| if at == 69_999 { f32::NAN } else { 1.0 };
    let late = matrix(&vec![(0..70_000).map(|at| (at, weight(at))).collect()], 70_000);
    let infinite = matrix(&vec![vec![(0, f32::INFINITY)]], 1);
    for wrong in [nan, late, infinite] {
        assert!(Inverted::new(Arc::clone(&wrong), threads(1)).is_err());
        assert!(Exhaustive::new(wrong, threads(1)).is_err());
    }
    for (dimension, values) in [(0, &[][..]), (0, &[1.0]), (2, &[1.0])] {
        assert!(matches!(VectorsView::new(dimension, values), Err(ShapeError { .. })));
    }
    let dense = VectorsView::new(2, &[f32::NAN, 0.0]).unwrap();
    let refused =
        oracle(&training).search(&Request::new(dense, one()), &mut NeighborLists::default());
    assert!(matches!(refused, Err(SearchError::NotFinite { .. })));
}
