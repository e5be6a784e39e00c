//! Tests of training, and the corpora that they share. Leave-one-out metrics must equal the metrics
//! with each document really removed. Thresholds must equal the results of reference
//! implementations.

#![expect(clippy::cast_possible_truncation, reason = "the numbers of a test are small")]

use super::held_out_scores::ChosenVote;
use super::votes::Trial;
use crate::decide::objective::Metrics;
use crate::model::InputSpec;
use crate::random::Random;
use crate::text::corpus::{Content, Document, Place};
use crate::text::counts::{CountOptions, Counts, Fields};
use crate::threads::Threads;

mod held_out;
mod thresholds;
mod training;

/// Documents about one to three of seven subjects, the last of which is rare. Some documents occur
/// twice, one has only terms of its own, and one has no label.
pub(super) fn corpus(documents: usize, multi_label: bool) -> Vec<Document> {
    let mut random = Random::new(if multi_label { 3 } else { 5 });
    let mut corpus: Vec<Document> = Vec::new();
    for number in 0..documents {
        let mut labels = Vec::new();
        for _ in 0..if multi_label { 1 + random.below(3) } else { 1 } {
            let subject = if random.below(40) == 0 { 6 } else { random.below(6) };
            labels.push(format!("subject{subject}"));
        }
        labels.sort();
        labels.dedup();
        let mut text = String::new();
        for _ in 0..4 + random.below(12) {
            let about = &labels[random.below(labels.len())];
            let word = random.below(12);
            // All subjects share half of the words.
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

pub(super) fn document(number: usize, content: Content, labels: Vec<String>) -> Document {
    let weight = if number.is_multiple_of(7) { 2.0 } else { 1.0 };
    let place = Place { source: "made".into(), line: None };
    Document { id: number.to_string(), content, labels, weight, vector: None, group: None, place }
}

pub(super) fn counted(documents: &[Document], threads: &Threads) -> Counts {
    let input = InputSpec::default().counting(&Fields::Whole);
    let mut documents = documents.iter().cloned().map(Ok);
    Counts::read(&mut documents, &CountOptions::new(&input), threads, &|_| ()).unwrap()
}

/// Computes micro and macro F1 and accuracy by a simple, slow method.
pub(super) fn metrics(due: &[Vec<u32>], given: &[Vec<u32>], labels: usize) -> Metrics {
    let count = |label: u32, a: &[Vec<u32>], b: &[Vec<u32>], both: bool| {
        let pairs = a.iter().zip(b);
        pairs.filter(|(a, b)| a.contains(&label) && b.contains(&label) == both).count() as f64
    };
    let mut right = 0.0;
    let mut wrong = 0.0;
    let mut macro_sum = 0.0;
    for label in (0u32..).take(labels) {
        let tp = count(label, due, given, true);
        let errors = count(label, given, due, false) + count(label, due, given, false);
        right += tp;
        wrong += errors;
        macro_sum += if tp + errors > 0.0 { 2.0 * tp / (2.0 * tp + errors) } else { 0.0 };
    }
    let exact = due.iter().zip(given).filter(|(due, given)| {
        let mut given = (*given).clone();
        given.sort_unstable();
        **due == given
    });
    Metrics {
        micro_f1: 2.0 * right / (2.0 * right + wrong),
        macro_f1: macro_sum / labels as f64,
        accuracy: exact.count() as f64 / due.len() as f64,
        by_ranks: None,
    }
}

pub(super) fn close(a: Metrics, b: Metrics) -> bool {
    (a.micro_f1 - b.micro_f1).abs() < 1e-12
        && (a.macro_f1 - b.macro_f1).abs() < 1e-12
        && (a.accuracy - b.accuracy).abs() < 1e-12
}

/// Returns a chosen vote without learned vote weights and prototypes.
fn plain(trial: Trial) -> ChosenVote<'static> {
    ChosenVote { trial, learning: None, prototypes: None }
}
