//! JSONL: one JSON object a line.
//!
//! `{"id": "a", "text": "…", "labels": ["x", "y"], "weight": 2}`; other fields are skipped.
//! Labels may be a list, one string or number, or `null`; instead of a text there may be
//! `"features": {"12": 0.5}`.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use super::source::Lines;
use super::{Content, CorpusError, Document, LabelUse, Problem, ReadOptions};

/// The fields that hold labels where the user names none, in order of preference.
pub(super) const LABEL_FIELDS: [&str; 4] = ["labels", "label", "category", "class"];

pub(super) struct Jsonl {
    lines: Lines,
    options: Arc<ReadOptions>,
}

impl Jsonl {
    pub(super) fn new(lines: Lines, options: Arc<ReadOptions>) -> Self {
        Self { lines, options }
    }

    fn read(&mut self) -> Result<Option<Document>, CorpusError> {
        loop {
            let Some(line) = self.lines.next()? else { return Ok(None) };
            if line.trim().is_empty() {
                continue;
            }
            let mut json = serde_json::Deserializer::from_str(&line);
            let parsed = Fields { options: &self.options }
                .deserialize(&mut json)
                .and_then(|record| json.end().map(|()| record));
            let place = self.lines.place();
            let record = parsed.map_err(|error| Problem::Json(error).at(&place))?;
            return record.document(&self.options, &place).map(Some);
        }
    }
}

impl Iterator for Jsonl {
    type Item = Result<Document, CorpusError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

/// The fields of a record that the options name.
#[derive(Default)]
struct Record {
    texts: Vec<Option<Value>>,
    features: Option<Value>,
    labels: Option<(usize, String, Value)>,
    id: Option<Value>,
    weight: Option<Value>,
    group: Option<Value>,
    others: Vec<String>,
}

struct Fields<'a> {
    options: &'a ReadOptions,
}

