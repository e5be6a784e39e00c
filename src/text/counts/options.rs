//! Options of counting: the content to count and the terms to keep.

use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;

use super::fields::Fields;
use crate::text::analyze::Analyzer;

/// A limit on the document frequency: a number or a percentage of documents.
///
/// ```
/// use classify::text::counts::DfLimit;
/// assert_eq!("5".parse(), Ok(DfLimit::Count(5)));
/// assert_eq!("50%".parse(), Ok(DfLimit::Share(0.5)));
/// assert!("0.5".parse::<DfLimit>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DfLimit {
    /// A number of documents.
    Count(u32),
    /// A fraction of the documents, from 0 to 1.
    Share(f64),
}

impl DfLimit {
    /// Returns the limit as a number of documents, not rounded.
    pub(super) fn documents(self, total: usize) -> f64 {
        match self {
            Self::Count(count) => f64::from(count),
            Self::Share(share) => share * total as f64,
        }
    }
}

impl FromStr for DfLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let limit = match text.strip_suffix('%') {
            Some(percent) => percent
                .trim()
                .parse::<f64>()
                .ok()
                .filter(|percent| (0.0..=100.0).contains(percent))
                .map(|percent| Self::Share(percent / 100.0)),
            None => text.parse().ok().map(Self::Count),
        };
        limit.ok_or_else(|| format!("`{text}` is neither a count like 5 nor a share like 50%"))
    }
}

impl fmt::Display for DfLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            Self::Share(share) => write!(f, "{}%", share * 100.0),
        }
    }
}

/// Limits on the terms of the vocabulary.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TermLimits {
    /// The minimum document frequency, inclusive.
    pub min_df: DfLimit,
    /// The maximum document frequency, inclusive.
    pub max_df: DfLimit,
    /// The maximum number of terms. The terms with the highest document frequency are kept; ties
    /// are broken by term order.
    pub max_terms: Option<NonZeroUsize>,
}

impl Default for TermLimits {
    fn default() -> Self {
        Self { min_df: DfLimit::Count(1), max_df: DfLimit::Share(1.0), max_terms: None }
    }
}

/// The vote weights of documents by label.
///
/// ```
/// use classify::text::counts::ClassWeights;
/// assert_eq!("balanced".parse(), Ok(ClassWeights::Balanced));
/// assert_eq!("spam:2".parse(), Ok(ClassWeights::Given(vec![("spam".into(), 2.0)])));
/// assert!("spam".parse::<ClassWeights>().is_err());
/// ```
#[derive(Debug, Clone, PartialEq)]
pub enum ClassWeights {
    /// The weight is N / (labels · n) for a label with n of the N documents. All labels have the
    /// same total weight.
    Balanced,
    /// A weight for each of these labels, and 1 for all other labels.
    Given(Vec<(String, f32)>),
}

impl FromStr for ClassWeights {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "balanced" {
            return Ok(Self::Balanced);
        }
        let weight = |part: &str| {
            let (label, weight) = part.rsplit_once(':')?;
            let weight = weight.parse().ok().filter(|weight: &f32| *weight > 0.0);
            let weight = weight.filter(|weight| weight.is_finite() && !label.is_empty())?;
            Some((label.to_owned(), weight))
        };
        let weights: Option<Vec<_>> = text.split(',').map(weight).collect();
        weights
            .map(Self::Given)
            .ok_or_else(|| format!("`{text}` is neither `balanced` nor LABEL:WEIGHT,…"))
    }
}

/// The type of content to count.
#[derive(Debug)]
pub enum Input {
    /// Text, split into terms by an analyzer.
    Text {
        /// The analyzer.
        analyzer: Analyzer,
        /// The fields that are counted separately.
        fields: Fields,
    },
    /// Features. Counts must not be negative.
    Features {
        /// Whether the values are counts, which are weighted later.
        counts: bool,
    },
    /// No terms: the documents are dense vectors.
    Nothing,
}

/// Options of counting.
#[derive(Debug, Clone, Copy)]
pub struct CountOptions<'a> {
    /// The type of content to count.
    pub input: &'a Input,
    /// The limits on the terms of the vocabulary.
    pub limits: TermLimits,
    /// Whether to keep the texts.
    pub keep_text: bool,
}

impl<'a> CountOptions<'a> {
    /// Creates options that keep all terms, but not the texts.
    pub fn new(input: &'a Input) -> Self {
        Self { input, limits: TermLimits::default(), keep_text: false }
    }
}
