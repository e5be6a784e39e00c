//! Every k and vote from a single leave-one-out search: each only re-votes.

use crate::decide::decision::{Decision, ThresholdRule, before_largest_gap, decide};
use crate::decide::vote::{LabelScore, TrainingLabels, Vote, VoteWeight, Voters, joined, mixed};
use crate::threads::Threads;

use super::neighbors::LeaveOneOut;
use super::thresholds::{
    Cuts, Entry, FOLDS, Gold, RankedScores, STEPS, Without, gold, micromacro, rtcut, scut_smoothed,
    threshold,
};
use super::{Candidate, Grid, HeldOutPrototypes, Rule, Rules, Trial};
use crate::decide::objective::{Figures, Objective};

mod count;
mod learned;
mod sample;
mod totals;

pub(super) use learned::Ballots;
pub use learned::VoteLearning;

use count::{Count, Ranking};
use sample::sampled;

/// The factors that PCut tries.
const PCUT: [f64; 8] = [0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5];

/// The votes of left-out documents, arranged for re-voting. A *slot* is a pair of a document and a
/// label of one of its neighbors.
#[derive(Debug)]
pub(super) struct GridSearch<'a> {
    found: &'a LeaveOneOut,
    /// The documents to evaluate, as indices into `found`.
    sample: Vec<usize>,
    among: TrainingLabels<'a>,
    /// The slots of the labels of every neighbor, concatenated.
    votes: Vec<u32>,
    /// The slots of document `i` are `slots[i]..slots[i + 1]`, ordered by the rank of the best
    /// neighbor, then by label: ties of scores go to the first.
    slots: Vec<u32>,
    labels: Vec<u32>,
    /// The document of each slot.
    documents: Vec<u32>,
    gold: Vec<bool>,
    /// The number of documents in which each label is gold, by fold.
    gold_documents: Vec<Gold>,
    /// The fold of each document.
    folds: Vec<u8>,
    /// The number of gold labels of each document.
    gold_labels: Vec<u32>,
}

/// The votes and slots of some of the documents, as in [`GridSearch`].
struct Part {
    votes: Vec<u32>,
    slots: Vec<u32>,
    labels: Vec<u32>,
    documents: Vec<u32>,
    gold: Vec<bool>,
}

impl Part {
    /// Those of the documents with these indices into `found`.
    fn new(found: &LeaveOneOut, among: &TrainingLabels<'_>, sample: &[usize]) -> Self {
        let (mut votes, mut slots) = (Vec::new(), vec![0]);
        let (mut labels, mut documents, mut gold) = (Vec::new(), Vec::new(), Vec::new());
        let mut slot_of = vec![u32::MAX; among.sizes.len()];
        for (document, &index) in sample.iter().enumerate() {
            let (row, neighbors) = found.get(index);
            let own = among.labels(row);
            let first = labels.len();
            for (_, _, neighbor) in neighbors.ranked() {
                for &label in among.labels(neighbor.row) {
                    let slot = &mut slot_of[label as usize];
                    if *slot == u32::MAX {
                        *slot = narrow(labels.len());
                        labels.push(label);
                        documents.push(narrow(document));
                        gold.push(own.binary_search(&label).is_ok());
                    }
                    votes.push(*slot);
                }
            }
            for &label in &labels[first..] {
                slot_of[label as usize] = u32::MAX;
            }
            slots.push(narrow(labels.len()));
        }
        Self { votes, slots, labels, documents, gold }
    }

    /// These documents and those of `next` after them.
    fn and(mut self, next: Self) -> Self {
        let (slots, documents) = (narrow(self.labels.len()), narrow(self.slots.len() - 1));
        self.votes.extend(next.votes.into_iter().map(|slot| slots + slot));
        self.slots.extend(next.slots[1..].iter().map(|slot| slots + slot));
        self.labels.extend(next.labels);
        self.documents.extend(next.documents.into_iter().map(|document| documents + document));
        self.gold.extend(next.gold);
        self
    }
}

