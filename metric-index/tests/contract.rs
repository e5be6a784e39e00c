//! Checks the axioms of every metric, and compares every index with brute force, bit for bit.

#![expect(clippy::disallowed_methods, reason = "powers and logarithms of data for tests")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::num::NonZero;
use std::sync::Arc;

use metric_index::collector::{Collector, Nearest, Within};
use metric_index::error::Error;
use metric_index::generate::Random;
use metric_index::index::{
    AnyIndex, BruteForce, ClusterSize, DynamicIndex, Egnat, EgnatOptions, Index, Kind, MTree,
    Pivots, Search, search,
};
use metric_index::lists::NeighborLists;
use metric_index::metric::{
    Angular, Chebyshev, CountingMetric, Edit, Euclidean, Hamming, Jaccard, Manhattan, Metric,
    Minkowski, check,
};
use metric_index::neighbor::Neighbor;
use metric_index::points::{GrowablePoints, Items, Points, Sets, Strings, Vectors};
use metric_index::{Question, advise};
use proptest::prelude::*;

use erased::{All, AnyMetric, Erased, Point, built, cases, on, plain, vectors};

mod erased;

/// Generates vectors whose coordinates are small integers, which cause ties, or small integers
/// divided by 10, which cause rounding errors.
fn vector() -> impl Strategy<Value = Vec<f32>> {
    let whole = (-4i8..4).prop_map(f32::from);
    prop::collection::vec(prop_oneof![whole.clone(), whole.prop_map(|x| x / 10.0)], 3)
}

fn check_axioms<P: ?Sized>(
    metric: &impl Metric<P>,
    [a, b, c]: [&P; 3],
) -> Result<(), TestCaseError> {
    let d = |x, y| metric.distance(x, y);
    prop_assert_eq!(d(a, a).to_bits(), 0f32.to_bits());
    prop_assert!(d(a, b) >= 0.0);
    prop_assert_eq!(d(a, b).to_bits(), d(b, a).to_bits());
    let slack = 1.0 + 4.0 * metric.relative_error();
    prop_assert!(d(a, c) <= (d(a, b) + d(b, c)) * slack + 4.0 * metric.absolute_error());
    for radius in [0.0, 1.0, 2.5, d(a, b), d(a, b).next_down()] {
        let within = metric.distance_within(a, b, radius).map(f32::to_bits);
        prop_assert_eq!(within, (d(a, b) <= radius).then_some(d(a, b).to_bits()));
        if let Some(prepared) = metric.distances_from(a) {
            prop_assert_eq!(prepared.to_within(b, radius).map(f32::to_bits), within);
            prop_assert_eq!(prepared.to(b).to_bits(), d(a, b).to_bits());
        }
    }
    Ok(())
}

/// Computes the edit distance by its recursive definition.
fn edit_by_definition(a: &[char], b: &[char]) -> usize {
    match (a, b) {
        ([], rest) | (rest, []) => rest.len(),
        ([x, a @ ..], [y, b @ ..]) => {
            let substituted = edit_by_definition(a, b) + usize::from(x != y);
            let deleted = edit_by_definition(a, &[&[*y], b].concat()) + 1;
            let inserted = edit_by_definition(&[&[*x], a].concat(), b) + 1;
            substituted.min(deleted).min(inserted)
        }
    }
}

/// Computes the edit distance with the table of Wagner and Fischer.
fn edit_by_table(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for a in a.chars() {
        let mut next = vec![row[0] + 1];
        for (j, &b) in b.iter().enumerate() {
            let substituted = row[j] + usize::from(a != b);
            next.push(substituted.min(row[j + 1] + 1).min(next[j] + 1));
        }
        row = next;
    }
    row[b.len()]
}

/// Returns radii at the boundaries of balls: some of the distances, and the adjacent numbers.
fn radii(all: &[Neighbor]) -> Vec<f32> {
    let mut radii = vec![0.0, f32::MAX, f32::INFINITY];
    for neighbor in all.iter().step_by(all.len() / 5 + 1) {
        let distance = neighbor.distance;
        radii.extend([distance, distance.next_up()]);
        radii.extend((distance > 0.0).then(|| distance.next_down()));
    }
    radii
}

/// Compares every kind of query, and a search that stops after each distance.
fn assert_agrees(kind: Kind, index: &Erased, oracle: &Erased, queries: &[Point]) {
    let count = oracle.points().len();
    for query in queries {
        let all = oracle.nearest(query, usize::MAX).unwrap();
        assert_eq!(all.len(), count);
        assert!(all.is_sorted());
        for k in [0, 1, 2, 7, count.saturating_sub(1), count, usize::MAX] {
            let expected = &all[..k.min(count)];
            assert_eq!(index.nearest(query, k).unwrap(), expected, "{kind}: k = {k} of {query:?}");
            let grown = index.nearest_by_ranges(query, k, 0.3, 1.7).unwrap();
            assert_eq!(grown, expected, "{kind}: k = {k} of {query:?}, by ranges");
        }
        for radius in radii(&all) {
            let inside = all.iter().take_while(|neighbor| neighbor.distance <= radius).count();
            let found = index.within(query, radius).unwrap();
            assert_eq!(found, &all[..inside], "{kind}: radius {radius} of {query:?}");
        }
        let mut stopping = Search::start(index, query, CustomCollector(Nearest::new(3))).unwrap();
        let mut stops = 0;
        while !stopping.work(1).unwrap() {
            stops += 1;
        }
        let (found, cost) = stopping.into_parts();
        assert_eq!(found.0.into_sorted(), &all[..3.min(count)]);
        assert!(stops <= cost.evaluations, "{kind}: {stops} stops, {cost:?}");
        // Distances from pivots and routing objects may be evaluated in addition to the distances
        // from all points.
        assert!(cost.evaluations <= 3 * count as u64 + 1, "{kind}: {cost:?} for {count} points");
    }
}

