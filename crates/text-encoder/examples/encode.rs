//! Encodes texts with a model, writes the embeddings, and prints the speed.
//!
//! ```text
//! cargo run --release -p text-encoder --example encode FOLDER TEXTS.json OUT.f32
//! ```
//!
//! `TEXTS.json` is a list of texts. `OUT.f32` receives the embeddings as 32-bit floats.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use text_encoder::Encoder;

#[expect(clippy::print_stdout, reason = "the result of the program")]
fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, texts, out] = &*arguments else {
        return Err("usage: encode FOLDER TEXTS.json OUT.f32".into());
    };
    let texts: Vec<String> = serde_json::from_slice(&std::fs::read(texts)?)?;
    let encoder = Encoder::open(Path::new(folder))?;
    let mut seconds = Vec::new();
    let mut embeddings = Vec::new();
    for _ in 0..5 {
        let start = Instant::now();
        embeddings = encoder.encode(&texts);
        seconds.push(start.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    let speed = texts.len() as f64 / seconds[2];
    println!("{} texts, {} dimensions, {speed:.0} texts/s", texts.len(), encoder.dimension());
    let bytes: Vec<u8> = embeddings.iter().flat_map(|value| value.to_le_bytes()).collect();
    std::fs::write(out, bytes)?;
    Ok(())
}
