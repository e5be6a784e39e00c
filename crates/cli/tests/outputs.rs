//! Tests of outputs: no output overwrites an input, streams stay streams, files keep their
//! permissions, and a failure changes nothing.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::io::{Read, Write};
use std::ops::Deref;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use signal_hook::consts::{SIGABRT, SIGHUP, SIGINT, SIGTERM};
use testkit::{Messages, Run, Shell, wait_until};

const PROGRAM: &str = env!("CARGO_BIN_EXE_classify");
const LINES: &str = r#"{"id": "a", "text": "bake bread with basil", "label": "cooking"}
{"id": "b", "text": "comet and stars", "label": "astronomy"}
{"id": "c", "text": "bake the basil bread", "label": "cooking"}
{"id": "d", "text": "stars, comets and stars", "label": "astronomy"}
"#;

/// A folder with `in.jsonl`, `te.jsonl`, `m.model`, and label folders `folder/{a,b}`.
struct TestFolder(Shell);

impl Deref for TestFolder {
    type Target = Shell;

    fn deref(&self) -> &Shell {
        &self.0
    }
}

impl TestFolder {
    fn new() -> Self {
        let room = Self(Shell::new(PROGRAM));
        room.write("in.jsonl", LINES);
        room.write("te.jsonl", LINES);
        fs::copy(testkit::model("golden-v1.model"), room.at("m.model")).unwrap();
        for label in ["a", "b"] {
            fs::create_dir_all(room.at("folder").join(label)).unwrap();
            fs::write(room.at("folder").join(label).join("x"), format!("{label} text")).unwrap();
        }
        room
    }

    /// Starts the program without a shell, so that it can receive signals.
    fn start(&self, arguments: &[&str], stdin: Stdio) -> Child {
        Command::new(PROGRAM)
            .args(arguments)
            .current_dir(self.path())
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Returns the names and contents of all files, and the targets of links.
    fn contents(&self) -> Vec<(PathBuf, Vec<u8>)> {
        fn collect(folder: &Path, found: &mut Vec<(PathBuf, Vec<u8>)>) {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_symlink() {
                    let to = fs::read_link(&path).unwrap();
                    found.push((path, to.into_os_string().into_encoded_bytes()));
                } else if path.is_dir() {
                    collect(&path, found);
                } else {
                    let bytes = fs::read(&path).unwrap();
                    found.push((path, bytes));
                }
            }
        }
        let mut found = Vec::new();
        collect(self.path(), &mut found);
        found.sort();
        found
    }

    /// Runs a line that must fail and change no file, and records its messages for a snapshot.
    fn refuses(&self, messages: &mut Messages, code: i32, line: &str) {
        let before = self.contents();
        messages.add(line, &self.run(line), code);
        assert!(before == self.contents(), "{line}: a file has changed");
    }

    /// Runs a line that must succeed, and returns its standard output.
    fn ok(&self, line: &str) -> String {
        let out = self.succeed(line);
        assert_eq!(self.unfinished_outputs(), Vec::<PathBuf>::new(), "{line}");
        out
    }

    fn mode(&self, name: &str) -> u32 {
        fs::metadata(self.at(name)).unwrap().mode() & 0o777
    }

    fn set_mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.at(name), fs::Permissions::from_mode(mode)).unwrap();
    }
}

