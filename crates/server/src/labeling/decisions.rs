//! The decisions file. It stores the decisions about each document, with the name of the reviewer
//! and the expected quality of the model.
//!
//! Labels are stored in the model. This file also contains decisions that do not change the model,
//! and the history of the expected quality. Each decision is one line of JSON, which is on disk
//! before the decision is confirmed.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// The kind of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Action {
    /// The document has the given labels.
    Label,
    /// The labels of the document are correct.
    Keep,
    /// The document is removed from the model.
    Remove,
    /// The document is not shown again.
    Skip,
    /// The last decision about the document is withdrawn.
    Undo,
}

/// A line of the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Line {
    /// Seconds since the Unix epoch.
    pub(crate) time: u64,
    /// The name that the reviewer gave; empty if none.
    pub(crate) reviewer: String,
    /// The identifier of the document.
    pub(crate) id: String,
    pub(crate) decision: Action,
    /// The labels of the document after the decision; empty if it has none.
    pub(crate) labels: Vec<String>,
    /// The labels that the model had predicted. They are recorded if a request has only this
    /// decision, which labels a document of the pool for the first time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) predicted: Option<Vec<String>>,
    /// The number of labeled documents in the pool.
    pub(crate) labeled: usize,
    /// The expected share of correct labels in the rest of the pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expected: Option<f64>,
    /// For `undo`, the decision that was withdrawn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) withdrawn: Option<Action>,
    /// For `undo`, the earlier `keep` or `skip` that applies again, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) restored: Option<Action>,
}

impl Line {
    /// Returns an `undo` line with the current time, without a document.
    pub(crate) fn now(reviewer: String) -> Self {
        let time = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            time: time.map_or(0, |time| time.as_secs()),
            reviewer,
            id: String::new(),
            decision: Action::Undo,
            labels: Vec::new(),
            predicted: None,
            labeled: 0,
            expected: None,
            withdrawn: None,
            restored: None,
        }
    }
}

/// A point of the history: the state after a document was labeled.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, utoipa::ToSchema)]
pub(crate) struct Point {
    /// The number of labeled documents in the pool.
    pub(crate) labeled: usize,
    /// The expected share of correct labels in the rest of the pool, from 0 to 1. `null` if no
    /// document is left, or the model is not calibrated.
    pub(crate) expected: Option<f64>,
    /// Whether the prediction was correct; `null` if it was not recorded.
    pub(crate) was_right: Option<bool>,
}

/// The result of all decisions in the file.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct DecisionState {
    /// The documents whose labels somebody confirmed or chose.
    kept: HashSet<String>,
    /// The documents that are not shown again.
    skipped: HashSet<String>,
    /// The points of the history, with the identifiers of their documents.
    history: Vec<(String, Point)>,
}

impl DecisionState {
    pub(crate) fn add(&mut self, line: &Line) {
        // A new decision replaces an earlier one.
        let _ = self.kept.remove(&line.id);
        let _ = self.skipped.remove(&line.id);
        let mark = match line.decision {
            Action::Label => {
                let was_right = line
                    .predicted
                    .as_ref()
                    .map(|predicted| have_same_labels(predicted, &line.labels));
                let Line { labeled, expected, .. } = *line;
                self.history.push((line.id.clone(), Point { labeled, expected, was_right }));
                Some(Action::Keep)
            }
            // A removed document of the pool is not proposed again.
            Action::Remove => Some(Action::Skip),
            Action::Undo => {
                let last = self.history.iter().rposition(|(id, _)| *id == line.id);
                if let Some(last) = last.filter(|_| line.withdrawn == Some(Action::Label)) {
                    drop(self.history.remove(last));
                }
                line.restored
            }
            action => Some(action),
        };
        match mark {
            Some(Action::Keep) => drop(self.kept.insert(line.id.clone())),
            Some(Action::Skip) => drop(self.skipped.insert(line.id.clone())),
            _ => {}
        }
    }

    /// Returns whether a document is kept or skipped.
    pub(crate) fn mark(&self, id: &str) -> Option<Action> {
        if self.kept.contains(id) {
            Some(Action::Keep)
        } else {
            self.skipped.contains(id).then_some(Action::Skip)
        }
    }

    pub(crate) fn is_skipped(&self, id: &str) -> bool {
        self.skipped.contains(id)
    }

