//! Reads Reuters-21578 SGML and its ModApte split.
//!
//! A story is everything between `<REUTERS …>` and `</REUTERS>`. Its labels are the `<D>` elements
//! of `<TOPICS>`; its text is the title and the body, or the whole `<TEXT>` if it has neither. The
//! files are encoded in windows-1252 and are not XML.

use std::sync::Arc;

use super::cutter::RecordEnd;
use super::document::{Content, Document};
use super::error::{CorpusError, Problem};
use super::lines::Lines;
use super::options::{ReadOptions, Split};

const END_TAG: &str = "</REUTERS>";

pub(super) struct Reuters {
    lines: Lines,
    options: Arc<ReadOptions>,
}

impl Reuters {
    pub(super) fn new(lines: Lines, options: Arc<ReadOptions>) -> Self {
        Self { lines, options }
    }

    fn read(&mut self) -> Result<Option<Document>, CorpusError> {
        loop {
            let Some(line) = self.lines.next()? else { return Ok(None) };
            if line.is_empty() || line.starts_with("<!DOCTYPE") {
                continue;
            }
            let mut story = line.into_owned();
            let place = self.lines.place();
            if !story.starts_with("<REUTERS") {
                let found = format!("`{}`", story.chars().take(40).collect::<String>());
                return Err(Problem::Unexpected { found, expected: "`<REUTERS …>`" }.at(&place));
            }
            let mut is_complete = story.contains(END_TAG);
            while !is_complete {
                match self.lines.next_of_record()? {
                    Some(line) => {
                        is_complete = line.contains(END_TAG);
                        story.push('\n');
                        story.push_str(&line);
                    }
                    None => {
                        return Err(Problem::CutShort { missing: "`</REUTERS>`" }.at(&place));
                    }
                }
            }
            let tag = story.split('>').next().unwrap_or_default();
            if !is_in_split(tag, self.options.split) {
                continue;
            }
            let id = attribute(tag, "NEWID").unwrap_or_default().to_owned();
            let labels = labels(&story);
            let content = if self.options.fields {
                Content::Fields(fields(&story, &self.options.text_columns))
            } else {
                Content::Text(text(&story))
            };
            return Ok(Some(Document {
                id,
                content,
                labels,
                weight: 1.0,
                vector: None,
                group: None,
                place,
            }));
        }
    }
}

/// Returns the end of a record after a line that contains the end tag of a story.
pub(super) fn find_story_end(_: &[u8], line: &[u8]) -> Option<RecordEnd> {
    let mut rest = line;
    while let Some(start) = rest.iter().position(|&byte| byte == b'<') {
        rest = &rest[start..];
        if rest.starts_with(END_TAG.as_bytes()) {
            return Some(RecordEnd::AfterSecond);
        }
        rest = &rest[1..];
    }
    None
}

impl Iterator for Reuters {
    type Item = Result<Document, CorpusError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

fn is_in_split(tag: &str, split: Split) -> bool {
    let side = match split {
        Split::All => return true,
        Split::Train => "TRAIN",
        Split::Test => "TEST",
    };
    attribute(tag, "TOPICS") == Some("YES") && attribute(tag, "LEWISSPLIT") == Some(side)
}

fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let start = tag.find(&format!(" {name}=\""))? + name.len() + 3;
    tag[start..].split('"').next()
}

/// Returns the content of the first element `name`, between `<name…>` and `</name>`.
fn element<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let open = text.find(&format!("<{name}"))?;
    let start = open + text[open..].find('>')? + 1;
    let end = start + text[start..].find(&format!("</{name}>"))?;
    Some(&text[start..end])
}

fn labels(story: &str) -> Vec<String> {
    let topics = element(story, "TOPICS").unwrap_or_default();
    topics
        .split("<D>")
        .skip(1)
        .filter_map(|rest| rest.split_once("</D>"))
        .map(|(label, _)| unescape(label))
        .collect()
}

fn text(story: &str) -> String {
    let Some(text) = element(story, "TEXT") else { return String::new() };
    let title = element(text, "TITLE");
    let body = element(text, "BODY");
    match (title, body) {
        (Some(title), Some(body)) => format!("{}\n{}", unescape(title), unescape(body)),
        (_, Some(body)) => unescape(body),
        // In brief and unprocessed stories, the text is outside the other elements.
        _ => unescape(&without_tags(text)),
    }
}

/// Returns the elements of the text with these names, such as `title` and `body`. Missing elements
/// are empty.
fn fields(story: &str, names: &[String]) -> Vec<String> {
    let text = element(story, "TEXT").unwrap_or_default();
    names
        .iter()
        .map(|name| match element(text, &name.to_uppercase()) {
            Some(found) => unescape(found),
            // Brief and unprocessed stories have no elements; their entire text is the body.
            None if name == "body" && element(text, "TITLE").is_none() => {
                unescape(&without_tags(text))
            }
            None => String::new(),
        })
        .collect()
}

fn without_tags(text: &str) -> String {
    let mut parts = text.split('<');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push('\n');
        plain.push_str(part.split_once('>').map_or(part, |(_, after)| after));
    }
    plain
}

/// Replaces the entities that occur in the files: `&lt; &gt; &amp; &quot; &#n;`. Control
/// characters, which the news agency used for layout, become spaces.
fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('&') {
        plain.push_str(&rest[..start]);
        rest = &rest[start..];
        let end = rest.bytes().take(9).position(|byte| byte == b';');
        let entity = end.map(|end| &rest[1..end]);
        let character = entity.and_then(|entity| match entity {
            "lt" => Some('<'),
            "gt" => Some('>'),
            "amp" => Some('&'),
            "quot" => Some('"'),
            _ => entity.strip_prefix('#')?.parse().ok().and_then(char::from_u32),
        });
        if let (Some(character), Some(entity)) = (character, entity) {
            plain.push(character);
            rest = &rest[entity.len() + 2..];
        } else {
            plain.push('&');
            rest = &rest[1..];
        }
    }
    plain.push_str(rest);
    plain.replace(|c: char| c.is_control() && c != '\n' && c != '\t', " ")
}
