//! Errors as the user sees them: what happened, where, what to do next, and the exit code.
//!
//! The library's errors carry data and name no flags. This module words them for the command line.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use array_file::FileProblem;
use array_file::output::{OutputError, OutputProblem};
use classify::check::DriftError;
use classify::classifier::ClassifyError;
use classify::classifier::stream::StreamError;
use classify::classifier::vectors::{VectorsError, VectorsProblem};
use classify::decide::decision::{DecisionError, MultiLabelOption};
use classify::evaluate::{CompareError, EvaluateError};
use classify::learn::{ReweighError, TrainError};
use classify::model::{ChangeError, ModelError, ModelProblem, UpdateError};
use classify::printable::printable;
use classify::search::SearchError;
use classify::text::corpus::{CorpusError, FieldRole, Problem};
use gpu_runtime::GpuError;

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Invalid or conflicting flags.
    Usage(String),
    /// A corpus that cannot be read.
    Corpus(CorpusError),
    /// A model that cannot be read or written.
    Model(ModelError),
    /// Vectors that cannot be read or written.
    Vectors(VectorsError),
    /// The search failed.
    Search(SearchError),
    /// An output that cannot be written.
    Output(OutputError),
    /// An input file other than a corpus, a model or vectors that cannot be read.
    Input { path: PathBuf, message: String },
    /// A requested GPU that cannot be used.
    Gpu(GpuError),
    /// An internal error: part of the program panicked.
    Internal(String),
    /// A resource that the machine lacks.
    Resource(String),
    /// A thread that cannot be started.
    Thread(io::Error),
    /// A note on the corpus, with `--strict`.
    Strict(String),
    /// A comparison that found a worse evaluation, with `--fail-if-worse`.
    WorseThanBaseline(String),
}

const NO_THREAD_HINT: &str = "use fewer threads (-j 1) or raise the process limit (ulimit -u)";

const NO_GPU_HINT: &str =
    "`classify devices` lists the GPUs; `--device auto` falls back to the CPU if no GPU works";

