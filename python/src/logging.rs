//! Passes warnings of the library, which are `tracing` events, to Python's `logging`.
//!
//! Events can come from threads that cannot wait for the GIL. They are therefore stored until the
//! call into the library returns. The calling thread then logs them.

use std::fmt::{self, Write as _};
use std::sync::Mutex;

use pyo3::prelude::*;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Maximum number of warnings per call. Further warnings are dropped.
const MAX_WARNINGS: usize = 1_000;

static WARNINGS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Starts to store warnings.
pub(crate) fn start() {
    // If the process already has a subscriber, that subscriber gets the warnings.
    let _ = tracing::subscriber::set_global_default(Warnings);
}

/// Logs the stored warnings.
pub(crate) fn flush(py: Python<'_>) -> PyResult<()> {
    let kept = match WARNINGS.try_lock() {
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
        if let Ok(mut kept) = WARNINGS.try_lock()
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
