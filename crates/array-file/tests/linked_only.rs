//! Tests that linking this library does not change a process.

#![cfg(target_os = "linux")]

use std::process::Command;

use array_file::output::Output;

/// The environment variable that is set in the child process, whose stderr is closed.
const CHILD: &str = "LINKED_ONLY_CHILD";

/// Rust has replaced the closed stderr with `/dev/null`. Only code that ran before `main` can have
/// recorded that stderr was closed.
#[test]
fn nothing_runs_before_main() {
    if std::env::var_os(CHILD).is_some() {
        let output = Output::open("/dev/stderr".as_ref());
        assert!(output.is_ok(), "code of this library ran before `main`: {output:?}");
        return;
    }
    let status = Command::new("sh")
        .args(["-c", "exec \"$0\" --exact nothing_runs_before_main 2>&-"])
        .arg(std::env::current_exe().unwrap())
        .env(CHILD, "1")
        .status();
    assert!(status.unwrap().success());
}

#[test]
fn no_signal_is_handled() {
    /// The signals 1 to 31. The C library uses some of the higher signals itself.
    const STANDARD_SIGNALS: u64 = 0x7fff_ffff;
    /// SIGSEGV and SIGBUS, which the Rust runtime handles to detect stack overflows.
    const RUNTIME_SIGNALS: u64 = 1 << (11 - 1) | 1 << (7 - 1);
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    let caught = u64::from_str_radix(caught.trim(), 16).unwrap();
    assert_eq!(caught & STANDARD_SIGNALS & !RUNTIME_SIGNALS, 0, "{caught:x}");
}

/// This library must not link an allocator, whose initialization would run before `main`.
#[test]
fn no_allocator_is_linked() {
    let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    // The name is split, so that this program does not contain it.
    let name = ["mi_process", "init"].join("_");
    assert!(!program.windows(name.len()).any(|bytes| bytes == name.as_bytes()));
}
