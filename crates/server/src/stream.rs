//! Streams of documents: each line is a document, and lines are answered in order as they arrive.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use classify::text::corpus::{IdUse, LabelUse};
use hyper::body::Frame;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use crate::answer::Question;
use crate::body;
use crate::documents::{DocumentRules, log_texts, parse_lines};
use crate::failure::Failure;
use crate::memory::Reservation;
use crate::queue::DocumentSource;
use crate::shared::Shared;

/// Lines of answers, or a failure that ends the connection.
type Answers = Result<Bytes, io::Error>;

/// A request whose lines are answered one by one.
struct LineStream {
    shared: Shared,
    question: Question,
    answers: mpsc::Sender<Answers>,
    memory: Reservation,
    /// Number of lines read so far.
    lines: u64,
    /// Number of documents answered so far.
    documents: u64,
}

/// Answers lines in order as they arrive.
pub(crate) fn answer_lines(shared: Shared, question: Question, body: Body) -> Response {
    let (answers, receiver) = mpsc::channel(4);
    let ending = answers.clone();
    let memory = shared.memory.reservation();
    let mut stream = LineStream { shared, question, answers, memory, lines: 0, documents: 0 };
    let answering = tokio::spawn(async move {
        if let Err(failure) = stream.answer(body).await {
            // The status was already sent, so the last line reports the error.
            let _ = stream.send_failure(&failure).await;
        }
    });
    tokio::spawn(async move {
        if answering.await.is_err() {
            // Without an error, the answers would seem complete.
            let _ = ending.send(Err(io::Error::other("the request failed"))).await;
        }
    });
    let body = Body::new(AnswerBody(receiver));
    ([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response()
}

/// Body of a response whose parts arrive through a channel.
struct AnswerBody(mpsc::Receiver<Answers>);

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        self.0.poll_recv(context).map(|part| part.map(|part| part.map(Frame::data)))
    }
}

impl LineStream {
    async fn send(&self, bytes: Vec<u8>) -> Result<(), Failure> {
        let within = self.shared.state.options.deadline;
        match timeout(within, self.answers.send(Ok(bytes.into()))).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(Failure::ClientGone),
        }
    }

    async fn answer(&mut self, mut body: Body) -> Result<(), Failure> {
        let options = &self.shared.state.options;
        let limit = options.max_body_bytes;
        let within = options.deadline;
        let max_batch = self.question.max_batch(&self.shared.state.live());
        let max_batch = max_batch.min(self.shared.queue.max_stream_batch());
        // Complete lines that wait for an answer, and the beginning of the next line.
        let mut lines = Vec::new();
        let mut complete = 0;
        let mut count = 0;
        let mut until = Instant::now() + within;
        while let Some(part) = body::next_part(&mut body, until).await? {
            // Each line has one deadline, even if its bytes keep arriving.
            let begins_line = lines.is_empty() || part.contains(&b'\n');
            for segment in part.split_inclusive(|&byte| byte == b'\n') {
                if lines.len() - complete + segment.len() > limit {
                    return Err(Failure::TooLarge(limit));
                }
                self.memory.append(&mut lines, segment)?;
                if segment.ends_with(b"\n") {
                    complete = lines.len();
                    count += 1;
                }
                if count == max_batch || complete > limit {
                    self.answer_batch(&lines).await?;
                    lines.clear();
                    complete = 0;
                    count = 0;
                }
            }
            // Lines that arrive together are answered together, without waiting for more.
            if begins_line {
                self.answer_batch(&lines[..complete]).await?;
                lines = lines[complete..].to_vec();
                complete = 0;
                count = 0;
                self.memory.resize(lines.capacity())?;
                until = Instant::now() + within;
            }
        }
        self.answer_batch(&lines).await
    }

    /// Answers a batch of lines. An invalid line gets an error in place of its answer.
    async fn answer_batch(&mut self, mut lines: &[u8]) -> Result<(), Failure> {
        while let Err(BatchFailure { line, failure }) = self.answer_documents(lines).await {
            let Some(line) = line else { return Err(failure) };
            let (before, rest) = split_lines(lines, line - 1);
            let (invalid, after) = split_lines(rest, 1);
            self.answer_documents(before).await.map_err(|batch| batch.failure)?;
            match self.answer_documents(invalid).await {
                Ok(()) => {}
                Err(BatchFailure { line: Some(_), failure }) => {
                    self.send_failure(&failure).await?;
                    self.lines += 1;
                    self.documents += 1;
                }
                Err(BatchFailure { line: None, failure }) => return Err(failure),
            }
            lines = after;
        }
        Ok(())
    }

    /// Answers either all documents in the lines or none.
    async fn answer_documents(&mut self, lines: &[u8]) -> Result<(), BatchFailure> {
        let text = std::str::from_utf8(lines).map_err(|error| {
            let line = 1 + count_lines(&lines[..error.valid_up_to()]);
            let what = format!("line {} is not UTF-8", self.lines + line);
            BatchFailure { line: Some(line), failure: Failure::Body(what) }
        })?;
        let count = count_lines(lines);
        let live = self.shared.state.live();
        let rules = DocumentRules {
            max_documents: usize::MAX,
            labels: LabelUse::Optional,
            ids: IdUse::NumberedAfter(self.documents),
            notes: None,
        };
        // Documents without an identifier are numbered across the whole stream.
        let documents =
            parse_lines("line", text, &live, &rules).map_err(|failure| self.in_batch(failure))?;
        if documents.is_empty() {
            self.lines += count;
            return Ok(());
        }
        self.question.check_size(documents.len(), &live).map_err(BatchFailure::of_batch)?;
        log_texts(self.shared.state.options.log_texts, &documents);
        let answers =
            self.shared.queue.answer(documents, self.question.mode(), DocumentSource::Stream);
        let answers = answers.await.map_err(|failure| self.in_batch(failure))?;
        self.lines += count;
        let mut out = Vec::new();
        for index in 0..answers.documents.len() {
            self.question.write(&answers, index, &mut out);
            out.push(b'\n');
        }
        let count = answers.documents.len() as u64;
        self.documents += count;
        self.shared.state.metrics.answered.inc_by(count);
        self.send(out).await.map_err(BatchFailure::of_batch)
    }

    /// Attributes a document's failure to its line, and renumbers the line from the beginning of
    /// the stream.
    fn in_batch(&self, mut failure: Failure) -> BatchFailure {
        let mut line = None;
        if let Failure::Document(error) = &mut failure {
            line = error.place.line.filter(|&line| line > 0);
            error.place.line = error.place.line.map(|line| line + self.lines);
        }
        BatchFailure { line, failure }
    }

    async fn send_failure(&self, failure: &Failure) -> Result<(), Failure> {
        let mut line = serde_json::to_vec(&failure.report()).unwrap_or_default();
        line.push(b'\n');
        self.send(line).await
    }
}

