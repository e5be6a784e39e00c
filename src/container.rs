//! A file of arrays beside a JSON document: safetensors, written in one piece, read by mapping it into
//! memory. Models and vectors are such files.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use bytemuck::Pod;
use memmap2::Mmap;
use safetensors::tensor::{Metadata, TensorInfo};
use safetensors::{Dtype, SafeTensors};

use crate::matrix::Array;
use crate::output::write_atomically;
use crate::strings::Strings;

/// The arrays begin at a multiple of this many bytes.
const ALIGNMENT: usize = 64;
/// The key of the JSON document in the safetensors metadata.
const KEY: &str = "classify";
/// The array that holds the CRC-32 of the JSON document.
const JSON_CRC: &str = "settings.crc32";

/// An array to be written: its name, type and bytes.
pub(crate) type Part<'a> = (&'static str, Dtype, &'a [u8]);

/// What is wrong with a file.
#[derive(Debug)]
pub(crate) enum ContainerProblem {
    /// No safetensors file, or a damaged one, or not of this program.
    Damaged(String),
    /// The JSON document is not what was written.
    Json,
    /// An array that is not there.
    Missing { array: String },
    /// An array of another type or shape.
    WrongType { array: String, found: String, expected: String },
    /// Strings that are none.
    Strings { array: &'static str, what: String },
}

/// The checksum of an array.
pub(crate) fn checksum(bytes: &[u8]) -> String {
    format!("{:08x}", crc32fast::hash(bytes))
}

/// Writes a file: whole or not at all, the same bytes for the same contents.
pub(crate) fn write(path: &Path, json: String, arrays: Vec<Part<'_>>) -> io::Result<()> {
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
    let metadata = HashMap::from([(KEY.to_owned(), json)]);
    let metadata = Metadata::new(Some(metadata), infos.collect()).map_err(io::Error::other)?;
    let mut header = serde_json::to_vec(&metadata)?;
    header.resize((header.len() + 8).next_multiple_of(ALIGNMENT) - 8, b' ');
    write_atomically(path, |out| {
        out.write_all(&(header.len() as u64).to_le_bytes())?;
        out.write_all(&header)?;
        arrays.iter().try_for_each(|(.., bytes)| out.write_all(bytes))
    })
}

/// A mapped file, and its arrays that are still to be read.
pub(crate) struct Container {
    map: Arc<Mmap>,
    /// Where the arrays begin.
    start: usize,
    metadata: Metadata,
    unread: Vec<String>,
}

impl Container {
    /// Maps a file.
    pub(crate) fn map(path: &Path) -> io::Result<Mmap> {
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
    pub(crate) fn new(map: Mmap) -> Result<Self, ContainerProblem> {
        let damaged =
            |error: safetensors::SafeTensorError| ContainerProblem::Damaged(error.to_string());
        let (header, metadata) = SafeTensors::read_metadata(&map).map_err(damaged)?;
        let unread = metadata.tensors().into_keys().collect();
        Ok(Self { map: Arc::new(map), start: 8 + header, metadata, unread })
    }

    /// The JSON document as it stands there.
    pub(crate) fn json(&self) -> Result<String, ContainerProblem> {
        let text = self.metadata.metadata().as_ref().and_then(|metadata| metadata.get(KEY));
        text.cloned().ok_or_else(|| {
            ContainerProblem::Damaged("a safetensors file, but not of this program".into())
        })
    }

    /// Whether the JSON document is what was written.
    pub(crate) fn check_json(&mut self, text: &str) -> Result<(), ContainerProblem> {
        let crc = self.array::<u32>(JSON_CRC, Dtype::U32)?;
        if *crc == [crc32fast::hash(text.as_bytes())] {
            Ok(())
        } else {
            Err(ContainerProblem::Json)
        }
    }

    /// Whether an array whose name begins so is still to be read.
    pub(crate) fn has(&self, start: &str) -> bool {
        self.unread.iter().any(|name| name.starts_with(start))
    }

    /// An array that was not read.
    pub(crate) fn first_unread(&self) -> Option<&str> {
        self.unread.first().map(String::as_str)
    }

    /// A vector.
    pub(crate) fn array<T: Pod>(
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

    /// Strings, end to end in one array, with their offsets in another.
    pub(crate) fn strings(
        &mut self,
        text: &'static str,
        offsets: &str,
    ) -> Result<Strings, ContainerProblem> {
        let bytes = self.array(text, Dtype::U8)?;
        let offsets = self.array::<u64>(offsets, Dtype::U64)?;
        Strings::new(bytes, offsets).map_err(|what| ContainerProblem::Strings { array: text, what })
    }
}
