//! What a corpus says about its terms, so that its parts can be weighted alike.

use array_file::array::Array;

use super::{Counts, range};
use crate::rows::strings::{Strings, StringsBuilder};
use crate::text::vocabulary::{TermKind, Vocabulary};

/// The terms of a corpus, how many of its documents have each, and the number and mean length of its documents:
/// everything that weighting needs to know of the whole corpus.
///
/// Where a corpus is counted in parts, the frequencies of the parts are added. Documents that are trained
/// [under](Counts::under) the sum get the same weights, to the bit, as if they were all trained together.
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
    terms: Strings,
    document_frequencies: Vec<u32>,
    documents: u64,
    mean_length: f64,
}

/// The size of the whole corpus, of which the counted documents are a part.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Whole {
    pub(crate) documents: u64,
    pub(crate) mean_length: f64,
}

impl CorpusStatistics {
    /// The statistics of a corpus: its terms in byte order, the number of documents with each, the number of documents and
    /// their mean number of these terms, with repetitions.
    ///
    /// # Errors
    /// A description of the problem: terms out of order, a frequency that is 0 or above the number of documents, or a mean
    /// that is negative or not finite.
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
            let (terms, frequencies) = (terms.len(), document_frequencies.len());
            return Err(format!("{terms} terms, but {frequencies} document frequencies"));
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

impl Counts {
    /// The frequencies of all terms, in byte order.
    pub fn term_frequencies(&self, boosts: &[f32]) -> Vec<TermFrequency> {
        let mut occurrences = vec![0.0; self.vocabulary.len()];
        for (at, &term) in self.terms.iter().enumerate() {
            occurrences[term as usize] += f64::from(self.boosted(boosts, at));
        }
        let frequencies = self.vocabulary.document_frequencies();
        let terms = self.vocabulary.terms().iter().zip(frequencies).zip(occurrences);
        let frequency = |((term, &documents), occurrences): ((&str, &u32), f64)| TermFrequency {
            term: term.to_owned(),
            documents,
            occurrences,
        };
        terms.map(frequency).collect()
    }

    /// Whether the documents are features, not texts.
    pub(crate) fn is_of_features(&self) -> bool {
        self.vocabulary.kind() == TermKind::Columns
    }

    /// The same documents with the terms of a whole corpus, of which they are a part. Terms that it does not have are
    /// dropped.
    ///
    /// # Panics
    /// If the documents are features, not texts.
    #[must_use]
    pub fn under(mut self, whole: &CorpusStatistics) -> Self {
        assert_eq!(self.vocabulary.kind(), TermKind::Text, "statistics are of texts");
        let frequencies = Array::from(whole.document_frequencies.clone());
        let vocabulary = Vocabulary::new(TermKind::Text, whole.terms.clone(), frequencies)
            .expect("checked when it was made");
        let new: Vec<Option<u32>> =
            self.vocabulary.terms().iter().map(|term| vocabulary.id(term)).collect();
        let mut indptr = Vec::with_capacity(self.indptr.len());
        indptr.push(0);
        let mut kept = 0;
        for row in 0..self.documents() {
            for at in range(self.indptr[row], self.indptr[row + 1]) {
                if let Some(term) = new[self.terms[at] as usize] {
                    // Both vocabularies are in the same order, so the row stays in order.
                    self.terms[kept] = term;
                    for values in &mut self.values {
                        values[kept] = values[at];
                    }
                    kept += 1;
                }
            }
            indptr.push(kept as u64);
        }
        self.terms.truncate(kept);
        self.values.iter_mut().for_each(|values| values.truncate(kept));
        let whole = Whole { documents: whole.documents, mean_length: whole.mean_length };
        Self { indptr, vocabulary, whole: Some(whole), ..self }
    }
}
