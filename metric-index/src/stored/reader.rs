//! Reads index files and checks their contents.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use array_file::array::Array;
use array_file::container::{Container, Format, check_checksum};
use array_file::{Bytes, FileProblem};
use serde::{Deserialize, Serialize};

use super::contents::Value;
use crate::error::Error;
use crate::index::Kind;

pub(super) const KEY: &str = "metric-index";
pub(super) const VERSION: u32 = 1;
const FORMAT: Format = Format { what: "an index", key: KEY, name: KEY, version: VERSION };

/// A problem with an index file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreProblem {
    /// The file cannot be written or read, does not exist, or is damaged.
    #[error(transparent)]
    File(#[from] FileProblem),
    /// The file is not an index.
    #[error("it is not an index; `metric-index build` creates one")]
    NoIndex,
    /// The file contains a different kind of index.
    #[error("it is {found}, expected {expected}")]
    Kind {
        /// The kind that the file contains.
        found: String,
        /// The kind requested.
        expected: String,
    },
    /// The index was saved with a metric of a different name.
    #[error("it was built with the metric {saved}, not with {given}")]
    MetricName {
        /// The metric with which the index was built.
        saved: String,
        /// The metric with which the index was opened.
        given: String,
    },
    /// A distance differs from the distance in the file.
    #[error(
        "the distance between points {a} and {b} is {found}, but the file contains {saved}: \
        it was built with another metric"
    )]
    Metric {
        /// The first point.
        a: u32,
        /// The second point.
        b: u32,
        /// The distance between the points.
        found: f32,
        /// The distance in the file.
        saved: f32,
    },
    /// The points are not valid for the metric.
    #[error(transparent)]
    Points(#[from] Error),
}

/// The JSON header of an index file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header {
    pub(super) format: String,
    pub(super) version: u32,
    pub(super) index: String,
    pub(super) points: String,
    /// The name of the metric, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) metric: Option<String>,
    /// The kind of index with its parameters, as [`Kind`] writes them.
    pub(super) kind: String,
    pub(super) numbers: BTreeMap<String, u64>,
    /// The bits of the distances of some pairs of points.
    pub(super) distances: Vec<u32>,
    pub(super) checksums: BTreeMap<String, String>,
}

/// A file that is being read, for [`StoredPoints::read`](super::StoredPoints::read).
#[derive(Debug)]
pub struct Reader {
    file: Container,
    pub(super) header: Header,
}

/// Creates the error for an array with invalid values, for
/// [`StoredPoints::read`](super::StoredPoints::read).
///
/// ```
/// let problem = metric_index::stored::invalid("points.minutes", "1440 is not below 1440");
/// assert!(problem.to_string().contains("1440 is not below 1440"));
/// ```
pub fn invalid(array: &str, what: impl Into<String>) -> StoreProblem {
    FileProblem::invalid(array, what).into()
}

/// Checks the first bytes of a file, so that a large file of a different type is not read.
fn begins_as_container(path: &Path) -> io::Result<bool> {
    // Check the file type before opening, because opening a pipe blocks until its other end is
    // opened.
    let metadata = path.metadata()?;
    let mut head = [0; 9];
    if !metadata.is_file() || metadata.len() < head.len() as u64 {
        return Ok(false);
    }
    let mut file = File::open(path)?;
    file.read_exact(&mut head)?;
    let [length @ .., first] = head;
    Ok(first == b'{' && u64::from_le_bytes(length) <= metadata.len() - 8)
}

impl Reader {
    pub(super) fn new(path: &Path) -> Result<Self, StoreProblem> {
        if !begins_as_container(path).map_err(FileProblem::Read)? {
            return Err(StoreProblem::NoIndex);
        }
        let bytes = Bytes::read(path).map_err(FileProblem::Read)?;
        let mut file = Container::new(bytes, FORMAT.what)?;
        let header = file.settings(&FORMAT)?;
        Ok(Self { file, header })
    }

    /// Reads an array and verifies its checksum.
    ///
    /// # Errors
    /// Fails if the array is missing, damaged, or of a different type.
    pub fn array<T: Value>(&mut self, name: &str) -> Result<Array<T>, StoreProblem> {
        let array: Array<T> = self.file.array(name, T::DTYPE)?;
        let stored = self.header.checksums.get(name);
        check_checksum(name, bytemuck::cast_slice(&array), stored)?;
        Ok(array)
    }

    /// Reads an array of `count` values.
    ///
    /// # Errors
    /// Fails like [`array`](Self::array), or if the number of values differs.
    pub fn array_of<T: Value>(
        &mut self,
        name: &str,
        count: usize,
    ) -> Result<Array<T>, StoreProblem> {
        let array = self.array(name)?;
        check_length(name, array, count)
    }

