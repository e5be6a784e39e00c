//! Every k and vote on one leave-one-out search: each is a re-vote.

use crate::decide::{Decision, ThresholdRule, before_largest_gap, decide};
use crate::vote::{Ballot, Electorate, LabelScore, share};

use super::neighbors::LeaveOneOut;
use super::thresholds::{
    Curves, Cuts, Due, Entry, FOLDS, Histogram, Ladder, STEPS, Tally, Without, due, fold,
    micromacro, rtcut, threshold,
};
use super::{Candidate, Figures, Rule, Rules, Trial};

/// The factors that PCut tries.
const PCUT: [f64; 8] = [0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5];

/// The votes of left-out documents, laid out for re-voting. A *slot* is a document and a label
/// that one of its neighbors has.
pub(super) struct Sweep<'a> {
    found: &'a LeaveOneOut,
    among: Electorate<'a>,
    /// The slots of the labels of every neighbor, end to end.
    votes: Vec<u32>,
    /// The slots of document `i` are `slots[i]..slots[i + 1]`, by the rank of the best neighbor,
    /// then by label: ties of scores go to the first.
    slots: Vec<u32>,
    labels: Vec<u32>,
    /// The document of each slot.
    documents: Vec<u32>,
    due: Vec<bool>,
    /// In how many of the documents each label is due, by part.
    due_documents: Vec<Due>,
    /// The part of each document.
    folds: Vec<u8>,
    /// How many labels are due in each document.
    due_labels: Vec<u32>,
}

impl<'a> Sweep<'a> {
    pub(super) fn new(found: &'a LeaveOneOut, among: Electorate<'a>) -> Self {
        let label_count = among.sizes.len();
        let mut sweep = Self {
            found,
            among,
            votes: Vec::new(),
            slots: vec![0],
            labels: Vec::new(),
            documents: Vec::new(),
            due: Vec::new(),
            due_documents: vec![Due::default(); label_count],
            folds: Vec::with_capacity(found.len()),
            due_labels: Vec::with_capacity(found.len()),
        };
        let mut slot_of = vec![u32::MAX; label_count];
        for index in 0..found.len() {
            let (row, neighbors) = found.get(index);
            let due = among.labels(row);
            let part = fold(index, found.len());
            let first = sweep.labels.len();
            for neighbor in neighbors {
                for &label in among.labels(neighbor.row) {
                    let slot = &mut slot_of[label as usize];
                    if *slot == u32::MAX {
                        *slot = narrow(sweep.labels.len());
                        sweep.labels.push(label);
                        sweep.documents.push(narrow(index));
                        sweep.due.push(due.contains(&label));
                    }
                    sweep.votes.push(*slot);
                }
            }
            for &label in &sweep.labels[first..] {
                slot_of[label as usize] = u32::MAX;
            }
            for &label in due {
                sweep.due_documents[label as usize][part] += 1;
            }
            sweep.slots.push(narrow(sweep.labels.len()));
            sweep.due_labels.push(narrow(due.len()));
            sweep.folds.push(u8::try_from(part).expect("few parts"));
        }
        sweep
    }

    /// Votes by `ballot`, and calls `at` with the scores of all slots at each k of `ks` (rising).
    pub(super) fn run(&self, ballot: Ballot, ks: &[usize], mut at: impl FnMut(usize, &[f64])) {
        let documents = self.found.len();
        let mut sums = vec![0.0; self.labels.len()];
        let mut scores = vec![0.0; self.labels.len()];
        let mut totals = vec![0.0; documents];
        // Where each document's next vote lies in `votes`.
        let mut next: Vec<usize> = Vec::with_capacity(documents);
        let mut start = 0;
        for index in 0..documents {
            next.push(start);
            let (_, neighbors) = self.found.get(index);
            start += neighbors.iter().map(|n| self.among.labels(n.row).len()).sum::<usize>();
        }
        let mut rank = 0;
        for &k in ks {
            for index in 0..documents {
                let (_, neighbors) = self.found.get(index);
                let Some(best) = neighbors.first() else { continue };
                for (at, neighbor) in neighbors.iter().enumerate().take(k).skip(rank) {
                    let counts = ballot.counts(neighbor.similarity, at, best.similarity)
                        * f64::from(self.among.weights[neighbor.row as usize]);
                    totals[index] += counts;
                    let labels = self.among.labels(neighbor.row).len();
                    for &slot in &self.votes[next[index]..next[index] + labels] {
                        sums[slot as usize] += counts;
                    }
                    next[index] += labels;
                }
                for slot in self.slots_of(index) {
                    scores[slot] = share(sums[slot], totals[index]);
                }
            }
            rank = k;
            at(k, &scores);
        }
    }

