//! Help, manual pages and completions.

use testkit::{Folder, text};

use crate::ok;

#[test]
fn help_man_and_completions() {
    assert!(ok(&["--help"]).out.contains("Exit codes"));
    assert!(ok(&["--version"]).out.starts_with("classify "));
    assert!(ok(&["completions", "bash"]).out.contains("_classify"));
    let folder = Folder::new();
    let pages = folder.at("man");
    ok(&["man", text(&pages)]);
    assert!(pages.join("classify-train.1").exists());
}
