//! When to stop labeling: how the share of right labels grows with the number of documents.
//!
//! Each document of a model (or of a sample) is held out, and predicted by random subsets of the
//! others: an eighth, a quarter, half, and all of them. A power law, error = a · n^(−c), is fitted
//! to the errors of the three largest sizes (Cortes et al. 1994 use it for the same purpose). It
//! gives what more documents would add. The interval comes from drawing the held-out documents
//! with replacement.
//!
//! Only the documents of the subsets vote. Term weights and tuned settings are those of the whole
//! model, and label prototypes are not used.

use std::num::NonZeroUsize;

use libm::{log, pow};
use serde::Serialize;

use crate::classifier::{Classifier, ClassifyOptions, DocumentVectors, FoundNeighbors, TermUse};
use crate::random::{Random, unit};
use crate::rows::matrix::{Csr, CsrBuilder};
use crate::search::{Allow, Request, RowRange, RowSet, SearchError};

/// The share of right labels of models with fewer documents.
#[derive(Debug, Clone, Serialize)]
pub struct LearningCurve {
    /// From few documents to all documents of the model.
    pub points: Vec<CurvePoint>,
    /// The numbers of labels of each held-out document at each point.
    #[serde(skip)]
    held_out: Vec<[Counts; DIVISORS.len()]>,
}

/// A point of a learning curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CurvePoint {
    /// The number of documents that vote.
    pub documents: u64,
    /// The share of right labels on held-out documents, from 0 to 1: micro F1, which is the
    /// accuracy if documents have one label.
    pub right: f64,
}

/// What more documents are expected to add.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Gain {
    /// The share of the errors that they would avoid, from 0 to 1.
    pub share: f64,
    /// The 95 % interval of the share.
    pub interval: [f64; 2],
}

/// The numbers of right, predicted and given labels, over several subsets.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    right: f64,
    predicted: f64,
    given: f64,
}

/// The number of all documents, divided by the number of those that vote.
const DIVISORS: [u32; 4] = [8, 4, 2, 1];
/// Index of the first divisor to which the power law is fitted.
const FITTED: usize = 1;
/// Number of random subsets of each size.
const SUBSETS: u64 = 3;
/// Maximum number of held-out documents.
const HELD_OUT: usize = 2_000;
/// Minimum number of documents for a curve.
const MIN_DOCUMENTS: usize = 50;
/// Number of draws for an interval.
const DRAWS: usize = 500;

impl LearningCurve {
    /// Computes the learning curve of a model. `None` if it has fewer than 50 documents with labels
    /// or searches only dense vectors.
    ///
    /// # Errors
    /// Fails if the search fails.
    pub fn of(classifier: &Classifier, seed: u64) -> Result<Option<Self>, SearchError> {
        let model = classifier.model();
        let count = u32::try_from(model.ids().len()).unwrap_or(u32::MAX);
        let labeled: Vec<u32> =
            (0..count).filter(|&row| !model.document_labels(row).is_empty()).collect();
        if labeled.len() < MIN_DOCUMENTS || classifier.searchers().terms.is_none() {
            return Ok(None);
        }
        let drawn = Random::new(seed).sample(labeled.len(), HELD_OUT);
        let rows: Vec<u32> = drawn.into_iter().map(|at| labeled[at as usize]).collect();
        let mut held_out = vec![[Counts::default(); DIVISORS.len()]; rows.len()];
        for (point, divisor) in DIVISORS.into_iter().enumerate() {
            let subsets = if divisor > 1 { SUBSETS } else { 1 };
            for subset in 0..subsets {
                let draw =
                    |row: u32| unit(seed ^ (subset + 1), row.into()) * f64::from(divisor) < 1.0;
                let only = RowSet::from_fn(count, draw);
                let found = predictions(classifier, &rows, &only)?;
                for (counts, found) in held_out.iter_mut().zip(found) {
                    counts[point].add(found, 1.0 / subsets as f64);
                }
            }
        }
        let all: Vec<usize> = (0..held_out.len()).collect();
        let rights = shares_right(&held_out, &all);
        let points = DIVISORS.into_iter().zip(rights).map(|(divisor, right)| CurvePoint {
            documents: labeled.len() as u64 / u64::from(divisor),
            right,
        });
        Ok(Some(Self { points: points.collect(), held_out }))
    }

    /// The share of right labels with all documents.
    pub fn right(&self) -> f64 {
        self.points.last().map_or(0.0, |point| point.right)
    }

    /// Returns what `more` labeled documents like those of the model are expected to add.
    pub fn gain(&self, more: u64, seed: u64) -> Gain {
        let documents = self.points.last().map_or(1, |point| point.documents.max(1)) as f64;
        let growth = (documents + more as f64) / documents;
        let share = |sample: &[usize]| avoided(&shares_right(&self.held_out, sample), growth);
        let all: Vec<usize> = (0..self.held_out.len()).collect();
        let mut random = Random::new(seed);
        let size = all.len();
        let mut drawn: Vec<f64> = (0..DRAWS)
            .map(|_| {
                let at = |_| random.below(size);
                share(&(0..size).map(at).collect::<Vec<usize>>())
            })
            .collect();
        drawn.sort_by(f64::total_cmp);
        let interval = [drawn[DRAWS / 40], drawn[DRAWS - 1 - DRAWS / 40]];
        Gain { share: share(&all), interval }
    }
}

