//! Reads JSONL: one JSON object per line.
//!
//! `{"id": "a", "text": "…", "labels": ["x", "y"], "weight": 2}`; other fields are ignored. Labels
//! are a list, a single string or number, or `null`. Instead of text, a record may have
//! `"features": {"12": 0.5}`. A dense vector is a list of numbers in the field that the options
//! name.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::document::{Content, Document};
use super::encoding::OnBadUtf8;
use super::error::{CorpusError, FieldRole, Problem};
use super::label_cell::{
    LABEL_FIELDS, check_indicators, is_list, label_of_number, labels_of_text, parse_indicator,
};
use super::lines::Lines;
use super::notes::Note;
use super::options::{LabelUse, ReadOptions};
use super::place::Place;
use super::svmlight::sort_features;

pub(super) struct Jsonl {
    lines: Lines,
    fields: JsonFields,
}

impl Jsonl {
    pub(super) fn new(lines: Lines, options: Arc<ReadOptions>) -> Self {
        Self { lines, fields: JsonFields::new(options) }
    }

    fn read(&mut self) -> Result<Option<Document>, CorpusError> {
        loop {
            let Some((place, line)) = self.lines.next_with_place()? else { return Ok(None) };
            if !line.trim().is_empty() {
                return self.fields.document(&line, &place).map(Some);
            }
        }
    }
}

