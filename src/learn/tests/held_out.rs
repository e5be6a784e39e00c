//! Tests of held-out documents: their neighbors, folds, votes and decisions.

use std::fmt::Write as _;
use std::num::NonZeroUsize;
use std::sync::Arc;

use super::{close, corpus, counted, document, metrics, plain};
use crate::decide::decision::{Decision, decide};
use crate::decide::objective::{Metrics, Objective};
use crate::decide::vote::{TrainingLabels, VoteWeight, vote};
use crate::learn::held_out::{
    Exclusion, LeaveOneOut, SearchableRows, chronological_window, draw_sample, folds, hashes,
    near_duplicates, nearest_of_sample,
};
use crate::learn::held_out_scores::{ChosenVote, HeldOutScores};
use crate::learn::training_rows::{WeightedRows, labels_of};
use crate::learn::votes::{
    Candidate, Grid, Trial, VoteLearning, evaluate_grid, search_grid, try_vote_weights,
};
use crate::learn::{abstention, probabilities, votes};
use crate::random::Random;
use crate::rows::matrix::CsrBuilder;
use crate::search::{Engines, Exhaustive, NeighborLists, Request, Search};
use crate::text::corpus::{Content, Document};
use crate::text::counts::Fields;
use crate::threads::Threads;

/// Removes each document from the rows, searches it with the exhaustive engine, and votes and
/// decides as for a new document. The thresholds come from the other folds. The metrics must equal
/// the metrics of the grid search.
fn compare_with_removal(multi_label: bool) {
    let threads = Threads::new(NonZeroUsize::new(2).unwrap()).unwrap();
    let documents = corpus(520, multi_label);
    let counts = counted(&documents, &threads);
    let sizes = counts.label_sizes();
    let among = labels_of(&counts, &sizes);
    let weighted = WeightedRows::new(&counts, &Fields::Whole, "ltc".parse().unwrap(), &threads);
    let rows: Vec<u32> = (0u32..).take(documents.len()).collect();
    let k_max = NonZeroUsize::new(40).unwrap();
    let found = weighted
        .leave_one_out(&rows, k_max, Exclusion::default(), &Engines::cpu(&threads), &|_| ())
        .unwrap();
    let mut tried = 0;
    for objective in [
        Objective::MicroF1,
        Objective::MacroF1,
        Objective::Accuracy,
        Objective::MicroMacro,
        Objective::PrecisionAt5,
        Objective::Top3Accuracy,
    ] {
        let grid = Grid { ks: vec![1, 2, 7, 40], ..Grid::full(k_max, multi_label, objective) };
        let tuned = evaluate_grid(&found, among, &grid, &threads);
        let value = |trial: &Trial| objective.of(trial.metrics);
        assert!(tuned.trials.iter().all(|trial| value(trial) <= value(&tuned.best)));
        let held_out = HeldOutScores::new(&found, among, plain(tuned.best), &threads);
        let decisions = held_out.decisions_by_fold();
        let folds = found.folds(&among);
        let decision_of = |row: usize| decisions[usize::from(folds[row])].clone();
        let given = predict_without(&weighted, &among, &tuned.best, &decision_of, &threads);
        let due: Vec<Vec<u32>> = rows.iter().map(|&row| among.labels(row).to_vec()).collect();
        let real = metrics(&due, &given, sizes.len());
        assert!(close(real, tuned.best.metrics), "{:?}: really {real:?}", tuned.best);
        let (_, metrics) = held_out.decision();
        let by_batch = matches!(tuned.best.decision, Candidate::Proportional { .. });
        let by_ranks = if by_batch {
            tuned.best.metrics.by_ranks
        } else {
            let expected = held_out.expected(&decisions, &among, objective, &threads);
            assert!(close(expected.metrics, metrics), "{expected:?}");
            expected.metrics.by_ranks
        };
        assert_eq!(Metrics { by_ranks, ..metrics }, tuned.best.metrics);
        let best = |index: usize, count: usize| {
            let (row, voters) = found.get(index);
            let scores = vote(voters.first(tuned.best.k), tuned.best.vote, &among);
            let first = scores.into_iter().take(count);
            first.filter(|score| among.labels(row).contains(&score.label)).count()
        };
        let mean =
            |of: &dyn Fn(usize) -> f64| (0..found.len()).map(of).sum::<f64>() / found.len() as f64;
        let expected = match objective {
            Objective::PrecisionAt5 => Some(mean(&|index| best(index, 5) as f64 / 5.0)),
            Objective::Top3Accuracy => Some(mean(&|index| best(index, 3).min(1) as f64)),
            _ => None,
        };
        assert_eq!(by_ranks.is_some(), expected.is_some());
        assert!((by_ranks.unwrap_or(0.0) - expected.unwrap_or(0.0)).abs() < 1e-12, "{objective:?}");
        tried += tuned.trials.len();
    }
    assert!(tried > 4 * 4 * 12);
}

