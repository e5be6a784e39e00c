//! Temporary folders.

use std::fs;
use std::path::{Path, PathBuf};

/// A temporary folder, removed when it is dropped.
#[derive(Debug)]
pub struct Folder(tempfile::TempDir);

impl Folder {
    /// Creates an empty folder.
    #[expect(clippy::new_without_default, reason = "creating a folder is a side effect")]
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Returns the path of a file in the folder. The file need not exist.
    pub fn at(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Returns the path of a file in the folder as a string, for command lines.
    pub fn text(&self, name: &str) -> String {
        text(&self.at(name)).to_owned()
    }

    /// Writes a file and returns its path.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.at(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// Reads a text file in the folder.
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.at(name)).unwrap()
    }

    /// Returns the temporary output files that a program left in the folder.
    pub fn unfinished_outputs(&self) -> Vec<PathBuf> {
        let paths = fs::read_dir(self.path()).unwrap().map(|entry| entry.unwrap().path());
        paths.filter(|path| path.to_string_lossy().contains(".writing-")).collect()
    }
}

/// Converts a path to a command-line argument.
pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
