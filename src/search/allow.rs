//! Filters that determine which training rows may be neighbors. One type covers leave-one-out,
//! groups, near-duplicates and any predicate of the caller.
//!
//! The filter is data, not a closure, so that a GPU can apply it too.

use std::ops::Range;

use super::error::SearchError;
use super::neighbor::row_number;

mod part;
pub(super) use part::PartFilter;

/// A set of training rows, stored as one bit per row.
///
/// ```
/// use classify::search::RowSet;
///
/// let even = RowSet::from_fn(10, |row| row % 2 == 0);
/// assert!(even.contains(4) && !even.contains(5) && !even.contains(10));
/// assert_eq!((even.rows(), even.count()), (10, 5));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowSet {
    rows: u32,
    words: Vec<u32>,
}

impl RowSet {
    /// Creates the set of all rows below `rows` for which `contains` returns true.
    pub fn from_fn(rows: u32, mut contains: impl FnMut(u32) -> bool) -> Self {
        let mut set = Self::default();
        set.reset(rows);
        (0..rows).filter(|&row| contains(row)).for_each(|row| set.insert(row));
        set
    }

    /// Creates a set that covers `rows` rows and contains `members`, given in any order.
    ///
    /// # Panics
    /// If a member is not below `rows`.
    pub fn of(rows: u32, members: &[u32]) -> Self {
        let mut set = Self::default();
        set.reset(rows);
        for &row in members {
            assert!(row < rows, "row {row} of {rows}");
            set.insert(row);
        }
        set
    }

    /// The number of rows that the set covers, members or not.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// The number of members.
    pub fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether a row is in the set.
    pub fn contains(&self, row: u32) -> bool {
        let word = self.words.get((row / u32::BITS) as usize);
        word.is_some_and(|word| word >> (row % u32::BITS) & 1 == 1)
    }

    /// Removes all members and sets the number of covered rows to `rows`.
    pub(super) fn reset(&mut self, rows: u32) {
        self.rows = rows;
        self.words.clear();
        self.words.resize(rows.div_ceil(u32::BITS) as usize, 0);
    }

    /// Adds a row that the set covers.
    pub(super) fn insert(&mut self, row: u32) {
        debug_assert!(row < self.rows, "row {row} of {}", self.rows);
        self.words[(row / u32::BITS) as usize] |= 1 << (row % u32::BITS);
    }

    /// Replaces the set with the members of `other` in `first..first + rows`, renumbered from 0.
    pub(super) fn copy_range(&mut self, other: &Self, first: u32, rows: u32) {
        let shift = first % u32::BITS;
        let words = other.words.get((first / u32::BITS) as usize..).unwrap_or_default();
        let word = |index: usize| words.get(index).copied().unwrap_or(0);
        let shifted = |index: usize| match shift {
            0 => word(index),
            _ => word(index) >> shift | word(index + 1) << (u32::BITS - shift),
        };
        self.rows = rows;
        self.words.clear();
        self.words.extend((0..rows.div_ceil(u32::BITS) as usize).map(shifted));
        let unused = self.words.len() * u32::BITS as usize - rows as usize;
        if let Some(last) = self.words.last_mut() {
            *last &= u32::MAX >> unused;
        }
    }

    /// Sets the scores of rows that are not members to 0. `scores[0]` belongs to row `first_row`.
    fn clear_others<T: Copy + Default>(&self, first_row: u32, scores: &mut [T]) {
        let mut row = first_row;
        let mut rest = scores;
        while !rest.is_empty() {
            let bit = row % u32::BITS;
            let count = ((u32::BITS - bit) as usize).min(rest.len());
            let (chunk, remaining) = rest.split_at_mut(count);
            let word = self.words.get((row / u32::BITS) as usize).copied().unwrap_or(0);
            let mut missing = !word >> bit;
            if count < u32::BITS as usize {
                missing &= (1 << count) - 1;
            }
            // If most rows are members, this loop has few iterations. If few are, few scores remain
            // to be examined.
            while missing != 0 {
                chunk[missing.trailing_zeros() as usize] = T::default();
                missing &= missing - 1;
            }
            row = row.wrapping_add(u32::BITS - bit);
            rest = remaining;
        }
    }

    /// The bits, 32 rows per word, lowest row in the lowest bit.
    pub(super) fn words(&self) -> &[u32] {
        &self.words
    }
}