fn predict_without(
    weighted: &WeightedRows,
    among: &TrainingLabels<'_>,
    best: &Trial,
    decision_of: &dyn Fn(usize) -> Decision,
    threads: &Threads,
) -> Vec<Vec<u32>> {
    let all = weighted.documents();
    let mut answers = Vec::new();
    for held_out in 0..all.rows() {
        let mut others = CsrBuilder::default();
        let mut query = CsrBuilder::default();
        for (row, (terms, weights)) in all.iter().enumerate() {
            let side = if row == held_out { &mut query } else { &mut others };
            side.push_slices(terms, weights);
        }
        let query = query.build(all.cols());
        let engine = Exhaustive::new(Arc::new(others.build(all.cols())), threads.clone()).unwrap();
        let k = NonZeroUsize::new(best.k).unwrap();
        let mut found = NeighborLists::default();
        let _ = engine.search(&Request::new(&query, k), &mut found).unwrap();
        let mut neighbors = found.get(0).to_vec();
        for neighbor in &mut neighbors {
            neighbor.row += u32::from(neighbor.row as usize >= held_out);
        }
        let scores = vote(&neighbors[..], best.vote, among);
        let decision = decision_of(held_out);
        let mut given = decide(&scores, &decision);
        if scores.is_empty() && decision == Decision::Single {
            given.extend(among.most_frequent_label());
        }
        answers.push(given);
    }
    answers
}

#[test]
fn metrics_equal_a_real_leave_one_out() {
    compare_with_removal(false);
    compare_with_removal(true);
}

/// Every decision of the grid search must have the metrics that `decide` gives on the same votes.
#[test]
fn every_candidate_decides_like_predictions() {
    let threads = Threads::new(NonZeroUsize::MIN).unwrap();
    let documents = corpus(300, true);
    let counts = counted(&documents, &threads);
    let sizes = counts.label_sizes();
    let among = labels_of(&counts, &sizes);
    let weighted = WeightedRows::new(&counts, &Fields::Whole, "ntc".parse().unwrap(), &threads);
    let rows: Vec<u32> = (0u32..).take(documents.len()).collect();
    let k = NonZeroUsize::new(9).unwrap();
    let found = weighted
        .leave_one_out(&rows, k, Exclusion::default(), &Engines::cpu(&threads), &|_| ())
        .unwrap();
    let grid = Grid { ks: vec![9], ..Grid::full(k, true, Objective::MicroF1) };
    let due: Vec<Vec<u32>> = rows.iter().map(|&row| among.labels(row).to_vec()).collect();
    let mut kinds = std::collections::HashSet::new();
    for trial in evaluate_grid(&found, among, &grid, &threads).trials {
        let decision = match trial.decision {
            Candidate::Global { threshold, allow_none } => {
                Decision::Multi { threshold, allow_none }
            }
            Candidate::First { labels } => Decision::First { labels },
            Candidate::LargestGap => Decision::LargestGap,
            // The previous test checks the best of these.
            Candidate::Single | Candidate::PerLabel { .. } | Candidate::Proportional { .. } => {
                continue;
            }
        };
        let given: Vec<Vec<u32>> = (0..found.len())
            .map(|index| decide(&vote(found.get(index).1, trial.vote, &among), &decision))
            .collect();
        assert!(close(metrics(&due, &given, sizes.len()), trial.metrics), "{trial:?}");
        kinds.insert(std::mem::discriminant(&trial.decision));
    }
    assert_eq!(kinds.len(), 3);
}

