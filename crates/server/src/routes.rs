//! Handlers of requests, one file for each group of requests.

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};

use crate::live::LiveModel;

pub(crate) mod changes;
pub(crate) mod documents;
pub(crate) mod health;
pub(crate) mod labeling;
pub(crate) mod model;
pub(crate) mod predict;

/// Creates a JSON response with the version of its model.
fn json_of(live: &LiveModel, json: Vec<u8>) -> Response {
    let mut response = ([(header::CONTENT_TYPE, "application/json")], json).into_response();
    if let Ok(version) = HeaderValue::from_str(&live.version) {
        response.headers_mut().insert("x-model-version", version);
    }
    response
}

/// Serializes a value as JSON. Names and numbers always serialize.
fn to_json(value: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}
