//! Every k and vote on one leave-one-out search: each is a re-vote.

use crate::decide::{Decision, ThresholdRule, decide};
use crate::vote::{Ballot, Electorate, LabelScore, share};

use super::neighbors::LeaveOneOut;
use super::thresholds::{Entry, Ladder, Tally, cuts, learnt};
use super::{Candidate, Figures, Rule, Rules, Trial};

/// Steps of the one threshold for all labels: hundredths.
const STEPS: usize = 100;
/// The factors that PCut tries.
const PCUT: [f64; 8] = [0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5];
/// The limits that SCutFBR tries.
const FBR: [f64; 3] = [0.1, 0.3, 0.5];

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
    /// The slots by label.
    by_label: Vec<u32>,
    label_starts: Vec<usize>,
    /// In how many of the documents each label is due.
    due_documents: Vec<u32>,
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
            by_label: Vec::new(),
            label_starts: vec![0; label_count + 1],
            due_documents: vec![0; label_count],
            due_labels: Vec::with_capacity(found.len()),
        };
        let mut slot_of = vec![u32::MAX; label_count];
        for index in 0..found.len() {
            let (row, neighbors) = found.get(index);
            let due = among.labels(row);
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
                sweep.label_starts[label as usize + 1] += 1;
            }
            for &label in due {
                sweep.due_documents[label as usize] += 1;
            }
            sweep.slots.push(narrow(sweep.labels.len()));
            sweep.due_labels.push(narrow(due.len()));
        }
        for label in 0..label_count {
            sweep.label_starts[label + 1] += sweep.label_starts[label];
        }
        let mut next = sweep.label_starts.clone();
        sweep.by_label = vec![0; sweep.labels.len()];
        for (slot, &label) in (0..).zip(&sweep.labels) {
            sweep.by_label[next[label as usize]] = slot;
            next[label as usize] += 1;
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
        room.ranking.sort(self, scores);
        let Room { ranking, values, ladders, count } = room;
        if rules.allow(Rule::Threshold) {
            self.global(scores, ranking, count, objective, found);
        }
        self.fill(ladders, |slot| scores[slot]);
        let mut rule = |rule, fbr, ladders: &mut [Ladder]| {
            let cuts = cuts(rule, fbr, ladders);
            count.reset();
            for (ladder, cut) in ladders.iter().zip(cuts) {
                count.give_all(ladder.taken(cut).iter().map(|entry| entry.slot as usize));
            }
            let candidate = |allow_none| Candidate::PerLabel { rule, fbr, allow_none };
            found(candidate(true), count.figures());
            count.give_the_rest(ranking, scores);
            found(candidate(false), count.figures());
        };
        if rules.allow(Rule::Scut) {
            rule(ThresholdRule::Scut, 0.0, ladders);
        }
        if rules.allow(Rule::Micromacro) {
            rule(ThresholdRule::Micromacro, 0.0, ladders);
        }
        if rules.allow(Rule::ScutFbr) {
            FBR.into_iter().for_each(|fbr| rule(ThresholdRule::ScutFbr, fbr, ladders));
        }
        if rules.allow(Rule::Rtcut) {
            ranking.values(self, scores, values);
            self.fill(ladders, |slot| if scores[slot] > 0.0 { values[slot] } else { 0.0 });
            rule(ThresholdRule::Rtcut, 0.0, ladders);
        }
        self.by_ranks(scores, rules, ranking, count, found);
        if rules.allow(Rule::Pcut) {
            self.fill(ladders, |slot| scores[slot]);
            self.proportional(ladders, count, found);
        }
    }

    /// For each label its scores; those of 0 are none.
    fn fill(&self, ladders: &mut Vec<Ladder>, value: impl Fn(usize) -> f64) {
        ladders.resize_with(self.due_documents.len(), Ladder::default);
        let bounds = self.label_starts.windows(2).zip(&self.due_documents);
        for (ladder, (bounds, &due)) in ladders.iter_mut().zip(bounds) {
            ladder.reset(due);
            for &slot in &self.by_label[bounds[0]..bounds[1]] {
                let score = value(slot as usize);
                if score != 0.0 {
                    ladder.push(Entry { score, due: self.due[slot as usize], slot });
                }
            }
        }
    }

    /// One threshold for all labels: the best hundredth, with and without a label for all.
    fn global(
        &self,
        scores: &[f64],
        ranking: &Ranking,
        count: &mut Count<'_>,
        objective: &dyn Fn(Figures) -> f64,
        found: &mut impl FnMut(Candidate, Figures),
    ) {
        // For each label and step the scores that reach the step and no higher one.
        let mut tallies = vec![[Tally::default(); STEPS + 1]; self.due_documents.len()];
        let mut tops_below = tallies.clone();
        let tally = |tally: &mut Tally, due: bool| if due { tally.tp += 1 } else { tally.fp += 1 };
        for document in 0..self.found.len() {
            let slots = ranking.of(self, document);
            let slots = slots.iter().map(|&slot| slot as usize);
            let mut slots = slots.take_while(|&slot| scores[slot] > 0.0).peekable();
            if let Some(&top) = slots.peek() {
                let label = self.labels[top] as usize;
                tally(&mut tops_below[label][step(scores[top])], self.due[top]);
            }
            // The lowest step is not tried: lower scores never count.
            for slot in slots.take_while(|&slot| scores[slot] >= hundredths(1)) {
                let label = self.labels[slot] as usize;
                tally(&mut tallies[label][step(scores[slot])], self.due[slot]);
            }
        }
        // From here: the scores of this step and of all higher ones; of all lower ones.
        for (steps, below) in tallies.iter_mut().zip(&mut tops_below) {
            for step in (0..STEPS).rev() {
                steps[step] = steps[step].plus(steps[step + 1]);
            }
            let mut lower = Tally::default();
            for step in below {
                lower = lower.plus(std::mem::replace(step, lower));
            }
        }
        for allow_none in [true, false] {
            let value = |threshold: usize| {
                let mut sum = Tally::default();
                let mut macro_sum = 0.0;
                for ((steps, below), &due) in
                    tallies.iter().zip(&tops_below).zip(&self.due_documents)
                {
                    let mut tally = steps[threshold].plus(Tally { due: due.into(), tp: 0, fp: 0 });
                    if !allow_none {
                        tally = tally.plus(below[threshold]);
                    }
                    sum = sum.plus(tally);
                    macro_sum += tally.f1();
                }
                let macro_f1 = macro_sum / tallies.len().max(1) as f64;
                // The accuracy is not known here: the micro F1 stands for it.
                objective(Figures { micro_f1: sum.f1(), macro_f1, accuracy: sum.f1() })
            };
            // Of equal values the lowest threshold.
            let values = (1..STEPS).rev().map(|step| (step, value(step)));
            let best = values.max_by(|a, b| a.1.total_cmp(&b.1));
            let threshold = hundredths(best.map_or(STEPS / 2, |best| best.0));
            count.reset();
            for document in 0..self.found.len() {
                let slots = ranking.of(self, document).iter().map(|&slot| slot as usize);
                count.give_all(slots.take_while(|&slot| scores[slot] >= threshold));
            }
            if !allow_none {
                count.give_the_rest(ranking, scores);
            }
            found(Candidate::Global { threshold, allow_none }, count.figures());
        }
    }

    /// RCut with one to five labels, and MCut.
    fn by_ranks(
        &self,
        scores: &[f64],
        rules: Rules,
        ranking: &Ranking,
        count: &mut Count<'_>,
        found: &mut impl FnMut(Candidate, Figures),
    ) {
        let ranked = |document| {
            let slots = ranking.of(self, document).iter().map(|&slot| slot as usize);
            slots.take_while(|&slot| scores[slot] > 0.0)
        };
        if rules.allow(Rule::Rcut) {
            count.reset();
            for labels in 1..=5 {
                for document in 0..self.found.len() {
                    count.give_all(ranked(document).nth(labels - 1));
                }
                found(Candidate::First { labels }, count.figures());
            }
        }
        if rules.allow(Rule::Mcut) {
            count.reset();
            for document in 0..self.found.len() {
                let falling = ranked(document).map(|slot| scores[slot]);
                let before = crate::decide::before_largest_gap(falling);
                count.give_all(ranked(document).take(before));
            }
            found(Candidate::LargestGap, count.figures());
        }
    }

    /// PCut, the left-out documents being the batch.
    fn proportional(
        &self,
        ladders: &mut [Ladder],
        count: &mut Count<'_>,
        found: &mut impl FnMut(Candidate, Figures),
    ) {
        for factor in PCUT {
            count.reset();
            for (ladder, &due) in ladders.iter_mut().zip(&self.due_documents) {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a small number of documents"
                )]
                let most = (f64::from(due) * factor).round() as usize;
                let taken = ladder.first(most);
                count.give_all(ladder.taken(taken).iter().map(|entry| entry.slot as usize));
            }
            found(Candidate::Proportional { factor }, count.figures());
        }
    }

    /// How many slots there are: what a re-vote costs.
    pub(super) fn len(&self) -> usize {
        self.labels.len()
    }

    /// What a trial's decision learns from these neighbors, and how good it is on them.
    pub(super) fn learn(&self, trial: &Trial) -> (Decision, Figures) {
        let mut learnt = (Decision::Single, Figures::default());
        self.run(trial.vote.ballot, &[trial.k], |_, scores| {
            let decision = self.decision(trial.decision, scores);
            let factors = self.among.factors(trial.vote);
            let given = (0..self.found.len()).flat_map(|document| {
                let slots = self.slots_of(document);
                let mut slots: Vec<(usize, f64)> = slots
                    .map(|slot| (slot, scores[slot] * self.factor(&factors, slot)))
                    .filter(|&(slot, _)| scores[slot] > 0.0)
                    .collect();
                slots.sort_by(|a, b| b.1.total_cmp(&a.1));
                let votes: Vec<LabelScore> = slots
                    .iter()
                    .map(|&(slot, score)| LabelScore { label: self.labels[slot], score })
                    .collect();
                let given = decide(&votes, &decision);
                slots
                    .into_iter()
                    .map(|(slot, _)| slot)
                    .filter(move |&slot| given.contains(&self.labels[slot]))
            });
            let mut count = Count::new(self);
            count.give_all(given);
            learnt = (decision, count.figures());
        });
        learnt
    }

    fn factor(&self, factors: &[f64], slot: usize) -> f64 {
        *factors.get(self.labels[slot] as usize).unwrap_or(&1.0)
    }

    /// What a candidate decides, with its thresholds learnt from these scores.
    fn decision(&self, candidate: Candidate, scores: &[f64]) -> Decision {
        match candidate {
            Candidate::Single => Decision::Single,
            Candidate::Global { threshold, allow_none } => {
                Decision::Multi { threshold, allow_none }
            }
            Candidate::PerLabel { rule, fbr, allow_none } => {
                let mut ladders = Vec::new();
                if rule == ThresholdRule::Rtcut {
                    let (mut ranking, mut values) = (Ranking::new(self), Vec::new());
                    ranking.sort(self, scores);
                    ranking.values(self, scores, &mut values);
                    let value = |slot: usize| if scores[slot] > 0.0 { values[slot] } else { 0.0 };
                    self.fill(&mut ladders, value);
                } else {
                    self.fill(&mut ladders, |slot| scores[slot]);
                }
                Decision::PerLabel { rule, thresholds: learnt(rule, fbr, &mut ladders), allow_none }
            }
            Candidate::First { labels } => Decision::First { labels },
            Candidate::LargestGap => Decision::LargestGap,
            Candidate::Proportional { factor } => {
                let documents = self.found.len().max(1) as f64;
                let share = |&due: &u32| f64::from(due) / documents;
                Decision::Proportional {
                    factor,
                    shares: self.due_documents.iter().map(share).collect(),
                }
            }
        }
    }
}