impl<'a> GridSearch<'a> {
    pub(super) fn new(
        found: &'a LeaveOneOut,
        among: TrainingLabels<'a>,
        threads: &Threads,
    ) -> Self {
        let sample = sampled(found, &among);
        let folds = found.folds(&among);
        let part = sample.len().div_ceil(threads.count()).max(1);
        let parts: Vec<&[usize]> = sample.chunks(part).collect();
        let part = |part: &&[usize]| Part::new(found, &among, part);
        let parts = threads.map_few(&parts, parts.len(), part).into_iter();
        let Part { votes, slots, labels, documents, gold } =
            parts.reduce(Part::and).unwrap_or_else(|| Part::new(found, &among, &[]));
        let mut grid_search = Self {
            found,
            among,
            votes,
            slots,
            labels,
            documents,
            gold,
            gold_documents: vec![Gold::default(); among.sizes.len()],
            folds: Vec::with_capacity(sample.len()),
            gold_labels: Vec::with_capacity(sample.len()),
            sample,
        };
        for document in 0..grid_search.sample.len() {
            let (row, _) = grid_search.get(document);
            let (gold, fold) = (among.labels(row), folds[row as usize]);
            for &label in gold {
                grid_search.gold_documents[label as usize][usize::from(fold)] += 1;
            }
            grid_search.gold_labels.push(narrow(gold.len()));
            grid_search.folds.push(fold);
        }
        grid_search
    }

    /// A document, as a training row number, and its neighbors.
    pub(super) fn get(&self, document: usize) -> (u32, Voters<'a>) {
        self.found.get(self.sample[document])
    }

    /// Votes by `weight`, and calls `at` with the scores of all slots at each k of `ks`
    /// (increasing).
    pub(super) fn run(&self, weight: VoteWeight, ks: &[usize], mut at: impl FnMut(usize, &[f64])) {
        let documents = self.sample.len();
        // For each slot and each document, by terms and by vectors.
        let mut sums = vec![[0.0; 2]; self.labels.len()];
        let mut totals = vec![[0.0; 2]; documents];
        let mut scores = vec![0.0; self.labels.len()];
        // The position of each document's next vote in `votes`, and the end of its slots with a vote: they come first.
        let mut next: Vec<usize> = Vec::with_capacity(documents);
        let mut ends: Vec<u32> = self.slots[..documents].to_vec();
        let mut start = 0;
        for index in 0..documents {
            next.push(start);
            let (_, voters) = self.get(index);
            start += voters.ranked().map(|(.., n)| self.among.labels(n.row).len()).sum::<usize>();
        }
        let mut rank = 0;
        for &k in ks {
            for index in 0..documents {
                let (_, voters) = self.get(index);
                if voters.is_empty() {
                    continue;
                }
                let shares = voters.first(k).lists().map(|(_, share)| share);
                let best =
                    voters.lists().map(|(list, _)| list.first().map_or(0.0, |n| n.similarity));
                for (list, at, neighbor) in voters.ranked_from(rank, k) {
                    let counts = weight.counts(neighbor.similarity, at, best[list])
                        * f64::from(self.among.weights[neighbor.row as usize]);
                    totals[index][list] += counts;
                    let labels = self.among.labels(neighbor.row).len();
                    for &slot in &self.votes[next[index]..next[index] + labels] {
                        sums[slot as usize][list] += counts;
                        ends[index] = ends[index].max(slot + 1);
                    }
                    next[index] += labels;
                }
                for slot in self.slots[index] as usize..ends[index] as usize {
                    scores[slot] = mixed(sums[slot], totals[index], shares);
                }
            }
            rank = k;
            at(k, &scores);
        }
    }

    fn slots_of(&self, index: usize) -> std::ops::Range<usize> {
        self.slots[index] as usize..self.slots[index + 1] as usize
    }

    /// The slot with the highest score of a document that has a vote; ties go to the first.
    fn top(&self, index: usize, scores: &[f64], factors: &[f64]) -> Option<usize> {
        let mut best: Option<(usize, f64)> = None;
        for slot in self.slots_of(index) {
            let score = scores[slot] * self.factor(factors, slot);
            // A label without a vote so far has no score and does not count.
            if scores[slot] > 0.0 && best.is_none_or(|(_, best)| score > best) {
                best = Some((slot, score));
            }
        }
        best.map(|(slot, _)| slot)
    }

    /// The compensations with the factors of their labels.
    pub(super) fn compensations(&self, compensations: &[f64]) -> Vec<Compensation> {
        let factors = |&compensation: &f64| {
            let vote = Vote { compensation, ..VoteWeight::Uniform.into() };
            Compensation { exponent: compensation, factors: self.among.factors(vote) }
        };
        compensations.iter().map(factors).collect()
    }

