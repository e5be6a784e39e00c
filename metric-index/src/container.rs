//! A file of arrays beside a JSON document: safetensors, written in one piece, read by mapping it into
//! memory. Stored indexes are such files, and the models and vectors of `classify`.
//!
//! ```
//! use metric_index::container::{self, Container, Dtype};
//!
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("numbers");
//! container::write(&path, "example", "{}".into(), vec![("primes", Dtype::U8, &[2, 3, 5])])?;
//! let mut file = Container::new(Container::map(&path)?)?;
//! assert_eq!(file.json("example")?, "{}");
//! assert_eq!(file.array::<u8>("primes", Dtype::U8)?[2], 5);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use bytemuck::Pod;
use memmap2::Mmap;
pub use safetensors::Dtype;
use safetensors::SafeTensors;
use safetensors::tensor::{Metadata, TensorInfo};

use crate::array::Array;
use crate::output::write_atomically;

/// The arrays begin at a multiple of this many bytes.
const ALIGNMENT: usize = 64;
/// The array that holds the CRC-32 of the JSON document.
const JSON_CRC: &str = "settings.crc32";

/// An array to be written: its name, type and bytes.
///
/// ```
/// use metric_index::container::{Dtype, Part};
///
/// let part: Part<'_> = ("numbers", Dtype::U8, &[1, 2, 3]);
/// assert_eq!(part.2.len(), 3);
/// ```
pub type Part<'a> = (&'static str, Dtype, &'a [u8]);

/// What is wrong with a file.
///
/// ```
/// use metric_index::container::ContainerProblem;
///
/// let problem = ContainerProblem::Missing { array: "numbers".to_owned() };
/// assert_eq!(problem.to_string(), "array `numbers` is missing");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContainerProblem {
    /// No safetensors file, or a damaged one, or not of this program.
    #[error("{0}")]
    Damaged(String),
    /// The JSON document is not what was written.
    #[error("the checksum of its header differs: it is damaged")]
    Json,
    /// An array that is not there.
    #[error("array `{array}` is missing")]
    Missing {
        /// The array.
        array: String,
    },
    /// An array of another type or shape.
    #[error("array `{array}` is {found}, expected {expected}")]
    WrongType {
        /// The array.
        array: String,
        /// What it is.
        found: String,
        /// What it is to be.
        expected: String,
    },
    /// An array whose values are not what they are to be.
    #[error("array `{array}`: {what}")]
    Invalid {
        /// The array.
        array: String,
        /// What is wrong.
        what: String,
    },
}

/// The checksum of an array.
///
/// ```
/// assert_eq!(metric_index::container::checksum(b"123456789"), "cbf43926");
/// ```
pub fn checksum(bytes: &[u8]) -> String {
    format!("{:08x}", crc32fast::hash(bytes))
}

/// Writes a file: whole or not at all, the same bytes for the same contents.
///
/// # Errors
/// If anything fails; then the file is as it was.
///
/// ```
/// use metric_index::container::{Container, Dtype, write};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("numbers");
/// write(&path, "sums", "{}".to_owned(), vec![("numbers", Dtype::U8, &[1, 2, 3])])?;
/// assert!(path.exists());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write(path: &Path, program: &str, json: String, arrays: Vec<Part<'_>>) -> io::Result<()> {
    let crc = crc32fast::hash(json.as_bytes()).to_le_bytes();
    let mut arrays: Vec<Part<'_>> = arrays;
    arrays.push((JSON_CRC, Dtype::U32, &crc));
    // The format leaves no gaps: wide types first, and every array is aligned to its own.
    arrays.sort_by_key(|&(name, dtype, _)| (std::cmp::Reverse(dtype.bitsize()), name));
    let mut end = 0;
    let infos = arrays.iter().map(|&(name, dtype, bytes)| {
        let start = end;
        end += bytes.len();
        let shape = vec![bytes.len() / (dtype.bitsize() / 8)];
        (name.to_owned(), TensorInfo { dtype, shape, data_offsets: (start, end) })
    });
    let metadata = HashMap::from([(program.to_owned(), json)]);
    let metadata = Metadata::new(Some(metadata), infos.collect()).map_err(io::Error::other)?;
    let mut header = serde_json::to_vec(&metadata)?;
    header.resize((header.len() + 8).next_multiple_of(ALIGNMENT) - 8, b' ');
    write_atomically(path, |out| {
        out.write_all(&(header.len() as u64).to_le_bytes())?;
        out.write_all(&header)?;
        arrays.iter().try_for_each(|(.., bytes)| out.write_all(bytes))
    })
}

/// A mapped file of [`write()`], and its arrays that are still to be read.
///
/// ```
/// use metric_index::container::{Container, Dtype, write};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("numbers");
/// write(&path, "sums", "{}".to_owned(), vec![("numbers", Dtype::U8, &[1, 2, 3])])?;
/// let mut file = Container::new(Container::map(&path)?)?;
/// let json = file.json("sums")?;
/// file.check_json(&json)?;
/// assert_eq!(file.first_unread(), Some("numbers"));
/// assert_eq!(file.array::<u8>("numbers", Dtype::U8)?[..], [1, 2, 3]);
/// assert!(!file.has("num"), "all is read");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Container {
    map: Arc<Mmap>,
    /// Where the arrays begin.
    start: usize,
    metadata: Metadata,
    unread: Vec<String>,
}

