//! Index files, which contain an index and its points.
//!
//! The format is safetensors ([`container`]). The header contains the kind of index, the type of
//! points, the version of the format, and a checksum of every array. It also contains the name of
//! the metric and some distances, so that opening a file with a different metric fails. Files are
//! written atomically, and the same index gives the same bytes.
//!
//! A file is validated completely when it is opened, so that no file can make a search panic.
//! Vectors and the table of the SSS-Index share the bytes that were read; other arrays are copied.
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

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use array_file::FileProblem;
use array_file::container;
use array_file::output::Output;

use crate::index::{Kind, Space};
use crate::metric::Metric;
use crate::points::Points;

mod contents;
mod index;
mod points;
mod reader;

pub use contents::{FileContents, Value};
pub use index::StoredIndex;
pub use points::StoredPoints;
pub use reader::{Reader, StoreProblem, invalid};

pub(crate) use reader::{DistinctNumbers, check_permutation, validate_ends};

use reader::{Header, KEY, VERSION};

/// Number of distances stored to identify the metric.
const STORED_DISTANCES: usize = 32;

/// An error that occurred while saving or opening an index.
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
    /// The problem.
    pub problem: StoreProblem,
}

/// Returns the pairs of points whose distances are stored.
fn pairs(count: usize) -> impl Iterator<Item = (u32, u32)> {
    let step = (count / STORED_DISTANCES).max(1);
    let number = |point: usize| u32::try_from(point).expect("point numbers have 32 bits");
    (0..count.min(STORED_DISTANCES))
        .map(move |pair| (number(pair * step), number((pair * step + 7 * pair + 1) % count)))
}

fn distance<S: Points>(points: &S, metric: &impl Metric<S::Point>, a: u32, b: u32) -> f32 {
    metric.distance(points.point(a), points.point(b))
}

/// Saves an index with its points, atomically. See the example of [the module](self).
///
/// # Errors
/// Fails if the file cannot be written; an existing file is then unchanged.
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

/// Saves an index to an output that was opened beforehand, and commits the output.
///
/// # Errors
/// Fails if the file cannot be written; an existing file is then unchanged.
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
    let points = index.points();
    let distance = |(a, b)| distance(points, index.metric(), a, b).to_bits();
    let header = Header {
        format: KEY.to_owned(),
        version: VERSION,
        index: index.kind().name().to_owned(),
        points: I::Points::name(),
        metric: index.metric().name(),
        kind: index.kind().to_string(),
        distances: pairs(points.len()).map(distance).collect(),
        checksums: contents.checksums(),
        numbers: contents.numbers,
    };
    let arrays =
        contents.arrays.iter().map(|(name, dtype, bytes)| (*name, *dtype, &**bytes)).collect();
    let json = serde_json::to_string(&header).map_err(FileProblem::Settings)?;
    Ok(container::write_to(output, KEY, json, arrays)?)
}

/// Opens a [saved](save) index. See the example of [the module](self).
///
/// # Errors
/// Fails if the file cannot be read, is damaged, or has a different version, kind of index, type of
/// points or metric.
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
    let points = file.header.points.clone();
    let expected = I::Points::name();
    if points != expected {
        return Err(StoreProblem::Kind { found: format!("an index of {points}"), expected });
    }
    let index = &file.header.index;
    if !Kind::all().iter().any(|kind| kind.name() == index && I::reads(*kind)) {
        let expected = "a different kind of index".to_owned();
        return Err(StoreProblem::Kind { found: index.clone(), expected });
    }
    let kind = file.kind()?;
    if let (Some(saved), Some(given)) = (file.header.metric.clone(), metric.name())
        && saved != given
    {
        return Err(StoreProblem::MetricName { saved, given });
    }
    let space = Space::new(I::Points::read(&mut file)?, metric)?;
    let saved = std::mem::take(&mut file.header.distances);
    if saved.len() != space.points().len().min(STORED_DISTANCES) {
        return Err(invalid("settings", "distances are missing"));
    }
    for ((a, b), saved) in pairs(space.points().len()).zip(saved) {
        let found = distance(space.points(), space.metric(), a, b);
        if found.to_bits() != saved {
            return Err(StoreProblem::Metric { a, b, found, saved: f32::from_bits(saved) });
        }
    }
    I::read(&mut file, kind, space)
}

/// Information from the header of an index file.
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

/// Reads the header of an index file without opening the index.
///
/// # Errors
/// Fails if the file cannot be read, is not an index, or has a different version.
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
    // The scale is stored as the bits of a float, which are meaningless to a reader.
    numbers.remove("scale");
    let Header { index, kind, points, metric, .. } = header;
    Ok(Description { index, kind, points, metric, dimension, numbers })
}
