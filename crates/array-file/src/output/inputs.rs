//! The input files of a command, identified by device and inode.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::standard::STANDARD;

/// The identity of a file, regardless of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }
}

/// The identity of an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Identity {
    /// An existing file.
    File(FileId),
    /// A new file, identified by its folder and name.
    New(FileId, OsString),
    /// An open descriptor of this process.
    Descriptor(i32),
    /// A pipe or a device. Several outputs may share it.
    Device,
}

/// The inputs of a command.
#[derive(Debug, Default)]
pub(super) struct Inputs(Vec<PathBuf>);

impl Inputs {
    pub(super) fn add(&mut self, path: &Path) {
        self.0.push(path.to_owned());
    }

    /// Returns the input that is this file, or a folder that contains this file.
    ///
    /// Inputs that cannot be read are skipped: the command reports the error when it reads them.
    pub(super) fn find(&self, file: FileId) -> Option<&Path> {
        self.0.iter().map(PathBuf::as_path).find(|input| is_or_contains(input, file))
    }
}

fn is_or_contains(input: &Path, file: FileId) -> bool {
    let metadata = if input.as_os_str() == STANDARD {
        let stdin = std::io::stdin().as_fd().try_clone_to_owned();
        stdin.and_then(|stdin| File::from(stdin).metadata())
    } else {
        std::fs::metadata(input)
    };
    let Ok(metadata) = metadata else { return false };
    let is_same = |metadata: &Metadata| metadata.is_file() && FileId::of(metadata) == file;
    if !metadata.is_dir() {
        return is_same(&metadata);
    }
    // Links are followed. Each folder is visited once, so a link to a parent folder is harmless.
    let mut seen = HashSet::from([FileId::of(&metadata)]);
    let mut pending = vec![input.to_owned()];
    while let Some(folder) = pending.pop() {
        let Ok(entries) = std::fs::read_dir(folder) else { continue };
        for entry in entries.flatten() {
            let path = entry.path();
            let Ok(metadata) = std::fs::metadata(&path) else { continue };
            if is_same(&metadata) {
                return true;
            }
            if metadata.is_dir() && seen.insert(FileId::of(&metadata)) {
                pending.push(path);
            }
        }
    }
    false
}
