//! The program as a user meets it.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

struct Run {
    code: i32,
    out: String,
    err: String,
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_classify"));
    command.args(arguments).current_dir(ROOT);
    command
}

fn run_with(arguments: &[&str], stdin: &[u8]) -> Run {
    let mut child = command(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let stdin = stdin.to_vec();
    let writer = std::thread::spawn(move || {
        let _ = pipe.write_all(&stdin);
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    Run {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

fn run(arguments: &[&str]) -> Run {
    run_with(arguments, b"")
}

fn ok(arguments: &[&str]) -> Run {
    let run = run(arguments);
    assert_eq!(run.code, 0, "{arguments:?}: {}", run.err);
    run
}

/// Without GPUs, also where there are some.
fn run_without_gpu(arguments: &[&str]) -> Run {
    let output = command(arguments).env("CUDA_VISIBLE_DEVICES", "").output().unwrap();
    Run {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

#[test]
fn vectors_give_the_answers_of_their_text() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (model, vectors) = (at("m.model"), at("test.vectors"));
    ok(&["train", TRAIN, "-o", &model]);
    ok(&["vectorize", &model, TEST, "-o", &vectors]);
    for extra in [&[][..], &["--with", "neighbors,scores"], &["--to", "csv"], &["-k", "3"]] {
        let predict = |corpus: &str| ok(&[&["predict", &model, corpus], extra].concat()).out;
        assert_eq!(predict(TEST), predict(&vectors));
    }
    for extra in [&[][..], &["--subset", "7"]] {
        let evaluate = |corpus: &str| {
            let out = ok(&[&["evaluate", &model, corpus], extra].concat()).out;
            let lines = out.lines().take_while(|line| !line.starts_with(" stage"));
            lines
                .filter(|line| !line.starts_with("peak memory"))
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(evaluate(TEST), evaluate(&vectors));
    }
    let other = at("other.model");
    ok(&["train", TEST, "-o", &other]);
    let refused = run(&["evaluate", &other, &vectors]);
    assert_eq!(refused.code, 3);
    assert!(refused.err.contains("a different vocabulary or weighting"), "{}", refused.err);
    let beside = run(&["predict", &model, &vectors, TEST]);
    assert_eq!(beside.code, 2);
    assert!(beside.err.contains("as the only corpus"), "{}", beside.err);
    let flag = run(&["predict", &model, &vectors, "--text-column", "body"]);
    assert_eq!(flag.code, 2);
    assert!(flag.err.contains("--text-column goes with `classify vectorize`"), "{}", flag.err);
    // Without labels there is nothing to evaluate.
    let (lines, unlabeled) = (at("lines.txt"), at("unlabeled.vectors"));
    std::fs::write(&lines, "tighten the derailleur cable\n").unwrap();
    ok(&["vectorize", &model, &lines, "-o", &unlabeled]);
    let unlabeled = run(&["evaluate", &model, &unlabeled]);
    assert_eq!(unlabeled.code, 3);
    assert!(unlabeled.err.contains("no document has a label"), "{}", unlabeled.err);
}

/// A pipe by its name is read once, and whole.
#[cfg(unix)]
#[test]
fn a_pipe_with_a_name() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("m.model").to_str().unwrap().to_owned();
    ok(&["train", TRAIN, "-o", &model]);
    let text = std::fs::read(Path::new(ROOT).join(TEST)).unwrap();
    let expected = ok(&["predict", &model, TEST]).out;
    let piped = run_with(&["predict", &model, "/dev/stdin"], &text);
    assert_eq!((piped.code, piped.out), (0, expected), "{}", piped.err);
}

#[test]
fn without_a_gpu_the_cpu_searches_and_asking_for_one_is_a_clear_error() {
    let evaluate = ["evaluate", "--train", TRAIN, "--test", TEST];
    let with = |extra: &[&str]| run_without_gpu(&[&evaluate, extra].concat());
    let automatic = with(&["--device", "auto", "--verbose"]);
    assert_eq!(automatic.code, 0, "{}", automatic.err);
    assert!(automatic.err.contains("search: inverted on the CPU"), "{}", automatic.err);
    let without_times = |text: &str| -> Vec<String> {
        let lines = text.lines().take_while(|line| !line.starts_with(" stage"));
        lines.filter(|line| !line.starts_with("peak memory")).map(str::to_owned).collect()
    };
    for cpu in [&["--device", "cpu"][..], &["--engine", "exhaustive"]] {
        assert_eq!(without_times(&with(cpu).out), without_times(&with(&["-q"]).out));
    }
    for asked in [
        &["--device", "cuda"][..],
        &["--device", "cuda:3"],
        &["--device", "cuda:all"],
        &["--engine", "grid:64x128"],
    ] {
        let run = with(asked);
        assert_eq!(run.code, 5, "{asked:?}: {}", run.err);
        assert!(run.err.contains("NVIDIA driver"), "{}", run.err);
        assert!(run.err.contains("classify devices"), "{}", run.err);
        assert_eq!(run.out, "");
        // A training without tuning searches nothing, and still says that the GPU isn't there.
        let folder = tempfile::tempdir().unwrap();
        let model = folder.path().join("model");
        let run = run_without_gpu(&[&["train", TRAIN, "-o", text(&model)], asked].concat());
        assert_eq!(run.code, 5, "{asked:?}: {}", run.err);
        assert!(run.err.contains("NVIDIA driver"), "{}", run.err);
        assert!(!model.exists());
    }
    for wrong in [
        &["--device", "gpu"][..],
        &["--engine", "grid:7"],
        &["--engine", "base:100"],
        &["--device", "cpu", "--engine", "fused"],
        &["--device", "cuda", "--engine", "inverted"],
    ] {
        assert_eq!(with(wrong).code, 2, "{wrong:?}");
    }
    let devices = run_without_gpu(&["devices"]);
    assert_eq!(devices.code, 0);
    assert!(devices.out.starts_with("no GPU: ") && devices.out.contains("inverted on the CPU"));
    assert_eq!(run_without_gpu(&["bench", "paper", "--gpu", "0"]).code, 5);
}

#[test]
fn the_papers_bench_reads_files_and_measures_what_there_is() {
    let folder = tempfile::tempdir().unwrap();
    let corpus = folder.path().join("rcv1");
    let (json, svg) = (folder.path().join("a.json"), folder.path().join("a.svg"));
    ok(&["generate", "rcv1-like", "-q", "--documents", "600", "-o", text(&corpus)]);
    let arguments = ["bench", "paper", text(&corpus), "--runs", "1", "--json", text(&json)];
    let run = run_without_gpu(&[&arguments[..], &["--svg", text(&svg)]].concat());
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.err.contains("measuring only the CPU engines"), "{}", run.err);
    assert!(run.out.starts_with("no GPU; ") && run.out.contains("300 training rows"));
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!(report["schema"], "classify.bench-paper/1");
    assert_eq!(report["sizes"], serde_json::json!([10, 100]));
    let names: Vec<&str> =
        report["lines"].as_array().unwrap().iter().map(|l| l["engine"].as_str().unwrap()).collect();
    assert_eq!(names, ["exhaustive", "inverted"]);
    assert!(std::fs::read_to_string(&svg).unwrap().starts_with("<svg"));
}

/// A failure does not wait for a source that stays open.
#[test]
fn evaluate_ends_when_a_document_does_not_fit_though_more_may_come() {
    let folder = tempfile::tempdir().unwrap();
    let (corpus, model) = (folder.path().join("two.svm"), folder.path().join("two.model"));
    std::fs::write(&corpus, "1 1:1 2:1\n2 3:1\n").unwrap();
    ok(&["train", text(&corpus), "-o", text(&model), "-q"]);
    let mut child =
        command(&["evaluate", text(&model), "-", "--format", "jsonl", "-q", "--device", "cpu"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    // More than one batch of the CPU's and less than two: the next one never comes.
    let line = "{\"text\": \"a b\", \"label\": \"x\"}\n";
    let _ = pipe.write_all(line.repeat(5_000).as_bytes());
    let ended = (0..600).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        child.try_wait().unwrap().is_some()
    });
    if !ended {
        child.kill().unwrap();
    }
    assert_eq!((ended, child.wait().unwrap().code()), (true, Some(3)));
    drop(pipe);
}

/// The folder of the project.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const TRAIN: &str = "corpora/sample/train.jsonl";
const TEST: &str = "corpora/sample/test.jsonl";
const GOLDEN: &str = "models/golden-v1.model";

/// A folder with a model of the sample corpus.
fn trained(extra: &[&str]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("sample.model");
    ok(&[&["train", TRAIN, "-o", text(&model)], extra].concat());
    (folder, model)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn train_evaluate_predict_info() {
    let (folder, model) = trained(&[]);
    let json = folder.path().join("result.json");
    let page = folder.path().join("result.md");
    let run =
        ok(&["evaluate", text(&model), TEST, "--json", text(&json), "--markdown", text(&page)]);
    assert!(run.out.contains("83 test"), "{}", run.out);
    let result: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    assert!(result["micro"]["f1"].as_f64().unwrap() > 0.85, "{result}");
    assert!(result["stages"].as_array().unwrap().len() >= 4);
    assert!(std::fs::read_to_string(&page).unwrap().starts_with("# Evaluation"));
    // The same without a model file.
    let both = ok(&["evaluate", "--train", TRAIN, "--test", TEST]);
    let figure =
        |out: &str| out.lines().find(|line| line.starts_with("micro F1")).map(str::to_owned);
    assert_eq!(figure(&both.out), figure(&run.out));
    let predicted = ok(&["predict", text(&model), TEST]);
    assert_eq!(predicted.out.lines().count(), 83);
    assert!(predicted.out.starts_with("{\"id\":\"t001\",\"labels\":["));
    let info = ok(&["info", text(&model)]);
    for words in ["ltc", "ln(N / df)^p", "248", "leave-one-out on 248 documents"] {
        assert!(info.out.contains(words), "{words}: {}", info.out);
    }
    let fixed = folder.path().join("fixed.model");
    ok(&["train", TRAIN, "--no-tune", "-o", text(&fixed)]);
    let info = ok(&["info", text(&fixed)]);
    for words in ["k = 30, vote similarity\n", "labels with at least 0.4 of the vote"] {
        assert!(info.out.contains(words), "{words}: {}", info.out);
    }
    let json: serde_json::Value =
        serde_json::from_str(&ok(&["info", "--json", text(&model)]).out).unwrap();
    assert_eq!(json["counts"]["documents"], 248);
}

#[test]
fn explains_predictions() {
    let (_folder, model) = trained(&["--keep-text"]);
    let asked = ["explain", text(&model), "--text", "tighten the derailleur cable, zorbify"];
    let run = ok(&asked);
    for words in ["cycling (labels with", "* cycling  score", "for: cable", "s005", "zorbify"] {
        assert!(run.out.contains(words), "{words}: {}", run.out);
    }
    let json = ok(&[&asked[..], &["--to", "jsonl"]].concat()).out;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["labels"][0], "cycling");
    let first = &json["neighbors"][0];
    let parts = first["terms"].as_array().unwrap().iter();
    let sum: f64 = parts.map(|part| part["part"].as_f64().unwrap()).sum();
    assert!((sum - first["similarity"].as_f64().unwrap()).abs() < 1e-6);
    assert!(first["text"].as_str().unwrap().contains("derailleur"));
    let all = ok(&["explain", text(&model), TEST, "--neighbors", "1"]).out;
    assert_eq!(all.matches("neighbors (1 of").count(), 83);
    let page = ok(&["explain", text(&model), TEST, "--to", "html"]).out;
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    assert_eq!(page.matches("<section>").count(), 83);
    let with = ok(&["predict", text(&model), TEST, "--with", "explanation,scores"]).out;
    let plain = ok(&["predict", text(&model), TEST, "--with", "scores"]).out;
    let explained = ok(&["explain", text(&model), TEST, "--to", "jsonl"]).out;
    for ((with, plain), explained) in with.lines().zip(plain.lines()).zip(explained.lines()) {
        let mut with: serde_json::Value = serde_json::from_str(with).unwrap();
        let explanation = with.as_object_mut().unwrap().remove("explanation").unwrap();
        assert_eq!(explanation, serde_json::from_str::<serde_json::Value>(explained).unwrap());
        assert_eq!(with, serde_json::from_str::<serde_json::Value>(plain).unwrap());
    }
    // The documents before a wrong one are answered.
    let lines = b"{\"text\": \"tighten the cable\"}\n{\"text\": 7}\n";
    let some = run_with(&["predict", text(&model), "-", "--with", "explanation"], lines);
    assert_eq!((some.code, some.out.lines().count()), (3, 1));
    let refused = run_with(&["explain", text(&model), "--rule", "pcut"], b"");
    assert_eq!(refused.code, 2, "{}", refused.err);
}

#[test]
fn the_same_bytes_every_time() {
    let settings = ["--stem", "en", "--word-ngrams", "1-2", "--char-ngrams", "3", "--keep-text"];
    let (_first, model) = trained(&settings);
    let bytes = std::fs::read(&model).unwrap();
    for threads in ["1", "2", "7"] {
        let (_folder, model) = trained(&[&settings[..], &["-j", threads]].concat());
        assert!(std::fs::read(&model).unwrap() == bytes, "{threads} threads");
    }
    let answers = |threads| {
        ok(&["predict", text(&model), TEST, "--with", "neighbors,scores", "-j", threads]).out
    };
    assert_eq!(answers("1"), answers("7"));
}

#[test]
fn holdout_is_seeded() {
    let figures = |seed| {
        let run = ok(&["evaluate", "--train", TRAIN, "--holdout", "30%", "--seed", seed]);
        run.out.lines().take(9).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(figures("1"), figures("1"));
    assert_ne!(figures("1"), figures("2"));
}

#[test]
fn answers_in_every_form() {
    let ask = |extra: &[&str], stdin: &str| {
        let run = run_with(&[&["predict", GOLDEN, "-q"], extra].concat(), stdin.as_bytes());
        assert_eq!(run.code, 0, "{}", run.err);
        assert_eq!(run.err, "");
        run.out
    };
    let lines = "bake the bread\nqwerty\n\nSaturn\n";
    let jsonl = ask(&[], lines);
    let rows: Vec<serde_json::Value> =
        jsonl.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 4, "one answer a line, empty ones too");
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
    let near: serde_json::Value =
        serde_json::from_str(&ask(&["--with", "neighbors", "-k", "1"], "dough\n")).unwrap();
    assert_eq!(near["neighbors"][0]["id"], "g1");
    assert_eq!(near["neighbors"][0]["labels"][0], "cooking");
    assert!(near["neighbors"][0]["similarity"].as_f64().unwrap() > 0.0);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("answers.jsonl");
    assert_eq!(ask(&["-o", text(&file)], lines), "");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), jsonl);
}

#[test]
fn features() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("train.svm"), "a 1:1 2:2\nb 3:1\na,b 2:1 3:1\n").unwrap();
    for kind in ["tfidf", "counts"] {
        let model = path("model");
        ok(&["train", text(&path("train.svm")), "-o", text(&model), "--features", kind]);
        let run = run_with(&["predict", text(&model), "-"], b"x 2:3\n");
        assert!(run.out.contains("\"labels\":[\"a\""), "{} {}", run.out, run.err);
        let run = run_with(&["predict", text(&model), "-"], b"some text\n");
        assert_eq!(run.code, 3);
        assert!(
            run.err.contains("<stdin>:1: text, but the model was trained on features"),
            "{}",
            run.err
        );
    }
    std::fs::write(path("bad.svm"), "a 1:-1\n").unwrap();
    let bad =
        run(&["train", text(&path("bad.svm")), "-o", text(&path("m")), "--features", "counts"]);
    assert_eq!(bad.code, 3);
    assert!(bad.err.contains("bad.svm:1: column 1 holds -1"), "{}", bad.err);
}

#[test]
fn tokens() {
    let see = |extra: &[&str], text: &str| {
        let run = run_with(&[&["tokens"], extra].concat(), text.as_bytes());
        assert_eq!(run.code, 0, "{}", run.err);
        run.out
    };
    assert_eq!(see(&[], "Don't stop: 東京都\n"), "don't\tstop\t東京\t京都\n");
    assert_eq!(see(&["--stem", "en", "--stop-words", "en"], "the runners\n"), "runner\n");
    assert_eq!(see(&["--word-ngrams", "1-2"], "a b\n"), "a\ta b\tb\n");
    assert_eq!(see(&["--char-ngrams", "3"], "abc\n"), "~ ab\t~abc\t~bc \n");
    assert_eq!(see(&["--char-ngrams", "2", "--char-scope", "text"], "a b\n"), "~a \t~ b\n");
    assert_eq!(see(&["--fold-accents", "--min-length", "3"], "été à là\n"), "ete\n");
    assert_eq!(see(&["--model", GOLDEN], "Baking trains\n"), "bake\t?bake train\t?train\n");
}

/// Arguments → exit code and words on stderr. `{dir}` is an empty folder.
#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn mistakes() {
    let folder = tempfile::tempdir().unwrap();
    let dir = text(folder.path()).to_owned();
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
    write("empty.jsonl", b"");
    write("bad.jsonl", b"{\"text\": \"a\", \"label\": \"x\"}\n{\"txt\": \"a\"}\n");
    write("latin.jsonl", b"{\"text\": \"caf\xe9\", \"label\": \"x\"}\n");
    write("header.csv", b"text,label\n");
    write("not.model", b"hello");
    write("lines.txt", b"no labels here\n");
    let cases: &[(&str, i32, &str)] = &[
        ("train {dir}/nothing.jsonl -o {dir}/m", 3, "nothing.jsonl: cannot read: No such file"),
        ("train {dir}/empty.jsonl -o {dir}/m", 3, "empty.jsonl: no document"),
        ("train {dir}/header.csv -o {dir}/m", 3, "header.csv: no document"),
        ("train {dir}/bad.jsonl -o {dir}/m", 3, "bad.jsonl:2: no field `labels`; there are: `txt`"),
        (
            "train {dir}/latin.jsonl -o {dir}/m",
            3,
            "latin.jsonl:1: byte 13 of the file is not valid UTF-8",
        ),
        ("train {dir}/lines.txt -o {dir}/m", 3, "lines.txt: cannot tell the format"),
        ("train corpora/sample/train.jsonl -o {dir}/no/m", 1, "no/m: there is no folder"),
        ("train corpora/sample/train.jsonl", 2, "--output <MODEL>"),
        (
            "train corpora/sample/train.jsonl -o {dir}/m --weighting xyz",
            2,
            "`xyz` is not a weighting",
        ),
        ("train corpora/sample/train.jsonl -o {dir}/m --idf-power nan", 2, "--idf-power NaN"),
        ("train corpora/sample/train.jsonl -o {dir}/m -k 0", 2, "invalid value '0'"),
        (
            "train corpora/sample/train.jsonl -o {dir}/m --stem klingon",
            2,
            "no stemmer for `klingon`; there are arabic",
        ),
        ("train corpora/sample/train.jsonl -o {dir}/m --encoding klingon", 2, "no such encoding"),
        (
            "train corpora/sample/train.jsonl -o {dir}/m --min-df 0.5",
            2,
            "a count like 5 nor a share like 50%",
        ),
        ("train corpora/sample/train.jsonl -o {dir}/m --treshold 0.3", 2, "'--threshold'"),
        (
            "train corpora/sample/train.jsonl -o {dir}/m --label-column topic",
            3,
            "train.jsonl:1: no field `topic`",
        ),
        ("predict {dir}/nothing.model", 4, "nothing.model: there is no such file"),
        ("predict {dir}/not.model", 4, "not.model: not a model, or cut short"),
        ("predict models/golden-v1.model {dir}/nothing.txt", 3, "nothing.txt: cannot read"),
        ("predict models/golden-v1.model {dir}/latin.jsonl", 3, "hint: name the encoding"),
        ("evaluate models/golden-v1.model", 2, "no test corpus after the model"),
        ("evaluate", 2, "give a MODEL and a CORPUS"),
        ("evaluate --train corpora/sample/train.jsonl", 2, "--train needs --test or --holdout"),
        ("evaluate --preset modapte90", 2, "takes one folder"),
        ("evaluate --preset modapte90 {dir}", 3, "`reut2-*.sgm` is not in this folder"),
        ("evaluate --preset lyrl2004 {dir}", 3, "`rcv1-v2.topics.qrels` is not in this folder"),
        ("evaluate models/golden-v1.model {dir}/empty.jsonl", 3, "empty.jsonl: no document"),
        ("info {dir}", 4, "it is not a regular file"),
        ("train {dir}/bad.jsonl -o {dir}/bad.jsonl", 2, "the output would replace this input"),
        (
            "predict models/golden-v1.model {dir}/lines.txt -o {dir}/lines.txt",
            2,
            "would replace this input",
        ),
        (
            "predict models/golden-v1.model {dir}/lines.txt --to fasttext --top 2",
            2,
            "no place for --top",
        ),
        (
            "evaluate models/golden-v1.model corpora/sample/test.jsonl --stem en",
            2,
            "a model fixes its analysis",
        ),
        (
            "evaluate models/golden-v1.model corpora/sample/test.jsonl --weighting bm25",
            2,
            "a model fixes its analysis",
        ),
        ("tokens --model models/golden-v1.model --stem en", 2, "a model fixes its analysis"),
        ("evaluate --train - --holdout 20%", 2, "standard input can be read only once"),
        ("train corpora/sample/train.jsonl -o -", 2, "a model is a file"),
        (
            "train corpora/sample/train.jsonl -o {dir}/m --min-df 1000",
            3,
            "no term is left for the vocabulary",
        ),
        (
            "train corpora/sample/train.jsonl -o {dir}/m --idf-power -1",
            2,
            "not a number from 0 to 10",
        ),
        (
            "train corpora/sample/train.jsonl -o {dir}/m --id-column key",
            3,
            "train.jsonl:1: no field `key`",
        ),
        ("train corpora/sample/train.jsonl -o {dir}/m -j 100000", 2, "100000"),
        ("trian", 2, "'train'"),
        ("", 2, "Usage"),
    ];
    for (line, code, words) in cases {
        let line = line.replace("{dir}", &dir);
        let run = run(&line.split_whitespace().collect::<Vec<_>>());
        assert_eq!(run.code, *code, "{line}: {}", run.err);
        assert!(run.err.contains(words), "{line}: {:?} should say {words:?}", run.err);
        assert!(!run.err.contains("panicked"), "{line}: {}", run.err);
    }
    assert!(!folder.path().join("m").exists(), "no model is left behind");
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 6, "no temporary file is left behind");
}

