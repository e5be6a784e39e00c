//! Tests of `--abstain`: documents without an answer.

use serde_json::Value;
use testkit::{Folder, Messages, Run, text};

use crate::{TRAIN, ok, read_json, refused};

#[test]
fn out_of_distribution_documents_are_refused() {
    let folder = Folder::new();
    let mut messages = Messages::new(folder.path());
    let [model, json, train, test] =
        ["model", "r.json", "train.jsonl", "test.jsonl"].map(|name| folder.at(name));
    // Every label has its own words; out-of-distribution documents share only the common words.
    let mut random = classify::random::Random::new(3);
    let mut line = |label: usize| {
        let own: Vec<String> = (0..6).map(|_| format!("l{label}w{}", random.below(60))).collect();
        let common: Vec<String> = (0..4).map(|_| format!("c{}", random.below(40))).collect();
        let words = [own, common].concat().join(" ");
        format!("{{\"text\": \"{words}\", \"label\": \"l{label}\"}}\n")
    };
    std::fs::write(&train, (0..600).map(|at| line(at % 6)).collect::<String>()).unwrap();
    // The model does not know the last two labels.
    std::fs::write(&test, (0..600).map(|at| line(at % 8)).collect::<String>()).unwrap();
    let test = text(&test);
    let train = ["train", text(&train), "-o", text(&model), "--tune=votes"];
    let tuned = ok(&[&train[..], &["--abstain", "foreign=5%"]].concat());
    let lines = tuned.err.lines().filter(|line| line.contains("out-of-distribution"));
    let err = lines.collect::<Vec<_>>().join("\n");
    messages.add("train --abstain foreign=5%", &Run { err, ..tuned }, 0);
    assert!(ok(&["info", text(&model)]).out.contains("refuses"));
    let foreign = |arguments: &[&str]| {
        ok(&[&["evaluate", text(&model), test, "--json", text(&json)], arguments].concat());
        read_json(&json)["documents"]["foreign"].as_u64().unwrap()
    };
    let count = foreign(&[]);
    assert!((150..=195).contains(&count), "{count} of 150 unknown and 450 known documents");
    assert!(read_json(&json)["foreign"]["foreign_refused"].as_f64().unwrap() > 0.9);
    assert_eq!(foreign(&["--abstain", "off"]), 0);
    let answers = ok(&["predict", text(&model), test]).out;
    let by_reason = answers.lines().filter(|line| {
        let answer: Value = serde_json::from_str(line).unwrap();
        answer["reason"] == "foreign" && answer["labels"] == serde_json::json!([])
    });
    assert_eq!(by_reason.count() as u64, count);
    // A label that is added later has no prototype, so its documents are not refused.
    let mixed =
        "{\"text\": \"guitar bread comet derailleur compiler orbit\", \"labels\": [\"mixture\"]}\n";
    let more = folder.write("more.jsonl", mixed.repeat(6));
    let asked = folder.write("asked.txt", "bread guitar volcano glacier\n");
    let other = folder.at("other.model");
    let train_other = ["train", TRAIN, "-o", text(&other), "--tune=votes", "-k", "5"];
    ok(&[&train_other[..], &["--abstain", "foreign=50%"]].concat());
    assert!(ok(&["info", text(&other)]).out.contains("/prototypes:"));
    assert!(ok(&["predict", text(&other), text(&asked)]).out.contains("\"foreign\""));
    ok(&["add", text(&other), text(&more), "--number-as", "m", "--new-labels"]);
    assert!(ok(&["predict", text(&other), text(&asked)]).out.contains("[\"mixture\"]"));
    // Tuning again keeps the target of the model. Flags can set both targets, or none.
    ok(&["tune", text(&model)]);
    assert!(ok(&["info", text(&model)]).out.contains("refuses"));
    ok(&["tune", text(&model), "--abstain", "target-error=20%,foreign=10%"]);
    let info = ok(&["info", text(&model)]).out;
    assert!(info.contains("target 10.0 %") && info.contains("target 20.0 %"), "{info}");
    ok(&["tune", text(&model), "--abstain", "off"]);
    assert!(!ok(&["info", text(&model)]).out.contains("refuses"));
    for argument in ["foreign=5%,foreign=6%", "foreign", "strange=5%", "foreign=200%"] {
        refused(&mut messages, 2, &[&train[..], &["--abstain", argument]].concat());
    }
    refused(&mut messages, 2, &["train", train[1], "-o", text(&model), "--abstain", "foreign=5%"]);
    // A single label cannot be held out.
    let one = folder.write("one.jsonl", (0..50).map(|_| line(0)).collect::<String>());
    let alone =
        ["train", text(&one), "-o", text(&model), "--tune=votes", "--abstain", "foreign=5%"];
    refused(&mut messages, 2, &alone);
    insta::assert_snapshot!(messages);
}

