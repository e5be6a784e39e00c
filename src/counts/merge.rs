//! Shards → one matrix.

use rayon::prelude::*;

use super::TermLimits;
use super::shard::{Rows, Shard, Values};
use super::unite::{DROPPED, Names, unite, vocabulary};
use crate::threads::Threads;
use crate::vocabulary::{TermKind, Vocabulary};

pub(super) struct Merged {
    pub(super) vocabulary: Vocabulary,
    pub(super) indptr: Vec<u64>,
    pub(super) terms: Vec<u32>,
    pub(super) counts: Vec<Vec<f32>>,
    /// For each document, the number of terms with repetitions, before any were dropped; for
    /// features, the number of columns.
    pub(super) lengths: Vec<f32>,
    /// The number of bytes of text analyzed.
    pub(super) bytes: u64,
    /// Whether any text has more than one line.
    pub(super) titled: bool,
}

/// Merges the shards: the documents in the order of the pieces. These are renumbered and moved on all
/// threads; each is freed as soon as it has been moved.
pub(super) fn merge(
    mut shards: Vec<Shard<'_>>,
    documents: usize,
    limits: TermLimits,
    threads: &Threads,
) -> Merged {
    let kind = shards.first().map_or(TermKind::Columns, Shard::kind);
    let fields = shards.first().map_or(1, |shard| shard.fields);
    let mut pieces: Vec<(usize, usize, Rows)> = Vec::new();
    for (number, shard) in shards.iter_mut().enumerate() {
        let own = std::mem::take(&mut shard.pieces).into_iter();
        pieces.extend(own.map(|(piece, rows)| (piece, number, rows)));
    }
    pieces.sort_unstable_by_key(|&(piece, ..)| piece);
    let names: Vec<Names<'_>> = threads.run(|| shards.par_iter().map(Shard::names).collect());
    let (kept, numbers) = threads.run(|| unite(&shards, &names, documents, limits));
    let all_kept = numbers.iter().flatten().all(|&number| number != DROPPED);
    let entries = |(_, shard, rows): &(usize, usize, Rows)| {
        if all_kept {
            return rows.terms.len();
        }
        rows.terms.iter().filter(|&&term| numbers[*shard][term as usize] != DROPPED).count()
    };
    let entries: Vec<usize> = threads.run(|| pieces.par_iter().map(entries).collect());
    let nonzeros = entries.iter().sum();
    let (mut indptr, mut all_lengths) = (vec![0; documents + 1], vec![0.0; documents]);
    let mut all_terms = vec![0; nonzeros];
    let mut all_counts = vec![vec![0.0; nonzeros]; fields];
    // The place of each piece in the arrays.
    let (mut ends, mut lengths) = (&mut indptr[1..], &mut *all_lengths);
    let mut terms = &mut *all_terms;
    let mut counts: Vec<&mut [f32]> = all_counts.iter_mut().map(|counts| &mut **counts).collect();
    let mut start = 0;
    let mut moves = Vec::new();
    for ((_, shard, rows), entries) in pieces.into_iter().zip(entries) {
        let target = Target {
            start,
            ends: ends.split_off_mut(..rows.ends.len()).expect("a row for each document"),
            lengths: lengths.split_off_mut(..rows.ends.len()).expect("a row for each document"),
            terms: terms.split_off_mut(..entries).expect("as many as counted"),
            counts: counts
                .iter_mut()
                .map(|counts| counts.split_off_mut(..entries).expect("as many as counted"))
                .collect(),
        };
        start += entries as u64;
        moves.push((&numbers[shard], rows, target));
    }
    let fill = || {
        moves.into_par_iter().for_each(|(numbers, rows, target)| target.fill(&rows, numbers));
    };
    let ((), vocabulary) = threads.run(|| rayon::join(fill, || vocabulary(kind, &kept)));
    Merged {
        vocabulary,
        indptr,
        terms: all_terms,
        counts: all_counts,
        lengths: all_lengths,
        bytes: shards.iter().map(|shard| shard.bytes).sum(),
        titled: shards.iter().any(|shard| shard.titled),
    }
}

/// The place of a piece in the merged arrays.
struct Target<'a> {
    /// The number of entries before.
    start: u64,
    ends: &'a mut [u64],
    lengths: &'a mut [f32],
    terms: &'a mut [u32],
    counts: Vec<&'a mut [f32]>,
}

impl Target<'_> {
    /// Writes rows with the vocabulary's numbers, in increasing order in every row.
    fn fill(mut self, rows: &Rows, numbers: &[u32]) {
        self.lengths.copy_from_slice(&rows.lengths);
        let mut row: Vec<u64> = Vec::new();
        let (mut start, mut filled) = (0, 0);
        for (index, &end) in rows.ends.iter().enumerate() {
            let entries = start..end;
            start = end;
            row.clear();
            // Packing a term and its position into one integer sorts faster than pairs.
            row.extend((0u32..).zip(&rows.terms[entries.clone()]).filter_map(|(at, &term)| {
                let number = numbers[term as usize];
                (number != DROPPED).then_some(u64::from(number) << 32 | u64::from(at))
            }));
            row.sort_unstable();
            let places = filled..filled + row.len();
            filled = places.end;
            for (term, &entry) in self.terms[places.clone()].iter_mut().zip(&row) {
                *term = (entry >> 32) as u32;
            }
            #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
            let entry = |packed: u64| entries.start + packed as u32 as usize;
            match &rows.values {
                Values::Counts(fields) => {
                    for (counts, of_field) in self.counts.iter_mut().zip(fields) {
                        for (count, &packed) in counts[places.clone()].iter_mut().zip(&row) {
                            *count = of_field.get(entry(packed));
                        }
                    }
                }
                Values::Given(values) => {
                    for (value, &packed) in self.counts[0][places].iter_mut().zip(&row) {
                        *value = values[entry(packed)];
                    }
                }
            }
            self.ends[index] = self.start + filled as u64;
        }
    }
}