/// A failed prediction into a file leaves no partial output.
#[test]
fn nothing_half_written() {
    let folder = tempfile::tempdir().unwrap();
    let (questions, answers) = (folder.path().join("q.jsonl"), folder.path().join("a.jsonl"));
    std::fs::write(&questions, "{\"text\": \"bread\"}\nbroken\n").unwrap();
    std::fs::write(&answers, "what was there").unwrap();
    let failed = run(&["predict", GOLDEN, text(&questions), "-o", text(&answers)]);
    assert_eq!(failed.code, 3);
    assert!(failed.err.contains("q.jsonl:2: not a JSON object"), "{}", failed.err);
    assert_eq!(std::fs::read_to_string(&answers).unwrap(), "what was there");
    // On standard output, predictions before the error are written.
    let failed = run(&["predict", GOLDEN, text(&questions)]);
    assert_eq!((failed.code, failed.out.lines().count()), (3, 1));
}

/// Outputs that are not regular files are written to directly, and links stay links.
#[cfg(unix)]
#[test]
fn outputs_that_are_no_regular_files() {
    let folder = tempfile::tempdir().unwrap();
    let (target, link) = (folder.path().join("target"), folder.path().join("link"));
    std::fs::write(&target, "old").unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    let run = run_with(&["predict", GOLDEN, "-q", "-o", text(&link)], b"bread\n");
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(std::fs::read_to_string(&target).unwrap().contains("cooking"));
    let pipe = folder.path().join("pipe");
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

/// A source that delivers one byte at a time gives the same results as one that delivers all at
/// once.
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

/// Lines that look like features are text to a text model; a CSV header is recognized.
#[test]
fn detection_heeds_the_model() {
    let ask =
        |stdin: &str| run_with(&["predict", GOLDEN, "-", "--to", "fasttext"], stdin.as_bytes());
    let run = ask("3 4:30 bread\n");
    assert_eq!((run.code, run.out.as_str()), (0, "__label__cooking\n"), "{}", run.err);
    let run = ask("id,text\n1,bread\n");
    assert!(run.err.contains("as csv"), "{}", run.err);
    assert_eq!(run.out, "__label__cooking\n");
}

/// Predictions before a document that does not match the model are written.
#[test]
fn answers_before_a_mistake() {
    let lines = b"{\"text\": \"bread\"}\n{\"features\": {\"1\": 1}}\n{\"text\": \"stars\"}\n";
    let run = run_with(&["predict", GOLDEN, "-"], lines);
    assert_eq!((run.code, run.out.lines().count()), (3, 1), "{}", run.err);
    assert!(
        run.err.contains("<stdin>:2: features, but the model was trained on text"),
        "{}",
        run.err
    );
}

#[test]
fn a_broken_pipe_is_a_quiet_end() {
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
    assert!(!err.contains("error"), "{err}");
}

#[test]
fn help_man_and_completions() {
    assert!(ok(&["--help"]).out.contains("Exit codes"));
    assert!(ok(&["--version"]).out.starts_with("classify "));
    assert!(ok(&["completions", "bash"]).out.contains("_classify"));
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man");
    ok(&["man", text(&pages)]);
    assert!(pages.join("classify-train.1").exists());
}

#[test]
fn tuning() {
    let folder = tempfile::tempdir().unwrap();
    let [one, two, votes, table] = ["one.model", "two.model", "votes.model", "table.json"]
        .map(|name| folder.path().join(name));
    let train = |model: &Path, threads| {
        ok(&["train", TRAIN, "-o", text(model), "--tune", "--k-max", "30", "-j", threads])
    };
    let said = train(&one, "1").err;
    train(&two, "2");
    assert_eq!(std::fs::read(&one).unwrap(), std::fs::read(&two).unwrap());
    assert!(said.contains("as given") && said.contains("left-out documents; the best"), "{said}");
    let info = ok(&["info", text(&one)]).out;
    assert!(info.contains("tuned") && info.contains("leave-one-out on 248 documents"), "{info}");

    // Values set by other flags are kept.
    let fixed = ["-k", "7", "--vote", "rank/size^0.2", "--weighting", "lsc", "--tune=votes"];
    ok(&[&["train", TRAIN, "-o", text(&one), "--mode", "single"], &fixed[..]].concat());
    let info = ok(&["info", text(&one)]).out;
    assert!(info.contains("k = 7, vote rank/size^0.2") && info.contains("lsc: "), "{info}");
    let beside = run(&["evaluate", text(&one), TEST, "--tune"]);
    assert!(beside.code == 2 && beside.err.contains("classify tune MODEL"), "{}", beside.err);

    // Only k, vote and decision of an existing model.
    ok(&["train", TRAIN, "-o", text(&votes), "--mode", "single"]);
    let before = std::fs::read(&votes).unwrap();
    let tune = ["tune", text(&votes), "--objective", "accuracy", "--tune-table", text(&table)];
    ok(&[&tune[..], &["-o", text(&two)]].concat());
    assert_eq!(std::fs::read(&votes).unwrap(), before, "-o leaves the model alone");
    ok(&tune);
    assert_eq!(std::fs::read(&votes).unwrap(), std::fs::read(&two).unwrap());
    let table: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(table).unwrap()).unwrap();
    assert_eq!(table["schema"], "classify.tuning/1");
    let trials = table["trials"].as_array().unwrap();
    // Eight values of k, 12 votes, 4 compensations; then more values of k around the best.
    assert!((8 * 12 * 4 + 6 * 4..8 * 12 * 4 + 6 * 16 * 4).contains(&trials.len()));
    let best = table["best"]["accuracy"].as_f64().unwrap();
    assert!(trials.iter().all(|trial| trial["accuracy"].as_f64().unwrap() <= best));
    let settings: serde_json::Value =
        serde_json::from_str(&ok(&["info", text(&votes), "--json"]).out).unwrap();
    assert_eq!(settings["k"], table["best"]["k"]);
    assert_eq!(settings["tuning"]["figures"], table["figures"]);

    // Multi-label: thresholds are stored and used.
    ok(&["train", TRAIN, "-o", text(&one), "--mode", "multi"]);
    ok(&["tune", text(&one), "--objective", "macro-f1", "--rule", "scut-smoothed"]);
    assert!(ok(&["info", text(&one)]).out.contains("threshold per label (scut-smoothed)"));
    // Thresholds survive writing and reading bit for bit.
    classify::model::Model::open(&one).unwrap().save(&two).unwrap();
    assert_eq!(std::fs::read(&one).unwrap(), std::fs::read(&two).unwrap());
    ok(&["evaluate", text(&one), TEST]);

    ok(&["train", TRAIN, "-o", text(&one), "--weighting", "ltc.lnc"]);
    let refused = run(&["tune", text(&one)]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("classify train --tune=votes"), "{}", refused.err);
    // Queries are made of the counts that the rows of BM25 tell, or of texts: the figures are those of training.
    let table = || {
        let json = std::fs::read_to_string(&two).unwrap();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        json["figures"]["micro_f1"].as_f64().unwrap()
    };
    let retuned = |flags: &[&str]| {
        ok(&[&["train", TRAIN, "-o", text(&one)], flags].concat());
        ok(&["tune", text(&one), "--tune-table", text(&two)]);
        table()
    };
    retuned(&["--weighting", "ltc.lnc", "--keep-text"]);
    let retuned = retuned(&["--weighting", "bm25"]);
    let flags = ["--weighting", "bm25", "--tune=votes", "--tune-table", text(&two)];
    ok(&[&["train", TRAIN, "-o", text(&one)], &flags[..]].concat());
    assert!((retuned - table()).abs() < 1e-12, "{retuned} and {}", table());
}