impl Container {
    /// Maps a file.
    ///
    /// # Errors
    /// If it cannot be read or is no regular file.
    ///
    /// ```
    /// use metric_index::container::{Container, Dtype, write};
    ///
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("numbers");
    /// write(&path, "sums", "{}".to_owned(), vec![("numbers", Dtype::U8, &[1, 2, 3])])?;
    /// assert!(Container::map(&path)?.len() > 3);
    /// assert!(Container::map(folder.path()).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn map(path: &Path) -> io::Result<Mmap> {
        let file = std::fs::File::open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
        }
        #[expect(unsafe_code, reason = "memory-mapping the file")]
        // SAFETY: the map is read-only. These files are replaced by renaming, never written in place,
        // so the mapped bytes do not change while the map lives.
        unsafe {
            Mmap::map(&file)
        }
    }

    /// Reads the header of a mapped file.
    ///
    /// # Errors
    /// If it is no safetensors file, or a damaged one.
    ///
    /// ```
    /// use metric_index::container::{Container, Dtype, write};
    ///
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("numbers");
    /// write(&path, "sums", "{}".to_owned(), vec![("numbers", Dtype::U8, &[1, 2, 3])])?;
    /// assert!(Container::new(Container::map(&path)?)?.has("numbers"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(map: Mmap) -> Result<Self, ContainerProblem> {
        let damaged =
            |error: safetensors::SafeTensorError| ContainerProblem::Damaged(error.to_string());
        let (header, metadata) = SafeTensors::read_metadata(&map).map_err(damaged)?;
        let unread = metadata.tensors().into_keys().collect();
        Ok(Self { map: Arc::new(map), start: 8 + header, metadata, unread })
    }

    /// The JSON document of a program as it stands there.
    ///
    /// # Errors
    /// If there is none.
    ///
    /// ```
    /// use metric_index::container::{Container, Dtype, write};
    ///
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("numbers");
    /// write(&path, "sums", "{}".to_owned(), vec![("numbers", Dtype::U8, &[1, 2, 3])])?;
    /// let file = Container::new(Container::map(&path)?)?;
    /// assert_eq!(file.json("sums")?, "{}");
    /// assert!(file.json("products").is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn json(&self, program: &str) -> Result<String, ContainerProblem> {
        let text = self.metadata.metadata().as_ref().and_then(|metadata| metadata.get(program));
        text.cloned().ok_or_else(|| {
            ContainerProblem::Damaged("a safetensors file, but not of this program".into())
        })
    }

    /// Checks that the JSON document is what was written.
    ///
    /// # Errors
    /// If it is not.
    ///
    /// ```
    /// use metric_index::container::{Container, Dtype, write};
    ///
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("numbers");
    /// write(&path, "sums", "{}".to_owned(), vec![("numbers", Dtype::U8, &[1, 2, 3])])?;
    /// let mut file = Container::new(Container::map(&path)?)?;
    /// assert!(file.check_json("{}").is_ok() && file.check_json("[]").is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check_json(&mut self, text: &str) -> Result<(), ContainerProblem> {
        let crc = self.array::<u32>(JSON_CRC, Dtype::U32)?;
        if *crc == [crc32fast::hash(text.as_bytes())] {
            Ok(())
        } else {
            Err(ContainerProblem::Json)
        }
    }

    /// Whether an array whose name begins so is still to be read.
    ///
    /// ```
    /// use metric_index::container::{Container, Dtype, write};
    ///
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("numbers");
    /// write(&path, "sums", "{}".to_owned(), vec![("numbers", Dtype::U8, &[1, 2, 3])])?;
    /// let file = Container::new(Container::map(&path)?)?;
    /// assert!(file.has("num") && !file.has("words"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn has(&self, start: &str) -> bool {
        self.unread.iter().any(|name| name.starts_with(start))
    }

    /// An array that was not read.
    ///
    /// ```
    /// use metric_index::container::{Container, Dtype, write};
    ///
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("numbers");
    /// write(&path, "sums", "{}".to_owned(), vec![("numbers", Dtype::U8, &[1, 2, 3])])?;
    /// let mut file = Container::new(Container::map(&path)?)?;
    /// file.check_json("{}")?;
    /// file.array::<u8>("numbers", Dtype::U8)?;
    /// assert_eq!(file.first_unread(), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn first_unread(&self) -> Option<&str> {
        self.unread.first().map(String::as_str)
    }

    /// An array of one dimension; it is not copied.
    ///
    /// # Errors
    /// If it is not there, or of another type or shape.
    ///
    /// ```
    /// use metric_index::container::{Container, Dtype, write};
    ///
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("numbers");
    /// write(&path, "sums", "{}".to_owned(), vec![("numbers", Dtype::U8, &[1, 2, 3])])?;
    /// let mut file = Container::new(Container::map(&path)?)?;
    /// assert_eq!(file.array::<u8>("numbers", Dtype::U8)?.len(), 3);
    /// assert!(file.array::<f32>("numbers", Dtype::F32).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn array<T: Pod>(
        &mut self,
        name: &str,
        dtype: Dtype,
    ) -> Result<Array<T>, ContainerProblem> {
        let missing = || ContainerProblem::Missing { array: name.into() };
        let info = self.metadata.info(name).ok_or_else(missing)?;
        let wrong = || ContainerProblem::WrongType {
            array: name.into(),
            found: format!("{:?} of shape {:?}", info.dtype, info.shape),
            expected: format!("{dtype:?}"),
        };
        if info.dtype != dtype || info.shape.len() != 1 {
            return Err(wrong());
        }
        self.unread.retain(|unread| unread != name);
        let (start, end) = info.data_offsets;
        Array::mapped(&self.map, self.start + start..self.start + end).ok_or_else(wrong)
    }
}
