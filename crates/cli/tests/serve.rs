//! Tests of `classify serve` over HTTP, with well-behaved and misbehaving clients.

#![cfg(feature = "serve")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use classify::random::Random;
use serde_json::{Value, json};
use testkit::{Folder, Messages, Program, finish, text, wait_until};

const TRAIN: &str = "corpora/sample/train.jsonl";
const TEST: &str = "corpora/sample/test.jsonl";
const TOKEN: &str = "the-token-of-these-tests";
const MILK: &str = "whisk the milk, the eggs and the sugar";

fn program() -> Program {
    Program::new(env!("CARGO_BIN_EXE_classify"))
}

/// A server with a model of the sample corpus.
struct Server {
    process: testkit::Server,
    folder: Folder,
}

/// A response of the server.
#[derive(Debug)]
struct Response {
    status: u16,
    head: String,
    body: String,
}

impl Response {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    fn labels(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.body);
        self.json()["labels"].clone()
    }

    fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap().to_owned()
    }

    fn version(&self) -> &str {
        let line = self.head.lines().find(|line| line.starts_with("x-model-version: "));
        line.unwrap().split_at(17).1
    }
}

impl Server {
    fn start(training: &[&str], flags: &[&str]) -> Self {
        let folder = Folder::new();
        let train = ["train", TRAIN, "-q", "-o", &folder.text("a.model")];
        program().succeed(&[&train, training].concat());
        folder.write("token", TOKEN);
        Self::of(folder, flags)
    }

    /// Starts a server with the model in a folder.
    fn of(folder: Folder, flags: &[&str]) -> Self {
        let serve = ["serve", "a.model", "--listen", "127.0.0.1:0"];
        let mut command = program().within(folder.path()).command(&[&serve, flags].concat());
        Self { process: testkit::Server::start(&mut command), folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.at("a.model")
    }

    /// Opens a connection. The time limit is long, because it matters only if the server hangs.
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.process.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_mins(2))).unwrap();
        stream
    }

    /// Sends bytes on a new connection, and reads until it is closed.
    fn raw(&self, bytes: &[u8]) -> String {
        self.all_of(bytes, true)
    }

    fn all_of(&self, bytes: &[u8], ends: bool) -> String {
        let mut stream = self.connect();
        // The server may close the connection before it has read everything.
        let _ = stream.write_all(bytes);
        if ends {
            // The server does not answer a disconnected client, so the client disconnects later.
            std::thread::sleep(Duration::from_millis(5));
            let _ = stream.shutdown(std::net::Shutdown::Write);
        }
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn send(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> Response {
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
             content-length: {length}\r\n{headers}\r\n"
        );
        let answer = self.all_of(&[head.as_bytes(), body].concat(), false);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.get(9..12).and_then(|status| status.parse().ok());
        let status = status.unwrap_or_else(|| panic!("no answer: {answer:?}"));
        Response { status, head: head.to_owned(), body: body.to_owned() }
    }

    fn get(&self, path: &str) -> Response {
        self.send("GET", path, "", b"")
    }

    fn post(&self, path: &str, body: &Value) -> Response {
        self.send("POST", path, "content-type: application/json\r\n", body.to_string().as_bytes())
    }

    fn write(&self, method: &str, path: &str, body: &Value) -> Response {
        let headers =
            format!("content-type: application/json\r\nauthorization: Bearer {TOKEN}\r\n");
        self.send(method, path, &headers, body.to_string().as_bytes())
    }

    fn labels(&self, text: &str) -> Value {
        self.post("/v1/predict", &json!({ "text": text })).labels()
    }

    fn log(&self) -> String {
        self.process.log()
    }

    /// Checks that the server answers, and that nothing panicked.
    fn is_well(&self) {
        assert_eq!(self.labels(MILK), json!(["cooking"]));
        let metrics = self.get("/metrics").body;
        assert!(metrics.contains("classify_panics_total 0\n"), "{metrics}");
        assert!(!self.log().contains("panicked"), "{}", self.log());
    }
}

