//! `classify explain`.

use serde_json::Value;
use testkit::{Messages, text};

use crate::{TEST, ok, refused, run_with, trained_model};

#[test]
fn explains_predictions() {
    let (folder, model) = trained_model(&["--keep-text"]);
    let asked = ["explain", text(&model), "--text", "tighten the derailleur cable, zorbify"];
    let run = ok(&asked);
    for words in ["cycling (labels with", "* cycling  score", "for: cable", "s005", "zorbify"] {
        assert!(run.out.contains(words), "{words}: {}", run.out);
    }
    let json = ok(&[&asked[..], &["--to", "jsonl"]].concat()).out;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["labels"][0], "cycling");
    let first = &json["neighbors"][0];
    let terms = first["terms"].as_array().unwrap().iter();
    let sum: f64 = terms.map(|term| term["part"].as_f64().unwrap()).sum();
    assert!((sum - first["similarity"].as_f64().unwrap()).abs() < 1e-6);
    assert!(first["text"].as_str().unwrap().contains("derailleur"));
    let all = ok(&["explain", text(&model), TEST, "--neighbors", "1"]).out;
    assert_eq!(all.matches("neighbors (1 of").count(), 83);
    let page = ok(&["explain", text(&model), TEST, "--to", "html"]).out;
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    assert_eq!(page.matches("<section>").count(), 83);
    let with = ok(&["predict", text(&model), TEST, "--with", "explanation,scores"]).out;
    let plain = ok(&["predict", text(&model), TEST, "--with", "scores"]).out;
    let explained = ok(&["explain", text(&model), TEST, "--to", "jsonl"]).out;
    for ((with, plain), explained) in with.lines().zip(plain.lines()).zip(explained.lines()) {
        let mut with: Value = serde_json::from_str(with).unwrap();
        let explanation = with.as_object_mut().unwrap().remove("explanation").unwrap();
        assert_eq!(explanation, serde_json::from_str::<Value>(explained).unwrap());
        assert_eq!(with, serde_json::from_str::<Value>(plain).unwrap());
    }
    // Documents before a malformed document are answered.
    let lines = b"{\"text\": \"tighten the cable\"}\n{\"text\": 7}\n";
    let some = run_with(&["predict", text(&model), "-", "--with", "explanation"], lines);
    assert_eq!((some.code, some.out.lines().count()), (3, 1));
    let mut messages = Messages::new(folder.path());
    refused(&mut messages, 2, &["explain", text(&model), "--rule", "pcut"]);
    insta::assert_snapshot!(messages);
}
