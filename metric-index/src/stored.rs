//! Indexes in files: saved with their points, opened by mapping the file into memory.
//!
//! A file is a safetensors file ([`container`]) with a header that says what it is (its kind
//! of index, its points, the version of the format) and has a checksum of every array. It is written whole or
//! not at all; the same index gives the same bytes. The metric is not in it, but some distances are: a file that
//! is opened with another metric is refused.
//!
//! What is opened is checked: nothing of it can make a search panic. Vectors and the table of the SSS-Index stay in
//! the file; the rest is read.
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
use std::io;
use std::path::{Path, PathBuf};

use bytemuck::Pod;
use serde::{Deserialize, Serialize};

use crate::array::Array;
use crate::container::{self, Container, ContainerProblem, Dtype};
use crate::error::Error;
use crate::index::Index;
use crate::metric::Metric;
use crate::points::{Points, Sets, Strings, Vectors};

const KEY: &str = "metric-index";
const VERSION: u32 = 2;
/// How many distances are kept to know the metric by.
const DISTANCES: usize = 32;

/// Why an index cannot be saved or opened.
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
    /// The file.
    pub path: PathBuf,
    /// What is wrong.
    pub problem: StoreProblem,
}

/// What is wrong with a file of an index.
///
/// ```
/// use metric_index::stored::{StoreProblem, describe};
///
/// let error = describe("nowhere".as_ref()).unwrap_err();
/// assert!(matches!(error.problem, StoreProblem::Io { doing: "read", .. }));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreProblem {
    /// It cannot be read or written.
    #[error("cannot {doing} it: {source}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// It is no such file, or a damaged one.
    #[error("it is no index, or it is damaged: {0}")]
    Damaged(#[from] ContainerProblem),
    /// It was written by another version.
    #[error("it has version {found} of the format, this program reads {VERSION}")]
    Version {
        /// Its version.
        found: u32,
    },
    /// It is an index of another kind.
    #[error("it is {found}, expected {expected}")]
    Kind {
        /// What it is.
        found: String,
        /// What was asked for.
        expected: String,
    },
    /// Distances differ from those that it was saved with.
    #[error(
        "the distance of points {a} and {b} is {found}, {saved} when it was saved: it is of another metric"
    )]
    Metric {
        /// A point.
        a: u32,
        /// Another.
        b: u32,
        /// Their distance.
        found: f32,
        /// What it was.
        saved: f32,
    },
    /// Its points are none of the metric's space.
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
    numbers: BTreeMap<String, u64>,
    /// The bits of distances of some pairs of points.
    distances: Vec<u32>,
    checksums: BTreeMap<String, String>,
}

/// A type of values that files have.
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
    /// Its name in the format.
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

/// What is put into a file.
#[derive(Debug, Default)]
pub struct Parts<'a> {
    arrays: Vec<(&'static str, Dtype, Cow<'a, [u8]>)>,
    numbers: BTreeMap<String, u64>,
}

impl<'a> Parts<'a> {
    /// An array, as it lies in memory.
    pub(crate) fn array<T: Value>(&mut self, name: &'static str, values: &'a [T]) {
        self.arrays.push((name, T::DTYPE, Cow::Borrowed(bytemuck::cast_slice(values))));
    }

    /// An array that is made for the file.
    pub(crate) fn made<T: Value>(
        &mut self,
        name: &'static str,
        values: impl IntoIterator<Item = T>,
    ) {
        let values: Vec<T> = values.into_iter().collect();
        let bytes = bytemuck::cast_slice(&values).to_vec();
        self.arrays.push((name, T::DTYPE, Cow::Owned(bytes)));
    }

    pub(crate) fn number(&mut self, name: &str, number: u64) {
        self.numbers.insert(name.to_owned(), number);
    }
}

/// A file that is read.
#[derive(Debug)]
pub struct Reader {
    file: Container,
    header: Header,
}

/// What is wrong with the values of an array.
pub(crate) fn invalid(array: &str, what: impl Into<String>) -> StoreProblem {
    ContainerProblem::Invalid { array: array.to_owned(), what: what.into() }.into()
}

