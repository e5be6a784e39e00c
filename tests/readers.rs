//! Tests every reader on valid input, and the error messages for invalid input.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use classify::learn::{TrainOptions, Trainer};
use classify::search::Engines;
use classify::text::corpus::preset::Preset;
use classify::text::corpus::{
    Content, Corpus, CorpusError, Document, Format, IdUse, LabelUse, OnBadUtf8, Qrels, ReadOptions,
    Split, encoding_for_label,
};
use classify::threads::Threads;

fn read(bytes: &[u8], options: &ReadOptions) -> Result<Vec<Document>, CorpusError> {
    Corpus::from_bytes("in", bytes.to_vec(), options.clone())?.collect()
}

/// Returns the identifier, text and labels of each document.
fn texts(documents: &[Document]) -> Vec<(&str, &str, Vec<&str>)> {
    documents.iter().map(row).collect()
}

fn row(document: &Document) -> (&str, &str, Vec<&str>) {
    let Content::Text(text) = &document.content else { panic!("text expected") };
    (&document.id, text, document.labels.iter().map(String::as_str).collect())
}

/// Returns options that use the field `weight`.
fn weighted() -> ReadOptions {
    ReadOptions { usual_fields: true, ..default() }
}

fn default() -> ReadOptions {
    ReadOptions::default()
}

