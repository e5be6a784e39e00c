//! Quality gates on real corpora: `CLASSIFY_CORPORA=FOLDER cargo test --release --test quality --
//! --ignored`. `corpora/README.md` says where the corpora come from. The figures may rise,
//! never fall: those of the default settings, and those of `--tune`, which sees training data only.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may panic, and says its figures"
)]

use std::path::PathBuf;
use std::process::Command;

fn evaluate(arguments: &[&str]) -> serde_json::Value {
    let corpora = std::env::var_os("CLASSIFY_CORPORA").expect("CLASSIFY_CORPORA names the corpora");
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("result.json");
    let status = Command::new(env!("CARGO_BIN_EXE_classify"))
        .arg("evaluate")
        .args(arguments)
        .arg("--json")
        .arg(&json)
        .arg("-q")
        .current_dir(PathBuf::from(corpora))
        .stdout(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap()
}

fn reaches(result: &serde_json::Value, measure: &[&str], least: f64) {
    let found = measure.iter().fold(result, |value, key| &value[key]).as_f64().unwrap();
    println!("{measure:?} {found:.4}, at least {least}");
    assert!(found >= least, "{measure:?} is {found}, below {least}");
}

#[test]
#[ignore = "needs CLASSIFY_CORPORA"]
fn debian_sections() {
    let sides =
        ["--train", "debian/sections-train.jsonl.zst", "--test", "debian/sections-test.jsonl.zst"];
    let result = evaluate(&sides);
    reaches(&result, &["accuracy"], 0.575);
    reaches(&evaluate(&[&sides[..], &["--weighting", "lsc"]].concat()), &["accuracy"], 0.615);
}

#[test]
#[ignore = "needs CLASSIFY_CORPORA"]
fn debian_tags() {
    let result = evaluate(&[
        "--train",
        "debian/tags-train.jsonl.zst",
        "--test",
        "debian/tags-test.jsonl.zst",
    ]);
    reaches(&result, &["micro", "f1"], 0.45);
}

#[test]
#[ignore = "needs CLASSIFY_CORPORA"]
fn reuters_modapte90() {
    let result = evaluate(&["--preset", "modapte90", "reuters21578"]);
    assert_eq!(result["documents"]["train"], 7_770);
    assert_eq!(result["documents"]["test"], 3_019);
    assert_eq!(result["labels"]["train"], 90);
    reaches(&result, &["micro", "f1"], 0.81);
}

#[test]
#[ignore = "needs CLASSIFY_CORPORA"]
fn banking77() {
    let result =
        evaluate(&["--train", "banking77/train.csv", "--test", "banking77/test.csv", "-k", "10"]);
    reaches(&result, &["accuracy"], 0.78);
}

#[test]
#[ignore = "needs CLASSIFY_CORPORA"]
fn rcv1_samples() {
    let result = evaluate(&["--train", "rcv1/binary-train.svm", "--test", "rcv1/binary-test.svm"]);
    reaches(&result, &["accuracy"], 0.84);
    let sample = ["rcv1/rcv1-sample1-train.svm", "rcv1/rcv1-sample1-test.svm"];
    let result = evaluate(&["--train", sample[0], "--test", sample[1], "--first-column", "0"]);
    reaches(&result, &["micro", "f1"], 0.43);
}

#[test]
#[ignore = "needs CLASSIFY_CORPORA"]
fn tuned() {
    let tuned = |arguments: &[&str]| evaluate(&[arguments, &["--tune"]].concat());
    reaches(&tuned(&["--preset", "r8", "reuters21578"]), &["accuracy"], 0.97);
    reaches(&tuned(&["--preset", "r52", "reuters21578"]), &["accuracy"], 0.94);
    let reuters = tuned(&["--preset", "modapte90", "reuters21578", "--objective", "micro+macro"]);
    reaches(&reuters, &["micro", "f1"], 0.88);
    reaches(&reuters, &["macro", "f1"], 0.62);
    let banking = ["--train", "banking77/train.csv", "--test", "banking77/test.csv"];
    reaches(&tuned(&banking), &["accuracy"], 0.825);
    let sides =
        ["--train", "debian/sections-train.jsonl.zst", "--test", "debian/sections-test.jsonl.zst"];
    reaches(&tuned(&sides), &["accuracy"], 0.725);
}
