//! PTX that a program includes in compressed form.

use std::io::{self, Read};

use flate2::read::GzDecoder;

/// Includes the PTX `NAME.ptx` that the build script of the calling crate compressed.
///
/// The result is for [`Device::load_packed`](crate::Device::load_packed).
#[macro_export]
macro_rules! ptx {
    ($name:literal) => {
        include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".ptx.gz"))
    };
}

/// Decompresses PTX.
///
/// # Errors
/// If the bytes are not a UTF-8 text compressed by gzip.
///
/// ```
/// assert!(gpu_runtime::unpack(b"no gzip").is_err());
/// ```
pub fn unpack(packed: &[u8]) -> io::Result<String> {
    let mut text = String::new();
    GzDecoder::new(packed).read_to_string(&mut text)?;
    Ok(text)
}
