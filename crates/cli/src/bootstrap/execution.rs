//! Services for executing and applying plans: sandboxes, tools, confined processes and targets.
//! They are built only when a command asks for them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cleveragents_domain::id::{OwnerId, PlanId, SandboxId};
use cleveragents_engine::actors::Inquiry;
use cleveragents_engine::applying::{ApplyService, PlanApplyRequest};
use cleveragents_engine::breaker::{BreakerSettings, CircuitBreaker};
use cleveragents_engine::execution::{
    CheckpointPolicy, EngineServices, ExecutionPolicy, Executor, ExecutorDeps, ResultReader,
};
use cleveragents_engine::lifecycle::PlanLifecycle;
use cleveragents_engine::retry::RetryPolicy;
use cleveragents_engine::sandboxes::SandboxService;
use cleveragents_engine::secrets::{Secrets, is_secret};
use cleveragents_ports::Clock;
use cleveragents_ports::models::{Models, NoModels};
use cleveragents_ports::processes::Processes;
use cleveragents_ports::sandbox::Sandboxes;
use cleveragents_ports::targets::{Author, Destination};
use cleveragents_ports::tools::Toolbox;
use cleveragents_sandbox::LocalTargets;

use super::{AppContext, Bootstrap, git_settings, local_sandboxes, toolbox};
use crate::environment::Environment;
use crate::failure::{CommandFailure, ExitCode};
use crate::process;
use crate::redact::Redactor;
use crate::settings::Settings;

/// The number of validations of a plan that run in parallel.
const PARALLEL_VALIDATIONS: usize = 4;

impl Bootstrap {
    fn shared_sandboxes(&self) -> Result<Arc<dyn Sandboxes>, CommandFailure> {
        sandboxes(self.directory(), &self.settings, &self.environment)
    }

    fn secrets(&self) -> Result<Secrets, CommandFailure> {
        secrets(&self.settings, &self.environment)
    }

    fn targets(&self) -> Result<LocalTargets, CommandFailure> {
        let git = git_settings(find_git(&self.environment)?, &self.environment);
        let targets = LocalTargets::open(self.directory(), git, Arc::clone(&self.watcher))?;
        let filters = self.settings.sandbox_allow_filters();
        Ok(targets.with_allowed_filters(filters))
    }
}

/// Finds git on `PATH`. Fails with a hint on how to install it.
fn find_git(environment: &Environment) -> Result<PathBuf, CommandFailure> {
    process::find("git", environment).ok_or_else(|| {
        CommandFailure::new(ExitCode::Error, "git is needed and was not found")
            .kind("no_git")
            .because("sandboxes need git")
            .hint("install git 2.41 or newer, then `agents diagnostics`")
    })
}

/// Returns the sandboxes of a data directory, run with the git on `PATH`.
pub(super) fn sandboxes(
    directory: &Path,
    settings: &Settings,
    environment: &Environment,
) -> Result<Arc<dyn Sandboxes>, CommandFailure> {
    let git = git_settings(find_git(environment)?, environment);
    Ok(Arc::new(local_sandboxes(directory, settings, git)?))
}

/// Returns the known secrets: configured keys and passwords, and the values of variables whose
/// names mark them as secret.
pub fn secrets(settings: &Settings, environment: &Environment) -> Result<Secrets, CommandFailure> {
    let mut known = Redactor::default();
    settings.register_secrets(&mut known);
    let variables = environment.variables.iter();
    let variables = variables.filter_map(|(name, value)| Some((name.clone(), value.to_str()?)));
    let secret = variables.filter(|(name, value)| is_secret(name, value));
    let secret = secret.map(|(name, value)| (name, value.to_owned()));
    // Variables come first in the list, so a secret keeps its variable's name even if a setting has
    // the same value.
    let values = secret.chain(known.values()).collect();
    Secrets::new(values).map_err(|error| {
        CommandFailure::new(ExitCode::Error, "cannot mask secrets").caused_by(&error)
    })
}

