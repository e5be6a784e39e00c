//! Indexes in files, saved with their points.
//!
//! The format is safetensors ([`container`]). A header has the kind of index, the type of points,
//! the version of the format, and a checksum of every array. Files are written atomically, and the
//! same index gives the same bytes. The header also has the name of the metric and some distances,
//! so that a file is refused if it is opened with another metric.
//!
//! Everything in a file is validated when it is opened: no file can make a search panic. Vectors
//! and the table of the SSS-Index use the bytes that were read; other arrays are copied.
//!
//! ```
//! use metric_index::index::{Index, VpTree};
//! use metric_index::metric::{Chebyshev, Euclidean};
//! use metric_index::points::Vectors;
//! use metric_index::stored::{open, save};
//!
//! let plane = Vectors::new(vec![0.0f32, 0.0, 3.0, 4.0, 6.0, 8.0], 2)?;
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("plane.index");
//! save(&VpTree::build(plane, Euclidean)?, &path)?;
//! let tree: VpTree<Vectors<f32>, _> = open(&path, Euclidean)?;
//! assert_eq!(tree.nearest(&[3.0, 3.0], 1)?[0].point, 1);
//! assert!(open::<VpTree<Vectors<f32>, _>>(&path, Chebyshev).is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use bytemuck::Pod;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::index::{Index, Kind};
use crate::metric::Metric;
use crate::points::{Points, Sets, Strings, Vectors};
use array_file::array::Array;
use array_file::container::{self, Container, Dtype, Format, check_checksum};
use array_file::output::Output;
use array_file::{Bytes, FileProblem};

const KEY: &str = "metric-index";
const VERSION: u32 = 1;
const FORMAT: Format = Format { what: "an index", key: KEY, name: KEY, version: VERSION };
/// Number of distances stored to identify the metric.
const DISTANCES: usize = 32;

/// Why an index could not be saved or opened.
///
/// ```
/// use metric_index::stored::describe;
///
/// let error = describe("nowhere".as_ref()).unwrap_err();
/// assert!(error.to_string().starts_with("nowhere: "));
/// ```
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct StoreError {
    /// The path of the file.
    pub path: PathBuf,
    /// What is wrong.
    pub problem: StoreProblem,
}

/// The problem with the file of an index.
///
/// ```
/// use array_file::FileProblem;
/// use metric_index::stored::{StoreProblem, describe};
///
/// let error = describe("nowhere".as_ref()).unwrap_err();
/// assert!(matches!(error.problem, StoreProblem::File(FileProblem::Read(_))));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreProblem {
    /// The file cannot be written or read, does not exist, or is damaged.
    #[error(transparent)]
    File(#[from] FileProblem),
    /// The file is not an index.
    #[error("it is not an index; metric-index build makes one")]
    NoIndex,
    /// The file has an index of another kind.
    #[error("it is {found}, expected {expected}")]
    Kind {
        /// The kind of the file.
        found: String,
        /// The kind requested.
        expected: String,
    },
    /// The index was saved with a metric of another name.
    #[error("it was built with the metric {saved}, not with {given}")]
    MetricName {
        /// The metric that the index was built with.
        saved: String,
        /// The metric that the index was opened with.
        given: String,
    },
    /// Distances differ from those in the file.
    #[error(
        "the distance of points {a} and {b} is {found}, {saved} when it was saved: \
         it is of another metric"
    )]
    Metric {
        /// The first point.
        a: u32,
        /// The second point.
        b: u32,
        /// The distance of the points.
        found: f32,
        /// The distance in the file.
        saved: f32,
    },
    /// The points are not valid for the metric.
    #[error(transparent)]
    Points(#[from] Error),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    format: String,
    version: u32,
    index: String,
    points: String,
    /// The name of the metric, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    metric: Option<String>,
    /// The kind of index with its parameters, as [`Kind`] writes them.
    kind: String,
    numbers: BTreeMap<String, u64>,
    /// The bits of the distances of some pairs of points.
    distances: Vec<u32>,
    checksums: BTreeMap<String, String>,
}