/// What is needed at every k, kept so that it need not be made anew.
pub(super) struct Room<'s> {
    ranking: Ranking,
    /// RTCut's values.
    values: Vec<f64>,
    ladders: Vec<Ladder>,
    count: Count<'s>,
}

impl<'s> Room<'s> {
    pub(super) fn new(sweep: &'s Sweep<'s>) -> Self {
        let (ranking, count) = (Ranking::new(sweep), Count::new(sweep));
        Self { ranking, values: Vec::new(), ladders: Vec::new(), count }
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
        let tally = |&due: &u32| Tally { due: u64::from(due), ..Tally::default() };
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
    fn give_the_rest(&mut self, ranking: &Ranking, scores: &[f64]) {
        for document in 0..self.documents.len() {
            if self.documents[document] == (0, 0) {
                let slots = ranking.of(self.sweep, document);
                let top = slots.first().map(|&slot| slot as usize);
                self.give_all(top.filter(|&slot| scores[slot] > 0.0));
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
struct Ranking {
    slots: Vec<u32>,
}

impl Ranking {
    fn new(sweep: &Sweep<'_>) -> Self {
        Self { slots: (0..narrow(sweep.labels.len())).collect() }
    }

    /// Sorts by these scores. The order for the last k is nearly that for the next: insertion.
    fn sort(&mut self, sweep: &Sweep<'_>, scores: &[f64]) {
        for document in 0..sweep.found.len() {
            let slots = &mut self.slots[sweep.slots_of(document)];
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

    /// RTCut's values of all slots.
    fn values(&self, sweep: &Sweep<'_>, scores: &[f64], values: &mut Vec<f64>) {
        values.resize(scores.len(), 0.0);
        for document in 0..sweep.found.len() {
            for (rank, &slot) in self.of(sweep, document).iter().enumerate() {
                let slot = slot as usize;
                values[slot] = ThresholdRule::Rtcut.value(scores[slot], rank);
            }
        }
    }

    fn of(&self, sweep: &Sweep<'_>, document: usize) -> &[u32] {
        &self.slots[sweep.slots_of(document)]
    }
}
fn narrow(number: usize) -> u32 {
    u32::try_from(number).expect("fewer than 2^32 slots")
}

/// The highest step that a score reaches, as `decide` compares them.
fn step(score: f64) -> usize {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a score from 0 to 1"
    )]
    let guess = ((score * STEPS as f64) as usize).min(STEPS);
    if guess < STEPS && score >= hundredths(guess + 1) {
        guess + 1
    } else if score < hundredths(guess) {
        guess - 1
    } else {
        guess
    }
}

fn hundredths(step: usize) -> f64 {
    step as f64 / STEPS as f64
}