/// A range of training rows, `start..end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct RowRange {
    /// The first row.
    pub start: u32,
    /// One past the last row. The range is empty if `end <= start`.
    pub end: u32,
}

impl RowRange {
    /// The range that contains only `row`.
    pub fn one(row: u32) -> Self {
        Self { start: row, end: row.saturating_add(1) }
    }

    /// The range of `row` and the `reach` rows before and after it, clipped at the smallest and
    /// largest `u32`.
    pub fn around(row: u32, reach: u32) -> Self {
        Self { start: row.saturating_sub(reach), end: row.saturating_add(reach).saturating_add(1) }
    }

    /// Whether a row is in the range.
    pub fn contains(self, row: u32) -> bool {
        self.start <= row && row < self.end
    }
}

/// Lists of row numbers, one list per query. Each list is in increasing order.
#[derive(Debug, Clone, Copy, Default)]
pub struct RowLists<'a> {
    bounds: &'a [usize],
    rows: &'a [u32],
}

impl<'a> RowLists<'a> {
    /// Creates the lists. The list of query `q` is `rows[bounds[q]..bounds[q + 1]]`.
    ///
    /// # Panics
    /// If the bounds decrease or lie outside `rows`.
    pub fn new(bounds: &'a [usize], rows: &'a [u32]) -> Self {
        assert!(bounds.is_sorted() && bounds.last().is_none_or(|&end| end <= rows.len()));
        Self { bounds, rows }
    }

    /// The number of lists.
    pub fn len(&self) -> usize {
        self.bounds.len().saturating_sub(1)
    }

    /// Whether there are no lists.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The list of a query.
    ///
    /// # Panics
    /// If there is no such query.
    pub fn of(&self, query: usize) -> &'a [u32] {
        &self.rows[self.bounds[query]..self.bounds[query + 1]]
    }
}

/// A filter that determines which training rows may be neighbors of each query. By default, all
/// rows are allowed.
///
/// Restrictions combine: a row is a neighbor only if all of them allow it.
///
/// ```
/// use classify::search::{Allow, RowRange, RowSet};
///
/// // Leave-one-out over rows 0 to 3. In addition, row 3 is never a neighbor.
/// let own_rows: Vec<RowRange> = (0..4).map(RowRange::one).collect();
/// let kept = RowSet::from_fn(4, |row| row != 3);
/// let allow = Allow::all().only(&kept).except_range(&own_rows);
/// assert!(allow.allows(0, 1) && !allow.allows(1, 1) && !allow.allows(0, 3));
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Allow<'a> {
    pub(super) only: Option<&'a RowSet>,
    pub(super) ranges: Option<&'a [RowRange]>,
    pub(super) lists: Option<RowLists<'a>>,
    pub(super) groups: Option<Groups<'a>>,
}

/// The group of each training row and of each query.
#[derive(Debug, Clone, Copy)]
pub(super) struct Groups<'a> {
    pub(super) of_rows: &'a [u32],
    pub(super) of_queries: &'a [u32],
}

impl<'a> Allow<'a> {
    /// Allows every row.
    pub fn all() -> Self {
        Self::default()
    }

    /// Allows only the rows of a set, for every query.
    #[must_use]
    pub fn only(self, rows: &'a RowSet) -> Self {
        Self { only: Some(rows), ..self }
    }

    /// Excludes a range of rows, one range per query.
    #[must_use]
    pub fn except_range(self, ranges: &'a [RowRange]) -> Self {
        Self { ranges: Some(ranges), ..self }
    }

    /// Excludes a list of rows, one list per query.
    #[must_use]
    pub fn except_listed(self, lists: RowLists<'a>) -> Self {
        Self { lists: Some(lists), ..self }
    }

    /// Excludes the rows of the query's own group, given a group for each training row and each
    /// query.
    #[must_use]
    pub fn except_group(self, of_rows: &'a [u32], of_queries: &'a [u32]) -> Self {
        Self { groups: Some(Groups { of_rows, of_queries }), ..self }
    }

    /// Whether every row may be a neighbor of every query.
    pub fn is_all(&self) -> bool {
        self.only.is_none()
            && self.ranges.is_none()
            && self.lists.is_none()
            && self.groups.is_none()
    }

