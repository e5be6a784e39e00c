//! CSV and TSV with a header line. Quoted fields may contain line breaks.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::Arc;

use super::cutter::Ends;
use super::document::{Content, Document};
use super::encoding::{OnBadUtf8, read_error, utf8};
use super::error::{CorpusError, FieldRole, Problem};
use super::jsonl::{LABEL_FIELDS, split};
use super::lines::Lines;
use super::options::{LabelUse, ReadOptions};
use super::peeked::Bytes;
use super::place::Place;
use super::quotes::Quotes;
use super::records::{Records, one_by_one, parsed_in_blocks, threads_for};
use super::source::Source;
use crate::limits::LimitedReader;

/// The records of a file; without a `delimiter`, they are delimited by a comma, or by the semicolon
/// that some spreadsheets write.
pub(super) fn read(
    mut source: Source,
    options: &Arc<ReadOptions>,
    delimiter: Option<u8>,
) -> Result<Records, CorpusError> {
    let delimiter = match delimiter {
        Some(delimiter) => delimiter,
        None => comma_or_semicolon(source.first_line()?),
    };
    let Some(threads) = threads_for(&source, options) else {
        let place = source.place();
        let on_bad_utf8 = source.on_bad_utf8();
        let quotes = Quotes::new(delimiter, 1);
        let mut records =
            Delimited::new(source.into_records(), quotes, place, on_bad_utf8, options);
        records.read_header()?;
        return Ok(one_by_one(records, options));
    };
    let mut cutter = source.blocks(Ends::Quoted(Quotes::new(delimiter, 1)));
    let first = cutter.next_block()?.unwrap_or_else(|| cutter.no_lines());
    let mut first = Delimited::of_lines(first, delimiter, options);
    first.read_header()?;
    let columns = Arc::clone(&first.columns);
    let open = move |lines: Lines, options: &Arc<ReadOptions>| {
        let mut records = Delimited::of_lines(lines, delimiter, options);
        records.columns = Arc::clone(&columns);
        Ok(records)
    };
    let first = one_by_one(first, options);
    Ok(Box::new(first.chain(parsed_in_blocks(cutter, open, options, threads)?)))
}

struct Delimited {
    reader: csv::Reader<QuoteTracker>,
    record: csv::ByteRecord,
    columns: Arc<Columns>,
    options: Arc<ReadOptions>,
    on_bad_utf8: OnBadUtf8,
    /// The place of the last record.
    place: Place,
}

/// The positions of the fields that are read.
#[derive(Default)]
struct Columns {
    /// The number of fields of every record.
    count: usize,
    texts: Vec<Option<usize>>,
    label: Option<usize>,
    id: Option<usize>,
    weight: Option<usize>,
    vector: Option<usize>,
    group: Option<usize>,
}

impl Delimited {
    fn new(
        bytes: LimitedReader<Bytes>,
        quotes: Quotes,
        place: Place,
        on_bad_utf8: OnBadUtf8,
        options: &Arc<ReadOptions>,
    ) -> Self {
        // A record of other length is reported with the record's own place.
        let mut reader = csv::ReaderBuilder::new();
        let reader = reader.delimiter(quotes.delimiter()).has_headers(false).flexible(true);
        let begins = VecDeque::new();
        let bytes = QuoteTracker { bytes, read: 0, quotes, begins, open_at_end: false };
        Self {
            reader: reader.from_reader(bytes),
            record: csv::ByteRecord::new(),
            columns: Arc::default(),
            options: Arc::clone(options),
            on_bad_utf8,
            place,
        }
    }

    fn of_lines(lines: Lines, delimiter: u8, options: &Arc<ReadOptions>) -> Self {
        let quotes = Quotes::new(delimiter, lines.before() + 1);
        let place = lines.place();
        let on_bad_utf8 = lines.on_bad_utf8();
        Self::new(lines.into_records(), quotes, place, on_bad_utf8, options)
    }

    /// Reads the next record; `false`: there is none.
    fn advance(&mut self) -> Result<bool, CorpusError> {
        let parsed = self.reader.position().byte();
        self.reader.get_mut().begin_record(parsed);
        let more = self.reader.read_byte_record(&mut self.record);
        let bytes = self.reader.get_mut();
        if let Some(line) = bytes.begins.pop_front() {
            self.place.line = Some(line);
        }
        let more = more.map_err(|error| csv_error(error, &self.place))?;
        // A quote that is never closed makes the rest of the file one field.
        if bytes.open_at_end {
            return Err(Problem::OpenQuote.at(&self.place));
        }
        Ok(more)
    }

    /// Reads the first record, which names the columns.
    fn read_header(&mut self) -> Result<(), CorpusError> {
        self.place.line = Some(1);
        self.advance()?;
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
        let columns = Columns::find(&names, &self.options);
        self.columns = Arc::new(columns.map_err(|problem| problem.at(&place))?);
        Ok(())
    }

