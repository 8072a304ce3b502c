//! `agents plan tree`

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use cleveragents_domain::strategy::{StrategyRecord, StrategyStep};
use cleveragents_domain::{Decision, DecisionType, Plan};
use cleveragents_engine::decisions::{DecisionTree, SupersededVisibility, TreeNode};
use serde_json::{Map, Value, json};

use super::{confidence, headline};
use crate::argument_types::PlanArgument;
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, MessageLevel, OutputView, Tone, TreeRow, ViewCell};

/// Deeper levels are only in `nodes`: JSON parsers have a depth limit (often 128), and a level of
/// the tree takes two.
const DEEPEST_NESTED: usize = 50;

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
    /// The plan: its id, at least four characters of either end of it, or its name
    #[arg(value_name = "PLAN")]
    plan: PlanArgument,

    /// Also show superseded decisions
    #[arg(long)]
    show_superseded: bool,
}

impl PlanTreeArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let superseded = if self.show_superseded {
            SupersededVisibility::Shown
        } else {
            SupersededVisibility::Hidden
        };
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open_to_read()?;
        let tree = app.block_on(async {
            let plan = app.lifecycle().find_plan(self.plan.0.clone()).await?;
            let decisions = app.decisions();
            let tree = decisions.tree(plan.identity.plan_id, superseded).await?;
            Ok::<_, CommandFailure>(tree)
        })?;
        Ok(answer(&tree, superseded))
    }
}

fn answer(tree: &DecisionTree, superseded: SupersededVisibility) -> CommandAnswer {
    let plan = &tree.plan;
    let summary = DecisionTreeSummary::of(tree);
    let data = json!({
        "plan_id": plan.identity.plan_id,
        "tree": nested_data(&tree.nodes),
        "nodes": tree.nodes.iter().map(node_data).collect::<Vec<_>>(),
        "summary": {
            "nodes": summary.nodes,
            "depth": summary.depth,
            "child_plans": tree.child_plans.len(),
            "invariants": summary.invariants,
            "superseded": tree.superseded,
        },
        "child_plans": tree.child_plans.iter().map(child_plan).collect::<Vec<_>>(),
        "strategy": tree.strategy.as_ref().map(strategy_data),
        "decision_ids": decision_ids(tree),
    });
    let answer = CommandAnswer::new(data, view(tree, &summary));
    if superseded == SupersededVisibility::Hidden && tree.superseded > 0 {
        answer.with_message(
            MessageLevel::Hint,
            format!(
                "agents plan tree {} --show-superseded",
                plan.identity.plan_id.short()
            ),
        )
    } else {
        answer
    }
}

struct DecisionTreeSummary {
    nodes: usize,
    /// The number of levels.
    depth: usize,
    /// The number of effective rules; one that was decided again for a later phase counts once.
    invariants: usize,
}

impl DecisionTreeSummary {
    fn of(tree: &DecisionTree) -> Self {
        let rule = |node: &&TreeNode| {
            node.decision.decision_type == DecisionType::InvariantEnforced
                && !node.decision.is_superseded
        };
        let rules = tree.nodes.iter().filter(rule);
        let texts: BTreeSet<&str> = rules.map(|it| it.decision.chosen_option.as_str()).collect();
        let levels = tree.nodes.iter().map(|node| node.depth + 1);
        Self {
            nodes: tree.nodes.len(),
            depth: levels.max().unwrap_or(0),
            invariants: texts.len(),
        }
    }
}

fn view(tree: &DecisionTree, summary: &DecisionTreeSummary) -> OutputView {
    let plan = &tree.plan;
    let rows = [
        ("plan", ViewCell::new(plan.name.to_string(), Tone::Strong)),
        ("id", plan.identity.plan_id.to_string().into()),
        ("at", plan.position.to_string().into()),
        ("attempt", plan.attempt.to_string().into()),
    ];
    let counts = [
        ("decisions", summary.nodes),
        ("levels", summary.depth),
        ("child plans", tree.child_plans.len()),
        ("invariants", summary.invariants),
        ("superseded", tree.superseded),
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
        Some(record) => show_strategy(view, record),
    };
    if tree.child_plans.is_empty() {
        view
    } else {
        view.table(
            "Child Plans",
            &["id", "at"],
            tree.child_plans.iter().map(|child| {
                vec![
                    child.identity.plan_id.short().into(),
                    child.position.to_string().into(),
                ]
            }),
        )
    }
}

fn show_strategy(view: OutputView, record: &StrategyRecord) -> OutputView {
    let approved = match &record.approved_by {
        Some(by) => ViewCell::new(format!("by {by}"), Tone::Good),
        None => ViewCell::new("not yet", Tone::Doubtful),
    };
    let rows = [
        ("summary", ViewCell::from(record.strategy.summary.clone())),
        ("hash", ViewCell::new(record.hash.clone(), Tone::Faint)),
        ("approved", approved),
    ];
    let steps = record.strategy.steps.iter().zip(1..);
    let steps = steps.map(|(step, number): (&StrategyStep, u32)| {
        vec![number.to_string().into(), step.title.clone().into()]
    });
    view.panel("Strategy", rows)
        .table("Steps", &["step", "title"], steps)
}

