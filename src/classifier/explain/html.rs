//! Explanations as an HTML page: no network, no script, light and dark.

use askama::Template;

use super::{Explanation, Named, NamedPart};
use crate::model::Model;

/// The page up to the first explanation.
#[derive(Template)]
#[template(path = "explanations.html")]
struct Head<'a> {
    model: &'a Model,
}

/// One explanation.
#[derive(Template)]
#[template(path = "explanation.html")]
struct Section<'a> {
    named: &'a Named<'a>,
    neighbors: usize,
    /// The greatest part of a mark.
    most: f64,
}

/// The characters of unmarked text that are shown at a time.
const CUT: usize = 4_000;
/// The words of a line.
const WORDS: usize = 8;

impl Section<'_> {
    /// How strong a mark is, from 15 to 90.
    #[expect(clippy::ref_option, reason = "the template passes references")]
    fn share(&self, part: &Option<f64>) -> u32 {
        let share = (part.unwrap_or(0.0) / self.most).clamp(0.0, 1.0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "from 15 to 90"
        )]
        let share = (15.0 + 75.0 * share) as u32;
        share
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the template passes references")]
fn number(value: &f64) -> String {
    format!("{value:.3}")
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the template passes references")]
fn single(value: &f32) -> String {
    format!("{value:.3}")
}

#[expect(clippy::ref_option, reason = "the template passes references")]
fn figure(value: &Option<f64>) -> String {
    value.as_ref().map_or(String::new(), number)
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(CUT)]
}

fn words(parts: &[NamedPart]) -> String {
    let shown = parts.iter().filter(|part| part.part.abs() >= 0.0005).take(WORDS);
    shown.map(|part| format!("{} {:.3}", part.term, part.part)).collect::<Vec<_>>().join(", ")
}

fn first(unknown: &[String]) -> String {
    unknown.iter().take(30).map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// The page up to the first explanation; [`Explanation::html`] and then [`TAIL`] follow.
///
/// # Panics
/// Never: the page is text.
pub fn head(model: &Model) -> String {
    Head { model }.render().expect("numbers and names")
}

/// The end of a page.
pub const TAIL: &str = "</main>\n</body>\n</html>\n";

impl Explanation {
    /// The explanation as a section of an [HTML page](head), with the document's text and at most so many neighbors.
    ///
    /// # Panics
    /// If the explanation is of another model.
    pub fn html(&self, model: &Model, (id, text): (&str, &str), neighbors: usize) -> String {
        let named = self.marked(model, (id, text), WORDS);
        let marked = named.neighbors.iter().take(neighbors).filter_map(|one| one.marked.as_ref());
        let pieces = named.marked.iter().chain(marked).flatten();
        let most = pieces.filter_map(|piece| piece.part).fold(1e-12, f64::max);
        Section { named: &named, neighbors, most }.render().expect("numbers and names")
    }
}