    fn slots_of(&self, index: usize) -> std::ops::Range<usize> {
        self.slots[index] as usize..self.slots[index + 1] as usize
    }

    /// The slot of highest score of a document that has a vote, the first of equal ones.
    fn top(&self, index: usize, scores: &[f64], factors: &[f64]) -> Option<usize> {
        let mut best: Option<(usize, f64)> = None;
        for slot in self.slots_of(index) {
            let score = scores[slot] * self.factor(factors, slot);
            // A label without a vote yet has no score: it is not among the labels.
            if scores[slot] > 0.0 && best.is_none_or(|(_, best)| score > best) {
                best = Some((slot, score));
            }
        }
        best.map(|(slot, _)| slot)
    }

    /// The figures where every document gets the label of highest score, for each compensation.
    pub(super) fn single(
        &self,
        scores: &[f64],
        compensations: &[f64],
        found: &mut impl FnMut(f64, Figures),
    ) {
        let mut count = Count::new(self);
        for &compensation in compensations {
            let vote = crate::vote::Vote { ballot: Ballot::Uniform, compensation };
            let factors = self.among.factors(vote);
            count.reset();
            for document in 0..self.found.len() {
                count.give_all(self.top(document, scores, &factors));
            }
            found(compensation, count.figures());
        }
    }

    /// Every decision for several labels with its figures. `room` is kept from one k to the next.
    pub(super) fn multi(
        &self,
        scores: &[f64],
        room: &mut Room<'_>,
        rules: Rules,
        objective: &dyn Fn(Figures) -> f64,
        found: &mut impl FnMut(Candidate, Figures),
    ) {
        room.fill(scores, rules);
        if rules.allow(Rule::Threshold) {
            self.global(scores, room, objective, found);
        }
        for rule in PER_LABEL {
            if rules.allow(rule.into()) {
                Self::per_label(scores, room, rule, found);
            }
        }
        self.by_ranks(scores, rules, room, found);
        if rules.allow(Rule::Pcut) {
            self.proportional(room, found);
        }
    }

    /// One threshold for all labels, with and without a label for all documents.
    fn global(
        &self,
        scores: &[f64],
        room: &mut Room<'_>,
        objective: &dyn Fn(Figures) -> f64,
        found: &mut impl FnMut(Candidate, Figures),
    ) {
        room.tops.reset(self.due_documents.len());
        for slot in (0..self.found.len()).filter_map(|document| room.ranking.top(document, scores))
        {
            room.tops.add(self.labels[slot] as usize, scores[slot], 0, self.due[slot]);
        }
        room.tops.cumulate(true);
        for allow_none in [true, false] {
            let value = |step: usize| {
                let mut sum = Tally::default();
                let mut macro_sum = 0.0;
                for (label, parts) in self.due_documents.iter().enumerate() {
                    let mut tally = room.histogram.tally(label, step, due(parts, None), None);
                    if !allow_none {
                        tally = tally.plus(room.tops.tally(label, step, 0, None));
                    }
                    sum = sum.plus(tally);
                    macro_sum += tally.f1();
                }
                let macro_f1 = macro_sum / self.due_documents.len().max(1) as f64;
                // The accuracy is not known here: the micro F1 stands for it.
                objective(Figures { micro_f1: sum.f1(), macro_f1, accuracy: sum.f1() })
            };
            // Of equal values the lowest threshold.
            let values = (1..STEPS).rev().map(|step| (step, value(step)));
            let best = values.max_by(|a, b| a.1.total_cmp(&b.1));
            let threshold = threshold(best.map_or(1, |best| best.0));
            room.count.reset();
            for document in 0..self.found.len() {
                let falling = room.ranking.of(document);
                room.count.give_all(falling.take_while(|&slot| scores[slot] >= threshold));
            }
            if !allow_none {
                room.count.give_the_rest(&room.ranking, scores);
            }
            found(Candidate::Global { threshold, allow_none }, room.count.figures());
        }
    }

