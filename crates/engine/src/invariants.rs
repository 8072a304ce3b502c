//! Rules that plans must keep: added, removed, listed, and which of them hold.
//!
//! A rule and its event are one commit (law 2). The event of a plan's own rule stands in the
//! plan's stream, of any other in the system's.

use std::collections::HashMap;
use std::sync::Arc;

use cleveragents_domain::id::{IdFragment, InvariantId, PlanId};
use cleveragents_domain::invariant::{InvariantError, reconcile};
use cleveragents_domain::{
    EventKind, Invariant, InvariantScope, NamespacedName, NewEvent, StreamId,
};

use crate::lifecycle::frozen_invariants;
use crate::ports::{Ids, StoreError, StoreHandle, StoreOperation, Transaction};

pub type Result<T, E = RuleError> = std::result::Result<T, E>;

/// Why a request about invariants was refused.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RuleError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Invalid(#[from] InvariantError),
}

/// A rule to be added.
#[derive(Debug, Clone)]
pub struct NewRule {
    pub text: String,
    /// Where it holds; in each of these scopes it is a rule of its own.
    pub scopes: Vec<InvariantScope>,
    /// Only for a global rule.
    pub non_overridable: bool,
}

/// For whom to ask what holds.
#[derive(Debug, Clone)]
pub enum InvariantTarget {
    /// For plans of these projects and this action.
    FuturePlans {
        projects: Vec<NamespacedName>,
        action: Option<NamespacedName>,
    },
    /// For a plan, with what was frozen into it.
    Plan(PlanId),
}

/// What holds, and what does not because something stronger says the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectiveRules {
    /// Strongest first.
    pub rules: Vec<Rule>,
    pub shadowed: Vec<ShadowedRule>,
}

/// A rule that applies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    pub invariant: Invariant,
    pub origin: RuleOrigin,
}

/// Where a rule comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleOrigin {
    /// It was added, and can be removed by its id.
    Added,
    /// It stands in the action, or was given when the plan was made.
    Written,
}

/// A rule that is said by a stronger one too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShadowedRule {
    pub rule: Rule,
    /// The place of the stronger one among those that hold.
    pub shadowed_by: usize,
}

/// The rules, for as many callers at once as there are.
#[derive(Debug, Clone)]
pub struct InvariantService {
    store: StoreHandle,
    ids: Arc<dyn Ids>,
}

impl InvariantService {
    pub fn new(store: StoreHandle, ids: Arc<dyn Ids>) -> Self {
        Self { store, ids }
    }

    /// Adds a rule in every scope it names, or in none: the same text in the same scope is
    /// `Taken`, a project or plan that is not there is `NotFound`.
    pub async fn add(&self, new: NewRule, actor: &str) -> Result<Vec<Invariant>> {
        let ids = Arc::clone(&self.ids);
        let actor = actor.to_owned();
        self.store
            .write(self.operation("invariant.add"), move |tx| {
                let now = tx.now()?;
                let rule = |scope: &InvariantScope| Invariant {
                    id: InvariantId::new(ids.next()),
                    text: new.text.clone(),
                    scope: scope.clone(),
                    non_overridable: new.non_overridable,
                    created_at: now,
                };
                let mut rules: Vec<Invariant> = new.scopes.iter().map(rule).collect();
                // One order for all callers: two who name the same plans cannot wait in a circle.
                rules.sort_by_key(|rule| rule.scope.target());
                rules.dedup_by(|one, other| one.scope == other.scope);
                for rule in &rules {
                    rule.validate()?;
                    tx.insert_invariant(rule)?;
                }
                append_events(tx, EventKind::InvariantAdded, &rules, &actor)?;
                Ok(rules)
            })
            .await
    }

    /// Removes the one rule whose id begins or ends with `fragment`.
    pub async fn remove(&self, fragment: IdFragment, actor: &str) -> Result<Invariant> {
        let actor = actor.to_owned();
        self.store
            .write(self.operation("invariant.remove"), move |tx| {
                let found = tx.find_invariant(&fragment)?;
                if let InvariantScope::Plan(plan) = found.scope {
                    // The plan before its stream, as everybody locks them.
                    tx.plan_for_update(plan)?;
                }
                let removed = tx.remove_invariant(found.id)?;
                let rules = std::slice::from_ref(&removed);
                append_events(tx, EventKind::InvariantRemoved, rules, &actor)?;
                Ok(removed)
            })
            .await
    }

    /// The rules of this scope, or all, newest first.
    pub async fn list(&self, scope: Option<InvariantScope>) -> Result<Vec<Invariant>> {
        self.store
            .read(move |tx| {
                let mut rules = tx.invariants()?;
                if let Some(scope) = &scope {
                    check_scope_exists(tx, scope)?;
                    rules.retain(|rule| rule.scope == *scope);
                }
                rules.reverse();
                Ok(rules)
            })
            .await
    }

