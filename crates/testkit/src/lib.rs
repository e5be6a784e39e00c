//! Fixtures and runners for the tests of all crates.
//!
//! | task | item |
//! |---|---|
//! | run the program with arguments and input | [`Program`], [`Run`] |
//! | run shell command lines in a separate folder | [`Shell`] |
//! | work in a temporary folder | [`Folder`] |
//! | start a server, and stop it when the test ends | [`Server`] |
//! | wait until something happens, without a fixed sleep | [`wait_until`] |
//! | fail if work takes more than five minutes | [`finish`] |
//! | write small encoders of texts | [`write_static_encoder`], [`write_tensors`] |
//! | compare messages with a snapshot | [`Messages`] |
//! | read the sample corpus and the golden models | [`root`], [`sample`], [`model`] |
//!
//! This crate does not depend on `classify`, because the tests of `classify` use this crate.
//! Otherwise, Cargo would compile the library twice, once for its own tests and once for this
//! crate, with incompatible types. Fixtures that use the types of the library (engines, filters,
//! documents) are in `tests/fixtures` instead.
//!
//! `tests/style.rs` checks the style rules; `examples/style.rs` lists the violations.

#![expect(clippy::unwrap_used, clippy::missing_panics_doc, reason = "tests may panic")]

mod encoder;
mod folder;
mod messages;
mod program;
mod server;
mod shell;
mod wait;

use std::path::PathBuf;

pub use encoder::{write_static_encoder, write_tensors, write_word_tokenizer};
pub use folder::{Folder, text};
pub use messages::Messages;
pub use program::{Program, Run};
pub use server::Server;
pub use shell::Shell;
pub use wait::{finish, wait_until};

/// Returns the root of the repository.
pub fn root() -> PathBuf {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../..").into()
}

/// Returns the path of a file of the sample corpus, such as `train.jsonl`.
pub fn sample(name: &str) -> PathBuf {
    root().join("corpora/sample").join(name)
}

/// Returns the path of a golden model, such as `golden-v1.model`.
pub fn model(name: &str) -> PathBuf {
    root().join("models").join(name)
}
