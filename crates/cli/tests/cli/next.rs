//! `classify next` and `classify bench active`.

use serde_json::Value;
use testkit::{Folder, Messages, sample, text};

use crate::{TRAIN, ok, refused};

/// The documents of the sample's test corpus, without labels.
fn pool(folder: &Folder) -> std::path::PathBuf {
    let lines = std::fs::read_to_string(sample("test.jsonl")).unwrap();
    let without_labels = |line: &str| {
        let document: Value = serde_json::from_str(line).unwrap();
        serde_json::json!({"id": document["id"], "text": document["text"]}).to_string()
    };
    let lines: Vec<String> = lines.lines().map(without_labels).collect();
    folder.write("pool.jsonl", lines.join("\n"))
}

#[test]
fn documents_are_proposed() {
    let folder = Folder::new();
    let pool = pool(&folder);
    let model = folder.at("model");
    ok(&["train", TRAIN, "-o", text(&model)]);
    let list = folder.at("list.jsonl");
    let asked = ["next", text(&model), text(&pool), "-n", "5"];
    let shown = ok(&asked).out;
    ok(&[&asked[..], &["-o", text(&list)]].concat());
    let found = std::fs::read_to_string(&list).unwrap();
    let lines: Vec<Value> = found.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 5);
    for line in &lines {
        assert!(shown.contains(line["id"].as_str().unwrap()), "{shown}");
        assert_eq!(line["labels"], "");
        assert!(line["uncertainty"].as_f64().unwrap() > 0.0);
    }
    // The number of threads does not change the result.
    let other = folder.at("other.jsonl");
    ok(&[&asked[..], &["-o", text(&other), "-j", "1"]].concat());
    assert_eq!(std::fs::read_to_string(&other).unwrap(), found);
    let csv = folder.at("list.csv");
    ok(&["next", "--without-model", text(&pool), "-n", "3", "-o", text(&csv)]);
    let csv = std::fs::read_to_string(&csv).unwrap();
    assert!(csv.starts_with("id,labels,suggested,uncertainty,reason,text,place\n"), "{csv}");
    // A document that was labeled and added is not proposed again.
    let mut labeled = lines[0].clone();
    labeled["labels"] = serde_json::json!(["cooking"]);
    let labeled = folder.write("labeled.jsonl", labeled.to_string());
    ok(&["add", text(&model), text(&labeled)]);
    let again = ok(&["next", text(&model), text(&pool), "-n", "1000", "-o", text(&list), "-v"]);
    assert!(
        again.err.contains("1 documents of the pool are in the model already"),
        "{}",
        again.err
    );
    let found = std::fs::read_to_string(&list).unwrap();
    assert!(!found.contains(&format!("{{\"id\":{}", lines[0]["id"])), "{found}");
}

#[test]
fn wrong_paths_are_refused() {
    let folder = Folder::new();
    let mut messages = Messages::new(folder.path());
    let pool = pool(&folder);
    let model = folder.at("model");
    ok(&["train", TRAIN, "-o", text(&model)]);
    let empty = folder.write("empty.jsonl", "");
    refused(&mut messages, 2, &["next", text(&model)]);
    refused(&mut messages, 4, &["next", text(&pool), text(&pool)]);
    refused(&mut messages, 3, &["next", text(&model), text(&empty)]);
    let blank = folder.write("blank.jsonl", "{\"text\": \"\"}\n");
    refused(&mut messages, 3, &["next", text(&model), text(&blank)]);
    insta::assert_snapshot!(messages);
}

#[test]
fn labeling_is_simulated() {
    let folder = Folder::new();
    let json = folder.at("active.json");
    let test = sample("test.jsonl");
    let flags = ["--start", "10", "--batch", "10", "--rounds", "2", "--seeds", "2", "-q"];
    let command = ["bench", "active", TRAIN, "--test", text(&test), "--json", text(&json)];
    let shown = ok(&[&command[..], &flags[..]].concat()).out;
    assert!(shown.contains("random") && shown.contains("margin") && shown.contains("next"));
    let report: Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!(report["labeled"], serde_json::json!([10, 20, 30]));
    assert_eq!(report["ways"][2]["micro_f1"][1].as_array().unwrap().len(), 3);
}
