//! Tests of the program as users run it, one module per command.
//!
//! All modules form one binary, because every binary is linked with the whole library. Tests assert
//! exit codes; `snapshots` contains the wording of messages.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod abstain;
mod check;
mod cluster;
mod compare;
mod devices;
#[cfg(feature = "encoder")]
mod encoder;
mod evaluate;
mod explain;
mod forms;
mod generate;
mod mistakes;
mod notes;
mod next;
mod predict;
mod shell;
mod tokens;
mod train;
mod tune;
mod update;
mod vectorize;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use testkit::{Folder, Messages, Program, Run, text};

const TRAIN: &str = "corpora/sample/train.jsonl";
const TEST: &str = "corpora/sample/test.jsonl";
const GOLDEN: &str = "models/golden-v1.model";

/// The program, started in the root of the repository.
fn program() -> Program {
    Program::new(env!("CARGO_BIN_EXE_classify"))
}

fn command(arguments: &[&str]) -> Command {
    program().command(arguments)
}

fn run(arguments: &[&str]) -> Run {
    program().run(arguments)
}

fn run_with(arguments: &[&str], input: &[u8]) -> Run {
    program().run_with(arguments, input)
}

fn ok(arguments: &[&str]) -> Run {
    program().succeed(arguments)
}

/// Runs a command that must fail with an exit code, and records its messages for a snapshot.
fn refused(messages: &mut Messages, code: i32, arguments: &[&str]) {
    refused_with(messages, code, arguments, b"");
}

fn refused_with(messages: &mut Messages, code: i32, arguments: &[&str], input: &[u8]) {
    messages.add(&arguments.join(" "), &run_with(arguments, input), code);
}

/// Returns a folder with a model of the sample corpus.
fn trained_model(extra: &[&str]) -> (Folder, PathBuf) {
    let folder = Folder::new();
    let model = folder.at("sample.model");
    ok(&[&["train", TRAIN, "-o", text(&model)], extra].concat());
    (folder, model)
}

fn read_json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Returns the lines of an output without times and memory, which differ between runs.
fn without_times(out: &str) -> Vec<String> {
    let lines = out.lines().take_while(|line| !line.starts_with(" stage"));
    lines.filter(|line| !line.starts_with("peak memory")).map(str::to_owned).collect()
}

/// Writes a corpus with groups and two labels, one of them rare.
fn small_corpus(folder: &Path) -> PathBuf {
    let path = folder.join("small.jsonl");
    let line = |number: usize| {
        let is_rare = number.is_multiple_of(3);
        let label = if is_rare { "rare" } else { "common" };
        let words = if is_rare { "guitar strings" } else { "bread dough" };
        let text = format!("{words} {number}");
        let author = (number / 3 % 10).to_string();
        serde_json::json!({ "text": text, "label": label, "author": author }).to_string() + "\n"
    };
    std::fs::write(&path, (0..60).map(line).collect::<String>()).unwrap();
    path
}
