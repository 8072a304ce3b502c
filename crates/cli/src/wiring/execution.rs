//! What it takes to work on plans: sandboxes, tools, confined processes and targets, built when a
//! command asks for them and not before.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use cleveragents_domain::checkpoint::{Checkpoint, CheckpointTrigger};
use cleveragents_domain::id::{CheckpointId, OwnerId, PlanId, SandboxId};
use cleveragents_domain::sandbox::SandboxRecord;
use cleveragents_domain::strategy::StrategyRecord;
use cleveragents_domain::{DecisionType, ResourcePath};
use cleveragents_engine::StoreError;
use cleveragents_engine::actors::Inquiry;
use cleveragents_engine::applying::{ApplyAsk, ApplyService};
use cleveragents_engine::breaker::{BreakerSettings, CircuitBreaker};
use cleveragents_engine::execution::{CheckpointPolicy, ExecutionPolicy, Executor, Means, Results};
use cleveragents_engine::lifecycle::PlanLifecycle;
use cleveragents_engine::ports::Clock;
use cleveragents_engine::ports::models::{Models, NoModels};
use cleveragents_engine::ports::processes::Processes;
use cleveragents_engine::ports::sandbox::Sandboxes;
use cleveragents_engine::ports::targets::{Author, Destination};
use cleveragents_engine::ports::tools::Toolbox;
use cleveragents_engine::retry::RetryPolicy;
use cleveragents_engine::sandboxes::SandboxService;
use cleveragents_engine::secrets::{Secrets, is_secret};
use cleveragents_sandbox::LocalTargets;
use serde_json::Value;

use super::{Wired, Wiring, git_settings, tools};
use crate::environment::Environment;
use crate::failure::{ExitCode, Failure};
use crate::process;
use crate::redact::Redactor;
use crate::settings::Settings;

/// How many validations of a plan run at once.
const PARALLEL_VALIDATIONS: usize = 4;

/// What is on record of a plan's work.
#[derive(Debug)]
pub struct Work {
    pub strategy: Option<StrategyRecord>,
    pub sandboxes: Vec<SandboxRecord>,
    pub decisions: usize,
    pub invariants: usize,
    pub tool_calls: u64,
    /// Changes that stand.
    pub changes: u64,
    /// Paths that changes that stand are about.
    pub paths: usize,
    /// States that can be gone back to.
    pub checkpoints: usize,
    /// The newest state that was kept on the way to here.
    pub last_checkpoint: Option<CheckpointId>,
    /// The summary of the newest validations.
    pub validation: Option<Value>,
}

impl Wiring {
    /// The git that is used, or how to get one.
    fn git(&self) -> Result<PathBuf, Failure> {
        process::find("git", &self.environment).ok_or_else(|| {
            Failure::new(ExitCode::Error, "git is needed and was not found")
                .kind("no_git")
                .because("sandboxes are made with it")
                .hint("install git 2.41 or newer, then `agents diagnostics`")
        })
    }

    fn shared_sandboxes(&self) -> Result<Arc<dyn Sandboxes>, Failure> {
        Ok(Arc::from(self.sandboxes(self.git()?, &self.environment)?))
    }

    fn secrets(&self) -> Result<Secrets, Failure> {
        secrets(&self.settings, &self.environment)
    }

    fn targets(&self) -> Result<LocalTargets, Failure> {
        let git = git_settings(self.git()?, &self.environment);
        let targets = LocalTargets::open(self.directory(), git, Arc::clone(&self.watcher))?;
        let filters = self.settings.sandbox_allow_filters();
        Ok(targets.allowing(filters))
    }
}

/// What is known to be secret: configured keys and passwords, and the values of variables that hold
/// secrets by their names.
pub fn secrets(settings: &Settings, environment: &Environment) -> Result<Secrets, Failure> {
    let mut known = Redactor::default();
    settings.teach(&mut known);
    let variables = environment.variables.iter();
    let variables = variables.filter_map(|(name, value)| Some((name.clone(), value.to_str()?)));
    let secret = variables.filter(|(name, value)| is_secret(name, value));
    let secret = secret.map(|(name, value)| (name, value.to_owned()));
    // A variable is called by its own name, whichever setting it is for.
    let values = secret.chain(known.values()).collect();
    Secrets::new(values).map_err(|error| {
        Failure::new(ExitCode::Error, "secrets cannot be hidden").caused_by(&error)
    })
}

