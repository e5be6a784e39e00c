//! Tests of `classify devices`, `--device` and `classify bench` without a GPU.

use testkit::{Folder, Messages, text};

use crate::{TEST, TRAIN, ok, program, read_json, without_times};

#[test]
fn requesting_a_missing_gpu_fails() {
    let folder = Folder::new();
    let mut messages = Messages::new(folder.path());
    let model = folder.at("model");
    let without_gpus = program().without_gpus();
    let evaluate = ["evaluate", "--train", TRAIN, "--test", TEST];
    let with = |extra: &[&str]| without_gpus.run(&[&evaluate, extra].concat());
    let automatic = with(&["--device", "auto", "--verbose"]);
    assert_eq!(automatic.code, 0, "{}", automatic.err);
    assert!(automatic.err.contains("search: inverted on the CPU"), "{}", automatic.err);
    for cpu in [&["--device", "cpu"][..], &["--engine", "exhaustive"]] {
        assert_eq!(without_times(&with(cpu).out), without_times(&with(&["-q"]).out));
    }
    for asked in [
        &["--device", "cuda"][..],
        &["--device", "cuda:3"],
        &["--device", "cuda:all"],
        &["--engine", "grid:64x128"],
    ] {
        // Not a snapshot: the reason depends on the driver of the machine.
        let run = with(asked);
        assert_eq!(run.code, 5, "{asked:?}: {}", run.err);
        assert!(run.err.contains("NVIDIA driver"), "{}", run.err);
        assert!(run.err.contains("classify devices"), "{}", run.err);
        assert_eq!(run.out, "");
        // Training without tuning searches nothing, but reports that there is no GPU.
        let run = without_gpus.run(&[&["train", TRAIN, "-o", text(&model)], asked].concat());
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
        messages.add(&wrong.join(" "), &with(wrong), 2);
    }
    let devices = without_gpus.run(&["devices"]);
    assert_eq!(devices.code, 0);
    assert!(devices.out.starts_with("no GPU: ") && devices.out.contains("inverted on the CPU"));
    assert_eq!(without_gpus.run(&["bench", "paper", "--gpu", "0"]).code, 5);
    insta::assert_snapshot!(messages);
}

#[test]
fn paper_benchmark_reads_files() {
    let folder = Folder::new();
    let [corpus, json, svg] = ["rcv1", "a.json", "a.svg"].map(|name| folder.at(name));
    ok(&["generate", "rcv1-like", "-q", "--documents", "600", "-o", text(&corpus)]);
    let arguments = ["bench", "paper", text(&corpus), "--runs", "1", "--json", text(&json)];
    let run = program().without_gpus().run(&[&arguments[..], &["--svg", text(&svg)]].concat());
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.err.contains("measuring only the CPU engines"), "{}", run.err);
    assert!(run.out.starts_with("no GPU; ") && run.out.contains("300 training rows"));
    let report = read_json(&json);
    assert_eq!(report["schema"], "classify.bench-paper/1");
    assert_eq!(report["sizes"], serde_json::json!([10, 100]));
    let names: Vec<&str> =
        report["lines"].as_array().unwrap().iter().map(|l| l["engine"].as_str().unwrap()).collect();
    assert_eq!(names, ["exhaustive", "inverted"]);
    assert!(std::fs::read_to_string(&svg).unwrap().starts_with("<svg"));
}