    fn read(&mut self) -> Result<Option<Document>, CorpusError> {
        if !self.advance()? {
            return Ok(None);
        }
        let place = self.place.clone();
        let fields = self.record.len();
        let expected = self.columns.count;
        if fields != expected {
            let message = format!("{fields} fields, but the header has {expected}");
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
        let needed = |name: &str, role: FieldRole| {
            position(name).ok_or_else(|| Problem::MissingField {
                field: name.to_owned(),
                found: names.to_vec(),
                role,
            })
        };
        let named_or = |named: &Option<String>, default: &str, role| match named {
            Some(name) => needed(name, role).map(Some),
            None => Ok(position(default)),
        };
        let text = |name: &str| needed(name, options.text_role());
        let texts = match options.text_columns.as_slice() {
            [] if options.text_optional => vec![position("text")],
            [] => vec![Some(text("text")?)],
            columns => columns.iter().map(|name| text(name).map(Some)).collect::<Result<_, _>>()?,
        };
        let vector = options.vector_field.as_ref();
        let vector = vector.map(|name| needed(name, FieldRole::Vector)).transpose()?;
        let label = match &options.label_column {
            Some(name) if options.labels == LabelUse::Required => {
                Some(needed(name, FieldRole::Label)?)
            }
            Some(name) => position(name),
            None => LABEL_FIELDS.iter().find_map(|name| position(name)),
        };
        if label.is_none() && options.labels == LabelUse::Required && options.qrels.is_none() {
            return Err(needed("label", FieldRole::Label).err().unwrap_or(Problem::EmptyLabel));
        }
        let id = named_or(&options.id_column, "id", FieldRole::Id)?;
        let weight = named_or(&options.weight_column, "weight", FieldRole::Weight)?;
        let group = match &options.group_column {
            Some(name) if options.labels == LabelUse::Required => {
                Some(needed(name, FieldRole::Group)?)
            }
            Some(name) => position(name),
            None => None,
        };
        Ok(Self { count: names.len(), texts, label, id, weight, vector, group })
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
        _ => Problem::Csv { message }.at(place),
    }
}

/// Follows quotes, to know where records begin, and to notice one that is never closed.
struct QuoteTracker {
    bytes: LimitedReader<Bytes>,
    read: u64,
    quotes: Quotes,
    /// The lines of the records that were not parsed yet.
    begins: VecDeque<u64>,
    /// Whether the file ended within quotes.
    open_at_end: bool,
}

impl QuoteTracker {
    /// The next record begins; `parsed` bytes of the stream belong to those before it.
    fn begin_record(&mut self, parsed: u64) {
        self.bytes.restart(self.read.saturating_sub(parsed));
    }
}

impl Read for QuoteTracker {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.bytes.read(out)?;
        self.read += read as u64;
        let _ = self.quotes.last_end(&out[..read], |line| self.begins.push_back(line));
        self.open_at_end = read == 0 && !out.is_empty() && self.quotes.is_open();
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn records(text: &[u8]) -> Vec<Vec<Vec<u8>>> {
        let mut reader = csv::ReaderBuilder::new();
        let mut reader = reader.has_headers(false).flexible(true).from_reader(text);
        let fields = |record: csv::ByteRecord| record.iter().map(<[u8]>::to_vec).collect();
        reader.byte_records().map(|record| fields(record.unwrap())).collect()
    }

    /// Wherever a text is cut, both parts together have the records of the whole.
    #[test]
    fn cuts_are_between_records() {
        let mut random = Random::new(5);
        let mut cuts = 0;
        for _ in 0..3_000 {
            let length = random.below(24);
            let text: Vec<u8> = (0..length).map(|_| b"a,\"\"\n\r"[random.below(6)]).collect();
            let mut quotes = Quotes::new(b',', 1);
            let whole = records(&text);
            let mut begins = 0;
            for (at, byte) in text.iter().enumerate() {
                if quotes.last_end(&[*byte], |_| begins += 1).is_some() {
                    let parts = [records(&text[..=at]), records(&text[at + 1..])].concat();
                    assert_eq!(
                        parts,
                        whole,
                        "{:?} cut at {}",
                        String::from_utf8_lossy(&text),
                        at + 1
                    );
                    cuts += 1;
                }
            }
            if let Some(end) = Quotes::new(b',', 1).last_end(&text, |_| ()) {
                let parts = [records(&text[..end]), records(&text[end..])].concat();
                assert_eq!(parts, whole, "{:?} cut at {end}", String::from_utf8_lossy(&text));
            }
            assert_eq!(begins, whole.len(), "{:?}", String::from_utf8_lossy(&text));
        }
        assert!(cuts > 2_000, "{cuts}");
    }
}
