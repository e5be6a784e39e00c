//! `classify train`.

use serde_json::Value;
use testkit::{Folder, Messages, text};

use crate::{
    TEST, TRAIN, ok, read_json, refused, refused_with, run_with, small_corpus, trained_model,
};

#[test]
fn models_are_deterministic() {
    let settings = ["--stem", "en", "--word-ngrams", "1-2", "--char-ngrams", "3", "--keep-text"];
    let (_first, model) = trained_model(&settings);
    let bytes = std::fs::read(&model).unwrap();
    for threads in ["1", "2", "7"] {
        let (_folder, model) = trained_model(&[&settings[..], &["-j", threads]].concat());
        assert!(std::fs::read(&model).unwrap() == bytes, "{threads} threads");
    }
    let answers = |threads| {
        ok(&["predict", text(&model), TEST, "--with", "neighbors,scores", "-j", threads]).out
    };
    assert_eq!(answers("1"), answers("7"));
}

#[test]
fn features() {
    let folder = Folder::new();
    let mut messages = Messages::new(folder.path());
    let model = folder.at("model");
    let corpus = folder.write("train.svm", "a 1:1 2:2\nb 3:1\na,b 2:1 3:1\n");
    for kind in ["tfidf", "counts"] {
        ok(&["train", text(&corpus), "-o", text(&model), "--features", kind]);
        let run = run_with(&["predict", text(&model), "-"], b"x 2:3\n");
        assert!(run.out.contains("\"labels\":[\"a\""), "{} {}", run.out, run.err);
        refused_with(&mut messages, 3, &["predict", text(&model), "-"], b"some text\n");
    }
    let bad = folder.write("bad.svm", "a 1:-1\n");
    refused(&mut messages, 3, &["train", text(&bad), "-o", text(&model), "--features", "counts"]);
    insta::assert_snapshot!(messages);
}

#[test]
fn fields_and_selection() {
    let folder = Folder::new();
    let mut messages = Messages::new(folder.path());
    let lines = [
        r#"{"title": "bread", "body": "the oven is hot", "labels": ["cooking"]}"#,
        r#"{"title": "guitar", "body": "the string is loose", "labels": ["music"]}"#,
        r#"{"title": "oven", "body": "the bread is hot, the string too", "labels": ["cooking"]}"#,
    ];
    let corpus = folder.write("fields.jsonl", lines.join("\n"));
    let model = folder.at("fields.model");
    ok(&["train", text(&corpus), "-o", text(&model), "--field", "title:2.5", "--field", "body"]);
    let info = ok(&["info", text(&model)]).out;
    assert!(info.contains("title × 2.5, body × 1"), "{info}");
    // The model stores its fields. A document weighted as in training is its own neighbor.
    let answers = ok(&["predict", text(&model), text(&corpus), "--with", "neighbors"]).out;
    for (line, answer) in answers.lines().enumerate() {
        let answer: Value = serde_json::from_str(answer).unwrap();
        assert_eq!(answer["neighbors"][0]["id"], (line + 1).to_string());
        let similarity = answer["neighbors"][0]["similarity"].as_f64().unwrap();
        assert!((similarity - 1.0).abs() < 1e-6, "{similarity}");
    }
    let plain = run_with(&["predict", text(&model), "-", "--format", "plain"], b"guitar\n");
    assert!(plain.out.contains("music"), "{}", plain.out);

    let selected = folder.at("selected.model");
    ok(&["train", TRAIN, "-o", text(&selected), "--select", "chi2:50", "--title-boost", "2"]);
    let info = ok(&["info", text(&selected)]).out;
    assert!(info.contains("chi2:50: 50 terms left") && info.contains("first line × 2"), "{info}");
    for (flags, code) in [
        (["--select", "chi2:0"], 2),
        (["--field", "title:0"], 2),
        (["--objective", "accuracy"], 2),
        (["--tune", "--allow-none"], 2),
        (["--near-duplicates", "3"], 2),
        (["--field", "nothing:2"], 3),
    ] {
        let train = ["train", TRAIN, "-o", text(&selected)];
        refused(&mut messages, code, &[&train, &flags[..]].concat());
    }
    insta::assert_snapshot!(messages);
}

