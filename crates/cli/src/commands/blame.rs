//! `agents blame`

use std::path::PathBuf;

use clap::Args;
use cleveragents_api::blame::{Blame, BlamedFile, BlamedFileLine};
use cleveragents_domain::line_range::LineRange;

use super::CommandContext;
use crate::argument_types::parse_value;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, OutputView, Tone, ViewCell};

const HEADERS: [&str; 5] = ["line", "origin", "step", "call", "text"];
/// Number of characters of a commit id for people.
const COMMIT_LENGTH: usize = 8;

/// Show which plan, decision and tool call wrote each line of a file
///
/// Lines of commits that no plan made show the commit and its author, as `git blame` does. A plan
/// is "(not verified)" if the message of a commit names it, but no recorded apply made the commit.
/// JSON has the decision of each step too.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents blame src/cart.rs
  agents blame src/cart.rs -L 10,20
  agents blame src/cart.rs --format json")]
pub struct BlameArgs {
    /// A file of a git repository
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Only these lines: FIRST,LAST or one number
    #[arg(short = 'L', long, value_name = "LINES", value_parser = parse_value::<LineRange>)]
    lines: Option<LineRange>,
}

impl BlameArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let reply = context.call(Blame {
            file: context.absolute(&self.file),
            lines: self.lines,
        })?;
        CommandAnswer::from_reply(reply, view)
    }
}

fn view(file: &BlamedFile) -> OutputView {
    let title = file.path.to_string();
    OutputView::new().table(&title, &HEADERS, file.lines.iter().map(row))
}

fn row(line: &BlamedFileLine) -> Vec<ViewCell> {
    let origin = match (&line.plan, &line.commit) {
        (Some(plan), _) => {
            let id = plan.plan_id.short();
            match plan.direction {
                Some(_) => ViewCell::new(format!("plan {id}"), Tone::Strong),
                // Anybody can write the trailer of a commit.
                None => ViewCell::new(format!("plan {id} (not verified)"), Tone::Doubtful),
            }
        }
        (None, Some(commit)) => {
            let id: String = commit.id.chars().take(COMMIT_LENGTH).collect();
            ViewCell::new(format!("{id} {}", commit.author), Tone::Faint)
        }
        (None, None) => ViewCell::new("not committed", Tone::Doubtful),
    };
    let step = line.call.as_ref().and_then(|it| it.step);
    let call = line.call.as_ref();
    vec![
        line.line.to_string().into(),
        origin,
        step.map(|it| it.to_string()).unwrap_or_default().into(),
        call.map(|it| format!("{} {}", it.number, it.tool))
            .unwrap_or_default()
            .into(),
        line.text.clone().into(),
    ]
}
