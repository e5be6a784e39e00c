//! Predicts labels from neighbors: votes, decides, calibrates and abstains.

use rayon::prelude::*;

use super::{
    Classifier, ClassifyOptions, DocumentVectors, FoundNeighbors, Probabilities, RawPrediction,
    Reason,
};
use crate::decide::calibrate::{Calibration, NoveltyEvidence, PropertyValues, Votes, confidence};
use crate::decide::decision::{Decision, decide, decide_batch};
use crate::decide::vote::{LabelScore, Outcome, Voters, vote_with};

/// Minimum number of documents per task.
const MIN_DOCUMENTS: usize = 64;

/// A predictor of the labels of the documents in a batch.
pub(crate) struct Predictor<'a> {
    classifier: &'a Classifier,
    vectors: &'a DocumentVectors,
    neighbors: &'a FoundNeighbors,
    options: &'a ClassifyOptions,
    /// The factor of each label's score.
    factors: Vec<f64>,
    /// The calibration, if it was learned with the same vote.
    calibration: Option<&'a Calibration>,
    /// The novelty score above which documents are rejected.
    max_novelty_score: Option<f64>,
    /// Whether a document without known terms has no neighbors.
    needs_terms: bool,
    /// The votes and labels of all documents, if the decision needs the whole batch.
    decided: Option<Vec<(Outcome, Vec<u32>)>>,
}

/// A reusable buffer for a prediction.
#[derive(Debug, Default)]
pub(crate) struct PredictionBuffer {
    pub(crate) prediction: RawPrediction,
    /// Number of voters with each label; empty if not counted.
    supporters: Vec<u32>,
}

impl<'a> Predictor<'a> {
    /// Creates a predictor. If the decision needs the whole batch, labels are chosen here, on the
    /// caller's thread pool.
    pub(crate) fn new(
        classifier: &'a Classifier,
        vectors: &'a DocumentVectors,
        neighbors: &'a FoundNeighbors,
        options: &'a ClassifyOptions,
    ) -> Self {
        let model = &classifier.model;
        let settings = model.settings();
        let has_same_neighbors = options.k == settings.k
            && options.dense_share.to_bits() == settings.dense_share.to_bits();
        // The calibration applies only to the neighbors and the vote with which it was learned.
        let has_same_votes = options.vote == settings.vote && has_same_neighbors;
        // Without terms, a projected vector is zero.
        let is_projected = model.dense().is_some_and(|dense| dense.projection().is_some());
        // The novelty score uses probabilities.
        let novelty = options.novelty.filter(|_| has_same_votes);
        let mut predictor = Self {
            factors: model.training_labels().factors(options.vote),
            calibration: model.calibration().filter(|_| has_same_votes),
            max_novelty_score: novelty.and_then(|limit| limit.max_score),
            needs_terms: model.has_terms() && (is_projected || options.dense_share < 1.0),
            decided: None,
            classifier,
            vectors,
            neighbors,
            options,
        };
        if options.decision.needs_batch() {
            let voted =
                (0..neighbors.len()).into_par_iter().with_min_len(MIN_DOCUMENTS).map(|document| {
                    let mut outcome = Outcome::default();
                    predictor.vote(document, &mut outcome);
                    outcome
                });
            let outcomes: Vec<Outcome> = voted.collect();
            let scores: Vec<_> = outcomes.iter().map(|outcome| &*outcome.scores).collect();
            let labels = decide_batch(&scores, &options.decision);
            predictor.decided = Some(outcomes.into_iter().zip(labels).collect());
        }
        predictor
    }

    /// Predicts the labels of all documents on the caller's thread pool.
    pub(crate) fn predict_all(&self) -> Vec<RawPrediction> {
        let documents = (0..self.neighbors.len()).into_par_iter().with_min_len(MIN_DOCUMENTS);
        let predict = |document| {
            let mut predicted = PredictionBuffer::default();
            self.predict(document, &mut predicted);
            predicted.prediction
        };
        documents.map(predict).collect()
    }

    /// Predicts the labels of a document.
    ///
    /// # Panics
    /// Panics if there is no such document.
    pub(crate) fn predict(&self, document: usize, predicted: &mut PredictionBuffer) {
        let PredictionBuffer { prediction, supporters } = predicted;
        let mut outcome = Outcome {
            scores: std::mem::take(&mut prediction.scores),
            supporters: std::mem::take(supporters),
        };
        if let Some(decided) = &self.decided {
            let (known, labels) = &decided[document];
            outcome.clone_from(known);
            prediction.labels.clone_from(labels);
        } else {
            self.vote(document, &mut outcome);
            prediction.labels = decide(&outcome.scores, &self.options.decision);
        }
        self.finish(document, &outcome, prediction);
        *supporters = outcome.supporters;
        prediction.scores = outcome.scores;
    }