/// A type of values that files can contain.
///
/// ```
/// use metric_index::points::Vectors;
/// use metric_index::stored::{StoredPoints, Value};
///
/// fn can_be_stored<S: StoredPoints>() {}
/// fn vectors<T: Value>() {
///     can_be_stored::<Vectors<T>>();
/// }
/// vectors::<f32>();
/// ```
pub trait Value: Pod + Sync {
    /// The type's name in the format.
    #[doc(hidden)]
    const DTYPE: Dtype;
}

macro_rules! values {
    ($($value:ty: $dtype:ident),*) => {$(
        impl Value for $value {
            const DTYPE: Dtype = Dtype::$dtype;
        }
    )*};
}

values!(u8: U8, u16: U16, u32: U32, u64: U64, f32: F32);

/// The contents of a file to be written, for [`StoredPoints::write`].
#[derive(Debug, Default)]
pub struct FileContents<'a> {
    arrays: Vec<(&'static str, Dtype, Cow<'a, [u8]>)>,
    numbers: BTreeMap<String, u64>,
}

impl<'a> FileContents<'a> {
    /// Adds an array in memory.
    pub fn array<T: Value>(&mut self, name: &'static str, values: &'a [T]) {
        self.arrays.push((name, T::DTYPE, Cow::Borrowed(bytemuck::cast_slice(values))));
    }

    /// Adds an array computed for the file.
    pub fn computed<T: Value>(&mut self, name: &'static str, values: impl IntoIterator<Item = T>) {
        let values: Vec<T> = values.into_iter().collect();
        let bytes = bytemuck::cast_slice(&values).to_vec();
        self.arrays.push((name, T::DTYPE, Cow::Owned(bytes)));
    }

    /// Adds a number.
    pub fn number(&mut self, name: &str, number: u64) {
        self.numbers.insert(name.to_owned(), number);
    }
}

/// A file that is being read, for [`StoredPoints::read`].
#[derive(Debug)]
pub struct Reader {
    file: Container,
    header: Header,
}

/// The problem of an array with invalid values, for [`StoredPoints::read`].
///
/// ```
/// let problem = metric_index::stored::invalid("points.minutes", "1440 is not below 1440");
/// assert!(problem.to_string().contains("1440 is not below 1440"));
/// ```
pub fn invalid(array: &str, what: impl Into<String>) -> StoreProblem {
    FileProblem::invalid(array, what).into()
}

/// Checks the first bytes, so that a large file of another type is not read.
fn begins_as_container(path: &Path) -> io::Result<bool> {
    // Checked before opening, since opening a pipe would wait for its other end.
    let there = path.metadata()?;
    let mut head = [0; 9];
    if !there.is_file() || there.len() < head.len() as u64 {
        return Ok(false);
    }
    let mut file = File::open(path)?;
    file.read_exact(&mut head)?;
    let [length @ .., first] = head;
    Ok(first == b'{' && u64::from_le_bytes(length) <= there.len() - 8)
}

impl Reader {
    fn new(path: &Path) -> Result<Self, StoreProblem> {
        if !begins_as_container(path).map_err(FileProblem::Read)? {
            return Err(StoreProblem::NoIndex);
        }
        let bytes = Bytes::read(path).map_err(FileProblem::Read)?;
        let mut file = Container::new(bytes, FORMAT.what)?;
        let header = file.settings(&FORMAT)?;
        Ok(Self { file, header })
    }

    /// An array, verified by its checksum.
    ///
    /// # Errors
    /// If it is missing, of another type, or damaged.
    pub fn array<T: Value>(&mut self, name: &str) -> Result<Array<T>, StoreProblem> {
        let array: Array<T> = self.file.array(name, T::DTYPE)?;
        let written = self.header.checksums.get(name);
        check_checksum(name, bytemuck::cast_slice(&array), written)?;
        Ok(array)
    }

    /// An array of `count` values.
    ///
    /// # Errors
    /// Those of [`array`](Self::array), or if it has another number of values.
    pub fn array_of<T: Value>(
        &mut self,
        name: &str,
        count: usize,
    ) -> Result<Array<T>, StoreProblem> {
        let array = self.array(name)?;
        if array.len() == count {
            Ok(array)
        } else {
            Err(invalid(name, format!("{} values, expected {count}", array.len())))
        }
    }

