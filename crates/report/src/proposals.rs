//! Formats proposals of documents to label next.

use classify::propose::{Gain, Reason};
use classify::text::corpus::Document;

use crate::table::{one_line, plain, table};

/// The maximum number of characters that are shown of a text.
const EXCERPT: usize = 60;

/// A document to label next.
#[derive(Debug)]
pub struct Proposed<'a> {
    /// The document.
    pub document: &'a Document,
    /// The labels that the model predicts.
    pub suggested: Vec<&'a str>,
    /// The uncertainty of these labels, from 0 to 1.
    pub uncertainty: f64,
    /// Why the document is proposed.
    pub reason: Reason<'a>,
}

/// Estimates of how well the model labels the remaining documents.
#[derive(Debug, Clone, Copy)]
pub struct Outlook {
    /// The number of documents that are not in the model.
    pub left: usize,
    /// The expected share of right labels among their predictions, from 0 to 1; `None` if the model
    /// is not calibrated.
    pub expected: Option<f64>,
    /// The share of right labels on held-out documents of the model, and the expected gain from
    /// `more` labeled documents; `None` if the model has too few documents.
    pub held_out: Option<(f64, Gain)>,
    /// The number of additional labeled documents for which the gain is estimated.
    pub more: u64,
}

/// Describes how well the model labels the remaining documents, and the gain to expect from more
/// labeled documents.
pub fn outlook(outlook: &Outlook) -> String {
    let Outlook { left, expected, held_out, more } = outlook;
    if *left == 0 {
        return "Every document is in the model.\n".into();
    }
    let Some((right, gain)) = held_out else {
        return "The model has too few labeled documents to estimate what more would add.\n".into();
    };
    let first = match expected {
        Some(expected) => format!(
            "The model probably labels {} of the other {left} documents right.",
            percent(*expected)
        ),
        None => format!(
            "The model labels {} of its own documents right when they are held out. It is not \
             calibrated, so nothing is known about the other {left}; train it with --tune.",
            percent(*right)
        ),
    };
    let points = |share: f64| 100.0 * share * (1.0 - expected.unwrap_or(*right));
    format!(
        "{first}\n{more} more labeled documents would add about {:.1} points ({:.1} to {:.1}).\n",
        points(gain.share),
        points(gain.interval[0]),
        points(gain.interval[1])
    )
}

/// Formats a share as a percentage.
fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// Describes why a document is proposed.
pub fn reason(reason: &Reason<'_>) -> String {
    match reason {
        Reason::Unknown => "no labeled document is similar".into(),
        Reason::Undecided([best, second]) => format!("{best} or {second}"),
        Reason::Perhaps(label) => format!("perhaps {label}"),
        Reason::Typical => "no model yet".into(),
    }
}

/// Formats proposals as a table, in the given order.
pub fn terminal(proposed: &[Proposed<'_>]) -> String {
    if proposed.is_empty() {
        return "nothing to label: every document is labeled or certain\n".into();
    }
    let mut rows = table(&["document", "suggested", "uncertain", "reason", "text"], usize::MAX);
    for Proposed { document, suggested, uncertainty, reason: why } in proposed {
        let text = document.content.text().unwrap_or_default();
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        rows.add_row([
            one_line(&document.id),
            one_line(&suggested.join(", ")),
            format!("{:.0} %", 100.0 * uncertainty),
            one_line(&reason(why)),
            match line.char_indices().nth(EXCERPT) {
                Some((end, _)) => format!("{}…", one_line(&line[..end])),
                None => one_line(&line),
            },
        ]);
    }
    plain(rows)
}
