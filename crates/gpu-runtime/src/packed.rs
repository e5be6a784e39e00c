//! PTX that is compressed in programs.

use std::io::{self, Read};

use flate2::read::GzDecoder;

/// The PTX `NAME.ptx` that the build script of the calling crate compressed, for
/// [`Device::load_packed`](crate::Device::load_packed).
#[macro_export]
macro_rules! ptx {
    ($name:literal) => {
        include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".ptx.gz"))
    };
}

/// The text of compressed PTX.
///
/// # Errors
/// If the bytes are not a text compressed by gzip.
///
/// ```
/// assert!(gpu_runtime::unpack(b"no gzip").is_err());
/// ```
pub fn unpack(packed: &[u8]) -> io::Result<String> {
    let mut text = String::new();
    GzDecoder::new(packed).read_to_string(&mut text)?;
    Ok(text)
}