    /// Reads an array of distances, which must be finite and not negative.
    pub(crate) fn distances(&mut self, name: &str) -> Result<Array<f32>, StoreProblem> {
        let array = self.array::<f32>(name)?;
        match array.iter().find(|value| !(0.0..f32::INFINITY).contains(*value)) {
            Some(value) => Err(invalid(name, format!("{value} is not a distance"))),
            None => Ok(array),
        }
    }

    /// Reads an array of `count` [`distances`](Self::distances).
    pub(crate) fn distances_of(
        &mut self,
        name: &str,
        count: usize,
    ) -> Result<Array<f32>, StoreProblem> {
        let array = self.distances(name)?;
        check_length(name, array, count)
    }

    /// Reads an array that contains each number below `count` exactly once.
    pub(crate) fn permutation(
        &mut self,
        name: &str,
        count: usize,
    ) -> Result<Array<u32>, StoreProblem> {
        let array = self.array_of(name, count)?;
        check_permutation(&array, count, name)?;
        Ok(array)
    }

    /// Returns the kind of the index with its parameters.
    pub(super) fn kind(&self) -> Result<Kind, StoreProblem> {
        let kind = self.header.kind.parse::<Kind>().ok();
        let kind = kind.filter(|kind| kind.name() == self.header.index);
        kind.ok_or_else(|| self.wrong_kind())
    }

    /// Returns the error for a kind that does not match this index.
    pub(crate) fn wrong_kind(&self) -> StoreProblem {
        invalid("settings", format!("kind {}", self.header.kind))
    }

    /// Returns the number with the given name.
    ///
    /// # Errors
    /// Fails if the file has no number with this name.
    pub fn number(&self, name: &str) -> Result<u64, StoreProblem> {
        let number = self.header.numbers.get(name).copied();
        number.ok_or_else(|| invalid("settings", format!("there is no {name}")))
    }

    /// Reads the maximum number of points per leaf.
    pub(crate) fn leaf_size(&self) -> Result<u32, StoreProblem> {
        match self.small("leaf")? {
            0 => Err(invalid("settings", "leaf is 0")),
            leaf => Ok(leaf),
        }
    }

    /// Reads a number that fits in 32 bits.
    ///
    /// # Errors
    /// Fails if the file has no number with this name, or if the number is too large.
    pub fn small(&self, name: &str) -> Result<u32, StoreProblem> {
        let number = self.number(name)?;
        u32::try_from(number).map_err(|_| invalid("settings", format!("{name} is {number}")))
    }
}

/// Checks the number of values of an array.
fn check_length<T: Value>(
    name: &str,
    array: Array<T>,
    count: usize,
) -> Result<Array<T>, StoreProblem> {
    if array.len() == count {
        Ok(array)
    } else {
        Err(invalid(name, format!("{} values, expected {count}", array.len())))
    }
}

/// Checks that `numbers` contains each number below `count` exactly once.
pub(crate) fn check_permutation(
    numbers: &[u32],
    count: usize,
    array: &str,
) -> Result<(), StoreProblem> {
    let mut distinct = DistinctNumbers::of(array, count);
    numbers.iter().try_for_each(|&number| distinct.check(number))?;
    distinct.check_complete()
}

/// Validates and converts the ends of consecutive ranges that cover `length` items.
pub(crate) fn validate_ends(
    ends: &[u64],
    length: usize,
    array: &str,
) -> Result<Vec<usize>, StoreProblem> {
    if !ends.is_sorted() || ends.last().copied().unwrap_or(0) != length as u64 {
        return Err(invalid(array, format!("it does not increase to {length}")));
    }
    let end = |&end: &u64| usize::try_from(end).map_err(|_| invalid(array, "it is too long"));
    ends.iter().map(end).collect()
}

/// A check that the numbers of an array are distinct and below `count`.
#[derive(Debug)]
pub(crate) struct DistinctNumbers<'a> {
    array: &'a str,
    seen: Vec<bool>,
    count: usize,
}

impl<'a> DistinctNumbers<'a> {
    pub(crate) fn of(array: &'a str, count: usize) -> Self {
        Self { array, seen: vec![false; count], count: 0 }
    }

    pub(crate) fn check(&mut self, number: u32) -> Result<(), StoreProblem> {
        match self.seen.get_mut(number as usize) {
            Some(seen) if !*seen => {
                *seen = true;
                self.count += 1;
                Ok(())
            }
            Some(_) => Err(invalid(self.array, format!("{number} occurs twice"))),
            None => {
                let count = self.seen.len();
                Err(invalid(self.array, format!("{number} is not below {count}")))
            }
        }
    }

    /// Returns how many numbers have been checked so far.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Checks that no number is missing.
    pub(crate) fn check_complete(&self) -> Result<(), StoreProblem> {
        match self.seen.iter().position(|seen| !seen) {
            Some(missing) => Err(invalid(self.array, format!("{missing} is missing"))),
            None => Ok(()),
        }
    }
}
