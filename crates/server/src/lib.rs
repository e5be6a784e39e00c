//! A server: answers, explanations and neighbors by HTTP, documents that come and go, and a page to try all of it.
//!
//! | module | what it does |
//! |---|---|
//! | `state` | the classifier that answers now, and the documents behind it; a model that is replaced is opened again |
//! | `queue` | requests that arrive together are searched together |
//! | `api` | what the server answers to; `openapi` describes it |
//! | `stream` | documents as lines, answered as they come |
//! | `body` | request bodies → documents, within limits |
//! | `connections` | accepts connections, ends slow ones, and drains them at the end |
//! | `metrics` | figures for Prometheus, and a log line per request |
//! | `pages` | the page, and what browsers may do with it |

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use subtle::ConstantTimeEq;

use classify::model::{ModelError, UpdateError};
use classify::search::{Engines, SearchError};

mod api;
mod body;
mod connections;
mod metrics;
mod openapi;
mod pages;
mod queue;
mod state;
mod stream;

/// How a server runs.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// The model's file.
    pub model: PathBuf,
    /// Where to listen; port 0: any free one.
    pub listen: SocketAddr,
    /// Who knows it may change documents; `None`: no one may.
    pub token: Option<Token>,
    /// Whether reading needs the token, too.
    pub protect_reads: bool,
    /// The longest body of a request, in bytes; for streams the longest line.
    pub most_bytes: usize,
    /// The most documents of a request that is not a stream.
    pub most_documents: usize,
    /// The most documents that wait for an answer; requests beyond are refused.
    pub queue: usize,
    /// The most connections at a time; others wait to be accepted.
    pub connections: usize,
    /// The longest that a request may take.
    pub deadline: Duration,
    /// How long open requests may go on after the server was told to end.
    pub drain: Duration,
    /// Whether texts are logged.
    pub log_texts: bool,
    /// Names, without a port, that clients may call the server by. Empty: all; but a server on a loopback address
    /// always goes by its address and `localhost` only, and these.
    pub hosts: Vec<String>,
}

impl ServeOptions {
    /// The defaults, for a model.
    pub fn new(model: PathBuf) -> Self {
        Self {
            model,
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            token: None,
            protect_reads: false,
            most_bytes: 16 << 20,
            most_documents: 1024,
            queue: 4096,
            connections: 1024,
            deadline: Duration::from_secs(10),
            drain: Duration::from_secs(30),
            log_texts: false,
            hosts: Vec::new(),
        }
    }
}

/// A secret word.
#[derive(Clone)]
pub struct Token(Arc<str>);

impl Token {
    /// The shortest token.
    pub const SHORTEST: usize = 16;

    /// A token from the text of a file: white space around it does not count.
    ///
    /// ```
    /// use classify_server::Token;
    ///
    /// assert!(Token::new("0123456789abcdef\n").is_ok());
    /// assert!(Token::new("secret").is_err());
    /// ```
    ///
    /// # Errors
    /// What is wrong, if it is shorter than 16 bytes or has other characters than visible ASCII.
    pub fn new(text: &str) -> Result<Self, &'static str> {
        let text = text.trim();
        if text.len() < Self::SHORTEST {
            return Err(
                "a token has at least 16 characters, such as those of `openssl rand -hex 32`",
            );
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("a token has only visible ASCII characters, without spaces");
        }
        Ok(Self(text.into()))
    }

    /// Whether a word is the token; takes as long for any word of its length.
    fn is(&self, word: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(word).into()
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The model cannot be opened.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The model's documents cannot be changed.
    #[error(transparent)]
    Update(#[from] UpdateError),
    /// The model cannot be searched.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// Its answers depend on whole batches.
    #[error(
        "the model's decision (pcut) depends on whole batches of documents: a server answers one at a time"
    )]
    NeedsBatch,
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The system refused threads or signals.
    #[error("cannot start: {0}")]
    Start(#[source] io::Error),
}

/// Serves a model until the process is told to end (SIGTERM or SIGINT): open requests are answered first.
/// `on_ready` is called once with the address.
///
/// A model file that is replaced by a rename, or changed by `classify add`, is opened again, as on SIGHUP; requests go on
/// with the old one meanwhile.
///
/// # Errors
/// If the server cannot start.
pub fn serve(
    options: ServeOptions,
    engines: Engines,
    on_ready: impl FnOnce(SocketAddr) + Send,
) -> Result<(), ServeError> {
    let threads = engines.threads().clone();
    let workers = threads.count().clamp(1, 8);
    let state = Arc::new(state::State::open(options, engines)?);
    let queue = queue::Queue::start(&state).map_err(ServeError::Start)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .thread_name("classify-http")
        .enable_all()
        .build()
        .map_err(ServeError::Start)?;
    let drain = state.options.drain;
    let served = runtime.block_on(connections::run(state, queue, on_ready));
    // Changes that are being written end first.
    runtime.shutdown_timeout(drain);
    served
}