    /// What holds after reconciliation.
    pub async fn effective_rules(&self, target: InvariantTarget) -> Result<EffectiveRules> {
        let ids = Arc::clone(&self.ids);
        self.store
            .read(move |tx| {
                let applicable = match &target {
                    InvariantTarget::FuturePlans { projects, action } => {
                        for project in projects {
                            tx.project(project)?;
                        }
                        rules_for_future_plans(tx, &*ids, projects, action.as_ref())?
                    }
                    InvariantTarget::Plan(plan) => rules_for_plan(tx, &*ids, *plan)?,
                };
                Ok(split_shadowed(applicable))
            })
            .await
    }

    fn operation(&self, label: &'static str) -> StoreOperation {
        StoreOperation::new(&*self.ids, label)
    }
}

/// A scope that names nobody is told, not answered with nothing. An action need not be registered.
fn check_scope_exists(tx: &mut dyn Transaction, scope: &InvariantScope) -> Result<()> {
    match scope {
        InvariantScope::Global | InvariantScope::Action(_) => {}
        InvariantScope::Project(name) => drop(tx.project(name)?),
        InvariantScope::Plan(plan) => drop(tx.plan(*plan)?),
    }
    Ok(())
}

/// What applies to a plan that exists: as when it enters a phase.
fn rules_for_plan(tx: &mut dyn Transaction, ids: &dyn Ids, id: PlanId) -> Result<Vec<Rule>> {
    let plan = tx.plan(id)?;
    let brief = &plan.brief;
    let added = tx.invariants_for(&brief.projects, Some(&brief.action_name), Some(id))?;
    Ok(combine_rules(added, frozen_invariants(&plan, ids)))
}

/// What would apply to a plan made now. The rules an action is written with are templates, shown
/// as they are written.
fn rules_for_future_plans(
    tx: &mut dyn Transaction,
    ids: &dyn Ids,
    projects: &[NamespacedName],
    action: Option<&NamespacedName>,
) -> Result<Vec<Rule>> {
    let added = tx.invariants_for(projects, action, None)?;
    let registered = match action.map(|name| tx.action(name)) {
        None | Some(Err(StoreError::NotFound { .. })) => None,
        Some(answer) => Some(answer?),
    };
    let written = registered.iter().flat_map(|action| {
        action.invariants.iter().map(|text| Invariant {
            id: InvariantId::new(ids.next()),
            text: text.clone(),
            scope: InvariantScope::Action(action.name.clone()),
            non_overridable: false,
            created_at: action.updated_at,
        })
    });
    Ok(combine_rules(added, written.collect()))
}

fn combine_rules(added: Vec<Invariant>, written: Vec<Invariant>) -> Vec<Rule> {
    let rule = |origin| move |invariant| Rule { invariant, origin };
    let added = added.into_iter().map(rule(RuleOrigin::Added));
    added
        .chain(written.into_iter().map(rule(RuleOrigin::Written)))
        .collect()
}

/// Splits what applies into what holds and what something stronger says too.
fn split_shadowed(applicable: Vec<Rule>) -> EffectiveRules {
    let holding = reconcile(applicable.iter().map(|rule| &rule.invariant));
    let places: HashMap<InvariantId, usize> = holding
        .iter()
        .enumerate()
        .map(|(place, invariant)| (invariant.id, place))
        .collect();
    let stronger: HashMap<String, usize> = holding
        .iter()
        .enumerate()
        .map(|(place, invariant)| (invariant.normalised_text(), place))
        .collect();
    let mut rules: Vec<Option<Rule>> = vec![None; holding.len()];
    let mut shadowed = Vec::new();
    for rule in applicable {
        let text = rule.invariant.normalised_text();
        match (places.get(&rule.invariant.id), stronger.get(&text)) {
            (Some(place), _) => rules[*place] = Some(rule),
            (None, Some(by)) => shadowed.push(ShadowedRule {
                rule,
                shadowed_by: *by,
            }),
            (None, None) => {}
        }
    }
    EffectiveRules {
        rules: rules.into_iter().flatten().collect(),
        shadowed,
    }
}

/// Puts the rules on the record, each in its stream; streams come last and in order.
fn append_events(
    tx: &mut dyn Transaction,
    kind: EventKind,
    rules: &[Invariant],
    actor: &str,
) -> Result<()> {
    for rule in rules {
        let stream = match rule.scope {
            InvariantScope::Plan(plan) => StreamId::Plan(plan),
            _ => StreamId::System,
        };
        let event = NewEvent::new(kind.clone(), actor, rule).map_err(StoreError::internal)?;
        tx.append(stream, &[event])?;
    }
    Ok(())
}