#[test]
fn jsonl() {
    let lines = br#"{"id": "a", "text": "one", "labels": ["x", "y", "x"], "other": {"deep": [1]}}

{"label": "z", "text": "two", "weight": 2.5}
{"text": "three", "labels": [1, true], "id": 7}
{"text": "four", "labels": null}"#;
    let documents = read(lines, &weighted()).unwrap();
    assert_eq!(
        texts(&documents),
        [
            ("a", "one", vec!["x", "y"]),
            ("row-2", "two", vec!["z"]),
            ("7", "three", vec!["1", "true"]),
            ("row-4", "four", vec![])
        ]
    );
    assert_eq!(documents[1].weight.to_bits(), 2.5f32.to_bits());
    assert_eq!(documents[1].place.to_string(), "in:3");
    let options = ReadOptions {
        text_columns: vec!["title".into(), "body".into()],
        label_columns: vec!["tags".into()],
        label_separator: Some(",".into()),
        ..default()
    };
    let documents = read(br#"{"body": "b", "tags": "p, q", "title": "t"}"#, &options).unwrap();
    assert_eq!(texts(&documents), [("1", "t\nb", vec!["p", "q"])]);
    let documents = read(br#"{"features": {"7": 0.5, "3": 2}, "labels": []}"#, &default()).unwrap();
    assert_eq!(documents[0].content, Content::Features(vec![(3, 2.0), (7, 0.5)]));
}

#[test]
fn csv_and_tsv() {
    let csv = b"id,text,label\r\n1,\"a \"\"b\"\", c\nsecond line\",x\r\n\r\n2,plain,\n";
    let options = ReadOptions { format: Some(Format::Csv), ..default() };
    let documents = read(csv, &options).unwrap();
    let expected = [("1", "a \"b\", c\nsecond line", vec!["x"]), ("2", "plain", vec![])];
    assert_eq!(texts(&documents), expected);
    let options =
        ReadOptions { format: Some(Format::Tsv), label_separator: Some("|".into()), ..default() };
    let documents = read(b"text\tlabels\nhello, world\tx|y\n", &options).unwrap();
    assert_eq!(texts(&documents), [("1", "hello, world", vec!["x", "y"])]);
    let options = ReadOptions { format: Some(Format::Csv), ..default() };
    let documents = read(b"text;label\na,b;x\n", &options).unwrap();
    assert_eq!(texts(&documents), [("1", "a,b", vec!["x"])]);
}

#[test]
fn fasttext_and_plain() {
    let lines = "__label__a __label__ü some text\n\n__label__b\n";
    let documents = read(lines.as_bytes(), &default()).unwrap();
    assert_eq!(texts(&documents), [("1", "some text", vec!["a", "ü"]), ("2", "", vec!["b"])]);
    let options = ReadOptions { labels: LabelUse::Optional, ..default() };
    let documents = read(b"one\n\ntwo\r\n", &options).unwrap();
    assert_eq!(texts(&documents), [("1", "one", vec![]), ("2", "", vec![]), ("3", "two", vec![])]);
}

#[test]
fn svmlight() {
    let rows = b"+1 3:0.5 1:2 # comment\n-1,4 qid:7 2:1e-2\n\n 5:1\n1:1 2:2\n";
    let documents = read(rows, &default()).unwrap();
    let rows: Vec<(Vec<&str>, &Content)> = documents
        .iter()
        .map(|d| (d.labels.iter().map(String::as_str).collect(), &d.content))
        .collect();
    let features = |pairs: &[(u32, f32)]| Content::Features(pairs.to_vec());
    assert_eq!(rows[0], (vec!["1"], &features(&[(1, 2.0), (3, 0.5)])));
    assert_eq!(rows[1], (vec!["-1", "4"], &features(&[(2, 0.01)])));
    assert_eq!(rows[2], (vec![], &features(&[(5, 1.0)])));
    assert_eq!(rows[3], (vec![], &features(&[(1, 1.0), (2, 2.0)])));
    let options = ReadOptions { first_column: Some(0), ..default() };
    assert_eq!(read(b"1 0:1\n", &options).unwrap()[0].content, features(&[(0, 1.0)]));
}

const STORIES: &str = r#"<!DOCTYPE lewis SYSTEM "lewis.dtd">
<REUTERS TOPICS="YES" LEWISSPLIT="TRAIN" CGISPLIT="TRAINING-SET" OLDID="1" NEWID="11">
<TOPICS><D>cocoa</D><D>grain</D></TOPICS>
<PLACES><D>usa</D></PLACES>
<TEXT>&#2;
<TITLE>COCOA &lt;BEAN&gt; &amp; MORE</TITLE>
<DATELINE>    SALVADOR - </DATELINE><BODY>Showers continued.
Reuter
&#3;</BODY></TEXT>
</REUTERS>
<REUTERS TOPICS="YES" LEWISSPLIT="TEST" OLDID="2" NEWID="12">
<TOPICS><D>cocoa</D></TOPICS>
<TEXT TYPE="BRIEF"><TITLE>ONLY A TITLE</TITLE>
</TEXT>
</REUTERS>
<REUTERS TOPICS="NO" LEWISSPLIT="TRAIN" OLDID="3" NEWID="13">
<TOPICS></TOPICS>
<TEXT TYPE="UNPROC">loose words</TEXT>
</REUTERS>
"#;

#[test]
fn reuters() {
    let documents = read(STORIES.as_bytes(), &default()).unwrap();
    assert_eq!(documents.len(), 3);
    let rows = texts(&documents);
    assert_eq!((rows[0].0, &rows[0].2), ("11", &vec!["cocoa", "grain"]));
    assert_eq!(rows[0].1, "COCOA <BEAN> & MORE\nShowers continued.\nReuter\n ");
    assert_eq!(rows[1].1.split_whitespace().collect::<Vec<_>>(), ["ONLY", "A", "TITLE"]);
    assert_eq!(rows[2].1, "loose words");
    for (split, ids) in [(Split::Train, vec!["11"]), (Split::Test, vec!["12"])] {
        let documents = read(STORIES.as_bytes(), &ReadOptions { split, ..default() }).unwrap();
        assert_eq!(texts(&documents).iter().map(|row| row.0).collect::<Vec<_>>(), ids);
    }
}

#[test]
fn modapte_keeps_labels_of_training_and_test_stories() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("reut2-000.sgm"), STORIES).unwrap();
    std::fs::write(folder.path().join("README.txt"), "not a corpus").unwrap();
    let sides = Preset::ModApte90.open(folder.path(), &default()).unwrap();
    let train: Vec<Document> = sides.train.collect::<Result<_, _>>().unwrap();
    // No test story has the label `grain`.
    assert_eq!(texts(&train)[0].2, ["cocoa"]);
    assert_eq!(sides.test.count(), 1);
}

