//! Counts the terms of training documents. The result is a vocabulary and one row of counts per
//! document.
//!
//! Documents are read in chunks. An idle thread counts the next chunk in its shard, which assigns
//! ids to terms in order of first occurrence. Finally, the terms of all shards are sorted and get
//! new ids, which makes the result independent of threads and chunks.
//!
//! | file | contents |
//! |---|---|
//! | `options`, `fields` | options: the content to count and the terms to keep |
//! | `shard` | counting of the terms of chunks (read this first) |
//! | `headers` | identifiers, labels, weights, groups and texts of documents |
//! | `reading` | reading of chunks and their distribution to threads |
//! | `values` | the values of the entries of rows |
//! | `names`, `merge_terms`, `merge` | merging of shards into one vocabulary and one matrix |
//! | `statistics` | term statistics of a corpus that is counted in several segments |

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Instant;

use array_file::array::Array;
use rayon::prelude::*;

use crate::rows::strings::{Strings, StringsBuilder};
use crate::stages::Stage;
use crate::text::corpus::{CorpusError, Document, Problem};
use crate::text::hierarchy::Hierarchy;
use crate::text::tfidf::RawRows;
use crate::text::vocabulary::{TermKind, Vocabulary};
use crate::threads::Threads;

mod fields;
mod headers;
mod merge;
mod merge_terms;
mod names;
mod options;
mod reading;
mod shard;
mod statistics;
mod values;

pub use fields::Fields;
pub(crate) use fields::tally;
use merge::merge;
pub use options::{ClassWeights, CountOptions, DfLimit, Input, TermLimits};
use reading::{Chunks, count_chunks};
pub(crate) use statistics::CorpusSize;
pub use statistics::{CorpusStatistics, TermFrequency};
use values::Values;

/// The term counts of a training corpus.
#[derive(Debug, Clone)]
pub struct Counts {
    pub(crate) vocabulary: Vocabulary,
    pub(crate) indptr: Vec<u64>,
    pub(crate) terms: Vec<u32>,
    /// The values of `terms`.
    values: Values,
    pub(crate) ids: Strings,
    /// The label names by index, in byte order.
    pub(crate) label_names: Vec<String>,
    /// The labels of document `i`, in increasing order, are
    /// `label_indices[label_indptr[i]..label_indptr[i + 1]]`.
    pub(crate) label_indptr: Vec<u64>,
    pub(crate) label_indices: Vec<u32>,
    pub(crate) weights: Vec<f32>,
    /// The group of each document; empty if no document has one.
    pub(crate) groups: Vec<u32>,
    pub(crate) texts: Option<Strings>,
    /// For each document, the number of terms with repetitions, before terms were dropped. For
    /// features, the number of columns.
    pub(crate) lengths: Vec<f32>,
    pub(crate) bytes: u64,
    /// Whether any text has more than one line.
    pub(crate) has_titles: bool,
    /// The size of the whole corpus, if these documents are only a segment of it.
    pub(crate) whole: Option<CorpusSize>,
    /// The time that counting took.
    pub(crate) stages: Vec<Stage>,
}

impl Counts {
    /// Returns whether all stored values are 1, as for binary features.
    pub(crate) fn is_binary(&self) -> bool {
        self.values.is_binary()
    }

