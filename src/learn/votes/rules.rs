//! Finds the best decision by evaluating every rule on the same scores.

use super::grid::{Candidate, Grid, Rules, Trial};
use super::ranking::{PredictionCounts, Ranking};
use super::table::{VoteTable, to_u32};
use super::totals::Totals;
use crate::decide::decision::{Decision, Rule, ThresholdRule, before_largest_gap, decide};
use crate::decide::objective::{Metrics, Objective};
use crate::decide::vote::{LabelScore, Vote, VoteWeight};
use crate::learn::held_out::FOLDS;
use crate::learn::thresholds::{
    Cuts, Entry, FoldCounts, HeldOutFold, RankedScores, STEPS, count_outside, micromacro, rtcut,
    scut_smoothed, threshold,
};

/// The factors that are tried for PCut.
const PCUT_FACTORS: [f64; 8] = [0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5];
/// Maximum number of labels per document that RTCut can predict.
const MAX_RTCUT_RANK: usize = 16;
/// The largest number of labels that is tried for RCut.
const MAX_RCUT: usize = 5;

/// The rules with one threshold per label.
const PER_LABEL_RULES: [ThresholdRule; 5] = [
    ThresholdRule::Scut,
    ThresholdRule::Micromacro,
    ThresholdRule::ScutFbr,
    ThresholdRule::ScutSmoothed,
    ThresholdRule::Rtcut,
];

/// Returns the parameters that are tried for a rule.
fn parameters(rule: ThresholdRule, objective: Objective) -> &'static [f64] {
    match rule {
        ThresholdRule::ScutFbr => &[0.1, 0.3, 0.5],
        ThresholdRule::ScutSmoothed => &[3.0, 10.0, 30.0],
        ThresholdRule::Micromacro if objective != Objective::Accuracy => &[0.0, 10.0, 30.0],
        ThresholdRule::Micromacro | ThresholdRule::Scut | ThresholdRule::Rtcut => &[0.0],
    }
}

/// A label-size compensation, as one factor per label.
pub(super) struct Compensation {
    exponent: f64,
    /// One factor per label; if empty, all factors are 1.
    factors: Vec<f64>,
}

impl Compensation {
    /// Returns the compensations with these exponents.
    pub(super) fn all(table: &VoteTable<'_>, exponents: &[f64]) -> Vec<Self> {
        let of_exponent = |&exponent: &f64| {
            let vote = Vote { compensation: exponent, ..VoteWeight::Uniform.into() };
            Self { exponent, factors: table.training.factors(vote) }
        };
        exponents.iter().map(of_exponent).collect()
    }
}

/// Evaluates decisions on the scores of a [`VoteTable`]. Its buffers are reused from one k to the
/// next.
pub(in crate::learn) struct RuleSearch<'t> {
    table: &'t VoteTable<'t>,
    ranking: Ranking<'t>,
    /// The ranked scores of each label.
    score_rankings: Vec<RankedScores>,
    /// For each label, the ranked values of RTCut, if they are needed.
    value_rankings: Vec<RankedScores>,
    /// The cuts with the best F1, learned without each fold and, at index [`FOLDS`], from all
    /// documents.
    cuts: [Option<Cuts>; FOLDS + 1],
    count: PredictionCounts<'t>,
}

impl<'t> RuleSearch<'t> {
    pub(in crate::learn) fn new(table: &'t VoteTable<'t>) -> Self {
        Self {
            table,
            ranking: Ranking::new(table),
            score_rankings: Vec::new(),
            value_rankings: Vec::new(),
            cuts: Default::default(),
            count: PredictionCounts::new(table),
        }
    }

    /// Calls `found` for each compensation with the metrics of predicting the label with the
    /// highest score.
    pub(super) fn evaluate_single_label(
        &mut self,
        scores: &[f64],
        compensations: &[Compensation],
        found: &mut impl FnMut(f64, Metrics),
    ) {
        let table = self.table;
        for Compensation { exponent, factors } in compensations {
            self.count.reset();
            for document in 0..table.sample.len() {
                match table.top(document, scores, factors) {
                    Some(slot) => self.count.predict_all([slot]),
                    None => self.count.predict_prior(document),
                }
            }
            found(*exponent, self.count.metrics());
        }
    }