impl Failure {
    pub(crate) fn output(path: &Path) -> impl Fn(io::Error) -> Self + '_ {
        move |error| Self::Output(OutputError::write(path, error))
    }

    /// Wraps an error from writing to standard output.
    pub(crate) fn stdout(error: io::Error) -> Self {
        Self::output(Path::new("-"))(error)
    }

    /// The kind of the I/O error that caused the failure, if any.
    fn io_kind(&self) -> Option<io::ErrorKind> {
        match self {
            Self::Output(error) => error.io_kind(),
            Self::Model(error) => error.io_kind(),
            Self::Vectors(error) => error.io_kind(),
            Self::Corpus(CorpusError { problem: Problem::Io(error), .. }) => Some(error.kind()),
            _ => None,
        }
    }

    fn code(&self) -> u8 {
        match self {
            _ if self.io_kind() == Some(io::ErrorKind::OutOfMemory) => 5,
            Self::Usage(_)
            | Self::Output(OutputError {
                problem: OutputProblem::IsInput { .. } | OutputProblem::IsOutput { .. },
                ..
            }) => 2,
            Self::Model(ModelError { problem: FileProblem::Write(_), .. })
            | Self::Vectors(VectorsError {
                problem: VectorsProblem::File(FileProblem::Write(_)),
                ..
            })
            | Self::Internal(_)
            | Self::Output(_) => 1,
            Self::Corpus(CorpusError { problem: Problem::Thread(_), .. })
            | Self::Search(SearchError::Engine(_) | SearchError::OutOfMemory { .. })
            | Self::Gpu(_)
            | Self::Resource(_)
            | Self::Thread(_) => 5,
            Self::Corpus(_) | Self::Input { .. } | Self::Vectors(_) | Self::Strict(_) => 3,
            Self::Model(_) => 4,
            Self::Search(_) => 1,
            Self::WorseThanBaseline(_) => 6,
        }
    }

    /// Returns the message and the hint. `command` is the name of the command that failed.
    fn message(&self, command: Option<&str>) -> (String, Option<Cow<'static, str>>) {
        match self {
            Self::Usage(message) => {
                let command = command.map_or(String::new(), |command| format!("{command} "));
                let hint = format!("`classify {command}--help` shows all flags and examples");
                (message.clone(), Some(hint.into()))
            }
            Self::Corpus(error) => (error.to_string(), corpus_hint(error)),
            Self::Model(error) => model_message(error, command),
            Self::Vectors(error) => (error.to_string(), vectors_hint(error).map(Cow::from)),
            Self::Search(error @ SearchError::Engine(_)) => {
                (error.to_string(), Some(NO_GPU_HINT.into()))
            }
            Self::Search(error) => (error.to_string(), None),
            Self::Gpu(error) => (error.to_string(), Some(NO_GPU_HINT.into())),
            Self::Output(error) => (error.to_string(), error.hint().map(Cow::from)),
            Self::Input { path, message } => (format!("{}: {message}", path.display()), None),
            Self::Strict(note) => {
                (note.clone(), Some("without `--strict`, this is only a note".into()))
            }
            Self::Thread(error) => {
                (format!("cannot start a thread: {error}"), Some(NO_THREAD_HINT.into()))
            }
            Self::Internal(message)
            | Self::Resource(message)
            | Self::WorseThanBaseline(message) => (message.clone(), None),
        }
    }

    /// Prints the error on stderr and returns the exit code. A broken pipe is not reported.
    pub(crate) fn report(&self, command: Option<&str>) -> ExitCode {
        if self.io_kind() == Some(io::ErrorKind::BrokenPipe) {
            return ExitCode::SUCCESS;
        }
        let (message, hint) = self.message(command);
        let bold = |color: AnsiColor| Style::new().bold().fg_color(Some(color.into()));
        let red = bold(AnsiColor::Red);
        let cyan = bold(AnsiColor::Cyan);
        let mut stderr = anstream::stderr().lock();
        // If stderr is closed, the error cannot be shown.
        let _ = writeln!(stderr, "{red}error:{red:#} {}", printable(message));
        if let Some(hint) = hint {
            let _ = writeln!(stderr, "{cyan}hint:{cyan:#} {hint}");
        }
        ExitCode::from(self.code())
    }
}

