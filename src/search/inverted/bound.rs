//! How far an accumulator can be from the similarity that it stands for. The proof is in
//! [`super`].

/// What the weights of rows say about the range of products.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range {
    /// The largest Euclidean length of a row.
    pub(super) length: f64,
    /// The least absolute value of a weight that is not 0.
    least: f64,
    negative: bool,
}

impl Range {
    pub(super) fn of<'a>(rows: impl Iterator<Item = &'a [f32]>) -> Self {
        let mut range = Self { length: 0.0, least: f64::INFINITY, negative: false };
        for weights in rows {
            let mut squares = 0.0;
            for &weight in weights {
                let size = f64::from(weight.abs());
                squares += size * size;
                if weight != 0.0 {
                    range.least = range.least.min(size);
                }
                range.negative |= weight < 0.0;
            }
            range.length = range.length.max(squares.sqrt());
        }
        range
    }
}

/// How far an accumulator can be from the similarity.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bound {
    /// Largest |accumulator − similarity|.
    absolute: f64,
    /// Largest |accumulator − similarity| / similarity; `None` where weights may be negative.
    relative: Option<f64>,
}

impl Bound {
    /// The bound for a query with these weights, or `None` where products leave the normal range of `f32`.
    pub(super) fn new(rows: &Range, longest_row: usize, weights: &[f32]) -> Option<Self> {
        const UNIT_ROUNDOFF: f64 = 1.0 / 16_777_216.0;
        let query = Range::of(std::iter::once(weights));
        let largest = query.length * rows.length;
        let least = query.least * rows.least;
        // One rounding for a product, one for each addition; two more for the similarity's own.
        let roundings = (weights.len().min(longest_row) + 4) as f64 * UNIT_ROUNDOFF;
        if largest > 1e37 || least < 1e-37 || roundings > 0.01 {
            return None;
        }
        let gamma = roundings / (1.0 - roundings);
        let negative = query.negative || rows.negative;
        Some(Self { absolute: gamma * largest, relative: (!negative).then_some(gamma) })
    }

    /// The least accumulator that a row of the answer can have. Rounded down.
    pub(super) fn cut(&self, threshold: f32) -> f32 {
        let threshold = f64::from(threshold);
        let mut cut = threshold - 2.0 * self.absolute;
        if let Some(relative) = self.relative {
            cut = cut.max(threshold * (1.0 - 2.5 * relative));
        }
        #[expect(clippy::cast_possible_truncation, reason = "made smaller right after")]
        let narrow = cut as f32;
        narrow - narrow.abs() * f32::EPSILON
    }

    /// Whether every row of the answer has an accumulator in the normal range, where all are
    /// collected: products of one sign do not cancel, others only where the threshold is above
    /// the error.
    pub(super) fn holds(&self, threshold: f32) -> bool {
        self.relative.is_some() || self.cut(threshold) >= f32::MIN_POSITIVE
    }
}