    /// A rule for a threshold a label, by each of its parameters: what each part of the documents
    /// gets by the thresholds that the others teach.
    fn per_label(
        scores: &[f64],
        room: &mut Room<'_>,
        rule: ThresholdRule,
        found: &mut impl FnMut(Candidate, Figures),
    ) {
        let parameters = parameters(rule);
        let learnt: Vec<Vec<Vec<Option<f64>>>> =
            (0..FOLDS).map(|fold| room.learn(rule, parameters, Some(fold))).collect();
        for (at, &parameter) in parameters.iter().enumerate() {
            room.count.reset();
            let values = rule == ThresholdRule::Rtcut;
            let ladders = if values { &mut room.value_ladders } else { &mut room.ladders };
            for (label, ladder) in ladders.iter_mut().enumerate() {
                let thresholds: [f64; FOLDS] =
                    std::array::from_fn(|fold| learnt[fold][at][label].unwrap_or(f64::INFINITY));
                let lowest = thresholds.iter().copied().fold(f64::INFINITY, f64::min);
                let reaching = ladder.reaching(lowest).iter();
                let given = reaching.filter(|entry| entry.score >= thresholds[entry.fold as usize]);
                room.count.give_all(given.map(|entry| entry.slot as usize));
            }
            let candidate = |allow_none| Candidate::PerLabel { rule, parameter, allow_none };
            found(candidate(true), room.count.figures());
            room.count.give_the_rest(&room.ranking, scores);
            found(candidate(false), room.count.figures());
        }
    }

    /// RCut with one to five labels, and MCut.
    fn by_ranks(
        &self,
        scores: &[f64],
        rules: Rules,
        Room { ranking, count, .. }: &mut Room<'_>,
        found: &mut impl FnMut(Candidate, Figures),
    ) {
        let ranked = |document| ranking.of(document).take_while(|&slot| scores[slot] > 0.0);
        if rules.allow(Rule::Rcut) {
            count.reset();
            for labels in 1..=5 {
                for document in 0..self.found.len() {
                    let slots = &ranking.slots[self.slots_of(document)];
                    let next = slots.get(labels - 1).map(|&slot| slot as usize);
                    count.give_all(next.filter(|&slot| scores[slot] > 0.0));
                }
                found(Candidate::First { labels }, count.figures());
            }
        }
        if rules.allow(Rule::Mcut) {
            count.reset();
            for document in 0..self.found.len() {
                let falling = ranked(document).map(|slot| scores[slot]);
                let before = before_largest_gap(falling);
                count.give_all(ranked(document).take(before));
            }
            found(Candidate::LargestGap, count.figures());
        }
    }

    /// PCut, the left-out documents being the batch.
    fn proportional(&self, room: &mut Room<'_>, found: &mut impl FnMut(Candidate, Figures)) {
        for factor in PCUT {
            found(Candidate::Proportional { factor }, self.in_proportion(room, factor));
        }
    }

