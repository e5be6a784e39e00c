//! Fixed-point sums of 16 bits per row, and bounds on their deviation from the similarity. The
//! proof is in [`super`].

use super::kernels::Number;
use crate::rows::matrix::{CsrView, Row, row};

/// The number type of sums and weights: `u16` if no weight is negative, otherwise `i16`.
pub(super) trait FixedPoint: Number {
    /// The largest number.
    const MAX: f64;
    /// The largest sum of products of weights and factors.
    const LARGEST_SUM: f64;
    const IS_SIGNED: bool;

    /// Returns the number nearest to `value`.
    fn nearest(value: f64) -> Self;
    fn value(self) -> f64;
}

macro_rules! fixed {
    ($number:ident, $largest_sum:expr, $signed:expr) => {
        impl FixedPoint for $number {
            const MAX: f64 = $number::MAX as f64;
            const LARGEST_SUM: f64 = $largest_sum;
            const IS_SIGNED: bool = $signed;

            #[expect(clippy::cast_possible_truncation, reason = "clamped")]
            #[allow(clippy::allow_attributes, clippy::cast_sign_loss, reason = "clamped")]
            fn nearest(value: f64) -> Self {
                // Truncation rounds positive numbers down without a call to a rounding function.
                let min = f64::from($number::MIN);
                let shifted = value.clamp(min, <Self as FixedPoint>::MAX) - min + 0.5;
                (shifted as i32 + i32::from($number::MIN)) as $number
            }

            fn value(self) -> f64 {
                f64::from(self)
            }
        }
    };
}

fixed!(u16, 65_533.0, false);
// Factors and weights have 15 bits.
fixed!(i16, 16_382.0, true);

/// The properties of the training weights that sums depend on.
#[derive(Debug)]
pub(super) struct WeightStats {
    /// The largest Euclidean length of a row.
    pub(super) length: f64,
    /// The largest absolute weight of each term.
    pub(super) largest: Vec<f32>,
    /// The number of rows that contain each term.
    pub(super) frequencies: Vec<u32>,
    pub(super) has_negative: bool,
    /// The largest number of entries of a row.
    longest_row: usize,
}

impl WeightStats {
    pub(super) fn new(training: &CsrView<'_>, rows: std::ops::Range<usize>) -> Self {
        let columns = training.cols();
        let mut stats = Self {
            length: 0.0,
            largest: vec![0.0; columns],
            frequencies: vec![0; columns],
            has_negative: false,
            longest_row: 0,
        };
        for index in rows {
            let (terms, weights) = row(training, index);
            let mut squares = 0.0;
            for (&term, &weight) in terms.iter().zip(weights) {
                squares += f64::from(weight) * f64::from(weight);
                let term = term as usize;
                stats.frequencies[term] += 1;
                stats.largest[term] = stats.largest[term].max(weight.abs());
                stats.has_negative |= weight < 0.0;
            }
            stats.length = stats.length.max(squares.sqrt());
            stats.longest_row = stats.longest_row.max(terms.len());
        }
        stats
    }

    /// Combines the properties of two ranges of rows.
    pub(super) fn join(mut self, other: &Self) -> Self {
        self.length = self.length.max(other.length);
        self.has_negative |= other.has_negative;
        self.longest_row = self.longest_row.max(other.longest_row);
        for (value, &other) in self.largest.iter_mut().zip(&other.largest) {
            *value = value.max(other);
        }
        for (value, &other) in self.frequencies.iter_mut().zip(&other.frequencies) {
            *value += other;
        }
        self
    }
}

/// A query in fixed point.
#[derive(Debug)]
pub(super) struct ScaledQuery<T> {
    /// The query's terms that occur in training rows, and the factors of their weights. The terms
    /// of the head come last.
    pub(super) factors: Vec<(u32, T)>,
    /// Number of terms that do not belong to the head.
    pub(super) tail: usize,
    /// A row is not among the `k` nearest if its sum is smaller than `k` other sums by more than
    /// this amount.
    pub(super) band: f64,
    /// Factor that converts similarities to sums.
    pub(super) scale: f64,
}

impl<T: FixedPoint> ScaledQuery<T> {
    /// Scales a query. Returns `None` if 16 bits are not enough, because similarities may be too
    /// large, too small, or sums of too many products.
    pub(super) fn new(
        stats: &WeightStats,
        query: Row<'_>,
        is_head: impl Fn(u32) -> bool,
    ) -> Option<Self> {
        let common = || {
            let all = query.0.iter().zip(query.1);
            all.map(|(&term, &weight)| (term, f64::from(weight), stats.largest[term as usize]))
                .filter(|&(_, weight, largest)| weight != 0.0 && largest > 0.0)
        };
        let mut squares = 0.0;
        let mut max_sum = 0.0;
        let mut count = 0;
        for (_, weight, largest) in common() {
            squares += weight * weight;
            max_sum += weight.abs() * f64::from(largest);
            count += 1;
        }
        if count == 0 {
            return Some(Self { factors: Vec::new(), tail: 0, band: 0.0, scale: 0.0 });
        }
        let largest_sum = (squares.sqrt() * stats.length).min(max_sum) * (1.0 + 1e-9);
        let products = count.min(stats.longest_row) as f64;
        let scaled_sum = T::LARGEST_SUM - 2.0 * products;
        if !(1e-30..1e37).contains(&largest_sum) || scaled_sum < T::LARGEST_SUM / 2.0 {
            return None;
        }
        let scale = scaled_sum / largest_sum;
        let mut factors = vec![(0, T::default()); count];
        let mut tail = 0;
        let mut head = count;
        let mut band = 0.0;
        let mut widest = 0f64;
        for (term, weight, largest) in common() {
            let exact = exact_factor::<T>(scale, weight, largest);
            let factor = T::nearest(exact);
            let rounding = rounding(exact, factor);
            band += 1.0 + 2.0 * rounding;
            widest = widest.max(1.0 + 2.0 * rounding);
            if is_head(term) {
                head -= 1;
                factors[head] = (term, factor);
            } else {
                factors[tail] = (term, factor);
                tail += 1;
            }
        }
        // A row has at most `products` products, each with a band of at most `widest`. In a batch,
        // the products of one row may be 1 larger than the products of another row.
        let product_band = (widest + 1.0) * products;
        // The 0.1 covers the rounding of two similarities to f32 and of these numbers to f64.
        Some(Self { factors, tail, band: f64::min(band, product_band) + 0.1, scale })
    }

    /// Returns the maximum error of the products of a factor, apart from the error of rounding them
    /// down.
    ///
    /// `largest` is the term's largest weight in the training rows; `weight` is its weight in the
    /// query.
    pub(super) fn rounding(&self, largest: f32, factor: T, weight: f64) -> f64 {
        rounding(exact_factor::<T>(self.scale, weight, largest), factor)
    }

    /// Returns the smallest sum that a row among the nearest can have, if `threshold` is at most
    /// the k-th largest sum.
    pub(super) fn min_sum(&self, threshold: T) -> T {
        T::nearest((threshold.value() - self.band).floor())
    }
}

/// Returns the factor of a term's training weights before it is rounded.
fn exact_factor<T: FixedPoint>(scale: f64, weight: f64, largest: f32) -> f64 {
    weight * f64::from(largest) * (scale * 65_536.0 / T::MAX)
}

/// Returns the maximum error of a product caused by rounding its factor and the training weight.
fn rounding<T: FixedPoint>(exact: f64, factor: T) -> f64 {
    (exact - factor.value()).abs() + (factor.value().abs() + 1.0) / 65_536.0
}
