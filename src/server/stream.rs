//! Documents as lines, answered as they come and in order.

use std::io;
use std::time::Duration;

use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::StreamExt;
use serde_json::json;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::api::{About, Asked, Failure, Shared, log_texts};
use super::body;
use crate::text::corpus::{IdUse, LabelUse};

/// Documents that are answered together at most.
const TOGETHER: usize = 64;

/// Answered lines, or the end of the connection.
type Lines = mpsc::Sender<io::Result<Bytes>>;

/// A stream that is being answered.
struct Stream {
    shared: Shared,
    asked: Asked,
    about: About,
    lines: Lines,
    /// How many documents were answered.
    before: u64,
}

/// Answers lines as they come, in order.
pub(super) fn stream(shared: Shared, asked: Asked, about: About, body: Body) -> Response {
    let (lines, out) = mpsc::channel(4);
    let to = lines.clone();
    let mut stream = Stream { shared, asked, about, lines, before: 0 };
    let answering = tokio::spawn(async move {
        if let Err(failure) = stream.answer(body).await {
            // The status was sent long ago: the last line says what went wrong.
            let line = json!({ "error": { "code": failure.code, "message": failure.message } });
            let _ = stream.send(format!("{line}\n").into()).await;
        }
    });
    tokio::spawn(async move {
        if answering.await.is_err() {
            // Not as if it were complete.
            let _ = to.send(Err(io::Error::other("the request failed"))).await;
        }
    });
    let body = Body::from_stream(ReceiverStream::new(out));
    ([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response()
}

impl Stream {
    fn within(&self) -> Duration {
        self.shared.state.options.deadline
    }

    async fn send(&self, bytes: Bytes) -> Result<(), Failure> {
        let sent = tokio::time::timeout(self.within(), self.lines.send(Ok(bytes))).await;
        if let Ok(Ok(())) = sent {
            return Ok(());
        }
        Err(Failure::new(StatusCode::BAD_REQUEST, "gone", "nobody reads the answers"))
    }

    async fn answer(&mut self, body: Body) -> Result<(), Failure> {
        let most = self.shared.state.options.most_bytes;
        let together = TOGETHER.min(self.shared.state.options.queue);
        let mut body = body.into_data_stream();
        // Whole lines that wait, and the beginning of the next one.
        let (mut whole, mut count, mut rest) = (Vec::new(), 0, Vec::new());
        loop {
            let next = tokio::time::timeout(self.within(), body.next()).await;
            let next = next.map_err(|_| {
                let what = "the next part of the body did not arrive in time";
                Failure::new(StatusCode::REQUEST_TIMEOUT, "slow-body", what)
            })?;
            let Some(bytes) = next else { break };
            let bytes = bytes.map_err(|_| {
                let what = "the body ended before it was complete";
                Failure::new(StatusCode::BAD_REQUEST, "body", what)
            })?;
            for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
                if rest.len() + piece.len() > most {
                    return Err(body::too_large(most));
                }
                rest.extend_from_slice(piece);
                if piece.ends_with(b"\n") {
                    whole.append(&mut rest);
                    count += 1;
                }
                if count == together || whole.len() > most {
                    self.answer_lines(std::mem::take(&mut whole)).await?;
                    count = 0;
                }
            }
            // What came together is answered together, and does not wait for more.
            self.answer_lines(std::mem::take(&mut whole)).await?;
            count = 0;
        }
        self.answer_lines(rest).await
    }

    async fn answer_lines(&mut self, lines: Vec<u8>) -> Result<(), Failure> {
        if lines.is_empty() {
            return Ok(());
        }
        let before = self.before;
        let text = String::from_utf8(lines).map_err(|_| {
            let what = format!("a line after document {before} is not UTF-8");
            Failure::new(StatusCode::BAD_REQUEST, "body", what)
        })?;
        let live = self.shared.state.live();
        // Documents without an identifier are numbered over the whole stream.
        let limits = (usize::MAX, LabelUse::Optional, IdUse::NumberedAfter(before));
        let documents = body::lines(text, &live, limits).map_err(|failure| {
            let message =
                format!("{} (lines are counted after document {before})", failure.message);
            Failure { message, ..failure }
        })?;
        if documents.is_empty() {
            return Ok(());
        }
        self.asked.check_size(self.about, documents.len(), &live)?;
        log_texts(self.shared.state.options.log_texts, &documents);
        let wanted = self.asked.wanted(self.about);
        let done = self.shared.queue.answer(documents, wanted, (self.within(), true)).await?;
        let mut out = Vec::new();
        for at in 0..done.documents.len() {
            self.asked.write(self.about, &done, at, &mut out);
            out.push(b'\n');
        }
        let count = done.documents.len() as u64;
        self.before += count;
        self.shared.state.metrics.answered.inc_by(count);
        self.send(out.into()).await
    }
}
