//! Capacities and sizes of GPU memory.

/// Maximum k that the fused kernels support.
pub(super) const MAX_FUSED_K: usize = 1_200;
/// Minimum capacity of a fused block.
const MIN_CAPACITY: u32 = 256;

/// Returns the maximum number of candidates and neighbors of a query in a fused block.
pub(super) fn candidate_capacity(k: usize) -> u32 {
    batch_number(3 * k.min(MAX_FUSED_K)).next_power_of_two().max(MIN_CAPACITY)
}

/// Returns a fraction of an amount of memory.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "part of a size")]
pub(super) fn fraction_of(bytes: usize, fraction: f64) -> usize {
    (bytes as f64 * fraction) as usize
}

/// Converts a size or position in a batch to 32 bits.
pub(super) fn batch_number(n: usize) -> u32 {
    u32::try_from(n).expect("batches have fewer than 2^32 elements")
}
