//! Blocks of points, for computing many distances at once.

use std::fmt::Debug;
use std::ops::Range;

/// Points copied into blocks for vector instructions, in the order that an index has chosen; see
/// [`Metric::blocks`](super::Metric::blocks).
///
/// ```
/// use metric_index::metric::{Blocks, Edit, Metric};
///
/// let blocks = Edit.blocks(&["casa", "pez", "cosa"]).expect("short words");
/// assert!(blocks.from("caso").is_some());
/// assert!(blocks.from(&"ab".repeat(40)).is_none(), "more than 64 characters");
/// ```
pub trait Blocks<P: ?Sized>: Debug + Send + Sync {
    /// Prepares a query. Returns `None` if the blocks do not support it, such as a vector of a
    /// different dimension or a long string.
    fn from<'a>(&'a self, query: &'a P) -> Option<Box<dyn Scan + 'a>>;
}

/// A query that is ready to be compared with the points of [`Blocks`].
pub trait Scan: Send {
    /// Appends each position whose point is at most `radius` away, with its distance, to `near`.
    /// The distance equals [`Metric::distance`](super::Metric::distance), bit for bit. Positions
    /// count the points in the order of the blocks, from 0.
    fn within(&mut self, positions: Range<u32>, radius: f32, near: &mut Vec<(u32, f32)>);
}
