//! Checks tokens and hosts, sets the headers of responses, and logs and counts requests.

use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::failure::Failure;
use crate::metrics::RequestKind;
use crate::options::Token;
use crate::parameters::check_escapes;
use crate::shared::Shared;

/// Number of documents that a response answers. Attached to the response as an extension.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AnsweredDocuments(pub(crate) u64);

/// Refuses read requests without the token, if reads are protected.
pub(crate) async fn check_read(
    State(shared): State<Shared>,
    request: Request,
    next: Next,
) -> Result<Response, Failure> {
    let options = &shared.state.options;
    if options.protect_reads {
        check_token(options.token.as_ref(), request.headers())?;
    }
    Ok(next.run(request).await)
}

/// Refuses requests that change documents without the token.
pub(crate) async fn check_write(
    State(shared): State<Shared>,
    request: Request,
    next: Next,
) -> Result<Response, Failure> {
    let token = shared.state.options.token.as_ref().ok_or(Failure::ReadOnly)?;
    check_token(Some(token), request.headers())?;
    Ok(next.run(request).await)
}

fn check_token(token: Option<&Token>, headers: &HeaderMap) -> Result<(), Failure> {
    let header = headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
    let secret = header.and_then(|header| {
        let (scheme, secret) = header.split_at_checked("bearer ".len())?;
        scheme.eq_ignore_ascii_case(b"bearer ").then_some(secret)
    });
    match secret {
        Some(secret) if token.is_some_and(|token| token.matches(secret)) => Ok(()),
        Some([_, ..]) => Err(Failure::WrongToken),
        _ => Err(Failure::NoToken),
    }
}

/// Names the supported methods in the response to a request with an unsupported method.
pub(crate) async fn name_methods(request: Request, next: Next) -> Response {
    let method = request.method().clone();
    let mut response = next.run(request).await;
    if response.status() == StatusCode::METHOD_NOT_ALLOWED
        && let Some(allowed) = response.headers().get(header::ALLOW).cloned()
    {
        let replacement = Failure::MethodNotAllowed { method, allowed }.into_response();
        let (parts, body) = replacement.into_parts();
        response.headers_mut().remove(header::CONTENT_LENGTH);
        response.headers_mut().extend(parts.headers);
        *response.body_mut() = body;
    }
    response
}

/// Refuses requests to other hosts, sets the headers of every response, and counts and logs
/// requests.
pub(crate) async fn observe(
    State(shared): State<Shared>,
    request: Request,
    next: Next,
) -> Response {
    let start = Instant::now();
    let method = request.method().clone();
    let path = request.extensions().get::<MatchedPath>();
    let path = path.map_or("other", MatchedPath::as_str).to_owned();
    let checked = shared.hosts.check(&request).map_err(Failure::HostNotAllowed);
    let mut response = match checked.and_then(|()| check_escapes(request.uri())) {
        Ok(()) => next.run(request).await,
        Err(failure) => failure.into_response(),
    };
    let seconds = start.elapsed().as_secs_f64();
    let status = response.status().as_u16();
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    let documents = response.extensions_mut().remove::<AnsweredDocuments>();
    let documents = documents.map_or(0, |answered| answered.0);
    let metrics = &shared.state.metrics;
    metrics.seconds.observe(seconds);
    metrics.answered.inc_by(documents);
    let milliseconds = seconds * 1e3;
    tracing::info!(target: "classify::request", %method, path, status, documents, milliseconds);
    metrics.requests.get_or_create(&RequestKind { path, status }).inc();
    response
}
