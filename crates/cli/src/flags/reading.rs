//! Flags for reading corpora, and functions that open them.

use std::path::PathBuf;
use std::sync::Arc;

use clap::builder::{NonEmptyStringValueParser, PossibleValue};
use clap::{Args, ValueEnum};
use classify::classifier::vectors::StoredVectors;
use classify::model::Model;
use classify::rows::dense::{DenseFeatures, DenseSpec};
use classify::text::corpus::{
    Corpus, Format, IdUse, LabelUse, OnBadUtf8, Qrels, ReadOptions, Split, VectorsBeside,
    encoding_for_label,
};
use classify::threads::Threads;

use crate::failure::Failure;
use crate::output::progress::{Progress, Verbosity};

/// Flags for reading a corpus.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Reading")]
pub(crate) struct ReadingFlags {
    /// The corpus format [default: detected per file]
    #[arg(long, value_enum)]
    format: Option<FormatArgument>,
    /// The text field (JSONL, CSV, TSV); repeat it to join several fields [default: text]
    #[arg(long, value_name = "FIELD")]
    text_column: Vec<String>,
    /// The label field (JSONL, CSV, TSV) [default: labels, label, category or class]
    #[arg(long, value_name = "FIELD")]
    label_column: Option<String>,
    /// The identifier field (JSONL, CSV, TSV) [default: id]
    #[arg(long, value_name = "FIELD")]
    id_column: Option<String>,
    /// The field of the weight of a document's vote (JSONL, CSV, TSV) [default: weight]
    #[arg(long, value_name = "FIELD")]
    weight_column: Option<String>,
    /// The group field (JSONL, CSV, TSV). Documents of one group, such as one author, are not
    /// neighbors of each other during tuning
    #[arg(long, value_name = "FIELD")]
    group_column: Option<String>,
    /// The separator of labels within a field [default: none; the field is one label]
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    label_separator: Option<String>,
    /// A file with the labels of documents, in lines `label id 1`, such as rcv1-v2.topics.qrels
    #[arg(long, value_name = "FILE")]
    qrels: Option<PathBuf>,
    /// The number of the first column in svmlight files, 0 or 1 [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1))]
    first_column: Option<u32>,
    /// The side of the ModApte split to read (Reuters-21578)
    #[arg(long, value_enum, default_value_t = SplitArgument::All)]
    split: SplitArgument,
    /// The field of a dense vector, a list of numbers (JSONL, CSV, TSV) [default: from the model]
    #[arg(long, value_name = "FIELD")]
    vector_field: Option<String>,
    /// A file of dense vectors (.npy, .fvecs, .bvecs, IDX); row i belongs to the i-th document
    #[arg(long, value_name = "FILE", conflicts_with = "vector_field")]
    vectors: Option<PathBuf>,
    /// A file with the document identifiers of the rows of --vectors, one per line
    #[arg(long, value_name = "FILE", requires = "vectors")]
    vector_ids: Option<PathBuf>,
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
    /// The input files other than the corpora.
    pub(crate) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.qrels.iter().chain(&self.vectors).chain(&self.vector_ids)
    }

    /// The format set by `--format`.
    pub(crate) fn format(&self) -> Option<Format> {
        self.format.map(|format| format.0)
    }

    /// Rejects flags that do not apply to a vectors file.
    pub(crate) fn refuse_with_vectors(&self) -> Result<(), Failure> {
        let given = [
            ("--format", self.format.is_some()),
            ("--text-column", !self.text_column.is_empty()),
            ("--label-column", self.label_column.is_some()),
            ("--id-column", self.id_column.is_some()),
            ("--weight-column", self.weight_column.is_some()),
            ("--group-column", self.group_column.is_some()),
            ("--label-separator", self.label_separator.is_some()),
            ("--qrels", self.qrels.is_some()),
            ("--first-column", self.first_column.is_some()),
            ("--split", self.split != SplitArgument::All),
            ("--vector-field", self.vector_field.is_some()),
            ("--vectors", self.vectors.is_some()),
            ("--encoding", self.encoding.is_some()),
            ("--on-bad-utf8", self.on_bad_utf8 != OnBadUtf8Argument::Error),
        ];
        match given.iter().find(|(_, given)| *given) {
            Some((flag, _)) => Err(Failure::Usage(format!(
                "{flag} does not apply to a vectors file: use it with `classify vectorize`, \
                 which reads \
                 the documents"
            ))),
            None => Ok(()),
        }
    }

    /// The read options of the flags. If there are `threads`, they read the files of the flags.
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
        let read_vectors = |path: &PathBuf| VectorsBeside::read(path, self.vector_ids.as_deref());
        let vectors = self.vectors.as_ref().map(read_vectors).transpose()?;
        Ok(ReadOptions {
            vector_field: self.vector_field.clone(),
            vectors_beside: vectors.map(Arc::new),
            text_optional: false,
            format: self.format.map(|format| format.0),
            text_columns: self.text_column.clone(),
            fields: false,
            label_column: self.label_column.clone(),
            id_column: self.id_column.clone(),
            weight_column: self.weight_column.clone(),
            group_column: self.group_column.clone(),
            label_separator: self.label_separator.clone(),
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
            text_only: false,
            max_record: None,
            bytes_read: None,
            threads: threads.cloned(),
        })
    }
}

/// Applies the model's settings to the read options. `share` is the share of the vector neighbors
/// in the votes.
pub(crate) fn apply_model_settings(
    model: &Model,
    share: f64,
    read_options: &mut ReadOptions,
) -> Result<(), Failure> {
    let uses_vectors = matches!(
        &model.settings().dense,
        Some(DenseSpec { features: DenseFeatures::Given { .. }, .. })
    );
    let has_vectors = read_options.vector_field.is_some() || read_options.vectors_beside.is_some();
    if has_vectors && !uses_vectors {
        let message = "--vector-field and --vectors: this model does not use vectors of the corpus";
        return Err(Failure::Usage(message.into()));
    }
    model.fit_read_options(read_options);
    if !has_vectors && share <= 0.0 {
        // The vector neighbors have no vote, so their vectors are not needed.
        read_options.vector_field = None;
    }
    Ok(())
}

/// Opens a corpus that reports its formats to `progress` and counts its bytes there.
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

/// Joins the paths of a corpus into one name for messages.
pub(crate) fn name(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.to_string_lossy()).collect::<Vec<_>>().join(", ")
}
