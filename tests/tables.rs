//! Tests common variants of tables, JSON and label files.

use std::fs;
use std::sync::Arc;

use classify::text::corpus::{
    Content, Corpus, CorpusError, Document, LabelUse, Note, Notes, OnBadUtf8, Problem, Quoting,
    ReadOptions, TableOptions,
};

fn read(bytes: impl AsRef<[u8]>, options: &ReadOptions) -> Result<Vec<Document>, CorpusError> {
    Corpus::from_bytes("in", bytes.as_ref().to_vec(), options.clone())?.collect()
}

/// Returns the text and the labels of each document.
fn rows(documents: &[Document]) -> Vec<(String, Vec<String>)> {
    let row = |document: &Document| match &document.content {
        Content::Text(text) => (text.clone(), document.labels.clone()),
        other => panic!("{other:?}"),
    };
    documents.iter().map(row).collect()
}

fn expected(rows: &[(&str, &[&str])]) -> Vec<(String, Vec<String>)> {
    let labels = |labels: &[&str]| labels.iter().map(|&label| label.to_owned()).collect();
    rows.iter().map(|&(text, names)| (text.to_owned(), labels(names))).collect()
}

fn check(bytes: impl AsRef<[u8]>, options: &ReadOptions, wanted: &[(&str, &[&str])]) {
    let documents = read(bytes, options).expect("the corpus can be read");
    assert_eq!(rows(&documents), expected(wanted));
}

fn table(table: TableOptions) -> ReadOptions {
    ReadOptions { table, ..ReadOptions::default() }
}

fn columns(texts: &[&str], labels: &[&str]) -> ReadOptions {
    let to_strings = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    ReadOptions {
        text_columns: to_strings(texts),
        label_columns: to_strings(labels),
        ..ReadOptions::default()
    }
}

const TWO: [(&str, &[&str]); 2] = [("loan, bank", &["money"]), ("embassy", &["abroad"])];

#[test]
fn the_separator_is_detected() {
    for text in [
        "text;label\nloan, bank;money\nembassy;abroad\n",
        "text\tlabel\nloan, bank\tmoney\nembassy\tabroad\n",
        "text|label\nloan, bank|money\nembassy|abroad\n",
        "sep=;\ntext;label\nloan, bank;money\nembassy;abroad\n",
        "id;text;label;a, b\n1;loan, bank;money;\n2;embassy;abroad;\n",
    ] {
        check(text, &ReadOptions::default(), &TWO);
    }
    // The separator is detected even if the format is CSV.
    let csv = ReadOptions {
        format: Some(classify::text::corpus::Format::Csv),
        ..table(TableOptions::default())
    };
    check("text\tlabel\nloan, bank\tmoney\nembassy\tabroad\n", &csv, &TWO);
}

#[test]
fn excel_writes_utf_16() {
    let text = "sep=\t\r\ntext\tlabel\r\nloan, bank\tmoney\r\nembassy\tabroad\r\n";
    let mut bytes = vec![0xFF, 0xFE];
    bytes.extend(text.encode_utf16().flat_map(u16::to_le_bytes));
    check(bytes, &ReadOptions::default(), &TWO);
}

#[test]
fn quotes() {
    let single = table(TableOptions { quote: Some(b'\''), ..TableOptions::default() });
    check("text;label\n'loan; bank';money\n", &single, &[("loan; bank", &["money"])]);
    let backslash = table(TableOptions { quoting: Quoting::Backslash, ..TableOptions::default() });
    let text = "text,label\n\"say \\\"no\\\", twice\",money\n\"a\nb\",x\n";
    check(text, &backslash, &[("say \"no\", twice", &["money"]), ("a\nb", &["x"])]);
    // Tab-separated fields need no quotes, so a quote is an ordinary character.
    let inches = "text\tlabel\n\"5 inches\tmoney\na 3\" pipe\ttools\n";
    check(
        inches,
        &ReadOptions::default(),
        &[("\"5 inches", &["money"]), ("a 3\" pipe", &["tools"])],
    );
    let quoted = table(TableOptions { quoting: Quoting::Csv, ..TableOptions::default() });
    check("text\tlabel\n\"a\tb\"\tx\n", &quoted, &[("a\tb", &["x"])]);
}

#[test]
fn without_a_header() {
    let numbered = |text, label| ReadOptions {
        table: TableOptions { no_header: true, ..TableOptions::default() },
        format: Some(classify::text::corpus::Format::Tsv),
        ..columns(&[text], &[label])
    };
    check("money\tloan, bank\nabroad\tembassy\n", &numbered("2", "1"), &TWO);
    check("loan, bank\tmoney\nembassy\tabroad\n", &numbered("1", "2"), &TWO);
    let error = read(
        "a long first document without any names\tx\ny\tz\n",
        &ReadOptions {
            format: Some(classify::text::corpus::Format::Tsv),
            ..ReadOptions::default()
        },
    );
    assert!(matches!(error.unwrap_err().problem, Problem::NoHeader { columns: 2, .. }));
    let error = read(
        "Report of 2024\n\ntext,label\na,b\n",
        &ReadOptions {
            format: Some(classify::text::corpus::Format::Csv),
            ..ReadOptions::default()
        },
    );
    assert!(matches!(error.unwrap_err().problem, Problem::OneColumn { .. }));
}

