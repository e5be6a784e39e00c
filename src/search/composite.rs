//! An engine composed of other engines, each of which has some of the training rows.

use std::sync::Arc;

use rayon::prelude::*;

use super::allow::PartFilter;
use super::engine::{Search, checked_count, clear_on_failure};
use super::merge::{PartLists, merge};
use super::row_map::{PartRows, RowMap};
use super::scratch::Scratch;
use super::{NeighborLists, Report, Request, SearchError};
use crate::threads::Threads;

/// A component of a [`Composite`]: an engine over some of its training rows.
#[derive(Debug, Clone)]
pub struct Part {
    /// The engine.
    pub engine: Arc<dyn Search>,
    /// The numbers of the engine's rows in the composite.
    pub rows: RowMap,
}

/// An engine over one segment of an updatable collection.
#[derive(Debug, Clone)]
pub struct Segment {
    /// The engine.
    pub engine: Arc<dyn Search>,
    /// The rows that still exist, in increasing order; `None` if no row was removed.
    pub kept: Option<Arc<[u32]>>,
}

/// An engine composed of parts. It returns the same results as a single engine over all rows, bit
/// for bit.
///
/// The parts may be shards of a large collection, segments of an updatable model, or the rows that
/// each of several GPUs holds.
///
/// ```
/// use std::sync::Arc;
///
/// use classify::rows::matrix::CsrBuilder;
/// use classify::search::{Composite, Inverted, NeighborLists, Part, Request, RowMap, Search};
/// use classify::threads::Threads;
///
/// let threads = Threads::available()?;
/// let part = |rows: RowMap, weights: &[f32]| -> Result<Part, Box<dyn std::error::Error>> {
///     let mut matrix = CsrBuilder::default();
///     weights.iter().for_each(|&weight| matrix.push_row([(0, weight)]));
///     let engine = Inverted::new(Arc::new(matrix.build(1)), threads.clone())?;
///     Ok(Part { engine: Arc::new(engine), rows })
/// };
/// // Rows 0, 2 and 3 are in one part, row 1 in the other.
/// let parts = vec![
///     part(RowMap::Rows([0, 2, 3].into()), &[0.1, 0.3, 0.4])?,
///     part(RowMap::From(1), &[0.2])?,
/// ];
/// let engine = Composite::new(parts, threads.clone())?;
/// let mut query = CsrBuilder::default();
/// query.push_row([(0, 1.0)]);
/// let query = query.build(1);
/// let mut found = NeighborLists::default();
/// engine.search(&Request::new(&query, 3.try_into()?), &mut found)?;
/// assert_eq!(found.get(0).iter().map(|neighbor| neighbor.row).collect::<Vec<_>>(), [3, 2, 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Composite {
    engines: Vec<Arc<dyn Search>>,
    /// The row numbers of each engine.
    maps: Vec<PartRows>,
    rows: u32,
    threads: Threads,
    is_concurrent: bool,
    scratch: Scratch<Vec<PartScratch>>,
}

/// The buffers for searching a part.
#[derive(Debug, Default)]
struct PartScratch {
    filter: PartFilter,
    found: NeighborLists,
}

/// Maximum number of neighbors whose memory a composite keeps after a search.
const MAX_KEPT_NEIGHBORS: usize = 1 << 23;

impl Composite {
    /// Creates an engine over the rows of all parts. It searches one part after another, each on
    /// the threads of the part's own engine, and merges the neighbors on `threads`.
    ///
    /// # Errors
    /// If the parts do not contain every row exactly once, or if the row numbers of a part do not
    /// increase.
    pub fn new(parts: Vec<Part>, threads: Threads) -> Result<Self, SearchError> {
        let rows = parts.iter().map(Part::kept_rows).sum::<usize>();
        let count = checked_count(rows)?;
        let mut is_claimed = vec![false; rows];
        let mut claim = |row: u32| {
            let claimed = is_claimed.get_mut(row as usize);
            claimed.is_some_and(|claimed| !std::mem::replace(claimed, true))
        };
        for part in &parts {
            let engine_rows = part.engine.rows();
            let is_valid = match &part.rows {
                RowMap::From(first) => {
                    first.checked_add(engine_rows).is_some_and(|end| (*first..end).all(&mut claim))
                }
                RowMap::Rows(rows) => {
                    rows.len() == engine_rows as usize
                        && rows.is_sorted_by(|a, b| a < b)
                        && rows.iter().copied().all(&mut claim)
                }
                RowMap::Kept { first, kept } => {
                    let end = u32::try_from(kept.len()).ok().and_then(|n| first.checked_add(n));
                    is_increasing_below(kept, engine_rows)
                        && end.is_some_and(|end| (*first..end).all(&mut claim))
                }
            };
            if !is_valid {
                return Err(SearchError::Parts { rows });
            }
        }
        Ok(Self::assemble(parts, count, threads))
    }