    /// The kind of the index, with the parameters that it was built with.
    pub(crate) fn kind(&self) -> Result<Kind, StoreProblem> {
        self.header.kind.parse().map_err(|_| self.wrong_kind())
    }

    /// The problem of a kind that does not belong to this index.
    pub(crate) fn wrong_kind(&self) -> StoreProblem {
        invalid("settings", format!("kind {}", self.header.kind))
    }

    /// A number.
    ///
    /// # Errors
    /// If the file has no number of this name.
    pub fn number(&self, name: &str) -> Result<u64, StoreProblem> {
        let number = self.header.numbers.get(name).copied();
        number.ok_or_else(|| invalid("settings", format!("there is no {name}")))
    }

    /// The maximum number of points of a leaf.
    pub(crate) fn leaf(&self) -> Result<u32, StoreProblem> {
        match self.small("leaf")? {
            0 => Err(invalid("settings", "leaf is 0")),
            leaf => Ok(leaf),
        }
    }

    /// A number that fits into 32 bits.
    ///
    /// # Errors
    /// If the file has no number of this name, or it is too large.
    pub fn small(&self, name: &str) -> Result<u32, StoreProblem> {
        let number = self.number(name)?;
        u32::try_from(number).map_err(|_| invalid("settings", format!("{name} is {number}")))
    }
}

/// Points that can be stored: those of this crate, and user-defined ones.
///
/// ```
/// use metric_index::index::{Index, VpTree};
/// use metric_index::metric::Metric;
/// use metric_index::points::Points;
/// use metric_index::stored::{FileContents, Reader, StoreProblem, StoredPoints};
/// use metric_index::stored::{invalid, open, save};
///
/// /// Times of day, in minutes.
/// struct Times(Vec<u16>);
///
/// impl Points for Times {
///     type Point = u16;
///
///     fn len(&self) -> usize {
///         self.0.len()
///     }
///
///     fn point(&self, number: u32) -> &u16 {
///         &self.0[number as usize]
///     }
/// }
///
/// impl StoredPoints for Times {
///     fn name() -> String {
///         "times of day".to_owned()
///     }
///
///     fn write<'a>(&'a self, contents: &mut FileContents<'a>) {
///         contents.array("points.minutes", &self.0);
///     }
///
///     fn read(file: &mut Reader) -> Result<Self, StoreProblem> {
///         let minutes = file.array::<u16>("points.minutes")?;
///         match minutes.iter().find(|&&minute| minute >= 1_440) {
///             Some(minute) => Err(invalid("points.minutes", format!("{minute} is too large"))),
///             None => Ok(Self(minutes.to_vec())),
///         }
///     }
/// }
///
/// struct Apart;
///
/// impl Metric<u16> for Apart {
///     fn distance(&self, a: &u16, b: &u16) -> f32 {
///         let apart = a.abs_diff(*b);
///         f32::from(apart.min(1_440 - apart))
///     }
///
///     fn relative_error(&self) -> f32 {
///         0.0
///     }
/// }
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("times.index");
/// save(&VpTree::build(Times(vec![10, 700, 1_430]), Apart)?, &path)?;
/// let tree: VpTree<Times, Apart> = open(&path, Apart)?;
/// assert_eq!(tree.nearest(&1_435, 1)?[0].point, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait StoredPoints: Points + Sized {
    /// The name of the points in files. A file whose points have another name is refused.
    fn name() -> String;

    /// Writes the points. Names of arrays and numbers start with `points.`; other names belong to
    /// the index.
    fn write<'a>(&'a self, contents: &mut FileContents<'a>);

    /// Reads what [`write`](Self::write) wrote.
    ///
    /// # Errors
    /// If the file lacks an array or a number, an array is damaged, or the values are invalid.
    /// Checksums do not protect against malicious files, so every value must be validated: no file
    /// may make a search panic.
    fn read(file: &mut Reader) -> Result<Self, StoreProblem>;
}

impl<T: Value> StoredPoints for Vectors<T> {
    fn name() -> String {
        format!("vectors of {:?}", T::DTYPE)
    }

