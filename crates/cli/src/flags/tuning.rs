//! Tuning flags, and messages during training.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::OnceLock;

use clap::{Args, ValueEnum};
use classify::decide::objective::Objective;
use classify::learn::trainer::{Event, FreeFeatures, NearDuplicateLimit, TuneOptions, TuneScope};

use crate::output::progress::{Progress, Talk};

/// How a model is tuned.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Tuning")]
pub(crate) struct Tuning {
    /// Choose features, k, vote and decision (`all`), or only k, vote and decision (`votes`) by
    /// leave-one-out on all training documents; values set by other flags are kept
    #[arg(long, value_enum, value_name = "WHAT", num_args = 0..=1, require_equals = true, default_missing_value = "all")]
    pub(crate) tune: Option<Scope>,
    /// Choose nothing: without other flags k = 30, votes by similarity and a threshold of 0.4. Without this flag and
    /// --tune, these three are chosen out of a few by leaving out 2,000 documents, if there are at least 100
    #[arg(long, conflicts_with = "tune")]
    pub(crate) no_tune: bool,
    /// The number of documents left out to compare features
    #[arg(long, value_name = "N", default_value_t = 4_000)]
    tune_sample: usize,
    #[command(flatten)]
    pub(crate) flags: TuningFlags,
}

/// The flags shared with `classify tune`.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Tuning")]
pub(crate) struct TuningFlags {
    /// The objective to maximize
    #[arg(long, value_enum, default_value_t = ObjectiveArgument::MicroF1)]
    objective: ObjectiveArgument,
    /// The largest k to try
    #[arg(long, value_name = "K", default_value = "200", value_parser = crate::flags::positive::positive)]
    k_max: NonZeroUsize,
    /// The cosine above which documents are near-duplicates, which are not neighbors of each other
    /// while tuning, or `off` [default: estimated from the data]
    #[arg(long, value_name = "COSINE", value_parser = cosine_or_off)]
    near_duplicates: Option<NearDuplicateLimit>,
    /// Whether the training documents are in the order of time: settings are then compared without the documents
    /// just before and after each [default: estimated from the data]
    #[arg(long, value_name = "YES|NO", value_parser = yes_or_no)]
    time_order: Option<bool>,
    /// Write all results as JSON (schema classify.tuning/1)
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
        _ => Err("neither `yes` nor `no`".to_owned()),
    }
}

fn cosine_or_off(text: &str) -> Result<NearDuplicateLimit, String> {
    if text == "off" {
        return Ok(NearDuplicateLimit::Off);
    }
    let limit = text.parse().ok().filter(|limit| (0.0..=1.0).contains(limit));
    limit
        .map(NearDuplicateLimit::Above)
        .ok_or_else(|| "neither a cosine from 0 to 1 nor `off`".to_owned())
}

impl Tuning {
    /// The tuning options set by the flags; `None` without `--tune`.
    pub(crate) fn options(&self, free: FreeFeatures) -> Option<TuneOptions> {
        let scope = match self.tune {
            None if self.no_tune => return None,
            None => return Some(TuneOptions::quick()),
            Some(Scope::All) => TuneScope::All,
            Some(Scope::Votes) => TuneScope::Votes,
        };
        Some(TuneOptions { scope, free, sample: self.tune_sample, ..self.flags.options() })
    }
}

impl TuningFlags {
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

/// Prints events while a model is trained.
pub(crate) struct Told {
    talk: Talk,
    reading: Progress,
    /// The bar of left-out documents, created at the first one.
    tuning: OnceLock<Progress>,
}

impl Told {
    /// `reading` shows how much of the corpus has been read.
    pub(crate) fn new(talk: Talk, reading: Progress) -> Self {
        Self { talk, reading, tuning: OnceLock::new() }
    }

    pub(crate) fn on_event(&self, event: Event<'_>) {
        match event {
            Event::Read(documents) => self.reading.tick(documents),
            Event::LeftOut(documents) => {
                self.reading.finish();
                self.tuning.get_or_init(|| Progress::new(self.talk, "tuning", &[])).tick(documents);
            }
            event => {
                let shown = if self.talk.verbose { usize::MAX } else { 10 };
                if let Some(text) = event.text(shown) {
                    self.say(&text);
                }
            }
        }
    }

    fn say(&self, line: &str) {
        self.reading.finish();
        if let Some(bar) = self.tuning.get() {
            bar.finish();
        }
        self.talk.say(line);
    }
}
