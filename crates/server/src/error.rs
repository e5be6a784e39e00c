//! Errors that prevent a server from starting.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use classify::classifier::ClassifyError;
use classify::learn::TrainError;
use classify::model::{ModelError, ModelProblem, UpdateError};
use classify::rows::dense::EncoderSpec;
use classify::search::SearchError;

/// Reason why a server cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The model cannot be opened.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The model cannot be opened for changes.
    #[error(transparent)]
    Update(#[from] UpdateError),
    /// The model cannot be searched.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// The model's decision rule needs whole batches of documents.
    #[error(
        "the model's decision rule (pcut) needs all documents of a batch, \
         but a server answers documents one at a time; train the model with another rule"
    )]
    NeedsBatch,
    /// The model was trained with another encoder than the one of the server.
    #[error(
        "the model needs the encoder {} with the hash {}; start the server again with --encoder",
        classify::printable::printable(&_0.folder), _0.hash
    )]
    OtherEncoder(EncoderSpec),
    /// The documents of the pool cannot be prepared for labeling.
    #[error("the pool cannot be prepared for labeling: {0}")]
    Pool(#[from] TrainError),
    /// The labels of the pool's documents cannot be predicted.
    #[error("the labels of the pool cannot be predicted: {0}")]
    PoolPrediction(#[from] ClassifyError),
    /// Several documents of the pool have the same identifier.
    #[error(
        "several documents of the pool have the identifier `{}`; identifiers must be unique",
        classify::printable::printable(_0)
    )]
    RepeatedId(String),
    /// The decisions file cannot be read.
    #[error("{}: {source}", path.display())]
    Decisions {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Documents cannot be labeled without a token, or with a model of dense vectors only.
    #[error("{0}")]
    CannotLabel(&'static str),
    /// The server cannot listen on the address.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// The system refused threads or signal handlers.
    #[error("cannot start: {0}")]
    Start(#[source] io::Error),
}

impl ServerError {
    /// Whether the cause may disappear although the model's files stay the same. Examples are too
    /// many open files, too little memory, and another process that changes the model.
    pub(crate) fn is_transient(&self) -> bool {
        let is_io_error = |error: &ModelError| {
            matches!(&error.problem, ModelProblem::Read(_) | ModelProblem::Write(_))
        };
        match self {
            Self::Model(error) | Self::Update(UpdateError::Model(error)) => is_io_error(error),
            Self::Update(UpdateError::Locked { .. } | UpdateError::Replaced { .. })
            | Self::Search(SearchError::OutOfMemory { .. } | SearchError::Engine(_)) => true,
            _ => false,
        }
    }
}