#[test]
fn lyrl2004() {
    let qrels = Qrels::from_bytes("q", b"E11 1 1\nC15 1 1\nE11 2 1\nM11 2 0\n".to_vec()).unwrap();
    let options = ReadOptions { qrels: Some(Arc::new(qrels)), ..default() };
    let tokens = b".I 1\n.W\nrecov recov\nexcit\n\n.I 2\n.W\n\n.I 3\n.W\nx\n";
    let documents = read(tokens, &options).unwrap();
    assert_eq!(
        texts(&documents),
        [
            ("1", "recov recov\nexcit", vec!["E11", "C15"]),
            ("2", "", vec!["E11"]),
            ("3", "x", vec![])
        ]
    );
    let documents = read(b"1  864:0.04 1523:0.05\n2  3:1\n", &options).unwrap();
    assert_eq!(documents[0].content, Content::Features(vec![(864, 0.04), (1523, 0.05)]));
    assert_eq!(documents[0].labels, ["E11", "C15"]);
}

#[test]
fn lyrl2004_preset() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("lyrl2004_vectors_train.dat", "1  3:0.5 7:0.5\n2  4:1\n");
    write("lyrl2004_vectors_test_pt0.dat", "3  3:1\n");
    write("lyrl2004_vectors_test_pt1.dat", "4  4:1\n");
    let error = Preset::Lyrl2004.open(folder.path(), &default()).unwrap_err();
    assert!(error.to_string().contains("`rcv1-v2.topics.qrels` is not in this folder"), "{error}");
    write("rcv1-v2.topics.qrels", "A 1 1\nB 2 1\nA 3 1\nB 4 1\n");
    let sides = Preset::Lyrl2004.open(folder.path(), &default()).unwrap();
    assert_eq!(sides.train.count(), 2);
    let test: Vec<Document> = sides.test.collect::<Result<_, _>>().unwrap();
    assert_eq!(test[1].labels, ["B"]);
}

#[test]
fn folders() {
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("wine/a.txt", "red");
    write("wine/deep/b.txt", "white");
    write("beer/c.txt", "pale");
    write("beer/.hidden", "no");
    let corpus = Corpus::open(&[folder.path().to_owned()], default()).unwrap();
    let documents = corpus.collect::<Result<Vec<_>, _>>().unwrap();
    assert_eq!(
        texts(&documents),
        [
            ("beer/c.txt", "pale", vec!["beer"]),
            ("wine/a.txt", "red", vec!["wine"]),
            ("wine/deep/b.txt", "white", vec!["wine"])
        ]
    );
}

#[test]
fn several_files_are_one_corpus() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("1.jsonl"), "{\"text\": \"a\", \"label\": \"x\"}\n").unwrap();
    std::fs::write(path("2.csv"), "text,label\nb,y\n").unwrap();
    std::fs::write(path("notes"), "nothing of a corpus\n").unwrap();
    for paths in [vec![folder.path().to_owned()], vec![path("1.jsonl"), path("2.csv")]] {
        let corpus = Corpus::open(&paths, default()).unwrap();
        let documents = corpus.collect::<Result<Vec<_>, _>>().unwrap();
        assert_eq!(texts(&documents), [("1", "a", vec!["x"]), ("2", "b", vec!["y"])]);
    }
}

/// Returns the documents up to the first error, and the error.
fn outcome(path: &Path, options: &ReadOptions) -> (Vec<Document>, Option<String>) {
    outcome_of(&[path.to_owned()], options)
}

fn outcome_of(paths: &[PathBuf], options: &ReadOptions) -> (Vec<Document>, Option<String>) {
    let mut documents = Vec::new();
    for document in Corpus::open(paths, options.clone()).expect("files") {
        match document {
            Ok(document) => documents.push(document),
            Err(error) => return (documents, Some(format!("{error} {error:?}"))),
        }
    }
    (documents, None)
}

fn gz_of(bytes: &[u8]) -> Vec<u8> {
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(bytes).expect("memory");
    gz.finish().expect("memory")
}