impl Wired<'_> {
    /// Who this process is.
    pub fn owner(&self) -> OwnerId {
        self.wiring.options.presence.owner()
    }

    /// What drives plans in this process's name.
    pub fn executor(&self) -> Result<Executor, Failure> {
        let Wiring {
            settings,
            environment,
            ..
        } = self.wiring;
        self.executor_with(super::models(settings, environment)?)
    }

    /// What asks models outside any plan.
    pub fn inquiry(&self) -> Result<Inquiry, Failure> {
        let Wiring {
            settings,
            environment,
            ..
        } = self.wiring;
        Ok(Inquiry {
            store: self.store.clone(),
            models: super::models(settings, environment)?,
            secrets: self.wiring.secrets()?,
            retry: RetryPolicy::default(),
            ids: self.ids(),
        })
    }

    fn executor_with(&self, models: Arc<dyn Models>) -> Result<Executor, Failure> {
        let settings = &self.wiring.settings;
        let processes = self.wiring.processes(settings, &self.wiring.environment)?;
        let processes: Arc<dyn Processes> = Arc::from(processes);
        let shell = super::shell_settings(settings, &self.wiring.environment);
        let toolbox: Arc<dyn Toolbox> = Arc::from(tools(Some(Arc::clone(&processes)), shell)?);
        let clock: Arc<dyn Clock> = Arc::clone(&self.wiring.options.clock);
        Ok(Executor::new(Means {
            store: self.store.clone(),
            ids: self.ids(),
            clock,
            liveness: self.liveness(),
            owner: self.owner(),
            sandboxes: self.wiring.shared_sandboxes()?,
            toolbox,
            processes,
            models,
            breaker: CircuitBreaker::new(BreakerSettings::default(), Vec::new()),
            secrets: self.wiring.secrets()?,
            interrupt: self.wiring.interrupt.subscribe(),
            policy: ExecutionPolicy {
                checkpoints: CheckpointPolicy {
                    triggers: settings.checkpoint_triggers(),
                    ..CheckpointPolicy::default()
                },
                concurrency: u32::try_from(settings.plan_concurrency()).unwrap_or(u32::MAX),
                parallel_validations: PARALLEL_VALIDATIONS,
                network: settings.sandbox_network(),
                retry: RetryPolicy::default(),
            },
        }))
    }

    /// What makes plans, with the secrets of this process stored as references.
    pub fn plan_maker(&self) -> Result<PlanLifecycle, Failure> {
        Ok(self.lifecycle().masking(self.wiring.secrets()?))
    }

    /// A text of the user's without what must not be stored.
    pub fn hide(&self, text: &str) -> Result<String, Failure> {
        Ok(self.wiring.secrets()?.hide(text).into_owned())
    }

    /// Asks whatever works in this process to stop where it can be gone on with.
    pub fn interrupt(&self) {
        self.wiring.interrupt.send_replace(true);
    }

    /// That nobody asked this process to stop before it takes the next step for a plan.
    pub fn go_on_unless_interrupted(&self, plan: PlanId) -> Result<(), Failure> {
        match *self.wiring.interrupt.borrow() {
            true => Err(crate::execution_failure::interrupted(plan)),
            false => Ok(()),
        }
    }

    /// What applies plans in this process's name.
    pub fn applies(&self) -> Result<ApplyService, Failure> {
        let executor = self.executor_with(Arc::new(NoModels))?;
        let targets = Arc::new(self.wiring.targets()?);
        Ok(ApplyService::new(executor, targets))
    }

    /// The same for applies that others left: a lock that somebody holds is not waited for, and
    /// no validation is run.
    pub(super) fn recovering_applies(&self) -> Result<ApplyService, Failure> {
        let executor = self.executor_with(Arc::new(NoModels))?;
        let targets = Arc::new(self.wiring.targets()?.without_waiting());
        Ok(ApplyService::new(executor, targets).without_validating())
    }

    /// Ends the commands of this plan that a dead process left running. That it cannot be done is no
    /// reason not to do what was asked.
    pub fn end_left_over(&self, plan: PlanId) {
        let end = || {
            let calls = self
                .store
                .read(move |unit| unit.unfinished_tool_calls(plan));
            // Most plans have none, and then nothing of this machine is needed.
            if self.wait(calls)?.is_empty() {
                return Ok(());
            }
            let executor = self.executor_with(Arc::new(NoModels))?;
            Ok::<_, Failure>(self.wait(executor.end_left_over(plan))?)
        };
        if let Err(failure) = end() {
            tracing::warn!("commands of the plan may still run: {}", failure.what);
        }
    }

    /// A request to apply, with the author that the environment names.
    pub fn apply_ask(&self, plan: PlanId, destination: Destination) -> ApplyAsk {
        let text = |name| {
            let value = self.wiring.environment.variable(name)?;
            value.to_str().map(str::to_owned)
        };
        let author = match (text("GIT_AUTHOR_NAME"), text("GIT_AUTHOR_EMAIL")) {
            (Some(name), Some(email)) => Some(Author { name, email }),
            _ => None,
        };
        ApplyAsk {
            plan,
            destination,
            author,
            actor: self.actor().to_owned(),
        }
    }

    /// The sandboxes of all plans.
    pub fn sandboxes(&self) -> Result<SandboxService, Failure> {
        let sandboxes = self.wiring.shared_sandboxes()?;
        let (store, ids) = (self.store.clone(), self.ids());
        Ok(SandboxService::new(store, ids, self.liveness(), sandboxes))
    }

    /// What plans came to.
    pub fn results(&self) -> Result<Results, Failure> {
        let sandboxes = self.wiring.shared_sandboxes()?;
        Ok(Results::new(
            self.store.clone(),
            sandboxes,
            self.wiring.node.clone(),
        ))
    }

    /// Where a sandbox's files are.
    pub fn sandbox_tree(&self, id: SandboxId) -> PathBuf {
        let folder = self.wiring.directory().join("sandboxes");
        folder.join(id.to_string()).join("tree")
    }

    /// What is on record of a plan's work.
    pub fn work_of(&self, plan: PlanId) -> Result<Work, StoreError> {
        self.wait(self.store.read(move |unit| {
            let attempt = unit.plan(plan)?.attempt;
            let decisions = unit.decisions_of(plan)?;
            let standing = || decisions.iter().filter(|it| !it.is_superseded);
            let invariants = standing()
                .filter(|it| it.decision_type == DecisionType::InvariantEnforced)
                .count();
            let kept = unit.checkpoints_of(plan)?;
            let kept: Vec<_> = kept.iter().filter(|it| it.undone_by.is_none()).collect();
            // What a rollback set aside is not on the way.
            let on_the_way = |it: &&&Checkpoint| it.trigger != CheckpointTrigger::Rollback;
            let last_checkpoint = kept.iter().rfind(on_the_way).map(|it| it.id);
            let mut changes = 0;
            let mut paths: BTreeSet<ResourcePath> = BTreeSet::new();
            for changeset in unit.changesets_of(plan)? {
                let mut after = 0;
                loop {
                    let page = unit.changes_after(changeset.id, after, 1000)?;
                    let Some(last) = page.last() else { break };
                    after = last.entry.sequence;
                    for change in page.into_iter().filter(|it| it.undone_by.is_none()) {
                        changes += 1;
                        paths.insert(change.entry.path);
                    }
                }
            }
            Ok(Work {
                strategy: unit.newest_strategy(plan)?,
                sandboxes: unit.sandboxes_of(plan)?,
                decisions: standing().count(),
                invariants,
                tool_calls: unit.count_tool_calls(plan, None)?,
                changes,
                paths: paths.len(),
                checkpoints: kept.len(),
                last_checkpoint,
                validation: unit.newest_validation_run(plan, attempt)?,
            })
        }))
    }
}
