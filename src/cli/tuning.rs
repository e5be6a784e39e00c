//! `--tune`: features, k, vote and decision by leave-one-out.

use std::fmt::Write as _;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use classify::corpus::{CorpusError, Document};
use classify::counts::{Counts, Input};
use classify::model::{InputSpec, TrainSettings};
use classify::search::Inverted;
use classify::threads::Threads;
use classify::tune::{
    Exclusion, FeatureError, Features, Free, Grid, NearDuplicates, Objective, Step, Trial, Trials,
    Tuned, Weighted, near_limit, revote, tune_features,
};
use serde::Serialize;

use super::arguments::{Documents, Training};
use super::failure::Failure;
use super::progress::{Progress, Talk};

/// How a model is tuned.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Tuning")]
pub(crate) struct Tuning {
    /// Choose by leave-one-out on the training documents: features, k, vote and decision
    /// (`all`), or only k, vote and decision (`votes`); what other flags say stays
    #[arg(long, value_enum, value_name = "WHAT", num_args = 0..=1, require_equals = true, default_missing_value = "all")]
    pub(crate) tune: Option<Scope>,
    /// What tuning maximizes
    #[arg(long, value_enum, default_value_t = ObjectiveArgument::MicroF1)]
    objective: ObjectiveArgument,
    /// The largest k that tuning tries
    #[arg(long, value_name = "K", default_value = "200")]
    k_max: NonZeroUsize,
    /// Documents that are no neighbors of each other while tuning: those of a cosine above this,
    /// or `off` [default: found from the data]
    #[arg(long, value_name = "COSINE", value_parser = near)]
    near_duplicates: Option<Near>,
    /// How many documents are left out to compare features
    #[arg(long, value_name = "N", default_value_t = 4_000)]
    tune_sample: usize,
    /// Write everything that was tried as JSON (schema classify.tuning/1)
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
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Near {
    Off,
    Above(f32),
}

fn near(text: &str) -> Result<Near, String> {
    if text == "off" {
        return Ok(Near::Off);
    }
    let limit = text.parse().ok().filter(|limit| (0.0..=1.0).contains(limit));
    limit.map(Near::Above).ok_or_else(|| "neither a cosine from 0 to 1 nor `off`".to_owned())
}

/// What tuning did, as JSON the schema `classify.tuning/1`.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Report {
    schema: &'static str,
    objective: &'static str,
    documents: usize,
    near_duplicates_above: Option<f32>,
    documents_with_near_duplicates: usize,
    features: Vec<Step>,
    best: Trial,
    trials: Vec<Trial>,
}

impl Tuning {
    fn objective(&self) -> Objective {
        match self.objective {
            ObjectiveArgument::MicroF1 => Objective::MicroF1,
            ObjectiveArgument::MacroF1 => Objective::MacroF1,
            ObjectiveArgument::Accuracy => Objective::Accuracy,
            ObjectiveArgument::MicroMacro => Objective::MicroMacro,
        }
    }

