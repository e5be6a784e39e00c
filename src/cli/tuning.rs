//! `--tune`: features, k, vote and decision by leave-one-out.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use classify::calibrate::{Abstention, Calibration};
use classify::corpus::{CorpusError, Document};
use classify::counts::{Counts, Input};
use classify::matrix::Csr;
use classify::model::{InputSpec, Model, TrainSettings, TuningSummary};
use classify::search::{Engines, Search};
use classify::threads::Threads;
use classify::tune::{
    Exclusion, FeatureError, Features, Figures, Free, Grid, LeaveOneOut, NearDuplicates, Objective,
    Rule, Rules, Step, Trial, Trials, Tuned, Weighted, abstention, calibrate, learn, near_limit,
    revote, tune_features, window,
};
use classify::vote::Electorate;
use serde::Serialize;

use super::arguments::{Documents, Training};
use super::deciding::{AbstainArgument, Fixed, Mode, RuleArgument};
use super::failure::Failure;
use super::progress::{Progress, Talk};
use super::searching::Searching;

/// How a model is tuned.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Tuning")]
pub(crate) struct Tuning {
    /// Choose by leave-one-out on the training documents: features, k, vote and decision
    /// (`all`), or only k, vote and decision (`votes`); what other flags say stays
    #[arg(long, value_enum, value_name = "WHAT", num_args = 0..=1, require_equals = true, default_missing_value = "all")]
    pub(crate) tune: Option<Scope>,
    /// How many documents are left out to compare features
    #[arg(long, value_name = "N", default_value_t = 4_000)]
    tune_sample: usize,
    #[command(flatten)]
    flags: TuningFlags,
}

/// What `classify tune` takes too.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Tuning")]
pub(crate) struct TuningFlags {
    /// What tuning maximizes
    #[arg(long, value_enum, default_value_t = ObjectiveArgument::MicroF1)]
    objective: ObjectiveArgument,
    /// The largest k that tuning tries
    #[arg(long, value_name = "K", default_value = "200")]
    k_max: NonZeroUsize,
    /// Documents that are no neighbors of each other while tuning: those of a cosine above this,
    /// or `off` [default: found from the data]
    #[arg(long, value_name = "COSINE", value_parser = cosine_or_off)]
    near_duplicates: Option<NearArgument>,
    /// Write everything that was tried as JSON (schema classify.tuning/1)
    #[arg(long, value_name = "FILE")]
    tune_table: Option<PathBuf>,
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
enum NearArgument {
    Off,
    Above(f32),
}

fn cosine_or_off(text: &str) -> Result<NearArgument, String> {
    if text == "off" {
        return Ok(NearArgument::Off);
    }
    let limit = text.parse().ok().filter(|limit| (0.0..=1.0).contains(limit));
    limit
        .map(NearArgument::Above)
        .ok_or_else(|| "neither a cosine from 0 to 1 nor `off`".to_owned())
}

/// What tuning did, as JSON the schema `classify.tuning/1`.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Report {
    schema: &'static str,
    objective: Objective,
    documents: u64,
    near_duplicates_above: Option<f32>,
    /// Documents before and after each that were left out when settings were compared.
    window: u32,
    documents_with_near_duplicates: usize,
    features: Vec<Step>,
    /// The best of `trials`.
    best: Trial,
    /// Its figures where documents before and after are neighbors too, as for thresholds.
    figures: Figures,
    trials: Vec<Trial>,
}

