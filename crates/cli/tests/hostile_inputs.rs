//! Tests of unexpected inputs: archives, endless streams, links, and control characters in names
//! and labels.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::io::Write;
use std::path::{Path, PathBuf};

use classify::text::corpus::preset::Preset;
use classify::text::corpus::{
    Content, Corpus, CorpusError, Document, Format, LabelUse, Problem, Qrels, ReadOptions,
};
use classify::text::hierarchy::Hierarchy;
use testkit::{Folder, Messages, Program, text};

fn read(bytes: &[u8], options: &ReadOptions) -> Result<Vec<Document>, CorpusError> {
    Corpus::from_bytes("in", bytes.to_vec(), options.clone())?.collect()
}

fn read_folder(folder: &Path, options: &ReadOptions) -> Result<Vec<Document>, CorpusError> {
    Corpus::open(&[folder.to_owned()], options.clone())?.collect()
}

fn default() -> ReadOptions {
    ReadOptions::default()
}

/// Returns options that accept any line.
fn lines() -> ReadOptions {
    ReadOptions { labels: LabelUse::Optional, ..default() }
}

fn format(format: Format) -> ReadOptions {
    ReadOptions { format: Some(format), ..default() }
}

/// Runs `classify`; returns its exit code and all its output.
fn classify(arguments: &[&str]) -> (i32, String) {
    let run = Program::new(env!("CARGO_BIN_EXE_classify")).run(arguments);
    (run.code, run.out + &run.err)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

/// Creates a tar archive with one file.
fn tar(content: &[u8]) -> Vec<u8> {
    let mut archive = vec![0; 512];
    archive[..9].copy_from_slice(b"docs.json");
    archive[257..265].copy_from_slice(b"ustar\x0000");
    archive.extend(content);
    archive.resize(archive.len().next_multiple_of(512) + 1024, 0);
    archive
}

const TWO: &[u8] = b"{\"text\": \"a\", \"label\": \"x\"}\n{\"text\": \"b\", \"label\": \"y\"}\n";

#[test]
fn other_files_are_not_corpora() {
    let cases: [(Vec<u8>, &str, &str); 13] = [
        (tar(TWO), "a tar archive", "tar -xf"),
        (gzip(&tar(TWO)), "a tar archive", "tar -xf"),
        (zstd(&tar(TWO)), "a tar archive", "tar -xf"),
        (b"\xFD7zXZ\0\0\x04\xE6\xD6".to_vec(), "a file compressed with xz", "xz --decompress"),
        (b"BZh91AY&SY\x8B".to_vec(), "a file compressed with bzip2", "bzip2 --decompress"),
        (gzip(&gzip(TWO)), "a gzip file inside", "compressed twice"),
        (b"PK\x03\x04\x14\0\0\0".to_vec(), "a zip archive", "unzip"),
        (b"7z\xBC\xAF\x27\x1C\0\x04".to_vec(), "a 7z archive", "7z x"),
        (b"%PDF-1.7\n%\xE2\xE3\n1 0 obj\n".to_vec(), "a PDF document", "pdftotext"),
        (b"\x89PNG\r\n\x1A\n\0\0\0\rIHDR".to_vec(), "a PNG image", "only text"),
        (b"PAR1\x15\0\x15".to_vec(), "a Parquet file", "JSONL"),
        (b"\x90\x01\0\0\0\0\0\0{\"__met".to_vec(), "another safetensors file", "vectors"),
        (b"a\0b\0\n\0".to_vec(), "not text", "its encoding"),
    ];
    for (bytes, message, hint) in &cases {
        for options in [default(), lines()] {
            let error = read(bytes, &options).unwrap_err();
            assert!(error.to_string().contains(message), "{error} should say {message}");
            assert!(error.hint().unwrap().contains(hint), "{:?} should say {hint}", error.hint());
        }
    }
    // Text that only resembles other formats.
    let padded = format!("{}ustar and more\n", "x".repeat(257));
    for line in ["BZh9 is how bzip2 begins\n", "%PDF is a format\n", "PK\n", "PAR1\n", &padded] {
        assert_eq!(read(line.as_bytes(), &lines()).unwrap().len(), 1, "{line}");
    }
}

#[test]
fn other_files_in_folders() {
    let folder = Folder::new();
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
    write("a.jsonl", TWO);
    write("manual.pdf", b"%PDF-1.7\n");
    assert_eq!(read_folder(folder.path(), &default()).unwrap().len(), 2);
    // The name is that of a corpus, so the file must not be skipped silently.
    write("b.jsonl.xz", b"\xFD7zXZ\0\0\x04");
    let error = read_folder(folder.path(), &default()).unwrap_err();
    assert!(error.to_string().contains("b.jsonl.xz: this is a file compressed with xz"), "{error}");
}

#[test]
fn truncated_vectors_are_not_text() {
    let folder = Folder::new();
    let [model, vectors] = ["m.model", "v.vectors"].map(|name| folder.at(name));
    let sample = "corpora/sample/train.jsonl";
    assert_eq!(classify(&["train", sample, "-o", text(&model), "-q"]).0, 0);
    let made = classify(&["vectorize", text(&model), sample, "-o", text(&vectors), "-q"]);
    assert_eq!(made.0, 0, "{}", made.1);
    let whole = std::fs::read(&vectors).unwrap();
    for length in [5, 8, 9, 30, 66, 67, 200, whole.len() - 1] {
        std::fs::write(&vectors, &whole[..length]).unwrap();
        let (code, messages) = classify(&["predict", text(&model), text(&vectors)]);
        assert_eq!(code, 3, "{length} bytes: {messages}");
        assert!(messages.contains("cut short"), "{length} bytes: {messages}");
    }
}

fn skippable(content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).unwrap();
    [&[0x5A, 0x2A, 0x4D, 0x18][..], &length.to_le_bytes(), content].concat()
}

