//! Runs a server under test.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

/// A running server. Dropping it kills the process.
#[derive(Debug)]
pub struct Server {
    process: Child,
    address: String,
    log: Arc<Mutex<String>>,
}

impl Server {
    /// Starts a server and waits until it prints `listening on http://ADDRESS` to standard error.
    ///
    /// # Panics
    ///
    /// Panics if the server cannot be started, or exits before it prints this line.
    pub fn start(command: &mut Command) -> Self {
        let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines().map(Result::unwrap);
        let mut startup = String::new();
        let address = loop {
            let line = lines.next().unwrap_or_else(|| panic!("server exited early: {startup}"));
            if let Some(address) = line.strip_prefix("listening on http://") {
                break address.to_owned();
            }
            startup += &line;
        };
        let log = Arc::new(Mutex::new(String::new()));
        let copy = Arc::clone(&log);
        // Standard error must be read, because a full pipe would block the server.
        std::thread::spawn(move || {
            for line in lines {
                let mut log = copy.lock().unwrap();
                *log += &line;
                log.push('\n');
            }
        });
        Self { process, address, log }
    }

    /// Returns the host and port at which the server listens.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the process ID.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Returns what the server wrote to standard error after it started to listen.
    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Sends a signal, such as `-TERM`.
    ///
    /// # Panics
    ///
    /// Panics if `kill` fails.
    pub fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.id().to_string()]).status();
        assert!(status.unwrap().success());
    }

    /// Waits for the process to exit.
    pub fn wait(&mut self) -> ExitStatus {
        self.process.wait().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
