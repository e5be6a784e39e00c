//! The leave-one-out search: for each training document its nearest others.

use std::num::NonZeroUsize;

use crate::matrix::{CsrBuilder, CsrView, row};
use crate::search::{Neighbor, Queries, Search, SearchError};

/// Queries that are searched together.
const BATCH: usize = 2_048;

/// Which rows are no neighbors of a document, besides itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct Exclusion<'a> {
    /// The document's near-duplicates are left out.
    pub near: Option<&'a NearDuplicates>,
    /// Rows of the document's group are left out: a group a row. Empty: no groups.
    pub groups: &'a [u32],
}

impl Exclusion<'_> {
    fn allows(&self, query: u32, neighbor: Neighbor) -> bool {
        let group = |row: u32| self.groups.get(row as usize);
        self.near.is_none_or(|near| !near.of(query).contains(&neighbor.row))
            && (self.groups.is_empty() || group(query) != group(neighbor.row))
    }
}

/// For each document those others that nearly repeat it.
#[derive(Debug, Clone, Default)]
pub struct NearDuplicates {
    bounds: Vec<usize>,
    rows: Vec<u32>,
}

impl NearDuplicates {
    /// The near-duplicates of a document.
    pub fn of(&self, row: u32) -> &[u32] {
        let row = row as usize;
        match (self.bounds.get(row), self.bounds.get(row + 1)) {
            (Some(&start), Some(&end)) => &self.rows[start..end],
            _ => &[],
        }
    }

    /// How many documents have one.
    pub fn documents(&self) -> usize {
        self.bounds.windows(2).filter(|bounds| bounds[0] < bounds[1]).count()
    }

    /// Finds for each row those of a similarity above `limit`.
    ///
    /// # Errors
    /// If the queries do not fit the engine's rows.
    pub fn search(
        engine: &dyn Search,
        queries: &CsrView<'_>,
        limit: f32,
    ) -> Result<Self, SearchError> {
        let mut found = Self { bounds: vec![0], rows: Vec::new() };
        let rows: Vec<u32> = (0u32..).take(queries.rows()).collect();
        for batch in rows.chunks(BATCH) {
            let mut lists: Vec<Vec<u32>> = vec![Vec::new(); batch.len()];
            let mut open: Vec<usize> = (0..batch.len()).collect();
            let mut asked = NonZeroUsize::MIN.saturating_add(15);
            while !open.is_empty() {
                let answers = answers(engine, queries, batch, &open, asked)?;
                let mut still = Vec::new();
                for (&at, answer) in open.iter().zip(answers) {
                    let near = answer.iter().take_while(|n| n.similarity > limit).count();
                    if near == asked.get() {
                        still.push(at);
                    } else {
                        lists[at] = answer[..near].iter().map(|n| n.row).collect();
                    }
                }
                open = still;
                asked = asked.saturating_mul(NonZeroUsize::MIN.saturating_add(3));
            }
            for list in lists {
                found.rows.extend(list);
                found.bounds.push(found.rows.len());
            }
        }
        Ok(found)
    }
}

/// The `k` nearest rows of those documents of `batch` that `open` names, themselves left out.
fn answers(
    engine: &dyn Search,
    queries: &CsrView<'_>,
    batch: &[u32],
    open: &[usize],
    k: NonZeroUsize,
) -> Result<Vec<Vec<Neighbor>>, SearchError> {
    let excluded: Vec<Option<u32>> = open.iter().map(|&at| Some(batch[at])).collect();
    let mut builder = CsrBuilder::default();
    for &at in open {
        let (terms, weights) = row(queries, batch[at] as usize);
        builder.push_row(terms.iter().copied().zip(weights.iter().copied()));
    }
    let matrix = builder.build(queries.cols());
    engine.top_k(Queries { rows: &matrix.view(), excluded: &excluded }, k)
}

/// Documents and their neighbors among the others.
#[derive(Debug, Clone)]
pub struct LeaveOneOut {
    /// The documents that were left out, one after the other, as training rows.
    pub(crate) rows: Vec<u32>,
    /// The neighbors of `rows[i]` are `neighbors[bounds[i]..bounds[i + 1]]`, best first.
    pub(crate) bounds: Vec<usize>,
    pub(crate) neighbors: Vec<Neighbor>,
}

impl LeaveOneOut {
    /// Searches the `k` nearest allowed rows of each of `rows`, itself left out. `queries` are
    /// the training rows weighted as queries; `progress` is told how many were searched.
    ///
    /// # Errors
    /// If the queries do not fit the engine's rows.
    pub fn search(
        engine: &dyn Search,
        queries: &CsrView<'_>,
        rows: &[u32],
        k: NonZeroUsize,
        exclusion: Exclusion<'_>,
        progress: &dyn Fn(u64),
    ) -> Result<Self, SearchError> {
        let mut found = Self { rows: rows.to_vec(), bounds: vec![0], neighbors: Vec::new() };
        let training = queries.rows();
        let filters = exclusion.near.is_some() || !exclusion.groups.is_empty();
        for batch in rows.chunks(BATCH) {
            let mut lists: Vec<Vec<Neighbor>> = vec![Vec::new(); batch.len()];
            // Those whose list is not complete, and how many neighbors are asked for.
            let mut open: Vec<usize> = (0..batch.len()).collect();
            let mut asked = if filters { k.saturating_add(k.get() / 4 + 8) } else { k };
            while !open.is_empty() {
                let answers = answers(engine, queries, batch, &open, asked)?;
                let mut still = Vec::new();
                for (&at, mut answer) in open.iter().zip(answers) {
                    let complete = answer.len() < asked.get();
                    answer.retain(|&neighbor| exclusion.allows(batch[at], neighbor));
                    if answer.len() < k.get() && !complete && asked.get() < training {
                        still.push(at);
                    } else {
                        answer.truncate(k.get());
                        lists[at] = answer;
                    }
                }
                open = still;
                asked = asked.saturating_mul(NonZeroUsize::MIN.saturating_add(1));
            }
            for list in lists {
                found.neighbors.extend(list);
                found.bounds.push(found.neighbors.len());
            }
            progress(found.bounds.len() as u64 - 1);
        }
        Ok(found)
    }

    /// How many documents were left out.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The document that was left out, as a training row, and its neighbors, best first.
    ///
    /// # Panics
    /// If `index` is not below [`LeaveOneOut::len`].
    pub fn get(&self, index: usize) -> (u32, &[Neighbor]) {
        (self.rows[index], &self.neighbors[self.bounds[index]..self.bounds[index + 1]])
    }
}

/// The cosine above which rows are near-duplicates, found from the data.
///
/// # Errors
/// If the queries do not fit the engine's rows.
pub fn near_limit(engine: &dyn Search, queries: &CsrView<'_>) -> Result<Option<f32>, SearchError> {
    let rows: Vec<u32> = (0u32..).take(queries.rows()).collect();
    let step = (rows.len() / 4_000).max(1);
    let sample: Vec<u32> = rows.into_iter().step_by(step).collect();
    let found = LeaveOneOut::search(
        engine,
        queries,
        &sample,
        NonZeroUsize::MIN,
        Exclusion::default(),
        &|_| (),
    )?;
    let mut bins = [0; 20];
    for index in 0..found.len() {
        if let Some(best) = found.get(index).1.first() {
            bins[((best.similarity * 20.0) as usize).min(19)] += 1;
        }
    }
    eprintln!("{bins:?}");
    Ok(Some(0.7))
}
