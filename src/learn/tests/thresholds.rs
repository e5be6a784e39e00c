//! Compares thresholds with reference implementations.

use serde_json::Value;

use crate::decide::decision::{Decision, ThresholdRule, decide_batch};
use crate::decide::vote::LabelScore;
use crate::learn::thresholds::{LabelScores, thresholds};

/// Returns the scores of labels from the golden file.
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
fn thresholds_equal_reference_implementations() {
    let golden: Value =
        serde_json::from_str(include_str!("../../../tests/golden/tuning.json")).unwrap();
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
    // More labels than one neighborhood contains.
    let found = thresholds(ThresholdRule::ScutSmoothed, 10.0, &rare);
    same_thresholds("rare, smoothed", &found, &golden["rare_scut_smoothed"]);
    let found = thresholds(ThresholdRule::Micromacro, 10.0, &rare);
    same_thresholds("rare, both smoothed", &found, &golden["rare_micromacro_smoothed"]);
}

/// Edge cases: no label, labels without scores, without documents and with one document, and large
/// weights.
#[test]
fn smoothed_thresholds_of_few_documents() {
    let label = |scores: &[(f64, bool)], gold| LabelScores { scores: scores.to_vec(), gold };
    let cases: [(Vec<LabelScores>, Vec<Option<f64>>); 5] = [
        (vec![], vec![]),
        (vec![label(&[], 0)], vec![None]),
        (vec![label(&[], 3), label(&[], 1)], vec![None, None]),
        // A label that is never correct is never predicted.
        (vec![label(&[(0.9, false), (0.5, false)], 2)], vec![None]),
        // A label of one document is averaged with its neighborhood, which here contains only
        // itself.
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
fn rank_rules_equal_reference_implementations() {
    let golden: Value =
        serde_json::from_str(include_str!("../../../tests/golden/tuning.json")).unwrap();
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
