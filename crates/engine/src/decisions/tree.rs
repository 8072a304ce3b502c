//! The decisions of a plan as a tree in reading order. Nothing here is recursive, because a tree
//! may be very deep.

use std::collections::HashMap;

use cleveragents_domain::id::{DecisionId, PlanId};
use cleveragents_domain::strategy::StrategyRecord;
use cleveragents_domain::{Decision, Plan};

use super::DecisionService;
use super::error::Result;
use super::impact::PlanDecisions;
use cleveragents_ports::{StoreError, Transaction};

/// Whether superseded decisions are included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SupersededVisibility {
    Shown,
    Hidden,
}

#[derive(Debug, Clone, PartialEq)]
pub struct DecisionTree {
    pub plan: Plan,
    /// Parents before their children, siblings in the order of decision.
    pub nodes: Vec<TreeNode>,
    /// Number of superseded decisions, included or not.
    pub superseded: usize,
    /// The child plans of the included decisions, with their state; deleted ones are left out.
    pub child_plans: Vec<Plan>,
    /// The current strategy, if there is one and its decision is not superseded.
    pub strategy: Option<StrategyRecord>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct TreeNode {
    pub decision: Decision,
    /// 0 for a root.
    pub depth: usize,
    /// The parent in the tree: the decision's parent, or its nearest included ancestor.
    pub parent: Option<DecisionId>,
}

impl DecisionService {
    pub async fn tree(
        &self,
        plan: PlanId,
        superseded: SupersededVisibility,
    ) -> Result<DecisionTree> {
        self.store
            .read(move |tx| load_tree(tx, plan, superseded))
            .await
    }
}

fn load_tree(
    tx: &mut dyn Transaction,
    plan: PlanId,
    visibility: SupersededVisibility,
) -> Result<DecisionTree> {
    let plan = tx.plan(plan)?;
    let plan_decisions = PlanDecisions::read(tx, plan.identity.plan_id)?;
    let superseded = plan_decisions
        .decisions
        .iter()
        .filter(|it| it.is_superseded)
        .count();
    // A strategy whose decision was superseded is no longer current.
    let strategy = tx.newest_strategy(plan.identity.plan_id)?.filter(|it| {
        let chose = |decision: &&Decision| decision.decision_id == it.decision_id;
        let chosen = plan_decisions.decisions.iter().find(chose);
        chosen.is_some_and(|decision| !decision.is_superseded)
    });
    let nodes = build_nodes(plan_decisions.decisions, visibility);
    let mut child_plans = Vec::new();
    for id in nodes
        .iter()
        .flat_map(|node| &node.decision.downstream_plan_ids)
    {
        match tx.plan(*id) {
            Ok(child) => child_plans.push(child),
            Err(StoreError::NotFound { .. }) => {}
            Err(other) => return Err(other.into()),
        }
    }
    Ok(DecisionTree {
        plan,
        nodes,
        superseded,
        child_plans,
        strategy,
    })
}

/// Builds the tree from decisions in sequence order.
fn build_nodes(decisions: Vec<Decision>, visibility: SupersededVisibility) -> Vec<TreeNode> {
    // A parent is decided before its children, so it is already known.
    let mut visible_as: HashMap<DecisionId, Option<DecisionId>> = HashMap::new();
    let mut children: HashMap<Option<DecisionId>, Vec<Decision>> = HashMap::new();
    for decision in decisions {
        let above = decision
            .parent_decision_id
            .and_then(|parent| visible_as.get(&parent).copied().flatten());
        let hidden = visibility == SupersededVisibility::Hidden && decision.is_superseded;
        let own = if hidden {
            above
        } else {
            Some(decision.decision_id)
        };
        visible_as.insert(decision.decision_id, own);
        if !hidden {
            children.entry(above).or_default().push(decision);
        }
    }
    let mut open: Vec<TreeNode> = take_children(&mut children, None, 0);
    let mut nodes = Vec::new();
    while let Some(node) = open.pop() {
        let id = Some(node.decision.decision_id);
        open.extend(take_children(&mut children, id, node.depth + 1));
        nodes.push(node);
    }
    nodes
}

/// Returns the children of `parent`, last one first, ready for a stack.
fn take_children(
    children: &mut HashMap<Option<DecisionId>, Vec<Decision>>,
    parent: Option<DecisionId>,
    depth: usize,
) -> Vec<TreeNode> {
    let found = children.remove(&parent).unwrap_or_default();
    let node = |decision| TreeNode {
        decision,
        depth,
        parent,
    };
    found.into_iter().rev().map(node).collect()
}
