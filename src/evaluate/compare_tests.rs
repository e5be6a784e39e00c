//! Tests of the comparison of evaluations.

use std::num::NonZeroUsize;

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::random::Random;

/// For each document, its labels and the labels that each of two runs predicted.
type Documents = Vec<(Vec<u32>, [Vec<u32>; 2])>;

fn outcomes_of(documents: &Documents, run: usize) -> Outcomes {
    let mut outcomes = Outcomes::default();
    for (expected, predicted) in documents {
        outcomes.push(expected, &predicted[run]);
    }
    outcomes
}

fn golden() -> Value {
    serde_json::from_str(include_str!("../../tests/golden/evaluation.json")).unwrap()
}

fn close(a: f64, b: &Value) {
    let b = b.as_f64().unwrap();
    assert!((a - b).abs() < 1e-9, "{a}, not {b}");
}

#[test]
fn an_endless_file_is_rejected() {
    let error = SavedEvaluation::from_limited(std::io::repeat(b' '), 100_000).unwrap_err();
    assert!(error.to_string().contains("a file of more than 100000 bytes"), "{error}");
}

/// The references are scipy's `binomtest`, `ttest_rel` and `wilcoxon`, and statsmodels'
/// `multipletests`.
#[test]
fn agrees_with_scipy_and_statsmodels() {
    let golden = golden();
    let list = |value: &Value| -> Vec<f64> {
        value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
    };
    for case in golden["signs"].as_array().unwrap() {
        close(sign_test(case["a"].as_u64().unwrap(), case["b"].as_u64().unwrap()), &case["p"]);
    }
    for case in golden["pairs"].as_array().unwrap() {
        let differences = list(&case["differences"]);
        close(paired_t(&differences), &case["t"]);
        close(wilcoxon(&differences), &case["wilcoxon"]);
    }
    for case in golden["holm"].as_array().unwrap() {
        let adjusted = holm(&list(&case["p"]));
        for (adjusted, expected) in adjusted.iter().zip(case["adjusted"].as_array().unwrap()) {
            close(*adjusted, expected);
        }
    }
}

#[test]
fn tests_without_differences() {
    assert!((sign_test(0, 0) - 1.0).abs() < 1e-12);
    assert!((paired_t(&[0.0, 0.0]) - 1.0).abs() < 1e-12);
    assert!(paired_t(&[-1.0, -1.0]) <= 0.0, "all differences are equal");
    assert!((wilcoxon(&[0.0]) - 1.0).abs() < 1e-12);
    assert!((wilcoxon(&[]) - 1.0).abs() < 1e-12);
}

/// The references are estimates by scikit-learn and percentiles by numpy, on the same resampled
/// documents.
#[test]
fn bootstrap_agrees_with_numpy() {
    let golden = &golden()["bootstrap"];
    let lists = |value: &Value| -> Vec<Vec<u32>> { serde_json::from_value(value.clone()).unwrap() };
    let number = |key: &str| golden[key].as_u64().unwrap();
    let labels = usize::try_from(number("labels")).unwrap();
    let seed = number("seed");
    let runs: Vec<Outcomes> = (0..2)
        .map(|run| {
            let mut outcomes = Outcomes::default();
            let documents = lists(&golden["gold"]).into_iter().zip(lists(&golden["runs"][run]));
            documents.for_each(|(expected, predicted)| outcomes.push(&expected, &predicted));
            outcomes
        })
        .collect();
    for (run, outcomes) in runs.iter().enumerate() {
        let estimate = outcomes.metrics(0..outcomes.len(), labels).macro_f1;
        close(estimate, &golden["macro_f1"][run]);
        let [low, high] = outcomes.intervals(labels, seed).unwrap().macro_f1;
        close(low, &golden["intervals"][run][0]);
        close(high, &golden["intervals"][run][1]);
    }
    let labels = Labels { trained: labels, all: labels };
    let compared = compare_pair(&runs[0], &runs[1], labels, Resampling { seed, min_count: 0.0 });
    close(compared.macro_f1.interval[0], &golden["difference"][0]);
    close(compared.macro_f1.interval[1], &golden["difference"][1]);
    assert!(compared.macro_f1.p_value > 0.9, "{}", compared.macro_f1.p_value);
}