    fn in_proportion(&self, room: &mut Room<'_>, factor: f64) -> Figures {
        room.count.reset();
        for (ladder, parts) in room.ladders.iter_mut().zip(&self.due_documents) {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a small number of documents"
            )]
            let most = (f64::from(due(parts, None)) * factor).round() as usize;
            room.count.give_all(ladder.first(most).iter().map(|entry| entry.slot as usize));
        }
        room.count.figures()
    }

    /// How many slots there are: what a re-vote costs.
    pub(super) fn len(&self) -> usize {
        self.labels.len()
    }

    /// What a trial's decision learns from these neighbors, and how good it is on them: on each
    /// part, by what the others teach.
    pub(super) fn learn(&self, trial: &Trial) -> (Decision, Figures) {
        let mut learnt = (Decision::Single, Figures::default());
        self.run(trial.vote.ballot, &[trial.k], |_, scores| {
            let mut room = Room::new(self);
            room.fill(scores, trial.decision.rules());
            let decisions: [Decision; FOLDS] =
                std::array::from_fn(|fold| self.decision(trial.decision, &mut room, Some(fold)));
            let factors = self.among.factors(trial.vote);
            let given = (0..self.found.len()).flat_map(|document| {
                let mut slots: Vec<(usize, f64)> = self
                    .slots_of(document)
                    .map(|slot| (slot, scores[slot] * self.factor(&factors, slot)))
                    .filter(|&(slot, _)| scores[slot] > 0.0)
                    .collect();
                slots.sort_by(|a, b| b.1.total_cmp(&a.1));
                let votes: Vec<LabelScore> = slots
                    .iter()
                    .map(|&(slot, score)| LabelScore { label: self.labels[slot], score })
                    .collect();
                let given = decide(&votes, &decisions[fold(document, self.found.len())]);
                slots
                    .into_iter()
                    .map(|(slot, _)| slot)
                    .filter(move |&slot| given.contains(&self.labels[slot]))
            });
            let mut count = Count::new(self);
            count.give_all(given);
            let decision = self.decision(trial.decision, &mut room, None);
            let figures = match trial.decision {
                // It decides on all documents together.
                Candidate::Proportional { factor } => self.in_proportion(&mut room, factor),
                _ => count.figures(),
            };
            learnt = (decision, figures);
        });
        learnt
    }

    /// What a trial's decision learns without each part.
    pub(super) fn learn_by_fold(&self, trial: &Trial) -> [Decision; FOLDS] {
        let mut learnt = std::array::from_fn(|_| Decision::Single);
        self.run(trial.vote.ballot, &[trial.k], |_, scores| {
            let mut room = Room::new(self);
            room.fill(scores, trial.decision.rules());
            learnt =
                std::array::from_fn(|fold| self.decision(trial.decision, &mut room, Some(fold)));
        });
        learnt
    }

    fn factor(&self, factors: &[f64], slot: usize) -> f64 {
        *factors.get(self.labels[slot] as usize).unwrap_or(&1.0)
    }

    /// What a candidate decides, with its thresholds learnt from the scores in `room`.
    fn decision(&self, candidate: Candidate, room: &mut Room<'_>, without: Without) -> Decision {
        match candidate {
            Candidate::Single => Decision::Single,
            Candidate::Global { threshold, allow_none } => {
                Decision::Multi { threshold, allow_none }
            }
            Candidate::PerLabel { rule, parameter, allow_none } => {
                let thresholds = room.learn(rule, &[parameter], without).remove(0);
                Decision::PerLabel { rule, thresholds, allow_none }
            }
            Candidate::First { labels } => Decision::First { labels },
            Candidate::LargestGap => Decision::LargestGap,
            Candidate::Proportional { factor } => {
                let documents = self.found.len().max(1) as f64;
                let share = |parts: &Due| f64::from(due(parts, None)) / documents;
                Decision::Proportional {
                    factor,
                    shares: self.due_documents.iter().map(share).collect(),
                }
            }
        }
    }
}

/// RTCut gives no label of a lower rank.
const RTCUT: usize = 16;

/// The rules for a threshold a label.
const PER_LABEL: [ThresholdRule; 5] = [
    ThresholdRule::Scut,
    ThresholdRule::Micromacro,
    ThresholdRule::ScutFbr,
    ThresholdRule::ScutSmoothed,
    ThresholdRule::Rtcut,
];