#[test]
fn skippable_zstd_frames() {
    let frame = zstd(TWO);
    let skipped = skippable(b"a seek table\n");
    let count =
        |parts: &[&[u8]]| read(&parts.concat(), &default()).map(|documents| documents.len());
    assert_eq!(count(&[&skipped, &frame]).unwrap(), 2);
    assert_eq!(count(&[&frame, &skipped]).unwrap(), 2);
    assert_eq!(count(&[&skipped, &skipped, &frame, &skippable(b""), &frame]).unwrap(), 4);
    for cut in 1..skipped.len() {
        let error = count(&[&frame, &skipped[..cut]]).unwrap_err();
        assert!(error.to_string().contains("the zstd data is cut short"), "{cut}: {error}");
    }
    let error = count(&[&frame, b"{\"text\""]).unwrap_err().to_string();
    assert!(error.contains("the zstd data is followed by bytes that are not zstd"), "{error}");
    for cut in 1..frame.len() {
        assert!(count(&[&frame[..cut]]).is_err(), "{cut} bytes");
    }
}

#[test]
fn gzip_padded_with_zeros() {
    let member = gzip(TWO);
    let count =
        |parts: &[&[u8]]| read(&parts.concat(), &default()).map(|documents| documents.len());
    for zeros in [1, 10, 512, 200_000] {
        let padding = vec![0; zeros];
        assert_eq!(count(&[&member, &padding]).unwrap(), 2);
        assert_eq!(count(&[&member, &padding, &member, &padding]).unwrap(), 4);
    }
    let error = count(&[&member, b"\0\0more"]).unwrap_err().to_string();
    assert!(error.contains("followed by bytes that are not gzip"), "{error}");
    for cut in 1..member.len() {
        assert!(count(&[&member, b"\0", &member[..cut]]).is_err(), "{cut} bytes");
    }
}