    /// Creates an engine over the rows that still exist in the segments, numbered consecutively
    /// across segments.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use classify::rows::matrix::CsrBuilder;
    /// use classify::search::{Composite, Inverted, NeighborLists, Request, Search, Segment};
    /// use classify::threads::Threads;
    ///
    /// let threads = Threads::available()?;
    /// let engine = |weights: &[f32]| -> Result<Arc<dyn Search>, Box<dyn std::error::Error>> {
    ///     let mut rows = CsrBuilder::default();
    ///     weights.iter().for_each(|&weight| rows.push_row([(0, weight)]));
    ///     Ok(Arc::new(Inverted::new(Arc::new(rows.build(1)), threads.clone())?))
    /// };
    /// // The second of three rows was removed, and one row was added: three are left.
    /// let segments = [
    ///     Segment { engine: engine(&[0.1, 0.9, 0.3])?, kept: Some([0, 2].into()) },
    ///     Segment { engine: engine(&[0.2])?, kept: None },
    /// ];
    /// let updated = Composite::of_segments(segments, threads.clone())?;
    /// let mut query = CsrBuilder::default();
    /// query.push_row([(0, 1.0)]);
    /// let query = query.build(1);
    /// let mut found = NeighborLists::default();
    /// updated.search(&Request::new(&query, 9.try_into()?), &mut found)?;
    /// let rows: Vec<u32> = found.get(0).iter().map(|neighbor| neighbor.row).collect();
    /// assert_eq!(rows, [1, 2, 0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If there are too many rows, or if a list of kept rows does not increase or contains a row
    /// beyond its engine's rows.
    pub fn of_segments(
        segments: impl IntoIterator<Item = Segment>,
        threads: Threads,
    ) -> Result<Self, SearchError> {
        let mut parts = Vec::new();
        let mut rows = 0;
        for Segment { engine, kept } in segments {
            let engine_rows = engine.rows();
            if !kept.as_deref().is_none_or(|kept| is_increasing_below(kept, engine_rows)) {
                return Err(SearchError::Parts { rows: engine_rows as usize });
            }
            let first = checked_count(rows)?;
            let rows_of_part = match kept {
                Some(kept) if kept.len() < engine_rows as usize => RowMap::Kept { first, kept },
                _ => RowMap::From(first),
            };
            let part = Part { engine, rows: rows_of_part };
            rows += part.kept_rows();
            parts.push(part);
        }
        Ok(Self::assemble(parts, checked_count(rows)?, threads))
    }

    /// Makes searches run on all parts concurrently, on the threads of the composite. This helps if
    /// engines wait for a GPU or another machine. Use at least as many threads as there are parts.
    #[must_use]
    pub fn concurrently(self) -> Self {
        Self { is_concurrent: true, ..self }
    }

    fn assemble(parts: Vec<Part>, rows: u32, threads: Threads) -> Self {
        let map = |part: &Part| PartRows::new(part.rows.clone(), part.engine.rows());
        let maps = parts.iter().map(map).collect();
        let engines = parts.into_iter().map(|part| part.engine).collect();
        let scratch = Scratch::default();
        Self { engines, maps, rows, threads, is_concurrent: false, scratch }
    }

    fn find(
        &self,
        request: &Request<'_>,
        found: &mut NeighborLists,
    ) -> Result<Report, SearchError> {
        let queries = request.rows.rows();
        request.allow.check(queries, self.rows)?;
        request.stop.check()?;
        let mut scratch = self.scratch.take();
        scratch.resize_with(self.engines.len(), PartScratch::default);
        self.search_parts(request, &mut scratch)?;
        let lists = self.maps.iter().zip(scratch.iter());
        let lists: Vec<PartLists<'_>> = lists
            .map(|(rows, PartScratch { found, .. })| PartLists { lists: found, rows: &rows.map })
            .collect();
        found.reset(queries, request.k.get().min(self.rows as usize))?;
        merge(&lists, &self.threads, found.slots());
        drop(lists);
        if scratch.iter().map(|part| part.found.capacity()).sum::<usize>() > MAX_KEPT_NEIGHBORS {
            scratch.clear();
        }
        Ok(found.report())
    }

    fn search_parts(
        &self,
        request: &Request<'_>,
        scratch: &mut [PartScratch],
    ) -> Result<(), SearchError> {
        let search = |part: usize, scratch: &mut PartScratch| {
            let PartScratch { filter, found } = scratch;
            let allow = filter.translate(request.allow, &self.maps[part]);
            self.engines[part].search(&request.among(allow), found).map(|_| ())
        };
        if self.is_concurrent && self.engines.len() > 1 {
            let parts = scratch.par_iter_mut().with_max_len(1).enumerate();
            self.threads.run(|| parts.try_for_each(|(part, scratch)| search(part, scratch)))
        } else {
            let mut parts = scratch.iter_mut().enumerate();
            parts.try_for_each(|(part, scratch)| search(part, scratch))
        }
    }
}

impl Part {
    /// The number of rows that still exist.
    fn kept_rows(&self) -> usize {
        match &self.rows {
            RowMap::From(_) | RowMap::Rows(_) => self.engine.rows() as usize,
            RowMap::Kept { kept, .. } => kept.len(),
        }
    }
}

/// Whether a list contains only rows below `count`, in increasing order.
fn is_increasing_below(list: &[u32], count: u32) -> bool {
    list.is_sorted_by(|a, b| a < b) && list.last().is_none_or(|&last| last < count)
}

impl Search for Composite {
    fn rows(&self) -> u32 {
        self.rows
    }

    fn search(
        &self,
        request: &Request<'_>,
        found: &mut NeighborLists,
    ) -> Result<Report, SearchError> {
        let outcome = self.find(request, found);
        clear_on_failure(outcome, found)
    }
}
