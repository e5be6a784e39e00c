//! Tests that explanations are formatted as text and pages.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use classify::classifier::Classifier;
use classify::classifier::explain::{Explanation, explain};
use classify::learn::Trainer;
use classify::text::corpus::{Corpus, LabelUse, ReadOptions};
use classify::threads::Threads;
use classify_report::explanation::{page_section, terminal};

const LINES: &str = "{\"text\": \"Crude oil, fresh from the wells\", \"label\": \"a\"}
{\"text\": \"olive oil for cooking\", \"label\": \"b\"}
{\"text\": \"crude jokes\", \"label\": \"c\"}";

fn read(lines: String) -> Corpus {
    let options = ReadOptions { labels: LabelUse::Optional, ..ReadOptions::default() };
    Corpus::from_bytes("in", lines.into(), options).unwrap()
}

fn explanation_of(text: &str) -> (Classifier, Explanation) {
    let model = Trainer::builder().build().train(read(LINES.into())).unwrap().model;
    let classifier = Classifier::new(model.into(), &Threads::available().unwrap()).unwrap();
    let line = serde_json::json!({ "text": text }).to_string();
    let document = read(line).next().unwrap().unwrap();
    let explanation = explain(&classifier, &[document], &classifier.options()).unwrap().remove(0);
    (classifier, explanation)
}

#[test]
fn unknown_terms_are_shown() {
    let (classifier, explanation) = explanation_of("zebra zebra quagga");
    let text = terminal(&explanation, classifier.model(), "a", 5);
    assert!(text.contains("knows none of its terms") && text.contains("zebra quagga"), "{text}");
}

#[test]
fn control_characters_are_escaped_for_a_terminal() {
    let (classifier, explanation) = explanation_of("crude oil");
    let text = terminal(&explanation, classifier.model(), "a\u{1b}", 5);
    assert!(text.starts_with("a\\u{1b}: "), "{text}");
}

#[test]
fn a_page_escapes_the_document() {
    for text in [
        "Crude oil!",
        "",
        "  \u{feff}ÉLÉPHANT\r\n crude\u{301} OIL — oil\u{200d}oil 油油 ",
        "crude crude oil oil <b>oil</b>",
    ] {
        let (classifier, explanation) = explanation_of(text);
        let html = page_section(&explanation, classifier.model(), "<id>", text, 5);
        assert!(!html.contains("<id>") && !html.contains("<b>"), "{html}");
    }
}