#[test]
fn probabilities_and_abstaining() {
    let folder = Folder::new();
    let mut messages = Messages::new(folder.path());
    let [model, json, train, test] =
        ["model", "r.json", "train.jsonl", "test.jsonl"].map(|name| folder.at(name));
    // The words of every third document do not depend on its label.
    let lines = |from: usize| -> String {
        let line = |number: usize| {
            let label = ["day", "night"][number / 3 % 2];
            let word = if number.is_multiple_of(3) { "sky" } else { label };
            let numbers = [number % 5, number * 7919 % 101, number * 104_729 % 97];
            let [a, b, c] = numbers;
            format!("{{\"text\": \"{word}{a} sky{b} sky{c}\", \"label\": \"{label}\"}}\n")
        };
        (from..from + 900).map(line).collect()
    };
    std::fs::write(&train, lines(0)).unwrap();
    std::fs::write(&test, lines(900)).unwrap();
    let test = text(&test);
    let train = ["train", text(&train), "-o", text(&model)];
    refused(&mut messages, 2, &[&train[..], &["--abstain", "target-error=5%"]].concat());
    let tuned = ok(&[&train[..], &["--tune=votes", "--abstain", "target-error=5%"]].concat());
    assert!(!tuned.err.contains("out of reach"), "{}", tuned.err);
    let info = ok(&["info", text(&model)]).out;
    assert!(info.contains("calibrated") && info.contains("target 5.0 %"), "{info}");
    ok(&["evaluate", text(&model), test, "--json", text(&json)]);
    let result = read_json(&json);
    let unsure = result["documents"]["abstained"].as_u64().unwrap();
    assert!(unsure.abs_diff(300) < 60, "{unsure}");
    let coverage = result["answered"]["coverage"].as_f64().unwrap();
    assert!((coverage - (900 - unsure) as f64 / 900.0).abs() < 1e-12);
    assert!(result["answered"]["error"].as_f64().unwrap() < 0.05);
    let count = |extra: &[&str]| {
        let answers = ok(&[&["predict", text(&model), test], extra].concat()).out;
        answers.lines().filter(|line| line.contains("\"reason\":\"unsure\"")).count() as u64
    };
    assert_eq!(count(&[]), unsure);
    assert_eq!(count(&["--abstain", "off"]), 0);
    let answers = ok(&["predict", text(&model), test, "--with", "scores"]).out;
    let answer: Value = serde_json::from_str(answers.lines().next().unwrap()).unwrap();
    let probability = answer["probability"].as_f64().unwrap();
    assert!((0.0..=1.0).contains(&probability));
    assert_eq!(answer["scores"][0]["probability"], answer["probability"]);
    // Other votes give other scores, so the learned limits do not apply.
    refused(&mut messages, 2, &["predict", text(&model), test, "-k", "3"]);
    let other = ok(&["predict", text(&model), test, "-k", "3", "--abstain", "off"]).out;
    assert!(!other.contains("probability"));
    // Tuning again keeps the target of the model, unless a flag changes it.
    ok(&["tune", text(&model), "--k-max", "100"]);
    assert!(ok(&["info", text(&model)]).out.contains("target 5.0 %"));
    ok(&["tune", text(&model), "--k-max", "100", "--abstain", "off"]);
    assert!(!ok(&["info", text(&model)]).out.contains("target "));
    // Term limits apply to the whole corpus, not to its first document.
    ok(&[&train[..], &["--tune=votes", "--min-df", "2", "--max-df", "50%"]].concat());
    insta::assert_snapshot!(messages);
}
