//! `agents validation list`

use clap::Args;
use cleveragents_api::validation::{ListedValidation, ValidationList, ValidationPage};
use cleveragents_domain::ValidationMode;

use super::view;
use crate::argument_types::{parse_limit, parse_value};
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, MessageLevel, OutputView, Tone, ViewCell};

/// Default limit for the number of rows.
const DEFAULT_ROWS: usize = 100;

/// List validations by name, and where they are attached
///
/// JSON and YAML contain all of them unless --limit is given; tables show the first 100.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents validation list
  agents validation list --mode required
  agents validation list '^local/' --format json")]
pub struct ValidationListArgs {
    /// Only names that match this regular expression, ignoring case
    #[arg(value_name = "REGEX")]
    pattern: Option<String>,

    /// Only validations of this mode: required or informational
    #[arg(long, value_name = "MODE", value_parser = parse_value::<ValidationMode>)]
    mode: Option<ValidationMode>,

    /// List at most this many
    #[arg(long, value_name = "NUMBER", value_parser = parse_limit)]
    limit: Option<usize>,
}

impl ValidationListArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let reply = context.call(ValidationList {
            pattern: self.pattern.clone(),
            mode: self.mode,
            limit: self.limit,
        })?;
        let total = reply.answer.summary.total;
        let listed = self.limit.unwrap_or(DEFAULT_ROWS);
        let answer = CommandAnswer::from_reply(reply, |page| tables(page, listed))?;
        Ok(match total.saturating_sub(listed) {
            0 => answer,
            more => answer.with_message(
                MessageLevel::Hint,
                format!("{more} more: use --limit {total}"),
            ),
        })
    }
}

fn tables(page: &ValidationPage, listed: usize) -> OutputView {
    let headers = ["name", "mode", "runs", "attached", "description"];
    let rows = page.validations.iter().take(listed).map(row);
    let view = OutputView::new().table("Validations", &headers, rows);
    if page.attachments.is_empty() {
        return view;
    }
    let attachments = page.attachments.iter().take(DEFAULT_ROWS);
    let rows = attachments.map(view::attachment_row);
    view.table("Attachments", &view::ATTACHMENT_HEADERS, rows)
}

fn row(listed: &ListedValidation) -> Vec<ViewCell> {
    let validation = &listed.validation;
    let runs = match &validation.wraps {
        None => "a command".to_owned(),
        Some(tool) => tool.to_string(),
    };
    let attached = match listed.attachments {
        0 => ViewCell::new("nowhere", Tone::Faint),
        1 => ViewCell::from("once"),
        times => ViewCell::from(format!("{times} times")),
    };
    vec![
        ViewCell::new(validation.name.to_string(), Tone::Strong),
        view::mode(validation.mode),
        runs.into(),
        attached,
        validation.description.clone().into(),
    ]
}
