//! Evaluates one threshold for all labels at each step.

use super::ranking::Ranking;
use super::table::VoteTable;
use crate::learn::thresholds::{RankedScores, STEPS, Tally, count_outside, cumulate, step};

/// The results of each step as the threshold for all labels.
pub(super) struct Totals {
    /// For each step, the numbers of correct and wrong labels whose scores reach it.
    reached: [(u64, u64); STEPS],
    /// For each step, the numbers of correct and wrong best labels of documents whose scores do not
    /// reach it.
    top_below: [(u64, u64); STEPS],
    /// The number of gold labels of all documents.
    gold: u64,
    /// The sum of the labels' F1: without and with the best labels of documents below the step.
    macro_sums: [[f64; STEPS]; 2],
}

impl Default for Totals {
    fn default() -> Self {
        let none = [(0, 0); STEPS];
        Self { reached: none, top_below: none, gold: 0, macro_sums: [[0.0; STEPS]; 2] }
    }
}

impl Totals {
    /// Returns micro F1 and the sum of the labels' F1 at a step. Without `allow_none`, a document
    /// whose best label does not reach the step gets that label.
    pub(super) fn at(&self, step: usize, allow_none: bool) -> (f64, f64) {
        let (mut tp, mut fp) = self.reached[step];
        if !allow_none {
            let (right, wrong) = self.top_below[step];
            tp += right;
            fp += wrong;
        }
        let micro = Tally { tp, fp, gold: self.gold };
        (micro.f1(), self.macro_sums[usize::from(!allow_none)][step])
    }

    /// Counts the results of each step label by label. Only labels with a correct score have an F1
    /// above 0.
    pub(super) fn new(
        table: &VoteTable<'_>,
        ranking: &Ranking<'_>,
        score_rankings: &[RankedScores],
        scores: &[f64],
    ) -> Self {
        let mut totals = Self::default();
        let documents = 0..table.sample.len();
        let tops = documents.filter_map(|document| ranking.top(document, scores));
        let mut tops: Vec<(u32, usize)> = tops.map(|slot| (table.labels[slot], slot)).collect();
        tops.sort_unstable();
        let mut tops = &tops[..];
        for (label, (ranked, gold)) in score_rankings.iter().zip(&table.gold_documents).enumerate()
        {
            let gold = count_outside(gold, None);
            totals.gold += u64::from(gold);
            for entry in ranked.entries() {
                let (right, wrong) = &mut totals.reached[step(entry.score)];
                if entry.gold { *right += 1 } else { *wrong += 1 }
            }
            let mut top_below = [(0u32, 0u32); STEPS];
            let of_label = tops.iter().take_while(|top| top.0 as usize == label).count();
            let (here, rest) = tops.split_at(of_label);
            tops = rest;
            // A score at a step does not reach the next step.
            for below in here.iter().map(|&(_, slot)| (slot, step(scores[slot]) + 1)) {
                if let (slot, next @ ..STEPS) = below {
                    let (right, wrong) = &mut top_below[next];
                    let (all_right, all_wrong) = &mut totals.top_below[next];
                    if table.gold[slot] {
                        *right += 1;
                        *all_right += 1;
                    } else {
                        *wrong += 1;
                        *all_wrong += 1;
                    }
                }
            }
            if !ranked.has_correct_score(None) {
                continue;
            }
            let reached = ranked.step_counts(None);
            cumulate(top_below.iter_mut());
            for (step, (&(tp, fp), &(top_tp, top_fp))) in reached.iter().zip(&top_below).enumerate()
            {
                let tally = Tally { tp: tp.into(), fp: fp.into(), gold: gold.into() };
                let top = Tally { tp: top_tp.into(), fp: top_fp.into(), gold: 0 };
                totals.macro_sums[0][step] += tally.f1();
                totals.macro_sums[1][step] += tally.plus(top).f1();
            }
        }
        cumulate(totals.reached.iter_mut().rev());
        cumulate(totals.top_below.iter_mut());
        totals
    }
}