#[test]
fn descriptors_of_the_shell_are_streams() {
    let room = TestFolder::new();
    let mut messages = Messages::new(room.path());
    let answers = room.ok("classify predict m.model te.jsonl -q");
    assert_eq!(answers.lines().count(), 4);
    for to in ["/dev/stdout", "/proc/self/fd/1", "/dev/fd/1", "-", "keep.txt", "link"] {
        room.write("keep.txt", "a\nb\n");
        let _ = fs::remove_file(room.at("link"));
        symlink("/dev/stdout", room.at("link")).unwrap();
        room.ok(&format!("classify predict m.model te.jsonl -q -o {to} >> keep.txt"));
        assert_eq!(room.read("keep.txt"), format!("a\nb\n{answers}"), "-o {to}");
    }
    room.write("keep.txt", "a\n");
    room.ok("classify predict m.model te.jsonl -q -o /dev/stderr 2>> keep.txt");
    assert_eq!(room.read("keep.txt"), format!("a\n{answers}"));
    room.ok("classify predict m.model te.jsonl -q -o /dev/fd/7 7>> keep.txt");
    assert_eq!(room.read("keep.txt"), format!("a\n{answers}{answers}"));
    // Several writers of one file share its position.
    room.ok("{ echo 1; classify predict m.model te.jsonl -q -o /dev/stdout; echo 2; } > keep.txt");
    assert_eq!(room.read("keep.txt"), format!("1\n{answers}2\n"));
    assert_eq!(room.ok("classify predict m.model te.jsonl -q -o /dev/stdout | cat"), answers);
    assert_eq!(room.ok("classify predict m.model te.jsonl -q -o /dev/null"), "");
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    let model = "classify train in.jsonl -q -o";
    room.ok(&format!("{model} plain.model; {model} /dev/stdout | cat > piped.model"));
    assert!(fs::read(room.at("plain.model")).unwrap() == fs::read(room.at("piped.model")).unwrap());
    room.ok(&format!("{model} /proc/self/fd/1 > shell.model"));
    assert!(fs::read(room.at("plain.model")).unwrap() == fs::read(room.at("shell.model")).unwrap());
    room.ok("mkfifo fifo; cat fifo > from & \
             classify predict m.model te.jsonl -q -o fifo; wait; rm fifo");
    assert_eq!(room.read("from"), answers);
    room.refuses(&mut messages, 1, "classify predict m.model te.jsonl -o /dev/fd/9");
    insta::assert_snapshot!(messages);
}

#[test]
fn a_hyphen_is_standard_output() {
    let room = TestFolder::new();
    let mut messages = Messages::new(room.path());
    let evaluate = "classify evaluate --train in.jsonl --test te.jsonl -q";
    for (flags, start) in [
        ("--json -", "{\n  \"schema\""),
        ("--markdown -", "#"),
        ("--html -", "<!"),
        ("--json /dev/stdout", "{\n"),
    ] {
        let out = room.ok(&format!("{evaluate} {flags}"));
        assert!(out.trim_start().starts_with(start), "{flags}: {out}");
        // The report for people is not mixed with the data.
        assert!(!out.contains("\npeak memory"), "{flags}");
    }
    let out = room.ok(&format!("{evaluate} --json - | tail -n 1"));
    assert_eq!(out, "}\n");
    let out = room.ok("classify train in.jsonl -q --tune=votes --tune-table - -o z");
    assert!(out.starts_with("{\n  \"schema\": \"classify.tuning/1\""), "{out}");
    room.ok(&format!("{evaluate} --json e.json --per-document > /dev/null"));
    let out = room.ok("classify compare e.json e.json --json -");
    assert!(out.starts_with("{\n  \"schema\": \"classify.comparison/1\""), "{out}");
    assert!(!room.at("-").exists());
    for line in [
        "classify train in.jsonl -o -",
        "classify tune m.model -o -",
        "classify vectorize m.model te.jsonl -o -",
    ] {
        room.refuses(&mut messages, 2, line);
    }
    room.refuses(&mut messages, 2, &format!("{evaluate} --json - --html /dev/stdout"));
    insta::assert_snapshot!(messages);
}

