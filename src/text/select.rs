//! Term selection: keeps the terms that are most informative about the labels.
//!
//! A term's value is the maximum over all labels of
//!
//! * `chi2`: χ² of the contingency table of term and label,
//!   N (AD − BC)² / ((A + B)(C + D)(A + C)(B + D)), as in the k-nearest-neighbor runs of Lewis,
//!   Yang, Rose and Li (2004);
//! * `information-gain`: the mutual information of term and label, in bits
//!
//! where A is the number of documents with both, B with only the term, C with only the label, and D
//! with neither. Terms in fewer than 5 documents rank below all other terms, because their values
//! are mostly noise: in a document with a unique label, every unique word is a perfect predictor.
//! Ties are broken by the order of the vocabulary.

use std::fmt;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::str::FromStr;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::rows::powers::power;
use crate::text::counts::Counts;
use crate::text::tfidf::Weighting;
use crate::threads::Threads;

/// A measure of how informative a term is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Criterion {
    /// χ².
    Chi2,
    /// Mutual information.
    InformationGain,
}

/// A term selection, which keeps the terms with the highest values.
///
/// ```
/// use classify::text::select::Selection;
/// let selection: Selection = "chi2:2000".parse().unwrap();
/// assert_eq!(selection.terms.get(), 2000);
/// assert_eq!(selection.to_string(), "chi2:2000");
/// assert!("chi2:0".parse::<Selection>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Selection {
    /// The measure of how informative a term is.
    pub criterion: Criterion,
    /// The number of terms to keep.
    pub terms: NonZeroUsize,
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.criterion {
            Criterion::Chi2 => "chi2",
            Criterion::InformationGain => "information-gain",
        };
        write!(f, "{name}:{}", self.terms)
    }
}

impl FromStr for Selection {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, terms) = text.split_once(':').unwrap_or((text, ""));
        let criterion = match name {
            "chi2" => Some(Criterion::Chi2),
            "information-gain" => Some(Criterion::InformationGain),
            _ => None,
        };
        criterion
            .zip(terms.parse().ok())
            .map(|(criterion, terms)| Self { criterion, terms })
            .ok_or_else(|| {
                format!("`{text}` is not a selection such as chi2:2000 or information-gain:5000")
            })
    }
}

impl Selection {
    /// Returns the counts of the selected terms.
    #[must_use]
    pub fn apply(self, counts: Counts, threads: &Threads) -> Counts {
        let postings = Postings::of(&counts);
        let scores = TermScores::new(&counts, &postings, self.criterion, threads, &|_| true);
        counts.keep(&scores.best(self.terms))
    }
}

impl From<Selection> for String {
    fn from(selection: Selection) -> Self {
        selection.to_string()
    }
}

impl TryFrom<String> for Selection {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// A contingency table of a term and a label.
#[derive(Debug, Clone, Copy)]
struct Table {
    both: f64,
    term: f64,
    label: f64,
    documents: f64,
}

impl Table {
    fn chi2(self) -> f64 {
        let Self { both, term, label, documents } = self;
        let b = term - both;
        let c = label - both;
        let d = documents - term - label + both;
        let margins = term * (documents - term) * label * (documents - label);
        let difference = both * d - b * c;
        if margins > 0.0 { documents * (difference * difference) / margins } else { 0.0 }
    }

    fn information(self) -> f64 {
        let Self { both, term, label, documents } = self;
        let cell_information = |cell: f64, row: f64, column: f64| {
            if cell > 0.0 {
                cell / documents * (libm::log2(cell * documents) - libm::log2(row * column))
            } else {
                0.0
            }
        };
        cell_information(both, term, label)
            + cell_information(term - both, term, documents - label)
            + cell_information(label - both, documents - term, label)
            + cell_information(documents - term - label + both, documents - term, documents - label)
    }

