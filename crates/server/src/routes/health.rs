//! Requests from operators: health, readiness and metrics.

use std::sync::atomic::Ordering;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::shared::Shared;

/// `GET /healthz`: returns 200 while the server runs.
pub(crate) async fn health() -> &'static str {
    "ok\n"
}

/// `GET /readyz`: returns 200 while the server accepts requests, and reports whether it uses an old
/// model.
pub(crate) async fn ready(State(shared): State<Shared>) -> (StatusCode, &'static str) {
    if shared.is_stopping.load(Ordering::Relaxed) {
        return (StatusCode::SERVICE_UNAVAILABLE, "ending\n");
    }
    let text = if shared.state.reload_failed() {
        "ready, with an old model: the model on disk could not be opened\n"
    } else {
        "ready\n"
    };
    (StatusCode::OK, text)
}

/// `GET /metrics`: returns metrics for Prometheus.
pub(crate) async fn metrics(State(shared): State<Shared>) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], shared.state.metrics.text()).into_response()
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;

    use crate::state::ReloadCause;
    use crate::test_server::TestServer;

    #[tokio::test]
    async fn a_failed_reload_is_reported() {
        let server = TestServer::open();
        let ready = || async {
            let reply = server.get("/readyz").await;
            assert_eq!(reply.status, StatusCode::OK);
            reply.body
        };
        assert_eq!(ready().await, "ready\n");
        let model = server.path("a.model");
        std::fs::rename(&model, server.path("old.model")).unwrap();
        std::fs::write(&model, "no model").unwrap();
        server.shared.state.reload(ReloadCause::Timer);
        let expected = "ready, with an old model: the model on disk could not be opened\n";
        assert_eq!(ready().await, expected);
        std::fs::rename(server.path("old.model"), &model).unwrap();
        server.shared.state.reload(ReloadCause::Timer);
        assert_eq!(ready().await, "ready\n");
    }
}
