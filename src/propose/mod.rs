//! Proposes which documents to label next.
//!
//! The input is a [`Pool`] of documents without labels, and how uncertain a model is about each of
//! them ([`uncertainty()`]). The output is the documents whose labels would help most.
//!
//! A label settles its document, and in part the documents that are similar to it. Each proposal is
//! made as follows:
//!
//! 1. Two documents are drawn, with a probability proportional to the sixth power of what is left
//!    of their uncertainty.
//! 2. The one with the higher *gain* is proposed: its own uncertainty (to the sixth power), plus a
//!    fifth of that of its nearest documents in the pool, each multiplied by its similarity.
//! 3. What is left of the proposed document is 0. What is left of its nearest documents is reduced
//!    by the share that is their similarity.
//!
//! The proposals are uncertain, typical and different from each other, without copies. This is
//! similar to k-means++ (Arthur and Vassilvitskii 2007), on exact neighbors and with uncertainty.
//! Drawing keeps the labels balanced as they are in the pool: to take the highest gain of all
//! documents was better for 77 clear labels, but worse than random proposals for unclear or
//! lopsided ones (`classify bench active`). Without a model, every document is equally uncertain.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use serde::Serialize;

use crate::classifier::{Classifier, ClassifyOptions, FoundNeighbors, Searchers};
use crate::learn::{TrainError, TrainOptions, Trainer};
use crate::model::{InputSpec, Model};
use crate::random::Random;
use crate::search::Neighbor;
use crate::text::corpus::Document;
use crate::text::tfidf::Side;

mod expected_right;
mod learning_curve;
mod uncertainty;

pub use expected_right::expected_right;
pub use learning_curve::{CurvePoint, Gain, LearningCurve};
pub use uncertainty::{Reason, uncertainty};

/// Documents without labels, and their nearest documents among them.
#[derive(Debug)]
pub struct Pool {
    index: Classifier,
    /// The nearest documents of each document that is the first with its content; empty for its
    /// copies.
    nearest: Vec<Vec<Neighbor>>,
    /// For each document, the documents in whose lists it is, with their similarities.
    listed_by: Vec<Vec<Neighbor>>,
    /// Whether each document is a copy of an earlier one.
    is_copy: Vec<bool>,
}

/// A document to label next.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Proposal {
    /// The position of the document in the pool.
    pub row: u32,
    /// How uncertain its label is, from 0 to 1.
    pub uncertainty: f64,
    /// What its label would settle, of itself and of similar documents: uncertainty to the sixth
    /// power, weighted by similarity.
    pub gain: f64,
}

/// Number of nearest documents that are kept for each document.
const NEAREST: NonZeroUsize = NonZeroUsize::new(10).expect("not zero");
/// Number of documents whose nearest documents are searched at a time.
const BATCH: usize = 10_000;
/// Number of documents that are drawn for each proposal.
const DRAWN: usize = 2;
/// The weight of similar documents in the gain. With a larger weight, proposals are better at first
/// and worse later.
const NEAR: f64 = 0.2;

impl Pool {
    /// Finds the nearest documents of each document. `trainer` has the options of the model; labels
    /// and groups of the documents are ignored.
    ///
    /// # Errors
    /// Fails if there are no documents, or they do not match the options.
    pub fn new(trainer: &Trainer<'_>, documents: &[Document]) -> Result<Self, TrainError> {
        let trainer = trainer.without_labels();
        let unlabeled =
            |document: &Document| Document { labels: Vec::new(), group: None, ..document.clone() };
        let model = Arc::new(trainer.train(documents.iter().map(unlabeled))?.model);
        let engines = trainer.engines()?;
        let searchers = Searchers::of(&model, model.settings().dense_share, &engines)?;
        let index = Classifier::with_searchers(model, searchers, engines.threads());
        let mut nearest = nearest_of(&index, documents)?;
        let mut first_with: HashMap<u64, usize> = HashMap::new();
        let first = |(row, document): (usize, &Document)| {
            *first_with.entry(document.content_hash()).or_insert(row) != row
        };
        let is_copy: Vec<bool> = documents.iter().enumerate().map(first).collect();
        let mut listed_by = vec![Vec::new(); nearest.len()];
        for (row, near) in (0u32..).zip(&mut nearest) {
            if is_copy[row as usize] {
                near.clear();
            }
            for &Neighbor { row: other, similarity } in &*near {
                listed_by[other as usize].push(Neighbor { row, similarity });
            }
        }
        Ok(Self { index, nearest, listed_by, is_copy })
    }

