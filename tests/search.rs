//! `inverted` against `exhaustive`, bit for bit, on data that force ties.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Mutex;

use classify::matrix::{Csr, CsrBuilder};
use classify::search::{Exhaustive, Inverted, Neighbor, Queries, Search, SearchError};
use classify::threads::Threads;
use proptest::prelude::*;

type Rows = Vec<Vec<(u32, f32)>>;

fn matrix(rows: &Rows, columns: usize) -> Csr {
    let mut builder = CsrBuilder::default();
    for row in rows {
        builder.push_row(row.iter().copied());
    }
    builder.build(columns)
}

fn bits(answers: &[Vec<Neighbor>]) -> Vec<Vec<(u32, u32)>> {
    let pair = |neighbor: &Neighbor| (neighbor.row, neighbor.similarity.to_bits());
    answers.iter().map(|neighbors| neighbors.iter().map(pair).collect()).collect()
}

/// One pool for each number of threads: starting threads would take most of the time.
fn threads(count: usize) -> Threads {
    static POOLS: Mutex<BTreeMap<usize, Threads>> = Mutex::new(BTreeMap::new());
    let count = NonZeroUsize::new(count).unwrap();
    let mut pools = POOLS.lock().unwrap();
    pools.entry(count.get()).or_insert_with(|| Threads::new(count).unwrap()).clone()
}

/// Both engines, several block sizes and thread counts, with and without excluded rows.
fn agree(training: &Csr, queries: &Csr, k: usize) -> Result<(), TestCaseError> {
    let k = NonZeroUsize::new(k).unwrap();
    let view = queries.view();
    let some_excluded: Vec<Option<u32>> =
        (0..queries.rows()).map(|query| u32::try_from(query).ok().filter(|q| q % 3 != 2)).collect();
    for excluded in [&[][..], &some_excluded] {
        let queries = Queries { rows: &view, excluded };
        let oracle = Exhaustive::new(training, threads(1)).unwrap();
        let expected = bits(&oracle.top_k(queries, k).unwrap());
        for (block_rows, count) in [(1, 1), (3, 7), (8_192, 1), (65_536, 7)] {
            let engine = Inverted::with_block_rows(training, threads(count), block_rows).unwrap();
            let found = bits(&engine.top_k(queries, k).unwrap());
            prop_assert_eq!(&found, &expected, "blocks of {} rows, {} threads", block_rows, count);
        }
    }
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

fn wild() -> impl Strategy<Value = f32> + Clone {
    let exponent = prop_oneof![Just(-45i32), Just(-30), Just(-20), Just(0), Just(19), Just(37)];
    (exponent, -9.0f32..9.0).prop_map(|(exponent, x)| x * 10f32.powi(exponent))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn ties_duplicates_empties_and_zeros(t in rows(small_integers()), q in rows(small_integers()), k in 1usize..60) {
        agree(&matrix(&t, COLUMNS as usize), &matrix(&q, COLUMNS as usize), k)?;
    }

    #[test]
    fn negative_weights(t in rows(signed()), q in rows(signed()), k in 1usize..60) {
        agree(&matrix(&t, COLUMNS as usize), &matrix(&q, COLUMNS as usize), k)?;
    }

    #[test]
    fn overflow_and_underflow(t in rows(wild()), q in rows(wild()), k in 1usize..60) {
        agree(&matrix(&t, COLUMNS as usize), &matrix(&q, COLUMNS as usize), k)?;
    }
}

proptest! {
    // Fewer: these rows are many.
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn unit_rows_of_close_similarities(seed in 0u64..u64::MAX, k in 1usize..40) {
        let t = close_rows(seed, 1_500);
        let q = close_rows(seed ^ 1, 20);
        agree(&matrix(&t, 64), &matrix(&q, 64), k)?;
    }
}

/// Rows whose similarities differ in the last bits only, many of them equal.
fn close_rows(mut seed: u64, count: usize) -> Rows {
    let mut next = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed >> 33
    };
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

#[test]
fn one_row_one_term_and_nothing() {
    let one = matrix(&vec![vec![(0, 1.0)]], 1);
    let empty = matrix(&vec![], 1);
    let blank = matrix(&vec![vec![], vec![]], 1);
    for training in [&one, &empty, &blank] {
        for queries in [&one, &empty, &blank] {
            agree(training, queries, 1).unwrap();
            agree(training, queries, 1_000_000).unwrap();
        }
    }
}

/// Products in the normal range whose sum is not.
#[test]
fn cancellation_into_the_subnormal_range() {
    let training = matrix(&vec![vec![(0, 2.000_2e-19), (1, -2e-19)]], 2);
    let queries = matrix(&vec![vec![(0, 1e-18), (1, 1e-18)]], 2);
    agree(&training, &queries, 1).unwrap();
}

#[test]
fn equal_rows_come_by_row_number() {
    let rows: Rows = (0..20_000).map(|_| vec![(3, 0.6), (5, 0.8)]).collect();
    let training = matrix(&rows, 8);
    let engine = Inverted::new(&training, threads(2)).unwrap();
    let queries = matrix(&vec![vec![(3, 1.0)]], 8);
    let found = engine.top_k(Queries::new(&queries.view()), 30.try_into().unwrap()).unwrap();
    let numbers: Vec<u32> = found[0].iter().map(|neighbor| neighbor.row).collect();
    assert_eq!(numbers, (0..30).collect::<Vec<u32>>());
    agree(&training, &queries, 600).unwrap();
}

#[test]
fn refused_at_the_door() {
    let training = matrix(&vec![vec![(0, 1.0)]], 2);
    let engine = Inverted::new(&training, threads(1)).unwrap();
    let other = matrix(&vec![vec![(0, 1.0)]], 3);
    let k = NonZeroUsize::MIN;
    assert_eq!(
        engine.top_k(Queries::new(&other.view()), k),
        Err(SearchError::Columns { found: 3, expected: 2 })
    );
    let nan = matrix(&vec![vec![(0, f32::NAN)]], 2);
    assert_eq!(
        engine.top_k(Queries::new(&nan.view()), k),
        Err(SearchError::NotFinite { what: "query" })
    );
    assert!(Inverted::new(&nan, threads(1)).is_err());
    let excluded = [Some(0), None];
    let queries = Queries { rows: &training.view(), excluded: &excluded };
    assert_eq!(engine.top_k(queries, k), Err(SearchError::Excluded { found: 2, expected: 1 }));
}
