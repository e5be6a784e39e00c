//! The model that answers requests.

use std::sync::Arc;

use classify::classifier::{Classifier, ClassifyOptions};
use classify::model::{InputSpec, Model};
use classify::rows::dense::DenseFeatures;
use classify::text::corpus::{Format, LabelUse, ReadOptions, TextEncoder};
use classify::text::counts::Fields;

/// The model that answers requests. It is immutable; each change creates a new live model.
#[derive(Debug)]
pub(crate) struct LiveModel {
    pub(crate) classifier: Classifier,
    /// Classification options of the model.
    pub(crate) options: ClassifyOptions,
    /// Version of the model; every change to its documents gives a new version.
    pub(crate) version: String,
    /// Options for reading the documents of requests. Documents may have the fields of the training
    /// corpus or the default fields.
    pub(crate) read_options: ReadOptions,
    /// Whether a document consists of one text.
    pub(crate) accepts_plain_text: bool,
}

impl LiveModel {
    /// Creates the live model. `encoder` computes the vectors of texts if the model needs it.
    pub(crate) fn new(classifier: Classifier, encoder: Option<Arc<dyn TextEncoder>>) -> Self {
        let model = classifier.model();
        let settings = model.settings();
        let needs_encoder = settings.dense.as_ref().is_some_and(|dense| dense.encoder().is_some());
        let read_options = read_options(model, encoder.filter(|_| needs_encoder));
        let needs_vector = settings
            .dense
            .as_ref()
            .is_some_and(|dense| matches!(dense.features, DenseFeatures::Given { .. }))
            && read_options.encoder.is_none();
        let has_one_field = matches!(settings.fields, Fields::Whole | Fields::FirstLine { .. });
        let is_text = matches!(settings.input, InputSpec::Text(_));
        let reads_text = is_text || read_options.encoder.is_some();
        let accepts_plain_text = reads_text && has_one_field && !needs_vector;
        let options = classifier.options();
        let version = model.version();
        Self { classifier, options, version, read_options, accepts_plain_text }
    }

    pub(crate) fn model(&self) -> &Arc<Model> {
        self.classifier.model()
    }

    /// Returns the names of the labels of a document of the model.
    pub(crate) fn label_names(&self, row: u32) -> Vec<&str> {
        let model = self.model();
        let name = |&label: &u32| model.label_name(label);
        model.document_labels(row).iter().map(name).collect()
    }
}

