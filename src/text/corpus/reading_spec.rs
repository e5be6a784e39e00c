//! Reading options that a model stores: field names, table format and encoding.

use serde::{Deserialize, Serialize};

use super::encoding::encoding_for_label;
use super::options::{LabelUse, ReadOptions};
use super::table::TableOptions;

/// Reading options that a model stores. Later corpora are read with the same options, unless they
/// are overridden. A field is empty if the default was used.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReadingSpec {
    /// The names of the text fields.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub text_columns: Vec<String>,
    /// The name of the label field, or the names of several indicator fields.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub label_columns: Vec<String>,
    /// The name of the identifier field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id_column: Option<String>,
    /// The name of the weight field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight_column: Option<String>,
    /// The name of the group field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_column: Option<String>,
    /// The separator of labels within a field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_separator: Option<String>,
    /// The syntax of tables.
    #[serde(skip_serializing_if = "is_default")]
    pub table: TableOptions,
    /// The name of the text encoding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_default(table: &TableOptions) -> bool {
    *table == TableOptions::default()
}

impl ReadingSpec {
    /// Extracts the reading options that a model stores.
    pub fn of(options: &ReadOptions) -> Self {
        Self {
            // The model stores the names of separate text fields elsewhere.
            text_columns: if options.fields { Vec::new() } else { options.text_columns.clone() },
            label_columns: options.label_columns.clone(),
            id_column: options.id_column.clone(),
            weight_column: options.weight_column.clone(),
            group_column: options.group_column.clone(),
            label_separator: options.label_separator.clone(),
            table: options.table,
            encoding: options.encoding.map(|encoding| encoding.name().to_owned()),
        }
    }

    /// Returns whether all options have their defaults.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Sets options that are not set in `options` to the stored options.
    pub fn complete(&self, options: &mut ReadOptions) {
        fn set_default<T: Clone>(option: &mut Option<T>, stored: Option<&T>) {
            if option.is_none() {
                *option = stored.cloned();
            }
        }
        if options.text_columns.is_empty() {
            options.text_columns.clone_from(&self.text_columns);
        }
        if options.label_columns.is_empty() {
            options.label_columns.clone_from(&self.label_columns);
        }
        set_default(&mut options.id_column, self.id_column.as_ref());
        if options.labels == LabelUse::Required {
            // Predictions need neither weights nor groups.
            set_default(&mut options.weight_column, self.weight_column.as_ref());
            set_default(&mut options.group_column, self.group_column.as_ref());
        }
        set_default(&mut options.label_separator, self.label_separator.as_ref());
        options.encoding =
            options.encoding.or_else(|| self.encoding.as_deref().and_then(encoding_for_label));
        if options.table == TableOptions::default() {
            options.table = self.table;
        }
    }
}
