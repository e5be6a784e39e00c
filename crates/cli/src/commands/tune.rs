//! `classify tune`

use std::path::PathBuf;

use clap::Args;
use classify::decide::decision::{DecisionOptions, RuleOption};
use classify::learn::{Event, TrainError, TrainOptions, Trainer};
use classify::threads::Threads;

use crate::commands::updating::lock_documents;
use crate::failure::{Failure, train_message};
use crate::flags::deciding::{AbstainArgument, AbstentionTargets, Mode};
use crate::flags::opening::OpeningFlags;
use crate::flags::searching::SearchFlags;
use crate::flags::tuning::{SharedTuningFlags, TrainingProgress, return_memory_of_trials};
use crate::output::files::{Files, write_json};
use crate::output::progress::{Progress, Verbosity};

#[derive(Debug, Args)]
pub(crate) struct Tune {
    /// The model
    model: PathBuf,
    /// The tuned model to write [default: replace the model]
    #[arg(short, long, value_name = "MODEL")]
    output: Option<PathBuf>,
    /// Whether a document has a single label or multiple labels [default: as in the model]
    #[arg(long, value_enum)]
    mode: Option<Mode>,
    /// When to abstain: `target-error=5%` learns a confidence limit that leaves at most 5 % wrong
    /// labels. `foreign=5%` learns to refuse out-of-distribution (novel) documents, which have none
    /// of the labels; it refuses at most 5 % of the other documents by mistake. Separate both with
    /// a comma. `off` never abstains [default: the targets of the model]
    #[arg(long, value_name = "WHAT")]
    abstain: Option<AbstainArgument>,
    /// Multi-label: the only rule to try: threshold, scut, scut-fbr, scut-smoothed, rtcut,
    /// micromacro, rcut, mcut or pcut
    #[arg(long, value_name = "RULE")]
    rule: Option<RuleOption>,
    /// With terms and dense vectors: the share of the vector neighbors in the votes [default:
    /// chosen by tuning]
    #[arg(long, value_name = "SHARE", value_parser = crate::flags::deciding::share)]
    dense_share: Option<f64>,
    #[command(flatten)]
    tuning: SharedTuningFlags,
    #[command(flatten)]
    opening: OpeningFlags,
    #[command(flatten)]
    searching: SearchFlags,
}

impl Tune {
    pub(crate) fn run(self, threads: &Threads, verbosity: Verbosity) -> Result<(), Failure> {
        let mut files = Files::default();
        let output = files.file(self.output.as_ref().unwrap_or(&self.model), "a model")?;
        // The output may replace the model, which is read first.
        let mut files = files.with_inputs([&self.model]);
        let table = files.optional(self.tuning.tune_table.as_ref())?;
        // Without the lock, concurrent changes would be lost.
        let journal_lock = lock_documents(output.path())?;
        let model = self.opening.model_on(&self.model, threads)?;
        return_memory_of_trials();
        let settings = model.settings();
        let targets = match self.abstain {
            Some(abstain) => abstain.targets(),
            None => AbstentionTargets {
                error: settings.abstention.map(|limit| limit.target_error),
                novelty: settings.novelty.map(|limit| limit.target),
            },
        };
        let multi_label = self.mode.map(Mode::is_multi);
        if self.dense_share.is_some() && !model.searches_both() {
            let message = "--dense-share: this model does not search both terms and dense vectors; \
                           `classify info MODEL` shows its features";
            return Err(Failure::Usage(message.into()));
        }
        let options = TrainOptions {
            dense_share: self.dense_share,
            decision: DecisionOptions {
                multi_label,
                rule: self.rule,
                ..DecisionOptions::default()
            },
            target_error: targets.error,
            novelty: targets.novelty,
            tuning: Some(self.tuning.options()),
            ..TrainOptions::default()
        };
        let engines = self.searching.engines(threads, verbosity)?;
        let training_progress =
            TrainingProgress::new(verbosity, Progress::new(verbosity, "tuning", &[]));
        let on_event = |event: Event<'_>| training_progress.on_event(event);
        let builder = Trainer::builder().options(options).engines(engines);
        let trained = builder.on_event(&on_event).build().retune(model);
        let trained = trained.map_err(|error| match error {
            TrainError::NotSymmetric { .. } => {
                let message = train_message(&error);
                Failure::Usage(format!("{}: {message}", self.model.display()))
            }
            error => error.into(),
        })?;
        drop(training_progress);
        verbosity.stages(&trained.stages);
        let path = output.path().to_owned();
        threads.run(|| match &journal_lock {
            Some(journal_lock) => trained.model.save_locked(output, journal_lock),
            None => trained.model.save_to(output),
        })?;
        if let Some(report) = &trained.tuning {
            if let Some(table) = table {
                write_json(table, report)?;
            }
            let best = report.best;
            let path = path.display();
            verbosity.print(&format!("{path}: k = {}, {}, {}", best.k, best.vote, best.decision));
        }
        Ok(())
    }
}
