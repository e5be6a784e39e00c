//! Counts the terms of chunks.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::fields::Fields;
use super::names::Names;
use super::options::Input;
use super::values::{FieldCounts, Values};
use crate::text::analyze::{Analyzer, TermCounter};
use crate::text::corpus::{Content, CorpusError, Document, Problem, check_features};
use crate::text::term_store::Interner;
use crate::text::vocabulary::TermKind;

/// The terms and rows that one thread counted.
pub(super) struct Shard<'a> {
    counter: Counter<'a>,
    /// Per-term state, indexed by the shard's term ids.
    pub(super) term_states: Vec<TermState>,
    /// The rows of each counted chunk, with the index of the chunk in the corpus.
    pub(super) chunks: Vec<(usize, Rows)>,
    /// A buffer that is reused for the next chunk.
    spare: Option<Rows>,
    pub(super) fields: usize,
    pub(super) bytes: u64,
    pub(super) has_titles: bool,
}

/// Rows of counts, with the term ids of a shard.
#[derive(Clone)]
pub(super) struct Rows {
    /// The end of each row in `terms` and `values`.
    pub(super) ends: Vec<usize>,
    /// Like [`MergedShards::lengths`](super::merge::MergedShards).
    pub(super) lengths: Vec<f32>,
    pub(super) terms: Vec<u32>,
    /// The values of `terms`. Counts of one byte are also faster, because touching new memory takes
    /// longer than counting.
    pub(super) values: Values,
}

impl Rows {
    fn clear(&mut self) {
        let Self { ends, lengths, terms, values } = self;
        ends.clear();
        lengths.clear();
        terms.clear();
        values.clear();
    }

    /// Adds the terms `ids` of field `field` to the row that begins at entry `first`.
    fn tally(&mut self, first: usize, ids: &[u32], field: usize, term_states: &mut [TermState]) {
        let Self { terms, values: Values::Counts(counts), .. } = self else {
            unreachable!("text is counted")
        };
        // Reserve entries for all terms. This avoids a branch on whether a term is new, which would
        // be hard to predict.
        let mut end = terms.len();
        let capacity = end + ids.len();
        terms.resize(capacity, NO_TERM);
        for counts in &mut *counts {
            counts.bytes.resize(capacity, 0);
        }
        let field_counts = &mut counts[field];
        for &term in ids {
            let state = &mut term_states[term as usize];
            // The term is in this row if its last entry is at or after the first entry of the row
            // and contains the term. Otherwise, its last entry is in an earlier row or does not
            // exist.
            #[expect(clippy::cast_possible_truncation, reason = "modulo 2^32")]
            let entry = first + state.entry.wrapping_sub(first as u32) as usize;
            // For a term that is new to the row, any entry of the row works, because it contains
            // another term.
            let entry = entry.min(capacity - 1);
            let is_new = terms[entry] != term;
            let entry = if is_new { end } else { entry };
            end += usize::from(is_new);
            state.document_frequency += u32::from(is_new);
            #[expect(clippy::cast_possible_truncation, reason = "modulo 2^32")]
            let number = entry as u32;
            state.entry = number;
            terms[entry] = term;
            field_counts.add_one(entry);
        }
        terms.truncate(end);
        for counts in counts {
            counts.bytes.truncate(end);
        }
    }
}

/// The id of an unused entry.
const NO_TERM: u32 = u32::MAX;

/// The state of a term in a shard.
#[derive(Clone, Copy, Default)]
pub(super) struct TermState {
    pub(super) document_frequency: u32,
    /// The index of the term's last entry in [`Rows::terms`], modulo 2^32.
    entry: u32,
}

/// Assigns the term ids of a shard.
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
        Self {
            counter,
            term_states: Vec::new(),
            chunks: Vec::new(),
            spare: None,
            fields,
            bytes: 0,
            has_titles: false,
        }
    }

    /// Counts the documents of chunk `number`.
    pub(super) fn count(
        &mut self,
        number: usize,
        documents: &[Document],
    ) -> Result<(), CorpusError> {
        let mut rows = self.spare.take().unwrap_or_else(|| self.empty_rows());
        rows.clear();
        for document in documents {
            self.count_one(document, &mut rows).map_err(|problem| problem.at(&document.place))?;
        }
        // The stored copy has no unused capacity.
        self.chunks.push((number, rows.clone()));
        self.spare = Some(rows);
        Ok(())
    }

    fn empty_rows(&self) -> Rows {
        let values = match self.counter {
            Counter::Features { .. } => Values::Given(Vec::new()),
            Counter::Text { .. } | Counter::Nothing => {
                Values::Counts((0..self.fields).map(|_| FieldCounts::default()).collect())
            }
        };
        Rows { ends: Vec::new(), lengths: Vec::new(), terms: Vec::new(), values }
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
                    self.has_titles =
                        self.has_titles || memchr::memchr(b'\n', text.as_bytes()).is_some();
                }
                for (field, text) in fields.split(&document.content) {
                    self.bytes += text.len() as u64;
                    ids.clear();
                    counter.ids(analyzer, text, interner, ids);
                    self.term_states.resize(interner.len(), TermState::default());
                    rows.tally(first, ids, field as usize, &mut self.term_states);
                    length += ids.len();
                }
            }
            (Counter::Features { columns, counts }, Content::Features(features)) => {
                check_features(features)?;
                let Values::Given(values) = &mut rows.values else {
                    unreachable!("features have values")
                };
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
                    self.term_states.resize(columns.len(), TermState::default());
                    self.term_states[term as usize].document_frequency += 1;
                    rows.terms.push(term);
                    values.push(value);
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

    pub(super) fn kind(&self) -> TermKind {
        match self.counter {
            Counter::Text { .. } => TermKind::Text,
            Counter::Features { .. } | Counter::Nothing => TermKind::Columns,
        }
    }

    /// Whether the documents have values instead of counts.
    pub(super) fn has_given_values(&self) -> bool {
        matches!(self.counter, Counter::Features { .. })
    }

    /// Returns the terms of the shard by id.
    pub(super) fn names(&self) -> Names<'_> {
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
