//! The `OpenAPI` description of the server.

use std::sync::OnceLock;

use axum::http::header;
use axum::response::{IntoResponse, Response};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};

use crate::failure::ErrorReport;
use crate::routes::{changes, documents, labeling, model, predict};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "classify",
        description = "Predicts the labels of documents, explains them, and changes the \
            documents of the model. Errors have the form {\"error\": {\"code\", \"message\"}}.",
        license(name = "MIT OR Apache-2.0")
    ),
    paths(
        predict::predict,
        predict::explain,
        predict::neighbors,
        model::model,
        documents::documents,
        documents::document,
        changes::put_document,
        changes::add_documents,
        changes::remove_document,
        changes::relabel_document,
        labeling::progress,
        labeling::next,
        labeling::review,
        labeling::decide,
        labeling::undo,
        labeling::search,
        labeling::export
    ),
    components(schemas(ErrorReport)),
    modifiers(&TokenScheme)
)]
struct Description;

/// Adds the bearer token to the description as a security scheme.
struct TokenScheme;

impl Modify for TokenScheme {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        let components = openapi.components.get_or_insert_default();
        components.add_security_scheme("token", SecurityScheme::Http(scheme));
    }
}

/// Handles `GET /openapi.json`: returns the description as JSON.
pub(crate) async fn description() -> Response {
    static JSON: OnceLock<String> = OnceLock::new();
    let json = JSON.get_or_init(|| Description::openapi().to_json().unwrap_or_default());
    ([(header::CONTENT_TYPE, "application/json")], json.as_str()).into_response()
}
