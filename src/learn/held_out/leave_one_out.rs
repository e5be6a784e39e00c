//! The leave-one-out search: the nearest other documents of each training document.

use std::num::NonZeroUsize;
use std::sync::Arc;

use crate::decide::vote::{TrainingLabels, Voters};
use crate::search::{
    Allow, Neighbor, NeighborLists, QueryRows, Request, RowLists, RowRange, SearchError,
};
use crate::threads;

use super::FOLDS;
use super::SearchableRows;
use super::folds::{clusters, folds};
use super::near_duplicates::{Exclusion, NearDuplicates};

/// Maximum number of queries that are searched together.
const MAX_BATCH: usize = 2_048;
/// Maximum number of neighbors per batch. A very large k can exceed it.
const MAX_NEIGHBORS: usize = 1 << 22;

/// Returns the number of queries that are searched together for `k` neighbors each.
fn batch_size(k: NonZeroUsize) -> usize {
    (MAX_NEIGHBORS / k).clamp(16, MAX_BATCH)
}

/// For each of `rows`, finds the other rows with a similarity above `limit`. `rows` must be
/// increasing. Rows that are not in `rows` get no near-duplicates.
///
/// # Errors
/// Fails if the queries do not match the engine's rows.
pub(crate) fn near_duplicates(
    view: SearchableRows<'_>,
    rows: &[u32],
    limit: f32,
) -> Result<NearDuplicates, SearchError> {
    let mut found = NearDuplicates { bounds: Vec::new(), rows: Vec::new() };
    let mut lists = NeighborLists::default();
    for batch in rows.chunks(MAX_BATCH) {
        let mut near: Vec<Vec<u32>> = vec![Vec::new(); batch.len()];
        let mut open: Vec<usize> = (0..batch.len()).collect();
        let mut k = NonZeroUsize::MIN.saturating_add(15);
        while !open.is_empty() {
            let mut incomplete = Vec::new();
            for open in open.chunks(batch_size(k)) {
                let queries: Vec<u32> = open.iter().map(|&index| batch[index]).collect();
                search_others(view, &queries, k, Exclusion::default(), &mut lists)?;
                for (&index, list) in open.iter().zip(lists.iter()) {
                    let above = list.iter().take_while(|n| n.similarity > limit).count();
                    if above == k.get() {
                        incomplete.push(index);
                    } else {
                        near[index] = list[..above].iter().map(|n| n.row).collect();
                        near[index].sort_unstable();
                    }
                }
            }
            open = incomplete;
            k = k.saturating_mul(NonZeroUsize::MIN.saturating_add(3));
        }
        for (&row, list) in batch.iter().zip(near) {
            found.bounds.resize(row as usize + 1, found.rows.len());
            found.rows.extend(list);
        }
    }
    found.bounds.resize(view.queries.rows() + 1, found.rows.len());
    Ok(found)
}

/// Finds the `k` nearest rows of each document, without the document itself and the excluded rows.
fn search_others(
    view: SearchableRows<'_>,
    documents: &[u32],
    k: NonZeroUsize,
    exclusion: Exclusion<'_>,
    found: &mut NeighborLists,
) -> Result<(), SearchError> {
    let around: Vec<RowRange> =
        documents.iter().map(|&row| RowRange::around(row, exclusion.window)).collect();
    let mut bounds = vec![0];
    let mut listed = Vec::new();
    let mut groups = Vec::new();
    for &document in documents {
        if let Some(near) = exclusion.near {
            listed.extend_from_slice(near.of(document));
            bounds.push(listed.len());
        }
        groups.extend(exclusion.groups.get(document as usize));
    }
    let mut allow = Allow::all().except_range(&around);
    if exclusion.near.is_some() {
        allow = allow.except_listed(RowLists::new(&bounds, &listed));
    }
    if !exclusion.groups.is_empty() {
        allow = allow.except_group(exclusion.groups, &groups);
    }
    if let Some(only) = exclusion.only {
        allow = allow.only(only);
    }
    let rows = view.queries.select(documents);
    let _ = view.engine.search(&Request::new(rows.view(), k).among(allow), found)?;
    Ok(())
}