#[test]
fn fields_and_selection() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let corpus = path("fields.jsonl");
    let lines = [
        r#"{"title": "bread", "body": "the oven is hot", "labels": ["cooking"]}"#,
        r#"{"title": "guitar", "body": "the string is loose", "labels": ["music"]}"#,
        r#"{"title": "oven", "body": "the bread is hot, the string too", "labels": ["cooking"]}"#,
    ];
    std::fs::write(&corpus, lines.join("\n")).unwrap();
    let model = path("fields.model");
    ok(&["train", text(&corpus), "-o", text(&model), "--field", "title:2.5", "--field", "body"]);
    let info = ok(&["info", text(&model)]).out;
    assert!(info.contains("title × 2.5, body × 1"), "{info}");
    // The model stores its fields; a document weighted as in training is its own neighbor.
    let answers = ok(&["predict", text(&model), text(&corpus), "--with", "neighbors"]).out;
    for (line, answer) in answers.lines().enumerate() {
        let answer: serde_json::Value = serde_json::from_str(answer).unwrap();
        assert_eq!(answer["neighbors"][0]["id"], (line + 1).to_string());
        let similarity = answer["neighbors"][0]["similarity"].as_f64().unwrap();
        assert!((similarity - 1.0).abs() < 1e-6, "{similarity}");
    }
    let plain = run_with(&["predict", text(&model), "-", "--format", "plain"], b"guitar\n");
    assert!(plain.out.contains("music"), "{}", plain.out);

    let selected = path("selected.model");
    ok(&["train", TRAIN, "-o", text(&selected), "--select", "chi2:50", "--title-boost", "2"]);
    let info = ok(&["info", text(&selected)]).out;
    assert!(info.contains("chi2:50: 50 terms left") && info.contains("first line × 2"), "{info}");
    for (flags, said) in [
        (["--select", "chi2:0"], "not a selection such as chi2:2000"),
        (["--field", "title:0"], "not a number above 0"),
        (["--objective", "accuracy"], "go with --tune"),
        (["--tune", "--allow-none"], "--tune chooses the threshold"),
        (["--near-duplicates", "3"], "neither a cosine from 0 to 1 nor `off`"),
        (["--field", "nothing:2"], "nothing"),
    ] {
        let refused = run(&[&["train", TRAIN, "-o", text(&selected)], &flags[..]].concat());
        assert!(refused.code == 2 || refused.code == 3, "{flags:?}: {}", refused.code);
        assert!(refused.err.contains(said), "{flags:?}: {}", refused.err);
    }
}

