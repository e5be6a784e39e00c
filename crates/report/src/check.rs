//! Formats the findings of a corpus check.

mod html;

use std::fmt::Write as _;

use classify::check::{
    Check, Drift, DuplicateCluster, FoundDocument, RightLabels, ShareChange, SuspiciousLabel,
};
use classify::learn::ErrorRate;

pub use html::html;

use crate::table::{one_line, plain, table};

/// The maximum number of entries that a section of the summary shows.
const SHOWN: usize = 5;
/// The maximum number of characters that are shown of a text.
const EXCERPT: usize = 60;

/// Minimum probability of a label error that counts as probable. Less probable errors may be
/// listed.
const PROBABLE: f64 = 0.5;

/// A kind of finding.
struct Finding {
    /// The number of documents, labels or groups that it affects.
    affected: u64,
    /// A summary in one line.
    summary: String,
}

/// Summarizes a check on one screen: the most important findings, then examples of each kind.
pub fn terminal(check: &Check) -> String {
    let mut text = format!(
        "checked {}, {}{}\n",
        count(check.documents, "document", "documents"),
        count(check.labels, "label", "labels"),
        if check.multi_label { ", several per document" } else { "" }
    );
    let findings = findings(check);
    text.push('\n');
    if findings.is_empty() {
        text.push_str("nothing found\n");
    }
    for (number, finding) in (1..).zip(findings.iter().take(SHOWN)) {
        let _ = writeln!(text, "{number}. {}", finding.summary);
    }
    push_leaks(&mut text, check);
    push_drift(&mut text, check);
    push_suspicious(&mut text, check);
    push_duplicates(&mut text, check);
    push_outliers(&mut text, check);
    push_languages(&mut text, check);
    push_label_set(&mut text, check);
    text
}

/// Returns the kinds of findings, most important first.
///
/// Leaks invalidate every metric, and drift invalidates every estimate. Duplicates with different
/// labels are certain errors. The other kinds are sorted by the number of affected items.
fn findings(check: &Check) -> Vec<Finding> {
    let mut first = Vec::new();
    if let Some(leaks) = check.leaks.as_ref().filter(|leaks| !leaks.leaks.is_empty()) {
        let without = leaks.micro_f1_without.map_or(String::new(), |without| {
            format!("; micro F1 is {:.4} with them and {without:.4} without", leaks.micro_f1)
        });
        let affected = leaks.leaks.len() as u64;
        let summary = format!(
            "{affected} of {} {} also in the training corpus{without}",
            leaks.documents,
            if affected == 1 { "test documents is" } else { "test documents are" }
        );
        first.push(Finding { affected, summary });
    }
    if let Some(drift) = check.drift.as_ref().filter(|drift| drift.test.finds_a_difference()) {
        let summary = format!(
            "the other documents differ from the corpus{}",
            right_labels(&drift.right_labels)
        );
        first.push(Finding { affected: drift.documents, summary });
    }
    let clusters = &check.duplicates.clusters;
    let conflicting = clusters.iter().filter(|cluster| cluster.conflicting).count() as u64;
    if conflicting > 0 {
        let singular = "group of duplicates has documents with different labels";
        let plural = "groups of duplicates have documents with different labels";
        let summary = count(conflicting, singular, plural);
        first.push(Finding { affected: conflicting, summary });
    }
    let mut rest = Vec::new();
    let mut push = |affected: u64, summary: String| {
        if affected > 0 {
            rest.push(Finding { affected, summary });
        }
    };
    let suspicious = check.label_errors.suspicious.iter();
    let (wrong, missing): (Vec<_>, Vec<_>) = suspicious
        .filter(|label| label.probability >= PROBABLE)
        .partition(|label| label.given.is_some());
    let wrong = wrong.len() as u64;
    let missing = missing.len() as u64;
    push(
        wrong,
        format!(
            "{} probably wrong ({})",
            count(wrong, "label is", "labels are"),
            rate(&check.label_errors.wrong)
        ),
    );
    if let Some(estimate) = &check.label_errors.missing {
        push(
            missing,
            format!(
                "{} probably missing ({})",
                count(missing, "label is", "labels are"),
                rate(estimate)
            ),
        );
    }
    let superfluous = check.duplicates.superfluous;
    push(
        superfluous,
        count(superfluous, "document duplicates another", "documents duplicate others"),
    );
    let outliers = check.outliers.documents.len() as u64;
    push(
        outliers,
        count(
            outliers,
            "document resembles no other document",
            "documents resemble no other document",
        ),
    );
    let languages = check.languages.documents.len() as u64;
    push(
        languages,
        count(languages, "document is", "documents are") + " in another language or script",
    );
    let confused = check.label_set.confused.iter().map(|pair| pair.confused).sum();
    let pairs = check.label_set.confused.len() as u64;
    let summary = count(pairs, "pair of labels is", "pairs of labels are") + " hard to tell apart";
    push(confused, summary);
    let rare = check.label_set.rare.len() as u64;
    push(rare, count(rare, "label has", "labels have") + " fewer than five documents");
    let together = check.label_set.always_together.len() as u64;
    push(
        together,
        count(
            together,
            "group of labels only occurs together",
            "groups of labels only occur together",
        ),
    );
    rest.sort_by_key(|finding| std::cmp::Reverse(finding.affected));
    first.into_iter().chain(rest).collect()
}

