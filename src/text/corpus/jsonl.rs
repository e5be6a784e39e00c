//! JSONL: one JSON object per line.
//!
//! `{"id": "a", "text": "…", "labels": ["x", "y"], "weight": 2}`; other fields are ignored. Labels
//! are a list, one string or number, or `null`. Instead of a text a record may have `"features":
//! {"12": 0.5}`. A dense vector is a list of numbers in the field that the options name.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::document::{Content, Document};
use super::error::{CorpusError, FieldRole, Problem};
use super::lines::Lines;
use super::options::{LabelUse, ReadOptions};
use super::place::Place;
use super::svmlight::sorted;

/// The fields that may hold labels if the user names none, in order of preference.
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
            let Some((place, line)) = self.lines.next_placed()? else { return Ok(None) };
            if line.trim().is_empty() {
                continue;
            }
            let mut json = serde_json::Deserializer::from_str(&line);
            let parsed = Fields { options: &self.options }
                .deserialize(&mut json)
                .and_then(|record| json.end().map(|()| record));
            let record = parsed.map_err(|error| Problem::Json(error).at(&place))?;
            return record.document(&self.options, &place).map(Some).map_err(|mut error| {
                if let Problem::MissingField { found, .. } = &mut error.problem {
                    *found = names(&line);
                }
                error
            });
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
    vector: Option<VectorField>,
    labels: Option<(usize, String, Value)>,
    id: Option<Value>,
    weight: Option<Value>,
    group: Option<Value>,
}

/// What the field of the vector holds.
enum VectorField {
    Numbers(Vec<f32>),
    /// Something else, with its article.
    Other(&'static str),
}

impl<'de> Deserialize<'de> for VectorField {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = VectorField;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of numbers")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<VectorField, A::Error> {
                let mut numbers = Vec::new();
                let mut other = false;
                while let Some(Element(number)) = list.next_element()? {
                    other |= number.is_none();
                    numbers.extend(number);
                }
                let what = "a list with something else in it";
                Ok(if other { VectorField::Other(what) } else { VectorField::Numbers(numbers) })
            }

            fn visit_unit<E>(self) -> Result<VectorField, E> {
                Ok(VectorField::Other("null"))
            }

            fn visit_bool<E>(self, _: bool) -> Result<VectorField, E> {
                Ok(VectorField::Other("a boolean"))
            }

            fn visit_str<E>(self, _: &str) -> Result<VectorField, E> {
                Ok(VectorField::Other("a string"))
            }

            fn visit_u64<E>(self, _: u64) -> Result<VectorField, E> {
                Ok(VectorField::Other("a number"))
            }

            fn visit_i64<E>(self, _: i64) -> Result<VectorField, E> {
                Ok(VectorField::Other("a number"))
            }

            fn visit_f64<E>(self, _: f64) -> Result<VectorField, E> {
                Ok(VectorField::Other("a number"))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<VectorField, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(VectorField::Other("an object"))
            }
        }
        deserializer.deserialize_any(List)
    }
}

/// An element of a vector: a number, or something else.
struct Element(Option<f32>);

impl<'de> Deserialize<'de> for Element {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Number;
        impl<'de> Visitor<'de> for Number {
            type Value = Element;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number")
            }

            fn visit_f64<E>(self, number: f64) -> Result<Element, E> {
                Ok(Element(Some(narrow(number))))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Element, E> {
                Ok(Element(Some(number as f32)))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Element, E> {
                Ok(Element(Some(number as f32)))
            }

            fn visit_unit<E>(self) -> Result<Element, E> {
                Ok(Element(None))
            }

            fn visit_bool<E>(self, _: bool) -> Result<Element, E> {
                Ok(Element(None))
            }

            fn visit_str<E>(self, _: &str) -> Result<Element, E> {
                Ok(Element(None))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Element, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Element(None))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Element, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Element(None))
            }
        }
        deserializer.deserialize_any(Number)
    }
}

/// What a field of a record is used for.
struct Parts {
    /// The rank of the field among those that may hold labels.
    label: Option<usize>,
    id: bool,
    weight: bool,
    group: bool,
    /// How many parts the field has, those of the text among them.
    count: usize,
}

/// The names of the fields of a record, for messages.
fn names(line: &str) -> Vec<String> {
    struct Names;
    impl<'de> Visitor<'de> for Names {
        type Value = Vec<String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a JSON object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<String>, A::Error> {
            let mut names = Vec::new();
            while let Some((name, IgnoredAny)) = map.next_entry()? {
                names.push(name);
            }
            Ok(names)
        }
    }
    let names = serde_json::Deserializer::from_str(line).deserialize_map(Names);
    names.unwrap_or_default()
}

