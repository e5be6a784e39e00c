//! Chooses k, vote, decision, calibration and limits for abstaining, from a single leave-one-out
//! search.

use std::num::NonZeroUsize;
use std::sync::Arc;

use super::{
    Event, FreeFeatures, NearDuplicateLimit, OnEvent, TrainError, Trainer, TuneOptions, TuneScope,
    tuned::cut,
};
use crate::calibrate::{Abstention, Calibration, ForeignLimit, Strangeness};
use crate::counts::Counts;
use crate::decide::{Decision, Rule};
use crate::dense::{DensePart, Vectors};
use crate::matrix::Csr;
use crate::model::{InputSpec, TrainSettings};
use crate::search::{Engines, QueryRows, Search, SearchError};
use crate::tfidf::Weighting;
use crate::threads::Threads;
use crate::tune::{
    ByDocument, Candidate, Counted, Exclusion, Expected, FOLDS, Features, FoldRows, Foreign, Free,
    Grid, HeldOut, HeldOutPrototypes, LeaveOneOut, LeaveOutSearch, NearDuplicates, Rules, Step,
    Trial, Tuned, TuningReport, VoteLearning, Weighted, WithoutLabels, abstention, calibrate,
    drawn, foreign_limit, hashes, learn_votes, learned_votes, near_limit, nearest, reach, revote,
    try_prototypes, tune_votes, window,
};
use crate::vote::{LearnedVotes, PrototypeLearning, TrainingLabels, Vote};

/// An engine over training rows, and the rows as queries.
#[derive(Debug, Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) engine: &'a dyn Search,
    pub(super) queries: QueryRows<'a>,
}

/// Counted documents, to be searched with the terms that each fold's other documents tell.
#[derive(Debug, Clone, Copy)]
pub(super) struct ByFold<'a> {
    pub(super) counted: &'a Counted,
    pub(super) features: &'a Features,
    pub(super) engines: &'a Engines,
}

/// Training rows to be searched among themselves: by terms, by dense vectors, or both.
#[derive(Debug, Clone, Copy)]
pub(super) struct TrainingRows<'a> {
    pub(super) terms: Option<View<'a>>,
    /// The rows to be searched by terms if they depend on the fold.
    pub(super) by_fold: Option<ByFold<'a>>,
    pub(super) vectors: Option<View<'a>>,
    /// The share of the neighbors by vectors in the votes, if it is fixed.
    pub(super) share: Option<f64>,
    pub(super) labels: TrainingLabels<'a>,
    /// Rows of terms of length 1 that do not depend on the fold, if there are no dense vectors.
    pub(super) unit_rows: Option<&'a Arc<Csr>>,
    /// Whether the rows do not depend on the labels of documents that are left out.
    pub(super) nested: bool,
}

impl<'a> TrainingRows<'a> {
    /// Rows to be searched by terms alone.
    pub(super) fn by_fold(by_fold: ByFold<'a>, labels: TrainingLabels<'a>) -> Self {
        Self {
            terms: None,
            by_fold: Some(by_fold),
            vectors: None,
            share: None,
            labels,
            unit_rows: None,
            nested: true,
        }
    }

    /// The leave-one-out neighbors of some rows, with a share of those by vectors.
    fn leave_one_out(
        &self,
        rows: &[u32],
        k: NonZeroUsize,
        exclusion: Exclusion<'_>,
        share: f64,
        progress: &dyn Fn(u64),
    ) -> Result<LeaveOneOut, SearchError> {
        if let Some(ByFold { counted, features, engines }) = self.by_fold {
            let search = LeaveOutSearch { k, exclusion, engines, as_new: true, progress };
            return counted.left_out(features, rows, 0..FOLDS, &search);
        }
        self.views_left_out(rows, k, exclusion, share, progress)
    }

    /// What prototypes learned without each fold say about some rows that are left out; `None` if there are only
    /// dense vectors, or too many labels.
    fn prototypes(
        &self,
        found: &LeaveOneOut,
        several: bool,
        exclusion: Exclusion<'_>,
        threads: &Threads,
    ) -> Result<Option<HeldOutPrototypes>, SearchError> {
        let labels = &self.labels;
        let kind = (several, exclusion.in_time_order);
        if let Some(ByFold { counted, features, engines }) = self.by_fold {
            let weighting = features.weighting;
            if !weighting.is_cosine() || !weighting.is_symmetric() {
                return Ok(None);
            }
            let rows_of = |fold| counted.fold_rows(features, fold, exclusion, engines);
            return HeldOutPrototypes::learn(found, labels, kind, rows_of, threads);
        }
        let Some(rows) = self.unit_rows else { return Ok(None) };
        let rows_of = |_| {
            let (documents, queries) = (Arc::clone(rows), Arc::clone(rows));
            Ok(FoldRows { documents, queries })
        };
        HeldOutPrototypes::learn(found, labels, kind, rows_of, threads)
    }

