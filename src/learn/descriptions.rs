//! Descriptions of labels, as documents of their labels.
//!
//! * learns from: held-out documents, predicted with descriptions of several weights
//! * cross-validated: five folds, or one if there are many documents
//! * returns: the weight with the best micro F1, and that of each weight
//!
//! The weight of a description is the weight of its vote. The more documents a label has, the more
//! of them are nearer to a new document than the description is, so descriptions matter less.

use serde::Serialize;

use super::{TrainError, Trainer, TrainingResult};
use crate::classifier::Classifier;
use crate::text::corpus::Document;

/// The weight of label descriptions, and how it was chosen.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DescriptionWeight {
    /// The weight of each description's vote; 0 if the model does not use them.
    pub weight: f32,
    /// The number of held-out documents; 0 if there are too few, so that nothing was chosen.
    pub held_out: u64,
    /// The weights that were tried, with the micro F1 of the held-out documents. Empty without
    /// documents.
    pub trials: Vec<(f32, f64)>,
}

/// The weights that are tried. 0 means without descriptions.
const WEIGHTS: [f32; 7] = [0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0];
/// Number of folds.
const FOLDS: u64 = 5;
/// Maximum number of documents for which all folds are held out; otherwise one is.
const MAX_FOR_ALL_FOLDS: usize = 5_000;
/// Maximum number of documents of a fold that are predicted.
const MAX_HELD_OUT: usize = 2_000;

impl DescriptionWeight {
    /// Returns the micro F1 of a weight that was tried.
    pub fn micro_f1(&self, weight: f32) -> Option<f64> {
        self.trials
            .iter()
            .find(|(tried, _)| tried.to_bits() == weight.to_bits())
            .map(|(_, micro_f1)| *micro_f1)
    }
}

impl Trainer<'_> {
    /// Trains a model on documents and on descriptions of labels. Each description is a document
    /// with the label that it describes; its weight is multiplied by one that is chosen on held-out
    /// documents. Descriptions are never held out themselves. Without documents, the model consists
    /// of the descriptions, with weight 1, and is not tuned.
    ///
    /// ```
    /// use classify::learn::Trainer;
    /// use classify::classifier::Classifier;
    /// use classify::text::corpus::Document;
    /// use classify::threads::Threads;
    ///
    /// let descriptions = [
    ///     Document::text("about food", "bread, cakes and other things to eat").labels(["food"]),
    ///     Document::text("about music", "songs, guitars and other instruments").labels(["music"]),
    /// ];
    /// let trainer = Trainer::builder().build();
    /// let (trained, _) = trainer.train_with_descriptions(Vec::new(), &descriptions)?;
    /// let classifier = Classifier::new(trained.model.into(), &Threads::available()?)?;
    /// assert_eq!(classifier.predict("tune the guitars")?.labels, ["music"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`train`](Self::train).
    pub fn train_with_descriptions(
        &self,
        documents: Vec<Document>,
        descriptions: &[Document],
    ) -> Result<(TrainingResult, DescriptionWeight), TrainError> {
        if documents.is_empty() {
            let found = DescriptionWeight { weight: 1.0, held_out: 0, trials: Vec::new() };
            return Ok((self.untuned().train(descriptions)?, found));
        }
        let found = learn(self, &documents, descriptions)?;
        let weighted = weighted(descriptions, found.weight);
        let trainer = self.with_last_never_held_out(weighted.len());
        Ok((trainer.train(documents.into_iter().chain(weighted))?, found))
    }
}

/// Chooses the weight of descriptions. The lowest weight wins a tie.
fn learn(
    trainer: &Trainer<'_>,
    documents: &[Document],
    descriptions: &[Document],
) -> Result<DescriptionWeight, TrainError> {
    let trainer = trainer.untuned();
    let fold_of: Vec<u64> = documents.iter().map(|document| group_hash(document) % FOLDS).collect();
    let folds = if documents.len() <= MAX_FOR_ALL_FOLDS { FOLDS } else { 1 };
    let mut counts = [Counted::default(); WEIGHTS.len()];
    let mut all_held_out = 0;
    for fold in 0..folds {
        let (held_out, others): (Vec<_>, Vec<_>) =
            documents.iter().zip(&fold_of).partition(|(_, own)| **own == fold);
        let mut held_out: Vec<Document> =
            held_out.into_iter().map(|(document, _)| document.clone()).collect();
        // A sample that does not depend on the order.
        held_out.sort_by_cached_key(Document::content_hash);
        held_out.truncate(MAX_HELD_OUT);
        let others = || others.iter().map(|(document, _)| (*document).clone());
        if held_out.is_empty() || others().next().is_none() {
            continue;
        }
        all_held_out += held_out.len() as u64;
        for (weight, counted) in WEIGHTS.into_iter().zip(&mut counts) {
            let result = trainer.train(others().chain(weighted(descriptions, weight)))?;
            counted.add(&trainer.classifier(result)?, &held_out)?;
        }
    }
    let micro_f1 = counts.map(|counted| counted.micro_f1());
    let trials: Vec<(f32, f64)> = WEIGHTS.into_iter().zip(micro_f1).collect();
    let best = trials.iter().rev().max_by(|a, b| a.1.total_cmp(&b.1));
    let weight = if all_held_out == 0 { 1.0 } else { best.map_or(1.0, |(weight, _)| *weight) };
    Ok(DescriptionWeight { weight, held_out: all_held_out, trials })
}

