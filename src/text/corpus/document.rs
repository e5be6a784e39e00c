//! Documents and the checks of their content.

use std::borrow::Cow;
use std::collections::HashSet;

use super::error::{CorpusError, Problem};
use super::label_cell::normalized_label;
use super::place::Place;
use crate::rows::dense::MAX_ABS_VALUE;

/// A document: its content and its metadata from the corpus.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// The identifier from the corpus, or the number of the record in its corpus, from 1.
    pub id: String,
    /// The content to classify.
    pub content: Content,
    /// Zero or more labels, without duplicates, in the corpus's order.
    pub labels: Vec<String>,
    /// The weight of the document's vote, which is finite and above 0. The default is 1.
    pub weight: f32,
    /// The dense vector, if any. Every value is between -1e30 and 1e30.
    pub vector: Option<Vec<f32>>,
    /// The group, if any. While a model is tuned, documents of the same group are never neighbors
    /// of each other.
    pub group: Option<String>,
    /// The place of the document in its corpus.
    pub place: Place,
}

impl Document {
    /// Creates a document from a text, without labels.
    ///
    /// ```
    /// use classify::text::corpus::Document;
    ///
    /// let document = Document::text("a", "bake the bread").labels(["cooking", "baking"]);
    /// assert_eq!(document.labels, ["cooking", "baking"]);
    /// assert_eq!(document.weight, 1.0);
    /// ```
    pub fn text(id: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            content: Content::Text(text.into()),
            labels: Vec::new(),
            weight: 1.0,
            vector: None,
            group: None,
            place: Place { source: "memory".into(), line: None },
        }
    }

    /// Replaces the labels. Duplicates are removed.
    #[must_use]
    pub fn labels<L: Into<String>>(mut self, labels: impl IntoIterator<Item = L>) -> Self {
        self.labels.clear();
        for label in labels {
            let label = label.into();
            if !self.labels.contains(&label) {
                self.labels.push(label);
            }
        }
        self
    }

    /// Returns a hash of the content and the vector. Ignores white space around a text.
    pub(crate) fn content_hash(&self) -> u64 {
        use std::hash::{BuildHasher, Hash, Hasher};
        let mut hasher = foldhash::quality::FixedState::default().build_hasher();
        match &self.content {
            Content::Text(text) => text.trim().hash(&mut hasher),
            Content::Fields(fields) => fields.hash(&mut hasher),
            Content::Features(features) => {
                for (column, value) in features {
                    (column, value.to_bits()).hash(&mut hasher);
                }
            }
        }
        for value in self.vector.iter().flatten() {
            value.to_bits().hash(&mut hasher);
        }
        hasher.finish()
    }
}

/// Checks the document as if it had been read from a file.
impl From<Document> for Result<Document, CorpusError> {
    fn from(document: Document) -> Self {
        finish(document)
    }
}

/// Copies and checks the document.
impl From<&Document> for Result<Document, CorpusError> {
    fn from(document: &Document) -> Self {
        finish(document.clone())
    }
}

/// The maximum number of labels of a document. The time to learn thresholds grows with each label.
const MAX_LABELS: usize = 10_000;

/// The maximum number of labels for which pairwise comparison is faster than hashing.
const FEW_LABELS: usize = 16;

/// Normalizes the labels, removes duplicates and checks the document.
pub(super) fn finish(mut document: Document) -> Result<Document, CorpusError> {
    for label in &mut document.labels {
        if let Cow::Owned(normalized) = normalized_label(label) {
            *label = normalized;
        } else if label.trim().len() < label.len() {
            *label = label.trim().to_owned();
        }
    }
    if document.labels.len() > MAX_LABELS {
        let found = document.labels.len();
        return Err(Problem::TooManyLabels { found, limit: MAX_LABELS }.at(&document.place));
    }
    if document.labels.iter().any(String::is_empty) {
        return Err(Problem::EmptyLabel.at(&document.place));
    }
    if !(document.weight.is_finite() && document.weight > 0.0) {
        return Err(Problem::BadWeight { found: document.weight.to_string() }.at(&document.place));
    }
    if let Some(Err(problem)) = document.vector.as_deref().map(check_vector) {
        return Err(problem.at(&document.place));
    }
    if let labels @ [_, _, ..] = &*document.labels
        && labels.len() <= FEW_LABELS
        && labels.iter().enumerate().all(|(index, label)| !labels[..index].contains(label))
    {
        return Ok(document);
    }
    if document.labels.len() > 1 {
        let mut seen = HashSet::with_capacity(document.labels.len());
        let first: Vec<bool> = document.labels.iter().map(|label| seen.insert(&**label)).collect();
        let mut first = first.into_iter();
        document.labels.retain(|_| first.next().unwrap_or(true));
    }
    Ok(document)
}

