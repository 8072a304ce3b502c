//! The command-line arguments. The doc comments are the help texts. Each command defines its own
//! arguments in its file under `commands`.

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, ValueEnum};

use crate::commands::Command;

/// Runs AI work on your code as plans you can read, stop, resume and trust
#[derive(Debug, Parser)]
#[command(
    name = "agents",
    bin_name = "agents",
    version,
    subcommand_required = true,
    arg_required_else_help = true,
    propagate_version = false,
    max_term_width = 100,
    after_long_help = "\
Examples:
  agents init
  agents diagnostics
  agents config list
  agents --format json config get plan.concurrency

Exit codes:
  0 ok, 1 error, 2 usage, 3 not found, 4 conflict, 5 needs your approval or answer,
  6 budget or limit reached, 7 definition of done not met, 75 try later, 130 interrupted"
)]
pub struct CliArguments {
    #[command(flatten)]
    pub global: GlobalArguments,
    #[command(subcommand)]
    pub command: Command,
}

/// The options every command takes, before or after its name.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Global options")]
pub struct GlobalArguments {
    /// Output format
    ///
    /// Defaults to CLEVERAGENTS_FORMAT, then the setting core.format, then `rich` on a terminal and
    /// `plain` elsewhere. `json` and `yaml` print one envelope, errors included.
    #[arg(short, long, global = true, value_enum, value_name = "FORMAT")]
    pub format: Option<Format>,

    /// Data directory [default: ~/.cleveragents]
    ///
    /// Also CLEVERAGENTS_DATA_DIR.
    #[arg(long, global = true, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub data_dir: Option<PathBuf>,

    /// Settings file [default: config.toml in the data directory]
    ///
    /// Also CLEVERAGENTS_CONFIG_PATH. A file named here must exist, except for `init` and `config set`.
    #[arg(long, global = true, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub config_path: Option<PathBuf>,

    /// Override a setting for this command; may be repeated
    #[arg(long = "set", global = true, value_name = "KEY=VALUE", action = ArgAction::Append)]
    pub set: Vec<String>,

    /// Print more to stderr: reasons, then logs; may be repeated (-v info, -vv debug, -vvv trace)
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,

    /// Print only the answer, warnings and errors
    #[arg(short, long, global = true)]
    pub quiet: bool,
}

/// Format of answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Boxes and colours, for people
    Rich,
    /// Colours without boxes
    Color,
    /// ASCII tables without colours
    Table,
    /// Stable `key: value` lines and tab separated tables
    Plain,
    /// One JSON envelope
    Json,
    /// One YAML envelope
    Yaml,
}

impl Format {
    pub fn from_name(name: &str) -> Option<Self> {
        Self::from_str(name, false).ok()
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Rich => "rich",
            Self::Color => "color",
            Self::Table => "table",
            Self::Plain => "plain",
            Self::Json => "json",
            Self::Yaml => "yaml",
        }
    }

    /// Returns whether the format is read by programs rather than people.
    pub fn is_envelope(self) -> bool {
        matches!(self, Self::Json | Self::Yaml)
    }
}
