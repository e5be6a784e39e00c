//! Figures for Prometheus.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// A kind of request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Kind {
    /// The path, with names in place of values.
    pub(crate) path: String,
    /// The status of the answer.
    pub(crate) status: u16,
}

/// All figures.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    pub(crate) requests: Family<Kind, Counter>,
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
        let requests = Family::<Kind, Counter>::default();
        let seconds = Histogram::new(exponential_buckets(0.0005, 2.0, 16));
        let batches = Histogram::new(exponential_buckets(1.0, 2.0, 11));
        let (answered, reloads, failed_reloads, panics) =
            (Counter::default(), Counter::default(), Counter::default(), Counter::default());
        let (documents, connections) = (Gauge::default(), Gauge::default());
        registry.register("requests", "Requests by path and status", requests.clone());
        registry.register_with_unit(
            "request_duration",
            "From the first byte of a request to its answer",
            Unit::Seconds,
            seconds.clone(),
        );
        registry.register(
            "batch_documents",
            "Documents that were searched together",
            batches.clone(),
        );
        registry.register("answered_documents", "Documents that were answered", answered.clone());
        registry.register("model_documents", "Documents of the model", documents.clone());
        registry.register("connections", "Open connections", connections.clone());
        registry.register("reloads", "How often the model was opened again", reloads.clone());
        registry.register(
            "failed_reloads",
            "How often the model could not be opened again",
            failed_reloads.clone(),
        );
        registry.register("panics", "Searches that panicked", panics.clone());
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
    /// The text that Prometheus reads, in the format `OpenMetrics`.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}
