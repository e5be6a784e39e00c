//! The leave-one-out search: for each training document its nearest others.

use std::num::NonZeroUsize;

use crate::matrix::{CsrBuilder, CsrView, row};
use crate::search::{Neighbor, Queries, Search, SearchError};
use crate::vote::Electorate;

/// Queries that are searched together.
const BATCH: usize = 2_048;

/// Which rows are no neighbors of a document, besides itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct Exclusion<'a> {
    /// The document's near-duplicates are left out.
    pub near: Option<&'a NearDuplicates>,
    /// Rows of the document's group are left out: a group a row. Empty: no groups.
    pub groups: &'a [u32],
    /// So many rows before and after the document are left out: in a corpus in order of time they
    /// are of its own days, as no training document is of a later test document's.
    pub window: u32,
}

impl Exclusion<'_> {
    fn allows(&self, query: u32, neighbor: Neighbor) -> bool {
        let group = |row: u32| self.groups.get(row as usize);
        self.near.is_none_or(|near| !near.of(query).contains(&neighbor.row))
            && (self.groups.is_empty() || group(query) != group(neighbor.row))
            && (self.window == 0 || query.abs_diff(neighbor.row) > self.window)
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

impl Default for LeaveOneOut {
    fn default() -> Self {
        Self { rows: Vec::new(), bounds: vec![0], neighbors: Vec::new() }
    }
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
        let filters =
            exclusion.near.is_some() || !exclusion.groups.is_empty() || exclusion.window > 0;
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

    /// Adds the documents of another search.
    pub(crate) fn append(&mut self, other: Self) {
        let start = self.neighbors.len();
        self.rows.extend(other.rows);
        self.neighbors.extend(other.neighbors);
        self.bounds.extend(other.bounds[1..].iter().map(|bound| start + bound));
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

/// How many rows before and after a document are left out when settings are compared, found from
/// the data: a sixteenth of the corpus, or none where labels stand together.
///
/// In a corpus in order of time, documents near each other are of the same events: leave-one-out
/// then prefers few and close neighbors, which later documents do not have. Where the order is by
/// chance, nothing is lost by leaving an eighth out. But where documents of a label stand
/// together, as in a corpus sorted by label or by name, the window would take the label away: there is
/// none if more than a quarter of the documents of a document's labels are inside, in the mean.
pub fn window(among: &Electorate<'_>) -> u32 {
    let rows = u32::try_from(among.weights.len()).unwrap_or(u32::MAX);
    let reach = rows / 16;
    let mut of_label: Vec<Vec<u32>> = vec![Vec::new(); among.sizes.len()];
    for row in 0..rows {
        for &label in among.labels(row) {
            of_label[label as usize].push(row);
        }
    }
    let (mut inside, mut all) = (0u64, 0u64);
    for rows in &of_label {
        for &row in rows {
            let start = rows.partition_point(|&other| other < row.saturating_sub(reach));
            let end = rows.partition_point(|&other| other <= row.saturating_add(reach));
            inside += (end - start) as u64;
            all += rows.len() as u64;
        }
    }
    if all > 0 && inside * 4 <= all { reach } else { 0 }
}

/// The cosine above which documents are near-duplicates, found from the data; `None`: the data
/// show none.
///
/// Documents have their best neighbors around one cosine; where near-duplicates are many, the
/// cosines of best neighbors pile up at 1 too. The limit is the rarest cosine between the two:
/// the lowest point of the histogram (twentieths, smoothed over three) after its peak, if the
/// histogram rises after it to twice that.
///
/// # Errors
/// If the queries do not fit the engine's rows.
pub fn near_limit(engine: &dyn Search, queries: &CsrView<'_>) -> Result<Option<f32>, SearchError> {
    let rows: Vec<u32> = (0u32..).take(queries.rows()).collect();
    let step = (rows.len() / 4_000).max(1);
    let sample: Vec<u32> = rows.into_iter().step_by(step).collect();
    let one = NonZeroUsize::MIN;
    let found = LeaveOneOut::search(engine, queries, &sample, one, Exclusion::default(), &|_| ())?;
    let best = (0..found.len()).filter_map(|index| found.get(index).1.first());
    Ok(valley(best.map(|neighbor| neighbor.similarity)))
}

/// Bins of the histogram of best cosines.
const BINS: u16 = 20;

fn valley(best: impl Iterator<Item = f32>) -> Option<f32> {
    let bins = usize::from(BINS);
    let mut histogram = vec![0u32; bins];
    for similarity in best {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cosine")]
        let bin = (similarity * f32::from(BINS)) as usize;
        histogram[bin.min(bins - 1)] += 1;
    }
    // The mean of a bin and its neighbors; the last bin, where equal documents are, is itself.
    let smooth = |bin: usize| {
        let around = &histogram[bin.saturating_sub(1)..(bin + 2).min(bins - 1)];
        f64::from(around.iter().sum::<u32>()) / around.len() as f64
    };
    let peak = (0..bins - 1).max_by(|&a, &b| smooth(a).total_cmp(&smooth(b)).then(b.cmp(&a)))?;
    // Where near-duplicates outnumber the rest, the peak itself is theirs.
    let peak = if peak > bins * 3 / 4 {
        (0..bins / 2).max_by(|&a, &b| smooth(a).total_cmp(&smooth(b)).then(b.cmp(&a)))?
    } else {
        peak
    };
    let lowest = (peak + 1..bins - 1).min_by(|&a, &b| smooth(a).total_cmp(&smooth(b)))?;
    let after = (lowest + 1..bins - 1).map(smooth).fold(f64::from(histogram[bins - 1]), f64::max);
    let few = smooth(lowest).max(1.0);
    (after >= 2.0 * few).then(|| (lowest as f32 + 0.5) / f32::from(BINS))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(histogram: [u32; 20]) -> Option<f32> {
        let bins = (0u16..).zip(histogram);
        valley(bins.flat_map(|(bin, count)| {
            std::iter::repeat_n((f32::from(bin) + 0.5) / 20.0, count as usize)
        }))
    }

    #[test]
    fn limits_lie_between_the_two_peaks() {
        let two = [0, 2, 9, 37, 59, 59, 54, 37, 27, 25, 20, 23, 22, 21, 30, 26, 37, 51, 90, 210];
        assert_eq!(limit(two), Some(0.575));
        let few = [
            0, 22, 414, 1087, 896, 811, 736, 673, 589, 441, 394, 325, 257, 217, 176, 117, 83, 95,
            93, 344,
        ];
        assert_eq!(limit(few), Some(0.875));
        let none = [0, 2, 9, 37, 59, 59, 54, 37, 27, 25, 20, 13, 10, 8, 5, 3, 2, 1, 1, 1];
        assert_eq!(limit(none), None);
        assert_eq!(limit([0; 20]), None);
    }
}