impl Reader {
    fn new(path: &Path) -> Result<Self, StoreProblem> {
        let map = Container::map(path);
        let map = map.map_err(|source| StoreProblem::Io { doing: "read", source })?;
        let mut file = Container::new(map)?;
        let json = file.json(KEY)?;
        let damaged = |error: serde_json::Error| ContainerProblem::Damaged(error.to_string());
        let value: serde_json::Value = serde_json::from_str(&json).map_err(damaged)?;
        let version = value.get("version").and_then(serde_json::Value::as_u64);
        if version != Some(u64::from(VERSION)) {
            let found = version.and_then(|version| u32::try_from(version).ok()).unwrap_or(0);
            return Err(StoreProblem::Version { found });
        }
        file.check_json(&json)?;
        let header: Header = serde_json::from_value(value).map_err(damaged)?;
        Ok(Self { file, header })
    }

    /// An array, whose checksum is looked at.
    pub(crate) fn array<T: Value>(&mut self, name: &str) -> Result<Array<T>, StoreProblem> {
        let array: Array<T> = self.file.array(name, T::DTYPE)?;
        let sum = container::checksum(bytemuck::cast_slice(&array));
        if self.header.checksums.get(name) == Some(&sum) {
            Ok(array)
        } else {
            Err(invalid(name, "its checksum differs: it is damaged"))
        }
    }

    /// An array of as many values as another.
    pub(crate) fn array_of<T: Value>(
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

    pub(crate) fn number(&self, name: &str) -> Result<u64, StoreProblem> {
        let number = self.header.numbers.get(name).copied();
        number.ok_or_else(|| invalid("settings", format!("there is no {name}")))
    }

    pub(crate) fn small(&self, name: &str) -> Result<u32, StoreProblem> {
        let number = self.number(name)?;
        u32::try_from(number).map_err(|_| invalid("settings", format!("{name} is {number}")))
    }
}

/// Points that can be stored.
///
/// ```
/// use metric_index::points::{Sets, Strings, Vectors};
/// use metric_index::stored::StoredPoints;
///
/// fn can_be_stored<S: StoredPoints>() {}
/// can_be_stored::<Strings>();
/// can_be_stored::<Sets>();
/// can_be_stored::<Vectors<u8>>();
/// ```
pub trait StoredPoints: Points + Sized {
    /// What they are called in files.
    #[doc(hidden)]
    fn name() -> String;

    #[doc(hidden)]
    fn write<'a>(&'a self, parts: &mut Parts<'a>);

    #[doc(hidden)]
    fn read(file: &mut Reader) -> Result<Self, StoreProblem>;
}

impl<T: Value> StoredPoints for Vectors<T> {
    fn name() -> String {
        format!("vectors of {:?}", T::DTYPE)
    }

    fn write<'a>(&'a self, parts: &mut Parts<'a>) {
        parts.number("dimension", self.dimension() as u64);
        parts.array("points.values", self.values());
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

    fn write<'a>(&'a self, parts: &mut Parts<'a>) {
        let (text, ends) = self.parts();
        parts.array("points.text", text.as_bytes());
        parts.made("points.ends", ends.iter().map(|&end| end as u64));
    }

    fn read(file: &mut Reader) -> Result<Self, StoreProblem> {
        let (text, ends) = (file.array::<u8>("points.text")?, file.array("points.ends")?);
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

    fn write<'a>(&'a self, parts: &mut Parts<'a>) {
        let (members, ends) = self.parts();
        parts.array("points.members", members);
        parts.made("points.ends", ends.iter().map(|&end| end as u64));
    }

    fn read(file: &mut Reader) -> Result<Self, StoreProblem> {
        let (members, ends) = (file.array::<u32>("points.members")?, file.array("points.ends")?);
        let ends = ends_of(&ends, members.len(), "points.ends")?;
        let starts = std::iter::once(0).chain(ends.iter().copied());
        Ok(Self::new(starts.zip(&ends).map(|(start, &end)| &members[start..end]))?)
    }
}

/// Where things end that lie one after the other in something of a length.
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

/// Numbers of points, each once: checks that they are.
#[derive(Debug)]
pub(crate) struct Once<'a> {
    array: &'a str,
    seen: Vec<bool>,
    count: usize,
}

impl<'a> Once<'a> {
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

    /// How many there were.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn is_all(&self) -> Result<(), StoreProblem> {
        match self.seen.iter().position(|seen| !seen) {
            Some(missing) => Err(invalid(self.array, format!("it lacks {missing}"))),
            None => Ok(()),
        }
    }
}

