//! Files that are written whole or not at all.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Lets `write` fill a temporary file beside `path`, syncs it and renames it to `path`. A symbolic
/// link stays: what it points to is replaced. What is no regular file (a pipe, a terminal,
/// `/dev/null`) is written to as it is.
///
/// # Errors
/// If anything fails; then `path` is as it was, and the temporary file is gone.
///
/// ```
/// use std::io::Write;
/// use metric_index::output::write_atomically;
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("answers");
/// write_atomically(&path, |out| out.write_all(b"whole"))?;
/// let failed = write_atomically(&path, |out| {
///     out.write_all(b"ha")?;
///     Err(std::io::Error::other("no more"))
/// });
/// assert!(failed.is_err());
/// assert_eq!(std::fs::read(&path)?, b"whole");
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn write_atomically(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
) -> io::Result<()> {
    if std::fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir()) {
        let file = File::options().write(true).open(path)?;
        let mut out = BufWriter::new(&file);
        write(&mut out)?;
        return out.flush();
    }
    let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let path = target.as_path();
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    if !folder.is_dir() {
        let missing = format!("there is no folder {}", folder.display());
        return Err(io::Error::new(io::ErrorKind::NotFound, missing));
    }
    let mut builder = tempfile::Builder::new();
    builder.prefix(".writing-").suffix(".tmp");
    #[cfg(unix)]
    {
        // What any new file gets: the user's umask takes away from it.
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let temporary = builder.tempfile_in(folder)?;
    let mut out = BufWriter::with_capacity(1 << 20, temporary.as_file());
    write(&mut out)?;
    out.flush()?;
    drop(out);
    temporary.as_file().sync_all()?;
    temporary.persist(path).map_err(|error| error.error)?;
    #[cfg(unix)]
    File::open(folder)?.sync_all()?;
    Ok(())
}
