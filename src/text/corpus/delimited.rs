//! Reads CSV and TSV, with or without a header. Quoted fields may contain line breaks.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::Arc;

use super::cutter::RecordEnds;
use super::document::{Content, Document};
use super::encoding::{OnBadUtf8, read_error, utf8};
use super::error::{CorpusError, FieldRole, Problem};
use super::label_cell::{LABEL_FIELDS, is_list, labels_of_text, parse_indicator};
use super::lines::Lines;
use super::notes::Note;
use super::options::{LabelUse, ReadOptions};
use super::peeked::Bytes;
use super::place::Place;
use super::quotes::Quotes;
use super::records::{Records, parse_blocks, read_one_by_one, threads_for};
use super::source::Source;
use super::table::{Dialect, looks_like_data};
use crate::limits::LimitedReader;

/// Returns the records of a file. `separator` is the default separator of its format.
pub(super) fn read(
    mut source: Source,
    options: &Arc<ReadOptions>,
    separator: u8,
) -> Result<Records, CorpusError> {
    let dialect = {
        let columns = options.table_columns();
        Dialect::detect(source.first_line()?, separator, &columns, options.table)
    };
    let Some(threads) = threads_for(&source, options) else {
        let place = source.place();
        let on_bad_utf8 = source.on_bad_utf8();
        let quotes = Quotes::new(dialect, 1);
        let mut records =
            Delimited::new(source.into_records(), quotes, place, on_bad_utf8, options);
        records.read_columns()?;
        return Ok(read_one_by_one(records, options));
    };
    let mut cutter = source.blocks(RecordEnds::Quoted(Quotes::new(dialect, 1)));
    let first = cutter.next_block()?.unwrap_or_else(|| cutter.empty_block());
    let mut first = Delimited::from_lines(first, dialect, options);
    first.read_columns()?;
    let columns = Arc::clone(&first.columns);
    let open = move |lines: Lines, options: &Arc<ReadOptions>| {
        let mut records = Delimited::from_lines(lines, dialect, options);
        records.columns = Arc::clone(&columns);
        Ok(records)
    };
    let first = read_one_by_one(first, options);
    Ok(Box::new(first.chain(parse_blocks(cutter, open, options, threads)?)))
}

struct Delimited {
    reader: csv::Reader<QuoteTracker>,
    record: csv::ByteRecord,
    columns: Arc<Columns>,
    options: Arc<ReadOptions>,
    on_bad_utf8: OnBadUtf8,
    /// The place of the last record.
    place: Place,
    /// Whether `record` is the first record of a table without a header, read to count the columns
    /// but not yet returned.
    is_pending: bool,
}

/// The indices of the fields that are read.
#[derive(Default)]
struct Columns {
    /// The number of fields of every record.
    count: usize,
    texts: Vec<Option<usize>>,
    labels: LabelColumns,
    id: Option<usize>,
    weight: Option<usize>,
    vector: Option<usize>,
    group: Option<usize>,
}

/// The location of the labels.
#[derive(Default)]
enum LabelColumns {
    #[default]
    None,
    /// In one column.
    One(usize),
    /// In several columns of zeros and ones, each named after its label.
    Indicators(Vec<(usize, String)>),
}

impl Delimited {
    fn new(
        bytes: LimitedReader<Bytes>,
        quotes: Quotes,
        place: Place,
        on_bad_utf8: OnBadUtf8,
        options: &Arc<ReadOptions>,
    ) -> Self {
        // `read` reports records with a different number of fields, because it knows the place.
        let reader = quotes.dialect().parser();
        let record_lines = VecDeque::new();
        let bytes =
            QuoteTracker { bytes, bytes_read: 0, quotes, record_lines, ends_in_quotes: false };
        Self {
            reader: reader.from_reader(bytes),
            record: csv::ByteRecord::new(),
            columns: Arc::default(),
            options: Arc::clone(options),
            on_bad_utf8,
            place,
            is_pending: false,
        }
    }

    fn from_lines(lines: Lines, dialect: Dialect, options: &Arc<ReadOptions>) -> Self {
        let quotes = Quotes::new(dialect, lines.lines_read() + 1);
        let place = lines.place();
        let on_bad_utf8 = lines.on_bad_utf8();
        Self::new(lines.into_records(), quotes, place, on_bad_utf8, options)
    }

