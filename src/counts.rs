//! Training documents → term counts: a vocabulary, and a row of counts for each document.
//!
//! Documents are read in batches; while the next batch is read, the current one is analyzed in
//! as many pieces as there are threads. Each piece goes to a shard of its own: terms as they were
//! met, rows of its pieces. In the end the shards' terms are sorted and renumbered, so that
//! neither the threads nor the pieces leave a trace in the result.

use std::collections::HashMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;

use foldhash::fast::RandomState;
use rayon::prelude::*;

use crate::analyze::Analyzer;
use crate::corpus::{Content, CorpusError, Document};
use crate::strings::{Strings, StringsBuilder};
use crate::threads::Threads;
use crate::vocabulary::Vocabulary;

mod shard;

use shard::{Merged, Shard, merge};

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
    /// The labels of document `i`, rising, are `label_indices[label_indptr[i]..label_indptr[i + 1]]`.
    pub(crate) label_indptr: Vec<u64>,
    pub(crate) label_indices: Vec<u32>,
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
        let mut headers =
            Headers { texts: keep_text.then(StringsBuilder::default), ..Headers::default() };
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
            }
            progress(headers.weights.len() as u64);
            batch = next?;
        }
        let bytes = shards.iter().map(Shard::bytes).sum();
        Ok(headers.finish(merge(shards, &pieces, limits, threads), bytes))
    }

    /// How many documents there are.
    pub fn documents(&self) -> usize {
        self.weights.len()
    }

    /// Whether no term is left.
    pub fn has_no_term(&self) -> bool {
        self.vocabulary.is_empty()
    }

    /// Whether a document has more than one label.
    pub fn has_several_labels(&self) -> bool {
        self.label_indptr.windows(2).any(|bounds| bounds[1] - bounds[0] > 1)
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

/// What a corpus says of its documents beside their terms.
struct Headers {
    ids: StringsBuilder,
    texts: Option<StringsBuilder>,
    weights: Vec<f32>,
    /// Where the labels of each document begin, and the end.
    label_indptr: Vec<u64>,
    /// Labels by the order in which they are first met.
    labels: Vec<u32>,
    names: HashMap<String, u32, RandomState>,
}

impl Default for Headers {
    fn default() -> Self {
        Self {
            ids: StringsBuilder::default(),
            texts: None,
            weights: Vec::new(),
            label_indptr: vec![0],
            labels: Vec::new(),
            names: HashMap::default(),
        }
    }
}

impl Headers {
    fn push(&mut self, document: &Document) {
        self.ids.push(&document.id);
        self.weights.push(document.weight);
        for label in &document.labels {
            let number = self.number(label);
            self.labels.push(number);
        }
        self.label_indptr.push(self.labels.len() as u64);
        if let (Some(texts), Content::Text(text)) = (&mut self.texts, &document.content) {
            texts.push(text);
        }
    }

    fn number(&mut self, label: &str) -> u32 {
        if let Some(&number) = self.names.get(label) {
            return number;
        }
        let number = u32::try_from(self.names.len()).expect("fewer than 2^32 labels");
        self.names.insert(label.to_owned(), number);
        number
    }

    fn finish(mut self, counted: Merged, bytes: u64) -> Counts {
        let mut names: Vec<(String, u32)> = self.names.into_iter().collect();
        names.sort_unstable();
        let mut renumbered = vec![0; names.len()];
        for (new, (_, old)) in (0..).zip(&names) {
            renumbered[*old as usize] = new;
        }
        for label in &mut self.labels {
            *label = renumbered[*label as usize];
        }
        for bounds in self.label_indptr.windows(2) {
            #[expect(clippy::cast_possible_truncation, reason = "bounds of a vector")]
            self.labels[bounds[0] as usize..bounds[1] as usize].sort_unstable();
        }
        let Merged { vocabulary, indptr, terms, counts } = counted;
        Counts {
            vocabulary,
            indptr,
            terms,
            values: counts,
            ids: self.ids.build(),
            label_indptr: self.label_indptr,
            label_indices: self.labels,
            label_names: names.into_iter().map(|(name, _)| name).collect(),
            weights: self.weights,
            texts: self.texts.map(StringsBuilder::build),
            bytes,
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
