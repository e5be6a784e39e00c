//! A buffer of documents between reading and classification.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::text::corpus::{Content, CorpusError, Document};

/// The limits of a [`Backlog`], which determine when documents leave it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Maximum number of documents in the backlog, which is also the largest batch.
    pub(super) documents: usize,
    /// Number of bytes at which no more documents are added, even if they are few.
    pub(super) bytes: usize,
    /// Whether documents wait until a limit is reached, even if nothing else is being processed.
    pub(super) waits_for_full_batches: bool,
}

/// A buffer of documents between a reading and a classifying thread.
///
/// Documents leave it in order: when a limit is reached and at the end. Unless
/// `waits_for_full_batches` is set, they also leave when all earlier batches are done. As a result,
/// documents from a slow source are classified immediately, and documents from a fast source in
/// large batches.
#[derive(Debug)]
pub(super) struct Backlog {
    limits: Limits,
    state: Mutex<State>,
    /// Signals that documents can be taken.
    ready: Condvar,
    /// Signals that documents can be added.
    has_space: Condvar,
}

#[derive(Debug, Default)]
struct State {
    documents: Vec<Document>,
    bytes: usize,
    /// The error that ended reading, if any.
    error: Option<CorpusError>,
    /// Whether all documents have been added.
    is_ended: bool,
    /// Whether no more documents will be taken.
    is_closed: bool,
    /// Number of batches that have been taken but are not done.
    in_progress: usize,
}

impl Backlog {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, state: Mutex::default(), ready: Condvar::new(), has_space: Condvar::new() }
    }

    /// Waits for space and adds a document. Returns whether more documents are wanted.
    pub(super) fn push(&self, document: Document) -> bool {
        let bytes = bytes(&document);
        let waits = |state: &mut State| !state.is_closed && self.is_full(state);
        let state = self.has_space.wait_while(self.state(), waits);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        if state.is_closed {
            return false;
        }
        let could_leave = self.can_leave(&state);
        state.documents.push(document);
        state.bytes = state.bytes.saturating_add(bytes);
        if !could_leave && self.can_leave(&state) {
            self.ready.notify_one();
        }
        true
    }

    /// Marks the end of the documents, because of an error or because all were added.
    pub(super) fn end(&self, error: Option<CorpusError>) {
        let mut state = self.state();
        if !state.is_ended {
            state.is_ended = true;
            state.error = error;
        }
        self.ready.notify_one();
    }

    /// Waits for the next documents. Returns them, and the error that follows them, if any. Returns
    /// `None` at the end.
    pub(super) fn take(&self) -> Option<(Vec<Document>, Option<CorpusError>)> {
        let waits = |state: &mut State| !state.is_closed && !self.can_leave(state);
        let state = self.ready.wait_while(self.state(), waits);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        let documents = std::mem::take(&mut state.documents);
        let error = state.error.take();
        if state.is_closed || (documents.is_empty() && error.is_none()) {
            return None;
        }
        state.bytes = 0;
        state.in_progress += 1;
        self.has_space.notify_one();
        Some((documents, error))
    }

    /// Reports that a batch is done.
    pub(super) fn done(&self) {
        let mut state = self.state();
        state.in_progress = state.in_progress.saturating_sub(1);
        if self.can_leave(&state) {
            self.ready.notify_one();
        }
    }

    /// Closes the backlog: no more documents are accepted.
    pub(super) fn close(&self) {
        self.state().is_closed = true;
        self.ready.notify_one();
        self.has_space.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_full(&self, state: &State) -> bool {
        state.documents.len() >= self.limits.documents || state.bytes >= self.limits.bytes
    }

    fn can_leave(&self, state: &State) -> bool {
        let is_idle = !self.limits.waits_for_full_batches && state.in_progress == 0;
        state.is_ended || self.is_full(state) || (is_idle && !state.documents.is_empty())
    }
}

/// Returns the approximate memory of a document's content, in bytes.
fn bytes(document: &Document) -> usize {
    let content = match &document.content {
        Content::Features(features) => size_of_val(features.as_slice()),
        text => text.text_bytes(),
    };
    content + document.vector.as_ref().map_or(0, |vector| size_of_val(&vector[..]))
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::text::corpus::{Place, Problem};

    fn document(text: &str) -> Document {
        Document {
            id: text.to_owned(),
            content: Content::Text(text.to_owned()),
            labels: Vec::new(),
            weight: 1.0,
            vector: None,
            group: None,
            place: place(),
        }
    }

    fn place() -> Place {
        Place { source: "in".into(), line: None }
    }

    fn ids(taken: Option<(Vec<Document>, Option<CorpusError>)>) -> (Vec<String>, bool) {
        let (documents, error) = taken.expect("documents or an error");
        (documents.into_iter().map(|document| document.id).collect(), error.is_some())
    }

    #[test]
    fn documents_leave_when_earlier_ones_are_done_or_a_limit_is_reached() {
        let limits = Limits { documents: 3, bytes: 100, waits_for_full_batches: false };
        let backlog = Backlog::new(limits);
        assert!(backlog.push(document("a")));
        assert_eq!(ids(backlog.take()), (vec!["a".into()], false));
        for id in ["b", "c"] {
            assert!(backlog.push(document(id)));
        }
        assert!(!backlog.can_leave(&backlog.state()), "a is not done");
        backlog.done();
        assert_eq!(ids(backlog.take()), (vec!["b".into(), "c".into()], false));
        for id in ["d", "e", "f"] {
            assert!(backlog.push(document(id)));
        }
        assert_eq!(ids(backlog.take()).0.len(), 3, "the maximum number of documents");
        assert!(backlog.push(document(&"long".repeat(25))));
        assert_eq!(ids(backlog.take()).0.len(), 1, "the maximum number of bytes");
        backlog.end(Some(CorpusError { place: place(), problem: Problem::NoDocument }));
        backlog.end(None);
        assert_eq!(ids(backlog.take()), (Vec::new(), true), "the error comes last, once");
        assert!(backlog.take().is_none());
    }

    #[test]
    fn full_batches_wait_for_a_limit_or_the_end() {
        let limits =
            Limits { documents: usize::MAX, bytes: usize::MAX, waits_for_full_batches: true };
        let backlog = Backlog::new(limits);
        for _ in 0..100 {
            assert!(backlog.push(document("a")));
            assert!(!backlog.can_leave(&backlog.state()));
        }
        backlog.end(None);
        assert_eq!(ids(backlog.take()).0.len(), 100);
        assert!(backlog.take().is_none());
    }

    #[test]
    fn waiting_threads_are_woken() {
        let backlog =
            Backlog::new(Limits { documents: 2, bytes: 100, waits_for_full_batches: true });
        thread::scope(|scope| {
            let reading =
                scope.spawn(|| (0..1_000).take_while(|_| backlog.push(document("a"))).count());
            for _ in 0..50 {
                assert_eq!(ids(backlog.take()).0.len(), 2);
            }
            backlog.close();
            let pushed = reading.join().expect("it ends");
            assert!((100..=102).contains(&pushed), "{pushed}");
        });
        assert!(backlog.take().is_none());
        let empty =
            Backlog::new(Limits { documents: 2, bytes: 100, waits_for_full_batches: false });
        thread::scope(|scope| {
            let taking = scope.spawn(|| empty.take().is_none());
            empty.end(None);
            assert!(taking.join().expect("it ends"), "no document was added");
        });
    }
}