    /// Completes a prediction: computes its probabilities and confidence, and removes its labels if
    /// the model abstains.
    fn finish(&self, document: usize, outcome: &Outcome, prediction: &mut RawPrediction) {
        let Outcome { scores, supporters } = outcome;
        let labels = &mut prediction.labels;
        let training = self.classifier.model.training_labels();
        let voters = self.voters(document);
        let terms = self.vectors.terms[document];
        let unknown = terms.unknown_share();
        prediction.probabilities.clear();
        prediction.confidence = self.calibration.map(|calibration| {
            let first = self.probability_count(scores, labels);
            let counted = Votes { scores, supporters, voters, unknown };
            calibration.probabilities(counted, first, &training, &mut prediction.probabilities);
            confidence(labels, scores, &prediction.probabilities)
        });
        prediction.reason = match () {
            () if voters.is_empty() && self.needs_terms && terms.known == 0 => {
                Some(Reason::NoKnownTerm)
            }
            () if voters.is_empty() => Some(Reason::NoNeighbor),
            () if scores.is_empty() => Some(Reason::NoLabel),
            () if self.is_out_of_distribution(
                document,
                scores[0].label,
                &prediction.probabilities,
            ) =>
            {
                labels.clear();
                Some(Reason::OutOfDistribution)
            }
            // Abstaining from an answer without labels has no effect.
            () if !labels.is_empty() && self.abstains(prediction.confidence) => {
                labels.clear();
                Some(Reason::LowConfidence)
            }
            () => None,
        };
        if scores.is_empty()
            && self.options.decision == Decision::Single
            && self.options.abstention.is_none()
            && self.max_novelty_score.is_none()
        {
            // There are no votes, but a label is required.
            labels.extend(self.classifier.prior);
        }
        self.classifier.add_ancestors(labels);
        let [(terms_voted, _), (vectors_voted, _)] = voters.lists();
        let (first, second) = if self.options.dense_share < 1.0 {
            (terms_voted, vectors_voted)
        } else {
            (vectors_voted, &[][..])
        };
        let copy = |to: &mut Vec<_>, from: &[_]| {
            to.clear();
            to.extend_from_slice(from);
        };
        copy(&mut prediction.neighbors, first);
        copy(&mut prediction.by_vectors, second);
        prediction.unknown_terms = terms.unknown;
    }

    /// Returns the properties in which a document can differ from the training documents.
    #[expect(clippy::cast_possible_truncation, reason = "f32 is precise enough to compare")]
    pub(crate) fn properties(&self, document: usize) -> PropertyValues {
        let terms = self.vectors.terms[document];
        let length = (terms.known + terms.unknown) as f32;
        [self.voters(document).best_similarity(), terms.unknown_share() as f32, length]
    }

    /// Returns the number of labels that get probabilities.
    fn probability_count(&self, scores: &[LabelScore], given: &[u32]) -> usize {
        match self.options.probabilities {
            Probabilities::All => scores.len(),
            Probabilities::Predicted => {
                let ancestors = |label: u32| self.classifier.ancestors.get(label as usize);
                let is_given = |score: &LabelScore| {
                    given.iter().any(|&given| {
                        given == score.label
                            || ancestors(given)
                                .is_some_and(|ancestors| ancestors.contains(&score.label))
                    })
                };
                scores.iter().rposition(is_given).map_or(1, |last| last + 1)
            }
        }
    }

    /// Whether a document seems to have none of the model's labels. `best` is the label with the
    /// highest score, and `probabilities` are those of the labels by decreasing score.
    fn is_out_of_distribution(&self, document: usize, best: u32, probabilities: &[f64]) -> bool {
        let model = &self.classifier.model;
        self.max_novelty_score.zip(model.novelty_score()).is_some_and(|(limit, novelty_score)| {
            let prototypes = model.prototypes().filter(|_| novelty_score.needs_margins());
            if prototypes.is_some_and(|known| !known.has(best)) {
                // The label was added after the prototypes were learned, so its documents would
                // look novel.
                return false;
            }
            let margin = prototypes.and_then(|prototypes| {
                let row = self.vectors.prototype_row(document, model, prototypes);
                prototypes.highest_margin(&row.columns, &row.values)
            });
            let evidence = NoveltyEvidence {
                voters: self.voters(document),
                unknown_share: self.vectors.terms[document].unknown_share(),
                probability: probabilities.first().copied().unwrap_or(0.0),
                margin,
                row: None,
                candidates: None,
            };
            novelty_score.of(evidence, &model.training_labels()) > limit
        })
    }

    /// Whether the classifier abstains from an answer with this confidence.
    fn abstains(&self, confidence: Option<f64>) -> bool {
        self.options
            .abstention
            .is_some_and(|limit| limit.confidence.is_none_or(|min| confidence.unwrap_or(0.0) < min))
    }

