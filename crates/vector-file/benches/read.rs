//! Measures the read throughput of a vector file: `cargo bench -p vector-file -- [ROWS]
//! [DIMENSION]`.
//!
//! The file was just written, so it is read from the page cache.

use std::error::Error;
use std::io::Write;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let numbers: Vec<usize> = std::env::args().filter_map(|text| text.parse().ok()).collect();
    let (rows, dimension) = match numbers[..] {
        [rows, dimension, ..] => (rows, dimension),
        _ => (1_000_000, 300),
    };
    let path = std::env::temp_dir().join(format!("vector-file-{}.npy", std::process::id()));
    let header = format!(
        "{:<117}\n",
        format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {dimension}), }}")
    );
    let mut file = std::io::BufWriter::new(std::fs::File::create(&path)?);
    file.write_all(b"\x93NUMPY\x01\x00")?;
    file.write_all(&u16::try_from(header.len())?.to_le_bytes())?;
    file.write_all(header.as_bytes())?;
    let mut value = 0.0f32;
    for _ in 0..rows * dimension {
        value = (value + 0.618) % 1.0;
        file.write_all(&value.to_le_bytes())?;
    }
    file.into_inner()?.sync_all()?;
    let mut rates = Vec::new();
    for _ in 0..5 {
        let start = Instant::now();
        let read = vector_file::open(&path)?;
        let seconds = start.elapsed().as_secs_f64();
        assert_eq!(read.len(), rows);
        rates.push((rows * dimension * 4) as f64 / seconds / 1e9);
    }
    std::fs::remove_file(&path)?;
    rates.sort_by(f64::total_cmp);
    let line =
        format!("{rows} x {dimension} values of 32 bits: {:.2} GB/s (median of 5)\n", rates[2]);
    std::io::stdout().write_all(line.as_bytes())?;
    Ok(())
}
