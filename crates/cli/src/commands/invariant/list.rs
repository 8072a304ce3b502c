//! `agents invariant list`

use clap::Args;
use cleveragents_domain::{Invariant, NamespacedName, Scope};
use cleveragents_engine::invariants::{Effective, Whom};
use serde_json::{Value, json};

use super::view;
use crate::commands::Context;
use crate::failure::Failure;
use crate::output::{Answer, Cell, Level, View, counted};
use crate::typed::PlanArgument;
use crate::wiring::Wired;

/// How many rows people see unless they ask for another number.
const SHOWN: usize = 100;

/// List rules, the newest first, or what holds for a project or plan
///
/// With --effective, what holds after reconciliation, the strongest first, and which rules do not
/// count because a stronger one says the same. Rules written into the action, and those given
/// when a plan was made, are among them; they have no id.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents invariant list
  agents invariant list --project local/shop
  agents invariant list --effective --project local/shop --action local/lint
  agents invariant list --effective --plan 7XK2M9QD")]
pub struct List {
    /// What holds, instead of what was added; needs --project or --plan
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

impl List {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        if !self.effective && self.project.is_some() && self.action.is_some() {
            return Err(Failure::usage("--project and --action name two scopes")
                .because("a rule belongs to one scope; together they mean what holds for both")
                .hint("agents invariant list --effective --project PROJECT --action ACTION"));
        }
        if self.effective && self.project.is_none() && self.plan.is_none() {
            return Err(Failure::usage("--effective needs --project or --plan")
                .because("what holds depends on the project and the plan")
                .hint("agents invariant list --effective --project PROJECT"));
        }
        let wiring = context.wiring()?;
        let wired = wiring.open_to_read()?;
        let named = |failure| view::with_lists(failure, self.project.as_ref());
        match self.effective {
            true => self.effective(&wired).map_err(named),
            false => self.added(&wired).map_err(named),
        }
    }

    fn added(&self, wired: &Wired<'_>) -> Result<Answer, Failure> {
        let scope = match (&self.project, &self.action, &self.plan) {
            (Some(name), _, _) => Some(Scope::Project(name.clone())),
            (_, Some(name), _) => Some(Scope::Action(name.clone())),
            (_, _, Some(plan)) => Some(view::plan_scope(plan, wired)?),
            _ => self.global.then_some(Scope::Global),
        };
        let rules = wired.wait(wired.invariants().list(scope.clone()))?;
        let listed = &rules[..rules.len().min(self.limit.unwrap_or(usize::MAX))];
        let seen = &rules[..rules.len().min(self.limit.unwrap_or(SHOWN))];
        let data = json!({
            "invariants": listed.iter().map(view::data).collect::<Vec<Value>>(),
            "filters": filters(scope.as_ref()),
            "summary": {"total": rules.len()},
        });
        let view = View::new().table("Invariants", &view::HEADERS, seen.iter().map(view::row));
        Ok(self.told(Answer::new(data, view), &rules, seen.len(), listed.len()))
    }

    fn told(&self, answer: Answer, rules: &[Invariant], seen: usize, listed: usize) -> Answer {
        let number = i64::try_from(listed).unwrap_or(i64::MAX);
        let answer = answer.say(
            Level::Info,
            format!("{} listed", counted(number, "invariant")),
        );
        match rules.len() - seen {
            0 if rules.is_empty() => answer.say(Level::Hint, "agents invariant add TEXT"),
            0 => answer,
            more => {
                let all = rules.len();
                let text = format!("{more} more: repeat it with --limit {all}");
                answer.say(Level::Hint, text)
            }
        }
    }

    fn effective(&self, wired: &Wired<'_>) -> Result<Answer, Failure> {
        let whom = match &self.plan {
            Some(plan) => {
                let plan = wired.wait(wired.lifecycle().find_plan(plan.0.clone()))?;
                Whom::Plan(plan.identity.plan_id)
            }
            None => Whom::Plans {
                projects: self.project.iter().cloned().collect(),
                action: self.action.clone(),
            },
        };
        let effective = wired.wait(wired.invariants().effective(whom.clone()))?;
        Ok(self.effective_answer(&effective, &whom))
    }

    fn effective_answer(&self, effective: &Effective, whom: &Whom) -> Answer {
        let holding = &effective.rules;
        let listed = &holding[..holding.len().min(self.limit.unwrap_or(usize::MAX))];
        let seen = &holding[..holding.len().min(self.limit.unwrap_or(SHOWN))];
        let shadowed = effective.shadowed.iter().map(|shadowed| {
            let mut data = view::rule_data(&shadowed.rule);
            data["shadowed_by"] = view::rule_data(&holding[shadowed.by]);
            data
        });
        let (project, action, plan) = match whom {
            Whom::Plan(plan) => (None, None, Some(*plan)),
            Whom::Plans { projects, action } => (projects.first(), action.as_ref(), None),
        };
        let data = json!({
            "invariants": listed.iter().map(view::rule_data).collect::<Vec<Value>>(),
            "shadowed": shadowed.collect::<Vec<Value>>(),
            "filters": {"effective": true, "project": project, "action": action, "plan": plan},
            "summary": {"total": holding.len(), "shadowed": effective.shadowed.len()},
        });
        let rows = seen.iter().map(view::rule_row);
        let mut view = View::new().table("What holds, the strongest first", &view::HEADERS, rows);
        if !effective.shadowed.is_empty() {
            let headers = ["id", "scope", "for", "rule", "shadowed by"];
            let rows = effective.shadowed.iter().take(SHOWN).map(|shadowed| {
                let by = &holding[shadowed.by].invariant.scope;
                let by = format!("{} {}", by.kind(), view::target(by));
                let mut row = view::rule_row(&shadowed.rule);
                row.push(Cell::from(by.trim_end()));
                row
            });
            view = view.table("Shadowed", &headers, rows);
        }
        let number = i64::try_from(listed.len()).unwrap_or(i64::MAX);
        let said = format!("{} in effect", counted(number, "invariant"));
        let answer = Answer::new(data, view).say(Level::Info, said);
        match holding.len() - seen.len() {
            0 => answer,
            more => answer.say(
                Level::Hint,
                format!("{more} more: repeat it with --limit {}", holding.len()),
            ),
        }
    }
}

fn filters(scope: Option<&Scope>) -> Value {
    json!({
        "effective": false,
        "scope": scope.map(Scope::kind),
        "target": scope.and_then(Scope::target),
    })
}
