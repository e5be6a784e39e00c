//! Tuning: leave-one-out figures equal those of actually leaving documents out; thresholds equal
//! those of reference implementations.

#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test may panic, and its numbers are small"
)]

use std::fmt::Write as _;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use classify::decide::decision::{Decision, DecisionOptions, ThresholdRule, decide, decide_batch};
use classify::decide::objective::{Figures, Objective};
use classify::decide::vote::{LabelScore, TrainingLabels, VoteWeight, vote};
use classify::learn::trainer::{
    Event, FreeFeatures, NearDuplicateLimit, TrainOptions, Trained, Trainer, TuneOptions, TuneScope,
};
use classify::learn::tune::{
    Candidate, Exclusion, FOLDS, Grid, HeldOut, LabelScores, LeaveOneOut, NearDuplicates, Step,
    Trial, VoteLearning, Weighted, abstention, calibrate, drawn, folds, hashes, learn_votes,
    learned_votes, nearest, revote, thresholds, tune_votes, window,
};
use classify::model::InputSpec;
use classify::random::Random;
use classify::rows::matrix::CsrBuilder;
use classify::search::{Engines, Exhaustive, NeighborLists, Request, Search};
use classify::text::corpus::{Content, Document, Place};
use classify::text::counts::{CountOptions, Counts, Fields, Input};
use classify::text::tfidf::Weighting;
use classify::threads::Threads;
use serde_json::Value;

/// Documents about one to three of seven subjects (the last one rare); some occur twice, one has
/// only terms of its own, one has no label.
fn corpus(documents: usize, several: bool) -> Vec<Document> {
    let mut random = Random::new(if several { 3 } else { 5 });
    let mut corpus: Vec<Document> = Vec::new();
    for number in 0..documents {
        let mut labels = Vec::new();
        for _ in 0..if several { 1 + random.below(3) } else { 1 } {
            let subject = if random.below(40) == 0 { 6 } else { random.below(6) };
            labels.push(format!("subject{subject}"));
        }
        labels.sort();
        labels.dedup();
        let mut text = String::new();
        for _ in 0..4 + random.below(12) {
            let about = &labels[random.below(labels.len())];
            let word = random.below(12);
            // Half of the words are shared by all subjects.
            if random.below(2) == 0 {
                text.extend([about.as_str(), "word", &word.to_string(), " "]);
            } else {
                text.extend(["common", &random.below(30).to_string(), " "]);
            }
        }
        let content = match corpus.get(number.wrapping_sub(1)) {
            Some(last) if random.below(10) == 0 => last.content.clone(),
            _ => Content::Text(text),
        };
        corpus.push(document(number, content, labels));
    }
    let last = corpus.len();
    corpus.push(document(last, Content::Text("unheard".into()), vec!["subject1".into()]));
    corpus.push(document(last + 1, Content::Text("common1 common2".into()), Vec::new()));
    corpus
}

fn document(number: usize, content: Content, labels: Vec<String>) -> Document {
    let weight = if number.is_multiple_of(7) { 2.0 } else { 1.0 };
    let place = Place { source: "made".into(), line: None };
    Document { id: number.to_string(), content, labels, weight, vector: None, group: None, place }
}

fn counted(documents: &[Document], threads: &Threads) -> Counts {
    let input = Input::new(&InputSpec::default(), &Fields::Whole);
    let mut documents = documents.iter().cloned().map(Ok);
    Counts::read(&mut documents, &CountOptions::new(&input), threads, &|_| ()).unwrap()
}

/// Micro and macro F1 and accuracy, computed the slow, obvious way.
fn figures(due: &[Vec<u32>], given: &[Vec<u32>], labels: usize) -> Figures {
    let count = |label: u32, a: &[Vec<u32>], b: &[Vec<u32>], both: bool| {
        let pairs = a.iter().zip(b);
        pairs.filter(|(a, b)| a.contains(&label) && b.contains(&label) == both).count() as f64
    };
    let (mut sums, mut macro_sum) = ((0.0, 0.0), 0.0);
    for label in (0u32..).take(labels) {
        let tp = count(label, due, given, true);
        let errors = count(label, given, due, false) + count(label, due, given, false);
        sums = (sums.0 + tp, sums.1 + errors);
        macro_sum += if tp + errors > 0.0 { 2.0 * tp / (2.0 * tp + errors) } else { 0.0 };
    }
    let exact = due.iter().zip(given).filter(|(due, given)| {
        let mut given = (*given).clone();
        given.sort_unstable();
        **due == given
    });
    Figures {
        micro_f1: 2.0 * sums.0 / (2.0 * sums.0 + sums.1),
        macro_f1: macro_sum / labels as f64,
        accuracy: exact.count() as f64 / due.len() as f64,
        by_ranks: None,
    }
}

fn close(a: Figures, b: Figures) -> bool {
    (a.micro_f1 - b.micro_f1).abs() < 1e-12
        && (a.macro_f1 - b.macro_f1).abs() < 1e-12
        && (a.accuracy - b.accuracy).abs() < 1e-12
}

