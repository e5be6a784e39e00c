//! Server benchmark: requests per second, latencies, and whether every response is correct.
//!
//! ```text
//! cargo bench --bench serve -- MODEL CORPUS [--connections N] [--seconds S] [--requests N]
//!     [--batch N] [--rename N] [--other MODEL] [-- FLAGS OF THE SERVER]
//! ```
//!
//! The benchmark starts the server with the model and sends it the texts of the corpus (JSONL).
//! Each connection has one request at a time, until time is up or all requests are answered. Each
//! document has a unique identifier, which its answer repeats. Each answer is compared with the
//! answer of the idle server to the same text.
//!
//! `--batch` is the number of documents per request. `--rename` is the number of times that the
//! model file is replaced during the run, alternately by the other model and by the original. Each
//! answer must then match one of the two models. The load generator runs on the same machine.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark may panic, and prints")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use testkit::{Folder, Program, Server, text};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

struct Options {
    model: String,
    corpus: String,
    connections: usize,
    seconds: u64,
    requests: u64,
    batch: usize,
    renames: u64,
    other: Option<String>,
    more: Vec<String>,
}

fn options() -> Options {
    let mut options = Options {
        model: String::new(),
        corpus: String::new(),
        connections: 64,
        seconds: 10,
        requests: u64::MAX,
        batch: 1,
        renames: 0,
        other: None,
        more: Vec::new(),
    };
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().unwrap().parse::<u64>().unwrap();
        match argument.as_str() {
            "--connections" => options.connections = usize::try_from(number()).unwrap(),
            "--seconds" => options.seconds = number(),
            "--requests" => {
                options.requests = number();
                options.seconds = u64::MAX / 2;
            }
            "--batch" => options.batch = usize::try_from(number()).unwrap(),
            "--rename" => options.renames = number(),
            "--other" => options.other = arguments.next(),
            "--" => options.more = arguments.by_ref().collect(),
            path if options.model.is_empty() => path.clone_into(&mut options.model),
            path => path.clone_into(&mut options.corpus),
        }
    }
    options
}

fn start(model: &str, flags: &[String]) -> Server {
    let flags = flags.iter().map(String::as_str);
    let arguments: Vec<&str> =
        ["serve", model, "--listen", "127.0.0.1:0"].into_iter().chain(flags).collect();
    let here = std::env::current_dir().unwrap();
    let program = Program::new(env!("CARGO_BIN_EXE_classify")).within(&here);
    Server::start(&mut program.command(&arguments))
}

/// Resources that a server has used so far.
#[derive(Clone, Copy)]
struct Usage {
    /// Resident memory in MiB.
    memory: u64,
    /// Processor seconds.
    cpu: f64,
}

impl Usage {
    fn of(server: &Server) -> Self {
        let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
        let kilobytes: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        let ticks: f64 = [11, 12].map(|at: usize| fields[at].parse::<f64>().unwrap()).iter().sum();
        Self { memory: kilobytes / 1024, cpu: ticks / 100.0 }
    }
}

/// A persistent connection.
struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    async fn new(address: &str) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, buffer: Vec::with_capacity(1 << 16) }
    }

    /// Sends a request, and returns the status and the body of the response. Returns `None` if the
    /// connection fails.
    async fn ask(&mut self, body: &str) -> Option<(u16, String)> {
        let head = format!(
            "POST /v1/predict HTTP/1.1\r\nhost: localhost\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let mut request = head.into_bytes();
        request.extend_from_slice(body.as_bytes());
        self.stream.write_all(&request).await.ok()?;
        self.buffer.clear();
        loop {
            let read = self.stream.read_buf(&mut self.buffer).await.ok()?;
            if read == 0 {
                return None;
            }
            if let Some(end) = self.buffer.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                let head = std::str::from_utf8(&self.buffer[..end]).unwrap();
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                let length: usize = length.unwrap().parse().unwrap();
                let status = head[9..12].parse().unwrap();
                if self.buffer.len() >= end + 4 + length {
                    let body = self.buffer[end + 4..end + 4 + length].to_vec();
                    return Some((status, String::from_utf8(body).unwrap()));
                }
            }
        }
    }
}

fn texts(path: &str) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    let read = |line: &str| {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        value["text"].as_str().unwrap().to_owned()
    };
    text.lines().map(read).collect()
}

/// Builds the body of request `number`, whose document identifiers start with this number.
fn body(texts: &[String], number: u64, batch: usize) -> String {
    let document = |at: u64| {
        let text = &texts[usize::try_from((number + at) % texts.len() as u64).unwrap()];
        serde_json::json!({ "id": format!("{number}-{at}"), "text": text }).to_string()
    };
    if batch == 1 {
        return document(0);
    }
    let all: Vec<String> = (0..batch as u64).map(document).collect();
    format!("{{\"documents\":[{}]}}", all.join(","))
}

/// Removes the identifiers from an answer. Returns `None` if an expected identifier is missing.
fn without_ids(answer: &str, number: u64, batch: usize) -> Option<Vec<String>> {
    let mut all = Vec::new();
    let mut rest = answer;
    for at in 0..batch {
        let id = format!("{{\"id\":\"{number}-{at}\",");
        let start = rest.find(&id)?;
        rest = &rest[start + id.len()..];
        let end = rest.find("{\"id\":").unwrap_or(rest.len());
        all.push(rest[..end].trim_end_matches(['\n', ',', ']', '}']).to_owned());
    }
    Some(all)
}

#[derive(Default)]
struct Counts {
    right: AtomicU64,
    wrong: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
}

