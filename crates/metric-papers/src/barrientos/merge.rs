//! Merges the answers of several GPUs.

use gpu_runtime::GpuError;
use metric_index::lists::NeighborLists;
use metric_index::neighbor::Neighbor;

use crate::gpu::TimedAnswers;

/// Merges the answers of all GPUs to the same queries, and keeps the k nearest neighbors per query.
/// `renumber` converts the point number of a GPU's neighbor to the number among all points.
///
/// The time is the time of the slowest GPU. Returns `None` if a GPU returned `None`.
pub(super) fn merge_answers(
    found: Vec<Result<Option<TimedAnswers>, GpuError>>,
    k: usize,
    renumber: impl Fn(usize, Neighbor) -> Neighbor,
) -> Result<Option<TimedAnswers>, GpuError> {
    let Some(parts) = found.into_iter().collect::<Result<Option<Vec<_>>, GpuError>>()? else {
        return Ok(None);
    };
    let mut answers = NeighborLists::default();
    let mut near = Vec::new();
    for query in 0..parts.first().map_or(0, |part| part.answers.len()) {
        near.clear();
        for (gpu, part) in parts.iter().enumerate() {
            let list = part.answers.get(query).unwrap_or_default();
            near.extend(list.iter().map(|&found| renumber(gpu, found)));
        }
        near.sort_unstable();
        near.truncate(k);
        answers.push(Ok(&near));
    }
    let seconds = parts.iter().map(|part| part.seconds).fold(0.0, f64::max);
    Ok(Some(TimedAnswers { answers, seconds }))
}