    fn searches_both(&self) -> bool {
        self.terms.is_some() && self.vectors.is_some()
    }

    /// The same left-out documents, and those that have near-duplicates once more, with them: new documents may have
    /// near-duplicates, too. `None` if none has.
    fn with_near_duplicates(
        &self,
        found: &LeaveOneOut,
        k: NonZeroUsize,
        excluded: &Excluded,
    ) -> Result<Option<LeaveOneOut>, SearchError> {
        let rows: Vec<u32> =
            found.rows().iter().copied().filter(|&row| !excluded.near.of(row).is_empty()).collect();
        if rows.is_empty() {
            return Ok(None);
        }
        let exclusion = Exclusion { near: None, ..excluded.always() };
        let again = self.leave_one_out(&rows, k, exclusion, found.dense_share, &|_| ())?;
        Ok(Some(found.clone().and_again(&again)))
    }

    /// The same of some rows, by the engines.
    fn views_left_out(
        &self,
        rows: &[u32],
        k: NonZeroUsize,
        exclusion: Exclusion<'_>,
        share: f64,
        progress: &dyn Fn(u64),
    ) -> Result<LeaveOneOut, SearchError> {
        let search = |View { engine, queries }: View<'_>| {
            LeaveOneOut::search(engine, queries, rows, k, exclusion, progress)
        };
        let terms = self.terms.filter(|_| self.vectors.is_none() || share < 1.0).map(search);
        let vectors = self.vectors.filter(|_| self.terms.is_none() || share > 0.0).map(search);
        Ok(match (terms.transpose()?, vectors.transpose()?) {
            (Some(terms), Some(vectors)) => LeaveOneOut::mixed(terms, vectors, share),
            (Some(found), None) | (None, Some(found)) => found,
            (None, None) => LeaveOneOut::default(),
        })
    }
}

impl TrainingRows<'_> {
    /// For each fold of labels, its documents and their neighbors among those of other labels. `unknown`
    /// returns the share of a document's terms that would be unknown if it were left out; of rows that depend
    /// on the fold, it is counted anew.
    fn without_labels(
        &self,
        k: NonZeroUsize,
        exclusion: Exclusion<'_>,
        share: f64,
        unknown: &dyn Fn(u32) -> f64,
        (prototypes, threads): (Option<PrototypeLearning>, &Threads),
    ) -> Result<Vec<Foreign>, SearchError> {
        let without = WithoutLabels::by_fold(&self.labels);
        without
            .iter()
            .map(|without| {
                if without.foreign.is_empty() {
                    return Ok(Foreign::default());
                }
                if let Some(ByFold { counted, features, engines }) = self.by_fold {
                    let without = (without, prototypes);
                    return counted.without_labels(features, without, k, exclusion, engines);
                }
                let exclusion = Exclusion { only: Some(&without.rows), ..exclusion };
                let rows = &without.foreign;
                let found = self.views_left_out(rows, k, exclusion, share, &|_| ())?;
                let unknown = rows.iter().map(|&row| unknown(row)).collect();
                let margins = prototypes.zip(self.unit_rows).map(|(learning, rows)| {
                    without.margins((rows, rows), &self.labels, learning, threads)
                });
                let margins = margins.unwrap_or_default();
                Ok(Foreign { rows: without.rows.clone(), found, unknown, margins })
            })
            .collect()
    }
}

/// Engines over training rows while a model is tuned.
#[derive(Debug)]
pub(super) struct Prepared<'a> {
    weighted: &'a Weighted,
    part: Option<&'a DensePart>,
    terms: Option<Arc<dyn Search>>,
    vectors: Option<Arc<dyn Search>>,
    /// The dense vectors as queries, if those of documents are others.
    queries: Option<Vectors>,
    /// Whether the rows do not depend on labels.
    nested: bool,
}

impl Prepared<'_> {
    /// The rows to be searched.
    pub(super) fn rows<'b>(
        &'b self,
        labels: TrainingLabels<'b>,
        share: Option<f64>,
    ) -> TrainingRows<'b> {
        let terms = self.terms.as_deref().map(|engine| {
            let queries = (&**self.weighted.queries()).into();
            View { engine, queries }
        });
        let vectors = self.vectors.as_deref().zip(self.part).map(|(engine, part)| {
            let queries = self.queries.as_ref().unwrap_or(part.vectors());
            View { engine, queries: queries.view().into() }
        });
        let nested = self.nested;
        TrainingRows { terms, by_fold: None, vectors, share, labels, unit_rows: None, nested }
    }
}

