//! Metrics for Prometheus.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// Label set under which requests are counted.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct RequestKind {
    /// Path, with the names of its parameters instead of their values.
    pub(crate) path: String,
    /// HTTP status of the answer.
    pub(crate) status: u16,
}

/// All metrics.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    pub(crate) requests: Family<RequestKind, Counter>,
    pub(crate) seconds: Histogram,
    pub(crate) batches: Histogram,
    pub(crate) answered: Counter,
    pub(crate) documents: Gauge,
    pub(crate) connections: Gauge,
    pub(crate) reloads: Counter,
    pub(crate) failed_reloads: Counter,
    pub(crate) panics: Counter,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("classify");
        let requests = Family::<RequestKind, Counter>::default();
        let seconds = Histogram::new(exponential_buckets(0.0005, 2.0, 16));
        let batches = Histogram::new(exponential_buckets(1.0, 2.0, 11));
        let answered = Counter::default();
        let documents = Gauge::default();
        let connections = Gauge::default();
        let reloads = Counter::default();
        let failed_reloads = Counter::default();
        let panics = Counter::default();
        registry.register("requests", "Requests by path and status", requests.clone());
        registry.register_with_unit(
            "request_duration",
            "Time from the head of a request to its answer",
            Unit::Seconds,
            seconds.clone(),
        );
        registry.register(
            "batch_documents",
            "Number of documents that were searched together",
            batches.clone(),
        );
        registry.register(
            "answered_documents",
            "Number of documents that were answered",
            answered.clone(),
        );
        registry.register("model_documents", "Number of documents of the model", documents.clone());
        registry.register("connections", "Number of open connections", connections.clone());
        registry.register(
            "reloads",
            "Number of times that the model was reloaded",
            reloads.clone(),
        );
        registry.register(
            "failed_reloads",
            "Number of times that the model could not be reloaded",
            failed_reloads.clone(),
        );
        registry.register("panics", "Number of searches that panicked", panics.clone());
        Self {
            registry,
            requests,
            seconds,
            batches,
            answered,
            documents,
            connections,
            reloads,
            failed_reloads,
            panics,
        }
    }
}

impl Metrics {
    /// Formats all metrics as `OpenMetrics` text, which Prometheus reads.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}
