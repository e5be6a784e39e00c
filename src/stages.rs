//! How long each stage of the work takes, to see which one bounds it.

use std::fmt;
use std::time::Instant;

use serde::Serialize;

/// A stage of the work and its time. Several stages can run at the same time, on different
/// documents.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stage {
    /// What is done.
    pub name: String,
    /// The seconds in which the stage was at work, by the clock.
    pub seconds: f64,
    /// The number of documents processed; 0 if the stage processes none.
    pub documents: u64,
    /// The bytes of text processed, if the stage processes text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Of stages that run concurrently, the share of the time from the first document to the last
    /// in which the stage was at work; the rest it waited for other stages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy: Option<f64>,
}

impl Stage {
    /// A stage before it starts.
    pub fn empty(name: &str) -> Self {
        Self { name: name.to_owned(), seconds: 0.0, documents: 0, bytes: None, busy: None }
    }

    /// A stage that began at `start` and ends now.
    pub fn since(name: &str, documents: u64, start: Instant) -> Self {
        let mut stage = Self::empty(name);
        stage.add(documents, start);
        stage
    }

    /// Adds `documents` more documents and the time since `start`.
    pub fn add(&mut self, documents: u64, start: Instant) {
        self.seconds += start.elapsed().as_secs_f64();
        self.documents += documents;
    }

    /// The same stage, which ran concurrently with others for `seconds` in total.
    #[must_use]
    pub fn beside(self, seconds: f64) -> Self {
        let busy = if seconds > 0.0 { (self.seconds / seconds).min(1.0) } else { 1.0 };
        Self { busy: Some(busy), ..self }
    }

    /// Documents per second.
    pub fn rate(&self) -> f64 {
        if self.seconds > 0.0 { self.documents as f64 / self.seconds } else { 0.0 }
    }

    /// Megabytes (10^6) of text per second.
    pub fn megabytes(&self) -> Option<f64> {
        let bytes = self.bytes.filter(|_| self.seconds > 0.0)?;
        Some(bytes as f64 / 1e6 / self.seconds)
    }
}

/// Progress of stages that run concurrently.
#[derive(Debug, Clone, PartialEq)]
pub struct SoFar<'a> {
    /// The documents that are through all stages.
    pub documents: u64,
    /// The stage that was at work for the longest time so far, waiting for threads and input
    /// included: usually the one that limits the others.
    pub busiest: &'a str,
    /// The share of the time in which that stage was at work, from 0 to 1.
    pub busy: f64,
}

/// One line: the name, seconds, documents/s, MB/s and the share of the time at work, as far as they
/// are known.
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
    fn lines() {
        let stage = Stage { seconds: 0.5, documents: 1_000, ..Stage::empty("read") };
        assert_eq!(stage.to_string(), "read: 0.500 s, 2000 documents/s");
        let stage = Stage { bytes: Some(4_000_000), ..stage }.beside(2.0);
        assert_eq!(
            stage.to_string(),
            "read: 0.500 s, 2000 documents/s, 8 MB/s, busy 25 % of the time"
        );
        assert_eq!(Stage { seconds: 0.25, ..Stage::empty("start") }.to_string(), "start: 0.250 s");
        assert_eq!(Stage::empty("none").rate().to_bits(), 0f64.to_bits());
        assert_eq!(Stage::empty("none").beside(0.0).busy, Some(1.0));
    }
}
