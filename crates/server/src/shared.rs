//! Resources that the handlers of all requests share.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tokio::sync::Semaphore;

use crate::hosts::AllowedHosts;
use crate::labeling::Labeling;
use crate::memory::MemoryBudget;
use crate::queue::Queue;
use crate::state::State;

/// Maximum number of requests that change documents or wait for a change.
const MAX_CHANGES: usize = 64;

/// Resources that the handlers of all requests share.
#[derive(Debug, Clone)]
pub(crate) struct Shared {
    pub(crate) state: Arc<State>,
    /// The documents to label, if there are any.
    pub(crate) labeling: Option<Arc<Labeling>>,
    pub(crate) queue: Queue,
    pub(crate) memory: MemoryBudget,
    /// One permit for each request that changes documents. Changes run one at a time.
    pub(crate) changes: Arc<Semaphore>,
    pub(crate) hosts: Arc<AllowedHosts>,
    /// Whether the server is about to stop.
    pub(crate) is_stopping: Arc<AtomicBool>,
}

impl Shared {
    pub(crate) fn new(state: Arc<State>, labeling: Option<Arc<Labeling>>) -> std::io::Result<Self> {
        Ok(Self {
            labeling,
            queue: Queue::start(&state)?,
            memory: MemoryBudget::default(),
            changes: Arc::new(Semaphore::new(MAX_CHANGES)),
            hosts: Arc::new(AllowedHosts::of(&state.options)),
            is_stopping: Arc::default(),
            state,
        })
    }
}