/// Returns documents with many rare labels. A label of a single document is missing from a third of
/// all replicates.
fn rare_labels(rare_are_right: [bool; 2]) -> (Documents, usize) {
    let mut random = Random::new(3);
    let documents = (0..200u32).map(|document| {
        // 80 documents have a rare label of their own in addition to a frequent one.
        let mut expected = vec![document % 4];
        let mut predicted =
            [(); 2].map(|()| if random.unit() < 0.9 { vec![document % 4] } else { vec![9] });
        if document < 80 {
            expected.push(10 + document);
            for (predicted, right) in predicted.iter_mut().zip(rare_are_right) {
                if right || random.unit() < 0.1 {
                    predicted.push(10 + document);
                }
            }
        }
        (expected, predicted)
    });
    (documents.collect(), 90)
}

#[test]
fn intervals_contain_their_estimate() {
    for rare_are_right in [[false, false], [true, false], [true, true]] {
        let (documents, labels) = rare_labels(rare_are_right);
        for run in 0..2 {
            let outcomes = outcomes_of(&documents, run);
            let estimate = outcomes.metrics(0..outcomes.len(), labels).macro_f1;
            let [low, high] = outcomes.intervals(labels, 1).unwrap().macro_f1;
            // The estimate is well inside the interval, not at one of its ends.
            let width = high - low;
            assert!(
                low + 0.2 * width < estimate && estimate < high - 0.2 * width && width < 0.25,
                "{estimate} in [{low}, {high}]"
            );
        }
    }
}

/// The second run is worse on two frequent labels, but better on five rare labels. The p-value and
/// the interval agree on whether the difference in macro F1 is significant.
#[test]
fn p_value_agrees_with_the_interval() {
    let (mut documents, labels) = rare_labels([false, false]);
    for (document, (expected, predicted)) in documents.iter_mut().enumerate() {
        *predicted = [vec![expected[0]], vec![if document % 10 == 0 { 9 } else { expected[0] }]];
        // Five more rare labels in the second run outweigh the loss on the frequent labels.
        if document % 8 == 1 && document < 40 {
            predicted[1].push(expected[1]);
        }
    }
    let runs = [0, 1].map(|run| outcomes_of(&documents, run));
    let labels = Labels { trained: labels, all: labels };
    let compared =
        compare_pair(&runs[0], &runs[1], labels, Resampling { seed: 0, min_count: 1_000.0 });
    let Difference { difference, interval: [low, high], p_value, .. } = compared.macro_f1;
    assert!(low < difference && difference < high, "{difference} in [{low}, {high}]");
    assert_eq!(p_value < 0.05, !(low <= 0.0 && 0.0 <= high), "{p_value}, [{low}, {high}]");
}

/// A difference in a single document is not significant, even if no document favors the first run.
#[test]
fn one_document_is_not_significant() {
    let mut documents: Documents = (0..50u32)
        .map(|document| (vec![document % 5], [vec![document % 5], vec![document % 5]]))
        .collect();
    documents[7].1[0] = vec![4];
    let runs = [0, 1].map(|run| outcomes_of(&documents, run));
    let labels = Labels { trained: 5, all: 5 };
    let compared =
        compare_pair(&runs[0], &runs[1], labels, Resampling { seed: 0, min_count: 1_000.0 });
    for (name, metric) in compared.differences() {
        assert!(metric.difference > 0.0 && metric.p_value > 0.5, "{name}: {metric:?}");
    }
}

