//! `classify serve`

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use classify::model::Model;
use classify::text::corpus::{Document, LabelUse, TextEncoder};
use classify::threads::Threads;
use classify_server::{Server, ServerError, ServerOptions, Token};
use tracing::Level;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;

use crate::failure::Failure;
use crate::flags::reading::{ReadingFlags, apply_model_settings, pool_ids, read_all};
use crate::flags::searching::SearchFlags;
use crate::output::progress::Verbosity;

#[derive(Debug, clap::Args)]
pub(crate) struct Serve {
    /// The model
    model: PathBuf,
    /// The address to listen on, or a port of 127.0.0.1; port 0 selects a free port
    #[arg(
        long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080", value_parser = address
    )]
    listen: SocketAddr,
    /// A file with the token that clients must send to change documents (at least 16 characters).
    /// Without it, documents cannot be changed
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Documents to label or review on the page /labeling: files or folders; repeat it for each
    #[arg(long, value_name = "POOL", requires = "token_file")]
    pool: Vec<PathBuf>,
    /// Require the token for reading, too
    #[arg(long, requires = "token_file")]
    protect_reads: bool,
    /// The maximum size of a request body, or of a line of a stream, in MiB
    #[arg(
        long, value_name = "MIB", default_value_t = 16,
        value_parser = clap::value_parser!(u16).range(1..)
    )]
    max_body: u16,
    /// The maximum number of documents of a request that is not a stream
    #[arg(
        long, value_name = "N", default_value_t = 1024,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    max_documents: u32,
    /// The maximum number of documents that wait for a response; further requests get status 429
    #[arg(
        long, value_name = "N", default_value_t = 4096,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    queue: u32,
    /// The maximum number of connections; others wait
    #[arg(
        long, value_name = "N", default_value_t = 1024,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    max_connections: u32,
    /// The maximum duration of a request, in seconds
    #[arg(
        long, value_name = "SECONDS", default_value_t = 10,
        value_parser = clap::value_parser!(u16).range(1..)
    )]
    deadline: u16,
    /// The maximum time to finish open requests after SIGTERM, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    drain: u16,
    /// A host name that clients may use for the server, such as the name of a proxy; repeat it for
    /// each name [default: localhost and the address on a loopback address, any name otherwise]
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,
    /// The events to log on standard error, as lines of JSON
    #[arg(long, value_enum, default_value_t = Log::Requests)]
    log: Log,
    #[command(flatten)]
    reading: ReadingFlags,
    #[command(flatten)]
    searching: SearchFlags,
}

/// Parses an address with a port, or a port alone, which is on 127.0.0.1.
fn address(text: &str) -> Result<SocketAddr, String> {
    let local = text.replace("localhost", "127.0.0.1");
    let port = local.trim_start_matches(':').parse().map(|port: u16| ([127, 0, 0, 1], port).into());
    port.ok().or_else(|| local.parse().ok()).ok_or_else(|| {
        "expected an address and a port, such as 127.0.0.1:8080, 0.0.0.0:8080 or [::1]:8080, or a \
         port alone"
            .to_owned()
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Log {
    /// Errors, and changes to the model
    Events,
    /// Also one line per request, without its text
    Requests,
    /// Also the texts of requests
    Texts,
}

impl Serve {
    pub(crate) fn run(self, threads: &Threads, verbosity: Verbosity) -> Result<(), Failure> {
        self.log.start();
        let token = match &self.token_file {
            None => None,
            Some(path) => {
                let text = std::fs::read_to_string(path).map_err(|error| error.to_string());
                let token = text.and_then(|text| Token::new(&text).map_err(str::to_owned));
                let token =
                    token.map_err(|message| Failure::Input { path: path.clone(), message })?;
                if others_can_read(path) {
                    verbosity.print(&format!(
                        "note: other users can read the token; `chmod 600 {}` prevents it",
                        path.display()
                    ));
                }
                Some(token)
            }
        };
        let mut options = ServerOptions {
            listen: self.listen,
            token,
            protect_reads: self.protect_reads,
            max_body_bytes: usize::from(self.max_body) << 20,
            max_documents: self.max_documents as usize,
            // The largest allowed request must fit into an empty queue.
            max_waiting: self.queue.max(self.max_documents) as usize,
            max_connections: self.max_connections as usize,
            deadline: Duration::from_secs(self.deadline.into()),
            drain: Duration::from_secs(self.drain.into()),
            log_texts: self.log == Log::Texts,
            allowed_hosts: self.allow_host.clone(),
            ..ServerOptions::new(self.model.clone())
        };
        if !self.listen.ip().is_loopback() && options.token.is_none() {
            verbosity.print(
                "note: without --token-file, anyone who can reach this address can read from the \
                 model",
            );
        }
        options.encoder = self.encoder(threads)?;
        let engines = self.searching.engines(threads, verbosity)?;
        let ready = |address| verbosity.print(&format!("listening on http://{address}"));
        let mut server = Server::open(options, engines).map_err(failure)?;
        if !self.pool.is_empty() {
            let documents = self.read_pool(&server.model(), threads, verbosity)?;
            server = server.with_pool(documents).map_err(failure)?;
        }
        server.run(ready).map_err(failure)
    }

    /// Returns the encoder that the model needs, if any.
    fn encoder(&self, threads: &Threads) -> Result<Option<Arc<dyn TextEncoder>>, Failure> {
        let model = Model::open(&self.model)?;
        let mut read_options = self.reading.options(LabelUse::Optional, Some(threads))?;
        apply_model_settings(&model, model.settings().dense_share, &mut read_options)?;
        Ok(read_options.encoder)
    }

    /// Reads the documents to label as the model's training documents were read.
    fn read_pool(
        &self,
        model: &Model,
        threads: &Threads,
        verbosity: Verbosity,
    ) -> Result<Vec<Document>, Failure> {
        let mut read_options = self.reading.options(LabelUse::Optional, Some(threads))?;
        read_options.ids = pool_ids(&self.pool);
        apply_model_settings(model, model.settings().dense_share, &mut read_options)?;
        read_all(&self.pool, read_options, verbosity)
    }
}

fn failure(error: ServerError) -> Failure {
    match error {
        ServerError::Model(error) => Failure::Model(error),
        ServerError::Update(error) => error.into(),
        ServerError::Search(error) => Failure::Search(error),
        ServerError::Pool(error) => error.into(),
        ServerError::PoolPrediction(error) => error.into(),
        ServerError::Decisions { path, source } => {
            Failure::Input { path, message: source.to_string() }
        }
        error @ (ServerError::NeedsBatch
        | ServerError::CannotLabel(_)
        | ServerError::OtherEncoder(_)) => Failure::Usage(error.to_string()),
        error => Failure::Resource(error.to_string()),
    }
}

/// Whether users other than the owner can read a file.
fn others_can_read(path: &Path) -> bool {
    std::fs::metadata(path)
        .is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o044 != 0)
}

impl Log {
    fn start(self) {
        let level = |on| if on { LevelFilter::INFO } else { LevelFilter::OFF };
        let targets = Targets::new()
            .with_default(Level::INFO)
            .with_target("classify::request", level(self != Self::Events))
            .with_target("classify::text", level(self == Self::Texts));
        let lines = tracing_subscriber::fmt::layer()
            .json()
            .flatten_event(true)
            .with_writer(std::io::stderr);
        let subscriber = tracing_subscriber::registry().with(lines).with(targets);
        // If a subscriber is already set, it stays.
        let _ = tracing::subscriber::set_global_default(subscriber);
    }
}
