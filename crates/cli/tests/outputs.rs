//! Outputs do no harm: no output is an input, streams stay streams, files keep their permissions,
//! and a failure leaves everything unchanged.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGABRT, SIGHUP, SIGINT, SIGTERM};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/golden-v1.model");
const LINES: &str = r#"{"id": "a", "text": "bake bread with basil", "label": "cooking"}
{"id": "b", "text": "comet and stars", "label": "astronomy"}
{"id": "c", "text": "bake the basil bread", "label": "cooking"}
{"id": "d", "text": "stars, comets and stars", "label": "astronomy"}
"#;

mod room;

use room::Room;

impl Room {
    /// A folder with `in.jsonl`, `te.jsonl`, `m.model` and label folders `folder/{a,b}`.
    fn new() -> Self {
        let room = Self::empty();
        fs::write(room.at("in.jsonl"), LINES).unwrap();
        fs::write(room.at("te.jsonl"), LINES).unwrap();
        fs::copy(GOLDEN, room.at("m.model")).unwrap();
        for label in ["a", "b"] {
            fs::create_dir_all(room.at("folder").join(label)).unwrap();
            fs::write(room.at("folder").join(label).join("x"), format!("{label} text")).unwrap();
        }
        room
    }

    /// The program itself, so that it can receive signals.
    fn start(&self, arguments: &[&str], stdin: Stdio) -> Child {
        Command::new(env!("CARGO_BIN_EXE_classify"))
            .args(arguments)
            .current_dir(self.path())
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Names and contents of all files, and the targets of links.
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

    /// The line fails with a code and a message, and changes nothing.
    fn refuses(&self, line: &str, code: i32, message: &str) {
        let before = self.contents();
        let run = self.sh(line);
        let err = String::from_utf8(run.stderr).unwrap();
        assert_eq!(run.status.code(), Some(code), "{line}: {err}");
        assert!(err.contains(message), "{line}: {err}");
        assert!(before == self.contents(), "{line}: a file has changed");
    }

    /// The line succeeds; returns its standard output.
    fn ok(&self, line: &str) -> String {
        let run = self.sh(line);
        assert!(run.status.success(), "{line}: {}", String::from_utf8_lossy(&run.stderr));
        assert!(self.temporary().is_empty(), "{line}: {:?}", self.temporary());
        String::from_utf8(run.stdout).unwrap()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.at(name)).unwrap()
    }

    fn mode(&self, name: &str) -> u32 {
        fs::metadata(self.at(name)).unwrap().mode() & 0o777
    }

    fn set_mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.at(name), fs::Permissions::from_mode(mode)).unwrap();
    }
}

#[test]
fn what_the_shell_has_opened_is_a_stream() {
    let room = Room::new();
    let answers = room.ok("classify predict m.model te.jsonl -q");
    assert_eq!(answers.lines().count(), 4);
    for to in ["/dev/stdout", "/proc/self/fd/1", "/dev/fd/1", "-", "keep.txt", "link"] {
        fs::write(room.at("keep.txt"), "a\nb\n").unwrap();
        let _ = fs::remove_file(room.at("link"));
        symlink("/dev/stdout", room.at("link")).unwrap();
        room.ok(&format!("classify predict m.model te.jsonl -q -o {to} >> keep.txt"));
        assert_eq!(room.read("keep.txt"), format!("a\nb\n{answers}"), "-o {to}");
    }
    fs::write(room.at("keep.txt"), "a\n").unwrap();
    room.ok("classify predict m.model te.jsonl -q -o /dev/stderr 2>> keep.txt");
    assert_eq!(room.read("keep.txt"), format!("a\n{answers}"));
    room.ok("classify predict m.model te.jsonl -q -o /dev/fd/7 7>> keep.txt");
    assert_eq!(room.read("keep.txt"), format!("a\n{answers}{answers}"));
    // A file that several write shares its position.
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
    let fifo = "mkfifo fifo; cat fifo > from & classify predict m.model te.jsonl -q -o fifo; wait; rm fifo";
    room.ok(fifo);
    assert_eq!(room.read("from"), answers);
    room.refuses("classify predict m.model te.jsonl -o /dev/fd/9", 1, "/dev/fd/9: cannot open it");
}

#[test]
fn a_hyphen_is_standard_output() {
    let room = Room::new();
    let evaluate = "classify evaluate --train in.jsonl --test te.jsonl -q";
    for (flags, start) in [
        ("--json -", "{\n  \"schema\""),
        ("--markdown -", "#"),
        ("--html -", "<!"),
        ("--json /dev/stdout", "{\n"),
    ] {
        let out = room.ok(&format!("{evaluate} {flags}"));
        assert!(out.trim_start().starts_with(start), "{flags}: {out}");
        // The report for people is not mixed with it.
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
        room.refuses(line, 2, "is a file: -o takes its name");
    }
    room.refuses(&format!("{evaluate} --json - --html /dev/stdout"), 2, "another output");
}

