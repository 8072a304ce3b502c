//! `agents plan diff`

use clap::Args;
use cleveragents_api::plan::PlanDiff;
use cleveragents_api::plan::diff::{DiffFile, DiffResource, FileStatus, PlanDiffAnswer};

use crate::argument_types::{PLAN_HELP, PlanArgument};
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::names;
use crate::output::{CommandAnswer, OutputView, Tone, ViewCell};

/// Show a plan's changes as a patch
///
/// The difference between the files at the start of the plan and its result. Your own files do not
/// change before `agents plan apply`. With --patch, stdout is exactly the patch, for `git apply`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents plan diff 4k2m9x0q
  agents plan diff 4k2m9x0q --stat
  agents plan diff 4k2m9x0q --file src/cart.rs docs
  agents plan diff 4k2m9x0q --patch | git apply --check
  agents plan diff 4k2m9x0q --patch --resource local/shop")]
pub struct PlanDiffArgs {
    #[arg(value_name = "PLAN", help = PLAN_HELP)]
    plan: PlanArgument,

    /// Show only the numbers of each file
    #[arg(long, conflicts_with = "patch")]
    stat: bool,

    /// Print only the patch
    #[arg(long)]
    patch: bool,

    /// Only these files or folders
    #[arg(long = "file", value_name = "FILE", num_args = 1..)]
    files: Vec<String>,

    /// Only this resource
    #[arg(long, value_name = "NAME")]
    resource: Option<String>,
}

impl PlanDiffArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let resource = self.resource.as_deref();
        let resource = resource.map(|text| names::parse_name("resource", text));
        let resource = resource.transpose()?;
        let reply = context.call_for_plan(&self.plan, |plan| PlanDiff {
            plan,
            patch: self.patch,
            files: self.files.clone(),
            resource,
        })?;
        CommandAnswer::from_reply(reply, |diff| self.view(diff))
    }

    fn view(&self, diff: &PlanDiffAnswer) -> OutputView {
        let changed = diff.resources.iter().filter(|it| it.files_changed > 0);
        let changed: Vec<&DiffResource> = changed.collect();
        let several = changed.len() > 1;
        let mut view = OutputView::new();
        for one in changed {
            if !self.patch {
                let files = diff.files.iter().filter(|it| it.resource == one.resource);
                let rows = files.map(|file| row(file, several));
                view = view.table(&title(one, several), headers(several), rows);
            }
            if !self.stat {
                view = view.patch(patch(one));
            }
        }
        view
    }
}

/// Returns the exact bytes of the patch.
fn patch(one: &DiffResource) -> Vec<u8> {
    let bytes = one.patch_bytes.clone();
    bytes.unwrap_or_else(|| one.patch.clone().into_bytes())
}

fn title(one: &DiffResource, several: bool) -> String {
    if several {
        format!("Changes of {}", one.resource)
    } else {
        "Changes".to_owned()
    }
}

fn headers(several: bool) -> &'static [&'static str] {
    if several {
        &["path", "change", "lines", "resource"]
    } else {
        &["path", "change", "lines"]
    }
}

fn row(file: &DiffFile, several: bool) -> Vec<ViewCell> {
    let tone = match file.status {
        FileStatus::Added => Tone::Good,
        FileStatus::Deleted => Tone::Bad,
        FileStatus::Modified | FileStatus::Renamed | FileStatus::Retyped => Tone::Doubtful,
    };
    let path = match &file.renamed_from {
        Some(from) => format!("{from} → {}", file.path),
        None => file.path.to_string(),
    };
    let mut row = vec![
        ViewCell::new(path, Tone::Strong),
        ViewCell::new(file.status.as_str(), tone),
        file.change.clone().into(),
    ];
    if several {
        row.push(ViewCell::new(file.resource.to_string(), Tone::Faint));
    }
    row
}