    /// Returns the neighbors that vote on a document.
    fn voters(&self, document: usize) -> Voters<'a> {
        self.neighbors.get(document).first(self.options.k.get())
    }

    /// Scores labels by votes, and by label prototypes if they contribute to the scores.
    fn vote(&self, document: usize, outcome: &mut Outcome) {
        let model = &self.classifier.model;
        let vote = self.options.vote;
        let voters = self.voters(document);
        let training = model.training_labels();
        match model.learned_votes().filter(|_| vote.learned) {
            Some(learned) => {
                outcome.scores = learned.vote(voters, vote.weight, &training);
                outcome.supporters.clear();
            }
            None => vote_with(voters, vote.weight, &self.factors, &training, outcome),
        }
        let prototypes = model.prototypes().filter(|_| vote.prototypes > 0.0);
        if let Some(prototypes) = prototypes.filter(|_| !outcome.scores.is_empty()) {
            let row = self.vectors.prototype_row(document, model, prototypes);
            prototypes.mix_into(&row.columns, &row.values, vote.prototypes, &mut outcome.scores);
            // The order of the scores has changed.
            outcome.supporters.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::decide::calibrate::VALUES;
    use crate::decide::decision::DecisionOptions;
    use crate::decide::vote::Vote;
    use crate::learn::{TrainOptions, Trainer};
    use crate::text::corpus::{Corpus, LabelUse, ReadOptions};
    use crate::text::hierarchy::Hierarchy;
    use crate::threads::Threads;

    /// Ancestors of predicted labels are also predicted, and have probabilities.
    #[test]
    fn probabilities_up_to_the_last_predicted_label() {
        let threads = Threads::available().expect("threads start");
        let lines = [
            r#"{"text": "oven bread", "label": ["bread", "food"]}"#,
            r#"{"text": "oven cake", "label": ["cake"]}"#,
            r#"{"text": "oven soup", "label": ["soup", "food"]}"#,
        ];
        let bytes = lines.join("\n").into_bytes();
        let corpus = Corpus::from_bytes("in", bytes, ReadOptions::default()).expect("it opens");
        let hierarchy =
            Hierarchy::parse("parents", "bread\tfood\nsoup\tfood\n").expect("two pairs");
        let options = TrainOptions {
            hierarchy,
            // The ancestor gets a lower score, because more documents have it.
            vote: Some(Vote { compensation: 0.5, ..Vote::default() }),
            decision: DecisionOptions { multi_label: Some(true), ..DecisionOptions::default() },
            tuning: None,
            ..TrainOptions::default()
        };
        let trainer = Trainer::builder().options(options).build();
        let mut model = trainer.train(corpus).expect("it is a corpus").model;
        let labels = model.labels().len();
        let calibration = Calibration {
            weights: vec![0.5; 2 * VALUES].into(),
            offsets: vec![0.0; 2 * labels].into(),
            similarities: vec![0.0, 1.0].into(),
            documents: 100,
        };
        model.arrays.calibration = Some(calibration);
        let model = Arc::new(model);
        let classifier = Classifier::new(Arc::clone(&model), &threads).expect("it is a model");
        let all = classifier.options();
        let given = ClassifyOptions { probabilities: Probabilities::Predicted, ..all.clone() };
        let texts = [
            "bread oven",
            "bread bread cake",
            "soup soup cake cake cake",
            "soup bread",
            "unknown",
            "oven",
        ];
        let lines: Vec<String> =
            texts.iter().map(|text| format!("{{\"text\": \"{text}\"}}")).collect();
        let read = ReadOptions { labels: LabelUse::Optional, ..ReadOptions::default() };
        let corpus = Corpus::from_bytes("in", lines.join("\n").into_bytes(), read);
        let documents: Result<Vec<_>, _> = corpus.expect("it opens").collect();
        let documents = documents.expect("they are documents");
        let [all, given] = [all, given]
            .map(|options| classifier.predict_documents(&documents, &options).expect("they match"));
        let food = (0..).zip(model.labels().iter()).find(|&(_, name)| name == "food");
        let food = food.map(|(label, _)| label);
        let mut fewer = 0;
        let mut ancestors_last = 0;
        for (all, given) in all.into_iter().zip(given) {
            let count = given.probabilities.len();
            assert_eq!(given.probabilities, all.probabilities[..count]);
            assert_eq!(all.probabilities.len(), all.scores.len());
            let last = all.scores.iter().rposition(|score| all.labels.contains(&score.label));
            assert_eq!(count, last.map_or(0, |last| last + 1));
            fewer += usize::from(count < all.scores.len());
            ancestors_last +=
                usize::from(last.is_some_and(|last| Some(all.scores[last].label) == food));
            assert_eq!(RawPrediction { probabilities: all.probabilities.clone(), ..given }, all);
        }
        assert!(fewer > 0 && ancestors_last > 0, "{fewer}, {ancestors_last}");
    }
}
