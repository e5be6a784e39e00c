//! Positions in corpora.

use std::fmt;
use std::sync::Arc;

use crate::printable::printable;

/// A file and line of a corpus, displayed as `file:line`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The path as the user gave it, or `<stdin>`.
    pub source: Arc<str>,
    /// The line, from 1, or `None` for the whole file.
    pub line: Option<u64>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}", printable(&self.source)),
            None => write!(f, "{}", printable(&self.source)),
        }
    }
}
