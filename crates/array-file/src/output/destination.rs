//! Resolves the path of an output to its destination.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::error::OutputProblem;
use super::inputs::{FileId, Identity};
use super::standard::{STANDARD, was_closed};

/// The maximum number of symbolic links to follow, as in Linux.
const MAX_LINKS: usize = 40;

/// The destination of an output, after following all symbolic links.
#[derive(Debug)]
pub(super) enum Destination {
    /// An open descriptor of this process.
    Descriptor(i32),
    /// A pipe, a socket, a terminal or another device.
    Device(PathBuf),
    /// A regular file that exists or will be created.
    File { target: PathBuf, existing: Option<Metadata> },
}

impl Destination {
    pub(super) fn of(path: &Path) -> Result<Self, OutputProblem> {
        if path.as_os_str() == STANDARD {
            return Ok(Self::Descriptor(1));
        }
        let io = |source| OutputProblem::Io { doing: "open", source };
        if path.as_os_str().as_bytes().ends_with(b"/") {
            return Err(OutputProblem::IsFolder);
        }
        let mut path = path.to_owned();
        for _ in 0..MAX_LINKS {
            let Some(name) = path.file_name() else { return Err(OutputProblem::IsFolder) };
            let folder = match path.parent() {
                Some(folder) if !folder.as_os_str().is_empty() => folder,
                _ => Path::new("."),
            };
            let no_folder = || OutputProblem::NoFolder { folder: folder.to_owned() };
            let folder = match folder.canonicalize() {
                Ok(found) if found.is_dir() => found,
                Ok(_) => return Err(no_folder()),
                Err(error) => match error.kind() {
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                        return Err(no_folder());
                    }
                    _ => return Err(io(error)),
                },
            };
            if is_own_descriptor_folder(&folder)
                && let Some(number) = name.to_str().and_then(|name| name.parse().ok())
            {
                std::fs::symlink_metadata(folder.join(name)).map_err(io)?;
                return Ok(Self::Descriptor(number));
            }
            let target = folder.join(name);
            let existing = match std::fs::symlink_metadata(&target) {
                Ok(existing) => Some(existing),
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => return Err(io(error)),
            };
            // Links in /proc to pipes and sockets have no target to follow.
            let is_link = existing.as_ref().is_some_and(Metadata::is_symlink);
            let followed = if is_link && folder.starts_with("/proc") {
                Some(std::fs::metadata(&target).map_err(io)?)
            } else {
                None
            };
            match followed.or(existing) {
                None => return Ok(Self::File { target, existing: None }),
                Some(existing) if existing.is_symlink() || is_link && existing.is_file() => {
                    path = folder.join(std::fs::read_link(&target).map_err(io)?);
                }
                Some(existing) if existing.is_dir() => return Err(OutputProblem::IsFolder),
                Some(existing) if !existing.is_file() => return Ok(Self::Device(target)),
                Some(existing) => {
                    return Ok(match standard_stream(&existing) {
                        Some(number) => Self::Descriptor(number),
                        None => Self::File { target, existing: Some(existing) },
                    });
                }
            }
        }
        Err(io(io::Error::other("too many symbolic links")))
    }

    /// Returns the identity of the output, and the identity of the regular file if it exists.
    pub(super) fn identity(&self) -> Result<(Identity, Option<FileId>), OutputProblem> {
        let io = |source| OutputProblem::Io { doing: "open", source };
        Ok(match self {
            Self::Descriptor(number) => {
                let metadata = duplicate_descriptor(*number)?.metadata().map_err(io)?;
                let file = metadata.is_file().then(|| FileId::of(&metadata));
                // Two descriptors may refer to the same file, such as `/dev/stdout` and `/dev/fd/3`
                // after `3>&1`.
                let number = file.and_then(|_| standard_stream(&metadata)).unwrap_or(*number);
                match file {
                    Some(file) if number > 2 => (Identity::File(file), Some(file)),
                    _ => (Identity::Descriptor(number), file),
                }
            }
            Self::Device(_) => (Identity::Device, None),
            Self::File { existing: Some(existing), .. } => {
                let file = FileId::of(existing);
                (Identity::File(file), Some(file))
            }
            Self::File { target, existing: None } => {
                let folder = target.parent().unwrap_or(target).metadata().map_err(io)?;
                let name = target.file_name().unwrap_or_default().to_owned();
                (Identity::New(FileId::of(&folder), name), None)
            }
        })
    }
}

/// Duplicates an open descriptor. The duplicate shares the file position and append mode.
pub(super) fn duplicate_descriptor(number: i32) -> Result<File, OutputProblem> {
    if was_closed(number) {
        return Err(OutputProblem::Closed);
    }
    #[expect(unsafe_code, reason = "descriptors that the user names by number")]
    // SAFETY: the number is 1, 2 or one that /proc lists as open, and is duplicated immediately.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number.max(0)) };
    let copy = borrowed.try_clone_to_owned();
    copy.map(File::from).map_err(|source| OutputProblem::Io { doing: "open", source })
}

/// Returns whether a folder, given as a canonical path, lists the open descriptors of this process.
fn is_own_descriptor_folder(folder: &Path) -> bool {
    let process_folder = Path::new("/proc").join(std::process::id().to_string());
    folder == Path::new("/dev/fd")
        || folder.strip_prefix(process_folder).is_ok_and(|rest| {
            rest == Path::new("fd") || (rest.starts_with("task") && rest.ends_with("fd"))
        })
}

/// Returns the standard stream that already refers to this file, if there is one.
///
/// Writing through another descriptor would overwrite output to the shell's descriptor.
fn standard_stream(file: &Metadata) -> Option<i32> {
    let stdout = io::stdout();
    let stderr = io::stderr();
    [(1, stdout.as_fd()), (2, stderr.as_fd())].into_iter().find_map(|(number, stream)| {
        if was_closed(number) {
            return None;
        }
        let open = File::from(stream.try_clone_to_owned().ok()?);
        let is_same = FileId::of(&open.metadata().ok()?) == FileId::of(file);
        is_same.then_some(number)
    })
}
