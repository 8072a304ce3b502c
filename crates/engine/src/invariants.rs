//! Rules that plans must keep: added, removed, listed, and which of them hold.
//!
//! A rule and its event are one commit (law 2). The event of a plan's own rule stands in the
//! plan's stream, of any other in the system's.

use std::collections::HashMap;
use std::sync::Arc;

use cleveragents_domain::id::{IdFragment, InvariantId, PlanId};
use cleveragents_domain::invariant::{InvariantError, reconcile};
use cleveragents_domain::{EventKind, Invariant, NamespacedName, NewEvent, Scope, StreamId};

use crate::lifecycle::frozen_invariants;
use crate::ports::{Ids, Operation, StoreError, StoreHandle, Unit};

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
    pub scopes: Vec<Scope>,
    /// Only for a global rule.
    pub non_overridable: bool,
}

/// For whom to ask what holds.
#[derive(Debug, Clone)]
pub enum Whom {
    /// For plans of these projects and this action.
    Plans {
        projects: Vec<NamespacedName>,
        action: Option<NamespacedName>,
    },
    /// For a plan, with what was frozen into it.
    Plan(PlanId),
}

/// What holds, and what does not because something stronger says the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effective {
    /// Strongest first.
    pub rules: Vec<Rule>,
    pub shadowed: Vec<Shadowed>,
}

/// A rule that applies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    pub invariant: Invariant,
    pub origin: Origin,
}

/// Where a rule comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// It was added, and can be removed by its id.
    Added,
    /// It stands in the action, or was given when the plan was made.
    Written,
}

/// A rule that is said by a stronger one too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shadowed {
    pub rule: Rule,
    /// The place of the stronger one among those that hold.
    pub by: usize,
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
            .write(self.operation("invariant.add"), move |unit| {
                let now = unit.now()?;
                let rule = |scope: &Scope| Invariant {
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
                    unit.insert_invariant(rule)?;
                }
                record(unit, EventKind::InvariantAdded, &rules, &actor)?;
                Ok(rules)
            })
            .await
    }

    /// Removes the one rule whose id begins or ends with `fragment`.
    pub async fn remove(&self, fragment: IdFragment, actor: &str) -> Result<Invariant> {
        let actor = actor.to_owned();
        self.store
            .write(self.operation("invariant.remove"), move |unit| {
                let found = unit.find_invariant(&fragment)?;
                if let Scope::Plan(plan) = found.scope {
                    // The plan before its stream, as everybody locks them.
                    unit.plan_for_update(plan)?;
                }
                let removed = unit.remove_invariant(found.id)?;
                let rules = std::slice::from_ref(&removed);
                record(unit, EventKind::InvariantRemoved, rules, &actor)?;
                Ok(removed)
            })
            .await
    }

    /// The rules of this scope, or all, newest first.
    pub async fn list(&self, scope: Option<Scope>) -> Result<Vec<Invariant>> {
        self.store
            .read(move |unit| {
                let mut rules = unit.invariants()?;
                if let Some(scope) = &scope {
                    must_exist(unit, scope)?;
                    rules.retain(|rule| rule.scope == *scope);
                }
                rules.reverse();
                Ok(rules)
            })
            .await
    }

    /// What holds after reconciliation.
    pub async fn effective(&self, whom: Whom) -> Result<Effective> {
        let ids = Arc::clone(&self.ids);
        self.store
            .read(move |unit| {
                let applicable = match &whom {
                    Whom::Plans { projects, action } => {
                        for project in projects {
                            unit.project(project)?;
                        }
                        of_plans_to_come(unit, &*ids, projects, action.as_ref())?
                    }
                    Whom::Plan(plan) => of_plan(unit, &*ids, *plan)?,
                };
                Ok(weigh(applicable))
            })
            .await
    }

    fn operation(&self, label: &'static str) -> Operation {
        Operation::new(&*self.ids, label)
    }
}

/// A scope that names nobody is told, not answered with nothing. An action need not be registered.
fn must_exist(unit: &mut dyn Unit, scope: &Scope) -> Result<()> {
    match scope {
        Scope::Global | Scope::Action(_) => {}
        Scope::Project(name) => drop(unit.project(name)?),
        Scope::Plan(plan) => drop(unit.plan(*plan)?),
    }
    Ok(())
}

/// What applies to a plan that exists: as when it enters a phase.
fn of_plan(unit: &mut dyn Unit, ids: &dyn Ids, id: PlanId) -> Result<Vec<Rule>> {
    let plan = unit.plan(id)?;
    let brief = &plan.brief;
    let added = unit.invariants_for(&brief.projects, Some(&brief.action_name), Some(id))?;
    Ok(rules_of(added, frozen_invariants(&plan, ids)))
}

/// What would apply to a plan made now. The rules an action is written with are templates, shown
/// as they are written.
fn of_plans_to_come(
    unit: &mut dyn Unit,
    ids: &dyn Ids,
    projects: &[NamespacedName],
    action: Option<&NamespacedName>,
) -> Result<Vec<Rule>> {
    let added = unit.invariants_for(projects, action, None)?;
    let registered = match action.map(|name| unit.action(name)) {
        None | Some(Err(StoreError::NotFound { .. })) => None,
        Some(answer) => Some(answer?),
    };
    let written = registered.iter().flat_map(|action| {
        action.invariants.iter().map(|text| Invariant {
            id: InvariantId::new(ids.next()),
            text: text.clone(),
            scope: Scope::Action(action.name.clone()),
            non_overridable: false,
            created_at: action.updated_at,
        })
    });
    Ok(rules_of(added, written.collect()))
}

fn rules_of(added: Vec<Invariant>, written: Vec<Invariant>) -> Vec<Rule> {
    let rule = |origin| move |invariant| Rule { invariant, origin };
    let added = added.into_iter().map(rule(Origin::Added));
    added
        .chain(written.into_iter().map(rule(Origin::Written)))
        .collect()
}

/// Splits what applies into what holds and what something stronger says too.
fn weigh(applicable: Vec<Rule>) -> Effective {
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
            (None, Some(by)) => shadowed.push(Shadowed { rule, by: *by }),
            (None, None) => {}
        }
    }
    Effective {
        rules: rules.into_iter().flatten().collect(),
        shadowed,
    }
}

/// Puts the rules on the record, each in its stream; streams come last and in order.
fn record(unit: &mut dyn Unit, kind: EventKind, rules: &[Invariant], actor: &str) -> Result<()> {
    for rule in rules {
        let stream = match rule.scope {
            Scope::Plan(plan) => StreamId::Plan(plan),
            _ => StreamId::System,
        };
        let event = NewEvent::new(kind.clone(), actor, rule).map_err(StoreError::internal)?;
        unit.append(stream, &[event])?;
    }
    Ok(())
}