    /// The figures if every document gets the label with the highest score, for each compensation.
    pub(super) fn single(
        &self,
        scores: &[f64],
        compensations: &[Compensation],
        found: &mut impl FnMut(f64, Figures),
    ) {
        let mut count = Count::new(self);
        for Compensation { exponent, factors } in compensations {
            count.reset();
            for document in 0..self.sample.len() {
                count.give_all(self.top(document, scores, factors));
            }
            found(*exponent, count.figures());
        }
    }

    /// Every multi-label decision with its figures. `workspace` is reused from one k to the next.
    pub(super) fn multi(
        &self,
        scores: &[f64],
        workspace: &mut Workspace<'_>,
        rules: Rules,
        objective: Objective,
        found: &mut impl FnMut(Candidate, Figures),
    ) {
        workspace.fill(scores, rules);
        if rules.allow(Rule::Threshold) {
            self.global(scores, workspace, objective, found);
        }
        for rule in PER_LABEL {
            if rules.allow(rule.into()) {
                let parameters = parameters(rule, objective);
                Self::per_label(scores, workspace, (rule, parameters), found);
            }
        }
        self.by_ranks(scores, rules, workspace, found);
        if rules.allow(Rule::Pcut) {
            self.proportional(workspace, found);
        }
    }

    /// One threshold for all labels, with and without allowing documents to have no label.
    fn global(
        &self,
        scores: &[f64],
        workspace: &mut Workspace<'_>,
        objective: Objective,
        found: &mut impl FnMut(Candidate, Figures),
    ) {
        let totals = self.totals(scores, workspace);
        for allow_none in [true, false] {
            let labels = self.gold_documents.len().max(1) as f64;
            let value = |step: usize| {
                let (micro_f1, macro_sum) = totals.at(step, allow_none);
                // The accuracy is unknown here, so micro F1 is used instead.
                let mean = macro_sum / labels;
                let figures =
                    Figures { micro_f1, macro_f1: mean, accuracy: micro_f1, by_ranks: None };
                objective.of_decision(figures)
            };
            // Ties go to the lowest threshold.
            let values = (1..STEPS).rev().map(|step| (step, value(step)));
            let best = values.max_by(|a, b| a.1.total_cmp(&b.1));
            let threshold = threshold(best.map_or(1, |best| best.0));
            workspace.count.reset();
            for document in 0..self.sample.len() {
                let falling = workspace.ranking.of(document);
                workspace.count.give_all(falling.take_while(|&slot| scores[slot] >= threshold));
            }
            if !allow_none {
                workspace.count.give_the_rest(&workspace.ranking, scores);
            }
            found(Candidate::Global { threshold, allow_none }, workspace.count.figures());
        }
    }

    /// A rule with one threshold per label, for each of its parameters: each fold is decided with
    /// the thresholds learned from the other folds.
    fn per_label(
        scores: &[f64],
        workspace: &mut Workspace<'_>,
        (rule, parameters): (ThresholdRule, &[f64]),
        found: &mut impl FnMut(Candidate, Figures),
    ) {
        let learnt: Vec<Vec<Vec<Option<f64>>>> =
            (0..FOLDS).map(|fold| workspace.learn(rule, parameters, Some(fold))).collect();
        for (at, &parameter) in parameters.iter().enumerate() {
            workspace.count.reset();
            let values = rule == ThresholdRule::Rtcut;
            let score_rankings =
                if values { &mut workspace.value_rankings } else { &mut workspace.score_rankings };
            for (label, ranked) in score_rankings.iter_mut().enumerate() {
                let thresholds: [f64; FOLDS] =
                    std::array::from_fn(|fold| learnt[fold][at][label].unwrap_or(f64::INFINITY));
                let lowest = thresholds.iter().copied().fold(f64::INFINITY, f64::min);
                let reaching = ranked.reaching(lowest).iter();
                let given = reaching.filter(|entry| entry.score >= thresholds[entry.fold as usize]);
                workspace.count.give_all(given.map(|entry| entry.slot as usize));
            }
            let candidate = |allow_none| Candidate::PerLabel { rule, parameter, allow_none };
            found(candidate(true), workspace.count.figures());
            workspace.count.give_the_rest(&workspace.ranking, scores);
            found(candidate(false), workspace.count.figures());
        }
    }

