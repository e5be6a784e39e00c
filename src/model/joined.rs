//! What a model has for each document, in one piece or in several: documents come and go, and large arrays are not
//! copied each time.

use std::sync::{Arc, OnceLock};

use crate::rows::matrix::{Csr, CsrBuilder, row};
use crate::rows::strings::{Strings, StringsBuilder};

/// The rows of a piece that count, in increasing order; `None`: all.
pub(crate) type Kept = Option<Arc<[u32]>>;

/// Where the rows of several pieces are: those that count are numbered from one piece to the next.
#[derive(Debug, Clone, Default)]
pub(crate) struct Places {
    /// The number of the first row of each piece, and that of all rows.
    starts: Vec<u32>,
    kept: Vec<Kept>,
}

impl Places {
    /// The places of pieces of so many rows, of which some count.
    pub(crate) fn new(pieces: impl IntoIterator<Item = (u32, Kept)>) -> Self {
        let mut places = Self { starts: vec![0], kept: Vec::new() };
        let mut next = 0;
        for (rows, kept) in pieces {
            next += kept.as_ref().map_or(rows, |kept| length(kept));
            places.starts.push(next);
            places.kept.push(kept);
        }
        places
    }

    /// The piece of a row, and its row there.
    ///
    /// # Panics
    /// If there is no such row.
    fn of(&self, row: u32) -> (usize, u32) {
        let piece = self.starts.partition_point(|&start| start <= row) - 1;
        let own = row - self.starts[piece];
        (piece, self.kept[piece].as_ref().map_or(own, |kept| kept[own as usize]))
    }
}

/// The number of rows of a list.
fn length(rows: &[u32]) -> u32 {
    u32::try_from(rows.len()).expect("row numbers are 32-bit")
}

/// Rows that can be put together.
pub(crate) trait Join: Sized {
    /// The rows that count of all pieces, one piece after the other.
    fn join(pieces: &[(Arc<Self>, Kept)]) -> Self;
}

/// Rows in one piece or in several.
#[derive(Debug)]
pub(crate) struct Joined<T> {
    pieces: Vec<Arc<T>>,
    places: Arc<Places>,
    whole: OnceLock<Arc<T>>,
}

impl<T: Join> Joined<T> {
    /// Rows in one piece.
    pub(crate) fn one(rows: impl Into<Arc<T>>) -> Self {
        Self { pieces: Vec::new(), places: Arc::default(), whole: OnceLock::from(rows.into()) }
    }

    /// Rows in several pieces.
    pub(crate) fn several(pieces: Vec<Arc<T>>, places: Arc<Places>) -> Self {
        match pieces.as_slice() {
            [one] if places.kept[0].is_none() => Self::one(Arc::clone(one)),
            _ => Self { pieces, places, whole: OnceLock::new() },
        }
    }

    /// All rows in one piece, which is made when it is first needed.
    pub(crate) fn whole(&self) -> &Arc<T> {
        self.whole.get_or_init(|| {
            let pieces = self.pieces.iter().cloned().zip(self.places.kept.iter().cloned());
            Arc::new(T::join(&pieces.collect::<Vec<_>>()))
        })
    }

    /// The rows in one piece, and nothing else in memory.
    pub(crate) fn into_one(self) -> Self {
        self.whole();
        Self::one(self.whole.into_inner().expect("made just before"))
    }

    /// Where a row is.
    ///
    /// # Panics
    /// If there is no such row.
    pub(crate) fn of(&self, row: u32) -> (&T, usize) {
        if let Some(whole) = self.whole.get() {
            return (whole, row as usize);
        }
        let (piece, own) = self.places.of(row);
        (&self.pieces[piece], own as usize)
    }
}

/// Calls `with` for each row that counts.
pub(crate) fn each(rows: usize, kept: &Kept, mut with: impl FnMut(usize)) {
    match kept {
        None => (0..rows).for_each(with),
        Some(kept) => {
            for &row in &**kept {
                with(row as usize);
            }
        }
    }
}

impl Join for Csr {
    fn join(pieces: &[(Arc<Self>, Kept)]) -> Self {
        let nonzeros = pieces.iter().map(|(rows, _)| rows.nnz()).sum();
        let rows = pieces.iter().map(|(rows, _)| rows.rows()).sum();
        let mut joined = CsrBuilder::with_capacity(rows, nonzeros);
        for (matrix, kept) in pieces {
            let view = matrix.view();
            each(matrix.rows(), kept, |number| {
                let (terms, weights) = row(&view, number);
                joined.push_slices(terms, weights);
            });
        }
        joined.build(pieces.first().map_or(0, |(rows, _)| rows.cols()))
    }
}

impl Join for Strings {
    fn join(pieces: &[(Arc<Self>, Kept)]) -> Self {
        let mut joined = StringsBuilder::default();
        for (strings, kept) in pieces {
            each(strings.len(), kept, |number| {
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
    fn rows_of_several_pieces() {
        let pieces = vec![strings("a b c"), strings("d"), strings("e f")];
        let kept: [Kept; 3] = [Some([0, 2].into()), Some([].into()), None];
        let places = Places::new([3, 1, 2].into_iter().zip(kept));
        let joined = Joined::several(pieces, Arc::new(places));
        let word = |row| {
            let (strings, own) = joined.of(row);
            strings.get(own).unwrap().to_owned()
        };
        let apart: Vec<String> = (0..4).map(word).collect();
        assert_eq!(apart, ["a", "c", "e", "f"]);
        assert_eq!(joined.whole().iter().collect::<Vec<_>>(), apart);
        assert_eq!((0..4).map(word).collect::<Vec<_>>(), apart);
        assert_eq!(joined.into_one().whole().len(), 4);
    }

    #[test]
    fn one_piece_is_not_copied() {
        let one = strings("a b");
        let places = Arc::new(Places::new([(2, None)]));
        let joined = Joined::several(vec![Arc::clone(&one)], places);
        assert!(Arc::ptr_eq(joined.whole(), &one));
    }
}