#[test]
fn indicator_columns() {
    let options = columns(&["body"], &["money", "abroad"]);
    let text = "body,money,abroad\nloan,1,0\nembassy,0,1.0\nboth,true,yes\nnone,,0\n";
    let wanted: [(&str, &[&str]); 4] = [
        ("loan", &["money"]),
        ("embassy", &["abroad"]),
        ("both", &["money", "abroad"]),
        ("none", &[]),
    ];
    check(text, &options, &wanted);
    let json = "{\"body\": \"loan\", \"money\": 1, \"abroad\": false}\n";
    check(json, &options, &[("loan", &["money"])]);
    let error = read("body,money,abroad\nloan,2,0\n", &options).unwrap_err();
    assert_eq!(error.to_string(), "in:2: field `money` is `2`, expected 0 or 1");
}

#[test]
fn lists_in_a_cell() {
    let notes = Arc::new(Notes::default());
    let options = ReadOptions { notes: Some(Arc::clone(&notes)), ..ReadOptions::default() };
    let text = "text,labels\nloan,\"['money', 'news']\"\nembassy,\"[\"\"abroad\"\"]\"\n";
    check(text, &options, &[("loan", &["money", "news"]), ("embassy", &["abroad"])]);
    let [Note::ListsAsLabels { place }] = &notes.take()[..] else { panic!() };
    assert_eq!(place.line, Some(2));
    let error = read("text,labels\nloan,\"[1, 0, 0]\"\n", &options).unwrap_err();
    assert!(matches!(error.problem, Problem::IndicatorList));
}

#[test]
fn json_arrays_and_objects_over_several_lines() {
    let wanted: [(&str, &[&str]); 2] = [("a [b", &["x"]), ("c \"}\" d", &["y", "z"])];
    for text in [
        "[{\"text\": \"a [b\", \"label\": \"x\"}, {\"text\": \"c \\\"}\\\" d\", \"label\": \
         [\"y\", \"z\"]}]",
        "[\n  {\n    \"text\": \"a [b\",\n    \"label\": \"x\"\n  },\n  {\n    \"text\": \
         \"c \\\"}\\\" d\",\n    \"label\": [\"y\", \"z\"]\n  }\n]\n",
        "{\n  \"text\": \"a [b\",\n  \"label\": \"x\"\n}\n{\n  \"text\": \"c \\\"}\\\" d\",\n  \
         \"label\": [\"y\", \"z\"]\n}\n",
    ] {
        check(text, &ReadOptions::default(), &wanted);
    }
    let error = read(
        "[\n{\"text\": \"a\", \"label\": \"x\"},\n{\"text\": \"b\"\n",
        &ReadOptions::default(),
    );
    assert_eq!(error.unwrap_err().place.to_string(), "in:3");
    let cut = "[\n{\"text\": \"a\", \"label\": \"x\"},\n";
    let error = read(cut, &ReadOptions::default()).unwrap_err();
    assert!(matches!(error.problem, Problem::CutShort { .. }), "{error}");
}

#[test]
fn fields_in_fields() {
    let options = columns(&["doc.body"], &["subjects.uri"]);
    let text = "{\"doc\": {\"body\": \"a\"}, \"subjects\": [{\"uri\": \"u1\", \"n\": 1}, \
                {\"uri\": \"u2\"}]}\n";
    check(text, &options, &[("a", &["u1", "u2"])]);
    // A field name that contains a dot takes precedence.
    check("{\"doc.body\": \"a\", \"subjects.uri\": \"u\"}\n", &options, &[("a", &["u"])]);
}

#[test]
fn unusual_json_values() {
    let options = ReadOptions::default();
    check("{\"text\": null, \"label\": \"x\"}\n", &options, &[("", &["x"])]);
    check("{\"text\": \"a\", \"label\": 1.0}\n", &options, &[("a", &["1"])]);
    let lone = "{\"text\": \"a \\ud83d b \\ud83d\\ude00\", \"label\": \"x\"}\n";
    assert!(matches!(read(lone, &options).unwrap_err().problem, Problem::LoneSurrogate));
    let replace = ReadOptions { on_bad_utf8: OnBadUtf8::Replace, ..options.clone() };
    check(lone, &replace, &[("a \u{FFFD} b 😀", &["x"])]);
    let nan = read("{\"text\": \"a\", \"label\": NaN}\n", &options).unwrap_err();
    assert!(matches!(nan.problem, Problem::JsonNumber), "{nan}");
}