    /// Reads the next record. Returns false at the end of the file.
    fn advance(&mut self) -> Result<bool, CorpusError> {
        let parsed = self.reader.position().byte();
        self.reader.get_mut().begin_record(parsed);
        let has_record = self.reader.read_byte_record(&mut self.record);
        let bytes = self.reader.get_mut();
        if let Some(line) = bytes.record_lines.pop_front() {
            self.place.line = Some(line);
        }
        let has_record = has_record.map_err(|error| csv_error(error, &self.place))?;
        // An unclosed quote turns the rest of the file into one field.
        if bytes.ends_in_quotes {
            return Err(Problem::OpenQuote.at(&self.place));
        }
        Ok(has_record)
    }

    /// Finds the columns by the names in the first record. Without a header, the column names are
    /// numbers from 1.
    fn read_columns(&mut self) -> Result<(), CorpusError> {
        self.place.line = Some(1);
        let dialect = *self.reader.get_ref().quotes.dialect();
        if dialect.has_separator_line {
            self.advance()?;
        }
        let has_record = self.advance()?;
        let place = self.place.clone();
        let mut names = Vec::with_capacity(self.record.len());
        for field in &self.record {
            let name = utf8(field, self.on_bad_utf8, 0);
            let name = name.map_err(|_| Problem::BadUtf8Field.at(&place))?;
            names.push(name.trim().to_owned());
        }
        if names.iter().all(String::is_empty) {
            return Err(Problem::NoDocument.at(&place));
        }
        if !dialect.has_header {
            self.is_pending = has_record;
            names = (1..=names.len()).map(|number| number.to_string()).collect();
        }
        let columns = Columns::find(&names, &self.options);
        self.columns = Arc::new(columns.map_err(|problem| problem.at(&place))?);
        Ok(())
    }

    fn read(&mut self) -> Result<Option<Document>, CorpusError> {
        if !std::mem::take(&mut self.is_pending) && !self.advance()? {
            return Ok(None);
        }
        let place = self.place.clone();
        let fields = self.record.len();
        let expected = self.columns.count;
        if fields != expected {
            let has_header = self.reader.get_ref().quotes.dialect().has_header;
            let first = if has_header { "the header" } else { "the first row" };
            let message = format!("{fields} fields, but {first} has {expected}");
            return Err(Problem::Csv { message }.at(&place));
        }
        self.document().map(Some).map_err(|problem| problem.at(&place))
    }

    fn document(&self) -> Result<Document, Problem> {
        let field = |column: usize| {
            let field = self.record.get(column).unwrap_or_default();
            utf8(field, self.on_bad_utf8, 0).map_err(|_| Problem::BadUtf8Field)
        };
        let optional = |column: Option<usize>| column.map(field).transpose();
        let texts = self.columns.texts.iter();
        let text = |&column: &Option<usize>| Ok(optional(column)?.unwrap_or_default().into_owned());
        let texts: Vec<String> = texts.map(text).collect::<Result<_, Problem>>()?;
        for text in &texts {
            self.note_quoted_rows(text);
        }
        let vector =
            optional(self.columns.vector)?.map(|field| parse_numbers(&field)).transpose()?;
        let content = Content::of_columns(texts, self.options.fields);
        let labels = match &self.columns.labels {
            LabelColumns::None => Vec::new(),
            LabelColumns::One(column) => {
                let separator = self.options.label_separator.as_deref();
                let cell = field(*column)?;
                if separator.is_none() && cell.starts_with('[') && is_list(&cell) {
                    self.options.note(|| Note::ListsAsLabels { place: self.place.clone() });
                }
                labels_of_text(&cell, separator)?
            }
            LabelColumns::Indicators(columns) => {
                let mut labels = Vec::new();
                for (column, name) in columns {
                    let cell = field(*column)?;
                    let has_label = parse_indicator(&cell).ok_or_else(|| {
                        Problem::NotAnIndicator { field: name.clone(), found: cell.into_owned() }
                    })?;
                    labels.extend(has_label.then(|| name.clone()));
                }
                labels
            }
        };
        let id = optional(self.columns.id)?.unwrap_or_default().into_owned();
        let weight = match optional(self.columns.weight)?.as_deref().map(str::trim) {
            None | Some("") => 1.0,
            Some(found) => {
                found.parse().map_err(|_| Problem::BadWeight { found: found.to_owned() })?
            }
        };
        let place = self.place.clone();
        let group = optional(self.columns.group)?.map(Cow::into_owned);
        let group = group.filter(|group| !group.is_empty());
        Ok(Document { id, content, labels, weight, vector, group, place })
    }

