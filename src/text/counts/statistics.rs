//! Term statistics of a whole corpus, which give its segments consistent weights.

use crate::rows::strings::{Strings, StringsBuilder};

/// The corpus statistics that weighting needs: the terms, their document frequencies, and the
/// number and mean length of the documents.
///
/// If a corpus is counted in segments, the frequencies of the segments are added.
/// [`Counts::under`](super::Counts::under) then gives the documents of each segment the same
/// weights, bit for bit, as in the whole corpus.
///
/// ```
/// use classify::text::counts::CorpusStatistics;
///
/// let whole = CorpusStatistics::new(&["bread", "guitar"], vec![2, 1], 2, 1.5)?;
/// assert_eq!(whole.documents(), 2);
/// assert!(CorpusStatistics::new(&["bread"], vec![3], 2, 1.5).is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone)]
pub struct CorpusStatistics {
    pub(super) terms: Strings,
    pub(super) document_frequencies: Vec<u32>,
    pub(super) documents: u64,
    pub(super) mean_length: f64,
}

/// The size of the whole corpus, of which the counted documents are a segment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CorpusSize {
    pub(crate) documents: u64,
    pub(crate) mean_length: f64,
}

impl CorpusStatistics {
    /// Creates statistics from the terms in byte order, their document frequencies, the number of
    /// documents, and the mean number of these terms per document, with repetitions.
    ///
    /// # Errors
    /// If terms are out of order, the numbers of terms and frequencies differ, a frequency is 0 or
    /// above the number of documents, or the mean is negative or not finite. The error describes
    /// the problem.
    pub fn new<S: AsRef<str>>(
        terms: &[S],
        document_frequencies: Vec<u32>,
        documents: u64,
        mean_length: f64,
    ) -> Result<Self, String> {
        if let Some(index) =
            (1..terms.len()).find(|&index| terms[index - 1].as_ref() >= terms[index].as_ref())
        {
            return Err(format!("term {index} is out of order"));
        }
        if terms.len() != document_frequencies.len() {
            let frequencies = document_frequencies.len();
            return Err(format!("{} terms, but {frequencies} document frequencies", terms.len()));
        }
        if let Some(&df) =
            document_frequencies.iter().find(|&&df| df == 0 || u64::from(df) > documents)
        {
            return Err(format!("a document frequency is {df}, expected 1 to {documents}"));
        }
        if !(mean_length.is_finite() && mean_length >= 0.0) {
            return Err(format!("the mean length is {mean_length}"));
        }
        let mut builder = StringsBuilder::default();
        for term in terms {
            builder.push(term.as_ref());
        }
        Ok(Self { terms: builder.build(), document_frequencies, documents, mean_length })
    }

    /// The number of documents.
    pub fn documents(&self) -> u64 {
        self.documents
    }
}

/// The frequency of a term in a segment of a corpus.
#[derive(Debug, Clone, PartialEq)]
pub struct TermFrequency {
    /// The term.
    pub term: String,
    /// The number of documents that contain the term.
    pub documents: u32,
    /// The number of occurrences, each multiplied by the boost of its field.
    pub occurrences: f64,
}
