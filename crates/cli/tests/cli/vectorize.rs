//! Tests of `classify vectorize`, and of vectors files as corpora.

use testkit::{Folder, Messages, text};

use crate::{TEST, TRAIN, ok, refused, without_times};

#[test]
fn vectors_files_give_the_same_predictions() {
    let folder = Folder::new();
    let mut messages = Messages::new(folder.path());
    let [model, other, vectors, unlabeled] =
        ["m.model", "other.model", "test.vectors", "unlabeled.vectors"]
            .map(|name| folder.text(name));
    ok(&["train", TRAIN, "-o", &model]);
    ok(&["vectorize", &model, TEST, "-o", &vectors]);
    for extra in [&[][..], &["--with", "neighbors,scores"], &["--to", "csv"], &["-k", "3"]] {
        let predict = |corpus: &str| ok(&[&["predict", &model, corpus], extra].concat()).out;
        assert_eq!(predict(TEST), predict(&vectors));
    }
    for extra in [&[][..], &["--subset", "7"]] {
        let evaluate =
            |corpus: &str| without_times(&ok(&[&["evaluate", &model, corpus], extra].concat()).out);
        assert_eq!(evaluate(TEST), evaluate(&vectors));
    }
    ok(&["train", TEST, "-o", &other]);
    refused(&mut messages, 3, &["evaluate", &other, &vectors]);
    refused(&mut messages, 2, &["predict", &model, &vectors, TEST]);
    refused(&mut messages, 2, &["predict", &model, &vectors, "--text-column", "body"]);
    // Without labels, there is nothing to evaluate.
    let lines = folder.write("lines.txt", "tighten the derailleur cable\n");
    ok(&["vectorize", &model, text(&lines), "-o", &unlabeled]);
    refused(&mut messages, 3, &["evaluate", &model, &unlabeled]);
    insta::assert_snapshot!(messages);
}