/// The neighbor lists of many documents, concatenated.
#[derive(Debug, Clone)]
pub(crate) struct Lists {
    /// The neighbors of document `i` are `neighbors[bounds[i]..bounds[i + 1]]`, best first.
    pub(crate) bounds: Vec<usize>,
    pub(crate) neighbors: Vec<Neighbor>,
}

impl Default for Lists {
    fn default() -> Self {
        Self { bounds: vec![0], neighbors: Vec::new() }
    }
}

impl Lists {
    fn get(&self, index: usize) -> &[Neighbor] {
        match (self.bounds.get(index), self.bounds.get(index + 1)) {
            (Some(&start), Some(&end)) => &self.neighbors[start..end],
            _ => &[],
        }
    }

    fn append(&mut self, other: &Self) {
        let start = self.neighbors.len();
        // There are few appends, and the lists are large.
        self.neighbors.reserve_exact(other.neighbors.len());
        self.neighbors.extend_from_slice(&other.neighbors);
        self.bounds.extend(other.bounds[1..].iter().map(|bound| start + bound));
    }

    /// Drops all but the first `k` neighbors of each document.
    fn truncate(&mut self, k: usize) {
        let mut end = 0;
        let mut start = 0;
        for bound in &mut self.bounds[1..] {
            let kept = start..(*bound).min(start + k);
            start = *bound;
            self.neighbors.copy_within(kept.clone(), end);
            end += kept.len();
            *bound = end;
        }
        self.neighbors.truncate(end);
        self.neighbors.shrink_to_fit();
    }
}

/// Held-out documents and their neighbors among the other documents: by terms, by dense vectors, or
/// both.
#[derive(Debug, Clone, Default)]
pub(crate) struct LeaveOneOut {
    /// The documents that were held out, one at a time, as row numbers.
    pub(crate) rows: Vec<u32>,
    pub(crate) terms: Lists,
    pub(crate) vectors: Lists,
    /// The share of the votes that goes to neighbors found by dense vectors.
    pub(crate) dense_share: f64,
    /// The cluster of each training document. The documents of a cluster are in the same fold.
    pub(crate) clusters: Arc<[u64]>,
    /// Index in `rows` from which documents are held out for the second time.
    pub(crate) second_round_start: Option<usize>,
}

impl LeaveOneOut {
    /// Finds the `k` nearest allowed rows of each of `rows`, without the row itself. Calls
    /// `progress` with the number of rows searched so far.
    ///
    /// # Errors
    /// Fails if the queries do not match the engine's rows.
    pub(crate) fn search(
        view: SearchableRows<'_>,
        rows: &[u32],
        k: NonZeroUsize,
        exclusion: Exclusion<'_>,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Self, SearchError> {
        let row_count = view.queries.rows();
        let mut found = Lists::default();
        // A document has at most as many neighbors as there are other documents.
        let others = NonZeroUsize::new(row_count.saturating_sub(1));
        let k = k.min(others.unwrap_or(NonZeroUsize::MIN));
        let mut lists = NeighborLists::default();
        for batch in rows.chunks(batch_size(k)) {
            search_others(view, batch, k, exclusion, &mut lists)?;
            for list in lists.iter() {
                found.neighbors.extend_from_slice(list);
                found.bounds.push(found.neighbors.len());
            }
            progress(found.bounds.len() as u64 - 1);
        }
        found.neighbors.shrink_to_fit();
        let rows = rows.to_vec();
        let clusters = clusters(exclusion, row_count).into();
        let found = match view.queries {
            QueryRows::Sparse(_) => Self { rows, terms: found, ..Self::default() },
            QueryRows::Dense(_) => {
                Self { rows, vectors: found, dense_share: 1.0, ..Self::default() }
            }
        };
        Ok(Self { clusters, ..found })
    }

    /// Combines two searches for the same documents, by terms and by dense vectors. `dense_share`
    /// is the share of the votes that goes to neighbors found by dense vectors.
    ///
    /// # Panics
    /// Panics if the searches held out different documents.
    #[must_use]
    pub(crate) fn combined(terms: Self, vectors: Self, dense_share: f64) -> Self {
        assert_eq!(terms.rows, vectors.rows, "both searches hold out the same documents");
        Self { dense_share, vectors: vectors.vectors, ..terms }
    }

