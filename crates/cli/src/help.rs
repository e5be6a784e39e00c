//! Help texts: command groups, a short form for `-h`, and examples.

use std::fmt::Write as _;

use clap::Command;

/// Commands listed under one heading.
struct Group {
    title: &'static str,
    commands: &'static [&'static str],
}

const GROUPS: [Group; 5] = [
    Group { title: "Build a model", commands: &["train", "tune"] },
    Group { title: "Use it", commands: &["predict", "explain", "serve", "vectorize"] },
    Group { title: "Update it", commands: &["next", "add", "remove", "relabel", "compact"] },
    Group {
        title: "Inspect",
        commands: &["evaluate", "check", "compare", "info", "tokens", "cluster"],
    },
    Group {
        title: "Other",
        commands: &["devices", "bench", "generate", "completions", "man", "help"],
    },
];

/// The help of a command that `-h` shows; `--help` shows all flags.
struct ShortHelp {
    command: &'static str,
    /// The identifiers of the flags that `-h` shows.
    flags: &'static [&'static str],
    examples: &'static [&'static str],
}

const SHORT_HELP: [ShortHelp; 18] = [
    ShortHelp {
        command: "train",
        flags: &[
            "output",
            "text_column",
            "label_column",
            "label_separator",
            "no_header",
            "stop_words",
            "stem",
            "tune",
        ],
        examples: &[
            "classify train tickets.csv -o tickets.model",
            "classify train articles.jsonl -o articles.model --tune",
            "classify train records.tsv -o records.model --label-separator ';' --stem english",
        ],
    },
    ShortHelp {
        command: "tune",
        flags: &["output", "mode", "abstain", "rule", "objective"],
        examples: &[
            "classify tune tickets.model",
            "classify tune tickets.model -o careful.model --abstain target-error=5%",
        ],
    },
    ShortHelp {
        command: "predict",
        flags: &["text", "output", "to", "top", "with", "text_column", "device"],
        examples: &[
            "classify predict tickets.model new.csv",
            "classify predict tickets.model --text 'my card has not arrived'",
            "classify predict tickets.model new.csv --to csv --top 3 -o answers.csv",
        ],
    },
    ShortHelp {
        command: "explain",
        flags: &["text", "output", "to", "neighbors", "terms", "text_column", "k"],
        examples: &[
            "classify explain tickets.model --text 'my card has not arrived'",
            "classify explain tickets.model new.csv --to html -o answers.html",
        ],
    },
    ShortHelp {
        command: "serve",
        flags: &["listen", "token_file", "protect_reads", "allow_host", "log", "device"],
        examples: &[
            "classify serve tickets.model",
            "classify serve tickets.model --listen 0.0.0.0:8080 --token-file token.txt",
        ],
    },
    ShortHelp {
        command: "vectorize",
        flags: &["output", "text_column", "label_column"],
        examples: &[
            "classify vectorize tickets.model test.csv -o test.vectors",
            "classify evaluate tickets.model test.vectors",
        ],
    },
    ShortHelp {
        command: "add",
        flags: &["number_as", "new_labels", "text_column", "label_column", "strict"],
        examples: &[
            "classify add tickets.model monday.csv",
            "classify add tickets.model monday.csv --number-as monday- --new-labels",
        ],
    },
    ShortHelp {
        command: "remove",
        flags: &["from"],
        examples: &[
            "classify remove tickets.model 17 18",
            "classify remove tickets.model --from ids.txt",
        ],
    },
    ShortHelp {
        command: "relabel",
        flags: &["new_labels", "from"],
        examples: &[
            "classify relabel tickets.model 17 card_arrival",
            "classify relabel tickets.model --from corrections.jsonl",
        ],
    },
    ShortHelp {
        command: "next",
        flags: &["count", "output", "to", "without_model", "text_column", "seed"],
        examples: &[
            "classify next tickets.model unlabeled.csv -n 50 -o label-these.csv",
            "classify next --without-model unlabeled.csv -n 50 -o label-these.csv",
        ],
    },
    ShortHelp {
        command: "check",
        flags: &[
            "test",
            "against",
            "output",
            "html",
            "fixes",
            "fixed",
            "text_column",
            "label_column",
            "label_separator",
            "tune",
        ],
        examples: &[
            "classify check tickets.csv",
            "classify check tickets.csv -o suspicious.csv",
            "classify check train.csv --test test.csv --against march.csv --html findings.html",
            "classify check tickets.csv --fixes suspicious.csv --fixed corrected.jsonl",
        ],
    },
    ShortHelp {
        command: "compact",
        flags: &["reweigh"],
        examples: &["classify compact tickets.model", "classify compact tickets.model --reweigh"],
    },
    ShortHelp {
        command: "evaluate",
        flags: &["train", "test", "holdout", "json", "html", "text_column", "label_column", "tune"],
        examples: &[
            "classify evaluate tickets.model test.csv --html report.html",
            "classify evaluate --train train.csv --test test.csv --tune",
            "classify evaluate --train all.jsonl --holdout 20%",
        ],
    },
    ShortHelp {
        command: "compare",
        flags: &["fail_if_worse", "alpha", "json"],
        examples: &[
            "classify compare old.json new.json",
            "classify compare old.json new.json --fail-if-worse",
        ],
    },
    ShortHelp {
        command: "info",
        flags: &["json"],
        examples: &["classify info tickets.model", "classify info tickets.model --json"],
    },
    ShortHelp {
        command: "tokens",
        flags: &["model", "text_column", "stop_words", "stem", "word_ngrams", "char_ngrams"],
        examples: &[
            "echo 'The cards have arrived' | classify tokens --stem english",
            "classify tokens --model tickets.model new.csv",
        ],
    },
    ShortHelp {
        command: "cluster",
        flags: &["k", "output", "terms", "text_column", "label_column", "stop_words", "stem"],
        examples: &[
            "classify cluster articles.jsonl --k 20",
            "classify cluster articles.jsonl --k 20 --stop-words en -o clusters.jsonl",
        ],
    },
    ShortHelp {
        command: "devices",
        flags: &[],
        examples: &["classify devices", "classify predict tickets.model new.csv --device cuda"],
    },
];

