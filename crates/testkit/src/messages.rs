//! Collects the messages of a program in a machine-independent form.

use std::fmt;
use std::path::Path;

use crate::Run;

/// The messages of several runs, for comparison with a snapshot.
///
/// Only the snapshot contains the wording of messages. The tests themselves check exit codes.
#[derive(Debug)]
pub struct Messages {
    folder: String,
    text: String,
}

impl Messages {
    /// Creates an empty collection. Paths in `folder` are shown as `{folder}/…`.
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_str().unwrap().to_owned(), text: String::new() }
    }

    /// Appends the command and the messages of a run, and checks its exit code.
    ///
    /// The messages of a failure start at the line that begins with `error`. Progress lines are
    /// omitted, because only slow machines print them. Times are shown as `{time}`.
    ///
    /// # Panics
    ///
    /// Panics if the exit code differs, or if the program panicked.
    pub fn add(&mut self, command: &str, run: &Run, code: i32) {
        assert_eq!(run.code, code, "{command}: {}", run.err);
        assert!(!run.err.contains("panicked"), "{command}: {}", run.err);
        let error = run.err.lines().position(|line| line.starts_with("error"));
        let lines = run.err.lines().skip(error.unwrap_or(0)).filter(|line| !is_progress(line));
        let lines = lines.map(without_times).collect::<String>();
        let lines = format!("$ {command}\nexit code {code}\n{lines}\n");
        self.text += &lines.replace(&self.folder, "{folder}");
    }
}

fn is_progress(line: &str) -> bool {
    line.ends_with(" %") || line.contains(" documents, ") && line.contains("/s")
}

/// Replaces each number of seconds in a line with `{time}`.
fn without_times(line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let is_time = |index: usize| {
        let unit = words.get(index + 1).map(|word| word.trim_end_matches([',', ';']));
        words[index].parse::<f64>().is_ok() && unit == Some("s")
    };
    let word = |index: usize| if is_time(index) { "{time}" } else { words[index] };
    (0..words.len()).map(word).collect::<Vec<_>>().join(" ") + "\n"
}

impl fmt::Display for Messages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_do_not_depend_on_the_machine() {
        let mut messages = Messages::new(Path::new("/tmp/x"));
        let err = "reading: 7 documents, 3/s, 50 %\nm: 7 documents, 1.5 s\n".to_owned();
        messages.add("train", &Run { code: 0, out: String::new(), err }, 0);
        let err = "reading a as csv\nerror: /tmp/x/a: no\n  hint: 5 sheep\n".to_owned();
        messages.add("predict", &Run { code: 3, out: String::new(), err }, 3);
        let expected = "$ train\nexit code 0\nm: 7 documents, {time} s\n\n\
                        $ predict\nexit code 3\nerror: {folder}/a: no\n  hint: 5 sheep\n\n";
        assert_eq!(messages.to_string(), expected);
    }
}
