//! `classify devices`

use std::fmt::Write as _;

use classify::threads::Threads;
use classify_report::devices::terminal;
use gpu_runtime::devices;

use crate::failure::Failure;
use crate::output::files::print;

#[derive(Debug, clap::Args)]
pub(crate) struct Devices {}

impl Devices {
    #[expect(clippy::unused_self, reason = "same signature as the other commands")]
    pub(crate) fn run(self, threads: &Threads) -> Result<(), Failure> {
        let mut text = String::new();
        let cpu = format!("inverted on the CPU with {} threads", threads.count());
        match devices() {
            Ok(found) => {
                text.push_str(&terminal(&found));
                text.push('\n');
                let best = found.iter().filter(|gpu| gpu.is_supported()).max_by_key(|gpu| gpu.free);
                let _ = match best {
                    Some(gpu) => writeln!(
                        text,
                        "--device auto uses fused on GPU {}, which has the most free memory",
                        gpu.ordinal
                    ),
                    None => writeln!(
                        text,
                        "--device auto uses {cpu}: no GPU has compute capability 7.5 or above"
                    ),
                };
            }
            Err(reason) => {
                let _ = writeln!(text, "no GPU: {reason}\n\n--device auto uses {cpu}");
            }
        }
        print(text.as_bytes())
    }
}
