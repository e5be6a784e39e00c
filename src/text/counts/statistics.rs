//! What a corpus says about its terms, so that its parts can be weighted alike.

use crate::rows::strings::{Strings, StringsBuilder};

/// The terms of a corpus, how many of its documents have each, and the number and mean length of
/// its documents: everything that weighting needs to know of the whole corpus.
///
/// Where a corpus is counted in parts, the frequencies of the parts are added. Documents that are
/// trained [under](super::Counts::under) the sum get the same weights, to the bit, as if they were
/// all trained together.
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

/// The size of the whole corpus, of which the counted documents are a part.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Whole {
    pub(crate) documents: u64,
    pub(crate) mean_length: f64,
}

impl CorpusStatistics {
    /// The statistics of a corpus: its terms in byte order, the number of documents with each, the
    /// number of documents and their mean number of these terms, with repetitions.
    ///
    /// # Errors
    /// A description of the problem: terms out of order, a frequency that is 0 or above the number
    /// of documents, or a mean that is negative or not finite.
    pub fn new<S: AsRef<str>>(
        terms: &[S],
        document_frequencies: Vec<u32>,
        documents: u64,
        mean_length: f64,
    ) -> Result<Self, String> {
        if let Some(at) = (1..terms.len()).find(|&at| terms[at - 1].as_ref() >= terms[at].as_ref())
        {
            return Err(format!("term {at} is out of order"));
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

/// How often a part of a corpus has a term.
#[derive(Debug, Clone, PartialEq)]
pub struct TermFrequency {
    /// The term.
    pub term: String,
    /// The number of documents that have it.
    pub documents: u32,
    /// How often they have it; titles count as often as their boost says.
    pub occurrences: f64,
}
