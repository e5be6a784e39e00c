//! No index: every query against every point. The oracle of every other index.

use super::{Index, Kind, Probe, Task, check};
use crate::collector::Collector;
use crate::error::Error;
use crate::metric::Metric;
use crate::points::Points;
use crate::stored::{Parts, Reader, StoreProblem, Stored};

mod batch;

/// Points and a metric.
///
/// ```
/// use metric_index::index::{BruteForce, Index};
/// use metric_index::metric::Edit;
/// use metric_index::points::Strings;
///
/// let words: Strings = ["casa", "cosa", "pez"].into_iter().collect();
/// assert_eq!(BruteForce::new(words, Edit)?.nearest("caso", 1)?[0].point, 0);
/// # Ok::<(), metric_index::error::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct BruteForce<S, M> {
    points: S,
    metric: M,
}

impl<S: Points, M: Metric<S::Point>> BruteForce<S, M> {
    /// An index of points.
    ///
    /// # Errors
    /// If a point has no distance of 0 from itself, as a vector with a NaN.
    ///
    /// ```
    /// use metric_index::index::{BruteForce, Index};
    /// use metric_index::metric::Edit;
    /// use metric_index::points::Strings;
    ///
    /// let words: Strings = ["casa", "cosa", "caso", "pez"].into_iter().collect();
    /// assert_eq!(BruteForce::new(words, Edit)?.len(), 4);
    /// # Ok::<(), metric_index::error::Error>(())
    /// ```
    pub fn new(points: S, metric: M) -> Result<Self, Error> {
        check(&points, &metric)?;
        Ok(Self { points, metric })
    }
}

impl<S: Points, M: Metric<S::Point>> Index for BruteForce<S, M> {
    type Points = S;
    type Metric = M;

    fn points(&self) -> &S {
        &self.points
    }

    fn metric(&self) -> &M {
        &self.metric
    }

    /// One, of all points.
    fn nodes(&self) -> usize {
        1
    }

    fn start<C: Collector>(&self, _: &mut Probe<'_, S, M, C>, tasks: &mut Vec<Task>) -> Box<[f32]> {
        tasks.push(Task::new(0, 0.0, 0.0));
        Box::default()
    }

    fn step<C: Collector>(
        &self,
        task: Task,
        _: &[f32],
        probe: &mut Probe<'_, S, M, C>,
        tasks: &mut Vec<Task>,
    ) {
        #[expect(clippy::cast_possible_truncation, reason = "checked when it was built")]
        let count = self.points.len() as u32;
        for point in task.at..count {
            if probe.is_exhausted() {
                tasks.push(Task { at: point, ..task });
                return;
            }
            probe.visit_within(point);
        }
    }
}

impl<S: Points, M: Metric<S::Point>> Stored for BruteForce<S, M> {
    fn name(&self) -> &'static str {
        "brute-force"
    }

    fn kind(&self) -> Option<Kind> {
        Some(Kind::BruteForce)
    }

    fn reads(name: &str) -> bool {
        name == "brute-force"
    }

    fn write<'a>(&'a self, _: &mut Parts<'a>) {}

    fn read(_: &mut Reader, _: &str, points: S, metric: M) -> Result<Self, StoreProblem> {
        Ok(Self { points, metric })
    }
}
