//! `classify add`, `remove`, `relabel` and `compact`.

use std::path::Path;

use testkit::{Messages, text};

use crate::{TEST, TRAIN, ok, refused, run_with, trained_model};

#[test]
fn documents_are_added_removed_and_relabeled() {
    let (folder, model) = trained_model(&["--keep-text", "--no-tune"]);
    let mut messages = Messages::new(folder.path());
    let added = ok(&["add", text(&model), TEST]);
    messages.add("add", &added, 0);
    // The second time, the documents replace themselves.
    messages.add("add, again", &ok(&["add", text(&model), TEST]), 0);
    // After `--reweigh`, the model equals a model that was trained on both corpora.
    ok(&["compact", text(&model), "--reweigh"]);
    let both = folder.at("both.model");
    ok(&["train", TRAIN, TEST, "--keep-text", "--no-tune", "-o", text(&both)]);
    let answers =
        |model: &Path| ok(&["predict", text(model), TEST, "--with", "neighbors,scores"]).out;
    assert_eq!(answers(&model), answers(&both));
    // Documents without identifiers could replace others.
    let unnamed = folder.write("unnamed.jsonl", "{\"text\": \"quokka\", \"label\": \"animals\"}\n");
    refused(&mut messages, 3, &["add", text(&model), text(&unnamed)]);
    let added = ok(&["add", text(&model), text(&unnamed), "--number-as", "zoo-", "--new-labels"]);
    messages.add("add --number-as zoo-", &added, 0);
    ok(&["relabel", text(&model), "zoo-1", "marsupials", "animals", "--new-labels"]);
    let labels = folder.write(
        "labels.jsonl",
        "{\"id\": \"zoo-1\", \"labels\": []}\n\n{\"id\": \"s001\", \"labels\": [\"x\"]}\n",
    );
    let relabeled = ok(&["relabel", text(&model), "--new-labels", "--from", text(&labels)]);
    messages.add("relabel --from", &relabeled, 0);
    let info = ok(&["info", text(&model)]).out;
    assert!(
        info.contains("332, 1 without a label") && info.contains("3 relabeled since"),
        "{info}"
    );
    refused(&mut messages, 3, &["remove", text(&model), "zoo-1", "nobody"]);
    let removed = ok(&["remove", text(&model), "zoo-1", "nobody", "zoo-1", "--ignore-missing"]);
    messages.add("remove --ignore-missing", &removed, 0);
    let removed = run_with(&["remove", text(&model), "--from", "-"], b"s002\ns003\n");
    messages.add("remove --from -", &removed, 0);
    for (wrong, code) in [
        (&["relabel", text(&model), "nobody", "x"][..], 3),
        (&["relabel", text(&model), "s004", ""], 3),
        (&["relabel", text(&model)], 2),
        (&["remove", text(&model)], 2),
        (&["add", text(&model)], 2),
        (&["add", text(&folder.at("none")), TEST], 4),
    ] {
        refused(&mut messages, code, wrong);
    }
    // Tuning uses the documents of the journal, and writes a model without a journal.
    assert!(folder.at("sample.model.journal").exists());
    ok(&["tune", text(&model)]);
    assert!(!folder.at("sample.model.journal").exists());
    let info = ok(&["info", text(&model)]).out;
    assert!(!info.contains("since the model was"), "{info}");
    let plain = folder.at("plain.model");
    ok(&["train", TRAIN, "-o", text(&plain)]);
    refused(&mut messages, 2, &["compact", text(&plain), "--reweigh"]);
    insta::assert_snapshot!(messages);
}
