//! Tests of explanations: contributions sum to the similarity, supporting and opposing terms are
//! balanced, and removing the terms that support a label lowers its score.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fmt::Write as _;
use std::num::NonZeroUsize;

use classify::classifier::explain::{ExplainedPrototype, Explanation, explain, marks};
use classify::classifier::{Classifier, Reason};
use classify::learn::{DenseOptions, DenseSource, TrainOptions, Trainer, TuneOptions, TuneScope};
use classify::random::Random;
use classify::search::Engines;
use classify::text::analyze::AnalyzerSpec;
use classify::text::corpus::{Content, Corpus, Document, LabelUse, ReadOptions};
use classify::threads::Threads;

/// Returns documents with three labels, whose words overlap.
fn corpus(documents: usize, seed: u64) -> String {
    let mut random = Random::new(seed);
    let mut lines = String::new();
    for number in 0..documents {
        let label = number % 3;
        let mut words = Vec::new();
        for _ in 0..4 + random.below(20) {
            let is_label_word = random.below(3) > 0;
            let word = random.below(30);
            words.push(if is_label_word {
                format!("w{label}x{word}")
            } else {
                format!("common{word}")
            });
        }
        let more = if number % 7 == 0 { ", \"l9\"" } else { "" };
        let text = words.join(" ");
        let _ = writeln!(lines, "{{\"text\": \"{text}\", \"labels\": [\"l{label}\"{more}]}}");
    }
    lines
}

fn read(lines: &str) -> Corpus {
    let options = ReadOptions { labels: LabelUse::Optional, ..ReadOptions::default() };
    Corpus::from_bytes("made up", lines.to_owned().into(), options).unwrap()
}

fn trained(options: TrainOptions, lines: &str) -> Classifier {
    let threads = Threads::available().unwrap();
    let trainer = Trainer::builder().options(options).engines(Engines::cpu(&threads)).build();
    let model = trainer.train(read(lines)).unwrap().model;
    Classifier::new(model.into(), &threads).unwrap()
}

fn explained(classifier: &Classifier, documents: &[Document]) -> Vec<Explanation> {
    explain(classifier, documents, &classifier.options()).unwrap()
}

/// The score of a label combines the share of its neighbors' votes with the score of its prototype.
/// The sums of the contributions to the margins determine which prototype is nearest.
#[test]
fn contributions_of_prototypes() {
    let tuning = TuneOptions { scope: TuneScope::Votes, ..TuneOptions::default() };
    let k = NonZeroUsize::new(5);
    let options = TrainOptions { tuning: Some(tuning), k, ..TrainOptions::default() };
    let read_file = |path: &str| std::fs::read_to_string(path).unwrap();
    let classifier = trained(options, &read_file("corpora/sample/train.jsonl"));
    let share = classifier.options().vote.prototypes;
    assert!(share > 0.0, "{}", classifier.options().vote);
    let test = read_file("corpora/sample/test.jsonl");
    let documents: Vec<Document> = read(&test).map(Result::unwrap).collect();
    let plain = {
        let mut options = classifier.options();
        options.vote.prototypes = 0.0;
        explain(&classifier, &documents, &options).unwrap()
    };
    let mut labels = 0;
    for (explanation, plain) in explained(&classifier, &documents).iter().zip(&plain) {
        let prototypes: Vec<_> =
            explanation.labels.iter().filter_map(|label| label.prototype.as_ref()).collect();
        assert_eq!(prototypes.len(), explanation.labels.len());
        let margin = |prototype: &ExplainedPrototype| {
            prototype.terms.iter().map(|term| term.contribution).sum::<f64>()
                + f64::from(prototype.constant)
        };
        for (one, other) in prototypes.iter().zip(&prototypes[1..]) {
            let scores = one.score.total_cmp(&other.score);
            assert!(
                (margin(one) - margin(other)).abs() < 1e-5
                    || margin(one).total_cmp(&margin(other)) == scores
            );
        }
        for (label, prototype) in explanation.labels.iter().zip(&prototypes) {
            let votes = plain.labels.iter().find(|other| other.label == label.label).unwrap().score;
            assert!((label.score - (1.0 - share) * votes - share * prototype.score).abs() < 1e-9);
            labels += 1;
        }
    }
    assert!(labels > 40);
}

#[test]
#[expect(clippy::cast_possible_truncation, reason = "the only rounding to f32")]
fn contributions_sum_to_the_similarity_with_every_weighting() {
    let lines = corpus(200, 1);
    let documents: Vec<Document> = read(&corpus(20, 2)).map(Result::unwrap).collect();
    let mut pairs = 0;
    for tf in "nlabLk".chars() {
        for idf in "ntpsk".chars() {
            for norm in "nc".chars() {
                let weighting = format!("{tf}{idf}{norm}").parse().unwrap();
                let options = TrainOptions { weighting, ..TrainOptions::default() };
                let classifier = trained(options, &lines);
                for explanation in explained(&classifier, &documents) {
                    assert_eq!(explanation.neighbors.len(), explanation.prediction.neighbors.len());
                    let votes: f64 = explanation.neighbors.iter().map(|near| near.vote).sum();
                    assert!((votes - 1.0).abs() < 1e-9 || explanation.neighbors.is_empty());
                    for neighbor in &explanation.neighbors {
                        assert!(
                            neighbor.terms.is_sorted_by(|a, b| a.contribution >= b.contribution)
                        );
                        let mut parts = neighbor.terms.clone();
                        parts.sort_by_key(|part| part.term);
                        let sum: f64 = parts.iter().map(|part| part.contribution).sum();
                        assert_eq!((sum as f32).to_bits(), neighbor.similarity.to_bits());
                        pairs += 1;
                    }
                    for label in &explanation.labels {
                        let sum: f64 = label.evidence.iter().map(|part| part.contribution).sum();
                        let share = classifier.label_shares()[label.label as usize];
                        assert!((label.score - share - sum).abs() < 1e-9, "{sum}");
                    }
                }
            }
        }
    }
    assert!(pairs > 10_000, "{pairs}");
}

