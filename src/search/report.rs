//! A report on how the queries of a search were answered.

use std::ops::AddAssign;

/// Counts of how queries were answered. The path affects only the time, never the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[must_use]
pub struct Report {
    /// Number of queries that took the fast path. A query that several engines answered together
    /// counts only if each engine took its fast path.
    pub fast: u64,
    /// Number of queries that the fast path did not answer. For example, all their similarities
    /// were computed, or the CPU answered them instead of the GPU.
    pub fell_back: u64,
}

/// Adds a report on other queries.
impl AddAssign for Report {
    fn add_assign(&mut self, other: Self) {
        self.fast += other.fast;
        self.fell_back += other.fell_back;
    }
}