    /// Adds a note if a field probably contains entire rows because of a stray quote. The inner
    /// lines of such a field have the separators of a row, without spaces after them.
    fn note_quoted_rows(&self, field: &str) {
        const MIN_LINES: usize = 4;
        if self.options.notes.is_none() || self.columns.count < 2 || !field.contains('\n') {
            return;
        }
        let separator = char::from(self.reader.get_ref().quotes.dialect().separator);
        let is_row = |line: &str| {
            let fields = line.split(separator);
            fields.clone().count() == self.columns.count
                && fields.skip(1).all(|field| !field.is_empty() && !field.starts_with(' '))
        };
        let lines = field.lines().count();
        let mut inner = field.lines().take(lines - 1).skip(1);
        if lines >= MIN_LINES && inner.all(is_row) {
            self.options.note(|| Note::QuotedRows { place: self.place.clone(), lines });
        }
    }
}

impl Iterator for Delimited {
    type Item = Result<Document, CorpusError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

impl Columns {
    fn find(names: &[String], options: &ReadOptions) -> Result<Self, Problem> {
        let position = |name: &str| names.iter().position(|column| column == name);
        let labels_required = options.labels == LabelUse::Required;
        let labels = options.label_columns.iter().filter(|_| labels_required);
        let required = options.text_columns.iter().chain(labels);
        let absent: Vec<String> =
            required.filter(|name| position(name).is_none()).cloned().collect();
        if absent.len() > 1 && names.len() > 1 && !looks_like_data(names) {
            return Err(Problem::MissingColumns { fields: absent, found: names.to_vec() });
        }
        let needed =
            |name: &str, role| position(name).ok_or_else(|| missing_field(&[name], names, role));
        let named_or = |named: &Option<String>, default: Option<&str>, role| match named {
            Some(name) => needed(name, role).map(Some),
            None => Ok(default.and_then(position)),
        };
        let text = |name: &str| needed(name, options.text_role());
        let texts = match options.text_columns.as_slice() {
            [] if options.text_optional => vec![position("text")],
            [] => vec![Some(text("text")?)],
            columns => columns.iter().map(|name| text(name).map(Some)).collect::<Result<_, _>>()?,
        };
        let vector = options.vector_field.as_ref();
        let vector = vector.map(|name| needed(name, FieldRole::Vector)).transpose()?;
        let label = |name: &String| match position(name) {
            None if labels_required => Err(missing_field(&[name], names, FieldRole::Label)),
            found => Ok(found.map(|column| (column, name.clone()))),
        };
        let labels = match options.label_columns.as_slice() {
            [] => LABEL_FIELDS.iter().find_map(|name| position(name)).map(LabelColumns::One),
            [name] => label(name)?.map(|(column, _)| LabelColumns::One(column)),
            columns => {
                let columns = columns.iter().filter_map(|name| label(name).transpose());
                Some(LabelColumns::Indicators(columns.collect::<Result<_, _>>()?))
            }
        };
        if labels.is_none() && labels_required && options.qrels.is_none() {
            return Err(missing_field(&LABEL_FIELDS, names, FieldRole::Label));
        }
        let labels = labels.unwrap_or_default();
        let id = named_or(&options.id_column, Some("id"), FieldRole::Id)?;
        let weight = named_or(&options.weight_column, None, FieldRole::Weight)?;
        if weight.is_none() && position("weight").is_some() {
            options.note(|| Note::UnusedWeights { field: "weight".to_owned() });
        }
        if let Some(field) = options.unread_text(names.iter().map(String::as_str)) {
            options.note(|| Note::UnusedText { field: field.to_owned() });
        }
        let group = match &options.group_column {
            Some(name) if options.labels == LabelUse::Required => {
                Some(needed(name, FieldRole::Group)?)
            }
            Some(name) => position(name),
            None => None,
        };
        Ok(Self { count: names.len(), texts, labels, id, weight, vector, group })
    }
}

/// Returns the problem with a header that contains none of `fields`.
fn missing_field(fields: &[&str], names: &[String], role: FieldRole) -> Problem {
    let fields = fields.iter().map(|&field| field.to_owned()).collect();
    match names {
        [only] => Problem::OneColumn { fields, found: only.clone() },
        names if looks_like_data(names) => Problem::NoHeader { fields, columns: names.len() },
        names => Problem::MissingField { fields, found: names.to_vec(), role },
    }
}

/// Parses the numbers of a vector, such as `0.5 1 -2`, `0.5, 1, -2` or `[0.5, 1, -2]`.
fn parse_numbers(field: &str) -> Result<Vec<f32>, Problem> {
    let inner = field.trim();
    let inner = inner.strip_prefix('[').and_then(|s| s.strip_suffix(']')).unwrap_or(inner);
    let items = inner.split(|c: char| c.is_ascii_whitespace() || matches!(c, ',' | ';'));
    let number = |item: &str| {
        let found = format!("`{item}`");
        item.parse().map_err(|_| Problem::Unexpected { found, expected: "a number of the vector" })
    };
    items.filter(|item| !item.is_empty()).map(number).collect()
}

fn csv_error(error: csv::Error, place: &Place) -> CorpusError {
    let message = error.to_string();
    match error.into_kind() {
        csv::ErrorKind::Io(error) => read_error(error, place),
        _ => Problem::Csv { message }.at(place),
    }
}

/// Tracks quotes, to find the first line of each record and to detect unclosed quotes.
struct QuoteTracker {
    bytes: LimitedReader<Bytes>,
    bytes_read: u64,
    quotes: Quotes,
    /// The first lines of the records that have not been parsed yet.
    record_lines: VecDeque<u64>,
    /// Whether the file ended inside quotes.
    ends_in_quotes: bool,
}

impl QuoteTracker {
    /// Begins the next record. `parsed` is the number of bytes that belong to earlier records.
    fn begin_record(&mut self, parsed: u64) {
        self.bytes.restart(self.bytes_read.saturating_sub(parsed));
    }
}

impl Read for QuoteTracker {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let bytes_read = self.bytes.read(out)?;
        self.bytes_read += bytes_read as u64;
        let _ = self.quotes.last_end(&out[..bytes_read], |line| self.record_lines.push_back(line));
        self.ends_in_quotes = bytes_read == 0 && !out.is_empty() && self.quotes.is_open();
        Ok(bytes_read)
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::TableOptions;
    use super::*;
    use crate::random::Random;

