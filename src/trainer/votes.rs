//! Chooses k, vote, decision, calibration and limits for abstaining, from a single leave-one-out
//! search.

use std::num::NonZeroUsize;

use super::{
    Event, FreeFeatures, NearDuplicateLimit, OnEvent, TrainError, Trainer, TuneOptions, cut,
};
use crate::calibrate::{Abstention, Calibration};
use crate::counts::Counts;
use crate::decide::{Decision, Rule};
use crate::matrix::Csr;
use crate::model::InputSpec;
use crate::search::{Search, SearchError};
use crate::tune::{
    Exclusion, Free, Grid, LeaveOneOut, NearDuplicates, Rules, Step, TuningReport, abstention,
    calibrate, learn, near_limit, revote, window,
};
use crate::vote::TrainingLabels;

/// Training rows to be searched among themselves.
#[derive(Debug, Clone, Copy)]
pub(super) struct TrainingRows<'a> {
    pub(super) engine: &'a dyn Search,
    /// The rows as queries.
    pub(super) queries: &'a Csr,
    pub(super) labels: TrainingLabels<'a>,
}

/// What one leave-one-out search has learned.
#[derive(Debug)]
pub(super) struct Learnt {
    pub(super) decision: Decision,
    pub(super) report: TuningReport,
    pub(super) calibration: Calibration,
    pub(super) abstention: Option<Abstention>,
}

/// Documents that are not neighbors of each other while tuning.
#[derive(Debug, Default)]
pub(super) struct Excluded {
    above: Option<f32>,
    near: NearDuplicates,
    /// Documents left out before and after each document when settings are compared.
    window: u32,
    /// The group of each document; empty if there are no groups.
    pub(super) groups: Vec<u32>,
}

impl Excluded {
    pub(super) fn find(
        training: &TrainingRows<'_>,
        cosine: bool,
        limit: NearDuplicateLimit,
        on_event: OnEvent<'_>,
    ) -> Result<Self, SearchError> {
        let window = window(&training.labels);
        if window > 0 {
            on_event(Event::Window(window));
        }
        let view = training.queries.view();
        let above = match limit {
            NearDuplicateLimit::Above(limit) => Some(limit),
            NearDuplicateLimit::Found if cosine => near_limit(training.engine, &view)?,
            NearDuplicateLimit::Found | NearDuplicateLimit::Off => None,
        };
        let Some(limit) = above else { return Ok(Self { window, ..Self::default() }) };
        let near = NearDuplicates::search(training.engine, &view, limit)?;
        on_event(Event::NearDuplicates { documents: near.documents(), above: limit });
        Ok(Self { above, near, window, groups: Vec::new() })
    }

    /// What is excluded when settings are compared.
    pub(super) fn exclusion(&self) -> Exclusion<'_> {
        Exclusion { window: self.window, ..self.always() }
    }

    /// What is excluded when thresholds are learned.
    fn always(&self) -> Exclusion<'_> {
        Exclusion { near: Some(&self.near), groups: &self.groups, window: 0 }
    }
}

impl FreeFeatures {
    /// Which features of a corpus may be changed.
    pub(super) fn for_corpus(self, input: &InputSpec, counts: &Counts) -> Free {
        let (text, weighed) = match input {
            InputSpec::Text(_) => (true, false),
            InputSpec::Features(spec) => (false, !spec.counts),
        };
        Free {
            analyzer: text && self.analyzer,
            title: text && counts.has_titles(),
            weighting: self.weighting && !weighed,
            chi2_power: self.chi2_power,
            selection: self.selection,
        }
    }
}

impl Trainer {
    /// The best k, vote and decision by a single leave-one-out search of all documents. `unknown`
    /// returns the share of a document's terms that would be unknown if it were left out.
    #[expect(clippy::too_many_arguments, reason = "each is a different thing, used once")]
    pub(super) fn votes(
        &self,
        training: &TrainingRows<'_>,
        tuning: &TuneOptions,
        several: bool,
        excluded: &Excluded,
        unknown: &dyn Fn(u32) -> f64,
        features: Vec<Step>,
        on_event: OnEvent<'_>,
    ) -> Result<Learnt, TrainError> {
        let options = &self.options;
        let rule = options.decision.tuned_rule()?;
        if rule == Some(Rule::Pcut) && options.target_error.is_some() {
            return Err(TrainError::AbstainByBatch);
        }
        if several && options.vote.is_some_and(|vote| vote.compensation > 0.0) {
            return Err(TrainError::CompensationForSeveral);
        }
        let labels = training.labels;
        let view = training.queries.view();
        let rows: Vec<u32> = (0u32..).take(view.rows()).collect();
        let k_max = cut(tuning.k_max, rows.len());
        let search = |k, exclusion| {
            let left_out = |documents| on_event(Event::LeftOut(documents));
            LeaveOneOut::search(training.engine, &view, &rows, k, exclusion, &left_out)
        };
        let found = search(options.k.unwrap_or(k_max), excluded.exclusion())?;
        let mut grid = Grid::full(k_max, several, tuning.objective);
        if let Some(k) = options.k {
            grid.ks = vec![k.get()];
        }
        if let Some(vote) = options.vote {
            grid = grid.with_vote(vote);
        }
        grid.rules = Rules(rule);
        let tuned = revote(&found, labels, &grid, self.engines.threads());
        let (mut decision, mut figures) = (tuned.decision, tuned.best.figures);
        let found = if excluded.window > 0 {
            // Thresholds are learned from all neighbors of a document.
            let k = NonZeroUsize::new(tuned.best.k).unwrap_or(k_max);
            let found = search(k, excluded.always())?;
            (decision, figures) = learn(&found, labels, &tuned.best);
            found
        } else {
            found
        };
        let calibration = calibrate(&found, labels, &tuned.best);
        let abstention = options
            .target_error
            .map(|target| abstention(&found, labels, &tuned.best, target, unknown));
        if let Some(limits) = &abstention {
            on_event(Event::Abstention(limits));
        }
        let report = TuningReport {
            schema: TuningReport::SCHEMA,
            objective: tuning.objective,
            documents: rows.len() as u64,
            near_duplicates_above: excluded.above,
            window: excluded.window,
            documents_with_near_duplicates: excluded.near.documents(),
            features,
            best: tuned.best,
            figures,
            trials: tuned.trials,
        };
        on_event(Event::Tuned(&report));
        Ok(Learnt { decision, report, calibration, abstention })
    }
}
