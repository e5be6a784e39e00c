//! Training documents → term counts: a vocabulary, and a row of counts per document.
//!
//! Documents are read in pieces, and whichever thread is free counts the next piece in its own shard, which
//! numbers terms in the order of their first occurrence. Finally, the terms of all shards are sorted and
//! renumbered, so that the result does not depend on the threads or pieces.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rayon::prelude::*;

use crate::rows::strings::{Strings, StringsBuilder};
use crate::stages::Stage;
use crate::text::analyze::Analyzer;
use crate::text::corpus::{Content, CorpusError, Document};
use crate::text::hierarchy::Hierarchy;
use crate::text::tfidf::RawRows;
use crate::text::vocabulary::{TermKind, Vocabulary};
use crate::threads::{self, Threads};

mod fields;
mod headers;
mod merge;
mod shard;
mod statistics;
mod unite;

pub use fields::Fields;
pub(crate) use fields::tally;
use headers::Headers;
use merge::merge;
use shard::Shard;
pub(crate) use statistics::Whole;
pub use statistics::{CorpusStatistics, TermFrequency};

/// Bytes of text (and number of documents) in a piece.
const PIECE_BYTES: usize = 1 << 18;
const PIECE_DOCUMENTS: usize = 1_024;
/// Pieces for each thread that are counted or wait for it.
const PIECES_OF_THREAD: usize = 3;

/// A limit on the document frequency: a number of documents, or a share of them.
///
/// ```
/// use classify::text::counts::DfLimit;
/// assert_eq!("5".parse(), Ok(DfLimit::Count(5)));
/// assert_eq!("50%".parse(), Ok(DfLimit::Share(0.5)));
/// assert!("0.5".parse::<DfLimit>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DfLimit {
    /// A number of documents.
    Count(u32),
    /// A share of the documents, from 0 to 1.
    Share(f64),
}

impl DfLimit {
    /// The limit as a number of documents, not rounded.
    fn documents(self, total: usize) -> f64 {
        match self {
            Self::Count(count) => f64::from(count),
            Self::Share(share) => share * total as f64,
        }
    }
}

impl FromStr for DfLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let limit = match text.strip_suffix('%') {
            Some(percent) => percent
                .trim()
                .parse::<f64>()
                .ok()
                .filter(|percent| (0.0..=100.0).contains(percent))
                .map(|percent| Self::Share(percent / 100.0)),
            None => text.parse().ok().map(Self::Count),
        };
        limit.ok_or_else(|| format!("`{text}` is neither a count like 5 nor a share like 50%"))
    }
}

impl fmt::Display for DfLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            Self::Share(share) => write!(f, "{}%", share * 100.0),
        }
    }
}

/// Which terms enter the vocabulary.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TermLimits {
    /// The minimum document frequency, inclusive.
    pub min_df: DfLimit,
    /// The maximum document frequency, inclusive.
    pub max_df: DfLimit,
    /// The maximum number of terms: those with the highest document frequency are kept, ties by
    /// term order.
    pub max_terms: Option<NonZeroUsize>,
}

impl Default for TermLimits {
    fn default() -> Self {
        Self { min_df: DfLimit::Count(1), max_df: DfLimit::Share(1.0), max_terms: None }
    }
}

/// The weight of each label's documents in a vote.
///
/// ```
/// use classify::text::counts::ClassWeights;
/// assert_eq!("balanced".parse(), Ok(ClassWeights::Balanced));
/// assert_eq!("spam:2".parse(), Ok(ClassWeights::Given(vec![("spam".into(), 2.0)])));
/// assert!("spam".parse::<ClassWeights>().is_err());
/// ```
#[derive(Debug, Clone, PartialEq)]
pub enum ClassWeights {
    /// N / (labels · n) for a label with n of the N documents, so that all labels have the same
    /// total weight.
    Balanced,
    /// A weight for each of these labels, 1 for the others.
    Given(Vec<(String, f32)>),
}

impl FromStr for ClassWeights {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "balanced" {
            return Ok(Self::Balanced);
        }
        let weight = |part: &str| {
            let (label, weight) = part.rsplit_once(':')?;
            let weight = weight.parse().ok().filter(|weight: &f32| *weight > 0.0);
            let weight = weight.filter(|weight| weight.is_finite() && !label.is_empty())?;
            Some((label.to_owned(), weight))
        };
        let weights: Option<Vec<_>> = text.split(',').map(weight).collect();
        weights
            .map(Self::Given)
            .ok_or_else(|| format!("`{text}` is neither `balanced` nor LABEL:WEIGHT,…"))
    }
}

