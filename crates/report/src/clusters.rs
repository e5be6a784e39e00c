//! Formats tables of clusters, with the terms and labels that describe each cluster.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use classify::evaluate::cluster::Clusters;
use classify::model::Model;
use classify::printable::printable;

/// Maximum number of labels that are shown for each cluster.
const LABELS: usize = 3;

/// Returns one line per cluster: its number of documents, its `terms` most characteristic terms,
/// and its most frequent labels. `model` contains the clustered documents.
pub fn terminal(model: &Model, clusters: &Clusters, terms: usize) -> String {
    let mut text = String::from("cluster  documents  terms\n");
    let best_terms = clusters.best_terms(terms);
    let rows = clusters.sizes().into_iter().zip(label_counts(model, clusters)).zip(best_terms);
    for (cluster, ((size, labels), terms)) in rows.enumerate() {
        let terms: Vec<&str> =
            terms.iter().filter_map(|&term| model.vocabulary().term(term)).collect();
        let labels = frequent_labels(model, labels);
        let line = format!("{cluster:>7}  {size:>9}  {}{labels}", terms.join(" "));
        let _ = writeln!(text, "{}", printable(line));
    }
    let unclustered = clusters.cluster_of_row.iter().filter(|cluster| cluster.is_none()).count();
    if unclustered > 0 {
        let _ = writeln!(
            text,
            "   none  {unclustered:>9}  documents that share no term with any \
                                center"
        );
    }
    text
}

/// Counts the documents of each cluster by label.
fn label_counts(model: &Model, clusters: &Clusters) -> Vec<BTreeMap<u32, usize>> {
    let mut counts: Vec<BTreeMap<u32, usize>> = vec![BTreeMap::new(); clusters.centers.rows()];
    for (row, cluster) in (0..).zip(&clusters.cluster_of_row) {
        if let Some(cluster) = cluster {
            for &label in model.document_labels(row) {
                *counts[*cluster as usize].entry(label).or_default() += 1;
            }
        }
    }
    counts
}

/// Lists the most frequent labels with their counts, in brackets. Returns an empty string if there
/// are no labels.
fn frequent_labels(model: &Model, counts: BTreeMap<u32, usize>) -> String {
    let mut labels: Vec<(u32, usize)> = counts.into_iter().collect();
    labels.sort_by_key(|&(label, count)| (Reverse(count), label));
    let name = |label: u32| model.label_name(label);
    let shown: Vec<String> = labels
        .iter()
        .take(LABELS)
        .map(|&(label, count)| format!("{} {count}", name(label)))
        .collect();
    if shown.is_empty() { String::new() } else { format!("  [{}]", shown.join(", ")) }
}
