//! In-memory server for tests: a small model, and requests without connections.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use classify::learn::{TrainOptions, Trainer};
use classify::model::Model;
use classify::search::Engines;
use classify::text::corpus::{Corpus, Document, ReadOptions, ReadingSpec};
use classify::threads::Threads;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use serde_json::Value;

use crate::labeling::Labeling;
use crate::memory::MemoryBudget;
use crate::options::{ServerOptions, Token};
use crate::router::router;
use crate::shared::Shared;
use crate::state::State;

/// Token of all test servers.
pub(crate) const TOKEN: &str = "the-token-of-these-tests";

/// Documents of the default model.
const FRUIT: &str = r#"{"id": "a", "text": "apple pear plum", "label": "fruit"}
{"id": "b", "text": "spoon fork knife", "label": "cutlery"}
{"id": "c", "text": "apple pie with plum", "label": "fruit"}"#;

/// Trains a model on documents, given as lines of JSON.
fn model(lines: &str, read_options: ReadOptions) -> Model {
    let reading = ReadingSpec::of(&read_options);
    let corpus = Corpus::from_bytes("lines", lines.into(), read_options);
    let options = TrainOptions { reading, ..TrainOptions::default() };
    Trainer::builder().options(options).build().train(corpus.unwrap()).unwrap().model
}

/// Returns the threads of the test servers.
pub(crate) fn threads() -> Threads {
    Threads::new(2.try_into().unwrap()).unwrap()
}

/// Server without connections.
pub(crate) struct TestServer {
    pub(crate) shared: Shared,
    service: TowerToHyperService<Router>,
    folder: tempfile::TempDir,
}

/// Response of a test server.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    pub(crate) fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap().to_owned()
    }

    pub(crate) fn message(&self) -> String {
        self.json()["error"]["message"].as_str().unwrap().to_owned()
    }
}

impl TestServer {
    /// Opens a server with the default model that accepts changes.
    pub(crate) fn open() -> Self {
        Self::with(|_| ())
    }

    /// Opens a server with changed options.
    pub(crate) fn with(change: impl FnOnce(&mut ServerOptions)) -> Self {
        Self::of_model(&model(FRUIT, ReadOptions::default()), change)
    }

    /// Opens a server with a model trained on other documents, which are read with `read_options`.
    pub(crate) fn of_documents(lines: &str, read_options: ReadOptions) -> Self {
        Self::of_model(&model(lines, read_options), |_| ())
    }

    /// Opens a server with the default model, which stores its texts, and with documents to label.
    pub(crate) fn with_pool(pool: Vec<Document>) -> Self {
        let corpus = Corpus::from_bytes("lines", FRUIT.into(), ReadOptions::default()).unwrap();
        let options = TrainOptions { keep_text: true, ..TrainOptions::default() };
        let trained = Trainer::builder().options(options).build().train(corpus).unwrap();
        let mut server = Self::of_model(&trained.model, |_| ());
        server.open_pool(pool);
        server
    }

    /// Reads the pool and the decisions again, as after a restart.
    pub(crate) fn open_pool(&mut self, pool: Vec<Document>) {
        let state = &self.shared.state;
        let live = state.live();
        let engines = Engines::cpu(&threads());
        let labeling = Labeling::open(pool, &live, &engines, &state.options.model).unwrap();
        labeling.check(&live, &engines);
        self.shared.labeling = Some(Arc::new(labeling));
        self.service = TowerToHyperService::new(router(&self.shared));
    }

    /// Opens a server with a model.
    pub(crate) fn of_model(model: &Model, change: impl FnOnce(&mut ServerOptions)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.model");
        model.save(&path).unwrap();
        let mut options = ServerOptions::new(path);
        options.token = Some(Token::new(TOKEN).unwrap());
        options.deadline = Duration::from_secs(20);
        change(&mut options);
        let state = State::open(options, Engines::cpu(&threads())).unwrap();
        let shared = Shared::new(Arc::new(state), None).unwrap();
        let service = TowerToHyperService::new(router(&shared));
        Self { shared, service, folder }
    }

    /// Sets the memory budget of bodies.
    pub(crate) fn limit_memory(&mut self, budget: MemoryBudget) {
        self.shared.memory = budget;
        self.service = TowerToHyperService::new(router(&self.shared));
    }

    /// Returns the path of a file next to the model.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Replaces the model with a model trained on other documents.
    pub(crate) fn replace_model(&self, lines: &str) {
        let new: &Path = &self.path("new.model");
        model(lines, ReadOptions::default()).save(new).unwrap();
        std::fs::rename(new, &self.shared.state.options.model).unwrap();
    }

    /// Sends a request with the token, and reads the whole response.
    pub(crate) async fn send(&self, method: &str, path: &str, body: impl Into<Body>) -> Reply {
        let kind = "application/json";
        self.request(request(method, path).header("content-type", kind), body).await
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send("GET", path, Body::empty()).await
    }

    pub(crate) async fn request(
        &self,
        request: axum::http::request::Builder,
        body: impl Into<Body>,
    ) -> Reply {
        let request = request.body(body.into()).unwrap();
        let response = self.service.call(request).await.unwrap();
        let status = response.status();
        let headers = response.headers().clone();
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        Reply { status, headers, body: String::from_utf8(body.to_vec()).unwrap() }
    }
}

/// Starts building a request with the token.
pub(crate) fn request(method: &str, path: &str) -> axum::http::request::Builder {
    Request::builder()
        .method(method)
        .uri(path)
        .header("host", "localhost")
        .header("authorization", format!("Bearer {TOKEN}"))
}
