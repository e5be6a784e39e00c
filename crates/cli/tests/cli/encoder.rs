//! Tests of `--encoder`: embeddings of texts by a pretrained model.

use testkit::{Folder, Messages, write_static_encoder};

use crate::{ok, refused};

const WORDS: [(&str, [f32; 2]); 5] = [
    ("[UNK]", [0.0, 0.0]),
    ("apple", [1.0, 0.1]),
    ("pear", [0.9, 0.0]),
    ("wrench", [0.0, 1.0]),
    ("hammer", [0.1, 0.8]),
];

#[test]
fn encoders_end_to_end() {
    let folder = Folder::new();
    let mut messages = Messages::new(folder.path());
    let encoder = folder.text("encoder");
    std::fs::create_dir(&encoder).unwrap();
    write_static_encoder(encoder.as_ref(), &WORDS);
    let train = folder.text("train.csv");
    std::fs::write(&train, "text,label\napple,fruit\nwrench,tool\n").unwrap();
    let test = folder.text("test.csv");
    std::fs::write(&test, "text,label\npear,fruit\nhammer,tool\n").unwrap();

    // No term of the test documents is known, but their embeddings are near those of training.
    for features in ["encoder", "tfidf+encoder"] {
        let model = folder.text(&format!("{features}.model"));
        let flags = ["--encoder", &*encoder, "--features", features];
        ok(&[&["train", &*train, "-o", &*model], &flags[..]].concat());
        let predicted = ok(&["predict", &model, &test, "--to", "csv"]).out;
        let labels: Vec<&str> =
            predicted.lines().skip(1).filter_map(|line| line.split(',').nth(1)).collect();
        assert_eq!(labels, ["fruit", "tool"], "{predicted}");
        let vectors = folder.text(&format!("{features}.vectors"));
        ok(&["vectorize", &model, &test, "-o", &vectors]);
        assert_eq!(ok(&["predict", &model, &vectors, "--to", "csv"]).out, predicted);
        assert!(ok(&["predict", &model, "--text", "hammer"]).out.contains("tool"));
        assert!(ok(&["explain", &model, "--text", "pear"]).out.contains("fruit"));
    }
    let chosen = ok(&["train", &train, "-o", &folder.text("m.model"), "--encoder", &encoder]);
    assert!(chosen.err.contains("vectors: encoder, 2 dimensions"), "{}", chosen.err);
    let evaluated =
        ok(&["evaluate", "--train", &train, "--test", &test, "--encoder", &encoder]).out;
    assert!(evaluated.contains("1.0000"), "{evaluated}");

    // The encoder must be the one of the training, and is found where it was.
    let model = folder.text("tfidf+encoder.model");
    let other = folder.text("other");
    std::fs::create_dir(&other).unwrap();
    write_static_encoder(other.as_ref(), &WORDS[..4]);
    refused(&mut messages, 3, &["predict", &model, &test, "--encoder", &other]);
    let moved = folder.text("moved");
    std::fs::rename(&encoder, &moved).unwrap();
    refused(&mut messages, 3, &["predict", &model, &test]);
    ok(&["predict", &model, &test, "--encoder", &moved]);
    let plain = folder.text("plain.model");
    ok(&["train", &train, "-o", &plain]);
    refused(&mut messages, 2, &["predict", &plain, &test, "--encoder", &moved]);
    refused(&mut messages, 2, &["train", &train, "-o", &plain, "--features", "encoder"]);
    let rows = folder.text("rows.svm");
    std::fs::write(&rows, "1 3:1 4:2\n2 5:1\n").unwrap();
    refused(&mut messages, 3, &["train", &rows, "-o", &plain, "--encoder", &moved]);
    let lsa = ["--features", "lsa:2", "--encoder", &moved];
    refused(&mut messages, 2, &[&["train", &*train, "-o", &*plain], &lsa[..]].concat());
    insta::assert_snapshot!(messages);
}