/// The shares of the neighbors by vectors that tuning tries.
const SHARES: [f64; 11] = [0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8, 0.1, 0.9, 0.0, 1.0];

/// What one leave-one-out search has learned.
#[derive(Debug)]
pub(super) struct Learnt {
    pub(super) decision: Decision,
    pub(super) report: TuningReport,
    pub(super) calibration: Calibration,
    pub(super) abstention: Option<Abstention>,
    /// When documents are refused as foreign, if that was asked for.
    pub(super) foreign: Option<(ForeignLimit, Strangeness)>,
    /// What votes are worth, if that was learned.
    pub(super) learned: Option<LearnedVotes>,
    /// How prototypes are learned, if they have a share in the scores.
    pub(super) prototypes: Option<PrototypeLearning>,
}

/// Learned votes are taken if they improve the objective by at least this much; less may be chance.
const GAIN: f64 = 0.001;

/// Documents that are not neighbors of each other while tuning.
#[derive(Debug, Default)]
pub(super) struct Excluded {
    pub(super) above: Option<f32>,
    pub(super) near: NearDuplicates,
    /// Documents left out before and after each document when settings are compared.
    pub(super) window: u32,
    /// The group of each document; empty if there are no groups.
    pub(super) groups: Vec<u32>,
    /// The hash of each document, by which samples are drawn and folds are dealt.
    pub(super) hashes: Vec<u64>,
}

/// The number of documents that tell whether there are near-duplicates.
const MOST_FOR_LIMIT: usize = 4_000;
/// About the number of documents that tell whether the order is that of time.
const MOST_FOR_WINDOW: usize = 4_000;

/// The documents that are left out to choose k, vote and decision.
fn left_out(tuning: &TuneOptions, hashes: &[u64]) -> Vec<u32> {
    match tuning.scope {
        TuneScope::Quick => drawn(hashes, tuning.sample),
        TuneScope::Votes | TuneScope::All => (0u32..).take(hashes.len()).collect(),
    }
}

