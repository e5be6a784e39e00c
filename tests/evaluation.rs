//! Every measure by hand on a small example of each kind.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::num::NonZeroUsize;

use classify::classifier::{Classifier, Prediction, Reason, train};
use classify::corpus::{Corpus, ReadOptions};
use classify::counts::TermLimits;
use classify::decide::Decision;
use classify::evaluate::{Evaluation, Evaluator, markdown, terminal};
use classify::model::{InputSpec, Model, TrainSettings};
use classify::threads::Threads;
use classify::vote::LabelScore;

/// A model of labels a = 0, b = 1, c = 2; c is in training only.
fn model(decision: Decision) -> Model {
    let lines = "{\"text\": \"x\", \"label\": \"a\"}\n{\"text\": \"x\", \"label\": \"b\"}\n{\"text\": \"y\", \"label\": \"c\"}\n";
    let mut corpus = Corpus::from_bytes("in", lines.into(), ReadOptions::default()).unwrap();
    let settings = TrainSettings::new(InputSpec::default(), decision);
    train(&mut corpus, settings, TermLimits::default(), &Threads::available().unwrap()).unwrap()
}

fn prediction(labels: &[u32], ranking: &[u32], reason: Option<Reason>) -> Prediction {
    let scores = ranking.iter().map(|&label| LabelScore { label, score: 0.5 }).collect();
    let (labels, neighbors) = (labels.to_vec(), Vec::new());
    Prediction { labels, scores, probabilities: Vec::new(), neighbors, reason, unknown_terms: 0 }
}

fn evaluated(decision: Decision, rows: &[(&[&str], Prediction, bool)]) -> Evaluation {
    let model = model(decision.clone());
    let threads = Threads::new(NonZeroUsize::MIN).unwrap();
    let mut classifier = Classifier::new(&model, &threads).unwrap();
    classifier.decision = decision;
    let mut evaluator = Evaluator::new(&classifier);
    for (labels, prediction, tied) in rows {
        let labels: Vec<String> = labels.iter().map(|&label| label.to_owned()).collect();
        evaluator.add("", &labels, prediction, *tied);
    }
    evaluator.finish((30, "similarity".into()), 0, &threads, Vec::new())
}

fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-12, "{found} for {expected}");
}

#[test]
fn single_label() {
    let rows: [(&[&str], Prediction, bool); 5] = [
        (&["a"], prediction(&[0], &[0, 1], None), false),
        (&["a"], prediction(&[1], &[1, 0], None), true),
        (&["b"], prediction(&[1], &[1], None), false),
        (&["new"], prediction(&[0], &[0, 1, 2], None), false),
        (&["b"], prediction(&[], &[], Some(Reason::NoKnownTerm)), false),
    ];
    let result = evaluated(Decision::Single, &rows);
    close(result.accuracy.unwrap(), 2.0 / 5.0);
    close(result.subset_accuracy, 2.0 / 5.0);
    // Wrong decisions: 0, 2, 0, 2, 1 of 5 documents × 4 labels.
    close(result.hamming_loss, 5.0 / 20.0);
    // a: tp 1 fp 1 fn 1; b: tp 1 fp 1 fn 1; c: nothing; new: fn 1.
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
    assert!(terminal(&result, true).contains("confusion matrix"));
    assert!(markdown(&result).contains("| a "));
}

#[test]
fn multi_label() {
    let decision = Decision::Multi { threshold: 0.4, allow_none: true };
    let rows: [(&[&str], Prediction, bool); 3] = [
        (&["a", "b"], prediction(&[0], &[0, 2, 1], None), false),
        (&["b"], prediction(&[1, 2], &[1, 2], None), false),
        (&[], prediction(&[], &[0], None), false),
    ];
    let result = evaluated(decision, &rows);
    assert_eq!(result.accuracy, None);
    close(result.subset_accuracy, 1.0 / 3.0);
    close(result.hamming_loss, 2.0 / 9.0);
    // a: tp 1; b: tp 1 fn 1; c: fp 1.
    close(result.micro.precision, 2.0 / 3.0);
    close(result.micro.recall, 2.0 / 3.0);
    close(result.macro_all.f1, (1.0 + 2.0 / 3.0 + 0.0) / 3.0);
    close(result.macro_present.f1, f64::midpoint(1.0, 2.0 / 3.0));
    close(result.weighted.f1, (1.0 + 2.0 * 2.0 / 3.0) / 3.0);
    // An empty answer to an empty question is 0 / 0, which counts as 0.
    close(result.samples.precision, (1.0 + 0.5 + 0.0) / 3.0);
    close(result.precision_at.three, (2.0 / 3.0 + 1.0 / 3.0) / 3.0);
    assert!(result.most_confused.is_empty(), "b was missed where nothing wrong was given");
    assert_eq!(result.documents.unlabeled, 1);
    assert!(serde_json::to_value(&result).unwrap().get("accuracy").is_none());
}
