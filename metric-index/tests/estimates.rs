//! Compares estimates with known or counted values.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use metric_index::error::Error;
use metric_index::estimate::{intrinsic_dimension, radius_for_share};
use metric_index::generate::Random;
use metric_index::index::{BruteForce, Index, Kind};
use metric_index::metric::{Edit, Euclidean, Hamming};
use metric_index::points::{Points, Strings, Subset, Vectors};
use metric_index::{Question, advise};

fn plane(count: usize, dimension: usize) -> Vectors<f32> {
    let mut random = Random::new(1);
    Vectors::new((0..count * dimension).map(|_| random.unit_f32()).collect(), dimension).unwrap()
}

#[test]
fn intrinsic_dimensions_match_known_values() {
    // On a line, distances have the mean 1/3 and the variance 1/18. In a cube of d dimensions, the
    // intrinsic dimension is about 1.4 d.
    let dimension_of =
        |dimension| intrinsic_dimension(&plane(2_000, dimension), &Euclidean, 50_000, 7).unwrap();
    assert!((dimension_of(1) - 1.0).abs() < 0.03, "{}", dimension_of(1));
    let three = dimension_of(3);
    let twenty = dimension_of(20);
    assert!((3.0..5.0).contains(&three) && (24.0..32.0).contains(&twenty), "{three} {twenty}");
    assert_eq!(dimension_of(3).to_bits(), dimension_of(3).to_bits(), "the same seed");
    // All distances are 1.
    let corners = Vectors::new(vec![1.0f32, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0], 3).unwrap();
    assert!(intrinsic_dimension(&corners, &Hamming, 100, 0).unwrap().is_infinite());
}

#[test]
fn radii_contain_the_share_of_points() {
    let points = plane(500, 4);
    for share in [0.0, 0.0001, 0.01, 0.3, 1.0] {
        let radius = radius_for_share(&points, &Euclidean, share, 500, 0).unwrap();
        let index = BruteForce::new(&points, Euclidean).unwrap();
        // With all points as queries, the radius contains at least the share of the points, and any
        // smaller radius contains less.
        let found = |radius| -> usize {
            (0..500).map(|query| index.within(points.point(query), radius).unwrap().len() - 1).sum()
        };
        let rank = (f64::from(share) * 499.0 * 500.0).round().max(1.0);
        assert!(found(radius) as f64 >= rank, "{share}: {}", found(radius));
        if radius > 0.0 {
            assert!((found(radius.next_down()) as f64) < rank, "{share}");
        }
    }
}

#[test]
fn invalid_parameters_are_rejected() {
    let none = plane(0, 2);
    let one = plane(1, 2);
    for few in [&none, &one] {
        assert!(matches!(intrinsic_dimension(few, &Euclidean, 9, 0), Err(Error::TooFew { .. })));
        let radius = radius_for_share(few, &Euclidean, 0.5, 9, 0);
        assert!(matches!(radius, Err(Error::TooFew { .. })));
    }
    let some = plane(9, 2);
    assert!(matches!(intrinsic_dimension(&some, &Euclidean, 1, 0), Err(Error::Option { .. })));
    let share = |share| radius_for_share(&some, &Euclidean, share, 9, 0);
    assert!(matches!(share(f32::NAN), Err(Error::Share { .. })));
    assert!(matches!(share(1.1), Err(Error::Share { .. })));
    assert!(radius_for_share(&some, &Euclidean, 0.5, 0, 0).is_err());
    let nan = Vectors::new(vec![f32::NAN; 4], 2).unwrap();
    assert!(intrinsic_dimension(&nan, &Euclidean, 9, 0).is_err());
    let question = Question::Within(-1.0);
    assert!(matches!(advise(&some, &Euclidean, question, 9, 0), Err(Error::Radius { .. })));
    let few = advise(&some, &Euclidean, Question::Nearest(1), 9, 0).unwrap_err();
    assert_eq!(few, Error::TooFew { count: 9, expected: 100 });
}

#[test]
fn advice_ranks_all_kinds() {
    let points = plane(3_000, 2);
    let advice = advise(&points, &Euclidean, Question::Within(0.01), 3_000, 0).unwrap();
    assert_eq!(advice.sample, 2_970);
    assert!(advice.candidates.is_sorted_by_key(|candidate| candidate.query));
    let candidate_of =
        |index| advice.candidates.iter().find(|candidate| candidate.index == index).unwrap();
    let all = candidate_of(Kind::BruteForce);
    assert!((all.evaluations - 2_971.0).abs() < 1e-9, "{all:?}");
    assert_eq!(all.build_evaluations, 2_970);
    assert!(candidate_of(Kind::KdTree).evaluations < 100.0);
    let words: Strings = (0..400).map(|number| format!("{number:b}")).collect();
    let advice = advise(&words, &Edit, Question::Nearest(3), 200, 0).unwrap();
    assert!(advice.candidates.iter().all(|candidate| candidate.index != Kind::KdTree));
    assert_eq!((advice.sample, advice.candidates.len()), (198, 13));
}

#[test]
fn subsets_of_a_round_robin_distribution() {
    let words: Strings = (0..10).map(|number| number.to_string()).collect();
    assert_eq!(Subset::every(&words, 1, 3).numbers(), [1, 4, 7]);
    assert_eq!(Subset::every(&words, 12, 3).len(), 0);
}
