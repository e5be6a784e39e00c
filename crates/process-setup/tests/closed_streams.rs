//! Tests that a program detects which standard streams were closed when it started.

#![cfg(target_os = "linux")]

use std::process::Command;

use array_file::output::{Output, OutputProblem};

process_setup::note_closed_streams_before_main!();

/// Environment variable that is set in the child process, whose stderr is closed.
const CHILD: &str = "CLOSED_STREAMS_CHILD";

#[test]
fn output_to_a_closed_stream_is_an_error() {
    if std::env::var_os(CHILD).is_some() {
        let error = Output::open("/dev/stderr".as_ref()).unwrap_err();
        assert!(matches!(error.problem, OutputProblem::Closed));
        return;
    }
    assert!(Output::open("/dev/stderr".as_ref()).is_ok());
    let status = Command::new("sh")
        .args(["-c", "exec \"$0\" --exact output_to_a_closed_stream_is_an_error 2>&-"])
        .arg(std::env::current_exe().unwrap())
        .env(CHILD, "1")
        .status();
    assert!(status.unwrap().success());
}
