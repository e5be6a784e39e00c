//! Classifies a stream of documents, in order and with bounded memory.
//!
//! | module | what it does |
//! |---|---|
//! | `source` | defines the sources of documents |
//! | `backlog` | buffers documents that were read |
//! | `pipeline` | runs the stages concurrently |
//! | `answers` | delivers predictions in order |

mod answers;
mod backlog;
mod pipeline;
mod source;

pub use answers::{Answers, StreamError, StreamSummary, classify_stream};
pub(crate) use pipeline::{HandOver, Pipeline, PipelineError, VectorizedBatch};
pub use source::Source;