    fn comma() -> Dialect {
        Dialect::detect(b"", b',', &[], TableOptions::default())
    }

    fn records(text: &[u8]) -> Vec<Vec<Vec<u8>>> {
        let mut reader = csv::ReaderBuilder::new();
        let mut reader = reader.has_headers(false).flexible(true).from_reader(text);
        let fields = |record: csv::ByteRecord| record.iter().map(<[u8]>::to_vec).collect();
        reader.byte_records().map(|record| fields(record.unwrap())).collect()
    }

    /// Wherever a text is cut, the two parts together contain the same records as the text.
    #[test]
    fn cuts_are_between_records() {
        let mut random = Random::new(5);
        let mut cuts = 0;
        for _ in 0..3_000 {
            let length = random.below(24);
            let text: Vec<u8> = (0..length).map(|_| b"a,\"\"\n\r"[random.below(6)]).collect();
            let mut quotes = Quotes::new(comma(), 1);
            let whole = records(&text);
            let mut record_count = 0;
            for (index, byte) in text.iter().enumerate() {
                if quotes.last_end(&[*byte], |_| record_count += 1).is_some() {
                    let parts = [records(&text[..=index]), records(&text[index + 1..])].concat();
                    assert_eq!(
                        parts,
                        whole,
                        "{:?} cut at {}",
                        String::from_utf8_lossy(&text),
                        index + 1
                    );
                    cuts += 1;
                }
            }
            if let Some(end) = Quotes::new(comma(), 1).last_end(&text, |_| ()) {
                let parts = [records(&text[..end]), records(&text[end..])].concat();
                assert_eq!(parts, whole, "{:?} cut at {end}", String::from_utf8_lossy(&text));
            }
            assert_eq!(record_count, whole.len(), "{:?}", String::from_utf8_lossy(&text));
        }
        assert!(cuts > 2_000, "{cuts}");
    }
}
