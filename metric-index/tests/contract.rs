//! The axioms of every metric, and queries against their definition.

use metric_index::error::Error;
use metric_index::index::BruteForce;
use metric_index::metric::{Edit, Euclidean, Metric};
use proptest::prelude::*;

/// Small integers on a line and in the plane: distances that tie.
fn vector() -> impl Strategy<Value = Vec<f32>> {
    prop::collection::vec((-4i8..4).prop_map(f32::from), 2)
}

fn axioms<P: ?Sized>(metric: &impl Metric<P>, a: &P, b: &P, c: &P) -> Result<(), TestCaseError> {
    let d = |x, y| metric.distance(x, y);
    prop_assert_eq!(d(a, a).to_bits(), 0f32.to_bits());
    prop_assert!(d(a, b) >= 0.0);
    prop_assert_eq!(d(a, b).to_bits(), d(b, a).to_bits());
    let slack = 1.0 + 4.0 * metric.relative_error();
    prop_assert!(d(a, c) <= (d(a, b) + d(b, c)) * slack);
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

proptest! {
    #[test]
    fn euclidean_axioms(a in vector(), b in vector(), c in vector()) {
        axioms::<[f32]>(&Euclidean, &a, &b, &c)?;
        prop_assert_eq!(Euclidean.distance(&a, &b) == 0.0, a == b);
    }

    #[test]
    fn edit_axioms(a in "[aé東]{0,6}", b in "[aé東]{0,6}", c in "[aé東]{0,6}") {
        axioms::<str>(&Edit, &a, &b, &c)?;
        prop_assert_eq!(Edit.distance(&a, &b) == 0.0, a == b);
    }

    #[test]
    fn edit_definition(a in "[ab]{0,5}", b in "[ab]{0,5}") {
        let (x, y): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
        prop_assert_eq!(Edit.distance(&a, &b).to_bits(), (edit_by_definition(&x, &y) as f32).to_bits());
    }

    #[test]
    fn nearest_and_within_agree(points in prop::collection::vec(vector(), 0..30), query in vector(), k in 0usize..40, radius in 0u8..6) {
        let radius = f32::from(radius);
        let index = BruteForce::<[f32], _, _>::new(&points, Euclidean).unwrap();
        let all = index.nearest(&query, usize::MAX).unwrap();
        prop_assert_eq!(all.len(), points.len());
        prop_assert!(all.is_sorted());
        prop_assert_eq!(&index.nearest(&query, k).unwrap()[..], &all[..k.min(all.len())]);
        let inside = all.iter().take_while(|neighbor| neighbor.distance <= radius).count();
        prop_assert_eq!(&index.within(&query, radius).unwrap()[..], &all[..inside]);
    }
}

#[test]
fn refused_at_the_door() {
    let nan = vec![vec![0.0], vec![f32::NAN]];
    let refused = BruteForce::<[f32], _, _>::new(&nan, Euclidean).unwrap_err();
    assert_eq!(refused, Error::NotFinite { point: 1 });
    let index = BruteForce::<[f32], _, _>::new([[0.0f32]], Euclidean).unwrap();
    assert_eq!(index.within(&[1.0], -1.0).unwrap_err(), Error::Radius { radius: -1.0 });
    assert!(matches!(index.nearest(&[f32::NAN], 1), Err(Error::NoDistance { point: 0, .. })));
}
