//! Compresses the PTX of the kernels, which is embedded in the library.

use std::env::var_os;
use std::path::Path;

fn main() -> std::io::Result<()> {
    let out = var_os("OUT_DIR").unwrap_or_default();
    println!("cargo::rerun-if-changed=kernels/ptx");
    for path in pack_ptx::pack(Path::new("kernels/ptx"), Path::new(&out))? {
        println!("cargo::rerun-if-changed={}", path.display());
    }
    Ok(())
}
