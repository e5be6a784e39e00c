//! Reads `NumPy` arrays (format versions 1 to 3).

use std::io::Read;

use half::f16;

use crate::rows::Rows;
use crate::stream::{read_floats, read_rest};

/// The maximum length of a header in bytes. Only arrays with many named fields have longer headers.
const MAX_HEADER: u32 = 1 << 16;

/// Appends numbers of the given type, in either byte order, as 32-bit floats.
macro_rules! append_numbers {
    (
        $bytes:ident, $values:ident, $is_big_endian:ident, $type:expr,
        $($name:literal: $value:ty => $convert:expr),* $(,)?
    ) => {
        match $type {
            $($name => {
                let convert: fn($value) -> f32 = $convert;
                let read = |bytes: &[u8]| {
                    let bytes = bytes.try_into().expect("chunks have the size of the type");
                    convert(if $is_big_endian {
                        <$value>::from_be_bytes(bytes)
                    } else {
                        <$value>::from_le_bytes(bytes)
                    })
                };
                $values.extend($bytes.chunks_exact(size_of::<$value>()).map(read));
            })*
            _ => {}
        }
    };
}

/// The header of an array.
#[derive(Debug, PartialEq)]
struct Header {
    /// The type of the numbers, including their size in bytes, such as `f4`.
    kind: String,
    size: u64,
    is_big_endian: bool,
    is_fortran_order: bool,
    shape: Vec<u64>,
}

impl Header {
    /// Parses a dictionary such as `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }`.
    fn parse(text: &str) -> Result<Self, String> {
        let value = |key: &str| {
            let (_, after) = text.split_once(&format!("'{key}':"))?;
            Some(after.trim_start())
        };
        let missing = |key: &str| format!("its header has no {key}: {text:?}");
        let descr = value("descr").ok_or_else(|| missing("descr"))?;
        let shown: String = descr.chars().take(40).collect();
        let wrong =
            || format!("it holds {shown}, expected floats, integers or booleans of up to 64 bits");
        let descr = descr.strip_prefix('\'').and_then(|rest| rest.split_once('\''));
        let (descr, _) = descr.ok_or_else(wrong)?;
        let kind = descr.trim_start_matches(['<', '>', '|', '=']);
        let known = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1"];
        if !known.contains(&kind) {
            return Err(wrong());
        }
        let order = value("fortran_order").ok_or_else(|| missing("fortran_order"))?;
        let shape = value("shape").ok_or_else(|| missing("shape"))?;
        let inner = shape.strip_prefix('(').and_then(|rest| rest.split_once(')'));
        let numbers = inner.and_then(|(inner, _)| {
            let numbers = inner.split(',').map(str::trim).filter(|number| !number.is_empty());
            numbers.map(|number| number.parse().ok()).collect()
        });
        Ok(Self {
            kind: kind.to_owned(),
            size: kind[1..].parse().map_err(|_| wrong())?,
            is_big_endian: descr.starts_with('>'),
            is_fortran_order: order.starts_with("True"),
            shape: numbers.ok_or_else(|| missing("shape"))?,
        })
    }

    fn read(file: &mut impl Read) -> Result<Self, String> {
        let no_file = |what: String| format!("not an .npy file: {what}");
        let mut exact =
            |bytes: &mut [u8]| file.read_exact(bytes).map_err(|error| no_file(error.to_string()));
        let mut start = [0; 8];
        exact(&mut start)?;
        if !start.starts_with(b"\x93NUMPY") {
            return Err(no_file("it does not begin with the magic number".to_owned()));
        }
        let length = if start[6] == 1 {
            let mut length = [0; 2];
            exact(&mut length)?;
            u32::from(u16::from_le_bytes(length))
        } else {
            let mut length = [0; 4];
            exact(&mut length)?;
            u32::from_le_bytes(length)
        };
        if !(1..=3).contains(&start[6]) || length > MAX_HEADER {
            return Err(no_file(format!("version {}, a header of {length} bytes", start[6])));
        }
        let mut text = vec![0; length as usize];
        exact(&mut text)?;
        Self::parse(&String::from_utf8_lossy(&text))
    }

    /// Appends the numbers as 32-bit floats, rounded to nearest.
    #[expect(clippy::cast_possible_truncation, reason = "values are stored as f32")]
    fn convert(&self, bytes: &[u8], values: &mut Vec<f32>) {
        let is_big_endian = self.is_big_endian;
        append_numbers!(bytes, values, is_big_endian, self.kind.as_str(),
            "f2": f16 => f16::to_f32,
            "f4": f32 => |x| x,
            "f8": f64 => |x| x as f32,
            "i1": i8 => f32::from,
            "i2": i16 => f32::from,
            "i4": i32 => |x| x as f32,
            "i8": i64 => |x| x as f32,
            "b1": u8 => f32::from,
            "u1": u8 => f32::from,
            "u2": u16 => f32::from,
            "u4": u32 => |x| x as f32,
            "u8": u64 => |x| x as f32,
        );
    }
}

