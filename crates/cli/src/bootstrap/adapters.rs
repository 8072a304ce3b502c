//! The application, built from the adapters that the settings choose.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cleveragents_api::{Reply, Request};
use cleveragents_app::resource_directory::ResourceDirectory;
use cleveragents_app::{Adapters, App, AppDeps, Caller, Handler, RequestError};
use cleveragents_domain::id::PlanId;
use cleveragents_domain::model::ModelChoice;
use cleveragents_engine::secrets::Secrets;
use cleveragents_ports::StoreError;
use cleveragents_ports::project_files::ProjectFiles;
use cleveragents_ports::sandbox::Sandboxes;
use cleveragents_ports::tools::Toolbox;
use cleveragents_sandbox::LocalProjectFiles;

use super::execution::sandboxes;
use super::{AppContext, PlanWork, ShellSettings, models, secrets, toolbox};
use crate::environment::Environment;
use crate::failure::CommandFailure;
use crate::resource_directory;
use crate::settings::Settings;

/// The adapters of this process, built from its settings and environment.
#[derive(Debug)]
struct LocalAdapters {
    data_directory: PathBuf,
    settings: Settings,
    environment: Environment,
}

impl Adapters for LocalAdapters {
    fn project_files(&self) -> Arc<dyn ProjectFiles> {
        Arc::new(LocalProjectFiles)
    }

    fn sandboxes(&self) -> Result<Arc<dyn Sandboxes>, RequestError> {
        sandboxes(&self.data_directory, &self.settings, &self.environment)
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

    fn toolbox(&self) -> Result<Box<dyn Toolbox>, StoreError> {
        toolbox(None, ShellSettings::default())
    }
}

impl AppContext<'_> {
    /// Returns the application, which handles requests.
    pub fn app(&self) -> App {
        let bootstrap = self.bootstrap;
        App::new(AppDeps {
            store: self.store.clone(),
            ids: self.ids(),
            clock: Arc::clone(&bootstrap.options.clock),
            liveness: self.liveness(),
            node: bootstrap.node.clone(),
            owner: self.owner(),
            adapters: Arc::new(LocalAdapters {
                data_directory: bootstrap.directory().to_owned(),
                settings: bootstrap.settings.clone(),
                environment: bootstrap.environment.clone(),
            }),
        })
    }

    /// Sends a request and returns the reply.
    pub fn call<R: Request>(&self, request: R) -> Result<Reply<R::Answer>, CommandFailure>
    where
        App: Handler<R>,
    {
        Ok(self.block_on(self.app().call(request, &self.caller()))?)
    }

    /// Returns this process as the caller of a request.
    pub fn caller(&self) -> Caller {
        Caller {
            who: self.actor().to_owned(),
        }
    }

    /// Reads the recorded work of a plan.
    pub fn plan_work(&self, plan: PlanId) -> Result<PlanWork, StoreError> {
        self.block_on(self.app().plan_work(plan))
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
