//! Words errors of training for users of the command line: they name flags.

use classify::learn::TrainError;

/// The message for an error of training that the flags caused.
pub(super) fn message(error: &TrainError) -> String {
    match error {
        TrainError::NoText => {
            "--keep-text: the model is made of features or vectors, not of text".to_owned()
        }
        TrainError::WordVectorsWithoutText => {
            "--word-vectors: this corpus has features and no text".to_owned()
        }
        TrainError::NoFeatures => {
            "--features counts: this corpus has texts, whose terms are counted anyway".to_owned()
        }
        TrainError::UnknownLabel(label) => {
            format!("--class-weight: no document has the label `{label}`")
        }
        TrainError::AbstainNeedsTuning => "--abstain learns its limits by tuning: it needs --tune \
                                           or `classify tune MODEL`"
            .to_owned(),
        TrainError::NoForeignDocuments => format!("--abstain foreign=…: {error}"),
        TrainError::LearnedNeedsTuning => "learned votes are learned by tuning: they need --tune \
                                           or `classify tune MODEL`"
            .to_owned(),
        TrainError::PrototypesAreTuned => {
            "the share of prototypes is chosen by --tune: leave /prototypes out of --vote"
                .to_owned()
        }
        TrainError::LearnedByBatch => {
            "--vote learned conflicts with pcut: votes are learned for single documents".to_owned()
        }
        TrainError::AbstainByBatch => {
            "--abstain conflicts with pcut: its limits apply to single documents".to_owned()
        }
        TrainError::CompensationForSeveral => {
            "/size^ is for one label per document; label thresholds already account for sizes"
                .to_owned()
        }
        TrainError::NotSymmetric { .. } => format!(
            "{error}; train it with --keep-text and without --field, or tune while training, with \
             `classify train --tune=votes`"
        ),
        other => other.to_string(),
    }
}