#[test]
fn generated_corpora() {
    let folder = tempfile::tempdir().unwrap();
    let [one, two, other] = ["one", "two", "other"].map(|name| folder.path().join(name));
    for (folder, seed) in [(&one, "5"), (&two, "5"), (&other, "6")] {
        let made = ["generate", "rcv1-like", "--documents", "3001", "--seed", seed, "-o"];
        let said = ok(&[&made[..], &[text(folder)]].concat()).err;
        assert!(said.contains("1500 training and 1501 test documents"), "{said}");
    }
    let read = |folder: &Path, file: &str| std::fs::read_to_string(folder.join(file)).unwrap();
    let train = read(&one, "lyrl2004_vectors_train.dat");
    assert_eq!(train, read(&two, "lyrl2004_vectors_train.dat"));
    assert_ne!(train, read(&other, "lyrl2004_vectors_train.dat"));
    let mut lengths = Vec::new();
    for line in train.lines() {
        let weights = line.split(' ').skip(2).map(|entry| entry.split_once(':').unwrap());
        let (mut last, mut norm, mut count) = (0, 0.0, 0);
        for (term, weight) in weights {
            let (term, weight): (u32, f64) = (term.parse().unwrap(), weight.parse().unwrap());
            assert!(last < term && term <= 47_236 && weight > 0.0);
            (last, norm, count) = (term, norm + weight * weight, count + 1);
        }
        assert!((norm - 1.0).abs() < 1e-5);
        lengths.push(count);
    }
    let mean = f64::from(lengths.iter().sum::<i32>()) / lengths.len() as f64;
    assert!((70.0..82.0).contains(&mean), "{mean} terms a document");
    assert_eq!(read(&one, "rcv1.topics.hier.orig").lines().count(), 104);

    let evaluate = ["evaluate", "--preset", "lyrl2004", text(&one)];
    let all = ok(&evaluate).out;
    assert!(all.contains("1500 training, 1501 test"), "{all}");
    let some = ok(&[&evaluate[..], &["--subset", "10"]].concat()).out;
    assert!(some.contains("1500 training, 10 test"), "{some}");
    let refused = run(&["generate", "rcv1-like", "--documents", "1", "-o", text(&one)]);
    assert_eq!(refused.code, 2);
}

