//! `classify check`.

use std::fmt::Write as _;

use serde_json::Value;
use testkit::{Folder, Messages, sample, text};

use crate::{TRAIN, ok, refused, run};

/// Returns the sample corpus after giving every twentieth document the next document's label, and
/// the identifiers of the documents whose labels changed.
fn with_wrong_labels() -> (String, Vec<String>) {
    let lines = std::fs::read_to_string(sample("train.jsonl")).unwrap();
    let documents: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut changed = Vec::new();
    let mut corpus = String::new();
    for (at, document) in documents.iter().enumerate() {
        let mut document = document.clone();
        let other = &documents[(at + 1) % documents.len()]["labels"];
        if at % 20 == 0 && &document["labels"] != other {
            changed.push(document["id"].as_str().unwrap().to_owned());
            document["labels"] = other.clone();
        }
        let _ = writeln!(corpus, "{document}");
    }
    (corpus, changed)
}

#[test]
fn wrong_labels_come_first() {
    let folder = Folder::new();
    let (corpus, changed) = with_wrong_labels();
    let corpus = folder.write("corpus.jsonl", corpus);
    let list = folder.at("list.jsonl");
    let asked = ["check", text(&corpus), "--mode", "single", "--min-probability", "0%"];
    ok(&[&asked[..], &["-o", text(&list)]].concat());
    let found = std::fs::read_to_string(&list).unwrap();
    let ids: Vec<String> = found
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].as_str().unwrap().into())
        .collect();
    let first = &ids[..changed.len()];
    let right = first.iter().filter(|id| changed.contains(id)).count();
    // By chance, fewer than one would be among the first.
    assert!(right * 3 >= changed.len(), "{right} of {}", changed.len());
    // The number of threads does not change the result.
    let other = folder.at("other.jsonl");
    ok(&[&asked[..], &["-o", text(&other), "-j", "1"]].concat());
    assert_eq!(std::fs::read_to_string(&other).unwrap(), found);
}

#[test]
fn leaks_and_copies_are_found() {
    let folder = Folder::new();
    let mut messages = Messages::new(folder.path());
    let train = std::fs::read_to_string(sample("train.jsonl")).unwrap();
    let first = train.lines().next().unwrap();
    let mut copy: Value = serde_json::from_str(first).unwrap();
    copy["id"] = "copy".into();
    copy["labels"] = serde_json::json!(["astronomy"]);
    let corpus = folder.write("corpus.jsonl", format!("{train}{copy}\n"));
    let test = std::fs::read_to_string(sample("test.jsonl")).unwrap();
    let leaking = folder.write("test.jsonl", format!("{test}{first}\n"));
    let json = folder.at("check.json");
    let csv = folder.at("list.csv");
    let outputs = ["--json", text(&json), "-o", text(&csv)];
    let found = ok(&[&["check", text(&corpus), "--test", text(&leaking)], &outputs[..]].concat());
    messages.add("check corpus --test leaking", &found, 0);
    insta::assert_snapshot!("summary", found.out);
    let check: Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!(check["schema"], "classify.check/1");
    let leaks = check["leaks"]["leaks"].as_array().unwrap();
    assert_eq!(leaks.len(), 1, "{leaks:?}");
    assert!(leaks[0]["similarity"].as_f64().unwrap() > 0.999);
    let cluster = &check["duplicates"]["clusters"][0];
    assert_eq!((&cluster["identical"], &cluster["conflicting"]), (&true.into(), &true.into()));
    assert_eq!(cluster["documents"][1]["id"], "copy");
    let header = std::fs::read_to_string(&csv).unwrap();
    assert!(header.starts_with("id,decision,given,suggested,probability,labels,"), "{header}");
    insta::assert_snapshot!(messages);
}

/// The other documents are in the order of the corpus, from one label only, or like the corpus.
#[test]
fn other_documents_are_compared() {
    let folder = Folder::new();
    let mut messages = Messages::new(folder.path());
    let lines = std::fs::read_to_string(sample("train.jsonl")).unwrap();
    let write = |name: &str, keep: &dyn Fn(usize, &str) -> bool| {
        let kept = lines.lines().enumerate().filter(|(at, line)| keep(*at, line));
        folder.write(name, kept.map(|(_, line)| line).collect::<Vec<_>>().join("\n"))
    };
    let corpus = write("corpus.jsonl", &|at, _| at % 2 == 0);
    let alike = write("alike.jsonl", &|at, _| at % 2 == 1);
    let differs = write("differs.jsonl", &|at, line| at % 2 == 1 && line.contains("cooking"));
    let unlabeled = std::fs::read_to_string(&differs).unwrap();
    let without_label = |line: &str| {
        let document: Value = serde_json::from_str(line).unwrap();
        serde_json::json!({"text": document["text"]}).to_string()
    };
    let unlabeled: Vec<String> = unlabeled.lines().map(without_label).collect();
    let unlabeled = folder.write("unlabeled.jsonl", unlabeled.join("\n"));
    let json = folder.at("check.json");
    let drift = |against| {
        let found =
            ok(&["check", text(&corpus), "--against", text(against), "--json", text(&json)]);
        let check: Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
        (found, check["drift"].clone())
    };
    let (_, same) = drift(&alike);
    assert!(same["test"]["p_value"].as_f64().unwrap() > 0.05, "{same}");
    assert_eq!(same["most_different"], serde_json::json!([]));
    let (_, other) = drift(&differs);
    assert!(other["test"]["p_value"].as_f64().unwrap() <= 0.05, "{other}");
    assert_eq!(other["labels"][0]["name"], "cooking", "{other}");
    assert!(other["right_labels"]["found"].as_f64().unwrap() > 0.5, "{other}");
    let (found, other) = drift(&unlabeled);
    messages.add("check corpus --against unlabeled", &found, 0);
    assert_eq!(other["right_labels"]["found"], Value::Null);
    let page = folder.at("check.html");
    ok(&["check", text(&corpus), "--against", text(&differs), "--html", text(&page)]);
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(page.contains("documents with the label cooking") && page.ends_with("</html>"));
    let empty = folder.write("empty.jsonl", "");
    refused(&mut messages, 3, &["check", text(&corpus), "--against", text(&empty)]);
    refused(&mut messages, 3, &["check", text(&corpus), "--test", "/nonexistent"]);
    insta::assert_snapshot!(messages);
}

