//! Tests every metric against values that were computed by hand on small examples.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::num::NonZeroUsize;
use std::sync::Arc;

use classify::classifier::{ClassifyOptions, RawPrediction, Reason};
use classify::decide::decision::Decision;
use classify::decide::vote::LabelScore;
use classify::evaluate::{Evaluation, Evaluator};
use classify::learn::{TrainOptions, Trainer};
use classify::model::Model;
use classify::search::Neighbor;
use classify::text::corpus::{Corpus, ReadOptions};
use classify::text::hierarchy::Hierarchy;
use classify::threads::Threads;
use testkit::finish;

/// Trains a model on documents in JSONL.
fn trained(lines: &str, hierarchy: Hierarchy) -> Model {
    let corpus = Corpus::from_bytes("in", lines.to_owned().into(), ReadOptions::default()).unwrap();
    let options = TrainOptions { hierarchy, tuning: None, ..TrainOptions::default() };
    Trainer::builder().options(options).build().train(corpus).unwrap().model
}

/// Returns a model with labels a = 0, b = 1 and c = 2. Label c occurs only in the training
/// documents.
fn model() -> Model {
    let lines = r#"{"text": "x", "label": "a"}
{"text": "x", "label": "b"}
{"text": "y", "label": "c"}
"#;
    trained(lines, Hierarchy::default())
}

fn prediction(labels: &[u32], ranking: &[u32], reason: Option<Reason>) -> RawPrediction {
    let scores = ranking.iter().map(|&label| LabelScore { label, score: 0.5 }).collect();
    RawPrediction {
        labels: labels.to_vec(),
        scores,
        probabilities: Vec::new(),
        confidence: None,
        neighbors: Vec::new(),
        by_vectors: Vec::new(),
        reason,
        unknown_terms: 0,
    }
}

/// Returns a prediction with the given labels and scores.
fn scored(labels: &[u32], scores: &[(u32, f64)], neighbors: usize) -> RawPrediction {
    let scores = scores.iter().map(|&(label, score)| LabelScore { label, score }).collect();
    let neighbors = (0..).take(neighbors).map(|_| Neighbor { row: 0, similarity: 0.5 }).collect();
    let labels = labels.to_vec();
    RawPrediction {
        by_vectors: Vec::new(),
        labels,
        scores,
        probabilities: Vec::new(),
        confidence: None,
        neighbors,
        reason: None,
        unknown_terms: 0,
    }
}

fn evaluated(decision: Decision, rows: &[(&[&str], RawPrediction, bool)]) -> Evaluation {
    let model = model();
    let threads = Threads::new(NonZeroUsize::MIN).unwrap();
    let options = ClassifyOptions { decision, ..ClassifyOptions::of(&model) };
    let mut evaluator = Evaluator::new(Arc::new(model), options);
    for (labels, prediction, tied) in rows {
        let labels: Vec<String> = labels.iter().map(|&label| label.to_owned()).collect();
        evaluator.add("", &labels, prediction, *tied);
    }
    evaluator.finish(0, &threads, Vec::new())
}

fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-12, "{found}, expected {expected}");
}

#[test]
fn single_label() {
    let rows: [(&[&str], RawPrediction, bool); 5] = [
        (&["a"], prediction(&[0], &[0, 1], None), false),
        (&["a"], prediction(&[1], &[1, 0], None), true),
        (&["b"], prediction(&[1], &[1], None), false),
        (&["new"], prediction(&[0], &[0, 1, 2], None), false),
        (&["b"], prediction(&[], &[], Some(Reason::NoKnownTerm)), false),
    ];
    let result = evaluated(Decision::Single, &rows);
    close(result.accuracy.unwrap(), 2.0 / 5.0);
    close(result.subset_accuracy, 2.0 / 5.0);
    // Number of wrong decisions per document: 0, 2, 0, 2 and 1, of 5 documents × 4 labels.
    close(result.hamming_loss, 5.0 / 20.0);
    // a: tp 1, fp 1, fn 1; b: tp 1, fp 1, fn 1; c: nothing; new: fn 1.
    close(result.micro.precision, 2.0 / 4.0);
    close(result.micro.recall, 2.0 / 5.0);
    close(result.micro.f1, 4.0 / 9.0);
    close(result.macro_all.f1, (0.5 + 0.5 + 0.0) / 3.0);
    close(result.macro_present.f1, (0.5 + 0.5 + 0.0) / 3.0);
    close(result.macro_present.precision, 1.0 / 3.0);
    close(result.weighted.recall, (2.0 * 0.5 + 2.0 * 0.5 + 0.0) / 5.0);
    close(result.samples.f1, 2.0 / 5.0);
    close(result.precision_at.one, 2.0 / 5.0);
    close(result.precision_at.three, (1.0 + 1.0 + 1.0) / 3.0 / 5.0);
    assert_eq!(result.documents.tied_at_k, 1);
    assert_eq!(result.documents.no_known_term, 1);
    assert_eq!(
        (result.labels.unseen.as_slice(), result.labels.documents_with_unseen),
        (&["new".to_owned()][..], 1)
    );
    let confusion = result.confusion.as_ref().unwrap();
    assert_eq!(confusion.iter().map(|pair| pair.count).sum::<u64>(), 5);
    assert!(confusion.iter().any(|pair| pair.label == "b" && pair.predicted.is_empty()));
    assert_eq!(result.most_confused.len(), 3);
    let json = serde_json::to_value(&result).unwrap();
    assert_eq!(json["schema"], "classify.evaluation/1");
    close(json["accuracy"].as_f64().unwrap(), 0.4);
    close(json["micro"]["f1"].as_f64().unwrap(), 4.0 / 9.0);
    close(json["macro"]["f1"].as_f64().unwrap(), 1.0 / 3.0);
    close(json["macro_present"]["f1"].as_f64().unwrap(), 1.0 / 3.0);
    assert_eq!(json["per_label"][0]["label"], "a");
    assert_eq!(json["per_label"][0]["support"], 2);
    close(json["precision_at"]["1"].as_f64().unwrap(), 0.4);
}

