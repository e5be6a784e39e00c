//! The number of threads of the program.

use std::num::NonZero;

use crate::failure::{Failure, Outcome};

/// Returns the number of available cores.
pub(crate) fn all_cores() -> NonZero<usize> {
    std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN)
}

/// Starts the threads that build indexes.
pub(crate) fn start_threads(threads: Option<NonZero<usize>>) -> Outcome {
    let threads = threads.unwrap_or_else(all_cores);
    let started = rayon::ThreadPoolBuilder::new().num_threads(threads.get()).build_global();
    started.map_err(|error| Failure {
        code: 5,
        error: anyhow::anyhow!("cannot start {threads} threads: {error}; use fewer with -j"),
    })
}
