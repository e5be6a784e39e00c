//! Tests of kills at any moment, and of too little disk space, descriptors, threads and memory. An
//! output is always completely old or completely new. A failure has an exit code and a message.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::ops::Deref;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use testkit::{Messages, Shell, wait_until};

/// A folder with `m.model`, trained on the sample corpus.
struct TestFolder(Shell);

impl Deref for TestFolder {
    type Target = Shell;

    fn deref(&self) -> &Shell {
        &self.0
    }
}

impl TestFolder {
    fn new() -> Self {
        let room = Self(Shell::new(env!("CARGO_BIN_EXE_classify")));
        room.succeed("classify train $SAMPLE/train.jsonl -q -o m.model");
        room
    }

    /// Runs a command, and checks that it succeeds or fails cleanly: with an exit code in `codes`
    /// and a message, with the old output, and without a temporary file.
    fn check_clean_end(&self, line: &str, output: &str, codes: &[i32], new: &[u8]) -> i32 {
        self.write(output, "old");
        let run = self.output(line);
        let err = String::from_utf8_lossy(&run.stderr);
        // The C library aborts the process if memory for its own use runs out.
        let aborted = run.status.signal() == Some(6) && err.contains("Fatal glibc error");
        let code = run.status.code().or(aborted.then_some(5));
        let code = code.unwrap_or_else(|| panic!("{line}: {}: {err}", run.status));
        assert!(code == 0 || codes.contains(&code), "{line}: exit {code}: {err}");
        assert!(!err.contains("panicked"), "{line}: {err}");
        let is = fs::read(self.at(output)).unwrap();
        if code == 0 {
            assert!(is == new, "{line}: exit 0, but the bytes differ");
        } else {
            assert!(err.contains("error"), "{line}: exit {code}: {err}");
            assert!(is == b"old", "{line}: exit {code}, and the output has changed");
        }
        assert_eq!(self.unfinished_outputs(), Vec::<PathBuf>::new(), "{line}: exit {code}");
        code
    }

    /// Runs a command line and returns the file that it wrote.
    fn run_writer(&self, line: &str) -> Vec<u8> {
        self.succeed(line);
        fs::read(self.at("out")).unwrap()
    }
}

/// Command lines that write the file `out`.
const WRITERS: [&str; 3] = [
    "classify train $SAMPLE/train.jsonl -q -o out",
    "classify predict m.model $SAMPLE/test.jsonl -q -o out",
    "classify tune m.model -q -o out",
];

/// Kills each writer after increasing delays, up to its total running time.
fn kill_writers(times: u32) {
    let room = TestFolder::new();
    for line in WRITERS {
        let start = Instant::now();
        let new = room.run_writer(line);
        let takes = start.elapsed();
        let mut killed = 0;
        let mut done = 0;
        for at in 0..times {
            room.write("out", "old");
            let mut child = room.command(&format!("exec {line}")).spawn().unwrap();
            std::thread::sleep(takes * (at + 1) / times);
            let _ = child.kill();
            let status = child.wait().unwrap();
            let is = fs::read(room.at("out")).unwrap();
            if status.success() {
                done += 1;
                assert!(is == new, "{line}");
            } else {
                killed += 1;
                assert_eq!(status.signal(), Some(9));
                assert!(is == b"old" || is == new, "{line}: partial file");
            }
            room.unfinished_outputs().iter().for_each(|path| fs::remove_file(path).unwrap());
        }
        assert!(killed > 0, "{line}: {done} times done");
    }
}

#[test]
fn a_kill_leaves_the_old_file_or_the_new_one() {
    kill_writers(8);
}

#[test]
#[ignore = "takes minutes"]
fn many_kills() {
    kill_writers(300);
}

/// Limits the size of files, as on a full disk or with `ulimit -f`.
fn limit_files(blocks: impl IntoIterator<Item = u32>) {
    let room = TestFolder::new();
    let written = WRITERS.map(|line| room.run_writer(line));
    for blocks in blocks {
        for (line, new) in WRITERS.iter().zip(&written) {
            let limited = format!("ulimit -f {blocks}; exec {line}");
            let code = room.check_clean_end(&limited, "out", &[1], new);
            assert_eq!(code == 0, new.len() <= blocks as usize * 512, "{limited}");
        }
    }
}

#[test]
fn no_space_for_an_output() {
    limit_files([0, 7, 4_000]);
    let room = TestFolder::new();
    let mut messages = Messages::new(room.path());
    for line in [
        "classify train $SAMPLE/train.jsonl -q -o /dev/full",
        "classify predict m.model $SAMPLE/test.jsonl -q -o /dev/full",
        "classify evaluate m.model $SAMPLE/test.jsonl -q --json /dev/full",
        "classify vectorize m.model $SAMPLE/test.jsonl -q -o /dev/full",
    ] {
        messages.add(line, &room.run(line), 1);
    }
    insta::assert_snapshot!(messages);
}

#[test]
#[ignore = "takes minutes"]
fn no_space_at_any_block() {
    limit_files(0..300);
}