/// Returns the hint for a corpus that cannot be read. It names the relevant flag, if any.
fn corpus_hint(error: &CorpusError) -> Option<Cow<'static, str>> {
    if let Problem::MissingField { role: role @ (FieldRole::Text | FieldRole::Label), .. } =
        &error.problem
    {
        let may_lack_names = error.place.line == Some(1) && !error.place.source.contains(".json");
        return Some(missing_column(*role, may_lack_names).into());
    }
    let hint = match &error.problem {
        // For `--tune votes`, the parser takes `votes` as a path.
        Problem::Io(_) if matches!(&*error.place.source, "all" | "votes") => {
            "the value of `--tune` needs an equals sign: `--tune=votes`"
        }
        Problem::Thread(_) => NO_THREAD_HINT,
        Problem::Binary => {
            "if this is a corpus, set its format with `--format` or its encoding with `--encoding \
             utf-16le`, …"
        }
        Problem::BadUtf8 { .. } | Problem::BadUtf8Field => {
            "set the encoding (`--encoding latin-1`, `--encoding windows-1252`, …), or use \
             `--on-bad-utf8 replace`"
        }
        Problem::BadEncoding { .. } => {
            "set another encoding with `--encoding`, or use `--on-bad-utf8 replace`"
        }
        Problem::Json(_) => {
            "expected one JSON object per line (JSONL); set another format with `--format`"
        }
        Problem::MissingField { role, .. } => missing_field(*role),
        Problem::MissingColumns { .. } => {
            "name columns that exist with `--text-column` and `--label-column`"
        }
        Problem::NoHeader { .. } => {
            "`--no-header --text-column 1 --label-column 2` names columns by their numbers"
        }
        Problem::OneColumn { .. } => {
            "set the character between fields with `--separator`, or remove lines above the column \
             names"
        }
        Problem::IndicatorList => {
            "write the names of the labels, or one column of 0 and 1 per label (`--label-column \
             NAME,NAME,…`)"
        }
        Problem::NotAnIndicator { .. } => {
            "each of several label columns must contain 0 or 1; one column of label lists \
             needs `--label-separator`"
        }
        Problem::LoneSurrogate => "`--on-bad-utf8 replace` reads it as U+FFFD",
        Problem::NoDocument => {
            "expected at least one document, such as a line {\"text\": \"…\", \"label\": \"…\"}; \
             check the path, and whether the file was written completely"
        }
        Problem::NoFastTextLabel => "`predict --format plain` reads lines without labels",
        Problem::ColumnZero => "`--first-column 0` counts columns from 0",
        Problem::NegativeCount { .. } => {
            "`--features tfidf` uses the values as weights, which may be negative"
        }
        Problem::UnknownFormat => {
            "set the format: --format jsonl|json|csv|tsv|fasttext|annif|folders|plain|svmlight|\
             reuters|lyrl2004-tokens|lyrl2004-vectors"
        }
        Problem::NoLabels { from_qrels: true, .. } => {
            "set the labels with `--qrels rcv1-v2.topics.qrels`; `--format svmlight` reads rows of \
             `label column:value …`"
        }
        Problem::NoTerm => {
            "relax --min-df, --max-df, --min-length or --stop-words; `classify tokens` shows the \
             terms"
        }
        Problem::EmptyFolder => {
            "expected a folder with corpus files, or with one folder per label and nothing else; \
             `--format folders` reads one folder per label"
        }
        Problem::NoVector => {
            "name the field of the vectors with `--vector-field` (JSONL, CSV, TSV), or a separate \
             file of vectors with `--vectors`"
        }
        Problem::VectorsFile { .. } => {
            "row i belongs to the i-th document, or to the document whose identifier is on line i \
             of `--vector-ids`"
        }
        Problem::VectorFile { .. } => {
            "`--vectors` reads .npy (two dimensions), .fvecs, .bvecs and IDX files, optionally \
             compressed with gzip"
        }
        Problem::NoId => {
            "give each document a field `id`, or number the documents with --number-as PREFIX"
        }
        Problem::VectorsAsCorpus { .. } => {
            "name a corpus with a label per row, and the vectors next to it: `classify train \
             labels.csv --vectors FILE -o MODEL`; a CSV file with the column `label` suffices"
        }
        Problem::MixedFolder { .. } => {
            "move the file elsewhere, or read only the label folders with `--format folders`"
        }
        Problem::NoWord => {
            "`--words whitespace` or `--char-ngrams 1-3` makes terms of symbols; `classify tokens` \
             shows the terms"
        }
        _ => return error.hint().map(Cow::from),
    };
    Some(hint.into())
}

/// Returns the hint for a missing text column or label column.
fn missing_column(role: FieldRole, may_lack_names: bool) -> String {
    let no_header = if may_lack_names {
        "; if line 1 is a document, use `--no-header --text-column 1 --label-column 2`"
    } else {
        ""
    };
    match role {
        FieldRole::Text => {
            format!("name the field of the text with `--text-column`{no_header}")
        }
        _ => format!(
            "name the field of the labels with `--label-column`, or several fields of 0 and 1 \
             named like the labels: `--label-column NAME,NAME,…`{no_header}"
        ),
    }
}