#[test]
fn hierarchies() {
    let folder = Folder::new();
    let mut messages = Messages::new(folder.path());
    let [tree, model, json] = ["tree.tsv", "model", "r.json"].map(|name| folder.at(name));
    std::fs::write(&tree, "cycling\tsport\nsport\tleisure\ncooking\tleisure\n").unwrap();
    ok(&["train", TRAIN, "-o", text(&model), "--hierarchy", text(&tree)]);
    let answers = ok(&["predict", text(&model), TEST]).out;
    let mut seen = 0;
    for line in answers.lines() {
        let answer: Value = serde_json::from_str(line).unwrap();
        let labels = answer["labels"].as_array().unwrap();
        if labels.iter().any(|label| label == "cycling") {
            assert!(labels.iter().any(|label| label == "sport"), "{line}");
            assert!(labels.iter().any(|label| label == "leisure"), "{line}");
            seen += 1;
        }
    }
    assert!(seen > 3);
    // Test documents also get the ancestors of their labels.
    ok(&["evaluate", text(&model), TEST, "--json", text(&json)]);
    let result = read_json(&json);
    let levels = result["levels"].as_array().unwrap();
    assert_eq!(levels.len(), 3);
    assert_eq!(levels[2]["labels"], 1);
    let recall = levels[2]["micro"]["recall"].as_f64().unwrap();
    let cycling =
        result["per_label"].as_array().unwrap().iter().find(|l| l["label"] == "cycling").unwrap();
    assert_eq!(recall.to_bits(), cycling["recall"].as_f64().unwrap().to_bits());
    std::fs::write(&tree, "a\tb\nb\ta\n").unwrap();
    refused(&mut messages, 3, &["train", TRAIN, "-o", text(&model), "--hierarchy", text(&tree)]);
    // The model stores its hierarchy.
    refused(&mut messages, 2, &["evaluate", text(&model), TEST, "--hierarchy", text(&tree)]);
    insta::assert_snapshot!(messages);
}

#[test]
fn rules_weights_and_groups() {
    let folder = Folder::new();
    let mut messages = Messages::new(folder.path());
    let [model, table, grouped] =
        ["model", "table.json", "grouped.jsonl"].map(|name| folder.at(name));
    ok(&["train", TRAIN, "-o", text(&model), "--rule", "rcut:2"]);
    let answers = ok(&["predict", text(&model), TEST]).out;
    assert!(answers.lines().all(|line| line.contains("\"],\"score\"") && line.contains("\",\"")));
    // Standard input is one batch, in which each label gets a fixed number of documents.
    let answers = ok(&["predict", text(&model), TEST, "--rule", "pcut"]).out;
    let given: usize = answers
        .lines()
        .map(|line| {
            let answer: Value = serde_json::from_str(line).unwrap();
            answer["labels"].as_array().unwrap().len()
        })
        .sum();
    let info = ok(&["info", "--json", text(&model)]).out;
    let settings: Value = serde_json::from_str(&info).unwrap();
    assert!(settings["decision"]["labels"] == 2 && (83..140).contains(&given), "{given}");
    for wrong in [
        &["--rule", "scut"][..],
        &["--rule", "rcut"],
        &["--rule", "rcut:0"],
        &["--tune=votes", "--rule", "rcut:2"],
        &["--mode", "single", "--rule", "mcut"],
        &["--mode", "single", "--threshold", "0.5"],
        &["--tune=votes", "--rule", "pcut", "--abstain", "target-error=5%"],
        &["--class-weight", "nobody:2"],
        &["--class-weight", "cycling"],
    ] {
        let train = ["train", TRAIN, "-o", text(&model)];
        refused(&mut messages, 2, &[&train, wrong].concat());
    }
    ok(&["train", TRAIN, "-o", text(&model), "--class-weight", "balanced"]);
    let balanced = classify::model::Model::open(&model).unwrap();
    let weights = balanced.document_weights();
    assert!(weights.iter().any(|weight| weight.to_bits() != weights[0].to_bits()));
    // Documents of one group are not neighbors. If all are in one group, none has a neighbor.
    let corpus = std::fs::read_to_string(testkit::root().join(TRAIN)).unwrap();
    let lines: Vec<String> =
        corpus.lines().map(|line| line.replacen('{', "{\"who\": \"all\", ", 1)).collect();
    std::fs::write(&grouped, lines.join("\n")).unwrap();
    let tune = ["--tune=votes", "--group-column", "who", "--tune-table", text(&table)];
    ok(&[&["train", text(&grouped), "-o", text(&model)], &tune[..]].concat());
    assert!(read_json(&table)["figures"]["micro_f1"].as_f64().unwrap() <= 0.0);
    refused(&mut messages, 3, &["train", TRAIN, "-o", text(&model), "--group-column", "who"]);
    insta::assert_snapshot!(messages);
}