/// Removes every document from the rows, searches it with the exhaustive engine, then votes and
/// decides as for a new document, with the thresholds of the folds that it is not in. The figures
/// must equal those of the grid search.
fn left_out_for_real(several: bool) {
    let threads = Threads::new(NonZeroUsize::new(2).unwrap()).unwrap();
    let documents = corpus(520, several);
    let counts = counted(&documents, &threads);
    let sizes = counts.label_sizes();
    let among = counts.training_labels(&sizes);
    let weighted = Weighted::new(&counts, &Fields::Whole, "ltc".parse().unwrap(), &threads);
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
        let grid = Grid { ks: vec![1, 2, 7, 40], ..Grid::full(k_max, several, objective) };
        let tuned = revote(&found, among, &grid, &threads);
        let value = |trial: &Trial| objective.of(trial.figures);
        assert!(tuned.trials.iter().all(|trial| value(trial) <= value(&tuned.best)));
        let held_out = HeldOut::new(&found, among, (tuned.best, None), None, &threads);
        let decisions = held_out.decisions_by_fold();
        let folds = found.folds(&among);
        let given = really(&weighted, &among, &tuned.best, (&decisions, &folds), &threads);
        let due: Vec<Vec<u32>> = rows.iter().map(|&row| among.labels(row).to_vec()).collect();
        let real = figures(&due, &given, sizes.len());
        assert!(close(real, tuned.best.figures), "{:?}: really {real:?}", tuned.best);
        let (decision, figures) = held_out.decision();
        let by_batch = matches!(tuned.best.decision, Candidate::Proportional { .. });
        let by_ranks = if by_batch {
            tuned.best.figures.by_ranks
        } else {
            let expected = held_out.expected(&decisions, &among, objective, &threads);
            assert!(close(expected.figures, figures), "{expected:?}");
            expected.figures.by_ranks
        };
        assert_eq!(
            (decision, Figures { by_ranks, ..figures }),
            (tuned.decision, tuned.best.figures)
        );
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

fn really(
    weighted: &Weighted,
    among: &TrainingLabels<'_>,
    best: &Trial,
    (decisions, folds): (&[Decision; FOLDS], &[u8]),
    threads: &Threads,
) -> Vec<Vec<u32>> {
    let all = weighted.documents();
    let mut answers = Vec::new();
    for left_out in 0..all.rows() {
        let mut others = CsrBuilder::default();
        let mut query = CsrBuilder::default();
        for (row, vector) in all.outer_iterator().enumerate() {
            let entries = vector.iter().map(|(term, &weight)| (term as u32, weight));
            let side = if row == left_out { &mut query } else { &mut others };
            side.push_row(entries);
        }
        let (others, query) = (others.build(all.cols()), query.build(all.cols()));
        let engine = Exhaustive::new(Arc::new(others), threads.clone()).unwrap();
        let k = NonZeroUsize::new(best.k).unwrap();
        let mut found = NeighborLists::default();
        let _ = engine.search(&Request::new(&query, k), &mut found).unwrap();
        let mut neighbors = found.get(0).to_vec();
        for neighbor in &mut neighbors {
            neighbor.row += u32::from(neighbor.row as usize >= left_out);
        }
        let decision = &decisions[usize::from(folds[left_out])];
        answers.push(decide(&vote(&neighbors[..], best.vote, among), decision));
    }
    answers
}

#[test]
fn figures_are_those_of_leaving_out_for_real() {
    left_out_for_real(false);
    left_out_for_real(true);
}

/// Every decision of the grid search gives the figures that `decide` gives on the same votes.
#[test]
fn every_candidate_decides_as_predictions_do() {
    let threads = Threads::new(NonZeroUsize::MIN).unwrap();
    let documents = corpus(300, true);
    let counts = counted(&documents, &threads);
    let sizes = counts.label_sizes();
    let among = counts.training_labels(&sizes);
    let weighted = Weighted::new(&counts, &Fields::Whole, "ntc".parse().unwrap(), &threads);
    let rows: Vec<u32> = (0u32..).take(documents.len()).collect();
    let k = NonZeroUsize::new(9).unwrap();
    let found = weighted
        .leave_one_out(&rows, k, Exclusion::default(), &Engines::cpu(&threads), &|_| ())
        .unwrap();
    let grid = Grid { ks: vec![9], ..Grid::full(k, true, Objective::MicroF1) };
    let due: Vec<Vec<u32>> = rows.iter().map(|&row| among.labels(row).to_vec()).collect();
    let mut kinds = std::collections::HashSet::new();
    for trial in revote(&found, among, &grid, &threads).trials {
        let decision = match trial.decision {
            Candidate::Global { threshold, allow_none } => {
                Decision::Multi { threshold, allow_none }
            }
            Candidate::First { labels } => Decision::First { labels },
            Candidate::LargestGap => Decision::LargestGap,
            // The best of these is checked by the test above.
            Candidate::Single | Candidate::PerLabel { .. } | Candidate::Proportional { .. } => {
                continue;
            }
        };
        let given: Vec<Vec<u32>> = (0..found.len())
            .map(|index| decide(&vote(found.get(index).1, trial.vote, &among), &decision))
            .collect();
        assert!(close(figures(&due, &given, sizes.len()), trial.figures), "{trial:?}");
        kinds.insert(std::mem::discriminant(&trial.decision));
    }
    assert_eq!(kinds.len(), 3);
}

#[test]
fn near_duplicates_and_groups_are_no_neighbors() {
    let threads = Threads::new(NonZeroUsize::MIN).unwrap();
    let documents = corpus(200, false);
    let counts = counted(&documents, &threads);
    let weighted = Weighted::new(&counts, &Fields::Whole, "ltc".parse().unwrap(), &threads);
    let rows: Vec<u32> = (0u32..).take(documents.len()).collect();
    let engine = Exhaustive::new(Arc::clone(weighted.documents()), threads.clone()).unwrap();
    let queries = weighted.queries().view();
    let near = NearDuplicates::search(&engine, queries, &rows, 0.5).unwrap();
    assert!(near.documents() > 20);
    let groups: Vec<u32> = rows.iter().map(|row| row / 3).collect();
    let k = NonZeroUsize::new(12).unwrap();
    let exclusion = Exclusion {
        near: Some(&near),
        groups: &groups,
        window: 5,
        in_time_order: true,
        only: None,
        hashes: &[],
    };
    let found = LeaveOneOut::search(&engine, queries, &rows, k, exclusion, &|_| ()).unwrap();
    let everything = NonZeroUsize::new(documents.len()).unwrap();
    let all =
        LeaveOneOut::search(&engine, queries, &rows, everything, Exclusion::default(), &|_| ())
            .unwrap();
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

/// What is expected if new documents have near-duplicates, too, is told beside what is expected without.
#[test]
fn expected_figures_count_near_duplicates() {
    let mut random = Random::new(12);
    let mut documents = Vec::new();
    for pair in 0..200 {
        let words: Vec<String> = (0..15).map(|_| format!("word{}", random.below(900))).collect();
        let label = format!("label{}", random.below(2));
        for copy in 0..2 {
            // The copies differ in one word.
            let text = format!("{} copy{copy}", words.join(" "));
            let number = 2 * pair + copy;
            documents.push(document(number, Content::Text(text), vec![label.clone()]));
        }
    }
    let threads = Threads::new(NonZeroUsize::new(2).unwrap()).unwrap();
    let k = Some(NonZeroUsize::MIN);
    // The limit is one of cosines, also if the model has other similarities.
    let (found, given) = (NearDuplicateLimit::Found, NearDuplicateLimit::Above(0.5));
    for (weighting, near_duplicates) in [("ltc", given), ("bm25", given), ("bm25", found)] {
        let scope = TuneScope::Votes;
        let tuning = TuneOptions { scope, near_duplicates, ..TuneOptions::default() };
        let weighting = weighting.parse().unwrap();
        let options =
            TrainOptions { k, weighting, tuning: Some(tuning), ..TrainOptions::default() };
        let trainer = Trainer::new(options, Engines::cpu(&threads));
        let mut documents = documents.iter().cloned().map(Ok);
        let found = trainer.train(&mut documents, "made", &|_| ()).unwrap();
        let report = found.tuning.unwrap();
        assert_eq!(report.documents_with_near_duplicates, 400);
        assert!(report.figures.accuracy < 0.65, "{:?}", report.figures);
        let with = report.summary().with_near_duplicates.unwrap();
        assert!(with.figures.accuracy > 0.99, "{with:?}");
        let [low, high] = with.intervals.unwrap().accuracy;
        assert!((low..=high).contains(&with.figures.accuracy));
    }
}

/// Whatever is done side by side, the model, the trials and their order are the same.
#[test]
fn threads_do_not_matter() {
    for several in [false, true] {
        let documents = corpus(250, several);
        let tuned = |count: usize| {
            let threads = Threads::new(NonZeroUsize::new(count).unwrap()).unwrap();
            let (tuning, target_error) = (Some(TuneOptions::default()), Some(0.2));
            let options = TrainOptions { tuning, target_error, ..TrainOptions::default() };
            let trainer = Trainer::new(options, Engines::cpu(&threads));
            let mut documents = documents.iter().cloned().map(Ok);
            let made = trainer.train(&mut documents, "made", &|_| ()).unwrap();
            let report = made.tuning.unwrap();
            assert!(report.trials.iter().any(|trial| trial.vote.prototypes > 0.0));
            assert!(report.features.iter().any(|step| step.change.starts_with("learned weights")));
            (made.model.to_bytes().unwrap(), serde_json::to_string(&report).unwrap())
        };
        let one = tuned(1);
        assert!(one == tuned(2) && one == tuned(5), "several: {several}");
    }
}

/// Documents of a group are right or wrong together: the bound of the error counts groups, not documents.
#[test]
fn groups_widen_the_bound_of_the_error() {
    let threads = Threads::new(NonZeroUsize::new(2).unwrap()).unwrap();
    let bound = |grouped: bool| {
        let mut random = Random::new(3);
        // 60 groups of 10. The labels of 3 groups are wrong.
        let one = |number: usize| {
            let (group, label) = (number / 10, number / 10 % 2);
            let text = format!("of{label} word{} term{}", random.below(50), random.below(50));
            let given = if group % 20 == 0 { 1 - label } else { label };
            let made = document(number, Content::Text(text), vec![format!("label{given}")]);
            Document { group: grouped.then(|| group.to_string()), weight: 1.0, ..made }
        };
        let documents: Vec<Document> = (0..600).map(one).collect();
        let tuning = TuneOptions {
            scope: TuneScope::Votes,
            near_duplicates: NearDuplicateLimit::Off,
            time_order: Some(false),
            ..TuneOptions::default()
        };
        let k = NonZeroUsize::new(30);
        let target_error = Some(0.4);
        let options =
            TrainOptions { k, target_error, tuning: Some(tuning), ..TrainOptions::default() };
        let trainer = Trainer::new(options, Engines::cpu(&threads));
        let found = Mutex::new(None);
        let on_event = |event: Event<'_>| {
            if let Event::Abstention(limit) = event {
                *found.lock().unwrap() = Some(*limit);
            }
        };
        trainer.train(&mut documents.into_iter().map(Ok), "made", &on_event).unwrap();
        found.into_inner().unwrap().unwrap()
    };
    let (alone, together) = (bound(false), bound(true));
    for limit in [alone, together] {
        assert!(limit.coverage > 0.99 && (limit.error - 0.05).abs() < 0.01, "{limit:?}");
    }
    assert!(alone.error_bound < 0.09, "{alone:?}");
    assert!(together.error_bound > 0.11, "{together:?}");
}

/// Documents are left out with those around them only if the order is that of time.
#[test]
fn windows_where_order_is_time() {
    let threads = Threads::new(NonZeroUsize::new(2).unwrap()).unwrap();
    let found = |label: fn(usize) -> usize, event: fn(usize) -> usize| {
        let mut random = Random::new(9);
        let one = |number: usize| {
            let (label, event) = (label(number), event(number));
            let mut text = format!("event{event} happened{event} ");
            for _ in 0..8 {
                let (word, common) = (random.below(40), random.below(60));
                write!(text, "of{label}word{word} common{common} ").unwrap();
            }
            document(number, Content::Text(text), vec![format!("label{label}")])
        };
        let documents: Vec<Document> = (0..1_600).map(one).collect();
        let counts = counted(&documents, &threads);
        let sizes = counts.label_sizes();
        let among = counts.training_labels(&sizes);
        let ltc = "ltc".parse().unwrap();
        let weighted = Weighted::new(&counts, &Fields::Whole, ltc, &threads);
        let rows = weighted.documents();
        let engine = Exhaustive::new(Arc::clone(rows), threads.clone()).unwrap();
        let nearest = nearest(&engine, &**rows, Exclusion::default(), 4_000).unwrap();
        window(&among, &nearest)
    };
    // Events of 20 documents one after the other; labels in turn.
    assert_eq!(found(|row| row % 4, |row| row / 20), 100);
    // The same documents in another order.
    assert_eq!(found(|row| row * 387 % 1_600 % 4, |row| row * 387 % 1_600 / 20), 0);
    // Sorted by two labels, without events, and by 16: the window would remove the label.
    assert_eq!(found(|row| row / 800, |row| row), 0);
    assert_eq!(found(|row| row / 100, |row| row / 20), 0);
}

/// The scores of labels from the golden file.
fn golden_labels(golden: &Value) -> Vec<LabelScores> {
    golden
        .as_array()
        .unwrap()
        .iter()
        .map(|label| {
            let due = label["due"].as_array().unwrap().iter().map(|due| due.as_u64() == Some(1));
            let scores = label["scores"].as_array().unwrap().iter().map(|s| s.as_f64().unwrap());
            let mut pairs: Vec<(f64, bool)> = scores.zip(due.clone()).collect();
            pairs.retain(|&(score, _)| score > 0.0);
            pairs.sort_by(|a, b| b.0.total_cmp(&a.0));
            LabelScores { scores: pairs, gold: due.filter(|&due| due).count() as u32 }
        })
        .collect()
}

fn same_thresholds(name: &str, found: &[Option<f64>], golden: &Value) {
    let expected: Vec<Option<f64>> = golden.as_array().unwrap().iter().map(Value::as_f64).collect();
    let same = |a: &Option<f64>, b: &Option<f64>| match (a, b) {
        (Some(a), Some(b)) => (a - b).abs() < 1e-12,
        (a, b) => a == b,
    };
    assert!(
        found.len() == expected.len() && found.iter().zip(&expected).all(|(a, b)| same(a, b)),
        "{name}: {found:?}, not {expected:?}"
    );
}

#[test]
fn thresholds_of_other_peoples_code() {
    let golden: Value = serde_json::from_str(include_str!("golden/tuning.json")).unwrap();
    let labels = golden_labels(&golden["labels"]);
    for (name, rule, parameter) in [
        ("scut", ThresholdRule::Scut, 0.0),
        ("scut_fbr", ThresholdRule::ScutFbr, 0.5),
        ("scut_smoothed", ThresholdRule::ScutSmoothed, 10.0),
        ("micromacro", ThresholdRule::Micromacro, 0.0),
        ("micromacro_smoothed", ThresholdRule::Micromacro, 10.0),
    ] {
        same_thresholds(name, &thresholds(rule, parameter, &labels), &golden[name]);
    }
    let rare = golden_labels(&golden["rare"]);
    let found = thresholds(ThresholdRule::Micromacro, 0.0, &rare);
    same_thresholds("rare", &found, &golden["rare_micromacro"]);
    // More labels than are averaged in a neighborhood.
    let found = thresholds(ThresholdRule::ScutSmoothed, 10.0, &rare);
    same_thresholds("rare, smoothed", &found, &golden["rare_scut_smoothed"]);
    let found = thresholds(ThresholdRule::Micromacro, 10.0, &rare);
    same_thresholds("rare, both smoothed", &found, &golden["rare_micromacro_smoothed"]);
}

/// No label, labels without a score, without documents and with one document, and large weights.
#[test]
fn smoothed_thresholds_of_few_documents() {
    let label = |scores: &[(f64, bool)], gold| LabelScores { scores: scores.to_vec(), gold };
    let cases: [(Vec<LabelScores>, Vec<Option<f64>>); 5] = [
        (vec![], vec![]),
        (vec![label(&[], 0)], vec![None]),
        (vec![label(&[], 3), label(&[], 1)], vec![None, None]),
        // Among documents of which none is right, a label is never given.
        (vec![label(&[(0.9, false), (0.5, false)], 2)], vec![None]),
        // A label of one document follows the others; here there are none but itself.
        (vec![label(&[(0.75, true), (0.5, false)], 1)], vec![Some(0.531_25)]),
    ];
    for (labels, expected) in cases {
        for weight in [1e-9, 10.0] {
            let found = thresholds(ThresholdRule::Micromacro, weight, &labels);
            assert_eq!(found, expected, "{labels:?}, {weight}");
        }
        for weight in [0.0, 1e300, f64::MAX] {
            let found = thresholds(ThresholdRule::Micromacro, weight, &labels);
            assert_eq!(found.len(), labels.len(), "{labels:?}, {weight}");
        }
    }
}

/// RTCut, RCut, MCut and PCut on the same scores, document by document.
#[test]
fn rules_of_ranks_of_other_peoples_code() {
    let golden: Value = serde_json::from_str(include_str!("golden/tuning.json")).unwrap();
    let labels = golden["labels"].as_array().unwrap();
    let score = |label: &Value, document: usize| label["scores"][document].as_f64().unwrap();
    let due = |label: &Value, document: usize| label["due"][document] == 1;
    let batch: Vec<Vec<LabelScore>> = (0..40)
        .map(|document| {
            let mut scores: Vec<LabelScore> = (0u32..)
                .zip(labels)
                .map(|(label, scores)| LabelScore { label, score: score(scores, document) })
                .filter(|score| score.score > 0.0)
                .collect();
            scores.sort_by(|a, b| b.score.total_cmp(&a.score));
            scores
        })
        .collect();
    let sizes = labels.iter().map(|label| (0..40).filter(|&d| due(label, d)).count());
    let shares = sizes.clone().map(|size| size as f64 / 40.0).collect();
    for (name, decision) in [
        ("rcut", Decision::First { labels: 2 }),
        ("mcut", Decision::LargestGap),
        ("pcut", Decision::Proportional { factor: 1.0, shares }),
    ] {
        let given = serde_json::to_value(decide_batch(&batch, &decision)).unwrap();
        assert_eq!(given, golden[name], "{name}");
    }
    let values: Vec<LabelScores> = (0u32..)
        .zip(labels)
        .zip(sizes)
        .map(|((label, golden), size)| {
            let mut scores: Vec<(f64, bool)> = Vec::new();
            for (document, of_document) in batch.iter().enumerate() {
                for (rank, found) in of_document.iter().enumerate() {
                    if found.label == label {
                        let value = ThresholdRule::Rtcut.value(found.score, rank);
                        scores.push((value, due(golden, document)));
                    }
                }
            }
            scores.sort_by(|a, b| b.0.total_cmp(&a.0));
            LabelScores { scores, gold: size as u32 }
        })
        .collect();
    same_thresholds("rtcut", &thresholds(ThresholdRule::Rtcut, 0.0, &values), &golden["rtcut"]);
}

/// No allocation and no loop depends on the largest k alone.
#[test]
fn more_neighbors_than_documents() {
    let threads = Threads::new(NonZeroUsize::MIN).unwrap();
    let documents = corpus(60, false);
    let counts = counted(&documents, &threads);
    let sizes = counts.label_sizes();
    let among = counts.training_labels(&sizes);
    let weighted = Weighted::new(&counts, &Fields::Whole, "ltc".parse().unwrap(), &threads);
    let rows: Vec<u32> = (0u32..).take(documents.len()).collect();
    let engines = Engines::cpu(&threads);
    let all = NonZeroUsize::new(documents.len() - 1).unwrap();
    let tuned = |k_max: NonZeroUsize, exclusion: Exclusion<'_>| {
        let found = weighted.leave_one_out(&rows, k_max, exclusion, &engines, &|_| ()).unwrap();
        revote(&found, among, &Grid::full(k_max, false, Objective::MicroF1), &threads)
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

/// One document with 40,000 labels, which is a neighbor of the others: tuning takes time and memory
/// proportional to the labels.
#[test]
fn a_document_of_many_labels() {
    let threads = Threads::new(NonZeroUsize::MIN).unwrap();
    let mut documents = corpus(8, true);
    let labels: Vec<String> = (0..40_000).map(|label| format!("label{label}")).collect();
    documents[3].labels.extend(labels);
    let counts = counted(&documents, &threads);
    let sizes = counts.label_sizes();
    let among = counts.training_labels(&sizes);
    let weighted = Weighted::new(&counts, &Fields::Whole, "ltc".parse().unwrap(), &threads);
    let rows: Vec<u32> = (0u32..).take(documents.len()).collect();
    let k = NonZeroUsize::new(3).unwrap();
    let found = weighted
        .leave_one_out(&rows, k, Exclusion::default(), &Engines::cpu(&threads), &|_| ())
        .unwrap();
    let grid =
        Grid { weights: vec![VoteWeight::Uniform], ..Grid::full(k, true, Objective::MicroF1) };
    let start = Instant::now();
    let tuned = revote(&found, among, &grid, &threads);
    let held_out = HeldOut::new(&found, among, (tuned.best, None), None, &threads);
    calibrate(&held_out, among, &|_| 0.0);
    abstention(&held_out, &held_out.decisions_by_fold(), among, 0.05, &|_| 0.0);
    // Votes are not learned for so many labels.
    assert!(learn_votes(&found, among, &grid, &tuned, &threads).is_empty());
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    assert!(tuned.trials.len() > 3 * 12 && tuned.best.figures.micro_f1 > 0.0);
}

/// The fast search tries all of a small grid; of a large one, a part whose best is nearly the best.
#[test]
fn few_trials_find_nearly_the_best() {
    let threads = Threads::new(NonZeroUsize::new(3).unwrap()).unwrap();
    let one = Threads::new(NonZeroUsize::MIN).unwrap();
    for several in [false, true] {
        let documents = corpus(520, several);
        let counts = counted(&documents, &threads);
        let sizes = counts.label_sizes();
        let among = counts.training_labels(&sizes);
        let ltc = "ltc".parse().unwrap();
        let weighted = Weighted::new(&counts, &Fields::Whole, ltc, &threads);
        let rows: Vec<u32> = (0u32..).take(documents.len()).collect();
        let k_max = NonZeroUsize::new(120).unwrap();
        let found = weighted
            .leave_one_out(&rows, k_max, Exclusion::default(), &Engines::cpu(&threads), &|_| ())
            .unwrap();
        for objective in
            [Objective::MicroF1, Objective::MacroF1, Objective::Accuracy, Objective::MicroMacro]
        {
            let full = Grid::full(k_max, several, objective);
            let small = Grid { ks: vec![1, 3, 10, 30, 90], ..full.clone() };
            let (all, fast) = (
                revote(&found, among, &small, &threads),
                tune_votes(&found, among, &small, &threads),
            );
            assert_eq!((fast.best, fast.trials), (all.best, all.trials));
            let all = revote(&found, among, &full, &threads);
            let fast = tune_votes(&found, among, &full, &threads);
            let lost = objective.of(all.best.figures) - objective.of(fast.best.figures);
            assert!((0.0..0.01).contains(&lost), "{objective:?}: {lost}");
            assert!(fast.trials.len() * 4 < all.trials.len(), "{}", fast.trials.len());
            assert!(fast.trials.iter().all(|trial| all.trials.contains(trial)));
            let alone = tune_votes(&found, among, &full, &one);
            assert_eq!((alone.best, alone.trials), (fast.best, fast.trials));
        }
    }
}

/// Features are tried on a part of the sample first; the steps do not depend on the threads.
#[test]
fn features_by_halves() {
    let documents = corpus(2_200, true);
    let k_max = NonZeroUsize::new(15).unwrap();
    let free = FreeFeatures { selection: false, ..FreeFeatures::default() };
    let tuned = |threads: usize| {
        let threads = Threads::new(NonZeroUsize::new(threads).unwrap()).unwrap();
        let options = TrainOptions {
            tuning: Some(TuneOptions { sample: 2_100, k_max, free, ..TuneOptions::default() }),
            ..TrainOptions::default()
        };
        let trainer = Trainer::new(options, Engines::cpu(&threads));
        let mut documents = documents.iter().cloned().map(Ok);
        trainer.train(&mut documents, "documents", &|_| ()).unwrap().tuning.unwrap()
    };
    let report = tuned(1);
    let whole = |step: &&Step| step.documents == 2_100;
    let (all, part) = (report.features.len(), report.features.iter().filter(|s| !whole(s)).count());
    assert!(part > 5 && all - part > 5, "{part} of {all}");
    for step in report.features.iter().filter(|step| !whole(step)) {
        assert!(step.documents.abs_diff(420) < 20 && !step.kept, "{step:?}");
    }
    // An exponent of 1.5 only where 1 is better than 0.5.
    let tried = |what: &str| {
        let of_kind = |step: &&Step| step.change.ends_with(what);
        report.features.iter().filter(of_kind).collect::<Vec<_>>()
    };
    let exponents = ["idf power 0.5", "idf power 1", "idf power 1.5"].map(|what| tried(what).len());
    assert!(exponents[2] < exponents[0], "{exponents:?}");
    assert_eq!(tuned(3).features, report.features);
}

/// Where learned weights of terms gain most with all steps, fewer steps are tried until they are worse.
#[test]
fn fewer_steps_only_as_long_as_they_are_better() {
    let mut random = Random::new(11);
    // A sixth of the words tell the subject, most of the time.
    let texts = (0..2_000).map(|number| {
        let subject = random.below(6);
        let mut text = String::new();
        for word in 0..12 {
            if word % 6 == 0 {
                let told = if random.below(3) > 0 { subject } else { random.below(6) };
                write!(text, "subject{told}word{} ", random.below(8)).unwrap();
            } else {
                write!(text, "common{} ", random.below(60)).unwrap();
            }
        }
        document(number, Content::Text(text), vec![format!("subject{subject}")])
    });
    let free = FreeFeatures {
        analyzer: false,
        chi2_power: false,
        selection: false,
        ..FreeFeatures::default()
    };
    let k_max = NonZeroUsize::new(30).unwrap();
    let tuning = TuneOptions { k_max, free, ..TuneOptions::default() };
    let options = TrainOptions { tuning: Some(tuning), ..TrainOptions::default() };
    let threads = Threads::new(NonZeroUsize::new(2).unwrap()).unwrap();
    let trainer = Trainer::new(options, Engines::cpu(&threads));
    let result = trainer.train(&mut texts.map(Ok), "documents", &|_| ()).unwrap();
    let steps = result.tuning.unwrap().features;
    let learned = steps.iter().filter(|step| step.change.starts_with("learned weights of terms"));
    let kept: Vec<(&str, bool)> = learned.map(|step| (&*step.change, step.kept)).collect();
    let of_steps = |steps: u32| format!("learned weights of terms, {steps} steps");
    assert_eq!(kept, [(&*of_steps(20), true), (&*of_steps(10), false)]);
}

/// The same documents in another order: the same are drawn, and each is in the same fold.
#[test]
fn samples_and_folds_are_those_of_any_order() {
    let threads = Threads::new(NonZeroUsize::MIN).unwrap();
    let told = |documents: &[Document]| {
        let counts = counted(documents, &threads);
        let sizes = counts.label_sizes();
        let among = counts.training_labels(&sizes);
        let ltc = "ltc".parse().unwrap();
        let weighted = Weighted::new(&counts, &Fields::Whole, ltc, &threads);
        let hashes = hashes((&**weighted.documents()).into(), &among, &threads);
        let (drawn, folds) = (drawn(&hashes, 300), folds(&among, &hashes, 5));
        assert_eq!(drawn.len(), 300);
        let mut told: Vec<_> = (0u32..)
            .zip(documents.iter().zip(folds))
            .map(|(row, (document, fold))| {
                let is_drawn = drawn.binary_search(&row).is_ok();
                (format!("{:?}", document.content), document.labels.clone(), is_drawn, fold)
            })
            .collect();
        told.sort();
        told
    };
    let mut documents = corpus(900, true);
    let before = told(&documents);
    documents.reverse();
    assert_eq!(told(&documents), before);
    documents.sort_by(|a, b| a.labels.cmp(&b.labels));
    assert_eq!(told(&documents), before);
}

/// The same documents in another order: the same documents are left out, in the same folds, so the same features
/// are chosen. Only neighbors of equal similarity come in another order.
#[test]
fn the_order_of_documents_does_not_matter() {
    let mut documents = corpus(1_500, false);
    let tuned = |documents: &[Document], tuning: TuneOptions| {
        let options = TrainOptions { tuning: Some(tuning), ..TrainOptions::default() };
        let trainer = Trainer::new(options, Engines::cpu(&Threads::available().unwrap()));
        let mut documents = documents.iter().cloned().map(Ok);
        trainer.train(&mut documents, "documents", &|_| ()).unwrap()
    };
    let k_max = NonZeroUsize::new(15).unwrap();
    let all = TuneOptions { sample: 600, k_max, ..TuneOptions::default() };
    let quick = TuneOptions { sample: 300, ..TuneOptions::quick() };
    let before = [all, quick].map(|tuning| tuned(&documents, tuning));
    documents.sort_by(|a, b| a.labels.cmp(&b.labels).then(b.id.cmp(&a.id)));
    let after = [all, quick].map(|tuning| tuned(&documents, tuning));
    for (before, after) in before.iter().zip(&after) {
        let (a, b) = (before.model.settings(), after.model.settings());
        assert_eq!((a.weighting, a.selection, &a.input), (b.weighting, b.selection, &b.input));
        let accuracy = |trained: &Trained| trained.tuning.as_ref().unwrap().figures.accuracy;
        let more = (accuracy(before) - accuracy(after)).abs();
        assert!(more < 0.02, "{} and {}", accuracy(before), accuracy(after));
    }
    let steps = |trained: &Trained| {
        let steps = &trained.tuning.as_ref().unwrap().features;
        steps.iter().map(|step| step.documents).collect::<Vec<_>>()
    };
    assert_eq!(steps(&before[0])[0], 600);
    assert_eq!(before[1].tuning.as_ref().unwrap().documents, 300);
}

/// By default k and vote are chosen by leaving out some documents, unless flags set them or there are few.
#[test]
fn quick_choices() {
    let threads = Threads::available().unwrap();
    let trained = |documents: &[Document], options: TrainOptions| {
        let mut documents = documents.iter().cloned().map(Ok);
        let trainer = Trainer::new(options, Engines::cpu(&threads));
        trainer.train(&mut documents, "documents", &|_| ()).unwrap()
    };
    // Pairs of documents of a topic, of 300 topics: 30 neighbors know nothing.
    let mut random = Random::new(8);
    let pairs: Vec<Document> = (0..600)
        .map(|number| {
            let topic = number / 2;
            let words = (0..6)
                .map(|_| format!("topic{topic}word{} common{} ", random.below(3), random.below(9)));
            document(number, Content::Text(words.collect()), vec![format!("label{topic}")])
        })
        .collect();
    let quick = TuneOptions { near_duplicates: NearDuplicateLimit::Off, ..TuneOptions::quick() };
    let chosen = trained(&pairs, TrainOptions { tuning: Some(quick), ..TrainOptions::default() });
    let report = chosen.tuning.unwrap();
    assert!(report.figures.accuracy > 0.9 && report.scope == TuneScope::Quick, "{report:?}");
    assert!(report.text(3).contains("chosen by leaving out 600 documents"));
    let fixed = |options: TrainOptions| trained(&pairs, options).tuning.is_none();
    let (k, vote) = (NonZeroUsize::new(3), Some(VoteWeight::Uniform.into()));
    assert!(fixed(TrainOptions { tuning: None, ..TrainOptions::default() }));
    assert!(fixed(TrainOptions { k, vote, ..TrainOptions::default() }));
    let threshold = DecisionOptions { threshold: Some(0.2), ..DecisionOptions::default() };
    assert!(fixed(TrainOptions { decision: threshold, ..TrainOptions::default() }));
    let half = trained(&pairs, TrainOptions { k, ..TrainOptions::default() });
    assert_eq!(half.model.settings().k.get(), 3);
    assert!(half.tuning.is_some());
    assert!(trained(&pairs[..99], TrainOptions::default()).tuning.is_none());
}

/// Trials that run beside each other give the steps of one thread.
#[test]
fn trials_beside_each_other() {
    let mut documents = corpus(1_300, false);
    // So many terms that their values are computed by several threads.
    for (number, document) in documents.iter_mut().enumerate() {
        if let Content::Text(text) = &mut document.content {
            write!(text, "own{} of{}", number / 2, number % 650).unwrap();
        }
    }
    let tuned = |threads: usize| {
        let threads = Threads::new(NonZeroUsize::new(threads).unwrap()).unwrap();
        let k_max = NonZeroUsize::new(15).unwrap();
        let tuning = TuneOptions { k_max, ..TuneOptions::default() };
        let options = TrainOptions { tuning: Some(tuning), ..TrainOptions::default() };
        let trainer = Trainer::new(options, Engines::cpu(&threads));
        let mut documents = documents.iter().cloned().map(Ok);
        let result = trainer.train(&mut documents, "documents", &|_| ()).unwrap();
        assert!(result.model.settings().counts.terms > 500);
        result.tuning.unwrap().features
    };
    assert_eq!(tuned(8), tuned(1));
}

/// Documents of a mislabeled source mislead: their votes become worth less, the
/// same whatever the threads. What tuning saw is what the model does.
#[test]
fn votes_that_mislead_become_worth_less() {
    let wrong = |number: usize| number.is_multiple_of(3);
    for several in [false, true] {
        let mut documents = corpus(600, several);
        for (number, document) in documents.iter_mut().enumerate().filter(|(n, _)| wrong(*n)) {
            document.labels = vec![format!("subject{}", number % 5)];
        }
        let threads = Threads::new(NonZeroUsize::new(3).unwrap()).unwrap();
        let counts = counted(&documents, &threads);
        let sizes = counts.label_sizes();
        let among = counts.training_labels(&sizes);
        let ltc = "ltc".parse().unwrap();
        let weighted = Weighted::new(&counts, &Fields::Whole, ltc, &threads);
        let rows: Vec<u32> = (0u32..).take(documents.len()).collect();
        let k_max = NonZeroUsize::new(60).unwrap();
        let engines = Engines::cpu(&threads);
        let none = Exclusion::default();
        let found = weighted.leave_one_out(&rows, k_max, none, &engines, &|_| ()).unwrap();
        let grid = Grid::coarse(k_max, several, Objective::MicroF1);
        let tuned = revote(&found, among, &grid, &threads);
        let trials = learn_votes(&found, among, &grid, &tuned, &threads);
        let (best, how) = trials[0];
        assert!(best.figures.micro_f1 > tuned.best.figures.micro_f1 - 0.01, "{best:?}");
        let one = Threads::new(NonZeroUsize::MIN).unwrap();
        assert_eq!(learn_votes(&found, among, &grid, &tuned, &one), trials);
        // More neighbors are tried only as long as these gain.
        let mut by_k: Vec<(usize, f64)> = trials
            .iter()
            .filter(|(_, how)| !how.others && how.penalty >= 1.0)
            .map(|(trial, _)| (trial.k, trial.figures.micro_f1))
            .collect();
        by_k.sort_by_key(|&(k, _)| k);
        let gaining = &by_k[..by_k.len() - 1];
        assert!(gaining.is_sorted_by(|a, b| a.1 < b.1), "{by_k:?}");
        // The figures are those of the held-out decisions.
        let held_out = HeldOut::new(&found, among, (best, None), Some(how), &threads);
        assert!(close(held_out.decision().1, best.figures), "{:?} {best:?}", held_out.decision().1);
        let own = VoteLearning { others: false, ..how };
        let votes = learned_votes(&found, among, &best, own, &threads).unwrap();
        let mean = |of_wrong: bool| {
            let rows = rows.iter().filter(|&&row| wrong(row as usize) == of_wrong);
            let worths: Vec<f32> = rows.flat_map(|&row| votes.of(row)).map(|of| of.worth).collect();
            worths.iter().sum::<f32>() / worths.len() as f32
        };
        // With several labels, other labels of the right documents are doubted too.
        if !several {
            assert!(mean(true) + 0.03 < mean(false), "{} {}", mean(true), mean(false));
        }
    }
}

/// Labels that have nothing to do with the texts: terms weighted by them must not make left-out documents
/// look easy. Where the labels of left-out documents tell too, they do.
#[test]
fn terms_do_not_know_the_labels_that_they_are_judged_by() {
    let mut random = Random::new(11);
    let documents: Vec<Document> = (0..800)
        .map(|number| {
            let words = (0..15).map(|_| format!("word{} ", random.below(1_500)));
            let text: String = words.collect::<Vec<_>>().concat();
            document(number, Content::Text(text), vec![format!("label{}", random.below(2))])
        })
        .collect();
    let threads = Threads::new(NonZeroUsize::new(2).unwrap()).unwrap();
    let weighting = "ltc".parse::<Weighting>().unwrap().with_chi2_power(0.5).unwrap();
    let tuning = TuneOptions { scope: TuneScope::Votes, ..TuneOptions::default() };
    let options = TrainOptions { weighting, tuning: Some(tuning), ..TrainOptions::default() };
    let trainer = Trainer::new(options, Engines::cpu(&threads));
    let mut documents = documents.into_iter().map(Ok);
    let found = trainer.train(&mut documents, "made", &|_| ()).unwrap();
    let report = found.tuning.unwrap();
    assert!(report.nested);
    // The best of many settings owes a little to chance, too.
    assert!(report.figures.accuracy < 0.6, "{:?}", report.figures);
}