    fn write<'a>(&'a self, contents: &mut FileContents<'a>) {
        contents.number("dimension", self.dimension() as u64);
        contents.array("points.values", self.values());
    }

    fn read(file: &mut Reader) -> Result<Self, StoreProblem> {
        let dimension = file.small("dimension")? as usize;
        Ok(Self::of(file.array("points.values")?, dimension)?)
    }
}

impl StoredPoints for Strings {
    fn name() -> String {
        "strings".to_owned()
    }

    fn write<'a>(&'a self, contents: &mut FileContents<'a>) {
        let (text, ends) = self.parts();
        contents.array("points.text", text.as_bytes());
        contents.computed("points.ends", ends.iter().map(|&end| end as u64));
    }

    fn read(file: &mut Reader) -> Result<Self, StoreProblem> {
        let text = file.array::<u8>("points.text")?;
        let ends = file.array("points.ends")?;
        let text =
            std::str::from_utf8(&text).map_err(|_| invalid("points.text", "it is no UTF-8"))?;
        let ends = ends_of(&ends, text.len(), "points.ends")?;
        if !ends.iter().all(|&end| text.is_char_boundary(end)) {
            return Err(invalid("points.ends", "it cuts a character"));
        }
        Ok(Self::from_parts(text.to_owned(), ends))
    }
}

impl StoredPoints for Sets {
    fn name() -> String {
        "sets".to_owned()
    }

    fn write<'a>(&'a self, contents: &mut FileContents<'a>) {
        let (members, ends) = self.parts();
        contents.array("points.members", members);
        contents.computed("points.ends", ends.iter().map(|&end| end as u64));
    }

    fn read(file: &mut Reader) -> Result<Self, StoreProblem> {
        let members = file.array::<u32>("points.members")?;
        let ends = file.array("points.ends")?;
        let ends = ends_of(&ends, members.len(), "points.ends")?;
        let starts = std::iter::once(0).chain(ends.iter().copied());
        Ok(Self::new(starts.zip(&ends).map(|(start, &end)| &members[start..end]))?)
    }
}

/// Validates the ends of consecutive ranges that cover `length` items.
pub(crate) fn ends_of(
    ends: &[u64],
    length: usize,
    array: &str,
) -> Result<Vec<usize>, StoreProblem> {
    if !ends.is_sorted() || ends.last().copied().unwrap_or(0) != length as u64 {
        return Err(invalid(array, format!("it does not rise to {length}")));
    }
    let end = |&end: &u64| usize::try_from(end).map_err(|_| invalid(array, "it is too long"));
    ends.iter().map(end).collect()
}

/// Checks that no number occurs twice, and that none is missing.
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
            Some(_) => Err(invalid(self.array, format!("it has {number} twice"))),
            None => {
                let count = self.seen.len();
                Err(invalid(self.array, format!("it has {number}, of {count}")))
            }
        }
    }

    /// The number of different numbers so far.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Checks that no number is missing.
    pub(crate) fn is_all(&self) -> Result<(), StoreProblem> {
        match self.seen.iter().position(|seen| !seen) {
            Some(missing) => Err(invalid(self.array, format!("it lacks {missing}"))),
            None => Ok(()),
        }
    }
}

/// Checks that distances are finite and not negative.
pub(crate) fn distances(values: &[f32], array: &str) -> Result<(), StoreProblem> {
    match values.iter().find(|value| !(0.0..f32::INFINITY).contains(*value)) {
        Some(value) => Err(invalid(array, format!("{value} is no distance"))),
        None => Ok(()),
    }
}

/// An index that can be stored.
///
/// ```
/// use metric_index::index::{AnyIndex, VpTree};
/// use metric_index::metric::Edit;
/// use metric_index::points::Strings;
/// use metric_index::stored::StoredIndex;
///
/// fn can_be_stored<I: StoredIndex>() {}
/// can_be_stored::<VpTree<Strings, Edit>>();
/// can_be_stored::<AnyIndex<Strings, Edit>>();
/// ```
pub trait StoredIndex: Index {
    /// The name of the index in files.
    #[doc(hidden)]
    fn name(&self) -> &'static str;