/// With files of several blocks, one thread and three threads must return the same documents,
/// positions and errors.
#[test]
fn several_threads_read_like_one() {
    let folder = tempfile::tempdir().unwrap();
    let line = |format: Format, n: usize| {
        let text = "word ".repeat(n % 23);
        match format {
            Format::Jsonl if n.is_multiple_of(7) => {
                format!("{{\"text\": \"{text}\", \"label\": \"a\"}}")
            }
            Format::Jsonl => {
                format!("{{\"id\": \"d{n}\", \"text\": \"é {text}\", \"labels\": [\"a\", \"b\"]}}")
            }
            Format::FastText => format!("__label__a __label__b{n} {text}"),
            Format::Plain => text,
            Format::Svmlight => format!("a{n} 1:0.5 {}:{}", 2 + n % 50, 1.0 / (1 + n) as f32),
            Format::Csv if n.is_multiple_of(3) => format!("{n},\"{text}\n, \"\"{text}\"\"\",a"),
            Format::Csv => format!("{n},5\" {text}\",\"b\"\"\n\""),
            Format::Tsv => format!("{n}\t\"{text}\n\"\tb"),
            // Some texts contain a line that begins like an identifier.
            Format::Lyrl2004Tokens if n.is_multiple_of(9) => {
                format!(".I d{n}\r\n.W\n.I \n{text}\n")
            }
            Format::Lyrl2004Tokens => format!(".I d{n}\n.W\n{text}\n{text}é"),
            // Some stories begin inside another story, or begin in the middle of a line.
            Format::Reuters if n.is_multiple_of(9) => {
                format!("<REUTERS NEWID=\"{n}\"><TOPICS><D>a</D></TOPICS>{text}</REUTERS>")
            }
            Format::Reuters => format!(
                "<REUTERS NEWID=\"{n}\">\n<REUTERS>\n\
                 <TEXT><BODY>{text}\n</BODY></TEXT>\r\n</REUTERS>"
            ),
            _ => format!("{n}  3:0.25 {}:0.125", 7 + n % 90),
        }
    };
    let threads = Threads::new(3.try_into().unwrap()).unwrap();
    let qrels = Arc::new(Qrels::from_bytes("q", b"x 1 1\ny 17 1\n".to_vec()).unwrap());
    let mut read = 0;
    for format in [
        Format::Jsonl,
        Format::FastText,
        Format::Plain,
        Format::Svmlight,
        Format::Lyrl2004Vectors,
        Format::Csv,
        Format::Tsv,
        Format::Lyrl2004Tokens,
        Format::Reuters,
    ] {
        let is_plain =
            matches!(format, Format::Plain | Format::Lyrl2004Vectors | Format::Lyrl2004Tokens);
        let end = |n: usize| if n.is_multiple_of(5) { "\r\n" } else { "\n" };
        let header = match format {
            Format::Csv => "id,text,label\r\n",
            Format::Tsv => "id\ttext\tlabel\n",
            _ => "",
        };
        let mut text: String = (0..40_000).map(|n| line(format, n) + end(n)).collect();
        if format != Format::Lyrl2004Tokens {
            text.insert_str(text.find('\n').unwrap() + 1, "\n\n");
        }
        text.insert_str(0, header);
        let bytes = text.into_bytes();
        let middle = bytes.len() * 2 / 3;
        let middle = middle + bytes[middle..].iter().position(|&byte| byte == b'\n').unwrap() + 1;
        let with = |inserted: &[u8]| [&bytes[..middle], inserted, &bytes[middle..]].concat();
        let gz = gz_of(&bytes);
        let files = [
            bytes.clone(),
            bytes[..bytes.len() - 1].to_vec(),
            b"".to_vec(),
            with(b"\xe9 1:1\n"),
            with(b"[1, 2\n"),
            with(b".I a\n.I b\n"),
            with(b"</REUTERS>\n"),
            with(b"x,\"never closed\n"),
            with(b"x,\"closed\n\",two,many\n"),
            with(&[b"x ".repeat(400_000), b"\n".to_vec()].concat()),
            [&gz_of(&[&bytes[..3_000], &b"y ".repeat(400_000)].concat())[..], b"no gzip"].concat(),
            gz[..gz.len() / 2].to_vec(),
            gz,
            // Lines that end with CR alone, which only CSV and TSV accept.
            [header.as_bytes(), &b"1,two,a\r".repeat(100_000), b"2,two,b"].concat(),
        ];
        for (number, file) in files.iter().enumerate() {
            let path = folder.path().join(format!("{}-{number}", format.name()));
            std::fs::write(&path, file).unwrap();
            let labels = if is_plain { LabelUse::Optional } else { LabelUse::Required };
            for max_record in [None, Some(300_000)] {
                let qrels = (number == 1).then(|| Arc::clone(&qrels));
                let options =
                    ReadOptions { format: Some(format), labels, max_record, qrels, ..default() };
                let one = outcome(&path, &options);
                let options = ReadOptions { threads: Some(threads.clone()), ..options };
                let several = outcome(&path, &options);
                assert_eq!(one.1, several.1, "{format} {number}");
                assert_eq!(one.0.len(), several.0.len(), "{format} {number}");
                assert!(one.0 == several.0, "{format} {number}");
                read += one.0.len();
            }
        }
    }
    assert!(read > 1_000_000, "{read}");
}