/// A collector defined outside the crate.
struct CustomCollector(Nearest);

impl Collector for CustomCollector {
    fn radius(&self) -> f32 {
        self.0.radius()
    }

    fn offer(&mut self, candidate: Neighbor) {
        self.0.offer(candidate);
    }
}

/// Compares every index that supports the metric, with parameters at the limits of their ranges.
fn assert_all_agree(points: &All, metric: &AnyMetric, queries: &[Point]) {
    let oracle = built(Kind::BruteForce, points, &plain(metric));
    let sizes = [0, 4, 1_000].map(ClusterSize::Points);
    let radii = [0.0, 1.0, 1e30].map(ClusterSize::Radius);
    let spreads = [0.4, 0.0].map(Pivots::Spread);
    let counts = [0, 3].map(Pivots::Count);
    let kinds = [Kind::BruteForce, Kind::VpTree]
        .into_iter()
        .chain(sizes.into_iter().chain(radii).map(Kind::ListOfClusters))
        .chain(spreads.into_iter().chain(counts).map(Kind::SssIndex))
        .chain([0.0, 0.4, 1.0].map(Kind::SssTree))
        .chain(EGNAT_OPTIONS.map(Kind::Egnat))
        .chain([4, 5, 32].map(Kind::MTree))
        .chain(metric.coordinates().map(|_| Kind::KdTree));
    for kind in kinds {
        assert_agrees(kind, &built(kind, points, metric), &oracle, queries);
    }
}

const EGNAT_OPTIONS: [EgnatOptions; 4] = [
    EgnatOptions { arity: 2, bucket: 1 },
    EgnatOptions { arity: 3, bucket: 2 },
    EgnatOptions { arity: 5, bucket: 7 },
    EgnatOptions { arity: 32, bucket: 20 },
];

/// A change to a dynamic index, with an index that selects the point to insert or remove.
#[derive(Debug, Clone, Copy)]
enum Change {
    Insert(prop::sample::Index),
    Remove(prop::sample::Index),
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let change = prop_oneof![
        4 => any::<prop::sample::Index>().prop_map(Change::Insert),
        3 => any::<prop::sample::Index>().prop_map(Change::Remove)
    ];
    prop::collection::vec(change, 0..160)
}

/// Compares a dynamic index with a list of its points.
fn assert_follows<I: DynamicIndex<Points = All, Metric = AnyMetric>>(
    index: &mut I,
    additions: &All,
    changes: &[Change],
    queries: &[Point],
) {
    let mut present: Vec<u32> = (0..u32::try_from(index.points().len()).unwrap()).collect();
    for (step, change) in changes.iter().enumerate() {
        match change {
            Change::Insert(which) if !additions.is_empty() => {
                let which = u32::try_from(which.index(additions.len())).unwrap();
                let point = additions.point(which);
                let number = u32::try_from(index.points().len()).unwrap();
                assert_eq!(index.insert(point).unwrap(), number);
                present.push(number);
            }
            Change::Remove(which) if !present.is_empty() => {
                let point = present.remove(which.index(present.len()));
                assert!(index.remove(point).unwrap());
                assert!(!index.remove(point).unwrap(), "removed twice");
            }
            _ => assert!(!index.remove(u32::MAX).unwrap() && !index.remove(1 << 20).unwrap()),
        }
        assert_eq!((index.len(), index.is_empty()), (present.len(), present.is_empty()));
        if step % 20 != 19 && step + 1 != changes.len() {
            continue;
        }
        for query in queries {
            let distance = |point| index.metric().distance(query, index.points().point(point));
            let near = |&point: &u32| Neighbor { point, distance: distance(point) };
            let mut all: Vec<Neighbor> = present.iter().map(near).collect();
            all.sort_unstable();
            for k in [1, 4, present.len(), usize::MAX] {
                assert_eq!(index.nearest(query, k).unwrap(), &all[..k.min(all.len())], "k = {k}");
                let grown = index.nearest_by_ranges(query, k, 0.3, 1.7).unwrap();
                assert_eq!(grown, &all[..k.min(all.len())], "k = {k}, by ranges");
            }
            for radius in radii(&all) {
                let inside = all.iter().take_while(|near| near.distance <= radius).count();
                assert_eq!(index.within(query, radius).unwrap(), &all[..inside], "{radius}");
            }
        }
    }
}

