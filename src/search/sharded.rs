//! One engine made of several, each over a part of the training rows.

use std::panic::resume_unwind;
use std::sync::Arc;

use super::allow::OwnedAllow;
use super::{Neighbor, NeighborLists, Report, Request, Search, SearchError, whole_or_none};

/// Which rows of the whole a shard holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowMap {
    /// Consecutive rows: row `i` of the shard is row `first + i` of the whole.
    From(u32),
    /// Row `i` of the shard is row `rows[i]` of the whole; the numbers are increasing.
    Rows(Arc<[u32]>),
}

impl RowMap {
    /// The row of the whole.
    fn whole(&self, row: u32) -> u32 {
        match self {
            Self::From(first) => first + row,
            Self::Rows(rows) => rows[row as usize],
        }
    }

    /// How many rows of a shard with `count` rows come before a row of the whole.
    fn below(&self, row: u32, count: u32) -> u32 {
        match self {
            Self::From(first) => row.saturating_sub(*first).min(count),
            Self::Rows(rows) => {
                u32::try_from(rows.partition_point(|&own| own < row)).unwrap_or(count)
            }
        }
    }
}

/// Training rows spread over several engines. The results are the same, to the bit, as those of one
/// engine over all rows.
///
/// ```
/// use std::sync::Arc;
///
/// use classify::rows::matrix::CsrBuilder;
/// use classify::search::{Inverted, NeighborLists, Request, RowMap, Search, Sharded};
/// use classify::threads::Threads;
///
/// let threads = Threads::available()?;
/// let part = |weights: &[f32]| -> Result<Arc<dyn Search>, Box<dyn std::error::Error>> {
///     let mut rows = CsrBuilder::default();
///     weights.iter().for_each(|&weight| rows.push_row([(0, weight)]));
///     Ok(Arc::new(Inverted::new(Arc::new(rows.build(1)), threads.clone())?))
/// };
/// // Rows 0, 2 and 3 are in one shard, row 1 in the other.
/// let shards = vec![
///     (RowMap::Rows([0, 2, 3].into()), part(&[0.1, 0.3, 0.4])?),
///     (RowMap::Rows([1].into()), part(&[0.2])?),
/// ];
/// let engine = Sharded::new(shards)?;
/// let mut query = CsrBuilder::default();
/// query.push_row([(0, 1.0)]);
/// let query = query.build(1);
/// let mut found = NeighborLists::default();
/// engine.search(&Request::new(&query, 3.try_into()?), &mut found)?;
/// assert_eq!(found.get(0).iter().map(|neighbor| neighbor.row).collect::<Vec<_>>(), [3, 2, 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Sharded {
    shards: Vec<(RowMap, Arc<dyn Search>)>,
    rows: u32,
}

impl Sharded {
    /// An engine over the rows of all shards.
    ///
    /// # Errors
    /// If the shards do not hold every row once, each in increasing order.
    pub fn new(shards: Vec<(RowMap, Arc<dyn Search>)>) -> Result<Self, SearchError> {
        let rows = shards.iter().map(|(_, shard)| shard.rows() as usize).sum::<usize>();
        let limit = u32::MAX - 1;
        let count = u32::try_from(rows).ok().filter(|&count| count <= limit);
        let count = count.ok_or(SearchError::TooManyRows { rows, limit })?;
        let mut held = vec![false; rows];
        for (map, shard) in &shards {
            let own = shard.rows();
            let fits = match map {
                RowMap::From(first) => first.checked_add(own).is_some(),
                RowMap::Rows(numbers) => {
                    numbers.len() == own as usize && numbers.is_sorted_by(|a, b| a < b)
                }
            };
            let claim =
                |row| held.get_mut(row as usize).is_some_and(|held| !std::mem::replace(held, true));
            if !fits || !(0..own).map(|row| map.whole(row)).all(claim) {
                return Err(SearchError::Shards { rows });
            }
        }
        Ok(Self { shards, rows: count })
    }

    fn find(
        &self,
        request: &Request<'_>,
        found: &mut NeighborLists,
    ) -> Result<Report, SearchError> {
        let queries = request.rows.rows();
        request.allow.check(queries, self.rows)?;
        let of_shard = |map: &RowMap, shard: &Arc<dyn Search>| {
            let count = shard.rows();
            let place = |row| map.below(row, count);
            let owned = OwnedAllow::for_part(&request.allow, count, |row| map.whole(row), place);
            let mut part = NeighborLists::default();
            let report = shard.search(&request.among(owned.view()), &mut part)?;
            Ok::<_, SearchError>((report, part))
        };
        // Each on a thread of its own: shards may be on different machines or GPUs.
        let parts = std::thread::scope(|scope| {
            let of_shard = &of_shard;
            let searching: Vec<_> = self
                .shards
                .iter()
                .map(|(map, shard)| scope.spawn(move || of_shard(map, shard)))
                .collect();
            let found = searching
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
            found.collect::<Vec<_>>()
        });
        let mut report = Report::default();
        let mut all: Vec<Vec<Neighbor>> = vec![Vec::new(); queries];
        for ((map, _), part) in self.shards.iter().zip(parts) {
            let (of_part, part) = part?;
            report += of_part;
            for (all, own) in all.iter_mut().zip(part.iter()) {
                let whole = |near: &Neighbor| Neighbor { row: map.whole(near.row), ..*near };
                all.extend(own.iter().map(whole));
                all.sort_unstable();
                all.truncate(request.k.get());
            }
        }
        found.reset(queries, request.k.get().min(self.rows as usize))?;
        let mut places = found.slots();
        for (query, neighbors) in all.iter().enumerate() {
            places.set(query, neighbors);
        }
        // A query is fast if it was fast in every shard.
        let fell_back = report.fell_back.min(queries as u64);
        Ok(Report { fast: queries as u64 - fell_back, fell_back })
    }
}

impl Search for Sharded {
    fn rows(&self) -> u32 {
        self.rows
    }

    fn search(
        &self,
        request: &Request<'_>,
        found: &mut NeighborLists,
    ) -> Result<Report, SearchError> {
        let outcome = self.find(request, found);
        whole_or_none(outcome, found)
    }
}