#[test]
fn no_output_is_an_input() {
    let room = TestFolder::new();
    let mut messages = Messages::new(room.path());
    room.write("h", "cooking\tfood\n");
    room.write("q", "cooking a 1\nastronomy b 1\n");
    fs::hard_link(room.at("in.jsonl"), room.at("hard")).unwrap();
    symlink("in.jsonl", room.at("soft")).unwrap();
    room.ok("classify vectorize m.model te.jsonl -q -o te.vectors");
    room.ok("classify evaluate m.model te.jsonl -q --json e.json --per-document > /dev/null");
    for line in [
        "train in.jsonl -o in.jsonl",
        "train in.jsonl --tune=votes --tune-table in.jsonl -o z",
        "evaluate --train in.jsonl --test te.jsonl --tune=votes --tune-table te.jsonl",
        "evaluate --train in.jsonl --test te.jsonl --json te.jsonl",
        "evaluate --train in.jsonl --test te.jsonl --html ./te.jsonl",
        "evaluate m.model te.jsonl --markdown m.model",
        "evaluate m.model te.vectors --json te.vectors",
        "train in.jsonl --hierarchy h -o h",
        "train in.jsonl --qrels q -o q",
        "predict m.model te.jsonl --qrels q -o q",
        "train folder -o folder/a/x",
        "train folder/ -o folder/../folder/b/x",
        "train - -o in.jsonl < in.jsonl",
        "train /dev/stdin -o in.jsonl < in.jsonl",
        "train in.jsonl -o hard",
        "train hard -o in.jsonl",
        "train in.jsonl -o soft",
        "train soft -o in.jsonl",
        "predict m.model -o te.jsonl < te.jsonl",
        "predict m.model te.jsonl -o m.model",
        "predict m.model te.jsonl >> te.jsonl",
        "predict m.model te.jsonl -o /dev/stdout >> te.jsonl",
        "tune m.model -o z --tune-table m.model",
        "vectorize m.model te.jsonl -o te.jsonl",
        "compare e.json e.json --json e.json",
    ] {
        room.refuses(&mut messages, 2, &format!("classify {line}"));
    }
    // A device, a pipe and /dev/null may be both input and output.
    room.refuses(&mut messages, 3, "classify predict m.model < /dev/null > /dev/null");
    insta::assert_snapshot!(messages);
}

#[test]
fn a_folder_of_corpus_files_may_hold_outputs() {
    let room = TestFolder::new();
    let mut messages = Messages::new(room.path());
    for _ in 0..2 {
        room.ok("cd folder && cp ../in.jsonl . && classify train in.jsonl -q -o new.model");
        fs::create_dir_all(room.at("files")).unwrap();
        fs::copy(room.at("in.jsonl"), room.at("files/in.jsonl")).unwrap();
        room.ok("cd files && classify train . -q -o own.model");
    }
    room.refuses(&mut messages, 2, "cd files && classify train . -o in.jsonl");
    insta::assert_snapshot!(messages);
}

#[test]
fn outputs_must_differ() {
    let room = TestFolder::new();
    let mut messages = Messages::new(room.path());
    room.write("there", "there");
    symlink("new", room.at("to-new")).unwrap();
    let evaluate = "classify evaluate --train in.jsonl --test te.jsonl";
    for line in [
        &format!("{evaluate} --json same --html same"),
        &format!("{evaluate} --json there --html ./there"),
        &format!("{evaluate} --json new --markdown to-new"),
        "classify tune m.model -o X --tune-table X",
        "classify tune m.model -o X --tune-table folder/../X",
        "classify train in.jsonl --tune=votes -o X --tune-table X",
        "classify bench paper folder --json same --svg same",
    ] {
        room.refuses(&mut messages, 2, line);
    }
    room.ok(&format!("{evaluate} -q --json /dev/null --html /dev/null > /dev/null"));
    insta::assert_snapshot!(messages);
}

#[test]
fn outputs_are_opened_before_the_work() {
    let room = TestFolder::new();
    let mut messages = Messages::new(room.path());
    room.write("file", "");
    // The corpus is a standard input that never ends, so failures must come before it is read.
    for line in [
        "train - -o nodir/x",
        "train - -o file/x",
        "train - -o folder",
        "train - -o folder/",
        "train - --tune=votes --tune-table nodir/x -o z",
        "predict m.model - -o nodir/x",
        "vectorize m.model - -o nodir/x",
        "evaluate --train in.jsonl --test - --json nodir/x",
        "evaluate --train in.jsonl --test - --html nodir/x",
        "evaluate --train in.jsonl --test - --markdown nodir/x",
        "tune m.model -o nodir/x",
        "tune m.model --tune-table nodir/x",
        "generate rcv1-like -o file/x",
        "bench paper --json nodir/x",
    ] {
        let before = room.contents();
        let arguments: Vec<&str> = line.split(' ').collect();
        let mut child = room.start(&arguments, Stdio::piped());
        let open = child.stdin.take();
        let run = Run::from(child.wait_with_output().unwrap());
        drop(open);
        messages.add(line, &run, 1);
        assert!(before == room.contents(), "{line}");
    }
    insta::assert_snapshot!(messages);
}