fn assert_all_follow(
    first: &All,
    additions: &All,
    metric: &AnyMetric,
    changes: &[Change],
    queries: &[Point],
) {
    for options in EGNAT_OPTIONS {
        let mut tree = Egnat::build(first.clone(), metric.clone(), options).unwrap();
        assert_follows(&mut tree, additions, changes, queries);
    }
    for page in [4, 9] {
        let mut tree = MTree::build(first.clone(), metric.clone(), page).unwrap();
        assert_follows(&mut tree, additions, changes, queries);
    }
}

proptest! {
    #[test]
    fn axioms_of_vectors(a in vector(), b in vector(), c in vector()) {
        let points = [&a[..], &b[..], &c[..]];
        check_axioms(&Euclidean, points)?;
        check_axioms(&Manhattan, points)?;
        check_axioms(&Chebyshev, points)?;
        check_axioms(&Hamming, points)?;
        for p in [1.0, 1.5, 3.0, 1e6] {
            check_axioms(&Minkowski::new(p).unwrap(), points)?;
        }
        prop_assert_eq!(Euclidean.distance(&a[..], &b[..]) == 0.0, a == b);
        if points.iter().all(|point| point.iter().any(|&x| x != 0.0)) {
            check_axioms(&Angular, points)?;
        }
    }

    #[test]
    fn axioms_of_bytes(
        a in prop::collection::vec(any::<u8>(), 20),
        b in prop::collection::vec(any::<u8>(), 20),
        c in prop::collection::vec(any::<u8>(), 20),
    ) {
        let points = [&a[..], &b[..], &c[..]];
        check_axioms(&Euclidean, points)?;
        check_axioms(&Manhattan, points)?;
        check_axioms(&Chebyshev, points)?;
        check_axioms(&Hamming, points)?;
        check_axioms(&Minkowski::new(2.5).unwrap(), points)?;
        let floats = |v: &[u8]| v.iter().map(|&x| f32::from(x)).collect::<Vec<_>>();
        let of_bytes = Euclidean.distance(&a[..], &b[..]);
        let of_floats = Euclidean.distance(&floats(&a)[..], &floats(&b)[..]);
        prop_assert_eq!(of_bytes.to_bits(), of_floats.to_bits());
    }

    /// Compares distances with sequential sums, for dimensions below, at and above the number of
    /// lanes. Only the last bits may differ.
    #[test]
    fn lane_sums(values in prop::collection::vec((-1e3f32..1e3, -1e3f32..1e3), 0..40)) {
        let (a, b): (Vec<f32>, Vec<f32>) = values.iter().copied().unzip();
        let differences = || values.iter().map(|&(a, b)| (f64::from(a) - f64::from(b)).abs());
        let close = |found: f32, expected: f64| {
            (f64::from(found) - expected).abs() <= 1e-7 * expected
        };
        let euclidean = differences().map(|d| d * d).sum::<f64>().sqrt();
        prop_assert!(close(Euclidean.distance(&a[..], &b[..]), euclidean));
        prop_assert!(close(Manhattan.distance(&a[..], &b[..]), differences().sum()));
        prop_assert!(close(Chebyshev.distance(&a[..], &b[..]), differences().fold(0.0, f64::max)));
        let sevenths = differences().map(|d| d.powi(7)).sum::<f64>().powf(1.0 / 7.0);
        prop_assert!(close(Minkowski::new(7.0).unwrap().distance(&a[..], &b[..]), sevenths));
    }

    #[test]
    fn axioms_of_words(a in "[aé東]{0,6}", b in "[aé東]{0,6}", c in "[aé東]{0,6}") {
        check_axioms(&Edit, [&*a, &*b, &*c])?;
        prop_assert_eq!(Edit.distance(&a, &b) == 0.0, a == b);
    }

    #[test]
    fn axioms_of_sets(
        a in prop::collection::btree_set(0u32..12, 0..8),
        b in prop::collection::btree_set(0u32..12, 0..8),
        c in prop::collection::btree_set(0u32..12, 0..8),
    ) {
        let sets = [&a, &b, &c].map(|set| set.iter().copied().collect::<Vec<u32>>());
        check_axioms(&Jaccard, [&sets[0][..], &sets[1], &sets[2]])?;
        let common = a.intersection(&b).count();
        let all = a.union(&b).count();
        let expected = if all == 0 { 0.0 } else { 1.0 - common as f64 / all as f64 };
        prop_assert!((f64::from(Jaccard.distance(&sets[0], &sets[1])) - expected).abs() < 1e-7);
    }

    #[test]
    fn edit_distance_by_definition(a in "[ab]{0,5}", b in "[ab]{0,5}") {
        let x: Vec<char> = a.chars().collect();
        let y: Vec<char> = b.chars().collect();
        let expected = edit_by_definition(&x, &y) as f32;
        prop_assert_eq!(Edit.distance(&a, &b).to_bits(), expected.to_bits());
    }

    /// Tests lengths around the 64 bits of a machine word.
    #[test]
    fn edit_distance_of_long_words(a in "[abé]{0,70}", b in "[abé]{60,70}", limit in 0usize..80) {
        let expected = edit_by_table(&a, &b);
        prop_assert_eq!(Edit.distance(&a, &b).to_bits(), (expected as f32).to_bits());
        let within = Edit.distance_within(&b, &a, limit as f32);
        prop_assert_eq!(within.is_some(), expected <= limit);
        check_axioms(&Edit, [&a, &b, &a])?;
        let counted = CountingMetric::new(Edit);
        let characters = a.chars().count();
        let prepared = counted.distances_from(&a);
        prop_assert_eq!(prepared.is_some(), (1..=64).contains(&characters));
        if let Some(prepared) = prepared {
            prop_assert_eq!(prepared.to(&b).to_bits(), (expected as f32).to_bits());
            prop_assert_eq!(prepared.to_within(&b, limit as f32).is_some(), expected <= limit);
            prop_assert_eq!(counted.calls(), 2);
        }
    }
}

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn indexes_of_vectors_agree_with_brute_force(
        points in prop::collection::vec(vector(), 0..90),
        queries in prop::collection::vec(vector(), 2),
    ) {
        let queries = queries.into_iter().chain(points.first().cloned());
        let queries: Vec<Point> = queries.map(Point::Vector).collect();
        let points = vectors(&points.concat(), 3);
        assert_all_agree(&points, &on::<[f32], _>(Euclidean), &queries);
        assert_all_agree(&points, &on::<[f32], _>(Manhattan), &queries);
        assert_all_agree(&points, &on::<[f32], _>(Chebyshev), &queries);
        assert_all_agree(&points, &on::<[f32], _>(Minkowski::new(3.0).unwrap()), &queries);
        assert_all_agree(&points, &on::<[f32], _>(Hamming), &queries);
    }

    #[test]
    fn indexes_of_directions(points in prop::collection::vec(vector(), 0..60), query in vector()) {
        let nonzero = |point: &Vec<f32>| point.iter().any(|&x| x != 0.0);
        prop_assume!(nonzero(&query));
        let points = points.into_iter().filter(nonzero).map(Point::Vector).collect();
        assert_all_agree(&points, &on::<[f32], _>(Angular), &[Point::Vector(query)]);
    }

    #[test]
    fn indexes_of_words_agree_with_brute_force(
        words in prop::collection::vec("[abc]{0,5}", 0..80),
        queries in prop::collection::vec("[abcd]{0,6}", 2),
    ) {
        let queries: Vec<Point> = queries.into_iter().map(Point::Word).collect();
        let words = words.into_iter().map(Point::Word).collect();
        assert_all_agree(&words, &on::<str, _>(Edit), &queries);
    }

    #[test]
    fn indexes_of_sets_agree_with_brute_force(
        sets in prop::collection::vec(prop::collection::btree_set(0u32..9, 0..6), 0..60),
        query in prop::collection::btree_set(0u32..9, 0..6),
    ) {
        let sets = sets.into_iter().map(|set| Point::Set(set.into_iter().collect())).collect();
        let query = Point::Set(query.into_iter().collect());
        assert_all_agree(&sets, &on::<[u32], _>(Jaccard), &[query]);
    }
}

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn dynamic_indexes_follow_changes_of_vectors(
        points in prop::collection::vec(vector(), 1..60),
        before in 0usize..60,
        changes in changes(),
        query in vector(),
    ) {
        let first = vectors(&points[..before.min(points.len())].concat(), 3);
        let queries = [Point::Vector(query), Point::Vector(points[0].clone())];
        let additions = vectors(&points.concat(), 3);
        assert_all_follow(&first, &additions, &on::<[f32], _>(Euclidean), &changes, &queries);
    }

    #[test]
    fn dynamic_indexes_follow_changes_of_words(
        words in prop::collection::vec("[ab]{0,5}", 1..60),
        before in 0usize..60,
        changes in changes(),
        query in "[abc]{0,6}",
    ) {
        let words: Vec<Point> = words.into_iter().map(Point::Word).collect();
        let first: All = words.iter().take(before).cloned().collect();
        let additions = words.into_iter().collect();
        let queries = [Point::Word(query)];
        assert_all_follow(&first, &additions, &on::<str, _>(Edit), &changes, &queries);
    }
}

