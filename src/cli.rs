//! Flags exactly as typed; one file a subcommand.

use std::num::NonZeroUsize;
use std::process::ExitCode;

use clap::{ColorChoice, CommandFactory, Parser, Subcommand, ValueEnum};
use classify::threads::Threads;

mod arguments;
mod bench;
mod compare;
mod deciding;
mod devices;
mod evaluate;
mod failure;
mod generate;
mod info;
mod predict;
mod progress;
mod searching;
mod shell;
mod tokens;
mod train;
mod tuning;
mod vectorize;

use failure::Failure;
use progress::Talk;

/// Exact k-nearest-neighbor document classification.
#[derive(Debug, Parser)]
#[command(name = "classify", version, propagate_version = true, subcommand_required = true)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 ok, 1 runtime error, 2 usage, 3 bad input data, 4 bad model, 5 a resource is not there, 6 worse (`compare --fail-if-worse`).";

#[derive(Debug, clap::Args)]
struct Global {
    /// Threads to use; answers never depend on it [default: all cores]
    #[arg(short = 'j', long, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Seed of everything random (`evaluate`'s hold-out and intervals, `compare`, `generate`)
    #[arg(long, global = true, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Say nothing but errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// Say more
    #[arg(short, long, global = true)]
    verbose: bool,
    /// Color in help and errors
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto)]
    color: Color,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Color {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Train a model on labeled documents
    Train(train::Train),
    /// Label documents with a model
    Predict(predict::Predict),
    /// Compare predictions with known labels
    Evaluate(evaluate::Evaluate),
    /// Tell whether one evaluation is better than another, or by chance
    Compare(compare::Compare),
    /// Choose a model's k, vote and decision by leave-one-out
    Tune(tuning::Tune),
    /// Analyze and weigh documents once, to classify them often
    Vectorize(vectorize::Vectorize),
    /// List GPUs, and say which engine `--device auto` takes
    Devices(devices::Devices),
    /// Measure the algorithms of the papers beside ours
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Make a corpus for measurements
    #[command(subcommand)]
    Generate(generate::Generate),
    /// Show what a model is made of
    Info(info::Info),
    /// Show what the analyzer sees
    Tokens(tokens::Tokens),
    /// Print a completion script for a shell
    Completions(shell::Completions),
    /// Write manual pages into a folder
    Man(shell::Man),
}

/// The arguments, or the exit code of a usage error, of `--help` and of `--version`.
pub(crate) fn parse() -> Result<Arguments, ExitCode> {
    let arguments: Vec<_> = std::env::args_os().collect();
    let color = match () {
        () if arguments.iter().any(|a| a == "--color=never") => ColorChoice::Never,
        () if arguments.windows(2).any(|a| a[0] == "--color" && a[1] == "never") => {
            ColorChoice::Never
        }
        () if arguments.iter().any(|a| a == "--color=always") => ColorChoice::Always,
        () if arguments.windows(2).any(|a| a[0] == "--color" && a[1] == "always") => {
            ColorChoice::Always
        }
        () => ColorChoice::Auto,
    };
    let command = Arguments::command().color(color);
    let parsed = command
        .try_get_matches_from(arguments)
        .and_then(|matches| <Arguments as clap::FromArgMatches>::from_arg_matches(&matches));
    parsed.map_err(|error| {
        // A closed pipe behind `--help` is a quiet end.
        let _ = error.print();
        ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
    })
}

/// Runs the command.
pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    let Global { threads, seed, quiet, verbose, color } = arguments.global;
    match color {
        Color::Auto => {}
        Color::Always => anstream::ColorChoice::Always.write_global(),
        Color::Never => anstream::ColorChoice::Never.write_global(),
    }
    let talk = Talk { quiet, verbose };
    let threads = match threads.and_then(|count| NonZeroUsize::new(count.into())) {
        Some(count) => Threads::new(count),
        None => Threads::available(),
    };
    let threads = threads.map_err(|error| Failure::Resource(format!("no threads: {error}")))?;
    match arguments.command {
        Command::Train(command) => command.run(&threads, talk),
        Command::Predict(command) => command.run(&threads, talk),
        Command::Evaluate(command) => command.run(&threads, seed, talk),
        Command::Compare(command) => command.run(&threads, seed),
        Command::Tune(command) => command.run(&threads, talk),
        Command::Vectorize(command) => command.run(&threads, talk),
        Command::Devices(command) => command.run(&threads),
        Command::Bench(command) => command.run(&threads, seed, talk),
        Command::Generate(command) => command.run(seed, talk),
        Command::Info(command) => command.run(),
        Command::Tokens(command) => command.run(),
        Command::Completions(command) => command.run(),
        Command::Man(command) => command.run(),
    }
}

/// Writes a file of JSON, whole or not at all.
fn write_json(path: &std::path::Path, value: &impl serde::Serialize) -> Result<(), Failure> {
    let mut json =
        serde_json::to_string_pretty(value).map_err(|error| Failure::output(path)(error.into()))?;
    json.push('\n');
    metric_index::output::write_atomically(path, |out| {
        std::io::Write::write_all(out, json.as_bytes())
    })
    .map_err(Failure::output(path))
}
