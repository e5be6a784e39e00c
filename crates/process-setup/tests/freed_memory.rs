//! Tests that freed memory is returned as requested. The test needs a separate process,
//! because the setting is process-wide.

#![cfg(target_os = "linux")]

use std::hint::black_box;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: process_setup::Allocator = process_setup::Allocator;

/// Returns the number of pages that the system has cleared for this process so far: its minor page
/// faults.
fn cleared() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux has this file");
    // The second field is the program name in parentheses. The third field follows it.
    let (_, fields) = stat.rsplit_once(')').expect("the name ends with a parenthesis");
    let faults = fields.split_whitespace().nth(7).expect("minor faults");
    faults.parse().expect("a number")
}

/// Returns the number of pages cleared while memory is allocated and freed ten times.
fn cleared_for_ten() -> u64 {
    let before = cleared();
    for _ in 0..10 {
        drop(black_box(vec![1u8; 24 << 20]));
        // Freed memory is returned after a delay, and only while memory is allocated or freed.
        std::thread::sleep(Duration::from_millis(150));
        drop(black_box(vec![1u8; 1 << 20]));
    }
    cleared() - before
}

/// Returns the resident memory of this process, in pages.
fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("Linux has this file");
    let resident = pages.split_whitespace().nth(1).expect("resident pages");
    resident.parse().expect("a number")
}

#[test]
fn freed_memory_is_returned_soon() {
    let returned = cleared_for_ten();
    drop(black_box(vec![1u8; 24 << 20]));
    let before = resident();
    process_setup::return_freed_memory_after(Duration::from_millis(50));
    let after = resident();
    assert!(after * 2 < before, "{after} pages are resident, {before} before");
    let returned_soon = cleared_for_ten();
    assert!(returned * 2 < returned_soon, "{returned_soon} pages cleared, {returned} before");
}