#[test]
fn decisions_are_applied() {
    let folder = Folder::new();
    let mut messages = Messages::new(folder.path());
    let line = |id: &str, text: &str, labels: &[&str]| {
        format!("{}\n", serde_json::json!({"id": id, "text": text, "labels": labels}))
    };
    let corpus = line("a", "red apple", &["fruit"])
        + &line("b", "green pear", &["sky"])
        + &line("c", "blue sky", &["sky"])
        + &line("d", "noise", &["sky"]);
    let corpus = folder.write("corpus.jsonl", corpus);
    let list = "\u{FEFF}id;decision;given;suggested;note\na;keep;fruit;sky;\n\
                b;Relabel;sky;fruit;sure\nc;;sky;fruit;\nd;remove;sky;;\n";
    let list = folder.write("list.csv", list);
    let fixed = folder.at("fixed.jsonl");
    let apply = ["check", text(&corpus), "--fixes", text(&list)];
    let done = ok(&[&apply[..], &["--fixed", text(&fixed)]].concat());
    messages.add("check corpus --fixes list --fixed fixed", &done, 0);
    let expected = line("a", "red apple", &["fruit"])
        + &line("b", "green pear", &["fruit"])
        + &line("c", "blue sky", &["sky"]);
    let documents = |text: &str| -> Vec<Value> {
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    assert_eq!(documents(&std::fs::read_to_string(&fixed).unwrap()), documents(&expected));
    let model = folder.at("model");
    ok(&["train", text(&corpus), "-o", text(&model)]);
    let done = ok(&["check", "--fixes", text(&list), "--model", text(&model)]);
    messages.add("check --fixes list --model model", &done, 0);
    let other = folder.at("other");
    ok(&["train", text(&fixed), "-o", text(&other)]);
    let labels = |model| ok(&["predict", model, "--text", "green pear", "-k", "1"]).out;
    assert!(labels(text(&model)).contains("fruit"), "{}", labels(text(&model)));
    // Nothing is changed by wrong decisions.
    let before = std::fs::read(&fixed).unwrap();
    for wrong in [
        "id,decision,given,suggested\nx,remove,,\n",
        "id,decision,given,suggested\nb,relabel,fruit,sky\n",
        "id,decision,given,suggested\nb,relabel,sky,fuit\n",
        "id,decision,given,suggested\nb,delete,sky,fruit\n",
        "id,decision,given,suggested\nb,,sky,fruit\n",
        "id,given,suggested\nb,sky,fruit\n",
        "id,decision\nb,relabel\n",
    ] {
        let list = folder.write("wrong.csv", wrong);
        let apply = ["check", text(&corpus), "--fixes", text(&list), "--fixed", text(&fixed)];
        refused(&mut messages, 3, &apply);
    }
    refused(&mut messages, 2, &apply);
    refused(&mut messages, 2, &[&apply[..], &["--fixed", text(&corpus)]].concat());
    assert_eq!(std::fs::read(&fixed).unwrap(), before);
    insta::assert_snapshot!(messages);
}

#[test]
fn unusual_corpora_are_checked() {
    let folder = Folder::new();
    let mut messages = Messages::new(folder.path());
    let line = |text: &str, labels: &[&str]| {
        format!("{}\n", serde_json::json!({"text": text, "labels": labels}))
    };
    let one = folder.write("one.jsonl", line("a text", &["x"]).repeat(2));
    let two = line("red apple", &["fruit"]) + &line("", &["fruit"]) + &line("blue sky", &["sky"]);
    let two = folder.write("two.jsonl", two);
    let several = line("red apple", &["fruit", "red"]).repeat(3) + &line("blue sky", &["sky"]);
    let several = folder.write("several.jsonl", several);
    for corpus in [&one, &two, &several] {
        messages.add("check corpus", &run(&["check", text(corpus), "-q"]), 0);
    }
    refused(&mut messages, 2, &["check"]);
    refused(&mut messages, 2, &["check", TRAIN, "--min-probability", "150"]);
    refused(&mut messages, 2, &["check", TRAIN, "--to", "csv"]);
    refused(&mut messages, 2, &["check", TRAIN, "--tune-table", "table.json"]);
    refused(&mut messages, 3, &["check", "/nonexistent"]);
    refused(&mut messages, 2, &["check", TRAIN, "-o", TRAIN]);
    insta::assert_snapshot!(messages);
}