fn documents() -> impl Strategy<Value = Documents> {
    let labels = || prop::collection::vec(0u32..12, 0..4);
    prop::collection::vec((labels(), [labels(), labels()]), 1..30)
}

/// Returns a configuration with `default` cases, unless `PROPTEST_CASES` sets another number.
fn cases(default: u32) -> ProptestConfig {
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    if std::env::var_os("PROPTEST_CASES").is_some() {
        config
    } else {
        ProptestConfig { cases: default, ..config }
    }
}

proptest! {
    #![proptest_config(cases(24))]

    /// The denominator of macro F1 is always the number of labels, regardless of resampling and
    /// predictions.
    #[test]
    fn denominators_are_fixed(documents in documents(), seed: u64) {
        const LABELS: u32 = 8;
        let draw: Vec<usize> = draws(documents.len(), seed, 0).collect();
        for run in 0..2 {
            let outcomes = outcomes_of(&documents, run);
            let metrics = outcomes.metrics(draw.iter().copied(), LABELS as usize);
            let f1 = |label: u32| {
                let count = |expected: bool, predicted: bool| {
                    draw.iter().filter(|&&at| {
                        let (of_document, of_runs) = &documents[at];
                        of_document.contains(&label) == expected
                            && of_runs[run].contains(&label) == predicted
                    }).count() as u64
                };
                Prf::of(count(true, true), count(false, true), count(true, false)).f1
            };
            let mean = (0..LABELS).map(f1).sum::<f64>() / f64::from(LABELS);
            prop_assert!((metrics.macro_f1 - mean).abs() < 1e-12);
        }
    }

    /// Runs with equal decisions differ by exactly 0, in any order of the labels.
    #[test]
    fn equal_runs_do_not_differ(documents in documents(), seed: u64) {
        let labels = Labels { trained: 8, all: 12 };
        let documents: Documents = documents.into_iter().map(|(expected, [mut predicted, _])| {
            predicted.sort_unstable();
            predicted.dedup();
            let reversed = predicted.iter().rev().copied().collect();
            (expected, [predicted, reversed])
        }).collect();
        let runs = [0, 1].map(|run| outcomes_of(&documents, run));
        let draws = Resampling { seed, min_count: 0.0 };
        let compared = compare_pair(&runs[0], &runs[1], labels, draws);
        for (_, metric) in compared.differences() {
            prop_assert_eq!(metric.difference.to_bits(), 0);
            prop_assert_eq!(metric.interval.map(f64::to_bits), [0; 2]);
            prop_assert!(metric.p_value >= 1.0);
        }
        prop_assert!(!compared.is_worse(0.999));
        prop_assert!(compared.tests.iter().all(|test| test.p_value >= 1.0));
    }

    /// Intervals contain their estimates, and exchanging the runs changes only the signs.
    #[test]
    fn intervals_and_signs(documents in documents(), seed: u64) {
        let labels = Labels { trained: 8, all: 12 };
        let runs = [0, 1].map(|run| outcomes_of(&documents, run));
        let draws = Resampling { seed, min_count: 0.0 };
        let forth = compare_pair(&runs[0], &runs[1], labels, draws);
        let back = compare_pair(&runs[1], &runs[0], labels, draws);
        for ((_, forth), (_, back)) in forth.differences().iter().zip(back.differences()) {
            let [low, high] = forth.interval;
            prop_assert!(low <= forth.difference && forth.difference <= high);
            prop_assert!((0.0..=1.0).contains(&forth.p_value));
            prop_assert!((forth.difference + back.difference).abs() < 1e-12);
            let [back_low, back_high] = back.interval;
            prop_assert!((low + back_high).abs() < 1e-9 && (high + back_low).abs() < 1e-9);
            prop_assert!((forth.p_value - back.p_value).abs() < 1e-12);
        }
        for (run, outcomes) in runs.iter().enumerate() {
            let metrics = outcomes.metrics(0..outcomes.len(), labels.trained);
            let found = outcomes.intervals(labels.trained, seed).unwrap();
            for ([low, high], estimate) in [
                (found.micro_f1, metrics.micro_f1),
                (found.macro_f1, metrics.macro_f1),
                (found.accuracy, metrics.accuracy),
            ] {
                let is_ordered = low <= estimate && estimate <= high;
                prop_assert!(0.0 <= low && is_ordered && high <= 1.0, "run {}", run);
            }
        }
    }
}

