//! Mistakes of users: exit codes and messages.

use testkit::{Folder, Messages, text};

use crate::{GOLDEN, TEST, TRAIN, refused};

/// Runs arguments, and checks their exit codes. `{dir}` is the temporary folder.
#[test]
fn mistakes() {
    let folder = Folder::new();
    let mut messages = Messages::new(folder.path());
    folder.write("empty.jsonl", b"");
    folder.write("bad.jsonl", b"{\"text\": \"a\", \"label\": \"x\"}\n{\"txt\": \"a\"}\n");
    folder.write("latin.jsonl", b"{\"text\": \"caf\xe9\", \"label\": \"x\"}\n");
    folder.write("header.csv", b"text,label\n");
    folder.write("not.model", b"hello");
    folder.write("lines.txt", b"no labels here\n");
    let cases: &[(&str, i32)] = &[
        ("train {dir}/nothing.jsonl -o {dir}/m", 3),
        ("train {dir}/empty.jsonl -o {dir}/m", 3),
        ("train {dir}/header.csv -o {dir}/m", 3),
        ("train {dir}/bad.jsonl -o {dir}/m", 3),
        ("train {dir}/latin.jsonl -o {dir}/m", 3),
        ("train {dir}/lines.txt -o {dir}/m", 3),
        ("train {train} -o {dir}/no/m", 1),
        ("train {train}", 2),
        ("train {train} -o {dir}/m --weighting xyz", 2),
        ("train {train} -o {dir}/m --idf-power nan", 2),
        ("train {train} -o {dir}/m -k 0", 2),
        ("train {train} -o {dir}/m --stem klingon", 2),
        ("train {train} -o {dir}/m --encoding klingon", 2),
        ("train {train} -o {dir}/m --min-df 0.5", 2),
        ("train {train} -o {dir}/m --treshold 0.3", 2),
        ("train {train} -o {dir}/m --label-column topic", 3),
        ("predict {dir}/nothing.model", 4),
        ("predict {dir}/not.model", 4),
        ("predict {golden} {dir}/nothing.txt", 3),
        ("predict {golden} {dir}/latin.jsonl", 3),
        ("evaluate {golden}", 2),
        ("evaluate", 2),
        ("evaluate --train {train}", 2),
        ("evaluate --preset modapte90", 2),
        ("evaluate --preset modapte90 {dir}", 3),
        ("evaluate --preset lyrl2004 {dir}", 3),
        ("evaluate {golden} {dir}/empty.jsonl", 3),
        ("info {dir}", 4),
        ("train {dir}/bad.jsonl -o {dir}/bad.jsonl", 2),
        ("predict {golden} {dir}/lines.txt -o {dir}/lines.txt", 2),
        ("predict {golden} {dir}/lines.txt --to fasttext --top 2", 2),
        ("evaluate {golden} {test} --stem en", 2),
        ("evaluate {golden} {test} --weighting bm25", 2),
        ("tokens --model {golden} --stem en", 2),
        ("evaluate --train - --holdout 20%", 2),
        ("train {train} -o -", 2),
        ("train {train} -o {dir}/m --min-df 1000", 3),
        ("train {train} -o {dir}/m --idf-power -1", 2),
        ("train {train} -o {dir}/m --id-column key", 3),
        ("train {train} -o {dir}/m -j 100000", 2),
        ("trian", 2),
        ("", 2),
    ];
    for &(line, code) in cases {
        let line = line.replace("{dir}", text(folder.path())).replace("{train}", TRAIN);
        let line = line.replace("{test}", TEST).replace("{golden}", GOLDEN);
        refused(&mut messages, code, &line.split_whitespace().collect::<Vec<_>>());
    }
    insta::assert_snapshot!(messages);
    assert!(!folder.at("m").exists(), "no model is left behind");
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 6, "no temporary file is left behind");
}