    /// Reads and counts a corpus. `progress` is called with the number of documents read so far.
    ///
    /// # Errors
    /// If reading the corpus fails, a document has text where features are expected or vice versa,
    /// or a count is negative.
    pub fn read(
        documents: &mut (dyn Iterator<Item = Result<Document, CorpusError>> + Send),
        options: &CountOptions<'_>,
        threads: &Threads,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Self, CorpusError> {
        let Chunks { shards, headers, mut stages } =
            count_chunks(documents, options, threads, progress)?;
        let start = Instant::now();
        let count = headers.len();
        let merged = merge(shards, count, options.limits, threads);
        stages.push(Stage::since("train: merge the counts", count as u64, start));
        let headers = headers.finish();
        Ok(Self {
            vocabulary: merged.vocabulary,
            indptr: merged.indptr,
            terms: merged.terms,
            values: merged.values,
            ids: headers.ids,
            label_names: headers.label_names,
            label_indptr: headers.label_indptr,
            label_indices: headers.label_indices,
            weights: headers.weights,
            groups: headers.groups,
            texts: headers.texts,
            lengths: merged.lengths,
            bytes: merged.bytes,
            has_titles: merged.has_titles,
            whole: None,
            stages,
        })
    }

    /// The number of documents.
    pub fn documents(&self) -> usize {
        self.weights.len()
    }

    /// The group of each document; empty if no document has one.
    pub fn groups(&self) -> &[u32] {
        &self.groups
    }

    /// Returns the frequencies of all terms, in byte order.
    pub fn term_frequencies(&self, boosts: &[f32]) -> Vec<TermFrequency> {
        let mut occurrences = vec![0.0; self.vocabulary.len()];
        for (entry, &term) in self.terms.iter().enumerate() {
            occurrences[term as usize] += f64::from(self.boosted(boosts, entry));
        }
        let frequencies = self.vocabulary.document_frequencies();
        let terms = self.vocabulary.terms().iter().zip(frequencies).zip(occurrences);
        let frequency = |((term, &documents), occurrences): ((&str, &u32), f64)| TermFrequency {
            term: term.to_owned(),
            documents,
            occurrences,
        };
        terms.map(frequency).collect()
    }

    /// Returns whether the documents are features instead of texts.
    pub(crate) fn is_of_features(&self) -> bool {
        self.vocabulary.kind() == TermKind::Columns
    }

    /// Replaces the vocabulary with the vocabulary of the whole corpus, of which these documents
    /// are a segment. Terms that are not in `whole` are dropped.
    ///
    /// # Panics
    /// If the documents are features instead of texts.
    #[must_use]
    pub fn under(mut self, whole: &CorpusStatistics) -> Self {
        assert_eq!(self.vocabulary.kind(), TermKind::Text, "statistics describe texts");
        let frequencies = Array::from(whole.document_frequencies.clone());
        let vocabulary = Vocabulary::new(TermKind::Text, whole.terms.clone(), frequencies)
            .expect("checked when it was created");
        let new_ids: Vec<Option<u32>> =
            self.vocabulary.terms().iter().map(|term| vocabulary.id(term)).collect();
        let mut indptr = Vec::with_capacity(self.indptr.len());
        indptr.push(0);
        let mut kept = 0;
        for row in 0..self.documents() {
            for entry in range(self.indptr[row], self.indptr[row + 1]) {
                if let Some(term) = new_ids[self.terms[entry] as usize] {
                    // Both vocabularies are in the same order, so the row stays in order.
                    self.terms[kept] = term;
                    self.values.move_entry(entry, kept);
                    kept += 1;
                }
            }
            indptr.push(kept as u64);
        }
        self.terms.truncate(kept);
        self.values.truncate(kept);
        let whole = CorpusSize { documents: whole.documents, mean_length: whole.mean_length };
        Self { indptr, vocabulary, whole: Some(whole), ..self }
    }

    /// Returns the boosted count of an entry.
    fn boosted(&self, boosts: &[f32], entry: usize) -> f32 {
        self.values.boosted(boosts, entry)
    }

    /// The number of distinct (document, term) pairs.
    pub(crate) fn entries(&self) -> usize {
        self.terms.len()
    }

    /// Returns whether the vocabulary is empty.
    pub fn has_no_term(&self) -> bool {
        self.vocabulary.is_empty()
    }

    /// Returns the problem with a corpus whose vocabulary is empty: it has no words, or all terms
    /// were dropped.
    pub(crate) fn no_term_problem(&self) -> Problem {
        let has_no_word = self.lengths.iter().all(|&length| length == 0.0);
        if has_no_word && !self.is_of_features() { Problem::NoWord } else { Problem::NoTerm }
    }

    /// Returns whether any document has more than one label.
    pub fn has_several_labels(&self) -> bool {
        self.label_indptr.windows(2).any(|bounds| bounds[1] - bounds[0] > 1)
    }

    /// The number of bytes of text analyzed.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns whether any text has more than one line, and therefore may have a title.
    pub fn has_titles(&self) -> bool {
        self.has_titles
    }

    /// Returns the fraction of a document's terms that would be unknown if the document were held
    /// out: terms that occur in no other document, and terms that were dropped.
    ///
    /// # Panics
    /// If there is no such document.
    pub fn unknown_share(&self, row: usize) -> f64 {
        self.unknown_share_among(row, None)
    }

    /// Like [`unknown_share`](Self::unknown_share), but if `kept` is given, all other terms count
    /// as unknown.
    pub(crate) fn unknown_share_among(&self, row: usize, kept: Option<&[bool]>) -> f64 {
        let frequencies = self.vocabulary.document_frequencies();
        let entries = range(self.indptr[row], self.indptr[row + 1]);
        let is_known = |term: u32| {
            frequencies[term as usize] > 1 && kept.is_none_or(|kept| kept[term as usize])
        };
        let known = entries.filter(|&entry| is_known(self.terms[entry])).map(|entry| {
            match self.vocabulary.kind() {
                TermKind::Text => self.values.total(entry),
                TermKind::Columns => 1.0,
            }
        });
        let known: f32 = known.sum();
        let length = self.lengths[row];
        // The numbers equal those of `TermUse::unknown_share`: many short texts have the same
        // share, and limits are compared with it.
        let unknown = f64::from(length - known);
        if length > 0.0 { (unknown / f64::from(length)).clamp(0.0, 1.0) } else { 0.0 }
    }

    /// For each term, counts the documents that contain it and for which `is_in` returns true.
    pub(crate) fn frequencies_among(&self, is_in: impl Fn(u32) -> bool) -> Vec<u32> {
        let mut frequencies = vec![0; self.vocabulary.len()];
        for row in (0u32..).take(self.documents()).filter(|&row| is_in(row)) {
            let row = row as usize;
            for entry in range(self.indptr[row], self.indptr[row + 1]) {
                frequencies[self.terms[entry] as usize] += 1;
            }
        }
        frequencies
    }

    /// The labels of document `row`, in increasing order.
    pub(crate) fn labels(&self, row: usize) -> &[u32] {
        &self.label_indices[range(self.label_indptr[row], self.label_indptr[row + 1])]
    }

    /// Multiplies each document's weight by the mean of its labels' weights.
    ///
    /// # Errors
    /// If no document has one of the given labels. The error contains the label.
    pub fn weigh_classes(&mut self, weights: &ClassWeights) -> Result<(), String> {
        let label_weights: Vec<f32> = match weights {
            ClassWeights::Balanced => {
                let documents = self.documents() as f32 / self.label_names.len().max(1) as f32;
                self.label_sizes().iter().map(|&size| documents / size.max(1) as f32).collect()
            }
            ClassWeights::Given(given) => {
                let mut label_weights = vec![1.0; self.label_names.len()];
                for (label, weight) in given {
                    let number = self.label_names.binary_search(label);
                    label_weights[number.map_err(|_| label.clone())?] = *weight;
                }
                label_weights
            }
        };
        for row in 0..self.documents() {
            let labels = self.labels(row);
            if !labels.is_empty() {
                let sum: f32 = labels.iter().map(|&label| label_weights[label as usize]).sum();
                // Models must not have weights that are 0 or infinite.
                let weight = self.weights[row] * (sum / labels.len() as f32);
                self.weights[row] = weight.clamp(f32::MIN_POSITIVE, f32::MAX);
            }
        }
        Ok(())
    }

    /// Adds to each document the ancestors of its labels.
    ///
    /// # Panics
    /// Never.
    pub fn close_labels(&mut self, hierarchy: &Hierarchy) {
        let mut names: BTreeSet<&str> = self.label_names.iter().map(String::as_str).collect();
        for label in &self.label_names {
            names.extend(hierarchy.ancestors(label));
        }
        let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
        let number = |label: &str| {
            let number = names.binary_search_by(|name| name.as_str().cmp(label));
            u32::try_from(number.expect("all names are listed")).expect("fewer than 2^32 labels")
        };
        let with_ancestors: Vec<Vec<u32>> = self
            .label_names
            .iter()
            .map(|label| {
                let ancestors = hierarchy.ancestors(label).into_iter();
                ancestors.map(number).chain([number(label)]).collect()
            })
            .collect();
        let mut indptr = vec![0];
        let mut indices = Vec::new();
        for row in 0..self.documents() {
            let mut labels: Vec<u32> = Vec::new();
            for &label in self.labels(row) {
                labels.extend(&with_ancestors[label as usize]);
            }
            labels.sort_unstable();
            labels.dedup();
            indices.extend(labels);
            indptr.push(indices.len() as u64);
        }
        self.label_names = names;
        self.label_indptr = indptr;
        self.label_indices = indices;
    }

    /// Returns the number of documents with each label.
    pub fn label_sizes(&self) -> Vec<u32> {
        let mut sizes = vec![0; self.label_names.len()];
        for &label in &self.label_indices {
            sizes[label as usize] += 1;
        }
        sizes
    }

    /// Returns `(starts, rows)`. The documents that contain term `t`, in increasing order, are
    /// `rows[starts[t]..starts[t + 1]]`.
    pub(crate) fn postings(&self) -> (Vec<usize>, Vec<u32>) {
        let mut starts = vec![0; self.vocabulary.len() + 1];
        for &term in &self.terms {
            starts[term as usize + 1] += 1;
        }
        for term in 1..starts.len() {
            starts[term] += starts[term - 1];
        }
        let mut next = starts.clone();
        let mut rows = vec![0; self.terms.len()];
        for (row, bounds) in (0..).zip(self.indptr.windows(2)) {
            for &term in &self.terms[range(bounds[0], bounds[1])] {
                rows[next[term as usize]] = row;
                next[term as usize] += 1;
            }
        }
        (starts, rows)
    }

    /// Keeps only the terms marked in `kept`.
    #[must_use]
    pub(crate) fn keep(mut self, kept: &[bool]) -> Self {
        let mut numbers = vec![0; kept.len()];
        let mut terms = StringsBuilder::default();
        let mut frequencies = Vec::new();
        for (term, &frequency) in (0u32..).zip(self.vocabulary.document_frequencies()) {
            if kept[term as usize] {
                numbers[term as usize] =
                    u32::try_from(frequencies.len()).expect("at most the number of terms");
                terms.push(self.vocabulary.term(term).expect("each term has a frequency"));
                frequencies.push(frequency);
            }
        }
        self.vocabulary =
            Vocabulary::new(self.vocabulary.kind(), terms.build(), frequencies.into())
                .expect("a sorted subset of the terms");
        let mut start = 0;
        let mut end = 0;
        for bound in &mut self.indptr[1..] {
            for entry in range(start, *bound) {
                let term = self.terms[entry] as usize;
                if kept[term] {
                    self.terms[end] = numbers[term];
                    self.values.move_entry(entry, end);
                    end += 1;
                }
            }
            start = *bound;
            *bound = end as u64;
        }
        self.terms.truncate(end);
        self.values.truncate(end);
        self
    }

    /// Returns the counts as rows. The counts of each field are multiplied by its boost.
    pub(crate) fn rows(&self, boosts: &[f32], threads: &Threads) -> RawRows {
        let (indices, data) = threads.run(|| {
            rayon::join(
                || self.terms.par_iter().copied().collect(),
                || {
                    (0..self.terms.len())
                        .into_par_iter()
                        .map(|entry| self.boosted(boosts, entry))
                        .collect()
                },
            )
        });
        RawRows { indptr: self.indptr.clone(), indices, data }
    }

    /// Like [`rows`](Self::rows), but with only the terms in `kept`. If `only` is given, the rows
    /// of all other documents are empty.
    pub(crate) fn rows_of(&self, boosts: &[f32], kept: &[bool], only: Option<&[u32]>) -> RawRows {
        let mut is_in = vec![only.is_none(); self.documents()];
        only.into_iter().flatten().for_each(|&row| is_in[row as usize] = true);
        let all = || self.indptr.windows(2).map(|bounds| range(bounds[0], bounds[1])).zip(&is_in);
        let is_kept = |entry: usize| kept[self.terms[entry] as usize];
        let count = |entries: Range<usize>| entries.filter(|&entry| is_kept(entry)).count();
        let size: usize =
            all().map(|(entries, &is_in)| if is_in { count(entries) } else { 0 }).sum();
        // One more entry, which is overwritten until a term is kept.
        let mut indices = vec![0; size + 1];
        let mut data = vec![0.0; size + 1];
        let mut indptr = Vec::with_capacity(self.indptr.len());
        indptr.push(0);
        let mut end = 0;
        for (entries, &is_in) in all() {
            for entry in if is_in { entries } else { 0..0 } {
                // Branchless: the next entry overwrites a term that is not kept.
                (indices[end], data[end]) = (self.terms[entry], self.boosted(boosts, entry));
                end += usize::from(is_kept(entry));
            }
            indptr.push(end as u64);
        }
        indices.truncate(end);
        data.truncate(end);
        RawRows { indptr, indices, data }
    }

    /// Like [`rows`](Self::rows), but frees the counts.
    pub(crate) fn take_rows(&mut self, boosts: &[f32], threads: &Threads) -> RawRows {
        let data = match (std::mem::take(&mut self.values), boosts) {
            (Values::Given(values), [boost]) if boost.to_bits() == 1f32.to_bits() => values,
            (values, _) => threads.run(|| {
                let boosted = |entry| values.boosted(boosts, entry);
                (0..self.terms.len()).into_par_iter().map(boosted).collect()
            }),
        };
        let indptr = std::mem::take(&mut self.indptr);
        let indices = std::mem::take(&mut self.terms);
        RawRows { indptr, indices, data }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "bounds of a vector")]
fn range(start: u64, end: u64) -> Range<usize> {
    start as usize..end as usize
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;
    use crate::text::analyze::{Analyzer, AnalyzerSpec};
    use crate::text::corpus::{Content, Place};

    #[test]
    fn rows_of_some_documents_have_the_kept_terms() {
        let document = |text: &str| Document {
            id: String::new(),
            content: Content::Text(text.to_owned()),
            labels: Vec::new(),
            weight: 1.0,
            vector: None,
            group: None,
            place: Place { source: "test".into(), line: None },
        };
        let texts = ["a b\nb c d", "a\na d d", "", "c c\nd a", "b\nb"];
        let analyzer = Analyzer::new(AnalyzerSpec::default());
        let input = Input::Text { analyzer, fields: Fields::FirstLine { boost: 1.0 } };
        let threads = Threads::new(NonZeroUsize::MIN).unwrap();
        let mut documents = texts.into_iter().map(|text| Ok(document(text)));
        let options = CountOptions::new(&input);
        let counts = Counts::read(&mut documents, &options, &threads, &|_| ()).unwrap();
        let boosts = [3.0, 1.0];
        let entries = |rows: &RawRows, row: usize| -> Vec<(u32, f32)> {
            let entries = range(rows.indptr[row], rows.indptr[row + 1]);
            rows.indices[entries.clone()]
                .iter()
                .copied()
                .zip(rows.data[entries].iter().copied())
                .collect()
        };
        let all = counts.rows(&boosts, &threads);
        assert_eq!(entries(&all, 0), [(0, 3.0), (1, 4.0), (2, 1.0), (3, 1.0)]);
        for only in [None, Some(&[][..]), Some(&[1, 3]), Some(&[0, 2, 4])] {
            for kept in
                [[true; 4], [false; 4], [false, true, false, true], [true, false, true, false]]
            {
                let rows = counts.rows_of(&boosts, &kept, only);
                for row in 0..texts.len() {
                    let number = u32::try_from(row).unwrap();
                    let is_in = only.is_none_or(|only| only.contains(&number));
                    let mut expected = entries(&all, row);
                    expected.retain(|&(term, _)| is_in && kept[term as usize]);
                    assert_eq!(entries(&rows, row), expected, "{row} of {only:?}, {kept:?}");
                }
                assert_eq!(rows.indptr[texts.len()], rows.indices.len() as u64);
                assert_eq!(rows.indices.len(), rows.data.len());
            }
        }
    }

    /// Limits learned from held-out documents are compared with shares of new documents, so equal
    /// shares must be the same number.
    #[test]
    fn shares_of_unknown_terms_equal_those_of_new_documents() {
        let analyzer = Analyzer::new(AnalyzerSpec::default());
        let input = Input::Text { analyzer, fields: Fields::Whole };
        let threads = Threads::new(NonZeroUsize::MIN).unwrap();
        for known in 1..60 {
            let common = "common ".repeat(known);
            let texts = [format!("{common}once"), "common".to_owned()];
            let mut documents = texts.iter().map(|text| Ok(Document::text("", text)));
            let options = CountOptions::new(&input);
            let counts = Counts::read(&mut documents, &options, &threads, &|_| ()).unwrap();
            let of_new = 1.0 / (known + 1) as f64;
            assert_eq!(counts.unknown_share(0).to_bits(), of_new.to_bits(), "{known} known terms");
        }
    }
}
