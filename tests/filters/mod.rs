//! Filters of every kind, for the tests of engines.

use classify::search::{Allow, RowLists, RowRange, RowSet};

/// Filters of every kind that apply to none, some or all of the queries.
pub(crate) struct Filters {
    only: RowSet,
    ranges: Vec<RowRange>,
    bounds: Vec<usize>,
    listed: Vec<u32>,
    of_rows: Vec<u32>,
    of_queries: Vec<u32>,
}

impl Filters {
    pub(crate) fn new(rows: usize, queries: usize) -> Self {
        let rows = u32::try_from(rows).unwrap();
        let queries = u32::try_from(queries).unwrap();
        let mut bounds = vec![0];
        let mut listed = Vec::new();
        for query in 0..queries {
            let step = 3 + (query % 7) as usize;
            listed.extend((query % 5..rows).step_by(step).take(500));
            bounds.push(listed.len());
        }
        Self {
            only: RowSet::from_fn(rows, |row| row % 4 != 2),
            ranges: (0..queries).map(|query| RowRange::around(query, query % 3 * 9)).collect(),
            bounds,
            listed,
            of_rows: (0..rows).map(|row| row % 3).collect(),
            of_queries: (0..queries).map(|query| query % 4).collect(),
        }
    }

    pub(crate) fn all(&self) -> [Allow<'_>; 6] {
        let all = Allow::all();
        let lists = RowLists::new(&self.bounds, &self.listed);
        [
            all,
            all.only(&self.only),
            all.except_range(&self.ranges),
            all.except_listed(lists),
            all.except_group(&self.of_rows, &self.of_queries),
            all.only(&self.only)
                .except_range(&self.ranges)
                .except_listed(lists)
                .except_group(&self.of_rows, &self.of_queries),
        ]
    }
}