/// The content of a document.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// Running text.
    Text(String),
    /// Running text in several fields, in the order of
    /// [`ReadOptions::text_columns`](super::ReadOptions::text_columns).
    Fields(Vec<String>),
    /// `(column, value)` pairs in strictly increasing order of columns. Every value is finite. See
    /// [`Content::features`].
    Features(Vec<(u32, f32)>),
}

impl Content {
    /// Returns the text, or `None` for features. Nonempty fields are joined by line breaks.
    pub fn text(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Text(text) => Some(Cow::Borrowed(text)),
            Self::Fields(fields) => {
                let fields = fields.iter().map(String::as_str).filter(|field| !field.is_empty());
                Some(Cow::Owned(fields.collect::<Vec<_>>().join("\n")))
            }
            Self::Features(_) => None,
        }
    }
}

/// Checks that columns strictly increase and values are finite, as [`Content::Features`] requires.
///
/// # Errors
/// If a column is out of order or a value is not finite. The error contains the first such column.
pub fn check_features(features: &[(u32, f32)]) -> Result<(), Problem> {
    if let Some(pair) = features.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
        return Err(Problem::ColumnOrder { column: pair[1].0, before: pair[0].0 });
    }
    match features.iter().find(|(_, value)| !value.is_finite()) {
        Some(&(column, value)) => Err(Problem::NotFinite { column, value }),
        None => Ok(()),
    }
}

/// Writes the values of features to a dense vector, whose first value belongs to column
/// `first_column`.
///
/// # Errors
/// If columns do not strictly increase, a column is outside the vector, or a value is not allowed
/// in a vector.
pub(crate) fn add_features(
    features: &[(u32, f32)],
    first_column: u32,
    vector: &mut [f32],
) -> Result<(), Problem> {
    check_features(features)?;
    let expected = vector.len();
    for &(column, value) in features {
        let index = column.checked_sub(first_column).ok_or(Problem::ColumnZero)? as usize;
        let found = index + 1;
        *vector.get_mut(index).ok_or(Problem::VectorDimension { found, expected })? = value;
    }
    check_vector(vector)
}

/// Checks that a dense vector's values are within ± [`MAX_ABS_VALUE`].
///
/// # Errors
/// If a value is outside this range. The error contains the first such value.
pub fn check_vector(vector: &[f32]) -> Result<(), Problem> {
    let fits = |value: &f32| value.abs() <= MAX_ABS_VALUE;
    // Checking all values without an early exit lets the compiler vectorize the loop.
    if vector.iter().fold(true, |all, value| all & fits(value)) {
        return Ok(());
    }
    let invalid = (1..).zip(vector).find(|(_, value)| !fits(value));
    invalid.map_or(Ok(()), |(number, &value)| Err(Problem::VectorValue { number, value }))
}

impl Content {
    /// The number of bytes of text.
    pub fn text_bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Fields(fields) => fields.iter().map(String::len).sum(),
            Self::Features(_) => 0,
        }
    }

    /// Creates content from features.
    ///
    /// # Errors
    /// If columns do not strictly increase or a value is not finite.
    ///
    /// ```
    /// use classify::text::corpus::Content;
    ///
    /// assert!(Content::features(vec![(3, 1.0), (7, 0.5)]).is_ok());
    /// assert!(Content::features(vec![(7, 0.5), (3, 1.0)]).is_err());
    /// assert!(Content::features(vec![(3, f32::NAN)]).is_err());
    /// ```
    pub fn features(features: Vec<(u32, f32)>) -> Result<Self, Problem> {
        check_features(&features)?;
        Ok(Self::Features(features))
    }

    /// Creates content from the texts of several columns: as fields if `are_separate`, otherwise as
    /// the lines of one text.
    pub(super) fn of_columns(mut texts: Vec<String>, are_separate: bool) -> Self {
        match (are_separate, texts.len()) {
            (true, _) => Self::Fields(texts),
            (false, 1) => Self::Text(texts.remove(0)),
            (false, _) => Self::Text(texts.join("\n")),
        }
    }
}