/// The files in a folder and several given files are read concurrently, whether compressed or not.
#[test]
fn threads_read_several_files_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("tree");
    let files = folder.path().join("files");
    std::fs::create_dir(&files).unwrap();
    for label in ["a", "b", "c"] {
        std::fs::create_dir_all(tree.join(label)).unwrap();
        for number in 0..70 {
            // Some files are at least as large as a block.
            let words = if number % 30 == 7 { 70_000 * (1 + number / 30) } else { number };
            let text = format!("{label} {}", "word ".repeat(words));
            std::fs::write(tree.join(label).join(format!("{number:02}.txt")), text).unwrap();
        }
    }
    let mut paths = vec![tree.clone()];
    for number in 0..9u32 {
        let line = |n| format!("{{\"text\": \"file {number} {n}\", \"label\": \"x\"}}\n");
        let lines: String = (0..1_000 * number).map(line).collect();
        let is_gz = number % 2 == 0;
        let path = files.join(format!("{number}.jsonl{}", if is_gz { ".gz" } else { "" }));
        std::fs::write(&path, if is_gz { gz_of(lines.as_bytes()) } else { lines.into_bytes() })
            .unwrap();
        paths.push(path);
    }
    let labels = LabelUse::Optional;
    let check = |expected: usize, fails: bool| {
        let one = outcome_of(&paths, &ReadOptions { labels, ..default() });
        assert_eq!((one.0.len(), one.1.is_some()), (expected, fails));
        for count in [2, 5] {
            let threads = Some(Threads::new(count.try_into().unwrap()).unwrap());
            let opened = Arc::new(std::sync::Mutex::new(Vec::new()));
            let several =
                outcome_of(&paths, &ReadOptions { labels, threads: threads.clone(), ..default() });
            assert!(one == several, "{count} threads: {:?} {:?}", one.1, several.1);
            let names = Arc::clone(&opened);
            let on_open = move |name: &str, _| names.lock().unwrap().push(name.to_owned());
            let corpus =
                Corpus::open(&paths, ReadOptions { labels, threads, ..default() }).unwrap();
            let read = corpus.on_open(Box::new(on_open)).flatten().count();
            assert_eq!(read, expected);
            let opened = opened.lock().unwrap();
            assert!(opened.iter().zip(&paths).all(|(name, path)| *name == path.to_string_lossy()));
        }
    };
    let all = 210 + 36_000;
    check(all, false);
    // Test a file that is not text, then a damaged file.
    std::fs::write(tree.join("b").join("33.txt"), b"\xff\xfe\x00").unwrap();
    check(70 + 33, true);
    std::fs::write(tree.join("b").join("33.txt"), b"text").unwrap();
    let last = files.join("7.jsonl");
    let whole = std::fs::read_to_string(&last).unwrap();
    let half: Vec<&str> = whole.lines().take(3_500).chain(["["]).collect();
    std::fs::write(&last, half.join("\n")).unwrap();
    check(210 + 21_000 + 3_500, true);
}

/// Errors contain the number of the record's first line, for every type of line ending.
#[test]
fn errors_name_the_line_of_csv_records() {
    for end in ["\n", "\r\n"] {
        let text = ["text,label", "a,x", "\"b", "c\",x", "", "", "d,x,y", "e,x"].join(end);
        let options = ReadOptions { format: Some(Format::Csv), ..default() };
        let error = read(text.as_bytes(), &options).unwrap_err();
        assert_eq!(error.place.line, Some(7), "{error}");
    }
}

