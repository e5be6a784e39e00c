//! `classify cluster`.

use testkit::{Folder, Messages, text};

use crate::{TRAIN, ok, program, refused, refused_with};

#[test]
fn clusters() {
    let folder = Folder::new();
    let mut messages = Messages::new(folder.path());
    let out = folder.at("clusters.jsonl");
    let asked = ["cluster", TRAIN, "--k", "8", "-o", text(&out)];
    // With a GPU, the program also prints the search engine.
    let without_gpus = program().without_gpus();
    let first = without_gpus.succeed(&asked);
    assert_eq!(first.out.lines().count(), 9, "{}", first.out);
    messages.add("cluster --k 8", &first, 0);
    let lines = std::fs::read_to_string(&out).unwrap();
    assert_eq!(lines.lines().count(), 248);
    // The number of threads does not change the result.
    ok(&[&asked[..], &["-j", "1"]].concat());
    assert_eq!(std::fs::read_to_string(&out).unwrap(), lines);
    assert_ne!(ok(&[&asked[..], &["--seed", "1"]].concat()).out, first.out);
    let plain = without_gpus
        .run_with(&["cluster", "-", "--k", "2"], b"the cat sat\nthe dog ran\nthe cat ran\n");
    messages.add("cluster - --k 2", &plain, 0);
    refused(&mut messages, 2, &["cluster", TRAIN, "--k", "0"]);
    refused(&mut messages, 2, &["cluster", TRAIN, "--k", "2", "--weighting", "nnn"]);
    refused(&mut messages, 2, &["cluster", TRAIN, "--k", "2", "--vector-field", "v"]);
    refused(&mut messages, 2, &["tokens", TRAIN, "--vector-field", "v"]);
    refused(&mut messages, 3, &["cluster", "/nonexistent", "--k", "2"]);
    refused_with(&mut messages, 3, &["cluster", "-", "--k", "2"], b"\n...\n");
    insta::assert_snapshot!(messages);
}
