//! `classify devices`

use std::fmt::Write as _;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use gpu_runtime::{DeviceInfo, devices};

use crate::failure::Failure;
use crate::output::files::print;
use classify::threads::Threads;

#[derive(Debug, clap::Args)]
pub(crate) struct Devices {}

impl Devices {
    #[expect(clippy::unused_self, reason = "same signature as the other commands")]
    pub(crate) fn run(self, threads: &Threads) -> Result<(), Failure> {
        let mut text = String::new();
        let cpu = format!("inverted on the CPU with {} threads", threads.count());
        match devices() {
            Ok(found) => {
                let table = table(&found);
                text.extend(table.lines().map(|line| line.trim_end().to_owned() + "\n"));
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

fn table(found: &[DeviceInfo]) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.set_header([
        "GPU",
        "name",
        "capability",
        "multiprocessors",
        "memory MiB",
        "free MiB",
        "shared KiB per block",
        "texture width",
        "driver CUDA",
    ]);
    for gpu in found {
        table.add_row([
            gpu.ordinal.to_string(),
            gpu.name.clone(),
            format!("{}.{}", gpu.capability.0, gpu.capability.1),
            gpu.multiprocessors.to_string(),
            (gpu.memory >> 20).to_string(),
            (gpu.free >> 20).to_string(),
            (gpu.shared_per_block >> 10).to_string(),
            gpu.texture_width.to_string(),
            format!("{}.{}", gpu.driver / 1_000, gpu.driver % 1_000 / 10),
        ]);
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
