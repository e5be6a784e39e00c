//! Flags for reading corpora, and functions that open them.

use std::path::PathBuf;
use std::sync::Arc;

use clap::builder::{NonEmptyStringValueParser, PossibleValue};
use clap::{Args, ValueEnum};
use classify::classifier::vectors::StoredVectors;
use classify::model::Model;
use classify::rows::dense::{DenseFeatures, DenseSpec};
use classify::text::corpus::{
    Corpus, CorpusError, Document, Format, IdUse, LabelUse, Note, Notes, OnBadUtf8, Place, Problem,
    Qrels, Quoting, ReadOptions, Split, TableOptions, VectorsFile, encoding_for_label,
};
use classify::threads::Threads;

use super::encoder;
use crate::failure::Failure;
use crate::output::notes::report;
use crate::output::progress::{Progress, Verbosity};

/// Flags for reading a corpus.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Reading")]
pub(crate) struct ReadingFlags {
    /// The corpus format [default: detected per file]
    #[arg(long, value_enum)]
    format: Option<FormatArgument>,
    /// The text field, or several to join: title,body [default: text]
    ///
    /// For JSON, CSV and TSV. In JSON, doc.body is the field body of the object doc.
    #[arg(long, value_name = "FIELD", value_delimiter = ',')]
    text_column: Vec<String>,
    /// The label field, or fields of 0 and 1 named like labels [default: labels, label, …]
    ///
    /// For JSON, CSV and TSV. By default, the first of labels, label, category and class that
    /// exists.
    #[arg(long, value_name = "FIELD", value_delimiter = ',')]
    label_column: Vec<String>,
    /// The identifier field (JSON, CSV, TSV) [default: id]
    #[arg(long, value_name = "FIELD")]
    id_column: Option<String>,
    /// The field of the weight of a document's vote (JSON, CSV, TSV) [default: none, weight 1]
    #[arg(long, value_name = "FIELD")]
    weight_column: Option<String>,
    /// The group field (JSON, CSV, TSV). Documents of one group, such as one author, are not
    /// neighbors of each other during tuning
    #[arg(long, value_name = "FIELD")]
    group_column: Option<String>,
    /// What separates the labels in a field [default: the field is one label]
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    label_separator: Option<String>,
    /// The character between the fields of a table, such as `;`, or `tab` [default: detected]
    #[arg(long, value_name = "CHAR", value_parser = separator)]
    separator: Option<u8>,
    /// How fields of a table are quoted; `auto` is `none` for tabs, otherwise `csv`
    #[arg(long, value_enum, default_value_t = QuotingArgument::Auto)]
    quoting: QuotingArgument,
    /// The character that quotes a field of a table [default: "]
    #[arg(long, value_name = "CHAR", value_parser = separator)]
    quote: Option<u8>,
    /// Line 1 of a table is a document; name columns by numbers: `--text-column 1`
    #[arg(long)]
    no_header: bool,
    /// Treat notes on the corpus as errors (exit code 3)
    #[arg(long)]
    strict: bool,
    /// Notes collected while reading.
    #[arg(skip)]
    notes: Arc<Notes>,
    /// A file with the labels of documents, in lines `label id 1`, such as rcv1-v2.topics.qrels
    #[arg(long, value_name = "FILE")]
    qrels: Option<PathBuf>,
    /// The number of the first column in svmlight files, 0 or 1 [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1))]
    first_column: Option<u32>,
    /// The side of the ModApte split to read (Reuters-21578)
    #[arg(long, value_enum, default_value_t = SplitArgument::All)]
    split: SplitArgument,
    /// The field of a dense vector, a list of numbers (JSON, CSV, TSV) [default: from the model]
    #[arg(long, value_name = "FIELD")]
    vector_field: Option<String>,
    /// A file of dense vectors (.npy, .fvecs, .bvecs, IDX); row i belongs to the i-th document
    #[arg(long, value_name = "FILE", conflicts_with = "vector_field")]
    vectors: Option<PathBuf>,
    /// A file with the document identifiers of the rows of --vectors, one per line
    #[arg(long, value_name = "FILE", requires = "vectors")]
    vector_ids: Option<PathBuf>,
    /// The folder of a pretrained model that computes vectors from texts: model2vec, BERT,
    /// RoBERTa or DistilBERT, as sentence-transformers stores it [default: from the model]
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["vector_field", "vectors"])]
    encoder: Option<PathBuf>,
    /// The text encoding, such as latin-1 or windows-1252 [default: utf-8]
    #[arg(long, value_name = "NAME", value_parser = encoding)]
    encoding: Option<&'static encoding_rs::Encoding>,
    /// How to handle bytes that are invalid in the encoding
    #[arg(long, value_enum, default_value_t = OnBadUtf8Argument::Error)]
    on_bad_utf8: OnBadUtf8Argument,
}

