//! `agents plan tree`

use clap::Args;
use cleveragents_api::plan::PlanTree;
use cleveragents_api::plan::tree::{CurrentStrategy, PlanTreeAnswer, TreeDecision};
use cleveragents_domain::strategy::StrategyStep;

use super::headline;
use crate::argument_types::{PLAN_HELP, PlanArgument};
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, OutputView, Tone, TreeRow, ViewCell};

/// Show a plan's decisions as a tree
///
/// Each line has the type of the decision, its id, the chosen option and the confidence. Superseded
/// decisions are hidden unless --show-superseded is given. Below the tree are the strategy with its
/// steps, and the hash by which it is approved.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents plan tree 00abcdef
  agents plan tree local/fix-all-00abcdef --show-superseded
  agents plan tree 00abcdef --format json | jq .data.summary")]
pub struct PlanTreeArgs {
    #[arg(value_name = "PLAN", help = PLAN_HELP)]
    plan: PlanArgument,

    /// Also show superseded decisions
    #[arg(long)]
    show_superseded: bool,
}

impl PlanTreeArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let reply = context.call_for_plan(&self.plan, |plan| PlanTree {
            plan,
            show_superseded: self.show_superseded,
        })?;
        CommandAnswer::from_reply(reply, view)
    }
}

fn view(tree: &PlanTreeAnswer) -> OutputView {
    let rows = [
        ("plan", ViewCell::new(tree.name.to_string(), Tone::Strong)),
        ("id", tree.plan_id.to_string().into()),
        ("at", format!("{}/{}", tree.phase, tree.state).into()),
        ("attempt", tree.attempt.to_string().into()),
    ];
    let summary = &tree.summary;
    let counts = [
        ("decisions", summary.nodes),
        ("levels", summary.depth),
        ("child plans", summary.child_plans),
        ("invariants", summary.invariants),
        ("superseded", summary.superseded),
    ];
    let view = OutputView::new()
        .panel("Plan", rows)
        .tree("Decision Tree", tree.nodes.iter().map(tree_row))
        .panel(
            "Summary",
            counts.map(|(name, number)| (name, number.to_string())),
        );
    let view = match &tree.strategy {
        None => view,
        Some(strategy) => show_strategy(view, strategy),
    };
    if tree.child_plans.is_empty() {
        view
    } else {
        let rows = tree.child_plans.iter().map(|child| {
            let at = format!("{}/{}", child.phase, child.state);
            vec![child.id.short().into(), at.into()]
        });
        view.table("Child Plans", &["id", "at"], rows)
    }
}

fn show_strategy(view: OutputView, strategy: &CurrentStrategy) -> OutputView {
    let approved = match &strategy.approved_by {
        Some(by) => ViewCell::new(format!("by {by}"), Tone::Good),
        None => ViewCell::new("not yet", Tone::Doubtful),
    };
    let rows = [
        ("summary", ViewCell::from(strategy.summary.clone())),
        ("hash", ViewCell::new(strategy.hash.clone(), Tone::Faint)),
        ("approved", approved),
    ];
    let steps = strategy.steps.iter().zip(1..);
    let steps = steps.map(|(step, number): (&StrategyStep, u32)| {
        vec![number.to_string().into(), step.title.clone().into()]
    });
    view.panel("Strategy", rows)
        .table("Steps", &["step", "title"], steps)
}

/// Returns a decision as a line of the tree.
pub(crate) fn tree_row(node: &TreeDecision) -> TreeRow {
    let decision = &node.decision;
    let mut cells = vec![
        ViewCell::new(decision.decision_type.as_str(), Tone::Strong),
        ViewCell::new(decision.id.short(), Tone::Faint),
        headline(&decision.description).into(),
    ];
    cells.extend(
        decision
            .confidence
            .map(|score| ViewCell::from(format!("{:.2}", score.value()))),
    );
    if decision.correction {
        cells.push(ViewCell::new("(correction)", Tone::Good));
    }
    if decision.superseded {
        cells.push(ViewCell::new("(superseded)", Tone::Doubtful));
    }
    TreeRow {
        depth: node.depth,
        cells,
    }
}
