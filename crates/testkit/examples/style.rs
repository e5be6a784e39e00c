//! Lists the violations of the style rules: `style [--rule NAME] [PATH]`.

#![expect(clippy::print_stdout, reason = "the example prints the violations")]

#[path = "../style/mod.rs"]
mod style;

use std::process::ExitCode;

use style::Rule;

fn main() -> ExitCode {
    let mut rule = None;
    let mut path = String::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        if argument != "--rule" {
            path = argument;
            continue;
        }
        let name = arguments.next().unwrap_or_default();
        rule = Rule::ALL.into_iter().find(|rule| rule.name() == name);
        if rule.is_none() {
            let known = Rule::ALL.map(Rule::name).join(", ");
            println!("unknown rule `{name}`; the rules are {known}");
            return ExitCode::from(2);
        }
    }
    for violation in style::check(&style::sources()) {
        if rule.is_none_or(|rule| rule == violation.rule) && violation.file.starts_with(&path) {
            let name = violation.rule.name();
            println!("{}:{}: {name}: {}", violation.file, violation.line, violation.message);
        }
    }
    ExitCode::SUCCESS
}
