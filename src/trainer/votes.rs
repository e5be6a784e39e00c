//! Chooses k, vote, decision, calibration and limits for abstaining, from a single leave-one-out
//! search.

use std::num::NonZeroUsize;

use super::excluded::{Excluded, left_out};
use super::training_rows::TrainingRows;
use super::tuned::cut;
use super::{Event, FreeFeatures, OnEvent, TrainError, Trainer, TuneOptions, TuneScope};
use crate::calibrate::{Calibration, ConfidenceLimit, ForeignLimit, Strangeness};
use crate::counts::Counts;
use crate::decide::{Decision, Rule};
use crate::model::{InputSpec, TrainSettings};
use crate::tune::{
    ByDocument, Candidate, Expected, Free, Grid, HeldOut, HeldOutPrototypes, LeaveOneOut, Rules,
    Step, Trial, Tuned, TuningReport, VoteLearning, abstention, calibrate, foreign_limit,
    learn_votes, learned_votes, revote, try_prototypes, tune_votes,
};
use crate::vote::{LearnedVotes, PrototypeLearning, TrainingLabels, Vote};

/// The shares of the neighbors by vectors that tuning tries.
const SHARES: [f64; 11] = [0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8, 0.1, 0.9, 0.0, 1.0];

/// What one leave-one-out search has learned.
#[derive(Debug)]
pub(super) struct Learnt {
    pub(super) decision: Decision,
    pub(super) report: TuningReport,
    pub(super) calibration: Calibration,
    pub(super) abstention: Option<ConfidenceLimit>,
    /// When documents are refused as foreign, if that was asked for.
    pub(super) foreign: Option<(ForeignLimit, Strangeness)>,
    /// What votes are worth, if that was learned.
    pub(super) learned: Option<LearnedVotes>,
    /// How prototypes are learned, if they have a share in the scores.
    pub(super) prototypes: Option<PrototypeLearning>,
}

/// Learned votes are taken if they improve the objective by at least this much; less may be chance.
const GAIN: f64 = 0.001;

impl FreeFeatures {
    /// Which features of a corpus may be changed.
    pub(super) fn for_corpus(self, input: &InputSpec, counts: &Counts) -> Free {
        let (text, weighed) = match input {
            InputSpec::Text(_) => (true, false),
            InputSpec::Features(spec) => (false, !spec.counts),
            InputSpec::Vectors(_) => (false, true),
        };
        Free {
            analyzer: text && self.analyzer,
            title: text && counts.has_titles(),
            weighting: self.weighting && !weighed,
            chi2_power: self.chi2_power,
            selection: self.selection,
            term_weights: self.weighting,
        }
    }
}

