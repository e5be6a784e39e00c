//! Tests of user mistakes: exit codes and messages.

use testkit::{Folder, Messages, text};

use crate::{GOLDEN, TEST, TRAIN, ok, refused};

/// Runs arguments, and checks their exit codes. `{dir}` is the temporary folder.
fn refuse_all(messages: &mut Messages, folder: &Folder, cases: &[(&str, i32)]) {
    for &(line, code) in cases {
        let line = line.replace("{dir}", text(folder.path())).replace("{train}", TRAIN);
        let line = line.replace("{test}", TEST).replace("{golden}", GOLDEN);
        refused(messages, code, &line.split_whitespace().collect::<Vec<_>>());
    }
}

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
    refuse_all(&mut messages, &folder, cases);
    insta::assert_snapshot!(messages);
    assert!(!folder.at("m").exists(), "no model is left behind");
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 6, "no temporary file is left behind");
}

/// Mistakes of new users that the messages of earlier versions did not help to correct.
#[test]
fn first_mistakes() {
    let folder = Folder::new();
    let mut messages = Messages::new(folder.path());
    let table = "text,label\nloan from the bank,money\nembassy and the bank abroad,news\n\
                 market day,money\n";
    folder.write("t.csv", table.as_bytes());
    folder.write("typo.csv", b"text,labl\na,b\n");
    folder.write("headless.csv", b"a first row with a few words,sport\nanother row,money\n");
    folder.write("long.tsv", "a long first row of text that goes on\tx\nb\ty\n".as_bytes());
    folder.write("one.csv", b"some title\ntext;label\na;x\n");
    folder.write("vectors.npy", b"\x93NUMPY\x01\x00v\x00{}");
    folder.write("sheet.xlsx", b"PK\x03\x04\x14\x00\x06\x00");
    folder.write("table.parquet", b"PAR1\x15\x00\x15");
    folder.write("table.feather", b"ARROW1\x00\x00");
    folder.write("pointer.csv", b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n");
    folder.write("emoji.tsv", "text\tlabel\n\u{1F600}\tx\n\u{1F389}\ty\n".as_bytes());
    folder.write("large.svm", b"1 4294967299:1\n");
    folder.write("bits.csv", b"text,labels\na,\"[1, 0]\"\nb,\"[0, 0]\"\n");
    folder.write("cut.json", b"[\n{\"text\": \"a\", \"label\": \"x\"},\n");
    folder.write("half.jsonl", b"{\"text\": \"\\ud83d\", \"label\": \"x\"}\n");
    folder.write("nan.jsonl", b"{\"text\": \"a\", \"label\": NaN}\n");
    folder.write("open.csv", b"text,label\n\"a,x\nb,y\n");
    folder.write("labels/a/1.txt", b"one");
    folder.write("labels/b/2.txt", b"two");
    folder.write("labels/README.md", b"read me");
    let cases: &[(&str, i32)] = &[
        ("train {dir}/vectors.npy -o {dir}/m", 3),
        ("train {dir}/sheet.xlsx -o {dir}/m", 3),
        ("train {dir}/table.parquet -o {dir}/m", 3),
        ("train {dir}/table.feather -o {dir}/m", 3),
        ("train {dir}/pointer.csv -o {dir}/m", 3),
        ("train {dir}/labels -o {dir}/m", 3),
        ("train {dir}/emoji.tsv -o {dir}/m", 3),
        ("train {dir}/large.svm -o {dir}/m", 3),
        ("train {dir}/bits.csv -o {dir}/m", 3),
        ("train {dir}/cut.json -o {dir}/m", 3),
        ("train {dir}/half.jsonl -o {dir}/m", 3),
        ("train {dir}/nan.jsonl -o {dir}/m", 3),
        ("train {dir}/open.csv -o {dir}/m", 3),
        ("train {dir}/typo.csv -o {dir}/m", 3),
        ("train {dir}/headless.csv -o {dir}/m", 3),
        ("train {dir}/headless.csv -o {dir}/m --no-header", 3),
        ("train {dir}/long.tsv -o {dir}/m", 3),
        ("train {dir}/one.csv -o {dir}/m", 3),
        ("train {dir}/t.csv -o {dir}/m --text-column title,body", 3),
        ("train {dir}/t.csv -o {dir}/m --text-column title --label-column topic", 3),
        ("train {dir}/t.csv -o {dir}/m --tune votes", 3),
        ("train {dir}/t.csv -o {dir}/m --tune=vote", 2),
        ("train {dir}/t.csv -o {dir}/m --stop-words klingon", 2),
        ("train {dir}/t.csv -o {dir}/m --stem", 2),
        ("train {dir}/t.csv -o {dir}/m --vote simlarity", 2),
        ("train {dir}/t.csv -o {dir}/m --k 0", 2),
        ("train {dir}/t.csv -o {dir}/m --threshold 0.3", 2),
        ("train {dir}/t.csv -o {dir}/m --allow-none", 2),
        ("train {dir}/t.csv -o {dir}/m --rule mcut", 2),
        ("train {dir}/t.csv -o {dir}/m --tune --abstain foreign=5%", 2),
        ("train {dir}/t.csv -o {dir}/m --abstain target-error=5%", 2),
        ("train {dir}/t.csv -o {dir}/m --separator ab", 2),
        ("evaluate {dir}/t.csv", 2),
        ("evaluate {dir}/t.csv {golden}", 4),
        ("predict {dir}/t.csv {golden}", 4),
        ("predict {golden} --vectors {dir}/vectors.npy", 3),
        ("info {dir}/t.csv", 4),
        ("serve {golden} --listen eighty", 2),
        ("cluster {dir}/t.csv --k 100000", 2),
        ("cluster {dir}/t.csv --k 0", 2),
        ("relabel {dir}/t.model 1 mony", 3),
        ("relabel {dir}/t.model 17 money", 3),
        ("remove {dir}/t.model 17", 3),
        ("add {dir}/t.model {dir}/t.csv", 3),
    ];
    ok(&["train", text(&folder.at("t.csv")), "-o", text(&folder.at("t.model"))]);
    refuse_all(&mut messages, &folder, cases);
    insta::assert_snapshot!(messages);
    assert!(!folder.at("m").exists(), "no model is left behind");
}

/// `-h` of every command fits a screen, and shows examples.
#[test]
fn short_help() {
    for command in [
        "train",
        "tune",
        "predict",
        "explain",
        "serve",
        "vectorize",
        "add",
        "remove",
        "relabel",
        "compact",
        "evaluate",
        "compare",
        "info",
        "tokens",
        "cluster",
        "devices",
    ] {
        let help = ok(&[command, "-h"]).out;
        assert!(help.lines().count() <= 40, "{command}: {}", help.lines().count());
        assert!(help.contains(&format!("classify {command} ")), "{command}: {help}");
    }
}
