//! Formats explanations as a self-contained HTML page without scripts, for light and dark displays.

use askama::Template;
use classify::classifier::explain::{Explanation, NamedContribution, NamedExplanation};
use classify::model::Model;

/// The beginning of the page, before the first explanation.
#[derive(Template)]
#[template(path = "explanations.html")]
struct Head<'a> {
    model: &'a Model,
}

/// The section of one explanation.
#[derive(Template)]
#[template(path = "explanation.html")]
struct Section<'a> {
    named: &'a NamedExplanation<'a>,
    /// Maximum number of neighbors that are shown.
    neighbors: usize,
    /// The highest contribution of any marked term.
    max_contribution: f64,
}

/// Maximum number of bytes shown from a text segment without marks.
const MAX_SEGMENT_BYTES: usize = 4_000;
/// Maximum number of terms per line.
const TERMS: usize = 8;
/// Maximum number of unknown terms that are shown.
const UNKNOWN_TERMS: usize = 30;

impl Section<'_> {
    /// Returns the opacity of a mark in percent, from 15 to 90.
    #[expect(clippy::ref_option, reason = "the template passes references")]
    fn opacity(&self, contribution: &Option<f64>) -> u32 {
        let share = (contribution.unwrap_or(0.0) / self.max_contribution).clamp(0.0, 1.0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "from 15 to 90"
        )]
        let opacity = (15.0 + 75.0 * share) as u32;
        opacity
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the template passes references")]
fn format_number(value: &f64) -> String {
    format!("{value:.3}")
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the template passes references")]
fn format_single(value: &f32) -> String {
    format!("{value:.3}")
}

#[expect(clippy::ref_option, reason = "the template passes references")]
fn format_optional(value: &Option<f64>) -> String {
    value.as_ref().map_or(String::new(), format_number)
}

/// Returns the beginning of a text, up to [`MAX_SEGMENT_BYTES`].
fn truncate(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_SEGMENT_BYTES)]
}

/// Lists the terms with the highest contributions.
fn list_contributions(contributions: &[NamedContribution]) -> String {
    let shown = contributions.iter().filter(|one| one.part.abs() >= 0.0005).take(TERMS);
    shown.map(|one| format!("{} {:.3}", one.term, one.part)).collect::<Vec<_>>().join(", ")
}

/// Lists the first unknown terms.
fn list_unknown_terms(unknown: &[String]) -> String {
    unknown.iter().take(UNKNOWN_TERMS).map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// Returns the beginning of the page. Append a [`page_section`] for each explanation, and then
/// [`PAGE_TAIL`].
///
/// # Panics
/// Never panics: rendering to a string cannot fail.
pub fn page_head(model: &Model) -> String {
    Head { model }.render().expect("rendering to a string cannot fail")
}

/// The end of the page.
pub const PAGE_TAIL: &str = "</main>\n</body>\n</html>\n";

/// Formats an explanation as a section of an HTML page, with the text of the document and at most
/// `neighbors` neighbors.
///
/// # Panics
/// Panics if the explanation was made with another model.
pub fn page_section(
    explanation: &Explanation,
    model: &Model,
    id: &str,
    text: &str,
    neighbors: usize,
) -> String {
    let named = explanation.marked(model, id, text, TERMS);
    let marked = named.neighbors.iter().take(neighbors).filter_map(|one| one.marked.as_ref());
    let segments = named.marked.iter().chain(marked).flatten();
    let contributions = segments.filter_map(|segment| segment.part);
    let max_contribution = contributions.fold(1e-12, f64::max);
    let section = Section { named: &named, neighbors, max_contribution };
    section.render().expect("rendering to a string cannot fail")
}
