//! HTTP server of a `classify` model: predictions, explanations, neighbors, changes of documents,
//! and a page to try all of it.
//!
//! ```text
//! connection ─▶ router ─▶ body ─▶ documents ─▶ queue ─▶ answer ─▶ response
//!                 │       └───────── stream, line by line ─────┘
//!                 └─▶ routes: predict, documents, changes, model, health
//! ```
//!
//! A [`Server`] opens a model with [`ServerOptions`] and answers requests until the process is told
//! to end. Read `router` first: it lists all requests and their handlers.
//!
//! | file | what it does |
//! |---|---|
//! | `connections` | accepts connections, ends slow ones, and drains them at the end |
//! | `router` | finds the handler of a request |
//! | `access` | checks the token and the host, sets headers, counts and logs requests |
//! | `routes/` | handlers, one file for each group of requests |
//! | `parameters` | parameters in the URL |
//! | `body`, `documents` | request body → documents, within limits |
//! | `stream` | documents as lines, answered as they come |
//! | `queue` | documents → predictions or explanations; batches of requests |
//! | `answer` | questions of clients, and answers as JSON |
//! | `state`, `live` | the model that answers now, its changes and its replacement |
//! | `failure` | errors → HTTP status and JSON |
//! | `shared`, `memory`, `hosts` | shared resources, memory budget, allowed hosts |
//! | `metrics` | metrics for Prometheus |
//! | `openapi`, `schema` | the description of the server for programs |
//! | `page` | the page, and the policy that browsers follow for it |

use std::net::SocketAddr;
use std::sync::Arc;

use classify::search::Engines;

mod access;
mod answer;
mod body;
mod connections;
mod documents;
mod error;
mod failure;
mod hosts;
mod live;
mod memory;
mod metrics;
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
pub use options::{ServerOptions, Token};
use state::State;

/// Maximum number of threads that handle connections. Searches have threads of their own.
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
}

impl Server {
    /// Opens the model that is to be served.
    ///
    /// # Errors
    /// If the model cannot be opened, searched, or served.
    pub fn open(options: ServerOptions, engines: Engines) -> Result<Self, ServerError> {
        Ok(Self { state: State::open(options, engines)? })
    }

    /// Answers requests until the process gets SIGTERM or SIGINT. Open requests are answered first.
    /// `on_ready` is called once, with the address that the server listens on.
    ///
    /// A model file that is replaced by a rename, or changed by another process, is opened again.
    /// SIGHUP has the same effect. Requests are answered with the old model meanwhile.
    ///
    /// # Errors
    /// If the address cannot be listened on, or the system refuses threads or signal handlers.
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
        let served = runtime.block_on(connections::run(state, on_ready));
        // Changes that are being written end first.
        runtime.shutdown_timeout(drain);
        served
    }
}