impl Trainer {
    /// The best k, vote and decision by a single leave-one-out search. `unknown`
    /// returns the share of a document's terms that would be unknown if it were left out.
    #[expect(clippy::too_many_arguments, reason = "each is a different thing, used once")]
    pub(super) fn votes(
        &self,
        training: &TrainingRows<'_>,
        tuning: &TuneOptions,
        several: bool,
        excluded: &Excluded,
        unknown: &dyn Fn(u32) -> f64,
        mut features: Vec<Step>,
        on_event: OnEvent<'_>,
    ) -> Result<Learnt, TrainError> {
        let options = &self.options;
        let rule = options.decision.tuned_rule()?;
        self.check_votes(several, rule)?;
        let labels = training.labels;
        let quick = tuning.scope == TuneScope::Quick;
        let rows = left_out(tuning, &excluded.hashes);
        let k_max = cut(tuning.k_max, labels.weights.len());
        let free_share = training.share.is_none() && training.searches_both();
        let search = |k, exclusion, share| {
            let left_out = |documents| on_event(Event::LeftOut(documents));
            training.leave_one_out(&rows, k, exclusion, share, &left_out)
        };
        let share = training.share.unwrap_or(0.5);
        // What a neighbor's own neighbor is without the document that is left out.
        let more = usize::from(options.foreign.is_some());
        let longest = options.k.unwrap_or(k_max).saturating_add(more);
        let mut found = search(longest, excluded.exclusion(), share)?;
        if free_share {
            found = self.best_share(found, labels, several, tuning, &mut features, on_event);
        }
        let grid = if quick {
            self.kept(Grid::coarse(k_max, several, tuning.objective), Some(Rule::Threshold))
        } else {
            self.kept(Grid::full(k_max, several, tuning.objective), rule)
        };
        let threads = self.engines.threads();
        let tries_prototypes = !(quick || options.vote.is_some() || rule == Some(Rule::Pcut));
        // Neither needs the other, so both are done at the same time.
        let ((mut tuned, mut learning), prototypes) = threads.join(
            || self.best(&found, labels, &grid, quick),
            || {
                let exclusion = excluded.exclusion();
                let learn = || training.prototypes(&found, several, exclusion, threads);
                tries_prototypes.then(learn).transpose()
            },
        );
        let mut prototypes = prototypes?.flatten();
        if let Some(prototypes) = &prototypes {
            self.join_prototypes(&found, labels, &grid, prototypes, (&mut tuned, &mut learning));
        }
        let k = NonZeroUsize::new(tuned.best.k).unwrap_or(k_max);
        if excluded.window > 0 {
            // Thresholds are learned from all neighbors of a document.
            found = search(k, excluded.always(), found.dense_share)?;
        }
        let by_batch = matches!(tuned.best.decision, Candidate::Proportional { .. });
        let again =
            if by_batch { None } else { training.with_near_duplicates(&found, k, excluded)? };
        if let (Some(prototypes), Some(again)) = (&mut prototypes, &again)
            && tuned.best.vote.prototypes > 0.0
        {
            let exclusion = excluded.exclusion();
            training.teach_again(prototypes, (&found, again), several, exclusion, threads)?;
        }
        let best = (tuned.best, prototypes.as_ref());
        let held_out = HeldOut::new(&found, labels, best, learning, threads);
        let (decision, figures) = held_out.decision();
        let learned =
            learning.and_then(|how| learned_votes(&found, labels, &tuned.best, how, threads));
        let again = again.map(|again| found.clone().and_again(&again));
        let again = again.as_ref().map(|all| HeldOut::new(all, labels, best, learning, threads));
        let told = again.as_ref().unwrap_or(&held_out);
        let calibration = calibrate(told, labels, unknown).learned_from(rows.len() as u64);
        let decisions = held_out.decisions_by_fold();
        let expected =
            |told: &HeldOut<'_>| told.expected(&decisions, &labels, tuning.objective, threads);
        let of_batch = by_batch.then_some(Expected { figures, intervals: None });
        let Expected { figures, intervals } = of_batch.unwrap_or_else(|| expected(&held_out));
        let limit = |target| abstention(told, &decisions, labels, target, unknown);
        let abstention = options.target_error.map(limit);
        if let Some(limit) = &abstention {
            on_event(Event::Abstention(limit));
        }
        let prototypes = prototypes.filter(|_| tuned.best.vote.prototypes > 0.0);
        let unknown_and_prototypes = (unknown, prototypes.as_ref());
        let foreign =
            self.foreign(training, (&found, k), excluded, unknown_and_prototypes, on_event)?;
        if let Some((limit, _)) = &foreign {
            on_event(Event::Foreign(limit));
        }
        let report = TuningReport {
            schema: TuningReport::SCHEMA,
            scope: tuning.scope,
            objective: tuning.objective,
            documents: rows.len() as u64,
            near_duplicates_above: excluded.above,
            window: excluded.window,
            documents_with_near_duplicates: excluded.near.documents(),
            features,
            dense_share: training.vectors.map(|_| found.dense_share),
            best: tuned.best,
            learning,
            figures,
            intervals,
            with_near_duplicates: again.as_ref().map(expected),
            nested: training.nested,
            trials: tuned.trials,
        };
        on_event(Event::Tuned(&report));
        let prototypes = prototypes.map(|found| found.learning());
        Ok(Learnt { decision, report, calibration, abstention, foreign, learned, prototypes })
    }