fn missing_field(role: FieldRole) -> &'static str {
    match role {
        FieldRole::SeparateText => {
            "`--field` names the fields of the text; a trained model reads the fields that it was \
             trained on, unless `--text-column` names other fields"
        }
        FieldRole::Text | FieldRole::Label => unreachable!("`missing_column` handles these"),
        FieldRole::Id => {
            "`--id-column` must name a field that every record has; omit it if there is no such \
             field"
        }
        FieldRole::Weight => {
            "`--weight-column` must name a field that every record has; omit it if there is no \
             such field"
        }
        FieldRole::Group => {
            "`--group-column` must name a field that every record has; omit it if there is no such \
             field"
        }
        FieldRole::Vector => {
            "`--vector-field` names the field of the dense vector, a list of numbers; a trained \
             model reads the field that it was trained on"
        }
    }
}

impl From<OutputError> for Failure {
    fn from(error: OutputError) -> Self {
        Self::Output(error)
    }
}

impl From<CorpusError> for Failure {
    fn from(error: CorpusError) -> Self {
        Self::Corpus(error)
    }
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Self {
        Self::Model(error)
    }
}

impl From<VectorsError> for Failure {
    fn from(error: VectorsError) -> Self {
        Self::Vectors(error)
    }
}

impl From<SearchError> for Failure {
    fn from(error: SearchError) -> Self {
        Self::Search(error)
    }
}

impl From<ClassifyError> for Failure {
    fn from(error: ClassifyError) -> Self {
        match error {
            ClassifyError::Document(error) => Self::Corpus(error),
            ClassifyError::Search(error) => Self::Search(error),
        }
    }
}

impl From<TrainError> for Failure {
    fn from(error: TrainError) -> Self {
        match error {
            TrainError::Corpus(error) => Self::Corpus(error),
            TrainError::Search(error) => Self::Search(error),
            TrainError::Thread(error) => Self::Thread(error),
            TrainError::Decision(error) => error.into(),
            error => Self::Usage(train_message(&error)),
        }
    }
}

impl From<DriftError> for Failure {
    fn from(error: DriftError) -> Self {
        match error {
            DriftError::Classify(error) => error.into(),
            DriftError::Train(error) => error.into(),
            error => Self::Internal(error.to_string()),
        }
    }
}

impl From<EvaluateError> for Failure {
    fn from(error: EvaluateError) -> Self {
        match error {
            EvaluateError::Classify(error) => error.into(),
            EvaluateError::Thread(error) => Self::Thread(error),
            error => Self::Internal(error.to_string()),
        }
    }
}

impl From<StreamError<io::Error>> for Failure {
    fn from(error: StreamError<io::Error>) -> Self {
        match error {
            StreamError::Corpus(error) => Self::Corpus(error),
            StreamError::Search(error) => Self::Search(error),
            StreamError::Answer(error) => Self::stdout(error),
            StreamError::Thread(error) => Self::Thread(error),
            error => Self::Internal(error.to_string()),
        }
    }
}

impl From<UpdateError> for Failure {
    fn from(error: UpdateError) -> Self {
        match error {
            UpdateError::Model(error) => Self::Model(error),
            UpdateError::Change(error) => error.into(),
            error => Self::Resource(error.to_string()),
        }
    }
}

impl From<ChangeError> for Failure {
    fn from(error: ChangeError) -> Self {
        Self::Input { path: "<documents>".into(), message: error.to_string() }
    }
}

impl From<ReweighError> for Failure {
    fn from(error: ReweighError) -> Self {
        match error {
            ReweighError::Corpus(error) => error.into(),
            ReweighError::NoText => {
                let message = "the model stores no texts, so it cannot be reweighted; train it \
                               with --keep-text";
                Self::Usage(message.into())
            }
            error => Self::Usage(error.to_string()),
        }
    }
}

impl From<DecisionError> for Failure {
    fn from(error: DecisionError) -> Self {
        Self::Usage(decision_message(error))
    }
}

/// Returns the flag that sets a multi-label option.
fn flag(option: MultiLabelOption) -> &'static str {
    match option {
        MultiLabelOption::Rule => "--rule",
        MultiLabelOption::Threshold => "--threshold",
        MultiLabelOption::AllowNone => "--allow-none",
        MultiLabelOption::Hierarchy => "--hierarchy",
    }
}