#[test]
fn near_duplicates_and_groups_are_not_neighbors() {
    let threads = Threads::new(NonZeroUsize::MIN).unwrap();
    let documents = corpus(200, false);
    let counts = counted(&documents, &threads);
    let weighted = WeightedRows::new(&counts, &Fields::Whole, "ltc".parse().unwrap(), &threads);
    let rows: Vec<u32> = (0u32..).take(documents.len()).collect();
    let engine = Exhaustive::new(Arc::clone(weighted.documents()), threads.clone()).unwrap();
    let view = SearchableRows { engine: &engine, queries: weighted.queries().view().into() };
    let near = near_duplicates(view, &rows, 0.5).unwrap();
    assert!(near.documents() > 20);
    let groups: Vec<u32> = rows.iter().map(|row| row / 3).collect();
    let k = NonZeroUsize::new(12).unwrap();
    let exclusion = Exclusion {
        near: Some(&near),
        groups: &groups,
        window: 5,
        is_chronological: true,
        only: None,
        hashes: &[],
    };
    let found = LeaveOneOut::search(view, &rows, k, exclusion, &|_| ()).unwrap();
    let everything = NonZeroUsize::new(documents.len()).unwrap();
    let exclusion = Exclusion::default();
    let all = LeaveOneOut::search(view, &rows, everything, exclusion, &|_| ()).unwrap();
    for index in 0..found.len() {
        let (row, neighbors) = found.get(index);
        let (_, others) = all.get(index);
        let allowed = others.lists()[0].0.iter().filter(|other| {
            other.similarity <= 0.5 && other.row / 3 != row / 3 && other.row.abs_diff(row) > 5
        });
        let expected: Vec<_> = allowed.take(12).copied().collect();
        assert_eq!(neighbors.lists()[0].0, expected, "row {row}");
    }
}

/// Adjacent documents are held out together only in a chronological corpus.
#[test]
fn windows_only_in_chronological_order() {
    let threads = Threads::new(NonZeroUsize::new(2).unwrap()).unwrap();
    let found = |label: fn(usize) -> usize, event: fn(usize) -> usize| {
        let mut random = Random::new(9);
        let one = |number: usize| {
            let label = label(number);
            let event = event(number);
            let mut text = format!("event{event} happened{event} ");
            for _ in 0..8 {
                let word = random.below(40);
                let common = random.below(60);
                write!(text, "of{label}word{word} common{common} ").unwrap();
            }
            document(number, Content::Text(text), vec![format!("label{label}")])
        };
        let documents: Vec<Document> = (0..1_600).map(one).collect();
        let counts = counted(&documents, &threads);
        let sizes = counts.label_sizes();
        let among = labels_of(&counts, &sizes);
        let ltc = "ltc".parse().unwrap();
        let weighted = WeightedRows::new(&counts, &Fields::Whole, ltc, &threads);
        let rows = weighted.documents();
        let engine = Exhaustive::new(Arc::clone(rows), threads.clone()).unwrap();
        let view = SearchableRows { engine: &engine, queries: (&**rows).into() };
        let nearest = nearest_of_sample(view, Exclusion::default(), 4_000).unwrap();
        chronological_window(&among, &nearest)
    };
    // Events of 20 consecutive documents; labels in rotation.
    assert_eq!(found(|row| row % 4, |row| row / 20), 100);
    // The same documents in another order.
    assert_eq!(found(|row| row * 387 % 1_600 % 4, |row| row * 387 % 1_600 / 20), 0);
    // Sorted by two labels, without events; and by 16 labels, where the window would remove the
    // label.
    assert_eq!(found(|row| row / 800, |row| row), 0);
    assert_eq!(found(|row| row / 100, |row| row / 20), 0);
}

/// No allocation or loop depends on the largest k alone.
#[test]
fn more_neighbors_than_documents() {
    let threads = Threads::new(NonZeroUsize::MIN).unwrap();
    let documents = corpus(60, false);
    let counts = counted(&documents, &threads);
    let sizes = counts.label_sizes();
    let among = labels_of(&counts, &sizes);
    let weighted = WeightedRows::new(&counts, &Fields::Whole, "ltc".parse().unwrap(), &threads);
    let rows: Vec<u32> = (0u32..).take(documents.len()).collect();
    let engines = Engines::cpu(&threads);
    let all = NonZeroUsize::new(documents.len() - 1).unwrap();
    let tuned = |k_max: NonZeroUsize, exclusion: Exclusion<'_>| {
        let found = weighted.leave_one_out(&rows, k_max, exclusion, &engines, &|_| ()).unwrap();
        evaluate_grid(&found, among, &Grid::full(k_max, false, Objective::MicroF1), &threads)
    };
    for exclusion in [Exclusion::default(), Exclusion { window: 3, ..Exclusion::default() }] {
        let expected = tuned(all, exclusion);
        for k_max in [NonZeroUsize::new(1_000_000).unwrap(), NonZeroUsize::MAX] {
            let found = tuned(k_max, exclusion);
            assert_eq!((found.best, found.trials), (expected.best, expected.trials.clone()));
        }
        assert!(expected.trials.iter().all(|trial| trial.k < documents.len()));
    }
}