    /// Whether `row` may be a neighbor of `query`. Queries are numbered from 0 within the request.
    ///
    /// # Panics
    /// If the query or row is outside the filter.
    pub fn allows(&self, query: usize, row: u32) -> bool {
        self.only.is_none_or(|only| only.contains(row))
            && self.ranges.is_none_or(|ranges| !ranges[query].contains(row))
            && self.lists.is_none_or(|lists| lists.of(query).binary_search(&row).is_err())
            && self
                .groups
                .is_none_or(|groups| groups.of_rows[row as usize] != groups.of_queries[query])
    }

    /// Sets the scores of disallowed rows to 0. `scores[0]` belongs to row `first_row`.
    pub(super) fn clear_denied<T: Copy + Default>(
        &self,
        query: usize,
        first_row: u32,
        scores: &mut [T],
    ) {
        let rows = row_number(scores.len());
        let local = |row: u32| row.clamp(first_row, first_row + rows) - first_row;
        if let Some(ranges) = self.ranges {
            let RowRange { start, end } = ranges[query];
            if start < end {
                scores[local(start) as usize..local(end) as usize].fill(T::default());
            }
        }
        if let Some(lists) = self.lists {
            let list = lists.of(query);
            let start = list.partition_point(|&row| row < first_row);
            for &row in list[start..].iter().take_while(|&&row| row - first_row < rows) {
                scores[(row - first_row) as usize] = T::default();
            }
        }
        if let Some(only) = self.only {
            only.clear_others(first_row, scores);
        }
        if let Some(Groups { of_rows, of_queries }) = self.groups {
            let own_group = of_queries[query];
            for (&group, score) in of_rows[first_row as usize..].iter().zip(scores) {
                *score = if group == own_group { T::default() } else { *score };
            }
        }
    }

    /// Returns the filter for a range of queries.
    pub(super) fn slice(&self, queries: Range<usize>) -> Self {
        Self {
            only: self.only,
            ranges: self.ranges.map(|ranges| &ranges[queries.clone()]),
            lists: self.lists.map(|RowLists { bounds, rows }| RowLists {
                bounds: &bounds[queries.start..=queries.end],
                rows,
            }),
            groups: self.groups.map(|Groups { of_rows, of_queries }| Groups {
                of_rows,
                of_queries: &of_queries[queries],
            }),
        }
    }

