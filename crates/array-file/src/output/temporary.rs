//! Temporary files in the folders of their targets, and a list of all existing temporary files.

use std::fs::{File, Metadata, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use tempfile::NamedTempFile;

use super::error::OutputProblem;
use super::syncing::SyncState;

/// The existing temporary files, which are removed if the process ends early.
static EXISTING: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn existing() -> MutexGuard<'static, Vec<PathBuf>> {
    // The list is consistent even if a panic interrupted a change.
    EXISTING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the temporary files of all outputs in progress, before the process ends.
///
/// Outputs cannot be committed afterwards. This function waits for a rename in progress, so call it
/// on a separate thread after a signal, not in the signal handler.
pub fn remove_temporary_files() {
    remove(&existing());
}

/// Removes the temporary files like [`remove_temporary_files`], but waits for at most a second.
///
/// This is for a signal handler, which may have interrupted a thread that has locked the list. It
/// allocates no memory, unless a path is longer than 380 bytes.
pub fn try_to_remove_temporary_files() {
    const RETRY_INTERVAL: Duration = Duration::from_millis(10);
    for _ in 0..100 {
        match EXISTING.try_lock() {
            Ok(files) => return remove(&files),
            Err(TryLockError::Poisoned(poisoned)) => return remove(&poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => std::thread::sleep(RETRY_INTERVAL),
        }
    }
}

fn remove(files: &[PathBuf]) {
    for file in files {
        // The process is ending, so the error cannot be reported.
        let _ = std::fs::remove_file(file);
    }
}

/// A temporary file that is removed when dropped, unless it was renamed to its target.
#[derive(Debug)]
pub(super) struct TemporaryFile {
    file: Option<NamedTempFile>,
    syncing: SyncState,
}

impl TemporaryFile {
    /// Creates a file in the folder of `target`. If `target` exists, the new file gets its
    /// permissions.
    pub(super) fn in_folder_of(
        target: &Path,
        replaced: Option<&Metadata>,
    ) -> Result<Self, OutputProblem> {
        let failed = |source| OutputProblem::Io { doing: "open", source };
        if let Some(replaced) = replaced {
            if replaced.mode() & 0o222 == 0 {
                return Err(OutputProblem::ReadOnly);
            }
            // Check write permission on the file, because a rename requires it only on the folder.
            File::options().append(true).open(target).map_err(failed)?;
        }
        let folder = target.parent().unwrap_or(Path::new("/"));
        let mut builder = tempfile::Builder::new();
        // A new file gets the permissions that the user's umask allows. A replacement is private to
        // its owner until it gets the permissions of the original.
        let mode = if replaced.is_some() { 0o600 } else { 0o666 };
        builder.prefix(".writing-").suffix(".tmp");
        // The path is added to the list before the file is created, and nothing is allocated from
        // then until the list is unlocked. The file is therefore removed even if memory runs out.
        let create = |path: &Path| {
            let owned = path.to_owned();
            let mut list = existing();
            list.push(owned);
            let file =
                File::options().read(true).write(true).create_new(true).mode(mode).open(path);
            if file.is_err() {
                list.pop();
            }
            file
        };
        let file = builder.make_in(folder, create).map_err(failed)?;
        let temporary = Self { file: Some(file), syncing: SyncState::default() };
        if let Some(replaced) = replaced {
            copy_permissions(temporary.file().as_file(), replaced).map_err(failed)?;
        }
        Ok(temporary)
    }

    fn file(&self) -> &NamedTempFile {
        self.file.as_ref().expect("the file exists until `persist` or `drop`")
    }

    /// Syncs the file, renames it to `target` and syncs the folder.
    pub(super) fn persist(mut self, target: &Path) -> io::Result<()> {
        std::mem::take(&mut self.syncing).finish()?;
        self.file().as_file().sync_all()?;
        let file = self.file.take().expect("the file exists until `persist` or `drop`");
        let mut list = existing();
        list.retain(|path| path != file.path());
        let renamed = file.persist(target);
        drop(list);
        renamed.map_err(|error| error.error)?;
        let folder = File::open(target.parent().unwrap_or(Path::new("/")));
        match folder.and_then(|folder| folder.sync_all()) {
            // The folder may be writable but not readable, or the file system may not sync folders.
            // The file has been renamed in any case.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::PermissionDenied
                        | io::ErrorKind::InvalidInput
                        | io::ErrorKind::Unsupported
                ) =>
            {
                Ok(())
            }
            synced => synced,
        }
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            let mut list = existing();
            list.retain(|path| path != file.path());
            drop(file);
        }
    }
}

impl Write for TemporaryFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let file = self.file.as_ref().expect("the file exists until `persist` or `drop`");
        let written = file.as_file().write(bytes)?;
        self.syncing.count_written(written, file.as_file());
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file().as_file().flush()
    }
}

/// Copies the owner, group and permissions of the original to a new file, as far as the user may
/// set them.
fn copy_permissions(file: &File, original: &Metadata) -> io::Result<()> {
    let mut mode = original.mode() & 0o777;
    let current = file.metadata()?;
    if current.uid() != original.uid() && fchown(file, Some(original.uid()), None).is_err() {
        // Only root can change the owner. Otherwise the current user owns the file.
    }
    if current.gid() != original.gid() && fchown(file, None, Some(original.gid())).is_err() {
        // Permissions of the original group must not pass to another group.
        mode = (mode & !0o070) | ((mode & 0o007) << 3);
    }
    file.set_permissions(Permissions::from_mode(mode))
}