/// One document with 40,000 labels is a neighbor of all others. The time and memory of tuning must
/// be proportional to the number of labels.
#[test]
fn a_document_of_many_labels() {
    let threads = Threads::new(NonZeroUsize::MIN).unwrap();
    let mut documents = corpus(8, true);
    let labels: Vec<String> = (0..40_000).map(|label| format!("label{label}")).collect();
    documents[3].labels.extend(labels);
    let counts = counted(&documents, &threads);
    let sizes = counts.label_sizes();
    let among = labels_of(&counts, &sizes);
    let weighted = WeightedRows::new(&counts, &Fields::Whole, "ltc".parse().unwrap(), &threads);
    let rows: Vec<u32> = (0u32..).take(documents.len()).collect();
    let k = NonZeroUsize::new(3).unwrap();
    let found = weighted
        .leave_one_out(&rows, k, Exclusion::default(), &Engines::cpu(&threads), &|_| ())
        .unwrap();
    let grid =
        Grid { weights: vec![VoteWeight::Uniform], ..Grid::full(k, true, Objective::MicroF1) };
    let tuned = evaluate_grid(&found, among, &grid, &threads);
    let held_out = HeldOutScores::new(&found, among, plain(tuned.best), &threads);
    probabilities::learn(&held_out, among, &|_| 0.0);
    abstention::learn(&held_out, &held_out.decisions_by_fold(), among, 0.05, &|_| 0.0);
    // Vote weights are not learned for this many labels.
    assert!(try_vote_weights(&found, among, &grid, &tuned, &threads).is_empty());
    assert!(tuned.trials.len() > 3 * 12 && tuned.best.metrics.micro_f1 > 0.0);
}

/// The fast search evaluates a small grid completely. On a large grid, its result is nearly the
/// best.
#[test]
fn few_trials_find_nearly_the_best() {
    let threads = Threads::new(NonZeroUsize::new(3).unwrap()).unwrap();
    let one = Threads::new(NonZeroUsize::MIN).unwrap();
    for multi_label in [false, true] {
        let documents = corpus(520, multi_label);
        let counts = counted(&documents, &threads);
        let sizes = counts.label_sizes();
        let among = labels_of(&counts, &sizes);
        let ltc = "ltc".parse().unwrap();
        let weighted = WeightedRows::new(&counts, &Fields::Whole, ltc, &threads);
        let rows: Vec<u32> = (0u32..).take(documents.len()).collect();
        let k_max = NonZeroUsize::new(120).unwrap();
        let found = weighted
            .leave_one_out(&rows, k_max, Exclusion::default(), &Engines::cpu(&threads), &|_| ())
            .unwrap();
        for objective in
            [Objective::MicroF1, Objective::MacroF1, Objective::Accuracy, Objective::MicroMacro]
        {
            let full = Grid::full(k_max, multi_label, objective);
            let small = Grid { ks: vec![1, 3, 10, 30, 90], ..full.clone() };
            let all = evaluate_grid(&found, among, &small, &threads);
            let fast = search_grid(&found, among, &small, &threads);
            assert_eq!((fast.best, fast.trials), (all.best, all.trials));
            let all = evaluate_grid(&found, among, &full, &threads);
            let fast = search_grid(&found, among, &full, &threads);
            let lost = objective.of(all.best.metrics) - objective.of(fast.best.metrics);
            assert!((0.0..0.01).contains(&lost), "{objective:?}: {lost}");
            assert!(fast.trials.len() * 4 < all.trials.len(), "{}", fast.trials.len());
            assert!(fast.trials.iter().all(|trial| all.trials.contains(trial)));
            let alone = search_grid(&found, among, &full, &one);
            assert_eq!((alone.best, alone.trials), (fast.best, fast.trials));
        }
    }
}