#[test]
fn permissions_and_links_are_kept() {
    let room = TestFolder::new();
    let mut messages = Messages::new(room.path());
    for mode in [0o600, 0o640, 0o664] {
        room.set_mode("m.model", mode);
        let before = fs::metadata(room.at("m.model")).unwrap();
        room.ok("classify tune m.model -q");
        let after = fs::metadata(room.at("m.model")).unwrap();
        assert_ne!(before.ino(), after.ino(), "it was replaced");
        assert_eq!(room.mode("m.model"), mode);
        assert_eq!((before.uid(), before.gid()), (after.uid(), after.gid()));
    }
    room.ok("umask 027; classify train in.jsonl -q -o new");
    assert_eq!(room.mode("new"), 0o640, "a new file has what the umask leaves");
    room.set_mode("m.model", 0o444);
    room.refuses(&mut messages, 1, "classify tune m.model");
    room.refuses(&mut messages, 2, "classify predict m.model te.jsonl -o m.model");
    room.set_mode("new", 0o444);
    room.refuses(&mut messages, 1, "classify train in.jsonl -o new");
    // Links stay links, even dangling ones. A cycle is an error.
    for (link, to) in [("there", "target"), ("dangling", "folder/later"), ("far", "dangling")] {
        symlink(to, room.at(link)).unwrap();
    }
    room.write("target", "old");
    for (link, to) in [("there", "target"), ("dangling", "folder/later"), ("far", "folder/later")] {
        let _ = fs::remove_file(room.at("folder/later"));
        room.ok(&format!("classify predict m.model te.jsonl -q -o {link}"));
        assert!(room.at(link).is_symlink(), "{link}");
        assert!(!room.at(to).is_symlink() && room.read(to).lines().count() == 4, "{link}");
    }
    symlink("loop", room.at("loop")).unwrap();
    room.refuses(&mut messages, 1, "classify train in.jsonl -o loop");
    insta::assert_snapshot!(messages);
}

/// Runs as a user other than root, because root may write everywhere.
#[test]
fn a_folder_that_may_not_be_written() {
    if fs::metadata("/proc/self").unwrap().uid() == 0 && !Path::new("/usr/bin/setpriv").exists() {
        println!("not tried: root may write everywhere, and there is no setpriv");
        return;
    }
    let room = TestFolder::new();
    room.set_mode("folder", 0o555);
    fs::set_permissions(room.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let run = if fs::metadata("/proc/self").unwrap().uid() == 0 {
        // The program may be in a folder that only root can enter, so it is started through an open
        // descriptor.
        room.run(
            "cp \"$CLASSIFY\" ./program && chmod 755 program && \
             setpriv --reuid=65534 --regid=65534 --clear-groups \
             ./program train in.jsonl -o folder/x",
        )
    } else {
        room.run("classify train in.jsonl -o folder/x")
    };
    room.set_mode("folder", 0o755);
    let mut messages = Messages::new(room.path());
    messages.add("train in.jsonl -o folder/x", &run, 1);
    insta::assert_snapshot!(messages);
}

#[test]
fn a_signal_leaves_nothing_behind() {
    let signals = [("INT", SIGINT), ("TERM", SIGTERM), ("HUP", SIGHUP), ("ABRT", SIGABRT)];
    for (signal, number) in signals {
        // A child inherits signals that are ignored, for example by `nohup`. Signals with a handler
        // get their default effect in the child.
        signal_hook::flag::register(number, Arc::default()).unwrap();
        let room = TestFolder::new();
        room.write("out", "old");
        let mut child = room.start(&["predict", "m.model", "-", "-o", "out"], Stdio::piped());
        // `wait` would close standard input, whose end could come before the signal.
        let input = child.stdin.take();
        wait_until("an output is open", || !room.unfinished_outputs().is_empty());
        let id = child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &id]).status().unwrap().success());
        let status = child.wait().unwrap();
        drop(input);
        assert_eq!(status.signal(), Some(number), "{status}");
        assert_eq!(room.unfinished_outputs(), Vec::<PathBuf>::new(), "{signal}");
        assert_eq!(room.read("out"), "old");
    }
}

