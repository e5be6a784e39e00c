//! `classify serve`

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use classify::server::{ServeError, ServeOptions, Token, serve};
use classify::threads::Threads;
use tracing::Level;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;

use crate::failure::Failure;
use crate::flags::searching::Searching;
use crate::output::progress::Talk;

#[derive(Debug, clap::Args)]
pub(crate) struct Serve {
    /// The model
    model: PathBuf,
    /// Where to listen; with port 0, a free port is taken
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// A file with the token that requests need to change documents: at least 16 characters. Without it no
    /// request changes documents
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Reading needs the token, too
    #[arg(long, requires = "token_file")]
    protect_reads: bool,
    /// The longest body of a request, in MiB; of a stream, the longest line
    #[arg(long, value_name = "MIB", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..))]
    max_body: u16,
    /// The most documents of a request that is not a stream
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    max_documents: u32,
    /// The most documents that wait for an answer: requests beyond are answered with 429
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..))]
    queue: u32,
    /// The most connections at a time; others wait
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    max_connections: u32,
    /// The most seconds that a request may take
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
    deadline: u16,
    /// The most seconds that open requests go on after SIGTERM
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    drain: u16,
    /// A name that clients may call the server by, such as that of a proxy; repeat for each. On a loopback address
    /// they are localhost and the address if none is given, elsewhere all
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,
    /// What to log on stderr, as lines of JSON
    #[arg(long, value_enum, default_value_t = Log::Requests)]
    log: Log,
    #[command(flatten)]
    searching: Searching,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Log {
    /// Errors and what happens to the model
    Events,
    /// Also a line per request, without its text
    Requests,
    /// Also the texts
    Texts,
}

impl Serve {
    pub(crate) fn run(self, threads: &Threads, talk: Talk) -> Result<(), Failure> {
        self.log.start();
        let token = match &self.token_file {
            None => None,
            Some(path) => {
                let text = std::fs::read_to_string(path).map_err(|error| error.to_string());
                let token = text.and_then(|text| Token::new(&text).map_err(str::to_owned));
                Some(token.map_err(|message| Failure::Input { path: path.clone(), message })?)
            }
        };
        let options = ServeOptions {
            listen: self.listen,
            token,
            protect_reads: self.protect_reads,
            most_bytes: usize::from(self.max_body) << 20,
            most_documents: self.max_documents as usize,
            // A request that may be sent has a place in an empty queue.
            queue: self.queue.max(self.max_documents) as usize,
            connections: self.max_connections as usize,
            deadline: Duration::from_secs(self.deadline.into()),
            drain: Duration::from_secs(self.drain.into()),
            log_texts: self.log == Log::Texts,
            hosts: self.allow_host.clone(),
            ..ServeOptions::new(self.model.clone())
        };
        if !self.listen.ip().is_loopback() && options.token.is_none() {
            talk.say("note: anyone who reaches this address can read from the model");
        }
        let engines = self.searching.engines(threads, talk)?;
        let ready = |address| talk.say(&format!("listening on http://{address}"));
        serve(options, engines, ready).map_err(|error| match error {
            ServeError::Model(error) => Failure::Model(error),
            ServeError::Update(error) => error.into(),
            ServeError::Search(error) => Failure::Search(error),
            error @ ServeError::NeedsBatch => Failure::Usage(error.to_string()),
            error => Failure::Resource(error.to_string()),
        })
    }
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
        // In a second call in one process, the first one stays.
        let _ = tracing::subscriber::set_global_default(subscriber);
    }
}
