//! Runs the learners in sequence: k, vote, prototypes, decision, probabilities, abstention and
//! novelty, all learned from one leave-one-out search.

use std::num::NonZeroUsize;

use super::held_out::{ExcludedNeighbors, Exclusion, FOLDS, LeaveOneOut, held_out_rows};
use super::held_out_scores::{ChosenVote, HeldOutDocument, HeldOutScores};
use super::novelty::{
    DocumentEvidence, KnownDocument, NoveltyOptions, NoveltySearch, NoveltyVoting,
};
use super::options::{TuneOptions, TuneScope};
use super::prototypes::{HeldOutPrototypes, Precision, PrototypeTrials};
use super::run::Run;
use super::training_rows::TrainingRows;
use super::votes::{
    Candidate, Grid, GridResult, Rules, Trial, VoteLearning, evaluate_grid, search_grid,
    try_vote_weights,
};
use super::{Event, Step, TrainError, TuningReport, abstention, novelty, probabilities, votes};
use crate::decide::calibrate::{
    ConfidenceLimit, NoveltyLimit, NoveltyScore, TrainingProfile, Votes,
};
use crate::decide::decision::{Decision, Rule};
use crate::decide::objective::ExpectedMetrics;
use crate::decide::vote::Vote;
use crate::model::{Learned, TrainSettings};
use crate::threads::Threads;

/// The shares of the votes for neighbors found by dense vectors that tuning tries, in this order.
const SHARES: [f64; 11] = [0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8, 0.1, 0.9, 0.0, 1.0];

/// Minimum gain in the objective for which learned vote weights or prototypes are chosen; a smaller
/// gain may be noise.
const MIN_GAIN: f64 = 0.001;
/// Maximum number of document-label pairs for learning prototypes and choosing a vote at the same
/// time. Both need memory for each pair.
const MAX_PAIRS_AT_ONCE: usize = 1 << 23;

/// Maximum number of training documents for which prototypes of vectors are preferred to neighbors.
const MAX_DOCUMENTS_FOR_PREFERENCE: usize = 1_000;

/// The training documents that are held out, and the data about them that the learners need.
pub(super) struct Pipeline<'a> {
    pub(super) run: &'a Run<'a>,
    pub(super) rows: &'a TrainingRows<'a>,
    pub(super) tuning: &'a TuneOptions,
    pub(super) multi_label: bool,
    pub(super) excluded: &'a ExcludedNeighbors,
    /// Returns the share of a document's terms that would be unknown if it were held out.
    pub(super) unknown_share: &'a (dyn Fn(u32) -> f64 + Sync),
    /// The number of terms of each document, counting repetitions. `None` if the held-out rows
    /// differ from the rows that new documents would have.
    pub(super) lengths: Option<&'a [f32]>,
}

/// The chosen vote, and the prototypes that may contribute to it.
struct VoteChoice {
    tuned: GridResult,
    learning: Option<VoteLearning>,
    prototypes: Option<HeldOutPrototypes>,
}

impl VoteChoice {
    fn chosen(&self) -> ChosenVote<'_> {
        ChosenVote {
            trial: self.tuned.best,
            learning: self.learning,
            prototypes: self.prototypes.as_ref(),
        }
    }
}