    /// Counts a corpus and finds its settings.
    pub(crate) fn tuned(
        &self,
        training: &Training,
        documents: Documents<'_>,
        source: (&str, Option<u32>),
        keep_text: bool,
        threads: &Threads,
        (progress, talk): (&Progress, Talk),
    ) -> Result<(Counts, TrainSettings, Report), Failure> {
        let documents: Vec<Document> = documents.collect::<Result<_, CorpusError>>()?;
        let mut first = documents.iter().take(1).cloned().map(Ok);
        let (_, mut settings) = training.count(&mut first, source, keep_text, threads, progress)?;
        let limits = training.weights.limits();
        let spec = match &settings.input {
            InputSpec::Text(spec) => Some(spec.clone()),
            InputSpec::Features(_) => None,
        };
        let given = settings.input.clone();
        let mut recount = |analyzer: &Option<classify::analyze::AnalyzerSpec>,
                           fields: &classify::counts::Fields| {
            let input = analyzer.clone().map_or(given.clone(), InputSpec::Text);
            Counts::read(
                &mut documents.iter().cloned().map(Ok),
                &Input::new(&input, fields),
                limits,
                keep_text,
                threads,
                &|_| (),
            )
        };
        let start = Features {
            analyzer: spec.clone(),
            fields: settings.fields.clone(),
            weighting: settings.weighting,
            selection: training.weights.selection(),
        };
        let counts = recount(&start.analyzer, &start.fields)?;
        if counts.has_no_term() {
            return Err(super::arguments::no_term(source.0).into());
        }
        let several = training.deciding.several(counts.has_several_labels());
        // Near-duplicates are found in the vectors that everybody starts from.
        let plain = Weighted::new(&counts, &start.fields, start.weighting);
        let engine = Inverted::new(plain.documents(), threads.clone())?;
        let queries = plain.queries().view();
        let above = match self.near_duplicates {
            Some(Near::Off) => None,
            Some(Near::Above(limit)) => Some(limit),
            None if start.weighting.is_cosine() => near_limit(&engine, &queries)?,
            None => None,
        };
        let near = match above {
            Some(limit) => NearDuplicates::search(&engine, &queries, limit)?,
            None => NearDuplicates::default(),
        };
        if let Some(limit) = above {
            let documents = near.documents();
            talk.say(&format!(
                "tuning: {documents} documents have a near-duplicate (cosine above {limit:.2}), \
                 which is no neighbor of theirs here"
            ));
        }
        drop(engine);
        let free = Free {
            analyzer: spec.is_some() && training.analysis.says_no_terms(),
            title: spec.is_some() && counts.has_titles(),
            weighting: training.weights.says_no_weighting()
                && !matches!(&settings.input, InputSpec::Features(spec) if !spec.counts),
            selection: start.selection.is_none(),
        };
        let all: Vec<u32> = (0u32..).take(counts.documents()).collect();
        let sample = sample(&all, self.tune_sample);
        let coarse = Grid::coarse(self.k_max, several, self.objective());
        let (features, counts, steps) = if self.tune == Some(Scope::All) {
            let mut trials = Trials {
                recount: &mut recount,
                sample: &sample,
                k_max: self.k_max,
                grid: &coarse,
                near: &near,
                groups: &[],
                threads,
                progress: &mut |step| talk.say(&said(step, self.objective())),
            };
            tune_features(&mut trials, start, free).map_err(|error| match error {
                FeatureError::Corpus(error) => Failure::from(error),
                FeatureError::Search(error) => error.into(),
            })?
        } else {
            let counts = match start.selection {
                Some(selection) => counts.select(selection),
                None => counts,
            };
            (start, counts, Vec::new())
        };
        let weighted = Weighted::new(&counts, &features.fields, features.weighting);
        let exclusion = Exclusion { near: Some(&near), groups: &[] };
        let found = weighted.leave_one_out(&all, self.k_max, exclusion, threads, &|_| ())?;
        let grid = Grid::full(self.k_max, several, self.objective());
        let sizes = counts.label_sizes();
        let Tuned { best, decision, trials } =
            revote(&found, counts.electorate(&sizes), &grid, threads);
        if let Some(analyzer) = features.analyzer {
            settings.input = InputSpec::Text(analyzer);
        }
        settings.fields = features.fields;
        settings.weighting = features.weighting;
        settings.k = NonZeroUsize::new(best.k).unwrap_or(TrainSettings::K);
        settings.vote = best.vote;
        settings.decision = decision;
        let report = Report {
            schema: "classify.tuning/1",
            objective: self.objective().name(),
            documents: all.len(),
            near_duplicates_above: above,
            documents_with_near_duplicates: near.documents(),
            features: steps,
            best,
            trials,
        };
        talk.say(&report.summary(self.objective()));
        Ok((counts, settings, report))
    }
}

/// At most `count` of the rows, spread evenly.
fn sample(rows: &[u32], count: usize) -> Vec<u32> {
    let count = count.clamp(1, rows.len().max(1));
    (0..count.min(rows.len())).map(|at| rows[at * rows.len() / count]).collect()
}

fn said(step: &Step, objective: Objective) -> String {
    format!(
        "tuning: {:.4} {} {} (k = {}, {}, {})",
        objective.of(step.trial.figures),
        if step.kept { "+" } else { " " },
        step.change,
        step.trial.k,
        step.trial.vote,
        step.trial.decision
    )
}

impl Report {
    fn summary(&self, objective: Objective) -> String {
        let mut text = format!(
            "tuning: {} settings tried on {} left-out documents; the best by {}:",
            self.trials.len(),
            self.documents,
            self.objective
        );
        let mut best: Vec<&Trial> = self.trials.iter().collect();
        best.sort_by(|a, b| objective.of(b.figures).total_cmp(&objective.of(a.figures)));
        for trial in best.iter().take(10) {
            let _ = write!(
                text,
                "\n  micro F1 {:.4}  macro F1 {:.4}  accuracy {:.4}  k = {}, {}, {}",
                trial.figures.micro_f1,
                trial.figures.macro_f1,
                trial.figures.accuracy,
                trial.k,
                trial.vote,
                trial.decision
            );
        }
        text
    }
}