/// Points added to a store come after the existing points.
#[test]
fn stores_append_points() {
    let mut words: Strings = ["casa"].into_iter().collect();
    let mut sets = Sets::new([[1, 5]]).unwrap();
    let mut vectors = Vectors::from(vec![[0.5f32, 1.0]]);
    let mut items: Items<str, String> = Items::new(vec!["casa".to_owned()]);
    words.push("").unwrap();
    words.push("árbol").unwrap();
    sets.push(&[]).unwrap();
    sets.push(&[2, 7, 9]).unwrap();
    vectors.push(&[2.0, 3.0]).unwrap();
    items.push("pez").unwrap();
    assert_eq!(
        (words.len(), words.point(0), words.point(1), words.point(2)),
        (3, "casa", "", "árbol")
    );
    assert_eq!((sets.len(), sets.point(1), sets.point(2)), (3, &[][..], &[2, 7, 9][..]));
    assert_eq!(
        (vectors.len(), vectors.point(0), vectors.point(1)),
        (2, &[0.5, 1.0][..], &[2.0, 3.0][..])
    );
    assert_eq!((items.len(), items.point(1)), (2, "pez"));
}

fn assert_rejects_points<I: DynamicIndex<Points = Vectors<f32>>>(index: &mut I) {
    for bad in [&[f32::NAN, 0.0][..], &[f32::MAX, f32::MIN]] {
        assert!(index.insert(bad).is_err());
    }
    for bad in [&[][..], &[1.0], &[1.0, 2.0, 3.0]] {
        assert!(matches!(index.insert(bad), Err(Error::NoDistance { .. })));
    }
    assert_eq!((index.len(), index.points().len()), (100, 100));
    assert_eq!(index.insert(&[1.0, 2.0]).unwrap(), 100);
    assert_eq!(index.nearest(&[1.0, 2.0], usize::MAX).unwrap().len(), 101);
}