/// How a document's content is counted.
#[derive(Debug)]
pub enum Input {
    /// Text, split into terms by an analyzer.
    Text {
        /// The analyzer.
        analyzer: Analyzer,
        /// The fields that are counted separately.
        fields: Fields,
    },
    /// Features as given; counts must not be negative.
    Features {
        /// Whether the values are counts, to be weighted.
        counts: bool,
    },
    /// No terms: the documents are dense vectors.
    Nothing,
}

/// The documents of a training corpus, counted.
#[derive(Debug, Clone)]
pub struct Counts {
    pub(crate) vocabulary: Vocabulary,
    pub(crate) indptr: Vec<u64>,
    pub(crate) terms: Vec<u32>,
    /// For each field, the counts of `terms`; 0 for a term that is not in the field.
    pub(crate) values: Vec<Vec<f32>>,
    pub(crate) ids: Strings,
    /// Label names by number, in byte order.
    pub(crate) label_names: Vec<String>,
    /// The labels of document `i`, in increasing order, are
    /// `label_indices[label_indptr[i]..label_indptr[i + 1]]`.
    pub(crate) label_indptr: Vec<u64>,
    pub(crate) label_indices: Vec<u32>,
    pub(crate) weights: Vec<f32>,
    /// The group of each document; empty if no document has one.
    pub(crate) groups: Vec<u32>,
    pub(crate) texts: Option<Strings>,
    /// For each document, the number of terms with repetitions, before any were dropped; for
    /// features, the number of columns.
    pub(crate) lengths: Vec<f32>,
    pub(crate) bytes: u64,
    /// Whether any text has more than one line.
    pub(crate) titled: bool,
    /// The size of the corpus whose terms these are, if it is not these documents.
    pub(crate) whole: Option<Whole>,
    /// How long counting took.
    pub(crate) stages: Vec<Stage>,
}

impl Counts {
    /// Whether every value that is not 0 is 1, as of features that a document has or has not.
    pub(crate) fn is_binary(&self) -> bool {
        self.values.iter().flatten().all(|&value| value.to_bits() == 1f32.to_bits())
    }

