//! Merges shards into one matrix.

use rayon::prelude::*;

use super::merge_terms::{DROPPED, merge_terms, vocabulary};
use super::names::Names;
use super::options::TermLimits;
use super::shard::{Rows, Shard};
use super::values::{FieldCounts, Values};
use crate::text::vocabulary::{TermKind, Vocabulary};
use crate::threads::Threads;

pub(super) struct MergedShards {
    pub(super) vocabulary: Vocabulary,
    pub(super) indptr: Vec<u64>,
    pub(super) terms: Vec<u32>,
    pub(super) values: Values,
    /// For each document, the number of terms with repetitions, before terms were dropped. For
    /// features, the number of columns.
    pub(super) lengths: Vec<f32>,
    /// The number of bytes of text analyzed.
    pub(super) bytes: u64,
    /// Whether any text has more than one line.
    pub(super) has_titles: bool,
}

/// Merges the shards, with the documents in the order of the chunks. All threads renumber and move
/// the chunks. Each chunk is freed as soon as it has been moved.
pub(super) fn merge(
    mut shards: Vec<Shard<'_>>,
    documents: usize,
    limits: TermLimits,
    threads: &Threads,
) -> MergedShards {
    let kind = shards.first().map_or(TermKind::Columns, Shard::kind);
    let mut chunks: Vec<(usize, usize, Rows)> = Vec::new();
    for (number, shard) in shards.iter_mut().enumerate() {
        let shard_chunks = std::mem::take(&mut shard.chunks).into_iter();
        chunks.extend(shard_chunks.map(|(chunk, rows)| (chunk, number, rows)));
    }
    chunks.sort_unstable_by_key(|&(chunk, ..)| chunk);
    let names: Vec<Names<'_>> = threads.run(|| shards.par_iter().map(Shard::names).collect());
    let (kept, numbers) = threads.run(|| merge_terms(&shards, &names, documents, limits));
    let all_kept = numbers.iter().flatten().all(|&number| number != DROPPED);
    let entries = |(_, shard, rows): &(usize, usize, Rows)| {
        if all_kept {
            return rows.terms.len();
        }
        rows.terms.iter().filter(|&&term| numbers[*shard][term as usize] != DROPPED).count()
    };
    let entries: Vec<usize> = threads.run(|| chunks.par_iter().map(entries).collect());
    let nonzeros = entries.iter().sum();
    let mut indptr = vec![0; documents + 1];
    let mut all_lengths = vec![0.0; documents];
    let mut all_terms = vec![0; nonzeros];
    let mut values = match shards.first() {
        Some(shard) if shard.has_given_values() => Values::Given(vec![0.0; nonzeros]),
        first => {
            let fields = first.map_or(1, |shard| shard.fields);
            let zeros = || FieldCounts { bytes: vec![0; nonzeros], ..FieldCounts::default() };
            Values::Counts((0..fields).map(|_| zeros()).collect())
        }
    };
    // Assign each chunk its slices of the arrays.
    let mut ends = &mut indptr[1..];
    let mut lengths = &mut *all_lengths;
    let mut terms = &mut *all_terms;
    let mut slices = ValueSlices::new(&mut values);
    let mut start = 0;
    let mut moves = Vec::new();
    for ((_, shard, rows), entries) in chunks.into_iter().zip(entries) {
        let target = Target {
            first: start,
            ends: ends.split_off_mut(..rows.ends.len()).expect("a row for each document"),
            lengths: lengths.split_off_mut(..rows.ends.len()).expect("a row for each document"),
            terms: terms.split_off_mut(..entries).expect("as many as counted"),
            values: slices.split_off(entries),
        };
        start += entries;
        moves.push((&numbers[shard], rows, target));
    }
    let bytes = bytes_of(kept.len());
    let fill = || -> Vec<Overflow> {
        let filled = moves
            .into_par_iter()
            .flat_map_iter(|(numbers, rows, target)| target.fill(&rows, numbers, bytes));
        filled.collect()
    };
    let (overflow, vocabulary) = threads.run(|| rayon::join(fill, || vocabulary(kind, &kept)));
    if let Values::Counts(fields) = &mut values {
        for Overflow { field, entry, excess } in overflow {
            fields[field].overflow.insert(entry, excess);
        }
    }
    MergedShards {
        vocabulary,
        indptr,
        terms: all_terms,
        values,
        lengths: all_lengths,
        bytes: shards.iter().map(|shard| shard.bytes).sum(),
        has_titles: shards.iter().any(|shard| shard.has_titles),
    }
}

/// The slices of the merged arrays that belong to a chunk.
struct Target<'a> {
    /// The number of entries before this chunk.
    first: usize,
    ends: &'a mut [u64],
    lengths: &'a mut [f32],
    terms: &'a mut [u32],
    values: ValueSlices<'a>,
}

