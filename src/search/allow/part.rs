//! Translation of a request's filter into the row numbers of one part of the training rows.

use super::{Allow, Groups, RowLists, RowRange, RowSet};
use crate::search::row_map::PartRows;

/// The filter for a part. Its memory is reused from one search to the next.
#[derive(Debug, Default)]
pub(in crate::search) struct PartFilter {
    only: RowSet,
    ranges: Vec<RowRange>,
    bounds: Vec<usize>,
    listed: Vec<u32>,
    groups: Vec<u32>,
}

impl PartFilter {
    /// Translates a filter over all rows into a filter over the rows of the part. The result also
    /// excludes removed rows.
    ///
    /// Restrictions that are not set take no time, regardless of the number of rows.
    pub(in crate::search) fn translate<'a>(
        &'a mut self,
        allow: Allow<'a>,
        rows: &'a PartRows,
    ) -> Allow<'a> {
        let Self { only, ranges, bounds, listed, groups } = self;
        Allow {
            only: match allow.only {
                None => rows.kept(),
                Some(whole) => {
                    rows.select(whole, only);
                    Some(only)
                }
            },
            ranges: allow.ranges.map(|whole| {
                ranges.clear();
                ranges.extend(whole.iter().map(|range| RowRange {
                    start: rows.lower_bound(range.start),
                    end: rows.lower_bound(range.end),
                }));
                &**ranges
            }),
            lists: allow.lists.map(|whole| {
                bounds.clear();
                bounds.push(0);
                listed.clear();
                for query in 0..whole.len() {
                    listed.extend(whole.of(query).iter().filter_map(|&row| rows.position(row)));
                    bounds.push(listed.len());
                }
                RowLists { bounds, rows: listed }
            }),
            groups: allow.groups.map(|Groups { of_rows, of_queries }| Groups {
                of_rows: rows.values_of(of_rows, groups),
                of_queries,
            }),
        }
    }
}
