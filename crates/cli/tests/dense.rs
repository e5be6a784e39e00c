//! Tests of dense vectors, alone and with terms: from a field, from a separate file, from features,
//! by LSA, and by word vectors.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fmt::Write as _;
use std::fs;
use std::ops::Deref;

use classify::model::Model;
use classify::random::Random;
use serde_json::Value;
use testkit::{Messages, Shell};

const DIMENSION: usize = 5;
const LABELS: [&str; 3] = ["a", "b", "c"];

/// A vector and the number of its label.
#[derive(Clone)]
struct Row {
    label: usize,
    vector: [f32; DIMENSION],
}

/// Generates vectors around the center of their label, some of them equal.
fn vectors(count: usize, seed: u64) -> Vec<Row> {
    let mut random = Random::new(seed);
    let one = |number: usize| {
        let label = number % LABELS.len();
        let mut vector = [0.0; DIMENSION];
        for (at, value) in vector.iter_mut().enumerate() {
            // Multiples of 1/4 are exact in every format.
            let noise = [0.0, 0.25, 0.5, 0.75][random.below(4)];
            *value = noise + if at == label { 1.0 } else { 0.0 };
        }
        Row { label, vector }
    };
    (0..count).map(one).collect()
}

fn npy(rows: &[Row]) -> Vec<u8> {
    let header = format!(
        "{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {DIMENSION}), }}",
        rows.len()
    );
    let header = format!("{header:<117}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(u16::try_from(header.len()).unwrap().to_le_bytes());
    bytes.extend(header.as_bytes());
    rows.iter().flat_map(|row| row.vector).for_each(|value| bytes.extend(value.to_le_bytes()));
    bytes
}

/// A folder with corpora of vectors.
struct TestFolder(Shell);

impl Deref for TestFolder {
    type Target = Shell;

    fn deref(&self) -> &Shell {
        &self.0
    }
}

impl TestFolder {
    fn empty() -> Self {
        Self(Shell::new(env!("CARGO_BIN_EXE_classify")))
    }

    /// Writes `NAME.jsonl` with vectors and `NAME-bare.jsonl` without them, and the same as CSV,
    /// svmlight, `.npy` and `.fvecs`.
    fn write_corpus(&self, name: &str, rows: &[Row]) {
        let mut full = String::new();
        let mut bare = String::new();
        let mut csv = String::from("id,label,v\n");
        let mut svmlight = String::new();
        let mut ids = String::new();
        let mut fvecs = Vec::new();
        for (number, Row { label, vector }) in rows.iter().enumerate() {
            let label = LABELS[*label];
            let json = serde_json::to_string(vector).unwrap();
            writeln!(full, r#"{{"id": "{number}", "label": "{label}", "v": {json}}}"#).unwrap();
            writeln!(bare, r#"{{"id": "{number}", "label": "{label}"}}"#).unwrap();
            let spaced = vector.map(|value| value.to_string()).join(" ");
            writeln!(csv, "{number},{label},{spaced}").unwrap();
            svmlight.push_str(label);
            for (column, value) in (1..).zip(vector).filter(|(_, value)| **value != 0.0) {
                write!(svmlight, " {column}:{value}").unwrap();
            }
            // The last column is always present, so that the dimension is known.
            if vector[DIMENSION - 1] == 0.0 {
                write!(svmlight, " {DIMENSION}:0").unwrap();
            }
            svmlight.push('\n');
        }
        // The file with identifiers has another order.
        for (number, Row { vector, .. }) in rows.iter().enumerate().rev() {
            writeln!(ids, "{number}").unwrap();
            fvecs.extend(u32::try_from(DIMENSION).unwrap().to_le_bytes());
            for value in vector {
                fvecs.extend(value.to_le_bytes());
            }
        }
        fs::write(self.at(&format!("{name}.jsonl")), full).unwrap();
        fs::write(self.at(&format!("{name}-bare.jsonl")), bare).unwrap();
        fs::write(self.at(&format!("{name}.csv")), csv).unwrap();
        fs::write(self.at(&format!("{name}.svm")), svmlight).unwrap();
        fs::write(self.at(&format!("{name}.ids")), ids).unwrap();
        fs::write(self.at(&format!("{name}.fvecs")), fvecs).unwrap();
        fs::write(self.at(&format!("{name}.npy")), npy(rows)).unwrap();
    }

    /// Creates a folder with training vectors and test vectors.
    fn given() -> (Self, [Vec<Row>; 2]) {
        let room = Self::empty();
        let sets = [vectors(60, 1), vectors(25, 2)];
        room.write_corpus("train", &sets[0]);
        room.write_corpus("test", &sets[1]);
        (room, sets)
    }

    fn ok(&self, line: &str) -> String {
        self.succeed(line)
    }

    /// Runs a line that must fail without an output, and records its messages for a snapshot.
    fn fails(&self, messages: &mut Messages, code: i32, line: &str) {
        messages.add(line, &self.run(line), code);
        assert!(!self.at("out").exists() && self.unfinished_outputs().is_empty(), "{line}");
    }
}

/// Returns the labels and scores without the identifiers.
fn answers(output: &str) -> Vec<(String, u64)> {
    let answer = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        let score = line["score"].as_f64().unwrap_or(-1.0);
        (line["labels"].to_string(), score.to_bits())
    };
    output.lines().map(answer).collect()
}

/// Computes the votes of the k nearest vectors one by one.
#[expect(clippy::cast_possible_truncation, reason = "similarities are f32")]
fn oracle(train: &[Row], query: &[f32; DIMENSION], k: usize) -> usize {
    let length = |v: &[f32]| v.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt();
    let mut near: Vec<(f32, usize, usize)> = train
        .iter()
        .enumerate()
        .map(|(row, Row { label, vector })| {
            let dot: f64 =
                vector.iter().zip(query).map(|(&x, &y)| f64::from(x) * f64::from(y)).sum();
            // Compares coarsely rounded cosines. Cosines that differ do so by much more.
            let cosine = dot / length(vector) / length(query);
            ((cosine * 1e6).round() as f32, row, *label)
        })
        .collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut votes = [0; LABELS.len()];
    near.iter().take(k).for_each(|&(.., label)| votes[label] += 1);
    let most = *votes.iter().max().unwrap();
    near.iter().find(|&&(.., label)| votes[label] == most).unwrap().2
}

#[test]
fn all_vector_sources_give_the_same_predictions() {
    let (room, [train, test]) = TestFolder::given();
    for metric in ["angular", "euclidean", "manhattan"] {
        let how = format!("--metric {metric} -k 7 --vote uniform -q -o m");
        room.ok(&format!("classify train train.jsonl --vector-field v {how}"));
        // The model stores the name of the field.
        let first = room.ok("classify predict m test.jsonl -q");
        let model = fs::read(room.at("m")).unwrap();
        assert_eq!(answers(&first).len(), test.len());
        assert!(room.ok("classify predict m test.jsonl -q --vector-field v") == first);
        let by_id = "--vectors test.fvecs --vector-ids test.ids";
        assert!(room.ok(&format!("classify predict m test-bare.jsonl -q {by_id}")) == first);
        assert!(room.ok("classify predict m test-bare.jsonl -q --vectors test.npy") == first);
        let by_csv = room.ok("classify predict m test.csv -q");
        assert!(by_csv == first);
        for index in ["brute-force", "kd-tree", "vp-tree", "lc:4", "sss-index", "egnat", "m-tree"] {
            let other = room.ok(&format!("classify predict m test.jsonl -q -j 3 --index {index}"));
            assert!(other == first, "{index}");
        }
        room.ok(&format!("classify train train.csv --vector-field v {how}"));
        assert!(fs::read(room.at("m")).unwrap() == model, "CSV trains the same model");
        room.ok(&format!("classify train train-bare.jsonl --vectors train.npy {how}"));
        assert!(room.ok("classify predict m test-bare.jsonl -q --vectors test.npy") == first);
        // svmlight has no identifiers.
        assert_eq!(answers(&room.ok("classify predict m test.svm -q")), answers(&first));
        room.ok(&format!("classify train train.svm --features dense {how}"));
        let by_features = room.ok("classify predict m test.svm -q");
        assert_eq!(answers(&by_features), answers(&first));
        if metric == "angular" {
            for (query, line) in test.iter().zip(first.lines()) {
                let answer: Value = serde_json::from_str(line).unwrap();
                assert_eq!(answer["labels"][0], LABELS[oracle(&train, &query.vector, 7)], "{line}");
            }
        }
    }
}

#[test]
fn given_vectors_end_to_end() {
    let (room, _) = TestFolder::given();
    room.ok("classify train train.jsonl --vector-field v --metric euclidean -q -o m");
    let info = room.ok("classify info m");
    assert!(
        info.contains("given: 5 dimensions, euclidean, 100 % of the votes, similarity"),
        "{info}"
    );
    assert!(info.contains("dense vectors from the corpus"), "{info}");
    let messages = room.ok("classify evaluate m test.jsonl");
    assert!(messages.contains("accuracy"), "{messages}");
    let predicted = room.ok("classify predict m test.jsonl -q --with neighbors,scores");
    let line: Value = serde_json::from_str(predicted.lines().next().unwrap()).unwrap();
    assert_eq!(line["neighbors"].as_array().unwrap().len(), 30);
    assert!(line.get("by_vectors").is_none() && line.get("reason").is_none());
    // Vectors files are predicted and evaluated like the corpus.
    room.ok("classify vectorize m test.jsonl -q -o te.vectors");
    assert!(room.ok("classify predict m te.vectors -q --with neighbors,scores") == predicted);
    let accuracy = |text: &str| {
        let line = text.lines().find(|line| line.starts_with("accuracy"));
        line.unwrap().to_owned()
    };
    let stored = room.ok("classify evaluate m te.vectors");
    assert_eq!(accuracy(&stored), accuracy(&messages));
    // Tuned during training, and afterwards.
    room.ok("classify train train.jsonl --vector-field v --tune -q -o t");
    room.ok("classify tune m -q -o tuned");
    for model in ["t", "tuned"] {
        let model = Model::open(&room.at(model)).unwrap();
        let settings = model.settings();
        assert!(settings.tuning.as_ref().unwrap().metrics.accuracy > 0.9);
        assert_eq!(settings.dense_share.to_bits(), 1f64.to_bits());
        assert!(model.calibration().is_some() && model.vocabulary().is_empty());
    }
    let tuned = room.ok("classify predict tuned test.jsonl -q");
    assert!(tuned.contains("probability"));
    // Trains and tests in one command, with a file of vectors for each side, and with a hold-out.
    let sides = "--train train-bare.jsonl --train-vectors train.npy --test test-bare.jsonl";
    let both = room.ok(&format!("classify evaluate {sides} --vectors test.npy --metric euclidean"));
    assert!(both.contains("accuracy"));
    room.ok("classify evaluate --train train-bare.jsonl --vectors train.npy --holdout 30%");
    // Reads documents from a pipe, batch by batch.
    let piped = room.ok("cat test.jsonl | classify predict m - -q");
    assert!(piped == room.ok("classify predict m test.jsonl -q"));
}

#[test]
fn terms_and_vectors_together() {
    let room = TestFolder::empty();
    for features in ["lsa:8", "tfidf+lsa:8"] {
        room.ok(&format!(
            "classify train $SAMPLE/train.jsonl --no-tune --features {features} -q -o '{features}'"
        ));
    }
    room.ok("classify train $SAMPLE/train.jsonl --no-tune -q -o tfidf");
    let predict = |model: &str, more: &str| {
        room.ok(&format!("classify predict '{model}' $SAMPLE/test.jsonl -q --with scores {more}"))
    };
    // With a share of 0 or 1, the answers equal those of a model with one kind of features.
    assert!(predict("tfidf+lsa:8", "--dense-share 0") == predict("tfidf", ""));
    assert!(predict("tfidf+lsa:8", "--dense-share 1") == predict("lsa:8", ""));
    let half = predict("tfidf+lsa:8", "");
    assert!(half == predict("tfidf+lsa:8", "--dense-share 0.5"));
    assert!(half != predict("tfidf", ""));
    // A score is the mean of both shares of the votes.
    let scores = |output: &str| -> Vec<std::collections::BTreeMap<String, f64>> {
        let line = |line: &str| {
            let answer: Value = serde_json::from_str(line).unwrap();
            let scores = answer["scores"].as_array().unwrap().iter();
            let pair =
                |s: &Value| (s["label"].as_str().unwrap().to_owned(), s["score"].as_f64().unwrap());
            scores.map(pair).collect()
        };
        output.lines().map(line).collect()
    };
    let quarter = scores(&predict("tfidf+lsa:8", "--dense-share 0.25"));
    let terms = scores(&predict("tfidf", ""));
    let dense = scores(&predict("lsa:8", ""));
    for ((mixed, terms), dense) in quarter.iter().zip(&terms).zip(&dense) {
        for (label, score) in mixed {
            let of = |scores: &std::collections::BTreeMap<String, f64>| {
                scores.get(label).copied().unwrap_or(0.0)
            };
            let expected = 0.75 * of(terms) + 0.25 * of(dense);
            assert!((score - expected).abs() < 1e-12, "{label}: {score} for {expected}");
        }
    }
    let line = room.ok(
        "echo the bread and the butter | classify predict tfidf+lsa:8 - -q -k 3 --with neighbors",
    );
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(
        (line["neighbors"].as_array().unwrap().len(), line["by_vectors"].as_array().unwrap().len()),
        (3, 3)
    );
    let unknown = room.ok("echo qwerty | classify predict tfidf+lsa:8 - -q");
    assert!(unknown.contains("no-known-term"), "{unknown}");
    assert!(room.ok("echo qwerty | classify predict lsa:8 - -q").contains("no-known-term"));
    // Tuning chooses the share. Tuning again chooses the same share.
    room.ok("classify train $SAMPLE/train.jsonl --features tfidf+lsa:8 --tune=votes -q \
         --tune-table t.json -o t");
    let report: Value =
        serde_json::from_str(&fs::read_to_string(room.at("t.json")).unwrap()).unwrap();
    let chosen = report["dense_share"].as_f64().unwrap();
    let tried: Vec<&Value> = report["features"].as_array().unwrap().iter().collect();
    assert_eq!(tried.len(), 11);
    let best = tried.iter().map(|step| step["micro_f1"].as_f64().unwrap()).fold(0.0, f64::max);
    let of_chosen = tried.iter().find(|step| step["change"] == format!("dense share {chosen}"));
    assert_eq!(of_chosen.unwrap()["micro_f1"].as_f64().unwrap().to_bits(), best.to_bits());
    room.ok("classify tune t -q -o again");
    let share = |name: &str| Model::open(&room.at(name)).unwrap().settings().dense_share;
    assert_eq!(
        (share("t").to_bits(), share("again").to_bits()),
        (chosen.to_bits(), chosen.to_bits())
    );
    room.ok("classify tune t -q --dense-share 0.3 -o fixed");
    assert_eq!(share("fixed").to_bits(), 0.3f64.to_bits());
    // Any number of threads gives the same bytes.
    room.ok("classify train $SAMPLE/train.jsonl --features tfidf+lsa:8 --no-tune -q -j 1 -o one");
    assert!(fs::read(room.at("one")).unwrap() == fs::read(room.at("tfidf+lsa:8")).unwrap());
    room.ok("classify vectorize t $SAMPLE/test.jsonl -q -o te.vectors");
    assert!(predict("t", "") == room.ok("classify predict t te.vectors -q --with scores"));
}

/// In vectors with much noise, prototypes recognize labels better than neighbors do.
#[test]
fn prototypes_of_vectors() {
    const NOISE: usize = 20;
    let room = TestFolder::empty();
    let mut random = Random::new(8);
    let mut lines = |count: usize| -> String {
        let line = |_| {
            let vector: Vec<f64> = (0..NOISE).map(|_| random.unit() * 2.0 - 1.0).collect();
            let label = usize::from(vector[0] + vector[1] + vector[2] > 0.0);
            let words = [0; 5].map(|_| format!("w{}", random.below(40))).join(" ");
            format!("{{\"text\": \"{words}\", \"v\": {vector:?}, \"label\": \"x{label}\"}}\n")
        };
        (0..count).map(line).collect()
    };
    fs::write(room.at("train.jsonl"), lines(1_200)).unwrap();
    fs::write(room.at("test.jsonl"), lines(400)).unwrap();
    let accuracy = |model: &str| {
        room.ok(&format!("classify evaluate {model} test.jsonl -q --json r.json"));
        let json = fs::read_to_string(room.at("r.json")).unwrap();
        serde_json::from_str::<Value>(&json).unwrap()["accuracy"].as_f64().unwrap()
    };
    for features in ["dense", "tfidf+dense", "tfidf+dense --weighting bm25"] {
        let train = format!("classify train train.jsonl --vector-field v --features {features} -q");
        room.ok(&format!("{train} -k 20 --vote similarity -o neighbors"));
        room.ok(&format!("{train} --tune=votes --abstain target-error=10% -o tuned"));
        assert!(room.ok("classify info tuned").contains("/prototypes:"), "{features}");
        let [neighbors, tuned] = ["neighbors", "tuned"].map(&accuracy);
        assert!(tuned > 0.9 && tuned > neighbors + 0.05, "{features}: {neighbors} {tuned}");
        let explained = room.ok("head -1 test.jsonl | classify explain tuned - -q");
        assert!(explained.contains(", the vector "), "{explained}");
        // A vectors file gives the same predictions.
        room.ok("classify vectorize tuned test.jsonl -q -o te.vectors");
        let predicted = room.ok("classify predict tuned test.jsonl -q --with scores");
        assert!(predicted == room.ok("classify predict tuned te.vectors -q --with scores"));
        // Tuning again learns prototypes of vectors again.
        room.ok("classify tune tuned -q -o again");
        assert!(room.ok("classify info again").contains("/prototypes:"), "{features}");
        assert!(accuracy("again") > 0.9, "{features}");
    }
    // The vectors are needed even if they do not vote.
    let train = "classify train train.jsonl --vector-field v --features tfidf+dense --tune=votes";
    room.ok(&format!("{train} --dense-share 0 -q -o silent"));
    assert!(accuracy("silent") > 0.8);
    let mut messages = Messages::new(room.path());
    room.fails(&mut messages, 3, "echo '{\"text\": \"w1\"}' | classify predict silent - -q");
    // Vectors of any length are searched, but not used by prototypes.
    room.ok(
        "classify train train.jsonl --vector-field v --metric euclidean --tune=votes -q -o any",
    );
    assert!(!room.ok("classify info any").contains("/prototypes:"));
}

#[test]
fn word_vectors() {
    let room = TestFolder::empty();
    // Two directions: food and sky.
    let words = "3 2\nBread 1 0.1\nsoup 0.9 0\ncomet 0 1\nstars 0.1 0.8\nuntold 5 5\n";
    fs::write(room.at("words.vec"), words).unwrap();
    let lines = r#"{"text": "bread", "label": "food"}
{"text": "comet", "label": "sky"}
{"text": "soup", "label": "food"}
{"text": "stars nobody", "label": "sky"}
{"text": "nothing of it", "label": "sky"}
"#;
    fs::write(room.at("in.jsonl"), lines).unwrap();
    let run = room.run("classify train in.jsonl --word-vectors words.vec -k 2 -o m");
    assert!(run.err.contains("4 of 8 terms have a vector"), "{}", run.err);
    let ask = |text: &str| room.ok(&format!("echo {text} | classify predict m - -q --to csv"));
    assert!(ask("soup soup bread").contains("food"));
    assert!(ask("comet").contains("sky"));
    // Known words without a vector have no direction, so there is no neighbor.
    assert!(ask("nobody").contains("no-neighbor"), "{}", ask("nobody"));
    assert!(ask("qwerty").contains("no-known-term"));
    room.ok("classify train in.jsonl --word-vectors words.vec --features tfidf+words -q -o both");
    // Terms alone find the fourth line.
    assert!(room.ok("echo nobody | classify predict both - -q").contains("sky"));
}

#[test]
fn mistakes_are_explained() {
    let (room, sets) = TestFolder::given();
    let mut messages = Messages::new(room.path());
    room.write_corpus("short", &sets[1][..20]);
    room.ok("classify train train.jsonl --vector-field v -q -o m");
    fs::write(room.at("words.txt"), "bread 1 2\n").unwrap();
    for (code, line) in [
        (3, "train train.jsonl -o out"),
        (3, "train train.jsonl --vector-field w -o out"),
        (3, "train train-bare.jsonl --features dense -o out"),
        (3, "train train-bare.jsonl --vectors short.npy -o out"),
        (3, "train test-bare.jsonl --vectors train.npy -o out"),
        (3, "train train-bare.jsonl --vectors train.csv -o out"),
        (3, "train train-bare.jsonl --vectors no.npy -o out"),
        (3, "train train-bare.jsonl --vectors short.fvecs --vector-ids train.ids -o out"),
        (3, "train train-bare.jsonl --vectors train.fvecs --vector-ids short.ids -o out"),
        (3, "train train-bare.jsonl --vectors short.fvecs --vector-ids short.ids -o out"),
        (2, "train train-bare.jsonl --vector-ids train.ids -o out"),
        (2, "train train.jsonl --vector-field v --features lsa:3 -o out"),
        (2, "train train.jsonl --features words -o out"),
        (2, "train train.jsonl --word-vectors words.txt --features lsa:3 -o out"),
        (2, "train train.svm --word-vectors words.txt -o out"),
        (2, "train $SAMPLE/train.jsonl --word-vectors words.txt --features tfidf -o out"),
        (2, "train $SAMPLE/train.jsonl --metric euclidean -o out"),
        (2, "train $SAMPLE/train.jsonl --dense-share 0.5 -o out"),
        (2, "train $SAMPLE/train.jsonl --features lsa:9 --dense-share 0.5 -o out"),
        (2, "train $SAMPLE/train.jsonl --features lsa:9 --metric cosine -o out"),
        (2, "train $SAMPLE/train.jsonl --features lsa:0 -o out"),
        (2, "train train.jsonl --vector-field v --keep-text -o out"),
        (3, "predict m test-bare.jsonl -o out"),
        (2, "predict m test.svm --features dense"),
        (2, "predict m test.jsonl --dense-share 0.5 -o out"),
        (2, "tune m --dense-share 0.5 -o out"),
        (2, "predict m test.jsonl --index ball-tree -o out"),
        (2, "predict m test.jsonl --index sss-index:9 -o out"),
        (2, "evaluate --train train-bare.jsonl --test test-bare.jsonl --vectors test.npy"),
        (3, "predict m test.jsonl --vectors m -o out"),
        (2, "predict m test-bare.jsonl --vectors test.npy -o test.npy"),
    ] {
        room.fails(&mut messages, code, &format!("classify {line}"));
    }
    insta::assert_snapshot!(messages);
}

#[test]
fn invalid_vectors_are_explained() {
    let (room, _) = TestFolder::given();
    let mut messages = Messages::new(room.path());
    let lines = |lines: &[&str]| {
        fs::write(room.at("in.jsonl"), lines.join("\n")).unwrap();
    };
    room.ok("classify train train.jsonl --vector-field v -q -o m");
    for second in [
        r#"{"label": "b", "v": [1, 2, 3]}"#,
        r#"{"label": "b", "v": [1, 1e39]}"#,
        r#"{"label": "b", "v": [1, -1e31]}"#,
        r#"{"label": "b", "v": [1, "x"]}"#,
        r#"{"label": "b", "v": 7}"#,
        r#"{"label": "b", "v": null}"#,
        r#"{"label": "b", "v": []}"#,
    ] {
        lines(&[r#"{"label": "a", "v": [1, 2]}"#, second]);
        room.fails(&mut messages, 3, "classify train in.jsonl --vector-field v -o out");
    }
    lines(&[r#"{"v": [1, 2, 3]}"#]);
    room.fails(&mut messages, 3, "classify predict m in.jsonl -o out");
    fs::write(room.at("in.svm"), "a 0:1\n").unwrap();
    room.fails(&mut messages, 3, "classify predict m in.svm --first-column 1 -o out");
    fs::write(room.at("in.svm"), "a 9:1\n").unwrap();
    room.fails(&mut messages, 3, "classify predict m in.svm -o out");
    lines(&[r#"{"id": "0"}"#, r#"{"id": "7"}"#]);
    // The vectors file may contain vectors of other documents.
    let by_id = "--vectors test.fvecs --vector-ids test.ids";
    let answers = room.ok(&format!("classify predict m in.jsonl {by_id} -q"));
    assert_eq!(answers.lines().count(), 2);
    insta::assert_snapshot!(messages);
}

/// Flags that would have no effect are refused.
#[test]
fn ineffective_flags_are_refused() {
    let (room, _) = TestFolder::given();
    let mut messages = Messages::new(room.path());
    room.ok("classify train $SAMPLE/train.jsonl -q -o terms");
    room.ok("classify train $SAMPLE/train.jsonl --features lsa:5 -q -o lsa");
    room.ok("classify train train.jsonl --vector-field v -q -o m");
    for line in [
        "predict terms $SAMPLE/test.jsonl --vectors test.npy -o out",
        "predict lsa $SAMPLE/test.jsonl --vector-field v -o out",
        "vectorize terms $SAMPLE/test.jsonl --vectors test.npy -o out",
        "evaluate terms $SAMPLE/test.jsonl --vectors test.npy",
        "predict lsa $SAMPLE/test.jsonl --dense-share 0.5 -o out",
        "tune lsa --dense-share 0.5 -o out",
        "predict m test-bare.jsonl --vectors - -o out",
        "evaluate --train train.jsonl --train-vectors train.npy --test test.jsonl \
         --vector-field v",
    ] {
        room.fails(&mut messages, 2, &format!("classify {line}"));
    }
    for flag in ["--stem en", "--weighting bm25", "--select chi2:9", "--min-df 2", "--field text:2"]
    {
        let line = format!("classify train train.jsonl --vector-field v {flag} -o out");
        room.fails(&mut messages, 2, &line);
    }
    // These flags apply to documents and labels, not to terms.
    room.ok("classify train train.jsonl --vector-field v --class-weight balanced -q -o m");
    insta::assert_snapshot!(messages);
}

/// Tuning does not change which features a model searches.
#[test]
fn tuning_keeps_the_searched_features() {
    let room = TestFolder::empty();
    room.ok("classify train $SAMPLE/train.jsonl --features lsa:5 -q -o m");
    room.ok("classify tune m -q");
    let info = room.ok("classify info m");
    assert!(info.contains("100 % of the votes") && !info.contains("similarity "), "{info}");
}

/// Vectors at a right angle, and texts without known terms, are not neighbors.
#[test]
fn documents_without_similarity_have_no_neighbors() {
    let room = TestFolder::empty();
    let write = |name: &str, lines: &[&str]| fs::write(room.at(name), lines.join("\n")).unwrap();
    write(
        "in.jsonl",
        &[
            r#"{"v": [1, 0, 0], "label": "a"}"#,
            r#"{"v": [3, 0, 0], "label": "a"}"#,
            r#"{"v": [0, 1, 0], "label": "b"}"#,
        ],
    );
    write("one.jsonl", &[r#"{"v": [0, 0, 7]}"#]);
    room.ok("classify train in.jsonl --vector-field v -q -o m");
    let answer = room.ok("classify predict m one.jsonl -q --with neighbors");
    assert!(answer.contains("no-neighbor"), "{answer}");
    let texts = [
        r#"{"text": "apple bread corn", "label": "a"}"#,
        r#"{"text": "bread corn apple", "label": "a"}"#,
        r#"{"text": "zebra yak", "label": "b"}"#,
        r#"{"text": "", "label": "e"}"#,
    ];
    write("texts.jsonl", &texts);
    fs::write(room.at("w.txt"), "apple 1 2\nbread 2 1\n").unwrap();
    for metric in ["angular", "euclidean", "manhattan"] {
        room.ok(&format!(
            "classify train texts.jsonl --word-vectors w.txt --metric {metric} -q -o m"
        ));
        // All terms are known, but none has a vector.
        let answer = room.ok("echo zebra | classify predict m - -q --with neighbors");
        assert!(answer.contains("no-neighbor"), "{metric} {answer}");
        let answer = room.ok("echo bread | classify predict m - -q --with neighbors");
        let line: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(line["neighbors"].as_array().unwrap().len(), 2, "{metric} {answer}");
    }
}

/// LSA handles weights that overflow or vanish in 32 bits when they are squared.
#[test]
fn lsa_of_weights_of_any_size() {
    let room = TestFolder::empty();
    for weight in ["3e38", "1e20", "1", "1e-20", "1e-45"] {
        let mut rows = String::new();
        let mut expected = String::new();
        for row in 0..6 {
            let label = LABELS[row % 3];
            let first = row % 3 + 1;
            let second = row % 3 + 4;
            writeln!(rows, "{label} {first}:{weight} {second}:{weight}").unwrap();
            writeln!(expected, "__label__{label}").unwrap();
        }
        fs::write(room.at("in.svm"), rows).unwrap();
        room.ok("classify train in.svm --features lsa:3 --weighting nnn -q -k 2 -o m");
        let answers = room.ok("classify predict m in.svm -q --to fasttext");
        assert_eq!(answers, expected, "{weight}");
    }
}

/// Vectors without a share of the votes may be missing.
#[test]
fn vectors_without_votes_may_be_missing() {
    let room = TestFolder::empty();
    let mut messages = Messages::new(room.path());
    let lines: Vec<String> = (0..6)
        .map(|n| {
            format!(r#"{{"text": "word{} of {n}", "v": [{n}, 1], "label": "x{}"}}"#, n % 2, n % 2)
        })
        .collect();
    fs::write(room.at("in.jsonl"), lines.join("\n")).unwrap();
    let train = "classify train in.jsonl --vector-field v --features tfidf+dense -q -o m";
    room.ok(&format!("{train} --dense-share 0"));
    assert!(room.ok("echo word1 | classify predict m - -q").contains("x1"));
    let json = r#"echo '{"text": "word1"}' | classify predict m - -q"#;
    assert!(room.ok(json).contains("x1"));
    room.fails(&mut messages, 3, &format!("{json} --dense-share 0.5 -o out"));
    room.ok(train);
    room.fails(&mut messages, 3, &format!("{json} -o out"));
    let csv = room.ok("classify predict m in.jsonl -q -k 1 --to csv --with neighbors");
    assert!(
        csv.starts_with("id,labels,score,probability,confidence,reason,neighbors,by_vectors\n"),
        "{csv}"
    );
    assert_eq!(csv.lines().nth(1).unwrap().matches("[x0]").count(), 2, "{csv}");
    insta::assert_snapshot!(messages);
}

/// Tests zero vectors, a single vector, more neighbors than vectors, and vectors that are far
/// apart.
#[test]
fn degenerate_vector_sets() {
    let room = TestFolder::empty();
    for metric in ["angular", "euclidean", "manhattan"] {
        for lines in [
            &[r#"{"label": "a", "v": [0, 0]}"#][..],
            &[r#"{"label": "a", "v": [0, 0]}"#, r#"{"label": "b", "v": [1, 0]}"#],
            &[r#"{"label": "a", "v": [1e30, -1e30]}"#, r#"{"label": "b", "v": [-1e30, 1e-45]}"#],
            &[r#"{"label": "a", "v": [3]}"#; 5],
            &[r#"{"labels": [], "v": [3]}"#, r#"{"labels": ["a", "b"], "v": [4]}"#],
        ] {
            fs::write(room.at("in.jsonl"), lines.join("\n")).unwrap();
            room.ok(&format!("classify train in.jsonl --vector-field v --metric {metric} -q -o m"));
            let answers = room.ok("classify predict m in.jsonl -q --with neighbors");
            assert_eq!(answers.lines().count(), lines.len(), "{metric} {lines:?}");
            if metric == "angular" && lines.len() == 1 {
                assert!(answers.contains("no-neighbor"), "{answers}");
            }
            room.ok("classify tune m -q");
            room.ok("classify evaluate m in.jsonl -q");
        }
    }
}

/// Every bit of a dense model's file is checked.
#[test]
fn damaged_models_are_refused() {
    let room = TestFolder::empty();
    let lines: String = (0..4)
        .map(|n| {
            format!(r#"{{"text": "bake {n} breads", "v": [{n}, 2], "label": "x{}"}}"#, n % 2) + "\n"
        })
        .collect();
    fs::write(room.at("in.jsonl"), lines).unwrap();
    for features in ["tfidf+dense --vector-field v", "tfidf+lsa:2", "dense --vector-field v"] {
        room.ok(&format!("classify train in.jsonl --features {features} -q -o m"));
        let mut bytes = fs::read(room.at("m")).unwrap();
        assert!(Model::from_bytes(&bytes).is_ok());
        for index in 0..bytes.len() {
            let bit = 1 << (index % 8);
            bytes[index] ^= bit;
            assert!(Model::from_bytes(&bytes).is_err(), "{features}: bit {bit:#x} of byte {index}");
            bytes[index] ^= bit;
        }
        for length in (0..bytes.len()).step_by(7) {
            assert!(Model::from_bytes(&bytes[..length]).is_err(), "{features}: {length} bytes");
        }
    }
}
