//! The application, built from the adapters that the settings choose.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cleveragents_api::info::{DiskUsage, Installation};
use cleveragents_api::tool::{ToolRun, ToolRunAnswer};
use cleveragents_api::{NextStep, Reply, Request};
use cleveragents_app::execution::{EngineAdapters, TargetLockWait};
use cleveragents_app::resource_directory::ResourceDirectory;
use cleveragents_app::{Adapters, App, AppDeps, Caller, Handler, RequestError};
use cleveragents_domain::id::{OwnerId, SandboxId};
use cleveragents_domain::model::ModelChoice;
use cleveragents_engine::secrets::Secrets;
use cleveragents_ports::StoreError;
use cleveragents_ports::commit_history::CommitHistory;
use cleveragents_ports::maintenance::Retention;
use cleveragents_ports::models::Models;
use cleveragents_ports::project_files::ProjectFiles;
use cleveragents_ports::sandbox::Sandboxes;
use cleveragents_ports::targets::{ApplyTargets, Author};
use cleveragents_ports::tools::Toolbox;
use cleveragents_sandbox::{LocalProjectFiles, Watcher};
use cleveragents_store::{Database, ProcessPresence};

use super::execution::{commit_history, engine_adapters, sandboxes, targets};
use super::{AppContext, Bootstrap, ShellSettings, models, secrets, toolbox};
use crate::disk;
use crate::environment::Environment;
use crate::failure::CommandFailure;
use crate::settings::Settings;
use crate::{next_step, resource_directory};

/// The adapters of this process, built from its settings and environment.
#[derive(Debug)]
struct LocalAdapters {
    data_directory: PathBuf,
    /// Exists only if the database is SQLite.
    database_file: PathBuf,
    settings: Settings,
    environment: Environment,
    presence: Arc<ProcessPresence>,
    watcher: Arc<dyn Watcher>,
}

impl LocalAdapters {
    fn sandbox_folder(&self, id: SandboxId) -> PathBuf {
        self.data_directory.join("sandboxes").join(id.to_string())
    }
}

impl Adapters for LocalAdapters {
    fn project_files(&self) -> Arc<dyn ProjectFiles> {
        Arc::new(LocalProjectFiles)
    }

    fn sandboxes(&self) -> Result<Arc<dyn Sandboxes>, RequestError> {
        sandboxes(&self.data_directory, &self.settings, &self.environment)
    }

    fn commit_history(&self) -> Result<Arc<dyn CommitHistory>, RequestError> {
        commit_history(&self.data_directory, &self.environment)
    }

    fn sandbox_tree(&self, id: SandboxId) -> PathBuf {
        self.sandbox_folder(id).join("tree")
    }

    fn sandbox_size(&self, id: SandboxId) -> u64 {
        disk::disk_usage(&self.sandbox_folder(id))
    }

    fn secrets(&self) -> Result<Secrets, RequestError> {
        secrets(&self.settings, &self.environment)
    }

    fn inspect_directory(&self, path: &Path) -> Result<ResourceDirectory, RequestError> {
        resource_directory::inspect(path, &self.settings.locations.data_directory)
    }

    fn configured_models(&self) -> Vec<ModelChoice> {
        configured_models(&self.settings, &self.environment)
    }

    fn script_problem(&self, path: &Path) -> Option<String> {
        script_problem(path)
    }

    fn retention(&self) -> Retention {
        Retention {
            operations: self.settings.operations_retention(),
            blobs: self.settings.blob_grace(),
        }
    }

    fn installation(&self) -> Installation {
        let locations = &self.settings.locations;
        let project_file = locations.project_file.as_ref();
        Installation {
            data_directory: self.data_directory.display().to_string(),
            config_file: locations.config_file.display().to_string(),
            config_file_present: locations.config_file.is_file(),
            project_config_file: project_file.map(|file| file.display().to_string()),
        }
    }

    fn disk_usage(&self) -> DiskUsage {
        let folder = &self.data_directory;
        let mut wal = self.database_file.clone().into_os_string();
        wal.push("-wal");
        DiskUsage {
            database_bytes: disk::disk_usage(&self.database_file),
            wal_bytes: disk::disk_usage(wal.as_ref()),
            blobs_bytes: disk::disk_usage(&folder.join("blobs")),
            backups_bytes: disk::disk_usage(&folder.join("backups")),
            total_bytes: disk::disk_usage(folder),
            free_bytes: disk::free_space(folder).ok(),
        }
    }

