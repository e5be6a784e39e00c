//! HTTP server for a `classify` model: predictions, explanations, neighbors, changes to documents,
//! and a web page to try them.
//!
//! ```text
//! connection ─▶ router ─▶ body ─▶ documents ─▶ queue ─▶ answer ─▶ response
//!                 │       └───────── stream, line by line ─────┘
//!                 └─▶ routes: predict, documents, changes, model, health
//! ```
//!
//! A [`Server`] opens a model with [`ServerOptions`] and answers requests until the process is
//! asked to stop. Start reading in `router`, which lists all requests and their handlers.
//!
//! | file | what it does |
//! |---|---|
//! | `connections` | accepts connections, closes slow ones, and drains them at shutdown |
//! | `router` | maps requests to handlers |
//! | `access` | checks the token and the host, sets headers, counts and logs requests |
//! | `routes/` | handlers, one file for each group of requests |
//! | `parameters` | parameters in the URL |
//! | `body`, `documents` | convert request bodies to documents, within limits |
//! | `stream` | answers documents line by line as they arrive |
//! | `queue` | computes predictions and explanations in batches of requests |
//! | `answer` | checks the parameters of requests, and writes answers as JSON |
//! | `state`, `live` | hold the model that answers requests; change and replace it |
//! | `labeling/` | proposes documents to label and labels to review, and records decisions |
//! | `names`, `notes` | check the identifiers and labels of changes, and format notes about them |
//! | `failure` | converts errors to an HTTP status and JSON |
//! | `shared`, `memory`, `hosts` | hold shared resources, the memory budget and the allowed hosts |
//! | `metrics` | exports metrics for Prometheus |
//! | `openapi`, `schema` | describe the API for programs |
//! | `page` | serves the web page and its content security policy |

use std::net::SocketAddr;
use std::sync::Arc;

use classify::model::Model;
use classify::search::Engines;
use classify::text::corpus::Document;

mod access;
mod answer;
mod body;
mod connections;
mod documents;
mod error;
mod failure;
mod hosts;
mod labeling;
mod live;
mod memory;
mod metrics;
mod names;
mod notes;
mod openapi;
mod options;
mod page;
mod parameters;
mod queue;
mod router;
mod routes;
mod schema;
mod shared;
mod state;
mod stream;
#[cfg(test)]
mod test_server;

pub use error::ServerError;
use labeling::Labeling;
pub use options::{ServerOptions, Token};
use state::State;

/// Maximum number of threads that handle connections. Searches use separate threads.
const MAX_HTTP_THREADS: usize = 8;

/// A server whose model is open.
///
/// ```no_run
/// use classify::search::Engines;
/// use classify::threads::Threads;
/// use classify_server::{Server, ServerOptions};
///
/// let engines = Engines::cpu(&Threads::available()?);
/// let server = Server::open(ServerOptions::new("my.model".into()), engines)?;
/// server.run(|address| println!("listening on http://{address}"))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Server {
    state: State,
    engines: Engines,
    labeling: Option<Arc<Labeling>>,
}

impl Server {
    /// Opens a model to serve.
    ///
    /// # Errors
    /// Fails if the model cannot be opened, searched, or served.
    pub fn open(options: ServerOptions, engines: Engines) -> Result<Self, ServerError> {
        let state = State::open(options, engines.clone())?;
        Ok(Self { state, engines, labeling: None })
    }

    /// Returns the model that answers requests.
    pub fn model(&self) -> Arc<Model> {
        Arc::clone(self.state.live().model())
    }

    /// Adds a pool of documents that people can label on the page `/labeling`. Their labels, if
    /// any, are ignored. Documents whose identifiers are in the model are already labeled.
    ///
    /// Decisions are stored in the model and in the file `MODEL.decisions.jsonl`.
    ///
    /// # Errors
    /// Fails if the server has no token, or the model has no terms. Also fails if documents do not
    /// match the model or share an identifier, or if the file cannot be read.
    pub fn with_pool(mut self, documents: Vec<Document>) -> Result<Self, ServerError> {
        let live = self.state.live();
        if self.state.options.token.is_none() {
            return Err(ServerError::CannotLabel("labeling needs a token (--token-file)"));
        }
        if !live.model().has_terms() {
            let what = "this model compares dense vectors only; labeling needs terms";
            return Err(ServerError::CannotLabel(what));
        }
        let is_labeled = |document: &&Document| live.model().row_of(&document.id).is_some();
        let labeled = documents.iter().filter(is_labeled).count();
        tracing::info!(documents = documents.len(), labeled, "preparing the pool");
        let labeling = Labeling::open(documents, &live, &self.engines, &self.state.options.model)?;
        self.labeling = Some(Arc::new(labeling));
        Ok(self)
    }

    /// Answers requests until the process gets SIGTERM or SIGINT, and then finishes open requests.
    /// Calls `on_ready` once, with the address that the server listens on.
    ///
    /// The server reloads a model file that is replaced by a rename or changed by another process.
    /// SIGHUP also reloads it. Until the new model is loaded, the old model answers requests.
    ///
    /// # Errors
    /// Fails if the server cannot listen on the address, or the system refuses threads or signal
    /// handlers.
    pub fn run(self, on_ready: impl FnOnce(SocketAddr) + Send) -> Result<(), ServerError> {
        let state = Arc::new(self.state);
        let threads = state.live().classifier.threads().count();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads.clamp(1, MAX_HTTP_THREADS))
            .thread_name("classify-http")
            .enable_all()
            .build()
            .map_err(ServerError::Start)?;
        let drain = state.options.drain;
        if let Some(labeling) = self.labeling.clone() {
            let live = state.live();
            let engines = self.engines.clone();
            // Nothing waits for the check when the server stops.
            let check = std::thread::Builder::new().name("classify-check".into());
            drop(check.spawn(move || labeling.check(&live, &engines)).map_err(ServerError::Start)?);
        }
        let result = runtime.block_on(connections::run(state, self.labeling, on_ready));
        // Changes that are being written finish first.
        runtime.shutdown_timeout(drain);
        result
    }
}