fn encoding(name: &str) -> Result<&'static encoding_rs::Encoding, String> {
    encoding_for_label(name).ok_or_else(|| {
        "unknown encoding; use a name of the WHATWG standard, such as utf-8, latin-1, \
         windows-1252, iso-8859-15, koi8-r, shift_jis, gb18030, utf-16le"
            .to_owned()
    })
}

/// Parses an ASCII character, or the name of a character that needs quoting in a shell.
fn separator(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        b"comma" => Ok(b','),
        b"semicolon" => Ok(b';'),
        b"pipe" => Ok(b'|'),
        &[byte] if byte.is_ascii() && !matches!(byte, b'\n' | b'\r' | 0) => Ok(byte),
        _ => Err("expected one ASCII character, tab, comma, semicolon or pipe".to_owned()),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum QuotingArgument {
    Auto,
    Csv,
    Backslash,
    None,
}

#[derive(Debug, Clone, Copy)]
struct FormatArgument(Format);

const FORMATS: [FormatArgument; Format::ALL.len()] = {
    let mut formats = [FormatArgument(Format::Jsonl); Format::ALL.len()];
    let mut index = 0;
    while index < formats.len() {
        formats[index] = FormatArgument(Format::ALL[index]);
        index += 1;
    }
    formats
};

impl ValueEnum for FormatArgument {
    fn value_variants<'a>() -> &'a [Self] {
        &FORMATS
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.name()))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SplitArgument {
    All,
    Train,
    Test,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnBadUtf8Argument {
    Error,
    Replace,
}

impl ReadingFlags {
    /// Returns the input files other than the corpora.
    pub(crate) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.qrels.iter().chain(&self.vectors).chain(&self.vector_ids)
    }

    /// Returns the format set by `--format`.
    pub(crate) fn format(&self) -> Option<Format> {
        self.format.map(|format| format.0)
    }

    /// Prints the reading notes and then `others`. Returns the texts of all notes.
    ///
    /// # Errors
    /// With `--strict`, if there is a note.
    pub(crate) fn report(
        &self,
        others: impl IntoIterator<Item = Note>,
        verbosity: Verbosity,
    ) -> Result<Vec<String>, Failure> {
        let notes = self.notes.take().into_iter().chain(others);
        report(&notes.collect::<Vec<_>>(), self.strict, verbosity)
    }

    /// Rejects the flags of dense vectors for a command that does not use them.
    pub(crate) fn refuse_vectors(&self, command: &str) -> Result<(), Failure> {
        match self.vector_flags().iter().find(|(_, given)| *given) {
            Some((flag, _)) => Err(Failure::Usage(format!(
                "{flag}: `classify {command}` uses only the terms of the texts; leave the flag out"
            ))),
            None => Ok(()),
        }
    }

    /// The flags of dense vectors, and whether they are given.
    fn vector_flags(&self) -> [(&'static str, bool); 3] {
        [
            ("--vector-field", self.vector_field.is_some()),
            ("--vectors", self.vectors.is_some()),
            ("--encoder", self.encoder.is_some()),
        ]
    }

    /// Rejects flags that do not apply to a vectors file.
    pub(crate) fn refuse_with_vectors(&self) -> Result<(), Failure> {
        let given = [
            ("--format", self.format.is_some()),
            ("--text-column", !self.text_column.is_empty()),
            ("--label-column", !self.label_column.is_empty()),
            ("--id-column", self.id_column.is_some()),
            ("--weight-column", self.weight_column.is_some()),
            ("--group-column", self.group_column.is_some()),
            ("--label-separator", self.label_separator.is_some()),
            ("--separator", self.separator.is_some()),
            ("--quoting", self.quoting != QuotingArgument::Auto),
            ("--quote", self.quote.is_some()),
            ("--no-header", self.no_header),
            ("--qrels", self.qrels.is_some()),
            ("--first-column", self.first_column.is_some()),
            ("--split", self.split != SplitArgument::All),
            ("--encoding", self.encoding.is_some()),
            ("--on-bad-utf8", self.on_bad_utf8 != OnBadUtf8Argument::Error),
        ];
        match given.iter().chain(&self.vector_flags()).find(|(_, given)| *given) {
            Some((flag, _)) => Err(Failure::Usage(format!(
                "{flag} does not apply to a vectors file: use it with `classify vectorize`, \
                 which reads the documents"
            ))),
            None => Ok(()),
        }
    }

    /// Returns the read options that the flags set. If `threads` is set, these threads read the
    /// qrels file.
    pub(crate) fn options(
        &self,
        labels: LabelUse,
        threads: Option<&Threads>,
    ) -> Result<ReadOptions, Failure> {
        let read_qrels = |path: &PathBuf| match threads {
            Some(threads) => Qrels::read_with(path, threads),
            None => Qrels::read(path),
        };
        let qrels = self.qrels.as_ref().map(read_qrels).transpose()?.map(Arc::new);
        let is_stdin = |path: &&PathBuf| path.as_os_str() == "-";
        if self.vectors.iter().chain(&self.vector_ids).any(|path| is_stdin(&path)) {
            return Err(Failure::Usage(
                "--vectors and --vector-ids need file names; standard input (-) is not supported"
                    .into(),
            ));
        }
        let read_vectors = |path: &PathBuf| VectorsFile::read(path, self.vector_ids.as_deref());
        let vectors = self.vectors.as_ref().map(read_vectors).transpose()?;
        let encoder = self.encoder.as_ref().map(|folder| encoder::open(folder, threads));
        Ok(ReadOptions {
            encoder: encoder.transpose()?,
            vector_field: self.vector_field.clone(),
            vectors_beside: vectors.map(Arc::new),
            text_optional: false,
            format: self.format.map(|format| format.0),
            text_columns: self.text_column.clone(),
            fields: false,
            label_columns: self.label_column.clone(),
            id_column: self.id_column.clone(),
            weight_column: self.weight_column.clone(),
            group_column: self.group_column.clone(),
            label_separator: self.label_separator.clone(),
            table: TableOptions {
                separator: self.separator,
                quoting: match self.quoting {
                    QuotingArgument::Auto => Quoting::Auto,
                    QuotingArgument::Csv => Quoting::Csv,
                    QuotingArgument::Backslash => Quoting::Backslash,
                    QuotingArgument::None => Quoting::None,
                },
                quote: self.quote,
                no_header: self.no_header,
            },
            first_column: self.first_column,
            encoding: self.encoding,
            on_bad_utf8: match self.on_bad_utf8 {
                OnBadUtf8Argument::Error => OnBadUtf8::Error,
                OnBadUtf8Argument::Replace => OnBadUtf8::Replace,
            },
            labels,
            ids: IdUse::Numbered,
            qrels,
            split: match self.split {
                SplitArgument::All => Split::All,
                SplitArgument::Train => Split::Train,
                SplitArgument::Test => Split::Test,
            },
            usual_fields: false,
            text_only: false,
            notes: Some(Arc::clone(&self.notes)),
            max_record: None,
            bytes_read: None,
            threads: threads.cloned(),
        })
    }
}

/// Applies the model's settings to the read options. `share` is the vector neighbors' share of the
/// votes.
pub(crate) fn apply_model_settings(
    model: &Model,
    share: f64,
    read_options: &mut ReadOptions,
) -> Result<(), Failure> {
    let dense = model.settings().dense.as_ref();
    let uses_vectors =
        matches!(dense, Some(DenseSpec { features: DenseFeatures::Given { .. }, .. }));
    let has_vectors = read_options.vector_field.is_some() || read_options.vectors_beside.is_some();
    if has_vectors && !uses_vectors {
        let message = "--vector-field and --vectors: this model does not use vectors of the corpus";
        return Err(Failure::Usage(message.into()));
    }
    model.settings().reading.complete(read_options);
    model.fit_read_options(read_options);
    let needs_vectors = !has_vectors && model.needs_vectors(share);
    if !has_vectors && !needs_vectors {
        read_options.vector_field = None;
    }
    let spec = dense.and_then(DenseSpec::encoder);
    read_options.encoder = encoder::of_model(spec, needs_vectors, read_options)?;
    Ok(())
}

/// Opens a corpus. It reports its formats and the number of bytes read to `progress`.
pub(crate) fn open(
    paths: &[PathBuf],
    mut options: ReadOptions,
    verbosity: Verbosity,
    progress: &Progress,
) -> Result<Corpus, Failure> {
    if let Some(vectors) = paths.iter().find(|path| StoredVectors::is_at(path)) {
        let what = "a vectors file; only predict and evaluate accept it, as their only corpus";
        return Err(Failure::Usage(format!("{}: {what}", vectors.display())));
    }
    options.bytes_read = Some(progress.bytes());
    Ok(Corpus::open(paths, options)?.on_open(progress.formats(verbosity)))
}

/// Reads all documents of some corpora; none if there are no corpora.
pub(crate) fn read_all(
    corpora: &[PathBuf],
    options: ReadOptions,
    verbosity: Verbosity,
) -> Result<Vec<Document>, Failure> {
    if corpora.is_empty() {
        return Ok(Vec::new());
    }
    let reading = Progress::new(verbosity, "reading", corpora);
    let documents: Result<Vec<Document>, CorpusError> =
        open(corpora, options, verbosity, &reading)?.collect();
    let documents = documents?;
    if documents.is_empty() {
        let place = Place { source: name(corpora).into(), line: None };
        return Err(CorpusError { place, problem: Problem::NoDocument }.into());
    }
    Ok(documents)
}

/// Returns identifiers for the documents of a pool: mere numbers may be identifiers of other
/// documents in the model.
pub(crate) fn pool_ids(paths: &[PathBuf]) -> IdUse {
    IdUse::Prefixed { prefix: format!("{}:", name(paths)), after: 0 }
}

/// Joins the paths of a corpus into one name for messages.
pub(crate) fn name(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.to_string_lossy()).collect::<Vec<_>>().join(", ")
}
