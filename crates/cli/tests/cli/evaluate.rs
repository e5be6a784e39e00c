//! Tests of `classify evaluate`, and of the path from training to evaluation.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::Value;
use testkit::{Folder, text, wait_until};

use crate::{TEST, TRAIN, command, ok, read_json, small_corpus, trained_model};

/// A failure ends the program even if its input stays open.
#[test]
fn evaluate_fails_before_its_input_ends() {
    let folder = Folder::new();
    let corpus = folder.write("two.svm", "1 1:1 2:1\n2 3:1\n");
    let model = folder.at("two.model");
    ok(&["train", text(&corpus), "-o", text(&model), "-q"]);
    let mut child =
        command(&["evaluate", text(&model), "-", "--format", "jsonl", "-q", "--device", "cpu"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    // More than one CPU batch, but fewer than two, so that the second batch is never full.
    let line = "{\"text\": \"a b\", \"label\": \"x\"}\n";
    let _ = pipe.write_all(line.repeat(5_000).as_bytes());
    // The pipe stays open, so only the failure can end the program.
    wait_until("the program ends", || child.try_wait().unwrap().is_some());
    assert_eq!(child.wait().unwrap().code(), Some(3));
    drop(pipe);
}

#[test]
fn train_evaluate_predict_info() {
    let (folder, model) = trained_model(&[]);
    let json = folder.at("result.json");
    let page = folder.at("result.md");
    let run =
        ok(&["evaluate", text(&model), TEST, "--json", text(&json), "--markdown", text(&page)]);
    assert!(run.out.contains("83 test"), "{}", run.out);
    let result = read_json(&json);
    assert!(result["micro"]["f1"].as_f64().unwrap() > 0.85, "{result}");
    assert!(result["stages"].as_array().unwrap().len() >= 4);
    assert!(std::fs::read_to_string(&page).unwrap().starts_with("# Evaluation"));
    // Training and evaluating in one command gives the same metric.
    let both = ok(&["evaluate", "--train", TRAIN, "--test", TEST]);
    let micro_f1 =
        |out: &str| out.lines().find(|line| line.starts_with("micro F1")).map(str::to_owned);
    assert_eq!(micro_f1(&both.out), micro_f1(&run.out));
    let predicted = ok(&["predict", text(&model), TEST]);
    assert_eq!(predicted.out.lines().count(), 83);
    assert!(predicted.out.starts_with("{\"id\":\"t001\",\"labels\":["));
    let info = ok(&["info", text(&model)]);
    for words in ["ltc", "ln(N / df)^p", "248", "cross-validation of the training on 248 documents"]
    {
        assert!(info.out.contains(words), "{words}: {}", info.out);
    }
    let fixed = folder.at("fixed.model");
    ok(&["train", TRAIN, "--no-tune", "-o", text(&fixed)]);
    let info = ok(&["info", text(&fixed)]);
    for words in ["k = 30, vote similarity\n", "labels with at least 0.4 of the vote"] {
        assert!(info.out.contains(words), "{words}: {}", info.out);
    }
    let info = ok(&["info", "--json", text(&model)]).out;
    let json: Value = serde_json::from_str(&info).unwrap();
    assert_eq!(json["counts"]["documents"], 248);
}

#[test]
fn holdout_is_seeded() {
    let metrics = |seed| {
        let run = ok(&["evaluate", "--train", TRAIN, "--holdout", "30%", "--seed", seed]);
        run.out.lines().take(9).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(metrics("1"), metrics("1"));
    assert_ne!(metrics("1"), metrics("2"));
}

/// The metrics on the HTML page equal the metrics in the JSON, bit for bit.
#[test]
fn reports_agree() {
    let folder = Folder::new();
    let [json, page] = ["result.json", "result.html"].map(|name| folder.at(name));
    let sides = ["evaluate", "--train", TRAIN, "--test", TEST, "--tune=votes"];
    ok(&[&sides[..], &["--json", text(&json), "--html", text(&page)]].concat());
    let result = read_json(&json);
    let page = std::fs::read_to_string(&page).unwrap();
    let value = |id: &str| -> f64 {
        let tag = format!("<data id=\"{id}\" value=\"");
        let rest = page.split_once(&tag).unwrap_or_else(|| panic!("{id}")).1;
        rest.split_once('"').unwrap().0.parse().unwrap()
    };
    for (id, found) in [
        ("micro_f1", &result["micro"]["f1"]),
        ("macro_f1", &result["macro"]["f1"]),
        ("exact", &result["subset_accuracy"]),
        ("precision_at_one", &result["precision_at"]["1"]),
        ("calibration_error", &result["calibration_error"]),
    ] {
        assert_eq!(value(id).to_bits(), found.as_f64().unwrap().to_bits(), "{id}");
    }
    let mut labels: Vec<(i64, String, u64)> = result["per_label"]
        .as_array()
        .unwrap()
        .iter()
        .map(|label| {
            let name = label["label"].as_str().unwrap().to_owned();
            (-label["support"].as_i64().unwrap(), name, label["f1"].as_f64().unwrap().to_bits())
        })
        .collect();
    labels.sort();
    let shown = page.split("<data class=\"label-f1\" value=\"").skip(1).map(|rest| {
        let value: f64 = rest.split_once('"').unwrap().0.parse().unwrap();
        value.to_bits()
    });
    assert!(shown.eq(labels.into_iter().map(|(.., f1)| f1)));
    assert_eq!(page.matches("<svg").count(), 6, "one of them is the curve of k");
    assert!(!page.contains("<script") && !page.contains("http"));
    // Each interval contains its metric.
    for (interval, average) in [("micro_f1", "micro"), ("macro_f1", "macro")] {
        let ends = result["intervals"][interval].as_array().unwrap();
        let metric = result[average]["f1"].as_f64().unwrap();
        assert!(ends[0].as_f64().unwrap() < metric && metric < ends[1].as_f64().unwrap());
    }
}

#[test]
fn a_hold_out_keeps_groups_together() {
    let folder = Folder::new();
    let corpus = small_corpus(folder.path());
    let evaluate =
        ["evaluate", "--train", text(&corpus), "--holdout", "30%", "--group-column", "author"];
    for seed in ["1", "2", "3"] {
        let json = folder.at("j.json");
        let more = ["--seed", seed, "-q", "--json", text(&json), "--per-document"];
        ok(&[&evaluate[..], &more].concat());
        let result = read_json(&json);
        // There are ten authors with six documents each.
        assert_eq!(result["documents"]["test"].as_u64().unwrap() % 6, 0, "seed {seed}");
    }
}