    fn value(self, criterion: Criterion) -> f64 {
        match criterion {
            Criterion::Chi2 => self.chi2(),
            Criterion::InformationGain => self.information(),
        }
    }
}

/// The minimum document frequency of a term with a reliable value. Rarer terms are kept only if all
/// other terms are kept.
const MIN_DOCUMENTS: u32 = 5;

/// The values of all terms, computed from the labels of a subset of the documents.
#[derive(Debug)]
pub(crate) struct TermScores {
    /// The maximum value of each term over all labels.
    values: Vec<f64>,
    /// Whether fewer than [`MIN_DOCUMENTS`] documents in the subset contain each term.
    is_rare: Vec<bool>,
    /// The number of documents in the subset.
    documents: u32,
}

impl TermScores {
    /// Computes the values of all terms from the labels of the documents for which `is_in` returns
    /// true.
    pub(crate) fn new(
        counts: &Counts,
        postings: &Postings,
        criterion: Criterion,
        threads: &Threads,
        is_in: &(dyn Fn(u32) -> bool + Sync),
    ) -> Self {
        let mut documents = 0u32;
        let mut sizes = vec![0u32; counts.label_names.len()];
        for row in (0u32..).take(counts.documents()).filter(|&row| is_in(row)) {
            documents += 1;
            for &label in counts.labels(row as usize) {
                sizes[label as usize] += 1;
            }
        }
        let mut labels_by_size: Vec<u32> = (0..).take(sizes.len()).collect();
        labels_by_size.sort_by_key(|&label| std::cmp::Reverse(sizes[label as usize]));
        let scratch = || (vec![0u32; sizes.len()], Vec::new());
        let score_terms = |(cooccurrences, touched_labels): &mut (Vec<u32>, Vec<u32>),
                           terms: Range<usize>| {
            let score_term = |term| {
                let rows = &postings.rows[postings.starts[term]..postings.starts[term + 1]];
                let mut df = 0u32;
                for &row in rows.iter().filter(|&&row| is_in(row)) {
                    df += 1;
                    for &label in counts.labels(row as usize) {
                        if cooccurrences[label as usize] == 0 {
                            touched_labels.push(label);
                        }
                        cooccurrences[label as usize] += 1;
                    }
                }
                // Among the labels that never occur with the term, the most frequent one has the
                // highest value.
                let absent =
                    labels_by_size.iter().find(|&&label| cooccurrences[label as usize] == 0);
                let value = |&label: &u32| {
                    let table = Table {
                        both: f64::from(cooccurrences[label as usize]),
                        term: f64::from(df),
                        label: f64::from(sizes[label as usize]),
                        documents: f64::from(documents),
                    };
                    table.value(criterion)
                };
                let value = touched_labels.iter().chain(absent).map(value).fold(0.0, f64::max);
                for label in touched_labels.drain(..) {
                    cooccurrences[label as usize] = 0;
                }
                (value, df < MIN_DOCUMENTS)
            };
            terms.map(score_term).unzip::<_, _, Vec<_>, Vec<_>>()
        };
        let count = counts.vocabulary.len();
        let starts = (0..count).into_par_iter().step_by(TERMS_PER_TASK);
        let score_terms = starts.map_init(scratch, |scratch, start| {
            score_terms(scratch, start..(start + TERMS_PER_TASK).min(count))
        });
        let scored: Vec<(Vec<f64>, Vec<bool>)> = threads.run(|| score_terms.collect());
        let mut values = Vec::with_capacity(count);
        let mut is_rare = Vec::with_capacity(count);
        for (task_values, task_is_rare) in scored {
            values.extend(task_values);
            is_rare.extend(task_is_rare);
        }
        Self { values, is_rare, documents }
    }

    /// Marks the terms with the `max` highest scores.
    pub(crate) fn best(&self, max: NonZeroUsize) -> Vec<bool> {
        // χ² and mutual information never exceed the number of documents.
        let penalty = |is_rare: bool| if is_rare { f64::from(self.documents) + 1.0 } else { 0.0 };
        let scores = self.values.iter().zip(&self.is_rare);
        let values: Vec<f64> = scores.map(|(value, &is_rare)| value - penalty(is_rare)).collect();
        mark_highest(&values, max.get())
    }

    /// Returns (χ² / N)^`exponent` of each term.
    fn powers(&self, exponent: f64) -> impl Iterator<Item = f64> {
        let documents = f64::from(self.documents.max(1));
        self.values.iter().map(move |value| power(value / documents, exponent))
    }
}

/// The documents that contain each term.
#[derive(Debug)]
pub(crate) struct Postings {
    starts: Vec<usize>,
    rows: Vec<u32>,
}

impl Postings {
    pub(crate) fn of(counts: &Counts) -> Self {
        let (starts, rows) = counts.postings();
        Self { starts, rows }
    }
}

/// The number of terms per task.
const TERMS_PER_TASK: usize = 1_024;

/// Returns the factor of each term that does not depend on the document: the idf, multiplied by the
/// χ² factor if `scores` are given.
pub(crate) fn term_weights(
    counts: &Counts,
    weighting: Weighting,
    scores: Option<&TermScores>,
) -> Vec<f64> {
    let documents = counts.whole.map_or(counts.documents() as u64, |whole| whole.documents);
    let frequencies = Frequencies { of_terms: counts.vocabulary.document_frequencies(), documents };
    frequencies.term_weights(weighting, scores)
}

/// Like [`term_weights`], with scores from the labels of all documents.
pub(crate) fn all_term_weights(
    counts: &Counts,
    weighting: Weighting,
    threads: &Threads,
) -> Vec<f64> {
    let scores = needs_scores(counts, weighting).then(|| {
        let postings = Postings::of(counts);
        TermScores::new(counts, &postings, Criterion::Chi2, threads, &|_| true)
    });
    term_weights(counts, weighting, scores.as_ref())
}

/// Returns whether a weighting depends on the labels. It does not if there are no labels.
pub(crate) fn needs_scores(counts: &Counts, weighting: Weighting) -> bool {
    weighting.chi2_power() > 0.0 && !counts.label_names.is_empty()
}

/// The document frequencies of terms.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frequencies<'a> {
    /// The number of documents that contain each term.
    pub(crate) of_terms: &'a [u32],
    pub(crate) documents: u64,
}

