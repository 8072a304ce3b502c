//! `agents diagnostics`: read-only checks; a failed check does not stop the others. `data` checks
//! the storage, `tools` the machine, `settings` the configuration and `providers` the connections
//! to models.

mod data;
mod providers;
mod settings;
mod tools;

use clap::Args;
use serde::Serialize;

use super::CommandContext;
use crate::failure::{CommandFailure, ExitCode};
use crate::next_step;
use crate::output::{CommandAnswer, MessageLevel, OutputView, Tone, ViewCell, format_count};

/// Check data, settings and the machine, and suggest fixes
///
/// Each configured provider of models is asked which models it has, which costs nothing. Exits 1 if
/// a check fails; warnings (no model key, a provider that does not answer, no git identity) exit 0.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents diagnostics
  agents diagnostics --offline
  agents diagnostics --format json")]
pub struct DiagnosticsArgs {
    /// Connect to no provider of models
    #[arg(long)]
    offline: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Health {
    Ok,
    Warning,
    Error,
}

#[derive(Debug, Clone, Serialize)]
struct HealthCheck {
    name: String,
    status: Health,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    /// The time until the answer of a provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u64>,
}

#[derive(Debug, Serialize)]
struct DiagnosticsAnswer<'a> {
    checks: &'a [HealthCheck],
    summary: HealthSummary,
    has_errors: bool,
    has_warnings: bool,
}

/// The number of checks of each status.
#[derive(Debug, Serialize)]
struct HealthSummary {
    errors: i64,
    warnings: i64,
    ok: i64,
}

impl DiagnosticsArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let mut checks = vec![settings::files(context)];
        checks.extend(data::checks(context));
        checks.extend(tools::checks(context));
        checks.push(settings::model_keys(context));
        if !self.offline {
            checks.extend(providers::checks(context));
        }
        checks.push(settings::masked_secrets(context));
        answer(&checks)
    }
}

fn answer(checks: &[HealthCheck]) -> Result<CommandAnswer, CommandFailure> {
    let count = |status| {
        let of_status = checks.iter().filter(|check| check.status == status);
        i64::try_from(of_status.count()).unwrap_or(i64::MAX)
    };
    let (errors, warnings) = (count(Health::Error), count(Health::Warning));
    let data = DiagnosticsAnswer {
        checks,
        summary: HealthSummary {
            errors,
            warnings,
            ok: count(Health::Ok),
        },
        has_errors: errors > 0,
        has_warnings: warnings > 0,
    };
    let rows = checks.iter().map(HealthCheck::row);
    let view = OutputView::new().table("Diagnostics", &["check", "status", "detail"], rows);
    let mut answer = CommandAnswer::new(&data, view)?;
    let sum = format!(
        "{}, {}",
        format_count(errors, "error"),
        format_count(warnings, "warning")
    );
    answer = match (errors, warnings) {
        (0, 0) => answer.with_message(MessageLevel::Info, "no problems found"),
        (0, _) => answer.with_message(MessageLevel::Warn, sum),
        _ => answer
            .with_message(MessageLevel::Error, sum)
            .with_exit_code(ExitCode::Error),
    };
    for check in checks {
        if let Some(hint) = &check.hint {
            answer = answer.with_message(MessageLevel::Hint, format!("{}: {hint}", check.title()));
        }
    }
    Ok(answer)
}

impl HealthCheck {
    fn ok(name: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(name, Health::Ok, detail)
    }

    fn warning(name: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(name, Health::Warning, detail)
    }

    fn error(name: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(name, Health::Error, detail)
    }

    fn new(name: impl Into<String>, status: Health, detail: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            status,
            detail: detail.into(),
            hint: None,
            duration_ms: None,
        }
    }

    /// Converts a failure to a failed check, with its first hint.
    fn from_failure(name: impl Into<String>, failure: &CommandFailure) -> Self {
        let mut check = Self::error(name, failure.to_string());
        check.hint = failure.next_steps.first().map(next_step::render);
        check
    }

    fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Returns the name for people.
    fn title(&self) -> String {
        self.name.replace('_', " ")
    }

    fn row(&self) -> Vec<ViewCell> {
        let (status, tone) = match self.status {
            Health::Ok => ("ok", Tone::Good),
            Health::Warning => ("warning", Tone::Doubtful),
            Health::Error => ("error", Tone::Bad),
        };
        vec![
            self.title().into(),
            ViewCell::new(status, tone),
            ViewCell::from(self.detail.as_str()),
        ]
    }
}