    /// Calls `found` with every multi-label decision and its metrics.
    pub(super) fn evaluate_multi_label(
        &mut self,
        scores: &[f64],
        rules: Rules,
        objective: Objective,
        found: &mut impl FnMut(Candidate, Metrics),
    ) {
        self.fill(scores, rules);
        if rules.allow(Rule::Threshold) {
            self.evaluate_global_threshold(scores, objective, found);
        }
        for rule in PER_LABEL_RULES {
            if rules.allow(rule.into()) {
                self.evaluate_label_thresholds(scores, rule, parameters(rule, objective), found);
            }
        }
        if rules.allow(Rule::Rcut) {
            self.evaluate_rcut(scores, found);
        }
        if rules.allow(Rule::Mcut) {
            self.evaluate_mcut(scores, found);
        }
        if rules.allow(Rule::Pcut) {
            for factor in PCUT_FACTORS {
                found(Candidate::Proportional { factor }, self.evaluate_pcut(factor));
            }
        }
    }

    /// Evaluates one threshold for all labels, once allowing predictions without a label and once
    /// not.
    fn evaluate_global_threshold(
        &mut self,
        scores: &[f64],
        objective: Objective,
        found: &mut impl FnMut(Candidate, Metrics),
    ) {
        let Self { table, ranking, score_rankings, count, .. } = self;
        let totals = Totals::new(table, ranking, score_rankings, scores);
        for allow_none in [true, false] {
            let labels = table.gold_documents.len().max(1) as f64;
            let value = |step: usize| {
                let (micro_f1, macro_sum) = totals.at(step, allow_none);
                // The accuracy is not available here, so micro F1 replaces it.
                let mean = macro_sum / labels;
                let metrics =
                    Metrics { micro_f1, macro_f1: mean, accuracy: micro_f1, by_ranks: None };
                objective.of_decision(metrics)
            };
            // In a tie, the lowest threshold wins.
            let values = (1..STEPS).rev().map(|step| (step, value(step)));
            let best = values.max_by(|a, b| a.1.total_cmp(&b.1));
            let threshold = threshold(best.map_or(1, |best| best.0));
            count.reset();
            for document in 0..table.sample.len() {
                let decreasing = ranking.of(document);
                count.predict_all(decreasing.take_while(|&slot| scores[slot] >= threshold));
            }
            if !allow_none {
                count.predict_top_for_rest(ranking, scores);
            }
            found(Candidate::Global { threshold, allow_none }, count.metrics());
        }
    }

    /// Evaluates a rule with one threshold per label, for each of its parameters. The labels of
    /// each fold are predicted with thresholds learned from the other folds.
    fn evaluate_label_thresholds(
        &mut self,
        scores: &[f64],
        rule: ThresholdRule,
        parameters: &[f64],
        found: &mut impl FnMut(Candidate, Metrics),
    ) {
        let learned: Vec<Vec<Vec<Option<f64>>>> =
            (0..FOLDS).map(|fold| self.thresholds(rule, parameters, Some(fold))).collect();
        let Self { ranking, score_rankings, value_rankings, count, .. } = self;
        for (index, &parameter) in parameters.iter().enumerate() {
            count.reset();
            let is_by_value = rule == ThresholdRule::Rtcut;
            let rankings = if is_by_value { &mut *value_rankings } else { &mut *score_rankings };
            for (label, ranked) in rankings.iter_mut().enumerate() {
                let thresholds: [f64; FOLDS] = std::array::from_fn(|fold| {
                    learned[fold][index][label].unwrap_or(f64::INFINITY)
                });
                let lowest = thresholds.iter().copied().fold(f64::INFINITY, f64::min);
                let reaching = ranked.entries_reaching(lowest).iter();
                let given = reaching.filter(|entry| entry.score >= thresholds[entry.fold as usize]);
                count.predict_all(given.map(|entry| entry.slot as usize));
            }
            let candidate = |allow_none| Candidate::PerLabel { rule, parameter, allow_none };
            found(candidate(true), count.metrics());
            count.predict_top_for_rest(ranking, scores);
            found(candidate(false), count.metrics());
        }
    }