/// If files have different training labels, all comparisons use the union of their labels.
#[test]
fn labels_of_all_files_count() {
    let file = |labels: &[(&str, u64)], predicted: &str| {
        let labels: Vec<Value> = labels
            .iter()
            .map(|(label, train)| serde_json::json!({ "label": label, "train": train }))
            .collect();
        let document = serde_json::json!({ "id": "1", "labels": ["a"], "predicted": [predicted] });
        let text = serde_json::json!({
            "schema": "classify.evaluation/1", "per_label": labels, "per_document": [document],
        });
        SavedEvaluation::from_json(text.to_string().as_bytes()).unwrap()
    };
    let threads = Threads::new(NonZeroUsize::MIN).unwrap();
    let files = [
        file(&[("a", 5), ("unseen", 0)], "a"),
        file(&[("a", 5), ("b", 1)], "b"),
        file(&[("a", 5), ("c", 1), ("d", 1)], "a"),
    ];
    let compared = compare(&files[0], &files[1..], 0, 0.05, &threads).unwrap();
    // Only label a of the labels a, b, c and d is correct.
    let metrics =
        compared.iter().map(|comparison| (comparison.macro_f1.baseline, comparison.macro_f1.other));
    assert_eq!(metrics.collect::<Vec<_>>(), [(0.25, 0.0), (0.25, 0.25)]);
}

fn loaded(documents: &[(&str, &[&str], &[&str])]) -> SavedEvaluation {
    let documents: Vec<Value> = documents
        .iter()
        .map(|(id, labels, predicted)| {
            serde_json::json!({ "id": id, "labels": labels, "predicted": predicted })
        })
        .collect();
    let text = serde_json::json!({
        "schema": "classify.evaluation/1",
        "per_label": [{ "label": "a", "train": 1 }, { "label": "b", "train": 1 }],
        "per_document": documents,
    });
    SavedEvaluation::from_json(text.to_string().as_bytes()).unwrap()
}

