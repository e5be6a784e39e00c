//! Requests of operators: health, readiness and metrics.

use std::sync::atomic::Ordering;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::shared::Shared;

/// `GET /healthz`: returns 200 while the server runs.
pub(crate) async fn health() -> &'static str {
    "ok\n"
}

/// `GET /readyz`: returns 200 while the server accepts requests.
pub(crate) async fn ready(State(shared): State<Shared>) -> (StatusCode, &'static str) {
    if shared.is_stopping.load(Ordering::Relaxed) {
        return (StatusCode::SERVICE_UNAVAILABLE, "ending\n");
    }
    (StatusCode::OK, "ready\n")
}

/// `GET /metrics`: metrics for Prometheus.
pub(crate) async fn metrics(State(shared): State<Shared>) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], shared.state.metrics.text()).into_response()
}
