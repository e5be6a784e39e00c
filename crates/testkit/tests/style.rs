//! Tests that the number of style violations does not increase.
//!
//! `style-debt.txt` limits the number of violations of each rule in each folder. The test fails if
//! there are more, and suggests lowering limits that are too high.
//!
//! To update the file, run `UPDATE_STYLE_DEBT=1 cargo test -p testkit --test style`. To list the
//! violations, run `cargo run -p testkit --example style`.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../style/mod.rs"]
mod style;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use style::{Rule, Source, Violation};

/// Number of violations of [`Rule::TupleLet`] that the whole repository may have.
const FREE_TUPLE_LETS: usize = 15;

const HEAD: &str = "# Maximum number of violations of each style rule: rule, folder, number.
# The test fails if there are more. After you fix violations, lower the numbers:
# UPDATE_STYLE_DEBT=1 cargo test -p testkit --test style
";

/// The number of violations of each rule in each folder.
type Debt = BTreeMap<(String, String), usize>;

#[test]
fn style_violations_do_not_increase() {
    let violations = style::check(&style::sources());
    let found = debt_of(&violations);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("style-debt.txt");
    if std::env::var_os("UPDATE_STYLE_DEBT").is_some() {
        std::fs::write(&path, format_debt(&found)).unwrap();
        return;
    }
    let allowed = read(&std::fs::read_to_string(&path).unwrap());
    let mut report = String::new();
    for (key, &count) in &found {
        let limit = allowed.get(key).copied().unwrap_or(0);
        if count > limit && !is_free(&key.0, &violations) {
            let (rule, folder) = key;
            writeln!(report, "{rule} in {folder}: {count} violations, at most {limit}").unwrap();
            for violation in violations.iter().filter(|violation| key_of(violation) == *key) {
                writeln!(report, "  {}:{}: {}", violation.file, violation.line, violation.message)
                    .unwrap();
            }
        }
    }
    assert!(report.is_empty(), "{report}Fix these violations, or older ones.");
    let lower = allowed.iter().filter(|(key, limit)| found.get(key).unwrap_or(&0) < limit).count();
    if lower > 0 {
        // `eprintln` would be captured, and a passing test does not show captured output.
        let hint = "style-debt.txt can be lowered: UPDATE_STYLE_DEBT=1 cargo test -p testkit";
        writeln!(std::io::stderr(), "{hint} --test style ({lower} numbers)").unwrap();
    }
}

/// Whether violations of a rule are within the allowance for the whole repository.
fn is_free(rule: &str, violations: &[Violation]) -> bool {
    rule == Rule::TupleLet.name()
        && violations.iter().filter(|violation| violation.rule == Rule::TupleLet).count()
            <= FREE_TUPLE_LETS
}

fn debt_of(violations: &[Violation]) -> Debt {
    let mut debt = Debt::new();
    for violation in violations {
        *debt.entry(key_of(violation)).or_default() += 1;
    }
    debt
}

fn key_of(violation: &Violation) -> (String, String) {
    (violation.rule.name().to_owned(), folder(&violation.file))
}

/// Returns the folder under which a file is counted: `tests`, `crates/cli`, or `src/search` for
/// `src/search/mod.rs`.
fn folder(file: &str) -> String {
    let mut parts = file.split('/');
    let first = parts.next().unwrap_or(file);
    let is_nested = matches!(first, "src" | "crates" | "metric-index");
    match parts.next() {
        Some(second) if is_nested => format!("{first}/{}", second.trim_end_matches(".rs")),
        Some(_) => first.to_owned(),
        None => ".".to_owned(),
    }
}

fn format_debt(debt: &Debt) -> String {
    let line =
        |((rule, folder), count): (&(String, String), &usize)| format!("{rule} {folder} {count}\n");
    HEAD.to_owned() + &debt.iter().map(line).collect::<String>()
}

fn read(text: &str) -> Debt {
    let line = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let [rule, folder, count] = words[..] else { panic!("{line}: expected three words") };
        assert!(Rule::ALL.iter().any(|known| known.name() == rule), "no rule `{rule}`");
        ((rule.to_owned(), folder.to_owned()), count.parse().unwrap())
    };
    text.lines().filter(|line| !line.starts_with('#')).map(line).collect()
}

/// Checks a file that violates every syntax rule, and a crate whose files use each other.
#[test]
fn each_rule_is_checked() {
    let wrong = r#"
fn pattern((a, b): Pair, c: u8) {}
fn reference(pair: &(u8, u8)) {}
fn many(a: u8, b: u8, c: u8, d: u8, e: u8, f: u8) {}
impl Looked { fn fine(&self, a: u8, b: u8, c: u8, d: impl Fn((u8, u8)), unit: ()) {} }
struct Looked;
fn nested() {
    let (a, b) = (1, 2);
    let (a, b) = nested();
    fn inner(pair: (u8, u8)) {}
}
macro_rules! generated { () => { fn f<T>((a, b): (T, T), c: &mut [(T, T)]) {} } }
extern "C" { fn kernel(a: u8, b: u8, c: u8, d: u8, e: u8, f: u8); }
"#;
    let parent = "mod low; pub use low::Low; pub struct High; #[cfg(test)] mod tests;";
    let files = [
        ("a.rs", wrong.to_owned()),
        ("long.rs", format!("// {}\n// http://{}\n", "x ".repeat(50), "x".repeat(99))),
        ("x/src/lib.rs", "mod one; mod two; mod facade;".to_owned()),
        ("x/src/one.rs", "use crate::two::Two; pub struct One(Two);".to_owned()),
        ("x/src/two.rs", "pub struct Two; fn f() { dbg!(crate::one::One); }".to_owned()),
        ("x/src/facade.rs", parent.to_owned()),
        ("x/src/facade/low.rs", "use super::High; pub struct Low(High);".to_owned()),
        ("x/src/facade/tests.rs", "use super::*;".to_owned()),
    ];
    let sources: Vec<Source> =
        files.into_iter().map(|(path, text)| Source::parse(path, text)).collect();
    let violations = style::check(&sources);
    let found: Vec<(&str, &str, usize)> = violations
        .iter()
        .map(|violation| (violation.rule.name(), &*violation.file, violation.line))
        .collect();
    let expected = [
        ("module-cycle", "x/src/one.rs", 1),
        ("module-cycle", "x/src/two.rs", 1),
        ("many-parameters", "a.rs", 4),
        ("long-line", "long.rs", 1),
        ("tuple-let", "a.rs", 8),
        ("tuple-parameter", "a.rs", 2),
        ("tuple-parameter", "a.rs", 3),
        ("tuple-parameter", "a.rs", 10),
        ("tuple-parameter", "a.rs", 12),
        ("voice", "a.rs", 5),
    ];
    assert_eq!(found, expected);
}
