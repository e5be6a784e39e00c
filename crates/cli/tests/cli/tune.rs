//! Tests of `classify tune`, and of tuning during training.

use std::path::Path;

use serde_json::Value;
use testkit::{Folder, Messages, text};

use crate::{TEST, TRAIN, ok, read_json, refused};

#[test]
fn tuning() {
    let folder = Folder::new();
    let mut messages = Messages::new(folder.path());
    let [one, two, votes, table] =
        ["one.model", "two.model", "votes.model", "table.json"].map(|name| folder.at(name));
    let train = |model: &Path, threads| {
        ok(&["train", TRAIN, "-o", text(model), "--tune", "--k-max", "30", "-j", threads])
    };
    let steps = train(&one, "1").err;
    train(&two, "2");
    assert_eq!(std::fs::read(&one).unwrap(), std::fs::read(&two).unwrap());
    // Not a snapshot, because the lines contain times.
    assert!(steps.contains("as given") && steps.contains("documents; the best"), "{steps}");
    let info = ok(&["info", text(&one)]).out;
    assert!(info.contains("tuned") && info.contains("cross-validation of the training"), "{info}");

    // Values set by other flags are kept.
    let fixed = ["-k", "7", "--vote", "rank/size^0.2", "--weighting", "lsc", "--tune=votes"];
    ok(&[&["train", TRAIN, "-o", text(&one), "--mode", "single"], &fixed[..]].concat());
    let info = ok(&["info", text(&one)]).out;
    assert!(info.contains("k = 7, vote rank/size^0.2") && info.contains("lsc: "), "{info}");
    refused(&mut messages, 2, &["evaluate", text(&one), TEST, "--tune"]);

    // For an existing model, only k, the vote and the decision rule are tuned.
    ok(&["train", TRAIN, "-o", text(&votes), "--mode", "single"]);
    let before = std::fs::read(&votes).unwrap();
    let tune = ["tune", text(&votes), "--objective", "accuracy", "--tune-table", text(&table)];
    ok(&[&tune[..], &["-o", text(&two)]].concat());
    assert_eq!(std::fs::read(&votes).unwrap(), before, "-o leaves the model alone");
    ok(&tune);
    let info = ok(&["info", text(&votes)]).out;
    assert!(info.contains("the settings were chosen on these few documents"), "{info}");
    assert_eq!(std::fs::read(&votes).unwrap(), std::fs::read(&two).unwrap());
    let table = read_json(&table);
    assert_eq!(table["schema"], "classify.tuning/1");
    let trials = table["trials"].as_array().unwrap();
    // Eight values of k, 12 votes and 4 compensations, then more values of k around the best one.
    assert!((8 * 12 * 4 + 6 * 4..8 * 12 * 4 + 6 * 16 * 4).contains(&trials.len()));
    let best = table["best"]["accuracy"].as_f64().unwrap();
    assert!(trials.iter().all(|trial| trial["accuracy"].as_f64().unwrap() <= best));
    let info = ok(&["info", text(&votes), "--json"]).out;
    let settings: Value = serde_json::from_str(&info).unwrap();
    assert_eq!(settings["k"], table["best"]["k"]);
    assert_eq!(settings["tuning"]["figures"], table["figures"]);

    // Multi-label: thresholds are stored and used.
    ok(&["train", TRAIN, "-o", text(&one), "--mode", "multi"]);
    ok(&["tune", text(&one), "--objective", "macro-f1", "--rule", "scut-smoothed"]);
    assert!(ok(&["info", text(&one)]).out.contains("threshold per label (scut-smoothed)"));
    // Thresholds survive writing and reading, bit for bit.
    classify::model::Model::open(&one).unwrap().save(&two).unwrap();
    assert_eq!(std::fs::read(&one).unwrap(), std::fs::read(&two).unwrap());
    ok(&["evaluate", text(&one), TEST]);

    ok(&["train", TRAIN, "-o", text(&one), "--weighting", "ltc.lnc"]);
    refused(&mut messages, 2, &["tune", text(&one)]);
    // The queries come from stored texts, or from counts computed from rows of BM25. The metrics
    // equal those of training.
    let table = || read_json(&two)["figures"]["micro_f1"].as_f64().unwrap();
    let retuned = |flags: &[&str]| {
        ok(&[&["train", TRAIN, "-o", text(&one)], flags].concat());
        ok(&["tune", text(&one), "--tune-table", text(&two)]);
        table()
    };
    retuned(&["--weighting", "ltc.lnc", "--keep-text"]);
    let retuned = retuned(&["--weighting", "bm25"]);
    let flags = ["--weighting", "bm25", "--tune=votes", "--tune-table", text(&two)];
    ok(&[&["train", TRAIN, "-o", text(&one)], &flags[..]].concat());
    assert!((retuned - table()).abs() < 1e-12, "{retuned} and {}", table());
    insta::assert_snapshot!(messages);
}

/// Chronological order is detected, or set by a flag.
#[test]
fn time_order() {
    let folder = Folder::new();
    let mut messages = Messages::new(folder.path());
    let model = folder.at("model");
    let train = ["train", TRAIN, "-o", text(&model), "--tune=votes"];
    let window = "documents up to 15 positions before and after";
    for (given, is_chronological) in [("yes", true), ("no", false)] {
        let tuned = ok(&[&train[..], &["--time-order", given]].concat());
        assert_eq!(tuned.err.contains(window), is_chronological, "{}", tuned.err);
    }
    let repeats = |flags: &[&str]| ok(&[&train[..], flags].concat()).err.contains("training again");
    assert!(repeats(&[]) && !repeats(&["--no-cross-validation"]));
    refused(&mut messages, 2, &[&train[..], &["--time-order", "maybe"]].concat());
    refused(&mut messages, 2, &["train", TRAIN, "-o", text(&model), "--time-order", "yes"]);
    insta::assert_snapshot!(messages);
}

