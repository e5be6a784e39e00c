//! Tests that evaluations are formatted as text and pages.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::num::NonZeroUsize;

use classify::classifier::{ClassifyOptions, RawPrediction};
use classify::decide::objective::{Metrics, Objective};
use classify::decide::vote::LabelScore;
use classify::evaluate::{Confusion, Evaluation, Evaluator};
use classify::learn::Trainer;
use classify::model::TuningSummary;
use classify::text::corpus::{Corpus, ReadOptions};
use classify::threads::Threads;
use classify_report::evaluation::{html, markdown, terminal};

/// Evaluates one document with the label `a`. The score of `a` is 0.55; the score of `b` is 0.4.
fn evaluation_of_one_document() -> Evaluation {
    let lines = "{\"text\": \"x\", \"label\": \"a\"}\n{\"text\": \"x\", \"label\": \"b\"}\n";
    let corpus = Corpus::from_bytes("in", lines.into(), ReadOptions::default()).unwrap();
    let threads = Threads::new(NonZeroUsize::MIN).unwrap();
    let model = Trainer::builder().build().train(corpus).unwrap().model;
    let options = ClassifyOptions::of(&model);
    let mut evaluator = Evaluator::new(model.into(), options);
    let prediction = RawPrediction {
        labels: vec![0],
        scores: vec![LabelScore { label: 0, score: 0.55 }, LabelScore { label: 1, score: 0.4 }],
        probabilities: Vec::new(),
        confidence: None,
        neighbors: Vec::new(),
        by_vectors: Vec::new(),
        reason: None,
        unknown_terms: 0,
    };
    evaluator.add("", &["a".to_owned()], &prediction, false);
    evaluator.finish(0, &threads, Vec::new())
}

/// Creates an evaluation with a confusion matrix. For each of `labels` labels, one of four
/// documents got the next label instead.
fn confused_evaluation(labels: u64) -> Evaluation {
    let mut result = evaluation_of_one_document();
    let pair = |label: u64, predicted: u64, count| Confusion {
        label: format!("l{label:02}"),
        predicted: format!("l{predicted:02}"),
        count,
    };
    let pairs =
        (0..labels).flat_map(|label| [pair(label, label, 3), pair(label, (label + 1) % labels, 1)]);
    result.confusion = Some(pairs.collect());
    result
}

#[test]
fn labels_are_rows_of_a_markdown_table() {
    assert!(markdown(&evaluation_of_one_document()).contains("| a "));
}

#[test]
fn a_confusion_matrix_is_shown_if_it_is_small() {
    assert!(terminal(&confused_evaluation(12), false).contains("confusion matrix"));
    assert!(!terminal(&confused_evaluation(13), false).contains("confusion matrix"));
    let page = html(&confused_evaluation(25)).unwrap();
    assert!(page.contains("class=\"matrix\""));
    assert!(!html(&confused_evaluation(26)).unwrap().contains("class=\"matrix\""));
    // Three quarters of each row are correct, and the rest is wrong.
    assert_eq!(page.matches("<td class=\"right\" style=\"--s:75\">3</td>").count(), 25);
    assert_eq!(page.matches("<td class=\"wrong\" style=\"--s:25\">1</td>").count(), 25);
}

#[test]
fn only_bins_with_labels_are_shown() {
    let text = terminal(&confused_evaluation(2), true);
    let table = text.split_once("reliability of the predicted labels").unwrap().1;
    let bins = table.lines().skip(1).take_while(|line| !line.is_empty()).skip(1);
    assert_eq!(bins.count(), 1, "{table}");
    assert!(!text.contains("not shown"));
}

#[test]
fn precision_and_recall_are_drawn_up_to_the_highest_score() {
    let page = html(&confused_evaluation(2)).unwrap();
    let line = page.split("polyline").nth(1).unwrap().split('/').next().unwrap();
    assert_eq!(line.matches(',').count(), 56, "{line}");
}

#[test]
fn a_single_k_has_no_curve() {
    let charts = |by_k: &[(usize, Metrics)]| {
        let mut result = confused_evaluation(2);
        result.tuning = Some(TuningSummary {
            objective: Objective::MicroF1,
            metrics: Metrics::default(),
            intervals: None,
            with_near_duplicates: None,
            cross_validated: None,
            nested: false,
            documents: 1,
            near_duplicates_above: None,
            by_k: by_k.to_vec(),
        });
        html(&result).unwrap().matches("<svg").count()
    };
    let metrics = Metrics { micro_f1: 0.5, macro_f1: 0.5, accuracy: 0.5, by_ranks: None };
    assert_eq!(charts(&[(3, metrics)]), 5);
    assert_eq!(charts(&[(3, metrics), (4, metrics)]), 6);
}
