//! Documents that resemble no other document.

use serde::Serialize;

use super::found_document::FoundDocument;
use crate::learn::HeldOutCorpus;
use crate::search::Neighbor;

/// Documents that resemble no other document.
#[derive(Debug, Clone, Serialize)]
pub struct Outliers {
    /// Documents whose nearest other document is less similar than this are outliers.
    pub below: f32,
    /// The median similarity of a document and its nearest other document.
    pub median: f32,
    /// The outliers, least similar first.
    pub documents: Vec<Outlier>,
}

/// A document that resembles no other document.
#[derive(Debug, Clone, Serialize)]
pub struct Outlier {
    /// The document.
    #[serde(flatten)]
    pub document: FoundDocument,
    /// The similarity of the nearest other document; 0 if the document shares no term with another.
    pub similarity: f32,
}

/// Minimum ratio of the third to the first quartile. Without it, every difference would be far if
/// most documents are copies.
const MIN_RATIO: f32 = 1.1;

impl Outliers {
    /// Finds the documents whose best similarity is far below the usual: three interquartile ranges
    /// below the first quartile, on a logarithmic scale (the far outliers of Tukey 1977).
    pub(super) fn of(corpus: &HeldOutCorpus) -> Self {
        let best = |nearest: &Vec<Neighbor>| nearest.first().map_or(0.0, |best| best.similarity);
        let all: Vec<f32> = corpus.rows.nearest.iter().map(best).collect();
        let mut sorted: Vec<f32> = all.iter().copied().filter(|best| *best > 0.0).collect();
        sorted.sort_by(f32::total_cmp);
        let quantile = |quarter: usize| {
            let index = (sorted.len() * quarter / 4).min(sorted.len().saturating_sub(1));
            sorted.get(index).copied().unwrap_or(0.0)
        };
        let (first, third) = (quantile(1), quantile(3));
        let below =
            if first > 0.0 { first / libm::powf((third / first).max(MIN_RATIO), 3.0) } else { 0.0 };
        let mut rows: Vec<usize> = (0..all.len()).filter(|&row| all[row] <= below).collect();
        rows.sort_by(|&a, &b| all[a].total_cmp(&all[b]).then(a.cmp(&b)));
        let outlier = |row: usize| Outlier {
            document: FoundDocument::new(&corpus.documents[row]),
            similarity: all[row],
        };
        Self { below, median: quantile(2), documents: rows.into_iter().map(outlier).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learn::Trainer;
    use crate::text::corpus::Document;

    /// The best similarity of every document is 1, except for one that resembles no other.
    #[test]
    fn copies_are_no_outliers() {
        let text = |n: usize| format!("apple{} pear{}", n / 2, n / 2);
        let copies = (0..40).map(|n| Document::text(n.to_string(), text(n)).labels(["fruit"]));
        let alone = Document::text("alone", "zebra").labels(["animal"]);
        let documents: Vec<Document> = copies.chain([alone]).collect();
        let held_out = Trainer::builder().build().hold_out(&documents).unwrap();
        let outliers = Outliers::of(&held_out);
        let ids: Vec<&str> = outliers.documents.iter().map(|one| &*one.document.id).collect();
        assert_eq!(ids, ["alone"]);
    }
}
