//! The bytes of a file, read into memory or memory-mapped.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Deref;
use std::path::Path;

use memmap2::Mmap;

use crate::fallible::with_fallible_allocation;

/// The bytes of a file, aligned to eight bytes.
///
/// [`Bytes::read`] copies the file, so later changes to it have no effect. [`Bytes::map`] starts
/// faster and shares memory between processes, but the file must not change while it is mapped.
///
/// ```
/// use array_file::Bytes;
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("file");
/// std::fs::write(&path, b"some bytes")?;
/// assert_eq!(&Bytes::read(&path)?[..4], b"some");
/// // SAFETY: the folder is private, and nothing writes to the file again.
/// let mapped = unsafe { Bytes::map(&path) }?;
/// assert_eq!(&mapped[..4], b"some");
/// assert!(Bytes::read(folder.path()).is_err());
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Bytes(Storage);

enum Storage {
    Mapped(Mmap),
    Owned { words: Vec<u64>, length: usize },
}

impl Bytes {
    /// Reads a file into memory.
    ///
    /// # Errors
    /// Fails if the file cannot be read or is not a regular file, or if there is not enough memory.
    pub fn read(path: &Path) -> io::Result<Self> {
        let mut file = open_regular(path)?;
        let length = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        let mut bytes = Self::zeros(length)?;
        file.read_exact(bytes.owned_mut())?;
        Ok(bytes)
    }

    /// Maps a file into memory.
    ///
    /// # Errors
    /// Fails if the file cannot be read or is not a regular file.
    ///
    /// # Safety
    /// While the result or a copy of it exists, no process may overwrite or truncate the file in
    /// place. Replacing the file by a rename is allowed: the mapped file continues to exist. If the
    /// bytes change, behavior is undefined; the system kills a process that reads beyond the new
    /// end.
    ///
    /// ```compile_fail,E0133
    /// // Only the caller can know that the file does not change.
    /// let mapped = array_file::Bytes::map("file".as_ref());
    /// ```
    #[expect(unsafe_code, reason = "the bytes of a mapped file can change")]
    pub unsafe fn map(path: &Path) -> io::Result<Self> {
        let file = open_regular(path)?;
        // SAFETY: the map is read-only, and the caller guarantees that the file does not change.
        let map = unsafe { Mmap::map(&file) }?;
        Ok(Self(Storage::Mapped(map)))
    }

    /// Copies `bytes` into new memory.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub fn copy_of(bytes: &[u8]) -> io::Result<Self> {
        let mut copy = Self::zeros(bytes.len())?;
        copy.owned_mut().copy_from_slice(bytes);
        Ok(copy)
    }

    fn zeros(length: usize) -> io::Result<Self> {
        let mut words = Vec::new();
        let count = length.div_ceil(size_of::<u64>());
        with_fallible_allocation(|| words.try_reserve_exact(count)).map_err(|_| {
            let message = format!("not enough memory for its {length} bytes");
            io::Error::new(io::ErrorKind::OutOfMemory, message)
        })?;
        words.resize(count, 0);
        Ok(Self(Storage::Owned { words, length }))
    }

    fn owned_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Storage::Owned { words, length } => &mut bytemuck::cast_slice_mut(words)[..*length],
            Storage::Mapped(_) => unreachable!("only owned bytes are written"),
        }
    }
}

fn open_regular(path: &Path) -> io::Result<File> {
    // Check before opening, because opening a pipe blocks until its other end is opened.
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    File::open(path)
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Storage::Mapped(map) => map,
            Storage::Owned { words, length } => &bytemuck::cast_slice(words)[..*length],
        }
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.0 {
            Storage::Mapped(_) => "mapped",
            Storage::Owned { .. } => "read",
        };
        write!(f, "{} bytes, {kind}", self.len())
    }
}