    /// Sets the share of the votes that goes to neighbors found by dense vectors.
    #[must_use]
    pub(crate) fn with_dense_share(self, dense_share: f64) -> Self {
        Self { dense_share, ..self }
    }

    /// Drops all but the `k` nearest neighbors of each document, by terms and by dense vectors.
    pub(crate) fn truncate(&mut self, k: usize) {
        self.terms.truncate(k);
        self.vectors.truncate(k);
    }

    /// Appends the documents of another search.
    pub(crate) fn append(&mut self, other: &Self) {
        self.rows.extend_from_slice(&other.rows);
        self.terms.append(&other.terms);
        self.vectors.append(&other.vectors);
        self.dense_share = other.dense_share;
        self.clusters = Arc::clone(&other.clusters);
    }

    /// Returns the documents that were held out, as row numbers.
    pub(crate) fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// Appends another search whose documents are held out for the second time. They get the folds
    /// of this search.
    #[must_use]
    pub(crate) fn with_second_round(mut self, other: &Self) -> Self {
        let clusters = Arc::clone(&self.clusters);
        let dense_share = self.dense_share;
        let second_round_start = Some(self.len());
        self.append(other);
        Self { dense_share, clusters, second_round_start, ..self }
    }

    /// Returns the fold of each training document, below [`FOLDS`].
    pub(crate) fn folds(&self, among: &TrainingLabels<'_>) -> Vec<u8> {
        self.parts_of_folds(among, 1)
    }

    /// Returns the part of each training document, with each fold divided into `parts`. Part p of
    /// fold f has the number f + p · [`FOLDS`].
    pub(crate) fn parts_of_folds(&self, among: &TrainingLabels<'_>, parts: usize) -> Vec<u8> {
        folds(among, &self.clusters, FOLDS * parts)
    }

    /// Divides each fold into `parts` parts by cluster. `folds` holds the fold of each document.
    /// Parts are numbered as in [`parts_of_folds`](Self::parts_of_folds).
    pub(crate) fn parts_within(&self, folds: &[u8], parts: usize) -> Vec<u8> {
        let part = |row: usize| self.clusters.get(row).map_or(0, |cluster| cluster % parts as u64);
        let number = |row: usize, fold: u8| u64::from(fold) + FOLDS as u64 * part(row);
        let folds = folds.iter().enumerate();
        folds
            .map(|(row, &fold)| {
                u8::try_from(number(row, fold)).expect("part numbers are below 256")
            })
            .collect()
    }

    /// Returns the number of documents that were held out.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns the length of the longest list of neighbors.
    pub(crate) fn longest(&self) -> usize {
        (0..self.len()).map(|index| self.get(index).1.len()).max().unwrap_or(0)
    }

    /// Returns a held-out document, as a row number, and its neighbors.
    ///
    /// # Panics
    /// Panics if `index` is not below [`LeaveOneOut::len`].
    pub(crate) fn get(&self, index: usize) -> (u32, Voters<'_>) {
        let terms = self.terms.get(index);
        let vectors = self.vectors.get(index);
        (self.rows[index], Voters::both(terms, vectors, self.dense_share))
    }
}

