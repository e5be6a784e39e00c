//! Training documents → term counts: a vocabulary, and a row of counts for each document.
//!
//! Documents are read in batches; while the next batch is read, the current one is analyzed in
//! as many pieces as there are threads. Each thread has a [`Shard`] of its own: terms as it met
//! them, rows of its pieces. In the end the shards' terms are sorted and renumbered, so that
//! neither the threads nor the pieces leave a trace in the result.

use std::collections::HashMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;

use rayon::prelude::*;

use crate::analyze::{Analyzer, TermCounter};
use crate::corpus::{Content, CorpusError, Document, Problem};
use crate::strings::Strings;
use crate::threads::Threads;
use crate::vocabulary::{Interner, TermKind, Vocabulary};

/// Bytes of text (and documents) that are analyzed together.
const BATCH_BYTES: usize = 1 << 22;
const BATCH_DOCUMENTS: usize = 8_192;

/// A limit on document frequency: a number of documents, or a share of them.
///
/// ```
/// use classify::counts::DfLimit;
/// assert_eq!("5".parse(), Ok(DfLimit::Count(5)));
/// assert_eq!("50%".parse(), Ok(DfLimit::Share(0.5)));
/// assert!("0.5".parse::<DfLimit>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DfLimit {
    /// So many documents.
    Count(u32),
    /// This share of the documents, from 0 to 1.
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
    /// The least document frequency, included.
    pub min_df: DfLimit,
    /// The largest document frequency, included.
    pub max_df: DfLimit,
    /// At most so many terms: those of highest document frequency, equal ones by their order.
    pub max_terms: Option<NonZeroUsize>,
}

impl Default for TermLimits {
    fn default() -> Self {
        Self { min_df: DfLimit::Count(1), max_df: DfLimit::Share(1.0), max_terms: None }
    }
}

/// What becomes of a document's content.
#[derive(Debug)]
pub enum Input {
    /// Text, by an analyzer.
    Text(Analyzer),
    /// Features as they are given; counts may not be negative.
    Features {
        /// Whether the values are counts, to be weighted.
        counts: bool,
    },
}

/// What a corpus says of one document beside its terms.
#[derive(Debug)]
struct Header {
    id: String,
    labels: Vec<u32>,
    weight: f32,
}

/// The documents of a training corpus, counted.
#[derive(Debug)]
pub struct Counts {
    pub(crate) vocabulary: Vocabulary,
    pub(crate) indptr: Vec<u64>,
    pub(crate) terms: Vec<u32>,
    pub(crate) values: Vec<f32>,
    pub(crate) ids: Strings,
    /// Label names by number, in byte order.
    pub(crate) label_names: Vec<String>,
    /// The labels of each document, rising.
    pub(crate) labels: Vec<Vec<u32>>,
    pub(crate) weights: Vec<f32>,
    pub(crate) texts: Option<Strings>,
    pub(crate) bytes: u64,
}

