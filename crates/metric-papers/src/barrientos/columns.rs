//! Points and queries as the kernels read them: values of points in columns, queries one after another.

use metric_index::gpu::Alphabet;
use metric_index::points::Points;

/// Bytes of a query of words: its length, then its characters.
pub(super) const WORD_BYTES: usize = 65;

/// Points that these searches take.
pub trait InColumns {
    /// Points in an order, in columns; `None` if they are not taken.
    #[doc(hidden)]
    fn columns<S: Points<Point = Self>>(points: &S, order: &[u32]) -> Option<Columns>;

    /// Queries; `None` if one is not taken.
    #[doc(hidden)]
    fn rows<S: Points<Point = Self>>(queries: &S, like: &Like<'_>) -> Option<Rows>;
}

/// Points in columns.
#[doc(hidden)]
#[derive(Debug)]
pub enum Columns {
    Vectors { values: Vec<f32>, dimension: u32 },
    Words { characters: Vec<u8>, lengths: Vec<u8>, longest: u32, alphabet: Box<Alphabet> },
}

/// What queries have to be like.
#[doc(hidden)]
#[derive(Debug)]
pub enum Like<'a> {
    Vectors(u32),
    Words(&'a Alphabet),
}

/// Queries, one after another.
#[doc(hidden)]
#[derive(Debug)]
pub enum Rows {
    Vectors(Vec<f32>),
    Words(Vec<u8>),
}

impl InColumns for [f32] {
    fn columns<S: Points<Point = [f32]>>(points: &S, order: &[u32]) -> Option<Columns> {
        let dimension = order.first().map_or(0, |&first| points.point(first).len());
        let mut values = vec![0.0; order.len() * dimension];
        for (place, &number) in order.iter().enumerate() {
            let point = points.point(number);
            if point.len() != dimension {
                return None;
            }
            for (i, &value) in point.iter().enumerate() {
                values[i * order.len() + place] = value;
            }
        }
        Some(Columns::Vectors { values, dimension: u32::try_from(dimension).ok()? })
    }

    fn rows<S: Points<Point = [f32]>>(queries: &S, like: &Like<'_>) -> Option<Rows> {
        let Like::Vectors(dimension) = *like else { return None };
        let mut values = Vec::with_capacity(queries.len() * dimension as usize);
        for query in 0..u32::try_from(queries.len()).ok()? {
            let query = queries.point(query);
            let is_taken = query.len() == dimension as usize && query.iter().all(|x| x.is_finite());
            is_taken.then(|| values.extend_from_slice(query))?;
        }
        Some(Rows::Vectors(values))
    }
}

impl InColumns for str {
    fn columns<S: Points<Point = Self>>(points: &S, order: &[u32]) -> Option<Columns> {
        u32::try_from(points.len()).ok()?;
        let alphabet = Alphabet::of_words(points);
        let word = |&number: &u32| alphabet.encode(points.point(number));
        let words: Vec<Vec<u8>> = order.iter().map(word).collect();
        let lengths = words.iter().map(|word| u8::try_from(word.len()).ok());
        let lengths: Vec<u8> = lengths.collect::<Option<_>>()?;
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let mut characters = vec![0; usize::from(longest) * words.len()];
        for (place, word) in words.iter().enumerate() {
            for (i, &code) in word.iter().enumerate() {
                characters[i * words.len() + place] = code;
            }
        }
        let (longest, alphabet) = (longest.into(), Box::new(alphabet));
        Some(Columns::Words { characters, lengths, longest, alphabet })
    }

    fn rows<S: Points<Point = Self>>(queries: &S, like: &Like<'_>) -> Option<Rows> {
        let Like::Words(alphabet) = like else { return None };
        let mut rows = vec![0; queries.len() * WORD_BYTES];
        for (query, row) in (0..).zip(rows.chunks_mut(WORD_BYTES)) {
            let own = alphabet.encode_query(queries.point(query), WORD_BYTES - 1)?;
            row[0] = u8::try_from(own.len()).ok()?;
            row[1..=own.len()].copy_from_slice(&own);
        }
        Some(Rows::Words(rows))
    }
}