#[cfg(unix)]
#[test]
fn links_in_a_label_tree() {
    use std::os::unix::fs::symlink;
    let folder = Folder::new();
    let at = |path: &str| folder.path().join(path);
    let write = |path: &str, text: &str| {
        std::fs::create_dir_all(at(path).parent().unwrap()).unwrap();
        std::fs::write(at(path), text).unwrap();
    };
    write("elsewhere/red/a.txt", "merlot");
    write("elsewhere/b.txt", "stout");
    write("tree/white/c.txt", "riesling");
    std::fs::create_dir(at("tree/beer")).unwrap();
    symlink(at("elsewhere/red"), at("tree/red")).unwrap();
    symlink(at("elsewhere/b.txt"), at("tree/beer/b.txt")).unwrap();
    // Two links to the same folder are not a cycle.
    symlink("white", at("tree/blanc")).unwrap();
    let documents = read_folder(&at("tree"), &default()).unwrap();
    let found: Vec<(&str, &str)> =
        documents.iter().map(|d| (d.id.as_str(), d.labels[0].as_str())).collect();
    let expected = [
        ("beer/b.txt", "beer"),
        ("blanc/c.txt", "blanc"),
        ("red/a.txt", "red"),
        ("white/c.txt", "white"),
    ];
    assert_eq!(found, expected);
    for target in ["..", "../white"] {
        symlink(target, at("tree/white/up")).unwrap();
        let error = read_folder(&at("tree"), &default()).unwrap_err();
        assert!(matches!(error.problem, Problem::LinkCycle), "{error}");
        assert!(error.to_string().contains("blanc/up: a symbolic link to a folder"), "{error}");
        std::fs::remove_file(at("tree/white/up")).unwrap();
    }
    for (folder, link) in [("tree", "tree/red/gone"), ("elsewhere", "elsewhere/gone.jsonl")] {
        symlink("nowhere", at(link)).unwrap();
        let error = read_folder(&at(folder), &default()).unwrap_err().to_string();
        let name = link.rsplit('/').next().unwrap();
        let words = format!("{name}: a symbolic link to `nowhere`, which does not exist");
        assert!(error.contains(&words), "{error}");
        std::fs::remove_file(at(link)).unwrap();
    }
}

#[test]
fn records_have_a_limit() {
    let limited = |options: ReadOptions| ReadOptions { max_record: Some(100), ..options };
    let long = "x".repeat(101);
    let line = format!("{{\"text\": \"{long}\", \"label\": \"x\"}}\n");
    let open_quote = format!("text,label\nfine,x\n\"{long}");
    let story = format!("<REUTERS NEWID=\"1\">\n{}", "a line\n".repeat(20));
    let tokens = format!(".I 1\n.W\n{}", "a line\n".repeat(20));
    for (bytes, options, place) in [
        (line.as_bytes(), default(), "in:1"),
        (long.as_bytes(), lines(), "in:1"),
        (open_quote.as_bytes(), format(Format::Csv), "in:3"),
        (&gzip(open_quote.as_bytes()), format(Format::Csv), "in:3"),
        (story.as_bytes(), default(), "in:"),
        (tokens.as_bytes(), ReadOptions { labels: LabelUse::Optional, ..default() }, "in:"),
    ] {
        let error = read(bytes, &limited(options)).unwrap_err();
        let message = error.to_string();
        assert!(message.contains("a record of more than 100 bytes"), "{message}");
        assert!(message.starts_with(place), "{message}");
        assert!(error.hint().unwrap().contains("quote"));
    }
    // Many records may exceed the limit of a single one.
    let csv = format!("text,label\n{}", "\"some, text\",x\n".repeat(1_000));
    assert_eq!(read(csv.as_bytes(), &limited(format(Format::Csv))).unwrap().len(), 1_000);
    let stories = "<REUTERS>\n<TEXT>x</TEXT>\n</REUTERS>\n".repeat(100);
    assert_eq!(read(stories.as_bytes(), &limited(default())).unwrap().len(), 100);
    let tokens = ".I 1\n.W\nsome tokens\n\n".repeat(100);
    assert_eq!(read(tokens.as_bytes(), &limited(lines())).unwrap().len(), 100);

    let folder = Folder::new();
    std::fs::create_dir(folder.path().join("label")).unwrap();
    let write = |bytes: &[u8]| std::fs::write(folder.path().join("label/bomb.gz"), bytes).unwrap();
    write(&gzip(&[b'x'; 100]));
    let documents = read_folder(folder.path(), &limited(default())).unwrap();
    assert_eq!(documents[0].content, Content::Text("x".repeat(100)));
    write(&gzip(&vec![b'x'; 100_000]));
    let error = read_folder(folder.path(), &limited(default())).unwrap_err().to_string();
    assert!(error.contains("bomb.gz: a record of more than 100 bytes"), "{error}");
}