fn read_json(path: &Path) -> serde_json::Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The figures on the page equal those in the JSON, to the last bit.
#[test]
fn reports_agree() {
    let folder = tempfile::tempdir().unwrap();
    let [json, page] = ["result.json", "result.html"].map(|name| folder.path().join(name));
    let sides = ["evaluate", "--train", TRAIN, "--test", TEST, "--tune=votes"];
    ok(&[&sides[..], &["--json", text(&json), "--html", text(&page)]].concat());
    let result = read_json(&json);
    let page = std::fs::read_to_string(&page).unwrap();
    let value = |id: &str| -> f64 {
        let tag = format!("<data id=\"{id}\" value=\"");
        let rest = page.split_once(&tag).unwrap_or_else(|| panic!("{id}")).1;
        rest.split_once('"').unwrap().0.parse().unwrap()
    };
    for (id, found) in [
        ("micro_f1", &result["micro"]["f1"]),
        ("macro_f1", &result["macro"]["f1"]),
        ("exact", &result["subset_accuracy"]),
        ("precision_at_one", &result["precision_at"]["1"]),
        ("calibration_error", &result["calibration_error"]),
    ] {
        assert_eq!(value(id).to_bits(), found.as_f64().unwrap().to_bits(), "{id}");
    }
    let mut labels: Vec<(i64, String, u64)> = result["per_label"]
        .as_array()
        .unwrap()
        .iter()
        .map(|label| {
            let name = label["label"].as_str().unwrap().to_owned();
            (-label["support"].as_i64().unwrap(), name, label["f1"].as_f64().unwrap().to_bits())
        })
        .collect();
    labels.sort();
    let shown = page.split("<data class=\"label-f1\" value=\"").skip(1).map(|rest| {
        let value: f64 = rest.split_once('"').unwrap().0.parse().unwrap();
        value.to_bits()
    });
    assert!(shown.eq(labels.into_iter().map(|(.., f1)| f1)));
    assert!(page.matches("<svg").count() == 6, "with the curve of k");
    assert!(!page.contains("<script") && !page.contains("http"));
    // Intervals contain their figures.
    for (interval, figure) in [("micro_f1", "micro"), ("macro_f1", "macro")] {
        let ends = result["intervals"][interval].as_array().unwrap();
        let figure = result[figure]["f1"].as_f64().unwrap();
        assert!(ends[0].as_f64().unwrap() < figure && figure < ends[1].as_f64().unwrap());
    }
}

#[test]
fn comparisons() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let evaluated = |name: &str, extra: &[&str]| {
        let path = file(name);
        let sides = ["evaluate", "--train", TRAIN, "--test", TEST, "--json", text(&path)];
        ok(&[&sides[..], extra].concat());
        path
    };
    let good = evaluated("good.json", &["--per-document"]);
    let same = evaluated("same.json", &["--per-document", "-j", "1"]);
    let bad = evaluated("bad.json", &["--per-document", "--rule", "rcut:3"]);
    let without = evaluated("without.json", &[]);
    let json = file("comparison.json");
    let run = ok(&["compare", text(&good), text(&bad), text(&same), "--json", text(&json)]);
    assert!(run.out.contains("McNemar") && run.out.contains("Wilcoxon"), "{}", run.out);
    let result = read_json(&json);
    let [worse, equal] = [0, 1].map(|at| &result["comparisons"][at]);
    assert!(worse["micro_f1"]["difference"].as_f64().unwrap() < -0.2);
    let p = |value: &serde_json::Value| value.as_f64().unwrap();
    assert!(p(&worse["micro_f1"]["adjusted"]) < 0.01);
    // Holm: twice the smaller of two p-values.
    let twice = 2.0 * p(&worse["micro_f1"]["p_value"]);
    assert!((p(&worse["micro_f1"]["adjusted"]) - twice).abs() < 1e-12);
    assert!((p(&equal["micro_f1"]["p_value"]) - 1.0).abs() < 1e-12);
    assert!((p(&equal["tests"][0]["p_value"]) - 1.0).abs() < 1e-12);
    let failed = |others: &[&Path]| {
        let others = others.iter().map(|path| text(path));
        let all: Vec<&str> =
            ["compare", text(&good)].into_iter().chain(others).chain(["--fail-if-worse"]).collect();
        run_with(&all, b"")
    };
    assert_eq!(failed(&[&same]).code, 0);
    let worse = failed(&[&same, &bad]);
    assert!(worse.code == 6 && worse.err.contains("bad.json is worse"), "{}", worse.err);
    let nothing = failed(&[&without]);
    assert!(nothing.code == 3 && nothing.err.contains("--per-document"), "{}", nothing.err);
    let other = file("other.json");
    ok(&[
        "evaluate",
        "--train",
        TRAIN,
        "--holdout",
        "30%",
        "--json",
        text(&other),
        "--per-document",
    ]);
    let other = failed(&[&other]);
    assert!(other.code == 3 && other.err.contains("document 1 is"), "{}", other.err);
    assert_eq!(failed(&[Path::new(TRAIN)]).code, 3);
}

#[test]
fn hierarchies() {
    let folder = tempfile::tempdir().unwrap();
    let [tree, model, json] = ["tree.tsv", "model", "r.json"].map(|name| folder.path().join(name));
    std::fs::write(&tree, "cycling\tsport\nsport\tleisure\ncooking\tleisure\n").unwrap();
    ok(&["train", TRAIN, "-o", text(&model), "--hierarchy", text(&tree)]);
    let answers = ok(&["predict", text(&model), TEST]).out;
    let mut seen = 0;
    for line in answers.lines() {
        let answer: serde_json::Value = serde_json::from_str(line).unwrap();
        let labels = answer["labels"].as_array().unwrap();
        if labels.iter().any(|label| label == "cycling") {
            assert!(labels.iter().any(|label| label == "sport"), "{line}");
            assert!(labels.iter().any(|label| label == "leisure"), "{line}");
            seen += 1;
        }
    }
    assert!(seen > 3);
    // Test documents also get the ancestors.
    ok(&["evaluate", text(&model), TEST, "--json", text(&json)]);
    let result = read_json(&json);
    let levels = result["levels"].as_array().unwrap();
    assert_eq!(levels.len(), 3);
    assert_eq!(levels[2]["labels"], 1);
    let recall = levels[2]["micro"]["recall"].as_f64().unwrap();
    let cycling =
        result["per_label"].as_array().unwrap().iter().find(|l| l["label"] == "cycling").unwrap();
    assert_eq!(recall.to_bits(), cycling["recall"].as_f64().unwrap().to_bits());
    std::fs::write(&tree, "a\tb\nb\ta\n").unwrap();
    let refused = run(&["train", TRAIN, "-o", text(&model), "--hierarchy", text(&tree)]);
    assert!(refused.code == 3 && refused.err.contains("its own ancestor"), "{}", refused.err);
    let beside = run(&["evaluate", text(&model), TEST, "--hierarchy", text(&tree)]);
    assert_eq!(beside.code, 2, "the model has its own");
}