    /// The kind of the index, with its parameters.
    #[doc(hidden)]
    fn kind(&self) -> Kind;

    /// Whether this type reads an index of this name.
    #[doc(hidden)]
    fn reads(name: &str) -> bool;

    #[doc(hidden)]
    fn write<'a>(&'a self, contents: &mut FileContents<'a>);

    #[doc(hidden)]
    fn read(
        file: &mut Reader,
        name: &str,
        points: Self::Points,
        metric: Self::Metric,
    ) -> Result<Self, StoreProblem>;
}

/// The pairs of points whose distances are stored.
fn pairs(count: usize) -> impl Iterator<Item = (u32, u32)> {
    let step = (count / DISTANCES).max(1);
    let number = |point: usize| u32::try_from(point).expect("points are numbered by u32");
    (0..count.min(DISTANCES))
        .map(move |at| (number(at * step), number((at * step + 7 * at + 1) % count)))
}

/// Saves an index with its points, atomically. An example is in [the module](self).
///
/// # Errors
/// If the file cannot be written; an existing file is then unchanged.
///
/// ```
/// use metric_index::index::BruteForce;
/// use metric_index::metric::Edit;
/// use metric_index::points::Strings;
/// use metric_index::stored::save;
///
/// let words: Strings = ["casa", "cosa"].into_iter().collect();
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("words.index");
/// save(&BruteForce::new(words, Edit)?, &path)?;
/// assert!(path.exists());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn save<I: StoredIndex<Points: StoredPoints>>(
    index: &I,
    path: &Path,
) -> Result<(), StoreError> {
    let output = Output::open(path).map_err(|error| StoreError {
        path: error.path,
        problem: FileProblem::from(error.problem).into(),
    })?;
    save_to(index, output)
}

/// Saves an index to an output that was opened before the work began, and commits it.
///
/// # Errors
/// If the file cannot be written; an existing file is then unchanged.
///
/// ```
/// use array_file::output::Output;
/// use metric_index::index::BruteForce;
/// use metric_index::metric::Edit;
/// use metric_index::points::Strings;
/// use metric_index::stored::save_to;
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("words.index");
/// let output = Output::open(&path)?;
/// let words: Strings = ["casa", "cosa"].into_iter().collect();
/// save_to(&BruteForce::new(words, Edit)?, output)?;
/// assert!(path.exists());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn save_to<I: StoredIndex<Points: StoredPoints>>(
    index: &I,
    output: Output,
) -> Result<(), StoreError> {
    let path = output.path().to_owned();
    write(index, output).map_err(|problem| StoreError { path, problem: problem.into() })
}

fn write<I: StoredIndex<Points: StoredPoints>>(
    index: &I,
    output: Output,
) -> Result<(), FileProblem> {
    let mut contents = FileContents::default();
    index.points().write(&mut contents);
    index.write(&mut contents);
    contents.number("nodes", index.nodes() as u64);
    contents.number("answers", index.len() as u64);
    let sum = |(name, _, bytes): &(&'static str, Dtype, Cow<'_, [u8]>)| {
        ((*name).to_owned(), container::checksum(bytes))
    };
    let points = index.points();
    let metric = index.metric();
    let distance = |(a, b)| metric.distance(points.point(a), points.point(b)).to_bits();
    let header = Header {
        format: KEY.to_owned(),
        version: VERSION,
        index: index.name().to_owned(),
        points: I::Points::name(),
        metric: index.metric().name(),
        kind: index.kind().to_string(),
        numbers: contents.numbers,
        distances: pairs(points.len()).map(distance).collect(),
        checksums: contents.arrays.iter().map(sum).collect(),
    };
    let arrays =
        contents.arrays.iter().map(|(name, dtype, bytes)| (*name, *dtype, &**bytes)).collect();
    let json = serde_json::to_string(&header).map_err(FileProblem::Settings)?;
    Ok(container::write_to(output, KEY, json, arrays)?)
}

