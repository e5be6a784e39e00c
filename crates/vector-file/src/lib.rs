//! Reads vectors from files: `.npy`, `.fvecs`, `.bvecs` and IDX, each optionally gzip-compressed.
//!
//! ```
//! use vector_file::{Format, read};
//!
//! // One vector with two dimensions, as fvecs.
//! let bytes = [2u32.to_le_bytes(), 1.5f32.to_le_bytes(), 0.5f32.to_le_bytes()].concat();
//! let rows = read(&bytes[..], Format::Fvecs)?;
//! assert_eq!((rows.values, rows.dimension), (vec![1.5, 0.5], 2));
//! # Ok::<(), String>(())
//! ```

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;

mod binary;
mod npy;
mod rows;
mod stream;

pub use rows::Rows;

/// The format of a vector file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A two-dimensional `NumPy` array: floats, integers or booleans in any byte order and memory
    /// order.
    Npy,
    /// Vectors of 32-bit floats, each preceded by its dimension as a 32-bit integer; little-endian.
    Fvecs,
    /// Vectors of unsigned bytes, each preceded by its dimension as a 32-bit integer;
    /// little-endian.
    Bvecs,
    /// Unsigned bytes in two or more dimensions, as in MNIST. The first dimension is the number of
    /// vectors.
    Idx,
}

impl Format {
    /// Returns the format that a file name indicates, or `None` if it indicates none.
    ///
    /// ```
    /// use vector_file::Format;
    ///
    /// assert_eq!(Format::of_name("train.npy.gz".as_ref()), Some(Format::Npy));
    /// assert_eq!(Format::of_name("train.csv".as_ref()), None);
    /// ```
    pub fn of_name(path: &Path) -> Option<Self> {
        let name = path.to_string_lossy().to_lowercase();
        let name = name.strip_suffix(".gz").unwrap_or(&name);
        let suffixes = [
            (".npy", Self::Npy),
            (".fvecs", Self::Fvecs),
            (".bvecs", Self::Bvecs),
            (".idx", Self::Idx),
            ("-ubyte", Self::Idx),
        ];
        suffixes.iter().find(|(suffix, _)| name.ends_with(suffix)).map(|&(_, format)| format)
    }
}

/// An error in reading a vector file: its path and the problem.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct FileError {
    /// The path of the file.
    pub path: PathBuf,
    /// The problem.
    pub problem: Problem,
}

/// The reason why a vector file cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The file could not be opened.
    #[error(transparent)]
    Open(#[from] io::Error),
    /// The file name indicates no format.
    #[error(
        "the file name indicates no format; expected .npy, .fvecs, .bvecs, .idx or -ubyte, \
         optionally with .gz"
    )]
    Name,
    /// The content does not have the expected format. The text describes the problem and its
    /// position.
    #[error("{0}")]
    Content(String),
}

/// Reads a whole file in the format that its name indicates.
///
/// # Errors
/// Fails if the file cannot be read, if its name indicates no format, or if its content does not
/// have that format.
pub fn open(path: &Path) -> Result<Rows, FileError> {
    let failed = |problem| FileError { path: path.to_owned(), problem };
    let format = Format::of_name(path).ok_or_else(|| failed(Problem::Name))?;
    let file = File::open(path).map_err(|error| failed(error.into()))?;
    let mut file = BufReader::with_capacity(1 << 16, file);
    let start = io::BufRead::fill_buf(&mut file).map_err(|error| failed(error.into()))?;
    let rows = if start.starts_with(&[0x1f, 0x8b]) {
        read(BufReader::with_capacity(1 << 16, MultiGzDecoder::new(file)), format)
    } else {
        read(file, format)
    };
    rows.map_err(|what| failed(Problem::Content(what)))
}

/// Reads vectors from a stream to its end.
///
/// Memory grows with the data that is read, not with the size that a header claims.
///
/// # Errors
/// Fails if the stream does not have the format. The text describes the problem and its position.
pub fn read(file: impl Read, format: Format) -> Result<Rows, String> {
    match format {
        Format::Npy => npy::read(file),
        Format::Fvecs => binary::fvecs(file),
        Format::Bvecs => binary::bvecs(file),
        Format::Idx => binary::idx(file),
    }
}
