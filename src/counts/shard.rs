//! What one thread counts, and how shards are merged into one matrix.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::num::NonZeroUsize;

use foldhash::fast::RandomState;
use rayon::prelude::*;

use super::{Fields, Input, TermLimits};
use crate::analyze::{Analyzer, PREFIX, Term, TermCounter};
use crate::corpus::{Content, CorpusError, Document, Problem, check_features};
use crate::threads::Threads;
use crate::vocabulary::{Interner, TermKind, Vocabulary};

/// The terms and rows that one thread counted.
pub(super) struct Shard<'a> {
    counter: Counter<'a>,
    /// Indexed by the shard's own term numbers.
    terms_met: Vec<TermMet>,
    /// The rows of each piece that it counted, with the number of the piece in the corpus.
    pieces: Vec<(usize, Rows)>,
    fields: usize,
    bytes: u64,
    titled: bool,
}

/// Rows of counts, by the term numbers of a shard.
struct Rows {
    /// The end of each row in `terms` and `counts`.
    ends: Vec<usize>,
    /// As [`Merged::lengths`].
    lengths: Vec<f32>,
    terms: Vec<u32>,
    /// For each field, the counts of `terms`.
    counts: Vec<Vec<f32>>,
}

impl Rows {
    /// Adds the terms `ids` of a field to the row that begins at entry `first`.
    fn tally(&mut self, first: usize, ids: &[u32], field: usize, terms_met: &mut [TermMet]) {
        for &term in ids {
            let met = &mut terms_met[term as usize];
            // The entry belongs to this row if it lies after the row's first entry and has this
            // term; otherwise it belongs to an earlier row, or there is none.
            #[expect(clippy::cast_possible_truncation, reason = "modulo 2^32")]
            let mut entry = first + met.entry.wrapping_sub(first as u32) as usize;
            if self.terms.get(entry) != Some(&term) {
                entry = self.terms.len();
                met.document_frequency += 1;
                #[expect(clippy::cast_possible_truncation, reason = "modulo 2^32")]
                let entry = entry as u32;
                met.entry = entry;
                self.terms.push(term);
                self.counts.iter_mut().for_each(|counts| counts.push(0.0));
            }
            self.counts[field][entry] += 1.0;
        }
    }
}

/// Where a shard has met a term.
#[derive(Clone, Copy, Default)]
struct TermMet {
    document_frequency: u32,
    /// The last document's entry for the term in `terms` and `counts`, modulo 2^32.
    entry: u32,
}

/// The source of a shard's term numbers.
enum Counter<'a> {
    Text {
        analyzer: &'a Analyzer,
        fields: &'a Fields,
        counter: Box<TermCounter>,
        interner: Interner,
        ids: Vec<u32>,
    },
    Features {
        columns: HashMap<u32, u32, RandomState>,
        counts: bool,
    },
    /// No terms.
    Nothing,
}

impl<'a> Shard<'a> {
    pub(super) fn new(input: &'a Input) -> Self {
        let fields = match input {
            Input::Text { fields, .. } => fields.len(),
            Input::Features { .. } | Input::Nothing => 1,
        };
        let counter = match input {
            Input::Text { analyzer, fields } => Counter::Text {
                analyzer,
                fields,
                counter: Box::default(),
                interner: Interner::default(),
                ids: Vec::new(),
            },
            &Input::Features { counts } => {
                Counter::Features { columns: HashMap::default(), counts }
            }
            Input::Nothing => Counter::Nothing,
        };
        Self { counter, terms_met: Vec::new(), pieces: Vec::new(), fields, bytes: 0, titled: false }
    }

    /// Counts the documents of piece `number`.
    pub(super) fn count(
        &mut self,
        number: usize,
        documents: &[Document],
    ) -> Result<(), CorpusError> {
        let counts = vec![Vec::new(); self.fields];
        let mut rows = Rows { ends: Vec::new(), lengths: Vec::new(), terms: Vec::new(), counts };
        for document in documents {
            self.count_one(document, &mut rows).map_err(|problem| problem.at(&document.place))?;
        }
        self.pieces.push((number, rows));
        Ok(())
    }