/// Returns the message for a conflict between decision flags.
fn decision_message(error: DecisionError) -> String {
    let message = match error {
        DecisionError::SingleLabelConflict { option } => {
            let flag = flag(option);
            return format!("{flag} needs a multi-label model and conflicts with --mode single");
        }
        DecisionError::SingleLabels { option } => {
            let flag = flag(option);
            return format!(
                "{flag} chooses among several labels of a document, but every training document \
                 has one: add `--mode multi`, or omit {flag}; `--abstain target-error=5%` with \
                 --tune refuses low-confidence answers"
            );
        }
        DecisionError::RuleConflict { option } => {
            return format!("--rule conflicts with {}", flag(option));
        }
        DecisionError::ThresholdIsTuned => {
            "--tune chooses the threshold: omit --tune, or omit --threshold and --allow-none"
        }
        DecisionError::NumberIsTuned => {
            "tuning chooses the number of a --rule: write --rule NAME without the number"
        }
        DecisionError::NumberMissing => {
            "--rule rcut needs the number of labels, such as rcut:2; or let --tune choose it"
        }
        DecisionError::NeedsTuning => "this --rule learns thresholds: add --tune",
        DecisionError::NoThreshold => {
            "--allow-none needs a threshold, and this model has none: add --threshold"
        }
    };
    message.to_owned()
}

/// Returns the message for a training error. Most are conflicts between flags.
pub(crate) fn train_message(error: &TrainError) -> String {
    let message = match error {
        TrainError::UnknownLabel(label) => {
            return format!("--class-weight: no document has the label `{label}`");
        }
        TrainError::NotSymmetric { weighting } => {
            return format!(
                "{weighting} weights queries differently from documents, so tuning needs the \
                 texts, which the model does not store: train it with --keep-text and without \
                 --field, or tune during training with `classify train --tune=votes`"
            );
        }
        TrainError::NoText => "--keep-text: the corpus has features or vectors, and no text",
        TrainError::WordVectorsWithoutText => {
            "--word-vectors: the corpus has features, and no text"
        }
        TrainError::NoFeatures => {
            "--features counts: the corpus has texts, whose terms are always counted; omit the flag"
        }
        TrainError::AbstainNeedsTuning => {
            "--abstain learns its limits by tuning: add --tune, or run `classify tune MODEL`"
        }
        TrainError::NoveltyNeedsLabels { labels } => {
            return format!(
                "--abstain foreign=… needs at least four labels, and there are {labels}: it holds \
                 out each label in turn; `--abstain target-error=5%` refuses low-confidence \
                 answers"
            );
        }
        TrainError::NoNovelDocuments => {
            "--abstain foreign=…: holding out labels leaves fewer than 20 out-of-distribution \
             documents; it needs more documents, and labels that do not always occur together"
        }
        TrainError::LearnedNeedsTuning => {
            "vote weights are learned by tuning: add --tune, or run `classify tune MODEL`"
        }
        TrainError::PrototypesAreTuned => {
            "--tune chooses the share of prototypes: omit /prototypes in --vote"
        }
        TrainError::LearnedByBatch => {
            "--vote learned conflicts with --rule pcut, which decides on whole batches"
        }
        TrainError::AbstainByBatch => {
            "--abstain conflicts with --rule pcut, which decides on whole batches"
        }
        error => return error.to_string(),
    };
    message.to_owned()
}

/// Returns the message for a file that cannot be compared with other evaluations.
pub(crate) fn compare_message(error: &CompareError) -> String {
    match error {
        CompareError::NotAnEvaluation(what) => {
            format!("this file was not written by `classify evaluate --json`: {what}")
        }
        CompareError::NoDocuments => "the file has no predictions for documents: write it with \
                                      `evaluate --json FILE --per-document`"
            .to_owned(),
        error => error.to_string(),
    }
}

