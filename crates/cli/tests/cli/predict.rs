//! `classify predict`.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::Value;
use testkit::{Folder, Messages, Run, text};

use crate::{GOLDEN, TEST, TRAIN, command, ok, program, refused, run, run_with, small_corpus};

/// A named pipe is read once, to its end.
#[cfg(unix)]
#[test]
fn a_pipe_with_a_name() {
    let folder = Folder::new();
    let model = folder.text("m.model");
    ok(&["train", TRAIN, "-o", &model]);
    let text = std::fs::read(testkit::root().join(TEST)).unwrap();
    let expected = ok(&["predict", &model, TEST]).out;
    let piped = run_with(&["predict", &model, "/dev/stdin"], &text);
    assert_eq!((piped.code, piped.out), (0, expected), "{}", piped.err);
}

#[test]
fn predictions_in_every_format() {
    let ask = |extra: &[&str], stdin: &str| {
        let run = run_with(&[&["predict", GOLDEN, "-q"], extra].concat(), stdin.as_bytes());
        assert_eq!(run.code, 0, "{}", run.err);
        assert_eq!(run.err, "");
        run.out
    };
    let lines = "bake the bread\nqwerty\n\nSaturn\n";
    let jsonl = ask(&[], lines);
    let rows: Vec<Value> = jsonl.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 4, "one answer per line, empty lines included");
    assert_eq!(rows[0]["labels"][0], "cooking");
    assert_eq!(rows[1]["reason"], "no-known-term");
    assert_eq!(rows[2]["labels"].as_array().unwrap().len(), 0);
    assert_eq!(rows[3]["labels"][0], "astronomy");
    let objects = "{\"id\": \"q\", \"text\": \"bake the bread\"}\n";
    assert!(ask(&["-"], objects).starts_with("{\"id\":\"q\",\"labels\":[\"cooking\"]"));
    let csv = ask(&["--to", "csv", "--top", "2"], lines);
    assert!(
        csv.starts_with("id,labels,score,probability,confidence,reason,scores\n1,cooking,"),
        "{csv}"
    );
    let tsv = ask(&["--to", "tsv", "--with", "neighbors"], lines);
    assert!(
        tsv.starts_with(
            "id\tlabels\tscore\tprobability\tconfidence\treason\tneighbors\n1\tcooking\t"
        ),
        "{tsv}"
    );
    assert_eq!(ask(&["--to", "fasttext"], lines).lines().next(), Some("__label__cooking"));
    let near = ask(&["--with", "neighbors", "-k", "1"], "dough\n");
    let near: Value = serde_json::from_str(&near).unwrap();
    assert_eq!(near["neighbors"][0]["id"], "g1");
    assert_eq!(near["neighbors"][0]["labels"][0], "cooking");
    assert!(near["neighbors"][0]["similarity"].as_f64().unwrap() > 0.0);
    let folder = Folder::new();
    let file = folder.at("answers.jsonl");
    assert_eq!(ask(&["-o", text(&file)], lines), "");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), jsonl);
}

/// A failed prediction into a file leaves no partial output.
#[test]
fn failed_predictions_leave_no_partial_output() {
    let folder = Folder::new();
    let mut messages = Messages::new(folder.path());
    let questions = folder.write("q.jsonl", "{\"text\": \"bread\"}\nbroken\n");
    let answers = folder.write("a.jsonl", "old answers");
    refused(&mut messages, 3, &["predict", GOLDEN, text(&questions), "-o", text(&answers)]);
    assert_eq!(folder.read("a.jsonl"), "old answers");
    // On standard output, predictions before the error are written.
    let failed = run(&["predict", GOLDEN, text(&questions)]);
    assert_eq!((failed.code, failed.out.lines().count()), (3, 1));
    insta::assert_snapshot!(messages);
}

/// Outputs that are not regular files are written directly, and links stay links.
#[cfg(unix)]
#[test]
fn outputs_that_are_not_regular_files() {
    let folder = Folder::new();
    let target = folder.write("target", "old");
    let link = folder.at("link");
    std::os::unix::fs::symlink(&target, &link).unwrap();
    let run = run_with(&["predict", GOLDEN, "-q", "-o", text(&link)], b"bread\n");
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(std::fs::read_to_string(&target).unwrap().contains("cooking"));
    let pipe = folder.at("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = {
        let pipe = pipe.clone();
        std::thread::spawn(move || std::fs::read_to_string(pipe).unwrap())
    };
    let run = run_with(&["predict", GOLDEN, "-q", "-o", text(&pipe)], b"bread\n");
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(reader.join().unwrap().contains("cooking"));
    assert!(!std::fs::metadata(&pipe).unwrap().is_file());
}

