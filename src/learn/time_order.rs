//! Finds the documents that cannot be neighbors while a model is tuned, and decides whether a
//! corpus is treated as chronological.
//!
//! Nearby documents of a chronological corpus report the same events, so settings are chosen
//! without them. But in a corpus that is sorted by name or subject, nearby documents share labels,
//! too. The latest documents decide: only in a chronological corpus should settings that were
//! chosen without nearby documents be better for them.

use super::event::{Event, OrderComparison, TimeOrder};
use super::held_out::{
    ExcludedNeighbors, Exclusion, InspectedRows, LeaveOneOut, SearchableRows, draw_sample,
};
use super::options::{TuneOptions, TuneScope};
use super::run::Run;
use super::votes::{Grid, Trial, search_grid};
use crate::decide::vote::TrainingLabels;
use crate::search::{RowSet, SearchError};
use crate::threads::Threads;

/// The latest part of the corpus is one in this many documents.
const LATEST: u32 = 5;
/// Maximum number of documents from which settings are chosen, or on which they are compared.
const MAX_DOCUMENTS: usize = 4_000;

/// Finds near-duplicates, determines the window if the documents are in chronological order, and
/// reports both, except in quick tuning.
pub(super) fn find_exclusions(
    run: &Run<'_>,
    inspected: InspectedRows<'_>,
    tuning: &TuneOptions,
    multi_label: bool,
) -> Result<ExcludedNeighbors, SearchError> {
    let rows = inspected.terms.or(inspected.vectors);
    let labels = inspected.labels;
    let threads = run.threads();
    let mut excluded = ExcludedNeighbors::find(inspected, tuning, threads)?;
    let window = excluded.window;
    let rows = rows.filter(|_| window > 0 && tuning.time_order.is_none());
    let comparison = rows.map(|rows| {
        let excluded = &excluded;
        let held_out_count = labels.weights.len() - run.never_held_out;
        let corpus =
            OrderedCorpus { rows, labels, held_out_count, multi_label, excluded, tuning, threads };
        corpus.compare()
    });
    let comparison = comparison.transpose()?;
    if comparison.is_some_and(|comparison| !prefers_window(&comparison)) {
        excluded.window = 0;
    }
    if tuning.scope != TuneScope::Quick {
        if let Some(above) = excluded.above {
            run.report(Event::NearDuplicates { documents: excluded.near.documents(), above });
        }
        if window > 0 {
            let is_excluded = excluded.window > 0;
            run.report(Event::TimeOrder(TimeOrder { window, is_excluded, comparison }));
        }
    }
    Ok(excluded)
}

/// Whether settings that were chosen without nearby documents are better by more than half a
/// standard error of the objective, as a proportion of the documents.
fn prefers_window(comparison: &OrderComparison) -> bool {
    let share = comparison.with_nearby;
    let error = libm::sqrt(share * (1.0 - share) / comparison.documents.max(1) as f64);
    comparison.without_nearby - share > error / 2.0
}

/// A corpus that may be in chronological order.
struct OrderedCorpus<'a> {
    rows: SearchableRows<'a>,
    labels: TrainingLabels<'a>,
    /// The number of documents that can be held out. The documents after them are always neighbors.
    held_out_count: usize,
    multi_label: bool,
    excluded: &'a ExcludedNeighbors,
    tuning: &'a TuneOptions,
    threads: &'a Threads,
}

