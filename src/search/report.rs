//! How the queries of a search were answered.

use std::ops::AddAssign;

/// How queries were answered. It affects only the time, never the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[must_use]
pub struct Report {
    /// Queries that took the engine's fast path. If several engines answered a query together, it
    /// took the fast path of each.
    pub fast: u64,
    /// Queries that the fast path could not answer, so all their similarities were computed.
    pub fell_back: u64,
}

/// Adds the report on other queries.
impl AddAssign for Report {
    fn add_assign(&mut self, other: Self) {
        self.fast += other.fast;
        self.fell_back += other.fell_back;
    }
}
