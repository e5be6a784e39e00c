//! `classify tune`

use std::path::PathBuf;

use clap::Args;
use classify::decide::decision::{DecisionOptions, RuleOption};
use classify::learn::{Event, TrainError, TrainOptions, Trainer};
use classify::threads::Threads;
use process_setup::keep_freed_memory;

use super::deciding::{AbstainArgument, Mode};
use super::documents::lock;
use super::failure::Failure;
use super::opening::Opening;
use super::outputs::{Files, write_json};
use super::progress::{Progress, Talk};
use super::searching::Searching;
use super::tuning::{Told, TuningFlags};

/// `classify tune`
#[derive(Debug, Args)]
pub(crate) struct Tune {
    /// The model
    model: PathBuf,
    /// Where to write the tuned model [default: replaces the model]
    #[arg(short, long, value_name = "MODEL")]
    output: Option<PathBuf>,
    /// One label per document, or several [default: as in the model]
    #[arg(long, value_enum)]
    mode: Option<Mode>,
    /// Abstain: target-error=5% learns a limit that leaves at most this share of wrong labels, foreign=5%
    /// refuses documents that have none of the labels and by mistake this share of the others, both with
    /// a comma between them; off never abstains [default: the model's targets]
    #[arg(long, value_name = "WHAT")]
    abstain: Option<AbstainArgument>,
    /// Multi-label: try only this rule: threshold, scut, scut-fbr, scut-smoothed, rtcut,
    /// micromacro, rcut, mcut, pcut
    #[arg(long, value_name = "RULE")]
    rule: Option<RuleOption>,
    /// Terms and dense vectors together: the share of the neighbors by vectors in the votes [default:
    /// chosen]
    #[arg(long, value_name = "SHARE", value_parser = super::deciding::share)]
    dense_share: Option<f64>,
    #[command(flatten)]
    tuning: TuningFlags,
    #[command(flatten)]
    opening: Opening,
    #[command(flatten)]
    searching: Searching,
}

impl Tune {
    pub(crate) fn run(self, threads: &Threads, talk: Talk) -> Result<(), Failure> {
        let mut files = Files::default();
        let output = files.file(self.output.as_ref().unwrap_or(&self.model), "a model")?;
        // The output may replace the model, which has been read by then.
        let mut files = files.reads([&self.model]);
        let table = files.optional(self.tuning.tune_table.as_ref())?;
        // What others change meanwhile would be lost.
        let held = lock(output.path())?;
        let model = self.opening.model_on(&self.model, threads)?;
        keep_freed_memory();
        let settings = model.settings();
        let (target_error, foreign) = self.abstain.map_or_else(
            || {
                let error = settings.abstention.map(|limit| limit.target_error);
                (error, settings.novelty.map(|limit| limit.target))
            },
            AbstainArgument::targets,
        );
        let several = self.mode.map(Mode::is_multi);
        if self.dense_share.is_some() && !model.searches_both() {
            let message = "--dense-share: this model does not search both terms and dense vectors";
            return Err(Failure::Usage(message.into()));
        }
        let options = TrainOptions {
            dense_share: self.dense_share,
            decision: DecisionOptions { several, rule: self.rule, ..DecisionOptions::default() },
            target_error,
            foreign,
            tuning: Some(self.tuning.options()),
            ..TrainOptions::default()
        };
        let engines = self.searching.engines(threads, talk)?;
        let told = Told::new(talk, Progress::new(talk, "tuning", &[]));
        let on_event = |event: Event<'_>| told.on_event(event);
        let trained = Trainer::new(options, engines).retune(model, &on_event);
        let trained = trained.map_err(|error| match error {
            TrainError::NotSymmetric { .. } => {
                Failure::Usage(format!("{}: {error}", self.model.display()))
            }
            error => error.into(),
        })?;
        drop(told);
        talk.stages(&trained.stages);
        let path = output.path().to_owned();
        threads.run(|| match &held {
            Some(held) => trained.model.save_held(output, held),
            None => trained.model.save_to(output),
        })?;
        if let Some(report) = &trained.tuning {
            if let Some(table) = table {
                write_json(table, report)?;
            }
            let best = report.best;
            let said =
                format!("{}: k = {}, {}, {}", path.display(), best.k, best.vote, best.decision);
            talk.say(&said);
        }
        Ok(())
    }
}
