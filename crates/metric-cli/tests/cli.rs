//! Tests of the program as users run it: its inputs, outputs, errors and exit codes.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn run(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_metric-index"));
    command.current_dir(folder).args(arguments).output().unwrap()
}

/// Returns the standard output of a command that must succeed.
fn out(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn fails(folder: &Path, arguments: &[&str], code: i32, word: &str) {
    let output = run(folder, arguments);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {errors}");
    assert!(errors.contains(word), "{arguments:?}: {errors}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
}

fn with_files() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
    write("words.txt", "casa\ncosa\r\ncaso\npez\nÁrbol\n".as_bytes());
    write("plane.csv", b"x,y\n0,0\n3, 4\n\n6,8\n");
    write("labels.csv", b"a,0,0\nb,3,4\nc,6,8\n");
    let vector =
        |x: f32, y: f32| [&2u32.to_le_bytes()[..], &x.to_le_bytes(), &y.to_le_bytes()].concat();
    write("plane.fvecs", &[vector(0.0, 0.0), vector(3.0, 4.0), vector(6.0, 8.0)].concat());
    write("plane.bvecs", &[2, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3, 4, 2, 0, 0, 0, 6, 8]);
    write("plane.idx", &[0, 0, 8, 2, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 3, 4, 6, 8]);
    let mut head = b"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }".to_vec();
    head.resize(117, b' ');
    head.push(b'\n');
    let values: Vec<u8> =
        [0f32, 0.0, 3.0, 4.0, 6.0, 8.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    write("plane.npy", &[&b"\x93NUMPY\x01\x00\x76\x00"[..], &head, &values].concat());
    folder
}

#[test]
fn words() {
    let folder = with_files();
    let folder = folder.path();
    for kind in
        ["brute-force", "lc:2", "sss-index:2p", "sss-tree", "egnat:2x1", "m-tree:4", "vp-tree"]
    {
        out(folder, &["build", "words.txt", "-o", "w.index", "--index", kind]);
        let found = out(folder, &["range", "w.index", "words.txt", "-r", "1", "--to", "tsv"]);
        let first: Vec<&str> = found.lines().filter(|line| line.starts_with("0\t")).collect();
        assert_eq!(first, ["0\t1\t0\t0\tcasa", "0\t2\t1\t1\tcosa", "0\t3\t2\t1\tcaso"], "{kind}");
        for strategy in ["local", "bulk-circular", "bulk-critical", "bulk-local", "hybrid"] {
            let nearest =
                ["knn", "w.index", "words.txt", "-k", "2", "-j", "3", "--strategy", strategy];
            let found = out(folder, &nearest);
            let line = r#"{"neighbors":[{"distance":0.0,"point":4,"text":"Árbol"},"#;
            assert!(found.lines().last().unwrap().starts_with(line), "{found}");
        }
        assert!(out(folder, &["stats", "w.index"]).contains("points\tstrings"));
    }
    let mut child = Command::new(env!("CARGO_BIN_EXE_metric-index"));
    let arguments = ["knn", "w.index", "-", "-k", "1", "--to", "tsv"];
    child.current_dir(folder).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = child.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"peces\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "0\t1\t3\t3\tpez\n");
}

/// All clients are answered, in batches of at most the requested size.
#[test]
fn online() {
    let folder = with_files();
    let folder = folder.path();
    for more in [["--vectors", "400"], ["--words", "words.txt"]] {
        let line = ["bench", "online", "--seconds", "0.1", "--clients", "5", "--batches", "1,4"];
        let line =
            [&line[..], &["--json", "o.json", "--index", "vp-tree", "-k", "2"], &more].concat();
        let printed = out(folder, &line);
        assert!(printed.contains("queries/s") && printed.contains("5 clients"), "{printed}");
        let json = std::fs::read_to_string(folder.join("o.json")).unwrap();
        let report: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(report["schema"], "metric-index.bench-online/1");
        for (batch, max) in report["batches"].as_array().unwrap().iter().zip([1.0, 4.0]) {
            let mean = batch["mean_batch"].as_f64().unwrap();
            assert!(batch["answers"].as_u64().unwrap() > 0 && mean > 0.0 && mean <= max, "{batch}");
        }
    }
}

#[test]
fn vectors() {
    let folder = with_files();
    let folder = folder.path();
    for file in ["plane.csv", "plane.fvecs", "plane.bvecs", "plane.idx", "plane.npy"] {
        for kind in ["vp-tree", "kd-tree", "lc:1"] {
            out(folder, &["build", file, "-o", "p.index", "--index", kind]);
            let found = out(folder, &["knn", "p.index", "plane.csv", "-k", "2", "--to", "tsv"]);
            assert_eq!(
                found, "0\t1\t0\t0\n0\t2\t1\t5\n1\t1\t1\t0\n1\t2\t0\t5\n2\t1\t2\t0\n2\t2\t1\t5\n",
                "{file}, {kind}"
            );
        }
    }
    out(
        folder,
        &["build", "labels.csv", "--skip-columns", "1", "-o", "m.index", "--metric", "manhattan"],
    );
    let found =
        out(folder, &["range", "m.index", "plane.fvecs", "--radius", "7", "--metric", "manhattan"]);
    assert_eq!(
        found.lines().next(),
        Some(r#"{"neighbors":[{"distance":0.0,"point":0},{"distance":7.0,"point":1}],"query":0}"#)
    );
    let stats = out(folder, &["stats", "plane.npy"]);
    assert!(stats.contains("dimension\t2\npoints\t3\n") && stats.contains("radius of"), "{stats}");
}

#[test]
fn mistakes() {
    let folder = with_files();
    let folder = folder.path();
    out(folder, &["build", "words.txt", "-o", "w.index"]);
    out(folder, &["build", "plane.csv", "-o", "p.index"]);
    fails(folder, &["build", "none.txt", "-o", "x"], 3, "none.txt");
    fails(folder, &["build", "labels.csv", "-o", "x"], 3, "labels.csv:1: column 1");
    fails(folder, &["build", "words.txt", "-o", "x", "--index", "tree"], 2, "vp-tree");
    fails(folder, &["build", "words.txt", "-o", "x", "--index", "egnat:1x4"], 2, "arity 1");
    fails(folder, &["build", "words.txt", "-o", "x", "--metric", "angular"], 2, "edit");
    fails(folder, &["build", "plane.csv", "-o", "x", "--metric", "angular"], 3, "point 0");
    fails(folder, &["build", "plane.csv", "-o", "no/x"], 1, "no");
    fails(folder, &["build", "words.txt", "-o", "x", "--format", "npy"], 3, "words.txt");
    fails(folder, &["build", "words.txt", "-o", "x", "--format", "fvecs"], 3, "byte 0");
    fails(folder, &["build", "words.txt", "-o", "x", "--format", "idx"], 3, "magic");
    fails(folder, &["knn", "words.txt", "words.txt", "-k", "1"], 4, "words.txt");
    fails(folder, &["knn", "w.index", "plane.csv", "-k", "1"], 3, "strings");
    fails(
        folder,
        &["knn", "p.index", "labels.csv", "--skip-columns", "2", "-k", "1"],
        3,
        "dimensions",
    );
    fails(
        folder,
        &["knn", "p.index", "plane.csv", "-k", "1", "--metric", "chebyshev"],
        2,
        "--metric chebyshev, but p.index was built with euclidean",
    );
    fails(folder, &["range", "p.index", "plane.csv", "--radius=-1"], 2, "radius -1");
    fails(folder, &["range", "p.index", "plane.csv", "--radius", "nan"], 2, "radius");
    assert!(!folder.join("x").exists());
    std::fs::write(folder.join("ragged.csv"), "1,2\n3\n").unwrap();
    fails(folder, &["build", "ragged.csv", "-o", "x"], 3, "ragged.csv:2: 1 numbers");
    std::fs::write(folder.join("latin.txt"), b"\xe1rbol\n").unwrap();
    fails(folder, &["build", "latin.txt", "-o", "x"], 3, "latin.txt:1");
    std::fs::write(folder.join("cut.fvecs"), [2, 0, 0, 0, 1]).unwrap();
    fails(folder, &["build", "cut.fvecs", "-o", "x"], 3, "byte 0");
    fails(folder, &["stats", "plane.csv", "--nearest", "2"], 3, "too few");
    fails(folder, &["bench", "thesis", "--vectors", "0"], 2, "nothing to measure");
    fails(folder, &["bench", "thesis", "--queries", "0"], 2, "nothing to measure");
    fails(folder, &["bench", "online", "--vectors", "0"], 3, "there are no points");
    fails(folder, &["bench", "online", "--words", "no.txt"], 3, "no.txt");
    fails(folder, &["bench", "online", "--seconds=-1"], 2, "--seconds -1");
    fails(folder, &["bench", "online", "--wait", "nan"], 2, "--wait NaN");
    fails(folder, &["bench", "online", "--batches", "0"], 2, "--batches");
}

/// If standard error is not a terminal, messages are printed without a progress bar.
#[test]
fn messages() {
    let folder = with_files();
    let folder = folder.path();
    let errors = |arguments: &[&str]| {
        let output = run(folder, arguments);
        assert!(output.status.success(), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let built = errors(&["build", "words.txt", "-o", "w.index", "--index", "lc:2"]);
    assert!(built.starts_with("w.index: lc:2 of 5 words, "), "{built}");
    assert_eq!(built.lines().count(), 1, "no bar: {built}");
    let found = out(folder, &["stats", "w.index"]);
    assert!(found.contains("\nanswers\t5\n") && found.contains("\nnodes\t2\n"), "{found}");
    let text = errors(&["range", "w.index", "words.txt", "-r", "99", "-j", "1", "--measures"]);
    assert!(text.contains("6.0 distances and 2.0 nodes per query"), "{text}");
    std::fs::write(folder.join("none.txt"), "").unwrap();
    let built = errors(&["build", "none.txt", "-o", "none.index"]);
    assert!(built.contains("warning: none.txt: the file contains no points"), "{built}");
}

/// With another implementation of the edit distance, all indexes except the VP-tree compute the
/// same number of distances.
#[test]
fn thesis_by_table() {
    let folder = with_files();
    let words: Vec<String> = (0..150).map(|number| format!("{:b}", number * 7)).collect();
    std::fs::write(folder.path().join("more.txt"), words.join("\n")).unwrap();
    let evaluations = |flag: Option<&str>| {
        let arguments =
            ["bench", "thesis", "--words", "more.txt", "--vectors", "0", "--queries", "9"];
        let more = ["--runs", "1", "-j", "1", "--json", "t.json"];
        let all: Vec<&str> = arguments.into_iter().chain(more).chain(flag).collect();
        out(folder.path(), &all);
        let json = std::fs::read_to_string(folder.path().join("t.json")).unwrap();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let each = json["measurements"].as_array().unwrap().iter();
        // The results of other strategies depend on when queries arrive. The table has no block
        // computation, so the leaves of the VP-tree are smaller.
        let each = each.filter(|m| m["strategy"] == "Local" && m["traffic"] == "high");
        let (trees, others): (Vec<_>, Vec<_>) = each.partition(|m| m["index"] == "VP-tree");
        let evaluations_of = |m: &&serde_json::Value| m["evaluations_per_query"].as_f64().unwrap();
        (
            trees.iter().map(evaluations_of).collect::<Vec<f64>>(),
            others.iter().map(evaluations_of).collect::<Vec<f64>>(),
        )
    };
    let (trees, others) = evaluations(None);
    let (trees_by_table, others_by_table) = evaluations(Some("--table"));
    assert!(trees.len() + others.len() > 30, "{others:?}");
    assert_eq!(others, others_by_table);
    // With blocks, all 150 points are in one leaf.
    assert_eq!(trees.len(), trees_by_table.len());
    let pairs = || trees_by_table.iter().zip(&trees);
    assert!(pairs().all(|(table, blocks)| table <= blocks), "{trees_by_table:?} {trees:?}");
    assert!(pairs().any(|(table, blocks)| table < blocks));
}

/// With a few points, the experiments print every figure.
#[test]
fn thesis() {
    let folder = with_files();
    let words: Vec<String> = (0..400).map(|number| format!("{number:b}")).collect();
    std::fs::write(folder.path().join("many.txt"), words.join("\n")).unwrap();
    let arguments = [
        "bench",
        "thesis",
        "--words",
        "many.txt",
        "--vectors",
        "500",
        "--queries",
        "12",
        "--runs",
        "1",
        "-j",
        "2",
        "--json",
        "t.json",
        "--svg",
        "figures",
    ];
    let text = out(folder.path(), &arguments);
    for figure in ["3.2", "3.3", "3.4", "3.5", "3.6", "3.7", "3.8", "3.9", "3.10", "3.11"] {
        assert!(text.contains(&format!("words: Figure {figure}: ")), "{figure}");
        assert!(text.contains(&format!("vectors: Figure {figure}: ")), "{figure}");
    }
    for line in [
        "words: 388 points and 12 queries (many.txt, seed 0), metric edit, radii 1, 2 and 3",
        "vectors: 500 points and 12 queries (generated: 20 dimensions",
        "LC lc:64, SSS-Index sss-index:0.6, ",
        "the thesis's SSS-Index has sss-index:0.4",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    // In figure 3.4, times are fractions of the longest time, with four strategies per row.
    let figure = text.split("words: Figure 3.4: ").nth(1).unwrap().split("words: ").next().unwrap();
    let rows = figure.trim().lines().skip(2);
    let times = rows.flat_map(|row| row.split_whitespace().rev().take(4).collect::<Vec<_>>());
    let times: Vec<f64> = times.map(|time| time.parse().unwrap()).collect();
    let largest = times.into_iter().max_by(f64::total_cmp).unwrap();
    assert_eq!(largest.to_string(), "1", "{figure}");
    assert!(text.contains("words: Low traffic: latency"), "{text}");
    assert!(text.contains("one index computes fewer distances"), "{text}");
    let json = std::fs::read_to_string(folder.path().join("t.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["schema"], "metric-index.bench-thesis/1");
    assert_eq!(json["spaces"][0]["indexes"]["LC"], "lc:32");
    assert_eq!(json["spaces"][1]["points"], 500);
    assert_eq!(json["spaces"][0]["data"], "many.txt, seed 0");
    assert!(json["alpha"].is_number() && json["runs"] == 1);
    assert!(json["measurements"].as_array().unwrap().len() > 300);
    let svg = std::fs::read_to_string(folder.path().join("figures/3.9a-words.svg")).unwrap();
    assert!(
        svg.starts_with("<svg")
            && svg.trim_end().ends_with("</svg>")
            && svg.contains("LC r = 1.000")
    );
}

fn write_file(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).unwrap();
}

/// Tables are read, and errors name the line and column.
#[test]
fn tables() {
    let folder = with_files();
    let folder = folder.path();
    let expected = "0\t1\t0\t0\n0\t2\t1\t5\n";
    for (name, text) in [
        ("semicolons.csv", "x;y\n0;0\n3; 4\n6;8\n"),
        ("tabs.tsv", "0\t0\r\n3\t4\r\n6\t8\r\n"),
        ("spaces.csv", "  0e0   0.0\n 3  4\n\n6 8"),
        ("mark.csv", "\u{feff}0,0\n3,4\n6,8\n"),
        ("names.csv", "\u{feff}x,y\n0,0\n3,4\n6,8\n"),
        ("numbers", " 0  0\n 3  4\n 6  8\n"),
        ("numbers.txt", "0,0\n3,4\n6,8\n"),
    ] {
        write_file(folder, name, text);
        out(folder, &["build", name, "-o", "t.index"]);
        write_file(folder, "origin.csv", "0,0\n");
        let found = out(folder, &["knn", "t.index", "origin.csv", "-k", "2", "--to", "tsv"]);
        assert_eq!(found, expected, "{name}");
    }
    for (text, word) in [
        ("1,2\n1,,3\n", ":2: column 2 is empty"),
        ("1,2\n1,2,\n", ":2: column 3 is empty"),
        ("1,5;2,5\n", ":1: ';'"),
        ("1,2\n3;4\n", ":2: ';'"),
        ("1 2\n3,4\n", ":2: ','"),
        ("1,2\n3 4,5\n", ":2: column 1 is \"3 4\""),
        ("1,2\n3\n", ":2: 1 numbers, expected 2"),
        ("1,2\nx,y\n", ":2: column 1 is \"x\""),
        ("1,x\n", ":1: column 2 is \"x\""),
        ("1,nan\n", ":1: column 2 is \"nan\""),
        ("1,1e99\n", ":1: column 2 is \"1e99\""),
    ] {
        write_file(folder, "wrong.csv", text);
        fails(folder, &["build", "wrong.csv", "-o", "x"], 3, &format!("wrong.csv{word}"));
    }
    // Numeric column names after a label are ambiguous, which is an error.
    write_file(folder, "letters.csv", "Letter,1,2,3\nT,2,8,3\nI,5,12,3\n");
    let letters = ["build", "letters.csv", "--skip-columns", "1", "-o", "l.index", "--skip-lines"];
    fails(folder, &letters[..6], 3, "letters.csv:1: a row that counts up");
    for (lines, count) in [("0", "of 3 vectors"), ("1", "of 2 vectors")] {
        let output = run(folder, &[&letters[..], &[lines]].concat());
        assert!(String::from_utf8_lossy(&output.stderr).contains(count), "{lines}");
    }
    write_file(folder, "bare.csv", "1,2,3\n4,5,7\n");
    let output = run(folder, &["build", "bare.csv", "-o", "b.index"]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(
        text.contains("warning: bare.csv:1: a row that counts up") && text.contains("of 2 vectors"),
        "{text}"
    );
    // A byte order mark does not change a word.
    write_file(folder, "marked.txt", "\u{feff}casa\n12\n");
    out(folder, &["build", "marked.txt", "-o", "m.index"]);
    let found = out(folder, &["range", "m.index", "words.txt", "-r", "0", "--to", "tsv"]);
    assert_eq!(found, "0\t1\t0\t0\tcasa\n");
    // Queries for an index of words are read as words, even if they look like numbers.
    write_file(folder, "pairs.txt", "1 2\n3 4\n");
    assert_eq!(
        out(folder, &["knn", "m.index", "pairs.txt", "-k", "1", "--to", "tsv"]).lines().count(),
        2
    );
}

/// An index file contains the metric and its parameters.
#[test]
fn an_index_stores_its_metric() {
    let folder = with_files();
    let folder = folder.path();
    out(
        folder,
        &[
            "build",
            "plane.csv",
            "-o",
            "p.index",
            "--index",
            "sss-index:2p",
            "--metric",
            "minkowski:1",
            "-j",
            "1",
        ],
    );
    let stats = out(folder, &["stats", "p.index"]);
    for line in ["index\tsss-index:2p\n", "metric\tminkowski:1\n", "\npivots\t2\n"] {
        assert!(stats.contains(line), "{stats}");
    }
    assert!(!stats.contains("scale"), "{stats}");
    let search = ["range", "p.index", "plane.csv", "-r", "7", "--to", "tsv"];
    let found = out(folder, &search);
    assert!(found.starts_with("0\t1\t0\t0\n0\t2\t1\t7\n"), "{found}");
    assert_eq!(out(folder, &[&search[..], &["--metric", "minkowski:1.0"]].concat()), found);
    fails(folder, &[&search[..], &["--metric", "manhattan"]].concat(), 2, "built with minkowski:1");
    fails(folder, &[&search[..], &["--metric", "edit"]].concat(), 2, "edit");
}

#[test]
fn wrong_flags() {
    let folder = with_files();
    let folder = folder.path();
    out(folder, &["build", "plane.csv", "-o", "p.index"]);
    fails(folder, &["knn", "p.index", "plane.csv", "-k", "0"], 2, "-k");
    fails(folder, &["stats", "plane.csv", "--nearest", "0"], 2, "--nearest");
    for kind in ["lc:rnan", "lc:r-1", "sss-index:nan", "sss-index:2", "sss-tree:1.5", "m-tree:1"] {
        fails(folder, &["build", "plane.csv", "-o", "x", "--index", kind], 2, "expected");
    }
    for metric in ["hamming", "angular"] {
        let build = [
            "build",
            "labels.csv",
            "--skip-columns",
            "2",
            "-o",
            "x",
            "--index",
            "kd-tree",
            "--metric",
            metric,
        ];
        write_file(folder, "labels.csv", "a,b,1,2\nc,d,3,4\n");
        fails(folder, &build, 2, "kd-tree needs");
    }
    fails(folder, &["build", "words.txt", "-o", "x", "--index", "kd-tree"], 2, "kd-tree needs");
    let quiet = run(folder, &["build", "plane.csv", "-o", "p.index", "--quiet"]);
    assert!(quiet.status.success() && quiet.stderr.is_empty());
    fails(folder, &["-q", "build", "none.csv", "-o", "x"], 3, "none.csv");
    assert!(!folder.join("x").exists());
}

/// An endless input causes an error before it exhausts the memory.
#[cfg(target_os = "linux")]
#[test]
fn endless_input() {
    let folder = with_files();
    let folder = folder.path();
    out(folder, &["build", "plane.csv", "-o", "p.index"]);
    for format in ["words", "csv", "fvecs", "bvecs", "npy", "idx"] {
        let build = ["build", "/dev/zero", "-o", "x", "--format", format];
        fails(folder, &build, 3, "/dev/zero");
        fails(folder, &["stats", "/dev/zero", "--format", format], 3, "/dev/zero");
    }
    fails(folder, &["knn", "/dev/zero", "plane.csv", "-k", "1"], 4, "not an index");
    fails(
        folder,
        &["knn", "p.index", "/dev/zero", "-k", "1"],
        3,
        "/dev/zero:1: a line of more than",
    );
}

/// A pipe can be read only once, so the program does not check whether it contains an index.
#[cfg(unix)]
#[test]
fn pipes() {
    let folder = with_files();
    let folder = folder.path();
    let shell = |line: &str| {
        let program = env!("CARGO_BIN_EXE_metric-index");
        let mut shell = Command::new("sh");
        shell.current_dir(folder).args(["-c", line, program]).output().unwrap()
    };
    assert!(shell("mkfifo pipe").status.success());
    fails(folder, &["knn", "pipe", "plane.csv", "-k", "1"], 4, "not an index");
    let stats = shell("cat plane.csv > pipe & exec \"$0\" stats pipe --format csv");
    let text = String::from_utf8_lossy(&stats.stdout);
    let errors = &stats.stderr;
    assert!(stats.status.success() && errors.is_empty(), "{}", String::from_utf8_lossy(errors));
    assert!(text.starts_with("dimension\t2\npoints\t3\n"), "{text}");
}

/// If the system cannot start threads, every command ends with exit code 5.
#[cfg(target_os = "linux")]
#[test]
fn too_many_threads() {
    let folder = with_files();
    let folder = folder.path();
    out(folder, &["build", "plane.csv", "-o", "p.index"]);
    for strategy in ["local", "bulk-circular", "bulk-critical", "hybrid", "build"] {
        let program = env!("CARGO_BIN_EXE_metric-index");
        // The limit allows the stacks of some threads, but not of a thousand.
        let command = if strategy == "build" {
            format!("ulimit -v 500000; exec {program} build plane.csv -o x -j 1000")
        } else {
            let search = "knn p.index plane.csv -k 1 -j 1000";
            format!("ulimit -v 500000; exec {program} {search} --strategy {strategy}")
        };
        let output =
            Command::new("sh").current_dir(folder).args(["-c", &command]).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(5), "{strategy}: {errors}");
        assert!(errors.contains("fewer"), "{strategy}: {errors}");
    }
}

/// Outputs are opened before anything is read, and an output never replaces an input.
#[test]
fn outputs_never_replace_inputs() {
    let folder = with_files();
    let folder = folder.path();
    let before = |name: &str| std::fs::read(folder.join(name)).unwrap();
    let plane = before("plane.csv");
    let words = before("words.txt");
    std::fs::hard_link(folder.join("plane.csv"), folder.join("same")).unwrap();
    let replaced = "would replace this input";
    for output in ["plane.csv", "./plane.csv", "same"] {
        fails(folder, &["build", "plane.csv", "-o", output], 2, replaced);
    }
    let thesis = |arguments: &[&'static str], code, word| {
        let always = ["bench", "thesis", "--words", "words.txt", "--vectors", "0"];
        fails(folder, &[&always, arguments].concat(), code, word);
    };
    thesis(&["--json", "words.txt"], 2, replaced);
    thesis(&["--json", "no/x"], 1, "there is no folder");
    thesis(&["--svg", "words.txt"], 1, "words.txt: cannot write it");
    thesis(&["--svg", ".", "--json", "3.2-words.svg"], 2, "another output");
    fails(folder, &["build", "plane.csv", "-o", "-"], 2, "an index is a file");
    fails(folder, &["build", "nothing.csv", "-o", "no/x"], 1, "there is no folder no\nhint: make");
    fails(folder, &["build", "plane.csv", "-o", "."], 1, "it is a folder");
    assert_eq!((before("plane.csv"), before("words.txt")), (plane, words));
    let left = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(!left.into_iter().any(|name| name.to_string_lossy().contains(".writing-")));
}

#[test]
fn standard_output_that_is_closed_or_full() {
    let folder = with_files();
    let folder = folder.path();
    out(folder, &["build", "plane.csv", "-o", "plane.index"]);
    for command in ["knn plane.index plane.csv -k 1", "stats plane.index", "--help", "--version"] {
        for (to, message) in [(">&-", "it is closed"), ("> /dev/full", "No space left")] {
            let line = format!("exec \"$0\" {command} {to}");
            let mut shell = Command::new("sh");
            shell.args(["-c", &line, env!("CARGO_BIN_EXE_metric-index")]).current_dir(folder);
            let output = shell.output().unwrap();
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(1), "{line}: {errors}");
            assert!(errors.contains(message), "{line}: {errors}");
        }
    }
}

/// If a requested GPU is missing, the program prints the reason, prints no answers, and exits with
/// code 5.
#[test]
fn without_a_gpu() {
    let folder = with_files();
    out(folder.path(), &["build", "words.txt", "-o", "words.index"]);
    let command = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_metric-index"));
        // Hides all GPUs.
        command.current_dir(folder.path()).args(arguments).env("CUDA_VISIBLE_DEVICES", "");
        command.output().unwrap()
    };
    let knn = ["knn", "words.index", "words.txt", "-k", "2"];
    let cpu = command(&[&knn[..], &["--device", "cpu"]].concat());
    assert_eq!(cpu.stdout, command(&knn).stdout);
    for device in ["cuda", "cuda:0", "cuda:all"] {
        let found = command(&[&knn[..], &["--device", device]].concat());
        let text = String::from_utf8_lossy(&found.stderr).into_owned();
        assert_eq!(found.status.code(), Some(5), "{device}: {text}");
        assert!(text.contains("GPU") || text.contains("driver"), "{text}");
        assert!(found.stdout.is_empty());
    }
    for bench in ["cordeiro", "karelis", "multi-gpu"] {
        assert_eq!(command(&["bench", bench]).status.code(), Some(5), "{bench}");
    }
    assert_eq!(command(&["bench", "thesis", "--device", "cuda"]).status.code(), Some(5));
    assert_eq!(command(&[&knn[..], &["--device", "gpu"]].concat()).status.code(), Some(2));
    let text = String::from_utf8_lossy(&command(&[&knn[..], &["--device", "gpu"]].concat()).stderr)
        .into_owned();
    assert!(text.contains("cuda:all"), "{text}");
}