#[test]
fn an_ignored_signal_stays_ignored() {
    let room = TestFolder::new();
    let line = "trap '' HUP; exec \"$CLASSIFY\" predict m.model - -q -o out";
    let mut child = room.command(line).stdin(Stdio::piped()).spawn().unwrap();
    wait_until("an output is open", || !room.unfinished_outputs().is_empty());
    let number = child.id().to_string();
    assert!(Command::new("kill").args(["-s", "HUP", &number]).status().unwrap().success());
    child.stdin.take().unwrap().write_all(b"bake bread\n").unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(room.read("out").lines().count(), 1);
}

#[test]
fn standard_output_that_is_closed_or_full() {
    let room = TestFolder::new();
    let mut messages = Messages::new(room.path());
    for command in [
        "predict m.model te.jsonl -q",
        "predict m.model te.vectors -q",
        "evaluate m.model te.jsonl -q",
        "evaluate m.model te.jsonl -q --json -",
        "info m.model",
        "info m.model --json",
        "tokens te.jsonl",
        "devices",
        "completions bash",
        "--help",
        "train --help",
        "--version",
    ] {
        room.ok("classify vectorize m.model te.jsonl -q -o te.vectors");
        room.refuses(&mut messages, 1, &format!("classify {command} >&-"));
        room.refuses(&mut messages, 1, &format!("classify {command} > /dev/full"));
        let run = room.run(&format!("classify {command} | true; :"));
        assert_eq!(run.err, "", "{command}: a broken pipe is quiet");
        room.ok(&format!("classify {command} > /dev/null"));
    }
    // Python's DEVNULL is open for reading and writing, so it counts as open.
    room.ok("classify info m.model 1<> /dev/null");
    room.refuses(&mut messages, 2, "classify predict m.model te.jsonl -o out >&- 2>&- -k 0");
    room.ok("classify predict m.model te.jsonl -q -o out >&-");
    assert_eq!(room.read("out").lines().count(), 4);
    insta::assert_snapshot!(messages);
}

/// A broken pipe ends the program with exit code 0.
#[test]
fn a_broken_pipe_exits_quietly() {
    let room = TestFolder::new();
    let mut child = room.start(&["predict", "m.model", "-", "-q"], Stdio::piped());
    drop(child.stdout.take());
    child.stdin.take().unwrap().write_all(b"bake bread\n").unwrap();
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!((child.wait().unwrap().code(), &*err), (Some(0), ""));
}

#[test]
fn generated_files_and_pages() {
    let room = TestFolder::new();
    let mut messages = Messages::new(room.path());
    room.ok("classify generate rcv1-like --documents 60 -q -o made");
    assert_eq!(fs::read_dir(room.at("made")).unwrap().count(), 7);
    room.ok("classify man pages");
    let mut names: Vec<String> = fs::read_dir(room.at("pages"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    for name in ["classify.1", "classify-train.1", "classify-bench-paper.1"] {
        assert!(names.iter().any(|found| found == name), "{name}: {names:?}");
    }
    room.set_mode("made/rcv1-v2.topics.qrels", 0o400);
    room.refuses(&mut messages, 1, "classify generate rcv1-like --documents 60 -o made");
    insta::assert_snapshot!(messages);
}
