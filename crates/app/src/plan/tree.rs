//! `plan.tree`

use std::collections::{BTreeMap, BTreeSet};

use cleveragents_api::plan::PlanTree;
use cleveragents_api::plan::tree::{
    ChildPlan, CurrentStrategy, DecisionFacts, NestedDecision, PlanTreeAnswer, TreeCounts,
    TreeDecision,
};
use cleveragents_api::{NextStep, Reply};
use cleveragents_domain::id::DecisionId;
use cleveragents_domain::strategy::StrategyRecord;
use cleveragents_domain::{Decision, DecisionType, Plan};
use cleveragents_engine::decisions::{DecisionTree, SupersededVisibility, TreeNode};

use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;

/// Deeper levels are only in `nodes`: JSON parsers have a depth limit (often 128), and a level of
/// the tree takes two.
const DEEPEST_NESTED: usize = 50;

impl Handler<PlanTree> for App {
    async fn handle(
        &self,
        request: PlanTree,
        _: &Caller,
    ) -> Result<Reply<PlanTreeAnswer>, RequestError> {
        let superseded = if request.show_superseded {
            SupersededVisibility::Shown
        } else {
            SupersededVisibility::Hidden
        };
        let plan = self.services.lifecycle().find_plan(request.plan.0).await?;
        let id = plan.identity.plan_id;
        let tree = self.services.decisions().tree(id, superseded).await?;
        let has_hidden = !request.show_superseded && tree.superseded > 0;
        let reply = Reply::new(answer(tree));
        Ok(if has_hidden {
            let short = id.short();
            let all = NextStep::fill_in::<PlanTree>(&[("plan", &short)]);
            reply.hint(all.with_flag("show_superseded"))
        } else {
            reply
        })
    }
}

fn answer(tree: DecisionTree) -> PlanTreeAnswer {
    let plan = &tree.plan;
    PlanTreeAnswer {
        plan_id: plan.identity.plan_id,
        name: plan.name.clone(),
        phase: plan.position.phase(),
        state: plan.position.state(),
        attempt: plan.attempt,
        tree: nested(&tree.nodes),
        nodes: tree.nodes.iter().map(tree_decision).collect(),
        summary: counts(&tree),
        child_plans: tree.child_plans.iter().map(child_plan).collect(),
        decision_ids: decision_ids(&tree),
        strategy: tree.strategy.map(current_strategy),
    }
}

/// Returns a decision with its place in the tree.
pub fn tree_decision(node: &TreeNode) -> TreeDecision {
    TreeDecision {
        decision: DecisionFacts::from(&node.decision),
        parent_id: node.parent,
        depth: node.depth,
    }
}

fn counts(tree: &DecisionTree) -> TreeCounts {
    let is_rule = |node: &&TreeNode| {
        node.decision.decision_type == DecisionType::InvariantEnforced
            && !node.decision.is_superseded
    };
    let rules = tree.nodes.iter().filter(is_rule);
    let rules: BTreeSet<&str> = rules.map(|it| it.decision.chosen_option.as_str()).collect();
    let levels = tree.nodes.iter().map(|node| node.depth + 1);
    TreeCounts {
        nodes: tree.nodes.len(),
        depth: levels.max().unwrap_or(0),
        child_plans: tree.child_plans.len(),
        invariants: rules.len(),
        superseded: tree.superseded,
    }
}

fn child_plan(plan: &Plan) -> ChildPlan {
    ChildPlan {
        id: plan.identity.plan_id,
        phase: plan.position.phase(),
        state: plan.position.state(),
    }
}

fn current_strategy(record: StrategyRecord) -> CurrentStrategy {
    CurrentStrategy {
        number: record.number,
        hash: record.hash,
        decision_id: record.decision_id,
        summary: record.strategy.summary,
        steps: record.strategy.steps,
        approved_by: record.approved_by.map(|it| it.to_string()),
        approved_at: record.approved_at,
    }
}

/// Returns the first root with its descendants down to a limited depth. A node whose children are
/// left out has the number of decisions below it.
fn nested(nodes: &[TreeNode]) -> Option<NestedDecision> {
    // For each level, the node whose children are being collected.
    let mut path: Vec<NestedDecision> = Vec::new();
    for (number, node) in nodes.iter().enumerate() {
        if number > 0 && node.depth == 0 {
            break;
        }
        if node.depth > DEEPEST_NESTED {
            if let Some(deepest) = path.last_mut() {
                deepest.deeper = Some(deepest.deeper.unwrap_or(0) + 1);
            }
            continue;
        }
        fold_to(&mut path, node.depth);
        path.push(NestedDecision {
            decision: DecisionFacts::from(&node.decision),
            children: Vec::new(),
            deeper: None,
        });
    }
    fold_to(&mut path, 1);
    path.pop()
}

/// Moves finished nodes into their parents until `levels` levels are open.
fn fold_to(path: &mut Vec<NestedDecision>, levels: usize) {
    while path.len() > levels.max(1) {
        let Some(done) = path.pop() else { return };
        if let Some(parent) = path.last_mut() {
            parent.children.push(done);
        }
    }
}

/// Returns a name for each decision, numbered in the order in which they were made.
fn decision_ids(tree: &DecisionTree) -> BTreeMap<String, DecisionId> {
    let mut decisions: Vec<&Decision> = tree.nodes.iter().map(|node| &node.decision).collect();
    decisions.sort_by_key(|decision| decision.sequence_number);
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut ids = BTreeMap::new();
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
        ids.insert(name, decision.decision_id);
    }
    ids
}