impl Fields<'_> {
    fn text_index(&self, key: &str) -> Option<usize> {
        if self.options.text_columns.is_empty() {
            (key == "text").then_some(0)
        } else {
            self.options.text_columns.iter().position(|column| column == key)
        }
    }

    /// The rank of the field among those that may hold labels: the lowest wins.
    fn label_rank(&self, key: &str) -> Option<usize> {
        match &self.options.label_column {
            Some(column) => (column == key).then_some(0),
            None => LABEL_FIELDS.iter().position(|&field| field == key),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Fields<'_> {
    type Value = Record;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Record, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = Record;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Record, A::Error> {
        let texts = self.options.text_columns.len().max(1);
        let mut record = Record { texts: vec![None; texts], ..Record::default() };
        let id = self.options.id_column.as_deref().unwrap_or("id");
        let weight = self.options.weight_column.as_deref().unwrap_or("weight");
        while let Some(key) = map.next_key::<Cow<'_, str>>()? {
            if let Some(index) = self.text_index(&key) {
                record.texts[index] = Some(map.next_value()?);
            } else if let Some(rank) = self.label_rank(&key) {
                let value = map.next_value()?;
                if record.labels.as_ref().is_none_or(|(best, ..)| rank < *best) {
                    record.labels = Some((rank, key.into_owned(), value));
                }
            } else if key == id {
                record.id = Some(map.next_value()?);
            } else if key == weight {
                record.weight = Some(map.next_value()?);
            } else if self.options.group_column.as_deref() == Some(&*key) {
                record.group = Some(map.next_value()?);
            } else if key == "features" {
                record.features = Some(map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
                record.others.push(key.into_owned());
            }
        }
        Ok(record)
    }
}

impl Record {
    fn document(
        mut self,
        options: &ReadOptions,
        place: &super::Place,
    ) -> Result<Document, CorpusError> {
        let at = |problem: Problem| problem.at(place);
        let labels = match self.labels.take() {
            Some((_, field, value)) => {
                labels(value, &field, options.label_separator.as_deref()).map_err(at)?
            }
            None if options.labels == LabelUse::Required && options.qrels.is_none() => {
                let field = options.label_column.clone().unwrap_or_else(|| "labels".into());
                return Err(self.missing(&field, options).at(place));
            }
            None => Vec::new(),
        };
        let (has_id, has_weight) = (self.id.is_some(), self.weight.is_some());
        let id = match self.id.take() {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(id)) => id,
            Some(Value::Number(id)) => id.to_string(),
            Some(other) => {
                let field = options.id_column.clone().unwrap_or_else(|| "id".into());
                return Err(wrong_type(field, "a string or a number", &other).at(place));
            }
        };
        let weight = match self.weight.take() {
            None | Some(Value::Null) => 1.0,
            Some(Value::Number(number)) => narrow(number.as_f64().unwrap_or(f64::NAN)),
            Some(other) => {
                let field = options.weight_column.clone().unwrap_or_else(|| "weight".into());
                return Err(wrong_type(field, "a number", &other).at(place));
            }
        };
        let has_group = self.group.is_some();
        let group = match self.group.take() {
            None | Some(Value::Null) => None,
            Some(Value::String(group)) => Some(group),
            Some(Value::Number(group)) => Some(group.to_string()),
            Some(other) => {
                let field = options.group_column.clone().unwrap_or_default();
                return Err(wrong_type(field, "a string or a number", &other).at(place));
            }
        };
        // Documents to be classified have no need of a group.
        let group_column =
            options.group_column.clone().filter(|_| options.labels == LabelUse::Required);
        for (column, value) in [
            (&options.id_column, has_id),
            (&options.weight_column, has_weight),
            (&group_column, has_group),
        ] {
            if let (Some(column), false) = (column, value) {
                return Err(self.missing(column, options).at(place));
            }
        }
        let content = self.content(options).map_err(at)?;
        Ok(Document { id, content, labels, weight, group, place: place.clone() })
    }

    fn content(&mut self, options: &ReadOptions) -> Result<Content, Problem> {
        if options.text_columns.is_empty()
            && self.texts[0].is_none()
            && let Some(features) = self.features.take()
        {
            return features_of(features);
        }
        let mut texts = Vec::with_capacity(self.texts.len());
        for index in 0..self.texts.len() {
            let field = options.text_columns.get(index).map_or("text", String::as_str);
            match self.texts[index].take() {
                Some(Value::String(text)) => texts.push(text),
                Some(other) => return Err(wrong_type(field.into(), "a string", &other)),
                None => return Err(self.missing(field, options)),
            }
        }
        Ok(Content::of_columns(texts, options.fields))
    }

    fn missing(&self, field: &str, options: &ReadOptions) -> Problem {
        let mut found = self.others.clone();
        for (index, text) in self.texts.iter().enumerate() {
            if text.is_some() {
                found.push(options.text_columns.get(index).map_or("text", String::as_str).into());
            }
        }
        if let Some((_, name, _)) = &self.labels {
            found.push(name.clone());
        }
        Problem::MissingField { field: field.into(), found }
    }
}

fn features_of(value: Value) -> Result<Content, Problem> {
    let Value::Object(map) = value else {
        return Err(wrong_type("features".into(), "an object of column: value", &value));
    };
    let mut features = Vec::with_capacity(map.len());
    for (column, value) in map {
        let parsed = column.parse::<u32>().ok().zip(value.as_f64().map(narrow));
        match parsed {
            Some((column, value)) if value.is_finite() => features.push((column, value)),
            _ => return Err(Problem::BadFeature { item: format!("{column}:{value}") }),
        }
    }
    super::svmlight::sorted(features).map(Content::Features)
}

fn labels(value: Value, field: &str, separator: Option<&str>) -> Result<Vec<String>, Problem> {
    let one = |value: Value| match value {
        Value::String(label) => Ok(label),
        Value::Number(label) => Ok(label.to_string()),
        Value::Bool(label) => Ok(label.to_string()),
        other => Err(wrong_type(field.into(), "a label or a list of labels", &other)),
    };
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Array(items) => items.into_iter().map(one).collect(),
        Value::String(label) => Ok(split(&label, separator)),
        other => Ok(vec![one(other)?]),
    }
}

/// The labels of one field: all of it, or what stands between the separators, trimmed.
pub(super) fn split(field: &str, separator: Option<&str>) -> Vec<String> {
    let trimmed = field.trim();
    match separator {
        _ if trimmed.is_empty() => Vec::new(),
        None => vec![trimmed.to_owned()],
        Some(separator) => trimmed.split(separator).map(|label| label.trim().to_owned()).collect(),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the width of stored values; infinities are refused later"
)]
fn narrow(value: f64) -> f32 {
    value as f32
}

fn wrong_type(field: String, expected: &'static str, found: &Value) -> Problem {
    let found = match found {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    Problem::WrongType { field, expected, found }
}