    /// RCut with one to five labels, and MCut.
    fn by_ranks(
        &self,
        scores: &[f64],
        rules: Rules,
        Workspace { ranking, count, .. }: &mut Workspace<'_>,
        found: &mut impl FnMut(Candidate, Figures),
    ) {
        let ranked = |document| ranking.of(document).take_while(|&slot| scores[slot] > 0.0);
        if rules.allow(Rule::Rcut) {
            count.reset();
            for labels in 1..=5 {
                for document in 0..self.sample.len() {
                    let slots = &ranking.slots[self.slots_of(document)];
                    let next = slots.get(labels - 1).map(|&slot| slot as usize);
                    count.give_all(next.filter(|&slot| scores[slot] > 0.0));
                }
                found(Candidate::First { labels }, count.figures());
            }
        }
        if rules.allow(Rule::Mcut) {
            count.reset();
            for document in 0..self.sample.len() {
                let falling = ranked(document).map(|slot| scores[slot]);
                let before = before_largest_gap(falling);
                count.give_all(ranked(document).take(before));
            }
            found(Candidate::LargestGap, count.figures());
        }
    }

    /// PCut, with the left-out documents as the batch.
    fn proportional(
        &self,
        workspace: &mut Workspace<'_>,
        found: &mut impl FnMut(Candidate, Figures),
    ) {
        for factor in PCUT {
            found(Candidate::Proportional { factor }, self.in_proportion(workspace, factor));
        }
    }