impl AppContext<'_> {
    /// Returns the known secrets of settings and environment.
    pub fn secrets(&self) -> Result<Secrets, CommandFailure> {
        self.bootstrap.secrets()
    }

    pub fn owner(&self) -> OwnerId {
        self.bootstrap.options.presence.owner()
    }

    /// Returns the executor, which runs plans in the name of this process.
    pub fn executor(&self) -> Result<Executor, CommandFailure> {
        let Bootstrap {
            settings,
            environment,
            ..
        } = self.bootstrap;
        let services = self.services(super::models(settings, environment)?)?;
        Ok(Executor::new(services))
    }

    /// Returns the service that sends requests to models outside of any plan.
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

    fn services(&self, models: Arc<dyn Models>) -> Result<Arc<EngineServices>, CommandFailure> {
        let settings = &self.bootstrap.settings;
        let processes = self
            .bootstrap
            .processes(settings, &self.bootstrap.environment)?;
        let processes: Arc<dyn Processes> = Arc::from(processes);
        let shell = super::shell_settings(settings, &self.bootstrap.environment);
        let toolbox: Arc<dyn Toolbox> = Arc::from(toolbox(Some(Arc::clone(&processes)), shell)?);
        let clock: Arc<dyn Clock> = Arc::clone(&self.bootstrap.options.clock);
        Ok(EngineServices::new(ExecutorDeps {
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

    /// Returns a lifecycle that stores references instead of this process's secrets when it creates
    /// plans.
    pub fn masking_lifecycle(&self) -> Result<PlanLifecycle, CommandFailure> {
        Ok(self.lifecycle().with_secrets(self.bootstrap.secrets()?))
    }

    /// Replaces secrets in a text of the user, so that it can be stored.
    pub fn mask_secrets(&self, text: &str) -> Result<String, CommandFailure> {
        self.app().mask_secrets(text)
    }

    /// Sends the stop signal. Work in this process stops at a point from which it can be resumed.
    pub fn interrupt(&self) {
        self.bootstrap.interrupt.send_replace(true);
    }

    /// Fails if the stop signal was sent. Called before the next step for a plan.
    pub fn check_not_interrupted(&self, plan: PlanId) -> Result<(), CommandFailure> {
        if *self.bootstrap.interrupt.borrow() {
            Err(cleveragents_app::failure::interrupted_failure(plan))
        } else {
            Ok(())
        }
    }

    /// Returns the service that applies plans in the name of this process.
    pub fn apply_service(&self) -> Result<ApplyService, CommandFailure> {
        let services = self.services(Arc::new(NoModels))?;
        let targets = Arc::new(self.bootstrap.targets()?);
        Ok(ApplyService::new(services, targets))
    }

    /// Returns an apply service for recovering applies of dead processes. It does not wait for
    /// locks and runs no validations.
    pub(super) fn recovery_apply_service(&self) -> Result<ApplyService, CommandFailure> {
        let services = self.services(Arc::new(NoModels))?;
        let targets = Arc::new(self.bootstrap.targets()?.without_waiting());
        Ok(ApplyService::new(services, targets).without_validating())
    }

    /// Kills the commands of this plan that a dead process left running. A failure is only logged,
    /// because the command that the user asked for does not depend on it.
    pub fn end_leftover_commands(&self, plan: PlanId) {
        let end = || {
            let calls = self.store.read(move |tx| tx.unfinished_tool_calls(plan));
            // Most plans have none. Then no executor is built, which would need git.
            if self.block_on(calls)?.is_empty() {
                return Ok(());
            }
            let executor = Executor::new(self.services(Arc::new(NoModels))?);
            Ok::<_, CommandFailure>(self.block_on(executor.end_orphaned_processes(plan))?)
        };
        if let Err(failure) = end() {
            tracing::warn!("commands of the plan may still run: {}", failure.message);
        }
    }

    /// Builds an apply request, with the author from `GIT_AUTHOR_NAME` and `GIT_AUTHOR_EMAIL`.
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

    /// Returns the service for the sandboxes of all plans.
    pub fn sandboxes(&self) -> Result<SandboxService, CommandFailure> {
        let sandboxes = self.bootstrap.shared_sandboxes()?;
        let (store, ids) = (self.store.clone(), self.ids());
        Ok(SandboxService::new(store, ids, self.liveness(), sandboxes))
    }

    /// Returns the reader for the results of plans.
    pub fn results(&self) -> Result<ResultReader, CommandFailure> {
        self.app().results()
    }

    /// Returns the folder with a sandbox's files.
    pub fn sandbox_tree(&self, id: SandboxId) -> PathBuf {
        let folder = self.bootstrap.directory().join("sandboxes");
        folder.join(id.to_string()).join("tree")
    }
}