fn strategy_data(record: &StrategyRecord) -> Value {
    json!({
        "number": record.number,
        "hash": record.hash,
        "decision_id": record.decision_id,
        "summary": record.strategy.summary,
        "steps": record.strategy.steps,
        "approved_by": record.approved_by,
        "approved_at": record.approved_at,
    })
}

/// Returns a decision as a line of the tree.
pub(crate) fn tree_row(node: &TreeNode) -> TreeRow {
    let decision = &node.decision;
    let mut cells = vec![
        ViewCell::new(decision.decision_type.as_str(), Tone::Strong),
        ViewCell::new(decision.decision_id.short(), Tone::Faint),
        headline(decision).into(),
    ];
    cells.extend(confidence(decision));
    if decision.is_correction {
        cells.push(ViewCell::new("(correction)", Tone::Good));
    }
    if decision.is_superseded {
        cells.push(ViewCell::new("(superseded)", Tone::Doubtful));
    }
    TreeRow {
        depth: node.depth,
        cells,
    }
}

/// Returns the fields that the flat and the nested form share.
fn node_fields(decision: &Decision) -> Map<String, Value> {
    let mut node = Map::new();
    let mut say = |key: &str, value: Value| node.insert(key.to_owned(), value);
    say("id", json!(decision.decision_id));
    say("type", json!(decision.decision_type));
    say("question", json!(decision.question));
    say("description", json!(decision.chosen_option));
    say("alternatives", json!(decision.alternatives_considered));
    say("sequence", json!(decision.sequence_number));
    say("superseded", json!(decision.is_superseded));
    say("correction", json!(decision.is_correction));
    if let Some(score) = decision.confidence_score {
        say("confidence", json!(score));
    }
    if let Some(plan) = decision.downstream_plan_ids.first() {
        say("plan_id", json!(plan));
    }
    node
}

/// Returns a decision for JSON output, in the flat form.
pub(crate) fn node_data(node: &TreeNode) -> Value {
    let mut flat = node_fields(&node.decision);
    flat.insert("parent_id".to_owned(), json!(node.parent));
    flat.insert("depth".to_owned(), json!(node.depth));
    Value::Object(flat)
}

/// Returns the first root with its descendants down to a limited depth. A node whose children are
/// left out has the number of decisions below it.
fn nested_data(nodes: &[TreeNode]) -> Value {
    // For each level, the node whose children are being collected.
    let mut path: Vec<Map<String, Value>> = Vec::new();
    for (number, node) in nodes.iter().enumerate() {
        if number > 0 && node.depth == 0 {
            break;
        }
        if node.depth > DEEPEST_NESTED {
            if let Some(deepest) = path.last_mut() {
                let hidden = deepest.get("deeper").and_then(Value::as_u64).unwrap_or(0);
                deepest.insert("deeper".to_owned(), json!(hidden + 1));
            }
            continue;
        }
        fold_to(&mut path, node.depth);
        let mut own = node_fields(&node.decision);
        own.insert("children".to_owned(), json!([]));
        path.push(own);
    }
    fold_to(&mut path, 1);
    path.pop().map_or(Value::Null, Value::Object)
}

/// Moves finished nodes into their parents until `levels` levels are open.
fn fold_to(path: &mut Vec<Map<String, Value>>, levels: usize) {
    while path.len() > levels.max(1) {
        let Some(done) = path.pop() else { return };
        let parent = path.last_mut().and_then(|it| it.get_mut("children"));
        if let Some(Value::Array(children)) = parent {
            children.push(Value::Object(done));
        }
    }
}

fn child_plan(plan: &Plan) -> Value {
    json!({
        "id": plan.identity.plan_id,
        "phase": plan.position.phase(),
        "state": plan.position.state(),
    })
}

/// Returns a name for each decision, in the order in which they were made.
fn decision_ids(tree: &DecisionTree) -> Map<String, Value> {
    let mut decisions: Vec<&Decision> = tree.nodes.iter().map(|node| &node.decision).collect();
    decisions.sort_by_key(|decision| decision.sequence_number);
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut ids = Map::new();
    for decision in decisions {
        let number = counts.entry(decision.decision_type.as_str()).or_default();
        *number += 1;
        let name = match (decision.decision_type, *number) {
            (DecisionType::PromptDefinition, 1) => "root".to_owned(),
            (DecisionType::StrategyChoice, 1) => "strategy".to_owned(),
            (DecisionType::StrategyChoice, number) => format!("strategy_{number}"),
            (DecisionType::InvariantEnforced, number) => format!("invariant_{number}"),
            (other, number) => format!("{other}_{number}"),
        };
        ids.insert(name, json!(decision.decision_id));
    }
    ids
}