/// A part of merged [`Values`], without the overflow of counts.
enum ValueSlices<'a> {
    Counts(Vec<&'a mut [u8]>),
    Given(&'a mut [f32]),
}

impl<'a> ValueSlices<'a> {
    fn new(values: &'a mut Values) -> Self {
        match values {
            Values::Counts(fields) => {
                Self::Counts(fields.iter_mut().map(|counts| &mut *counts.bytes).collect())
            }
            Values::Given(values) => Self::Given(values),
        }
    }

    /// Removes the first entries, and returns them.
    fn split_off(&mut self, entries: usize) -> Self {
        match self {
            Self::Counts(fields) => {
                let first = fields.iter_mut().map(|counts| counts.split_off_mut(..entries));
                Self::Counts(first.collect::<Option<_>>().expect("as many as counted"))
            }
            Self::Given(values) => {
                Self::Given(values.split_off_mut(..entries).expect("as many as counted"))
            }
        }
    }
}

/// The excess of a count over 255.
struct Overflow {
    field: usize,
    entry: usize,
    excess: u32,
}

impl Target<'_> {
    /// Writes rows with term ids of the vocabulary, which have `bytes` bytes, in increasing order
    /// within each row. Returns the counts over 255.
    fn fill(mut self, rows: &Rows, numbers: &[u32], bytes: u32) -> Vec<Overflow> {
        let mut overflow = Vec::new();
        let first = self.first;
        self.lengths.copy_from_slice(&rows.lengths);
        let mut row: Vec<u64> = Vec::new();
        let mut buffer: Vec<u64> = Vec::new();
        let mut start = 0;
        let mut written = 0;
        for (index, &end) in rows.ends.iter().enumerate() {
            let entries = start..end;
            start = end;
            row.clear();
            // Packing a term and its position into one integer sorts faster than pairs.
            row.extend((0u32..).zip(&rows.terms[entries.clone()]).filter_map(|(entry, &term)| {
                let number = numbers[term as usize];
                (number != DROPPED).then_some(u64::from(number) << 32 | u64::from(entry))
            }));
            sort_by_terms(&mut row, &mut buffer, bytes);
            let positions = written..written + row.len();
            written = positions.end;
            for (term, &entry) in self.terms[positions.clone()].iter_mut().zip(&row) {
                *term = (entry >> 32) as u32;
            }
            #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
            let entry = |packed: u64| entries.start + packed as u32 as usize;
            match (&mut self.values, &rows.values) {
                (ValueSlices::Counts(slices), Values::Counts(fields)) => {
                    for (field, (slice, counts)) in slices.iter_mut().zip(fields).enumerate() {
                        for (position, &packed) in positions.clone().zip(&row) {
                            let from = entry(packed);
                            slice[position] = counts.bytes[from];
                            if let Some(excess) = counts.excess(from) {
                                let entry = first + position;
                                overflow.push(Overflow { field, entry, excess });
                            }
                        }
                    }
                }
                (ValueSlices::Given(slice), Values::Given(values)) => {
                    for (value, &packed) in slice[positions].iter_mut().zip(&row) {
                        *value = values[entry(packed)];
                    }
                }
                _ => unreachable!("the shards count the same kind of content"),
            }
            self.ends[index] = (first + written) as u64;
        }
        overflow
    }
}

/// Returns the number of bytes of the numbers up to `max`.
fn bytes_of(max: usize) -> u32 {
    (usize::BITS - max.leading_zeros()).div_ceil(8)
}

/// The minimum number of entries per byte of the terms for which a radix sort is faster than a
/// comparison sort.
const MIN_RADIX_ENTRIES: usize = 32;

