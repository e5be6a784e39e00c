//! A file of named arrays with a JSON document, in the safetensors format.
//!
//! Files are written atomically, and read into memory or mapped.
//!
//! ```
//! use array_file::Bytes;
//! use array_file::container::{self, Container, Dtype};
//!
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("numbers");
//! container::write(&path, "example", "{}".into(), vec![("primes", Dtype::U8, &[2, 3, 5])])?;
//! let mut file = Container::new(Bytes::read(&path)?, "a file of numbers")?;
//! assert_eq!(file.json("example")?, "{}");
//! assert_eq!(file.array::<u8>("primes", Dtype::U8)?[2], 5);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use bytemuck::Pod;
pub use safetensors::Dtype;
use safetensors::SafeTensors;
use safetensors::tensor::{Metadata, TensorInfo};
use serde::de::DeserializeOwned;

use crate::array::Array;
use crate::bytes::Bytes;
use crate::error::FileProblem;
use crate::output::{Output, OutputError};

/// The alignment of arrays in the file, in bytes.
const ALIGNMENT: usize = 64;
/// The name of the array with the CRC-32 of the JSON document.
const JSON_CRC: &str = "settings.crc32";

/// An array to write: name, type and bytes.
///
/// ```
/// use array_file::container::{Dtype, Part};
///
/// let part: Part<'_> = ("numbers", Dtype::U8, &[1, 2, 3]);
/// assert_eq!(part.2.len(), 3);
/// ```
pub type Part<'a> = (&'static str, Dtype, &'a [u8]);

/// A file format that [`Container::settings`] checks.
///
/// ```
/// use array_file::container::Format;
///
/// const SUMS: Format =
///     Format { what: "a file of sums", key: "sums", name: "sums.file", version: 1 };
/// assert_eq!(SUMS.version, 1);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format {
    /// The name for a file of this format in error messages, such as "a model".
    pub what: &'static str,
    /// The key of the JSON document in the file's metadata.
    pub key: &'static str,
    /// The expected value of the document's `format` field.
    pub name: &'static str,
    /// The only supported value of the document's `version` field.
    pub version: u32,
}

/// Checks an array against its `stored` checksum.
///
/// # Errors
/// Fails if the checksums differ, or if no checksum is stored.
///
/// ```
/// use array_file::container::check_checksum;
///
/// let stored = "cbf43926".to_owned();
/// assert!(check_checksum("digits", b"123456789", Some(&stored)).is_ok());
/// assert!(check_checksum("digits", b"987654321", Some(&stored)).is_err());
/// assert!(check_checksum("digits", b"123456789", None).is_err());
/// ```
pub fn check_checksum(
    array: &str,
    bytes: &[u8],
    stored: Option<&String>,
) -> Result<(), FileProblem> {
    let found = checksum(bytes);
    if Some(&found) == stored {
        return Ok(());
    }
    let expected = stored.cloned().unwrap_or_default();
    Err(FileProblem::Checksum { array: array.to_owned(), found, expected })
}

/// Returns the checksum of an array: its CRC-32 as eight hexadecimal digits.
///
/// ```
/// assert_eq!(array_file::container::checksum(b"123456789"), "cbf43926");
/// ```
pub fn checksum(bytes: &[u8]) -> String {
    format!("{:08x}", crc32fast::hash(bytes))
}

/// Writes a file completely or not at all. The same contents always produce the same bytes.
///
/// `key` is the key of the JSON document in the file's metadata.
///
/// # Errors
/// Fails if the file cannot be written; the previous file is then unchanged.
///
/// ```
/// use array_file::Bytes;
/// use array_file::container::{Container, Dtype, write};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("numbers");
/// write(&path, "sums", "{}".to_owned(), vec![("numbers", Dtype::U8, &[1, 2, 3])])?;
/// assert!(path.exists());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write(
    path: &Path,
    key: &str,
    json: String,
    arrays: Vec<Part<'_>>,
) -> Result<(), OutputError> {
    write_to(Output::open(path)?, key, json, arrays)
}

/// Writes a file to an output that was opened earlier, and commits it.
///
/// # Errors
/// Fails if the file cannot be written; the previous file is then unchanged.
///
/// ```
/// use array_file::container::{Dtype, write_to};
/// use array_file::output::Output;
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("numbers");
/// let output = Output::open(&path)?;
/// write_to(output, "sums", "{}".to_owned(), vec![("numbers", Dtype::U8, &[1, 2, 3])])?;
/// assert!(path.exists());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write_to(
    mut output: Output,
    key: &str,
    json: String,
    arrays: Vec<Part<'_>>,
) -> Result<(), OutputError> {
    let written = write_contents(&mut output, key, json, arrays);
    written.map_err(|source| output.error(source))?;
    output.commit()
}

