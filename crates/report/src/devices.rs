//! Formats the table of GPUs.

use gpu_runtime::DeviceInfo;

use crate::table::{plain, table};

/// Returns one line per GPU, after a header.
pub fn terminal(devices: &[DeviceInfo]) -> String {
    let header = [
        "GPU",
        "name",
        "capability",
        "multiprocessors",
        "memory MiB",
        "free MiB",
        "shared KiB per block",
        "texture width",
        "driver CUDA",
    ];
    let mut table = table(&header, 2);
    for gpu in devices {
        let (major, minor) = gpu.capability;
        table.add_row([
            gpu.ordinal.to_string(),
            gpu.name.clone(),
            format!("{major}.{minor}"),
            gpu.multiprocessors.to_string(),
            (gpu.memory >> 20).to_string(),
            (gpu.free >> 20).to_string(),
            (gpu.shared_per_block >> 10).to_string(),
            gpu.texture_width.to_string(),
            format!("{}.{}", gpu.driver / 1_000, gpu.driver % 1_000 / 10),
        ]);
    }
    plain(table)
}