/// Batches are limited in bytes, so some batches have fewer documents than there are threads.
#[test]
fn one_long_document_among_short_ones() {
    let mut documents = Vec::new();
    for number in 0..300 {
        let long = if number % 100 == 0 { 900_000 } else { 1 };
        let text = format!("first{number} {}", "word ".repeat(long));
        let label = format!("label{}", number % 7);
        documents.push(format!("{{\"text\": \"{text}\", \"label\": \"{label}\"}}"));
    }
    let text = documents.join("\n");
    let rows = |threads: usize| {
        let threads = Threads::new(threads.try_into().unwrap()).unwrap();
        let corpus = Corpus::from_bytes("lines", text.clone().into_bytes(), default()).unwrap();
        let options = TrainOptions { tuning: None, ..TrainOptions::default() };
        let trainer = Trainer::builder().options(options).engines(Engines::cpu(&threads)).build();
        let model = trainer.train(corpus).unwrap().model;
        (model.rows().indices().to_vec(), model.rows().data().to_vec())
    };
    let one = rows(1);
    for threads in [2, 4, 64] {
        assert!(rows(threads) == one, "{threads} threads");
    }
}

#[test]
fn compressed() {
    let plain = b"{\"text\": \"a\", \"label\": \"x\"}\n{\"text\": \"b\", \"label\": \"y\"}\n";
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gz.write_all(plain).unwrap();
    let gz = gz.finish().unwrap();
    let mut zstd =
        ruzstd::encoding::compress_to_vec(&plain[..], ruzstd::encoding::CompressionLevel::Fastest);
    let expected = [("1", "a", vec!["x"]), ("2", "b", vec!["y"])];
    for packed in [gz, zstd.clone()] {
        assert_eq!(texts(&read(&packed, &default()).unwrap()), expected);
        // Several concatenated streams count as one file.
        assert_eq!(read(&[&packed[..], &packed].concat(), &default()).unwrap().len(), 4);
        let cut = read(&packed[..packed.len() - 5], &default());
        assert!(cut.unwrap_err().to_string().contains("cannot read"));
    }
    // The last four bytes of the frame are its checksum.
    let last = zstd.len() - 1;
    zstd[last] ^= 1;
    assert!(
        read(&zstd, &default()).unwrap_err().to_string().contains("checksum of the zstd stream")
    );
}

#[test]
fn encodings() {
    let latin = b"{\"text\": \"caf\xe9\", \"label\": \"x\"}\n";
    let options = |name: &str| ReadOptions { encoding: encoding_for_label(name), ..default() };
    let documents = read(latin, &options("latin-1")).unwrap();
    assert_eq!(texts(&documents), [("1", "café", vec!["x"])]);
    let replace = ReadOptions { on_bad_utf8: OnBadUtf8::Replace, ..default() };
    assert_eq!(texts(&read(latin, &replace).unwrap())[0].1, "caf\u{fffd}");
    let wide: Vec<u8> = "\u{feff}{\"text\": \"é\", \"label\": \"x\"}\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    assert_eq!(texts(&read(&wide, &options("utf-16le")).unwrap())[0].1, "é");
    let bom = b"\xef\xbb\xbf{\"text\": \"a\", \"label\": \"x\"}\n";
    assert_eq!(read(bom, &default()).unwrap().len(), 1);
}