/// Returns the share of the errors that are avoided when the number of documents grows by a factor.
fn avoided(rights: &[f64; DIVISORS.len()], growth: f64) -> f64 {
    let points = || DIVISORS.into_iter().zip(rights).skip(FITTED);
    // A share of 1 has no logarithm of its error.
    if points().any(|(_, right)| *right >= 1.0) {
        return 0.0;
    }
    let logarithms =
        || points().map(|(divisor, right)| (-log(f64::from(divisor)), log(1.0 - right)));
    let count = (DIVISORS.len() - FITTED) as f64;
    let mean_x = logarithms().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = logarithms().map(|(_, y)| y).sum::<f64>() / count;
    let covariance: f64 = logarithms().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let variance: f64 = logarithms().map(|(x, _)| (x - mean_x) * (x - mean_x)).sum();
    // More documents never count as a loss.
    let exponent = (covariance / variance).min(0.0);
    1.0 - pow(growth, exponent)
}

/// Returns the share of right labels of some held-out documents at each point.
fn shares_right(held_out: &[[Counts; DIVISORS.len()]], sample: &[usize]) -> [f64; DIVISORS.len()] {
    std::array::from_fn(|point| {
        let mut all = Counts::default();
        for &at in sample {
            all.add(held_out[at][point], 1.0);
        }
        let labels = all.predicted + all.given;
        if labels == 0.0 { 0.0 } else { 2.0 * all.right / labels }
    })
}

impl Counts {
    fn add(&mut self, other: Self, factor: f64) {
        self.right += factor * other.right;
        self.predicted += factor * other.predicted;
        self.given += factor * other.given;
    }
}

/// Predicts documents of a model from a subset of its other documents.
fn predictions(
    classifier: &Classifier,
    rows: &[u32],
    only: &RowSet,
) -> Result<Vec<Counts>, SearchError> {
    let model = classifier.model();
    let mut options = ClassifyOptions { dense_share: 0.0, ..classifier.options() };
    options.vote.prototypes = 0.0;
    options.abstention = None;
    options.novelty = None;
    options.k = options.k.min(NonZeroUsize::new(only.count()).unwrap_or(NonZeroUsize::MIN));
    let mut builder = CsrBuilder::default();
    for &row in rows {
        let (terms, weights) = model.document_terms(row);
        builder.push_slices(terms, weights);
    }
    let queries: Csr = builder.build(model.vocabulary().len());
    let itself: Vec<RowRange> = rows.iter().map(|&row| RowRange::around(row, 0)).collect();
    let mut found = FoundNeighbors::default();
    if let Some(engine) = &classifier.searchers().terms {
        let request = Request::new(&queries, options.k);
        let allow = Allow::all().only(only).except_range(&itself);
        let _ = engine.search(&request.among(allow), &mut found.terms)?;
    }
    let uses = vec![TermUse { known: 1, unknown: 0 }; rows.len()];
    let vectors = DocumentVectors { rows: queries, terms: uses, dense: None };
    let predictions = classifier.predict_from_neighbors(&vectors, &found, &options);
    let counts = predictions.iter().zip(rows).map(|(prediction, &row)| {
        let given = model.document_labels(row);
        let right = prediction.labels.iter().filter(|label| given.contains(label)).count();
        Counts {
            right: right as f64,
            predicted: prediction.labels.len() as f64,
            given: given.len() as f64,
        }
    });
    Ok(counts.collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::learn::Trainer;
    use crate::text::corpus::Document;
    use crate::threads::Threads;

    /// Documents of one frequent word of their label, and of words that say nothing.
    fn classifier(count: usize, words: usize) -> Classifier {
        let mut random = Random::new(1);
        let documents = (0..count).map(|n| {
            let label = ["food", "music"][n % 2];
            let mut draw = |of: usize| random.below(of);
            let text = format!("{label}{} {label}{} noise{}", draw(words), draw(words), draw(9));
            Document::text(n.to_string(), text).labels([label])
        });
        let trained = Trainer::builder().build().train(documents).unwrap();
        let threads = Threads::new(NonZeroUsize::MIN).unwrap();
        Classifier::new(Arc::new(trained.model), &threads).unwrap()
    }

    #[test]
    fn more_documents_are_better() {
        let curve = LearningCurve::of(&classifier(400, 150), 0).unwrap().unwrap();
        let documents: Vec<u64> = curve.points.iter().map(|point| point.documents).collect();
        assert_eq!(documents, [50, 100, 200, 400]);
        assert!(curve.points.is_sorted_by(|a, b| a.right < b.right), "{curve:?}");
        let gain = curve.gain(400, 0);
        assert!(gain.interval[0] <= gain.share && gain.share <= gain.interval[1], "{gain:?}");
        assert!(gain.share > 0.1 && gain.share < 1.0, "{gain:?}");
        assert!(curve.gain(100, 0).share < gain.share);
        // The estimate is near what more documents really add.
        let more = LearningCurve::of(&classifier(800, 150), 0).unwrap().unwrap();
        let expected = curve.right() + (1.0 - curve.right()) * gain.share;
        assert!((more.right() - expected).abs() < 0.05, "{} {expected}", more.right());
    }

    #[test]
    fn few_documents_have_no_curve() {
        assert!(LearningCurve::of(&classifier(40, 5), 0).unwrap().is_none());
    }
}
