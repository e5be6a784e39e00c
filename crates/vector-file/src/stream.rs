//! Reads the bytes of a stream in large chunks.

use std::io::{self, Read};

/// The number of bytes that are read at a time.
const CHUNK: usize = 1 << 22;

/// Reads the rest of a file, which must be `length` bytes long: numbers of `size` bytes each.
///
/// Calls `take` with chunks that contain only complete numbers.
pub(crate) fn read_rest(
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
        return Err(format!("it continues after {length} bytes of numbers"));
    }
    Ok(())
}

/// Reads the rest of a file into `values`: `length` bytes of 32-bit floats in native byte order.
pub(crate) fn read_floats(
    mut file: impl Read,
    length: u64,
    values: &mut Vec<f32>,
) -> Result<(), String> {
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
    read_rest(file, 0, 1, |_| ())
        .map_err(|_| format!("it continues after {length} bytes of numbers"))
}

/// Reads until `bytes` is full or the file ends. Returns the number of bytes read.
pub(crate) fn fill(file: &mut impl Read, bytes: &mut [u8]) -> Result<usize, String> {
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
