//! `agents invariant list`

use clap::Args;
use cleveragents_domain::{Invariant, InvariantScope, NamespacedName};
use cleveragents_engine::invariants::{EffectiveRules, InvariantTarget};
use serde_json::{Value, json};

use super::view;
use crate::argument_types::PlanArgument;
use crate::bootstrap::AppContext;
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, MessageLevel, OutputView, ViewCell, format_count};

/// Default limit for the number of rows.
const DEFAULT_ROWS: usize = 100;

/// List rules, newest first, or the effective rules of a project or plan
///
/// With --effective, show the rules that apply, highest priority first, and which rules are
/// overridden by a stronger one. This includes rules from the action and those given when a plan
/// was created; they have no id.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents invariant list
  agents invariant list --project local/shop
  agents invariant list --effective --project local/shop --action local/lint
  agents invariant list --effective --plan 7XK2M9QD")]
pub struct InvariantListArgs {
    /// Show the effective rules; needs --project or --plan
    #[arg(long, conflicts_with = "global")]
    effective: bool,

    /// Only global rules
    #[arg(long, conflicts_with_all = ["project", "action", "plan"])]
    global: bool,

    /// Only rules of this project
    #[arg(short, long, value_name = "PROJECT", conflicts_with = "plan")]
    project: Option<NamespacedName>,

    /// Only rules of this action
    #[arg(long, value_name = "ACTION", conflicts_with = "plan")]
    action: Option<NamespacedName>,

    /// Only rules of this plan
    #[arg(long, value_name = "PLAN")]
    plan: Option<PlanArgument>,

    /// List at most this many
    #[arg(long, value_name = "NUMBER")]
    limit: Option<usize>,
}

impl InvariantListArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        if !self.effective && self.project.is_some() && self.action.is_some() {
            return Err(
                CommandFailure::usage("--project and --action name two scopes")
                    .because("a rule belongs to one scope; to combine scopes use --effective")
                    .hint("agents invariant list --effective --project PROJECT --action ACTION"),
            );
        }
        if self.effective && self.project.is_none() && self.plan.is_none() {
            return Err(
                CommandFailure::usage("--effective needs --project or --plan")
                    .because("the effective rules depend on the project and the plan")
                    .hint("agents invariant list --effective --project PROJECT"),
            );
        }
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open_to_read()?;
        let named = |failure| view::with_list_hints(failure, self.project.as_ref());
        if self.effective {
            self.list_effective(&app).map_err(named)
        } else {
            self.list_added(&app).map_err(named)
        }
    }

    fn list_added(&self, app: &AppContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let scope = match (&self.project, &self.action, &self.plan) {
            (Some(name), _, _) => Some(InvariantScope::Project(name.clone())),
            (_, Some(name), _) => Some(InvariantScope::Action(name.clone())),
            (_, _, Some(plan)) => Some(view::plan_scope(plan, app)?),
            _ => self.global.then_some(InvariantScope::Global),
        };
        let rules = app.block_on(app.invariants().list(scope.clone()))?;
        let listed = &rules[..rules.len().min(self.limit.unwrap_or(usize::MAX))];
        let seen = &rules[..rules.len().min(self.limit.unwrap_or(DEFAULT_ROWS))];
        let data = json!({
            "invariants": listed.iter().map(view::data).collect::<Vec<Value>>(),
            "filters": filters(scope.as_ref()),
            "summary": {"total": rules.len()},
        });
        let view =
            OutputView::new().table("Invariants", &view::HEADERS, seen.iter().map(view::row));
        Ok(self.add_messages(
            CommandAnswer::new(data, view),
            &rules,
            seen.len(),
            listed.len(),
        ))
    }

    fn add_messages(
        &self,
        answer: CommandAnswer,
        rules: &[Invariant],
        seen: usize,
        listed: usize,
    ) -> CommandAnswer {
        let number = i64::try_from(listed).unwrap_or(i64::MAX);
        let answer = answer.with_message(
            MessageLevel::Info,
            format!("{} listed", format_count(number, "invariant")),
        );
        match rules.len() - seen {
            0 if rules.is_empty() => {
                answer.with_message(MessageLevel::Hint, "agents invariant add TEXT")
            }
            0 => answer,
            more => {
                let all = rules.len();
                let text = format!("{more} more: use --limit {all}");
                answer.with_message(MessageLevel::Hint, text)
            }
        }
    }

    fn list_effective(&self, app: &AppContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let target = match &self.plan {
            Some(plan) => {
                let plan = app.block_on(app.lifecycle().find_plan(plan.0.clone()))?;
                InvariantTarget::Plan(plan.identity.plan_id)
            }
            None => InvariantTarget::FuturePlans {
                projects: self.project.iter().cloned().collect(),
                action: self.action.clone(),
            },
        };
        let effective = app.block_on(app.invariants().effective_rules(target.clone()))?;
        Ok(self.effective_answer(&effective, &target))
    }

    fn effective_answer(
        &self,
        effective: &EffectiveRules,
        target: &InvariantTarget,
    ) -> CommandAnswer {
        let holding = &effective.rules;
        let listed = &holding[..holding.len().min(self.limit.unwrap_or(usize::MAX))];
        let seen = &holding[..holding.len().min(self.limit.unwrap_or(DEFAULT_ROWS))];
        let shadowed = effective.shadowed.iter().map(|shadowed| {
            let mut data = view::rule_data(&shadowed.rule);
            data["shadowed_by"] = view::rule_data(&holding[shadowed.shadowed_by]);
            data
        });
        let (project, action, plan) = match target {
            InvariantTarget::Plan(plan) => (None, None, Some(*plan)),
            InvariantTarget::FuturePlans { projects, action } => {
                (projects.first(), action.as_ref(), None)
            }
        };
        let data = json!({
            "invariants": listed.iter().map(view::rule_data).collect::<Vec<Value>>(),
            "shadowed": shadowed.collect::<Vec<Value>>(),
            "filters": {"effective": true, "project": project, "action": action, "plan": plan},
            "summary": {"total": holding.len(), "shadowed": effective.shadowed.len()},
        });
        let rows = seen.iter().map(view::rule_row);
        let mut view = OutputView::new().table(
            "Effective rules, highest priority first",
            &view::HEADERS,
            rows,
        );
        if !effective.shadowed.is_empty() {
            let headers = ["id", "scope", "for", "rule", "shadowed by"];
            let rows = effective
                .shadowed
                .iter()
                .take(DEFAULT_ROWS)
                .map(|shadowed| {
                    let by = &holding[shadowed.shadowed_by].invariant.scope;
                    let by = format!("{} {}", by.kind(), view::target(by));
                    let mut row = view::rule_row(&shadowed.rule);
                    row.push(ViewCell::from(by.trim_end()));
                    row
                });
            view = view.table("Shadowed", &headers, rows);
        }
        let number = i64::try_from(listed.len()).unwrap_or(i64::MAX);
        let said = format!("{} in effect", format_count(number, "invariant"));
        let answer = CommandAnswer::new(data, view).with_message(MessageLevel::Info, said);
        match holding.len() - seen.len() {
            0 => answer,
            more => answer.with_message(
                MessageLevel::Hint,
                format!("{more} more: use --limit {}", holding.len()),
            ),
        }
    }
}

fn filters(scope: Option<&InvariantScope>) -> Value {
    json!({
        "effective": false,
        "scope": scope.map(InvariantScope::kind),
        "target": scope.and_then(InvariantScope::target),
    })
}
