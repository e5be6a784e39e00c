//! Formats proposals of documents to label next.

use classify::propose::Reason;
use classify::text::corpus::Document;

use crate::table::{one_line, plain, table};

/// The maximum number of characters of a text that are shown.
const EXCERPT: usize = 60;

/// A document to label next.
#[derive(Debug)]
pub struct Proposed<'a> {
    /// The document.
    pub document: &'a Document,
    /// The labels that the model predicts.
    pub suggested: Vec<&'a str>,
    /// How uncertain they are, from 0 to 1.
    pub uncertainty: f64,
    /// Why the document is proposed.
    pub reason: Reason<'a>,
}

/// Words why a document is proposed.
pub fn reason(reason: &Reason<'_>) -> String {
    match reason {
        Reason::Unknown => "no labeled document is similar".into(),
        Reason::Undecided([best, second]) => format!("{best} or {second}"),
        Reason::Perhaps(label) => format!("perhaps {label}"),
        Reason::Typical => "no model yet".into(),
    }
}

/// Formats proposals as a table, in the order in which they help.
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
