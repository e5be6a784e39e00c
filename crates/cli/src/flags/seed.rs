//! The flag `--seed`.

/// The seed of random draws.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct SeedFlag {
    /// The seed of random draws
    #[arg(long = "seed", value_name = "N", default_value_t = 0)]
    pub(crate) value: u64,
}
