//! The application: what handlers work with, and how they are called.

use std::fmt;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;

use cleveragents_api::{Failure, Reply, Request};
use cleveragents_domain::Timestamp;
use cleveragents_domain::id::OwnerId;
use cleveragents_domain::model::ModelChoice;
use cleveragents_engine::actors::ActorRegistry;
use cleveragents_engine::decisions::DecisionService;
use cleveragents_engine::execution::ResultReader;
use cleveragents_engine::invariants::InvariantService;
use cleveragents_engine::lifecycle::PlanLifecycle;
use cleveragents_engine::profiles::ProfileRegistry;
use cleveragents_engine::projects::ProjectService;
use cleveragents_engine::recovery::ErrorRecovery;
use cleveragents_engine::runs::RunService;
use cleveragents_engine::secrets::Secrets;
use cleveragents_engine::trust::TrustRegistry;
use cleveragents_engine::validations::ValidationRegistry;
use cleveragents_ports::project_files::ProjectFiles;
use cleveragents_ports::sandbox::Sandboxes;
use cleveragents_ports::tools::Toolbox;
use cleveragents_ports::{Clock, Ids, Liveness, StoreError, StoreHandle};

use crate::failure::RequestError;
use crate::resource_directory::ResourceDirectory;

/// The adapters that a front end chose. One that costs something to build, or may be missing, is
/// built when a handler asks for it.
pub trait Adapters: fmt::Debug + Send + Sync {
    /// Returns access to the files that belong to the product in a project's folder.
    fn project_files(&self) -> Arc<dyn ProjectFiles>;

    /// Returns the sandboxes of this machine. Fails if git is missing.
    fn sandboxes(&self) -> Result<Arc<dyn Sandboxes>, RequestError>;

    /// Returns the known secrets, which are masked in everything that is stored.
    fn secrets(&self) -> Result<Secrets, RequestError>;

    /// Inspects the directory at `path`, which may become a resource. Fails if it cannot be read,
    /// or if it is, contains or is inside the program's own data.
    fn inspect_directory(&self, path: &Path) -> Result<ResourceDirectory, RequestError>;

    /// Returns the usable models in order of preference; none if the settings of models are wrong.
    fn configured_models(&self) -> Vec<ModelChoice>;

    /// Returns why the script of a scripted model cannot be read, without reading it.
    fn script_problem(&self, path: &Path) -> Option<String>;

    /// Returns all tools, to describe them. They cannot run commands.
    fn toolbox(&self) -> Result<Box<dyn Toolbox>, StoreError>;
}

/// Dependencies of an [`App`].
#[derive(Debug, Clone)]
pub struct AppDeps {
    pub store: StoreHandle,
    pub ids: Arc<dyn Ids>,
    pub clock: Arc<dyn Clock>,
    pub liveness: Arc<dyn Liveness>,
    /// The name of this machine.
    pub node: String,
    /// This process, as an owner of runs.
    pub owner: OwnerId,
    pub adapters: Arc<dyn Adapters>,
}

/// The origin of a request.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The name under which changes are recorded in the journal.
    pub who: String,
}

/// The product, with everything its handlers need. Cheap to clone.
#[derive(Debug, Clone)]
pub struct App {
    deps: Arc<AppDeps>,
}

/// Handles one type of request.
pub trait Handler<R: Request> {
    fn handle(
        &self,
        request: R,
        caller: &Caller,
    ) -> impl Future<Output = Result<Reply<R::Answer>, RequestError>> + Send;
}

impl App {
    pub fn new(deps: AppDeps) -> Self {
        Self {
            deps: Arc::new(deps),
        }
    }

    /// Handles a request.
    pub async fn call<R: Request>(
        &self,
        request: R,
        caller: &Caller,
    ) -> Result<Reply<R::Answer>, Failure>
    where
        Self: Handler<R>,
    {
        Ok(self.handle(request, caller).await?)
    }

    pub(crate) fn project_files(&self) -> Arc<dyn ProjectFiles> {
        self.deps.adapters.project_files()
    }