impl Excluded {
    pub(super) fn find(
        training: &TrainingRows<'_>,
        cosine: bool,
        tuning: &TuneOptions,
        groups: Vec<u32>,
        on_event: OnEvent<'_>,
    ) -> Result<Self, SearchError> {
        // Texts tell near-duplicates better than their dense vectors, most of which are similar.
        let view = training.terms.or(training.vectors);
        let quick = tuning.scope == TuneScope::Quick;
        let say = |event: Event<'_>| {
            if !quick {
                on_event(event);
            }
        };
        let hashes =
            view.map_or(Vec::new(), |View { queries, .. }| hashes(queries, &training.labels));
        let above = match (tuning.near_duplicates, training.terms) {
            (NearDuplicateLimit::Above(limit), _) => Some(limit),
            (NearDuplicateLimit::Found, Some(View { engine, queries })) if cosine => {
                let most = if quick { tuning.sample } else { MOST_FOR_LIMIT };
                near_limit(engine, queries, &drawn(&hashes, most))?
            }
            (NearDuplicateLimit::Found | NearDuplicateLimit::Off, _) => None,
        };
        let mut excluded = Self { above, groups, hashes, ..Self::default() };
        if let (Some(limit), Some(view)) = (above, view) {
            let rows = left_out(tuning, &excluded.hashes);
            excluded.near = NearDuplicates::search(view.engine, view.queries, &rows, limit)?;
            let documents = excluded.near.documents();
            say(Event::NearDuplicates { documents, above: limit });
        }
        excluded.window = match (tuning.time_order, view) {
            (Some(true), _) => reach(training.labels.weights.len()),
            (None, Some(view)) => {
                let most = if quick { tuning.sample / 2 } else { MOST_FOR_WINDOW };
                let nearest = nearest(view.engine, view.queries, excluded.always(), most)?;
                window(&training.labels, &nearest)
            }
            (Some(false), _) | (None, None) => 0,
        };
        if excluded.window > 0 {
            say(Event::Window(excluded.window));
        }
        Ok(excluded)
    }

    /// What is excluded when settings are compared.
    pub(super) fn exclusion(&self) -> Exclusion<'_> {
        Exclusion { window: self.window, ..self.always() }
    }

    /// What is excluded when thresholds are learned.
    fn always(&self) -> Exclusion<'_> {
        let in_time_order = self.window > 0;
        let (near, groups, hashes) = (Some(&self.near), &*self.groups, &*self.hashes);
        Exclusion { near, groups, window: 0, in_time_order, only: None, hashes }
    }
}

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
    /// The engines that the options need.
    pub(super) fn prepared<'a>(
        &self,
        weighted: &'a Weighted,
        weighting: Weighting,
        part: Option<&'a DensePart>,
        nested: bool,
    ) -> Result<Prepared<'a>, SearchError> {
        let by_terms = self.options.dense.as_ref().is_none_or(|dense| dense.with_terms);
        let terms = by_terms.then(|| self.engines.engine(weighted.documents())).transpose()?;
        let vectors = part.map(|part| self.engines.dense(part));
        let projection = part.and_then(DensePart::projection);
        let queries = projection.filter(|_| !weighting.is_symmetric()).map(|projection| {
            let rows = weighted.queries().view();
            let values = projection.project_all(&rows, self.engines.threads());
            Vectors::new(projection.dimension(), values)
        });
        let (vectors, queries) = (vectors.transpose()?, queries.transpose()?);
        Ok(Prepared { weighted, part, terms, vectors, queries, nested })
    }

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
        let (mut tuned, mut learning) = self.best(&found, labels, &grid, quick);
        let prototypes = if quick || options.vote.is_some() || rule == Some(Rule::Pcut) {
            None
        } else {
            let exclusion = excluded.exclusion();
            self.join_prototypes(training, &found, exclusion, &grid, (&mut tuned, &mut learning))?
        };
        let k = NonZeroUsize::new(tuned.best.k).unwrap_or(k_max);
        if excluded.window > 0 {
            // Thresholds are learned from all neighbors of a document.
            found = search(k, excluded.always(), found.dense_share)?;
        }
        let best = (tuned.best, prototypes.as_ref());
        let held_out = HeldOut::new(&found, labels, best, learning, threads);
        let (decision, figures) = held_out.decision();
        let learned =
            learning.and_then(|how| learned_votes(&found, labels, &tuned.best, how, threads));
        let by_batch = matches!(tuned.best.decision, Candidate::Proportional { .. });
        let again =
            if by_batch { None } else { training.with_near_duplicates(&found, k, excluded)? };
        let again = again.as_ref().map(|all| HeldOut::new(all, labels, best, learning, threads));
        let told = again.as_ref().unwrap_or(&held_out);
        let calibration = calibrate(told, labels, unknown).learned_from(rows.len() as u64);
        let decisions = held_out.decisions_by_fold();
        let expected =
            |told: &HeldOut<'_>| told.expected(&decisions, &labels, tuning.objective, threads);
        let of_batch = by_batch.then_some(Expected { figures, intervals: None });
        let Expected { figures, intervals } = of_batch.unwrap_or_else(|| expected(&held_out));
        let limit = |target| abstention(told, &decisions, labels, target, unknown);
        let limit = options.target_error.map(limit);
        if let Some(limit) = &limit {
            on_event(Event::Abstention(limit));
        }
        let abstention = limit.map(Abstention::Confidence);
        let prototypes = prototypes.filter(|_| tuned.best.vote.prototypes > 0.0);
        let foreign = match options.foreign {
            None => None,
            Some(target) => {
                let share = found.dense_share;
                // New documents have no neighbors of their own time.
                let learning = (prototypes.as_ref().map(HeldOutPrototypes::learning), threads);
                let exclusion = excluded.exclusion();
                let without = training.without_labels(k, exclusion, share, unknown, learning)?;
                let as_new = (excluded.window > 0)
                    .then(|| search(k.saturating_add(1), excluded.exclusion(), share))
                    .transpose()?;
                let known = as_new.as_ref().unwrap_or(&found);
                let margins = |row| prototypes.as_ref().and_then(|found| found.highest(row));
                let by = ByDocument { unknown, margins: &margins };
                let learnt = foreign_limit(known, &without, k, &labels, target, &by);
                Some(learnt.ok_or(TrainError::NoForeignDocuments)?)
            }
        };
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

    /// Tries shares of prototypes in the scores; if the objective gains, the best is the best of all. What prototypes say of
    /// the left-out documents, if they can be learned.
    fn join_prototypes(
        &self,
        training: &TrainingRows<'_>,
        found: &LeaveOneOut,
        exclusion: Exclusion<'_>,
        grid: &Grid,
        (tuned, learning): (&mut Tuned, &mut Option<VoteLearning>),
    ) -> Result<Option<HeldOutPrototypes>, SearchError> {
        let threads = self.engines.threads();
        let prototypes = training.prototypes(found, grid.several, exclusion, threads)?;
        if let Some(prototypes) = &prototypes {
            let so_far = (grid, &*tuned, *learning);
            let trials = try_prototypes(found, training.labels, so_far, prototypes, threads);
            let value = |trial: &Trial| grid.objective.of(trial.figures);
            let least = value(&tuned.best) + GAIN;
            if let Some(&(best, how)) = trials.first().filter(|(trial, _)| value(trial) >= least) {
                (tuned.best, *learning) = (best, how);
            }
            tuned.trials.extend(trials.into_iter().map(|(trial, _)| trial));
        }
        Ok(prototypes)
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
