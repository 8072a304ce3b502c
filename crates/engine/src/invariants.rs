//! Rules that plans must follow: adds, removes and lists them, and resolves which apply.
//!
//! A rule and its event are one commit (law 2). The event of a plan's own rule is in the plan's
//! stream, that of any other rule in the system stream.

use std::collections::HashMap;
use std::sync::Arc;

use cleveragents_domain::event::payloads::{InvariantAdded, InvariantRemoved};
use cleveragents_domain::id::{IdFragment, InvariantId, PlanId};
use cleveragents_domain::invariant::{InvariantError, reconcile};
use cleveragents_domain::{Invariant, InvariantScope, NamespacedName, NewEvent, StreamId};

use crate::journal::new_event;
use crate::lifecycle::frozen_invariants;
use cleveragents_ports::{Ids, StoreError, StoreHandle, StoreOperation, Transaction};

pub type Result<T, E = RuleError> = std::result::Result<T, E>;

/// Errors of the invariant service.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RuleError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Invalid(#[from] InvariantError),
}

/// A rule to add.
#[derive(Debug, Clone)]
pub struct NewRule {
    pub text: String,
    /// The scopes; each gets its own copy of the rule.
    pub scopes: Vec<InvariantScope>,
    /// Only for a global rule.
    pub non_overridable: bool,
}

/// The target for which rules are resolved.
#[derive(Debug, Clone)]
pub enum InvariantTarget {
    /// Future plans of these projects and this action.
    FuturePlans {
        projects: Vec<NamespacedName>,
        action: Option<NamespacedName>,
    },
    /// An existing plan, with its frozen rules.
    Plan(PlanId),
}

/// The rules that apply, and those shadowed by a stronger rule with the same text.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleOrigin {
    /// It was added, and can be removed by its id.
    Added,
    /// It is part of the action, or was given when the plan was created.
    Written,
}

/// A rule that a stronger rule repeats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShadowedRule {
    pub rule: Rule,
    /// Index of the stronger rule in `rules`.
    pub shadowed_by: usize,
}

/// Service for rules. Safe for concurrent callers.
#[derive(Debug, Clone)]
pub struct InvariantService {
    store: StoreHandle,
    ids: Arc<dyn Ids>,
}

impl InvariantService {
    pub fn new(store: StoreHandle, ids: Arc<dyn Ids>) -> Self {
        Self { store, ids }
    }

    /// Adds a rule in all scopes it names, or in none. Fails with `Taken` if a scope already has
    /// the same text, and with `NotFound` if a project or plan does not exist.
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
                // All callers lock in the same order, so two that name the same plans cannot
                // deadlock.
                rules.sort_by_key(|rule| rule.scope.target());
                rules.dedup_by(|one, other| one.scope == other.scope);
                for rule in &rules {
                    rule.validate()?;
                    tx.insert_invariant(rule)?;
                }
                for rule in &rules {
                    let added = new_event(&actor, &InvariantAdded(rule.clone()))?;
                    append_event(tx, rule, added)?;
                }
                Ok(rules)
            })
            .await
    }

    /// Removes the rule whose id starts or ends with `fragment`.
    pub async fn remove(&self, fragment: IdFragment, actor: &str) -> Result<Invariant> {
        let actor = actor.to_owned();
        self.store
            .write(self.operation("invariant.remove"), move |tx| {
                let found = tx.find_invariant(&fragment)?;
                if let InvariantScope::Plan(plan) = found.scope {
                    // Lock order: the plan before its stream.
                    tx.plan_for_update(plan)?;
                }
                let removed = tx.remove_invariant(found.id)?;
                let event = new_event(&actor, &InvariantRemoved(removed.clone()))?;
                append_event(tx, &removed, event)?;
                Ok(removed)
            })
            .await
    }

    /// Returns the rules of this scope, or all rules, newest first.
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

    /// Returns the rules that apply after reconciliation.
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

/// Fails if the scope's project or plan does not exist, instead of returning an empty list. An
/// action need not be registered.
fn check_scope_exists(tx: &mut dyn Transaction, scope: &InvariantScope) -> Result<()> {
    match scope {
        InvariantScope::Global | InvariantScope::Action(_) => {}
        InvariantScope::Project(name) => drop(tx.project(name)?),
        InvariantScope::Plan(plan) => drop(tx.plan(*plan)?),
    }
    Ok(())
}

/// Returns the rules of an existing plan, as when it enters a phase.
fn rules_for_plan(tx: &mut dyn Transaction, ids: &dyn Ids, id: PlanId) -> Result<Vec<Rule>> {
    let plan = tx.plan(id)?;
    let brief = &plan.brief;
    let added = tx.invariants_for(&brief.projects, Some(&brief.action_name), Some(id))?;
    Ok(combine_rules(added, frozen_invariants(&plan, ids)))
}

/// Returns the rules of a plan created now. The rules of an action are templates and returned
/// unrendered.
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

/// Splits the applicable rules into effective and shadowed ones.
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

/// Appends an event of a rule to the rule's stream. Streams are locked last and in order.
fn append_event(tx: &mut dyn Transaction, rule: &Invariant, event: NewEvent) -> Result<()> {
    let stream = match rule.scope {
        InvariantScope::Plan(plan) => StreamId::Plan(plan),
        _ => StreamId::System,
    };
    tx.append(stream, &[event])?;
    Ok(())
}