    /// Returns a classifier whose neighbors are the documents of the pool, in their order. It has
    /// no labels.
    pub fn index(&self) -> &Classifier {
        &self.index
    }

    /// Returns the number of documents.
    pub fn len(&self) -> usize {
        self.nearest.len()
    }

    /// Returns whether there are no documents.
    pub fn is_empty(&self) -> bool {
        self.nearest.is_empty()
    }

    /// Proposes at most `count` documents, in the order in which they help. `uncertainty` has a
    /// number from 0 to 1 for each document; documents with 0, such as those that are already
    /// labeled, are not proposed. `seed` determines which documents are drawn. Each proposal takes
    /// time proportional to the number of documents.
    ///
    /// ```
    /// use classify::learn::Trainer;
    /// use classify::propose::Pool;
    /// use classify::text::corpus::Document;
    ///
    /// let texts = ["bake bread", "bake white bread", "bread", "tune guitars", "a guitar", "?"];
    /// let documents = texts.map(|text| Document::text(text, text));
    /// let pool = Pool::new(&Trainer::builder().build(), &documents)?;
    /// let proposed = pool.propose(&[1.0, 1.0, 1.0, 0.2, 0.2, 0.0], 2, 0);
    /// assert!(proposed[0].row < 3, "about bread");
    /// assert_eq!(proposed.len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If the number of uncertainties is not that of documents.
    pub fn propose(&self, uncertainty: &[f64], count: usize, seed: u64) -> Vec<Proposal> {
        assert_eq!(uncertainty.len(), self.len(), "one uncertainty per document");
        let mut left: Vec<f64> = uncertainty.iter().copied().map(powered).collect();
        let mut gains: Vec<f64> = (0..self.len()).map(|row| self.gain(row, &left)).collect();
        let mut open: Vec<usize> =
            (0..self.len()).filter(|&row| left[row] > 0.0 && !self.is_copy[row]).collect();
        let mut random = Random::new(seed);
        let mut proposed = Vec::new();
        while proposed.len() < count && !open.is_empty() {
            let drawn = draw(&open, &left, &mut random);
            // The first document wins a tie.
            let best =
                drawn.into_iter().max_by(|&a, &b| gains[a].total_cmp(&gains[b]).then(b.cmp(&a)));
            let best = best.expect("a document is drawn");
            open.retain(|&row| row != best);
            let row = u32::try_from(best).expect("a row number");
            proposed.push(Proposal { row, uncertainty: uncertainty[best], gain: gains[best] });
            let near = self.nearest[best].iter();
            let near = near.map(|near| (near.row as usize, f64::from(near.similarity)));
            for (settled, similarity) in std::iter::once((best, 1.0)).chain(near) {
                let change = left[settled] * similarity.clamp(0.0, 1.0);
                left[settled] -= change;
                gains[settled] -= change;
                for lists in &self.listed_by[settled] {
                    gains[lists.row as usize] -= NEAR * f64::from(lists.similarity) * change;
                }
            }
        }
        proposed
    }

    /// Returns the gain of a document, given what is left of the uncertainty of each.
    fn gain(&self, row: usize, left: &[f64]) -> f64 {
        let near = self.nearest[row].iter();
        let near = near.map(|near| f64::from(near.similarity) * left[near.row as usize]);
        left[row] + NEAR * near.sum::<f64>()
    }

    /// Returns the rows of all documents that have a document among their nearest, or are among
    /// its nearest: its label may change their predictions.
    ///
    /// # Panics
    /// If there is no such document.
    pub fn near(&self, row: u32) -> impl Iterator<Item = u32> {
        let row = row as usize;
        self.nearest[row].iter().chain(&self.listed_by[row]).map(|near| near.row)
    }

    /// Returns the nearest documents of a document in the pool, nearest first. Empty for a document
    /// with the same content as an earlier one.
    ///
    /// # Panics
    /// If there is no such document.
    pub fn nearest(&self, row: u32) -> &[Neighbor] {
        &self.nearest[row as usize]
    }
}