#[test]
fn a_document_with_too_many_labels_is_refused() {
    let labels: Vec<String> = (0..10_001).map(|label| format!("\"l{label}\"")).collect();
    let line = format!("{{\"text\": \"a\", \"labels\": [{}]}}\n", labels.join(","));
    let error = read(line, &ReadOptions::default()).unwrap_err();
    assert!(matches!(error.problem, Problem::TooManyLabels { found: 10_001, .. }), "{error}");
}

#[test]
fn labels_are_normalized() {
    let text = "{\"text\": \"a\", \"labels\": [\" e\u{301}t\u{e9} \", \"été\"]}\n";
    check(text, &ReadOptions::default(), &[("a", &["été"])]);
}

#[test]
fn fasttext_labels_anywhere() {
    let text = "__label__x a b\na __label__y b __label__z\n";
    check(text, &ReadOptions::default(), &[("a b", &["x"]), ("a b", &["y", "z"])]);
}

#[test]
fn counts_of_xmlc_files() {
    let documents = read("2 4 3\n0,2 0:1 3:2\n1 1:1.5\n", &ReadOptions::default()).unwrap();
    assert_eq!(documents[0].labels, ["0", "2"]);
    assert_eq!(documents[0].content, Content::Features(vec![(0, 1.0), (3, 2.0)]));
    let error = read("2 3 3\n0,2 0:1 3:2\n", &ReadOptions::default()).unwrap_err();
    assert_eq!(error.to_string(), "in:2: column 3, but line 1 declares 3 columns, numbered from 0");
}

#[test]
fn annif_corpora() {
    let text = "loan bank\t<http://x/1> <http://x/2>\nembassy\t<http://x/3>\n";
    let wanted: [(&str, &[&str]); 2] =
        [("loan bank", &["http://x/1", "http://x/2"]), ("embassy", &["http://x/3"])];
    check(text, &ReadOptions::default(), &wanted);
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("a.txt", "loan bank");
    write("a.tsv", "<http://x/1>\tmoney\n<http://x/2>\tnews\n");
    write("b.txt", "embassy");
    write("b.key", "abroad\n");
    let corpus = Corpus::open(&[folder.path().to_owned()], ReadOptions::default()).unwrap();
    let documents: Vec<Document> = corpus.collect::<Result<_, _>>().unwrap();
    let wanted: [(&str, &[&str]); 2] =
        [("loan bank", &["http://x/1", "http://x/2"]), ("embassy", &["abroad"])];
    assert_eq!(rows(&documents), expected(&wanted));
}

#[test]
fn non_text_files_in_label_folders_are_skipped() {
    let folder = tempfile::tempdir().unwrap();
    for label in ["x", "y"] {
        fs::create_dir(folder.path().join(label)).unwrap();
        fs::write(folder.path().join(label).join("1.txt"), "a").unwrap();
    }
    fs::write(folder.path().join("x/Thumbs.db"), b"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1\0\0").unwrap();
    fs::write(folder.path().join("y/odd"), b"a\0b").unwrap();
    let notes = Arc::new(Notes::default());
    let options = ReadOptions { notes: Some(Arc::clone(&notes)), ..ReadOptions::default() };
    let documents = Corpus::open(&[folder.path().to_owned()], options).unwrap();
    assert_eq!(documents.collect::<Result<Vec<_>, _>>().unwrap().len(), 2);
    assert!(matches!(&notes.take()[..], [Note::SkippedFiles { .. }]));
}

#[test]
fn a_quote_that_spans_rows_is_reported() {
    let notes = Arc::new(Notes::default());
    let options = ReadOptions { notes: Some(Arc::clone(&notes)), ..ReadOptions::default() };
    let text = "text,label\nfine,a\n\"open,b\none,c\ntwo,d\nthree,e\nend\",f\n";
    assert_eq!(read(text, &options).unwrap().len(), 2);
    assert!(matches!(&notes.take()[..], [Note::QuotedRows { lines: 5, .. }]));
    let prose = "text,label\n\"Dear all,\nthe first line, with a comma\nthe second, too\nBye\",f\n";
    assert_eq!(read(prose, &options).unwrap().len(), 1);
    assert_eq!(notes.take(), []);
}

#[test]
fn a_field_called_weight_is_reported_and_ignored() {
    let notes = Arc::new(Notes::default());
    let options = ReadOptions { notes: Some(Arc::clone(&notes)), ..ReadOptions::default() };
    let csv = "text,label,weight\na,x,5 kg\n";
    let json = "{\"text\": \"a\", \"label\": \"x\", \"weight\": 7}\n";
    for text in [csv, json] {
        let documents = read(text, &options).unwrap();
        assert_eq!(documents[0].weight.to_bits(), 1f32.to_bits());
        assert!(matches!(&notes.take()[..], [Note::UnusedWeights { .. }]));
    }
    let optional = ReadOptions { labels: LabelUse::Optional, ..options };
    assert_eq!(read("{\"text\": \"a\"}\n", &optional).unwrap().len(), 1);
}