#[cfg(target_os = "linux")]
#[test]
fn endless_streams() {
    let zeros = Path::new("/dev/zero");
    let error = Hierarchy::read(zeros).unwrap_err().to_string();
    assert!(error.contains("/dev/zero: a hierarchy of more than 268435456 bytes"), "{error}");
    let error = Qrels::read(zeros).unwrap_err().to_string();
    assert!(error.contains("/dev/zero:1: a record of more than 268435456 bytes"), "{error}");
    let (code, messages) = classify(&["compare", "/dev/zero", "/dev/zero"]);
    assert_eq!(code, 3, "{messages}");
    assert!(messages.contains("/dev/zero: this file was not written by"), "{messages}");
}

/// A message appears once per document, not once per label.
#[test]
fn a_document_of_many_labels() {
    let labels: Vec<String> = (0..10_000).map(|label| (label % 7_500).to_string()).collect();
    let line = serde_json::json!({ "text": "x", "labels": labels }).to_string();
    let documents = read(line.as_bytes(), &default()).unwrap();
    assert_eq!(documents[0].labels, labels[..7_500]);
}

/// Whether a terminal would interpret a text instead of displaying it.
fn acts(text: &str) -> bool {
    text.chars().any(|c| {
        c.is_control() && c != '\n'
            || matches!(c, '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
    })
}

const EVIL: &str = "e\u{1b}[31m\u{9b}2J\u{202e}\u{2066}\u{2028}\u{7}\u{7f}\r";

#[test]
fn errors_of_corpora_are_printable() {
    let json = serde_json::json!({ EVIL: "a", "label": "x" }).to_string();
    let wrong_type = serde_json::json!({ "text": "a", EVIL: {} }).to_string();
    let named = ReadOptions { label_columns: vec![EVIL.into()], ..default() };
    let unlabeled = ReadOptions { labels: LabelUse::Optional, ..format(Format::Lyrl2004Tokens) };
    let mut errors = vec![
        read(json.as_bytes(), &default()).unwrap_err(),
        read(wrong_type.as_bytes(), &named).unwrap_err(),
        read(format!("\"{EVIL}\"\n").as_bytes(), &format(Format::Jsonl)).unwrap_err(),
        read(format!("\"{EVIL}\",b\n1,2\n").as_bytes(), &format(Format::Csv)).unwrap_err(),
        read(format!("1 1:2 {EVIL}\n").as_bytes(), &format(Format::Svmlight)).unwrap_err(),
        read(format!("{EVIL}\n").as_bytes(), &unlabeled).unwrap_err(),
        read(format!("{EVIL}\n").as_bytes(), &format(Format::Reuters)).unwrap_err(),
        Qrels::from_bytes("q", format!("{EVIL}\n").into_bytes()).unwrap_err(),
        Hierarchy::parse("h", &format!("{EVIL}x\t{EVIL}x\n")).unwrap_err(),
        Corpus::open(&[PathBuf::from(format!("/no/{EVIL}"))], default()).unwrap_err(),
        Corpus::from_bytes(EVIL, Vec::new(), default()).unwrap_err(),
    ];
    let folder = Folder::new();
    errors.push(read_folder(folder.path(), &default()).unwrap_err());
    for error in errors {
        assert!(!acts(&error.to_string()), "{:?}", error.to_string());
        assert!(!acts(&error.problem.to_string()), "{:?}", error.problem.to_string());
    }
    let messages = read(json.as_bytes(), &default()).unwrap_err().to_string();
    assert!(messages.contains(r"e\u{1b}[31m\u{9b}2J\u{202e}"), "{messages}");
    let path = PathBuf::from(format!("/no/{EVIL}"));
    let error = classify::model::Model::open(&path).unwrap_err().to_string();
    assert!(!acts(&error), "{error:?}");
}

#[test]
fn errors_of_corpora_are_short() {
    let long = "x".repeat(100_000);
    let weight = format!("text,label,weight\na,x,{long}\n");
    let weighted = ReadOptions { weight_column: Some("weight".into()), ..format(Format::Csv) };
    let named = serde_json::json!({ &long: "a", "label": "x" }).to_string();
    for (bytes, options) in [
        (format!("\"{long}\"\n"), format(Format::Jsonl)),
        (weight, weighted),
        (named, default()),
        (format!("{{\"features\": {{\"{long}\": 1}}, \"labels\": []}}"), default()),
    ] {
        let error = read(bytes.as_bytes(), &options).unwrap_err().to_string();
        assert!(error.len() < 400, "{error}");
    }
}

#[path = "../../../fuzz/targets.rs"]
#[expect(dead_code, reason = "only one of the functions is used here")]
mod targets;

/// Changes the settings of the golden model, with valid checksums.
fn with_settings(change: impl Fn(&mut serde_json::Value)) -> Vec<u8> {
    let bytes = std::fs::read(testkit::model("golden-v1.model")).unwrap();
    let end = 8 + usize::try_from(u64::from_le_bytes(*bytes.first_chunk().unwrap())).unwrap();
    let mut header: serde_json::Value = serde_json::from_slice(&bytes[8..end]).unwrap();
    let settings = &mut header["__metadata__"]["classify"];
    let mut changed = serde_json::from_str(settings.as_str().unwrap()).unwrap();
    change(&mut changed);
    *settings = changed.to_string().into();
    let header = header.to_string();
    let length = (header.len() as u64).to_le_bytes();
    let changed = [&length, header.as_bytes(), &bytes[end..]].concat();
    targets::with_checksums(&changed).unwrap()
}

#[test]
fn messages_are_printable() {
    let folder = Folder::new();
    let at = |name: &str| folder.path().join(name);
    let model = at("evil.model");
    let evil = with_settings(|settings| {
        settings["created_by"] = EVIL.into();
        settings["formula"] = EVIL.into();
    });
    std::fs::write(&model, evil).unwrap();
    let (code, messages) = classify(&["info", text(&model)]);
    assert_eq!(code, 0, "{messages}");
    assert!(!acts(&messages), "{messages:?}");
    assert!(messages.contains(r"e\u{1b}[31m"), "{messages}");
    std::fs::write(&model, with_settings(|settings| settings[EVIL] = 1.into())).unwrap();
    let (code, messages) = classify(&["info", text(&model), "--color", "never"]);
    assert_eq!(code, 4, "{messages}");
    assert!(!acts(&messages), "{messages:?}");
    // This includes the names of files that the program reads.
    let corpus = at(&format!("{EVIL}.jsonl"));
    std::fs::write(&corpus, TWO).unwrap();
    let (code, messages) = classify(&["train", text(&corpus), "-o", text(&at("m"))]);
    assert_eq!(code, 0, "{messages}");
    assert!(!acts(&messages), "{messages:?}");
    let (code, messages) = classify(&["compare", text(&corpus), text(&corpus), "--color", "never"]);
    assert_eq!(code, 3, "{messages}");
    assert!(!acts(&messages), "{messages:?}");
}

#[test]
fn reports_are_inert() {
    let folder = Folder::new();
    let at = |name: &str| folder.path().join(name);
    let corpus = at("evil.jsonl");
    let labels = [
        "<script>alert(1)</script>",
        "[x](javascript:alert(1))",
        "![x](http://example.org/x.png)",
        "`a|b` **c** __d__ \\",
        "two\nlines",
        EVIL,
    ];
    let line = |label: &&str| serde_json::json!({ "text": "x", "label": label }).to_string() + "\n";
    std::fs::write(&corpus, labels.iter().map(line).collect::<String>()).unwrap();
    let [page, report] = ["page.html", "report.md"].map(at);
    let (code, messages) = classify(&[
        "evaluate",
        "--train",
        text(&corpus),
        "--test",
        text(&corpus),
        "--html",
        text(&page),
        "--markdown",
        text(&report),
        "--color",
        "never",
    ]);
    assert_eq!(code, 0, "{messages}");
    assert!(!acts(&messages), "{messages:?}");
    let [page, report] = [page, report].map(|path| std::fs::read_to_string(path).unwrap());
    assert!(!acts(&page) && !page.contains("<script"));
    assert!(!acts(&report));
    for raw in ["<script", "[x]", "[x](", "**c", "__d", " `a"] {
        assert!(!report.contains(raw), "{raw}: {report}");
    }
    assert!(report.contains(r"\[x\](javascript:alert(1))"), "{report}");
    assert!(report.contains(r"two\\nlines"), "{report}");
    // Every row of the label table has seven cells.
    let table = report.split_once("## Labels").unwrap().1.split("##").next().unwrap();
    for row in table.lines().filter(|row| row.starts_with('|')) {
        let cells = row.replace("\\\\", "").replace("\\|", "").matches('|').count() - 1;
        assert_eq!(cells, 7, "{row}");
    }
}

/// Errors that used to be hard to understand, with their expected message and hint.
#[test]
fn clear_errors() {
    let column = |name: &str| Some(name.to_owned());
    let weight = ReadOptions { weight_column: column("text"), ..default() };
    let group = ReadOptions { group_column: column("author"), ..default() };
    let fields = ReadOptions {
        text_columns: vec!["title".into(), "body".into()],
        fields: true,
        ..default()
    };
    let csv = |options: ReadOptions| ReadOptions { format: Some(Format::Csv), ..options };
    let json = "{\"id\": 1, \"text\": \"a\", \"label\": \"x\", \"weight\": 1}\n";
    let there = "there are: `id`, `text`, `label`, `weight`";
    for (bytes, options, message, hint) in [
        (json, weight, "field `text` is a string, expected a number", ""),
        (json, group.clone(), "no field `author`", "every record has"),
        (json, group.clone(), there, ""),
        ("text,label\na,x\n", csv(group), "no field `author`", "every record has"),
        (json, fields.clone(), "no field `title`", "the fields of the text"),
        ("text,label\na,x\n", csv(fields), "no columns `title`, `body`", "columns that exist"),
        ("2286  2:3\n", default(), "a LYRL2004 file has no labels", "the format svmlight"),
    ] {
        let error = read(bytes.as_bytes(), &options).unwrap_err();
        assert!(error.to_string().contains(message), "{error} should say {message}");
        let found = error.hint().unwrap_or_default();
        assert!(found.contains(hint), "{found} should say {hint}");
    }
    // A field that is used for two purposes is read for both.
    let group = ReadOptions { group_column: column("label"), ..default() };
    assert_eq!(read(json.as_bytes(), &group).unwrap()[0].group.as_deref(), Some("x"));
    // Two spaces, but not a document of RCV1-v2.
    let documents = read(b"1  1:2 2:3\n+3  4:1\n", &default()).unwrap();
    assert_eq!((&*documents[0].labels[0], &*documents[1].labels[0]), ("1", "3"));

    let folder = Folder::new();
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(folder.path().join(name), bytes).unwrap();
        folder.path().join(name)
    };
    let error = Hierarchy::read(&write("tree.tsv", b"a\tb\nc\td\n\xe9\tb\n")).unwrap_err();
    assert!(error.to_string().contains("tree.tsv:3: byte 8 of the file is not valid UTF-8"));
    assert!(error.hint().unwrap().contains("iconv"));
    let error = Hierarchy::read(&folder.path().join("none.tsv")).unwrap_err();
    assert!(error.hint().unwrap().contains("check the spelling"));
    write("reut2-000.sgm", b"<REUTERS TOPICS=\"YES\" LEWISSPLIT=\"TRAIN\"></REUTERS>\n");
    let mut sides = Preset::R8.open(folder.path(), &default()).unwrap();
    let error = sides.train.next().unwrap().unwrap_err();
    assert!(error.to_string().contains("no training document of this benchmark"), "{error}");
    assert!(error.to_string().starts_with(text(folder.path())), "{error}");
    assert!(sides.train.next().is_none());
}

#[test]
fn clear_errors_of_the_program() {
    let folder = Folder::new();
    let mut messages = Messages::new(folder.path());
    let program = Program::new(env!("CARGO_BIN_EXE_classify"));
    let mut refuse = |code: i32, arguments: &[&str]| {
        messages.add(&arguments.join(" "), &program.run(arguments), code);
    };
    let model = folder.at("m.model");
    let train = ["train", "corpora/sample/train.jsonl", "-o", text(&model)];
    for flags in
        [["-k", "0"], ["--max-terms", "3.5"], ["--idf-power", "1e308"], ["--weighting", "bm"]]
    {
        refuse(2, &[&train[..], &flags].concat());
    }
    program.succeed(&[&train[..], &["--weighting", "bm25"]].concat());
    let info = program.succeed(&["info", text(&model)]).out;
    assert!(info.contains("kkn.nnn (bm25): document weight"), "{info}");
    refuse(3, &["predict", text(&model), "no/such.jsonl"]);
    let damaged = folder.write("x.zst", [&zstd(TWO)[..], b"more"].concat());
    refuse(3, &["predict", text(&model), text(&damaged)]);
    insta::assert_snapshot!(messages);
}
