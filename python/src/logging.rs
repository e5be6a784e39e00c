//! Passes warnings of the library, which are `tracing` events, to Python's `logging`.
//!
//! An event can come from any thread, including one that Python must not wait for. Events are
//! therefore kept until the call into the library returns, and the calling thread logs them.

use std::fmt::{self, Write as _};
use std::sync::Mutex;

use pyo3::prelude::*;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Maximum number of warnings per call; later ones are dropped.
const MAX_WARNINGS: usize = 1_000;

static KEPT: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Keeps warnings from now on.
pub(crate) fn start() {
    // If the program has a subscriber of its own, that one gets them.
    let _ = tracing::subscriber::set_global_default(Warnings);
}

/// Logs the warnings so far.
pub(crate) fn flush(py: Python<'_>) -> PyResult<()> {
    let kept = match KEPT.try_lock() {
        Ok(mut kept) if !kept.is_empty() => std::mem::take(&mut *kept),
        _ => return Ok(()),
    };
    let logger = py.import("logging")?.call_method1("getLogger", ("classify_knn",))?;
    kept.iter().try_for_each(|line| logger.call_method1("warning", ("%s", line)).map(|_| ()))
}

struct Warnings;

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Message(String::new());
        event.record(&mut line);
        if let Ok(mut kept) = KEPT.try_lock()
            && kept.len() < MAX_WARNINGS
        {
            kept.push(line.0);
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            let _ = write!(self.0, "{value:?}");
        }
    }
}
