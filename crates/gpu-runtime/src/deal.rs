//! Distributes work over several GPUs, some of which may fail.

use std::panic::resume_unwind;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

/// The outcome of [`deal`].
#[derive(Debug)]
pub struct DealOutcome<T, R, E> {
    /// The completed tasks, in no particular order.
    pub done: Vec<CompletedTask<T, R>>,
    /// The workers that failed. Other workers retried the failed tasks if they could.
    pub failures: Vec<Failure<E>>,
    /// The tasks that no worker completed.
    pub open: Vec<T>,
}

/// A completed task.
#[derive(Debug)]
pub struct CompletedTask<T, R> {
    /// The index of the worker.
    pub worker: usize,
    /// The task.
    pub task: T,
    /// The result of `work` for the task.
    pub result: R,
}

/// A worker that failed. It gets no more tasks.
#[derive(Debug)]
pub struct Failure<E> {
    /// The index of the worker.
    pub worker: usize,
    /// The error of the task that failed.
    pub error: E,
}

/// Distributes tasks over workers, each of which runs on its own thread.
///
/// A worker takes a task when it has finished the previous one. `choose` receives the worker and
/// the open tasks. It returns the index of the task to take, or `None` if the worker can do none of
/// them. If a worker fails, its task becomes open again, and the worker gets no more tasks.
///
/// # Panics
/// Panics if `choose` returns an index that is out of range, or if `choose` or `work` panics.
///
/// ```
/// use gpu_runtime::deal;
///
/// // The second of two workers fails, so the first one does all tasks.
/// let work = |worker: &u32, task: &u32| if *worker == 1 { Ok(task * 10) } else { Err("broken") };
/// let dealt = deal(&[1, 2], vec![5, 6, 7], |_, left| left.len().checked_sub(1), work);
/// assert_eq!(dealt.done.iter().map(|done| done.result).sum::<u32>(), 180);
/// assert!(dealt.open.is_empty());
/// ```
pub fn deal<W, T, R, E>(
    workers: &[W],
    tasks: Vec<T>,
    choose: impl Fn(&W, &[T]) -> Option<usize> + Sync,
    work: impl Fn(&W, &T) -> Result<R, E> + Sync,
) -> DealOutcome<T, R, E>
where
    W: Sync,
    T: Send,
    R: Send,
    E: Send,
{
    let open = Mutex::new(tasks);
    let mut working: Vec<usize> = (0..workers.len()).collect();
    let mut done = Vec::new();
    let mut failures = Vec::new();
    loop {
        let done_before = done.len();
        let rounds = on_each(&working, |&worker| {
            let mut completed = Vec::new();
            loop {
                let task = {
                    let mut open = lock(&open);
                    choose(&workers[worker], &open).map(|index| open.remove(index))
                };
                let Some(task) = task else { return (completed, None) };
                match work(&workers[worker], &task) {
                    Ok(result) => completed.push(CompletedTask { worker, task, result }),
                    Err(error) => {
                        lock(&open).push(task);
                        return (completed, Some(Failure { worker, error }));
                    }
                }
            }
        });
        for (completed, failure) in rounds {
            done.extend(completed);
            if let Some(failure) = failure {
                working.retain(|&worker| worker != failure.worker);
                failures.push(failure);
            }
        }
        // If a worker failed after the others had run out of tasks, the others must continue with
        // its task.
        if working.is_empty() || lock(&open).is_empty() || done.len() == done_before {
            let open = open.into_inner().unwrap_or_else(PoisonError::into_inner);
            return DealOutcome { done, failures, open };
        }
    }
}

fn lock<T>(tasks: &Mutex<Vec<T>>) -> MutexGuard<'_, Vec<T>> {
    tasks.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `work` for each worker on its own thread. A single worker runs on the calling thread.
///
/// Returns the results in the order of the workers after all threads have ended.
///
/// # Panics
/// Panics if `work` panics, or if the system cannot start a thread.
///
/// ```
/// assert_eq!(gpu_runtime::on_each(&[1, 2, 3], |worker| worker * 2), [2, 4, 6]);
/// ```
pub fn on_each<W: Sync, R: Send>(workers: &[W], work: impl Fn(&W) -> R + Sync) -> Vec<R> {
    if let [worker] = workers {
        return vec![work(worker)];
    }
    thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> =
            workers.iter().map(|worker| scope.spawn(move || work(worker))).collect();
        let joined = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        joined.collect()
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// A worker that may fail at one of its tasks, counted from 1.
    struct Worker {
        fails_at: Option<usize>,
        begun: AtomicUsize,
    }

    fn deal_to(workers: &[Option<usize>]) -> DealOutcome<u32, u32, &'static str> {
        let worker = |&fails_at| Worker { fails_at, begun: AtomicUsize::new(0) };
        let workers: Vec<Worker> = workers.iter().map(worker).collect();
        let work = |worker: &Worker, &task: &u32| {
            let begun = worker.begun.fetch_add(1, Ordering::Relaxed) + 1;
            if worker.fails_at == Some(begun) { Err("failed") } else { Ok(2 * task) }
        };
        deal(&workers, (0..100).collect(), |_, left| left.len().checked_sub(1), work)
    }

    fn tasks(dealt: &DealOutcome<u32, u32, &'static str>) -> Vec<u32> {
        assert!(dealt.done.iter().all(|done| done.result == 2 * done.task));
        let mut tasks: Vec<u32> = dealt.done.iter().map(|done| done.task).collect();
        tasks.sort_unstable();
        tasks
    }

    #[test]
    fn other_workers_redo_the_task_of_a_failed_worker() {
        for workers in [&[None, None][..], &[Some(1), None], &[Some(3), None, Some(2)]] {
            let dealt = deal_to(workers);
            assert!(tasks(&dealt).into_iter().eq(0..100));
            assert!(dealt.open.is_empty());
            // A worker that does not get enough tasks does not fail.
            let failing = workers.iter().filter(|fails_at| fails_at.is_some()).count();
            assert!(dealt.failures.len() <= failing);
        }
    }

    #[test]
    fn tasks_stay_open_if_all_workers_fail() {
        let dealt = deal_to(&[Some(5)]);
        assert_eq!(tasks(&dealt).len(), 4);
        assert_eq!(dealt.open.len(), 96);
        assert_eq!(dealt.failures[0].worker, 0);
        assert_eq!(deal_to(&[]).open.len(), 100);
    }

    #[test]
    fn a_worker_may_decline_tasks() {
        let choose = |worker: &u32, left: &[u32]| left.iter().position(|task| task % 3 == *worker);
        let dealt = deal(&[0, 1], (0..9).collect(), choose, |_, &task| Ok::<u32, ()>(task));
        assert_eq!(dealt.done.len(), 6);
        assert!(dealt.done.iter().all(|done| done.task as usize % 3 == done.worker));
        assert_eq!(dealt.open, [2, 5, 8]);
    }
}