/// The parameters that a rule tries.
const fn parameters(rule: ThresholdRule) -> &'static [f64] {
    match rule {
        ThresholdRule::ScutFbr => &[0.1, 0.3, 0.5],
        ThresholdRule::ScutSmoothed => &[3.0, 10.0, 30.0],
        ThresholdRule::Scut | ThresholdRule::Micromacro | ThresholdRule::Rtcut => &[0.0],
    }
}

impl From<ThresholdRule> for Rule {
    fn from(rule: ThresholdRule) -> Self {
        match rule {
            ThresholdRule::Scut => Self::Scut,
            ThresholdRule::ScutFbr => Self::ScutFbr,
            ThresholdRule::ScutSmoothed => Self::ScutSmoothed,
            ThresholdRule::Micromacro => Self::Micromacro,
            ThresholdRule::Rtcut => Self::Rtcut,
        }
    }
}

/// What is needed at every k, kept so that it need not be made anew.
pub(super) struct Room<'s> {
    sweep: &'s Sweep<'s>,
    ranking: Ranking<'s>,
    /// The scores of each label.
    ladders: Vec<Ladder>,
    /// RTCut's values of each label, if they are asked for.
    value_ladders: Vec<Ladder>,
    /// The cuts of best F1 without each part, and of all.
    cuts: [Option<Cuts>; FOLDS + 1],
    /// The scores of each label by step.
    histogram: Histogram,
    /// The same of the best label of each document alone.
    tops: Histogram,
    count: Count<'s>,
}

impl<'s> Room<'s> {
    pub(super) fn new(sweep: &'s Sweep<'s>) -> Self {
        Self {
            sweep,
            ranking: Ranking::new(sweep),
            ladders: Vec::new(),
            value_ladders: Vec::new(),
            cuts: Default::default(),
            histogram: Histogram::default(),
            tops: Histogram::default(),
            count: Count::new(sweep),
        }
    }

    /// Sorts and counts new scores.
    fn fill(&mut self, scores: &[f64], rules: Rules) {
        let sweep = self.sweep;
        self.ranking.sort(scores);
        self.cuts = Default::default();
        let labels = sweep.due_documents.len();
        let steps = rules.allow(Rule::Threshold) || rules.allow(Rule::ScutSmoothed);
        self.histogram.reset(if steps { labels } else { 0 });
        for ladders in [&mut self.ladders, &mut self.value_ladders] {
            ladders.resize_with(labels, Ladder::default);
            ladders.iter_mut().zip(&sweep.due_documents).for_each(|(l, &due)| l.reset(due));
        }
        let rtcut = rules.allow(Rule::Rtcut);
        for (document, &fold) in sweep.folds.iter().enumerate() {
            let voted = self.ranking.of(document).take_while(|&slot| scores[slot] > 0.0);
            for (rank, slot) in voted.enumerate() {
                let (label, score, due) =
                    (sweep.labels[slot] as usize, scores[slot], sweep.due[slot]);
                let entry = Entry { score, slot: narrow(slot), fold, due };
                self.ladders[label].push(entry);
                if steps {
                    self.histogram.add(label, score, fold.into(), due);
                }
                if rtcut && rank < RTCUT {
                    let value = ThresholdRule::Rtcut.value(score, rank);
                    self.value_ladders[label].push(Entry { score: value, ..entry });
                }
            }
        }
        self.histogram.cumulate(false);
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
                // Both rules have these cuts.
                let cuts = self.cuts[without.map_or(FOLDS, |fold| fold)]
                    .get_or_insert_with(|| Cuts::scut(&mut self.ladders, without));
                parameters.iter().map(|&fbr| cuts.with_fbr(fbr)).collect()
            }
            ThresholdRule::ScutSmoothed => {
                let curves = Curves::new(&self.histogram, &self.sweep.due_documents, without);
                parameters.iter().map(|&weight| curves.thresholds(weight)).collect()
            }
            ThresholdRule::Micromacro => vec![micromacro(&mut self.ladders, without)],
            ThresholdRule::Rtcut => vec![rtcut(&mut self.value_ladders, without)],
        }
    }
}

