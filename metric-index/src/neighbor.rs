//! The neighbors that a query finds.

use std::cmp::Ordering;

use bytemuck::{Pod, Zeroable};

/// A point and its distance from a query.
///
/// ```
/// use metric_index::neighbor::Neighbor;
///
/// let near = Neighbor { point: 7, distance: 1.0 };
/// assert!(near < Neighbor { point: 8, distance: 1.0 });
/// assert!(near < Neighbor { point: 0, distance: 2.0 });
/// ```
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct Neighbor {
    /// The number of the point, counted from 0, in the original order of the points.
    pub point: u32,
    /// The distance, finite and at least 0.
    pub distance: f32,
}

impl Neighbor {
    /// Reinterprets keys from GPU kernels as neighbors. A key has the bits of a distance in its
    /// upper half and the number of a point in its lower half. Therefore, keys are ordered like
    /// neighbors.
    ///
    /// ```
    /// use metric_index::neighbor::Neighbor;
    ///
    /// let keys = [u64::from(1.0f32.to_bits()) << 32 | 7];
    /// assert_eq!(Neighbor::from_keys(&keys), [Neighbor { point: 7, distance: 1.0 }]);
    /// ```
    pub fn from_keys(keys: &[u64]) -> &[Self] {
        // All machines with these GPUs are little-endian: the lower half comes first in memory.
        const { assert!(cfg!(target_endian = "little"), "the lower half comes first") };
        bytemuck::cast_slice(keys)
    }
}

impl Ord for Neighbor {
    /// Orders neighbors by distance, then by point.
    fn cmp(&self, other: &Self) -> Ordering {
        self.distance.total_cmp(&other.distance).then(self.point.cmp(&other.point))
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
