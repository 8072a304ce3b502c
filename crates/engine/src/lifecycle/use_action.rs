//! Creates a plan from an action: the action, the arguments and the current rules are frozen into
//! it.

use std::collections::BTreeMap;
use std::sync::Arc;

use cleveragents_domain::action::{Actors, Budget};
use cleveragents_domain::apply_record::Destination;
use cleveragents_domain::automation::ProfileSource;
use cleveragents_domain::event::payloads::{DecisionCreated, PlanCreated};
use cleveragents_domain::id::{ActionId, DecisionId, InvariantId, PlanId};
use cleveragents_domain::invariant::reconcile;
use cleveragents_domain::{
    Action, ActionState, AutomationProfile, BaseSource, Check, Decision, DecisionType, Invariant,
    InvariantScope, NamespacedName, NewDecision, NewPlan, Plan, PlanBrief, PlanInvariant,
    ProfileName, Project, StreamId, Timestamp, TrustState,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::PlanLifecycle;
use super::actions::retry_on_conflict;
use super::error::{LifecycleError, Result};
use super::moves::enter_phase;
use super::request_fingerprint::RequestFingerprint;
use crate::journal::new_event;
use crate::secrets::Secrets;
use crate::trust::{self, RepositoryAction};
use cleveragents_definitions::{ActionDraft, TemplateArguments, read_arguments, render};
use cleveragents_ports::{Entity, Ids, StoreError, StoreOperation, Transaction};

/// Selects the action.
#[derive(Debug, Clone)]
pub enum ActionChoice {
    /// A registered action.
    Registered(NamespacedName),
    /// An action made by this program or its caller. Using it does not register it.
    Given(Box<ActionDraft>),
    /// An action from a repository's own files. The file must be trusted with its current content,
    /// and its automation profile can only tighten the user's.
    Repository(Box<RepositoryAction>),
}

/// A request to create a plan.
#[derive(Debug, Clone)]
pub struct UseActionRequest {
    pub action: ActionChoice,
    pub projects: Vec<NamespacedName>,
    /// `NAME=VALUE` texts with unmasked secrets. Secrets are replaced before the plan is stored.
    pub arguments: Vec<String>,
    /// The profile for this plan. If `None`, the action's, the project's or `default_profile` is
    /// used. Only a profile named here may be less strict than what a repository asks for.
    pub automation_profile: Option<ProfileName>,
    pub default_profile: ProfileName,
    /// The profile from the repository's own settings. It can only tighten.
    pub repository_profile: Option<ProfileName>,
    pub invariants: Vec<String>,
    pub strategy_actor: Option<NamespacedName>,
    pub execution_actor: Option<NamespacedName>,
    /// The base of the plan's sandboxes.
    pub base: BaseSource,
    /// A repeated request with the same key returns the plan it created the first time.
    pub idempotency_key: Option<String>,
    /// Maximum cost of models in US dollars, if lower than the action's budget.
    pub max_usd: Option<f64>,
    /// Where the changes are to be applied; `None` if the user did not say. A repeated request may
    /// name another destination.
    pub destination: Option<Destination>,
    /// The acting user, for the journal.
    pub actor: String,
}

/// Stored under the operation id: the plan, and a fingerprint of the request.
#[derive(Serialize, Deserialize)]
struct CreatedPlan {
    plan: Plan,
    request: String,
}

impl PlanLifecycle {
    /// Creates a plan at `strategize/queued`; does no work. The plan, the use of the action, the
    /// root decision and the first events are one commit.
    pub async fn use_action(&self, request: UseActionRequest) -> Result<Plan> {
        // Computed outside the transaction, whose closure may run more than once.
        let fingerprint = RequestFingerprint::new(&request, &self.secrets)?;
        let operation = match &request.idempotency_key {
            // The store returns the result of the first request with this key (law 12). Its content
            // is compared below, because a key alone does not identify a request.
            Some(key) => StoreOperation::keyed(key, "plan.use"),
            None => self.operation("plan.use"),
        };
        let keyed = request.idempotency_key.is_some();
        let ids = Arc::clone(&self.ids);
        let stored = fingerprint.as_str().to_owned();
        let secrets = self.secrets.clone();
        let created: CreatedPlan = self
            .store
            .write(operation, move |tx| {
                let plan = create_plan(tx, &*ids, &request, &secrets)?;
                Ok::<_, LifecycleError>(CreatedPlan {
                    plan,
                    request: stored.clone(),
                })
            })
            .await?;
        // The operation id returned an earlier plan, which was created from a different request.
        if !fingerprint.matches(&created.request) {
            return Err(LifecycleError::KeyReused {
                plan: Box::new(created.plan),
            });
        }
        if keyed {
            self.reload_plan(created.plan).await
        } else {
            Ok(created.plan)
        }
    }
}

impl PlanLifecycle {
    /// Returns the current state of the plan: a repeated request must not return its initial state.
    async fn reload_plan(&self, created: Plan) -> Result<Plan> {
        match self.plan(created.identity.plan_id).await {
            Err(LifecycleError::Store(StoreError::NotFound { .. })) => {
                Err(LifecycleError::KeySpent {
                    plan: Box::new(created),
                })
            }
            answer => answer,
        }
    }
}

fn create_plan(
    tx: &mut dyn Transaction,
    ids: &dyn Ids,
    request: &UseActionRequest,
    secrets: &Secrets,
) -> Result<Plan> {
    let now = tx.now()?;
    // First: projects are locked before the rows that refer to them.
    let projects = hold_projects(tx, &request.projects)?;
    let id = PlanId::new(ids.next());
    let action = take_action(tx, &request.action, id, ActionId::new(ids.next()), now)?;
    let brief = build_brief(
        tx,
        ids,
        &PlanInputs {
            request,
            secrets,
            action: &action,
            projects: &projects,
            id,
            now,
        },
    )?;
    let mut plan = Plan::new(
        NewPlan {
            brief,
            parent: None,
        },
        id,
        now,
    );
    let mut root = root_decision(&plan, DecisionId::new(ids.next()), now);
    plan.decision_root_id = Some(root.decision_id);
    plan.destination.clone_from(&request.destination);
    tx.insert_plan(&plan)?;
    root.sequence_number = tx.insert_decision(&root)?;
    let created = new_event(&request.actor, &PlanCreated(plan.clone()))?;
    let decided = new_event(&request.actor, &DecisionCreated(root))?;
    tx.append(StreamId::Plan(id), &[created, decided])?;
    enter_phase(tx, ids, &plan, &request.actor)?;
    Ok(plan)
}

/// Locks the projects against deletion until the plan is created.
fn hold_projects(tx: &mut dyn Transaction, names: &[NamespacedName]) -> Result<Vec<Project>> {
    if names.is_empty() {
        return Err(LifecycleError::NoProject);
    }
    // All callers lock in the same order, so two that name the same projects cannot deadlock.
    let mut sorted: Vec<&NamespacedName> = names.iter().collect();
    sorted.sort();
    if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(LifecycleError::DuplicateProject {
            project: pair[0].clone(),
        });
    }
    for name in sorted {
        tx.lock_project(name)?;
    }
    // Read after the locks, in the order of the request: the first project has precedence.
    names.iter().map(|name| Ok(tx.project(name)?)).collect()
}