    pub(crate) fn history(&self) -> impl DoubleEndedIterator<Item = &Point> + ExactSizeIterator {
        self.history.iter().map(|(_, point)| point)
    }
}

/// Whether two lists contain the same labels, regardless of order and repetitions.
pub(crate) fn have_same_labels(a: &[String], b: &[String]) -> bool {
    a.iter().all(|label| b.contains(label)) && b.iter().all(|label| a.contains(label))
}

/// An open decisions file.
#[derive(Debug)]
pub(crate) struct DecisionFile {
    file: File,
    /// The end of the last complete line.
    end: u64,
}

impl DecisionFile {
    /// Returns the path of a model's decisions file.
    pub(crate) fn path(model: &Path) -> PathBuf {
        let mut path = model.as_os_str().to_owned();
        path.push(".decisions.jsonl");
        path.into()
    }

    /// Opens or creates a file, and reads it. An incomplete last line was never confirmed; the next
    /// decision removes it.
    pub(crate) fn open(path: &Path) -> io::Result<(Self, DecisionState)> {
        let file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        // The name of a new file must survive a power failure. Not all file systems sync folders.
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let _ = File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all());
        let mut decided = DecisionState::default();
        let mut end = 0;
        let mut reader = BufReader::new(&file);
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            let length = reader.by_ref().read_until(b'\n', &mut line)?;
            if line.last() != Some(&b'\n') {
                break;
            }
            let parsed = serde_json::from_slice(&line).map_err(|error| {
                let message = format!("line {number} is not a decision: {error}");
                io::Error::new(io::ErrorKind::InvalidData, message)
            })?;
            decided.add(&parsed);
            end += length as u64;
        }
        Ok((Self { file, end }, decided))
    }

    /// Appends decisions, and waits until they are on disk. If that fails, the file is unchanged.
    pub(crate) fn append(&mut self, lines: &[Line]) -> io::Result<()> {
        let mut bytes = Vec::new();
        for line in lines {
            serde_json::to_writer(&mut bytes, line)?;
            bytes.push(b'\n');
        }
        self.file.set_len(self.end)?;
        let _ = self.file.seek(SeekFrom::End(0))?;
        let written = self.file.write_all(&bytes).and_then(|()| self.file.sync_data());
        match written {
            Ok(()) => self.end += bytes.len() as u64,
            Err(_) => self.file.set_len(self.end)?,
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(id: &str, decision: Action) -> Line {
        Line {
            time: 1,
            reviewer: String::new(),
            id: id.into(),
            decision,
            labels: vec!["x".into()],
            predicted: Some(vec!["y".into()]),
            labeled: 3,
            expected: Some(0.5),
            withdrawn: None,
            restored: None,
        }
    }

    #[test]
    fn decisions_are_read_again_without_a_torn_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = DecisionFile::path(&folder.path().join("a.model"));
        let (mut file, decided) = DecisionFile::open(&path).unwrap();
        assert_eq!(decided, DecisionState::default());
        let lines = [line("a", Action::Keep), line("b", Action::Skip), line("c", Action::Label)];
        file.append(&lines).unwrap();
        let mut torn = OpenOptions::new().append(true).open(&path).unwrap();
        torn.write_all(b"{\"time\": 1, \"id\"").unwrap();
        let (mut file, decided) = DecisionFile::open(&path).unwrap();
        let marks = ["a", "b", "c"].map(|id| decided.mark(id));
        assert_eq!(marks, [Some(Action::Keep), Some(Action::Skip), Some(Action::Keep)]);
        let point = Point { labeled: 3, expected: Some(0.5), was_right: Some(false) };
        assert_eq!(decided.history().collect::<Vec<_>>(), [&point]);
        let undo = line("b", Action::Undo);
        let second_undo = Line {
            withdrawn: Some(Action::Label),
            restored: Some(Action::Skip),
            ..line("c", Action::Undo)
        };
        file.append(&[undo, second_undo]).unwrap();
        let (_, decided) = DecisionFile::open(&path).unwrap();
        let marks = ["a", "b", "c"].map(|id| decided.mark(id));
        assert_eq!(marks, [Some(Action::Keep), None, Some(Action::Skip)]);
        assert_eq!(decided.history().len(), 0);
        torn.write_all(b"nonsense\n").unwrap();
        let error = DecisionFile::open(&path).unwrap_err();
        assert!(error.to_string().starts_with("line 6 is not a decision"), "{error}");
    }
}