#[test]
fn foreign_documents_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let [model, json, train, test] =
        ["model", "r.json", "train.jsonl", "test.jsonl"].map(|name| folder.path().join(name));
    // Every label has words of its own; foreign documents share only the common words with the others.
    let mut random = classify::random::Random::new(3);
    let mut line = |label: usize| {
        let own: Vec<String> = (0..6).map(|_| format!("l{label}w{}", random.below(60))).collect();
        let common: Vec<String> = (0..4).map(|_| format!("c{}", random.below(40))).collect();
        let words = [own, common].concat().join(" ");
        format!("{{\"text\": \"{words}\", \"label\": \"l{label}\"}}\n")
    };
    std::fs::write(&train, (0..600).map(|at| line(at % 6)).collect::<String>()).unwrap();
    // The last two labels are foreign.
    std::fs::write(&test, (0..600).map(|at| line(at % 8)).collect::<String>()).unwrap();
    let (train, test) = (text(&train), text(&test));
    let train = ["train", train, "-o", text(&model), "--tune=votes"];
    let tuned = ok(&[&train[..], &["--abstain", "foreign=5%"]].concat());
    assert!(
        tuned.err.contains("refused as foreign after their labels were left out"),
        "{}",
        tuned.err
    );
    assert!(ok(&["info", text(&model)]).out.contains("refuses"));
    let foreign = |arguments: &[&str]| {
        ok(&[&["evaluate", text(&model), test, "--json", text(&json)], arguments].concat());
        read_json(&json)["documents"]["foreign"].as_u64().unwrap()
    };
    let refused = foreign(&[]);
    assert!((150..=195).contains(&refused), "{refused} of 150 foreign and 450 known documents");
    assert!(read_json(&json)["foreign"]["foreign_refused"].as_f64().unwrap() > 0.9);
    assert_eq!(foreign(&["--abstain", "off"]), 0);
    let answers = ok(&["predict", text(&model), test]).out;
    let by_reason = answers.lines().filter(|line| {
        let answer: serde_json::Value = serde_json::from_str(line).unwrap();
        answer["reason"] == "foreign" && answer["labels"] == serde_json::json!([])
    });
    assert_eq!(by_reason.count() as u64, refused);
    // A label that is added later has no prototype, to which its documents could be strange.
    let (more, asked) = (folder.path().join("more.jsonl"), folder.path().join("asked.txt"));
    let mixed =
        "{\"text\": \"guitar bread comet derailleur compiler orbit\", \"labels\": [\"mixture\"]}\n";
    std::fs::write(&more, mixed.repeat(6)).unwrap();
    std::fs::write(&asked, "bread guitar\n").unwrap();
    let other = folder.path().join("other.model");
    let train_other = ["train", TRAIN, "-o", text(&other), "--tune=votes", "-k", "5"];
    ok(&[&train_other[..], &["--abstain", "foreign=50%"]].concat());
    assert!(ok(&["info", text(&other)]).out.contains("/prototypes:"));
    assert!(ok(&["predict", text(&other), text(&asked)]).out.contains("\"foreign\""));
    ok(&["add", text(&other), text(&more), "--number-as", "m"]);
    assert!(ok(&["predict", text(&other), text(&asked)]).out.contains("[\"mixture\"]"));
    // Tuned again, the model keeps its target; both targets can be set, and neither.
    ok(&["tune", text(&model)]);
    assert!(ok(&["info", text(&model)]).out.contains("refuses"));
    ok(&["tune", text(&model), "--abstain", "target-error=20%,foreign=10%"]);
    let info = ok(&["info", text(&model)]).out;
    assert!(info.contains("target 10.0 %") && info.contains("target 20.0 %"), "{info}");
    ok(&["tune", text(&model), "--abstain", "off"]);
    assert!(!ok(&["info", text(&model)]).out.contains("refuses"));
    for (argument, word) in [
        ("foreign=5%,foreign=6%", "given twice"),
        ("foreign", "foreign=5%"),
        ("strange=5%", "foreign=5%"),
        ("foreign=200%", "foreign=5%"),
    ] {
        let refused = run(&[&train[..], &["--abstain", argument]].concat());
        assert!(refused.code == 2 && refused.err.contains(word), "{argument}: {}", refused.err);
    }
    let untuned = run(&["train", train[1], "-o", text(&model), "--abstain", "foreign=5%"]);
    assert!(untuned.code == 2 && untuned.err.contains("--tune"), "{}", untuned.err);
    // A single label cannot be left out.
    let one = folder.path().join("one.jsonl");
    std::fs::write(&one, (0..50).map(|_| line(0)).collect::<String>()).unwrap();
    let alone =
        ["train", text(&one), "-o", text(&model), "--tune=votes", "--abstain", "foreign=5%"];
    let alone = run(&alone);
    assert!(alone.code == 2 && alone.err.contains("several labels"), "{}", alone.err);
}

#[test]
fn probabilities_and_abstaining() {
    let folder = tempfile::tempdir().unwrap();
    let [model, json, train, test] =
        ["model", "r.json", "train.jsonl", "test.jsonl"].map(|name| folder.path().join(name));
    // A third of the documents tell nothing about their label.
    let lines = |from: usize| -> String {
        let line = |number: usize| {
            let label = ["day", "night"][number / 3 % 2];
            let word = if number.is_multiple_of(3) { "sky" } else { label };
            let (a, b) = (number * 7919 % 101, number * 104_729 % 97);
            format!(
                "{{\"text\": \"{word}{} sky{a} sky{b}\", \"label\": \"{label}\"}}\n",
                number % 5
            )
        };
        (from..from + 900).map(line).collect()
    };
    std::fs::write(&train, lines(0)).unwrap();
    std::fs::write(&test, lines(900)).unwrap();
    let test = text(&test);
    let train = ["train", text(&train), "-o", text(&model)];
    let alone = run(&[&train[..], &["--abstain", "target-error=5%"]].concat());
    assert!(alone.code == 2 && alone.err.contains("--tune"), "{}", alone.err);
    let tuned = ok(&[&train[..], &["--tune=votes", "--abstain", "target-error=5%"]].concat());
    assert!(!tuned.err.contains("out of reach"), "{}", tuned.err);
    let info = ok(&["info", text(&model)]).out;
    assert!(info.contains("calibrated") && info.contains("target 5.0 %"), "{info}");
    ok(&["evaluate", text(&model), test, "--json", text(&json)]);
    let result = read_json(&json);
    let unsure = result["documents"]["abstained"].as_u64().unwrap();
    assert!(unsure.abs_diff(300) < 60, "{unsure}");
    let coverage = result["answered"]["coverage"].as_f64().unwrap();
    assert!((coverage - (900 - unsure) as f64 / 900.0).abs() < 1e-12);
    assert!(result["answered"]["error"].as_f64().unwrap() < 0.05);
    let count = |extra: &[&str]| {
        let answers = ok(&[&["predict", text(&model), test], extra].concat()).out;
        answers.lines().filter(|line| line.contains("\"reason\":\"unsure\"")).count() as u64
    };
    assert_eq!(count(&[]), unsure);
    assert_eq!(count(&["--abstain", "off"]), 0);
    let answers = ok(&["predict", text(&model), test, "--with", "scores"]).out;
    let answer: serde_json::Value = serde_json::from_str(answers.lines().next().unwrap()).unwrap();
    let probability = answer["probability"].as_f64().unwrap();
    assert!((0.0..=1.0).contains(&probability));
    assert_eq!(answer["scores"][0]["probability"], answer["probability"]);
    // Other votes give other scores, so the learned limits do not apply.
    let refused = run(&["predict", text(&model), test, "-k", "3"]);
    assert!(refused.code == 2 && refused.err.contains("--abstain off"), "{}", refused.err);
    let other = ok(&["predict", text(&model), test, "-k", "3", "--abstain", "off"]).out;
    assert!(!other.contains("probability"));
    // When tuned again, the model keeps its target, unless told otherwise.
    ok(&["tune", text(&model), "--k-max", "100"]);
    assert!(ok(&["info", text(&model)]).out.contains("target 5.0 %"));
    ok(&["tune", text(&model), "--k-max", "100", "--abstain", "off"]);
    assert!(!ok(&["info", text(&model)]).out.contains("target "));
    // Term limits apply to the whole corpus, not to its first document.
    ok(&[&train[..], &["--tune=votes", "--min-df", "2", "--max-df", "50%"]].concat());
}

/// The order of time is found, or told.
#[test]
fn time_order() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("model");
    let train = ["train", TRAIN, "-o", text(&model), "--tune=votes"];
    let window = "compared without the 15 documents before and after";
    assert!(ok(&[&train[..], &["--time-order", "yes"]].concat()).err.contains(window));
    assert!(!ok(&[&train[..], &["--time-order", "no"]].concat()).err.contains(window));
    let wrong = run(&[&train[..], &["--time-order", "maybe"]].concat());
    assert!(wrong.code == 2 && wrong.err.contains("neither `yes` nor `no`"), "{}", wrong.err);
    let alone = run(&["train", TRAIN, "-o", text(&model), "--time-order", "yes"]);
    assert!(alone.code == 2 && alone.err.contains("go with --tune"), "{}", alone.err);
}

