//! The model that answers requests.

use std::sync::Arc;

use classify::classifier::{Classifier, ClassifyOptions};
use classify::model::{InputSpec, Model};
use classify::rows::dense::DenseFeatures;
use classify::text::corpus::{Format, LabelUse, ReadOptions};
use classify::text::counts::Fields;

/// The model that answers requests. It is immutable; each change creates a new live model.
#[derive(Debug)]
pub(crate) struct LiveModel {
    pub(crate) classifier: Classifier,
    /// Options of the model.
    pub(crate) options: ClassifyOptions,
    /// Version of the model; every change to its documents gives a new version.
    pub(crate) version: String,
    /// Options for reading the documents of requests.
    pub(crate) read_options: ReadOptions,
    /// Whether a document consists of one text.
    pub(crate) takes_one_text: bool,
}

impl LiveModel {
    pub(crate) fn new(classifier: Classifier) -> Self {
        let model = classifier.model();
        let mut read_options = ReadOptions {
            format: Some(Format::Jsonl),
            labels: LabelUse::Optional,
            weight_column: Some("weight".to_owned()),
            weight_optional: true,
            ..ReadOptions::default()
        };
        model.fit_read_options(&mut read_options);
        let settings = model.settings();
        let needs_vector = settings
            .dense
            .as_ref()
            .is_some_and(|dense| matches!(dense.features, DenseFeatures::Given { .. }));
        let has_one_field = matches!(settings.fields, Fields::Whole | Fields::FirstLine { .. });
        let is_text = matches!(settings.input, InputSpec::Text(_));
        let takes_one_text = is_text && has_one_field && !needs_vector;
        let options = classifier.options();
        let version = model.version();
        Self { classifier, options, version, read_options, takes_one_text }
    }

    pub(crate) fn model(&self) -> &Arc<Model> {
        self.classifier.model()
    }

    /// Names of the labels of a document of the model.
    pub(crate) fn label_names(&self, row: u32) -> Vec<&str> {
        let model = self.model();
        let name = |&label: &u32| model.label_name(label);
        model.document_labels(row).iter().map(name).collect()
    }
}