/// Learned votes are shown, kept by `tune`, and refused if a model has none.
#[test]
fn learned_votes() {
    let folder = Folder::new();
    let mut messages = Messages::new(folder.path());
    let [model, unlabeled] = ["model", "unlabeled.jsonl"].map(|name| folder.at(name));
    let train = ["train", TRAIN, "-o", text(&model), "--vote", "learned"];
    refused(&mut messages, 2, &train);
    refused(&mut messages, 2, &[&train[..], &["--tune=votes", "--rule", "pcut"]].concat());
    ok(&[&train[..], &["--tune=votes"]].concat());
    assert!(ok(&["info", text(&model)]).out.contains("/learned"));
    let answers = ok(&["predict", text(&model), TEST, "--with", "neighbors"]).out;
    let answer: Value = serde_json::from_str(answers.lines().next().unwrap()).unwrap();
    let neighbor = &answer["neighbors"][0];
    let label = neighbor["labels"][0].as_str().unwrap();
    assert!(neighbor["worth"][label].as_f64().unwrap() > 0.0, "{answer}");
    let plain = ok(&["predict", text(&model), TEST, "--with", "neighbors", "--vote", "rank"]).out;
    assert!(!plain.contains("\"worth\"") && !plain.contains("probability"));
    let same = ok(&["predict", text(&model), TEST, "--with", "neighbors", "--vote", "learned"]).out;
    assert_eq!(same, answers);
    // Training on a corpus without labels learns no votes, and does not fail.
    let lines = "{\"text\": \"aa bb\", \"labels\": []}\n".repeat(30);
    folder.write("unlabeled.jsonl", lines);
    let train = ["train", text(&unlabeled), "-o", text(&model), "--tune=votes", "--mode", "multi"];
    assert!(!ok(&train).err.contains("learned"));
    refused(&mut messages, 2, &["predict", text(&model), TEST, "--vote", "learned"]);
    insta::assert_snapshot!(messages);
}

/// Label prototypes are shown and explained. Another vote removes them, and no flag of training
/// can request them.
#[test]
fn prototypes() {
    let folder = Folder::new();
    let mut messages = Messages::new(folder.path());
    let model = folder.at("model");
    let train = ["train", TRAIN, "-o", text(&model)];
    refused(&mut messages, 2, &[&train[..], &["--tune", "--vote", "exp/prototypes:1"]].concat());
    ok(&["train", TRAIN, "-o", text(&model), "--tune=votes", "-k", "5"]);
    let info = ok(&["info", text(&model)]).out;
    assert!(info.contains("/prototypes:0.55"), "{info}");
    let why = ["explain", text(&model), "--text", "tighten the derailleur cable"];
    let explained = ok(&why).out;
    assert!(explained.contains("a share of 0.55 of the score"), "{explained}");
    let json = ok(&[&why[..], &["--to", "jsonl"]].concat()).out;
    let json: Value = serde_json::from_str(&json).unwrap();
    let prototype = &json["scores"][0]["prototype"];
    assert!(prototype["score"].as_f64().unwrap() > 0.5, "{json}");
    assert!(prototype["for"][0]["part"].as_f64().unwrap() > 0.0, "{json}");
    let page = ok(&[&why[..], &["--to", "html"]].concat()).out;
    assert!(page.contains("prototype ("), "{page}");
    let plain = ok(&[&why[..], &["--vote", "similarity", "--to", "jsonl"]].concat()).out;
    assert!(!plain.contains("prototype"), "{plain}");
    // Half of the chosen share.
    let less = ["--vote", "similarity/prototypes:0.275", "--to", "jsonl"];
    assert!(ok(&[&why[..], &less].concat()).out.contains("\"share\":0.275"));
    ok(&["train", TRAIN, "-o", text(&model), "--no-tune"]);
    refused(&mut messages, 2, &["predict", text(&model), TEST, "--vote", "exp/prototypes:0.5"]);
    insta::assert_snapshot!(messages);
}

#[test]
fn learned_thresholds_stay_with_allow_none() {
    let folder = Folder::new();
    let model = folder.at("m");
    let line = |number: usize| {
        let labels = ["[\"a\"]", "[\"b\"]", "[\"a\", \"b\"]"][number % 3];
        let words = ["apple pear", "bread dough", "apple dough"][number % 3];
        format!("{{\"text\": \"{words} {}\", \"labels\": {labels}}}\n", number % 7)
    };
    let corpus = folder.write("several.jsonl", (0..90).map(line).collect::<String>());
    let train = ["train", text(&corpus), "-o", text(&model), "-q"];
    ok(&[&train[..], &["--tune=votes", "--rule", "scut"]].concat());
    let decision = |flags: &[&str]| -> Value {
        let json = folder.at("j.json");
        let evaluate = ["evaluate", text(&model), text(&corpus), "-q", "--json", text(&json)];
        ok(&[&evaluate[..], flags].concat());
        read_json(&json)["method"]["decision"].clone()
    };
    let learned = decision(&[]);
    let allowed = decision(&["--allow-none"]);
    assert_eq!(learned["mode"], "per-label");
    assert_eq!(allowed["thresholds"], learned["thresholds"]);
    assert_eq!(allowed["allow_none"], true);
}
