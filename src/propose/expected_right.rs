//! How many labels of a pool a model probably predicts right.

use crate::classifier::RawPrediction;
use crate::model::Model;

/// Returns the expected share of right labels among the predictions for a pool, from 0 to 1. `None`
/// without predictions, or if the model is not calibrated.
///
/// This is the mean confidence of the predictions. The confidence of a small model is too high,
/// because its settings were chosen on the documents from which it was learned. The mean is
/// therefore multiplied by the cross-validated micro F1, divided by the micro F1 of the chosen
/// settings, if the model has both.
pub fn expected_right<'a>(
    model: &Model,
    predictions: impl Iterator<Item = &'a RawPrediction>,
) -> Option<f64> {
    let confidence: Option<Vec<f64>> = predictions.map(|found| found.confidence).collect();
    let confidence = confidence.filter(|all| !all.is_empty())?;
    let mean = confidence.iter().sum::<f64>() / confidence.len() as f64;
    let tuning = model.settings().tuning.as_ref();
    let ratio = tuning.and_then(|tuning| {
        let chosen = tuning.with_near_duplicates.map_or(tuning.metrics, |near| near.metrics);
        Some(tuning.cross_validated?.metrics.micro_f1 / chosen.micro_f1)
    });
    Some(mean * ratio.filter(|ratio| ratio.is_finite()).unwrap_or(1.0).min(1.0))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::classifier::Classifier;
    use crate::learn::{TrainOptions, Trainer, TuneOptions};
    use crate::random::Random;
    use crate::text::corpus::Document;
    use crate::threads::Threads;

    /// Half of the labels of noise are right by chance, whatever the model believes.
    #[test]
    fn the_best_of_many_settings_is_not_believed() {
        let mut random = Random::new(5);
        let documents: Vec<Document> = (0..120)
            .map(|number| {
                let words: Vec<String> = (0..8).map(|_| format!("w{}", random.below(60))).collect();
                let label = ["a", "b"][random.below(2)];
                Document::text(number.to_string(), words.join(" ")).labels([label])
            })
            .collect();
        let tuning = Some(TuneOptions::default());
        let trainer = Trainer::builder().options(TrainOptions { tuning, ..<_>::default() }).build();
        let (known, pool) = documents.split_at(60);
        let model = Arc::new(trainer.train(known).unwrap().model);
        let classifier =
            Classifier::new(Arc::clone(&model), &Threads::available().unwrap()).unwrap();
        let found = classifier.predict_documents(pool, &classifier.options()).unwrap();
        let expected = expected_right(&model, found.iter()).unwrap();
        let mean = found.iter().filter_map(|found| found.confidence).sum::<f64>() / 60.0;
        assert!(expected < mean && (0.4..0.6).contains(&expected), "{expected} {mean}");
        assert_eq!(expected_right(&model, [].iter()), None);
    }
}
