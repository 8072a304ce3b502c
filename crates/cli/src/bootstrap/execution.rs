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
use cleveragents_engine::applying::{ApplyService, PlanApplyRequest};
use cleveragents_engine::breaker::{BreakerSettings, CircuitBreaker};
use cleveragents_engine::execution::{
    CheckpointPolicy, ExecutionPolicy, Executor, ExecutorDeps, ResultReader,
};
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

use super::{AppContext, Bootstrap, git_settings, toolbox};
use crate::environment::Environment;
use crate::failure::{CommandFailure, ExitCode};
use crate::process;
use crate::redact::Redactor;
use crate::settings::Settings;

/// How many validations of a plan run at once.
const PARALLEL_VALIDATIONS: usize = 4;

/// What is on record of a plan's work.
#[derive(Debug)]
pub struct PlanWork {
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

impl Bootstrap {
    /// The git that is used, or how to get one.
    fn find_git(&self) -> Result<PathBuf, CommandFailure> {
        process::find("git", &self.environment).ok_or_else(|| {
            CommandFailure::new(ExitCode::Error, "git is needed and was not found")
                .kind("no_git")
                .because("sandboxes are made with it")
                .hint("install git 2.41 or newer, then `agents diagnostics`")
        })
    }

    fn shared_sandboxes(&self) -> Result<Arc<dyn Sandboxes>, CommandFailure> {
        Ok(Arc::from(
            self.sandboxes(self.find_git()?, &self.environment)?,
        ))
    }

    fn secrets(&self) -> Result<Secrets, CommandFailure> {
        secrets(&self.settings, &self.environment)
    }

    fn targets(&self) -> Result<LocalTargets, CommandFailure> {
        let git = git_settings(self.find_git()?, &self.environment);
        let targets = LocalTargets::open(self.directory(), git, Arc::clone(&self.watcher))?;
        let filters = self.settings.sandbox_allow_filters();
        Ok(targets.with_allowed_filters(filters))
    }
}

/// What is known to be secret: configured keys and passwords, and the values of variables that hold
/// secrets by their names.
pub fn secrets(settings: &Settings, environment: &Environment) -> Result<Secrets, CommandFailure> {
    let mut known = Redactor::default();
    settings.register_secrets(&mut known);
    let variables = environment.variables.iter();
    let variables = variables.filter_map(|(name, value)| Some((name.clone(), value.to_str()?)));
    let secret = variables.filter(|(name, value)| is_secret(name, value));
    let secret = secret.map(|(name, value)| (name, value.to_owned()));
    // A variable is called by its own name, whichever setting it is for.
    let values = secret.chain(known.values()).collect();
    Secrets::new(values).map_err(|error| {
        CommandFailure::new(ExitCode::Error, "secrets cannot be hidden").caused_by(&error)
    })
}

impl AppContext<'_> {
    /// Who this process is.
    pub fn owner(&self) -> OwnerId {
        self.bootstrap.options.presence.owner()
    }

    /// What drives plans in this process's name.
    pub fn executor(&self) -> Result<Executor, CommandFailure> {
        let Bootstrap {
            settings,
            environment,
            ..
        } = self.bootstrap;
        self.executor_with(super::models(settings, environment)?)
    }

    /// What asks models outside any plan.
    pub fn inquiry(&self) -> Result<Inquiry, CommandFailure> {
        let Bootstrap {
            settings,
            environment,
            ..
        } = self.bootstrap;
        Ok(Inquiry {
            store: self.store.clone(),
            models: super::models(settings, environment)?,
            secrets: self.bootstrap.secrets()?,
            retry: RetryPolicy::default(),
            ids: self.ids(),
        })
    }

