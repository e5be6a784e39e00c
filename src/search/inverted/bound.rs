//! How far an accumulator can be from its similarity. The proof is in [`super`].

use crate::matrix::{CsrView, row};

/// The properties of the training weights that bound the products.
#[derive(Debug)]
pub(super) struct Range {
    /// The largest Euclidean length of a row.
    length: f64,
    /// The smallest nonzero absolute weight of each term; infinite if there is none.
    least: Vec<f32>,
    negative: bool,
    /// The largest number of entries of a row.
    longest_row: usize,
}

impl Range {
    pub(super) fn of(training: &CsrView<'_>) -> Self {
        let least = vec![f32::INFINITY; training.cols()];
        let mut range = Self { length: 0.0, least, negative: false, longest_row: 0 };
        for index in 0..training.rows() {
            let (terms, weights) = row(training, index);
            let mut squares = 0.0;
            for (&term, &weight) in terms.iter().zip(weights) {
                squares += f64::from(weight) * f64::from(weight);
                let least = &mut range.least[term as usize];
                if weight != 0.0 && weight.abs() < *least {
                    *least = weight.abs();
                }
                range.negative |= weight < 0.0;
            }
            range.length = range.length.max(squares.sqrt());
            range.longest_row = range.longest_row.max(terms.len());
        }
        range
    }
}

/// How far an accumulator can be from the similarity.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bound {
    /// Largest |accumulator − similarity|, apart from products below the normal range.
    absolute: f64,
    /// Largest |accumulator − similarity| / similarity, apart from products below the normal range;
    /// `None` if weights may be negative.
    relative: Option<f64>,
    /// What products below the normal range of `f32` add to either bound; 0 if there are none.
    underflow: f64,
}

impl Bound {
    /// The bound for a query; `None` if sums may leave the range of `f32` or have too many terms.
    pub(super) fn new(range: &Range, (terms, weights): (&[u32], &[f32])) -> Option<Self> {
        const UNIT_ROUNDOFF: f64 = 1.0 / 16_777_216.0;
        const SMALLEST_SUBNORMAL: f64 = 1.401_298_464_324_817e-45;
        let (mut squares, mut least, mut negative) = (0.0, f64::INFINITY, range.negative);
        for (&term, &weight) in terms.iter().zip(weights) {
            let size = f64::from(weight.abs());
            squares += size * size;
            if weight != 0.0 {
                least = least.min(size * f64::from(range.least[term as usize]));
            }
            negative |= weight < 0.0;
        }
        let largest = squares.sqrt() * range.length;
        // One rounding for a product, one for each addition, and two more for the similarity.
        let count = (weights.len().min(range.longest_row) + 4) as f64;
        let roundings = count * UNIT_ROUNDOFF;
        if largest > 1e37 || roundings > 0.01 {
            return None;
        }
        let gamma = roundings / (1.0 - roundings);
        let underflow = if least < 1e-37 { count * SMALLEST_SUBNORMAL } else { 0.0 };
        Some(Self { absolute: gamma * largest, relative: (!negative).then_some(gamma), underflow })
    }

    /// The smallest accumulator that a row in the result can have, rounded down.
    pub(super) fn cut(&self, threshold: f32) -> f32 {
        let threshold = f64::from(threshold);
        let mut cut = threshold - 2.0 * self.absolute;
        if let Some(relative) = self.relative {
            cut = cut.max(threshold * (1.0 - 2.5 * relative));
        }
        cut -= 2.5 * self.underflow;
        #[expect(clippy::cast_possible_truncation, reason = "made smaller right after")]
        let narrow = cut as f32;
        narrow - narrow.abs() * f32::EPSILON
    }