    fn toolbox(&self) -> Result<Box<dyn Toolbox>, StoreError> {
        toolbox(None, ShellSettings::default())
    }

    fn engine_adapters(&self) -> Result<EngineAdapters, RequestError> {
        engine_adapters(&self.data_directory, &self.settings, &self.environment)
    }

    fn models(&self) -> Result<Arc<dyn Models>, RequestError> {
        models(&self.settings, &self.environment)
    }

    fn apply_targets(&self, wait: TargetLockWait) -> Result<Arc<dyn ApplyTargets>, RequestError> {
        let Self {
            settings,
            environment,
            ..
        } = self;
        let watcher = Arc::clone(&self.watcher);
        let targets = targets(&self.data_directory, settings, environment, watcher)?;
        Ok(Arc::new(match wait {
            TargetLockWait::Bounded => targets,
            TargetLockWait::Never => targets.without_waiting(),
        }))
    }

    fn process_command(&self, owner: OwnerId) -> Option<String> {
        self.presence.process_info(owner).map(|it| it.command)
    }

    fn next_step_text(&self, step: &NextStep) -> String {
        next_step::render(step)
    }
}

impl Bootstrap {
    /// Returns the adapters of this process.
    fn adapters(&self) -> Arc<dyn Adapters> {
        Arc::new(LocalAdapters {
            data_directory: self.directory().to_owned(),
            database_file: self.database_file(),
            settings: self.settings.clone(),
            environment: self.environment.clone(),
            presence: Arc::clone(&self.options.presence),
            watcher: Arc::clone(&self.watcher),
        })
    }

    /// Returns what the application is built from.
    pub fn app_deps(&self, database: &Arc<Database>) -> AppDeps {
        let presence = &self.options.presence;
        AppDeps {
            store: database.handle(),
            maintenance: Arc::<Database>::clone(database),
            ids: self.ids(),
            clock: Arc::clone(&self.options.clock),
            liveness: Arc::<ProcessPresence>::clone(presence),
            node: self.node.clone(),
            owner: presence.owner(),
            progress: self.progress.clone(),
            adapters: self.adapters(),
        }
    }

    /// Runs a tool without opening the database.
    pub fn run_tool(&self, request: ToolRun) -> Result<Reply<ToolRunAnswer>, CommandFailure> {
        let run = cleveragents_app::run_tool(request, self.adapters(), self.ids());
        self.runtime.block_on(run)
    }
}

impl AppContext<'_> {
    /// Returns the application, which handles requests.
    pub fn app(&self) -> &App {
        &self.app
    }

    /// Sends a request and returns the reply.
    pub fn call<R: Request>(&self, request: R) -> Result<Reply<R::Answer>, CommandFailure>
    where
        App: Handler<R>,
    {
        Ok(self.block_on(self.app().call(request, &self.caller()))?)
    }

    /// Returns the directory that the program was started in, unless it was deleted.
    pub fn working_directory(&self) -> Option<PathBuf> {
        self.bootstrap.environment.working_directory.clone()
    }

    /// Returns this process as the caller of a request, with the author from `GIT_AUTHOR_NAME` and
    /// `GIT_AUTHOR_EMAIL`.
    pub fn caller(&self) -> Caller {
        let text = |name| {
            let value = self.bootstrap.environment.variable(name)?;
            value.to_str().map(str::to_owned)
        };
        let author = match (text("GIT_AUTHOR_NAME"), text("GIT_AUTHOR_EMAIL")) {
            (Some(name), Some(email)) => Some(Author { name, email }),
            _ => None,
        };
        Caller {
            who: self.actor().to_owned(),
            author,
            cancel: self.bootstrap.interrupt.subscribe(),
        }
    }
}

pub(super) fn configured_models(
    settings: &Settings,
    environment: &Environment,
) -> Vec<ModelChoice> {
    match models(settings, environment) {
        Ok(models) => models.configured(),
        Err(failure) => {
            // Not an error here: actors can be inspected without a model, and a command that needs
            // one fails itself.
            tracing::warn!("no model is configured: {}", failure.message);
            Vec::new()
        }
    }
}

/// Returns why the script of a scripted model cannot be read. Its content is checked when the model
/// is opened.
pub fn script_problem(path: &Path) -> Option<String> {
    match path.metadata() {
        Ok(found) if found.is_file() => None,
        Ok(_) => Some("it is not a file".to_owned()),
        Err(error) => Some(error.to_string()),
    }
}