#[test]
fn rejected_points_leave_the_index_unchanged() {
    let points = || Vectors::new((0..200u8).map(|x| f32::from(x % 50)).collect(), 2).unwrap();
    let mut egnat = Egnat::build(points(), Euclidean, EGNAT_OPTIONS[1]).unwrap();
    let mut m_tree = MTree::build(points(), Euclidean, 4).unwrap();
    assert_rejects_points(&mut egnat);
    assert_rejects_points(&mut m_tree);
    let error_of = |options| Egnat::build(points(), Euclidean, options).unwrap_err();
    for arity in [0, 1, 33] {
        assert!(matches!(error_of(EgnatOptions { arity, bucket: 4 }), Error::Option { .. }));
    }
    assert!(matches!(error_of(EgnatOptions { arity: 4, bucket: 0 }), Error::Option { .. }));
    assert!(matches!(MTree::build(points(), Euclidean, 3), Err(Error::Option { .. })));
    let mut sets = Sets::default();
    assert!(sets.push(&[3, 2]).is_err() && sets.is_empty());
    // The store determines the dimension of vectors, not the first point.
    let mut empty = MTree::build(Vectors::new(Vec::new(), 2).unwrap(), Euclidean, 4).unwrap();
    assert!(matches!(empty.insert(&[1.0]), Err(Error::Shape { .. })));
    assert!(empty.is_empty() && empty.insert(&[1.0, 2.0]).is_ok());
}

proptest! {
    /// Compares matrix products with single queries for ties, equal points, and numbers of points
    /// around the sizes of blocks and lanes.
    #[test]
    fn batches_equal_single_queries(
        seed in any::<u64>(),
        dimension in 1usize..40,
        count in 0usize..1_200,
        scale in -38i32..19,
        k in 0usize..9,
    ) {
        let mut random = Random::new(seed);
        let mut next = |below| random.below(below) as f32 - 3.0;
        let factor = 10f32.powi(scale);
        let points: Vec<f32> = (0..count * dimension).map(|_| next(9) * factor).collect();
        let queries: Vec<f32> = (0..7 * dimension).map(|_| next(9) * factor).collect();
        let points = Vectors::new(points, dimension).unwrap();
        let queries = Vectors::new(queries, dimension).unwrap();
        let index = BruteForce::new(points, Euclidean).unwrap();
        let nearest = index.batch(&queries, |_| Nearest::new(k));
        let radius = 4.0 * factor;
        let radius_of = |query: u32| radius * f32::from(u8::try_from(query).unwrap()) / 4.0;
        let within = index.batch(&queries, |query| Within::new(radius_of(query)));
        for query in 0..7u8 {
            let point = queries.point(u32::from(query));
            let number = usize::from(query);
            prop_assert_eq!(nearest.get(number).map(<[_]>::to_vec), index.nearest(point, k));
            let radius = radius * f32::from(query) / 4.0;
            prop_assert_eq!(within.get(number).map(<[_]>::to_vec), index.within(point, radius));
        }
    }
}

/// Tests batches with invalid queries and with numbers at the limits of their range.
#[test]
fn batches_accept_invalid_and_extreme_queries() {
    let big = 3e38f32;
    for values in [
        vec![0.0, 1.0, 2.0, 3.0],
        vec![big, 0.0, -big, 0.0],
        vec![1e-45, 0.0, 3e-45, 1e-30],
        vec![1e20, 1e18, 1.0, 0.0],
    ] {
        let index = BruteForce::new(Vectors::new(values, 2).unwrap(), Euclidean).unwrap();
        let queries = Items::<[f32], _>::new(vec![
            vec![0.5, 1.0],
            vec![f32::NAN, 0.0],
            vec![1.0],
            vec![],
            vec![big, big],
            vec![2e-45, 1e-45],
            vec![1e20, 0.0],
            vec![1e19, 1e18],
        ]);
        let answers = index.batch(&queries, |_| Nearest::new(1));
        for (query, answer) in (0..).zip(&answers) {
            let expected = index.nearest(queries.point(query), 1);
            // NaN does not equal itself.
            assert_eq!(format!("{answer:?}"), format!("{expected:?}"), "query {query}");
        }
    }
    let none = BruteForce::new(Vectors::new(Vec::<f32>::new(), 2).unwrap(), Euclidean).unwrap();
    let answers = none.batch(&Vectors::new(vec![1.0, 2.0], 2).unwrap(), |_| Nearest::new(1));
    assert_eq!(answers, [Ok(vec![])].into_iter().collect());
    let mixed = Items::<[f32], _>::new(vec![vec![1.0], vec![1.0, 2.0]]);
    let mixed = BruteForce::new(mixed, Euclidean).unwrap();
    assert!(mixed.batch(&Vectors::new(vec![1.0], 1).unwrap(), |_| Nearest::new(1)).get(0).is_err());
}

