//! A copy of an index's points in blocks.

use std::sync::Arc;

use super::space::Space;
use crate::metric::{Blocks, Metric};
use crate::points::Points;

/// The points of an index in blocks, in the order of the index; `None` if the metric has no blocks.
pub(super) struct PointBlocks<S: Points>(Option<Arc<dyn Blocks<S::Point>>>);

impl<S: Points> PointBlocks<S> {
    /// Returns whether the metric has blocks for these points. Only the first point is tested.
    pub(super) fn are_supported<M: Metric<S::Point>>(points: &S, metric: &M) -> bool {
        !points.is_empty() && metric.blocks(&[points.point(0)]).is_some()
    }

    /// Returns the blocks, if the metric has blocks.
    pub(super) fn get(&self) -> Option<&dyn Blocks<S::Point>> {
        self.0.as_deref()
    }

    pub(super) fn new<M: Metric<S::Point>>(space: &Space<S, M>, order: &[u32]) -> Self {
        let points: Vec<_> = order.iter().map(|&point| space.points.point(point)).collect();
        Self(space.metric.blocks(&points).map(Arc::from))
    }
}

impl<S: Points> Clone for PointBlocks<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S: Points> std::fmt::Debug for PointBlocks<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PointBlocks").finish_non_exhaustive()
    }
}