/// Returns the bytes of the file that [`write_to`] would write.
///
/// # Errors
/// Fails if the names or sizes of the arrays are not valid in the format.
///
/// ```
/// use array_file::container::{Dtype, to_bytes};
///
/// let bytes = to_bytes("my-program", "{}".to_owned(), vec![("a", Dtype::U8, &[1, 2])])?;
/// assert!(bytes.ends_with(&[1, 2]));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn to_bytes(key: &str, json: String, arrays: Vec<Part<'_>>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    write_contents(&mut bytes, key, json, arrays)?;
    Ok(bytes)
}

fn write_contents(
    out: &mut dyn Write,
    key: &str,
    json: String,
    arrays: Vec<Part<'_>>,
) -> io::Result<()> {
    let crc = crc32fast::hash(json.as_bytes()).to_le_bytes();
    let mut arrays: Vec<Part<'_>> = arrays;
    arrays.push((JSON_CRC, Dtype::U32, &crc));
    // The format does not allow gaps. Putting wide types first aligns all arrays.
    arrays.sort_by_key(|&(name, dtype, _)| (std::cmp::Reverse(dtype.bitsize()), name));
    let mut end = 0;
    let infos = arrays.iter().map(|&(name, dtype, bytes)| {
        let start = end;
        end += bytes.len();
        let shape = vec![bytes.len() / (dtype.bitsize() / 8)];
        (name.to_owned(), TensorInfo { dtype, shape, data_offsets: (start, end) })
    });
    let metadata = HashMap::from([(key.to_owned(), json)]);
    let metadata = Metadata::new(Some(metadata), infos.collect()).map_err(io::Error::other)?;
    let mut header = serde_json::to_vec(&metadata)?;
    header.resize((header.len() + 8).next_multiple_of(ALIGNMENT) - 8, b' ');
    out.write_all(&(header.len() as u64).to_le_bytes())?;
    out.write_all(&header)?;
    arrays.iter().try_for_each(|(.., bytes)| out.write_all(bytes))
}

/// A file written by [`write()`]. Tracks which arrays have not been read yet.
///
/// ```
/// use array_file::Bytes;
/// use array_file::container::{Container, Dtype, write};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("numbers");
/// write(&path, "sums", "{}".to_owned(), vec![("numbers", Dtype::U8, &[1, 2, 3])])?;
/// let mut file = Container::new(Bytes::read(&path)?, "a file of numbers")?;
/// let json = file.json("sums")?;
/// file.check_json(&json)?;
/// assert_eq!(file.first_unread(), Some("numbers"));
/// assert_eq!(file.array::<u8>("numbers", Dtype::U8)?[..], [1, 2, 3]);
/// assert!(!file.has("num"), "everything is read");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Container {
    bytes: Arc<Bytes>,
    /// The name for the expected file in error messages, such as "a model".
    what: &'static str,
    /// The offset of the first array, in bytes.
    start: usize,
    metadata: Metadata,
    unread: Vec<String>,
}

