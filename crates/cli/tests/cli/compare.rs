//! `classify compare`.

use serde_json::Value;
use testkit::{Folder, Messages, text};

use crate::{TEST, TRAIN, ok, read_json, refused};

#[test]
fn comparisons() {
    let folder = Folder::new();
    let mut messages = Messages::new(folder.path());
    let evaluated = |name: &str, extra: &[&str]| {
        let path = folder.at(name);
        let sides = ["evaluate", "--train", TRAIN, "--test", TEST, "--json", text(&path)];
        ok(&[&sides[..], extra].concat());
        path
    };
    let good = evaluated("good.json", &["--per-document"]);
    let same = evaluated("same.json", &["--per-document", "-j", "1"]);
    let bad = evaluated("bad.json", &["--per-document", "--rule", "rcut:3"]);
    let without = evaluated("without.json", &[]);
    let json = folder.at("comparison.json");
    let run = ok(&["compare", text(&good), text(&bad), text(&same), "--json", text(&json)]);
    assert!(run.out.contains("McNemar") && run.out.contains("Wilcoxon"), "{}", run.out);
    let result = read_json(&json);
    let [worse, equal] = [0, 1].map(|at| &result["comparisons"][at]);
    assert!(worse["micro_f1"]["difference"].as_f64().unwrap() < -0.2);
    let p = |value: &Value| value.as_f64().unwrap();
    assert!(p(&worse["micro_f1"]["adjusted"]) < 0.01);
    // By Holm's method, the smaller of two p-values is doubled.
    let twice = 2.0 * p(&worse["micro_f1"]["p_value"]);
    assert!((p(&worse["micro_f1"]["adjusted"]) - twice).abs() < 1e-12);
    assert!((p(&equal["micro_f1"]["p_value"]) - 1.0).abs() < 1e-12);
    assert!((p(&equal["tests"][0]["p_value"]) - 1.0).abs() < 1e-12);
    let gate = ["compare", text(&good), "--fail-if-worse"];
    ok(&[&gate[..], &[text(&same)]].concat());
    refused(&mut messages, 6, &[&gate[..], &[text(&same), text(&bad)]].concat());
    refused(&mut messages, 3, &[&gate[..], &[text(&without)]].concat());
    let other = folder.at("other.json");
    let held_out = ["evaluate", "--train", TRAIN, "--holdout", "30%", "--per-document"];
    ok(&[&held_out[..], &["--json", text(&other)]].concat());
    refused(&mut messages, 3, &[&gate[..], &[text(&other)]].concat());
    refused(&mut messages, 3, &[&gate[..], &[TRAIN]].concat());
    insta::assert_snapshot!(messages);
}