/// Returns a hash that is the same for documents of one group, and for copies.
fn group_hash(document: &Document) -> u64 {
    match &document.group {
        Some(group) => Document::text("", &**group).content_hash(),
        None => document.content_hash(),
    }
}

/// Returns descriptions with a weight; none if it is 0.
fn weighted(descriptions: &[Document], weight: f32) -> Vec<Document> {
    let described = descriptions.iter().filter(|_| weight > 0.0);
    described.map(|one| Document { weight: one.weight * weight, ..one.clone() }).collect()
}

/// The numbers of labels in predictions and documents.
#[derive(Debug, Clone, Copy, Default)]
struct Counted {
    right: u64,
    predicted: u64,
    given: u64,
}

impl Counted {
    fn add(&mut self, classifier: &Classifier, documents: &[Document]) -> Result<(), TrainError> {
        let predictions = classifier.predict_documents(documents, &classifier.options())?;
        for (prediction, document) in predictions.iter().zip(documents) {
            let model = classifier.model();
            let names = prediction.labels.iter().map(|&label| model.label_name(label));
            let right = names.filter(|name| document.labels.iter().any(|label| label == name));
            self.right += right.count() as u64;
            self.predicted += prediction.labels.len() as u64;
            self.given += document.labels.len() as u64;
        }
        Ok(())
    }

    fn micro_f1(&self) -> f64 {
        let all = self.predicted + self.given;
        if all == 0 { 0.0 } else { 2.0 * self.right as f64 / all as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn documents(per_label: usize, noise: usize) -> Vec<Document> {
        let topics = [("food", "bread cake soup"), ("music", "guitar song drum")];
        let words = |n: usize, topic: &str| {
            let own: Vec<&str> = topic.split(' ').collect();
            let noise: Vec<String> = (0..noise).map(|at| format!("noise{}", n * 31 + at)).collect();
            format!("{} {}", own[n % 3], noise.join(" "))
        };
        let all = topics.iter().flat_map(|(label, topic)| {
            let one = move |n: usize| {
                Document::text(format!("{label}{n}"), words(n, topic)).labels([*label])
            };
            (0..per_label).map(one)
        });
        all.collect()
    }

    fn descriptions() -> Vec<Document> {
        let food = Document::text("d1", "bread cake soup").labels(["food"]);
        vec![food, Document::text("d2", "guitar song drum").labels(["music"])]
    }

    #[test]
    fn descriptions_help_when_documents_are_few() {
        let trainer = Trainer::builder().build();
        // Each word occurs in one document per label, so without descriptions nothing is similar.
        let few = documents(3, 5);
        let (result, found) = trainer.train_with_descriptions(few, &descriptions()).unwrap();
        assert!(found.weight > 0.0 && found.held_out == 6, "{found:?}");
        assert_eq!(found.micro_f1(found.weight), Some(1.0));
        assert!(found.micro_f1(0.0).unwrap() < 1.0);
        assert_eq!(result.model.ids().len(), 8);
        assert_eq!(result.model.document_weights()[6].to_bits(), found.weight.to_bits());
    }

    #[test]
    fn useless_descriptions_are_not_used() {
        let trainer = Trainer::builder().build();
        let wrong = [Document::text("d", "bread cake soup").labels(["music"])];
        let (result, found) = trainer.train_with_descriptions(documents(60, 0), &wrong).unwrap();
        assert_eq!((found.weight, result.model.ids().len()), (0.0, 120));
    }

    /// The estimates of tuning are about documents only.
    #[test]
    fn descriptions_are_not_held_out() {
        let trainer = Trainer::builder().build();
        let (result, found) =
            trainer.train_with_descriptions(documents(60, 3), &descriptions()).unwrap();
        let tuning = result.tuning.unwrap();
        assert_eq!((tuning.documents, found.held_out), (120, 120));
    }
}