/// Returns the message and the hint for a model that cannot be opened or written.
fn model_message(error: &ModelError, command: Option<&str>) -> (String, Option<Cow<'static, str>>) {
    let hint = match &error.problem {
        ModelProblem::Read(error) if error.kind() == io::ErrorKind::NotFound => {
            "`classify train CORPUS -o MODEL` creates a model"
        }
        problem if problem.is_io_error() => {
            return (error.to_string(), problem.system_hint().map(Cow::from));
        }
        ModelProblem::Version { .. } => "train the model again: `classify train CORPUS -o MODEL`",
        _ if is_text(&error.path) => {
            let message = format!("{}: this is text, not a model", error.path.display());
            let command = command.unwrap_or("predict");
            let hint = format!(
                "the model comes first: `classify {command} MODEL …`; `classify train CORPUS -o \
                 MODEL` trains a model on a corpus"
            );
            return (message, Some(hint.into()));
        }
        _ => "copy the model again from its source, or retrain it with `classify train`",
    };
    (error.to_string(), Some(hint.into()))
}

/// Whether the first 512 bytes of a file are UTF-8 text without null bytes.
pub(crate) fn is_text(path: &Path) -> bool {
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(512).read_to_end(&mut head));
    // The last character may be truncated.
    let is_utf8 =
        std::str::from_utf8(&head).map_or_else(|error| error.error_len().is_none(), |_| true);
    read.is_ok() && !head.is_empty() && is_utf8 && !head.contains(&0)
}

fn vectors_hint(error: &VectorsError) -> Option<&'static str> {
    match &error.problem {
        VectorsProblem::File(problem) if problem.is_io_error() => problem.system_hint(),
        VectorsProblem::NoLabels => Some(
            "vectorize a labeled corpus; `classify vectorize` accepts --label-column and --qrels",
        ),
        _ => Some("create them again: `classify vectorize MODEL CORPUS -o FILE`"),
    }
}

#[cfg(test)]
mod tests {
    use classify::text::corpus::{Corpus, ReadOptions};

    use super::*;

    /// A hint names the relevant flag. If no flag applies, the library provides the hint.
    #[test]
    fn hints_name_flags() {
        let group = ReadOptions { group_column: Some("author".into()), ..ReadOptions::default() };
        let columns = ReadOptions {
            text_columns: vec!["title".into(), "body".into()],
            fields: true,
            ..ReadOptions::default()
        };
        let json = "{\"text\": \"a\", \"label\": \"x\"}\n";
        let cases: [(&[u8], ReadOptions, &str); 10] = [
            (json.as_bytes(), group, "--group-column"),
            (json.as_bytes(), columns, "--field"),
            (b"{\"text\": \"a\"}\n", ReadOptions::default(), "--label-column"),
            (b"{\"label\": \"a\"}\n", ReadOptions::default(), "--text-column"),
            (b"2286  2:3\n", ReadOptions::default(), "--qrels"),
            (b"hello\nworld\n", ReadOptions::default(), "--format jsonl|json|csv"),
            (b"{\"text\": \"\xe9\"}\n", ReadOptions::default(), "--encoding latin-1"),
            (b"1 1:2\n1 0:2\n", ReadOptions::default(), "--first-column 0"),
            (b"__label__a x\nno label\n", ReadOptions::default(), "--format plain"),
            (b"%PDF-1.7\n", ReadOptions::default(), "pdftotext"),
        ];
        for (bytes, options, expected) in cases {
            let error = Corpus::from_bytes("in", bytes.to_vec(), options)
                .and_then(Iterator::collect::<Result<Vec<_>, _>>)
                .expect_err(expected);
            let (message, hint) = Failure::Corpus(error).message(Some("train"));
            let hint = hint.unwrap_or_default();
            assert!(hint.contains(expected), "{message}: {hint} should contain {expected}");
        }
    }
}