pub(super) fn read(mut file: impl Read) -> Result<Rows, String> {
    let header = Header::read(&mut file)?;
    let shape = &header.shape;
    let [rows, columns] = shape[..] else {
        return Err(format!("it has shape {shape:?}, expected two dimensions"));
    };
    let too_large = || format!("shape {shape:?} is too large");
    let length = rows.checked_mul(columns).and_then(|count| count.checked_mul(header.size));
    let dimension = usize::try_from(columns).map_err(|_| too_large())?;
    let size = usize::try_from(header.size).map_err(|_| too_large())?;
    let length = length.ok_or_else(too_large)?;
    let mut values = Vec::new();
    let read = if header.kind == "f4" && header.is_big_endian == cfg!(target_endian = "big") {
        read_floats(file, length, &mut values)
    } else {
        read_rest(file, length, size, |bytes| header.convert(bytes, &mut values))
    };
    read.map_err(|what| format!("{what}, for shape {shape:?}"))?;
    Rows::new(
        if header.is_fortran_order { transpose(&values, dimension) } else { values },
        dimension,
    )
}

/// Returns the row-major values of a matrix that is stored in column-major order.
fn transpose(values: &[f32], columns: usize) -> Vec<f32> {
    let rows = values.len() / columns.max(1);
    (0..values.len()).map(|index| values[index % columns * rows + index / columns]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(descr: &str, is_fortran_order: bool, shape: &str, numbers: &[u8]) -> Vec<u8> {
        let order = if is_fortran_order { "True" } else { "False" };
        let text = format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n");
        let length = u16::try_from(text.len()).unwrap().to_le_bytes();
        [&b"\x93NUMPY\x01\x00"[..], &length, text.as_bytes(), numbers].concat()
    }

    /// Reads the numbers 1 to 6 in two rows, in most types and all orders.
    #[test]
    fn every_type_and_order() {
        macro_rules! bytes {
            ($to:ident: $($value:expr),*) => {
                [$($value.$to().to_vec()),*].concat()
            };
        }
        macro_rules! check {
            ($($name:literal: $value:ty),*) => {$(
                let v = |x: u8| <$value>::from(x);
                for (sign, row_major, column_major) in [
                    ("<", bytes!(to_le_bytes: v(1), v(2), v(3), v(4), v(5), v(6)),
                     bytes!(to_le_bytes: v(1), v(4), v(2), v(5), v(3), v(6))),
                    (">", bytes!(to_be_bytes: v(1), v(2), v(3), v(4), v(5), v(6)),
                     bytes!(to_be_bytes: v(1), v(4), v(2), v(5), v(3), v(6))),
                ] {
                    let descr = format!("'{sign}{}'", $name);
                    for (is_fortran_order, numbers) in [(false, row_major), (true, column_major)] {
                        let file = file(&descr, is_fortran_order, "(2, 3)", &numbers);
                        let found = read(&file[..]).unwrap();
                        let expected = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
                        assert_eq!(found.values, expected, "{descr} {is_fortran_order}");
                        assert_eq!(found.dimension, 3);
                    }
                }
            )*};
        }
        check!("f4": f32, "f8": f64, "i2": i16, "i4": i32, "i8": i64);
        check!("u1": u8, "u2": u16, "u4": u32, "u8": u64);
        let halves: Vec<u8> =
            [1.5f32, -0.25].iter().flat_map(|&x| f16::from_f32(x).to_be_bytes()).collect();
        assert_eq!(
            read(&file("'>f2'", false, "(1, 2)", &halves)[..]).unwrap().values,
            [1.5, -0.25]
        );
        let bytes = file("'|i1'", false, "(2, 1)", &[255, 7]);
        assert_eq!(read(&bytes[..]).unwrap().values, [-1.0, 7.0]);
        let bytes = file("'|b1'", false, "(1, 2)", &[0, 1]);
        assert_eq!(read(&bytes[..]).unwrap().values, [0.0, 1.0]);
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let all = [
            (file("'<f4'", false, "(4294967296, 4294967296)", &[0; 64]), "too large"),
            (file("'<f4'", false, "(18446744073709551615, 1)", &[0; 64]), "too large"),
            (file("'<f4'", false, "(4, 1000000000000)", &[0; 64]), "ends after 64 bytes"),
            (file("'<f4'", false, "(2, 2)", &[0; 17]), "continues"),
            (file("'<f4'", false, "(4,)", &[0; 16]), "two dimensions"),
            (file("'<f4'", false, "(4, x)", &[0; 16]), "shape"),
            (file("'<f4'", false, "(4, 0)", &[]), "no vector"),
            (file("'<c8'", false, "(1, 1)", &[0; 8]), "c8"),
            (file("'<U3'", false, "(1, 1)", &[0; 12]), "U3"),
            (file("[('a', '<f4')]", false, "(1, 1)", &[0; 4]), "[('a'"),
            (b"\x93NUMPY\x02\x00\xff\xff\xff\xff".to_vec(), "header of"),
            (b"no array at all".to_vec(), "magic"),
            (b"\x93NUM".to_vec(), ".npy"),
        ];
        for (bytes, word) in all {
            let error = read(&bytes[..]).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