/// Opens a [saved](save) index. An example is in [the module](self).
///
/// # Errors
/// If the file cannot be read, is damaged, or has another version, another kind of index or points,
/// or another metric.
///
/// ```
/// use metric_index::index::BruteForce;
/// use metric_index::metric::Edit;
/// use metric_index::points::Strings;
/// use metric_index::stored::{open, save};
///
/// let words: Strings = ["casa", "cosa"].into_iter().collect();
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("words.index");
/// save(&BruteForce::new(words, Edit)?, &path)?;
/// let index: BruteForce<Strings, Edit> = open(&path, Edit)?;
/// assert_eq!(metric_index::index::Index::len(&index), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn open<I: StoredIndex<Points: StoredPoints>>(
    path: &Path,
    metric: I::Metric,
) -> Result<I, StoreError> {
    read(path, metric).map_err(|problem| StoreError { path: path.to_owned(), problem })
}

fn read<I: StoredIndex<Points: StoredPoints>>(
    path: &Path,
    metric: I::Metric,
) -> Result<I, StoreProblem> {
    let mut file = Reader::new(path)?;
    let index = file.header.index.clone();
    let points = file.header.points.clone();
    let expected = I::Points::name();
    if points != expected {
        return Err(StoreProblem::Kind { found: format!("an index of {points}"), expected });
    }
    if !I::reads(&index) {
        let expected = "an index of another kind".to_owned();
        return Err(StoreProblem::Kind { found: index, expected });
    }
    if let (Some(saved), Some(given)) = (file.header.metric.clone(), metric.name())
        && saved != given
    {
        return Err(StoreProblem::MetricName { saved, given });
    }
    let points = I::Points::read(&mut file)?;
    crate::index::check(&points, &metric)?;
    let saved = std::mem::take(&mut file.header.distances);
    if saved.len() != points.len().min(DISTANCES) {
        return Err(invalid("settings", "distances are missing"));
    }
    for ((a, b), saved) in pairs(points.len()).zip(saved) {
        let found = metric.distance(points.point(a), points.point(b));
        if found.to_bits() != saved {
            return Err(StoreProblem::Metric { a, b, found, saved: f32::from_bits(saved) });
        }
    }
    I::read(&mut file, &index, points, metric)
}

/// The information that a file has about its index.
///
/// ```
/// use metric_index::index::BruteForce;
/// use metric_index::metric::Edit;
/// use metric_index::points::Strings;
/// use metric_index::stored::{describe, save};
///
/// let words: Strings = ["casa", "cosa"].into_iter().collect();
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("words.index");
/// save(&BruteForce::new(words, Edit)?, &path)?;
/// assert_eq!(describe(&path)?.points, "strings");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// The kind of index.
    pub index: String,
    /// The kind with its parameters, such as `lc:64`.
    pub kind: String,
    /// The type of points.
    pub points: String,
    /// The name of the metric, if it has one.
    pub metric: Option<String>,
    /// The dimension, if the points are vectors.
    pub dimension: Option<u64>,
    /// Other numbers in the file.
    pub numbers: BTreeMap<String, u64>,
}

/// Reads the information that a file has about its index, without opening the index.
///
/// # Errors
/// If the file cannot be read, is not an index, or has another version.
///
/// ```
/// use metric_index::index::BruteForce;
/// use metric_index::metric::Edit;
/// use metric_index::points::Strings;
/// use metric_index::stored::{describe, save};
///
/// let words: Strings = ["casa", "cosa"].into_iter().collect();
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("words.index");
/// save(&BruteForce::new(words, Edit)?, &path)?;
/// let found = describe(&path)?;
/// assert_eq!((found.index.as_str(), found.numbers["answers"]), ("brute-force", 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn describe(path: &Path) -> Result<Description, StoreError> {
    let header = Reader::new(path).map(|reader| reader.header);
    let header = header.map_err(|problem| StoreError { path: path.to_owned(), problem })?;
    let mut numbers = header.numbers;
    let dimension = numbers.remove("dimension");
    // The bits of a float, which are meaningless to a reader.
    numbers.remove("scale");
    let Header { index, kind, points, metric, .. } = header;
    Ok(Description { index, kind, points, metric, dimension, numbers })
}
