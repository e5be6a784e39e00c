//! The program `classify`: parses the arguments, runs one command, and reports its error.

use std::io::Write;
use std::num::NonZeroUsize;
use std::process::ExitCode;

use clap::{ColorChoice, CommandFactory, Parser, Subcommand, ValueEnum};
use classify::threads::Threads;

mod commands;
mod failure;
mod flags;
mod help;
mod output;

#[cfg(feature = "serve")]
use commands::serve;
use commands::{
    add, bench, check, cluster, compact, compare, completions, devices, evaluate, explain,
    generate, info, man, next, predict, relabel, remove, tokens, train, tune, vectorize,
};
use failure::Failure;
use help::with_help;
use output::progress::Verbosity;
use output::{files, warnings};

process_setup::note_closed_streams_before_main!();

#[global_allocator]
static ALLOCATOR: process_setup::Allocator = process_setup::Allocator;

/// Exact k-nearest-neighbor document classification.
#[derive(Debug, Parser)]
#[command(name = "classify", version, propagate_version = true, subcommand_required = true)]
#[command(after_help = EXIT_CODES)]
struct Arguments {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// The heading of the flags that every command accepts.
const GLOBAL: &str = "Options of every command";

const EXIT_CODES: &str = "Exit codes: 0 ok, 1 runtime error, 2 usage, 3 bad input data, 4 bad \
                          model, 5 missing resource (GPU, memory, threads), 6 worse than the \
                          baseline (`compare --fail-if-worse`).";

#[derive(Debug, clap::Args)]
struct Global {
    /// Number of threads; does not affect results [default: all cores]
    #[arg(
        short = 'j', long, global = true, value_name = "N", help_heading = GLOBAL,
        value_parser = clap::value_parser!(u16).range(1..=1024)
    )]
    threads: Option<u16>,
    /// Print only errors
    #[arg(short, long, global = true, conflicts_with = "verbose", help_heading = GLOBAL)]
    quiet: bool,
    /// Print more details
    #[arg(short, long, global = true, help_heading = GLOBAL)]
    verbose: bool,
    /// When to color help and error messages
    #[arg(
        long, global = true, value_enum, default_value_t = Color::Auto, hide_short_help = true,
        help_heading = GLOBAL
    )]
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
    /// Predict the labels of documents with a model
    Predict(predict::Predict),
    /// Explain predictions: neighbors, shared terms, evidence for and against labels
    Explain(explain::Explain),
    /// Measure how well predictions match known labels
    Evaluate(evaluate::Evaluate),
    /// Find wrong labels, duplicates, leaks and outliers in a labeled corpus
    Check(check::Check),
    /// Propose which documents to label next
    Next(next::Next),
    /// Test whether one evaluation is significantly better than another
    Compare(compare::Compare),
    /// Choose a model's k, vote and decision rule by leave-one-out
    Tune(tune::Tune),
    /// Add labeled documents to a model without retraining it
    Add(add::Add),
    /// Remove documents from a model
    Remove(remove::Remove),
    /// Change the labels of documents of a model
    Relabel(relabel::Relabel),
    /// Merge the changes of a model into its file
    Compact(compact::Compact),
    /// Serve a model over HTTP, with a web page to try it
    #[cfg(feature = "serve")]
    Serve(serve::Serve),
    /// Group similar documents without using labels
    Cluster(cluster::Cluster),
    /// Analyze and weight documents once, to classify them repeatedly
    Vectorize(vectorize::Vectorize),
    /// List GPUs and the engine that `--device auto` chooses
    Devices(devices::Devices),
    /// Benchmark the engines against the algorithms of Bresler et al. 2011
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Generate a synthetic corpus for benchmarks
    #[command(subcommand)]
    Generate(generate::Generate),
    /// Show a model's settings and statistics
    Info(info::Info),
    /// Show the terms that the analyzer extracts
    Tokens(tokens::Tokens),
    /// Print a completion script for a shell
    Completions(completions::Completions),
    /// Write manual pages into a folder
    Man(man::Man),
}

/// Runs the command line and returns the exit code.
fn main() -> ExitCode {
    let Parsed { arguments, command } = match parse() {
        Ok(parsed) => parsed,
        Err(code) => return code,
    };
    // Without the handlers, a signal can leave a temporary file behind, but nothing worse.
    let _ = if arguments.handles_signals() {
        process_setup::clean_up_on_abort()
    } else {
        process_setup::clean_up_on_exit()
    };
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(Some(&command)),
    }
}