#[test]
fn ineffective_flags_are_refused() {
    let folder = Folder::new();
    let mut messages = Messages::new(folder.path());
    let corpus = small_corpus(folder.path());
    let model = folder.at("m");
    let train = ["train", text(&corpus), "-o", text(&model), "-q"];
    refused(&mut messages, 2, &[&train[..], &["--features", "counts"]].concat());
    // A k larger than the number of documents is capped, however large it is.
    ok(&[&train[..], &["--tune=votes", "--k-max", "18446744073709551615"]].concat());
    ok(&["tune", text(&model), "--k-max", "1000000000000", "-q"]);
    insta::assert_snapshot!(messages);
}

#[test]
fn labels_can_be_described() {
    let folder = Folder::new();
    let described = "label,text\n\
                     cooking,\"Recipes, baking, and food that is cooked in a kitchen.\"\n\
                     astronomy,\"Stars, planets, telescopes and the night sky.\"\n";
    let descriptions = folder.write("descriptions.csv", described);
    let model = folder.at("model");
    let flag = ["--label-descriptions", text(&descriptions), "-o", text(&model)];
    let alone = ok(&[&["train"], &flag[..]].concat()).err;
    assert!(alone.contains("the model consists of 2 label descriptions"), "{alone}");
    let query = folder.write("query.txt", "Which planets can I see without a telescope?");
    let predicted = ok(&["predict", text(&model), text(&query)]).out;
    assert!(predicted.contains("astronomy"), "{predicted}");
    // With documents, the weight is chosen on held-out documents.
    let both = ok(&[&["train", TRAIN], &flag[..]].concat()).err;
    assert!(both.contains("held-out documents"), "{both}");
    assert!(both.contains("labels have no description, such as"), "{both}");
    let typo = folder.write("typo.csv", "label,text\ncookin,Recipes and food\n");
    let typo = ok(&["train", TRAIN, "--label-descriptions", text(&typo), "-o", text(&model)]).err;
    let note = "note: no document has 1 described labels, such as `cookin`; the closest label is \
                `cooking`";
    assert!(typo.contains(note), "{typo}");
    let few = folder.write("few.csv", "label,text\ncooking,Bake bread\nastronomy,Look at stars\n");
    let few = ok(&[&["train", text(&few)], &flag[..]].concat()).err;
    assert!(few.contains("note: 2 of 2 labels have one document"), "{few}");
    let mut messages = Messages::new(folder.path());
    refused(&mut messages, 2, &[&["train", "--tune"], &flag[..]].concat());
    let fields = ["--field", "title", "--field", "text"];
    refused(&mut messages, 2, &[&["train", TRAIN], &flag[..], &fields[..]].concat());
    refused(&mut messages, 2, &["train", "-o", text(&model)]);
    insta::assert_snapshot!(messages);
}
