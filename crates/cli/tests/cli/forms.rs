//! Tests of corpora in the formats that are common in repositories. The first command reads the
//! corpus, or its message names a command that does.

use testkit::{Folder, text};

use crate::{ok, run};

/// A corpus of one file, the flags that read it, and its numbers of documents and labels.
struct Form {
    file: &'static str,
    content: &'static [u8],
    flags: &'static str,
    size: &'static str,
}

const FORMS: [Form; 16] = [
    Form {
        file: "label-text.tsv",
        content: b"money\tloan from the bank\nnews\tembassy abroad\n",
        flags: "--no-header --text-column 2 --label-column 1",
        size: "2 documents, 2 labels",
    },
    Form {
        file: "text-label.csv",
        content: b"loan from the bank,money\nembassy abroad,news\n",
        flags: "--no-header --text-column 1 --label-column 2",
        size: "2 documents, 2 labels",
    },
    Form {
        file: "single-quotes.csv",
        content: b"text;label\n'loan; it''s from the bank';money\n'embassy abroad';news\n",
        flags: "--quote '",
        size: "2 documents, 2 labels",
    },
    Form {
        file: "pipes.txt",
        content: b"id|text|label\n1|loan from the bank|money\n2|embassy, abroad|news\n",
        flags: "--format csv",
        size: "2 documents, 2 labels",
    },
    Form {
        file: "annif.tsv",
        content: b"loan\t<http://a.org/1> <http://a.org/2>\nembassy\t<http://a.org/2>\n",
        flags: "",
        size: "2 documents, 2 labels",
    },
    Form {
        file: "xmlc.txt",
        content: b"2 4 3\n0,2 0:1.0 3:0.5\n1 1:2.0\n",
        flags: "",
        size: "2 documents, 3 labels",
    },
    Form {
        file: "bits.csv",
        content: b"id,comment,money,news\n1,loan,1,0\n2,embassy and bank,1,1\n",
        flags: "--text-column comment --label-column money,news",
        size: "2 documents, 2 labels",
    },
    Form {
        file: "array.json",
        content: b"[{\"text\": \"loan\", \"label\": \"money\"},\n \
                   {\"text\": \"embassy\", \"label\": \"news\"}]",
        flags: "",
        size: "2 documents, 2 labels",
    },
    Form {
        file: "nested.jsonl",
        content: b"{\"doc\": {\"body\": \"loan\"}, \
                   \"subjects\": [{\"uri\": \"a\"}, {\"uri\": \"b\"}]}\n",
        flags: "--text-column doc.body --label-column subjects.uri",
        size: "1 documents, 2 labels",
    },
    Form {
        file: "lists.csv",
        content: b"text,labels\nloan,\"['money', 'news']\"\nembassy,['news']\n",
        flags: "",
        size: "2 documents, 2 labels",
    },
    Form {
        file: "kaggle.csv",
        content: b"v1,v2,,,\nham,Caf\xe9 at nine,,,\nspam,\"Win, now\",,,\n",
        flags: "--encoding latin-1 --text-column v2 --label-column v1",
        size: "2 documents, 2 labels",
    },
    Form {
        file: "integers.jsonl",
        content: b"{\"text\": \"loan\", \"label\": 0}\n{\"text\": \"embassy\", \"label\": 1.0}\n",
        flags: "",
        size: "2 documents, 2 labels",
    },
    Form {
        file: "sep-line.csv",
        content: b"sep=;\r\ntext;label;price\r\nloan;money;1,5\r\nembassy;news;2,0\r\n",
        flags: "",
        size: "2 documents, 2 labels",
    },
    Form {
        file: "backslash.csv",
        content: b"text,label\n\"a \\\"loan\\\", from\",money\nembassy,news\n",
        flags: "--quoting backslash",
        size: "2 documents, 2 labels",
    },
    Form {
        file: "fasttext.txt",
        content: b"__label__money loan from the bank\nembassy abroad __label__news __label__far\n",
        flags: "",
        size: "2 documents, 3 labels",
    },
    Form {
        file: "no-ending",
        content: b"{\"text\": \"loan\", \"label\": \"money\"}\n\
                   {\"text\": \"embassy\", \"label\": \"news\"}\n",
        flags: "",
        size: "2 documents, 2 labels",
    },
];

#[test]
fn forms_of_one_file() {
    let folder = Folder::new();
    for Form { file, content, flags, size } in FORMS {
        let path = folder.write(file, content);
        let model = folder.text("model");
        let mut command = vec!["train", text(&path), "-o", &model];
        command.extend(flags.split_whitespace());
        let run = ok(&command);
        assert!(run.err.contains(size), "{file}: {}", run.err);
    }
}

/// Excel's "Unicode text": UTF-16 with a byte order mark, tabs, and a header.
#[test]
fn utf_16_of_spreadsheets() {
    let folder = Folder::new();
    let table = "\u{FEFF}text\tlabel\r\nBüro, bank\tmoney\r\nembassy\tnews\r\n";
    for to_bytes in [u16::to_le_bytes, u16::to_be_bytes] {
        let bytes: Vec<u8> = table.encode_utf16().flat_map(to_bytes).collect();
        let path = folder.write("sheet.txt", bytes);
        let run = ok(&["train", text(&path), "--format", "tsv", "-o", &folder.text("model")]);
        assert!(run.err.contains("2 documents, 2 labels"), "{}", run.err);
    }
}

#[test]
fn folders_of_texts() {
    let folder = Folder::new();
    for (file, content) in [
        ("annif/1.txt", "loan from the bank"),
        ("annif/1.tsv", "<http://a.org/1>\tmoney\n<http://a.org/2>\tnews\n"),
        ("annif/2.txt", "embassy"),
        ("annif/2.tsv", "<http://a.org/2>\tnews\n"),
        ("labels/money/1.txt", "loan from the bank"),
        ("labels/news/1.txt", "embassy"),
        ("labels/news/Thumbs.db", "\0\0\u{1}\0"),
    ] {
        folder.write(file, content);
    }
    for corpus in ["annif", "labels"] {
        let run = ok(&["train", &folder.text(corpus), "-o", &folder.text("model")]);
        assert!(run.err.contains("2 documents, 2 labels"), "{corpus}: {}", run.err);
    }
}

/// The message for a table without column names contains a command that reads the table.
#[test]
fn the_message_reads_the_table() {
    let folder = Folder::new();
    let table = folder.write("table.csv", "loan from the bank,money\nembassy abroad,news\n");
    let model = folder.text("model");
    let refused = run(&["train", text(&table), "-o", &model]);
    assert_eq!(refused.code, 3);
    let hint = refused.err.split('`').find(|part| part.starts_with("--no-header")).unwrap();
    let mut command = vec!["train", text(&table), "-o", &model];
    command.extend(hint.split_whitespace());
    assert!(ok(&command).err.contains("2 documents, 2 labels"));
}
