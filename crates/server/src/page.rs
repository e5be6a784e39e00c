//! The web pages, and their content security policy.

use axum::Router;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

/// Content security policy: only resources of this server, without inline scripts or frames.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                      img-src 'self' data:; connect-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'";

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Returns the routes of the pages.
pub(crate) fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    let files = [
        ("/", HTML, include_str!("page/index.html")),
        ("/api", HTML, include_str!("page/api.html")),
        ("/labeling", HTML, include_str!("page/labeling.html")),
        ("/page.css", CSS, include_str!("page/page.css")),
        ("/common.js", SCRIPT, include_str!("page/common.js")),
        ("/labeling.js", SCRIPT, include_str!("page/labeling.js")),
        ("/page.js", SCRIPT, include_str!("page/page.js")),
        ("/api.js", SCRIPT, include_str!("page/api.js")),
    ];
    files.into_iter().fold(Router::new(), |router, (path, kind, text)| {
        router.route(path, get(move || async move { response(kind, text) }))
    })
}

fn response(kind: &'static str, text: &'static str) -> Response {
    let mut response = ([(header::CONTENT_TYPE, kind)], text).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}
