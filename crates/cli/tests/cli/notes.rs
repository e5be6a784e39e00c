//! Notes on what was read, and the options that a model remembers.

use testkit::{Folder, Messages, text};

use crate::{ok, program, run};

/// Returns thirty lines, one per document with a text and one of the labels.
fn lines(labels: &[&str], line: impl Fn(usize, &str) -> String) -> String {
    (0..30).map(|number| line(number, labels[number % labels.len()])).collect()
}

fn words(number: usize) -> String {
    let words = ["loan bank rate", "police court law", "embassy visa border"];
    format!("{} {}", words[number % 3], words[number % 3].replace(' ', " a "))
}

#[test]
fn results_that_are_probably_not_meant_are_noted() {
    let folder = Folder::new();
    let mut messages = Messages::new(folder.path());
    let csv = |labels: &[&str]| {
        let row = |number, label: &str| format!("{},\"{label}\"\n", words(number));
        format!("text,label\n{}", lines(labels, row))
    };
    folder.write("lists.csv", csv(&["['a', 'b']", "['b']", "['c']"]));
    folder.write("separated.csv", csv(&["a;b", "b;c", "a;c", "a;b;c", "c;a", "b"]));
    folder.write("spelled.csv", csv(&["money", "Money ", "court"]));
    folder.write("one.csv", csv(&["x"]));
    let glued = |number, label: &str| format!("__label__{label},{number} {}\n", words(number));
    folder.write("glued.txt", lines(&["x", "y", "z"], glued));
    let weighted = |number, label: &str| {
        format!("{{\"text\": \"{}\", \"label\": \"{label}\", \"weight\": 3}}\n", words(number))
    };
    folder.write("weighted.jsonl", lines(&["x", "y", "z"], weighted));
    let same_id = |number, label: &str| {
        format!("{{\"id\": \"a\", \"text\": \"{}\", \"label\": \"{label}\"}}\n", words(number))
    };
    folder.write("ids.jsonl", lines(&["x", "y", "z"], same_id));
    let short = |number: usize, label: &str| match number % 10 {
        0 => format!("-,{label}\n"),
        1 => format!("loan,{label}\n"),
        _ => format!("{},{label}\n", words(number)),
    };
    folder.write("short.csv", format!("text,label\n{}", lines(&["x", "y"], short)));
    for (file, code) in [
        ("lists.csv", 0),
        ("separated.csv", 0),
        ("spelled.csv", 0),
        ("one.csv", 0),
        ("glued.txt", 0),
        ("weighted.jsonl", 0),
        ("ids.jsonl", 0),
        ("short.csv", 0),
        ("one.csv --strict", 3),
        ("one.csv -q", 0),
    ] {
        let line = format!("train {file} -o m.model");
        let arguments: Vec<&str> = line.split(' ').collect();
        messages.add(&line, &program().within(folder.path()).run(&arguments), code);
    }
    insta::assert_snapshot!(messages);
}

#[test]
fn unknown_labels_and_hierarchies_are_noted() {
    let folder = Folder::new();
    let mut messages = Messages::new(folder.path());
    let row = |number, label: &str| format!("{}\t{label}\n", words(number));
    let table = |labels: &[&str]| format!("text\tlabel\n{}", lines(labels, row));
    folder.write("train.tsv", table(&["money", "law", "abroad"]));
    folder.write("test.tsv", table(&["Money", "Law", "Abroad"]));
    folder.write("typo.hier", b"mony\tfinance\n");
    let model = folder.at("m");
    let train = folder.at("train.tsv");
    let train = ["train", text(&train), "-o", text(&model)];
    ok(&train);
    let evaluated = run(&["evaluate", text(&model), text(&folder.at("test.tsv"))]);
    messages.add("evaluate", &evaluated, 0);
    let hierarchy = folder.at("typo.hier");
    messages.add("train", &run(&[&train[..], &["--hierarchy", text(&hierarchy)]].concat()), 0);
    let relabeled = run(&["relabel", text(&model), "1", "mony"]);
    messages.add("relabel", &relabeled, 3);
    insta::assert_snapshot!(messages);
}

#[test]
fn tuning_names_the_language() {
    let folder = Folder::new();
    let english = "this is what they had in the house before it was of any use to us";
    for (name, start, expected) in [
        ("english.csv", english, "the language of the texts is probably english"),
        ("unknown.csv", "vuq zep kolm", "the language of the texts was not recognized"),
    ] {
        let row = |number, label: &str| format!("{start} {},{label}\n", words(number));
        folder.write(name, format!("text,label\n{}", lines(&["x", "y"], row)));
        let model = folder.at("m");
        let trained = ok(&["train", text(&folder.at(name)), "-o", text(&model), "--tune"]);
        assert!(trained.err.contains(expected), "{}", trained.err);
    }
}

/// `evaluate` and `predict` use the reading options of `train`, and `info` shows them.
#[test]
fn models_remember_how_their_corpus_was_read() {
    let folder = Folder::new();
    let row = |number: usize, label: &str| format!("{number};{label}|x;'{}'\n", words(number));
    folder.write("train.csv", lines(&["money", "law", "abroad"], row));
    let model = folder.at("m");
    let corpus = folder.at("train.csv");
    let flags = "--no-header --id-column 1 --label-column 2 --text-column 3 --quote ' \
                 --label-separator | --separator ;";
    let train = ["train", text(&corpus), "-o", text(&model)];
    ok(&[&train[..], &flags.split(' ').collect::<Vec<_>>()].concat());
    let evaluated = ok(&["evaluate", text(&model), text(&corpus)]);
    assert!(evaluated.out.contains("4 in training, 4 in test"), "{}", evaluated.out);
    let predicted = ok(&["predict", text(&model), text(&corpus)]);
    assert!(
        predicted.out.starts_with("{\"id\":\"0\",\"labels\":[\"money\",\"x\"]"),
        "{}",
        predicted.out
    );
    let info = ok(&["info", text(&model)]).out;
    let shown = "reading      text 3; labels 2; identifier 1; labels separated by `|`; fields \
                 separated by `;`; quote '; no header";
    assert!(info.contains(shown), "{info}");
}