    /// Reads and counts a corpus. `progress` is called with the number of documents read so far.
    ///
    /// # Errors
    /// The first error of the corpus; a corpus without documents; text where features are expected
    /// or vice versa.
    pub fn read(
        documents: &mut (dyn Iterator<Item = Result<Document, CorpusError>> + Send),
        input: &Input,
        limits: TermLimits,
        keep_text: bool,
        threads: &Threads,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Self, CorpusError> {
        let counting = Counting::new(input);
        let mut headers = Headers::new(keep_text);
        let mut reading = Stage::empty("train: read");
        let begin = Instant::now();
        let most = PIECES_OF_THREAD * threads.count();
        let read = threads.scope(|scope| {
            for number in 0.. {
                counting.wait_for_fewer_than(most);
                if counting.state().failed.is_some() {
                    break;
                }
                let start = Instant::now();
                let (piece, ended) = read_piece(documents);
                reading.add(piece.len() as u64, start);
                for document in &piece {
                    headers.push(document);
                }
                progress(headers.len() as u64);
                counting.state().waiting.push_back(Piece { number, documents: piece });
                scope.spawn(|_| {
                    let _ = counting.count_next();
                });
                if let Some(ended) = ended {
                    return ended;
                }
            }
            Ok(())
        });
        let CountingState { shards, busy, failed, .. } =
            counting.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        // What failed in a piece comes before what failed in reading.
        match failed {
            Some((_, error)) => return Err(error),
            None => read?,
        }
        let seconds = begin.elapsed().as_secs_f64();
        let start = Instant::now();
        let merged = merge(shards, headers.len(), limits, threads);
        let merging = Stage::since("train: merge the counts", reading.documents, start);
        let analyzing = Stage {
            seconds: busy.as_secs_f64(),
            documents: reading.documents,
            bytes: Some(merged.bytes).filter(|&bytes| bytes > 0),
            ..Stage::empty("train: count")
        };
        let stages = vec![reading.beside(seconds), analyzing.beside(seconds), merging];
        Ok(Self { stages, ..headers.finish(merged) })
    }

    /// The number of documents.
    pub fn documents(&self) -> usize {
        self.weights.len()
    }

    /// The group of each document; empty if no document has one.
    pub fn groups(&self) -> &[u32] {
        &self.groups
    }

    /// The number of pairs of a document and a term in it.
    pub(crate) fn entries(&self) -> usize {
        self.terms.len()
    }

    /// Whether no terms are left.
    pub fn has_no_term(&self) -> bool {
        self.vocabulary.is_empty()
    }

    /// Whether a document has more than one label.
    pub fn has_several_labels(&self) -> bool {
        self.label_indptr.windows(2).any(|bounds| bounds[1] - bounds[0] > 1)
    }

    /// The number of bytes of text analyzed.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether some document has terms outside its last field, or may have.
    pub fn has_titles(&self) -> bool {
        self.titled
    }

    /// The share of a document's terms that would be unknown if it were left out: those that occur
    /// in no other document, and those that were dropped.
    ///
    /// # Panics
    /// If there is no such document.
    pub fn unknown_share(&self, row: usize) -> f64 {
        self.unknown_share_among(row, None)
    }

    /// The same if only the terms in `kept` are kept.
    pub(crate) fn unknown_share_among(&self, row: usize, kept: Option<&[bool]>) -> f64 {
        let frequencies = self.vocabulary.document_frequencies();
        let entries = range(self.indptr[row], self.indptr[row + 1]);
        let is_known = |term: u32| {
            frequencies[term as usize] > 1 && kept.is_none_or(|kept| kept[term as usize])
        };
        let known =
            entries.filter(|&at| is_known(self.terms[at])).map(|at| match self.vocabulary.kind() {
                TermKind::Text => self.values.iter().map(|values| values[at]).sum(),
                TermKind::Columns => 1.0,
            });
        let known: f32 = known.sum();
        let length = self.lengths[row];
        if length > 0.0 { (1.0 - f64::from(known / length)).clamp(0.0, 1.0) } else { 0.0 }
    }

    /// How many of the documents for which `is_in` returns true have each term.
    pub(crate) fn frequencies_among(&self, is_in: impl Fn(u32) -> bool) -> Vec<u32> {
        let mut frequencies = vec![0; self.vocabulary.len()];
        for row in (0u32..).take(self.documents()).filter(|&row| is_in(row)) {
            let row = row as usize;
            for at in range(self.indptr[row], self.indptr[row + 1]) {
                frequencies[self.terms[at] as usize] += 1;
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
    /// A label that no document has.
    pub fn weigh_classes(&mut self, weights: &ClassWeights) -> Result<(), String> {
        let of_label: Vec<f32> = match weights {
            ClassWeights::Balanced => {
                let documents = self.documents() as f32 / self.label_names.len().max(1) as f32;
                self.label_sizes().iter().map(|&size| documents / size.max(1) as f32).collect()
            }
            ClassWeights::Given(given) => {
                let mut of_label = vec![1.0; self.label_names.len()];
                for (label, weight) in given {
                    let number = self.label_names.binary_search(label);
                    of_label[number.map_err(|_| label.clone())?] = *weight;
                }
                of_label
            }
        };
        for row in 0..self.documents() {
            let labels = self.labels(row);
            if !labels.is_empty() {
                let sum: f32 = labels.iter().map(|&label| of_label[label as usize]).sum();
                // Models must not have weights that are 0 or infinite.
                let weight = self.weights[row] * (sum / labels.len() as f32);
                self.weights[row] = weight.clamp(f32::MIN_POSITIVE, f32::MAX);
            }
        }
        Ok(())
    }

    /// Adds the ancestors of its labels to every document.
    ///
    /// # Panics
    /// Never: labels are renumbered by their names.
    pub fn close_labels(&mut self, hierarchy: &Hierarchy) {
        let mut names: BTreeSet<&str> = self.label_names.iter().map(String::as_str).collect();
        for label in &self.label_names {
            names.extend(hierarchy.ancestors(label));
        }
        let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
        let number = |label: &str| {
            let number = names.binary_search_by(|name| name.as_str().cmp(label));
            u32::try_from(number.expect("all names are there")).expect("fewer than 2^32 labels")
        };
        let closed: Vec<Vec<u32>> = self
            .label_names
            .iter()
            .map(|label| {
                let above = hierarchy.ancestors(label).into_iter();
                above.map(number).chain([number(label)]).collect()
            })
            .collect();
        let (mut indptr, mut indices) = (vec![0], Vec::new());
        for row in 0..self.documents() {
            let mut labels: Vec<u32> = Vec::new();
            for &label in self.labels(row) {
                labels.extend(&closed[label as usize]);
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

    /// The number of documents with each label.
    pub fn label_sizes(&self) -> Vec<u32> {
        let mut sizes = vec![0; self.label_names.len()];
        for &label in &self.label_indices {
            sizes[label as usize] += 1;
        }
        sizes
    }

    /// For each term, the documents that contain it, in increasing order: those of term `t` are
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
                    u32::try_from(frequencies.len()).expect("not more than the terms");
                terms.push(self.vocabulary.term(term).expect("each term has a frequency"));
                frequencies.push(frequency);
            }
        }
        self.vocabulary =
            Vocabulary::new(self.vocabulary.kind(), terms.build(), frequencies.into())
                .expect("some of the terms, in their order");
        let (mut start, mut end) = (0, 0);
        for bound in &mut self.indptr[1..] {
            for at in range(start, *bound) {
                let term = self.terms[at] as usize;
                if kept[term] {
                    self.terms[end] = numbers[term];
                    self.values.iter_mut().for_each(|values| values[end] = values[at]);
                    end += 1;
                }
            }
            start = *bound;
            *bound = end as u64;
        }
        self.terms.truncate(end);
        self.values.iter_mut().for_each(|values| values.truncate(end));
        self
    }

    /// The counts as rows, with each field's counts times its boost.
    pub(crate) fn rows(&self, boosts: &[f32], threads: &Threads) -> RawRows {
        let (indices, data) = threads.run(|| {
            rayon::join(
                || self.terms.par_iter().copied().collect(),
                || {
                    (0..self.terms.len())
                        .into_par_iter()
                        .map(|at| self.boosted(boosts, at))
                        .collect()
                },
            )
        });
        RawRows { indptr: self.indptr.clone(), indices, data }
    }

    /// The same of the terms in `kept`; only of the documents in `only`, if given, the other rows are empty.
    pub(crate) fn rows_of(&self, boosts: &[f32], kept: &[bool], only: Option<&[u32]>) -> RawRows {
        let mut is_in = vec![only.is_none(); self.documents()];
        only.into_iter().flatten().for_each(|&row| is_in[row as usize] = true);
        let all = || self.indptr.windows(2).map(|bounds| range(bounds[0], bounds[1])).zip(&is_in);
        let most = all().map(|(entries, &is_in)| if is_in { entries.len() } else { 0 }).sum();
        let (mut indices, mut data) = (vec![0; most], vec![0.0; most]);
        let (mut indptr, mut end) = (vec![0], 0);
        for (entries, &is_in) in all() {
            for at in if is_in { entries } else { 0..0 } {
                // The next entry overwrites a term that is not kept: no branch to predict.
                (indices[end], data[end]) = (self.terms[at], self.boosted(boosts, at));
                end += usize::from(kept[self.terms[at] as usize]);
            }
            indptr.push(end as u64);
        }
        indices.truncate(end);
        data.truncate(end);
        RawRows { indptr, indices, data }
    }

    /// The same without a copy: moves the counts out.
    pub(crate) fn take_rows(&mut self, boosts: &[f32]) -> RawRows {
        let data = match (self.values.as_mut_slice(), boosts) {
            ([values], [boost]) if boost.to_bits() == 1f32.to_bits() => std::mem::take(values),
            _ => (0..self.terms.len()).map(|at| self.boosted(boosts, at)).collect(),
        };
        let (indptr, indices) = (std::mem::take(&mut self.indptr), std::mem::take(&mut self.terms));
        RawRows { indptr, indices, data }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "bounds of a vector")]
fn range(start: u64, end: u64) -> std::ops::Range<usize> {
    start as usize..end as usize
}

/// Consecutive documents that one thread counts.
struct Piece {
    /// Its position among all pieces.
    number: usize,
    documents: Vec<Document>,
}

/// Pieces that wait to be counted, and what was counted of the others.
struct Counting<'a> {
    input: &'a Input,
    state: Mutex<CountingState<'a>>,
    /// Notified whenever a thread is done with a piece.
    done: Condvar,
}

struct CountingState<'a> {
    waiting: VecDeque<Piece>,
    /// The shards that no thread uses at the moment.
    shards: Vec<Shard<'a>>,
    /// The number of pieces that are being counted.
    in_use: usize,
    /// Since when `in_use` is above 0.
    since: Instant,
    /// How long it was above 0 before.
    busy: Duration,
    /// The first piece with an error.
    failed: Option<(usize, CorpusError)>,
}

impl<'a> Counting<'a> {
    fn new(input: &'a Input) -> Self {
        let state = CountingState {
            waiting: VecDeque::new(),
            shards: Vec::new(),
            in_use: 0,
            since: Instant::now(),
            busy: Duration::ZERO,
            failed: None,
        };
        Self { input, state: Mutex::new(state), done: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, CountingState<'a>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until fewer than `most` pieces wait or are being counted. A caller that is a worker of
    /// a thread pool counts pieces meanwhile: every worker might be waiting in the same way.
    fn wait_for_fewer_than(&self, most: usize) {
        let is_full = |state: &mut CountingState<'a>| state.waiting.len() + state.in_use >= most;
        let counts_itself = || {
            let full = is_full(&mut self.state());
            full && self.count_next()
        };
        if threads::is_worker() {
            while counts_itself() {}
        }
        drop(self.done.wait_while(self.state(), is_full));
    }

    /// Counts the next piece that waits; `false`: there is none.
    fn count_next(&self) -> bool {
        let mut state = self.state();
        let Some(Piece { number, documents }) = state.waiting.pop_front() else { return false };
        let shard = state.shards.pop();
        if state.in_use == 0 {
            state.since = Instant::now();
        }
        state.in_use += 1;
        drop(state);
        // Also after a panic.
        let _done = Done(self);
        let mut shard = shard.unwrap_or_else(|| Shard::new(self.input));
        let counted = shard.count(number, &documents);
        let mut state = self.state();
        state.shards.push(shard);
        if let Err(error) = counted
            && state.failed.as_ref().is_none_or(|&(first, _)| number < first)
        {
            state.failed = Some((number, error));
        }
        true
    }
}

/// Says that a piece was counted when it is dropped.
struct Done<'a, 'b>(&'a Counting<'b>);

impl Drop for Done<'_, '_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.in_use -= 1;
        if state.in_use == 0 {
            let busy = state.since.elapsed();
            state.busy += busy;
        }
        self.0.done.notify_one();
    }
}

/// The next documents, and why there are no more, if there are none: the end, or an error.
fn read_piece(
    documents: &mut (dyn Iterator<Item = Result<Document, CorpusError>> + Send),
) -> (Vec<Document>, Option<Result<(), CorpusError>>) {
    let (mut piece, mut bytes) = (Vec::new(), 0);
    while bytes < PIECE_BYTES && piece.len() < PIECE_DOCUMENTS {
        let document = match documents.next() {
            Some(Ok(document)) => document,
            Some(Err(error)) => return (piece, Some(Err(error))),
            None => return (piece, Some(Ok(()))),
        };
        bytes += match &document.content {
            Content::Features(features) => features.len() * 8,
            text => text.text_bytes(),
        };
        piece.push(document);
    }
    (piece, None)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;
    use crate::text::analyze::{Analyzer, AnalyzerSpec};
    use crate::text::corpus::Place;

    #[test]
    fn rows_of_some_documents_have_the_kept_terms() {
        let document = |text: &str| Document {
            id: String::new(),
            content: Content::Text(text.to_owned()),
            labels: Vec::new(),
            weight: 1.0,
            vector: None,
            group: None,
            place: Place { source: "made".into(), line: None },
        };
        let texts = ["a b\nb c d", "a\na d d", "", "c c\nd a", "b\nb"];
        let analyzer = Analyzer::new(AnalyzerSpec::default());
        let input = Input::Text { analyzer, fields: Fields::FirstLine { boost: 1.0 } };
        let threads = Threads::new(NonZeroUsize::MIN).unwrap();
        let mut documents = texts.into_iter().map(|text| Ok(document(text)));
        let limits = TermLimits::default();
        let counts =
            Counts::read(&mut documents, &input, limits, false, &threads, &|_| ()).unwrap();
        let boosts = [3.0, 1.0];
        let entries = |rows: &RawRows, row: usize| -> Vec<(u32, f32)> {
            let at = range(rows.indptr[row], rows.indptr[row + 1]);
            rows.indices[at.clone()].iter().copied().zip(rows.data[at].iter().copied()).collect()
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
}