/// Marks the action as used. A single-use action can be used only once; an unregistered one once
/// per name and content.
fn take_action(
    tx: &mut dyn Transaction,
    choice: &ActionChoice,
    plan: PlanId,
    id: ActionId,
    now: Timestamp,
) -> Result<Action> {
    match choice {
        ActionChoice::Registered(name) => {
            // Two plans from one action conflict on its row. Only a single-use action may fail for
            // that.
            let used = retry_on_conflict(tx, |tx| {
                let action = tx.action(name)?;
                tx.use_action(&action)?;
                Ok(action)
            });
            Ok(used?)
        }
        ActionChoice::Given(draft) => take_given_action(tx, draft, plan, id, now),
        ActionChoice::Repository(action) => {
            // Check inside the transaction that uses the action: consent to other content does not
            // count (law 1).
            match trust::trust_state(tx, &action.file)? {
                TrustState::Trusted => take_given_action(tx, &action.draft, plan, id, now),
                state => Err(LifecycleError::NotTrusted {
                    file: Box::new(action.file.clone()),
                    state,
                }),
            }
        }
    }
}

fn take_given_action(
    tx: &mut dyn Transaction,
    draft: &ActionDraft,
    plan: PlanId,
    id: ActionId,
    now: Timestamp,
) -> Result<Action> {
    if draft.state == ActionState::Archived {
        return Err(LifecycleError::Store(StoreError::Archived {
            entity: Entity::Action,
            name: draft.name.to_string(),
        }));
    }
    // The store claims name and content (law 3): of two requests with the same single-use action
    // one wins.
    if !draft.reusable {
        let content = draft.content_hash().map_err(StoreError::internal)?;
        tx.use_unregistered_action(&draft.name, &content, plan)?;
    }
    Ok(draft.clone().into_action(id, now))
}