struct Fields<'a> {
    options: &'a ReadOptions,
}

impl Fields<'_> {
    /// Whether the field is text number `index`.
    fn is_text(&self, index: usize, key: &str) -> bool {
        self.options.text_columns.get(index).map_or("text", String::as_str) == key
    }

    /// What the field is used for. It has every part that the options name it for; a part that they
    /// leave to a default name is its own only if it has no other.
    fn parts(&self, key: &str) -> Parts {
        let options = self.options;
        let texts = options.text_columns.len().max(1);
        let mut count = (0..texts).filter(|&index| self.is_text(index, key)).count();
        let label = self.label_rank(key).filter(|_| count == 0 || options.label_column.is_some());
        count += usize::from(label.is_some());
        let mut has = |column: &Option<String>, default: &str| {
            let has = match column {
                Some(column) => column == key,
                None => count == 0 && key == default,
            };
            count += usize::from(has);
            has
        };
        let id = has(&options.id_column, "id");
        let weight = has(&options.weight_column, "weight");
        let group = options.group_column.is_some() && has(&options.group_column, "");
        Parts { label, id, weight, group, count }
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
        while let Some(key) = map.next_key::<Cow<'_, str>>()? {
            let parts = self.parts(&key);
            if self.options.vector_field.as_deref() == Some(&*key) {
                record.vector = Some(map.next_value()?);
                continue;
            }
            if parts.count == 0 && key == "features" {
                record.features = Some(map.next_value()?);
                continue;
            } else if parts.count == 0 {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let mut value: Value = map.next_value()?;
            let mut left: usize = parts.count;
            // The last part takes the value itself.
            let mut next = || {
                left -= 1;
                if left == 0 { std::mem::take(&mut value) } else { value.clone() }
            };
            for index in (0..texts).filter(|&index| self.is_text(index, &key)) {
                record.texts[index] = Some(next());
            }
            if let Some(rank) = parts.label {
                let value = next();
                if record.labels.as_ref().is_none_or(|(best, ..)| rank < *best) {
                    record.labels = Some((rank, key.into_owned(), value));
                }
            }
            if parts.id {
                record.id = Some(next());
            }
            if parts.weight {
                record.weight = Some(next());
            }
            if parts.group {
                record.group = Some(next());
            }
        }
        Ok(record)
    }
}

impl Record {
    fn document(mut self, options: &ReadOptions, place: &Place) -> Result<Document, CorpusError> {
        let at = |problem: Problem| problem.at(place);
        let labels = match self.labels.take() {
            Some((_, field, value)) => {
                labels(value, &field, options.label_separator.as_deref()).map_err(at)?
            }
            None if options.labels == LabelUse::Required && options.qrels.is_none() => {
                let field = options.label_column.clone().unwrap_or_else(|| "labels".into());
                return Err(missing(&field, FieldRole::Label).at(place));
            }
            None => Vec::new(),
        };
        let has_id = self.id.is_some();
        let has_weight = self.weight.is_some();
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
        // Documents to be classified need no group.
        let group_column =
            options.group_column.clone().filter(|_| options.labels == LabelUse::Required);
        for (column, value, role) in [
            (&options.id_column, has_id, FieldRole::Id),
            (&options.weight_column, has_weight, FieldRole::Weight),
            (&group_column, has_group, FieldRole::Group),
        ] {
            if let (Some(column), false) = (column, value) {
                return Err(missing(column, role).at(place));
            }
        }
        let vector = match (&options.vector_field, self.vector.take()) {
            (None, _) => None,
            (Some(_), Some(VectorField::Numbers(vector))) => Some(vector),
            (Some(field), Some(VectorField::Other(found))) => {
                let field = field.clone();
                let expected = "a list of numbers";
                return Err(Problem::WrongType { field, expected, found }.at(place));
            }
            (Some(field), None) => return Err(missing(field, FieldRole::Vector).at(place)),
        };
        let content = self.content(options).map_err(at)?;
        Ok(Document { id, content, labels, weight, vector, group, place: place.clone() })
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
                None if options.text_optional => texts.push(String::new()),
                None => return Err(missing(field, options.text_role())),
            }
        }
        Ok(Content::of_columns(texts, options.fields))
    }
}

/// The error of a missing field; the caller fills in which fields there are.
fn missing(field: &str, role: FieldRole) -> Problem {
    Problem::MissingField { field: field.to_owned(), found: Vec::new(), role }
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
    sorted(features).map(Content::Features)
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

/// The labels in one field, trimmed: the whole field, or its parts between separators.
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