/// Reason why a batch of lines was not answered.
struct BatchFailure {
    /// The invalid line of the batch, from 1; `None` if no line can be answered.
    line: Option<u64>,
    failure: Failure,
}

impl BatchFailure {
    fn of_batch(failure: Failure) -> Self {
        Self { line: None, failure }
    }
}

fn count_lines(lines: &[u8]) -> u64 {
    lines.split(|&byte| byte == b'\n').skip(1).count() as u64
}

/// Splits off the first `count` lines.
fn split_lines(lines: &[u8], count: u64) -> (&[u8], &[u8]) {
    let first = (0..count).zip(lines.split_inclusive(|&byte| byte == b'\n'));
    lines.split_at(first.map(|(_, line)| line.len()).sum())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use axum::http::StatusCode;
    use serde_json::{Value, json};

    use super::*;
    use crate::memory::MemoryBudget;
    use crate::test_server::{Reply, TestServer, request};

    /// Returns a body, and the channel through which a test sends its parts.
    fn open_body() -> (mpsc::Sender<Answers>, Body) {
        let (parts, receiver) = mpsc::channel(64);
        (parts, Body::new(AnswerBody(receiver)))
    }

    async fn lines(server: &TestServer, body: Body) -> Reply {
        let kind = "application/x-ndjson";
        server.request(request("POST", "/v1/predict").header("content-type", kind), body).await
    }

    fn last_line(reply: &Reply) -> Value {
        serde_json::from_str(reply.body.lines().last().unwrap()).unwrap()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn lines_are_counted_over_the_whole_stream() {
        let server = TestServer::open();
        let good = "{\"text\": \"apple\"}\n\n".repeat(100);
        let reply = lines(&server, Body::from(format!("{good}{{\"txt\": 1}}\n"))).await;
        let expected = "line 201: no field `text`; the document has `txt`";
        assert_eq!(last_line(&reply)["error"]["message"], expected);
        let bad = [good.as_bytes(), b"\xff\n"].concat();
        let reply = lines(&server, Body::from(bad)).await;
        assert_eq!(last_line(&reply)["error"]["message"], "line 201 is not UTF-8");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_invalid_line_does_not_end_the_stream() {
        let server = TestServer::open();
        let good = "{\"text\": \"apple\"}\n";
        let surrogate = "{\"text\": \"apple \\ud83d\"}\n";
        let bad: [(&[u8], &str); 5] = [
            (surrogate.as_bytes(), "half a surrogate pair"),
            (b"\xff\n", "is not UTF-8"),
            (b"{\"txt\": 1}\n", "no field `text`"),
            (b"{\"text\": \"a\n", "JSON"),
            (b"7\n", "JSON"),
        ];
        for (bad, expected) in bad {
            let body = [good.as_bytes(), b"\n", bad, bad, good.as_bytes(), bad].concat();
            let reply = lines(&server, Body::from(body)).await;
            let answers: Vec<Value> =
                reply.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            let numbers = [None, Some(3), Some(4), None, Some(6)];
            assert_eq!(answers.len(), numbers.len(), "{reply:?}");
            for (answer, number) in answers.iter().zip(numbers) {
                match number {
                    None => assert_eq!(answer["labels"], json!(["fruit"]), "{reply:?}"),
                    Some(number) => {
                        let message = answer["error"]["message"].as_str().unwrap();
                        let line = format!("line {number}");
                        assert!(
                            message.starts_with(&line) && message.contains(expected),
                            "{reply:?}"
                        );
                    }
                }
            }
            // Documents without an identifier are named after their position.
            assert_eq!([&answers[0]["id"], &answers[3]["id"]], ["1", "4"]);
        }
    }

    /// Bytes that arrive slowly do not keep a line open forever.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_line_has_a_deadline() {
        let deadline = Duration::from_millis(400);
        let server = TestServer::with(|options| options.deadline = deadline);
        let (parts, body) = open_body();
        let dripping = tokio::spawn(async move {
            for _ in 0..40 {
                tokio::time::sleep(deadline / 8).await;
                if parts.send(Ok("x".into())).await.is_err() {
                    return;
                }
            }
        });
        let reply = lines(&server, body).await;
        assert_eq!(last_line(&reply)["error"]["code"], "slow-body", "{reply:?}");
        dripping.abort();
        // A stream of complete lines may be slow.
        let (parts, body) = open_body();
        let writing = tokio::spawn(async move {
            for _ in 0..6 {
                tokio::time::sleep(deadline / 2).await;
                parts.send(Ok("{\"text\": \"apple\"}\n".into())).await.unwrap();
            }
        });
        let reply = lines(&server, body).await;
        writing.await.unwrap();
        assert_eq!(last_line(&reply)["labels"], json!(["fruit"]));
        assert_eq!(reply.body.lines().count(), 6);
    }

    /// Unfinished lines count toward the shared memory budget of bodies.
    #[tokio::test(flavor = "multi_thread")]
    async fn unfinished_lines_share_the_memory_budget() {
        let mut server = TestServer::open();
        server.limit_memory(MemoryBudget::of_kib(64));
        let (parts, body) = open_body();
        parts.send(Ok("x".repeat(40 << 10).into())).await.unwrap();
        let first = lines(&server, body);
        let second = async {
            // Wait until the first stream's bytes arrive.
            while server.shared.memory.free_kib() > 24 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let reply = lines(&server, Body::from("x".repeat(40 << 10))).await;
            drop(parts);
            reply
        };
        let (first, second) = tokio::join!(first, second);
        assert_eq!(last_line(&second)["error"]["code"], "busy", "{second:?}");
        assert_eq!(last_line(&first)["error"]["code"], "document", "{first:?}");
        assert_eq!(server.shared.memory.free_kib(), 64);
    }

    /// A request that has sent only its head reserves no memory.
    #[tokio::test(flavor = "multi_thread")]
    async fn requests_without_a_body_reserve_no_memory() {
        let server = Arc::new(TestServer::open());
        let mut open = Vec::new();
        let mut waiting = Vec::new();
        for _ in 0..64 {
            let (parts, body) = open_body();
            open.push(parts);
            let head = request("POST", "/v1/predict").header("content-type", "application/json");
            let head = head.header("content-length", 16 << 20);
            let server = Arc::clone(&server);
            waiting.push(tokio::spawn(async move { server.request(head, body).await.status }));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        let other = server.send("POST", "/v1/predict", r#"{"text": "apple"}"#).await;
        assert_eq!(other.status, StatusCode::OK, "{other:?}");
        drop(open);
        for status in waiting {
            // The bodies are empty, and no request was refused before.
            assert_eq!(status.await.unwrap(), StatusCode::BAD_REQUEST);
        }
    }
}
