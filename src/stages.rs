//! Timing of processing stages, which identifies the bottleneck.

use std::fmt;
use std::time::Instant;

use serde::Serialize;

/// A processing stage and the time that it took. Several stages can run concurrently, on different
/// documents.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stage {
    /// The name of the stage.
    pub name: String,
    /// The wall-clock time that the stage was busy, in seconds.
    pub seconds: f64,
    /// The number of documents processed; 0 if the stage processes none.
    pub documents: u64,
    /// The number of bytes of text processed, if the stage processes text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// For concurrent stages, the fraction of the total time that the stage was busy, from 0 to 1.
    /// The rest of the time, the stage waited for other stages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy: Option<f64>,
}

impl Stage {
    /// Creates a stage that has not started.
    pub fn empty(name: &str) -> Self {
        Self { name: name.to_owned(), seconds: 0.0, documents: 0, bytes: None, busy: None }
    }

    /// Creates a stage that started at `start` and ends now.
    pub fn since(name: &str, documents: u64, start: Instant) -> Self {
        let mut stage = Self::empty(name);
        stage.add(documents, start);
        stage
    }

    /// Adds `documents` to the count and the time since `start` to the total.
    pub fn add(&mut self, documents: u64, start: Instant) {
        self.seconds += start.elapsed().as_secs_f64();
        self.documents += documents;
    }

    /// Sets [`busy`](Self::busy) for a concurrent stage. `seconds` is the total time of all stages.
    #[must_use]
    pub fn with_total_time(self, seconds: f64) -> Self {
        let busy = if seconds > 0.0 { (self.seconds / seconds).min(1.0) } else { 1.0 };
        Self { busy: Some(busy), ..self }
    }

    /// Returns the number of documents processed per second.
    pub fn rate(&self) -> f64 {
        if self.seconds > 0.0 { self.documents as f64 / self.seconds } else { 0.0 }
    }

    /// Returns the number of megabytes (10^6 bytes) of text processed per second, if the stage
    /// processes text.
    pub fn megabytes(&self) -> Option<f64> {
        let bytes = self.bytes.filter(|_| self.seconds > 0.0)?;
        Some(bytes as f64 / 1e6 / self.seconds)
    }
}

/// Progress of concurrent stages.
#[derive(Debug, Clone, PartialEq)]
pub struct PipelineProgress<'a> {
    /// The number of documents that have passed through all stages.
    pub documents: u64,
    /// The name of the stage that has been busy the longest, including waits for threads and input.
    /// This stage is usually the bottleneck.
    pub busiest: &'a str,
    /// The fraction of the time that this stage was busy, from 0 to 1.
    pub busy: f64,
}

/// Displays one line: the name, seconds, documents/s, MB/s and busy percentage. Unknown values are
/// omitted.
impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, seconds, .. } = self;
        write!(f, "{name}: {seconds:.3} s")?;
        if self.documents > 0 {
            write!(f, ", {:.0} documents/s", self.rate())?;
        }
        if let Some(megabytes) = self.megabytes() {
            write!(f, ", {megabytes:.0} MB/s")?;
        }
        if let Some(busy) = self.busy {
            write!(f, ", busy {:.0} % of the time", busy * 100.0)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_displayed_on_one_line() {
        let stage = Stage { seconds: 0.5, documents: 1_000, ..Stage::empty("read") };
        assert_eq!(stage.to_string(), "read: 0.500 s, 2000 documents/s");
        let stage = Stage { bytes: Some(4_000_000), ..stage }.with_total_time(2.0);
        assert_eq!(
            stage.to_string(),
            "read: 0.500 s, 2000 documents/s, 8 MB/s, busy 25 % of the time"
        );
        assert_eq!(Stage { seconds: 0.25, ..Stage::empty("start") }.to_string(), "start: 0.250 s");
        assert_eq!(Stage::empty("none").rate().to_bits(), 0f64.to_bits());
        assert_eq!(Stage::empty("none").with_total_time(0.0).busy, Some(1.0));
    }
}
