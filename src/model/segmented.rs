//! Values per document, stored in one or more segments. Adding or removing documents does not copy
//! large arrays.

use std::sync::{Arc, OnceLock};

use crate::rows::matrix::{Csr, CsrBuilder, row};
use crate::rows::strings::{Strings, StringsBuilder};

/// The remaining rows of a segment, in increasing order; `None` if no row was removed.
pub(crate) type LiveRows = Option<Arc<[u32]>>;

/// An index of the rows of several segments. Remaining rows are numbered consecutively across
/// segments.
#[derive(Debug, Clone, Default)]
pub(crate) struct SegmentIndex {
    /// The number of the first row of each segment, then the total number of rows.
    starts: Vec<u32>,
    live: Vec<LiveRows>,
}

impl SegmentIndex {
    /// Creates an index of segments, given the number of rows and the remaining rows of each.
    pub(crate) fn new(segments: impl IntoIterator<Item = (u32, LiveRows)>) -> Self {
        let mut index = Self { starts: vec![0], live: Vec::new() };
        let mut next = 0;
        for (rows, live) in segments {
            next += live.as_ref().map_or(rows, |live| length(live));
            index.starts.push(next);
            index.live.push(live);
        }
        index
    }

    /// Returns the segment of a row and its position in the segment.
    ///
    /// # Panics
    /// Panics if there is no such row.
    fn locate(&self, row: u32) -> (usize, u32) {
        let segment = self.starts.partition_point(|&start| start <= row) - 1;
        let local = row - self.starts[segment];
        (segment, self.live[segment].as_ref().map_or(local, |live| live[local as usize]))
    }
}

/// Returns the length of a list of rows.
fn length(rows: &[u32]) -> u32 {
    u32::try_from(rows.len()).expect("row numbers are 32-bit")
}

/// Rows of segments that can be merged.
pub(crate) trait Merge: Sized {
    /// Concatenates the remaining rows of all segments.
    fn merge(segments: &[(Arc<Self>, LiveRows)]) -> Self;
}

/// Rows in one or more segments.
#[derive(Debug)]
pub(crate) struct Segmented<T> {
    segments: Vec<Arc<T>>,
    index: Arc<SegmentIndex>,
    whole: OnceLock<Arc<T>>,
}

impl<T: Merge> Segmented<T> {
    /// Creates rows in one segment.
    pub(crate) fn one(rows: impl Into<Arc<T>>) -> Self {
        Self { segments: Vec::new(), index: Arc::default(), whole: OnceLock::from(rows.into()) }
    }

    /// Creates rows in several segments.
    pub(crate) fn many(segments: Vec<Arc<T>>, index: Arc<SegmentIndex>) -> Self {
        match segments.as_slice() {
            [one] if index.live[0].is_none() => Self::one(Arc::clone(one)),
            _ => Self { segments, index, whole: OnceLock::new() },
        }
    }

    /// Returns all rows in one segment, which the first call creates.
    pub(crate) fn whole(&self) -> &Arc<T> {
        self.whole.get_or_init(|| {
            let segments = self.segments.iter().cloned().zip(self.index.live.iter().cloned());
            Arc::new(T::merge(&segments.collect::<Vec<_>>()))
        })
    }

    /// Merges the rows into one segment and frees the others.
    pub(crate) fn into_one(self) -> Self {
        self.whole();
        Self::one(self.whole.into_inner().expect("set above"))
    }

    /// Returns the segment of a row and its position in the segment.
    ///
    /// # Panics
    /// Panics if there is no such row.
    pub(crate) fn locate(&self, row: u32) -> (&T, usize) {
        if let Some(whole) = self.whole.get() {
            return (whole, row as usize);
        }
        let (segment, local) = self.index.locate(row);
        (&self.segments[segment], local as usize)
    }
}

/// Calls `visit` for each remaining row.
pub(crate) fn for_each_live(rows: usize, live: &LiveRows, mut visit: impl FnMut(usize)) {
    match live {
        None => (0..rows).for_each(visit),
        Some(live) => {
            for &row in &**live {
                visit(row as usize);
            }
        }
    }
}

impl Merge for Csr {
    fn merge(segments: &[(Arc<Self>, LiveRows)]) -> Self {
        let nonzeros = segments.iter().map(|(rows, _)| rows.nnz()).sum();
        let rows = segments.iter().map(|(rows, _)| rows.rows()).sum();
        let mut joined = CsrBuilder::with_capacity(rows, nonzeros);
        for (matrix, live) in segments {
            let view = matrix.view();
            for_each_live(matrix.rows(), live, |number| {
                let (terms, weights) = row(&view, number);
                joined.push_slices(terms, weights);
            });
        }
        joined.build(segments.first().map_or(0, |(rows, _)| rows.cols()))
    }
}

impl Merge for Strings {
    fn merge(segments: &[(Arc<Self>, LiveRows)]) -> Self {
        let mut joined = StringsBuilder::default();
        for (strings, live) in segments {
            for_each_live(strings.len(), live, |number| {
                joined.push(strings.get(number).unwrap_or_default());
            });
        }
        joined.build()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(words: &str) -> Arc<Strings> {
        Arc::new(words.split(' ').collect())
    }

    #[test]
    fn rows_of_several_segments() {
        let segments = vec![strings("a b c"), strings("d"), strings("e f")];
        let live: [LiveRows; 3] = [Some([0, 2].into()), Some([].into()), None];
        let index = SegmentIndex::new([3, 1, 2].into_iter().zip(live));
        let joined = Segmented::many(segments, Arc::new(index));
        let word = |row| {
            let (strings, local) = joined.locate(row);
            strings.get(local).unwrap().to_owned()
        };
        let words: Vec<String> = (0..4).map(word).collect();
        assert_eq!(words, ["a", "c", "e", "f"]);
        assert_eq!(joined.whole().iter().collect::<Vec<_>>(), words);
        assert_eq!((0..4).map(word).collect::<Vec<_>>(), words);
        assert_eq!(joined.into_one().whole().len(), 4);
    }

    #[test]
    fn one_segment_is_not_copied() {
        let one = strings("a b");
        let index = Arc::new(SegmentIndex::new([(2, None)]));
        let joined = Segmented::many(vec![Arc::clone(&one)], index);
        assert!(Arc::ptr_eq(joined.whole(), &one));
    }
}
