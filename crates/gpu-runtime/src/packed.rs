//! Compressed PTX that is embedded in the program.

use std::io::{self, Read};

use flate2::read::GzDecoder;

/// Includes the PTX `NAME.ptx`, which the build script of the calling crate compressed.
///
/// Pass the result to [`Device::load_packed`](crate::Device::load_packed).
#[macro_export]
macro_rules! ptx {
    ($name:literal) => {
        include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".ptx.gz"))
    };
}

/// Decompresses gzip-compressed PTX.
///
/// # Errors
/// Fails if the bytes are not gzip-compressed UTF-8 text.
///
/// ```
/// assert!(gpu_runtime::unpack(b"no gzip").is_err());
/// ```
pub fn unpack(packed: &[u8]) -> io::Result<String> {
    let mut text = String::new();
    GzDecoder::new(packed).read_to_string(&mut text)?;
    Ok(text)
}