/// With the same documents in another order, the same documents are drawn, and each is in the same
/// fold.
#[test]
fn samples_and_folds_do_not_depend_on_order() {
    let threads = Threads::new(NonZeroUsize::MIN).unwrap();
    let assignments = |documents: &[Document]| {
        let counts = counted(documents, &threads);
        let sizes = counts.label_sizes();
        let among = labels_of(&counts, &sizes);
        let ltc = "ltc".parse().unwrap();
        let weighted = WeightedRows::new(&counts, &Fields::Whole, ltc, &threads);
        let hashes = hashes((&**weighted.documents()).into(), &among, &threads);
        let sample = draw_sample(&hashes, 300);
        let folds = folds(&among, &hashes, 5);
        assert_eq!(sample.len(), 300);
        let mut assignments: Vec<_> = (0u32..)
            .zip(documents.iter().zip(folds))
            .map(|(row, (document, fold))| {
                let is_drawn = sample.binary_search(&row).is_ok();
                (format!("{:?}", document.content), document.labels.clone(), is_drawn, fold)
            })
            .collect();
        assignments.sort();
        assignments
    };
    let mut documents = corpus(900, true);
    let before = assignments(&documents);
    documents.reverse();
    assert_eq!(assignments(&documents), before);
    documents.sort_by(|a, b| a.labels.cmp(&b.labels));
    assert_eq!(assignments(&documents), before);
}

/// Votes of documents from a mislabeled source get lower weights, with any number of threads. The
/// metrics of the model equal the metrics that tuning reported.
#[test]
fn misleading_votes_get_lower_weights() {
    let wrong = |number: usize| number.is_multiple_of(3);
    for multi_label in [false, true] {
        let mut documents = corpus(600, multi_label);
        for (number, document) in documents.iter_mut().enumerate().filter(|(n, _)| wrong(*n)) {
            document.labels = vec![format!("subject{}", number % 5)];
        }
        let threads = Threads::new(NonZeroUsize::new(3).unwrap()).unwrap();
        let counts = counted(&documents, &threads);
        let sizes = counts.label_sizes();
        let among = labels_of(&counts, &sizes);
        let ltc = "ltc".parse().unwrap();
        let weighted = WeightedRows::new(&counts, &Fields::Whole, ltc, &threads);
        let rows: Vec<u32> = (0u32..).take(documents.len()).collect();
        let k_max = NonZeroUsize::new(60).unwrap();
        let engines = Engines::cpu(&threads);
        let none = Exclusion::default();
        let found = weighted.leave_one_out(&rows, k_max, none, &engines, &|_| ()).unwrap();
        let grid = Grid::coarse(k_max, multi_label, Objective::MicroF1);
        let tuned = evaluate_grid(&found, among, &grid, &threads);
        let trials = try_vote_weights(&found, among, &grid, &tuned, &threads);
        let (best, how) = trials[0];
        assert!(best.metrics.micro_f1 > tuned.best.metrics.micro_f1 - 0.01, "{best:?}");
        let one = Threads::new(NonZeroUsize::MIN).unwrap();
        assert_eq!(try_vote_weights(&found, among, &grid, &tuned, &one), trials);
        // More neighbors are tried only while they improve the objective.
        let mut by_k: Vec<(usize, f64)> = trials
            .iter()
            .filter(|(_, how)| !how.others && how.penalty >= 1.0)
            .map(|(trial, _)| (trial.k, trial.metrics.micro_f1))
            .collect();
        by_k.sort_by_key(|&(k, _)| k);
        let gaining = &by_k[..by_k.len() - 1];
        assert!(gaining.is_sorted_by(|a, b| a.1 < b.1), "{by_k:?}");
        // The metrics must equal the metrics of the held-out decisions.
        let held_out = HeldOutScores::new(
            &found,
            among,
            ChosenVote { learning: Some(how), ..plain(best) },
            &threads,
        );
        assert!(close(held_out.decision().1, best.metrics), "{:?} {best:?}", held_out.decision().1);
        let own = VoteLearning { others: false, ..how };
        let votes = votes::learn(&found, among, &best, own, &threads).unwrap();
        let mean = |of_wrong: bool| {
            let rows = rows.iter().filter(|&&row| wrong(row as usize) == of_wrong);
            let weights: Vec<f32> =
                rows.flat_map(|&row| votes.of(row)).map(|of| of.weight).collect();
            weights.iter().sum::<f32>() / weights.len() as f32
        };
        // In multi-label mode, the other labels of correct documents lose weight too.
        if !multi_label {
            assert!(mean(true) + 0.03 < mean(false), "{} {}", mean(true), mean(false));
        }
    }
}