/// Sorts entries by the terms in their upper halves, which are distinct and have `bytes` bytes.
/// `buffer` is a scratch buffer.
fn sort_by_terms(row: &mut Vec<u64>, buffer: &mut Vec<u64>, bytes: u32) {
    // The rows of sparse vector files are often sorted already, which the comparison sort detects
    // quickly.
    if row.len() < MIN_RADIX_ENTRIES * bytes as usize || row.is_sorted() {
        row.sort_unstable();
        return;
    }
    buffer.resize(row.len(), 0);
    for byte in 0..bytes {
        let digit = |entry: u64| (entry >> (u32::BITS + 8 * byte) & 0xFF) as usize;
        // The start of the entries with each byte.
        let mut starts = [0u32; 256];
        for &entry in &*row {
            starts[digit(entry)] += 1;
        }
        let mut next = 0;
        for start in &mut starts {
            next += std::mem::replace(start, next);
        }
        for &entry in &*row {
            let position = &mut starts[digit(entry)];
            buffer[*position as usize] = entry;
            *position += 1;
        }
        std::mem::swap(row, buffer);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::num::NonZeroUsize;

    use proptest::prelude::*;

    use super::*;
    use crate::text::analyze::{Analyzer, AnalyzerSpec};
    use crate::text::corpus::{Content, Document, Place};
    use crate::text::counts::{DfLimit, Fields, Input};

    /// Generates short words, and words that share their first sixteen bytes or end there.
    fn word() -> impl Strategy<Value = String> {
        let beginning = prop::sample::select(vec!["", "a", "abcdefghijklmno", "abcdefghijklmnop"]);
        (beginning, "[a-c]{1,3}").prop_map(|(beginning, end)| format!("{beginning}{end}"))
    }

    proptest! {
        /// Tests lengths around the threshold of the radix sort, and the maximum terms of each
        /// number of bytes.
        #[test]
        fn rows_are_sorted(
            bytes in 1u32..=4,
            terms in prop::collection::hash_set(any::<u32>(), 0..200),
        ) {
            let max_term = u32::MAX >> (u32::BITS - 8 * bytes);
            let terms = terms.into_iter().map(|term| term.reverse_bits() & max_term);
            let terms: BTreeSet<u32> = terms.collect();
            prop_assert_eq!(bytes_of(max_term as usize), bytes);
            let expected: Vec<u64> =
                (0..).zip(&terms).map(|(index, &term)| u64::from(term) << 32 | index).collect();
            let mut row = expected.clone();
            // Shuffle the row.
            row.sort_unstable_by_key(|entry| entry.wrapping_mul(0x9E37_79B9_7F4A_7C15));
            let is_long = row.len() >= MIN_RADIX_ENTRIES * bytes as usize;
            let uses_radix_sort = is_long && !row.is_sorted();
            let mut buffer = vec![7; 3];
            sort_by_terms(&mut row, &mut buffer, bytes);
            prop_assert_eq!(buffer.len(), if uses_radix_sort { row.len() } else { 3 });
            prop_assert_eq!(row, expected);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Compares chunks that are distributed over several shards with separate counts of each
        /// text. Includes counts that exceed a byte, and titles.
        #[test]
        fn shards_merge_into_one_count(
            texts in prop::collection::vec(prop::collection::vec((word(), 1usize..5), 0..8), 1..12),
            many in 250usize..600,
            owners in prop::collection::vec(0usize..3, 12),
            min_df in 1u32..3,
            documents_per_chunk in 1usize..4,
        ) {
            let texts: Vec<String> = (0..).zip(&texts).map(|(number, words)| {
                let mut all: Vec<&str> = Vec::new();
                for (word, times) in words {
                    let times = if number % 3 == 0 { many } else { *times };
                    all.extend(std::iter::repeat_n(word.as_str(), times));
                }
                all.join(if number % 2 == 0 { " " } else { "\n" })
            }).collect();
            let analyzer = Analyzer::new(AnalyzerSpec::default());
            let input = Input::Text { analyzer, fields: Fields::FirstLine { boost: 1.0 } };
            let mut shards: Vec<Shard<'_>> = (0..3).map(|_| Shard::new(&input)).collect();
            let document = |text: &String| Document {
                id: String::new(),
                content: Content::Text(text.clone()),
                labels: Vec::new(),
                weight: 1.0,
                vector: None,
                group: None,
                place: Place { source: "test".into(), line: None },
            };
            for (chunk, texts) in texts.chunks(documents_per_chunk).enumerate() {
                let documents: Vec<Document> = texts.iter().map(document).collect();
                shards[owners[chunk]].count(chunk, &documents).unwrap();
            }
            let limits = TermLimits { min_df: DfLimit::Count(min_df), ..TermLimits::default() };
            let threads = Threads::new(NonZeroUsize::new(2).unwrap()).unwrap();
            let merged = merge(shards, texts.len(), limits, &threads);

            let mut frequencies: BTreeMap<&str, u32> = BTreeMap::new();
            let rows: Vec<BTreeMap<&str, [f32; 2]>> = texts.iter().map(|text| {
                let mut row: BTreeMap<&str, [f32; 2]> = BTreeMap::new();
                // A single line is not a title.
                let (first, rest) = text.split_once('\n').unwrap_or(("", text));
                for (field, part) in [first, rest].into_iter().enumerate() {
                    for word in part.split_whitespace() {
                        row.entry(word).or_default()[field] += 1.0;
                    }
                }
                for word in row.keys() {
                    *frequencies.entry(word).or_default() += 1;
                }
                row
            }).collect();
            frequencies.retain(|_, df| *df >= min_df);
            let terms: Vec<&str> = frequencies.keys().copied().collect();
            prop_assert!(merged.vocabulary.terms().iter().eq(terms.iter().copied()));
            let df: Vec<u32> = frequencies.values().copied().collect();
            prop_assert_eq!(merged.vocabulary.document_frequencies(), &df[..]);
            let boosts = [[1.0, 0.0], [0.0, 1.0]];
            for (row, expected) in rows.iter().enumerate() {
                let [start, end] =
                    [row, row + 1].map(|index| usize::try_from(merged.indptr[index]).unwrap());
                let found: Vec<(&str, [f32; 2])> = (start..end).map(|index| {
                    let counts = [0, 1].map(|field| merged.values.boosted(&boosts[field], index));
                    (terms[merged.terms[index] as usize], counts)
                }).collect();
                let expected: Vec<(&str, [f32; 2])> = expected.iter()
                    .filter(|(word, _)| frequencies.contains_key(*word))
                    .map(|(&word, &counts)| (word, counts)).collect();
                prop_assert_eq!(found, expected);
            }
        }
    }
}