/// Removing the five terms that support a label most lowers its score more than removing the five
/// terms that support it least.
#[test]
fn terms_that_support_a_label_matter() {
    let classifier = trained(TrainOptions::default(), &corpus(300, 3));
    let model = classifier.model();
    let documents: Vec<Document> = read(&corpus(200, 4)).map(Result::unwrap).collect();
    let term = |id: u32| model.vocabulary().term(id).unwrap();
    let mut strong = 0.0;
    let mut weak = 0.0;
    for (document, explanation) in documents.iter().zip(explained(&classifier, &documents)) {
        let best = &explanation.labels[0];
        let Content::Text(text) = &document.content else { panic!("texts") };
        let without = |terms: Vec<&str>| {
            let rest: Vec<&str> = text.split(' ').filter(|word| !terms.contains(word)).collect();
            let content = Content::Text(rest.join(" "));
            let rest = &explained(&classifier, &[Document { content, ..document.clone() }])[0];
            let score = rest.labels.iter().find(|label| label.label == best.label);
            score.map_or(0.0, |label| label.score)
        };
        let evidence = &best.evidence;
        let count = 5.min(evidence.len() / 2);
        strong += without(evidence[..count].iter().map(|part| term(part.term)).collect());
        let last = &evidence[evidence.len() - count..];
        weak += without(last.iter().map(|part| term(part.term)).collect());
    }
    assert!(strong < 0.9 * weak, "{strong} {weak}");
}

#[test]
fn documents_without_an_answer_are_explained() {
    let classifier = trained(TrainOptions::default(), &corpus(30, 5));
    let fresh = |text: &str| {
        let line = format!("{{\"text\": \"{text}\"}}");
        read(&line).next().unwrap().unwrap()
    };
    let explanations = explained(&classifier, &[fresh("zebra zebra quagga"), fresh("")]);
    assert_eq!(explanations[0].unknown, ["zebra", "quagga"]);
    assert_eq!(explanations[0].prediction.reason, Some(Reason::NoKnownTerm));
    assert!(explanations[0].labels.is_empty() && explanations[0].neighbors.is_empty());
    assert!(explanations[1].unknown.is_empty());
    let json = explanations[1].json(classifier.model(), "b", 5);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["schema"], "classify.explanation/1");
}

#[test]
fn neighbors_by_vectors_have_no_terms() {
    let source = DenseSource::Lsa { dimensions: 8, seed: 0 };
    let dense =
        DenseOptions { source, metric: classify::rows::dense::Metric::default(), with_terms: true };
    let options = TrainOptions { dense: Some(dense), ..TrainOptions::default() };
    let classifier = trained(options, &corpus(60, 6));
    let documents: Vec<Document> = read(&corpus(3, 7)).map(Result::unwrap).collect();
    for explanation in explained(&classifier, &documents) {
        assert!(explanation.neighbors.iter().any(|near| near.by_vector && near.terms.is_empty()));
        assert!(explanation.neighbors.iter().any(|near| !near.by_vector && !near.terms.is_empty()));
        let votes: f64 = explanation.neighbors.iter().map(|near| near.vote).sum();
        assert!((votes - 1.0).abs() < 1e-9);
    }
}

/// The concatenated segments equal the text, and each marked segment is a shared term.
#[test]
fn marks_are_at_the_terms() {
    let lines = "{\"text\": \"Crude oil, fresh from the wells\", \"label\": \"a\"}
{\"text\": \"olive oil for cooking\", \"label\": \"b\"}
{\"text\": \"crude jokes\", \"label\": \"c\"}";
    for options in [
        TrainOptions::default(),
        TrainOptions {
            analyzer: AnalyzerSpec {
                stemmer: Some("english".parse().unwrap()),
                word_ngrams: Some("1-2".parse().unwrap()),
                ..AnalyzerSpec::default()
            },
            ..TrainOptions::default()
        },
        TrainOptions {
            analyzer: AnalyzerSpec {
                char_ngrams: Some("3-4".parse().unwrap()),
                word_ngrams: None,
                ..AnalyzerSpec::default()
            },
            ..TrainOptions::default()
        },
    ] {
        let classifier = trained(options, lines);
        let model = classifier.model();
        for text in [
            "Crude oil!",
            "",
            "  \u{feff}ÉLÉPHANT\r\n crude\u{301} OIL — oil\u{200d}oil 油油 ",
            "crude crude oil oil <b>oil</b>",
        ] {
            let line = serde_json::json!({ "text": text }).to_string();
            let document = read(&line).next().unwrap().unwrap();
            let explanation = &explained(&classifier, std::slice::from_ref(&document))[0];
            let shared: Vec<_> =
                explanation.neighbors.iter().flat_map(|near| near.terms.clone()).collect();
            let segments = marks(model, text, &shared);
            assert_eq!(segments.iter().map(|segment| segment.text).collect::<String>(), text);
            for segment in segments.iter().filter(|segment| segment.term.is_some()) {
                assert!(
                    segment.part.unwrap() > 0.0 && !segment.text.trim().is_empty(),
                    "{segment:?}"
                );
            }
            let marked = segments.iter().filter(|segment| segment.term.is_some()).count();
            assert!(marked > 0 || shared.is_empty(), "{text}: {segments:?}");
        }
    }
}