/// Returns the number of times that the server has reloaded its model.
async fn reloads(address: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = "GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let line = answer.lines().find_map(|line| line.strip_prefix("classify_reloads_total "));
    line.unwrap_or("?").to_owned()
}

/// Returns the answers of an idle server to the texts, one request at a time.
async fn answers_alone(server: &Server, texts: &[String]) -> Vec<String> {
    let mut client = Client::new(server.address()).await;
    let mut answers = Vec::new();
    for number in 0..texts.len() as u64 {
        let (status, answer) = client.ask(&body(texts, number, 1)).await.unwrap();
        assert_eq!(status, 200, "{answer}");
        answers.extend(without_ids(&answer, number, 1).unwrap());
    }
    answers
}

/// State that all connections share.
struct Load {
    options: Options,
    texts: Vec<String>,
    address: String,
    /// The answers of each model to the texts.
    expected: Vec<Vec<String>>,
    counts: Counts,
    next: AtomicU64,
    start: Instant,
}

/// Sends requests on one connection until the end of the run. Returns the latencies of responses
/// with status 200.
async fn ask_all(load: Arc<Load>) -> Vec<Duration> {
    let Load { options, texts, address, expected, counts, next, start } = &*load;
    let mut client = Client::new(address).await;
    let mut latencies = Vec::new();
    while start.elapsed().as_secs() < options.seconds {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= options.requests {
            break;
        }
        let request = body(texts, number, options.batch);
        let asked = Instant::now();
        let Some((status, answer)) = client.ask(&request).await else {
            counts.failed.fetch_add(1, Ordering::Relaxed);
            client = Client::new(address).await;
            continue;
        };
        let counter = match status {
            200 => {
                latencies.push(asked.elapsed());
                let found = without_ids(&answer, number, options.batch);
                let is_right = |of: &Vec<String>| {
                    found.as_ref().is_some_and(|found| {
                        (number..).zip(found).all(|(number, found)| {
                            let text = usize::try_from(number % texts.len() as u64).unwrap();
                            of[text] == *found
                        })
                    })
                };
                if expected.iter().any(is_right) { &counts.right } else { &counts.wrong }
            }
            429 => &counts.refused,
            _ => &counts.failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
    latencies
}

#[tokio::main]
async fn main() {
    let options = options();
    if options.model.is_empty() || options.corpus.is_empty() {
        println!("serve: give a model and a corpus (JSONL); see the top of this file");
        return;
    }
    let texts = texts(&options.corpus);
    let folder = Folder::new();
    let path = folder.at("a.model");
    std::fs::copy(&options.model, &path).unwrap();
    let server = start(text(&path), &options.more);
    let mut expected = vec![answers_alone(&server, &texts).await];
    let models: Vec<String> =
        std::iter::once(&options.model).chain(&options.other).cloned().collect();
    if let Some(other) = &options.other {
        expected.push(answers_alone(&start(other, &[]), &texts).await);
    }
    let before = Usage::of(&server);
    let renames = options.renames;
    let start = Instant::now();
    let load = Arc::new(Load {
        options,
        texts,
        address: server.address().to_owned(),
        expected,
        counts: Counts::default(),
        next: AtomicU64::new(0),
        start,
    });
    let renaming = std::thread::spawn(move || {
        for number in 1..=renames {
            std::thread::sleep(Duration::from_millis(1050));
            let new = path.with_extension(format!("new{number}"));
            let from = &models[usize::try_from(number).unwrap() % models.len()];
            std::fs::copy(from, &new).unwrap();
            std::fs::rename(&new, &path).unwrap();
        }
    });
    let asking: Vec<_> =
        (0..load.options.connections).map(|_| tokio::spawn(ask_all(Arc::clone(&load)))).collect();
    let mut latencies = Vec::new();
    for task in asking {
        latencies.extend(task.await.unwrap());
    }
    let seconds = start.elapsed().as_secs_f64();
    renaming.join().unwrap();
    latencies.sort_unstable();
    let reloads = reloads(&load.address).await;
    let usage = [before, Usage::of(&server)];
    report(&load, &latencies, seconds, usage);
    println!("the server reloaded the model {reloads} times");
}

/// Prints the results. `latencies` must be sorted; `usage` is before and after the requests.
fn report(load: &Load, latencies: &[Duration], seconds: f64, usage: [Usage; 2]) {
    let Load { options, counts, .. } = load;
    let [before, after] = usage;
    let quantile = |share: f64| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index")]
        let at = (latencies.len() as f64 * share) as usize;
        let at = latencies.get(at.min(latencies.len().saturating_sub(1)));
        at.map_or(0.0, |latency| latency.as_secs_f64() * 1e3)
    };
    let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let right = count(&counts.right);
    let wrong = count(&counts.wrong);
    let documents = (right + wrong) as f64 * options.batch as f64;
    println!(
        "{} connections, {} documents per request: {:.0} requests/s, {:.0} documents/s; \
         p50 {:.2} ms, p99 {:.2} ms, slowest {:.2} ms; \
         {right} right, {wrong} wrong, {} refused (429), {} failed; \
         server {} MiB before, {} MiB after, {:.1} µs of CPU per document",
        options.connections,
        options.batch,
        (right + wrong) as f64 / seconds,
        documents / seconds,
        quantile(0.5),
        quantile(0.99),
        quantile(1.0),
        count(&counts.refused),
        count(&counts.failed),
        before.memory,
        after.memory,
        (after.cpu - before.cpu) * 1e6 / documents.max(1.0),
    );
}
