//! Reads words and vectors from files.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use flate2::bufread::MultiGzDecoder;
use metric_index::points::{Strings, Vectors};

use crate::failure::Failure;
use crate::verbosity::Verbosity;

mod csv;
mod lines;

use lines::{each_line, vectors};

#[derive(Debug, Args)]
pub(crate) struct Input {
    /// A file with one word per line, or with vectors; - for standard input. Files that are
    /// compressed with gzip are decompressed
    #[arg(value_name = "FILE")]
    path: PathBuf,
    /// The format of the file [default: by its name, which ends in .csv, .tsv, .fvecs, .bvecs,
    /// .npy, .idx or -ubyte; otherwise by its first lines: rows of numbers are vectors, and
    /// everything else is words]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Number of columns to skip at the start of each row (CSV), such as 1 for a label
    #[arg(long, value_name = "N", default_value_t = 0)]
    skip_columns: usize,
    /// Number of lines to skip at the start (CSV), such as 1 for column names that are numbers
    #[arg(long, value_name = "N")]
    skip_lines: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// One word per line, UTF-8
    Words,
    /// Numbers separated by commas, semicolons, tabs or spaces, with the same separator in each
    /// line; a first line with column names is skipped
    Csv,
    /// 32-bit floats, each vector preceded by its dimension as a 32-bit integer
    Fvecs,
    /// Bytes, each vector preceded by its dimension as a 32-bit integer
    Bvecs,
    /// A two-dimensional `NumPy` array: numbers of any type, byte order and memory order, converted
    /// to float32
    Npy,
    /// Unsigned bytes in two or more dimensions, as in MNIST
    Idx,
}

/// The contents of a file.
pub(crate) enum Data {
    Words(Strings),
    Vectors(Vectors<f32>),
}

impl Input {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the requested format, or the format that the file name implies.
    fn format(&self) -> Option<Format> {
        let name = self.path.to_string_lossy().to_lowercase();
        let name = name.strip_suffix(".gz").unwrap_or(&name);
        let ends = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
        match self.format {
            Some(format) => Some(format),
            None if ends(&[".csv", ".tsv"]) => Some(Format::Csv),
            None if ends(&[".fvecs"]) => Some(Format::Fvecs),
            None if ends(&[".bvecs"]) => Some(Format::Bvecs),
            None if ends(&[".npy"]) => Some(Format::Npy),
            None if ends(&[".idx", "-ubyte"]) => Some(Format::Idx),
            None => None,
        }
    }

    /// Reads the whole file.
    ///
    /// `default_format` applies if neither the flag nor the file name determines the format. If it
    /// is `None`, the first lines determine the format.
    pub(crate) fn read(
        &self,
        verbosity: Verbosity,
        default_format: Option<Format>,
    ) -> Result<Data, Failure> {
        let path = self.path.display().to_string();
        let unreadable = |error: io::Error| Failure::input(format!("{path}: {error}"));
        let file: Box<dyn Read> = if self.path.as_os_str() == "-" {
            Box::new(io::stdin().lock())
        } else {
            Box::new(File::open(&self.path).map_err(unreadable)?)
        };
        let mut file = BufReader::with_capacity(1 << 20, file);
        let is_compressed = file.fill_buf().map_err(unreadable)?.starts_with(&[0x1f, 0x8b]);
        let mut file: Box<dyn BufRead> = if is_compressed {
            Box::new(BufReader::with_capacity(1 << 16, MultiGzDecoder::new(file)))
        } else {
            Box::new(file)
        };
        let format = match self.format().or(default_format) {
            Some(format) => format,
            None if csv::is_likely(file.fill_buf().map_err(unreadable)?) => {
                verbosity.say(&format!(
                    "{path}: reading rows of numbers as vectors; \
                     use --format words to read lines as words"
                ));
                Format::Csv
            }
            None => Format::Words,
        };
        let invalid = |what: String| Failure::input(format!("{path}: {what}"));
        let read_vectors = |file: Box<dyn BufRead>, format| {
            let rows = vector_file::read(file, format).map_err(invalid)?;
            vectors(rows.values, rows.dimension).map_err(invalid).map(Data::Vectors)
        };
        match format {
            Format::Words => words(file, &path).map(Data::Words),
            Format::Csv => {
                let table =
                    csv::Table { skip_lines: self.skip_lines, skip_columns: self.skip_columns };
                table.read(file, &path, verbosity).map(Data::Vectors)
            }
            Format::Fvecs => read_vectors(file, vector_file::Format::Fvecs),
            Format::Bvecs => read_vectors(file, vector_file::Format::Bvecs),
            Format::Npy => read_vectors(file, vector_file::Format::Npy),
            Format::Idx => read_vectors(file, vector_file::Format::Idx),
        }
    }
}

fn words(file: impl BufRead, path: &str) -> Result<Strings, Failure> {
    let mut words = Strings::default();
    each_line(file, path, |_, word| {
        words.extend([word]);
        Ok(())
    })?;
    Ok(words)
}
