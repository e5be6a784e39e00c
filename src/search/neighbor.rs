//! Neighbors and their order.

use std::cmp::Ordering;

/// A training row and its similarity to a query.
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Neighbor {
    /// The training row, counted from 0.
    pub row: u32,
    /// The similarity, above 0.
    pub similarity: f32,
}

impl Ord for Neighbor {
    /// Orders neighbors best first: by descending similarity, then ascending row.
    fn cmp(&self, other: &Self) -> Ordering {
        other.similarity.total_cmp(&self.similarity).then(self.row.cmp(&other.row))
    }
}

impl PartialOrd for Neighbor {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Neighbor {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Neighbor {}

/// Rounds a sum of products to a similarity.
#[expect(clippy::cast_possible_truncation, reason = "the only rounding of a similarity to f32")]
pub(super) fn round_sum(sum: f64) -> f32 {
    (sum as f32).min(f32::MAX)
}

/// Converts a row number or a number of rows to `u32`. This cannot fail because engines check the
/// number of rows when they are created.
pub(super) fn row_number(n: usize) -> u32 {
    u32::try_from(n).expect("row numbers are 32-bit")
}