/// Everything a plan is created from.
struct PlanInputs<'a> {
    request: &'a UseActionRequest,
    secrets: &'a Secrets,
    action: &'a Action,
    projects: &'a [Project],
    id: PlanId,
    now: Timestamp,
}

fn build_brief(
    tx: &mut dyn Transaction,
    ids: &dyn Ids,
    inputs: &PlanInputs<'_>,
) -> Result<PlanBrief> {
    let PlanInputs {
        request,
        action,
        secrets,
        ..
    } = inputs;
    let arguments = read_arguments(action, &request.arguments)?;
    let values = TemplateArguments::new(&action.arguments, &arguments);
    // Texts for users and models are masked. Texts that are executed keep references to secrets.
    let rendered = |name: &str, text: &str| {
        let text = render(name, text, &values)?;
        Ok::<_, LifecycleError>(secrets.mask(&text).into_owned())
    };
    let (automation_profile, automation_source) = resolve_profile(tx, inputs)?;
    let rules = plan_rules(ids, inputs, &rendered)?;
    let invariants = reconcile(&rules).into_iter().map(PlanInvariant::from);
    Ok(PlanBrief {
        action_name: action.name.clone(),
        description: rendered("description", &action.description)?,
        projects: request.projects.clone(),
        automation_profile,
        automation_source,
        actors: Actors {
            strategy_actor: actor_or_default(
                &request.strategy_actor,
                &action.actors.strategy_actor,
            ),
            execution_actor: actor_or_default(
                &request.execution_actor,
                &action.actors.execution_actor,
            ),
            ..action.actors.clone()
        },
        invariants: invariants.collect(),
        read_only: action.read_only,
        definition_of_done: rendered("definition_of_done", &action.definition_of_done)?,
        long_description: action
            .long_description
            .as_ref()
            .map(|text| rendered("long_description", text))
            .transpose()?,
        checks: render_checks(action, &values, secrets)?,
        budget: Budget {
            usd: smaller_limit(action.budget.usd, request.max_usd),
            ..action.budget
        },
        skills: action.skills.clone(),
        base: request.base,
        arguments: reference_secrets(arguments, secrets)?,
    })
}

/// Returns the action's and the request's invariants, checked.
fn plan_rules(
    ids: &dyn Ids,
    inputs: &PlanInputs<'_>,
    rendered: &impl Fn(&str, &str) -> Result<String>,
) -> Result<Vec<Invariant>> {
    let mut rules = Vec::new();
    for text in &inputs.action.invariants {
        let scope = InvariantScope::Action(inputs.action.name.clone());
        let text = rendered("invariants", text)?;
        rules.push(new_invariant(ids, text, scope, inputs.now));
    }
    for text in &inputs.request.invariants {
        let scope = InvariantScope::Plan(inputs.id);
        rules.push(new_invariant(ids, text.clone(), scope, inputs.now));
    }
    for rule in &rules {
        rule.validate().map_err(|e| LifecycleError::Invalid {
            reason: e.to_string(),
        })?;
    }
    Ok(rules)
}

/// Returns the action's checks with filled-in commands. A check's name is not a template.
fn render_checks(
    action: &Action,
    values: &TemplateArguments,
    secrets: &Secrets,
) -> Result<Vec<Check>> {
    let check = |(index, check): (usize, &Check)| {
        let what = format!("checks[{index}].run");
        let run = render(&what, &check.run, values)?;
        // A check is executed, so its secrets must stay usable. A mask would run as text.
        let run = secrets.to_reference(&run);
        Ok(Check {
            run: run.map_err(|error| LifecycleError::Secret { what, error })?,
            ..check.clone()
        })
    };
    action.checks.iter().enumerate().map(check).collect()
}