/// Learned votes are shown, kept by `tune`, and refused where they cannot be.
#[test]
fn learned_votes() {
    let folder = tempfile::tempdir().unwrap();
    let [model, unlabeled] = ["model", "unlabeled.jsonl"].map(|name| folder.path().join(name));
    let train = ["train", TRAIN, "-o", text(&model), "--vote", "learned"];
    let refused = run(&train);
    assert!(refused.code == 2 && refused.err.contains("--tune"), "{}", refused.err);
    let refused = run(&[&train[..], &["--tune=votes", "--rule", "pcut"]].concat());
    assert!(refused.code == 2 && refused.err.contains("pcut"), "{}", refused.err);
    ok(&[&train[..], &["--tune=votes"]].concat());
    assert!(ok(&["info", text(&model)]).out.contains("/learned"));
    let answers = ok(&["predict", text(&model), TEST, "--with", "neighbors"]).out;
    let answer: serde_json::Value = serde_json::from_str(answers.lines().next().unwrap()).unwrap();
    let neighbor = &answer["neighbors"][0];
    let label = neighbor["labels"][0].as_str().unwrap();
    assert!(neighbor["worth"][label].as_f64().unwrap() > 0.0, "{answer}");
    let plain = ok(&["predict", text(&model), TEST, "--with", "neighbors", "--vote", "rank"]).out;
    assert!(!plain.contains("\"worth\"") && !plain.contains("probability"));
    let same = ok(&["predict", text(&model), TEST, "--with", "neighbors", "--vote", "learned"]).out;
    assert_eq!(same, answers);
    // A corpus without labels teaches nothing, and does not fail.
    let lines = "{\"text\": \"aa bb\", \"labels\": []}\n".repeat(30);
    std::fs::write(&unlabeled, lines).unwrap();
    let train = ["train", text(&unlabeled), "-o", text(&model), "--tune=votes", "--mode", "multi"];
    assert!(!ok(&train).err.contains("learned"));
    let refused = run(&["predict", text(&model), TEST, "--vote", "learned"]);
    assert!(refused.code == 2 && refused.err.contains("no learned votes"), "{}", refused.err);
}

/// Prototypes are shown and explained, leave with another vote, and cannot be asked for in training.
#[test]
fn prototypes() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("model");
    let refused =
        run(&["train", TRAIN, "-o", text(&model), "--tune", "--vote", "exp/prototypes:1"]);
    assert!(refused.code == 2 && refused.err.contains("chosen by --tune"), "{}", refused.err);
    ok(&["train", TRAIN, "-o", text(&model), "--tune=votes", "-k", "5"]);
    let info = ok(&["info", text(&model)]).out;
    assert!(info.contains("/prototypes:0.55"), "{info}");
    let why = ["explain", text(&model), "--text", "tighten the derailleur cable"];
    let said = ok(&why).out;
    assert!(said.contains("a share of 0.55 of the score"), "{said}");
    let said = ok(&[&why[..], &["--to", "jsonl"]].concat()).out;
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    let prototype = &said["scores"][0]["prototype"];
    assert!(prototype["score"].as_f64().unwrap() > 0.5, "{said}");
    assert!(prototype["for"][0]["part"].as_f64().unwrap() > 0.0, "{said}");
    let page = ok(&[&why[..], &["--to", "html"]].concat()).out;
    assert!(page.contains("prototype ("), "{page}");
    let plain = ok(&[&why[..], &["--vote", "similarity", "--to", "jsonl"]].concat()).out;
    assert!(!plain.contains("prototype"), "{plain}");
    // Half as much of them.
    let less = ["--vote", "similarity/prototypes:0.275", "--to", "jsonl"];
    assert!(ok(&[&why[..], &less].concat()).out.contains("\"share\":0.275"));
    ok(&["train", TRAIN, "-o", text(&model), "--no-tune"]);
    let refused = run(&["predict", text(&model), TEST, "--vote", "exp/prototypes:0.5"]);
    assert!(refused.code == 2 && refused.err.contains("no prototypes"), "{}", refused.err);
}

#[test]
fn rules_weights_and_groups() {
    let folder = tempfile::tempdir().unwrap();
    let [model, table, grouped] =
        ["model", "table.json", "grouped.jsonl"].map(|name| folder.path().join(name));
    ok(&["train", TRAIN, "-o", text(&model), "--rule", "rcut:2"]);
    let answers = ok(&["predict", text(&model), TEST]).out;
    assert!(answers.lines().all(|line| line.contains("\"],\"score\"") && line.contains("\",\"")));
    // All of standard input is one batch, with a fixed number of documents for each label.
    let answers = ok(&["predict", text(&model), TEST, "--rule", "pcut"]).out;
    let given: usize = answers
        .lines()
        .map(|line| {
            let answer: serde_json::Value = serde_json::from_str(line).unwrap();
            answer["labels"].as_array().unwrap().len()
        })
        .sum();
    let settings: serde_json::Value =
        serde_json::from_str(&ok(&["info", "--json", text(&model)]).out).unwrap();
    assert!(settings["decision"]["labels"] == 2 && (83..140).contains(&given), "{given}");
    let usage =
        |arguments: &[&str]| run(&[&["train", TRAIN, "-o", text(&model)], arguments].concat());
    for wrong in [
        &["--rule", "scut"][..],
        &["--rule", "rcut"],
        &["--rule", "rcut:0"],
        &["--tune=votes", "--rule", "rcut:2"],
        &["--mode", "single", "--rule", "mcut"],
        &["--mode", "single", "--threshold", "0.5"],
        &["--tune=votes", "--rule", "pcut", "--abstain", "target-error=5%"],
        &["--class-weight", "nobody:2"],
        &["--class-weight", "cycling"],
    ] {
        assert_eq!(usage(wrong).code, 2, "{wrong:?}");
    }
    ok(&["train", TRAIN, "-o", text(&model), "--class-weight", "balanced"]);
    let balanced = classify::model::Model::open(&model).unwrap();
    let weights = balanced.document_weights();
    assert!(weights.iter().any(|weight| weight.to_bits() != weights[0].to_bits()));
    // Documents of one group are not neighbors: with all in one group, none has a neighbor.
    let corpus = std::fs::read_to_string(Path::new(ROOT).join(TRAIN)).unwrap();
    let lines: Vec<String> =
        corpus.lines().map(|line| line.replacen('{', "{\"who\": \"all\", ", 1)).collect();
    std::fs::write(&grouped, lines.join("\n")).unwrap();
    let tune = ["--tune=votes", "--group-column", "who", "--tune-table", text(&table)];
    ok(&[&["train", text(&grouped), "-o", text(&model)], &tune[..]].concat());
    assert!(read_json(&table)["figures"]["micro_f1"].as_f64().unwrap() <= 0.0);
    let missing = run(&["train", TRAIN, "-o", text(&model), "--group-column", "who"]);
    assert!(missing.code == 3 && missing.err.contains("who"), "{}", missing.err);
}

/// A corpus with two labels, one of them rare, and groups.
fn small_corpus(folder: &Path) -> PathBuf {
    let path = folder.join("small.jsonl");
    let line = |number: usize| {
        let (label, text) = match number % 3 {
            0 => ("rare", "guitar strings"),
            _ => ("common", "bread dough"),
        };
        let (text, author) = (format!("{text} {number}"), (number / 3 % 10).to_string());
        serde_json::json!({ "text": text, "label": label, "author": author }).to_string() + "\n"
    };
    std::fs::write(&path, (0..60).map(line).collect::<String>()).unwrap();
    path
}

#[test]
fn a_document_without_a_vote_gets_the_most_frequent_label() {
    let folder = tempfile::tempdir().unwrap();
    let (corpus, model) = (small_corpus(folder.path()), folder.path().join("m"));
    ok(&["train", text(&corpus), "-o", text(&model), "-q"]);
    let answer = |flags: &[&str]| -> serde_json::Value {
        let run = run_with(&[&["predict", text(&model), "-q"], flags].concat(), b"qwerty\n");
        serde_json::from_str(&run.out).unwrap()
    };
    let single = answer(&[]);
    assert_eq!(
        (&single["labels"][0], &single["reason"]),
        (&"common".into(), &"no-known-term".into())
    );
    assert!(single.get("score").is_none());
    // A document that may have several labels may also have none.
    assert_eq!(answer(&["--mode", "multi"])["labels"].as_array().unwrap().len(), 0);
}