/// Tests points on a few lines of a grid of tenths, where bounds that are not rounded outward lose
/// ties.
#[test]
fn rounded_bounds_keep_ties() {
    let mut random = Random::new(7);
    let mut next = |below| random.below(below) as f32 / 10.0;
    let metric = on::<[f32], _>(Euclidean);
    let kinds = [
        Kind::VpTree,
        Kind::ListOfClusters(ClusterSize::Points(4)),
        Kind::SssIndex(Pivots::Count(3)),
        Kind::KdTree,
        Kind::Egnat(EGNAT_OPTIONS[2]),
        Kind::MTree(5),
    ];
    for _ in 0..1_500 {
        let points: Vec<f32> = (0..40).flat_map(|_| [next(60), next(2), next(2)]).collect();
        let points = vectors(&points, 3);
        let query = Point::Vector(vec![next(60), next(2), next(2)]);
        let all =
            built(Kind::BruteForce, &points, &plain(&metric)).nearest(&query, usize::MAX).unwrap();
        for kind in kinds {
            let index = built(kind, &points, &metric);
            for k in [0, 3, 11, 30] {
                let radius = all[k].distance;
                let inside = all.iter().take_while(|neighbor| neighbor.distance <= radius).count();
                assert_eq!(index.within(&query, radius).unwrap(), &all[..inside], "{kind}");
                assert_eq!(index.nearest(&query, k).unwrap(), &all[..k], "{kind}");
            }
        }
    }
}

/// Tests a user-defined metric.
#[test]
fn user_defined_metrics_work() {
    struct ClockDistance;
    impl Metric<Point> for ClockDistance {
        fn distance(&self, a: &Point, b: &Point) -> f32 {
            let Point::Bytes(a) = a else { return f32::NAN };
            let Point::Bytes(b) = b else { return f32::NAN };
            let difference = a[0].abs_diff(b[0]);
            f32::from(difference.min(24 - difference))
        }

        fn relative_error(&self) -> f32 {
            0.0
        }
    }
    let hours = (0..96).map(|i| Point::Bytes(vec![i % 48 * 5 % 24])).collect();
    let clock: AnyMetric = Arc::new(ClockDistance);
    assert_all_agree(&hours, &clock, &[0, 13, 23].map(|hour| Point::Bytes(vec![hour])));
}

#[test]
fn equal_points_are_not_more_expensive() {
    let counted = Arc::new(CountingMetric::new(on::<[f32], _>(Euclidean)));
    let metric: AnyMetric = counted.clone();
    let point = |x, y| Point::Vector(vec![x, y]);
    let points = vectors(&vec![1.5; 60_000], 2);
    let tree = built(Kind::SssTree(0.4), &points, &metric);
    let AnyIndex::SssIndex(table) = built(Kind::SssIndex(Pivots::Spread(0.4)), &points, &metric)
    else {
        panic!("not the requested kind")
    };
    assert_eq!(table.pivots(), [0]);
    assert!(counted.calls() < 600_000, "{}", counted.calls());
    let before = counted.calls();
    let options = EgnatOptions { arity: 4, bucket: 10 };
    let mut egnat = Egnat::build(points.clone(), metric.clone(), options).unwrap();
    egnat.insert(&point(1.5, 0.5)).unwrap();
    let mut m_tree = MTree::build(vectors(&[], 2), metric.clone(), 8).unwrap();
    for _ in 0..30_000 {
        egnat.insert(&point(1.5, 1.5)).unwrap();
        m_tree.insert(&point(1.5, 1.5)).unwrap();
    }
    assert!(counted.calls() - before < 4_000_000, "{}", counted.calls() - before);
    let oracle = built(Kind::BruteForce, &points, &plain(&metric));
    for query in [point(1.5, 1.5), point(0.0, 1.5)] {
        let expected = oracle.nearest(&query, 3).unwrap();
        assert_eq!(m_tree.nearest(&query, 3).unwrap(), expected);
        assert_eq!(egnat.nearest(&query, 30_000).unwrap().len(), 30_000);
        assert_eq!(tree.nearest(&query, 3).unwrap(), expected);
        assert_eq!(table.nearest(&query, 3).unwrap(), expected);
    }
}

#[test]
fn indexes_evaluate_fewer_distances() {
    let mut random = Random::new(1);
    let points = vectors(&(0..6_000).map(|_| random.unit_f32()).collect::<Vec<f32>>(), 2);
    let counted = Arc::new(CountingMetric::new(on::<[f32], _>(Euclidean)));
    let metric: AnyMetric = counted.clone();
    let query = Point::Vector(vec![0.3, 0.7]);
    for kind in Kind::all().into_iter().filter(|&kind| kind != Kind::BruteForce) {
        let index = built(kind, &points, &metric);
        let before = counted.calls();
        let (_, cost) = search(&index, &query, Within::new(0.02)).unwrap();
        assert_eq!(
            counted.calls() - before,
            cost.evaluations,
            "{kind}: the reported cost equals the counted cost"
        );
        assert!(cost.evaluations < 1_000, "{kind}: {} of 3,000", cost.evaluations);
    }
}

