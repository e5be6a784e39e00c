//! Outputs of a command: its files, and messages and progress on standard error.

pub(crate) mod files;
pub(crate) mod list;
pub(crate) mod notes;
pub(crate) mod progress;
pub(crate) mod warnings;
