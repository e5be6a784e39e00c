//! An engine whose rows come and go.

use std::sync::Arc;

use super::allow::OwnedAllow;
use super::{Neighbor, NeighborLists, Report, Request, RowSet, Search, SearchError, whole_or_none};

/// Training rows that come and go: engines over pieces of them, of which some rows do not count any more.
///
/// The rows that count are numbered from one piece to the next. The results are the same, to the bit, as those of one
/// engine over these rows. It is a value: whoever searches keeps the rows that were there when it was made.
///
/// ```
/// use std::sync::Arc;
///
/// use classify::rows::matrix::CsrBuilder;
/// use classify::search::{Inverted, NeighborLists, Request, Search, Updatable};
/// use classify::threads::Threads;
///
/// let threads = Threads::available()?;
/// let engine = |weights: &[f32]| -> Result<Arc<dyn Search>, Box<dyn std::error::Error>> {
///     let mut rows = CsrBuilder::default();
///     weights.iter().for_each(|&weight| rows.push_row([(0, weight)]));
///     Ok(Arc::new(Inverted::new(Arc::new(rows.build(1)), threads.clone())?))
/// };
/// // Of three rows the second one was removed, and one was added: three are left.
/// let pieces = [(engine(&[0.1, 0.9, 0.3])?, Some([0, 2].into())), (engine(&[0.2])?, None)];
/// let updated = Updatable::new(pieces)?;
/// let mut query = CsrBuilder::default();
/// query.push_row([(0, 1.0)]);
/// let query = query.build(1);
/// let mut found = NeighborLists::default();
/// updated.search(&Request::new(&query, 9.try_into()?), &mut found)?;
/// assert_eq!(found.get(0).iter().map(|neighbor| neighbor.row).collect::<Vec<_>>(), [1, 2, 0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Updatable {
    pieces: Vec<Piece>,
    rows: u32,
}

#[derive(Debug)]
struct Piece {
    engine: Arc<dyn Search>,
    /// The rows that count, if some do not: as a list and as a set.
    kept: Option<(Arc<[u32]>, RowSet)>,
    /// The number of its first row.
    first: u32,
    /// How many of its rows count.
    count: u32,
}

impl Updatable {
    /// An engine over pieces, each with the rows that count in increasing order; `None`: all of them.
    ///
    /// # Errors
    /// If there are too many rows, or a list is not increasing or names a row that is not there.
    pub fn new(
        pieces: impl IntoIterator<Item = (Arc<dyn Search>, Option<Arc<[u32]>>)>,
    ) -> Result<Self, SearchError> {
        let mut all = Vec::new();
        let mut rows = 0usize;
        let limit = u32::MAX - 1;
        for (engine, kept) in pieces {
            let own = engine.rows();
            let valid = |kept: &[u32]| {
                kept.is_sorted_by(|a, b| a < b) && kept.last().is_none_or(|&last| last < own)
            };
            if !kept.as_deref().is_none_or(valid) {
                return Err(SearchError::Shards { rows: own as usize });
            }
            let count = kept.as_ref().map_or(own as usize, |kept| kept.len());
            let too_many = SearchError::TooManyRows { rows: rows + count, limit };
            let first = u32::try_from(rows).map_err(|_| too_many.clone())?;
            rows += count;
            let count = u32::try_from(count).map_err(|_| too_many.clone())?;
            if rows > limit as usize {
                return Err(too_many);
            }
            let kept = kept.filter(|kept| kept.len() < own as usize).map(|kept| {
                let set = RowSet::of(own, &kept);
                (kept, set)
            });
            all.push(Piece { engine, kept, first, count });
        }
        let rows = u32::try_from(rows).map_err(|_| SearchError::TooManyRows { rows, limit })?;
        Ok(Self { pieces: all, rows })
    }

    fn find(
        &self,
        request: &Request<'_>,
        found: &mut NeighborLists,
    ) -> Result<Report, SearchError> {
        let queries = request.rows.rows();
        request.allow.check(queries, self.rows)?;
        let mut fell_back = 0;
        let mut all: Vec<Vec<Neighbor>> = vec![Vec::new(); queries];
        let mut part = NeighborLists::default();
        for piece in &self.pieces {
            fell_back = fell_back.max(piece.search(request, &mut part)?.fell_back);
            for (all, own) in all.iter_mut().zip(part.iter()) {
                let before = all.len();
                let whole = |near: &Neighbor| Neighbor { row: piece.whole(near.row), ..*near };
                all.extend(own.iter().map(whole));
                if before > 0 {
                    all.sort_unstable();
                    all.truncate(request.k.get());
                }
            }
        }
        found.reset(queries, request.k.get().min(self.rows as usize))?;
        let mut places = found.slots();
        for (query, neighbors) in all.iter().enumerate() {
            places.set(query, neighbors);
        }
        // A query is fast if it was fast in every piece.
        let fell_back = fell_back.min(queries as u64);
        Ok(Report { fast: queries as u64 - fell_back, fell_back })
    }
}

impl Piece {
    fn search(
        &self,
        request: &Request<'_>,
        found: &mut NeighborLists,
    ) -> Result<Report, SearchError> {
        if request.allow.is_all() {
            let allow = self.kept.as_ref().map(|(_, set)| request.allow.only(set));
            return self.engine.search(&request.among(allow.unwrap_or(request.allow)), found);
        }
        // The row that follows, of those that count.
        let place = |row: u32| {
            let at = row.saturating_sub(self.first).min(self.count);
            match &self.kept {
                None => at,
                Some((kept, _)) => kept.get(at as usize).copied().unwrap_or(self.engine.rows()),
            }
        };
        let number = |own: u32| match &self.kept {
            None => Some(self.first + own),
            Some((kept, _)) => {
                let at = kept.binary_search(&own).ok()?;
                Some(self.first + u32::try_from(at).ok()?)
            }
        };
        let owned = OwnedAllow::for_kept(&request.allow, self.engine.rows(), number, place);
        self.engine.search(&request.among(owned.view()), found)
    }

    /// The number of a row of the piece that counts.
    fn whole(&self, own: u32) -> u32 {
        self.first
            + match &self.kept {
                None => own,
                Some((kept, _)) => {
                    let at = kept.partition_point(|&row| row < own);
                    u32::try_from(at).expect("row numbers are 32-bit")
                }
            }
    }
}

impl Search for Updatable {
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