impl Counts {
    /// Reads and counts a corpus. `progress` is called with the number of documents read so far.
    ///
    /// # Errors
    /// The corpus's first error; a corpus without documents; text where features are expected
    /// and the reverse.
    pub fn read(
        documents: &mut (dyn Iterator<Item = Result<Document, CorpusError>> + Send),
        input: &Input,
        limits: TermLimits,
        keep_text: bool,
        threads: &Threads,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Self, CorpusError> {
        let mut shards: Vec<Shard<'_>> = (0..threads.count()).map(|_| Shard::new(input)).collect();
        let mut headers = Headers::default();
        let mut texts = keep_text.then(Vec::new);
        let mut pieces = Vec::new();
        let mut batch = read_batch(documents)?;
        while !batch.is_empty() {
            let size = batch.len().div_ceil(shards.len());
            let (next, counted) = threads.run(|| {
                rayon::join(
                    || read_batch(documents),
                    || {
                        shards
                            .par_iter_mut()
                            .zip(batch.par_chunks(size))
                            .map(|(shard, piece)| shard.count(piece))
                            .collect::<Result<Vec<usize>, CorpusError>>()
                    },
                )
            });
            pieces.extend(counted?.into_iter().enumerate());
            for document in batch {
                headers.push(&document);
                if let (Some(texts), Content::Text(text)) = (&mut texts, document.content) {
                    texts.push(text);
                }
            }
            progress(headers.documents.len() as u64);
            batch = next?;
        }
        let bytes = shards.iter().map(|shard| shard.bytes).sum();
        let texts = texts.map(|texts| texts.into_iter().collect());
        let counted = merge(shards, &pieces, limits, threads);
        Ok(headers.finish(counted, texts, bytes))
    }

    /// How many documents there are.
    pub fn documents(&self) -> usize {
        self.labels.len()
    }

    /// Whether a document has more than one label.
    pub fn has_several_labels(&self) -> bool {
        self.labels.iter().any(|labels| labels.len() > 1)
    }

    /// How many bytes of text were analyzed.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

fn read_batch(
    documents: &mut (dyn Iterator<Item = Result<Document, CorpusError>> + Send),
) -> Result<Vec<Document>, CorpusError> {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    while bytes < BATCH_BYTES && batch.len() < BATCH_DOCUMENTS {
        let Some(document) = documents.next().transpose()? else { break };
        bytes += match &document.content {
            Content::Text(text) => text.len(),
            Content::Features(features) => features.len() * 8,
        };
        batch.push(document);
    }
    Ok(batch)
}

#[derive(Default)]
struct Headers {
    documents: Vec<Header>,
    names: HashMap<String, u32>,
}

impl Headers {
    fn push(&mut self, document: &Document) {
        let labels = document.labels.iter().map(|label| self.number(label)).collect();
        let (id, weight) = (document.id.clone(), document.weight);
        self.documents.push(Header { id, labels, weight });
    }

    fn number(&mut self, label: &str) -> u32 {
        if let Some(&number) = self.names.get(label) {
            return number;
        }
        let number = u32::try_from(self.names.len()).expect("fewer than 2^32 labels");
        self.names.insert(label.to_owned(), number);
        number
    }

    fn finish(self, counted: Merged, texts: Option<Strings>, bytes: u64) -> Counts {
        let mut names: Vec<(String, u32)> = self.names.into_iter().collect();
        names.sort_unstable();
        let mut renumbered = vec![0; names.len()];
        for (new, (_, old)) in (0..).zip(&names) {
            renumbered[*old as usize] = new;
        }
        let ids = self.documents.iter().map(|header| &header.id).collect();
        let weights = self.documents.iter().map(|header| header.weight).collect();
        let labels = self.documents.into_iter().map(|header| {
            let mut labels: Vec<u32> =
                header.labels.into_iter().map(|label| renumbered[label as usize]).collect();
            labels.sort_unstable();
            labels
        });
        Counts {
            vocabulary: counted.vocabulary,
            indptr: counted.indptr,
            terms: counted.terms,
            values: counted.counts,
            ids,
            labels: labels.collect(),
            label_names: names.into_iter().map(|(name, _)| name).collect(),
            weights,
            texts,
            bytes,
        }
    }
}

/// The terms and rows that one thread counted.
struct Shard<'a> {
    counter: Counter<'a>,
    /// By the shard's own term numbers.
    terms_met: Vec<TermMet>,
    /// Where each row ends in `terms` and `counts`.
    ends: Vec<usize>,
    terms: Vec<u32>,
    counts: Vec<f32>,
    bytes: u64,
}

/// Where a shard has met a term.
#[derive(Clone, Copy)]
struct TermMet {
    document_frequency: u32,
    /// The last document's entry for the term in `terms` and `counts`.
    entry: usize,
}

/// No entry yet.
const NEVER: TermMet = TermMet { document_frequency: 0, entry: usize::MAX };

/// Where the numbers of a shard's terms come from.
enum Counter<'a> {
    Text { counter: Box<TermCounter<'a>>, interner: Interner, ids: Vec<u32> },
    Features { columns: HashMap<u32, u32>, counts: bool },
}

impl<'a> Shard<'a> {
    fn new(input: &'a Input) -> Self {
        let counter = match input {
            Input::Text(analyzer) => Counter::Text {
                counter: Box::new(TermCounter::new(analyzer)),
                interner: Interner::default(),
                ids: Vec::new(),
            },
            &Input::Features { counts } => Counter::Features { columns: HashMap::new(), counts },
        };
        Self {
            counter,
            terms_met: Vec::new(),
            ends: Vec::new(),
            terms: Vec::new(),
            counts: Vec::new(),
            bytes: 0,
        }
    }

