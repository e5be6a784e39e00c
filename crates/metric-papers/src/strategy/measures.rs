//! The measurements of a run.

use std::time::{Duration, Instant};

use metric_index::index::Cost;

/// The work of one thread.
#[derive(Debug, Clone, Default)]
pub struct Worker {
    /// Number of evaluated distances, including distances of queries to themselves.
    pub evaluations: u64,
    /// Number of processed nodes (clusters, blocks).
    pub nodes: u64,
    /// Number of queries taken from the queue of the thread.
    pub queries: u64,
    /// Number of tasks sent to other threads.
    pub messages: u64,
    /// Number of supersteps in which the thread took part.
    pub supersteps: u64,
    /// Time during which the thread had no work or waited for other threads.
    pub idle: Duration,
    /// Number of evaluated distances in each [window](super::Options::window).
    windows: Vec<u64>,
}

impl Worker {
    /// Records work that was just done.
    pub(super) fn count(&mut self, cost: Cost, clock: &Clock) {
        let Cost { evaluations, nodes } = cost;
        self.evaluations += evaluations;
        self.nodes += nodes;
        let window = clock.window();
        if self.windows.len() <= window {
            self.windows.resize(window + 1, 0);
        }
        self.windows[window] += evaluations;
    }
}

/// A clock that measures the time since the start of a run.
#[derive(Debug)]
pub(super) struct Clock {
    start: Instant,
    window: Duration,
}

impl Clock {
    pub(super) fn start(window: Duration) -> Self {
        Self { start: Instant::now(), window }
    }

    pub(super) fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn window(&self) -> usize {
        let window = self.now().as_nanos() / self.window.as_nanos();
        // The limit bounds the memory for the windows.
        usize::try_from(window.min(1 << 20)).unwrap_or(1 << 20)
    }

    /// Sleeps until a time since the start of the run.
    pub(super) fn wait_until(&self, time: Duration) {
        while let Some(left) = time.checked_sub(self.now()).filter(|left| !left.is_zero()) {
            // A sleeping thread can wake up late, so it sleeps for a shorter time and then yields.
            match left.checked_sub(Duration::from_micros(100)) {
                Some(left) => std::thread::sleep(left),
                None => std::thread::yield_now(),
            }
        }
    }
}

/// The measurements of a run (Barrientos 2011, section 3.3).
///
/// ```
/// use std::num::NonZero;
/// use metric_index::collector::Nearest;
/// use metric_index::index::VpTree;
/// use metric_index::metric::Edit;
/// use metric_index::points::Strings;
/// use metric_papers::strategy::{Options, Strategy, run};
///
/// let words: Strings = ["casa", "cosa", "caso", "pez"].into_iter().collect();
/// let tree = VpTree::build(&words, Edit)?;
/// let options = Options::new(Strategy::BulkCircular, NonZero::new(2).unwrap());
/// let measures = run(&tree, &words, |_| Nearest::new(1), &options)?.measures;
/// assert_eq!(measures.latencies.len(), 4);
/// assert!(measures.supersteps() > 0 && measures.efficiency() <= 1.0);
///
/// // Threads that work alone send no messages. The tree is a single node.
/// let options = Options::new(Strategy::Local, NonZero::new(2).unwrap());
/// let measures = run(&tree, &words, |_| Nearest::new(1), &options)?.measures;
/// assert_eq!((measures.messages(), measures.supersteps(), measures.nodes()), (0, 0, 4));
/// assert!(measures.latency(0.5) <= measures.latency(1.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Measures {
    /// Time from the start of the run to its last answer.
    pub elapsed: Duration,
    /// The work of each thread.
    pub workers: Vec<Worker>,
    /// Time from the arrival of each query to its answer.
    pub latencies: Vec<Duration>,
}

impl Measures {
    /// Returns the number of queries answered per second.
    pub fn throughput(&self) -> f64 {
        self.latencies.len() as f64 / self.elapsed.as_secs_f64()
    }

    /// Returns the number of distances that all threads evaluated.
    pub fn evaluations(&self) -> u64 {
        self.workers.iter().map(|worker| worker.evaluations).sum()
    }

