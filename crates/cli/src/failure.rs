//! Errors as the user sees them: what happened, where, what to do next, and the exit code.
//!
//! The library's errors carry data and name no flags. Here they get the words of the command line.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use array_file::FileProblem;
use array_file::output::{OutputError, OutputProblem};
use classify::classifier::ClassifyError;
use classify::classifier::stream::StreamError;
use classify::classifier::vectors::{VectorsError, VectorsProblem};
use classify::decide::decision::{DecisionError, MultiLabelOption};
use classify::evaluate::{CompareError, EvaluateError};
use classify::learn::{ReweighError, TrainError};
use classify::model::{ChangeError, ModelError, ModelProblem, UpdateError};
use classify::printable::printable;
use classify::search::SearchError;
use classify::text::corpus::{CorpusError, Problem};
use classify::threads::NO_THREAD;
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
    /// Another input file that cannot be read.
    Input { path: PathBuf, message: String },
    /// A requested GPU that cannot be used.
    Gpu(GpuError),
    /// An internal error: part of the program panicked.
    Internal(String),
    /// A resource that the machine lacks.
    Resource(String),
    /// A thread that cannot be started.
    Thread(io::Error),
    /// A comparison that found a worse evaluation, with `--fail-if-worse`.
    Worse(String),
}

const NO_GPU: &str =
    "`classify devices` lists the GPUs; `--device auto` falls back to the CPU if no GPU works";

impl Failure {
    pub(crate) fn output(path: &Path) -> impl Fn(io::Error) -> Self + '_ {
        move |error| Self::Output(OutputError::write(path, error))
    }

    /// The error of a write to standard output.
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
            Self::Corpus(_) | Self::Input { .. } | Self::Vectors(_) => 3,
            Self::Model(_) => 4,
            Self::Search(_) => 1,
            Self::Worse(_) => 6,
        }
    }

    fn message(&self) -> (String, Option<&'static str>) {
        match self {
            Self::Usage(message) => (message.clone(), Some("see `classify --help`")),
            Self::Corpus(error) => (error.to_string(), error.hint()),
            Self::Model(error) => (error.to_string(), model_hint(error)),
            Self::Vectors(error) => (error.to_string(), vectors_hint(error)),
            Self::Search(error @ SearchError::Engine(_)) => (error.to_string(), Some(NO_GPU)),
            Self::Search(error) => (error.to_string(), None),
            Self::Gpu(error) => (error.to_string(), Some(NO_GPU)),
            Self::Output(error) => (error.to_string(), error.hint()),
            Self::Input { path, message } => (format!("{}: {message}", path.display()), None),
            Self::Thread(error) => (format!("cannot start a thread: {error}"), Some(NO_THREAD)),
            Self::Internal(message) | Self::Resource(message) | Self::Worse(message) => {
                (message.clone(), None)
            }
        }
    }

    /// Prints the error on stderr and returns the exit code. A broken pipe is not reported.
    pub(crate) fn report(&self) -> ExitCode {
        if self.io_kind() == Some(io::ErrorKind::BrokenPipe) {
            return ExitCode::SUCCESS;
        }
        let (message, hint) = self.message();
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
            TrainError::Decision(error) => error.into(),
            error => Self::Usage(train_message(&error)),
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
                let message =
                    "the model keeps no texts: train it with --keep-text to weigh it anew later";
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

fn flag(option: MultiLabelOption) -> &'static str {
    match option {
        MultiLabelOption::Rule => "--rule",
        MultiLabelOption::Threshold => "--threshold",
        MultiLabelOption::AllowNone => "--allow-none",
        MultiLabelOption::Hierarchy => "--hierarchy",
    }
}

fn decision_message(error: DecisionError) -> String {
    let message = match error {
        DecisionError::OneLabel { option } => {
            let flag = flag(option);
            return format!("{flag} is for several labels and conflicts with --mode single");
        }
        DecisionError::RuleAnd { option } => {
            return format!("--rule conflicts with {}", flag(option));
        }
        DecisionError::ThresholdIsTuned => {
            "--tune chooses the threshold: omit --tune, or omit --threshold and --allow-none"
        }
        DecisionError::NumberIsTuned => "tuning chooses the number of a --rule: omit it",
        DecisionError::HowMany => {
            "--rule rcut needs the number of labels, such as rcut:2, or --tune"
        }
        DecisionError::NeedsTuning => "this --rule learns thresholds: it needs --tune",
        DecisionError::NoThreshold => {
            "--allow-none needs a threshold, which this model's decision lacks: add --threshold"
        }
    };
    message.to_owned()
}

/// Why options of training conflict.
pub(crate) fn train_message(error: &TrainError) -> String {
    let message = match error {
        TrainError::UnknownLabel(label) => {
            return format!("--class-weight: no document has the label `{label}`");
        }
        TrainError::NotSymmetric { weighting } => {
            return format!(
                "{weighting} weights queries differently from documents, and the model keeps no \
                 texts that queries could be made of: train it with --keep-text and without \
                 --field, or tune while training, with `classify train --tune=votes`"
            );
        }
        TrainError::NoText => "--keep-text: the model is made of features or vectors, not of text",
        TrainError::WordVectorsWithoutText => {
            "--word-vectors: this corpus has features and no text"
        }
        TrainError::NoFeatures => {
            "--features counts: this corpus has texts, whose terms are counted anyway"
        }
        TrainError::AbstainNeedsTuning => {
            "--abstain learns its limits by tuning: it needs --tune or `classify tune MODEL`"
        }
        TrainError::NoForeignDocuments => {
            "--abstain foreign=…: fewer than 20 documents become foreign by leaving labels out: it \
             needs more documents, and several labels that do not go together"
        }
        TrainError::LearnedNeedsTuning => {
            "learned votes are learned by tuning: they need --tune or `classify tune MODEL`"
        }
        TrainError::PrototypesAreTuned => {
            "the share of prototypes is chosen by --tune: leave /prototypes out of --vote"
        }
        TrainError::LearnedByBatch => {
            "--vote learned conflicts with pcut: votes are learned for single documents"
        }
        TrainError::AbstainByBatch => {
            "--abstain conflicts with pcut: its limits apply to single documents"
        }
        error => return error.to_string(),
    };
    message.to_owned()
}

/// Why a file cannot be compared with other evaluations.
pub(crate) fn compare_message(error: &CompareError) -> String {
    match error {
        CompareError::NotAnEvaluation(what) => {
            format!("not an evaluation by `classify evaluate --json`: {what}")
        }
        CompareError::NoDocuments => "it has no decisions on documents: write it with \
                                      `evaluate --json FILE --per-document`"
            .to_owned(),
        error => error.to_string(),
    }
}

fn model_hint(error: &ModelError) -> Option<&'static str> {
    match &error.problem {
        ModelProblem::Read(error) if error.kind() == io::ErrorKind::NotFound => {
            Some("`classify train CORPUS -o MODEL` creates a model")
        }
        problem if problem.is_of_the_system() => problem.system_hint(),
        ModelProblem::Version { .. } => {
            Some("use the version that trained it, or retrain it with `classify train`")
        }
        _ => Some("copy the model again from its source, or retrain it with `classify train`"),
    }
}

fn vectors_hint(error: &VectorsError) -> Option<&'static str> {
    match &error.problem {
        VectorsProblem::File(problem) if problem.is_of_the_system() => problem.system_hint(),
        VectorsProblem::NoLabels => Some(
            "vectorize a labeled corpus: `classify vectorize` takes --label-column and --qrels",
        ),
        _ => Some("create them again: `classify vectorize MODEL CORPUS -o FILE`"),
    }
}