    fn count_one(&mut self, document: &Document, rows: &mut Rows) -> Result<(), Problem> {
        let first = rows.terms.len();
        let mut length = 0;
        match (&mut self.counter, &document.content) {
            (Counter::Nothing, _) => {}
            (
                Counter::Text { analyzer, fields, counter, interner, ids },
                Content::Text(_) | Content::Fields(_),
            ) => {
                if let Content::Text(text) = &document.content {
                    self.titled = self.titled || memchr::memchr(b'\n', text.as_bytes()).is_some();
                }
                for (field, text) in fields.split(&document.content) {
                    self.bytes += text.len() as u64;
                    ids.clear();
                    counter.ids(analyzer, text, interner, ids);
                    self.terms_met.resize(interner.len(), TermMet::default());
                    rows.tally(first, ids, field as usize, &mut self.terms_met);
                    length += ids.len();
                }
            }
            (Counter::Features { columns, counts }, Content::Features(features)) => {
                check_features(features)?;
                for &(column, value) in features {
                    if *counts && value < 0.0 {
                        return Err(Problem::NegativeCount { column, value });
                    }
                    if value == 0.0 {
                        continue;
                    }
                    let next = u32::try_from(columns.len())
                        .expect("columns are u32, and this is a new one");
                    let term = *columns.entry(column).or_insert(next);
                    self.terms_met.resize(columns.len(), TermMet::default());
                    self.terms_met[term as usize].document_frequency += 1;
                    rows.terms.push(term);
                    rows.counts[0].push(value);
                    length += 1;
                }
            }
            (Counter::Text { .. }, Content::Features(_)) => {
                return Err(Problem::WrongContent {
                    found: "features",
                    expected: "earlier documents have text",
                });
            }
            (Counter::Features { .. }, Content::Text(_) | Content::Fields(_)) => {
                return Err(Problem::WrongContent {
                    found: "text",
                    expected: "earlier documents have features",
                });
            }
        }
        rows.ends.push(rows.terms.len());
        rows.lengths.push(length as f32);
        Ok(())
    }

    /// The shard's terms, by their numbers.
    fn names(&self) -> Names<'_> {
        match &self.counter {
            Counter::Text { interner, .. } => Names::Texts(interner),
            Counter::Features { columns, .. } => {
                let mut names = vec![0; columns.len()];
                for (&column, &term) in columns {
                    names[term as usize] = column;
                }
                Names::Columns(names)
            }
            Counter::Nothing => Names::Columns(Vec::new()),
        }
    }
}

/// The terms of a shard.
enum Names<'a> {
    Texts(&'a Interner),
    Columns(Vec<u32>),
}

impl Names<'_> {
    fn key(&self, term: u32) -> Key<'_> {
        match self {
            Self::Texts(interner) => Key::text(interner.term(term)),
            Self::Columns(names) => Key::Column(names[term as usize]),
        }
    }
}

/// A term's position in the order of the vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Key<'a> {
    /// The first sixteen bytes, which nearly always decide, and the term.
    Text([u64; 2], Rest<'a>),
    Column(u32),
}

impl<'a> Key<'a> {
    fn text(term: &'a str) -> Self {
        // The first byte is the highest, as in the order of strings.
        Self::Text(Term::from(term).prefix().map(u64::swap_bytes), Rest(term))
    }
}

/// A term, compared with terms that begin with the same sixteen bytes; shorter ones are padded with zeros.
#[derive(Debug, Clone, Copy)]
struct Rest<'a>(&'a str);

impl Ord for Rest<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let (one, other) = (self.0.as_bytes(), other.0.as_bytes());
        match (one.get(PREFIX..), other.get(PREFIX..)) {
            (Some(one), Some(other)) => one.cmp(other),
            // One of them is the other, or begins it.
            _ => one.len().cmp(&other.len()),
        }
    }
}

impl PartialOrd for Rest<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Rest<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Rest<'_> {}

/// A term, and the shard that met it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Met<'a> {
    key: Key<'a>,
    shard: u32,
    /// The shard's number for it.
    term: u32,
    document_frequency: u32,
}

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

/// A term that is not in the vocabulary.
const DROPPED: u32 = u32::MAX;