    /// When documents are refused as foreign, if the options ask for that: learned from the `found` neighbors of
    /// documents, decided by `k` of them, and from those of documents whose labels are left out.
    fn foreign(
        &self,
        training: &TrainingRows<'_>,
        (found, k): (&LeaveOneOut, NonZeroUsize),
        excluded: &Excluded,
        (unknown, prototypes): (&dyn Fn(u32) -> f64, Option<&HeldOutPrototypes>),
        on_event: OnEvent<'_>,
    ) -> Result<Option<(ForeignLimit, Strangeness)>, TrainError> {
        let Some(target) = self.options.foreign else { return Ok(None) };
        let share = found.dense_share;
        let learning = (prototypes.map(HeldOutPrototypes::learning), self.engines.threads());
        // New documents have no neighbors of their own time.
        let exclusion = excluded.exclusion();
        let without = training.without_labels(k, exclusion, share, unknown, learning)?;
        let left_out = |documents| on_event(Event::LeftOut(documents));
        let longest = k.saturating_add(1);
        let as_new = (excluded.window > 0)
            .then(|| training.leave_one_out(found.rows(), longest, exclusion, share, &left_out))
            .transpose()?;
        let margins = |row| prototypes.and_then(|found| found.highest(row));
        let by = ByDocument { unknown, margins: &margins };
        let known = as_new.as_ref().unwrap_or(found);
        let learnt = foreign_limit(known, &without, k, &training.labels, target, &by);
        learnt.map(Some).ok_or(TrainError::NoForeignDocuments)
    }

    /// A grid with the k and vote of the options, if they are set.
    fn kept(&self, mut grid: Grid, rule: Option<Rule>) -> Grid {
        if let Some(k) = self.options.k {
            grid.ks = vec![k.get()];
        }
        if let Some(vote) = self.options.vote.filter(|&vote| vote != Vote::LEARNED) {
            grid = grid.with_vote(vote);
        }
        Grid { rules: Rules(rule), ..grid }
    }

    /// The best settings of a grid, and how votes are learned with them, if they are.
    fn best(
        &self,
        found: &LeaveOneOut,
        labels: TrainingLabels<'_>,
        grid: &Grid,
        quick: bool,
    ) -> (Tuned, Option<VoteLearning>) {
        let threads = self.engines.threads();
        if quick {
            let mut tuned = revote(found, labels, grid, threads);
            self.choose_quickly(grid, &mut tuned, found.len());
            return (tuned, None);
        }
        let mut tuned = tune_votes(found, labels, grid, threads);
        let learning = self.learning(found, labels, grid, &mut tuned);
        (tuned, learning)
    }

    /// Chooses the best settings that give every document a label, but the defaults unless it is better than these by
    /// more than half a standard error of the objective, as a share of `documents`: about what differs by chance
    /// between settings that agree on most documents.
    fn choose_quickly(&self, grid: &Grid, tuned: &mut Tuned, documents: usize) {
        tuned
            .trials
            .retain(|trial| !matches!(trial.decision, Candidate::Global { allow_none: true, .. }));
        let value = |trial: &Trial| grid.objective.of(trial.figures);
        let order = |a: &&Trial, b: &&Trial| {
            let second = |trial: &Trial| trial.figures.micro_f1;
            let by_value = value(a).total_cmp(&value(b)).then(second(a).total_cmp(&second(b)));
            by_value.then(b.k.cmp(&a.k))
        };
        if let Some(best) = tuned.trials.iter().max_by(order) {
            tuned.best = *best;
        }
        // The default k, or the largest that was tried below it.
        let k = self.options.k.unwrap_or(TrainSettings::K).get();
        let vote = self.options.vote.unwrap_or_default();
        let near = |trial: &&Trial| trial.vote == vote && trial.k <= k;
        let k = tuned.trials.iter().filter(near).map(|trial| trial.k).max();
        let default = tuned.trials.iter().filter(near).filter(|trial| Some(trial.k) == k);
        let Some(default) = default.max_by(order) else { return };
        let share = value(&tuned.best);
        let error = libm::sqrt(share * (1.0 - share) / documents.max(1) as f64);
        if share - value(default) <= error / 2.0 {
            tuned.best = *default;
        }
    }