impl OrderedCorpus<'_> {
    /// Chooses k and vote on earlier documents, without and with nearby documents, and evaluates
    /// both on the latest documents.
    fn compare(&self) -> Result<OrderComparison, SearchError> {
        let TuneOptions { scope, sample, k_max, objective, .. } = *self.tuning;
        let [all, count] = [self.labels.weights.len(), self.held_out_count]
            .map(|count| u32::try_from(count).unwrap_or(u32::MAX));
        let first_latest = count - count / LATEST;
        let earlier = RowSet::from_fn(all, |row| row < first_latest || row >= count);
        let is_quick = scope == TuneScope::Quick;
        let max_documents = if is_quick { sample.min(MAX_DOCUMENTS) } else { MAX_DOCUMENTS };
        let mut held_out = draw_sample(&self.excluded.hashes, max_documents);
        held_out.truncate(held_out.partition_point(|&row| row < count));
        let latest = held_out.split_off(held_out.partition_point(|&row| row < first_latest));
        let only = Some(&earlier);
        let grid = Grid::coarse(k_max, self.multi_label, objective);
        let neighbors = |rows: &[u32], exclusion: Exclusion<'_>| {
            let exclusion = Exclusion { only, ..exclusion };
            LeaveOneOut::search(self.rows, rows, k_max, exclusion, &|_| ())
        };
        let best = |found: &LeaveOneOut, grid: &Grid| {
            search_grid(found, self.labels, grid, self.threads).best
        };
        let on_latest = neighbors(&latest, self.excluded.without_window())?;
        let value = |trial: Trial| {
            let grid = Grid { ks: vec![trial.k], ..grid.clone() }.with_vote(trial.vote);
            objective.of(best(&on_latest, &grid).metrics)
        };
        let without_nearby = best(&neighbors(&held_out, self.excluded.exclusion())?, &grid);
        let with_nearby = best(&neighbors(&held_out, self.excluded.without_window())?, &grid);
        Ok(OrderComparison {
            objective,
            documents: latest.len(),
            without_nearby: value(without_nearby),
            with_nearby: value(with_nearby),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::learn::{TrainOptions, Trainer};
    use crate::random::Random;
    use crate::text::corpus::Document;

    /// 1,500 documents with one of four labels and words that indicate it weakly. Groups of up to
    /// `size` adjacent documents also have the label and three words of their own, each with the
    /// given probability.
    fn documents(size: usize, probability: f64) -> Vec<Document> {
        let mut random = Random::new(1);
        let mut number_of_group = vec![0; 4];
        let mut all = Vec::new();
        while all.len() < 1_500 {
            // Four groups at a time, so that adjacent documents have different labels.
            let first = number_of_group.len();
            number_of_group.extend(0..4);
            for _ in 0..4 * size {
                let group = first + random.below(4);
                let label = group % 4;
                let mut words: Vec<String> =
                    (0..4).map(|_| format!("noise{}", random.below(300))).collect();
                words.extend((0..3).map(|_| {
                    let topic = if random.unit() < 0.6 { label } else { random.below(4) };
                    format!("topic{topic}x{}", random.below(12))
                }));
                let own = (0..3).filter(|_| random.unit() < probability);
                words.extend(own.map(|word| format!("group{group}x{word}")).collect::<Vec<_>>());
                let id = all.len().to_string();
                all.push(Document::text(id, words.join(" ")).labels([format!("l{label}")]));
            }
        }
        all
    }

    fn time_order(documents: &[Document]) -> Option<TimeOrder> {
        let found = Mutex::new(None);
        let on_event = |event: Event<'_>| {
            if let Event::TimeOrder(order) = event {
                *found.lock().unwrap() = Some(order);
            }
        };
        let tuning = TuneOptions { scope: TuneScope::Votes, ..TuneOptions::default() };
        let options = TrainOptions { tuning: Some(tuning), ..TrainOptions::default() };
        let trainer = Trainer::builder().options(options).on_event(&on_event).build();
        let result = trainer.train(documents.iter().cloned().map(Ok)).unwrap();
        let order = found.into_inner().unwrap();
        let is_excluded = order.is_some_and(|order: TimeOrder| order.is_excluded);
        assert_eq!(result.tuning.unwrap().window > 0, is_excluded);
        order
    }

    /// Documents of the same event are each other's nearest neighbors. Without them, more neighbors
    /// are better, as they are for later documents, whose events are new.
    #[test]
    fn events_are_excluded() {
        let order = time_order(&documents(8, 0.9)).expect("nearby documents share labels");
        assert!(order.is_excluded, "{order:?}");
    }

    /// Nearby documents of a catalog share labels, but the best number of neighbors is the same
    /// without them.
    #[test]
    fn nearby_documents_of_a_catalog_are_kept() {
        let order = time_order(&documents(8, 0.2)).expect("nearby documents share labels");
        assert!(!order.is_excluded, "{order:?}");
    }
}