/// Merges the shards: the documents in the order of the pieces. These are renumbered and moved on all
/// threads; each is freed as soon as it has been moved.
pub(super) fn merge(
    mut shards: Vec<Shard<'_>>,
    documents: usize,
    limits: TermLimits,
    threads: &Threads,
) -> Merged {
    let text = shards.iter().any(|shard| matches!(shard.counter, Counter::Text { .. }));
    let kind = if text { TermKind::Text } else { TermKind::Columns };
    let (vocabulary, numbers) = threads.run(|| unite(&shards, kind, documents, limits));
    let fields = shards.first().map_or(1, |shard| shard.fields);
    let (bytes, titled) =
        (shards.iter().map(|shard| shard.bytes).sum(), shards.iter().any(|shard| shard.titled));
    let mut pieces: Vec<(usize, &[u32], Rows)> = Vec::new();
    for (shard, numbers) in shards.iter_mut().zip(&numbers) {
        let own = std::mem::take(&mut shard.pieces).into_iter();
        pieces.extend(own.map(|(piece, rows)| (piece, &**numbers, rows)));
    }
    drop(shards);
    pieces.sort_unstable_by_key(|&(piece, ..)| piece);
    let all_kept = numbers.iter().flatten().all(|&number| number != DROPPED);
    let entries = |&(_, numbers, ref rows): &(usize, &[u32], Rows)| {
        if all_kept {
            return rows.terms.len();
        }
        rows.terms.iter().filter(|&&term| numbers[term as usize] != DROPPED).count()
    };
    let entries: Vec<usize> = threads.run(|| pieces.par_iter().map(entries).collect());
    let nonzeros = entries.iter().sum();
    let mut merged = Merged {
        vocabulary,
        indptr: vec![0; documents + 1],
        terms: vec![0; nonzeros],
        counts: vec![vec![0.0; nonzeros]; fields],
        lengths: vec![0.0; documents],
        bytes,
        titled,
    };
    // The place of each piece in the arrays.
    let (mut ends, mut lengths) = (&mut merged.indptr[1..], &mut *merged.lengths);
    let mut terms = &mut *merged.terms;
    let mut counts: Vec<&mut [f32]> = merged.counts.iter_mut().map(|c| &mut **c).collect();
    let mut start = 0;
    let mut moves = Vec::new();
    for ((_, numbers, rows), entries) in pieces.into_iter().zip(entries) {
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
        moves.push((numbers, rows, target));
    }
    threads.run(|| {
        moves.into_par_iter().for_each(|(numbers, rows, target)| target.fill(&rows, numbers));
    });
    merged
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
            for (counts, of_field) in self.counts.iter_mut().zip(&rows.counts) {
                let of_field = &of_field[entries.clone()];
                for (count, &entry) in counts[places.clone()].iter_mut().zip(&row) {
                    #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
                    let entry = entry as u32 as usize;
                    *count = of_field[entry];
                }
            }
            self.ends[index] = self.start + filled as u64;
        }
    }
}

/// The vocabulary of all shards, and for each shard, the vocabulary ids of its terms.
fn unite(
    shards: &[Shard<'_>],
    kind: TermKind,
    documents: usize,
    limits: TermLimits,
) -> (Vocabulary, Vec<Vec<u32>>) {
    let names: Vec<Names<'_>> = shards.par_iter().map(Shard::names).collect();
    let mut ends = Vec::new();
    for shard in shards {
        ends.push(ends.last().unwrap_or(&0) + shard.terms_met.len());
    }
    let met = |at| {
        let shard = ends.partition_point(|&end| end <= at);
        let term = at - if shard == 0 { 0 } else { ends[shard - 1] };
        let TermMet { document_frequency, .. } = shards[shard].terms_met[term];
        #[expect(clippy::cast_possible_truncation, reason = "threads, and numbers of terms")]
        let (number, term) = (shard as u32, term as u32);
        Met { key: names[shard].key(term), shard: number, term, document_frequency }
    };
    let mut all: Vec<Met<'_>> =
        (0..ends.last().copied().unwrap_or(0)).into_par_iter().map(met).collect();
    all.par_sort_unstable();
    // A share is a rounded number: 7 % of 100 documents are 7, not slightly more.
    let min = limits.min_df.documents(documents) * (1.0 - 1e-12);
    let max = limits.max_df.documents(documents) * (1.0 + 1e-12);
    let same = all.par_chunk_by(|one, other| one.key == other.key);
    let frequencies =
        same.map(|same| (same, same.iter().map(|met| met.document_frequency).sum::<u32>()));
    let mut kept: Vec<(&[Met<'_>], u32)> =
        frequencies.filter(|&(_, df)| f64::from(df) >= min && f64::from(df) <= max).collect();
    if let Some(most) = limits.max_terms.map(NonZeroUsize::get).filter(|&most| most < kept.len()) {
        kept.sort_by_key(|&(_, df)| std::cmp::Reverse(df));
        kept.truncate(most);
        kept.sort_unstable_by_key(|(same, _)| same[0].key);
    }
    let mut numbers: Vec<Vec<u32>> =
        shards.iter().map(|shard| vec![DROPPED; shard.terms_met.len()]).collect();
    for (number, (same, _)) in (0..).zip(&kept) {
        for met in *same {
            numbers[met.shard as usize][met.term as usize] = number;
        }
    }
    let terms = kept.iter().map(|(same, _)| match same[0].key {
        Key::Text(_, Rest(term)) => std::borrow::Cow::Borrowed(term),
        Key::Column(column) => column.to_string().into(),
    });
    let frequencies: Vec<u32> = kept.iter().map(|&(_, df)| df).collect();
    let vocabulary = Vocabulary::new(kind, terms.collect(), frequencies.into())
        .expect("sorted terms with one frequency each");
    (vocabulary, numbers)
}