#[test]
fn multi_label() {
    let decision = Decision::Multi { threshold: 0.4, allow_none: true };
    let rows: [(&[&str], RawPrediction, bool); 3] = [
        (&["a", "b"], prediction(&[0], &[0, 2, 1], None), false),
        (&["b"], prediction(&[1, 2], &[1, 2], None), false),
        (&[], prediction(&[], &[0], None), false),
    ];
    let result = evaluated(decision, &rows);
    assert_eq!(result.accuracy, None);
    close(result.subset_accuracy, 1.0 / 3.0);
    close(result.hamming_loss, 2.0 / 9.0);
    // a: tp 1; b: tp 1, fn 1; c: fp 1.
    close(result.micro.precision, 2.0 / 3.0);
    close(result.micro.recall, 2.0 / 3.0);
    close(result.macro_all.f1, (1.0 + 2.0 / 3.0 + 0.0) / 3.0);
    close(result.macro_present.f1, f64::midpoint(1.0, 2.0 / 3.0));
    close(result.weighted.f1, (1.0 + 2.0 * 2.0 / 3.0) / 3.0);
    // An empty prediction for a document without labels gives 0 / 0, which counts as 0.
    close(result.samples.precision, (1.0 + 0.5 + 0.0) / 3.0);
    close(result.precision_at.three, (2.0 / 3.0 + 1.0 / 3.0) / 3.0);
    assert!(result.most_confused.is_empty(), "b was missed, but no wrong label was predicted");
    assert_eq!(result.documents.unlabeled, 1);
    assert!(serde_json::to_value(&result).unwrap().get("accuracy").is_none());
}

/// Repeated labels in a prediction do not change the counts.
#[test]
fn repeated_labels_count_once() {
    let decision = Decision::Multi { threshold: 0.4, allow_none: true };
    let rows: [(&[&str], RawPrediction, bool); 1] =
        [(&["a", "b", "a"], prediction(&[0, 2, 0], &[0, 2, 1], None), false)];
    let result = evaluated(decision, &rows);
    close(result.micro.precision, 0.5);
    close(result.micro.recall, 0.5);
    close(result.samples.f1, 0.5);
    assert_eq!(result.most_confused.len(), 1);
}

/// A document has 20,000 missed and 20,000 wrong labels. Listing their 4 · 10^8 pairs would exhaust
/// the memory and take far longer than the time limit.
#[test]
fn documents_of_many_labels() {
    finish("metrics of many labels", evaluate_many_labels);
}

fn evaluate_many_labels() {
    let labels = 40_000;
    let names = |from: usize, to: usize| -> Vec<String> {
        (from..to).map(|label| format!("label{label}")).collect()
    };
    let line = |from: usize| {
        let label = names(from, from + labels / 4);
        serde_json::json!({ "text": "x", "label": label }).to_string()
    };
    let lines = [0, 1, 2, 3].map(|quarter| line(quarter * labels / 4));
    let threads = Threads::new(NonZeroUsize::MIN).unwrap();
    let model = trained(&lines.join("\n"), Hierarchy::default());
    let all: Vec<u32> = (0..).take(labels).collect();
    let prediction = prediction(&all, &all, None);
    let options = ClassifyOptions::of(&model);
    let mut evaluator = Evaluator::new(Arc::new(model), options).with_documents();
    evaluator.add("half", &names(labels / 2, labels * 3 / 2), &prediction, false);
    evaluator.add("none", &names(labels, labels * 2), &prediction, false);
    let result = evaluator.finish(0, &threads, Vec::new());
    close(result.micro.precision, 0.25);
    close(result.micro.recall, 0.25);
    assert!(result.most_confused.is_empty());
    assert_eq!(result.worst_errors.len(), 2);
}