    fn count(&mut self, documents: &[Document]) -> Result<usize, CorpusError> {
        for document in documents {
            self.count_one(document).map_err(|problem| problem.at(&document.place))?;
            self.ends.push(self.terms.len());
        }
        Ok(documents.len())
    }

    fn count_one(&mut self, document: &Document) -> Result<(), Problem> {
        let first = self.terms.len();
        match (&mut self.counter, &document.content) {
            (Counter::Text { counter, interner, ids }, Content::Text(text)) => {
                self.bytes += text.len() as u64;
                ids.clear();
                counter.ids(text, interner, ids);
                self.terms_met.resize(interner.len(), NEVER);
                for &mut term in ids {
                    let met = &mut self.terms_met[term as usize];
                    // An entry of this document, unless it is of an earlier one.
                    match self.counts.get_mut(met.entry) {
                        Some(count) if met.entry >= first => *count += 1.0,
                        _ => {
                            met.entry = self.terms.len();
                            met.document_frequency += 1;
                            self.terms.push(term);
                            self.counts.push(1.0);
                        }
                    }
                }
            }
            (Counter::Features { columns, counts }, Content::Features(features)) => {
                for &(column, value) in features {
                    if *counts && value < 0.0 {
                        return Err(Problem::NegativeCount { column, value });
                    }
                    if value == 0.0 {
                        continue;
                    }
                    let next = u32::try_from(columns.len()).unwrap_or(u32::MAX);
                    let term = *columns.entry(column).or_insert(next);
                    self.terms_met.resize(columns.len(), NEVER);
                    self.terms_met[term as usize].document_frequency += 1;
                    self.terms.push(term);
                    self.counts.push(value);
                }
            }
            (Counter::Text { .. }, Content::Features(_)) => {
                return Err(Problem::WrongContent {
                    found: "features",
                    expected: "the documents before have text",
                });
            }
            (Counter::Features { .. }, Content::Text(_)) => {
                return Err(Problem::WrongContent {
                    found: "text",
                    expected: "the documents before have features",
                });
            }
        }
        Ok(())
    }

    /// The shard's terms as sort keys with their numbers, unsorted.
    fn keys(&self) -> Vec<(Key<'_>, u32)> {
        match &self.counter {
            Counter::Text { interner, .. } => (0..)
                .take(interner.len())
                .map(|term| (Key::Text(interner.term(term)), term))
                .collect(),
            Counter::Features { columns, .. } => {
                columns.iter().map(|(&column, &term)| (Key::Column(column), term)).collect()
            }
        }
    }
}

/// Calls `entry` with each id and how often it is in `ids`, by rising id.
pub(crate) fn tally(ids: &mut [u32], mut entry: impl FnMut(u32, f32)) {
    ids.sort_unstable();
    for same in ids.chunk_by(|a, b| a == b) {
        entry(same[0], same.len() as f32);
    }
}

/// A term by its place in the vocabulary's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Key<'a> {
    Text(&'a str),
    Column(u32),
}

/// A term, a shard that met it, and the shard's number for it.
type Met<'a> = (Key<'a>, usize, u32);

struct Merged {
    vocabulary: Vocabulary,
    indptr: Vec<u64>,
    terms: Vec<u32>,
    counts: Vec<f32>,
}

