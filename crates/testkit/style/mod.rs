//! Style rules that neither the compiler nor Clippy checks.
//!
//! [`check`] returns every violation. The test `style` compares the number of violations with
//! `style-debt.txt`, and the example `style` lists them.

mod graph;
mod lines;
mod syntax;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// A style rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rule {
    /// Two files of a crate use each other, directly or indirectly.
    ModuleCycle,
    /// A function has more than [`MAX_PARAMETERS`] parameters.
    ManyParameters,
    /// A line has more than [`MAX_COLUMNS`] characters.
    LongLine,
    /// `src` contains more than [`MAX_FOLDERS`] folders.
    TopFolders,
    /// One `let` assigns the members of a tuple expression to several names.
    TupleLet,
    /// A function takes a tuple.
    TupleParameter,
    /// An identifier contains a word of [`VOICE`].
    Voice,
}

/// Maximum number of parameters of a function, without `self`.
const MAX_PARAMETERS: usize = 5;

/// Maximum number of characters per line.
const MAX_COLUMNS: usize = 100;

/// Maximum number of folders in `src`.
const MAX_FOLDERS: usize = 10;

/// Words that identifiers must not contain, each with a suggested replacement.
const VOICE: [(&str, &str); 7] = [
    ("kin", "cluster"),
    ("learnt", "learned"),
    ("left_out", "held_out"),
    ("lent", "a noun, such as `guard`"),
    ("looked", "a noun, or `scanned`"),
    ("taught", "learned, or `training`"),
    ("worths", "vote_weights"),
];

impl Rule {
    pub(crate) const ALL: [Self; 7] = [
        Self::ModuleCycle,
        Self::ManyParameters,
        Self::LongLine,
        Self::TopFolders,
        Self::TupleLet,
        Self::TupleParameter,
        Self::Voice,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ModuleCycle => "module-cycle",
            Self::ManyParameters => "many-parameters",
            Self::LongLine => "long-line",
            Self::TopFolders => "top-folders",
            Self::TupleLet => "tuple-let",
            Self::TupleParameter => "tuple-parameter",
            Self::Voice => "voice",
        }
    }
}

/// A violation of a rule.
#[derive(Debug)]
pub(crate) struct Violation {
    pub(crate) rule: Rule,
    /// Path from the root of the repository.
    pub(crate) file: String,
    pub(crate) line: usize,
    pub(crate) message: String,
}

/// A parsed file.
pub(crate) struct Source {
    /// Path from the root of the repository.
    path: String,
    text: String,
    tree: syn::File,
}

impl Source {
    pub(crate) fn parse(path: &str, text: String) -> Self {
        let tree = syn::parse_file(&text)
            .unwrap_or_else(|error| panic!("{path}:{}: {error}", error.span().start().line));
        Self { path: path.to_owned(), text, tree }
    }
}

/// Parses the Rust files that git tracks, and the untracked files that git does not ignore.
pub(crate) fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let list = ["ls-files", "--cached", "--others", "--exclude-standard", "*.rs"];
    let output = Command::new("git").args(list).current_dir(&root).output().expect("git runs");
    assert!(output.status.success(), "git: {}", String::from_utf8_lossy(&output.stderr));
    let paths = String::from_utf8(output.stdout).expect("paths are UTF-8");
    // Git lists moved and deleted files until the change is staged.
    let read = |path: &str| {
        std::fs::read_to_string(root.join(path)).ok().map(|text| Source::parse(path, text))
    };
    paths.lines().filter_map(read).collect()
}

/// Returns all violations, sorted by rule, file and line.
pub(crate) fn check(sources: &[Source]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for source in sources {
        syntax::check(source, &mut violations);
        lines::check(source, &mut violations);
    }
    graph::check(sources, &mut violations);
    check_folders(sources, &mut violations);
    violations.sort_by(|a, b| (a.rule, &a.file, a.line).cmp(&(b.rule, &b.file, b.line)));
    violations
}

fn check_folders(sources: &[Source], violations: &mut Vec<Violation>) {
    let in_src = sources.iter().filter_map(|source| source.path.strip_prefix("src/"));
    let folders: BTreeSet<&str> =
        in_src.filter_map(|path| path.split_once('/')).map(|(folder, _)| folder).collect();
    for (number, folder) in folders.iter().enumerate().skip(MAX_FOLDERS) {
        violations.push(Violation {
            rule: Rule::TopFolders,
            file: format!("src/{folder}"),
            line: 1,
            message: format!("folder {} of `src`, at most {MAX_FOLDERS}", number + 1),
        });
    }
}