impl Tuning {
    fn objective(&self) -> Objective {
        match self.flags.objective {
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
        engines: &Engines,
        (progress, talk): (&Progress, Talk),
    ) -> Result<Settled, Failure> {
        let threads = engines.threads();
        let fixed = training.deciding.fixed()?;
        let read = documents.zip(1..).map(|(document, count)| {
            progress.tick(count);
            document
        });
        let documents: Vec<Document> = read.collect::<Result<_, CorpusError>>()?;
        let mut settings = training.settings(documents.first(), source, keep_text)?;
        let hierarchy = settings.hierarchy.clone();
        let limits = training.weights.limits();
        let spec = match &settings.input {
            InputSpec::Text(spec) => Some(spec.clone()),
            InputSpec::Features(_) => None,
        };
        let given = settings.input.clone();
        let unknown_label = RefCell::new(None);
        let mut recount = |analyzer: &Option<classify::analyze::AnalyzerSpec>,
                           fields: &classify::counts::Fields| {
            let input = analyzer.clone().map_or(given.clone(), InputSpec::Text);
            let mut counts = Counts::read(
                &mut documents.iter().cloned().map(Ok),
                &Input::new(&input, fields),
                limits,
                keep_text,
                threads,
                &|_| (),
            )?;
            counts.close_labels(&hierarchy);
            if let Err(failure) = training.weigh_classes(&mut counts) {
                unknown_label.replace(Some(failure));
            }
            Ok(counts)
        };
        let start = Features {
            analyzer: spec.clone(),
            fields: settings.fields.clone(),
            weighting: settings.weighting,
            selection: training.weights.selection(),
        };
        let counts = recount(&start.analyzer, &start.fields)?;
        if let Some(failure) = unknown_label.take() {
            return Err(failure);
        }
        if counts.has_no_term() {
            return Err(super::arguments::no_term(source.0).into());
        }
        let several = training.deciding.several(counts.has_several_labels());
        // Near-duplicates are found in the vectors that everybody starts from.
        let plain = Weighted::new(&counts, &start.fields, start.weighting);
        let engine = engines.engine(plain.documents())?;
        let cosine = start.weighting.is_cosine();
        let sizes = counts.label_sizes();
        let mut near =
            self.near(&*engine, plain.queries(), cosine, &counts.electorate(&sizes), talk)?;
        near.groups = counts.groups().to_vec();
        drop(engine);
        let free = free(training, &settings, &counts);
        let sample = sample(counts.documents(), self.tune_sample);
        let coarse = Grid::coarse(self.flags.k_max, several, self.objective());
        let (features, counts, steps) = if self.tune == Some(Scope::All) {
            let mut trials = Trials {
                recount: &mut recount,
                sample: &sample,
                k_max: self.flags.k_max,
                grid: &coarse,
                exclusion: near.exclusion(),
                engines,
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
        let engine = engines.engine(weighted.documents())?;
        let sizes = counts.label_sizes();
        let among = counts.electorate(&sizes);
        let votes = (&*engine, weighted.queries(), among);
        let unknown = |row: u32| counts.unknown_share(row as usize);
        let learnt =
            self.votes(votes, (several, fixed), (&near, &unknown), steps, threads, talk)?;
        let Learnt { tuned, report, calibration, abstention } = learnt;
        if let Some(analyzer) = features.analyzer {
            settings.input = InputSpec::Text(analyzer);
        }
        settings.fields = features.fields;
        settings.weighting = features.weighting;
        settings.selection = features.selection;
        settings.k = NonZeroUsize::new(tuned.best.k).unwrap_or(TrainSettings::K);
        settings.vote = tuned.best.vote;
        settings.decision = tuned.decision;
        settings.tuning = Some(report.in_short());
        settings.abstention = abstention;
        Ok(Settled { counts, settings, calibration: Some(calibration) })
    }

    /// Documents that are no neighbors of each other.
    fn near(
        &self,
        engine: &dyn Search,
        queries: &Csr,
        cosine: bool,
        among: &Electorate<'_>,
        talk: Talk,
    ) -> Result<Near, Failure> {
        let window = window(among);
        if window > 0 {
            talk.say(&format!(
                "tuning: settings are compared without the {window} documents before and after \
                 each, which may be of the same events"
            ));
        }
        let view = queries.view();
        let above = match self.flags.near_duplicates {
            Some(NearArgument::Above(limit)) => Some(limit),
            None if cosine => near_limit(engine, &view)?,
            Some(NearArgument::Off) | None => None,
        };
        let Some(limit) = above else { return Ok(Near { window, ..Near::default() }) };
        let pairs = NearDuplicates::search(engine, &view, limit)?;
        let documents = pairs.documents();
        talk.say(&format!(
            "tuning: {documents} documents have a near-duplicate (cosine above {limit}), which is \
             no neighbor of theirs here"
        ));
        Ok(Near { above, pairs, window, groups: Vec::new() })
    }

    /// The best k, vote and decision by one leave-one-out search of all documents.
    fn votes(
        &self,
        (engine, queries, among): (&dyn Search, &Csr, Electorate<'_>),
        (several, fixed): (bool, Fixed),
        (near, unknown): (&Near, &dyn Fn(u32) -> f64),
        features: Vec<Step>,
        threads: &Threads,
        talk: Talk,
    ) -> Result<Learnt, Failure> {
        if fixed.rule == Some(Rule::Pcut) && fixed.target_error.is_some() {
            let message = "--abstain and pcut: limits are for documents that are decided on one by \
                           one";
            return Err(Failure::Usage(message.into()));
        }
        if several && fixed.vote.is_some_and(|vote| vote.compensation > 0.0) {
            let message = "/size^ is for one label a document: thresholds of labels make up for \
                           their sizes";
            return Err(Failure::Usage(message.into()));
        }
        let rows: Vec<u32> = (0u32..).take(queries.rows()).collect();
        let progress = Progress::new(talk, "tuning", &[]);
        let search = |k, exclusion| {
            let tick = |documents| progress.tick(documents);
            LeaveOneOut::search(engine, &queries.view(), &rows, k, exclusion, &tick)
        };
        let found = search(fixed.k.unwrap_or(self.flags.k_max), near.exclusion())?;
        let mut grid = Grid::full(self.flags.k_max, several, self.objective());
        if let Some(k) = fixed.k {
            grid.ks = vec![k.get()];
        }
        if let Some(vote) = fixed.vote {
            grid = grid.with_vote(vote);
        }
        grid.rules = Rules(fixed.rule);
        let mut tuned = revote(&found, among, &grid, threads);
        let mut figures = tuned.best.figures;
        let found = if near.window > 0 {
            // Thresholds are learnt from all the neighbors that a document has.
            let k = NonZeroUsize::new(tuned.best.k).unwrap_or(self.flags.k_max);
            let found = search(k, near.always())?;
            (tuned.decision, figures) = learn(&found, among, &tuned.best);
            found
        } else {
            found
        };
        drop(progress);
        let calibration = calibrate(&found, among, &tuned.best);
        let abstention = fixed
            .target_error
            .map(|target| abstention(&found, among, &tuned.best, target, unknown));
        if let Some(limits) = &abstention {
            let reached = if limits.error <= limits.target_error { "" } else { ": out of reach" };
            talk.say(&format!(
                "tuning: a target of {:.1} % wrong labels leaves {:.1} % of the documents an answer, \
                 with {:.1} % wrong{reached}",
                limits.target_error * 100.0,
                limits.coverage * 100.0,
                limits.error * 100.0
            ));
        }
        let report = Report {
            schema: "classify.tuning/1",
            objective: self.objective(),
            documents: rows.len() as u64,
            near_duplicates_above: near.above,
            window: near.window,
            documents_with_near_duplicates: near.pairs.documents(),
            features,
            best: tuned.best,
            figures,
            trials: tuned.trials.clone(),
        };
        talk.say(&report.summary(if talk.verbose { usize::MAX } else { 10 }));
        if let Some(path) = &self.flags.tune_table {
            super::write_json(path, &report)?;
        }
        Ok(Learnt { tuned, report, calibration, abstention })
    }
}

/// What a corpus was counted and tuned to.
pub(crate) struct Settled {
    pub(crate) counts: Counts,
    pub(crate) settings: TrainSettings,
    pub(crate) calibration: Option<Calibration>,
}

impl Settled {
    pub(crate) fn model(self) -> Model {
        let model = Model::of_counts(self.counts, self.settings);
        match self.calibration {
            Some(calibration) => model.calibrated(calibration),
            None => model,
        }
    }
}

/// What one leave-one-out search taught.
struct Learnt {
    tuned: Tuned,
    report: Report,
    calibration: Calibration,
    abstention: Option<Abstention>,
}

#[derive(Debug, Default)]
struct Near {
    above: Option<f32>,
    pairs: NearDuplicates,
    /// Documents before and after each that are left out when settings are compared.
    window: u32,
    /// The group of each document, if there are any.
    groups: Vec<u32>,
}

impl Near {
    /// What is left out when settings are compared.
    fn exclusion(&self) -> Exclusion<'_> {
        Exclusion { window: self.window, ..self.always() }
    }

    /// What is left out when thresholds are learnt.
    fn always(&self) -> Exclusion<'_> {
        Exclusion { near: Some(&self.pairs), groups: &self.groups, window: 0 }
    }
}

/// `classify tune`
#[derive(Debug, Args)]
pub(crate) struct Tune {
    /// The model
    model: PathBuf,
    /// Where the tuned model is written [default: in place of the model]
    #[arg(short, long, value_name = "MODEL")]
    output: Option<PathBuf>,
    /// One label a document, or several [default: as the model does]
    #[arg(long, value_enum)]
    mode: Option<Mode>,
    /// Give no answer where the model is not sure: target-error=5% sets limits that leave so many
    /// wrong labels; off sets none [default: the target that the model has]
    #[arg(long, value_name = "WHAT")]
    abstain: Option<AbstainArgument>,
    /// Several labels: try this rule only: threshold, scut, scut-fbr, scut-smoothed, rtcut,
    /// micromacro, rcut, mcut, pcut
    #[arg(long, value_name = "RULE")]
    rule: Option<RuleArgument>,
    #[command(flatten)]
    tuning: TuningFlags,
    #[command(flatten)]
    searching: Searching,
}

impl Tune {
    pub(crate) fn run(self, threads: &Threads, talk: Talk) -> Result<(), Failure> {
        let model = Model::open(&self.model)?;
        let settings = model.settings();
        if !settings.weighting.is_symmetric() {
            let message = format!(
                "{}: {} weighs queries in another way than documents: tune it where it is \
                 trained, by `classify train --tune=votes`",
                self.model.display(),
                settings.weighting
            );
            return Err(Failure::Usage(message));
        }
        let several = match self.mode {
            Some(mode) => mode == Mode::Multi,
            None => settings.decision.is_multi() || self.rule.is_some(),
        };
        let tuning = Tuning { tune: Some(Scope::Votes), flags: self.tuning, tune_sample: 0 };
        let engines = self.searching.engines(threads, talk)?;
        let engine = engines.engine(model.rows())?;
        let cosine = settings.weighting.is_cosine();
        let near = tuning.near(&*engine, model.rows(), cosine, &model.electorate(), talk)?;
        let votes = (&*engine, model.rows(), model.electorate());
        let target_error = match self.abstain {
            Some(AbstainArgument::TargetError(target)) => Some(target),
            Some(AbstainArgument::Off) => None,
            None => settings.abstention.map(|limits| limits.target_error),
        };
        let rule = self.rule.map(RuleArgument::without_number).transpose()?;
        if self.mode == Some(Mode::Single) && rule.is_some() {
            let message = "--mode single and --rule: one label a document needs no rule";
            return Err(Failure::Usage(message.into()));
        }
        let several = (several, Fixed { rule, target_error, ..Fixed::default() });
        // The model does not know how many terms were dropped: they set no limit.
        let near = (&near, &(|_: u32| 0.0) as &dyn Fn(u32) -> f64);
        let learnt = tuning.votes(votes, several, near, Vec::new(), threads, talk)?;
        drop(engine);
        let Learnt { tuned, report, calibration, abstention } = learnt;
        let abstention = abstention.map(|limits| Abstention { unknown: 1.0, ..limits });
        let said = (report.in_short(), abstention);
        let model = model.retuned(&tuned.best, tuned.decision, said).calibrated(calibration);
        let output = self.output.as_ref().unwrap_or(&self.model);
        model.save(output)?;
        let Trial { k, vote, decision, .. } = tuned.best;
        talk.say(&format!("{}: k = {k}, {vote}, {decision}", output.display()));
        Ok(())
    }
}

/// What the flags leave to the program.
fn free(training: &Training, settings: &TrainSettings, counts: &Counts) -> Free {
    let (text, weighed) = match &settings.input {
        InputSpec::Text(_) => (true, false),
        InputSpec::Features(spec) => (false, !spec.counts),
    };
    Free {
        analyzer: text && training.analysis.says_no_terms(),
        title: text && counts.has_titles(),
        weighting: training.weights.says_no_weighting() && !weighed,
        chi2_power: training.weights.says_no_chi2_power(),
        selection: training.weights.selection().is_none(),
    }
}

/// At most `count` of so many rows, spread evenly.
fn sample(rows: usize, count: usize) -> Vec<u32> {
    let count = count.clamp(1, rows.max(1)).min(rows);
    (0..count).filter_map(|at| u32::try_from(at * rows / count).ok()).collect()
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
    fn in_short(&self) -> TuningSummary {
        TuningSummary {
            objective: self.objective,
            figures: self.figures,
            documents: self.documents,
            near_duplicates_above: self.near_duplicates_above,
            by_k: self.by_k(),
        }
    }

    /// The figures of the chosen vote and kind of decision, for each k.
    fn by_k(&self) -> Vec<(usize, Figures)> {
        let alike = self.trials.iter().filter(|trial| {
            trial.vote == self.best.vote && trial.decision.is_like(self.best.decision)
        });
        alike.map(|trial| (trial.k, trial.figures)).collect()
    }

    /// What was tried, and the best `shown` settings.
    fn summary(&self, shown: usize) -> String {
        let objective = self.objective;
        let mut text = format!(
            "tuning: {} settings tried on {} left-out documents; the best by {}:",
            self.trials.len(),
            self.documents,
            objective.name()
        );
        let mut best: Vec<&Trial> = self.trials.iter().collect();
        best.sort_by(|a, b| objective.of(b.figures).total_cmp(&objective.of(a.figures)));
        for trial in best.iter().take(shown) {
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