    /// Tries learned votes; if they are better than those of the best settings, or asked for, they become
    /// the best.
    fn learning(
        &self,
        found: &LeaveOneOut,
        labels: TrainingLabels<'_>,
        grid: &Grid,
        tuned: &mut Tuned,
    ) -> Option<VoteLearning> {
        let vote = self.options.vote;
        let by_batch = matches!(tuned.best.decision, Candidate::Proportional { .. });
        if vote.is_some_and(|vote| !vote.learned) || by_batch {
            return None;
        }
        let trials = learn_votes(found, labels, grid, tuned, self.engines.threads());
        let &(best, learning) = trials.first()?;
        let better =
            grid.objective.of(best.figures) >= grid.objective.of(tuned.best.figures) + GAIN;
        tuned.trials.extend(trials.iter().map(|&(trial, _)| trial));
        if better || vote.is_some_and(|vote| vote.learned) {
            tuned.best = best;
            return Some(learning);
        }
        None
    }

    /// Refuses options that cannot be tuned together.
    fn check_votes(&self, several: bool, rule: Option<Rule>) -> Result<(), TrainError> {
        let options = &self.options;
        if options.vote.is_some_and(|vote| vote.prototypes > 0.0) {
            return Err(TrainError::PrototypesAreTuned);
        }
        let abstains = options.target_error.is_some() || options.foreign.is_some();
        if rule == Some(Rule::Pcut) && abstains {
            return Err(TrainError::AbstainByBatch);
        }
        if rule == Some(Rule::Pcut) && options.vote.is_some_and(|vote| vote.learned) {
            return Err(TrainError::LearnedByBatch);
        }
        if several && options.vote.is_some_and(|vote| vote.compensation > 0.0) {
            return Err(TrainError::CompensationForSeveral);
        }
        Ok(())
    }

    /// Tries shares of prototypes in the scores; if the objective gains, the best is the best of all.
    fn join_prototypes(
        &self,
        found: &LeaveOneOut,
        labels: TrainingLabels<'_>,
        grid: &Grid,
        prototypes: &HeldOutPrototypes,
        (tuned, learning): (&mut Tuned, &mut Option<VoteLearning>),
    ) {
        let so_far = (grid, &*tuned, *learning);
        let trials = try_prototypes(found, labels, so_far, prototypes, self.engines.threads());
        let value = |trial: &Trial| grid.objective.of(trial.figures);
        let least = value(&tuned.best) + GAIN;
        if let Some(&(best, how)) = trials.first().filter(|(trial, _)| value(trial) >= least) {
            (tuned.best, *learning) = (best, how);
        }
        tuned.trials.extend(trials.into_iter().map(|(trial, _)| trial));
    }

    /// The neighbors with the share of those by vectors that is best for a few k and votes; of equal ones, the one nearest to a
    /// half.
    fn best_share(
        &self,
        mut found: LeaveOneOut,
        labels: TrainingLabels<'_>,
        several: bool,
        tuning: &TuneOptions,
        steps: &mut Vec<Step>,
        on_event: OnEvent<'_>,
    ) -> LeaveOneOut {
        let grid = self.kept(Grid::coarse(tuning.k_max, several, tuning.objective), None);
        let mut best: Option<(f64, f64)> = None;
        for share in SHARES {
            found = found.with_dense_share(share);
            let trial = tune_votes(&found, labels, &grid, self.engines.threads()).best;
            let value = tuning.objective.of(trial.figures);
            let kept = best.is_none_or(|(most, _)| value > most);
            let documents = found.len();
            let step = Step { change: format!("dense share {share}"), trial, documents, kept };
            on_event(Event::Step { step: &step, objective: tuning.objective });
            steps.push(step);
            if kept {
                best = Some((value, share));
            }
        }
        found.with_dense_share(best.map_or(0.5, |(_, share)| share))
    }
}
