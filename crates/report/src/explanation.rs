//! Formats explanations of predictions as text for a terminal and as an HTML page.

use std::fmt::Write as _;

use classify::classifier::explain::{
    Explanation, NamedContribution, NamedExplanation, NamedLabel, NamedNeighbor, NamedPrototype,
};
use classify::model::Model;
use classify::printable::printable;

mod html;

pub use html::{PAGE_TAIL, page_head, page_section};

/// Maximum number of terms per line.
const TERMS: usize = 6;
/// Maximum number of labels that are shown although they are not predicted.
const OTHER_LABELS: usize = 2;
/// Maximum number of unknown terms that are shown.
const UNKNOWN_TERMS: usize = 20;

/// Formats the decision, the labels with the terms that support and oppose them, and at most
/// `neighbors` neighbors. The labels are the predicted labels and the next two.
///
/// # Panics
/// Panics if the explanation was made with another model.
pub fn terminal(explanation: &Explanation, model: &Model, id: &str, neighbors: usize) -> String {
    let explanation = explanation.named(model, id, TERMS);
    let mut text = format!("{id}: {}\n", explanation.decided);
    let mut others = 0;
    for label in &explanation.scores {
        others += usize::from(!label.given);
        if label.given || others <= OTHER_LABELS {
            write_label(&mut text, label);
        }
    }
    write_neighbors(&mut text, &explanation, neighbors);
    write_unknown_terms(&mut text, explanation.unknown);
    let mut escaped = String::with_capacity(text.len());
    for line in text.lines() {
        let _ = writeln!(escaped, "{}", printable(line));
    }
    escaped
}

fn write_label(text: &mut String, label: &NamedLabel<'_>) {
    let mark = if label.given { '*' } else { ' ' };
    let _ = write!(text, "{mark} {}  score {:.3}", label.label, label.score);
    if let Some(probability) = label.probability {
        let _ = write!(text, ", probability {probability:.3}");
    }
    if let Some(threshold) = label.threshold {
        let _ = write!(text, ", needs {threshold:.3}");
    }
    text.push('\n');
    for (what, contributions) in [("for", &label.in_favor), ("against", &label.against)] {
        if !contributions.is_empty() {
            let terms: Vec<String> = contributions.iter().map(signed).collect();
            let _ = writeln!(text, "    {what}: {}", terms.join(", "));
        }
    }
    if let Some(NamedPrototype { score, share, vector, in_favor, against, .. }) = &label.prototype {
        let _ = write!(text, "    prototype: {score:.3}, a share of {share} of the score");
        if let Some(vector) = vector {
            let _ = write!(text, ", the vector {vector:+.3}");
        }
        let strongest = in_favor.iter().take(TERMS / 2).chain(against.iter().take(TERMS / 2));
        for term in strongest.map(signed) {
            let _ = write!(text, ", {term}");
        }
        text.push('\n');
    }
}

/// Formats a term with its contribution and the sign of the contribution.
fn signed(contribution: &NamedContribution) -> String {
    format!("{} {:+.3}", contribution.term, contribution.part)
}

fn write_neighbors(text: &mut String, explanation: &NamedExplanation<'_>, shown: usize) {
    let neighbors = &explanation.neighbors;
    if !neighbors.is_empty() {
        let shown = shown.min(neighbors.len());
        let _ = writeln!(text, "neighbors ({shown} of {}):", neighbors.len());
    }
    for NamedNeighbor { id, similarity, vote, by, labels, terms, .. } in
        neighbors.iter().take(shown)
    {
        let by = if *by == "vector" { " (by dense vector)" } else { "" };
        let labels = labels.join(", ");
        let _ = writeln!(text, "  {similarity:.3}{by}  vote {vote:.3}  {id}  {labels}");
        let shared = terms.iter().take(TERMS);
        let shared: Vec<String> =
            shared.map(|shared| format!("{} {:.3}", shared.term, shared.part)).collect();
        if !shared.is_empty() {
            let more = terms.len().saturating_sub(TERMS);
            let more = if more > 0 { format!(", {more} more") } else { String::new() };
            let _ = writeln!(text, "         {}{more}", shared.join(", "));
        }
    }
}

fn write_unknown_terms(text: &mut String, unknown: &[String]) {
    if !unknown.is_empty() {
        let shown: Vec<&str> = unknown.iter().take(UNKNOWN_TERMS).map(String::as_str).collect();
        let more = unknown.len().saturating_sub(UNKNOWN_TERMS);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let _ = writeln!(text, "unknown terms: {}{more}", shown.join(" "));
    }
}
