//! Reads request bodies, within limits of size, time and memory.

use std::future::poll_fn;
use std::pin::Pin;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderMap, header};
use tokio::time::{Instant, timeout_at};

use crate::failure::Failure;
use crate::memory::Reservation;
use crate::options::ServerOptions;

/// Format of a request body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyFormat {
    /// One or several documents as JSON.
    Json,
    /// A document as JSON on each line.
    Lines,
    /// One text.
    Text,
}

impl BodyFormat {
    /// Returns the format for the content type of a request.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, Failure> {
        if headers.contains_key(header::CONTENT_ENCODING) {
            return Err(Failure::Compressed);
        }
        let content_type = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let content_type =
            content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim();
        match content_type.to_ascii_lowercase().as_str() {
            "application/json" => Ok(Self::Json),
            "application/x-ndjson" | "application/jsonl" | "application/x-jsonlines" => {
                Ok(Self::Lines)
            }
            "text/plain" => Ok(Self::Text),
            _ => Err(Failure::ContentType),
        }
    }
}

/// Returns the next part of a body, or `None` at its end.
pub(crate) async fn next_part(body: &mut Body, until: Instant) -> Result<Option<Bytes>, Failure> {
    loop {
        let frame = poll_fn(|context| Pin::new(&mut *body).poll_frame(context));
        match timeout_at(until, frame).await.map_err(|_| Failure::SlowBody)? {
            None => return Ok(None),
            Some(Err(_)) => return Err(Failure::IncompleteBody),
            Some(Ok(frame)) => {
                // Trailers are ignored.
                if let Ok(part) = frame.into_data() {
                    return Ok(Some(part));
                }
            }
        }
    }
}

/// Reads a whole body. The reservation grows with the bytes that arrive.
pub(crate) async fn read(
    mut body: Body,
    options: &ServerOptions,
    reservation: &mut Reservation,
) -> Result<Vec<u8>, Failure> {
    let limit = options.max_body_bytes;
    let until = Instant::now() + options.deadline;
    if body.size_hint().lower() > limit as u64 {
        return Err(Failure::TooLarge(limit));
    }
    let mut bytes = Vec::new();
    while let Some(part) = next_part(&mut body, until).await? {
        if bytes.len() + part.len() > limit {
            return Err(Failure::TooLarge(limit));
        }
        reservation.append(&mut bytes, &part)?;
    }
    Ok(bytes)
}
