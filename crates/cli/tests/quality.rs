//! Quality gates on real corpora.
//!
//! `CLASSIFY_CORPORA=FOLDER cargo test --release --test quality -- --ignored` runs all gates. With
//! `--ignored quick::`, it runs the gates that take a minute and a half of CPU time in total.
//! `corpora/README.md` lists the sources of the corpora. If `CLASSIFY` names a program, the gates
//! test that program, so that no second program with test features must be built.
//!
//! Each gate is the metric in `docs/quality.md` minus two standard errors, but at most .003 below
//! the metric. Metrics are deterministic, so any larger loss fails. They are measured with the
//! default settings and with `--tune`, which uses only training data.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may panic, and prints its metrics"
)]

use std::path::Path;

use serde_json::Value;
use testkit::{Folder, Program, text};

const SECTIONS: [&str; 4] =
    ["--train", "debian/sections-train.jsonl.zst", "--test", "debian/sections-test.jsonl.zst"];
const TAGS: [&str; 4] =
    ["--train", "debian/tags-train.jsonl.zst", "--test", "debian/tags-test.jsonl.zst"];
const BANKING: [&str; 4] = ["--train", "banking77/train.csv", "--test", "banking77/test.csv"];
const MODAPTE: [&str; 3] = ["--preset", "modapte90", "reuters21578"];
const R8: [&str; 3] = ["--preset", "r8", "reuters21578"];
const R52: [&str; 3] = ["--preset", "r52", "reuters21578"];

/// Maximum distance between a gate and its metric, even if two standard errors are more.
const MAX_LOSS: f64 = 0.003;

fn evaluate(arguments: &[&str]) -> Value {
    let corpora = std::env::var_os("CLASSIFY_CORPORA").expect("CLASSIFY_CORPORA names the corpora");
    let folder = Folder::new();
    let json = folder.at("result.json");
    let program = std::env::var_os("CLASSIFY");
    let program = program.unwrap_or_else(|| env!("CARGO_BIN_EXE_classify").into());
    let program = Program::new(program).within(Path::new(&corpora));
    program.succeed(&[&["evaluate"], arguments, &["--json", text(&json), "-q"]].concat());
    serde_json::from_str(&folder.read("result.json")).unwrap()
}

fn tuned(arguments: &[&str]) -> Value {
    evaluate(&[arguments, &["--tune"]].concat())
}

/// The gate of a metric.
struct Gate {
    metric: f64,
    standard_error: f64,
}

/// Computes the gate of an accuracy over `documents` test documents, with the standard error of a
/// binomial proportion.
fn accuracy(metric: f64, documents: u32) -> Gate {
    Gate { metric, standard_error: (metric * (1.0 - metric) / f64::from(documents)).sqrt() }
}

/// Computes the gate of an F1. `half_width` is half of its 95 % interval by `classify evaluate`,
/// which is 1.96 standard errors.
fn f1(metric: f64, half_width: f64) -> Gate {
    Gate { metric, standard_error: half_width / 1.96 }
}

fn reaches(result: &Value, keys: &[&str], gate: &Gate) {
    let found = keys.iter().fold(result, |value, key| &value[key]).as_f64().unwrap();
    // Metrics are deterministic, so a larger change is not caused by chance.
    let minimum = gate.metric - (2.0 * gate.standard_error).min(MAX_LOSS);
    println!("{keys:?} {found:.4}, at least {minimum:.4}");
    assert!(found >= minimum, "{keys:?} is {found}, below {minimum}");
}

/// Default settings, and tuning of the smallest corpus; run by `.ci/run`.
mod quick {
    use super::*;

    #[test]
    #[ignore = "needs CLASSIFY_CORPORA"]
    fn terms_and_lsa() {
        let both = [&R8[..], &["--features", "tfidf+lsa:300"]].concat();
        reaches(&evaluate(&both), &["accuracy"], &accuracy(0.942, 2_190));
    }

    #[test]
    #[ignore = "needs CLASSIFY_CORPORA"]
    fn debian_sections() {
        reaches(&evaluate(&SECTIONS), &["accuracy"], &accuracy(0.631, 18_803));
        let lsc = evaluate(&[&SECTIONS[..], &["--weighting", "lsc"]].concat());
        reaches(&lsc, &["accuracy"], &accuracy(0.663, 18_803));
    }

    #[test]
    #[ignore = "needs CLASSIFY_CORPORA"]
    fn debian_tags() {
        let fixed = ["-k", "60", "--vote", "similarity^2", "--threshold", "0.215"];
        let fixed = evaluate(&[&TAGS[..], &fixed].concat());
        reaches(&fixed, &["micro", "f1"], &f1(0.508, 0.0065));
        reaches(&evaluate(&TAGS), &["micro", "f1"], &f1(0.511, 0.0065));
    }