#[test]
fn learnt_thresholds_stay_with_allow_none() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("m");
    let corpus = folder.path().join("several.jsonl");
    let line = |number: usize| {
        let labels = ["[\"a\"]", "[\"b\"]", "[\"a\", \"b\"]"][number % 3];
        let words = ["apple pear", "bread dough", "apple dough"][number % 3];
        format!("{{\"text\": \"{words} {}\", \"labels\": {labels}}}\n", number % 7)
    };
    std::fs::write(&corpus, (0..90).map(line).collect::<String>()).unwrap();
    let train = ["train", text(&corpus), "-o", text(&model), "-q"];
    ok(&[&train[..], &["--tune=votes", "--rule", "scut"]].concat());
    let decision = |flags: &[&str]| -> serde_json::Value {
        let json = folder.path().join("j.json");
        let evaluate = ["evaluate", text(&model), text(&corpus), "-q", "--json", text(&json)];
        ok(&[&evaluate[..], flags].concat());
        let json = std::fs::read(&json).unwrap();
        serde_json::from_slice::<serde_json::Value>(&json).unwrap()["method"]["decision"].clone()
    };
    let (learnt, allowed) = (decision(&[]), decision(&["--allow-none"]));
    assert_eq!(learnt["mode"], "per-label");
    assert_eq!(allowed["thresholds"], learnt["thresholds"]);
    assert_eq!(allowed["allow_none"], true);
}

#[test]
fn a_hold_out_keeps_groups_together() {
    let folder = tempfile::tempdir().unwrap();
    let corpus = small_corpus(folder.path());
    let evaluate =
        ["evaluate", "--train", text(&corpus), "--holdout", "30%", "--group-column", "author"];
    for seed in ["1", "2", "3"] {
        let json = folder.path().join("j.json");
        let more = ["--seed", seed, "-q", "--json", text(&json), "--per-document"];
        ok(&[&evaluate[..], &more].concat());
        let result: serde_json::Value =
            serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
        // Ten authors of six documents each.
        assert_eq!(result["documents"]["test"].as_u64().unwrap() % 6, 0, "seed {seed}");
    }
}

#[test]
fn flags_that_would_do_nothing_or_too_much() {
    let folder = tempfile::tempdir().unwrap();
    let (corpus, model) = (small_corpus(folder.path()), folder.path().join("m"));
    let train = ["train", text(&corpus), "-o", text(&model), "-q"];
    let refused = run(&[&train[..], &["--features", "counts"]].concat());
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("this corpus has texts"), "{}", refused.err);
    // A k larger than the number of documents is capped, however large it is.
    ok(&[&train[..], &["--tune=votes", "--k-max", "18446744073709551615"]].concat());
    ok(&["tune", text(&model), "--k-max", "1000000000000", "-q"]);
}

/// If the system cannot start more threads, the command says so.
#[test]
fn threads_that_cannot_be_started() {
    let folder = tempfile::tempdir().unwrap();
    let (corpus, model) = (small_corpus(folder.path()), folder.path().join("m"));
    ok(&["train", text(&corpus), "-o", text(&model), "-q"]);
    // One thread is the process itself; the limit does not affect root.
    let program = env!("CARGO_BIN_EXE_classify");
    let limited = |most: u32, command: &str| {
        let script = format!(
            "ulimit -u {most} 2>/dev/null; exec setpriv --reuid 65534 --clear-groups {program} {command}"
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
    for most in 1..6 {
        let output = limited(most, &predict);
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(!err.contains("panicked"), "{most}: {err}");
        let complete = String::from_utf8_lossy(&output.stdout).lines().count() == 60;
        assert!(complete == output.status.success(), "{most}: {output:?}");
        assert!(matches!(output.status.code(), Some(0 | 5)), "{most}: {output:?}");
    }
}

#[test]
fn documents_are_added_removed_and_relabeled() {
    let (folder, model) = trained(&["--keep-text", "--no-tune"]);
    let path = |name: &str| folder.path().join(name);
    let added = ok(&["add", text(&model), TEST]);
    assert!(
        added.err.contains("331 documents; 83 added, 0 of them in place of others"),
        "{}",
        added.err
    );
    // Again: they replace themselves.
    let again = ok(&["add", text(&model), TEST]);
    assert!(again.err.contains("331 documents; 83 added, 83 of them in place"), "{}", again.err);
    // The whole is a model of both corpora, but for the weights of its terms; weighed anew it is that model.
    ok(&["compact", text(&model), "--reweigh"]);
    let both = path("both.model");
    ok(&["train", TRAIN, TEST, "--keep-text", "--no-tune", "-o", text(&both)]);
    let answers =
        |model: &Path| ok(&["predict", text(model), TEST, "--with", "neighbors,scores"]).out;
    assert_eq!(answers(&model), answers(&both));
    // Without identifiers they would replace others.
    let unnamed = path("unnamed.jsonl");
    std::fs::write(&unnamed, "{\"text\": \"quokka\", \"label\": \"animals\"}\n").unwrap();
    let refused = run_with(&["add", text(&model), text(&unnamed)], b"");
    assert!(refused.code == 3 && refused.err.contains("--number-as"), "{}", refused.err);
    let added = ok(&["add", text(&model), text(&unnamed), "--number-as", "zoo-"]);
    assert!(added.err.contains("does not know 100 % of their terms"), "{}", added.err);
    ok(&["relabel", text(&model), "zoo-1", "marsupials", "animals"]);
    let labels = path("labels.jsonl");
    std::fs::write(
        &labels,
        "{\"id\": \"zoo-1\", \"labels\": []}\n\n{\"id\": \"s001\", \"labels\": [\"x\"]}\n",
    )
    .unwrap();
    let relabeled = ok(&["relabel", text(&model), "--from", text(&labels)]);
    assert!(relabeled.err.contains("2 got other labels"), "{}", relabeled.err);
    let info = ok(&["info", text(&model)]).out;
    assert!(
        info.contains("332, 1 without a label") && info.contains("3 relabeled since"),
        "{info}"
    );
    let refused = run_with(&["remove", text(&model), "zoo-1", "nobody"], b"");
    assert!(refused.code == 3 && refused.err.contains("nothing was removed"), "{}", refused.err);
    let removed = ok(&["remove", text(&model), "zoo-1", "nobody", "zoo-1", "--ignore-missing"]);
    assert!(removed.err.contains("1 removed; 1 were not there"), "{}", removed.err);
    let removed = run_with(&["remove", text(&model), "--from", "-"], b"s002\ns003\n");
    assert!(removed.err.contains("329 documents; 2 removed"), "{}", removed.err);
    for (wrong, code) in [
        (&["relabel", text(&model), "nobody", "x"][..], 3),
        (&["relabel", text(&model), "s004", ""], 3),
        (&["relabel", text(&model)], 2),
        (&["remove", text(&model)], 2),
        (&["add", text(&model)], 2),
        (&["add", text(&path("none")), TEST], 4),
    ] {
        assert_eq!(run_with(wrong, b"").code, code, "{wrong:?}");
    }
    // Tuning knows the documents that are there, and the journal goes.
    assert!(path("sample.model.journal").exists());
    ok(&["tune", text(&model)]);
    assert!(!path("sample.model.journal").exists());
    let info = ok(&["info", text(&model)]).out;
    assert!(!info.contains("since the model was"), "{info}");
    let (_folder, plain) = trained(&[]);
    let refused = run_with(&["compact", text(&plain), "--reweigh"], b"");
    assert!(refused.code == 2 && refused.err.contains("--keep-text"), "{}", refused.err);
}

#[test]
fn clusters() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("clusters.jsonl");
    let asked = ["cluster", TRAIN, "--k", "8", "-o", text(&out)];
    let first = ok(&asked);
    assert_eq!(first.out.lines().count(), 9, "{}", first.out);
    assert!(first.err.contains("NMI"), "{}", first.err);
    let lines = std::fs::read_to_string(&out).unwrap();
    assert_eq!(lines.lines().count(), 248);
    // On any number of threads the same.
    ok(&[&asked[..], &["-j", "1"]].concat());
    assert_eq!(std::fs::read_to_string(&out).unwrap(), lines);
    assert_ne!(ok(&[&asked[..], &["--seed", "1"]].concat()).out, first.out);
    let plain = run_with(&["cluster", "-", "--k", "2"], b"the cat sat\nthe dog ran\nthe cat ran\n");
    assert!(plain.code == 0 && !plain.err.contains("NMI"), "{}", plain.err);
    for (wrong, code) in [
        (&["cluster", TRAIN, "--k", "0"][..], 2),
        (&["cluster", TRAIN, "--k", "2", "--weighting", "nnn"], 2),
        (&["cluster", "/nonexistent", "--k", "2"], 3),
    ] {
        assert_eq!(run_with(wrong, b"").code, code, "{wrong:?}");
    }
    let nothing = run_with(&["cluster", "-", "--k", "2"], b"\n...\n");
    assert_eq!(nothing.code, 3, "{}", nothing.err);
}