fn assert_rejects_queries(kind: Kind, index: &Erased) {
    let one = Point::Vector(vec![1.0]);
    assert_eq!(index.within(&one, -1.0).unwrap_err(), Error::Radius { radius: -1.0 });
    assert!(matches!(index.within(&one, f32::NAN), Err(Error::Radius { .. })));
    assert!(matches!(index.nearest_by_ranges(&one, 1, 0.0, 2.0), Err(Error::Radius { .. })));
    assert!(matches!(index.nearest_by_ranges(&one, 1, 1.0, 1.0), Err(Error::Radius { .. })));
    for bad in [vec![f32::NAN], vec![f32::INFINITY], vec![f32::NAN, 1.0]].map(Point::Vector) {
        assert!(matches!(index.nearest(&bad, 1), Err(Error::Query { .. })), "{kind}: {bad:?}");
        assert!(matches!(index.within(&bad, 5.0), Err(Error::Query { .. })), "{kind}: {bad:?}");
    }
    for bad in [vec![1.0, 2.0], vec![]].map(Point::Vector) {
        assert!(matches!(index.nearest(&bad, 1), Err(Error::NoDistance { .. })), "{kind}: {bad:?}");
        assert!(
            matches!(index.within(&bad, 5.0), Err(Error::NoDistance { .. })),
            "{kind}: {bad:?}"
        );
    }
}

#[test]
fn invalid_points_queries_and_parameters_are_rejected() {
    let euclidean = on::<[f32], _>(Euclidean);
    let refused = |kind: Kind, points: &All, metric: &AnyMetric| {
        kind.build(points.clone(), metric.clone()).err().unwrap()
    };
    for kind in Kind::all() {
        let error = refused(kind, &vectors(&[0.0, f32::NAN], 1), &euclidean);
        assert!(matches!(error, Error::NotItself { point: 1, .. }), "{kind}: {error}");
        let points = (0..100u8).map(f32::from).collect::<Vec<f32>>();
        assert_rejects_queries(kind, &built(kind, &vectors(&points, 1), &euclidean));
    }
    let clusters = Kind::ListOfClusters(ClusterSize::Points(1));
    let error = refused(clusters, &vectors(&[f32::MAX, f32::MIN], 1), &euclidean);
    assert!(matches!(error, Error::NoDistance { .. }), "{error}");
    let mixed = [vec![1.0], vec![1.0, 2.0]].map(Point::Vector).into_iter().collect();
    let error = refused(Kind::KdTree, &mixed, &euclidean);
    assert_eq!(error, Error::Shape { values: 2, dimension: 1 });
    for metric in [on::<[f32], _>(Angular), on::<[f32], _>(Hamming)] {
        let error = refused(Kind::KdTree, &vectors(&[1.0, 2.0], 1), &metric);
        assert_eq!(error, Error::NoCoordinates);
    }
    for share in [-0.1, 1.1, f32::NAN] {
        for kind in [Kind::SssIndex(Pivots::Spread(share)), Kind::SssTree(share)] {
            let error = refused(kind, &vectors(&[0.0], 1), &euclidean);
            assert!(matches!(error, Error::Share { .. }), "{error}");
        }
    }
    let error = refused(Kind::BruteForce, &vectors(&[0.0, 0.0], 2), &on::<[f32], _>(Angular));
    assert!(matches!(error, Error::NotItself { .. }), "{error}");
}

#[test]
fn unsorted_sets_are_rejected() {
    let jaccard = on::<[u32], _>(Jaccard);
    let sets: All = [vec![1, 2, 3], vec![2, 5], vec![]].map(Point::Set).into_iter().collect();
    for kind in Kind::of_any_metric() {
        let index = built(kind, &sets, &jaccard);
        for bad in [vec![3, 1, 2], vec![2, 2]].map(Point::Set) {
            assert!(matches!(index.nearest(&bad, 1), Err(Error::Query { .. })), "{kind}: {bad:?}");
            let points: All = [Point::Set(vec![1]), bad.clone()].into_iter().collect();
            let error = kind.build(points, jaccard.clone()).err().unwrap();
            assert!(matches!(error, Error::NotItself { point: 1, .. }), "{kind}: {error}");
        }
    }
}