impl Pipeline<'_> {
    fn threads(&self) -> &Threads {
        self.run.threads()
    }

    /// Runs all learners. `features` are the steps by which the features were chosen.
    pub(super) fn learn(
        &self,
        mut features: Vec<Step>,
    ) -> Result<(Learned, TuningReport), TrainError> {
        let options = self.run.options;
        let rule = options.decision.tuned_rule(self.multi_label)?;
        self.check_options(rule)?;
        let mut rows = held_out_rows(self.tuning, &self.excluded.hashes);
        let count = self.rows.labels.weights.len() - self.run.never_held_out;
        rows.truncate(rows.partition_point(|&row| (row as usize) < count));
        let max_k = cap_k(self.tuning.k_max, self.rows.labels.weights.len());
        // The novelty learner needs one more neighbor: it looks up the neighbors of a neighbor
        // without the held-out document.
        let extra = usize::from(options.novelty.is_some());
        let longest = options.k.unwrap_or(max_k).saturating_add(extra);
        let share = self.rows.share.unwrap_or(0.5);
        let mut found = self.hold_out(&rows, longest, self.excluded.exclusion(), share)?;
        if self.rows.share.is_none() && self.rows.searches_both() {
            found = self.choose_dense_share(found, &mut features);
        }
        let mut voting = self.choose_vote(&found, max_k, rule)?;
        let k = NonZeroUsize::new(voting.tuned.best.k).unwrap_or(max_k);
        if self.excluded.window > 0 {
            // Thresholds are learned from all neighbors of a document.
            let exclusion = self.excluded.without_window();
            found = self.hold_out(&rows, k, exclusion, found.dense_share)?;
        } else if options.novelty.is_none() {
            // The other neighbors were needed only to choose k. The novelty learner looks for
            // neighbors with other labels, at any rank.
            found.truncate(k.get());
        }
        let by_batch = is_by_batch(&voting.tuned.best);
        let again = if by_batch {
            None
        } else {
            self.rows.with_near_duplicates(&found, k, self.excluded)?
        };
        let uses_prototypes = voting.tuned.best.vote.prototypes > 0.0;
        if let (Some(prototypes), Some(again)) = (&mut voting.prototypes, &again)
            && uses_prototypes
        {
            let exclusion = self.excluded.exclusion();
            let learner = self.rows.prototype_learner(self.multi_label, exclusion, self.threads());
            self.rows.prototypes_again(prototypes, &found, again, &learner, exclusion)?;
        }
        let labels = self.rows.labels;
        let threads = self.threads();
        let held_out = HeldOutScores::new(&found, labels, voting.chosen(), threads);
        let (decision, metrics) = held_out.decision();
        let again = again.map(|again| found.clone().with_second_round(&again));
        let again =
            again.as_ref().map(|all| HeldOutScores::new(all, labels, voting.chosen(), threads));
        let scores = again.as_ref().unwrap_or(&held_out);
        let calibration = probabilities::learn(scores, labels, self.unknown_share)
            .learned_from(rows.len() as u64);
        let profile = self.profile(scores, rows.len(), by_batch);
        let decisions = held_out.decisions_by_fold();
        let expected = |scores: &HeldOutScores<'_>| {
            scores.expected(&decisions, &labels, self.tuning.objective, threads)
        };
        let of_batch = by_batch.then_some(ExpectedMetrics { metrics, intervals: None });
        let ExpectedMetrics { metrics, intervals } =
            of_batch.unwrap_or_else(|| expected(&held_out));
        let limit = self.learn_abstention(scores, &decisions);
        let best = voting.tuned.best;
        let votes = voting
            .learning
            .and_then(|learning| votes::learn(&found, labels, &best, learning, threads));
        let prototypes = voting.prototypes.as_ref().filter(|_| uses_prototypes);
        let voting_of_novel = NoveltyVoting {
            vote: best.vote,
            learned: votes.as_ref(),
            calibration: &calibration,
            labels,
        };
        let novelty = self.learn_novelty(&found, &held_out, voting.chosen(), voting_of_novel)?;
        let report = TuningReport {
            schema: TuningReport::SCHEMA,
            scope: self.tuning.scope,
            objective: self.tuning.objective,
            documents: rows.len() as u64,
            near_duplicates_above: self.excluded.above,
            window: self.excluded.window,
            documents_with_near_duplicates: self.excluded.near.documents(),
            features,
            dense_share: self.rows.vectors.map(|_| found.dense_share),
            best,
            learning: voting.learning,
            metrics,
            intervals,
            with_near_duplicates: again.as_ref().map(expected),
            cross_validated: None,
            nested: self.rows.nested,
            trials: voting.tuned.trials,
        };
        let learned = Learned {
            k: NonZeroUsize::new(best.k).unwrap_or(TrainSettings::K),
            vote: best.vote,
            decision,
            dense_share: report.dense_share.unwrap_or(0.0),
            summary: report.summary(),
            calibration,
            profile,
            abstention: limit,
            novelty,
            votes,
            prototypes: prototypes.map(HeldOutPrototypes::learning),
        };
        Ok((learned, report))
    }

    /// Returns the distributions of the properties of `count` held-out documents, if they are
    /// known.
    fn profile(
        &self,
        scores: &HeldOutScores<'_>,
        count: usize,
        by_batch: bool,
    ) -> Option<TrainingProfile> {
        // For a batch, documents were not held out again with their near-duplicates.
        let has_near_duplicates = self.excluded.near.documents() > 0;
        let lengths = self.lengths.filter(|_| !(by_batch && has_near_duplicates))?;
        #[expect(clippy::cast_possible_truncation, reason = "a share")]
        let values = |document: &HeldOutDocument<'_>| {
            let row = document.row;
            let unknown_share = (self.unknown_share)(row) as f32;
            [document.voters.best_similarity(), unknown_share, lengths[row as usize]]
        };
        let values: Vec<_> = scores.last_round().values().map(values).collect();
        Some(TrainingProfile { documents: count as u64, ..TrainingProfile::of(&values)? })
    }

    /// Finds the leave-one-out neighbors of `rows` and reports the progress.
    pub(super) fn hold_out(
        &self,
        rows: &[u32],
        k: NonZeroUsize,
        exclusion: Exclusion<'_>,
        dense_share: f64,
    ) -> Result<LeaveOneOut, TrainError> {
        let progress = |documents| self.run.report(Event::HeldOut(documents));
        Ok(self.rows.leave_one_out(rows, k, exclusion, dense_share, &progress)?)
    }

    /// Chooses k, vote, learned vote weights, and the share of prototypes.
    fn choose_vote(
        &self,
        found: &LeaveOneOut,
        max_k: NonZeroUsize,
        rule: Option<Rule>,
    ) -> Result<VoteChoice, TrainError> {
        let options = self.run.options;
        let quick = self.tuning.scope == TuneScope::Quick;
        let objective = self.tuning.objective;
        let grid = if quick {
            let grid = Grid::coarse(max_k, self.multi_label, objective);
            self.restricted(grid, Some(Rule::Threshold))
        } else {
            self.restricted(Grid::full(max_k, self.multi_label, objective), rule)
        };
        let tries_prototypes = !(quick || options.vote.is_some() || rule == Some(Rule::Pcut));
        let best_of_grid = || self.best_of_grid(found, &grid);
        let learn_prototypes = || {
            let exclusion = self.excluded.exclusion();
            let threads = self.threads();
            let learn = || {
                let precision = Precision::Full;
                self.rows.prototypes(found, self.multi_label, exclusion, precision, threads)
            };
            tries_prototypes.then(learn).transpose()
        };
        let labels = self.rows.labels;
        let pairs = labels.sizes.len().saturating_mul(labels.weights.len());
        let ((mut tuned, mut learning), prototypes) = if pairs <= MAX_PAIRS_AT_ONCE {
            self.threads().join(best_of_grid, learn_prototypes)
        } else {
            (best_of_grid(), learn_prototypes())
        };
        let prototypes = prototypes?.flatten();
        if let Some(prototypes) = &prototypes {
            let trials = PrototypeTrials {
                found,
                labels: self.rows.labels,
                grid: &grid,
                prototypes,
                threads: self.threads(),
            };
            let trials = trials.run(&tuned, learning);
            let value = |trial: &Trial| grid.objective.of(trial.metrics);
            let of_neighbors = value(&tuned.best);
            let best_value = trials.first().map_or(0.0, |(trial, _)| value(trial));
            let best_value = best_value.max(of_neighbors);
            // With few documents, prototypes of vectors are preferred to neighbors unless other
            // settings are clearly better.
            let prefers_prototypes = prototypes.learning().vector_scale > 0.0
                && self.rows.labels.weights.len() <= MAX_DOCUMENTS_FOR_PREFERENCE;
            let variance = best_value * (1.0 - best_value) / found.len().max(1) as f64;
            let min_value = if prefers_prototypes {
                best_value - libm::sqrt(variance) / 2.0
            } else {
                of_neighbors + MIN_GAIN
            };
            let mut good = trials.iter().filter(|(trial, _)| value(trial) >= min_value);
            let order = |(a, _): &&(Trial, _), (b, _): &&(Trial, _)| {
                let by_share = a.vote.prototypes.total_cmp(&b.vote.prototypes);
                by_share.then(value(a).total_cmp(&value(b)))
            };
            let chosen = if prefers_prototypes { good.max_by(order) } else { good.next() };
            if let Some(&(best, how)) = chosen {
                tuned.best = best;
                learning = how;
            }
            tuned.trials.extend(trials.into_iter().map(|(trial, _)| trial));
        }
        Ok(VoteChoice { tuned, learning, prototypes })
    }

    /// Returns the best settings of a grid and, if vote weights are learned, how they are learned.
    fn best_of_grid(&self, found: &LeaveOneOut, grid: &Grid) -> (GridResult, Option<VoteLearning>) {
        let labels = self.rows.labels;
        if self.tuning.scope == TuneScope::Quick {
            let mut tuned = evaluate_grid(found, labels, grid, self.threads());
            self.prefer_defaults(grid, &mut tuned, found.len());
            return (tuned, None);
        }
        let mut tuned = search_grid(found, labels, grid, self.threads());
        let learning = self.try_vote_weights(found, grid, &mut tuned);
        (tuned, learning)
    }

    /// Drops the settings that can leave a document without labels. Keeps the defaults unless the
    /// gain exceeds half a standard error of the objective, as a proportion of `documents`.
    /// Settings that agree on most documents differ by about this much through noise alone.
    fn prefer_defaults(&self, grid: &Grid, tuned: &mut GridResult, documents: usize) {
        let options = self.run.options;
        tuned
            .trials
            .retain(|trial| !matches!(trial.decision, Candidate::Global { allow_none: true, .. }));
        let value = |trial: &Trial| grid.objective.of(trial.metrics);
        let order = |a: &&Trial, b: &&Trial| {
            let second = |trial: &Trial| trial.metrics.micro_f1;
            let by_value = value(a).total_cmp(&value(b)).then(second(a).total_cmp(&second(b)));
            by_value.then(b.k.cmp(&a.k))
        };
        if let Some(best) = tuned.trials.iter().max_by(order) {
            tuned.best = *best;
        }
        // The default k, or the largest smaller k that was tried.
        let k = options.k.unwrap_or(TrainSettings::K).get();
        let vote = options.vote.unwrap_or_default();
        let is_near = |trial: &&Trial| trial.vote == vote && trial.k <= k;
        let k = tuned.trials.iter().filter(is_near).map(|trial| trial.k).max();
        let default = tuned.trials.iter().filter(is_near).filter(|trial| Some(trial.k) == k);
        let Some(default) = default.max_by(order) else { return };
        let share = value(&tuned.best);
        let error = libm::sqrt(share * (1.0 - share) / documents.max(1) as f64);
        if share - value(default) <= error / 2.0 {
            tuned.best = *default;
        }
    }

    /// Tries learned vote weights, and chooses them if they are better or requested.
    fn try_vote_weights(
        &self,
        found: &LeaveOneOut,
        grid: &Grid,
        tuned: &mut GridResult,
    ) -> Option<VoteLearning> {
        let vote = self.run.options.vote;
        if vote.is_some_and(|vote| !vote.learned) || is_by_batch(&tuned.best) {
            return None;
        }
        let trials = try_vote_weights(found, self.rows.labels, grid, tuned, self.threads());
        let &(best, learning) = trials.first()?;
        let min_value = grid.objective.of(tuned.best.metrics) + MIN_GAIN;
        let is_better = grid.objective.of(best.metrics) >= min_value;
        tuned.trials.extend(trials.iter().map(|&(trial, _)| trial));
        if is_better || vote.is_some_and(|vote| vote.learned) {
            tuned.best = best;
            return Some(learning);
        }
        None
    }

    /// Learns the confidence limit below which the model abstains, if the options request it.
    /// `decisions` has one decision per fold.
    fn learn_abstention(
        &self,
        scores: &HeldOutScores<'_>,
        decisions: &[Decision; FOLDS],
    ) -> Option<ConfidenceLimit> {
        let target = self.run.options.target_error?;
        let labels = self.rows.labels;
        let limit = abstention::learn(scores, decisions, labels, target, self.unknown_share);
        self.run.report(Event::Abstention(&limit));
        Some(limit)
    }

    /// Learns the limit of the novelty score above which documents are rejected, if the options
    /// request it. `found` are the neighbors of the documents of `held_out`.
    fn learn_novelty(
        &self,
        found: &LeaveOneOut,
        held_out: &HeldOutScores<'_>,
        chosen: ChosenVote<'_>,
        voting: NoveltyVoting<'_>,
    ) -> Result<Option<(NoveltyLimit, NoveltyScore)>, TrainError> {
        let Some(target) = self.run.options.novelty else { return Ok(None) };
        let threads = self.threads();
        let labels = voting.labels;
        let k = NonZeroUsize::new(chosen.trial.k).unwrap_or(NonZeroUsize::MIN);
        let prototypes = chosen.prototypes.filter(|_| voting.vote.prototypes > 0.0);
        // New documents have no neighbors from their own time window.
        let exclusion = self.excluded.exclusion();
        let search = NoveltySearch {
            k,
            exclusion,
            dense_share: found.dense_share,
            unknown_share: self.unknown_share,
            prototypes: prototypes.map(HeldOutPrototypes::learning),
            voting,
        };
        let novel = self.rows.without_labels(&search, threads)?;
        let longest = k.saturating_add(1);
        let as_new = (self.excluded.window > 0)
            .then(|| self.hold_out(found.rows(), longest, exclusion, found.dense_share))
            .transpose()?;
        let found = as_new.as_ref().unwrap_or(found);
        let scored_as_new =
            as_new.as_ref().map(|found| HeldOutScores::new(found, labels, chosen, threads));
        let documents: Vec<_> = scored_as_new.as_ref().unwrap_or(held_out).documents().collect();
        // The highest possible probability must not differ from that of novel and new documents.
        let count = voting.calibration.documents;
        let calibrations = probabilities::by_fold(&documents, labels, self.unknown_share)
            .map(|calibration| calibration.learned_from(count));
        let known = documents.iter().map(|document| {
            let &HeldOutDocument { row, fold, voters, ref scores, .. } = document;
            let unknown = (self.unknown_share)(row);
            let votes = Votes { scores, supporters: &[], voters, unknown };
            let evidence = DocumentEvidence {
                unknown_share: unknown,
                probability: calibrations[fold].top_label_probability(votes, &labels),
                margin: prototypes.and_then(|prototypes| prototypes.highest_margin(row)),
            };
            KnownDocument { row, fold, voters, evidence }
        });
        let known: Vec<_> = known.collect();
        let learned = novelty::learn(&known, found, &novel, &labels, NoveltyOptions { k, target });
        let learned = learned.ok_or(TrainError::NoNovelDocuments)?;
        self.run.report(Event::Novelty(&learned.0));
        Ok(Some(learned))
    }

    /// Restricts a grid to the k and the vote that the options set.
    fn restricted(&self, mut grid: Grid, rule: Option<Rule>) -> Grid {
        let options = self.run.options;
        if let Some(k) = options.k {
            grid.ks = vec![k.get()];
        }
        if let Some(vote) = options.vote.filter(|&vote| vote != Vote::LEARNED) {
            grid = grid.with_vote(vote);
        }
        Grid { rules: Rules(rule), ..grid }
    }

    /// Checks that the options do not conflict.
    fn check_options(&self, rule: Option<Rule>) -> Result<(), TrainError> {
        let options = self.run.options;
        if options.vote.is_some_and(|vote| vote.prototypes > 0.0) {
            return Err(TrainError::PrototypesAreTuned);
        }
        let abstains = options.target_error.is_some() || options.novelty.is_some();
        let labels = self.rows.labels.sizes.len();
        if options.novelty.is_some() && labels < 4 {
            return Err(TrainError::NoveltyNeedsLabels { labels });
        }
        if rule == Some(Rule::Pcut) && abstains {
            return Err(TrainError::AbstainByBatch);
        }
        if rule == Some(Rule::Pcut) && options.vote.is_some_and(|vote| vote.learned) {
            return Err(TrainError::LearnedByBatch);
        }
        if self.multi_label && options.vote.is_some_and(|vote| vote.compensation > 0.0) {
            return Err(TrainError::CompensationForMultiLabel);
        }
        Ok(())
    }

    /// Chooses the best share of the votes for neighbors found by dense vectors, on a small grid of
    /// k and votes. In a tie, the share nearest to one half wins.
    fn choose_dense_share(&self, mut found: LeaveOneOut, steps: &mut Vec<Step>) -> LeaveOneOut {
        let objective = self.tuning.objective;
        let grid = Grid::coarse(self.tuning.k_max, self.multi_label, objective);
        let grid = self.restricted(grid, None);
        let mut best_value = f64::NEG_INFINITY;
        let mut best_share = 0.5;
        for share in SHARES {
            found = found.with_dense_share(share);
            let trial = search_grid(&found, self.rows.labels, &grid, self.threads()).best;
            let value = objective.of(trial.metrics);
            let kept = value > best_value;
            let documents = found.len();
            let step = Step { change: format!("dense share {share}"), trial, documents, kept };
            self.run.report(Event::Step { step: &step, objective });
            steps.push(step);
            if kept {
                best_value = value;
                best_share = share;
            }
        }
        found.with_dense_share(best_share)
    }
}

/// Whether the decision of a trial applies to all documents of a batch together.
fn is_by_batch(trial: &Trial) -> bool {
    matches!(trial.decision, Candidate::Proportional { .. })
}

/// Returns `k`, or the number of other documents if that is smaller.
pub(super) fn cap_k(k: NonZeroUsize, documents: usize) -> NonZeroUsize {
    let others = NonZeroUsize::new(documents.saturating_sub(1)).unwrap_or(NonZeroUsize::MIN);
    k.min(others)
}
