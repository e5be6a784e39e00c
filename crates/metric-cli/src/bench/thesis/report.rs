//! Reports the figures of the thesis, and compares its findings with the measurements.

use std::fmt::Write as _;
use std::io::Write as _;

use svg_chart::{Colors, GroupedBars};

use super::flags::Files;
use super::measure::{Bench, Measurement, Traffic};
use crate::failure::Outcome;

/// A figure of the thesis: bars by index and radius for one arrival pattern, with one series per
/// strategy.
struct Figure {
    name: &'static str,
    title: &'static str,
    unit: &'static str,
    traffic: Traffic,
    strategies: &'static [&'static str],
    /// Computes the value of a measurement, given the measurement of the same query on one thread.
    value: fn(&Measurement, &Measurement) -> f64,
}

const ALL: &[&str] = &["Local", "BulkLocal", "BulkCircular", "Hybrid"];
const SWITCHING: &[&str] = &["Local", "BulkCircular", "Hybrid"];
const DATA: &[&str] = &["Local", "Distributed"];
/// The unit of a figure whose values are divided by the largest value.
const NORMALIZED: &str = "fraction of the largest";

const FIGURES: &[Figure] = &[
    Figure {
        name: "3.2",
        title: "Figure 3.2: Bulk-Critical and Bulk-Circular, high traffic",
        unit: "seconds",
        traffic: Traffic::High,
        strategies: &["BulkCircular", "BulkCritical"],
        value: |m, _| m.seconds,
    },
    Figure {
        name: "3.3",
        title: "Figure 3.3: high traffic",
        unit: "seconds",
        traffic: Traffic::High,
        strategies: ALL,
        value: |m, _| m.seconds,
    },
    Figure {
        name: "3.4",
        title: "Figure 3.4: low traffic, time as a fraction of the longest",
        unit: NORMALIZED,
        traffic: Traffic::Low,
        strategies: ALL,
        value: |m, _| m.seconds,
    },
    Figure {
        name: "3.4-latency",
        title: "Low traffic: latency (not in the thesis)",
        unit: "median latency, ms",
        traffic: Traffic::Low,
        strategies: ALL,
        value: |m, _| m.latency_median_ms,
    },
    Figure {
        name: "3.5a",
        title: "Figure 3.5: two, one and one queries per unit of time",
        unit: "throughput, queries/s",
        traffic: Traffic::Low,
        strategies: ALL,
        value: |m, _| m.throughput,
    },
    Figure {
        name: "3.5b",
        title: "Figure 3.5: the same, with the hardest queries for the first thread",
        unit: "throughput, queries/s",
        traffic: Traffic::LowUneven,
        strategies: ALL,
        value: |m, _| m.throughput,
    },
    Figure {
        name: "3.6a",
        title: "Figure 3.6: indexes, Local in high traffic",
        unit: "seconds",
        traffic: Traffic::High,
        strategies: &["Local"],
        value: |m, _| m.seconds,
    },
    Figure {
        name: "3.6b",
        title: "Figure 3.6: indexes, Bulk-Circular in low traffic",
        unit: "median latency, ms",
        traffic: Traffic::Low,
        strategies: &["BulkCircular"],
        value: |m, _| m.latency_median_ms,
    },
    Figure {
        name: "3.7",
        title: "Figure 3.7: speedup over one thread, high traffic",
        unit: "times",
        traffic: Traffic::High,
        strategies: ALL,
        value: |m, sequential| sequential.seconds / m.seconds,
    },
    Figure {
        name: "3.8",
        title: "Figure 3.8: efficiency E in windows of 2 ms, low traffic",
        unit: "efficiency",
        traffic: Traffic::Low,
        strategies: ALL,
        value: |m, _| m.efficiency,
    },
    Figure {
        name: "3.9a",
        title: "Figure 3.9: bursts",
        unit: "throughput, queries/s",
        traffic: Traffic::Bursts,
        strategies: SWITCHING,
        value: |m, _| m.throughput,
    },
    Figure {
        name: "3.9b",
        title: "Figure 3.9: bursts",
        unit: "median latency, ms",
        traffic: Traffic::Bursts,
        strategies: SWITCHING,
        value: |m, _| m.latency_median_ms,
    },
    Figure {
        name: "3.10",
        title: "Figure 3.10: one index, or one per thread",
        unit: "seconds",
        traffic: Traffic::High,
        strategies: DATA,
        value: |m, _| m.seconds,
    },
    Figure {
        name: "3.11",
        title: "Figure 3.11: one index, or one per thread",
        unit: "distances per query",
        traffic: Traffic::High,
        strategies: DATA,
        value: |m, _| m.evaluations_per_query,
    },
];