#[test]
fn no_output_is_an_input() {
    let room = Room::new();
    fs::write(room.at("h"), "cooking\tfood\n").unwrap();
    fs::write(room.at("q"), "cooking a 1\nastronomy b 1\n").unwrap();
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
        room.refuses(&format!("classify {line}"), 2, "would replace this input");
    }
    // A device, a pipe and /dev/null may be both.
    room.refuses("classify predict m.model < /dev/null > /dev/null", 3, "no document");
}

#[test]
fn a_folder_of_corpus_files_may_hold_outputs() {
    let room = Room::new();
    for _ in 0..2 {
        room.ok("cd folder && cp ../in.jsonl . && classify train in.jsonl -q -o new.model");
        fs::create_dir_all(room.at("files")).unwrap();
        fs::copy(room.at("in.jsonl"), room.at("files/in.jsonl")).unwrap();
        room.ok("cd files && classify train . -q -o own.model");
    }
    room.refuses("cd files && classify train . -o in.jsonl", 2, "would replace this input");
}

#[test]
fn no_two_outputs_are_one() {
    let room = Room::new();
    fs::write(room.at("there"), "there").unwrap();
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
        room.refuses(line, 2, "another output goes to the same place");
    }
    room.ok(&format!("{evaluate} -q --json /dev/null --html /dev/null > /dev/null"));
}

#[test]
fn outputs_are_tried_before_the_work() {
    let room = Room::new();
    fs::write(room.at("file"), "").unwrap();
    // The corpus is standard input that never ends, so failures must come before it is read.
    for (line, code, message) in [
        ("train - -o nodir/x", 1, "nodir/x: there is no folder nodir"),
        ("train - -o file/x", 1, "there is no folder file"),
        ("train - -o folder", 1, "folder: it is a folder"),
        ("train - -o folder/", 1, "folder/: it is a folder"),
        ("train - --tune=votes --tune-table nodir/x -o z", 1, "nodir/x: there is no folder"),
        ("predict m.model - -o nodir/x", 1, "there is no folder"),
        ("vectorize m.model - -o nodir/x", 1, "there is no folder"),
        ("evaluate --train in.jsonl --test - --json nodir/x", 1, "there is no folder"),
        ("evaluate --train in.jsonl --test - --html nodir/x", 1, "there is no folder"),
        ("evaluate --train in.jsonl --test - --markdown nodir/x", 1, "there is no folder"),
        ("tune m.model -o nodir/x", 1, "there is no folder"),
        ("tune m.model --tune-table nodir/x", 1, "there is no folder"),
        ("generate rcv1-like -o file/x", 1, "file/x: cannot write it: Not a directory"),
        ("bench paper --json nodir/x", 1, "there is no folder"),
    ] {
        let before = room.contents();
        let arguments: Vec<&str> = line.split(' ').collect();
        let mut child = room.start(&arguments, Stdio::piped());
        let open = child.stdin.take();
        let run = child.wait_with_output().unwrap();
        drop(open);
        let err = String::from_utf8(run.stderr).unwrap();
        assert_eq!(run.status.code(), Some(code), "{line}: {err}");
        assert!(err.contains(message), "{line}: {err}");
        assert!(err.contains("hint: "), "{line}: {err}");
        assert!(before == room.contents(), "{line}");
    }
}

#[test]
fn permissions_and_links_are_kept() {
    let room = Room::new();
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
    room.refuses("classify tune m.model", 1, "m.model: the file is read-only");
    room.refuses("classify predict m.model te.jsonl -o m.model", 2, "would replace this input");
    room.set_mode("new", 0o444);
    room.refuses("classify train in.jsonl -o new", 1, "new: the file is read-only");
    // Links stay, even dangling ones; a loop is an error.
    for (link, to) in [("there", "target"), ("dangling", "folder/later"), ("far", "dangling")] {
        symlink(to, room.at(link)).unwrap();
    }
    fs::write(room.at("target"), "old").unwrap();
    for (link, to) in [("there", "target"), ("dangling", "folder/later"), ("far", "folder/later")] {
        let _ = fs::remove_file(room.at("folder/later"));
        room.ok(&format!("classify predict m.model te.jsonl -q -o {link}"));
        assert!(room.at(link).is_symlink(), "{link}");
        assert!(!room.at(to).is_symlink() && room.read(to).lines().count() == 4, "{link}");
    }
    symlink("loop", room.at("loop")).unwrap();
    room.refuses("classify train in.jsonl -o loop", 1, "loop: cannot open it");
}