/// Distances are finite and not negative.
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
/// use metric_index::stored::Stored;
///
/// fn can_be_stored<I: Stored>() {}
/// can_be_stored::<VpTree<Strings, Edit>>();
/// can_be_stored::<AnyIndex<Strings, Edit>>();
/// ```
pub trait Stored: Index {
    /// What it is called in files.
    #[doc(hidden)]
    fn name(&self) -> &'static str;

    /// Whether an index of that name is of this type.
    #[doc(hidden)]
    fn reads(name: &str) -> bool;

    #[doc(hidden)]
    fn write<'a>(&'a self, parts: &mut Parts<'a>);

    #[doc(hidden)]
    fn read(
        file: &mut Reader,
        name: &str,
        points: Self::Points,
        metric: Self::Metric,
    ) -> Result<Self, StoreProblem>;
}

/// Pairs of points whose distances are kept.
fn pairs(count: usize) -> impl Iterator<Item = (u32, u32)> {
    let step = (count / DISTANCES).max(1);
    let number = |point: usize| u32::try_from(point).unwrap_or(0);
    (0..count.min(DISTANCES))
        .map(move |at| (number(at * step), number((at * step + 7 * at + 1) % count)))
}

/// Saves an index with its points: whole or not at all.
///
/// # Errors
/// If the file cannot be written; it is then as it was.
///
/// An example is in [the module](self).
///
/// ```
/// use metric_index::index::BruteForce;
/// use metric_index::metric::Edit;
/// use metric_index::points::Strings;
/// use metric_index::stored::{save};
///
/// let words: Strings = ["casa", "cosa"].into_iter().collect();
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("words.index");
/// save(&BruteForce::new(words, Edit)?, &path)?;
/// assert!(path.exists());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn save<I: Stored<Points: StoredPoints>>(index: &I, path: &Path) -> Result<(), StoreError> {
    let mut parts = Parts::default();
    index.points().write(&mut parts);
    index.write(&mut parts);
    parts.number("nodes", index.nodes() as u64);
    parts.number("answers", index.len() as u64);
    let sum = |(name, _, bytes): &(&'static str, Dtype, Cow<'_, [u8]>)| {
        ((*name).to_owned(), container::checksum(bytes))
    };
    let (points, metric) = (index.points(), index.metric());
    let distance = |(a, b)| metric.distance(points.point(a), points.point(b)).to_bits();
    let header = Header {
        format: KEY.to_owned(),
        version: VERSION,
        index: index.name().to_owned(),
        points: I::Points::name(),
        numbers: parts.numbers,
        distances: pairs(points.len()).map(distance).collect(),
        checksums: parts.arrays.iter().map(sum).collect(),
    };
    let arrays =
        parts.arrays.iter().map(|(name, dtype, bytes)| (*name, *dtype, &**bytes)).collect();
    let json = serde_json::to_string(&header).map_err(io::Error::other);
    json.and_then(|json| container::write(path, KEY, json, arrays)).map_err(|source| {
        let problem = StoreProblem::Io { doing: "write", source };
        StoreError { path: path.to_owned(), problem }
    })
}

/// Opens an index that was [saved](save).
///
/// # Errors
/// If the file cannot be read, is damaged, of another version, of another kind of index or points, or of
/// another metric.
///
/// An example is in [the module](self).
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
pub fn open<I: Stored<Points: StoredPoints>>(
    path: &Path,
    metric: I::Metric,
) -> Result<I, StoreError> {
    read(path, metric).map_err(|problem| StoreError { path: path.to_owned(), problem })
}

fn read<I: Stored<Points: StoredPoints>>(
    path: &Path,
    metric: I::Metric,
) -> Result<I, StoreProblem> {
    let mut file = Reader::new(path)?;
    let (index, points) = (file.header.index.clone(), file.header.points.clone());
    let expected = I::Points::name();
    if points != expected {
        return Err(StoreProblem::Kind { found: format!("an index of {points}"), expected });
    }
    if !I::reads(&index) {
        let expected = "an index of another kind".to_owned();
        return Err(StoreProblem::Kind { found: index, expected });
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

/// What a file holds, without opening it.
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
    /// What its points are.
    pub points: String,
    /// Values of a vector; none of what is no vector.
    pub dimension: Option<u64>,
    /// Its other numbers.
    pub numbers: BTreeMap<String, u64>,
}

/// What a file holds, without opening it.
///
/// # Errors
/// If it cannot be read, or is no index, or of another version.
///
/// An example is at [`Description`].
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
    Ok(Description { index: header.index, points: header.points, dimension, numbers })
}