    /// Evaluates RCut: the labels with the highest scores of each document.
    fn evaluate_rcut(&mut self, scores: &[f64], found: &mut impl FnMut(Candidate, Metrics)) {
        let Self { table, ranking, count, .. } = self;
        count.reset();
        for labels in 1..=MAX_RCUT {
            for document in 0..table.sample.len() {
                let slots = &ranking.slots[table.slots_of(document)];
                let next = slots.get(labels - 1).map(|&slot| slot as usize);
                count.predict_all(next.filter(|&slot| scores[slot] > 0.0));
            }
            found(Candidate::First { labels }, count.metrics());
        }
    }

    /// Evaluates MCut: the labels before the largest gap.
    fn evaluate_mcut(&mut self, scores: &[f64], found: &mut impl FnMut(Candidate, Metrics)) {
        let Self { table, ranking, count, .. } = self;
        let ranked = |document| ranking.of(document).take_while(|&slot| scores[slot] > 0.0);
        count.reset();
        for document in 0..table.sample.len() {
            let decreasing = ranked(document).map(|slot| scores[slot]);
            let before = before_largest_gap(decreasing);
            count.predict_all(ranked(document).take(before));
        }
        found(Candidate::LargestGap, count.metrics());
    }

    /// Evaluates PCut, with the held-out documents as the batch.
    fn evaluate_pcut(&mut self, factor: f64) -> Metrics {
        self.count.reset();
        for (ranked, gold) in self.score_rankings.iter_mut().zip(&self.table.gold_documents) {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a small number of documents"
            )]
            let count = (f64::from(count_outside(gold, None)) * factor).round() as usize;
            self.count.predict_all(ranked.first(count).iter().map(|entry| entry.slot as usize));
        }
        self.count.metrics()
    }

    /// Learns the decision of a trial from scores, and returns it with its metrics. The labels of
    /// each fold are predicted with parameters learned from the other folds.
    pub(in crate::learn) fn learn(&mut self, trial: &Trial, scores: &[f64]) -> (Decision, Metrics) {
        let table = self.table;
        let decisions = self.learn_by_fold(trial, scores);
        let factors = table.factors(trial.vote);
        let mut count = PredictionCounts::new(table);
        for document in 0..table.sample.len() {
            let slots = table.ranked(document, scores, &factors);
            if slots.is_empty() && trial.decision == Candidate::Single {
                count.predict_prior(document);
            }
            let votes: Vec<LabelScore> = slots
                .iter()
                .map(|&(slot, score)| LabelScore { label: table.labels[slot], score })
                .collect();
            let mut given = decide(&votes, &decisions[usize::from(table.folds[document])]);
            given.sort_unstable();
            let slots = slots.into_iter().map(|(slot, _)| slot);
            count.predict_all(
                slots.filter(|&slot| given.binary_search(&table.labels[slot]).is_ok()),
            );
        }
        let decision = self.decision(trial.decision, None);
        let metrics = match trial.decision {
            // PCut decides on all documents together.
            Candidate::Proportional { factor } => self.evaluate_pcut(factor),
            _ => count.metrics(),
        };
        (decision, metrics)
    }

    /// Returns the decision of a trial for each fold, learned without that fold.
    pub(in crate::learn) fn learn_by_fold(
        &mut self,
        trial: &Trial,
        scores: &[f64],
    ) -> [Decision; FOLDS] {
        self.fill(scores, trial.decision.rules());
        std::array::from_fn(|fold| self.decision(trial.decision, Some(fold)))
    }

    /// Returns the best decision for given scores.
    pub(in crate::learn) fn best(
        &mut self,
        vote: Vote,
        k: usize,
        scores: &[f64],
        grid: &Grid,
    ) -> Trial {
        let table = self.table;
        let objective = |metrics: Metrics| grid.objective.of_decision(metrics);
        let mut best: Option<Trial> = None;
        let mut found = |decision, metrics| {
            let is_better = |best: Trial| objective(metrics) > objective(best.metrics);
            if best.is_none_or(is_better) {
                best = Some(Trial { k, vote, decision, metrics });
            }
        };
        if grid.multi_label {
            self.evaluate_multi_label(scores, grid.rules, grid.objective, &mut found);
        } else {
            let none = Compensation::all(table, &[0.0]);
            self.evaluate_single_label(scores, &none, &mut |_, metrics| {
                found(Candidate::Single, metrics);
            });
        }
        let mut best = best.expect("every grid has a rule");
        best.metrics.by_ranks = ranked_value(table, grid.objective, best.vote, scores);
        best
    }

    /// Loads new scores into the rankings.
    fn fill(&mut self, scores: &[f64], rules: Rules) {
        let table = self.table;
        self.ranking.sort(scores);
        self.cuts = Default::default();
        let labels = table.gold_documents.len();
        for rankings in [&mut self.score_rankings, &mut self.value_rankings] {
            rankings.resize_with(labels, RankedScores::default);
            let rankings = rankings.iter_mut().zip(&table.gold_documents);
            rankings.for_each(|(ranking, &gold)| ranking.reset(gold));
        }
        let needs_values = rules.allow(Rule::Rtcut);
        for (document, &fold) in table.folds.iter().enumerate() {
            let positive_slots = self.ranking.of(document).take_while(|&slot| scores[slot] > 0.0);
            for (rank, slot) in positive_slots.enumerate() {
                let label = table.labels[slot] as usize;
                let score = scores[slot];
                let entry = Entry { score, slot: to_u32(slot), fold, gold: table.gold[slot] };
                self.score_rankings[label].push(entry);
                if needs_values && rank < MAX_RTCUT_RANK {
                    let value = ThresholdRule::Rtcut.value(score, rank);
                    self.value_rankings[label].push(Entry { score: value, ..entry });
                }
            }
        }
    }

    /// Returns the thresholds of a rule for each parameter.
    fn thresholds(
        &mut self,
        rule: ThresholdRule,
        parameters: &[f64],
        held_out_fold: HeldOutFold,
    ) -> Vec<Vec<Option<f64>>> {
        match rule {
            ThresholdRule::Scut | ThresholdRule::ScutFbr => {
                // SCut and SCutFBR share these cuts.
                let cuts = self.cuts[held_out_fold.map_or(FOLDS, |fold| fold)]
                    .get_or_insert_with(|| Cuts::scut(&mut self.score_rankings, held_out_fold));
                parameters.iter().map(|&fbr| cuts.with_fbr(fbr)).collect()
            }
            ThresholdRule::ScutSmoothed => {
                scut_smoothed(&self.score_rankings, parameters, held_out_fold)
            }
            ThresholdRule::Micromacro => {
                micromacro::thresholds(&mut self.score_rankings, parameters, held_out_fold)
            }
            ThresholdRule::Rtcut => vec![rtcut(&mut self.value_rankings, held_out_fold)],
        }
    }

    /// Returns the decision of a candidate, with thresholds learned from the current scores.
    fn decision(&mut self, candidate: Candidate, held_out_fold: HeldOutFold) -> Decision {
        match candidate {
            Candidate::Single => Decision::Single,
            Candidate::Global { threshold, allow_none } => {
                Decision::Multi { threshold, allow_none }
            }
            Candidate::PerLabel { rule, parameter, allow_none } => {
                let thresholds = self.thresholds(rule, &[parameter], held_out_fold).remove(0);
                Decision::PerLabel { rule, thresholds, allow_none }
            }
            Candidate::First { labels } => Decision::First { labels },
            Candidate::LargestGap => Decision::LargestGap,
            Candidate::Proportional { factor } => {
                let documents = self.table.sample.len().max(1) as f64;
                let share = |gold: &FoldCounts| f64::from(count_outside(gold, None)) / documents;
                let shares = self.table.gold_documents.iter().map(share).collect();
                Decision::Proportional { factor, shares }
            }
        }
    }
}

/// Returns the value of an objective that depends only on the best labels of each document. `None`
/// for other objectives.
pub(super) fn ranked_value(
    table: &VoteTable<'_>,
    objective: Objective,
    vote: Vote,
    scores: &[f64],
) -> Option<f64> {
    let first = objective.best_labels()?;
    let factors = table.factors(vote);
    let of_document = |document| {
        let best = table.ranked(document, scores, &factors).into_iter().take(first);
        objective.of_ranking(best.filter(|&(slot, _)| table.gold[slot]).count())
    };
    let documents = table.sample.len();
    Some((0..documents).map(of_document).sum::<f64>() / documents.max(1) as f64)
}