    /// Whether every row in the result has an accumulator in the normal range, so that all are
    /// collected. Products of one sign in the normal range do not cancel; in other cases the
    /// threshold must exceed the error.
    pub(super) fn holds(&self, threshold: f32) -> bool {
        (self.relative.is_some() && self.underflow <= 0.0)
            || self.cut(threshold) >= f32::MIN_POSITIVE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::{Csr, CsrBuilder};

    const UNIT_ROUNDOFF: f64 = 1.0 / 16_777_216.0;

    fn training(rows: &[&[f32]]) -> Csr {
        let columns = rows.iter().map(|row| row.len()).max().unwrap_or(0);
        let mut builder = CsrBuilder::default();
        for row in rows {
            builder.push_row((0..).zip(row.iter().copied()));
        }
        builder.build(columns)
    }

    fn bound(rows: &[&[f32]], query: &[f32]) -> Option<Bound> {
        let terms: Vec<u32> = (0..).take(query.len()).collect();
        Bound::new(&Range::of(&training(rows).view()), (&terms, query))
    }

    /// The error of a sum of twelve products is twice in the cut, and not much more.
    fn is_near(cut: f32, threshold: f64, products: f64) {
        let gamma = |count: f64| count * UNIT_ROUNDOFF / (1.0 - count * UNIT_ROUNDOFF);
        let (cut, least) = (f64::from(cut), threshold - 3.0 * gamma(16.0 + 4.0) * products);
        assert!(cut <= threshold - 2.0 * gamma(12.0) * products, "{cut} is too high");
        assert!(cut >= least, "{cut} is below {least}");
    }

    #[test]
    fn the_cut_is_the_threshold_less_two_errors() {
        let ones = [1.0; 12];
        let signs: Vec<f32> = (0..12u8).map(|at| if at % 2 == 0 { 1.0 } else { -1.0 }).collect();
        // The longest row comes first, and last. Of a query with more terms no more than a row's can meet.
        for rows in [[&ones[..], &[0.5]], [&[0.5], &ones[..]]] {
            let same_sign = bound(&rows, &ones).unwrap();
            is_near(same_sign.cut(12.0), 12.0, 12.0);
            // The error of a small sum is small, however long the rows.
            is_near(same_sign.cut(0.01), f64::from(0.01f32), f64::from(0.01f32));
            is_near(bound(&rows, &signs).unwrap().cut(6.0), 6.0, 12.0);
        }
        for rows in [[&signs[..], &[0.5]], [&[0.5], &signs[..]]] {
            is_near(bound(&rows, &ones).unwrap().cut(6.0), 6.0, 12.0);
        }
        let long = [1.0; 500];
        let rows = training(&[&[1.0; 12], &[0.0; 0]]);
        let mut range = Range::of(&rows.view());
        range.least.resize(500, f32::INFINITY);
        let terms: Vec<u32> = (0..500).collect();
        is_near(Bound::new(&range, (&terms, &long)).unwrap().cut(12.0), 12.0, 12.0);
    }

    #[test]
    fn weights_of_one_sign_hold_without_a_threshold() {
        let (plus, minus) = ([1.0f32, 0.0, 2.0], [1.0f32, 0.0, -2.0]);
        // Weights of 0 have no small products.
        assert!(bound(&[&plus], &plus).unwrap().holds(0.0));
        assert!(bound(&[&plus], &[1.0, 1e-30, 1.0]).unwrap().holds(0.0));
        assert!(bound(&[&[1.0, 1e-30, 1.0]], &plus).unwrap().holds(0.0));
        for (row, query) in [(minus, plus), (plus, minus), (minus, minus)] {
            let bound = bound(&[&plus, &row, &plus], &query).unwrap();
            assert!(!bound.holds(0.0) && !bound.holds(1e-7) && bound.holds(0.01));
        }
    }

    #[test]
    fn small_products_hold_above_a_threshold() {
        for (weight, is_small) in [(1e-20, true), (1e-19, true), (1.05e-19, true), (5e-19, false)] {
            let bound = bound(&[&[1.0, weight]], &[1.0, weight]).unwrap();
            assert_eq!(bound.holds(0.0), !is_small, "{weight}");
            // Above 0, but not in the normal range.
            assert_eq!(bound.holds(1.17e-38), !is_small, "{weight}");
            assert!(bound.holds(1e-30));
            let lost = f64::from(1e-38f32) - f64::from(bound.cut(1e-38));
            // Two products, each off by half the smallest number, on both sides.
            assert!(lost >= if is_small { 2.0 * 1.4e-45 } else { 0.0 } && lost < 1e-43, "{lost}");
        }
    }

    #[test]
    fn no_bound_beyond_the_range_or_for_very_long_rows() {
        assert!(bound(&[&[1e18]], &[1e18]).is_some());
        assert!(bound(&[&[1e19], &[1.0]], &[2e18]).is_none());
        assert!(bound(&[&[1e30]], &[1e30]).is_none());
        let (long, longer) = (vec![1.0; 150_000], vec![1.0; 170_000]);
        assert!(bound(&[&long], &long).is_some());
        assert!(bound(&[&longer], &longer).is_none());
    }
}