/// Counts the right and wrong of the slots that are given.
struct Count<'s> {
    sweep: &'s Sweep<'s>,
    tallies: Vec<Tally>,
    /// How many right and how many wrong labels each document got.
    documents: Vec<(u32, u32)>,
}

impl<'s> Count<'s> {
    fn new(sweep: &'s Sweep<'s>) -> Self {
        let mut count = Self { sweep, tallies: Vec::new(), documents: Vec::new() };
        count.reset();
        count
    }

    /// Nothing is given.
    fn reset(&mut self) {
        let tally = |parts: &Due| Tally { due: due(parts, None).into(), ..Tally::default() };
        self.tallies.clear();
        self.tallies.extend(self.sweep.due_documents.iter().map(tally));
        self.documents.clear();
        self.documents.resize(self.sweep.found.len(), (0, 0));
    }

    fn give_all(&mut self, slots: impl IntoIterator<Item = usize>) {
        for slot in slots {
            let tally = &mut self.tallies[self.sweep.labels[slot] as usize];
            let (right, wrong) = &mut self.documents[self.sweep.documents[slot] as usize];
            if self.sweep.due[slot] {
                tally.tp += 1;
                *right += 1;
            } else {
                tally.fp += 1;
                *wrong += 1;
            }
        }
    }

    /// Gives every document without a label the one of highest score.
    fn give_the_rest(&mut self, ranking: &Ranking<'_>, scores: &[f64]) {
        for document in 0..self.documents.len() {
            if self.documents[document] == (0, 0) {
                self.give_all(ranking.top(document, scores));
            }
        }
    }

    fn figures(&self) -> Figures {
        let due = &self.sweep.due_labels;
        let exact = self
            .documents
            .iter()
            .zip(due)
            .filter(|&(&(right, wrong), &due)| wrong == 0 && right == due);
        let sum = self.tallies.iter().fold(Tally::default(), |sum, &tally| sum.plus(tally));
        let labels = self.tallies.len().max(1) as f64;
        Figures {
            micro_f1: sum.f1(),
            macro_f1: self.tallies.iter().map(|tally| tally.f1()).sum::<f64>() / labels,
            accuracy: exact.count() as f64 / self.documents.len().max(1) as f64,
        }
    }
}

/// The slots of every document by falling score, equal ones by slot.
struct Ranking<'s> {
    sweep: &'s Sweep<'s>,
    slots: Vec<u32>,
}

impl<'s> Ranking<'s> {
    fn new(sweep: &'s Sweep<'s>) -> Self {
        Self { sweep, slots: (0..narrow(sweep.labels.len())).collect() }
    }

    /// Sorts by these scores. The order for the last k is nearly that for the next: insertion.
    fn sort(&mut self, scores: &[f64]) {
        for document in 0..self.sweep.found.len() {
            let slots = &mut self.slots[self.sweep.slots_of(document)];
            for end in 1..slots.len() {
                let slot = slots[end];
                let score = scores[slot as usize];
                let before = |other: u32| {
                    let other_score = scores[other as usize];
                    other_score > score || (other_score >= score && other < slot)
                };
                let mut at = end;
                while at > 0 && !before(slots[at - 1]) {
                    slots[at] = slots[at - 1];
                    at -= 1;
                }
                slots[at] = slot;
            }
        }
    }

    /// The slots of a document.
    fn of(&self, document: usize) -> impl Iterator<Item = usize> + Clone {
        self.slots[self.sweep.slots_of(document)].iter().map(|&slot| slot as usize)
    }

    /// The first slot of a document, if it has a vote.
    fn top(&self, document: usize, scores: &[f64]) -> Option<usize> {
        self.of(document).next().filter(|&slot| scores[slot] > 0.0)
    }
}

fn narrow(number: usize) -> u32 {
    u32::try_from(number).expect("fewer than 2^32 slots")
}
