//! The application, built from the adapters that the settings choose.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cleveragents_api::{Reply, Request};
use cleveragents_app::resource_directory::ResourceDirectory;
use cleveragents_app::{Adapters, App, AppDeps, Caller, Handler, RequestError};
use cleveragents_domain::id::PlanId;
use cleveragents_engine::secrets::Secrets;
use cleveragents_ports::StoreError;
use cleveragents_ports::project_files::ProjectFiles;
use cleveragents_ports::sandbox::Sandboxes;
use cleveragents_sandbox::LocalProjectFiles;

use super::execution::sandboxes;
use super::{AppContext, PlanWork, secrets};
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
