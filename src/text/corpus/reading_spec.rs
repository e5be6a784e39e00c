//! Reading options that a model stores: field names, table format and encoding.

use serde::{Deserialize, Serialize};

use super::encoding::encoding_for_label;
use super::options::{LabelUse, ReadOptions};
use super::table::TableOptions;

/// Reading options that a model remembers. Later corpora of the model are read in the same way,
/// unless an option says otherwise. Every field is empty if the default was used.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReadingSpec {
    /// Names of the fields that hold the text.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub text_columns: Vec<String>,
    /// Name of the label field, or names of several indicator fields.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub label_columns: Vec<String>,
    /// Name of the field that holds the identifier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id_column: Option<String>,
    /// Name of the field that holds the weight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight_column: Option<String>,
    /// Name of the field that holds the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_column: Option<String>,
    /// The separator of labels in a field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_separator: Option<String>,
    /// How tables are written.
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
    /// Selects the reading options that a model stores.
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

    /// Whether the defaults were used.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Sets the options that are not set.
    pub fn complete(&self, options: &mut ReadOptions) {
        fn or<T: Clone>(option: &mut Option<T>, own: Option<&T>) {
            if option.is_none() {
                *option = own.cloned();
            }
        }
        if options.text_columns.is_empty() {
            options.text_columns.clone_from(&self.text_columns);
        }
        if options.label_columns.is_empty() {
            options.label_columns.clone_from(&self.label_columns);
        }
        or(&mut options.id_column, self.id_column.as_ref());
        if options.labels == LabelUse::Required {
            // Documents to be classified need neither.
            or(&mut options.weight_column, self.weight_column.as_ref());
            or(&mut options.group_column, self.group_column.as_ref());
        }
        or(&mut options.label_separator, self.label_separator.as_ref());
        options.encoding =
            options.encoding.or_else(|| self.encoding.as_deref().and_then(encoding_for_label));
        if options.table == TableOptions::default() {
            options.table = self.table;
        }
    }
}
