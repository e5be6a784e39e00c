#![no_main]
#[path = "../targets.rs"]
#[expect(dead_code, reason = "each fuzz target uses one function")]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::table(data));