/// Each label of a document counts as correct. Equal counts are ordered by name.
#[test]
fn confusion_of_several_labels() {
    let rows: [(&[&str], RawPrediction, bool); 4] = [
        (&["a", "b"], prediction(&[1], &[1], None), false),
        (&["b", "a"], prediction(&[2], &[2], None), false),
        (&["c"], prediction(&[1], &[1], None), false),
        (&["c"], prediction(&[0], &[0], None), false),
    ];
    let result = evaluated(Decision::Single, &rows);
    let confusion = result.confusion.unwrap();
    let pairs: Vec<(&str, &str)> =
        confusion.iter().map(|pair| (pair.label.as_str(), pair.predicted.as_str())).collect();
    assert_eq!(pairs, [("b", "b"), ("b", "c"), ("c", "a"), ("c", "b")]);
}

/// With 100 missed and 100 wrong labels, 10,000 pairs are counted, and the first 20 are shown.
#[test]
fn pairs_are_counted_up_to_a_limit() {
    let line = |label| serde_json::json!({ "text": "x", "label": format!("l{label}") }).to_string();
    let lines: Vec<String> = (100..201).map(line).collect();
    let threads = Threads::new(NonZeroUsize::MIN).unwrap();
    let model = Arc::new(trained(&lines.join("\n"), Hierarchy::default()));
    let missed: Vec<String> = (0..100).map(|label| format!("m{label}")).collect();
    let confused = |wrong: u32| {
        let wrong: Vec<u32> = (0..wrong).collect();
        let decision = Decision::Multi { threshold: 0.4, allow_none: false };
        let options = ClassifyOptions { decision, ..ClassifyOptions::of(&model) };
        let mut evaluator = Evaluator::new(Arc::clone(&model), options);
        evaluator.add("", &missed, &prediction(&wrong, &wrong, None), false);
        evaluator.finish(0, &threads, Vec::new()).most_confused
    };
    let pairs = confused(100);
    assert_eq!((pairs.len(), pairs[0].label.as_str(), pairs[0].count), (20, "m0", 1));
    assert!(confused(101).is_empty());
}

#[test]
fn worst_errors() {
    let decision = Decision::Multi { threshold: 0.4, allow_none: true };
    let error = |score| scored(&[0, 1], &[(0, 0.9), (1, score)], 6);
    let mut rows: Vec<(&[&str], RawPrediction, bool)> = Vec::new();
    // A correct label with a higher score is not reported as the wrong label.
    for _ in 0..51 {
        rows.push((&["a"], error(0.5), false));
    }
    rows.push((&["a"], error(0.6), false));
    rows.push((&["a", "b"], error(0.8), false));
    let model = model();
    let threads = Threads::new(NonZeroUsize::MIN).unwrap();
    let mut options = ClassifyOptions::of(&model);
    options.decision = decision;
    let mut evaluator = Evaluator::new(Arc::new(model), options);
    for (number, (labels, prediction, _)) in rows.iter().enumerate() {
        let labels: Vec<String> = labels.iter().map(|&label| label.to_owned()).collect();
        evaluator.add(&number.to_string(), &labels, prediction, false);
    }
    let result = evaluator.finish(0, &threads, Vec::new());
    let worst = &result.worst_errors;
    assert!(worst.iter().all(|error| error.wrong == "b" && error.neighbors.len() == 5));
    close(worst[0].wrong_score, 0.6);
    // Ties are broken in favor of earlier documents.
    let ids: Vec<usize> = worst.iter().map(|error| error.document.id.parse().unwrap()).collect();
    assert_eq!(ids, [51].into_iter().chain(0..49).collect::<Vec<_>>());
}

#[test]
fn levels_of_a_hierarchy() {
    let lines = r#"{"text": "x", "label": ["a", "top"]}
{"text": "y", "label": ["b", "top"]}
"#;
    let threads = Threads::new(NonZeroUsize::MIN).unwrap();
    let model = trained(lines, Hierarchy::parse("tree", "a\ttop\nb\ttop\n").unwrap());
    let number = |name: &str| (0..).zip(model.labels().iter()).find(|l| l.1 == name).unwrap().0;
    let a = number("a");
    let b = number("b");
    let top = number("top");
    let decision = Decision::Multi { threshold: 0.4, allow_none: true };
    let options = ClassifyOptions { decision, ..ClassifyOptions::of(&model) };
    let mut evaluator = Evaluator::new(Arc::new(model), options);
    let mut add = |label: &str, predicted: &[u32]| {
        evaluator.add("", &[label.to_owned()], &prediction(predicted, predicted, None), false);
    };
    add("a", &[a, top]);
    add("a", &[a, b, top]);
    add("a", &[]);
    let result = evaluator.finish(0, &threads, Vec::new());
    let [first, second] = &result.levels[..] else { panic!("{:?}", result.levels) };
    assert_eq!((first.level, first.labels, second.level, second.labels), (1, 1, 2, 2));
    // top: tp 2, fn 1; a: tp 2, fn 1; b: fp 1.
    close(first.micro.precision, 1.0);
    close(first.micro.recall, 2.0 / 3.0);
    close(second.micro.precision, 2.0 / 3.0);
    close(second.micro.recall, 2.0 / 3.0);
    close(second.macro_all.f1, 0.4);
}
