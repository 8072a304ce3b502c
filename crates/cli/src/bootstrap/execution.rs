//! Services for executing and applying plans: sandboxes, tools, confined processes and targets.
//! They are built only when a command asks for them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cleveragents_app::execution::EngineAdapters;
use cleveragents_domain::id::{OwnerId, PlanId};
use cleveragents_engine::execution::{CheckpointPolicy, ExecutionPolicy, ResultReader};
use cleveragents_engine::retry::RetryPolicy;
use cleveragents_engine::secrets::{Redactor, Secrets, is_secret};
use cleveragents_ports::commit_history::CommitHistory;
use cleveragents_ports::processes::Processes;
use cleveragents_ports::sandbox::Sandboxes;
use cleveragents_sandbox::{LocalHistory, LocalTargets, Watcher};

use super::{AppContext, Bootstrap, git_settings, local_sandboxes, processes, toolbox};
use crate::environment::Environment;
use crate::failure::{CommandFailure, ExitCode, FailureKind};
use crate::process;
use crate::settings::Settings;

/// The number of validations of a plan that run in parallel.
const PARALLEL_VALIDATIONS: usize = 4;

/// Finds git on `PATH`. Fails with a hint on how to install it.
fn find_git(environment: &Environment) -> Result<PathBuf, CommandFailure> {
    process::find("git", environment).ok_or_else(|| {
        CommandFailure::new(ExitCode::Error, "git is needed and was not found")
            .kind(FailureKind::NoGit)
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

/// Returns the commits of the user's repositories, read with the git on `PATH`.
pub(super) fn commit_history(
    directory: &Path,
    environment: &Environment,
) -> Result<Arc<dyn CommitHistory>, CommandFailure> {
    let git = git_settings(find_git(environment)?, environment);
    Ok(Arc::new(LocalHistory::open(directory, git)?))
}

/// Returns the targets of applies, changed with the git on `PATH`.
pub(super) fn targets(
    directory: &Path,
    settings: &Settings,
    environment: &Environment,
    watcher: Arc<dyn Watcher>,
) -> Result<LocalTargets, CommandFailure> {
    let git = git_settings(find_git(environment)?, environment);
    let targets = LocalTargets::open(directory, git, watcher)?;
    Ok(targets.with_allowed_filters(settings.sandbox_allow_filters()))
}

/// Returns what runs the tools and commands of plans, confined and limited as the settings say.
pub(super) fn engine_adapters(
    directory: &Path,
    settings: &Settings,
    environment: &Environment,
) -> Result<EngineAdapters, CommandFailure> {
    let processes: Arc<dyn Processes> = processes(settings, directory, environment)?.into();
    let shell = super::shell_settings(settings, environment);
    Ok(EngineAdapters {
        toolbox: toolbox(Some(Arc::clone(&processes)), shell)?.into(),
        processes,
        policy: ExecutionPolicy {
            checkpoints: CheckpointPolicy {
                triggers: settings.checkpoint_triggers(),
                ..CheckpointPolicy::default()
            },
            concurrency: u32::try_from(settings.plan_concurrency()).unwrap_or(u32::MAX),
            parallel_validations: PARALLEL_VALIDATIONS,
            network: settings.sandbox_network(),
            reserved_answer_tokens: settings.reserved_answer_tokens(),
            retry: RetryPolicy::default(),
        },
    })
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
    pub fn owner(&self) -> OwnerId {
        self.bootstrap.options.presence.owner()
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

    /// Returns the reader for the results of plans.
    pub fn results(&self) -> Result<ResultReader, CommandFailure> {
        let Bootstrap {
            settings,
            environment,
            node,
            ..
        } = self.bootstrap;
        let sandboxes = sandboxes(self.bootstrap.directory(), settings, environment)?;
        Ok(ResultReader::new(
            self.store.clone(),
            sandboxes,
            node.clone(),
        ))
    }
}