/// Replaces secrets in the arguments with references.
fn reference_secrets(
    arguments: BTreeMap<String, Value>,
    secrets: &Secrets,
) -> Result<BTreeMap<String, Value>> {
    let reference = |(name, value): (String, Value)| match secrets.to_references(&value) {
        Ok(value) => Ok((name, value)),
        Err(error) => {
            let what = format!("the argument `{name}`");
            Err(LifecycleError::Secret { what, error })
        }
    };
    arguments.into_iter().map(reference).collect()
}

fn smaller_limit(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    match (one, other) {
        // A request may lower the budget of an action, never raise it.
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

fn actor_or_default(given: &Option<NamespacedName>, default: &NamespacedName) -> NamespacedName {
    given.as_ref().unwrap_or(default).clone()
}

fn new_invariant(ids: &dyn Ids, text: String, scope: InvariantScope, now: Timestamp) -> Invariant {
    Invariant {
        id: InvariantId::new(ids.next()),
        text,
        scope,
        non_overridable: false,
        created_at: now,
    }
}

/// Returns the user's profile, tightened by what the repository asks for. A profile that the user
/// named for this plan is used unchanged.
fn resolve_profile(
    tx: &mut dyn Transaction,
    inputs: &PlanInputs<'_>,
) -> Result<(AutomationProfile, ProfileSource)> {
    let request = inputs.request;
    let (name, source) = user_profile(inputs);
    let mut profile = load_profile(tx, name)?;
    // The user named this profile for this plan, which overrides the wish of a repository.
    if source == ProfileSource::Plan {
        return Ok((profile, source));
    }
    if let Some(name) = &request.repository_profile {
        profile = profile.tightened_by(&load_profile(tx, name)?);
    }
    if let (ActionChoice::Repository(action), source) = (&request.action, source)
        && let Some(name) = &action.draft.automation_profile
    {
        let tightened = profile.tightened_by(&load_profile(tx, name)?);
        let source = if tightened == profile {
            source
        } else {
            ProfileSource::Action
        };
        return Ok((tightened, source));
    }
    Ok((profile, source))
}

/// Returns the profile named for the plan, else that of the action if the user registered it, of
/// the first project that has one, or the global default.
fn user_profile<'a>(inputs: &'a PlanInputs<'_>) -> (&'a ProfileName, ProfileSource) {
    let request = inputs.request;
    let of_action = match request.action {
        // Untrusted text must not choose the profile. It can only tighten the chosen one.
        ActionChoice::Repository(_) => None,
        ActionChoice::Registered(_) | ActionChoice::Given(_) => {
            inputs.action.automation_profile.as_ref()
        }
    };
    let of_project = inputs
        .projects
        .iter()
        .find_map(|project| project.automation_profile.as_ref());
    if let Some(name) = &request.automation_profile {
        (name, ProfileSource::Plan)
    } else if let Some(name) = of_action {
        (name, ProfileSource::Action)
    } else if let Some(name) = of_project {
        (name, ProfileSource::Project)
    } else {
        (&request.default_profile, ProfileSource::Global)
    }
}

fn load_profile(tx: &mut dyn Transaction, name: &ProfileName) -> Result<AutomationProfile> {
    match name {
        ProfileName::BuiltIn(built_in) => Ok(built_in.profile()),
        ProfileName::Custom(custom) => match tx.profile(custom) {
            Ok(row) => Ok(row.profile),
            Err(StoreError::NotFound { .. }) => Err(LifecycleError::UnknownProfile {
                name: custom.to_string(),
            }),
            Err(error) => Err(error.into()),
        },
    }
}

/// Returns the root decision: the task of the plan.
fn root_decision(plan: &Plan, id: DecisionId, now: Timestamp) -> Decision {
    let new = NewDecision {
        plan_id: plan.identity.plan_id,
        parent: None,
        decision_type: DecisionType::PromptDefinition,
        phase: plan.position.phase(),
        question: "What is the plan to do?".to_owned(),
        chosen: plan.brief.description.clone(),
        rationale: format!("The action {} was used.", plan.brief.action_name),
    };
    Decision::new(new, id, now)
}
