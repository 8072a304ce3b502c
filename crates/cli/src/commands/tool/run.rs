//! `agents tool run`

use std::path::PathBuf;

use clap::Args;
use cleveragents_api::plan::diff::FileStatus;
use cleveragents_api::tool::{ToolChange, ToolRun, ToolRunAnswer};

use super::{input, parse_name, view};
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, OutputView, Tone, ViewCell};

/// Run a tool in a temporary sandbox and show its output and changes
///
/// The sandbox is created from the current files of a directory and removed afterwards: your files
/// are not changed. A git checkout includes its history; other directories are copied.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents tool run builtin/file-list
  agents tool run file-search --input '{\"pattern\": \"TODO\"}' --path ./shop
  agents tool run file-write --input @input.json --keep
  agents tool run file-edit --input - --format json")]
pub struct ToolRunArgs {
    /// The name of the tool; the namespace `builtin` may be left out
    #[arg(value_name = "NAME")]
    name: String,

    /// The input: JSON, @FILE, or - for standard input [default: an empty object]
    #[arg(long, value_name = "JSON")]
    input: Option<String>,

    /// The directory to create the sandbox from [default: the working directory]
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    path: Option<PathBuf>,

    /// Keep the sandbox and print its path
    #[arg(long)]
    keep: bool,
}

impl ToolRunArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let request = ToolRun {
            name: parse_name(&self.name)?,
            input: input::read(self.input.as_deref(), context)?,
            path: context.absolute(self.path.as_deref().unwrap_or(".".as_ref())),
            keep: self.keep,
        };
        CommandAnswer::from_reply(context.bootstrap()?.run_tool(request)?, output_and_changes)
    }
}

fn output_and_changes(answer: &ToolRunAnswer) -> OutputView {
    let view = view::output(OutputView::new(), &answer.output);
    if answer.changes.is_empty() {
        return view;
    }
    let headers = ["path", "change", "lines"];
    let patch = answer.patch_bytes.clone();
    view.table("Changes", &headers, answer.changes.iter().map(row))
        .patch(patch.unwrap_or_else(|| answer.patch.clone().into_bytes()))
}

fn row(file: &ToolChange) -> Vec<ViewCell> {
    let tone = match file.change {
        FileStatus::Added => Tone::Good,
        FileStatus::Deleted => Tone::Bad,
        FileStatus::Modified | FileStatus::Renamed | FileStatus::Retyped => Tone::Doubtful,
    };
    let path = match &file.renamed_from {
        Some(from) => format!("{from} → {}", file.path),
        None => file.path.to_string(),
    };
    let lines = match (file.inserted, file.deleted) {
        (Some(inserted), Some(deleted)) => format!("+{inserted} -{deleted}"),
        _ => "binary".to_owned(),
    };
    vec![
        ViewCell::new(path, Tone::Strong),
        ViewCell::new(file.change.as_str(), tone),
        lines.into(),
    ]
}