/// A finding of the thesis: a strategy is at least as good as another in some metric.
struct Finding {
    claim: &'static str,
    preferred: (&'static str, Traffic),
    other: (&'static str, Traffic),
    value: fn(&Measurement) -> f64,
    /// Maximum ratio of the preferred strategy's value to the other's for a confirmed finding.
    max_ratio: f64,
}

const FINDINGS: &[Finding] = &[
    Finding {
        claim: "Bulk-Critical takes more time than Bulk-Circular",
        preferred: ("BulkCircular", Traffic::High),
        other: ("BulkCritical", Traffic::High),
        value: |m| m.seconds,
        max_ratio: 1.0,
    },
    Finding {
        claim: "high traffic: Local takes less time than Bulk-Circular",
        preferred: ("Local", Traffic::High),
        other: ("BulkCircular", Traffic::High),
        value: |m| m.seconds,
        max_ratio: 1.0,
    },
    Finding {
        claim: "high traffic: Bulk-Local is close to Local, within a tenth",
        preferred: ("BulkLocal", Traffic::High),
        other: ("Local", Traffic::High),
        value: |m| m.seconds,
        max_ratio: 1.1,
    },
    Finding {
        claim: "low traffic: Bulk-Circular answers earlier than Local (median latency)",
        preferred: ("BulkCircular", Traffic::Low),
        other: ("Local", Traffic::Low),
        value: |m| m.latency_median_ms,
        max_ratio: 1.0,
    },
    Finding {
        claim: "low traffic, the hardest queries for one thread: Bulk-Circular answers earlier \
                than Local",
        preferred: ("BulkCircular", Traffic::LowUneven),
        other: ("Local", Traffic::LowUneven),
        value: |m| m.latency_median_ms,
        max_ratio: 1.0,
    },
    Finding {
        claim: "low traffic, the hardest queries for one thread: Bulk-Circular takes less time \
                than Local",
        preferred: ("BulkCircular", Traffic::LowUneven),
        other: ("Local", Traffic::LowUneven),
        value: |m| m.seconds,
        max_ratio: 1.0,
    },
    Finding {
        claim: "low traffic: Local spreads the work less evenly than Bulk-Circular (E)",
        preferred: ("Local", Traffic::Low),
        other: ("BulkCircular", Traffic::Low),
        value: |m| m.efficiency,
        max_ratio: 1.0,
    },
    Finding {
        claim: "high traffic: Hybrid takes as little time as Local, within a tenth",
        preferred: ("Hybrid", Traffic::High),
        other: ("Local", Traffic::High),
        value: |m| m.seconds,
        max_ratio: 1.1,
    },
    Finding {
        claim: "bursts: Hybrid takes less time than Bulk-Circular",
        preferred: ("Hybrid", Traffic::Bursts),
        other: ("BulkCircular", Traffic::Bursts),
        value: |m| m.seconds,
        max_ratio: 1.0,
    },
    Finding {
        claim: "bursts: Hybrid takes as little time as Local, within a tenth",
        preferred: ("Hybrid", Traffic::Bursts),
        other: ("Local", Traffic::Bursts),
        value: |m| m.seconds,
        max_ratio: 1.1,
    },
    Finding {
        claim: "bursts: Hybrid answers earlier than Local (median latency)",
        preferred: ("Hybrid", Traffic::Bursts),
        other: ("Local", Traffic::Bursts),
        value: |m| m.latency_median_ms,
        max_ratio: 1.0,
    },
    Finding {
        claim: "one index computes fewer distances than one per thread",
        preferred: ("Local", Traffic::High),
        other: ("Distributed", Traffic::High),
        value: |m| m.evaluations_per_query,
        max_ratio: 1.0,
    },
    Finding {
        claim: "one index takes less time than one per thread",
        preferred: ("Local", Traffic::High),
        other: ("Distributed", Traffic::High),
        value: |m| m.seconds,
        max_ratio: 1.0,
    },
];

/// The name of the figure that compares the indexes.
const INDEX_FIGURE: &str = "4-cpu";

/// Returns the names of all figures.
pub(super) fn figures() -> impl Iterator<Item = &'static str> {
    FIGURES.iter().map(|figure| figure.name).chain([INDEX_FIGURE])
}

/// Whether a measurement used range queries and an index other than brute force.
fn is_indexed_range_query(m: &Measurement) -> bool {
    m.query.starts_with('r') && m.index != "brute force"
}

impl Bench<'_> {
    /// Writes the report, the figures and the measurements.
    pub(super) fn write(&self, mut files: Files) -> Outcome {
        let mut text = String::new();
        let flags = self.flags;
        let _ = writeln!(
            text,
            "{} threads, R = {}, C_max = {}, seed {}, medians of {} runs",
            self.threads, flags.evaluations, flags.waiting, flags.seed, flags.runs
        );
        for summary in &self.spaces {
            let [a, b, c] = summary.radii;
            let _ = writeln!(
                text,
                "{}: {} points and {} queries ({}), metric {}, radii {a}, {b} and {c}",
                summary.name, summary.points, summary.queries, summary.data, summary.metric
            );
            let indexes: Vec<String> = summary
                .indexes
                .iter()
                .map(|index| format!("{} {}", index.name, index.kind))
                .collect();
            let _ = writeln!(text, "  indexes: {}", indexes.join(", "));
        }
        let _ = writeln!(text, "  (the thesis's SSS-Index has sss-index:0.4; see --alpha)\n");
        for space in self.spaces() {
            let mut figures: Vec<(&str, GroupedBars)> = FIGURES
                .iter()
                .map(|figure| (figure.name, self.draw_figure(figure, space)))
                .collect();
            figures.push((INDEX_FIGURE, self.draw_indexes(space)));
            for (name, chart) in figures {
                let _ = writeln!(text, "{space}: {}", format_columns(&chart));
                let name = format!("{name}-{space}.svg");
                if let Some(at) = files.figures.iter().position(|figure| figure.name == name) {
                    let mut out = files.figures.swap_remove(at).out;
                    out.write_all((chart.chart().svg(Colors::Own) + "\n").as_bytes())
                        .map_err(|error| out.error(error))?;
                    out.commit()?;
                }
            }
        }
        text.push_str(
            "Findings of the thesis; with the ratio of the preferred strategy to the other:\n",
        );
        for finding in FINDINGS {
            let _ = writeln!(text, "{}", self.check_finding(finding));
        }
        for space in self.spaces() {
            let _ = writeln!(text, "{}", self.rank_indexes(space));
        }
        if let Some(mut out) = files.standard_output {
            out.write_all(text.as_bytes()).map_err(|error| out.error(error))?;
            out.commit()?;
        }
        if let Some(mut out) = files.json {
            let document = serde_json::json!({
                "schema": "metric-index.bench-thesis/1",
                "threads": self.threads,
                "evaluations": flags.evaluations,
                "waiting": flags.waiting,
                "seed": flags.seed,
                "runs": flags.runs,
                "alpha": flags.alpha,
                "alpha_of_the_thesis": 0.4,
                "spaces": self.spaces.iter().map(|summary| serde_json::json!({
                    "name": summary.name,
                    "data": summary.data,
                    "metric": summary.metric,
                    "points": summary.points,
                    "queries": summary.queries,
                    "radii": summary.radii.map(|radius| radius.to_string()),
                    "indexes": summary.indexes.iter()
                        .map(|index| (index.name.to_owned(), index.kind.to_string().into()))
                        .collect::<serde_json::Map<String, serde_json::Value>>(),
                })).collect::<Vec<_>>(),
                "measurements": self.measured,
            });
            writeln!(out, "{document:#}").map_err(|error| out.error(error))?;
            out.commit()?;
        }
        Ok(())
    }