impl Iterator for Jsonl {
    type Item = Result<Document, CorpusError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

/// The fields to read from records, and the attribute of a document that each of them provides.
pub(super) struct JsonFields {
    options: Arc<ReadOptions>,
    /// The texts, then the labels, then the identifier, the weight and the group. If the options
    /// allow the usual fields, these come last.
    fields: Vec<Field>,
    texts: usize,
    labels: usize,
}

/// A field that may provide an attribute of a document.
struct Field {
    /// The names on the path from the record to the value, joined by dots; `None` if no field
    /// provides this attribute.
    path: Option<String>,
    /// Whether this is a default field, which the options do not name.
    is_default: bool,
}

impl Field {
    /// Returns the rest of the path after `key`, if the path begins with `key`.
    fn path_after(&self, key: &str) -> Option<&str> {
        let rest = self.path.as_deref()?.strip_prefix(key)?;
        if rest.is_empty() { Some(rest) } else { rest.strip_prefix('.') }
    }
}

/// The values of the fields that the options name.
pub(super) struct FieldValues {
    /// In the order of [`JsonFields::fields`].
    values: Vec<Option<Value>>,
    features: Option<Value>,
    vector: Option<VectorField>,
}

/// The value of the vector field.
enum VectorField {
    Numbers(Vec<f32>),
    /// Another type, named with an article.
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
                let mut has_other = false;
                while let Some(Element(number)) = list.next_element()? {
                    has_other |= number.is_none();
                    numbers.extend(number);
                }
                let what = "a list that contains other values";
                Ok(if has_other { VectorField::Other(what) } else { VectorField::Numbers(numbers) })
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

/// An element of a vector: a number, or `None` for any other type.
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

/// Returns the field names of a record, for messages.
fn field_names(line: &str) -> Vec<String> {
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

impl JsonFields {
    pub(super) fn new(options: Arc<ReadOptions>) -> Self {
        let field =
            |path: Option<&str>, is_default| Field { path: path.map(str::to_owned), is_default };
        let field_or_default = |path: &Option<String>, default| match path {
            Some(path) => field(Some(path), false),
            None => field(default, true),
        };
        let mut fields: Vec<Field> =
            options.text_columns.iter().map(|path| field(Some(path), false)).collect();
        if fields.is_empty() {
            fields.push(field(Some("text"), false));
        }
        let texts = fields.len();
        match options.label_columns.as_slice() {
            [] => fields.extend(LABEL_FIELDS.map(|path| field(Some(path), true))),
            paths => fields.extend(paths.iter().map(|path| field(Some(path), false))),
        }
        let labels = fields.len() - texts;
        fields.push(field_or_default(&options.id_column, Some("id")));
        fields.push(field_or_default(&options.weight_column, None));
        fields.push(field_or_default(&options.group_column, None));
        if options.usual_fields {
            let usual = ["id", "weight", "text"].into_iter().chain(LABEL_FIELDS);
            fields.extend(usual.map(|path| field(Some(path), true)));
        }
        Self { options, fields, texts, labels }
    }

    /// Reads the document from a JSON object.
    pub(super) fn document(&self, json: &str, place: &Place) -> Result<Document, CorpusError> {
        let record = self.record(json).map_err(|problem| problem.at(place))?;
        let document = self.document_of(record, place);
        document.map_err(|problem| with_names(problem, json).at(place))
    }

    fn record(&self, json: &str) -> Result<FieldValues, Problem> {
        let parse = |json: &str| {
            let mut parser = serde_json::Deserializer::from_str(json);
            let record = self.deserialize(&mut parser)?;
            parser.end().map(|()| record)
        };
        let error = match parse(json) {
            Ok(record) => return Ok(record),
            Err(error) => error,
        };
        match without_lone_surrogates(json) {
            Some(repaired) if self.options.on_bad_utf8 == OnBadUtf8::Replace => {
                parse(&repaired).map_err(Problem::Json)
            }
            Some(_) => Err(Problem::LoneSurrogate),
            None if is_at_nan_or_infinity(&error, json) => Err(Problem::JsonNumber),
            None => Err(Problem::Json(error)),
        }
    }

    /// Returns the indices of the fields whose paths begin with `key`, with the rest of each path.
    /// Skips a default field if an earlier field has been returned.
    fn fields_of_key<'a>(&'a self, key: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
        let mut is_taken = false;
        self.fields.iter().enumerate().filter_map(move |(number, field)| {
            let rest = field.path_after(key).filter(|_| !(field.is_default && is_taken))?;
            is_taken = true;
            Some((number, rest))
        })
    }

    /// Uses the values of the usual fields for the attributes that no other field provides.
    fn use_usual_fields(&self, values: &mut [Option<Value>]) {
        let id = self.texts + self.labels;
        let weight = id + 1;
        let (named, usual) = values.split_at_mut(id + 3);
        let [usual_id, usual_weight, usual_text, usual_labels @ ..] = usual else { return };
        named[id] = named[id].take().or(usual_id.take());
        named[weight] = named[weight].take().or(usual_weight.take());
        let (texts, labels) = named[..id].split_at_mut(self.texts);
        if !self.options.fields && usual_text.is_some() && texts.iter().all(Option::is_none) {
            texts.fill(Some(Value::Null));
            texts[0] = usual_text.take();
        }
        if labels.iter().all(Option::is_none) {
            labels[0] = usual_labels.iter_mut().find_map(Option::take);
        }
    }

    fn document_of(&self, mut record: FieldValues, place: &Place) -> Result<Document, Problem> {
        let options = &*self.options;
        let required = options.labels == LabelUse::Required;
        self.use_usual_fields(&mut record.values);
        let labels = self.labels_of(&mut record, place)?;
        let [id, weight, group] = [0, 1, 2].map(|part| self.texts + self.labels + part);
        let mut take = |field: usize, is_needed: bool, role| match record.values[field].take() {
            None if is_needed && !self.fields[field].is_default => {
                Err(missing_field([self.path(field)], role))
            }
            value => Ok(value.filter(|value| !value.is_null())),
        };
        let id = match take(id, !options.usual_fields, FieldRole::Id)? {
            None => String::new(),
            Some(Value::String(id)) => id,
            Some(Value::Number(id)) => id.to_string(),
            Some(other) => {
                return Err(wrong_type(self.path_or(id, "id"), "a string or a number", &other));
            }
        };
        let weight = match take(weight, !options.usual_fields, FieldRole::Weight)? {
            None => 1.0,
            Some(Value::Number(number)) => narrow(number.as_f64().unwrap_or(f64::NAN)),
            Some(other) => {
                return Err(wrong_type(self.path_or(weight, "weight"), "a number", &other));
            }
        };
        // For predictions, documents need no group.
        let group = match take(group, required, FieldRole::Group)? {
            None => None,
            Some(Value::String(group)) => Some(group),
            Some(Value::Number(group)) => Some(group.to_string()),
            Some(other) => {
                return Err(wrong_type(self.path(group), "a string or a number", &other));
            }
        };
        let vector = match (&options.vector_field, record.vector.take()) {
            (None, _) => None,
            (Some(_), Some(VectorField::Numbers(vector))) => Some(vector),
            (Some(field), Some(VectorField::Other(found))) => {
                let field = field.clone();
                return Err(Problem::WrongType { field, expected: "a list of numbers", found });
            }
            (Some(field), None) => return Err(missing_field([field.as_str()], FieldRole::Vector)),
        };
        let content = self.content_of(&mut record)?;
        Ok(Document { id, content, labels, weight, vector, group, place: place.clone() })
    }

    fn labels_of(&self, record: &mut FieldValues, place: &Place) -> Result<Vec<String>, Problem> {
        let fields = self.texts..self.texts + self.labels;
        if self.options.label_columns.len() > 1 {
            let mut labels = Vec::new();
            for field in fields {
                let value = record.values[field].take().unwrap_or_default();
                let name = self.path(field);
                if is_set(&value, name)? {
                    labels.push(name.to_owned());
                }
            }
            return Ok(labels);
        }
        let is_needed = self.options.labels == LabelUse::Required && self.options.qrels.is_none();
        let Some((field, value)) =
            fields.clone().find_map(|field| Some((field, record.values[field].take()?)))
        else {
            if is_needed {
                return Err(missing_field(fields.map(|field| self.path(field)), FieldRole::Label));
            }
            return Ok(Vec::new());
        };
        let separator = self.options.label_separator.as_deref();
        if let Value::String(text) = &value
            && separator.is_none()
            && is_list(text)
        {
            self.options.note(|| Note::ListsAsLabels { place: place.clone() });
        }
        labels_of_value(value, self.path(field), separator)
    }

    fn content_of(&self, record: &mut FieldValues) -> Result<Content, Problem> {
        let options = &*self.options;
        if options.text_columns.is_empty()
            && record.values[0].is_none()
            && let Some(features) = record.features.take()
        {
            return features_of(features);
        }
        let mut texts = Vec::with_capacity(self.texts);
        for field in 0..self.texts {
            match record.values[field].take() {
                Some(Value::String(text)) => texts.push(text),
                // Equivalent to an empty cell of a table.
                Some(Value::Null) => texts.push(String::new()),
                Some(other) => return Err(wrong_type(self.path(field), "a string", &other)),
                None if options.text_optional => texts.push(String::new()),
                None => return Err(missing_field([self.path(field)], options.text_role())),
            }
        }
        Ok(Content::of_columns(texts, options.fields))
    }

    fn path(&self, field: usize) -> &str {
        self.path_or(field, "")
    }

    /// Returns the path of a field, or `usual` if the field has no path.
    fn path_or<'a>(&'a self, field: usize, usual: &'a str) -> &'a str {
        self.fields[field].path.as_deref().unwrap_or(usual)
    }
}

impl<'de> DeserializeSeed<'de> for &JsonFields {
    type Value = FieldValues;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<FieldValues, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &JsonFields {
    type Value = FieldValues;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<FieldValues, A::Error> {
        let values = vec![None; self.fields.len()];
        let mut record = FieldValues { values, features: None, vector: None };
        while let Some(key) = map.next_key::<Cow<'_, str>>()? {
            let parts = self.fields_of_key(&key).count();
            if self.options.vector_field.as_deref() == Some(&*key) {
                record.vector = Some(map.next_value()?);
            } else if parts > 0 {
                let mut value: Value = map.next_value()?;
                for (part, (field, rest)) in self.fields_of_key(&key).enumerate() {
                    let is_last = part + 1 == parts;
                    let field_value =
                        if is_last { std::mem::take(&mut value) } else { value.clone() };
                    if let Some(found) = at_path(field_value, rest) {
                        record.values[field] = Some(found);
                    }
                }
            } else if key == "features" {
                record.features = Some(map.next_value()?);
            } else {
                if key == "weight" {
                    self.options.note(|| Note::UnusedWeights { field: key.to_string() });
                } else if let Some(field) = self.options.unread_text([&*key].into_iter()) {
                    self.options.note(|| Note::UnusedText { field: field.to_owned() });
                }
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(record)
    }
}

/// Returns the value at a path below `value`. For a list, returns the list of its items' values at
/// this path.
fn at_path(value: Value, path: &str) -> Option<Value> {
    match value {
        value if path.is_empty() => Some(value),
        Value::Object(mut object) => {
            if let Some(value) = object.remove(path) {
                return Some(value);
            }
            let (name, rest) = path.split_once('.')?;
            at_path(object.remove(name)?, rest)
        }
        Value::Array(items) => {
            let values = items.into_iter().filter_map(|item| at_path(item, path));
            Some(Value::Array(values.collect()))
        }
        _ => None,
    }
}

/// Returns whether the value of an indicator field means that the document has the label.
fn is_set(value: &Value, field: &str) -> Result<bool, Problem> {
    let text = match value {
        Value::Null => return Ok(false),
        Value::Bool(is_set) => return Ok(*is_set),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    parse_indicator(&text).ok_or(Problem::NotAnIndicator { field: field.to_owned(), found: text })
}

/// Returns whether parsing failed at `NaN` or `Infinity`, which are not valid JSON.
fn is_at_nan_or_infinity(error: &serde_json::Error, json: &str) -> bool {
    let line = json.lines().nth(error.line().saturating_sub(1)).unwrap_or_default();
    let rest_from = |column: usize| line.get(column..).unwrap_or_default();
    let starts = |rest: &str| rest.starts_with("NaN") || rest.starts_with("Infinity");
    starts(rest_from(error.column().saturating_sub(1))) || starts(rest_from(error.column()))
}

/// Replaces lone surrogates, such as `\ud83d` alone, with U+FFFD. Returns `None` if there are none.
fn without_lone_surrogates(json: &str) -> Option<String> {
    let unit = |position: usize| {
        let digits = json.get(position..position + 6)?.strip_prefix("\\u")?;
        u32::from_str_radix(digits, 16).ok()
    };
    let mut repaired = String::with_capacity(json.len());
    let mut copied = 0;
    let mut position = 0;
    while let Some(backslash) = memchr::memchr(b'\\', &json.as_bytes()[position..]) {
        position += backslash;
        let has_low_surrogate =
            unit(position + 6).is_some_and(|unit| (0xDC00..0xE000).contains(&unit));
        match unit(position) {
            Some(0xD800..0xDC00) if has_low_surrogate => position += 12,
            Some(0xD800..0xE000) => {
                repaired.push_str(&json[copied..position]);
                repaired.push_str("\\ufffd");
                position += 6;
                copied = position;
            }
            _ => position = json.len().min(position + 2),
        }
        while !json.is_char_boundary(position) {
            position += 1;
        }
    }
    repaired.push_str(&json[copied..]);
    (copied > 0).then_some(repaired)
}

/// Adds the field names of the record to the problem of a missing field. Returns other problems
/// unchanged.
fn with_names(mut problem: Problem, json: &str) -> Problem {
    if let Problem::MissingField { found, .. } = &mut problem {
        *found = field_names(json);
    }
    problem
}

/// Returns the problem with a record that has none of `fields`. [`with_names`] adds the field names
/// of the record.
fn missing_field<'a>(fields: impl IntoIterator<Item = &'a str>, role: FieldRole) -> Problem {
    let fields = fields.into_iter().map(str::to_owned).collect();
    Problem::MissingField { fields, found: Vec::new(), role }
}

fn features_of(value: Value) -> Result<Content, Problem> {
    let Value::Object(map) = value else {
        return Err(wrong_type("features", "an object of column: value", &value));
    };
    let mut features = Vec::with_capacity(map.len());
    for (column, value) in map {
        let parsed = column.parse::<u32>().ok().zip(value.as_f64().map(narrow));
        match parsed {
            Some((column, value)) if value.is_finite() => features.push((column, value)),
            _ => return Err(Problem::BadFeature { item: format!("{column}:{value}") }),
        }
    }
    sort_features(features).map(Content::Features)
}

fn labels_of_value(
    value: Value,
    field: &str,
    separator: Option<&str>,
) -> Result<Vec<String>, Problem> {
    let parse_label = |value: Value| match value {
        Value::String(label) => Ok(label),
        Value::Number(label) => Ok(label_of_number(&label)),
        Value::Bool(label) => Ok(label.to_string()),
        other => Err(wrong_type(field, "a label or a list of labels", &other)),
    };
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Array(items) => {
            let labels: Vec<String> =
                items.into_iter().map(parse_label).collect::<Result<_, _>>()?;
            check_indicators(&labels)?;
            Ok(labels)
        }
        Value::String(label) => labels_of_text(&label, separator),
        other => Ok(vec![parse_label(other)?]),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "values are stored as f32; infinities are rejected later"
)]
fn narrow(value: f64) -> f32 {
    value as f32
}

fn wrong_type(field: &str, expected: &'static str, found: &Value) -> Problem {
    let found = match found {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    Problem::WrongType { field: field.to_owned(), expected, found }
}
