//! `agents invariant add`

use clap::Args;
use cleveragents_domain::id::InvariantId;
use cleveragents_domain::{Invariant, InvariantScope, NamespacedName};
use cleveragents_engine::invariants::{NewRule, RuleError};
use cleveragents_ports::StoreError;
use serde_json::{Value, json};

use super::view;
use crate::argument_types::PlanArgument;
use crate::bootstrap::AppContext;
use crate::commands::CommandContext;
use crate::failure::{CommandFailure, ExitCode, excerpt};
use crate::output::{CommandAnswer, MessageLevel, OutputView, format_count};

/// Add a rule that plans must keep
///
/// Without a scope the rule is global. --action and --plan may be repeated: the rule is added for
/// each of them, or for none if one fails. A plan applies a new rule from its next phase on.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents invariant add Never-push
  agents invariant add --global --non-overridable Never-push
  agents invariant add --project local/shop Keep-the-public-interface
  agents invariant add --action local/lint --action local/tidy Change-no-tests
  agents invariant add --plan 7XK2M9QD Leave-the-docs-alone")]
pub struct InvariantAddArgs {
    /// The rule, in a sentence
    #[arg(value_name = "TEXT")]
    text: String,

    /// For every plan; the default
    #[arg(long, conflicts_with_all = ["project", "action", "plan"])]
    global: bool,

    /// No narrower scope may replace it
    #[arg(long, conflicts_with_all = ["project", "action", "plan"])]
    non_overridable: bool,

    /// For the plans of this project
    #[arg(short, long, value_name = "PROJECT", conflicts_with_all = ["action", "plan"])]
    project: Option<NamespacedName>,

    /// For the plans of this action, registered or not; may be repeated
    #[arg(long, value_name = "ACTION", conflicts_with = "plan")]
    action: Vec<NamespacedName>,

    /// For this plan; may be repeated
    #[arg(long, value_name = "PLAN")]
    plan: Vec<PlanArgument>,
}

impl InvariantAddArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open()?;
        let named = |failure| view::with_list_hints(failure, self.project.as_ref());
        let scopes = self.scopes(&app).map_err(named)?;
        let new = NewRule {
            text: app.mask_secrets(self.text.trim())?,
            scopes,
            non_overridable: self.non_overridable,
        };
        let service = app.invariants();
        let added = app.block_on(service.add(new, app.actor()));
        let added = added.map_err(|error| named(add_failure(error)))?;
        Ok(self.answer(&added))
    }

    fn scopes(&self, app: &AppContext<'_>) -> Result<Vec<InvariantScope>, CommandFailure> {
        let mut scopes: Vec<InvariantScope> = self
            .action
            .iter()
            .cloned()
            .map(InvariantScope::Action)
            .collect();
        scopes.extend(self.project.iter().cloned().map(InvariantScope::Project));
        for plan in &self.plan {
            scopes.push(view::plan_scope(plan, app)?);
        }
        if scopes.is_empty() {
            scopes.push(InvariantScope::Global);
        }
        Ok(scopes)
    }

    fn answer(&self, added: &[Invariant]) -> CommandAnswer {
        let data: Vec<Value> = added.iter().map(view::data).collect();
        let number = i64::try_from(added.len()).unwrap_or(i64::MAX);
        let said = match added {
            [one] if one.non_overridable => {
                "Invariant added for every plan, non-overridable".into()
            }
            [one] if one.scope == InvariantScope::Global => "Invariant added for every plan".into(),
            [one] => {
                let (kind, target) = (one.scope.kind(), view::target(&one.scope));
                format!("Invariant added for the {kind} {target}")
            }
            _ => format!("{} added", format_count(number, "invariant")),
        };
        let rows = added.iter().map(view::row);
        let view = OutputView::new().table("Added", &view::HEADERS, rows);
        CommandAnswer::new(json!({"invariants": data}), view)
            .with_message(MessageLevel::Info, said)
            .with_message(MessageLevel::Hint, "agents invariant list")
    }
}

/// Adds the existing rule to the failure for the same text in the same scope.
fn add_failure(error: RuleError) -> CommandFailure {
    match error {
        RuleError::Store(StoreError::Taken { name, holder, .. }) => {
            let what = format!("this rule already exists: `{}`", excerpt(name.trim()));
            let mut failure = CommandFailure::new(ExitCode::Conflict, what)
                .kind("taken")
                .because("a scope has each rule once; case and spaces are ignored")
                .hint("agents invariant list");
            if let Ok(id) = holder.parse::<InvariantId>() {
                failure = failure.hint(format!("agents invariant remove {}", id.short()));
            }
            failure.with("invariant_id", holder.into())
        }
        other => other.into(),
    }
}