impl Container {
    /// Reads the header of a file. Error messages call the file `what`, for example "a model".
    ///
    /// # Errors
    /// Fails if the file is not a safetensors file, or is damaged.
    ///
    /// ```
    /// use array_file::Bytes;
    /// use array_file::container::{Container, Dtype, write};
    ///
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("numbers");
    /// write(&path, "sums", "{}".to_owned(), vec![("numbers", Dtype::U8, &[1, 2, 3])])?;
    /// assert!(Container::new(Bytes::read(&path)?, "a file of numbers")?.has("numbers"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(bytes: Bytes, what: &'static str) -> Result<Self, FileProblem> {
        let (header, metadata) = SafeTensors::read_metadata(&bytes)
            .map_err(|source| FileProblem::NotSafetensors { expected: what, source })?;
        let unread = metadata.tensors().into_keys().collect();
        Ok(Self { bytes: Arc::new(bytes), what, start: 8 + header, metadata, unread })
    }

    /// Parses and returns the JSON document of a file in the given format. The version is checked
    /// first, so that a file of another version gets a clear error.
    ///
    /// # Errors
    /// Fails if the document is missing, damaged or invalid, or has another format or version.
    ///
    /// ```
    /// use array_file::{Bytes, FileProblem};
    /// use array_file::container::{Container, Format, write};
    ///
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("numbers");
    /// write(&path, "sums", r#"{"format": "sums.file", "version": 1}"#.to_owned(), vec![])?;
    /// let mut format =
    ///     Format { what: "a file of sums", key: "sums", name: "sums.file", version: 1 };
    /// let mut file = Container::new(Bytes::read(&path)?, format.what)?;
    /// let settings: serde_json::Value = file.settings(&format)?;
    /// assert_eq!(settings["version"], 1);
    /// format.version = 2;
    /// let other = file.settings::<serde_json::Value>(&format).unwrap_err();
    /// assert_eq!(other.to_string(), "a file of sums of version 1; this build reads version 2");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn settings<T: DeserializeOwned>(&mut self, format: &Format) -> Result<T, FileProblem> {
        let text = self.json(format.key)?;
        let value: serde_json::Value =
            serde_json::from_str(&text).map_err(FileProblem::Settings)?;
        if value.get("format").and_then(serde_json::Value::as_str) != Some(format.name) {
            return Err(FileProblem::Other { expected: format.what });
        }
        let found = value.get("version").and_then(serde_json::Value::as_u64).unwrap_or(0);
        let &Format { what, version, .. } = format;
        if found != u64::from(version) {
            return Err(FileProblem::Version { expected: what, found, supported: version });
        }
        self.check_json(&text)?;
        serde_json::from_value(value).map_err(FileProblem::Settings)
    }

    /// Returns the unparsed JSON document with the given key.
    ///
    /// # Errors
    /// Fails if there is no such document.
    ///
    /// ```
    /// use array_file::Bytes;
    /// use array_file::container::{Container, Dtype, write};
    ///
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("numbers");
    /// write(&path, "sums", "{}".to_owned(), vec![("numbers", Dtype::U8, &[1, 2, 3])])?;
    /// let file = Container::new(Bytes::read(&path)?, "a file of numbers")?;
    /// assert_eq!(file.json("sums")?, "{}");
    /// assert!(file.json("products").is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn json(&self, key: &str) -> Result<String, FileProblem> {
        let text = self.metadata.metadata().as_ref().and_then(|metadata| metadata.get(key));
        text.cloned().ok_or(FileProblem::Other { expected: self.what })
    }

    /// Checks the JSON document against its stored checksum.
    ///
    /// # Errors
    /// Fails if the checksums differ, or if no checksum is stored.
    ///
    /// ```
    /// use array_file::Bytes;
    /// use array_file::container::{Container, Dtype, write};
    ///
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("numbers");
    /// write(&path, "sums", "{}".to_owned(), vec![("numbers", Dtype::U8, &[1, 2, 3])])?;
    /// let mut file = Container::new(Bytes::read(&path)?, "a file of numbers")?;
    /// assert!(file.check_json("{}").is_ok() && file.check_json("[]").is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check_json(&mut self, text: &str) -> Result<(), FileProblem> {
        let crc = self.array::<u32>(JSON_CRC, Dtype::U32)?;
        if *crc == [crc32fast::hash(text.as_bytes())] {
            Ok(())
        } else {
            Err(FileProblem::SettingsChecksum)
        }
    }

    /// Returns whether the name of any unread array starts with `prefix`.
    ///
    /// ```
    /// use array_file::Bytes;
    /// use array_file::container::{Container, Dtype, write};
    ///
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("numbers");
    /// write(&path, "sums", "{}".to_owned(), vec![("numbers", Dtype::U8, &[1, 2, 3])])?;
    /// let file = Container::new(Bytes::read(&path)?, "a file of numbers")?;
    /// assert!(file.has("num") && !file.has("words"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn has(&self, prefix: &str) -> bool {
        self.unread.iter().any(|name| name.starts_with(prefix))
    }

    /// Returns the name of an array that has not been read yet, if there is one.
    ///
    /// ```
    /// use array_file::Bytes;
    /// use array_file::container::{Container, Dtype, write};
    ///
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("numbers");
    /// write(&path, "sums", "{}".to_owned(), vec![("numbers", Dtype::U8, &[1, 2, 3])])?;
    /// let mut file = Container::new(Bytes::read(&path)?, "a file of numbers")?;
    /// file.check_json("{}")?;
    /// file.array::<u8>("numbers", Dtype::U8)?;
    /// assert_eq!(file.first_unread(), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn first_unread(&self) -> Option<&str> {
        self.unread.first().map(String::as_str)
    }

    /// Returns a one-dimensional array and marks it as read. The values are not copied.
    ///
    /// # Errors
    /// Fails if the array is missing, or has another type or shape.
    ///
    /// ```
    /// use array_file::Bytes;
    /// use array_file::container::{Container, Dtype, write};
    ///
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("numbers");
    /// write(&path, "sums", "{}".to_owned(), vec![("numbers", Dtype::U8, &[1, 2, 3])])?;
    /// let mut file = Container::new(Bytes::read(&path)?, "a file of numbers")?;
    /// assert_eq!(file.array::<u8>("numbers", Dtype::U8)?.len(), 3);
    /// assert!(file.array::<f32>("numbers", Dtype::F32).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn array<T: Pod>(&mut self, name: &str, dtype: Dtype) -> Result<Array<T>, FileProblem> {
        let missing = || FileProblem::Missing { array: name.into() };
        let info = self.metadata.info(name).ok_or_else(missing)?;
        let wrong = || FileProblem::WrongType {
            array: name.into(),
            found: format!("{:?} of shape {:?}", info.dtype, info.shape),
            expected: format!("{dtype:?}"),
        };
        if info.dtype != dtype || info.shape.len() != 1 {
            return Err(wrong());
        }
        self.unread.retain(|unread| unread != name);
        let (start, end) = info.data_offsets;
        Array::from_file(&self.bytes, self.start + start..self.start + end).ok_or_else(wrong)
    }
}