/// Formats a number, followed by the singular or plural form of a phrase.
fn count(number: u64, singular: &str, plural: &str) -> String {
    format!("{number} {}", if number == 1 { singular } else { plural })
}

/// Formats an estimate with its interval.
fn rate(rate: &ErrorRate) -> String {
    let [low, high] = rate.interval;
    format!("estimated {:.0} [{low:.0}, {high:.0}] of {}", rate.errors, rate.checked)
}

/// Returns the beginning of a text on one line.
fn excerpt(document: &FoundDocument) -> String {
    let line: String = document.text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(EXCERPT) {
        Some((end, _)) => format!("{}…", one_line(&line[..end])),
        None => one_line(&line),
    }
}

fn labels(document: &FoundDocument) -> String {
    if document.labels.is_empty() { "(none)".into() } else { one_line(&document.labels.join(", ")) }
}

/// Starts a section whose title states how many of its entries are shown.
fn push_title(text: &mut String, title: &str, entries: usize) {
    let _ = match entries {
        0..=SHOWN => writeln!(text, "\n{title}"),
        _ => writeln!(text, "\n{title} ({SHOWN} of {entries})"),
    };
}

fn push_suspicious(text: &mut String, check: &Check) {
    let suspicious = &check.label_errors.suspicious;
    if suspicious.is_empty() {
        return;
    }
    push_title(text, "suspicious labels", suspicious.len());
    let mut rows = table(&["probability", "document", "label", "suggested", "text"], usize::MAX);
    for SuspiciousLabel { document, given, suggested, probability, .. } in
        suspicious.iter().take(SHOWN)
    {
        let name = |label: &Option<String>, none: &str| match label {
            Some(label) => one_line(label),
            None => none.to_owned(),
        };
        rows.add_row([
            format!("{:.0} %", 100.0 * probability),
            one_line(&document.id),
            name(given, "(missing)"),
            name(suggested, "(without it)"),
            excerpt(document),
        ]);
    }
    text.push_str(&plain(rows));
}

fn push_duplicates(text: &mut String, check: &Check) {
    let clusters = &check.duplicates.clusters;
    if clusters.is_empty() {
        return;
    }
    push_title(text, "groups of duplicates", clusters.len());
    let mut rows = table(&["documents", "", "labels", "text"], usize::MAX);
    for DuplicateCluster { documents, identical, conflicting } in clusters.iter().take(SHOWN) {
        let ids: Vec<&str> = documents.iter().take(3).map(|document| &*document.id).collect();
        let more =
            if documents.len() > 3 { format!(" +{}", documents.len() - 3) } else { String::new() };
        let mut label_sets: Vec<String> = documents.iter().map(labels).collect();
        label_sets.sort();
        label_sets.dedup();
        label_sets.truncate(3);
        rows.add_row([
            format!("{}{more}", one_line(&ids.join(" "))),
            if *identical { "identical" } else { "similar" }.to_owned(),
            label_sets.join(if *conflicting { " ≠ " } else { " " }),
            excerpt(&documents[0]),
        ]);
    }
    text.push_str(&plain(rows));
}

fn push_leaks(text: &mut String, check: &Check) {
    let Some(leaks) = check.leaks.as_ref().filter(|leaks| !leaks.leaks.is_empty()) else { return };
    push_title(text, "test documents that are also training documents", leaks.leaks.len());
    let mut rows = table(&["test", "training", "similarity", "text"], usize::MAX);
    for leak in leaks.leaks.iter().take(SHOWN) {
        rows.add_row([
            one_line(&leak.test.id),
            one_line(&leak.training_id),
            format!("{:.2}", leak.similarity),
            excerpt(&leak.test),
        ]);
    }
    text.push_str(&plain(rows));
}

/// Describes the share of right labels among the labels predicted for the other documents.
fn right_labels(labels: &RightLabels) -> String {
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    let RightLabels { before, expected, found } = labels;
    let before = before.map_or(String::new(), |before| {
        format!("; expected on documents like the corpus: {}", percent(before))
    });
    match (found, expected) {
        (Some(found), _) => {
            format!(" ({} of the predicted labels are right{before})", percent(*found))
        }
        (None, Some(expected)) => {
            format!(
                " ({} of the predicted labels are expected to be right{before})",
                percent(*expected)
            )
        }
        (None, None) => String::new(),
    }
}

