//! `agents validation list`

use clap::Args;
use cleveragents_domain::{ValidationMode, ValidationSource};
use cleveragents_engine::validations::AttachmentView;
use cleveragents_ports::ValidationRow;
use serde_json::{Value, json};

use super::view;
use crate::argument_types::parse_value;
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, MessageLevel, OutputView, Tone, ViewCell, format_count};
use cleveragents_app::NamePattern;

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
    #[arg(long, value_name = "NUMBER")]
    limit: Option<usize>,
}

impl ValidationListArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let pattern = self
            .pattern
            .as_deref()
            .map(NamePattern::parse)
            .transpose()?;
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open_to_read()?;
        let (mut all, mut attachments) = app.block_on(app.validations().validations())?;
        all.retain(|row| {
            let validation = &row.validation;
            self.mode.is_none_or(|mode| mode == validation.mode)
                && pattern
                    .as_ref()
                    .is_none_or(|it| it.matches(&validation.name))
        });
        attachments.retain(|view| {
            let is = |row: &ValidationRow| row.validation.name == view.attachment.validation;
            all.iter().any(is)
        });
        Ok(self.answer(&all, &attachments, pattern.as_ref()))
    }

    fn answer(
        &self,
        all: &[ValidationRow],
        attachments: &[AttachmentView],
        pattern: Option<&NamePattern>,
    ) -> CommandAnswer {
        let listed = &all[..all.len().min(self.limit.unwrap_or(usize::MAX))];
        let seen = &all[..all.len().min(self.limit.unwrap_or(DEFAULT_ROWS))];
        let required = |row: &&ValidationRow| row.validation.mode == ValidationMode::Required;
        let required = all.iter().filter(required).count();
        let times = |row: &ValidationRow| {
            let of = |view: &&AttachmentView| view.attachment.validation == row.validation.name;
            attachments.iter().filter(of).count()
        };
        let entry = |row: &ValidationRow| {
            let mut data = view::data(row);
            data["attachments"] = times(row).into();
            data
        };
        let data = json!({
            "validations": listed.iter().map(entry).collect::<Vec<Value>>(),
            "attachments": attachments.iter().map(view::attachment_data).collect::<Vec<Value>>(),
            "filters": {"mode": self.mode, "pattern": pattern.map(NamePattern::as_str)},
            "summary": {
                "total": all.len(),
                "required": required,
                "informational": all.len() - required,
                "attachments": attachments.len(),
            },
        });
        let headers = ["name", "mode", "runs", "attached", "description"];
        let rows = seen.iter().map(|row| cells(row, times(row)));
        let mut view = OutputView::new().table("Validations", &headers, rows);
        if !attachments.is_empty() {
            let rows = attachments
                .iter()
                .take(DEFAULT_ROWS)
                .map(view::attachment_row);
            view = view.table("Attachments", &view::ATTACHMENT_HEADERS, rows);
        }
        let number = i64::try_from(listed.len()).unwrap_or(i64::MAX);
        let said = format!("{} listed", format_count(number, "validation"));
        let answer = CommandAnswer::new(data, view).with_message(MessageLevel::Info, said);
        match all.len() - seen.len() {
            0 if all.is_empty() => {
                answer.with_message(MessageLevel::Hint, "agents validation add --config FILE")
            }
            0 => answer,
            more => {
                let text = format!("{more} more: use --limit {}", all.len());
                answer.with_message(MessageLevel::Hint, text)
            }
        }
    }
}

fn cells(row: &ValidationRow, attached: usize) -> Vec<ViewCell> {
    let validation = &row.validation;
    let runs = match &validation.source {
        ValidationSource::Run(_) => "a command".to_owned(),
        ValidationSource::Wraps(wrapped) => wrapped.tool.to_string(),
    };
    let attached = match attached {
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
