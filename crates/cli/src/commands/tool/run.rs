//! `agents tool run`

use std::path::PathBuf;

use std::sync::Arc;

use clap::Args;
use cleveragents_app::find_tool;
use cleveragents_domain::tool::control::is_control_tool;
use cleveragents_ports::sandbox::{DiffLines, DiffStat, SandboxError};
use cleveragents_ports::tools::{Tool, ToolFailure};
use serde_json::{Value, json};

use super::trial::{TrialResult, TrialSandbox};
use super::{input, parse_name, view};
use crate::commands::CommandContext;
use crate::failure::{CommandFailure, ExitCode, display_path};
use crate::output::{CommandAnswer, MessageLevel, OutputView, format_count};
use crate::{bootstrap, changes, resource_directory};

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
        let settings = context.settings()?;
        let bootstrap = context.bootstrap()?;
        let processes = bootstrap.processes(settings, context.environment)?;
        let shell = bootstrap::shell_settings(settings, context.environment);
        let toolbox = bootstrap::toolbox(Some(Arc::from(processes)), shell)?;
        let tool = find_tool(&*toolbox, &parse_name(&self.name)?)?;
        if is_control_tool(&tool.definition().name) {
            return Err(needs_plan_failure(tool));
        }
        let input = input::read(self.input.as_deref(), context)?;
        tool.check_input(&input)
            .map_err(|failure| tool_failure(tool, failure))?;
        let data_directory = &settings.locations.data_directory;
        let path = context.absolute(self.path.as_deref().unwrap_or(".".as_ref()));
        let place = resource_directory::inspect(&path, data_directory)?;
        let mut trial = TrialSandbox::create(&place, &bootstrap, context.environment)?;
        let tried = trial.call(tool, &input);
        let kept = self.keep.then(|| display_path(trial.tree()));
        let sandbox = json!({
            "sandbox_id": trial.id,
            "resource": display_path(&place.path),
            "type": trial.resource_type,
            "kept": kept,
        });
        let left = if self.keep { Ok(()) } else { trial.discard() };
        let answer = match tried {
            Ok(tried) => self.answer(tool, &tried, sandbox),
            Err(failure) => return Err(with_sandbox_path(tool_failure(tool, failure), kept)),
        };
        let answer = match &kept {
            Some(kept) => {
                answer.with_message(MessageLevel::Info, format!("The sandbox is kept: {kept}"))
            }
            None => answer,
        };
        Ok(with_cleanup_warning(answer, left))
    }

    fn answer(&self, tool: &dyn Tool, result: &TrialResult, sandbox: Value) -> CommandAnswer {
        let name = &tool.definition().name;
        let files = &result.diff.files;
        let patch = String::from_utf8_lossy(&result.diff.patch).into_owned();
        let data = json!({
            "tool": name,
            "output": result.output.data,
            "changes": files.iter().map(change_data).collect::<Vec<Value>>(),
            "patch": patch,
            "sandbox": sandbox,
        });
        let mut view = view::output(OutputView::new(), &result.output.data);
        if !files.is_empty() {
            let headers = ["path", "change", "lines"];
            view = view
                .table("Changes", &headers, files.iter().map(changes::row))
                .patch(result.diff.patch.clone());
        }
        let number = i64::try_from(files.len()).unwrap_or(i64::MAX);
        let said = match (number, self.keep) {
            (0, _) => format!("{name} changed nothing"),
            (_, true) => format!(
                "{name} changed {} in its sandbox",
                format_count(number, "file")
            ),
            (_, false) => format!(
                "{name} changed {} in its sandbox, which was removed",
                format_count(number, "file")
            ),
        };
        CommandAnswer::new(data, view).with_message(MessageLevel::Info, said)
    }
}

fn with_cleanup_warning(answer: CommandAnswer, removal: Result<(), SandboxError>) -> CommandAnswer {
    match removal {
        Ok(()) => answer,
        Err(error) => answer.with_message(
            MessageLevel::Warn,
            format!("the sandbox could not be removed: {error}"),
        ),
    }
}

fn with_sandbox_path(failure: CommandFailure, kept: Option<String>) -> CommandFailure {
    match kept {
        Some(kept) => failure
            .hint(format!("look at the sandbox, which is kept: {kept}"))
            .with("kept", kept.into()),
        None => failure,
    }
}

fn change_data(file: &DiffStat) -> Value {
    let (inserted, deleted) = match file.lines {
        DiffLines::Text { inserted, deleted } => (Some(inserted), Some(deleted)),
        DiffLines::Binary => (None, None),
    };
    json!({
        "path": file.path,
        "change": changes::change_name(file),
        "renamed_from": file.renamed_from,
        "inserted": inserted,
        "deleted": deleted,
    })
}

fn needs_plan_failure(tool: &dyn Tool) -> CommandFailure {
    let name = &tool.definition().name;
    CommandFailure::usage(format!("{name} cannot be run outside a plan"))
        .kind("tool_needs_plan")
        .because("it sends a message to its plan")
        .hint(format!("agents tool show {name}"))
        .with("tool", json!(name))
}

/// Converts the failure of a tool, with the exit code that scripts rely on.
fn tool_failure(tool: &dyn Tool, failure: ToolFailure) -> CommandFailure {
    let name = &tool.definition().name;
    let of = |exit, what: &str, kind| {
        let failure = CommandFailure::new(exit, format!("{name} {what}")).kind(kind);
        failure.with("tool", json!(name))
    };
    match failure {
        ToolFailure::Input { reason } => of(ExitCode::Usage, "cannot use this input", "tool_input")
            .because(reason)
            .hint(format!("agents tool show {name}")),
        ToolFailure::Store(error) => error.into(),
        ToolFailure::Stopped { why, .. } => {
            of(ExitCode::Error, "was stopped", "tool_stopped").because(why.to_string())
        }
        ToolFailure::Process(error) => {
            of(ExitCode::Error, "could not run its command", "tool_process").caused_by(&error)
        }
        ToolFailure::Sandbox(error) => {
            of(ExitCode::Error, "failed in its sandbox", "sandbox").caused_by(&error)
        }
        other @ (ToolFailure::Failed { .. }
        | ToolFailure::Stale { .. }
        | ToolFailure::Refused { .. }) => {
            of(ExitCode::Error, "failed", "tool_failed").because(other.to_string())
        }
    }
}