/// Returns the number of rows on each side of a held-out document to exclude when settings are
/// compared. It is a sixteenth of the corpus if the corpus is in chronological order, and 0
/// otherwise.
///
/// In a chronological corpus, adjacent documents report the same events. Leave-one-out then prefers
/// few, close neighbors, which later documents do not have. `nearest`, the neighbors of a sample of
/// documents, shows whether a corpus is chronological. For each document, the nearest neighbor that
/// shares a label is compared with a random document that shares a label. The neighbor must lie
/// within a sixteenth of the corpus more than 1.5 times as often as the random document. The
/// difference must also exceed four standard deviations. The order of labels does not matter: in a
/// corpus sorted by label, the random document is within that distance just as often.
///
/// The window is 0 if, on average, it contains more than a quarter of the documents with a
/// document's labels. Excluding such a window would remove too many documents of a label.
pub(crate) fn chronological_window(among: &TrainingLabels<'_>, nearest: &LeaveOneOut) -> u32 {
    let rows = u32::try_from(among.weights.len()).unwrap_or(u32::MAX);
    let reach = window_size(among.weights.len());
    let mut rows_by_label: Vec<Vec<u32>> =
        among.sizes.iter().map(|&size| Vec::with_capacity(size as usize)).collect();
    for row in 0..rows {
        for &label in among.labels(row) {
            rows_by_label[label as usize].push(row);
        }
    }
    let mut nearby = 0;
    let mut all = 0;
    let within = threads::map(&rows_by_label, |rows| pairs_within(rows, reach));
    for (rows, within) in rows_by_label.iter().zip(within) {
        nearby += within;
        all += (rows.len() * rows.len().saturating_sub(1)) as u64;
    }
    if all == 0 || nearby * 4 > all {
        return 0;
    }
    // Returns the numbers of nearby documents and of all other documents that share a label with
    // `row`. A document counts once per shared label.
    let of_row = |row: u32| {
        let mut nearby = 0u64;
        let mut all = 0u64;
        for &label in among.labels(row) {
            let rows = &rows_by_label[label as usize];
            let start = rows.partition_point(|&other| other < row.saturating_sub(reach));
            let end = rows.partition_point(|&other| other <= row.saturating_add(reach));
            nearby += (end - start - 1) as u64;
            all += rows.len() as u64 - 1;
        }
        (nearby, all)
    };
    let mut found = 0.0;
    let mut expected = 0.0;
    let mut variance = 0.0;
    for index in 0..nearest.len() {
        let (row, neighbors) = nearest.get(index);
        let labels = among.labels(row);
        let shares = |other: u32| among.labels(other).iter().any(|label| labels.contains(label));
        let mut ranked = neighbors.ranked().map(|(_, _, neighbor)| neighbor.row);
        let (nearby, all) = of_row(row);
        if let Some(other) = ranked.find(|&other| shares(other)) {
            let share = nearby as f64 / all.max(1) as f64;
            found += if row.abs_diff(other) <= reach { 1.0 } else { 0.0 };
            expected += share;
            variance += share * (1.0 - share);
        }
    }
    let more = found > 1.5 * expected && found - expected > 4.0 * libm::sqrt(variance);
    if more { reach } else { 0 }
}

/// Returns the number of pairs of `rows` that are at most `reach` apart. Each pair counts twice.
/// `rows` must be increasing.
fn pairs_within(rows: &[u32], reach: u32) -> u64 {
    let mut start = 0;
    let mut end = 0;
    let mut pairs = 0;
    for &row in rows {
        while rows[start] < row.saturating_sub(reach) {
            start += 1;
        }
        while end < rows.len() && rows[end] <= row.saturating_add(reach) {
            end += 1;
        }
        pairs += (end - start - 1) as u64;
    }
    pairs
}

/// Returns the window for a chronological corpus: a sixteenth of the number of rows.
pub(crate) fn window_size(rows: usize) -> u32 {
    u32::try_from(rows).unwrap_or(u32::MAX) / 16
}

/// Finds the nearest neighbors of about `count` evenly spaced documents, for
/// [`chronological_window`].
///
/// # Errors
/// Fails if the queries do not match the engine's rows.
pub(crate) fn nearest_of_sample(
    view: SearchableRows<'_>,
    exclusion: Exclusion<'_>,
    count: usize,
) -> Result<LeaveOneOut, SearchError> {
    let k = NonZeroUsize::MIN.saturating_add(9);
    let step = (view.queries.rows() / count.max(1)).max(1);
    let spaced: Vec<u32> = (0u32..).take(view.queries.rows()).step_by(step).collect();
    LeaveOneOut::search(view, &spaced, k, exclusion, &|_| ())
}

/// Returns the cosine above which documents are near-duplicates, estimated from `rows`. Returns
/// `None` if no cosine separates near-duplicates from other documents.
///
/// The cosines of nearest neighbors cluster around one value. If there are many near-duplicates, a
/// second cluster appears at 1. The limit is the least frequent cosine between the two clusters. It
/// is the lowest point of the histogram after its peak and above 0.5. The histogram must later rise
/// to at least twice that height. The histogram has bins of 0.05 and is smoothed over three bins.
///
/// # Errors
/// Fails if the queries do not match the engine's rows.
pub(in crate::learn) fn near_duplicate_limit(
    view: SearchableRows<'_>,
    rows: &[u32],
) -> Result<Option<f32>, SearchError> {
    let k = NonZeroUsize::MIN;
    let found = LeaveOneOut::search(view, rows, k, Exclusion::default(), &|_| ())?;
    let best = (0..found.len()).map(|index| found.get(index).1).filter(|best| !best.is_empty());
    Ok(find_valley(best.map(Voters::best_similarity)))
}

