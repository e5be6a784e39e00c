//! Maps requests to handlers.

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post, put};

use crate::access::{check_read, check_write, name_methods, observe};
use crate::failure::Failure;
use crate::routes::{changes, documents, health, labeling, model, predict};
use crate::shared::Shared;
use crate::{openapi, page};

/// Returns the router for all requests.
pub(crate) fn router(shared: &Shared) -> Router {
    let reads = Router::new()
        .route("/v1/predict", post(predict::predict))
        .route("/v1/explain", post(predict::explain))
        .route("/v1/neighbors", post(predict::neighbors))
        .route("/v1/model", get(model::model))
        .route("/v1/documents", get(documents::documents))
        .route("/v1/documents/{id}", get(documents::document))
        .route_layer(from_fn_with_state(shared.clone(), check_read));
    let writes = Router::new()
        .route("/v1/documents", post(changes::add_documents))
        .route(
            "/v1/documents/{id}",
            put(changes::put_document)
                .delete(changes::remove_document)
                .patch(changes::relabel_document),
        )
        .route("/v1/labeling", get(labeling::progress))
        .route("/v1/labeling/next", post(labeling::next))
        .route("/v1/labeling/review", post(labeling::review))
        .route("/v1/labeling/decisions", post(labeling::decide))
        .route("/v1/labeling/undo", post(labeling::undo))
        .route("/v1/labeling/search", get(labeling::search))
        .route("/v1/labeling/export", get(labeling::export))
        .route_layer(from_fn_with_state(shared.clone(), check_write));
    let routes = Router::new()
        .merge(reads)
        .merge(writes)
        .route("/healthz", get(health::health))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(health::metrics))
        .route("/openapi.json", get(openapi::description))
        .merge(page::router())
        .fallback(|| async { Failure::NoSuchPath })
        .layer(from_fn_with_state(shared.clone(), observe))
        .with_state(shared.clone());
    // A router adds the header `allow` after its own layers.
    Router::new().fallback_service(routes).layer(from_fn(name_methods))
}
