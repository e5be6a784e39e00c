//! Amounts of memory on the GPU.

/// The largest k that the fused kernel supports.
pub(super) const FUSED_K: usize = 1_200;
/// The number of candidates that a fused block can hold, for small k.
const MIN_CAPACITY: u32 = 256;

/// Returns the number of candidates that a fused block can hold.
pub(super) fn candidate_capacity(k: usize) -> u32 {
    number(3 * k.min(FUSED_K)).next_power_of_two().max(MIN_CAPACITY)
}

/// Returns a fraction of an amount of memory.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "part of a size")]
pub(super) fn fraction_of(bytes: usize, fraction: f64) -> usize {
    (bytes as f64 * fraction) as usize
}

/// Converts a size in a batch.
pub(super) fn number(n: usize) -> u32 {
    u32::try_from(n).expect("batches are cut below 2^32")
}
