//! Reads binary vector files: fvecs, bvecs and IDX.

use std::io::Read;

use crate::rows::Rows;
use crate::stream::{fill, read_rest};

pub(super) fn fvecs(file: impl Read) -> Result<Rows, String> {
    vecs(file, 4, |bytes| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

pub(super) fn bvecs(file: impl Read) -> Result<Rows, String> {
    vecs(file, 1, |bytes| f32::from(bytes[0]))
}

fn vecs(mut file: impl Read, size: usize, value: impl Fn(&[u8]) -> f32) -> Result<Rows, String> {
    let mut values = Vec::new();
    let mut dimension = 0;
    let mut offset = 0u64;
    let mut head = [0; 4];
    let mut row = Vec::new();
    for number in 0u64.. {
        match fill(&mut file, &mut head)? {
            0 => break,
            4 => {}
            _ => return Err(format!("byte {offset}: the last vector is incomplete")),
        }
        let row_dimension = u32::from_le_bytes(head) as usize;
        if row_dimension == 0 || (number > 0 && row_dimension != dimension) {
            let expected = if number > 0 { dimension.to_string() } else { "1 or more".to_owned() };
            return Err(format!(
                "byte {offset}: vector {number} has {row_dimension} dimensions, expected {expected}"
            ));
        }
        dimension = row_dimension;
        // Memory grows with the data, regardless of the claimed dimension.
        row.clear();
        let length = row_dimension as u64 * size as u64;
        let read = (&mut file).take(length).read_to_end(&mut row);
        if read.map_err(|error| error.to_string())? as u64 != length {
            return Err(format!(
                "byte {offset}: vector {number} of {row_dimension} dimensions ends too early"
            ));
        }
        values.extend(row.chunks_exact(size).map(&value));
        offset += 4 + length;
    }
    Rows::new(values, dimension)
}

pub(super) fn idx(mut file: impl Read) -> Result<Rows, String> {
    let mut head = [0; 4];
    if fill(&mut file, &mut head)? < 4 {
        return Err("it ends before its magic number".to_owned());
    }
    let [0, 0, 8, dimensions] = head else {
        return Err(format!(
            "magic number {head:02x?}, expected 00 00 08 and the number of dimensions"
        ));
    };
    let mut sizes = Vec::new();
    for _ in 0..dimensions {
        let mut size = [0; 4];
        if fill(&mut file, &mut size)? < 4 {
            return Err("it ends before its sizes".to_owned());
        }
        sizes.push(u32::from_be_bytes(size));
    }
    let product = |sizes: &[u32]| sizes.iter().try_fold(1u64, |all, &n| all.checked_mul(n.into()));
    let too_large = || format!("sizes {sizes:?} are too large");
    let count = product(&sizes).ok_or_else(too_large)?;
    let dimension = product(sizes.get(1..).unwrap_or_default()).ok_or_else(too_large)?;
    if sizes.len() < 2 {
        return Err(format!("sizes {sizes:?}, expected two or more"));
    }
    let mut values = Vec::new();
    read_rest(file, count, 1, |bytes| values.extend(bytes.iter().copied().map(f32::from)))
        .map_err(|what| format!("{what}, for sizes {sizes:?}"))?;
    Rows::new(values, usize::try_from(dimension).map_err(|_| too_large())?)
}