    #[test]
    #[ignore = "needs CLASSIFY_CORPORA"]
    fn reuters() {
        let modapte = evaluate(&MODAPTE);
        assert_eq!(modapte["documents"]["train"], 7_770);
        assert_eq!(modapte["documents"]["test"], 3_019);
        assert_eq!(modapte["labels"]["train"], 90);
        reaches(&modapte, &["micro", "f1"], &f1(0.824, 0.0132));
        reaches(&modapte, &["macro", "f1"], &f1(0.450, 0.0272));
        reaches(&evaluate(&R8), &["accuracy"], &accuracy(0.938, 2_190));
        reaches(&evaluate(&R52), &["accuracy"], &accuracy(0.911, 2_569));
    }

    #[test]
    #[ignore = "needs CLASSIFY_CORPORA"]
    fn banking77() {
        reaches(&evaluate(&BANKING), &["accuracy"], &accuracy(0.818, 3_080));
        let ten = evaluate(&[&BANKING[..], &["-k", "10"]].concat());
        reaches(&ten, &["accuracy"], &accuracy(0.802, 3_080));
    }

    #[test]
    #[ignore = "needs CLASSIFY_CORPORA"]
    fn rcv1_samples() {
        let binary = ["--train", "rcv1/binary-train.svm", "--test", "rcv1/binary-test.svm"];
        reaches(&evaluate(&binary), &["accuracy"], &accuracy(0.856, 500));
        let sample = ["rcv1/rcv1-sample1-train.svm", "rcv1/rcv1-sample1-test.svm"];
        let topics = evaluate(&["--train", sample[0], "--test", sample[1], "--first-column", "0"]);
        reaches(&topics, &["micro", "f1"], &f1(0.524, 0.0112));
    }

    #[test]
    #[ignore = "needs CLASSIFY_CORPORA"]
    fn tuned_r8() {
        reaches(&tuned(&R8), &["accuracy"], &accuracy(0.980, 2_190));
    }
}

/// Tuning of larger corpora, minutes each; run by `.ci/nightly`.
mod nightly {
    use super::*;

    #[test]
    #[ignore = "needs CLASSIFY_CORPORA and minutes"]
    fn tuned_r52() {
        reaches(&tuned(&R52), &["accuracy"], &accuracy(0.957, 2_569));
    }

    #[test]
    #[ignore = "needs CLASSIFY_CORPORA and minutes"]
    fn tuned_banking77() {
        reaches(&tuned(&BANKING), &["accuracy"], &accuracy(0.910, 3_080));
    }

    #[test]
    #[ignore = "needs CLASSIFY_CORPORA and minutes"]
    fn tuned_modapte90() {
        let result = tuned(&MODAPTE);
        reaches(&result, &["micro", "f1"], &f1(0.904, 0.0096));
        reaches(&result, &["macro", "f1"], &f1(0.582, 0.0292));
        let both = tuned(&[&MODAPTE[..], &["--objective", "micro+macro"]].concat());
        reaches(&both, &["micro", "f1"], &f1(0.900, 0.0094));
        reaches(&both, &["macro", "f1"], &f1(0.640, 0.0326));
    }

    #[test]
    #[ignore = "needs CLASSIFY_CORPORA and minutes"]
    fn tuned_film_reviews() {
        let reviews = ["--train", "mr/train.jsonl.zst", "--test", "mr/test.jsonl.zst"];
        reaches(&tuned(&reviews), &["accuracy"], &accuracy(0.778, 3_554));
    }

    #[test]
    #[ignore = "needs CLASSIFY_CORPORA and minutes"]
    fn tuned_features() {
        let enron = ["--train", "enron/train.svm", "--test", "enron/test.svm"];
        let enron = tuned(&[&enron[..], &["--objective", "micro+macro"]].concat());
        reaches(&enron, &["micro", "f1"], &f1(0.599, 0.02));
        reaches(&enron, &["macro", "f1"], &f1(0.253, 0.03));
        let sample = ["rcv1/rcv1-sample1-train.svm", "rcv1/rcv1-sample1-test.svm"];
        let columns = ["--first-column", "0"];
        let topics = tuned(&[&["--train", sample[0], "--test", sample[1]], &columns[..]].concat());
        reaches(&topics, &["micro", "f1"], &f1(0.549, 0.0083));
        reaches(&topics, &["macro", "f1"], &f1(0.315, 0.014));
    }

    #[test]
    #[ignore = "needs CLASSIFY_CORPORA and minutes"]
    fn tuned_debian() {
        reaches(&tuned(&SECTIONS), &["accuracy"], &accuracy(0.789, 18_803));
        let tags = tuned(&TAGS);
        reaches(&tags, &["micro", "f1"], &f1(0.651, 0.0067));
        reaches(&tags, &["macro", "f1"], &f1(0.304, 0.0112));
    }
}
