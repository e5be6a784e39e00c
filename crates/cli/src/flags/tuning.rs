//! Flags for tuning, and the progress of training.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use clap::{Args, ValueEnum};
use classify::decide::objective::Objective;
use classify::learn::{Event, NearDuplicateLimit, TunableFeatures, TuneOptions, TuneScope};
use process_setup::return_freed_memory_after;

use crate::flags::positive::positive;
use crate::output::progress::{Progress, Verbosity};

/// Flags for tuning during training.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Tuning")]
pub(crate) struct TuningFlags {
    /// Choose features, k, vote and decision rule by leave-one-out; takes longer
    ///
    /// `all` chooses everything, `votes` everything except the features. Values set by other flags
    /// are kept.
    #[arg(
        long, value_enum, value_name = "WHAT", num_args = 0..=1, require_equals = true,
        default_missing_value = "all"
    )]
    pub(crate) tune: Option<Scope>,
    /// Choose nothing: use k = 30, similarity votes and a threshold of 0.4, unless other flags set
    /// them. Without --no-tune and --tune, training compares a few settings on 2,000 held-out
    /// documents, if there are at least 100 documents
    #[arg(long, conflicts_with = "tune")]
    pub(crate) no_tune: bool,
    /// Do not cross-validate corpora of up to 1,000 documents. Training is then faster, but the
    /// expected metrics are missing or too high
    #[arg(long, conflicts_with = "no_tune")]
    pub(crate) no_cross_validation: bool,
    /// The number of held-out documents for comparing features
    #[arg(long, value_name = "N", default_value_t = 4_000)]
    tune_sample: usize,
    #[command(flatten)]
    pub(crate) flags: SharedTuningFlags,
}

/// Flags for tuning that `train`, `evaluate` and `tune` share.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Tuning")]
pub(crate) struct SharedTuningFlags {
    /// The objective to maximize
    #[arg(long, value_enum, default_value_t = ObjectiveArgument::MicroF1)]
    objective: ObjectiveArgument,
    /// The largest k to try
    #[arg(long, value_name = "K", default_value = "200", value_parser = positive)]
    k_max: NonZeroUsize,
    /// The cosine similarity above which documents are near-duplicates, or `off`. Near-duplicates
    /// are not neighbors of each other during tuning [default: estimated from the data]
    #[arg(long, value_name = "COSINE", value_parser = cosine_or_off)]
    near_duplicates: Option<NearDuplicateLimit>,
    /// Whether the training documents are in chronological order. If so, the documents just before
    /// and after a held-out document are not its neighbors [default: estimated from the data]
    #[arg(long, value_name = "YES|NO", value_parser = yes_or_no)]
    time_order: Option<bool>,
    /// Write all tuning results as JSON (schema classify.tuning/1)
    #[arg(long, value_name = "FILE")]
    pub(crate) tune_table: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scope {
    All,
    Votes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ObjectiveArgument {
    MicroF1,
    MacroF1,
    Accuracy,
    #[value(name = "micro+macro")]
    MicroMacro,
    #[value(name = "p@5")]
    PrecisionAt5,
    #[value(name = "top-3-accuracy")]
    Top3Accuracy,
}

impl From<ObjectiveArgument> for Objective {
    fn from(objective: ObjectiveArgument) -> Self {
        match objective {
            ObjectiveArgument::MicroF1 => Self::MicroF1,
            ObjectiveArgument::MacroF1 => Self::MacroF1,
            ObjectiveArgument::Accuracy => Self::Accuracy,
            ObjectiveArgument::MicroMacro => Self::MicroMacro,
            ObjectiveArgument::PrecisionAt5 => Self::PrecisionAt5,
            ObjectiveArgument::Top3Accuracy => Self::Top3Accuracy,
        }
    }
}

fn yes_or_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("expected `yes` or `no`".to_owned()),
    }
}

fn cosine_or_off(text: &str) -> Result<NearDuplicateLimit, String> {
    if text == "off" {
        return Ok(NearDuplicateLimit::Off);
    }
    let limit = text.parse().ok().filter(|limit| (0.0..=1.0).contains(limit));
    limit
        .map(NearDuplicateLimit::Above)
        .ok_or_else(|| "expected a cosine from 0 to 1, or `off`".to_owned())
}

impl TuningFlags {
    /// Returns the tuning options, or `None` with `--no-tune`.
    pub(crate) fn options(&self, free: TunableFeatures) -> Option<TuneOptions> {
        let cross_validate = !self.no_cross_validation;
        let scope = match self.tune {
            None if self.no_tune => return None,
            None => return Some(TuneOptions { cross_validate, ..TuneOptions::quick() }),
            Some(Scope::All) => TuneScope::All,
            Some(Scope::Votes) => TuneScope::Votes,
        };
        let sample = self.tune_sample;
        Some(TuneOptions { scope, free, sample, cross_validate, ..self.flags.options() })
    }
}

impl SharedTuningFlags {
    pub(crate) fn options(&self) -> TuneOptions {
        TuneOptions {
            scope: TuneScope::Votes,
            objective: self.objective.into(),
            k_max: self.k_max,
            near_duplicates: self.near_duplicates.unwrap_or_default(),
            time_order: self.time_order,
            ..TuneOptions::default()
        }
    }
}

/// Delay before memory that trials free is returned to the system. If all of it were kept, tuning
/// would need almost twice the memory.
const RETURN_MEMORY_AFTER: Duration = Duration::from_millis(30);

/// Sets a short delay after which memory that trials of tuning have freed returns to the system.
pub(crate) fn return_memory_of_trials() {
    return_freed_memory_after(RETURN_MEMORY_AFTER);
}

/// Shows the progress of training and prints its events.
pub(crate) struct TrainingProgress {
    verbosity: Verbosity,
    reading: Progress,
    /// Progress over the held-out documents; created on the first `HeldOut` event.
    tuning: OnceLock<Progress>,
}

impl TrainingProgress {
    /// Creates the progress display. `reading` shows how much of the corpus has been read.
    pub(crate) fn new(verbosity: Verbosity, reading: Progress) -> Self {
        Self { verbosity, reading, tuning: OnceLock::new() }
    }

    pub(crate) fn on_event(&self, event: Event<'_>) {
        match event {
            Event::Read(documents) => self.reading.tick(documents),
            Event::HeldOut(documents) => {
                self.reading.finish();
                self.tuning
                    .get_or_init(|| Progress::new(self.verbosity, "tuning", &[]))
                    .tick(documents);
            }
            event => {
                let max_settings = if self.verbosity.verbose { usize::MAX } else { 10 };
                if let Some(text) = classify_report::training::event(&event, max_settings) {
                    self.print(&text);
                }
            }
        }
    }

    fn print(&self, line: &str) {
        self.reading.finish();
        if let Some(bar) = self.tuning.get() {
            bar.finish();
        }
        self.verbosity.print(line);
    }
}