/// A term that is not in the vocabulary.
const DROPPED: u32 = u32::MAX;

fn merge(
    mut shards: Vec<Shard<'_>>,
    pieces: &[(usize, usize)],
    limits: TermLimits,
    threads: &Threads,
) -> Merged {
    let documents: usize = pieces.iter().map(|&(_, rows)| rows).sum();
    let text = shards.iter().any(|shard| matches!(shard.counter, Counter::Text { .. }));
    let kind = if text { TermKind::Text } else { TermKind::Columns };
    let (vocabulary, numbers) = threads.run(|| unite(&shards, kind, documents, limits));
    let nonzeros = shards.iter().map(|shard| shard.terms.len()).sum();
    let mut indptr = Vec::with_capacity(documents + 1);
    indptr.push(0);
    let (mut terms, mut counts) = (Vec::with_capacity(nonzeros), Vec::with_capacity(nonzeros));
    let mut next_row = vec![0; shards.len()];
    let mut row = Vec::new();
    for &(piece, rows) in pieces {
        let shard = &mut shards[piece];
        for index in next_row[piece]..next_row[piece] + rows {
            let start = if index == 0 { 0 } else { shard.ends[index - 1] };
            row.clear();
            row.extend((start..shard.ends[index]).filter_map(|at| {
                let number = numbers[piece][shard.terms[at] as usize];
                (number != DROPPED).then_some((number, shard.counts[at]))
            }));
            row.sort_unstable_by_key(|&(number, _)| number);
            terms.extend(row.iter().map(|&(number, _)| number));
            counts.extend(row.iter().map(|&(_, count)| count));
            indptr.push(terms.len() as u64);
        }
        next_row[piece] += rows;
    }
    Merged { vocabulary, indptr, terms, counts }
}

/// The vocabulary of all shards, and for each shard the number of each of its terms in it.
fn unite(
    shards: &[Shard<'_>],
    kind: TermKind,
    documents: usize,
    limits: TermLimits,
) -> (Vocabulary, Vec<Vec<u32>>) {
    let mut keys: Vec<Met<'_>> = Vec::new();
    for (index, shard) in shards.iter().enumerate() {
        keys.extend(shard.keys().into_iter().map(|(key, term)| (key, index, term)));
    }
    keys.par_sort_unstable();
    let (min, max) = (limits.min_df.documents(documents), limits.max_df.documents(documents));
    let mut kept: Vec<(&[Met<'_>], u32)> = Vec::new();
    for same in keys.chunk_by(|a, b| a.0 == b.0) {
        let df = same
            .iter()
            .map(|&(_, shard, term)| shards[shard].terms_met[term as usize].document_frequency)
            .sum();
        if f64::from(df) >= min && f64::from(df) <= max {
            kept.push((same, df));
        }
    }
    if let Some(most) = limits.max_terms.map(NonZeroUsize::get).filter(|&most| most < kept.len()) {
        kept.sort_by_key(|&(_, df)| std::cmp::Reverse(df));
        kept.truncate(most);
        kept.sort_unstable_by_key(|(same, _)| same[0].0);
    }
    let mut numbers: Vec<Vec<u32>> =
        shards.iter().map(|shard| vec![DROPPED; shard.terms_met.len()]).collect();
    for (number, (same, _)) in (0..).zip(&kept) {
        for &(_, shard, term) in *same {
            numbers[shard][term as usize] = number;
        }
    }
    let terms = kept.iter().map(|(same, _)| match same[0].0 {
        Key::Text(term) => std::borrow::Cow::Borrowed(term),
        Key::Column(column) => column.to_string().into(),
    });
    let frequencies: Vec<u32> = kept.iter().map(|&(_, df)| df).collect();
    let vocabulary = Vocabulary::new(kind, terms.collect(), frequencies.into())
        .expect("sorted terms with one frequency each");
    (vocabulary, numbers)
}
