//! CSV and TSV with a header line. Quoted fields may contain line breaks.

use std::borrow::Cow;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::jsonl::{LABEL_FIELDS, split};
use super::peeked::Bytes;
use super::source::{Source, read_error, utf8};
use super::{Content, CorpusError, Document, LabelUse, OnBadUtf8, Place, Problem, ReadOptions};
use crate::limits::Limited;

pub(super) struct Delimited {
    reader: csv::Reader<CountQuotes>,
    record: csv::ByteRecord,
    quotes: Arc<AtomicU64>,
    columns: Columns,
    options: Arc<ReadOptions>,
    on_bad_utf8: OnBadUtf8,
    place: Place,
    last_line: u64,
    last_spans_lines: bool,
}

/// The positions of the fields that are read.
struct Columns {
    texts: Vec<Option<usize>>,
    label: Option<usize>,
    id: Option<usize>,
    weight: Option<usize>,
    vector: Option<usize>,
    group: Option<usize>,
}

impl Delimited {
    /// Without a `delimiter`: a comma, or the semicolon that some spreadsheets write.
    pub(super) fn new(
        mut source: Source,
        options: Arc<ReadOptions>,
        delimiter: Option<u8>,
    ) -> Result<Self, CorpusError> {
        let mut place = source.place();
        place.line = Some(1);
        let delimiter = match delimiter {
            Some(delimiter) => delimiter,
            None => comma_or_semicolon(source.first_line()?),
        };
        let on_bad_utf8 = source.on_bad_utf8();
        let quotes = Arc::new(AtomicU64::new(0));
        let bytes =
            CountQuotes { bytes: source.into_records(), read: 0, quotes: Arc::clone(&quotes) };
        let mut reader = csv::ReaderBuilder::new().delimiter(delimiter).from_reader(bytes);
        let header = reader.byte_headers().map_err(|error| csv_error(error, &place))?.clone();
        let mut names = Vec::with_capacity(header.len());
        for field in &header {
            let name = utf8(field, on_bad_utf8, 0);
            let name = name.map_err(|_| Problem::BadUtf8Field.at(&place))?;
            names.push(name.trim().to_owned());
        }
        if names.iter().all(String::is_empty) {
            return Err(Problem::NoDocument.at(&place));
        }
        let columns = Columns::find(&names, &options).map_err(|problem| problem.at(&place))?;
        let record = csv::ByteRecord::new();
        Ok(Self {
            reader,
            record,
            quotes,
            columns,
            options,
            on_bad_utf8,
            place,
            last_line: 1,
            last_spans_lines: false,
        })
    }

    fn read(&mut self) -> Result<Option<Document>, CorpusError> {
        let begin = self.reader.position().line();
        let parsed = self.reader.position().byte();
        self.reader.get_mut().begin_record(parsed);
        let more = self.reader.read_byte_record(&mut self.record);
        // The reader may have been before blank lines: the record knows where it began.
        let position = self.record.position();
        self.place.line = Some(position.map_or(begin, csv::Position::line));
        let place = self.place.clone();
        let spans_lines = self.reader.position().line() > place.line.unwrap_or(begin) + 1;
        let more = match more {
            // A quote that is never closed makes the rest of the file one field.
            Err(error)
                if matches!(error.kind(), csv::ErrorKind::UnequalLengths { .. })
                    && spans_lines
                    && self.odd_quotes_at_end() =>
            {
                return Err(Problem::OpenQuote.at(&place));
            }
            more => more.map_err(|error| csv_error(error, &place))?,
        };
        if !more {
            let open = self.last_spans_lines && self.odd_quotes_at_end();
            let last = Place { line: Some(self.last_line), ..place };
            return if open { Err(Problem::OpenQuote.at(&last)) } else { Ok(None) };
        }
        self.last_line = place.line.unwrap_or(begin);
        self.last_spans_lines = spans_lines;
        self.document().map(Some).map_err(|problem| problem.at(&place))
    }