    fn spaces(&self) -> Vec<&'static str> {
        let mut spaces: Vec<&'static str> = self.measured.iter().map(|m| m.space).collect();
        spaces.dedup();
        spaces
    }

    fn distinct(&self, value: impl Fn(&Measurement) -> Option<String>) -> Vec<String> {
        let mut distinct: Vec<String> = Vec::new();
        for value in self.measured.iter().filter_map(value) {
            if !distinct.contains(&value) {
                distinct.push(value);
            }
        }
        distinct
    }

    /// Returns the measurement of the same index and query with another strategy and arrival
    /// pattern, on all threads.
    fn counterpart(
        &self,
        m: &Measurement,
        strategy: &str,
        traffic: Traffic,
    ) -> Option<&Measurement> {
        let threads = self.threads.get();
        self.measured.iter().find(|o| {
            (o.space, &o.index, &o.query) == (m.space, &m.index, &m.query)
                && (o.strategy.as_str(), o.traffic, o.threads) == (strategy, traffic, threads)
        })
    }

    fn draw_figure(&self, figure: &Figure, space: &str) -> GroupedBars {
        // The measurements on one thread, one for each index and query.
        let is_sequential =
            |m: &&Measurement| m.space == space && m.threads == 1 && is_indexed_range_query(m);
        let mut sequential: Vec<&Measurement> =
            self.measured.iter().filter(is_sequential).collect();
        sequential.dedup_by_key(|m| (&m.index, &m.query));
        let value = |single: &Measurement, strategy: &str| {
            let other = self.counterpart(single, strategy, figure.traffic);
            other.map_or(f64::NAN, |m| (figure.value)(m, single))
        };
        let row = |m: &&Measurement| figure.strategies.iter().map(|s| value(m, s)).collect();
        let mut values: Vec<Vec<f64>> = sequential.iter().map(row).collect();
        if figure.unit == NORMALIZED {
            let largest = values.iter().flatten().copied().fold(f64::NAN, f64::max);
            values.iter_mut().flatten().for_each(|value| *value /= largest);
        }
        GroupedBars {
            title: figure.title.to_owned(),
            unit: figure.unit.to_owned(),
            groups: sequential.iter().map(|m| format!("{} {}", m.index, m.query)).collect(),
            series: figure.strategies.iter().map(|&name| name.to_owned()).collect(),
            values,
        }
    }

    /// Draws the CPU columns of chapter 4: every index and query on all threads, relative to brute
    /// force on one thread.
    fn draw_indexes(&self, space: &str) -> GroupedBars {
        let brute = |m: &&Measurement| m.space == space && m.index == "brute force";
        let brute: Vec<&Measurement> = self.measured.iter().filter(brute).collect();
        let groups = self
            .distinct(|m| (m.space == space && is_indexed_range_query(m)).then(|| m.index.clone()));
        let value = |index: &String, baseline: &Measurement| {
            let like = Measurement { index: index.clone(), ..baseline.clone() };
            let parallel = self.counterpart(&like, "Local", Traffic::High);
            parallel.map_or(f64::NAN, |parallel| baseline.seconds / parallel.seconds)
        };
        GroupedBars {
            title: "Chapter 4, CPU: speedup of all threads over sequential brute force".to_owned(),
            unit: "times".to_owned(),
            values: groups
                .iter()
                .map(|i| brute.iter().map(|baseline| value(i, baseline)).collect())
                .collect(),
            groups,
            series: brute.iter().map(|m| m.query.clone()).collect(),
        }
    }

    /// Formats the number of settings that confirm a finding, and the median ratio.
    fn check_finding(&self, finding: &Finding) -> String {
        let threads = self.threads.get();
        let is_preferred = |m: &&Measurement| {
            is_indexed_range_query(m)
                && (m.strategy.as_str(), m.traffic) == finding.preferred
                && m.threads == threads
        };
        let ratio = |m: &Measurement| {
            let other = self.counterpart(m, finding.other.0, finding.other.1)?;
            Some((finding.value)(m) / (finding.value)(other)).filter(|ratio| ratio.is_finite())
        };
        let mut ratios: Vec<f64> =
            self.measured.iter().filter(is_preferred).filter_map(ratio).collect();
        ratios.sort_by(f64::total_cmp);
        let confirmed = ratios.iter().filter(|&&ratio| ratio <= finding.max_ratio).count();
        let word = if confirmed * 2 > ratios.len() { "so" } else { "DIFFERS" };
        let median = ratios.get(ratios.len() / 2).copied().unwrap_or(f64::NAN);
        let count = ratios.len();
        format!("{word:8} {confirmed:2} of {count}, median {median:6.3}  {}", finding.claim)
    }

    /// Formats the names of the indexes, from the fastest to the slowest.
    fn rank_indexes(&self, space: &str) -> String {
        let indexes = self
            .distinct(|m| (m.space == space && is_indexed_range_query(m)).then(|| m.index.clone()));
        let ranking = |strategy: &str, traffic, value: fn(&Measurement) -> f64| {
            let sum = |index: &String| {
                let is_included = |m: &&Measurement| {
                    m.space == space
                        && m.index == *index
                        && m.threads == 1
                        && is_indexed_range_query(m)
                };
                let included = self.measured.iter().filter(is_included);
                included
                    .filter_map(|m| self.counterpart(m, strategy, traffic))
                    .map(|m| libm::log(value(m)))
                    .sum::<f64>()
            };
            let mut order: Vec<(f64, &String)> = indexes.iter().map(|i| (sum(i), i)).collect();
            order.sort_by(|a, b| a.0.total_cmp(&b.0));
            order.into_iter().map(|(_, index)| index.as_str()).collect::<Vec<_>>().join(", ")
        };
        format!(
            "{space}: fastest index first (mean of the radii): high traffic, Local: {}; \
             low traffic, Bulk-Circular: {} (the thesis: LC does well in both)",
            ranking("Local", Traffic::High, |m| m.seconds),
            ranking("BulkCircular", Traffic::Low, |m| m.latency_median_ms),
        )
    }
}

/// Formats the numbers of a chart in columns.
fn format_columns(bars: &GroupedBars) -> String {
    let mut text = format!("{} ({})\n{:24}", bars.title, bars.unit, "");
    for name in &bars.series {
        let _ = write!(text, "{name:>15}");
    }
    for (name, values) in bars.groups.iter().zip(&bars.values) {
        let _ = write!(text, "\n{name:24}");
        for &value in values {
            let _ = match value {
                value if value.is_nan() => write!(text, "{:>15}", "-"),
                value if value >= 1_000.0 => write!(text, "{value:>15.0}"),
                value => write!(text, "{value:>15.4}"),
            };
        }
    }
    text + "\n"
}
