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

/// The format of a file of vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A two-dimensional array of `NumPy`: floats, integers or booleans in any byte and memory
    /// order.
    Npy,
    /// Vectors of 32-bit floats, each after its dimension as a 32-bit integer; little-endian.
    Fvecs,
    /// Vectors of unsigned bytes, each after its dimension as a 32-bit integer; little-endian.
    Bvecs,
    /// Unsigned bytes in two or more dimensions, as in MNIST. The first dimension counts vectors.
    Idx,
}

impl Format {
    /// The format that a file's name indicates.
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
        let endings = [
            (".npy", Self::Npy),
            (".fvecs", Self::Fvecs),
            (".bvecs", Self::Bvecs),
            (".idx", Self::Idx),
            ("-ubyte", Self::Idx),
        ];
        endings.iter().find(|(ending, _)| name.ends_with(ending)).map(|&(_, format)| format)
    }
}

/// Vectors that have the same dimension.
#[derive(Debug, Clone, PartialEq)]
pub struct Rows {
    /// The values of all vectors, one vector after another.
    pub values: Vec<f32>,
    /// The number of values per vector, at least 1.
    pub dimension: usize,
}

impl Rows {
    /// The number of vectors.
    pub fn len(&self) -> usize {
        self.values.len() / self.dimension
    }

    /// Whether there are no vectors.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Vector `number`, from 0.
    ///
    /// # Panics
    /// If there is no such vector.
    pub fn row(&self, number: usize) -> &[f32] {
        &self.values[number * self.dimension..][..self.dimension]
    }

    fn new(values: Vec<f32>, dimension: usize) -> Result<Self, String> {
        if dimension == 0 {
            return Err("there is no vector in it".to_owned());
        }
        Ok(Self { values, dimension })
    }
}

/// Why a file of vectors cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct FileError {
    /// The file.
    pub path: PathBuf,
    /// The problem.
    pub problem: Problem,
}

/// What is wrong with a file of vectors.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The file cannot be opened.
    #[error(transparent)]
    Open(#[from] io::Error),
    /// The name indicates no format.
    #[error(
        "the name does not tell the format; expected .npy, .fvecs, .bvecs, .idx or -ubyte, \
         optionally with .gz"
    )]
    Name,
    /// The content does not have the format.
    #[error("{0}")]
    Content(String),
}

/// Reads a whole file in the format that its name indicates.
///
/// # Errors
/// If the file cannot be read, its name indicates no format, or it does not have that format.
pub fn open(path: &Path) -> Result<Rows, FileError> {
    let failed = |problem| FileError { path: path.to_owned(), problem };
    let format = Format::of_name(path).ok_or_else(|| failed(Problem::Name))?;
    let file = File::open(path).map_err(|error| failed(error.into()))?;
    let mut file = BufReader::with_capacity(1 << 16, file);
    let packed = io::BufRead::fill_buf(&mut file).map_err(|error| failed(error.into()))?;
    let rows = if packed.starts_with(&[0x1f, 0x8b]) {
        read(BufReader::with_capacity(1 << 16, MultiGzDecoder::new(file)), format)
    } else {
        read(file, format)
    };
    rows.map_err(|what| failed(Problem::Content(what)))
}

/// Reads vectors from a stream to its end.
///
/// Memory grows with the data read, not with the size that a header claims.
///
/// # Errors
/// If the stream does not have the format. The text says what is wrong, and where.
pub fn read(file: impl Read, format: Format) -> Result<Rows, String> {
    match format {
        Format::Npy => npy::read(file),
        Format::Fvecs => binary::fvecs(file),
        Format::Bvecs => binary::bvecs(file),
        Format::Idx => binary::idx(file),
    }
}

/// Number of bytes that are read at a time.
const CHUNK: usize = 1 << 22;

/// Reads the rest of a file, which must have `length` bytes: numbers of `size` bytes each.
///
/// Calls `take` with chunks of whole numbers.
fn rest(
    mut file: impl Read,
    length: u64,
    size: usize,
    mut take: impl FnMut(&[u8]),
) -> Result<(), String> {
    let mut chunk = Vec::new();
    let mut done = 0u64;
    while done < length {
        let left = usize::try_from(length - done).unwrap_or(usize::MAX);
        let expected = left.min(CHUNK / size * size);
        chunk.resize(expected, 0);
        let read = fill(&mut file, &mut chunk)?;
        done += read as u64;
        if read < expected {
            return Err(format!("it ends after {done} bytes of numbers, expected {length}"));
        }
        take(&chunk);
    }
    if fill(&mut file, &mut [0])? > 0 {
        return Err(format!("it goes on after the {length} bytes of numbers that its shape says"));
    }
    Ok(())
}

/// Reads the rest of a file into `values`: `length` bytes of 32-bit floats in native byte order.
fn floats(mut file: impl Read, length: u64, values: &mut Vec<f32>) -> Result<(), String> {
    let mut done = 0u64;
    while done < length {
        let expected = usize::try_from(length - done).unwrap_or(usize::MAX).min(CHUNK);
        let start = values.len();
        values.resize(start + expected / 4, 0.0);
        let read = fill(&mut file, bytemuck::cast_slice_mut(&mut values[start..]))?;
        done += read as u64;
        if read < expected {
            return Err(format!("it ends after {done} bytes of numbers, expected {length}"));
        }
    }
    rest(file, 0, 1, |_| ())
        .map_err(|_| format!("it goes on after the {length} bytes of numbers that its shape says"))
}

/// Reads until `bytes` is full or the file ends. Returns the number of bytes read.
fn fill(file: &mut impl Read, bytes: &mut [u8]) -> Result<usize, String> {
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read(&mut bytes[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(filled)
}