/// Commands that read documents without using their labels.
const UNLABELED_COMMANDS: [&str; 3] = ["predict", "explain", "tokens"];
/// Reading flags that have no effect on [`UNLABELED_COMMANDS`]. These commands accept them, so that
/// all commands read a corpus with the same flags, but the help does not show them.
const LABEL_FLAGS: [&str; 5] =
    ["label_separator", "weight_column", "group_column", "qrels", "split"];

/// Adds the help of all commands.
pub(crate) fn with_help(program: Command) -> Command {
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}\
         Options:\n{{options}}\n\n{{after-help}}",
        listing(&program)
    );
    let program = program.help_template(template);
    let exists = |help: &&ShortHelp| program.find_subcommand(help.command).is_some();
    let existing: Vec<&ShortHelp> = SHORT_HELP.iter().filter(exists).collect();
    existing.into_iter().fold(program, |program, help| {
        program.mut_subcommand(help.command, |command| shortened(command, help))
    })
}

/// Lists the commands in their groups.
fn listing(program: &Command) -> String {
    let mut text = String::new();
    for group in &GROUPS {
        let _ = writeln!(text, "{}:", group.title);
        for &name in group.commands {
            let about = match program.find_subcommand(name).map(Command::get_about) {
                Some(about) => about.map(ToString::to_string).unwrap_or_default(),
                None if name == "help" => "Show the help of a command".to_owned(),
                // The command `serve` does not exist without the feature.
                None => continue,
            };
            let _ = writeln!(text, "  {name:<12} {about}");
        }
        text.push('\n');
    }
    text
}

/// Hides the less common flags from `-h`, and adds the examples.
fn shortened(command: Command, help: &ShortHelp) -> Command {
    let examples = help.examples.join("\n  ");
    command.after_help(format!("Examples:\n  {examples}")).mut_args(|arg| {
        let is_shown = arg.is_positional() || help.flags.contains(&arg.get_id().as_str());
        let has_no_effect = UNLABELED_COMMANDS.contains(&help.command)
            && LABEL_FLAGS.contains(&arg.get_id().as_str());
        arg.hide_short_help(!is_shown).hide(has_no_effect)
    })
}