/// Returns the options for reading the documents of requests.
fn read_options(model: &Model, encoder: Option<Arc<dyn TextEncoder>>) -> ReadOptions {
    let mut read_options = ReadOptions {
        format: Some(Format::Jsonl),
        labels: LabelUse::Optional,
        usual_fields: true,
        encoder,
        ..ReadOptions::default()
    };
    let reading = &model.settings().reading;
    if !reading.table.no_header {
        // Requests have a list of labels in place of a table's indicator fields.
        let label_columns =
            if reading.label_columns.len() == 1 { &*reading.label_columns } else { &[] };
        read_options.text_columns.clone_from(&reading.text_columns);
        read_options.label_columns = label_columns.to_vec();
        read_options.id_column.clone_from(&reading.id_column);
        read_options.weight_column.clone_from(&reading.weight_column);
    }
    read_options.label_separator.clone_from(&reading.label_separator);
    model.fit_read_options(&mut read_options);
    read_options
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::sync::Arc;

    use axum::body::Body;
    use axum::http::StatusCode;
    use classify::learn::{DenseOptions, DenseSource, TrainOptions, Trainer};
    use classify::rows::dense::{EncoderSpec, Metric};
    use classify::search::Engines;
    use classify::text::corpus::{Corpus, ReadOptions, TextEncoder};
    use serde_json::{Value, json};

    use crate::ServerOptions;
    use crate::state::State;
    use crate::test_server::{TestServer, request, threads};

    /// An encoder whose vectors turn with the number of characters of a text.
    #[derive(Debug)]
    struct Lengths(EncoderSpec);

    impl TextEncoder for Lengths {
        fn spec(&self) -> &EncoderSpec {
            &self.0
        }

        fn encode(&self, texts: &[Cow<'_, str>]) -> Vec<Vec<f32>> {
            let vector = |text: &Cow<'_, str>| vec![1.0, text.chars().count() as f32];
            texts.iter().map(vector).collect()
        }
    }

    fn lengths(hash: &str) -> Arc<dyn TextEncoder> {
        let spec = EncoderSpec { folder: "f".into(), kind: "lengths".into(), hash: hash.into() };
        Arc::new(Lengths(spec))
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn texts_are_encoded() {
        let lines = [("a", "short"), ("abcdefghijk", "long")]
            .map(|(text, label)| json!({ "text": text, "label": label }).to_string());
        let encoder = lengths("1");
        let options = TrainOptions {
            dense: Some(DenseOptions {
                source: DenseSource::Given { field: None, encoder: Some(encoder.spec().clone()) },
                metric: Metric::Angular,
                with_terms: false,
            }),
            tuning: None,
            ..TrainOptions::default()
        };
        let read = ReadOptions { encoder: Some(Arc::clone(&encoder)), ..ReadOptions::default() };
        let corpus = Corpus::from_bytes("lines", lines.join("\n").into(), read).unwrap();
        let model = Trainer::builder().options(options).build().train(corpus).unwrap().model;
        let server = TestServer::of_model(&model, |options| options.encoder = Some(encoder));
        let plain = request("POST", "/v1/predict").header("content-type", "text/plain");
        let replies = [
            server.send("POST", "/v1/predict", r#"{"text": "zzzzzzzzz"}"#).await,
            server.request(plain, Body::from("zzzzzzzzz")).await,
        ];
        for reply in replies {
            assert_eq!(reply.json()["labels"], json!(["long"]), "{reply:?}");
        }
        let several = json!({ "documents": [{ "text": "z" }, { "text": "zzzzzzzzz" }] });
        let reply = server.send("POST", "/v1/predict", several.to_string()).await;
        assert_eq!(reply.json()["answers"][0]["labels"], json!(["short"]), "{reply:?}");

        // Another encoder would give wrong answers.
        for other in [None, Some(lengths("2"))] {
            let path = server.path("a.model");
            let options = ServerOptions { encoder: other, ..ServerOptions::new(path) };
            let error = State::open(options, Engines::cpu(&threads())).unwrap_err();
            assert!(error.to_string().contains("needs the encoder f with the hash 1"), "{error}");
        }
    }

    const CORPUS: &str = r#"{"key": 7, "doc": {"body": "apple pear plum"}, "topic": "fruit;food"}
{"key": 8, "doc": {"body": "spoon fork knife"}, "topic": "cutlery"}"#;

    fn server() -> TestServer {
        let options = ReadOptions {
            text_columns: vec!["doc.body".to_owned()],
            label_columns: vec!["topic".to_owned()],
            id_column: Some("key".to_owned()),
            weight_column: None,
            label_separator: Some(";".to_owned()),
            encoding: classify::text::corpus::encoding_for_label("latin-1"),
            ..ReadOptions::default()
        };
        TestServer::of_documents(CORPUS, options)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn requests_may_have_the_fields_of_the_training_corpus() {
        let server = server();
        // Documents of the training corpus, without an identifier, and with the usual names.
        let bodies = [
            (json!({ "key": 9, "doc": { "body": "knife" } }), "9", "cutlery"),
            (json!({ "doc": { "body": "knife" } }), "2", "cutlery"),
            (json!({ "id": "n", "text": "knife" }), "n", "cutlery"),
            (json!({ "id": "é", "text": "pear" }), "é", "fruit"),
        ];
        let lines: Vec<String> = bodies.iter().map(|(body, _, _)| body.to_string()).collect();
        let head = request("POST", "/v1/predict").header("content-type", "application/x-ndjson");
        let reply = server.request(head, Body::from(lines.join("\n"))).await;
        let answers: Vec<Value> =
            reply.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(answers.len(), bodies.len(), "{reply:?}");
        for (answer, (body, id, label)) in answers.iter().zip(&bodies) {
            assert_eq!(answer["id"], *id, "{answer}");
            assert!(answer["labels"].as_array().unwrap().contains(&json!(label)), "{answer}");
            let reply = server.send("POST", "/v1/predict", body.to_string()).await;
            assert_eq!(reply.json()["labels"], answer["labels"], "{reply:?}");
        }
        let reply = server.send("POST", "/v1/predict", r#"{"body": "knife"}"#).await;
        assert_eq!(reply.message(), "no field `doc.body`; the document has `body`");
    }

    #[tokio::test]
    async fn changes_may_have_the_fields_of_the_training_corpus() {
        let server = server();
        let several = json!({ "documents": [
            { "key": 9, "doc": { "body": "knife" }, "topic": "cutlery;food" },
        ] });
        let reply = server.send("POST", "/v1/documents", several.to_string()).await;
        assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
        let stored = server.get("/v1/documents/9").await.json();
        assert_eq!(stored["labels"], json!(["cutlery", "food"]));
        let usual = [json!({ "id": "n", "text": "pear", "labels": ["fruit"] })];
        let usual = json!({ "documents": usual }).to_string();
        assert_eq!(server.send("POST", "/v1/documents", usual).await.status, StatusCode::OK);
        for body in [
            json!({ "doc": { "body": "pear" }, "topic": "fruit", "weight": 2 }),
            json!({ "text": "pear", "labels": ["fruit"] }),
        ] {
            let reply = server.send("PUT", "/v1/documents/m", body.to_string()).await;
            assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
        }
        let unnamed = json!({ "documents": [{ "doc": { "body": "pear" }, "topic": "fruit" }] });
        let reply = server.send("POST", "/v1/documents", unnamed.to_string()).await;
        assert_eq!(reply.status, StatusCode::UNPROCESSABLE_ENTITY, "{reply:?}");
    }
}