fn lines_of(path: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(testkit::root().join(path)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The server's answers equal the predictions of `predict`: one at a time, together, and as a
/// stream.
#[test]
fn answers_equal_predict() {
    let server = Server::start(&["--tune"], &[]);
    let model = server.path();
    let predict = ["predict", text(&model), TEST, "--with", "neighbors,scores"];
    let answers = program().succeed(&predict).out;
    let expected: Vec<Value> =
        answers.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let documents: Vec<Value> = lines_of(TEST)
        .into_iter()
        .map(|line| json!({ "id": line["id"], "text": line["text"] }))
        .collect();
    let path = "/v1/predict?with=neighbors,scores";
    for (document, expected) in documents.iter().zip(&expected).take(20) {
        assert_eq!(server.post(path, document).json(), *expected);
    }
    let together = server.post(path, &json!({ "documents": documents })).json();
    assert_eq!(together["answers"], json!(expected));
    let lines: Vec<String> = documents.iter().map(Value::to_string).collect();
    let kind = "content-type: application/x-ndjson\r\n";
    let streamed = server.send("POST", path, kind, lines.join("\n").as_bytes());
    // The body is chunked; the lines in between are the lengths of the chunks.
    let found = streamed.body.lines().filter(|line| line.starts_with('{'));
    let found: Vec<Value> = found.map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(found, expected);
    let neighbor = server.post("/v1/neighbors?k=3", &documents[0]).json();
    assert_eq!(neighbor["neighbors"].as_array().unwrap().len(), 3);
    assert_eq!(neighbor["neighbors"][0], expected[0]["neighbors"][0]);
    let plain = server.send("POST", "/v1/predict", "content-type: text/plain\r\n", MILK.as_bytes());
    assert_eq!(plain.labels(), json!(["cooking"]));
    let none = server.post("/v1/predict", &json!({ "documents": [] }));
    assert_eq!(none.json(), json!({ "answers": [] }));
}

/// Sends lines in pieces of any size, with and without identifiers, more than fit in the queue.
#[test]
fn streams_in_chunks() {
    let server = Server::start(&[], &["--queue", "8", "--max-documents", "8"]);
    let lines: Vec<String> = (1..=150)
        .map(|number| match number % 3 {
            0 => json!({ "id": (number * 7 % 64).to_string(), "text": MILK }).to_string(),
            _ => json!({ "text": MILK }).to_string(),
        })
        .collect();
    let id = |number: u32| if number.is_multiple_of(3) { number * 7 % 64 } else { number };
    let expected: Vec<String> = (1..=150).map(|number| id(number).to_string()).collect();
    let body = lines.join("\n");
    for piece in [1, 7, 1000, body.len()] {
        let mut stream = server.connect();
        let head = "POST /v1/predict HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
                    transfer-encoding: chunked\r\ncontent-type: application/x-ndjson\r\n\r\n";
        let mut reading = stream.try_clone().unwrap();
        let read = std::thread::spawn(move || {
            let mut answer = String::new();
            reading.read_to_string(&mut answer).unwrap();
            answer
        });
        stream.write_all(head.as_bytes()).unwrap();
        for bytes in body.as_bytes().chunks(piece) {
            let chunk = [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
            stream.write_all(&chunk).unwrap();
        }
        stream.write_all(b"0\r\n\r\n").unwrap();
        let answer = read.join().unwrap();
        let found: Vec<String> = answer
            .lines()
            .filter(|line| line.starts_with('{'))
            .map(|line| {
                serde_json::from_str::<Value>(line).unwrap()["id"].as_str().unwrap().to_owned()
            })
            .collect();
        assert_eq!(found, expected, "pieces of {piece} bytes");
    }
    server.is_well();
}

/// If a model is replaced just before a change, the change is refused until the new model is open.
/// It is never lost.
#[test]
fn changes_to_a_replaced_model() {
    let server = Server::start(&[], &["--token-file", "token"]);
    let other = server.folder.at("b.model");
    program().succeed(&["train", TEST, "-q", "-o", text(&other)]);
    let body = json!({ "text": "guitar", "labels": ["odd"] });
    assert_eq!(server.write("PUT", "/v1/documents/before?new-labels=true", &body).status, 200);
    std::fs::rename(&other, server.path()).unwrap();
    wait_until("the change is accepted", || {
        let got = server.write("PUT", "/v1/documents/after?new-labels=true", &body);
        assert!([200, 503].contains(&got.status), "{}", got.body);
        got.status == 200
    });
    let path = server.path();
    let info = program().succeed(&["info", text(&path)]).out;
    assert!(info.contains("documents    84"), "{info}");
    // Another process cannot replace a model while the server may change it.
    let train = program().run(&["train", TRAIN, "-o", text(&path)]);
    assert_eq!(train.code, 5, "{}", train.err);
}

#[test]
fn explanations_equal_explain() {
    let server = Server::start(&["--keep-text"], &[]);
    let model = server.path();
    let explain = ["explain", text(&model), "--text", MILK, "--to", "jsonl"];
    let expected: Value = serde_json::from_str(&program().succeed(&explain).out).unwrap();
    let document = json!({ "id": "text", "text": MILK });
    assert_eq!(server.post("/v1/explain?texts=true", &document).json(), expected);
    let without = server.post("/v1/explain", &document).json();
    assert!(without["neighbors"][0]["text"].is_null());
    let marked = server.post("/v1/explain?marks=true", &document).json();
    let pieces = marked["marked"].as_array().unwrap();
    let joined: String = pieces.iter().map(|piece| piece["text"].as_str().unwrap()).collect();
    assert_eq!(joined, MILK);
    assert!(pieces.iter().any(|piece| piece["term"] == "milk"));
}

#[test]
fn documents_are_added_and_removed() {
    let server = Server::start(&["--keep-text", "--no-tune"], &["--token-file", "token"]);
    let before = server.post("/v1/predict", &json!({ "text": "guitar zebra" }));
    let odd = json!({ "text": "guitar zebra", "labels": ["odd"] });
    let path = "/v1/documents/a%2Fb%20%C3%A9?new-labels=true";
    let refused = server.write("PUT", "/v1/documents/a%2Fb%20%C3%A9", &odd);
    assert_eq!((refused.status, refused.code()), (422, "new-label".to_owned()));
    let added = server.write("PUT", path, &odd);
    assert_eq!((added.status, added.json()["documents"].clone()), (200, json!(249)));
    assert_ne!(added.version(), before.version());
    assert_eq!(server.labels("guitar zebra"), json!(["odd"]));
    let stored = server.get("/v1/documents/a%2Fb%20%C3%A9").json();
    assert_eq!(stored, json!({ "id": "a/b é", "labels": ["odd"], "text": "guitar zebra" }));
    let listed = server.get("/v1/documents?label=odd").json();
    assert_eq!((listed["total"].clone(), listed["documents"][0].clone()), (json!(1), stored));
    // Other processes can read the model, but cannot change it.
    let model = server.path();
    assert!(program().succeed(&["info", text(&model)]).out.contains("documents    249"));
    assert_eq!(program().run(&["remove", text(&model), "x"]).code, 5);
    let relabeled = server.write("PATCH", path, &json!({ "labels": ["other"] }));
    assert_eq!(relabeled.json()["relabeled"], 1);
    assert_eq!(server.labels("guitar zebra"), json!(["other"]));
    let several = json!({ "documents": [
        { "id": "1", "text": "zebra", "labels": [] },
        { "id": "2", "text": "guitar", "labels": ["x"] },
    ] });
    let several = server.write("POST", "/v1/documents?new-labels=true", &several);
    assert_eq!(several.json()["added"], 2);
    // A server that is killed loses no change.
    let Server { mut process, folder } = server;
    process.signal("-KILL");
    process.wait();
    let server = Server::of(folder, &["--token-file", "token"]);
    assert_eq!(server.labels("guitar zebra"), json!(["other"]));
    assert_eq!(server.write("DELETE", "/v1/documents/a%2Fb%20%C3%A9", &json!({})).status, 200);
    let again = server.write("DELETE", "/v1/documents/a%2Fb%20%C3%A9", &json!({}));
    assert_eq!(again.code(), "no-document");
    assert_eq!(server.get("/v1/documents/a%2Fb%20%C3%A9").status, 404);
    let unnamed = json!({ "documents": [{ "text": "x", "labels": ["y"] }] });
    assert_eq!(server.write("POST", "/v1/documents", &unnamed).code(), "document");
    for wrong in [
        json!({ "text": "no labels" }),
        json!({ "text": "x", "labels": [""] }),
        json!({ "labels": ["x"] }),
    ] {
        let refused = server.write("PUT", "/v1/documents/z", &wrong);
        assert!(matches!(refused.status, 400 | 422), "{wrong}: {}", refused.body);
    }
    server.is_well();
}

#[test]
fn changing_documents_needs_the_token() {
    let server = Server::start(&[], &["--token-file", "token"]);
    let body = json!({ "text": "guitar", "labels": ["odd"] }).to_string();
    let long = "x".repeat(5000);
    for authorization in [
        String::new(),
        "authorization: Bearer\r\n".into(),
        "authorization: Bearer \r\n".into(),
        format!("authorization: Bearer {}\r\n", &TOKEN[1..]),
        format!("authorization: Bearer {TOKEN}x\r\n"),
        format!("authorization: Basic {TOKEN}\r\n"),
        format!("authorization: {TOKEN}\r\n"),
        format!("authorization: Bearer {long}\r\n"),
    ] {
        let headers = format!("content-type: application/json\r\n{authorization}");
        for method in ["PUT", "DELETE", "PATCH"] {
            let refused = server.send(method, "/v1/documents/s001", &headers, body.as_bytes());
            assert_eq!(
                (refused.status, refused.code()),
                (401, "token".to_owned()),
                "{authorization}"
            );
        }
    }
    assert_eq!(server.get("/v1/documents/s001").status, 200);
    let open = Server::start(&[], &[]);
    assert_eq!(open.write("PUT", "/v1/documents/a", &json!({})).code(), "read-only");
    let closed = Server::start(&[], &["--token-file", "token", "--protect-reads"]);
    assert_eq!(closed.post("/v1/predict", &json!({ "text": "x" })).status, 401);
    assert_eq!(closed.get("/v1/model").status, 401);
    assert_eq!(
        closed.write("POST", "/v1/predict", &json!({ "text": MILK })).labels(),
        json!(["cooking"])
    );
    assert_eq!(closed.get("/healthz").status, 200);
}

#[test]
fn replaced_models_are_reloaded() {
    let server = Server::start(&[], &[]);
    let before = server.post("/v1/predict", &json!({ "text": MILK }));
    let other = server.folder.at("b.model");
    program().succeed(&["train", TEST, "-q", "-o", text(&other)]);
    std::fs::rename(&other, server.path()).unwrap();
    let version = || server.post("/v1/predict", &json!({ "text": MILK })).version().to_owned();
    wait_until("the new model answers", || version() != before.version());
    // The server also reloads a model to which another process added documents.
    let now = version();
    program().succeed(&["add", text(&server.path()), TRAIN, "-q"]);
    wait_until("the longer model answers", || version() != now);
    // A file that is not a model does not stop the server.
    let now = version();
    let no_model = server.folder.write("c", "no model");
    std::fs::rename(no_model, server.path()).unwrap();
    let failed = |count: u32| {
        let line = format!("failed_reloads_total {count}");
        wait_until(&line, || server.get("/metrics").body.contains(&line));
    };
    failed(1);
    assert_eq!(version(), now);
    server.process.signal("-HUP");
    failed(2);
    server.is_well();
}

#[test]
fn decisions_survive_a_killed_server() {
    let folder = Folder::new();
    folder.write("pool.jsonl", std::fs::read(testkit::sample("test.jsonl")).unwrap());
    folder.write("token", TOKEN);
    program().succeed(&["train", TRAIN, "-q", "--keep-text", "-o", &folder.text("a.model")]);
    let flags = ["--token-file", "token", "--pool", "pool.jsonl"];
    let client = json!({ "client": "a" });
    let mut server = Server::of(folder, &flags);
    let mut decided = Vec::new();
    for label in ["cooking", "music", "cooking"] {
        let next = server.write("POST", "/v1/labeling/next", &client).json();
        let id = next["document"]["id"].as_str().unwrap().to_owned();
        let decision = json!({ "id": id, "decision": "label", "labels": [label], "seen": [] });
        let body = json!({ "client": "a", "reviewer": "Ada", "decisions": [decision] });
        let made = server.write("POST", "/v1/labeling/decisions", &body);
        assert_eq!(made.status, 200, "{}", made.body);
        decided.push((id, label));
    }
    server.process.signal("-KILL");
    let _ = server.process.wait();
    let server = Server::of(server.folder, &flags);
    for (id, label) in &decided {
        let stored = server.write("GET", &format!("/v1/documents/{id}"), &json!({})).json();
        assert_eq!(stored["labels"], json!([label]));
    }
    let progress = server.write("GET", "/v1/labeling", &json!({})).json();
    assert_eq!((&progress["labeled"], &progress["documents"]), (&json!(3), &json!(83)));
    assert_eq!(progress["history"].as_array().unwrap().len(), 3);
    let next = server.write("POST", "/v1/labeling/next", &client).json();
    let id = next["document"]["id"].as_str().unwrap();
    assert!(decided.iter().all(|(decided, _)| decided != id), "{id}");
}

#[test]
fn open_requests_are_answered_before_the_end() {
    let mut server = Server::start(&[], &[]);
    // A request without its body. The server asks for the body when it starts to read it.
    let mut stream = server.connect();
    let body = json!({ "text": MILK }).to_string();
    let length = body.len();
    let head = format!(
        "POST /v1/predict HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\nexpect: 100-continue\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut go_on = [0; 25];
    stream.read_exact(&mut go_on).unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    let (first, rest) = body.as_bytes().split_at(5);
    stream.write_all(first).unwrap();
    server.process.signal("-TERM");
    wait_until("the server accepts no connection", || {
        TcpStream::connect(server.process.address()).is_err()
    });
    stream.write_all(rest).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("cooking"), "{answer}");
    assert!(server.process.wait().success());
}

#[test]
fn invalid_bodies_and_parameters() {
    let server =
        Server::start(&[], &["--max-body", "1", "--max-documents", "3", "--deadline", "2"]);
    let kind = "content-type: application/json\r\n";
    let large = json!({ "text": "x".repeat(2 << 20) });
    assert_eq!(server.post("/v1/predict", &large).code(), "too-large");
    let many = json!({ "documents": vec![json!({ "text": "x" }); 4] });
    assert_eq!(server.post("/v1/predict", &many).code(), "too-many-documents");
    for (headers, body, status) in [
        ("", &b"{}"[..], 415),
        ("content-type: application/xml\r\n", b"<a/>", 415),
        ("content-type: application/json\r\ncontent-encoding: gzip\r\n", b"x", 415),
        (kind, b"", 400),
        (kind, b"[]", 400),
        (kind, b"null", 400),
        (kind, b"{\"text\": \"\xff\"}", 400),
        (kind, b"{\"text\": 5}", 422),
        (kind, b"{\"text\": \"a\"", 400),
        (kind, b"{\"documents\": 7}", 400),
        (kind, b"{\"documents\": [7]}", 422),
        (kind, b"{\"documents\": [], \"text\": \"a\"}", 400),
        (kind, b"{\"text\": \"\\ud800\"}", 400),
    ] {
        let got = server.send("POST", "/v1/predict", headers, body);
        assert_eq!(got.status, status, "{headers} {}: {}", String::from_utf8_lossy(body), got.body);
        assert!(!got.code().is_empty());
    }
    for path in ["?k=0", "?k=10001", "?k=x", "?with=all", "?unknown=1", "?top=-1"] {
        let got = server.post(&format!("/v1/predict{path}"), &json!({ "text": "x" }));
        assert_eq!((got.status, got.code()), (400, "parameter".to_owned()), "{path}");
    }
    let many = json!({ "documents": vec![json!({ "text": MILK }); 3] });
    assert_eq!(server.post("/v1/neighbors?k=9999&texts=true", &many).code(), "too-many-documents");
    assert_eq!(server.post("/v1/explain?marks=true", &many).code(), "too-many-documents");
    for (target, host) in [
        ("/v1/model", "evil.example"),
        ("/v1/model", "localhost.evil.example:80"),
        ("/v1/model", "evil.example:127.0.0.1"),
        ("/v1/model", "localhost:evil"),
        ("/v1/model", "localhost:80@evil.example"),
        ("/v1/model", "localhost\r\nhost: evil.example"),
        ("http://evil.example/v1/model", "localhost"),
    ] {
        let head = format!("GET {target} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        let answer = server.all_of(head.as_bytes(), false);
        assert!(answer.starts_with("HTTP/1.1 421"), "{target} {host}: {answer}");
    }
    for path in
        ["/v1/nothing", "/../a.model", "/..%2fa.model", "//", "/page.js/../../a.model", "/%00"]
    {
        let got = server.get(path);
        assert_eq!(got.status, 404, "{path}: {}", got.body);
    }
    assert_eq!(server.get("/v1/predict").status, 405);
    let deep = "[".repeat(100_000);
    let got = server.send("POST", "/v1/predict", kind, deep.as_bytes());
    assert_eq!(got.status, 400);
    // An empty text, and a text of all characters.
    assert_eq!(server.post("/v1/predict", &json!({ "text": "" })).status, 200);
    let every: String = (1..0x1_0000).filter_map(char::from_u32).collect();
    assert_eq!(server.post("/v1/explain?marks=true", &json!({ "text": every })).status, 200);
    server.is_well();
}

#[test]
fn misbehaving_connections() {
    let server = Server::start(&[], &["--deadline", "1", "--max-connections", "64"]);
    // A body that never arrives, and a body that is cut short.
    let slow = "POST /v1/predict HTTP/1.1\r\nhost: localhost\r\n\
                content-type: application/json\r\ncontent-length: 100\r\n\r\n{";
    let mut stream = server.connect();
    stream.write_all(slow.as_bytes()).unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    assert!(answer.starts_with("HTTP/1.1 408"), "the deadline ends it: {answer}");
    let answer = server.raw(slow.as_bytes());
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{answer}");
    // Request heads without an end.
    let long = format!("GET / HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "y".repeat(100_000));
    assert!(server.raw(long.as_bytes()).starts_with("HTTP/1.1 431"));
    let many = format!("GET / HTTP/1.1\r\nhost: localhost\r\n{}\r\n", "x: y\r\n".repeat(2_000));
    assert!(server.raw(many.as_bytes()).starts_with("HTTP/1.1 431"));
    // Input that is not HTTP.
    for bytes in [
        &b"\x16\x03\x01\x02\x00"[..],
        b"\0\0\0\0",
        b"GET\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let answer = server.raw(bytes);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{answer}");
    }
    // Endless heads on all allowed connections. The server closes them at the deadline, and then
    // accepts another client.
    let mut slow: Vec<TcpStream> = (0..64).map(|_| server.connect()).collect();
    for stream in &mut slow {
        stream.write_all(b"GET / HT").unwrap();
    }
    assert_eq!(server.get("/healthz").status, 200);
    for stream in &mut slow {
        let ended = stream.read_to_end(&mut Vec::new());
        assert!(!ended.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock));
    }
    server.is_well();
}

/// The server closes a connection at the deadline, even if the client keeps sending single bytes of
/// a body or of a line. All allowed connections have such clients.
#[test]
fn dripping_connections_are_ended() {
    let server = Server::start(&[], &["--deadline", "1", "--max-connections", "8"]);
    let heads = ["application/x-ndjson", "application/json"].map(|kind| {
        format!(
            "POST /v1/predict HTTP/1.1\r\nhost: localhost\r\ncontent-type: {kind}\r\n\
             content-length: 1000\r\n\r\n"
        )
    });
    let mut streams: Vec<TcpStream> = (0..8).map(|_| server.connect()).collect();
    for (stream, head) in streams.iter_mut().zip(heads.iter().cycle()) {
        stream.write_all(head.as_bytes()).unwrap();
    }
    let dripping = std::thread::spawn(move || {
        while !streams.is_empty() {
            streams.retain_mut(|stream| stream.write_all(b"x").is_ok());
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    assert_eq!(server.get("/healthz").status, 200);
    finish("the server ends connections that drip", move || dripping.join().unwrap());
    server.is_well();
}

#[test]
fn readable_token_files_are_noted() {
    let folder = Folder::new();
    program().succeed(&["train", TRAIN, "-q", "-o", &folder.text("a.model")]);
    folder.write("token", TOKEN);
    // The server exits immediately, because its address is already in use.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    for (mode, is_noted) in [(0o644, true), (0o640, true), (0o600, false), (0o400, false)] {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(folder.at("token"), permissions).unwrap();
        let serve = ["serve", "a.model", "--token-file", "token", "--listen", &address];
        let run = program().within(folder.path()).run(&serve);
        let note = "note: other users can read the token; `chmod 600 token` prevents it";
        assert_eq!(run.err.contains(note), is_noted, "{mode:o}: {}", run.err);
    }
}

/// Requests that are damaged at random.
#[test]
fn damaged_requests() {
    let server = Server::start(
        &["--keep-text"],
        &["--token-file", "token", "--deadline", "1", "--log", "events"],
    );
    let count: usize = std::env::var("FUZZED").ok().map_or(1_500, |count| count.parse().unwrap());
    let body = json!({ "id": "a", "text": MILK, "labels": ["x"] }).to_string();
    let length = body.len();
    let starts = [
        format!(
            "POST /v1/predict?top=2&with=scores HTTP/1.1\r\nhost: localhost\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        ),
        format!(
            "POST /v1/explain?marks=true HTTP/1.1\r\nhost: localhost\r\n\
             content-type: text/plain\r\ncontent-length: {length}\r\n\r\n{body}"
        ),
        format!(
            "POST /v1/neighbors HTTP/1.1\r\nhost: localhost\r\n\
             content-type: application/x-ndjson\r\ncontent-length: {length}\r\n\r\n{body}"
        ),
        format!(
            "PUT /v1/documents/q?new-labels=true HTTP/1.1\r\nhost: localhost\r\n\
             authorization: Bearer {TOKEN}\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{body}"
        ),
        "GET /v1/documents?label=music&start=3 HTTP/1.1\r\nhost: localhost\r\n\r\n".to_owned(),
    ];
    let mut random = Random::new(19);
    for number in 0..count {
        let mut bytes = starts[number % starts.len()].clone().into_bytes();
        for _ in 0..=random.below(4) {
            let at = random.below(bytes.len());
            match random.below(5) {
                0 => bytes[at] = u8::try_from(random.below(256)).unwrap(),
                1 => bytes.insert(at, b"\"\\{}[]:,\r\n %\0"[random.below(13)]),
                2 if bytes.len() > 1 => {
                    bytes.remove(at);
                }
                3 => bytes.truncate(at.max(1)),
                _ => {
                    let end = (at + random.below(40)).min(bytes.len());
                    let piece = bytes[at..end].to_vec();
                    bytes.splice(at..at, piece);
                }
            }
        }
        let answer = server.raw(&bytes);
        assert!(!answer.contains(" 500 "), "{}: {answer}", String::from_utf8_lossy(&bytes));
    }
    let log = server.log();
    assert!(!log.contains("panicked"), "{log}");
    assert!(server.get("/metrics").body.contains("classify_panics_total 0\n"));
    // The added documents form a valid model.
    drop(server);
}

#[test]
fn texts_are_logged_only_if_asked() {
    for (flags, logged) in [(&["--log", "requests"][..], false), (&["--log", "texts"], true)] {
        let server = Server::start(&[], flags);
        assert_eq!(server.labels("milk and a secret word"), json!(["cooking"]));
        wait_until("the request is logged", || server.log().contains("\"status\":200"));
        let log = server.log();
        assert!(
            log.contains("\"path\":\"/v1/predict\"") && log.contains("\"documents\":1"),
            "{log}"
        );
        assert_eq!(log.contains("secret"), logged);
        for line in log.lines() {
            serde_json::from_str::<Value>(line).unwrap();
        }
    }
}

#[test]
fn too_many_requests_are_refused() {
    let server = Server::start(&[], &["--queue", "8", "--max-documents", "8", "--log", "events"]);
    let text = MILK.repeat(2_000);
    let body = json!({ "documents": vec![json!({ "text": text }); 8] });
    let seen: Vec<u16> = std::thread::scope(|scope| {
        let server = &server;
        let body = &body;
        let asking: Vec<_> = (0..24)
            .map(|_| {
                scope.spawn(move || {
                    let got = server.post("/v1/predict", body);
                    if got.status == 429 {
                        assert!(got.head.contains("retry-after: 1"), "{}", got.head);
                    }
                    got.status
                })
            })
            .collect();
        asking.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(seen.contains(&200) && seen.contains(&429), "{seen:?}");
    assert!(seen.iter().all(|status| [200, 429].contains(status)), "{seen:?}");
    server.is_well();
}

#[test]
fn startup_failures() {
    let folder = Folder::new();
    let mut messages = Messages::new(folder.path());
    let mut refuse = |code: i32, arguments: &[&str]| {
        let arguments = [&["serve"], arguments].concat();
        let run = program().within(folder.path()).run(&arguments);
        messages.add(&arguments.join(" "), &run, code);
    };
    refuse(4, &["none.model"]);
    program().succeed(&["train", TRAIN, "-q", "-o", &folder.text("a.model")]);
    folder.write("short", "secret\n");
    refuse(3, &["a.model", "--token-file", "short"]);
    folder.write("token", TOKEN);
    refuse(2, &["a.model", "--pool", "pool.jsonl"]);
    refuse(3, &["a.model", "--token-file", "token", "--pool", "pool.jsonl"]);
    folder.write("pool.jsonl", r#"{"id": "p", "text": "whisk the milk"}"#);
    folder.write("a.model.decisions.jsonl", "praise\n");
    refuse(3, &["a.model", "--token-file", "token", "--pool", "pool.jsonl"]);
    insta::assert_snapshot!(messages);
    // Not in the snapshot, because the port differs each time.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let program = program().within(folder.path());
    let run = program.run(&["serve", "a.model", "--listen", &address]);
    assert_eq!(run.code, 5, "{}", run.err);
    assert!(run.err.contains(&address), "{}", run.err);
    assert!(folder.at("a.model").exists());
}