impl Frequencies<'_> {
    /// Like [`term_weights`], with these frequencies. A term that no document contains has the
    /// factor 0.
    pub(crate) fn term_weights(
        self,
        weighting: Weighting,
        scores: Option<&TermScores>,
    ) -> Vec<f64> {
        let idf = |&df: &u32| if df == 0 { 0.0 } else { weighting.idf(df, self.documents) };
        let mut weights: Vec<f64> = self.of_terms.iter().map(idf).collect();
        if let Some(scores) = scores {
            let powers = scores.powers(weighting.chi2_power());
            weights.iter_mut().zip(powers).for_each(|(weight, power)| *weight *= power);
        }
        weights
    }
}

/// Marks the `count` highest values. Ties are broken in favor of lower indices.
fn mark_highest(values: &[f64], count: usize) -> Vec<bool> {
    let mut kept = vec![count >= values.len(); values.len()];
    if count > 0 && count < values.len() {
        let mut order: Vec<usize> = (0..values.len()).collect();
        let by_rank = |&a: &usize, &b: &usize| values[b].total_cmp(&values[a]).then(a.cmp(&b));
        order.select_nth_unstable_by(count - 1, by_rank);
        for &term in &order[..count] {
            kept[term] = true;
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with scipy's `chi2_contingency` without correction and scikit-learn's
    /// `mutual_info_score`.
    #[test]
    fn tables_match_scipy_and_sklearn() {
        let golden = include_str!("../../tests/golden/tuning.json");
        let golden: serde_json::Value = serde_json::from_str(golden).unwrap();
        let tables = golden["tables"].as_array().unwrap();
        assert!(tables.len() >= 20);
        for golden in tables {
            let number = |key: &str| golden[key].as_f64().unwrap();
            let [both, term, label, documents] = ["both", "term", "label", "documents"].map(number);
            let table = Table { both, term, label, documents };
            assert!((table.chi2() - number("chi2")).abs() < 1e-9, "{table:?}");
            assert!((table.information() - number("information")).abs() < 1e-9, "{table:?}");
        }
    }

    #[test]
    fn tables_computed_by_hand() {
        let table = Table { both: 30.0, term: 40.0, label: 50.0, documents: 100.0 };
        assert!((table.chi2() - 100.0 * 1_000.0f64 * 1_000.0 / 6e6).abs() < 1e-9);
        let independent = Table { both: 20.0, term: 40.0, label: 50.0, documents: 100.0 };
        assert!(independent.chi2().abs() < 1e-12 && independent.information().abs() < 1e-12);
        let identical = Table { both: 50.0, term: 50.0, label: 50.0, documents: 100.0 };
        assert!(
            (identical.information() - 1.0).abs() < 1e-12
                && (identical.chi2() - 100.0).abs() < 1e-9
        );
    }

    #[test]
    fn ties_keep_the_first() {
        assert_eq!(mark_highest(&[1.0, 2.0, 1.0, 1.0], 3), [true, true, true, false]);
        assert_eq!(mark_highest(&[1.0], 3), [true]);
    }

    #[test]
    fn the_highest_values_come_first_when_sorted() {
        let values = [0.5, -1.0, 0.5, 2.0, 0.5, f64::INFINITY, -1.0, 0.5];
        for count in 0..10 {
            let mut order: Vec<usize> = (0..values.len()).collect();
            order.sort_by(|&a, &b| values[b].total_cmp(&values[a]));
            let mut expected = [false; 8];
            order.iter().take(count).for_each(|&term| expected[term] = true);
            assert_eq!(mark_highest(&values, count), expected, "{count}");
        }
        assert!(mark_highest(&[], 3).is_empty());
    }
}