    fn in_proportion(&self, workspace: &mut Workspace<'_>, factor: f64) -> Figures {
        workspace.count.reset();
        for (ranked, parts) in workspace.score_rankings.iter_mut().zip(&self.gold_documents) {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a small number of documents"
            )]
            let most = (f64::from(gold(parts, None)) * factor).round() as usize;
            workspace.count.give_all(ranked.first(most).iter().map(|entry| entry.slot as usize));
        }
        workspace.count.figures()
    }

    /// The number of scores: pairs of a document and a label of its neighbors.
    pub(super) fn slots(&self) -> usize {
        self.labels.len()
    }

    /// The number of documents.
    pub(super) fn documents(&self) -> usize {
        self.sample.len()
    }

    /// Whether a document is left out for the second time.
    pub(super) fn is_again(&self, document: usize) -> bool {
        self.found.again_from.is_some_and(|first| self.sample[document] >= first)
    }

    /// The kin of a training row.
    pub(super) fn kin(&self, row: u32) -> u64 {
        self.found.kin.get(row as usize).copied().unwrap_or(row.into())
    }

    /// The fold of a document.
    pub(super) fn fold(&self, document: usize) -> usize {
        self.folds[document].into()
    }

    /// The slots of a document that have a vote, with their scores, which decrease.
    fn ranked(&self, document: usize, scores: &[f64], factors: &[f64]) -> Vec<(usize, f64)> {
        let mut slots: Vec<(usize, f64)> = self
            .slots_of(document)
            .filter(|&slot| scores[slot] > 0.0)
            .map(|slot| (slot, scores[slot] * self.factor(factors, slot)))
            .collect();
        slots.sort_by(|a, b| b.1.total_cmp(&a.1));
        slots
    }

    /// The labels of a document that have a vote, by decreasing score.
    pub(super) fn label_scores(
        &self,
        document: usize,
        scores: &[f64],
        factors: &[f64],
    ) -> Vec<LabelScore> {
        let score = |(slot, score)| LabelScore { label: self.labels[slot], score };
        self.ranked(document, scores, factors).into_iter().map(score).collect()
    }

    /// What the decision of a trial learns from scores, and its figures: each fold is decided with what
    /// the other folds teach.
    pub(super) fn learn(&self, trial: &Trial, scores: &[f64]) -> (Decision, Figures) {
        let mut workspace = Workspace::new(self);
        workspace.fill(scores, trial.decision.rules());
        let decisions: [Decision; FOLDS] =
            std::array::from_fn(|fold| self.decision(trial.decision, &mut workspace, Some(fold)));
        let factors = self.factors(trial.vote);
        let given = (0..self.sample.len()).flat_map(|document| {
            let slots = self.ranked(document, scores, &factors);
            let votes: Vec<LabelScore> = slots
                .iter()
                .map(|&(slot, score)| LabelScore { label: self.labels[slot], score })
                .collect();
            let mut given = decide(&votes, &decisions[usize::from(self.folds[document])]);
            given.sort_unstable();
            slots
                .into_iter()
                .map(|(slot, _)| slot)
                .filter(move |&slot| given.binary_search(&self.labels[slot]).is_ok())
        });
        let mut count = Count::new(self);
        count.give_all(given);
        let decision = self.decision(trial.decision, &mut workspace, None);
        let figures = match trial.decision {
            // This rule decides on all documents together.
            Candidate::Proportional { factor } => self.in_proportion(&mut workspace, factor),
            _ => count.figures(),
        };
        (decision, figures)
    }

    /// What the decision of a trial learns without each fold.
    pub(super) fn learn_by_fold(&self, trial: &Trial, scores: &[f64]) -> [Decision; FOLDS] {
        let mut workspace = Workspace::new(self);
        workspace.fill(scores, trial.decision.rules());
        std::array::from_fn(|fold| self.decision(trial.decision, &mut workspace, Some(fold)))
    }

    /// The factors of labels by which scores of a vote are multiplied: none if they are in the scores already, as
    /// where prototypes have joined them.
    pub(super) fn factors(&self, vote: Vote) -> Vec<f64> {
        if vote.prototypes > 0.0 { Vec::new() } else { self.among.factors(vote) }
    }

    /// Multiplies the scores of votes by the factors of labels, and gives those of prototypes a share in them.
    pub(super) fn join(
        &self,
        prototypes: &HeldOutPrototypes,
        (share, factors): (f64, &[f64]),
        scores: &mut [f64],
    ) {
        for document in 0..self.sample.len() {
            let (row, _) = self.get(document);
            let asked = (row, self.is_again(document));
            for slot in self.slots_of(document) {
                if scores[slot] <= 0.0 {
                    continue;
                }
                let votes = scores[slot] * self.factor(factors, slot);
                scores[slot] = joined(votes, prototypes.of(asked, self.labels[slot]), share);
            }
        }
    }

    /// The best decision for scores that were learned.
    pub(super) fn best(&self, vote: Vote, k: usize, scores: &[f64], grid: &Grid) -> Trial {
        let objective = |figures: Figures| grid.objective.of_decision(figures);
        let mut best: Option<Trial> = None;
        let mut found = |decision, figures| {
            let more = |best: Trial| objective(figures) > objective(best.figures);
            if best.is_none_or(more) {
                best = Some(Trial { k, vote, decision, figures });
            }
        };
        if grid.several {
            let mut workspace = Workspace::new(self);
            self.multi(scores, &mut workspace, grid.rules, grid.objective, &mut found);
        } else {
            let none = self.compensations(&[0.0]);
            self.single(scores, &none, &mut |_, figures| found(Candidate::Single, figures));
        }
        let mut best = best.expect("every grid has a rule");
        best.figures.by_ranks = self.ranked_value(grid.objective, best.vote, scores);
        best
    }

    /// The value of an objective that depends on the best labels of documents alone.
    pub(super) fn ranked_value(
        &self,
        objective: Objective,
        vote: Vote,
        scores: &[f64],
    ) -> Option<f64> {
        let first = objective.best_labels()?;
        let factors = self.factors(vote);
        let of_document = |document| {
            let best = self.ranked(document, scores, &factors).into_iter().take(first);
            objective.of_ranking(best.filter(|&(slot, _)| self.gold[slot]).count())
        };
        let documents = self.sample.len();
        Some((0..documents).map(of_document).sum::<f64>() / documents.max(1) as f64)
    }

    fn factor(&self, factors: &[f64], slot: usize) -> f64 {
        *factors.get(self.labels[slot] as usize).unwrap_or(&1.0)
    }

    /// What a candidate decides, with thresholds learned from the scores in `workspace`.
    fn decision(
        &self,
        candidate: Candidate,
        workspace: &mut Workspace<'_>,
        without: Without,
    ) -> Decision {
        match candidate {
            Candidate::Single => Decision::Single,
            Candidate::Global { threshold, allow_none } => {
                Decision::Multi { threshold, allow_none }
            }
            Candidate::PerLabel { rule, parameter, allow_none } => {
                let thresholds = workspace.learn(rule, &[parameter], without).remove(0);
                Decision::PerLabel { rule, thresholds, allow_none }
            }
            Candidate::First { labels } => Decision::First { labels },
            Candidate::LargestGap => Decision::LargestGap,
            Candidate::Proportional { factor } => {
                let documents = self.sample.len().max(1) as f64;
                let share = |parts: &Gold| f64::from(gold(parts, None)) / documents;
                Decision::Proportional {
                    factor,
                    shares: self.gold_documents.iter().map(share).collect(),
                }
            }
        }
    }
}

