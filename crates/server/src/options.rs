//! The settings of a server, and the token that protects it.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use classify::text::corpus::TextEncoder;
use subtle::ConstantTimeEq;

/// The settings of a server.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Path of the model file.
    pub model: PathBuf,
    /// Address to listen on. For port 0, the system chooses a free port.
    pub listen: SocketAddr,
    /// Token that requests must send to change documents. Without one, documents cannot be changed.
    pub token: Option<Token>,
    /// Whether read requests need the token, too.
    pub protect_reads: bool,
    /// Maximum size in bytes of a request body, or of a line of a stream.
    pub max_body_bytes: usize,
    /// Maximum number of documents in a request that is not a stream.
    pub max_documents: usize,
    /// Maximum number of documents that wait for an answer. Further requests are refused.
    pub max_waiting: usize,
    /// Maximum number of open connections. Further connections wait to be accepted.
    pub max_connections: usize,
    /// Maximum time that a request may take.
    pub deadline: Duration,
    /// Maximum time to finish open requests after the server was asked to stop.
    pub drain: Duration,
    /// Whether the texts of documents are logged.
    pub log_texts: bool,
    /// Host names, without a port, by which requests may address the server. If empty, a server on
    /// a loopback address allows only its own names, and any other server allows every name.
    pub allowed_hosts: Vec<String>,
    /// Computes the vectors of texts, if the model needs an encoder.
    pub encoder: Option<Arc<dyn TextEncoder>>,
}

impl ServerOptions {
    /// Creates the default options for a model file.
    pub fn new(model: PathBuf) -> Self {
        Self {
            model,
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            token: None,
            protect_reads: false,
            max_body_bytes: 16 << 20,
            max_documents: 1024,
            max_waiting: 4096,
            max_connections: 1024,
            deadline: Duration::from_secs(10),
            drain: Duration::from_secs(30),
            log_texts: false,
            allowed_hosts: Vec::new(),
            encoder: None,
        }
    }
}

/// Secret that requests must send.
#[derive(Clone)]
pub struct Token(Arc<str>);

impl Token {
    /// Minimum length of a token in bytes.
    pub const MIN_LENGTH: usize = 16;

    /// Creates a token from the text of a file. White space around it is ignored.
    ///
    /// ```
    /// use classify_server::Token;
    ///
    /// assert!(Token::new("0123456789abcdef\n").is_ok());
    /// assert!(Token::new("secret").is_err());
    /// ```
    ///
    /// # Errors
    /// Fails if the token is shorter than 16 bytes or has characters other than visible ASCII. The
    /// error gives the reason.
    pub fn new(text: &str) -> Result<Self, &'static str> {
        let text = text.trim();
        if text.len() < Self::MIN_LENGTH {
            return Err(
                "a token needs at least 16 characters; `openssl rand -hex 32` generates a good one",
            );
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("a token may contain only visible ASCII characters, and no spaces");
        }
        Ok(Self(text.into()))
    }

    /// Whether `secret` equals the token. The comparison time depends only on its length.
    pub(crate) fn matches(&self, secret: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(secret).into()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}