/// Uses different numbers of threads, including more threads than queries. One query fails.
#[test]
fn many_queries_on_any_number_of_threads() {
    let points = vectors(&(0..300u16).map(|x| f32::from(x % 97)).collect::<Vec<f32>>(), 1);
    let index = built(Kind::VpTree, &points, &on::<[f32], _>(Euclidean));
    let queries = vectors(&[3.2, f32::NAN, 96.5, 0.0, 50.0], 1);
    let each = |ask: &dyn Fn(&Point) -> Result<Vec<Neighbor>, Error>| -> Vec<String> {
        (0..5).map(|query| format!("{:?}", ask(queries.point(query)))).collect()
    };
    let shown = |answers: NeighborLists| -> Vec<String> {
        answers.iter().map(|answer| format!("{answer:?}")).collect()
    };
    for threads in [1, 2, 5, 40].map(|threads| NonZero::new(threads).unwrap()) {
        let expected = each(&|query| index.nearest(query, 4));
        assert_eq!(shown(index.nearest_many(&queries, 4, threads)), expected);
        let expected = each(&|query| index.within(query, 1.5));
        assert_eq!(shown(index.within_many(&queries, 1.5, threads)), expected);
        assert!(index.nearest_many(&vectors(&[], 1), 4, threads).is_empty());
        let answers = index.within_many(&queries, -1.0, threads);
        assert!(answers.iter().all(|answer| matches!(answer, Err(Error::Radius { .. }))));
    }
    let is_nan = |answer: Result<_, Error>| matches!(answer, Err(Error::Query { .. }));
    let answers = index.nearest_many(&queries, 4, NonZero::<usize>::MIN);
    assert_eq!(answers.iter().map(is_nan).collect::<Vec<_>>(), [false, true, false, false, false]);
}

/// A distance defined by a closure, with the relative error that it claims.
struct ClaimedMetric<F>(F, f32);

impl<F: Fn(&[f32], &[f32]) -> f32 + Sync> Metric<[f32]> for ClaimedMetric<F> {
    fn distance(&self, a: &[f32], b: &[f32]) -> f32 {
        (self.0)(a, b)
    }

    fn relative_error(&self) -> f32 {
        self.1
    }
}

/// A metric whose `distance_within` excludes the boundary of balls.
struct ContradictoryMetric;
impl Metric<[f32]> for ContradictoryMetric {
    fn distance(&self, a: &[f32], b: &[f32]) -> f32 {
        Euclidean.distance(a, b)
    }

    fn relative_error(&self) -> f32 {
        f32::EPSILON
    }

    fn distance_within(&self, a: &[f32], b: &[f32], radius: f32) -> Option<f32> {
        let distance = Euclidean.distance(a, b);
        (distance < radius).then_some(distance)
    }
}

#[test]
fn check_distinguishes_metrics_from_other_distances() {
    let mut random = Random::new(3);
    let mut next = || random.unit_f32() + 0.01;
    let points: Vectors<f32> = (0..500).map(|_| [next(), next(), next()]).collect();
    for metric in [
        &Euclidean as &dyn Metric<[f32]>,
        &Manhattan,
        &Chebyshev,
        &Angular,
        &Hamming,
        &Minkowski::new(1.5).unwrap(),
    ] {
        assert_eq!(check(&points, metric, 64, 0), Ok(()), "{:?}", metric.name());
    }
    let words: Strings = (0..200).map(|number| format!("{number:b}")).collect();
    assert_eq!(check(&words, &Edit, 64, 0), Ok(()));
    let none = Vectors::<f32>::new(vec![], 3).unwrap();
    let one = Vectors::from(vec![[1.0f32, 2.0, 3.0]]);
    assert_eq!(check(&none, &Euclidean, 64, 0), Ok(()));
    assert_eq!(check(&one, &Euclidean, 64, 0), Ok(()));

    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    let cosine = |a: &[f32], b: &[f32]| {
        if a == b { 0.0 } else { (1.0 - dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()).max(0.0) }
    };
    let error = check(&points, &ClaimedMetric(cosine, 1e-6), 64, 0).unwrap_err();
    assert!(matches!(error, Error::Triangle { .. }), "{error}");
    let squared =
        |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f32>();
    let error = check(&points, &ClaimedMetric(squared, 1e-6), 64, 0).unwrap_err();
    assert!(matches!(error, Error::Triangle { .. }), "{error}");
    assert!(error.to_string().contains("not a metric"), "{error}");
    let one_way =
        |a: &[f32], b: &[f32]| if a[0] < b[0] { 1.0 } else { 2.0 * f32::from(u8::from(a != b)) };
    let error = check(&points, &ClaimedMetric(one_way, 0.0), 64, 0).unwrap_err();
    assert!(matches!(error, Error::Asymmetric { .. }), "{error}");
    // Sums of rounded differences, which claim to be exact.
    let exact = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).sum::<f32>();
    let line: Vectors<f32> =
        (0..100u8).map(|x| [f32::from(x) / 10.0, f32::from(x) / 7.0]).collect();
    let error = check(&line, &ClaimedMetric(exact, 0.0), 64, 0).unwrap_err();
    assert!(matches!(error, Error::Triangle { .. }), "{error}");
    assert_eq!(check(&line, &ClaimedMetric(exact, 1e-5), 64, 0), Ok(()));
    let never_zero = |a: &[f32], b: &[f32]| if a == b { 0.5 } else { 1.0 };
    let error = check(&points, &ClaimedMetric(never_zero, 0.0), 64, 0).unwrap_err();
    assert!(matches!(error, Error::NotItself { .. }), "{error}");
    let refused =
        advise(&points, &ClaimedMetric(squared, 1e-6), Question::Nearest(3), 400, 0).unwrap_err();
    assert!(matches!(refused, Error::Triangle { .. }), "{refused}");
    let error = check(&points, &ContradictoryMetric, 64, 0).unwrap_err();
    assert!(matches!(error, Error::Contradiction { .. }), "{error}");
}
