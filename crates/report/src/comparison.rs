//! Formats tables that compare evaluations.

use std::fmt::Write as _;

use classify::evaluate::{Comparison, Difference};
use classify::printable::printable;
use comfy_table::Table;

use crate::table::{plain, table};

/// The significance level: a difference is significant if its adjusted p-value is lower.
const LEVEL: f64 = 0.05;

/// Formats comparisons of evaluations with a baseline. `names` are the file names: the baseline
/// first, then the others.
pub fn terminal(names: &[String], comparisons: &[Comparison]) -> String {
    let mut text = String::new();
    let baseline = printable(names.first().map_or("", String::as_str));
    for (comparison, name) in comparisons.iter().zip(names.iter().skip(1)) {
        let name = printable(name);
        let _ = writeln!(text, "{name} against {baseline}, {} documents\n", comparison.documents);
        text.push_str(&plain(differences(comparison)));
        text.push('\n');
        let insignificant: Vec<&str> = comparison
            .differences()
            .iter()
            .filter(|(_, difference)| difference.adjusted >= LEVEL)
            .map(|&(metric, _)| metric)
            .collect();
        if !insignificant.is_empty() {
            let _ = writeln!(
                text,
                "Not significant: {}. With this number of documents, a difference of the size \
                 \"detectable\" is found with a power of 80 % (at the 5 % level).\n",
                insignificant.join(", ")
            );
        }
        text.push_str(&plain(tests(comparison)));
        text.push('\n');
    }
    text
}

fn differences(comparison: &Comparison) -> Table {
    let header = [
        "metric",
        "first",
        "other",
        "difference",
        "95 % interval",
        "detectable",
        "p",
        "p adjusted",
    ];
    let mut table = table(&header, 1);
    for (metric, found) in comparison.differences() {
        let Difference { baseline, other, difference, interval: [low, high], .. } = found;
        table.add_row([
            metric.to_owned(),
            format!("{baseline:.4}"),
            format!("{other:.4}"),
            signed(difference),
            format!("[{}, {}]", signed(low), signed(high)),
            found.detectable.map_or_else(|| "-".to_owned(), |size| format!("{size:.4}")),
            p_value(found.p_value),
            p_value(found.adjusted),
        ]);
    }
    table
}

fn tests(comparison: &Comparison) -> Table {
    let mut table = table(&["test", "p", "p adjusted", "based on"], 1);
    for test in &comparison.tests {
        let adjusted = p_value(test.adjusted);
        table.add_row([test.name.into(), p_value(test.p_value), adjusted, test.detail.clone()]);
    }
    table
}

/// Formats a difference with its sign; 0 gets a plus sign.
fn signed(difference: f64) -> String {
    let text = format!("{difference:+.4}");
    if text == "-0.0000" { "+0.0000".to_owned() } else { text }
}

fn p_value(value: f64) -> String {
    if value < 0.0001 { format!("{value:.1e}") } else { format!("{value:.4}") }
}

#[cfg(test)]
mod number_tests {
    use super::{p_value, signed};

    #[test]
    fn zero_has_a_plus() {
        assert_eq!([-0.00001, 0.0, -0.0001].map(signed), ["+0.0000", "+0.0000", "-0.0001"]);
    }

    #[test]
    fn small_p_values_are_in_scientific_notation() {
        assert_eq!([0.04999, 0.0001, 0.00009].map(p_value), ["0.0500", "0.0001", "9.0e-5"]);
    }
}
