//! Dense vectors in a separate file, matched to documents by order or by identifier.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use vector_file::Rows;

use super::document::check_vector;
use super::error::{CorpusError, Problem};
use super::place::Place;
use super::source::{Source, SourceOptions};

/// The dense vectors of a corpus.
#[derive(Debug)]
pub struct VectorsFile {
    rows: Rows,
    name: Arc<str>,
    /// The row of each identifier, or `None` if row `i` belongs to document `i`.
    by_id: Option<HashMap<String, usize>>,
}

impl VectorsFile {
    /// Reads a vector file (`.npy`, `.fvecs`, `.bvecs` or IDX, optionally compressed with gzip)
    /// into memory. Row `i` belongs to the `i`-th document that is read. With `ids`, a file of one
    /// identifier per line, it belongs to the document whose identifier is on line `i`.
    ///
    /// # Errors
    /// If a file cannot be read, an identifier is repeated, or the numbers of identifiers and
    /// vectors differ.
    pub fn read(path: &Path, ids: Option<&Path>) -> Result<Self, CorpusError> {
        let name: Arc<str> = path.to_string_lossy().into();
        let place = Place { source: Arc::clone(&name), line: None };
        let rows = vector_file::open(path).map_err(|error| match error.problem {
            vector_file::Problem::Open(error) => Problem::Io(error).at(&place),
            problem => Problem::VectorFile { what: problem.to_string() }.at(&place),
        })?;
        let by_id = ids.map(|ids| read_ids(ids, &rows, &name)).transpose()?;
        Ok(Self { rows, name, by_id })
    }

    /// The number of values per vector.
    pub fn dimension(&self) -> usize {
        self.rows.dimension
    }

    /// Returns the vector of a document, given its number (counted from 0) and its identifier.
    pub(super) fn vector(&self, number: u64, id: &str) -> Result<Vec<f32>, Problem> {
        let name = &self.name;
        let count = self.rows.len();
        let row = match &self.by_id {
            Some(by_id) => by_id
                .get(id)
                .copied()
                .ok_or_else(|| format!("{name} has no vector for the document `{id}`")),
            None => usize::try_from(number)
                .ok()
                .filter(|&row| row < count)
                .ok_or_else(|| format!("{name} has {count} vectors, but there are more documents")),
        };
        let row = row.map_err(|what| Problem::VectorsFile { what })?;
        let vector = self.rows.row(row).to_vec();
        check_vector(&vector).map_err(|problem| {
            let what = format!("{name}, row {}: {problem}", row + 1);
            Problem::VectorsFile { what }
        })?;
        Ok(vector)
    }

    /// Checks that every vector was used. `read` is the total number of documents. Vectors with
    /// identifiers may remain unused.
    pub(super) fn check_end(&self, read: u64) -> Result<(), CorpusError> {
        let count = self.rows.len();
        if self.by_id.is_some() || count as u64 == read {
            return Ok(());
        }
        let place = Place { source: Arc::clone(&self.name), line: None };
        let what = format!("{count} vectors, but {read} documents");
        Err(Problem::VectorsFile { what }.at(&place))
    }
}

fn read_ids(path: &Path, rows: &Rows, name: &str) -> Result<HashMap<String, usize>, CorpusError> {
    let mut lines = Source::open(path, &SourceOptions::default())?.lines();
    let mut ids = HashMap::new();
    while let Some((place, line)) = lines.next_with_place()? {
        let next = ids.len();
        let what = match ids.insert(line.clone().into_owned(), next) {
            Some(_) => format!("the identifier `{line}` occurs twice"),
            None if next >= rows.len() => {
                format!("more identifiers than the {} vectors of {name}", rows.len())
            }
            None => continue,
        };
        return Err(Problem::VectorsFile { what }.at(&place));
    }
    if ids.len() < rows.len() {
        let what = format!("{} identifiers, but {name} has {} vectors", ids.len(), rows.len());
        let place = Place { source: path.to_string_lossy().into(), line: None };
        return Err(Problem::VectorsFile { what }.at(&place));
    }
    Ok(ids)
}
