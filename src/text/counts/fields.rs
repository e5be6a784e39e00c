//! Fields of a text, which can have different weights.

use serde::{Deserialize, Serialize};

use crate::text::corpus::{Content, ReadOptions};

/// The fields of a text and their boosts. A boost is the factor that multiplies the term counts of
/// a field.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fields {
    /// The text is one field.
    #[default]
    Whole,
    /// The first line is a title with its own boost, and the rest has the boost 1. A text with a
    /// single line has no title.
    FirstLine {
        /// The boost of the first line.
        boost: f32,
    },
    /// The columns of JSONL, CSV and TSV, and their boosts. Text from a source without columns
    /// belongs to the last column.
    Columns(Vec<(String, f32)>),
}

impl Fields {
    /// The maximum boost.
    pub const LIMIT: f32 = 1000.0;

    /// The number of fields.
    #[expect(clippy::len_without_is_empty, reason = "there is always one")]
    pub fn len(&self) -> usize {
        match self {
            Self::Whole => 1,
            Self::FirstLine { .. } => 2,
            Self::Columns(columns) => columns.len(),
        }
    }

    /// The boosts, one per field.
    pub fn boosts(&self) -> Vec<f32> {
        match self {
            Self::Whole => vec![1.0],
            &Self::FirstLine { boost } => vec![boost, 1.0],
            Self::Columns(columns) => columns.iter().map(|&(_, boost)| boost).collect(),
        }
    }

    /// The columns that contain the fields; empty if the text is not in columns.
    pub fn columns(&self) -> Vec<String> {
        match self {
            Self::Columns(columns) => columns.iter().map(|(name, _)| name.clone()).collect(),
            Self::Whole | Self::FirstLine { .. } => Vec::new(),
        }
    }

    /// Sets `options` to read the columns of the fields separately.
    pub fn read_apart(&self, options: &mut ReadOptions) {
        if let Self::Columns(_) = self {
            options.text_columns = self.columns();
            options.fields = true;
        }
    }

    /// Returns whether there is at least one field and every boost is above 0 and at most
    /// [`Fields::LIMIT`].
    pub fn is_valid(&self) -> bool {
        let boosts = self.boosts();
        let is_legal = |boost: &f32| *boost > 0.0 && *boost <= Self::LIMIT;
        !boosts.is_empty() && boosts.iter().all(is_legal)
    }

    /// Splits content into pairs of a field index and its text.
    pub(crate) fn split<'a>(
        &self,
        content: &'a Content,
    ) -> impl Iterator<Item = (u32, &'a str)> + use<'a> {
        let last = u32::try_from(self.len() - 1).expect("fields are few");
        let (first, rest): (Option<&str>, &[String]) = match content {
            Content::Text(text) => (Some(text), &[]),
            Content::Fields(fields) => (None, fields),
            Content::Features(_) => (None, &[]),
        };
        let lines = match (self, first) {
            (Self::FirstLine { .. }, Some(text)) => match text.split_once('\n') {
                Some((title, body)) => [Some((0, title)), Some((1, body))],
                None => [Some((last, text)), None],
            },
            (_, text) => [text.map(|text| (last, text)), None],
        };
        let columns = (0u32..).zip(rest);
        lines
            .into_iter()
            .flatten()
            .chain(columns.map(move |(field, text)| (field.min(last), text.as_str())))
    }
}

/// Calls `entry` with each distinct id and its boosted count, in increasing order of ids. `ids`
/// contains pairs of an id and a field. The boosted count is the sum of boost × occurrences over
/// the fields, in order.
pub(crate) fn tally(ids: &mut [(u32, u32)], boosts: &[f32], mut entry: impl FnMut(u32, f32)) {
    ids.sort_unstable();
    for group in ids.chunk_by(|a, b| a.0 == b.0) {
        let fields = group.chunk_by(|a, b| a.1 == b.1);
        let boosted = fields.map(|group| boosts[group[0].1 as usize] * group.len() as f32);
        entry(group[0].0, boosted.fold(0.0, |sum, count| sum + count));
    }
}