#[test]
fn files_that_cannot_be_compared() {
    let threads = Threads::new(NonZeroUsize::MIN).unwrap();
    let first = loaded(&[("1", &["a"], &["a"]), ("2", &["b"], &["b"])]);
    let error = |other: &SavedEvaluation| {
        let others = [first.clone(), other.clone()];
        compare(&first, &others, 0, 0.05, &threads).unwrap_err()
    };
    let other = error(&loaded(&[("1", &["a"], &["a"]), ("3", &["b"], &["b"])]));
    assert!(matches!(other, (2, CompareError::OtherDocument { number: 2, .. })), "{other:?}");
    let other = error(&loaded(&[("1", &["b"], &["a"]), ("2", &["b"], &["b"])]));
    assert!(matches!(other, (2, CompareError::OtherLabels { number: 1, .. })), "{other:?}");
    let other = error(&loaded(&[("1", &["a"], &["a"])]));
    assert_eq!(other, (2, CompareError::OtherCount { found: 1, expected: 2 }));
    let parsed = |text: &str| SavedEvaluation::from_json(text.as_bytes()).unwrap_err();
    let schema = parsed(r#"{"schema": "else", "per_label": [], "per_document": []}"#);
    assert!(schema.to_string().contains("the schema is `else`"));
    let none = parsed(r#"{"schema": "classify.evaluation/1", "per_label": []}"#);
    assert_eq!(none, CompareError::NoDocuments);
    assert!(matches!(parsed("{}"), CompareError::NotAnEvaluation(_)));
}

/// Decisions that are correct or wrong in both runs do not count. Four decisions are correct only
/// in the first run, and one only in the second run.
#[test]
fn decisions_that_differ() {
    let threads = Threads::new(NonZeroUsize::MIN).unwrap();
    let first = loaded(&[
        ("1", &["a", "b"], &["a", "b"]),
        ("2", &["b"], &["b"]),
        ("3", &["a"], &["a"]),
        ("4", &["a"], &["b"]),
    ]);
    let second = loaded(&[
        ("1", &["a", "b"], &["a"]),
        ("2", &["b"], &["b", "a"]),
        ("3", &["a"], &["b"]),
        ("4", &["a"], &["a", "b"]),
    ]);
    let compared = compare(&first, &[second], 0, 0.05, &threads).unwrap();
    let [signs, documents] = [&compared[0].tests[0], &compared[0].tests[1]];
    let detail = "correct only in the first: 4, only in the other: 1";
    assert!(signs.detail.contains(detail), "{signs:?}");
    assert!(documents.detail.contains("correct only in the first: 3, only in the other: 0"));
    // (1 + 5) · 2 / 2⁵ and 2 / 2³.
    assert!((signs.p_value - 0.375).abs() < 1e-12 && (documents.p_value - 0.25).abs() < 1e-12);
}

/// The number of replicates is large enough for a difference to be significant at a low level with
/// several comparisons.
#[test]
fn small_levels_draw_more_replicates() {
    let threads = Threads::new(NonZeroUsize::MIN).unwrap();
    let file = |predicted: &'static str| {
        let ids: Vec<String> = (0..40).map(|id| id.to_string()).collect();
        let predicted = [predicted];
        let documents: Vec<(&str, &[&str], &[&str])> =
            ids.iter().map(|id| (id.as_str(), &["a"][..], &predicted[..])).collect();
        loaded(&documents)
    };
    let good = file("a");
    let bad = file("b");
    let others = [bad.clone(), bad.clone(), bad];
    let compared = compare(&good, &others, 0, 0.001, &threads).unwrap();
    assert!(compared.iter().all(|comparison| comparison.is_worse(0.001)), "{:?}", compared[0]);
    // An improvement is not worse, and a p-value at the level is not below it.
    let better = compare(&others[0], &[good], 0, 0.05, &threads).unwrap();
    assert!(!better[0].is_worse(0.999));
    let mut edge = compared[0].clone();
    for metric in [&mut edge.micro_f1, &mut edge.macro_f1, &mut edge.accuracy] {
        metric.adjusted = 0.05;
    }
    assert!(!edge.is_worse(0.05) && edge.is_worse(0.051));
}

/// About 80 % of differences as large as the detectable one are found.
#[test]
fn detectable_differences_are_detected() {
    let mut random = Random::new(11);
    // The second run is correct on `more` of the documents on which the first run is wrong.
    let mut comparison = |more: f64| {
        let documents: Documents = (0..400u32)
            .map(|document| {
                let label = document % 4;
                let answer = |right: bool| vec![if right { label } else { 5 }];
                let first = random.unit() < 0.6;
                let second =
                    if random.unit() < 0.2 { random.unit() < 0.6 + 5.0 * more } else { first };
                (vec![label], [answer(first), answer(second)])
            })
            .collect();
        let runs = [0, 1].map(|run| outcomes_of(&documents, run));
        let labels = Labels { trained: 6, all: 6 };
        compare_pair(&runs[0], &runs[1], labels, Resampling { seed: 0, min_count: 100.0 }).accuracy
    };
    let mean = (0..20).filter_map(|_| comparison(0.0).detectable).sum::<f64>() / 20.0;
    let found = (0..100).filter(|_| comparison(mean).p_value < 0.05).count();
    assert!((66..=93).contains(&found), "{found} of 100 at {mean}");
}