/// A label-size compensation.
pub(super) struct Compensation {
    exponent: f64,
    /// One factor per label; empty: 1 for all.
    factors: Vec<f64>,
}

/// RTCut never gives labels of a lower rank.
const RTCUT: usize = 16;

/// The rules with one threshold per label.
const PER_LABEL: [ThresholdRule; 5] = [
    ThresholdRule::Scut,
    ThresholdRule::Micromacro,
    ThresholdRule::ScutFbr,
    ThresholdRule::ScutSmoothed,
    ThresholdRule::Rtcut,
];

/// The parameters that a rule tries.
fn parameters(rule: ThresholdRule, objective: Objective) -> &'static [f64] {
    match rule {
        ThresholdRule::ScutFbr => &[0.1, 0.3, 0.5],
        ThresholdRule::ScutSmoothed => &[3.0, 10.0, 30.0],
        ThresholdRule::Micromacro if objective != Objective::Accuracy => &[0.0, 10.0, 30.0],
        ThresholdRule::Micromacro | ThresholdRule::Scut | ThresholdRule::Rtcut => &[0.0],
    }
}

/// Buffers needed at every k, reused to avoid allocation.
pub(super) struct Workspace<'s> {
    grid_search: &'s GridSearch<'s>,
    ranking: Ranking<'s>,
    /// The ranked scores of each label.
    score_rankings: Vec<RankedScores>,
    /// RTCut's ranked values of each label, if requested.
    value_rankings: Vec<RankedScores>,
    /// The cuts of best F1 without each fold, and of all.
    cuts: [Option<Cuts>; FOLDS + 1],
    /// The best label of each document and its slot.
    tops: Vec<(u32, usize)>,
    count: Count<'s>,
}

impl<'s> Workspace<'s> {
    pub(super) fn new(grid_search: &'s GridSearch<'s>) -> Self {
        Self {
            grid_search,
            ranking: Ranking::new(grid_search),
            score_rankings: Vec::new(),
            value_rankings: Vec::new(),
            cuts: Default::default(),
            tops: Vec::new(),
            count: Count::new(grid_search),
        }
    }

    /// Sorts and counts new scores.
    fn fill(&mut self, scores: &[f64], rules: Rules) {
        let grid_search = self.grid_search;
        self.ranking.sort(scores);
        self.cuts = Default::default();
        let labels = grid_search.gold_documents.len();
        for score_rankings in [&mut self.score_rankings, &mut self.value_rankings] {
            score_rankings.resize_with(labels, RankedScores::default);
            score_rankings
                .iter_mut()
                .zip(&grid_search.gold_documents)
                .for_each(|(l, &gold)| l.reset(gold));
        }
        let rtcut = rules.allow(Rule::Rtcut);
        for (document, &fold) in grid_search.folds.iter().enumerate() {
            let voted = self.ranking.of(document).take_while(|&slot| scores[slot] > 0.0);
            for (rank, slot) in voted.enumerate() {
                let (label, score, gold) =
                    (grid_search.labels[slot] as usize, scores[slot], grid_search.gold[slot]);
                let entry = Entry { score, slot: narrow(slot), fold, gold };
                self.score_rankings[label].push(entry);
                if rtcut && rank < RTCUT {
                    let value = ThresholdRule::Rtcut.value(score, rank);
                    self.value_rankings[label].push(Entry { score: value, ..entry });
                }
            }
        }
    }

    /// The thresholds of a rule for each parameter.
    fn learn(
        &mut self,
        rule: ThresholdRule,
        parameters: &[f64],
        without: Without,
    ) -> Vec<Vec<Option<f64>>> {
        match rule {
            ThresholdRule::Scut | ThresholdRule::ScutFbr => {
                // Both rules use these cuts.
                let cuts = self.cuts[without.map_or(FOLDS, |fold| fold)]
                    .get_or_insert_with(|| Cuts::scut(&mut self.score_rankings, without));
                parameters.iter().map(|&fbr| cuts.with_fbr(fbr)).collect()
            }
            ThresholdRule::ScutSmoothed => scut_smoothed(&self.score_rankings, parameters, without),
            ThresholdRule::Micromacro => {
                micromacro::thresholds(&mut self.score_rankings, parameters, without)
            }
            ThresholdRule::Rtcut => vec![rtcut(&mut self.value_rankings, without)],
        }
    }
}

fn narrow(number: usize) -> u32 {
    u32::try_from(number).expect("fewer than 2^32 slots")
}