/// The arguments, and the name of the command.
struct Parsed {
    arguments: Arguments,
    command: String,
}

impl Arguments {
    /// Whether the command handles signals itself.
    fn handles_signals(&self) -> bool {
        #[cfg(feature = "serve")]
        let serves = matches!(self.command, Command::Serve(_));
        #[cfg(not(feature = "serve"))]
        let serves = false;
        serves
    }
}

/// Parses the arguments. Returns an exit code after a usage error, `--help` or `--version`.
fn parse() -> Result<Parsed, ExitCode> {
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
    let program = with_help(Arguments::command()).color(color);
    let is_command = |name: &String| program.find_subcommand(name).is_some();
    let words = arguments.iter().skip(1).map(|word| word.to_string_lossy().into_owned());
    let command = words.into_iter().find(is_command);
    let parsed = program.try_get_matches_from(arguments).and_then(|matches| {
        let command = matches.subcommand_name().unwrap_or_default().to_owned();
        let arguments = <Arguments as clap::FromArgMatches>::from_arg_matches(&matches)?;
        Ok(Parsed { arguments, command })
    });
    parsed.map_err(|error| {
        // Help and version go to stdout. If stderr is closed, the error cannot be shown.
        if error.use_stderr() {
            let _ = write!(anstream::stderr(), "{}", usage_error(&error, command.as_deref()));
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
        match files::standard_is_open().and_then(|()| error.print().map_err(Failure::stdout)) {
            Err(failure) => failure.report(command.as_deref()),
            Ok(()) => ExitCode::SUCCESS,
        }
    })
}

/// Formats a usage error. Its last line refers to the help of the command.
fn usage_error(error: &clap::Error, command: Option<&str>) -> String {
    let message = error.render().ansi().to_string();
    match (command, message.rsplit_once("--help")) {
        (Some(command), Some((before, after))) => {
            format!("{before}classify {command} --help{after}")
        }
        _ => message,
    }
}

/// Runs the command.
fn run(arguments: Arguments) -> Result<(), Failure> {
    let is_server = arguments.handles_signals();
    let Global { threads, quiet, verbose, color } = arguments.global;
    match color {
        Color::Auto => {}
        Color::Always => anstream::ColorChoice::Always.write_global(),
        Color::Never => anstream::ColorChoice::Never.write_global(),
    }
    let verbosity = Verbosity { quiet, verbose };
    // A server writes warnings to its log instead.
    if !is_server {
        warnings::install(verbosity);
    }
    let threads = match threads.and_then(|count| NonZeroUsize::new(count.into())) {
        Some(count) => Threads::new(count),
        None => Threads::available(),
    };
    let threads = threads.map_err(|error| Failure::Resource(format!("no threads: {error}")))?;
    match arguments.command {
        Command::Train(command) => command.run(&threads, verbosity),
        Command::Predict(command) => command.run(&threads, verbosity),
        Command::Explain(command) => command.run(&threads, verbosity),
        Command::Evaluate(command) => command.run(&threads, verbosity),
        Command::Check(command) => command.run(&threads, verbosity),
        Command::Next(command) => command.run(&threads, verbosity),
        Command::Compare(command) => command.run(&threads),
        Command::Tune(command) => command.run(&threads, verbosity),
        #[cfg(feature = "serve")]
        Command::Serve(command) => command.run(&threads, verbosity),
        Command::Cluster(command) => command.run(&threads, verbosity),
        Command::Add(command) => command.run(&threads, verbosity),
        Command::Remove(command) => command.run(verbosity),
        Command::Relabel(command) => command.run(verbosity),
        Command::Compact(command) => command.run(&threads, verbosity),
        Command::Vectorize(command) => command.run(&threads, verbosity),
        Command::Devices(command) => command.run(&threads),
        Command::Bench(command) => command.run(&threads, verbosity),
        Command::Generate(command) => command.run(verbosity),
        Command::Info(command) => command.run(),
        Command::Tokens(command) => command.run(),
        Command::Completions(command) => command.run(with_help(Arguments::command())),
        Command::Man(command) => command.run(with_help(Arguments::command())),
    }
}