    /// Whether the file was read to its end and holds an odd number of quotes.
    fn odd_quotes_at_end(&self) -> bool {
        let quotes = self.quotes.load(Ordering::Relaxed);
        quotes & ENDED != 0 && quotes % 2 == 1
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
        let vector = optional(self.columns.vector)?.map(|field| numbers(&field)).transpose()?;
        let content = Content::of_columns(texts, self.options.fields);
        let labels = optional(self.columns.label)?;
        let labels = split(&labels.unwrap_or_default(), self.options.label_separator.as_deref());
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
        let needed = |name: &str, flag: &'static str| {
            position(name).ok_or_else(|| Problem::MissingField {
                field: name.to_owned(),
                found: names.to_vec(),
                flag,
            })
        };
        let named_or = |named: &Option<String>, default: &str, flag| match named {
            Some(name) => needed(name, flag).map(Some),
            None => Ok(position(default)),
        };
        let text = |name: &str| needed(name, options.text_flag());
        let texts = match options.text_columns.as_slice() {
            [] if options.text_optional => vec![position("text")],
            [] => vec![Some(text("text")?)],
            columns => columns.iter().map(|name| text(name).map(Some)).collect::<Result<_, _>>()?,
        };
        let vector = options.vector_field.as_ref();
        let vector = vector.map(|name| needed(name, "--vector-field")).transpose()?;
        let label = match &options.label_column {
            Some(name) if options.labels == LabelUse::Required => {
                Some(needed(name, "--label-column")?)
            }
            Some(name) => position(name),
            None => LABEL_FIELDS.iter().find_map(|name| position(name)),
        };
        if label.is_none() && options.labels == LabelUse::Required && options.qrels.is_none() {
            return Err(needed("label", "--label-column").err().unwrap_or(Problem::EmptyLabel));
        }
        let id = named_or(&options.id_column, "id", "--id-column")?;
        let weight = named_or(&options.weight_column, "weight", "--weight-column")?;
        let group = match &options.group_column {
            Some(name) if options.labels == LabelUse::Required => {
                Some(needed(name, "--group-column")?)
            }
            Some(name) => position(name),
            None => None,
        };
        Ok(Self { texts, label, id, weight, vector, group })
    }
}

/// The numbers of a vector: `0.5 1 -2`, `0.5, 1, -2` or `[0.5, 1, -2]`.
fn numbers(field: &str) -> Result<Vec<f32>, Problem> {
    let inner = field.trim();
    let inner = inner.strip_prefix('[').and_then(|s| s.strip_suffix(']')).unwrap_or(inner);
    let items = inner.split(|c: char| c.is_ascii_whitespace() || matches!(c, ',' | ';'));
    let number = |item: &str| {
        let found = format!("`{item}`");
        item.parse().map_err(|_| Problem::Unexpected { found, expected: "a number of the vector" })
    };
    items.filter(|item| !item.is_empty()).map(number).collect()
}

fn comma_or_semicolon(head: &[u8]) -> u8 {
    let header = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    if header.contains(&b';') && !header.contains(&b',') { b';' } else { b',' }
}

fn csv_error(error: csv::Error, place: &Place) -> CorpusError {
    let message = error.to_string();
    match error.into_kind() {
        csv::ErrorKind::Io(error) => read_error(error, place),
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            Problem::Csv { message: format!("{len} fields, but the header has {expected_len}") }
                .at(place)
        }
        _ => Problem::Csv { message }.at(place),
    }
}

/// The bit of the count that is set at the end of the file.
const ENDED: u64 = 1 << 63;

/// Counts quotes, to notice one that is never closed.
struct CountQuotes {
    bytes: Limited<Bytes>,
    read: u64,
    quotes: Arc<AtomicU64>,
}

impl CountQuotes {
    /// The next record begins; `parsed` bytes of the stream belong to those before it.
    fn begin_record(&mut self, parsed: u64) {
        self.bytes.restart(self.read.saturating_sub(parsed));
    }
}

impl Read for CountQuotes {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.bytes.read(out)?;
        self.read += read as u64;
        #[expect(clippy::naive_bytecount, reason = "parsing the fields costs far more")]
        let quotes = out[..read].iter().filter(|&&byte| byte == b'"').count();
        self.quotes.fetch_add(quotes as u64, Ordering::Relaxed);
        if read == 0 && !out.is_empty() {
            self.quotes.fetch_or(ENDED, Ordering::Relaxed);
        }
        Ok(read)
    }
}
