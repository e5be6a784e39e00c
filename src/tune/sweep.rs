//! Every k and vote on one leave-one-out search: each is a re-vote.

use crate::decide::{Decision, ThresholdRule, decide};
use crate::vote::{Ballot, Electorate, LabelScore, share};

use super::neighbors::LeaveOneOut;
use super::thresholds::{LabelScores, Tally, thresholds};
use super::{Candidate, Figures, Trial};

/// Steps of the one threshold for all labels: hundredths.
const STEPS: usize = 100;
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

    /// The figures where `given` are the slots of the labels given.
    fn figures(&self, given: impl Iterator<Item = usize>) -> Figures {
        let mut tallies: Vec<Tally> = self
            .due_documents
            .iter()
            .map(|&due| Tally { due: u64::from(due), ..Tally::default() })
            .collect();
        let mut wrong = vec![false; self.found.len()];
        let mut right = vec![0u32; self.found.len()];
        let mut document = 0;
        for slot in given {
            while self.slots[document + 1] as usize <= slot {
                document += 1;
            }
            let tally = &mut tallies[self.labels[slot] as usize];
            if self.due[slot] {
                tally.tp += 1;
                right[document] += 1;
            } else {
                tally.fp += 1;
                wrong[document] = true;
            }
        }
        let exact = (0..wrong.len()).filter(|&d| !wrong[d] && right[d] == self.due_labels[d]);
        let sum = tallies.iter().fold(Tally::default(), |sum, &tally| sum.plus(tally));
        let labels = tallies.len().max(1) as f64;
        Figures {
            micro_f1: sum.f1(),
            macro_f1: tallies.iter().map(|tally| tally.f1()).sum::<f64>() / labels,
            accuracy: exact.count() as f64 / self.found.len().max(1) as f64,
        }
    }

    /// The figures where every document gets the label of highest score, for each compensation.
    pub(super) fn single(
        &self,
        scores: &[f64],
        compensations: &[f64],
        found: &mut impl FnMut(f64, Figures),
    ) {
        for &compensation in compensations {
            let vote = crate::vote::Vote { ballot: Ballot::Uniform, compensation };
            let factors = self.among.factors(vote);
            let tops = (0..self.found.len()).filter_map(|d| self.top(d, scores, &factors));
            found(compensation, self.figures(tops));
        }
    }

    /// Every decision for several labels with its figures.
    pub(super) fn multi(
        &self,
        scores: &[f64],
        objective: &dyn Fn(Figures) -> f64,
        found: &mut impl FnMut(Candidate, Figures),
    ) {
        let tops: Vec<Option<usize>> =
            (0..self.found.len()).map(|document| self.top(document, scores, &[])).collect();
        self.global(scores, &tops, objective, found);
        let lists = self.lists(|slot| scores[slot]);
        let learn = |rule, fbr| (rule, fbr, thresholds(rule, fbr, &lists));
        let mut learnt =
            vec![learn(ThresholdRule::Scut, 0.0), learn(ThresholdRule::Micromacro, 0.0)];
        learnt.extend(FBR.map(|fbr| learn(ThresholdRule::ScutFbr, fbr)));
        for (rule, fbr, thresholds) in learnt {
            self.by_thresholds(scores, (rule, fbr), &thresholds, &tops, found);
        }
        let ranked = self.ranked(scores);
        let values = rank_values(scores, &ranked);
        let rtcut = ThresholdRule::Rtcut;
        let learnt = thresholds(rtcut, 0.0, &self.lists(|slot| values[slot]));
        self.by_thresholds(&values, (rtcut, 0.0), &learnt, &tops, found);
        self.by_ranks(scores, &ranked, found);
    }

    /// For each label its scores by falling score.
    fn lists(&self, value: impl Fn(usize) -> f64) -> Vec<LabelScores> {
        let mut lists = Vec::with_capacity(self.due_documents.len());
        for (bounds, &due) in self.label_starts.windows(2).zip(&self.due_documents) {
            let slots = &self.by_label[bounds[0]..bounds[1]];
            let entry = |&slot: &u32| (value(slot as usize), self.due[slot as usize]);
            let mut scores: Vec<(f64, bool)> = slots
                .iter()
                .map(entry)
                .filter(|&(value, _)| value != 0.0 && value.is_finite())
                .collect();
            scores.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
            lists.push(LabelScores { scores, due });
        }
        lists
    }

    /// One threshold for all labels: the best hundredth, with and without a label for all.
    fn global(
        &self,
        scores: &[f64],
        tops: &[Option<usize>],
        objective: &dyn Fn(Figures) -> f64,
        found: &mut impl FnMut(Candidate, Figures),
    ) {
        // For each label and step the scores that reach the step and no higher one.
        let mut tallies = vec![[Tally::default(); STEPS + 1]; self.due_documents.len()];
        let mut tops_below = tallies.clone();
        let step = |score: f64| {
            // The highest step that the score reaches, as `decide` compares them.
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
        };
        let count = |tally: &mut Tally, due: bool| if due { tally.tp += 1 } else { tally.fp += 1 };
        for (slot, &score) in scores.iter().enumerate().filter(|(_, score)| **score > 0.0) {
            count(&mut tallies[self.labels[slot] as usize][step(score)], self.due[slot]);
        }
        for &slot in tops.iter().flatten() {
            count(&mut tops_below[self.labels[slot] as usize][step(scores[slot])], self.due[slot]);
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
            let value = |&threshold: &usize| {
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
            let best = (1..STEPS).rev().max_by(|a, b| value(a).total_cmp(&value(b)));
            let threshold = hundredths(best.unwrap_or(STEPS / 2));
            let given = |slot: usize| scores[slot] >= threshold;
            let figures = self.with_fallback(given, (!allow_none).then_some(tops));
            found(Candidate::Global { threshold, allow_none }, figures);
        }
    }

    /// The figures of the slots that `given` takes; documents without any get their top slot if
    /// `tops` are there.
    fn with_fallback(
        &self,
        given: impl Fn(usize) -> bool,
        tops: Option<&[Option<usize>]>,
    ) -> Figures {
        let labels = (0..self.found.len()).flat_map(|document| {
            let slots = self.slots_of(document);
            let top = match tops {
                Some(tops) if !slots.clone().any(&given) => tops[document],
                _ => None,
            };
            let given = &given;
            slots.filter(move |&slot| given(slot)).chain(top)
        });
        self.figures(labels)
    }

    fn by_thresholds(
        &self,
        values: &[f64],
        (rule, fbr): (ThresholdRule, f64),
        thresholds: &[Option<f64>],
        tops: &[Option<usize>],
        found: &mut impl FnMut(Candidate, Figures),
    ) {
        let given = |slot: usize| {
            let threshold = thresholds[self.labels[slot] as usize];
            values[slot] != 0.0 && threshold.is_some_and(|threshold| values[slot] >= threshold)
        };
        for allow_none in [true, false] {
            let figures = self.with_fallback(given, (!allow_none).then_some(tops));
            found(Candidate::PerLabel { rule, fbr, allow_none }, figures);
        }
    }

    /// The slots of every document that have a vote, by falling score.
    fn ranked(&self, scores: &[f64]) -> Vec<Vec<usize>> {
        let of = |document| {
            let slots = self.slots_of(document);
            let mut slots: Vec<usize> = slots.filter(|&slot| scores[slot] > 0.0).collect();
            slots.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
            slots
        };
        (0..self.found.len()).map(of).collect()
    }

    /// RCut with one to five labels, and MCut.
    fn by_ranks(
        &self,
        scores: &[f64],
        ranked: &[Vec<usize>],
        found: &mut impl FnMut(Candidate, Figures),
    ) {
        for labels in 1..=5 {
            let given = ranked.iter().flat_map(|slots| slots.iter().copied().take(labels));
            found(Candidate::First { labels }, self.figures(given));
        }
        let given = ranked.iter().flat_map(|slots| {
            let falling = slots.iter().map(|&slot| scores[slot]);
            slots.iter().copied().take(crate::decide::before_largest_gap(falling))
        });
        found(Candidate::LargestGap, self.figures(given));
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
            let figures = self.figures(given);
            learnt = (decision, figures);
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
                let lists = match rule {
                    ThresholdRule::Rtcut => {
                        let values = rank_values(scores, &self.ranked(scores));
                        self.lists(|slot| values[slot])
                    }
                    _ => self.lists(|slot| scores[slot]),
                };
                Decision::PerLabel { rule, thresholds: thresholds(rule, fbr, &lists), allow_none }
            }
            Candidate::First { labels } => Decision::First { labels },
            Candidate::LargestGap => Decision::LargestGap,
        }
    }
}

/// RTCut's values; infinite where there is no score.
fn rank_values(scores: &[f64], ranked: &[Vec<usize>]) -> Vec<f64> {
    let mut values = vec![f64::NEG_INFINITY; scores.len()];
    for slots in ranked {
        for (rank, &slot) in slots.iter().enumerate() {
            values[slot] = ThresholdRule::Rtcut.value(scores[slot], rank);
        }
    }
    values
}

fn narrow(number: usize) -> u32 {
    u32::try_from(number).expect("fewer than 2^32 slots")
}

fn hundredths(step: usize) -> f64 {
    step as f64 / STEPS as f64
}
