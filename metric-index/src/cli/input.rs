//! Words and vectors from files.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use flate2::bufread::MultiGzDecoder;
use metric_index::points::{Strings, Vectors};
use npyz::{NpyFile, Order, TypeChar};

use super::Failure;

#[derive(Debug, Args)]
pub(crate) struct Input {
    /// Words, one a line, or vectors; - for standard input. What ends in .gz is unpacked
    #[arg(value_name = "FILE")]
    path: PathBuf,
    /// The form of the file [default: by its name: .csv and .tsv, .fvecs, .bvecs, .npy, .idx and -ubyte; else words]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Columns to leave out at the begin of each row (CSV), such as 1 for a label
    #[arg(long, value_name = "N", default_value_t = 0)]
    skip_columns: usize,
    /// Lines to leave out at the begin (CSV), such as 1 for names that are numbers
    #[arg(long, value_name = "N", default_value_t = 0)]
    skip_lines: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A word a line, UTF-8
    Words,
    /// Numbers, separated by commas, semicolons or white space; a first line of names is left out
    Csv,
    /// 32-bit floats, before each vector its dimension as a 32-bit integer
    Fvecs,
    /// The same with bytes
    Bvecs,
    /// A two-dimensional array of `NumPy`: float32, float64 or uint8, in C order
    Npy,
    /// Unsigned bytes in two or more dimensions, as MNIST has them
    Idx,
}

/// What a file holds.
pub(crate) enum Data {
    Words(Strings),
    Vectors(Vectors<f32>),
}

impl Input {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn format(&self) -> Format {
        let name = self.path.to_string_lossy().to_lowercase();
        let name = name.strip_suffix(".gz").unwrap_or(&name);
        let ends = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
        match self.format {
            Some(format) => format,
            None if ends(&[".csv", ".tsv"]) => Format::Csv,
            None if ends(&[".fvecs"]) => Format::Fvecs,
            None if ends(&[".bvecs"]) => Format::Bvecs,
            None if ends(&[".npy"]) => Format::Npy,
            None if ends(&[".idx", "-ubyte"]) => Format::Idx,
            None => Format::Words,
        }
    }

    /// Reads the whole file.
    pub(crate) fn read(&self) -> Result<Data, Failure> {
        let shown = self.path.display().to_string();
        let unreadable = |error: io::Error| Failure::input(format!("{shown}: {error}"));
        let file: Box<dyn Read> = if self.path.as_os_str() == "-" {
            Box::new(io::stdin().lock())
        } else {
            Box::new(File::open(&self.path).map_err(unreadable)?)
        };
        let mut file = BufReader::with_capacity(1 << 20, file);
        let is_packed = file.fill_buf().map_err(unreadable)?.starts_with(&[0x1f, 0x8b]);
        let file: Box<dyn BufRead> = if is_packed {
            Box::new(BufReader::new(MultiGzDecoder::new(file)))
        } else {
            Box::new(file)
        };
        let wrong = |what: String| Failure::input(format!("{shown}: {what}"));
        match self.format() {
            Format::Words => words(file, &shown).map(Data::Words),
            Format::Csv => {
                csv(file, (self.skip_lines, self.skip_columns), &shown).map(Data::Vectors)
            }
            Format::Fvecs => vecs(file, 4, |bytes| bytes.map(f32_of).collect()).map_err(wrong),
            Format::Bvecs => {
                vecs(file, 1, |bytes| bytes.map(|b| f32::from(b[0])).collect()).map_err(wrong)
            }
            Format::Npy => npy(file).map_err(wrong),
            Format::Idx => idx(file).map_err(wrong),
        }
    }
}

fn at(path: &str, line: usize, what: impl Display) -> Failure {
    Failure::input(format!("{path}:{line}: {what}"))
}

fn words(file: impl BufRead, path: &str) -> Result<Strings, Failure> {
    let read =
        |(line, word): (usize, io::Result<String>)| word.map_err(|error| at(path, line, error));
    (1..).zip(file.lines()).map(read).collect()
}

fn csv(
    file: impl BufRead,
    (skip_lines, skip): (usize, usize),
    path: &str,
) -> Result<Vectors<f32>, Failure> {
    let (mut values, mut dimension) = (Vec::new(), 0);
    for (line, text) in (1..).zip(file.lines()).skip(skip_lines) {
        let text = text.map_err(|error| at(path, line, error))?;
        let separates = |c: char| c.is_whitespace() || c == ',' || c == ';';
        let fields = text.split(separates).map(str::trim).filter(|field| !field.is_empty());
        let before = values.len();
        let mut wrong = None;
        for (column, field) in (1..).zip(fields).skip(skip) {
            match field.parse::<f32>() {
                Ok(value) if value.is_finite() => values.push(value),
                _ => wrong = wrong.or(Some((column, field.to_owned()))),
            }
        }
        let count = values.len() - before;
        match wrong {
            // Names of columns.
            Some(_) if dimension == 0 && count == 0 => {}
            Some((column, field)) => {
                let what = format!(
                    "column {column} is {field:?}, expected a number; --skip-columns and --skip-lines leave out \
                     labels and names"
                );
                return Err(at(path, line, what));
            }
            None if dimension == 0 => dimension = count,
            None if count != 0 && count != dimension => {
                return Err(at(
                    path,
                    line,
                    format!("{count} numbers, expected {dimension} as before"),
                ));
            }
            None => {}
        }
    }
    vectors(values, dimension).map_err(|what| Failure::input(format!("{path}: {what}")))
}