/// Returns the nearest other documents of each document, nearest first.
fn nearest_of(
    index: &Classifier,
    documents: &[Document],
) -> Result<Vec<Vec<Neighbor>>, TrainError> {
    // One more, because a document is its own nearest.
    let options = ClassifyOptions { k: NEAREST.saturating_add(1), ..index.options() };
    let mut found = FoundNeighbors::default();
    let mut nearest = Vec::with_capacity(documents.len());
    for batch in documents.chunks(BATCH) {
        let vectors = index.vectorize_as(batch, Side::Document)?;
        let _ = index.neighbors(&vectors, &options, &mut found)?;
        for voters in found.iter() {
            let own = nearest.len();
            let others = voters.ranked().map(|(.., neighbor)| *neighbor);
            let others = others.filter(|neighbor| neighbor.row as usize != own);
            nearest.push(others.take(NEAREST.get()).collect());
        }
    }
    Ok(nearest)
}

/// Returns options with which the documents of a pool are compared as those of a model are.
pub fn options_like(model: &Model) -> TrainOptions {
    let settings = model.settings();
    let mut options = TrainOptions {
        fields: settings.fields.clone(),
        weighting: settings.weighting,
        ..TrainOptions::default()
    };
    match &settings.input {
        InputSpec::Text(analyzer) => options.analyzer = analyzer.clone(),
        InputSpec::Features(features) => options.features = *features,
        InputSpec::Vectors(_) => {}
    }
    options
}

/// Returns the sixth power of an uncertainty. With a smaller power, documents with a certain label
/// are drawn too often when most labels are certain.
fn powered(uncertainty: f64) -> f64 {
    let squared = uncertainty * uncertainty;
    squared * squared * squared
}

/// Draws some of the `open` documents, with a probability proportional to what is `left` of their
/// uncertainty. If nothing is left, they are equally probable.
fn draw(open: &[usize], left: &[f64], random: &mut Random) -> [usize; DRAWN] {
    let mut sums = Vec::with_capacity(open.len());
    let mut sum = 0.0;
    for &row in open {
        sum += left[row].max(f64::MIN_POSITIVE);
        sums.push(sum);
    }
    std::array::from_fn(|_| {
        let at = random.unit() * sum;
        open[sums.partition_point(|&sum| sum <= at).min(open.len() - 1)]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(texts: &[&str]) -> Pool {
        let documents: Vec<Document> =
            texts.iter().map(|&text| Document::text(text, text)).collect();
        Pool::new(&Trainer::builder().build(), &documents).unwrap()
    }

    #[test]
    fn copies_and_labeled_documents_are_not_proposed() {
        let pool = pool(&["red apple", "red apple ", "red apple", "blue sky", "green pear"]);
        let rows = |uncertainty: &[f64], count| -> Vec<u32> {
            let proposed = pool.propose(uncertainty, count, 0);
            let mut rows: Vec<u32> = proposed.iter().map(|proposal| proposal.row).collect();
            rows.sort_unstable();
            rows
        };
        assert_eq!(rows(&[1.0; 5], 9), [0, 3, 4]);
        assert_eq!(rows(&[0.5, 0.5, 0.5, 0.9, 0.0], 9), [0, 3]);
        assert_eq!(rows(&[0.1, 0.1, 0.1, 0.9, 0.2], 1), [3]);
        assert!(rows(&[1.0; 5], 0).is_empty());
    }

    #[test]
    fn documents_with_other_vectors_are_no_copies() {
        let with_vector = |value| Document { vector: Some(vec![value]), ..Document::text("a", "") };
        assert_eq!(with_vector(1.0).content_hash(), with_vector(1.0).content_hash());
        assert_ne!(with_vector(1.0).content_hash(), with_vector(2.0).content_hash());
    }

    /// The gains that are updated step by step are those that are computed from the definition.
    #[test]
    fn gains_follow_from_what_is_left() {
        let words = ["apple", "pear", "sky", "sea", "red", "blue"];
        let texts: Vec<String> =
            (0..40).map(|n| format!("{} {} {n}", words[n % 6], words[(n / 6 + n) % 6])).collect();
        let pool = pool(&texts.iter().map(String::as_str).collect::<Vec<_>>());
        let uncertainty: Vec<f64> = (0..40u32).map(|n| f64::from(n % 7) / 7.0).collect();
        let mut left: Vec<f64> = uncertainty.iter().copied().map(powered).collect();
        for proposal in pool.propose(&uncertainty, 12, 0) {
            let row = proposal.row as usize;
            assert!((pool.gain(row, &left) - proposal.gain).abs() < 1e-9);
            for near in pool.nearest(proposal.row) {
                left[near.row as usize] *= 1.0 - f64::from(near.similarity).min(1.0);
            }
            left[row] = 0.0;
        }
    }
}
