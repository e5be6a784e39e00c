//! Schemas of bodies that no type of the server describes, for the `OpenAPI` description.
//!
//! The library reads documents, and the model determines their fields. Predictions are types of the
//! library, which has no HTTP code. Tests compare these schemas with the bodies that the server
//! reads and writes.

use std::collections::BTreeMap;

use utoipa::ToSchema;

use crate::documents::OneText;

/// One document, or several as `{"documents": […]}`. As `application/x-ndjson`, one document per
/// line, answered line by line. As `text/plain`, the text itself.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "a description")]
pub(crate) enum OneOrMore {
    One(OneText),
    Several { documents: Vec<OneText> },
}

/// A document with its labels.
#[derive(ToSchema)]
#[expect(dead_code, reason = "a description")]
pub(crate) struct LabeledDocument {
    #[schema(example = "The band played three new songs.")]
    text: String,
    #[schema(example = json!(["music"]))]
    labels: Vec<String>,
    /// Weight of the document's vote, above 0.
    #[schema(example = 1.0)]
    weight: Option<f32>,
}

/// Several documents with their identifiers and labels.
#[derive(ToSchema)]
#[expect(dead_code, reason = "a description")]
pub(crate) struct LabeledDocuments {
    documents: Vec<NamedDocument>,
}

/// A document with its identifier and labels.
#[derive(ToSchema)]
#[expect(dead_code, reason = "a description")]
pub(crate) struct NamedDocument {
    /// Identifier. A document of the model with the same identifier is replaced.
    #[schema(example = "letter-17")]
    id: String,
    #[schema(example = "The band played three new songs.")]
    text: String,
    #[schema(example = json!(["music"]))]
    labels: Vec<String>,
    /// Weight of the document's vote, above 0.
    #[schema(example = 1.0)]
    weight: Option<f32>,
}

/// A prediction. Several predictions are `{"answers": […]}`, in the order of the documents.
#[derive(ToSchema)]
#[expect(dead_code, reason = "a description")]
pub(crate) struct Prediction {
    id: String,
    /// The labels, best first.
    labels: Vec<String>,
    /// Share of the votes for the best label.
    score: Option<f64>,
    /// Probability that the best label is correct, if the model is calibrated.
    probability: Option<f64>,
    /// Expected share of correct labels among the predicted labels, if the model is calibrated.
    confidence: Option<f64>,
    /// `no-known-term`, `no-neighbor`, `no-label`, `unsure` or `foreign` (out of distribution).
    reason: Option<String>,
    /// The best labels, predicted or not.
    scores: Option<Vec<ScoredLabel>>,
    /// The training documents that voted, best first.
    neighbors: Option<Vec<Neighbor>>,
    /// The neighbors found by dense vectors, if the model also searches terms.
    by_vectors: Option<Vec<Neighbor>>,
}

/// A label with its score.
#[derive(ToSchema)]
#[expect(dead_code, reason = "a description")]
pub(crate) struct ScoredLabel {
    label: String,
    score: f64,
    probability: Option<f64>,
}

/// A training document that voted.
#[derive(ToSchema)]
#[expect(dead_code, reason = "a description")]
pub(crate) struct Neighbor {
    id: String,
    similarity: f32,
    labels: Vec<String>,
    /// Learned weights of the document's vote for labels.
    worth: Option<BTreeMap<String, f32>>,
    text: Option<String>,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use axum::http::StatusCode;
    use classify::classifier::answer::Answer;
    use classify::classifier::{NamedNeighbor, ScoredLabel};
    use serde_json::{Value, json};

    use crate::test_server::TestServer;

    fn names(object: &Value) -> BTreeSet<String> {
        object.as_object().unwrap().keys().cloned().collect()
    }

    /// Builds an object from the examples of a schema.
    fn example(schemas: &Value, name: &str) -> Value {
        let properties = schemas[name]["properties"].as_object().unwrap();
        let value = |schema: &Value| match schema["items"]["$ref"].as_str() {
            Some(item) => json!([example(schemas, item.rsplit('/').next().unwrap())]),
            None => schema["example"].clone(),
        };
        properties.iter().map(|(name, schema)| (name.clone(), value(schema))).collect()
    }

    #[tokio::test]
    async fn answers_have_the_fields_of_their_descriptions() {
        let server = TestServer::open();
        let descriptions = server.get("/openapi.json").await.json();
        let schemas = &descriptions["components"]["schemas"];
        let neighbor = || NamedNeighbor {
            id: "",
            similarity: 0.0,
            labels: Vec::new(),
            vote_weights: Some([("", 0.0)].into()),
            text: Some(""),
        };
        let scored = ScoredLabel { label: "", score: 0.0, probability: Some(0.0) };
        assert_eq!(
            names(&serde_json::to_value(neighbor()).unwrap()),
            names(&schemas["Neighbor"]["properties"])
        );
        assert_eq!(
            names(&serde_json::to_value(&scored).unwrap()),
            names(&schemas["ScoredLabel"]["properties"])
        );
        let answer = Answer {
            id: "",
            labels: Vec::new(),
            score: Some(0.0),
            probability: Some(0.0),
            confidence: Some(0.0),
            reason: Some(""),
            scores: Some(vec![scored]),
            neighbors: Some(vec![neighbor()]),
            by_vectors: Some(vec![neighbor()]),
            // The server has a separate request for explanations.
            explanation: None,
        };
        assert_eq!(
            names(&serde_json::to_value(&answer).unwrap()),
            names(&schemas["Prediction"]["properties"])
        );
    }

    #[tokio::test]
    async fn examples_are_accepted() {
        let server = TestServer::open();
        let descriptions = server.get("/openapi.json").await.json();
        let schemas = &descriptions["components"]["schemas"];
        for (method, path, schema) in [
            ("PUT", "/v1/documents/x?new-labels=true", "LabeledDocument"),
            ("PATCH", "/v1/documents/x?new-labels=true", "NewLabels"),
            ("POST", "/v1/documents?new-labels=true", "LabeledDocuments"),
        ] {
            let body = example(schemas, schema).to_string();
            let reply = server.send(method, path, body.clone()).await;
            assert_eq!(reply.status, StatusCode::OK, "{body}: {reply:?}");
            assert_eq!(names(&reply.json()), names(&schemas["ChangeReport"]["properties"]));
        }
        let model = server.get("/v1/model").await.json();
        assert_eq!(names(&model), names(&schemas["ModelReport"]["properties"]));
        // The description covers every response of every request.
        for (path, methods) in descriptions["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                assert!(operation["responses"]["200"].is_object(), "{method} {path}");
            }
        }
    }
}