/// A user other than root, because root may write everywhere.
#[test]
fn a_folder_that_may_not_be_written() {
    if fs::metadata("/proc/self").unwrap().uid() == 0 && !Path::new("/usr/bin/setpriv").exists() {
        println!("not tried: root may write everywhere, and there is no setpriv");
        return;
    }
    let room = Room::new();
    room.set_mode("folder", 0o555);
    fs::set_permissions(room.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let run = if fs::metadata("/proc/self").unwrap().uid() == 0 {
        // The program may be in a folder that only root may enter, so it is started through an open
        // descriptor.
        room.sh(
            "cp \"$CLASSIFY\" ./program && chmod 755 program && \
             setpriv --reuid=65534 --regid=65534 --clear-groups ./program train in.jsonl -o folder/x",
        )
    } else {
        room.sh("classify train in.jsonl -o folder/x")
    };
    room.set_mode("folder", 0o755);
    let err = String::from_utf8(run.stderr).unwrap();
    assert_eq!(run.status.code(), Some(1), "{err}");
    assert!(err.contains("you have no permission to write there"), "{err}");
}

#[test]
fn a_signal_leaves_nothing_behind() {
    let signals = [("INT", SIGINT), ("TERM", SIGTERM), ("HUP", SIGHUP), ("ABRT", SIGABRT)];
    for (signal, number) in signals {
        // A child inherits signals that are ignored (by `nohup`, say). One that has a handler here
        // has its default effect there.
        signal_hook::flag::register(number, Arc::default()).unwrap();
        let room = Room::new();
        fs::write(room.at("out"), "old").unwrap();
        let mut child = room.start(&["predict", "m.model", "-", "-o", "out"], Stdio::piped());
        // `wait` would close it, and the end of the input could come before the signal.
        let input = child.stdin.take();
        wait_for(|| !room.temporary().is_empty());
        let id = child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &id]).status().unwrap().success());
        let status = child.wait().unwrap();
        drop(input);
        assert_eq!(status.signal(), Some(number), "{status}");
        assert_eq!(room.temporary(), Vec::<PathBuf>::new(), "{signal}");
        assert_eq!(room.read("out"), "old");
    }
}

#[test]
fn an_ignored_signal_stays_ignored() {
    let room = Room::new();
    let line = "trap '' HUP; exec \"$CLASSIFY\" predict m.model - -q -o out";
    let mut child = room.command(line).stdin(Stdio::piped()).spawn().unwrap();
    wait_for(|| !room.temporary().is_empty());
    let number = child.id().to_string();
    assert!(Command::new("kill").args(["-s", "HUP", &number]).status().unwrap().success());
    child.stdin.take().unwrap().write_all(b"bake bread\n").unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(room.read("out").lines().count(), 1);
}

fn wait_for(done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_mins(1), "it does not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn standard_output_that_is_closed_or_full() {
    let room = Room::new();
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
        let closed = "standard output: it is closed";
        room.refuses(&format!("classify {command} >&-"), 1, closed);
        let full = "standard output: cannot write it: No space left on device";
        room.refuses(&format!("classify {command} > /dev/full"), 1, full);
        let run = room.sh(&format!("classify {command} | true; :"));
        assert_eq!(String::from_utf8(run.stderr).unwrap(), "", "{command}: a broken pipe is quiet");
        assert!(room.sh(&format!("classify {command} > /dev/null")).status.success());
    }
    // Python's DEVNULL is open for reading and writing, but open.
    assert!(room.sh("classify info m.model 1<> /dev/null").status.success());
    room.refuses("classify predict m.model te.jsonl -o out >&- 2>&- -k 0", 2, "");
    room.ok("classify predict m.model te.jsonl -q -o out >&-");
    assert_eq!(room.read("out").lines().count(), 4);
}

/// A broken pipe ends the program with 0.
#[test]
fn a_broken_pipe_is_a_quiet_end() {
    let room = Room::new();
    let mut child = room.start(&["predict", "m.model", "-", "-q"], Stdio::piped());
    drop(child.stdout.take());
    child.stdin.take().unwrap().write_all(b"bake bread\n").unwrap();
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!((child.wait().unwrap().code(), &*err), (Some(0), ""));
}

#[test]
fn generated_files_and_pages() {
    let room = Room::new();
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
    room.refuses("classify generate rcv1-like --documents 60 -o made", 1, "the file is read-only");
}