/// Limits the number of file descriptors.
#[test]
fn few_descriptors() {
    let room = TestFolder::new();
    for line in WRITERS {
        let new = room.run_writer(line);
        let mut codes: Vec<i32> = Vec::new();
        for descriptors in [3, 6, 10, 20] {
            // The loader itself needs one; without it, the shell returns 127.
            let limited = format!("ulimit -n {descriptors}; exec {line}");
            let codes_here = [1, 3, 4, 5, 127];
            codes.push(room.check_clean_end(&limited, "out", &codes_here, &new));
        }
        assert_eq!(codes.last(), Some(&0), "{line}: {codes:?}");
    }
}

/// Limits memory in relative steps, from the loader's minimum to `enough` times the sufficient
/// amount.
fn little_memory(step: f64, enough: usize, writers: &[&str]) {
    let room = TestFolder::new();
    // Below this, even the loader does not run.
    let starts = |kib: &u64| {
        let run = room.output(&format!("ulimit -v {kib}; exec classify --version"));
        run.status.success()
    };
    let floor = (4_000..).step_by(1_000).find(starts).unwrap();
    for line in writers {
        let new = room.run_writer(line);
        let mut codes = Vec::new();
        let mut kib = floor as f64;
        while !codes.ends_with(&vec![0; enough]) {
            // Only two threads, because each needs address space.
            let limited = format!("ulimit -v {kib:.0}; exec {line} -j 2");
            codes.push(room.check_clean_end(&limited, "out", &[5], &new));
            kib *= 1.0 + step;
        }
        assert!(codes.contains(&5), "{line}: {codes:?}");
    }
}

#[test]
fn too_little_memory_is_a_missing_resource() {
    // `tune` is slow if memory is scarce.
    little_memory(0.4, 1, &WRITERS[..2]);
}

#[test]
#[ignore = "takes minutes"]
fn memory_limits_in_small_steps() {
    little_memory(0.02, 3, &WRITERS);
}

/// A model that does not fit in memory is not reported as damaged.
#[test]
fn a_model_larger_than_memory() {
    let room = TestFolder::new();
    // A sparse file needs no disk space.
    let large = fs::File::create(room.at("large.model")).unwrap();
    large.set_len(8 << 30).unwrap();
    let line = "ulimit -v 1000000; exec classify info large.model";
    let mut messages = Messages::new(room.path());
    messages.add(line, &room.run(line), 5);
    insta::assert_snapshot!(messages);
}

/// Limits the number of threads. `ulimit -u` does not affect root, so this needs another user.
#[test]
fn few_threads() {
    if !Path::new("/usr/bin/setpriv").exists() || !Path::new("/usr/bin/prlimit").exists() {
        println!("not tried: there is no setpriv or no prlimit");
        return;
    }
    let room = TestFolder::new();
    let user = 1_000_000 + std::process::id() % 1_000_000;
    let own = format!("cp \"$CLASSIFY\" program && chmod 755 program . && chown -R {user} .");
    if room.run(&own).code != 0 {
        println!("not tried: only root can become another user");
        return;
    }
    let line = format!(
        "setpriv --reuid={user} --clear-groups prlimit --nproc=2 \
         ./program train in.jsonl -j 8 -o x"
    );
    fs::copy(testkit::sample("train.jsonl"), room.at("in.jsonl")).unwrap();
    room.check_clean_end(&line, "m.model", &[5], b"");
    assert!(!room.at("x").exists());
}

/// A model that is overwritten in place while in use keeps answering.
#[test]
fn an_overwritten_model_keeps_answering() {
    let room = TestFolder::new();
    let golden = testkit::model("golden-v1.model");
    fs::copy(&golden, room.at("g.model")).unwrap();
    let mut child = room
        .command("exec classify predict g.model - -q")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut to = child.stdin.take().unwrap();
    let mut from = BufReader::new(child.stdout.take().unwrap());
    let mut ask = || {
        to.write_all(b"bake bread with basil\n").unwrap();
        let mut answer = String::new();
        from.read_line(&mut answer).unwrap();
        answer.split_once(',').unwrap().1.to_owned()
    };
    let first = ask();
    let length = fs::metadata(&golden).unwrap().len();
    for garbage in [vec![], vec![0xff; usize::try_from(length).unwrap()]] {
        room.write("g.model", garbage);
        assert_eq!(ask(), first);
    }
    drop(to);
    assert!(child.wait().unwrap().success());
    // A mapped model gives the same predictions.
    for command in ["predict", "evaluate"] {
        let of = |flag: &str| {
            let line = format!("classify {command} m.model $SAMPLE/test.jsonl -q {flag}");
            let out = room.succeed(&line);
            out.split("peak memory").next().unwrap().to_owned()
        };
        assert_eq!(of(""), of("--map"));
    }
}

/// A failure ends the program even if its input stays open.
#[test]
fn failures_do_not_wait_for_input() {
    let room = TestFolder::new();
    let mut child = room
        .command("exec classify predict m.model - -q -o /dev/full")
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut to = child.stdin.take().unwrap();
    to.write_all(b"bake bread\n").unwrap();
    wait_until("the program ends", || child.try_wait().unwrap().is_some());
    assert_eq!(child.wait().unwrap().code(), Some(1));
    drop(to);
}