    fn executor_with(&self, models: Arc<dyn Models>) -> Result<Executor, CommandFailure> {
        let settings = &self.bootstrap.settings;
        let processes = self
            .bootstrap
            .processes(settings, &self.bootstrap.environment)?;
        let processes: Arc<dyn Processes> = Arc::from(processes);
        let shell = super::shell_settings(settings, &self.bootstrap.environment);
        let toolbox: Arc<dyn Toolbox> = Arc::from(toolbox(Some(Arc::clone(&processes)), shell)?);
        let clock: Arc<dyn Clock> = Arc::clone(&self.bootstrap.options.clock);
        Ok(Executor::new(ExecutorDeps {
            store: self.store.clone(),
            ids: self.ids(),
            clock,
            liveness: self.liveness(),
            owner: self.owner(),
            sandboxes: self.bootstrap.shared_sandboxes()?,
            toolbox,
            processes,
            models,
            breaker: CircuitBreaker::new(BreakerSettings::default(), Vec::new()),
            secrets: self.bootstrap.secrets()?,
            interrupt: self.bootstrap.interrupt.subscribe(),
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
    pub fn masking_lifecycle(&self) -> Result<PlanLifecycle, CommandFailure> {
        Ok(self.lifecycle().with_secrets(self.bootstrap.secrets()?))
    }

    /// A text of the user's without what must not be stored.
    pub fn mask_secrets(&self, text: &str) -> Result<String, CommandFailure> {
        Ok(self.bootstrap.secrets()?.hide(text).into_owned())
    }

    /// Asks whatever works in this process to stop where it can be gone on with.
    pub fn interrupt(&self) {
        self.bootstrap.interrupt.send_replace(true);
    }

    /// That nobody asked this process to stop before it takes the next step for a plan.
    pub fn check_not_interrupted(&self, plan: PlanId) -> Result<(), CommandFailure> {
        match *self.bootstrap.interrupt.borrow() {
            true => Err(crate::execution_failure::interrupted_failure(plan)),
            false => Ok(()),
        }
    }

    /// What applies plans in this process's name.
    pub fn apply_service(&self) -> Result<ApplyService, CommandFailure> {
        let executor = self.executor_with(Arc::new(NoModels))?;
        let targets = Arc::new(self.bootstrap.targets()?);
        Ok(ApplyService::new(executor, targets))
    }

    /// The same for applies that others left: a lock that somebody holds is not waited for, and
    /// no validation is run.
    pub(super) fn recovery_apply_service(&self) -> Result<ApplyService, CommandFailure> {
        let executor = self.executor_with(Arc::new(NoModels))?;
        let targets = Arc::new(self.bootstrap.targets()?.without_waiting());
        Ok(ApplyService::new(executor, targets).without_validating())
    }

    /// Ends the commands of this plan that a dead process left running. That it cannot be done is no
    /// reason not to do what was asked.
    pub fn end_leftover_commands(&self, plan: PlanId) {
        let end = || {
            let calls = self.store.read(move |tx| tx.unfinished_tool_calls(plan));
            // Most plans have none, and then nothing of this machine is needed.
            if self.block_on(calls)?.is_empty() {
                return Ok(());
            }
            let executor = self.executor_with(Arc::new(NoModels))?;
            Ok::<_, CommandFailure>(self.block_on(executor.end_orphaned_processes(plan))?)
        };
        if let Err(failure) = end() {
            tracing::warn!("commands of the plan may still run: {}", failure.message);
        }
    }

    /// A request to apply, with the author that the environment names.
    pub fn apply_request(&self, plan: PlanId, destination: Destination) -> PlanApplyRequest {
        let text = |name| {
            let value = self.bootstrap.environment.variable(name)?;
            value.to_str().map(str::to_owned)
        };
        let author = match (text("GIT_AUTHOR_NAME"), text("GIT_AUTHOR_EMAIL")) {
            (Some(name), Some(email)) => Some(Author { name, email }),
            _ => None,
        };
        PlanApplyRequest {
            plan,
            destination,
            author,
            actor: self.actor().to_owned(),
        }
    }

    /// The sandboxes of all plans.
    pub fn sandboxes(&self) -> Result<SandboxService, CommandFailure> {
        let sandboxes = self.bootstrap.shared_sandboxes()?;
        let (store, ids) = (self.store.clone(), self.ids());
        Ok(SandboxService::new(store, ids, self.liveness(), sandboxes))
    }

    /// What plans came to.
    pub fn results(&self) -> Result<ResultReader, CommandFailure> {
        let sandboxes = self.bootstrap.shared_sandboxes()?;
        Ok(ResultReader::new(
            self.store.clone(),
            sandboxes,
            self.bootstrap.node.clone(),
        ))
    }

    /// Where a sandbox's files are.
    pub fn sandbox_tree(&self, id: SandboxId) -> PathBuf {
        let folder = self.bootstrap.directory().join("sandboxes");
        folder.join(id.to_string()).join("tree")
    }

    /// What is on record of a plan's work.
    pub fn plan_work(&self, plan: PlanId) -> Result<PlanWork, StoreError> {
        self.block_on(self.store.read(move |tx| {
            let attempt = tx.plan(plan)?.attempt;
            let decisions = tx.decisions_of(plan)?;
            let standing = || decisions.iter().filter(|it| !it.is_superseded);
            let invariants = standing()
                .filter(|it| it.decision_type == DecisionType::InvariantEnforced)
                .count();
            let kept = tx.checkpoints_of(plan)?;
            let kept: Vec<_> = kept.iter().filter(|it| it.undone_by.is_none()).collect();
            // What a rollback set aside is not on the way.
            let on_the_way = |it: &&&Checkpoint| it.trigger != CheckpointTrigger::Rollback;
            let last_checkpoint = kept.iter().rfind(on_the_way).map(|it| it.id);
            let mut changes = 0;
            let mut paths: BTreeSet<ResourcePath> = BTreeSet::new();
            for changeset in tx.changesets_of(plan)? {
                let mut after = 0;
                loop {
                    let page = tx.changes_after(changeset.id, after, 1000)?;
                    let Some(last) = page.last() else { break };
                    after = last.entry.sequence;
                    for change in page.into_iter().filter(|it| it.undone_by.is_none()) {
                        changes += 1;
                        paths.insert(change.entry.path);
                    }
                }
            }
            Ok(PlanWork {
                strategy: tx.newest_strategy(plan)?,
                sandboxes: tx.sandboxes_of(plan)?,
                decisions: standing().count(),
                invariants,
                tool_calls: tx.count_tool_calls(plan, None)?,
                changes,
                paths: paths.len(),
                checkpoints: kept.len(),
                last_checkpoint,
                validation: tx.newest_validation_run(plan, attempt)?,
            })
        }))
    }
}