    /// Returns the number of nodes (clusters, blocks) that all threads processed.
    pub fn nodes(&self) -> u64 {
        self.workers.iter().map(|worker| worker.nodes).sum()
    }

    /// Returns the number of tasks that threads sent to other threads.
    pub fn messages(&self) -> u64 {
        self.workers.iter().map(|worker| worker.messages).sum()
    }

    /// Returns the number of supersteps; 0 for strategies without supersteps.
    pub fn supersteps(&self) -> u64 {
        self.workers.iter().map(|worker| worker.supersteps).max().unwrap_or(0)
    }

    /// Returns the fraction of the threads' time that was idle, from 0 to 1.
    pub fn idle(&self) -> f64 {
        let idle: f64 = self.workers.iter().map(|worker| worker.idle.as_secs_f64()).sum();
        (idle / (self.elapsed.as_secs_f64() * self.workers.len() as f64)).min(1.0)
    }

    /// Returns the load balance of the whole run: `E = (Σ wᵢ / max w) / P`.
    ///
    /// `wᵢ` is the number of distances that thread i evaluated. E is 1 if all threads evaluated the
    /// same number of distances, or none.
    pub fn balance(&self) -> f64 {
        efficiency(self.workers.iter().map(|worker| worker.evaluations))
    }

    /// Returns the mean load balance E (see [`balance`](Self::balance)) over the windows with work.
    ///
    /// The mean is low if only a few threads have work at any time, even if the threads take turns.
    pub fn efficiency(&self) -> f64 {
        let windows = self.workers.iter().map(|worker| worker.windows.len()).max().unwrap_or(0);
        let in_window = |window| {
            let work = |worker: &Worker| worker.windows.get(window).copied().unwrap_or(0);
            self.workers.iter().map(work).collect::<Vec<u64>>()
        };
        let with_work = (0..windows).map(in_window).filter(|work| work.iter().any(|&w| w > 0));
        let each: Vec<f64> = with_work.map(|work| efficiency(work.into_iter())).collect();
        if each.is_empty() { 1.0 } else { each.iter().sum::<f64>() / each.len() as f64 }
    }

    /// Returns the latency that the given share of queries does not exceed (nearest-rank
    /// percentile).
    ///
    /// # Panics
    /// Panics if the share is not between 0 and 1.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "0 to the number of queries"
    )]
    pub fn latency(&self, share: f64) -> Duration {
        assert!((0.0..=1.0).contains(&share), "share {share}, expected 0 to 1");
        let mut sorted = self.latencies.clone();
        sorted.sort_unstable();
        let rank = (share * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.max(1) - 1).copied().unwrap_or_default()
    }
}

/// Returns the load balance E, given the work of each thread.
fn efficiency(work: impl ExactSizeIterator<Item = u64> + Clone) -> f64 {
    let threads = work.len() as f64;
    let max = work.clone().max().unwrap_or(0);
    if max == 0 { 1.0 } else { work.sum::<u64>() as f64 / max as f64 / threads }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_follow_their_definitions() {
        let worker = |evaluations, windows: &[u64]| Worker {
            evaluations,
            idle: Duration::from_secs(1),
            windows: windows.to_vec(),
            ..Worker::default()
        };
        let measures = Measures {
            elapsed: Duration::from_secs(4),
            workers: vec![worker(30, &[10, 0, 20]), worker(30, &[30, 0])],
            latencies: [4, 1, 3, 2].map(Duration::from_secs).to_vec(),
        };
        let assert_close =
            |found: f64, expected: f64| assert!((found - expected).abs() < 1e-12, "{found}");
        assert_close(measures.balance(), 1.0);
        assert_close(measures.efficiency(), f64::midpoint(40.0 / 60.0, 20.0 / 40.0));
        assert_close(measures.idle(), 0.25);
        assert_close(measures.throughput(), 1.0);
        let seconds = |share| measures.latency(share).as_secs();
        assert_eq!([0.0, 0.25, 0.5, 0.51, 1.0].map(seconds), [1, 1, 2, 3, 4]);
    }
}