    pub(super) fn check(&self, queries: usize, rows: u32) -> Result<(), SearchError> {
        let sizes = [
            ("rows of the set", self.only.map(|only| only.rows() as usize), rows as usize),
            ("ranges", self.ranges.map(<[_]>::len), queries),
            ("lists", self.lists.map(|lists| lists.len()), queries),
            ("groups of rows", self.groups.map(|g| g.of_rows.len()), rows as usize),
            ("groups of queries", self.groups.map(|g| g.of_queries.len()), queries),
        ];
        for (what, found, expected) in sizes {
            if let Some(found) = found.filter(|&found| found != expected) {
                return Err(SearchError::Filter { what, found, expected });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: u32 = 70;
    const QUERIES: usize = 7;

    /// Slices of a filter and `clear_denied` agree with `allows`.
    #[test]
    fn slices_and_clear_denied_agree_with_allows() {
        let only = RowSet::from_fn(ROWS, |row| row % 4 != 2);
        let ranges: Vec<RowRange> =
            (0..7).map(|query| RowRange::around(9 * query, query)).collect();
        let listed: Vec<u32> = (0..7).flat_map(|query| [query, 20 + 3 * query, 69]).collect();
        let bounds: Vec<usize> = (0..=QUERIES).map(|query| 3 * query).collect();
        let of_rows: Vec<u32> = (0..ROWS).map(|row| row / 5).collect();
        let of_queries: Vec<u32> = (0..7).map(|query| 13 - query).collect();
        let lists = RowLists::new(&bounds, &listed);
        let all = Allow::all();
        let singles = [
            all.only(&only),
            all.except_range(&ranges),
            all.except_listed(lists),
            all.except_group(&of_rows, &of_queries),
        ];
        // Restrictions combine in any order.
        let combined = all
            .only(&only)
            .except_range(&ranges)
            .except_listed(lists)
            .except_group(&of_rows, &of_queries);
        let reversed = all
            .except_group(&of_rows, &of_queries)
            .except_listed(lists)
            .except_range(&ranges)
            .only(&only);
        for (query, row) in (0..QUERIES).flat_map(|query| (0..ROWS).map(move |row| (query, row))) {
            let allowed = singles.iter().all(|single| single.allows(query, row));
            assert_eq!(combined.allows(query, row), allowed);
            assert_eq!(reversed.allows(query, row), allowed);
        }
        let [by_set, by_range, by_list, by_group] = singles;
        for allow in [all, by_set, by_range, by_list, by_group, combined] {
            for queries in [0..QUERIES, 0..1, 2..5, 6..7, 3..3] {
                let slice = allow.slice(queries.clone());
                assert!(slice.check(queries.len(), ROWS).is_ok(), "{queries:?}");
                for (index, query) in queries.enumerate() {
                    assert!(
                        (0..ROWS).all(|row| slice.allows(index, row) == allow.allows(query, row))
                    );
                }
            }
            for (query, rows) in [(0, 0..70u32), (2, 17..21), (3, 24..31), (4, 30..32), (6, 66..70)]
            {
                let mut scores: Vec<f32> = rows.clone().map(|_| 1.0).collect();
                allow.clear_denied(query, rows.start, &mut scores);
                let kept: Vec<u32> = rows
                    .clone()
                    .zip(&scores)
                    .filter(|&(_, &score)| score > 0.0)
                    .map(|(row, _)| row)
                    .collect();
                let allowed: Vec<u32> = rows.filter(|&row| allow.allows(query, row)).collect();
                assert_eq!(kept, allowed, "query {query}");
            }
        }
    }

    #[test]
    fn is_all_is_false_for_each_restriction() {
        let only = RowSet::from_fn(1, |_| true);
        let all = Allow::all();
        assert!(all.is_all());
        for allow in [
            all.only(&only),
            all.except_range(&[RowRange { start: 0, end: 0 }]),
            all.except_listed(RowLists::new(&[0, 0], &[])),
            all.except_group(&[0], &[1]),
        ] {
            assert!(!allow.is_all() && allow.allows(0, 0) && allow.check(1, 1).is_ok());
            assert!(allow.check(2, 2).is_err());
        }
        assert!(all.except_group(&[0], &[1, 2]).check(2, 2).is_err());
        assert!(all.except_group(&[0, 0], &[1]).check(2, 2).is_err());
    }

    #[test]
    fn ranges_around_a_row_are_clipped() {
        assert_eq!(RowRange::one(3), RowRange { start: 3, end: 4 });
        assert_eq!(RowRange::around(3, 2), RowRange { start: 1, end: 6 });
        assert_eq!(RowRange::around(1, 2), RowRange { start: 0, end: 4 });
        assert_eq!(RowRange::around(u32::MAX, 1).start, u32::MAX - 1);
        assert!(RowRange::one(3).contains(3) && !RowRange::one(3).contains(4));
    }

    #[test]
    fn a_range_that_ends_before_it_starts_denies_nothing() {
        let ranges = [RowRange { start: 5, end: 2 }, RowRange { start: 4, end: 4 }];
        let allow = Allow::all().except_range(&ranges);
        for query in 0..2 {
            let mut scores = [1.0; 8];
            allow.clear_denied(query, 0, &mut scores);
            assert!(scores.iter().all(|&score| score > 0.0));
            assert!((0..8).all(|row| allow.allows(query, row)));
        }
    }

    #[test]
    fn sets_contain_no_row_beyond_their_range() {
        let even = RowSet::from_fn(33, |row| row % 2 == 0);
        assert_eq!((even.rows(), even.count()), (33, 17));
        assert!(even.contains(32) && !even.contains(33) && !even.contains(64));
        assert!(!even.contains(u32::MAX));
    }

    #[test]
    fn copy_range_renumbers_members() {
        let every_third = RowSet::from_fn(150, |row| row % 3 == 0);
        let mut part = RowSet::from_fn(200, |_| true);
        for (first, rows) in [(0, 150), (0, 0), (7, 64), (64, 33), (95, 55), (149, 1), (150, 0)] {
            part.copy_range(&every_third, first, rows);
            assert_eq!(part, RowSet::from_fn(rows, |row| (first + row) % 3 == 0));
        }
    }

    #[test]
    #[should_panic(expected = "bounds.is_sorted()")]
    fn decreasing_bounds_panic() {
        let _ = RowLists::new(&[0, 2, 1], &[3, 4]);
    }

    #[test]
    #[should_panic(expected = "bounds.is_sorted()")]
    fn bounds_beyond_the_rows_panic() {
        let _ = RowLists::new(&[0, 3], &[3, 4]);
    }
}