fn vectors(values: Vec<f32>, dimension: usize) -> Result<Vectors<f32>, String> {
    if dimension == 0 {
        return Err("there is no vector in it".to_owned());
    }
    Vectors::new(values, dimension).map_err(|error| error.to_string())
}

fn whole(mut file: impl BufRead) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

fn f32_of(bytes: &[u8]) -> f32 {
    f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

fn vecs(
    file: impl BufRead,
    size: usize,
    read: impl Fn(std::slice::ChunksExact<'_, u8>) -> Vec<f32>,
) -> Result<Data, String> {
    let bytes = whole(file)?;
    let (mut values, mut dimension, mut rest, mut number) = (Vec::new(), 0, &bytes[..], 0);
    while !rest.is_empty() {
        let place = bytes.len() - rest.len();
        let (head, tail) =
            rest.split_at_checked(4).ok_or(format!("byte {place}: half a vector at the end"))?;
        let own = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        if own == 0 || (number > 0 && own != dimension) {
            return Err(format!(
                "byte {place}: vector {number} has {own} dimensions, expected {dimension} as before"
            ));
        }
        dimension = own;
        let (vector, tail) = own
            .checked_mul(size)
            .and_then(|length| tail.split_at_checked(length))
            .ok_or(format!("byte {place}: vector {number} of {own} dimensions ends too early"))?;
        values.extend(read(vector.chunks_exact(size)));
        rest = tail;
        number += 1;
    }
    vectors(values, dimension).map(Data::Vectors)
}

fn npy(file: impl BufRead) -> Result<Data, String> {
    let file = NpyFile::new(file).map_err(|error| format!("it is no .npy file: {error}"))?;
    let shape = file.shape().to_vec();
    let [_, dimension] = shape[..] else {
        return Err(format!("it has shape {shape:?}, expected two dimensions"));
    };
    if file.order() != Order::C {
        return Err("it is in Fortran order, expected C order".to_owned());
    }
    let kind = match file.dtype() {
        npyz::DType::Plain(kind) => (kind.type_char(), kind.size_field()),
        other => return Err(format!("it holds {other:?}, expected float32, float64 or uint8")),
    };
    let broken = |error: io::Error| error.to_string();
    #[expect(clippy::cast_possible_truncation, reason = "distances are of f32")]
    let values: Vec<f32> = match kind {
        (TypeChar::Float, 4) => file.into_vec().map_err(broken)?,
        (TypeChar::Float, 8) => {
            let values: Vec<f64> = file.into_vec().map_err(broken)?;
            values.into_iter().map(|value| value as f32).collect()
        }
        (TypeChar::Uint, 1) => {
            let values: Vec<u8> = file.into_vec().map_err(broken)?;
            values.into_iter().map(f32::from).collect()
        }
        _ => return Err(format!("it holds {kind:?}, expected float32, float64 or uint8")),
    };
    vectors(values, usize::try_from(dimension).unwrap_or(0)).map(Data::Vectors)
}

fn idx(file: impl BufRead) -> Result<Data, String> {
    let bytes = whole(file)?;
    let head = bytes.get(..4).ok_or("it ends before its magic number")?;
    let [0, 0, 8, dimensions] = head[..] else {
        return Err(format!("magic number {head:02x?}, expected 00 00 08 and the dimensions"));
    };
    let sizes = bytes.get(4..4 + 4 * usize::from(dimensions)).ok_or("it ends before its sizes")?;
    let size = |bytes: &[u8]| u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
    let sizes: Vec<usize> = sizes.chunks_exact(4).map(size).collect();
    let (&count, each) = sizes.split_first().ok_or("it has no dimensions")?;
    let dimension = each.iter().try_fold(1usize, |a, &b| a.checked_mul(b)).unwrap_or(usize::MAX);
    let values = &bytes[4 + 4 * sizes.len()..];
    if each.is_empty() || Some(values.len()) != count.checked_mul(dimension) {
        return Err(format!(
            "{} bytes, expected those of sizes {sizes:?}, two or more",
            values.len()
        ));
    }
    vectors(values.iter().copied().map(f32::from).collect(), dimension).map(Data::Vectors)
}