/// Each row contains an invalid input, its options, an excerpt of the message and, if any, an
/// excerpt of the hint.
#[test]
#[expect(clippy::too_many_lines, reason = "the test is a table")]
fn malformed() {
    let format = |format| ReadOptions { format: Some(format), ..default() };
    let sjis = ReadOptions { encoding: encoding_for_label("shift_jis"), ..format(Format::Jsonl) };
    let column = |name: &str| ReadOptions { label_columns: vec![name.into()], ..default() };
    let csv_column =
        |name: &str| ReadOptions { label_columns: vec![name.into()], ..format(Format::Csv) };
    let cases: Vec<(&[u8], ReadOptions, &str, &str)> = vec![
        (b"", default(), "in: no document", ""),
        (b"hello\nworld\n", default(), "in: cannot detect the format", "jsonl, json, csv"),
        (b"hello\n", format(Format::Plain), "in: plain text has no labels", "labeled documents"),
        (
            b"{\"text\": \"a\", \"label\": \"x\"}\n{\"text\": \"\xe9\", \"label\": \"x\"}\n",
            default(),
            "in:2: byte 38 of the file is not valid UTF-8",
            "latin-1",
        ),
        (
            b"{\"text\": \"\x81\xff\"}\n",
            sjis,
            "are not valid Shift_JIS",
            "have invalid bytes replaced",
        ),
        (
            b"{\"text\": \"a\", \n",
            format(Format::Jsonl),
            "in:1: not a JSON object: EOF while parsing a value at column 14",
            "one JSON object on each line",
        ),
        (
            b"{\"text\": \"a\", \n",
            default(),
            "in:1: the file ends inside a record: no closing `}`",
            "",
        ),
        (b"{\"text\": \"a\", \"label\": \"x\"}\n[1]\n", default(), "in:2: not a JSON object", ""),
        (
            b"{\"text\": \"a\", \"label\": \"x\"} {}\n",
            default(),
            "in:1: not a JSON object: trailing",
            "",
        ),
        (
            b"{\"txt\": \"a\", \"label\": \"x\"}\n",
            default(),
            "in:1: no field `text`; there are: `txt`",
            "the field of the text",
        ),
        (
            b"{\"text\": \"a\"}\n",
            default(),
            "in:1: no field `labels`, `label`, `category` or `class`; there are: `text`",
            "the field of the labels",
        ),
        (b"{\"text\": \"a\", \"label\": \"x\"}\n", column("topic"), "no field `topic`", ""),
        (
            b"{\"text\": 3, \"label\": \"x\"}\n",
            default(),
            "in:1: field `text` is a number, expected a string",
            "",
        ),
        (b"{\"text\": \"\", \"labels\": [{}]}\n", default(), "field `labels` is an object", ""),
        (b"{\"text\": \"\", \"labels\": [\"\"]}\n", default(), "in:1: an empty label", ""),
        (
            b"{\"text\": \"\", \"labels\": [], \"weight\": 0}\n",
            weighted(),
            "in:1: weight `0`, expected a number above 0",
            "",
        ),
        (
            b"{\"text\": \"\", \"labels\": [], \"weight\": \"2\"}\n",
            weighted(),
            "field `weight` is a string",
            "",
        ),
        (
            b"{\"features\": {\"a\": 1}, \"labels\": []}\n",
            default(),
            "`a:1` is not `column:value`",
            "",
        ),
        (
            b"text,label\na,b,c\n",
            format(Format::Csv),
            "in:2: not valid CSV: 3 fields, but the header has 2",
            "",
        ),
        (
            b"a,b\n1,2\n",
            format(Format::Csv),
            "in:1: no field `text`; there are: `a`, `b`",
            "the field of the text",
        ),
        (
            b"text,kind\n1,2\n",
            format(Format::Csv),
            "in:1: no field `labels`, `label`, `category` or `class`",
            "the field of the labels",
        ),
        (
            b"text,label\n1,2\n",
            csv_column("topic"),
            "no field `topic`; there are: `text`, `label`",
            "",
        ),
        (
            b"text,label\nfine,x\n\"never closed,y\nmore,z\n",
            format(Format::Csv),
            "in:3: the record that begins here has a quoted field that never ends",
            "",
        ),
        (b"text,label\n\xe9,x\n", format(Format::Csv), "in:2: a field is not valid UTF-8", ""),
        (b"\n", format(Format::Csv), "no document", ""),
        (b"__label__a x\nno label\n", default(), "in:2: no `__label__` at the start", "plain text"),
        (b"__label__ x\n", default(), "in:1: an empty label", ""),
        (b"1 1:2 x\n", default(), "in:1: `x` is not `column:value`", ""),
        (b"1 1:nan\n", default(), "in:1: `1:nan` is not `column:value`", ""),
        (
            b"1 1:2\n1 0:2\n",
            default(),
            "in:2: column 0, but columns are counted from 1",
            "counted from 0",
        ),
        (b"1 1:2 1:3\n", default(), "in:1: column 1 appears twice", ""),
        (b"1 99999999999:1\n", format(Format::Svmlight), "`99999999999:1` is not", ""),
        (
            b"<REUTERS NEWID=\"1\">\n<TEXT>\n",
            default(),
            "in:1: the file ends inside a record: no `</REUTERS>`",
            "",
        ),
        (b"<REUTERS></REUTERS>\nnoise\n", default(), "in:2: `noise`, expected `<REUTERS", ""),
        (b".I 1\n.W\nx\n", default(), "in: a LYRL2004 file has no labels", "relevance judgments"),
        (b"2286  2:3\n", default(), "in: a LYRL2004 file has no labels", "relevance judgments"),
        (b"text", format(Format::Folders), "in: this is a file", ""),
    ];
    for (bytes, options, message, hint) in cases {
        let error = read(bytes, &options).expect_err(message);
        let shown = error.to_string();
        assert!(shown.contains(message), "{shown:?} should contain {message:?}");
        let found = error.hint().unwrap_or_default();
        assert!(found.contains(hint), "{found:?} should contain {hint:?}");
    }
    let optional = ReadOptions { labels: LabelUse::Optional, ..format(Format::Lyrl2004Tokens) };
    for (bytes, message) in [
        (&b"x\n"[..], "in:1: `x`, expected `.I id`"),
        (b".I 1\n", "in:1: the file ends inside a record: no `.W` line"),
        (b".I 1\nx\n", "in:2: `x`, expected `.W`"),
    ] {
        assert!(read(bytes, &optional).unwrap_err().to_string().contains(message));
    }
    let qrels = Qrels::from_bytes("q", b"A 1\n".to_vec()).unwrap_err();
    assert!(qrels.to_string().contains("q:1: `A 1`, expected `label id 1`"));
    let missing = Corpus::open(&[PathBuf::from("/no/such/file")], default()).unwrap_err();
    assert!(missing.to_string().contains("/no/such/file: cannot read"));
    let empty = tempfile::tempdir().unwrap();
    let error = Corpus::open(&[empty.path().to_owned()], default()).unwrap_err();
    assert!(error.to_string().contains("no corpus file in this folder"));
}

