//! The layout of points and queries for the kernels: points in columns, queries in rows.

use metric_index::gpu::Alphabet;
use metric_index::points::Points;

/// Size of a word as a query, in bytes: its length, then up to 64 characters.
pub(super) const WORD_BYTES: usize = 65;

/// A type of point that the searches support.
pub trait KernelPoint {
    /// Returns points in columns, in the given order; `None` if the points are not supported.
    #[doc(hidden)]
    fn columns<S: Points<Point = Self>>(points: &S, order: &[u32]) -> Option<Columns>;

    /// Returns queries in rows; `None` if a query is not supported.
    #[doc(hidden)]
    fn rows<S: Points<Point = Self>>(queries: &S, format: &QueryFormat<'_>) -> Option<Rows>;
}

/// Points in columns.
#[doc(hidden)]
#[derive(Debug)]
pub enum Columns {
    Vectors { values: Vec<f32>, dimension: u32 },
    Words { characters: Vec<u8>, lengths: Vec<u8>, longest: u32, alphabet: Box<Alphabet> },
}

/// The format of queries that matches the points.
#[doc(hidden)]
#[derive(Debug)]
pub enum QueryFormat<'a> {
    Vectors(u32),
    Words(&'a Alphabet),
}

/// Queries in rows.
#[doc(hidden)]
#[derive(Debug)]
pub enum Rows {
    Vectors(Vec<f32>),
    Words(Vec<u8>),
}

impl KernelPoint for [f32] {
    fn columns<S: Points<Point = [f32]>>(points: &S, order: &[u32]) -> Option<Columns> {
        let dimension = order.first().map_or(0, |&first| points.point(first).len());
        let mut values = vec![0.0; order.len() * dimension];
        for (position, &number) in order.iter().enumerate() {
            let point = points.point(number);
            if point.len() != dimension {
                return None;
            }
            for (i, &value) in point.iter().enumerate() {
                values[i * order.len() + position] = value;
            }
        }
        Some(Columns::Vectors { values, dimension: u32::try_from(dimension).ok()? })
    }

    fn rows<S: Points<Point = [f32]>>(queries: &S, format: &QueryFormat<'_>) -> Option<Rows> {
        let QueryFormat::Vectors(dimension) = *format else { return None };
        let mut values = Vec::with_capacity(queries.len() * dimension as usize);
        for query in 0..u32::try_from(queries.len()).ok()? {
            let query = queries.point(query);
            let is_supported =
                query.len() == dimension as usize && query.iter().all(|x| x.is_finite());
            is_supported.then(|| values.extend_from_slice(query))?;
        }
        Some(Rows::Vectors(values))
    }
}

impl KernelPoint for str {
    fn columns<S: Points<Point = Self>>(points: &S, order: &[u32]) -> Option<Columns> {
        u32::try_from(points.len()).ok()?;
        let alphabet = Alphabet::of_words(points);
        let word = |&number: &u32| alphabet.encode(points.point(number));
        let words: Vec<Vec<u8>> = order.iter().map(word).collect();
        let lengths = words.iter().map(|word| u8::try_from(word.len()).ok());
        let lengths: Vec<u8> = lengths.collect::<Option<_>>()?;
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let mut characters = vec![0; usize::from(longest) * words.len()];
        for (position, word) in words.iter().enumerate() {
            for (i, &code) in word.iter().enumerate() {
                characters[i * words.len() + position] = code;
            }
        }
        Some(Columns::Words {
            characters,
            lengths,
            longest: longest.into(),
            alphabet: Box::new(alphabet),
        })
    }

    fn rows<S: Points<Point = Self>>(queries: &S, format: &QueryFormat<'_>) -> Option<Rows> {
        let QueryFormat::Words(alphabet) = format else { return None };
        let mut rows = vec![0; queries.len() * WORD_BYTES];
        for (query, row) in (0..).zip(rows.chunks_mut(WORD_BYTES)) {
            let word = alphabet.encode_query(queries.point(query), WORD_BYTES - 1)?;
            row[0] = u8::try_from(word.len()).ok()?;
            row[1..=word.len()].copy_from_slice(&word);
        }
        Some(Rows::Words(rows))
    }
}
