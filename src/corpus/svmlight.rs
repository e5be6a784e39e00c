//! svmlight / libsvm rows: `label,label column:value column:value … # comment`.
//!
//! A row may have no label: it then begins with a blank or with `column:value`. `qid:n` is ignored.
//! Columns may be in any order, but must not repeat.

use super::source::Lines;
use super::{Content, CorpusError, Document, Problem, ReadOptions};

pub(super) struct Svmlight {
    lines: Lines,
    first_column: u32,
}

impl Svmlight {
    pub(super) fn new(lines: Lines, options: &ReadOptions) -> Self {
        Self { lines, first_column: options.first_column.unwrap_or(1) }
    }

    fn read(&mut self) -> Result<Option<Document>, CorpusError> {
        loop {
            let Some(line) = self.lines.next()? else { return Ok(None) };
            let row = line.split('#').next().unwrap_or_default();
            if row.trim().is_empty() {
                continue;
            }
            let parsed = parse(row, self.first_column);
            let place = self.lines.place();
            let (labels, features) = parsed.map_err(|problem| problem.at(&place))?;
            let content = Content::Features(features);
            return Ok(Some(Document {
                id: String::new(),
                content,
                labels,
                weight: 1.0,
                vector: None,
                group: None,
                place,
            }));
        }
    }
}

impl Iterator for Svmlight {
    type Item = Result<Document, CorpusError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

type Row = (Vec<String>, Vec<(u32, f32)>);

fn parse(row: &str, first_column: u32) -> Result<Row, Problem> {
    let mut items = row.split_ascii_whitespace().peekable();
    let unlabeled = row.starts_with(|c: char| c.is_ascii_whitespace());
    let mut labels = Vec::new();
    if let Some(first) = items.next_if(|item| !unlabeled && !item.contains(':')) {
        // `+1` and `1` are the same label, as in every reader of this format.
        labels = first.split(',').map(|l| l.strip_prefix('+').unwrap_or(l).to_owned()).collect();
    }
    let items = items.filter(|item| !item.starts_with("qid:"));
    features(items, first_column).map(|features| (labels, features))
}

/// `column:value` items as features in increasing order of columns.
pub(super) fn features<'a>(
    items: impl Iterator<Item = &'a str>,
    first_column: u32,
) -> Result<Vec<(u32, f32)>, Problem> {
    let mut features = Vec::new();
    for item in items {
        let bad = || Problem::BadFeature { item: item.chars().take(40).collect() };
        let (column, value) = item.split_once(':').ok_or_else(bad)?;
        let column: u32 = column.parse().map_err(|_| bad())?;
        let value: f32 = value.parse().map_err(|_| bad())?;
        if column < first_column {
            return Err(Problem::ColumnZero);
        }
        if !value.is_finite() {
            return Err(bad());
        }
        features.push((column, value));
    }
    sorted(features)
}

/// Sorts features by column; a repeated column is an error.
pub(super) fn sorted(mut features: Vec<(u32, f32)>) -> Result<Vec<(u32, f32)>, Problem> {
    if !features.is_sorted_by_key(|&(column, _)| column) {
        features.sort_by_key(|&(column, _)| column);
    }
    match features.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        Some(pair) => Err(Problem::RepeatedColumn { column: pair[0].0 }),
        None => Ok(features),
    }
}