/// Returns the rows of a table of differences: a description, the value in the corpus, and the
/// value in the other documents. The table has at most `limit` labels and `limit` terms.
fn drift_rows(drift: &Drift, limit: usize) -> Vec<[String; 3]> {
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let [corpus, other] = drift.unknown_terms.map(percent);
    let unknown = ["terms that no other document of the corpus has".into(), corpus, other];
    let [corpus, other] = drift.similarity.map(|similarity| format!("{similarity:.2}"));
    let mut rows = vec![unknown, ["median similarity to the corpus".into(), corpus, other]];
    let RightLabels { before, expected, found } = drift.right_labels;
    let share = |share: Option<f64>| share.map_or("–".into(), percent);
    if expected.is_some() {
        let description = "predicted labels expected to be right".into();
        rows.push([description, share(before), share(expected)]);
    }
    if found.is_some() {
        rows.push(["predicted labels found to be right".into(), "–".into(), share(found)]);
    }
    for (kind, changes) in [("label", &drift.labels), ("term", &drift.terms)] {
        for ShareChange { name, shares, .. } in changes.iter().take(limit) {
            let [corpus, other] = shares.map(percent);
            rows.push([format!("documents with the {kind} {name}"), corpus, other]);
        }
    }
    rows
}

fn push_drift(text: &mut String, check: &Check) {
    let Some(drift) = &check.drift else { return };
    let two_sample = &drift.test;
    let verdict =
        if two_sample.finds_a_difference() { "differ" } else { "do not differ significantly" };
    let _ = writeln!(
        text,
        "\nthe other documents ({}) {verdict} (AUROC {:.3}, p = {:.3})",
        drift.documents, two_sample.auroc, two_sample.p_value
    );
    let mut rows = table(&["", "corpus", "other"], usize::MAX);
    for row in drift_rows(drift, SHOWN) {
        rows.add_row(row.map(|cell| one_line(&cell)));
    }
    text.push_str(&plain(rows));
    if !drift.most_different.is_empty() {
        push_title(text, "most different documents", drift.most_different.len());
        let mut rows = table(&["document", "text"], usize::MAX);
        for document in drift.most_different.iter().take(SHOWN) {
            rows.add_row([one_line(&document.id), excerpt(document)]);
        }
        text.push_str(&plain(rows));
    }
}

fn push_outliers(text: &mut String, check: &Check) {
    let outliers = &check.outliers.documents;
    if outliers.is_empty() {
        return;
    }
    push_title(text, "documents that resemble no other document", outliers.len());
    let mut rows = table(&["similarity", "document", "label", "text"], usize::MAX);
    for outlier in outliers.iter().take(SHOWN) {
        rows.add_row([
            format!("{:.2}", outlier.similarity),
            one_line(&outlier.document.id),
            labels(&outlier.document),
            excerpt(&outlier.document),
        ]);
    }
    text.push_str(&plain(rows));
}

fn push_languages(text: &mut String, check: &Check) {
    let others = &check.languages.documents;
    if others.is_empty() {
        return;
    }
    let usual = check.languages.usual.as_ref();
    let title = usual.map_or("documents in another script".to_owned(), |usual| {
        format!("documents in another language than {usual}")
    });
    push_title(text, &title, others.len());
    let mut rows = table(&["language", "document", "label", "text"], usize::MAX);
    for other in others.iter().take(SHOWN) {
        rows.add_row([
            other.language.clone(),
            one_line(&other.document.id),
            labels(&other.document),
            excerpt(&other.document),
        ]);
    }
    text.push_str(&plain(rows));
}

fn push_label_set(text: &mut String, check: &Check) {
    let set = &check.label_set;
    if !set.confused.is_empty() {
        push_title(text, "labels that are hard to tell apart", set.confused.len());
        let mut rows = table(&["confused", "share", "labels"], usize::MAX);
        for pair in set.confused.iter().take(SHOWN) {
            let [a, b] = &pair.labels;
            rows.add_row([
                pair.confused.to_string(),
                format!("{:.0} %", 100.0 * pair.share),
                format!("{} and {}", one_line(a), one_line(b)),
            ]);
        }
        text.push_str(&plain(rows));
    }
    if !set.rare.is_empty() {
        push_title(text, "labels with fewer than five documents", set.rare.len());
        for count in set.rare.iter().take(SHOWN) {
            let _ = writeln!(text, "{:>2}  {}", count.documents, one_line(&count.label));
        }
    }
    if !set.always_together.is_empty() {
        push_title(text, "labels that only occur together", set.always_together.len());
        for pair in set.always_together.iter().take(SHOWN) {
            let _ =
                writeln!(text, "{:>4}  {}", pair.documents, one_line(&pair.labels.join(" and ")));
        }
    }
}