/// A source that delivers one byte at a time gives the same results as a source that delivers
/// everything at once.
#[test]
fn a_slow_pipe() {
    let mut child = command(&["predict", GOLDEN, "-q", "--to", "fasttext"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    for byte in b"{\"text\": \"bread\"}\n" {
        pipe.write_all(&[*byte]).unwrap();
        pipe.flush().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    drop(pipe);
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "__label__cooking\n");
}

/// A text model reads lines that look like features as text. A CSV header is recognized.
#[test]
fn format_detection_uses_the_model() {
    let mut messages = Messages::new(&testkit::root());
    // With a GPU, the program also prints the search engine.
    let without_gpus = program().without_gpus();
    let arguments = ["predict", GOLDEN, "-", "--to", "fasttext"];
    let ask = |stdin: &str| without_gpus.run_with(&arguments, stdin.as_bytes());
    let run = ask("3 4:30 bread\n");
    assert_eq!((run.code, run.out.as_str()), (0, "__label__cooking\n"), "{}", run.err);
    let run = ask("id,text\n1,bread\n");
    messages.add("predict - (a header and a line)", &run, 0);
    assert_eq!(run.out, "__label__cooking\n");
    insta::assert_snapshot!(messages);
}

/// Predictions for the documents before an invalid document are written.
#[test]
fn predictions_before_an_invalid_document_are_written() {
    let lines = b"{\"text\": \"bread\"}\n{\"features\": {\"1\": 1}}\n{\"text\": \"stars\"}\n";
    let mut messages = Messages::new(&testkit::root());
    let run = run_with(&["predict", GOLDEN, "-"], lines);
    messages.add("predict -", &run, 3);
    assert_eq!(run.out.lines().count(), 1);
    insta::assert_snapshot!(messages);
}

#[test]
fn a_broken_pipe_exits_quietly() {
    let mut child = command(&["predict", GOLDEN, "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut pipe = child.stdin.take().unwrap();
    let _ = pipe.write_all("bake the bread\n".repeat(10_000).as_bytes());
    drop(pipe);
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{err}");
    assert_eq!(err.lines().filter(|line| line.starts_with("error")).count(), 0, "{err}");
}

#[test]
fn a_document_without_a_vote_gets_the_most_frequent_label() {
    let folder = Folder::new();
    let corpus = small_corpus(folder.path());
    let model = folder.at("m");
    ok(&["train", text(&corpus), "-o", text(&model), "-q"]);
    let answer = |flags: &[&str]| -> Value {
        let run = run_with(&[&["predict", text(&model), "-q"], flags].concat(), b"qwerty\n");
        serde_json::from_str(&run.out).unwrap()
    };
    let single = answer(&[]);
    assert_eq!(single["labels"][0], "common");
    assert_eq!(single["reason"], "no-known-term");
    assert!(single.get("score").is_none());
    // A multi-label document may have no label.
    assert_eq!(answer(&["--mode", "multi"])["labels"].as_array().unwrap().len(), 0);
}

/// If the system cannot start more threads, the command reports this.
#[test]
fn threads_that_cannot_be_started() {
    let folder = Folder::new();
    let corpus = small_corpus(folder.path());
    let model = folder.at("m");
    ok(&["train", text(&corpus), "-o", text(&model), "-q"]);
    // The process itself counts as one thread. The limit does not affect root.
    let program = env!("CARGO_BIN_EXE_classify");
    let limited = |threads: u32, command: &str| {
        let script = format!(
            "ulimit -u {threads} 2>/dev/null; \
             exec setpriv --reuid 65534 --clear-groups {program} {command}"
        );
        Command::new("sh").args(["-c", &script]).output().unwrap()
    };
    let mut available = Command::new("setpriv");
    available.args(["--reuid", "65534", "--clear-groups", "true"]);
    if !available.status().is_ok_and(|status| status.success()) {
        println!("not root, or no setpriv: not tried");
        return;
    }
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    let predict = format!("predict {} {} -j 1 -q", text(&model), text(&corpus));
    for threads in 1..6 {
        let run = Run::from(limited(threads, &predict));
        assert!(!run.err.contains("panicked"), "{threads}: {}", run.err);
        assert_eq!(run.out.lines().count() == 60, run.code == 0, "{threads}: {run:?}");
        assert!(matches!(run.code, 0 | 5), "{threads}: {run:?}");
    }
}
