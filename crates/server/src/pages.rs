//! The page, and what browsers may do with it.

use axum::Router;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::api::Shared;

/// Only what this server sends: no inline scripts or styles, no other hosts, no frames.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";

pub(crate) fn router() -> Router<Shared> {
    Router::new()
        .route(
            "/",
            get(|| async { page("text/html; charset=utf-8", include_str!("page/index.html")) }),
        )
        .route(
            "/api",
            get(|| async { page("text/html; charset=utf-8", include_str!("page/api.html")) }),
        )
        .route(
            "/page.css",
            get(|| async { page("text/css; charset=utf-8", include_str!("page/page.css")) }),
        )
        .route(
            "/page.js",
            get(|| async { page("text/javascript; charset=utf-8", include_str!("page/page.js")) }),
        )
        .route(
            "/api.js",
            get(|| async { page("text/javascript; charset=utf-8", include_str!("page/api.js")) }),
        )
}

fn page(kind: &'static str, text: &'static str) -> Response {
    let mut response = ([(header::CONTENT_TYPE, kind)], text).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}