#[test]
fn several_threads_read_qrels_like_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("qrels");
    // The qrels have several blocks. The judgments of some documents are far apart, and some labels
    // first occur late.
    let line = |n: usize| {
        let document = if n.is_multiple_of(11) { n % 1_000 } else { n / 3 };
        format!("L{} d{document} {}", n % 7 + n / 90_000, usize::from(!n.is_multiple_of(13)))
    };
    let mut lines: Vec<String> = (0..400_000).map(line).collect();
    let threads = Threads::new(3.try_into().unwrap()).unwrap();
    std::fs::write(&path, lines.join("\n")).unwrap();
    let one = Qrels::read(&path).unwrap();
    let several = Qrels::read_with(&path, &threads).unwrap();
    assert_eq!(one.names().len(), 11);
    assert_eq!(one.names(), several.names());
    assert!(one.labels("d5").len() > 30, "the judgments of d5 are far apart");
    for document in (0..140_000).map(|n| format!("d{n}")) {
        assert_eq!(one.labels(&document), several.labels(&document), "{document}");
    }
    // The first error is reported, with its position.
    "L1 d1".clone_into(&mut lines[300_000]);
    "nothing".clone_into(&mut lines[350_000]);
    std::fs::write(&path, lines.join("\n")).unwrap();
    let one = Qrels::read(&path);
    let several = Qrels::read_with(&path, &threads);
    let one = one.unwrap_err().to_string();
    let several = several.unwrap_err().to_string();
    assert_eq!(one, several);
    assert!(one.contains("qrels:300001: `L1 d1`, expected `label id 1`"), "{one}");
}

#[test]
fn a_quote_that_never_ends() {
    let options = ReadOptions { format: Some(Format::Csv), ..default() };
    // The record has the right number of fields, but its text extends to the end of the file.
    let bytes = b"label,text\nx,fine\ny,\"never closed\nz,more\n";
    let error = read(bytes, &options).unwrap_err();
    assert!(error.to_string().contains("in:3: the record that begins here has a quoted field"));
}

/// Documents without an identifier are numbered. An existing identifier is never replaced.
#[test]
fn identifiers_and_numbers() {
    let lines = br#"{"id": "\u0000x", "text": ""}
{"text": ""}
{"id": "7", "text": ""}
{"text": ""}"#;
    let ids = |ids: IdUse| -> Vec<String> {
        let options = ReadOptions { ids, labels: LabelUse::Optional, ..default() };
        read(lines, &options).unwrap().into_iter().map(|document| document.id).collect()
    };
    assert_eq!(ids(IdUse::Numbered), ["\0x", "row-2", "7", "row-4"]);
    assert_eq!(ids(IdUse::NumberedAfter(100)), ["\0x", "102", "7", "104"]);
    assert_eq!(ids(IdUse::Prefixed { prefix: "p".into(), after: 10 }), ["\0x", "p12", "7", "p14"]);
}
