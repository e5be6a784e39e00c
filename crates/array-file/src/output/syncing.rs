//! Syncs a large file while it is written, to shorten the final sync.

use std::fs::File;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

/// The number of bytes written between two syncs.
const SYNC_INTERVAL: usize = 1 << 25;

/// The number of unsynced bytes, and the thread that syncs the file.
#[derive(Debug, Default)]
pub(super) struct SyncState {
    unsynced: usize,
    thread: Option<(Sender<()>, JoinHandle<io::Result<()>>)>,
}

impl SyncState {
    /// Counts bytes that were written to the file. Requests a sync after every [`SYNC_INTERVAL`]
    /// bytes.
    pub(super) fn count_written(&mut self, bytes: usize, file: &File) {
        self.unsynced += bytes;
        if self.unsynced < SYNC_INTERVAL {
            return;
        }
        self.unsynced = 0;
        if self.thread.is_none() {
            // Without a thread, the file is synced only at the end.
            let Ok(file) = file.try_clone() else { return };
            let (sender, requests) = channel();
            let thread = thread::Builder::new().name("sync".to_owned());
            let Ok(thread) = thread.spawn(move || sync(&file, &requests)) else { return };
            self.thread = Some((sender, thread));
        }
        if let Some((sender, _)) = &self.thread {
            // After a failure, no thread receives the request. `finish` reports the failure.
            let _ = sender.send(());
        }
    }

    /// Waits for the thread and returns its error, because the system reports a failed write only
    /// once.
    pub(super) fn finish(self) -> io::Result<()> {
        let Some((sender, thread)) = self.thread else { return Ok(()) };
        drop(sender);
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Syncs the file on request. Requests that arrive during a sync share the next sync.
fn sync(file: &File, requests: &Receiver<()>) -> io::Result<()> {
    while requests.recv().is_ok() {
        while requests.try_recv().is_ok() {}
        file.sync_data()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write;

    use super::*;

    #[test]
    fn large_files_are_synced_while_they_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = File::create(folder.path().join("large")).unwrap();
        let mut syncing = SyncState::default();
        let bytes = vec![1; SYNC_INTERVAL / 2];
        for writes in 1..=5 {
            file.write_all(&bytes).unwrap();
            syncing.count_written(bytes.len(), &file);
            assert_eq!(syncing.thread.is_some(), writes > 1, "only large files need a thread");
        }
        syncing.finish().unwrap();
        SyncState::default().finish().unwrap();
    }

    #[test]
    fn failures_are_reported_at_the_end() {
        // Devices cannot be synced.
        let file = OpenOptions::new().write(true).open("/dev/null").unwrap();
        let mut syncing = SyncState::default();
        syncing.count_written(SYNC_INTERVAL, &file);
        syncing.count_written(SYNC_INTERVAL, &file);
        assert!(syncing.finish().is_err());
    }
}
