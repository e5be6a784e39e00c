//! The command as a user meets it: files in, lines out, mistakes with their exit codes.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn run(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_metric-index"));
    command.current_dir(folder).args(arguments).output().unwrap()
}

/// What a command that works has to say.
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
    write("plane.csv", b"x,y\n0,0\n3; 4\n\n6\t8\n");
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
    fails(folder, &["build", "words.txt", "-o", "x", "--index", "egnat:1x4"], 3, "arity 1");
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
        4,
        "--metric",
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
}

/// What is said beside the answers, where no terminal is.
#[test]
fn said() {
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
    let told = errors(&["range", "w.index", "words.txt", "-r", "99", "-j", "1", "--measures"]);
    assert!(told.contains("6.0 distances and 2.0 nodes a query"), "{told}");
    std::fs::write(folder.join("none.txt"), "").unwrap();
    let built = errors(&["build", "none.txt", "-o", "none.index"]);
    assert!(built.contains("warning: none.txt: no points in it"), "{built}");
}

/// Another way to measure words finds the same with as many distances.
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
        // Others depend on when queries come.
        let each = each.filter(|m| m["strategy"] == "Local" && m["traffic"] == "high");
        each.map(|m| m["evaluations_a_query"].to_string()).collect::<Vec<_>>()
    };
    let all = evaluations(None);
    assert!(all.len() > 30, "{all:?}");
    assert_eq!(all, evaluations(Some("--table")));
}

/// The experiments on few points: every figure is there.
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
    let told = out(folder.path(), &arguments);
    for figure in ["3.2", "3.3", "3.4", "3.5", "3.6", "3.7", "3.8", "3.9", "3.10", "3.11"] {
        assert!(told.contains(&format!("words: Figure {figure}: ")), "{figure}");
        assert!(told.contains(&format!("vectors: Figure {figure}: ")), "{figure}");
    }
    assert!(told.contains("one index measures fewer distances"), "{told}");
    let json = std::fs::read_to_string(folder.path().join("t.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["schema"], "metric-index.bench-thesis/1");
    assert!(json["measurements"].as_array().unwrap().len() > 300);
    let svg = std::fs::read_to_string(folder.path().join("figures/3.9a-words.svg")).unwrap();
    assert!(
        svg.starts_with("<svg")
            && svg.trim_end().ends_with("</svg>")
            && svg.contains("LC r = 1.000")
    );
}