    pub(crate) fn sandboxes(&self) -> Result<Arc<dyn Sandboxes>, RequestError> {
        self.deps.adapters.sandboxes()
    }

    /// Replaces secrets in a text of the user, so that it can be stored.
    pub fn mask_secrets(&self, text: &str) -> Result<String, RequestError> {
        Ok(self.secrets()?.hide(text).into_owned())
    }

    pub(crate) fn secrets(&self) -> Result<Secrets, RequestError> {
        self.deps.adapters.secrets()
    }

    /// Returns the reader for the results of plans.
    pub fn results(&self) -> Result<ResultReader, RequestError> {
        let sandboxes = self.deps.adapters.sandboxes()?;
        let node = self.deps.node.clone();
        Ok(ResultReader::new(self.deps.store.clone(), sandboxes, node))
    }

    /// Returns a lifecycle that stores references instead of secrets when it creates plans.
    pub(crate) fn masking_lifecycle(&self) -> Result<PlanLifecycle, RequestError> {
        let secrets = self.deps.adapters.secrets()?;
        Ok(self.lifecycle().with_secrets(secrets))
    }

    /// Returns the registry of consents to use files of repositories.
    pub(crate) fn trust(&self) -> TrustRegistry {
        TrustRegistry::new(self.deps.store.clone(), Arc::clone(&self.deps.ids))
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.deps.clock.now()
    }

    pub(crate) fn store(&self) -> &StoreHandle {
        &self.deps.store
    }

    pub(crate) fn recovery(&self) -> ErrorRecovery {
        ErrorRecovery::new(self.deps.store.clone(), Arc::clone(&self.deps.ids))
    }

    pub(crate) fn decisions(&self) -> DecisionService {
        let (store, ids, liveness) = self.parts();
        DecisionService::new(store, ids, liveness)
    }

    /// Returns the run service, which claims runs in the name of this process.
    pub(crate) fn runs(&self) -> RunService {
        let (store, ids, liveness) = self.parts();
        RunService::new(store, ids, liveness, self.deps.owner)
    }

    pub(crate) fn lifecycle(&self) -> PlanLifecycle {
        let (store, ids, liveness) = self.parts();
        PlanLifecycle::new(store, ids, liveness)
    }

    /// Returns what most services are built from.
    fn parts(&self) -> (StoreHandle, Arc<dyn Ids>, Arc<dyn Liveness>) {
        let AppDeps {
            store,
            ids,
            liveness,
            ..
        } = &*self.deps;
        (store.clone(), Arc::clone(ids), Arc::clone(liveness))
    }

    pub(crate) fn adapters(&self) -> &dyn Adapters {
        &*self.deps.adapters
    }

    pub(crate) fn toolbox(&self) -> Result<Box<dyn Toolbox>, StoreError> {
        self.deps.adapters.toolbox()
    }

    pub(crate) fn actors(&self) -> ActorRegistry {
        let AppDeps { store, ids, .. } = &*self.deps;
        let models = self.deps.adapters.configured_models();
        ActorRegistry::new(store.clone(), Arc::clone(ids)).with_models(&models)
    }

    pub(crate) fn profiles(&self) -> ProfileRegistry {
        let AppDeps { store, ids, .. } = &*self.deps;
        ProfileRegistry::new(store.clone(), Arc::clone(ids))
    }

    pub(crate) fn validations(&self) -> ValidationRegistry {
        let AppDeps { store, ids, .. } = &*self.deps;
        ValidationRegistry::new(store.clone(), Arc::clone(ids))
    }

    pub(crate) fn invariants(&self) -> InvariantService {
        InvariantService::new(self.deps.store.clone(), Arc::clone(&self.deps.ids))
    }

    pub(crate) fn projects(&self) -> ProjectService {
        let (store, ids, liveness) = self.parts();
        ProjectService::new(store, ids, liveness)
    }

    pub(crate) fn inspect_directory(&self, path: &Path) -> Result<ResourceDirectory, RequestError> {
        self.deps.adapters.inspect_directory(path)
    }
}
