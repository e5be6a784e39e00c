//! The axioms of every metric, and every index against brute force, bit for bit.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fmt::Debug;

use metric_index::collector::{Collector, Nearest, Within};
use metric_index::error::Error;
use metric_index::index::{
    BruteForce, ClusterSize, Dynamic, Egnat, EgnatOptions, Index, KdTree, ListOfClusters, MTree,
    Pivots, Search, SssIndex, SssTree, VpTree, search,
};
use metric_index::metric::{
    Angular, Chebyshev, Coordinates, Counted, Edit, Euclidean, Hamming, Jaccard, Manhattan, Metric,
    Minkowski,
};
use metric_index::neighbor::Neighbor;
use metric_index::points::{Growing, Items, Points, Sets, Strings, Vectors};
use proptest::prelude::*;

/// Small integers in the plane: distances that tie. `/ 10`: distances that are rounded.
fn vector() -> impl Strategy<Value = Vec<f32>> {
    let whole = (-4i8..4).prop_map(f32::from);
    prop::collection::vec(prop_oneof![whole.clone(), whole.prop_map(|x| x / 10.0)], 3)
}

fn axioms<P: ?Sized>(metric: &impl Metric<P>, [a, b, c]: [&P; 3]) -> Result<(), TestCaseError> {
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

/// The definition of edit distance, by recursion.
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

/// The table of Wagner and Fischer.
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

/// Each distance once, and between and beside them: radii on the boundary.
fn radii(all: &[Neighbor]) -> Vec<f32> {
    let mut radii = vec![0.0, f32::MAX, f32::INFINITY];
    for neighbor in all.iter().step_by(all.len() / 5 + 1) {
        let distance = neighbor.distance;
        radii.extend([distance, distance.next_up()]);
        radii.extend((distance > 0.0).then(|| distance.next_down()));
    }
    radii
}

/// Every kind of query, and a search that stops after each distance.
fn agrees<I: Index>(
    index: &I,
    oracle: &impl Index<Points = I::Points, Metric = I::Metric>,
    queries: &[&<I::Points as Points>::Point],
) where
    <I::Points as Points>::Point: Debug,
{
    let count = oracle.points().len();
    for query in queries {
        let all = oracle.nearest(query, usize::MAX).unwrap();
        assert_eq!(all.len(), count);
        assert!(all.is_sorted());
        for k in [0, 1, 2, 7, count.saturating_sub(1), count, usize::MAX] {
            let expected = &all[..k.min(count)];
            assert_eq!(index.nearest(query, k).unwrap(), expected, "k = {k} of {query:?}");
            let grown = index.nearest_by_ranges(query, k, 0.3, 1.7).unwrap();
            assert_eq!(grown, expected, "k = {k} of {query:?}, by ranges");
        }
        for radius in radii(&all) {
            let inside = all.iter().take_while(|neighbor| neighbor.distance <= radius).count();
            let found = index.within(query, radius).unwrap();
            assert_eq!(found, &all[..inside], "radius {radius} of {query:?}");
        }
        let mut stopping = Search::start(index, query, Own(Nearest::new(3))).unwrap();
        let mut stops = 0;
        while !stopping.work(1).unwrap() {
            stops += 1;
        }
        let (found, cost) = stopping.into_parts();
        assert_eq!(found.0.into_sorted(), &all[..3.min(count)]);
        assert!(stops <= cost.evaluations, "{stops} stops, {cost:?}");
        // Pivots and routing objects may be measured beside every point.
        assert!(cost.evaluations <= 3 * count as u64 + 1, "{cost:?} for {count} points");
    }
}

/// A collector that is somebody else's.
struct Own(Nearest);

impl Collector for Own {
    fn radius(&self) -> f32 {
        self.0.radius()
    }

    fn offer(&mut self, candidate: Neighbor) {
        self.0.offer(candidate);
    }
}

/// Every index that takes any metric.
fn all_agree<S: Points + Clone, M: Metric<S::Point> + Clone>(
    points: &S,
    metric: &M,
    queries: &[&S::Point],
) where
    S::Point: Debug,
{
    let (p, m) = (|| points.clone(), || metric.clone());
    let oracle = BruteForce::new(p(), m()).unwrap();
    agrees(&oracle, &oracle, queries);
    for size in [ClusterSize::Points(0), ClusterSize::Points(4), ClusterSize::Points(1_000)] {
        agrees(&ListOfClusters::build(p(), m(), size).unwrap(), &oracle, queries);
    }
    for radius in [0.0, 1.0, 1e30] {
        let size = ClusterSize::Radius(radius);
        agrees(&ListOfClusters::build(p(), m(), size).unwrap(), &oracle, queries);
    }
    for pivots in [Pivots::Spread(0.4), Pivots::Spread(0.0), Pivots::Count(0), Pivots::Count(3)] {
        agrees(&SssIndex::build(p(), m(), pivots).unwrap(), &oracle, queries);
    }
    for share in [0.0, 0.4, 1.0] {
        agrees(&SssTree::build(p(), m(), share).unwrap(), &oracle, queries);
    }
    agrees(&VpTree::build(p(), m()).unwrap(), &oracle, queries);
    for options in EGNATS {
        agrees(&Egnat::build(p(), m(), options).unwrap(), &oracle, queries);
    }
    for page in [4, 5, 32] {
        agrees(&MTree::build(p(), m(), page).unwrap(), &oracle, queries);
    }
}

const EGNATS: [EgnatOptions; 4] = [
    EgnatOptions { arity: 2, bucket: 1 },
    EgnatOptions { arity: 3, bucket: 2 },
    EgnatOptions { arity: 5, bucket: 7 },
    EgnatOptions { arity: 32, bucket: 20 },
];

/// What is asked of an index that grows and shrinks: a point to add (one of these) or to remove.
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

/// An index that changes, against a list of its points.
fn follows<I: Dynamic>(
    index: &mut I,
    of: &I::Points,
    changes: &[Change],
    queries: &[&<I::Points as Points>::Point],
) where
    I::Points: Clone,
    <I::Points as Points>::Point: Debug,
{
    let mut alive: Vec<u32> = (0..u32::try_from(index.points().len()).unwrap()).collect();
    for (step, change) in changes.iter().enumerate() {
        match change {
            Change::Insert(which) if !of.is_empty() => {
                let point = of.point(u32::try_from(which.index(of.len())).unwrap());
                let number = u32::try_from(index.points().len()).unwrap();
                assert_eq!(index.insert(point).unwrap(), number);
                alive.push(number);
            }
            Change::Remove(which) if !alive.is_empty() => {
                let point = alive.remove(which.index(alive.len()));
                assert!(index.remove(point).unwrap());
                assert!(!index.remove(point).unwrap(), "removed twice");
            }
            _ => assert!(!index.remove(u32::MAX).unwrap() && !index.remove(1 << 20).unwrap()),
        }
        assert_eq!((index.len(), index.is_empty()), (alive.len(), alive.is_empty()));
        if step % 20 != 19 && step + 1 != changes.len() {
            continue;
        }
        for query in queries {
            let distance = |point| index.metric().distance(query, index.points().point(point));
            let near = |&point: &u32| Neighbor { point, distance: distance(point) };
            let mut all: Vec<Neighbor> = alive.iter().map(near).collect();
            all.sort_unstable();
            for k in [1, 4, alive.len(), usize::MAX] {
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

fn all_follow<S: Growing + Clone, M: Metric<S::Point> + Clone>(
    before: &S,
    points: &S,
    metric: &M,
    changes: &[Change],
    queries: &[&S::Point],
) where
    S::Point: Debug,
{
    for options in EGNATS {
        let mut tree = Egnat::build(before.clone(), metric.clone(), options).unwrap();
        follows(&mut tree, points, changes, queries);
    }
    for page in [4, 9] {
        let mut tree = MTree::build(before.clone(), metric.clone(), page).unwrap();
        follows(&mut tree, points, changes, queries);
    }
}

fn vectors_agree<M: Coordinates + Clone>(points: &[Vec<f32>], metric: &M, queries: &[&[f32]]) {
    let points = Vectors::new(points.concat(), 3).unwrap();
    all_agree(&points, metric, queries);
    let oracle = BruteForce::new(points.clone(), metric.clone()).unwrap();
    agrees(&KdTree::build(points, metric.clone()).unwrap(), &oracle, queries);
}

proptest! {
    #[test]
    fn axioms_of_vectors(a in vector(), b in vector(), c in vector()) {
        let points = [&a[..], &b[..], &c[..]];
        axioms(&Euclidean, points)?;
        axioms(&Manhattan, points)?;
        axioms(&Chebyshev, points)?;
        axioms(&Hamming, points)?;
        for p in [1.0, 1.5, 3.0, 1e6] {
            axioms(&Minkowski::new(p).unwrap(), points)?;
        }
        prop_assert_eq!(Euclidean.distance(&a[..], &b[..]) == 0.0, a == b);
        if points.iter().all(|point| point.iter().any(|&x| x != 0.0)) {
            axioms(&Angular, points)?;
        }
    }

    #[test]
    fn axioms_of_bytes(a in prop::collection::vec(any::<u8>(), 20), b in prop::collection::vec(any::<u8>(), 20), c in prop::collection::vec(any::<u8>(), 20)) {
        let points = [&a[..], &b[..], &c[..]];
        axioms(&Euclidean, points)?;
        axioms(&Manhattan, points)?;
        axioms(&Chebyshev, points)?;
        axioms(&Hamming, points)?;
        axioms(&Minkowski::new(2.5).unwrap(), points)?;
        let floats = |v: &[u8]| v.iter().map(|&x| f32::from(x)).collect::<Vec<_>>();
        prop_assert_eq!(Euclidean.distance(&a[..], &b[..]).to_bits(), Euclidean.distance(&floats(&a)[..], &floats(&b)[..]).to_bits());
    }

    /// Lengths around the eight lanes, against the sum in order: only the last bits may differ.
    #[test]
    fn lanes(values in prop::collection::vec((-1e3f32..1e3, -1e3f32..1e3), 0..40)) {
        let (a, b): (Vec<f32>, Vec<f32>) = values.iter().copied().unzip();
        let differences = || values.iter().map(|&(a, b)| (f64::from(a) - f64::from(b)).abs());
        let close = |found: f32, expected: f64| (f64::from(found) - expected).abs() <= 1e-7 * expected;
        prop_assert!(close(Euclidean.distance(&a[..], &b[..]), differences().map(|d| d * d).sum::<f64>().sqrt()));
        prop_assert!(close(Manhattan.distance(&a[..], &b[..]), differences().sum()));
        prop_assert!(close(Chebyshev.distance(&a[..], &b[..]), differences().fold(0.0, f64::max)));
        let sevenths = differences().map(|d| d.powi(7)).sum::<f64>().powf(1.0 / 7.0);
        prop_assert!(close(Minkowski::new(7.0).unwrap().distance(&a[..], &b[..]), sevenths));
    }

    #[test]
    fn axioms_of_words(a in "[aé東]{0,6}", b in "[aé東]{0,6}", c in "[aé東]{0,6}") {
        axioms(&Edit, [&*a, &*b, &*c])?;
        prop_assert_eq!(Edit.distance(&a, &b) == 0.0, a == b);
    }

    #[test]
    fn axioms_of_sets(a in prop::collection::btree_set(0u32..12, 0..8), b in prop::collection::btree_set(0u32..12, 0..8), c in prop::collection::btree_set(0u32..12, 0..8)) {
        let sets = [&a, &b, &c].map(|set| set.iter().copied().collect::<Vec<u32>>());
        axioms(&Jaccard, [&sets[0][..], &sets[1], &sets[2]])?;
        let (common, all) = (a.intersection(&b).count(), a.union(&b).count());
        let expected = if all == 0 { 0.0 } else { 1.0 - common as f64 / all as f64 };
        prop_assert!((f64::from(Jaccard.distance(&sets[0], &sets[1])) - expected).abs() < 1e-7);
    }

    #[test]
    fn edit_definition(a in "[ab]{0,5}", b in "[ab]{0,5}") {
        let (x, y): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
        prop_assert_eq!(Edit.distance(&a, &b).to_bits(), (edit_by_definition(&x, &y) as f32).to_bits());
    }

    /// Lengths around the 64 bits of a word.
    #[test]
    fn edit_of_long_words(a in "[abé]{0,70}", b in "[abé]{60,70}", most in 0usize..80) {
        let expected = edit_by_table(&a, &b);
        prop_assert_eq!(Edit.distance(&a, &b).to_bits(), (expected as f32).to_bits());
        let within = Edit.distance_within(&b, &a, most as f32);
        prop_assert_eq!(within.is_some(), expected <= most);
        axioms(&Edit, [&a, &b, &a])?;
        let counted = Counted::new(Edit);
        let characters = a.chars().count();
        let prepared = counted.distances_from(&a);
        prop_assert_eq!(prepared.is_some(), (1..=64).contains(&characters));
        if let Some(prepared) = prepared {
            prop_assert_eq!(prepared.to(&b).to_bits(), (expected as f32).to_bits());
            prop_assert_eq!(prepared.to_within(&b, most as f32).is_some(), expected <= most);
            prop_assert_eq!(counted.calls(), 2);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn indexes_of_vectors(points in prop::collection::vec(vector(), 0..90), queries in prop::collection::vec(vector(), 2)) {
        let mut queries: Vec<&[f32]> = queries.iter().map(Vec::as_slice).collect();
        queries.extend(points.first().map(Vec::as_slice));
        vectors_agree(&points, &Euclidean, &queries);
        vectors_agree(&points, &Manhattan, &queries);
        vectors_agree(&points, &Chebyshev, &queries);
        vectors_agree(&points, &Minkowski::new(3.0).unwrap(), &queries);
        all_agree(&Vectors::new(points.concat(), 3).unwrap(), &Hamming, &queries);
    }

    #[test]
    fn indexes_of_directions(points in prop::collection::vec(vector(), 0..60), query in vector()) {
        let nonzero = |point: &Vec<f32>| point.iter().any(|&x| x != 0.0);
        let points: Vec<Vec<f32>> = points.into_iter().filter(nonzero).collect();
        prop_assume!(nonzero(&query));
        all_agree(&Items::<[f32], _>::new(points), &Angular, &[&query[..]]);
    }

    #[test]
    fn indexes_of_words(words in prop::collection::vec("[abc]{0,5}", 0..80), queries in prop::collection::vec("[abcd]{0,6}", 2)) {
        let queries: Vec<&str> = queries.iter().map(String::as_str).collect();
        all_agree(&words.iter().collect::<Strings>(), &Edit, &queries);
    }

    #[test]
    fn indexes_of_sets(sets in prop::collection::vec(prop::collection::btree_set(0u32..9, 0..6), 0..60), query in prop::collection::btree_set(0u32..9, 0..6)) {
        let sets = sets.iter().map(|set| set.iter().copied().collect::<Vec<u32>>());
        let query: Vec<u32> = query.into_iter().collect();
        all_agree(&Sets::new(sets).unwrap(), &Jaccard, &[&query[..]]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn changing_vectors(points in prop::collection::vec(vector(), 1..60), before in 0usize..60, changes in changes(), query in vector()) {
        let first = points[..before.min(points.len())].concat();
        let (first, points) = (Vectors::new(first, 3).unwrap(), Vectors::new(points.concat(), 3).unwrap());
        all_follow(&first, &points, &Euclidean, &changes, &[&query[..], points.point(0)]);
    }

    #[test]
    fn changing_words(words in prop::collection::vec("[ab]{0,5}", 1..60), before in 0usize..60, changes in changes(), query in "[abc]{0,6}") {
        let first: Strings = words.iter().take(before).collect();
        let words: Strings = words.iter().collect();
        all_follow(&first, &words, &Edit, &changes, &[&query[..]]);
    }
}

fn refuses_to_add<I: Dynamic<Points = Vectors<f32>>>(index: &mut I) {
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

/// What is refused is not half in.
#[test]
fn what_cannot_be_added_changes_nothing() {
    let points = || Vectors::new((0..200u8).map(|x| f32::from(x % 50)).collect(), 2).unwrap();
    let mut egnat = Egnat::build(points(), Euclidean, EGNATS[1]).unwrap();
    let mut pages = MTree::build(points(), Euclidean, 4).unwrap();
    refuses_to_add(&mut egnat);
    refuses_to_add(&mut pages);
    let none = |options| Egnat::build(points(), Euclidean, options).unwrap_err();
    for arity in [0, 1, 33] {
        assert!(matches!(none(EgnatOptions { arity, bucket: 4 }), Error::Option { .. }));
    }
    assert!(matches!(none(EgnatOptions { arity: 4, bucket: 0 }), Error::Option { .. }));
    assert!(matches!(MTree::build(points(), Euclidean, 3), Err(Error::Option { .. })));
    let mut sets = Sets::default();
    assert!(sets.push(&[3, 2]).is_err() && sets.is_empty());
    // The first point of a space of vectors fixes no dimension: its store does.
    let mut empty = MTree::build(Vectors::new(Vec::new(), 2).unwrap(), Euclidean, 4).unwrap();
    assert!(matches!(empty.insert(&[1.0]), Err(Error::Shape { .. })));
    assert!(empty.is_empty() && empty.insert(&[1.0, 2.0]).is_ok());
}

proptest! {
    /// Products of matrices against one query after the other: ties, equal points, sizes beside the blocks' and
    /// lanes'.
    #[test]
    fn batches(seed in any::<u64>(), dimension in 1usize..40, count in 0usize..1_200, scale in -38i32..19, k in 0usize..9) {
        let mut state = seed;
        let mut next = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            f32::from(u8::try_from((state >> 33) % below).unwrap()) - 3.0
        };
        let factor = 10f32.powi(scale);
        let points: Vec<f32> = (0..count * dimension).map(|_| next(9) * factor).collect();
        let queries: Vec<f32> = (0..7 * dimension).map(|_| next(9) * factor).collect();
        let (points, queries) = (Vectors::new(points, dimension).unwrap(), Vectors::new(queries, dimension).unwrap());
        let index = BruteForce::new(points, Euclidean).unwrap();
        let nearest = index.batch(&queries, |_| Nearest::new(k));
        let radius = 4.0 * factor;
        let within = index.batch(&queries, |query| Within::new(radius * f32::from(u8::try_from(query).unwrap()) / 4.0));
        for query in 0..7u8 {
            let (point, at) = (queries.point(u32::from(query)), usize::from(query));
            prop_assert_eq!(&nearest[at], &index.nearest(point, k));
            prop_assert_eq!(&within[at], &index.within(point, radius * f32::from(query) / 4.0));
        }
    }
}

/// Queries that are none, and numbers at the ends of their range.
#[test]
fn batches_of_odd_queries() {
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
        for (query, answer) in (0..).zip(answers) {
            let expected = index.nearest(queries.point(query), 1);
            // NaN is no equal of itself.
            assert_eq!(format!("{answer:?}"), format!("{expected:?}"), "query {query}");
        }
    }
    let none = BruteForce::new(Vectors::new(Vec::<f32>::new(), 2).unwrap(), Euclidean).unwrap();
    assert_eq!(
        none.batch(&Vectors::new(vec![1.0, 2.0], 2).unwrap(), |_| Nearest::new(1)),
        [Ok(vec![])]
    );
    let mixed = Items::<[f32], _>::new(vec![vec![1.0], vec![1.0, 2.0]]);
    let mixed = BruteForce::new(mixed, Euclidean).unwrap();
    assert!(mixed.batch(&Vectors::new(vec![1.0], 1).unwrap(), |_| Nearest::new(1))[0].is_err());
}

/// Points on a grid of tenths, on few lines: bounds that are not rounded outward lose ties here.
#[test]
fn rounding_loses_no_tie() {
    let mut state = 7u64;
    let mut next = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        f32::from(u8::try_from((state >> 33) % below).unwrap()) / 10.0
    };
    for _ in 0..1_500 {
        let points: Vec<f32> = (0..40).flat_map(|_| [next(60), next(2), next(2)]).collect();
        let points = Vectors::new(points, 3).unwrap();
        let oracle = BruteForce::new(&points, Euclidean).unwrap();
        let tree = VpTree::build(&points, Euclidean).unwrap();
        let clusters = ListOfClusters::build(&points, Euclidean, ClusterSize::Points(4)).unwrap();
        let table = SssIndex::build(&points, Euclidean, Pivots::Count(3)).unwrap();
        let boxes = KdTree::build(&points, Euclidean).unwrap();
        let (near, pages) = (EGNATS[2], 5);
        let planes = Egnat::build(&points, Euclidean, near).unwrap();
        let pages = MTree::build(&points, Euclidean, pages).unwrap();
        let query = [next(60), next(2), next(2)];
        let all = oracle.nearest(&query, usize::MAX).unwrap();
        for at in [0, 3, 11, 30] {
            let radius = all[at].distance;
            let inside = all.iter().take_while(|neighbor| neighbor.distance <= radius).count();
            assert_eq!(tree.within(&query, radius).unwrap(), &all[..inside]);
            assert_eq!(clusters.within(&query, radius).unwrap(), &all[..inside]);
            assert_eq!(table.within(&query, radius).unwrap(), &all[..inside]);
            assert_eq!(boxes.within(&query, radius).unwrap(), &all[..inside]);
            assert_eq!(planes.within(&query, radius).unwrap(), &all[..inside]);
            assert_eq!(pages.within(&query, radius).unwrap(), &all[..inside]);
            assert_eq!(tree.nearest(&query, at).unwrap(), &all[..at]);
        }
    }
}

/// A metric of the user's, on a type of the user's.
#[test]
fn an_own_metric() {
    #[derive(Debug, Clone, Copy, PartialEq)]
    struct Hour(u8);
    #[derive(Clone, Copy)]
    struct Clock;
    impl Metric<Hour> for Clock {
        fn distance(&self, a: &Hour, b: &Hour) -> f32 {
            let apart = a.0.abs_diff(b.0);
            f32::from(apart.min(24 - apart))
        }

        fn relative_error(&self) -> f32 {
            0.0
        }
    }
    let hours: Vec<Hour> = (0..96).map(|i| Hour(i % 48 * 5 % 24)).collect();
    all_agree(&Items::<Hour, Hour>::new(hours), &Clock, &[&Hour(0), &Hour(13), &Hour(23)]);
}

/// The same point many times costs no more than other points.
#[test]
fn equal_points() {
    let points = Vectors::new(vec![1.5f32; 60_000], 2).unwrap();
    let counted = Counted::new(Euclidean);
    let tree = SssTree::build(&points, &counted, 0.4).unwrap();
    let table = SssIndex::build(&points, &counted, Pivots::Spread(0.4)).unwrap();
    assert_eq!(table.pivots(), [0]);
    assert!(counted.calls() < 600_000, "{}", counted.calls());
    let before = counted.calls();
    let options = EgnatOptions { arity: 4, bucket: 10 };
    let mut planes =
        Egnat::build(Vectors::new(vec![1.5f32; 60_000], 2).unwrap(), &counted, options).unwrap();
    planes.insert(&[1.5, 0.5]).unwrap();
    let mut pages = MTree::build(Vectors::new(Vec::new(), 2).unwrap(), &counted, 8).unwrap();
    for _ in 0..30_000 {
        planes.insert(&[1.5, 1.5]).unwrap();
        pages.insert(&[1.5, 1.5]).unwrap();
    }
    assert!(counted.calls() - before < 4_000_000, "{}", counted.calls() - before);
    for query in [[1.5, 1.5], [0.0, 1.5]] {
        let expected = BruteForce::new(&points, &counted).unwrap().nearest(&query, 3).unwrap();
        assert_eq!(pages.nearest(&query, 3).unwrap(), expected);
        assert_eq!(planes.nearest(&query, 30_000).unwrap().len(), 30_000);
    }
    for query in [[1.5, 1.5], [0.0, 1.5]] {
        let expected = BruteForce::new(&points, &counted).unwrap().nearest(&query, 3).unwrap();
        assert_eq!(tree.nearest(&query, 3).unwrap(), expected);
        assert_eq!(table.nearest(&query, 3).unwrap(), expected);
    }
}

#[test]
fn indexes_save_distances() {
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        f32::from(u16::try_from(state >> 48).unwrap()) / 65_536.0
    };
    let points = Vectors::new((0..6_000).map(|_| next()).collect(), 2).unwrap();
    let counted = Counted::new(Euclidean);
    let tree = VpTree::build(&points, &counted).unwrap();
    let clusters = ListOfClusters::build(&points, &counted, ClusterSize::Points(32)).unwrap();
    let table = SssIndex::build(&points, &counted, Pivots::Spread(0.4)).unwrap();
    let sss_tree = SssTree::build(&points, &counted, 0.4).unwrap();
    let boxes = KdTree::build(&points, &counted).unwrap();
    let planes = Egnat::build(&points, &counted, EgnatOptions::default()).unwrap();
    let pages = MTree::build(&points, &counted, 32).unwrap();
    let query = [0.3, 0.7];
    let cost =
        |found: Result<(Within, metric_index::index::Cost), Error>| found.unwrap().1.evaluations;
    let before = counted.calls();
    let evaluations = [
        cost(search(&tree, &query[..], Within::new(0.02))),
        cost(search(&clusters, &query[..], Within::new(0.02))),
        cost(search(&table, &query[..], Within::new(0.02))),
        cost(search(&sss_tree, &query[..], Within::new(0.02))),
        cost(search(&boxes, &query[..], Within::new(0.02))),
        cost(search(&planes, &query[..], Within::new(0.02))),
        cost(search(&pages, &query[..], Within::new(0.02))),
    ];
    assert_eq!(
        counted.calls() - before,
        evaluations.iter().sum::<u64>(),
        "what is told is what was done"
    );
    assert!(evaluations.iter().all(|&evaluations| evaluations < 1_000), "{evaluations:?} of 3,000");
}

fn refuses_bad_queries<I: Index<Points = Vectors<f32>>>(index: &I) {
    assert_eq!(index.within(&[1.0], -1.0).unwrap_err(), Error::Radius { radius: -1.0 });
    assert!(matches!(index.within(&[1.0], f32::NAN), Err(Error::Radius { .. })));
    assert!(matches!(index.nearest_by_ranges(&[1.0], 1, 0.0, 2.0), Err(Error::Radius { .. })));
    assert!(matches!(index.nearest_by_ranges(&[1.0], 1, 1.0, 1.0), Err(Error::Radius { .. })));
    for bad in [&[f32::NAN][..], &[f32::INFINITY], &[f32::NAN, 1.0]] {
        assert!(matches!(index.nearest(bad, 1), Err(Error::Query { .. })), "{bad:?}");
        assert!(matches!(index.within(bad, 5.0), Err(Error::Query { .. })), "{bad:?}");
    }
    for bad in [&[1.0, 2.0][..], &[]] {
        assert!(matches!(index.nearest(bad, 1), Err(Error::NoDistance { .. })), "{bad:?}");
        assert!(matches!(index.within(bad, 5.0), Err(Error::NoDistance { .. })), "{bad:?}");
    }
}

#[test]
fn refused_at_the_door() {
    let nan = || Vectors::new(vec![0.0, f32::NAN], 1).unwrap();
    let refused = |error: Error| matches!(error, Error::NotItself { point: 1, .. });
    assert!(refused(BruteForce::new(nan(), Euclidean).unwrap_err()));
    assert!(refused(ListOfClusters::build(nan(), Euclidean, ClusterSize::Points(1)).unwrap_err()));
    assert!(refused(SssIndex::build(nan(), Euclidean, Pivots::Count(1)).unwrap_err()));
    assert!(refused(SssTree::build(nan(), Euclidean, 0.4).unwrap_err()));
    assert!(refused(VpTree::build(nan(), Euclidean).unwrap_err()));
    assert!(refused(KdTree::build(nan(), Euclidean).unwrap_err()));
    assert!(refused(Egnat::build(nan(), Euclidean, EGNATS[0]).unwrap_err()));
    assert!(refused(MTree::build(nan(), Euclidean, 4).unwrap_err()));
    let infinite = Vectors::new(vec![f32::MAX, f32::MIN], 1).unwrap();
    let too_far = ListOfClusters::build(infinite, Euclidean, ClusterSize::Points(1)).unwrap_err();
    assert!(matches!(too_far, Error::NoDistance { .. }), "{too_far}");
    let mixed = Items::<[f32], _>::new(vec![vec![1.0], vec![1.0, 2.0]]);
    assert_eq!(
        KdTree::build(mixed, Euclidean).unwrap_err(),
        Error::Shape { values: 2, dimension: 1 }
    );
    let one = || Vectors::new(vec![0.0f32], 1).unwrap();
    for share in [-0.1, 1.1, f32::NAN] {
        let refused = SssIndex::build(one(), Euclidean, Pivots::Spread(share)).unwrap_err();
        assert!(matches!(refused, Error::Share { .. }), "{refused}");
        assert!(matches!(SssTree::build(one(), Euclidean, share), Err(Error::Share { .. })));
    }
    let zero = Vectors::new(vec![0.0f32, 0.0], 2).unwrap();
    assert!(matches!(BruteForce::new(zero, Angular).unwrap_err(), Error::NotItself { .. }));

    let points = Vectors::new((0..100u8).map(f32::from).collect(), 1).unwrap();
    refuses_bad_queries(&BruteForce::new(points.clone(), Euclidean).unwrap());
    refuses_bad_queries(
        &ListOfClusters::build(points.clone(), Euclidean, ClusterSize::Points(7)).unwrap(),
    );
    refuses_bad_queries(&SssIndex::build(points.clone(), Euclidean, Pivots::Spread(0.4)).unwrap());
    refuses_bad_queries(&SssTree::build(points.clone(), Euclidean, 0.4).unwrap());
    refuses_bad_queries(&VpTree::build(points.clone(), Euclidean).unwrap());
    refuses_bad_queries(&Egnat::build(points.clone(), Euclidean, EGNATS[0]).unwrap());
    refuses_bad_queries(&MTree::build(points.clone(), Euclidean, 4).unwrap());
    refuses_bad_queries(&KdTree::build(points, Euclidean).unwrap());
}