/// Number of bins of the histogram of best cosines.
const BINS: u16 = 20;

/// Returns the cosine at the valley between the two peaks of the histogram, if it has two.
pub(in crate::learn) fn find_valley(best: impl Iterator<Item = f32>) -> Option<f32> {
    let bins = usize::from(BINS);
    let mut histogram = vec![0u32; bins];
    for similarity in best {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a cosine is at most 1, and the cast maps negative values to 0"
        )]
        let bin = (similarity * f32::from(BINS)) as usize;
        histogram[bin.min(bins - 1)] += 1;
    }
    // The mean of a bin and its neighbors. The last bin, which includes exact copies, is
    // left out of the mean.
    let smooth = |bin: usize| {
        let around = &histogram[bin.saturating_sub(1)..(bin + 2).min(bins - 1)];
        f64::from(around.iter().sum::<u32>()) / around.len() as f64
    };
    let peak = (0..bins - 1).max_by(|&a, &b| smooth(a).total_cmp(&smooth(b)).then(b.cmp(&a)))?;
    // If near-duplicates outnumber the other documents, they form the peak itself.
    let peak = if peak > bins * 3 / 4 {
        let below = histogram[..bins / 2].iter().sum::<u32>();
        let all = histogram.iter().sum::<u32>();
        if below < all / 20 {
            return None;
        }
        (0..bins / 2).max_by(|&a, &b| smooth(a).total_cmp(&smooth(b)).then(b.cmp(&a)))?
    } else {
        peak
    };
    // Documents with a cosine below 0.5 are never near-duplicates.
    let lowest =
        ((peak + 1).max(bins / 2)..bins - 1).min_by(|&a, &b| smooth(a).total_cmp(&smooth(b)))?;
    let after = (lowest + 1..bins - 1).map(smooth).fold(f64::from(histogram[bins - 1]), f64::max);
    let few = smooth(lowest).max(1.0);
    (after >= 2.0 * few).then(|| (lowest as f32 + 0.5) / f32::from(BINS))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(histogram: [u32; 20]) -> Option<f32> {
        let bins = (0u16..).zip(histogram);
        find_valley(bins.flat_map(|(bin, count)| {
            std::iter::repeat_n((f32::from(bin) + 0.5) / 20.0, count as usize)
        }))
    }

    #[test]
    fn truncated_lists_have_the_first_neighbors() {
        let neighbor = |row| Neighbor { row, similarity: 1.0 / (1.0 + row as f32) };
        let mut lists = Lists::default();
        for length in [3, 0, 1, 2] {
            lists.neighbors.extend((0..length).map(neighbor));
            lists.bounds.push(lists.neighbors.len());
        }
        for k in [3, 2, 1, 0] {
            lists.truncate(k);
            for (index, length) in [3, 0, 1, 2].into_iter().enumerate() {
                let expected: Vec<u32> = (0..length).take(k).collect();
                let found: Vec<u32> =
                    lists.get(index).iter().map(|neighbor| neighbor.row).collect();
                assert_eq!(found, expected);
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn pairs_equal_all_near_pairs(
            rows in proptest::collection::btree_set(0u32..60, 0..30),
            reach in 0u32..70,
        ) {
            let rows: Vec<u32> = rows.into_iter().collect();
            let near = |a: u32| rows.iter().filter(|&&b| a != b && a.abs_diff(b) <= reach).count();
            let expected: usize = rows.iter().map(|&row| near(row)).sum();
            proptest::prop_assert_eq!(pairs_within(&rows, reach), expected as u64);
        }
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
        // All documents are similar, and none is a copy.
        let alike = [100, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 50, 400, 150, 0, 0, 0, 0, 0];
        let templates = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 100, 400, 100, 0];
        assert_eq!(limit(templates), None);
        assert!(limit(alike).is_none_or(|limit| limit > 0.5), "{:?}", limit(alike));
    }
}
