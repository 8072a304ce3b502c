//! The engine's services, built from the adapters that the front end chose.

use std::sync::Arc;

use cleveragents_engine::actors::ActorRegistry;
use cleveragents_engine::decisions::DecisionService;
use cleveragents_engine::error_history::ErrorRecovery;
use cleveragents_engine::execution::ResultReader;
use cleveragents_engine::invariants::InvariantService;
use cleveragents_engine::lifecycle::{ActionRegistry, PlanLifecycle};
use cleveragents_engine::profiles::ProfileRegistry;
use cleveragents_engine::projects::ProjectService;
use cleveragents_engine::runs::RunService;
use cleveragents_engine::secrets::Secrets;
use cleveragents_engine::trust::TrustRegistry;
use cleveragents_engine::validations::ValidationRegistry;
use cleveragents_ports::models::Models;
use cleveragents_ports::{Ids, Liveness, StoreHandle};

use crate::app::{Adapters, AppDeps};
use crate::failure::RequestError;
use crate::notices::RequestNotices;
use crate::process_state::ProcessState;

/// Builds the services that handlers work with. Cheap to clone. Those that run plans are built in
/// `execution`.
#[derive(Debug, Clone)]
pub(crate) struct Services {
    deps: Arc<AppDeps>,
    process_state: Arc<ProcessState>,
    /// The notices that the reply to the request will contain.
    pub(crate) notices: Arc<RequestNotices>,
}

impl Services {
    pub(crate) fn new(deps: AppDeps) -> Self {
        Self {
            deps: Arc::new(deps),
            process_state: Arc::new(ProcessState::new()),
            notices: Arc::default(),
        }
    }

    /// Returns the services for one request, with notices of its own.
    pub(crate) fn for_request(&self) -> Self {
        Self {
            notices: Arc::default(),
            ..self.clone()
        }
    }

    pub(crate) fn deps(&self) -> &AppDeps {
        &self.deps
    }

    pub(crate) fn adapters(&self) -> &dyn Adapters {
        &*self.deps.adapters
    }

    pub(crate) fn process_state(&self) -> &ProcessState {
        &self.process_state
    }

    /// Returns all models. Connections and rate limits are shared by all requests.
    pub(crate) fn models(&self) -> Result<Arc<dyn Models>, RequestError> {
        self.process_state.models(self.adapters())
    }

    pub(crate) fn store(&self) -> &StoreHandle {
        &self.deps.store
    }

    pub(crate) fn secrets(&self) -> Result<Secrets, RequestError> {
        self.deps.adapters.secrets()
    }

    /// Replaces secrets in a text of the user, so that it can be stored.
    pub(crate) fn mask_secrets(&self, text: &str) -> Result<String, RequestError> {
        Ok(self.secrets()?.mask(text).into_owned())
    }

    /// Returns the reader for the results of plans.
    pub(crate) fn results(&self) -> Result<ResultReader, RequestError> {
        let sandboxes = self.deps.adapters.sandboxes()?;
        let node = self.deps.node.clone();
        Ok(ResultReader::new(self.deps.store.clone(), sandboxes, node))
    }

    pub(crate) fn lifecycle(&self) -> PlanLifecycle {
        let (store, ids, liveness) = self.parts();
        PlanLifecycle::new(store, ids, liveness)
    }

    /// Returns a lifecycle that stores references instead of secrets when it creates plans.
    pub(crate) fn masking_lifecycle(&self) -> Result<PlanLifecycle, RequestError> {
        let secrets = self.deps.adapters.secrets()?;
        Ok(self.lifecycle().with_secrets(secrets))
    }

    /// Returns the run service, which claims runs in the name of this process.
    pub(crate) fn runs(&self) -> RunService {
        let (store, ids, liveness) = self.parts();
        RunService::new(store, ids, liveness, self.deps.owner)
    }

    pub(crate) fn action_registry(&self) -> ActionRegistry {
        ActionRegistry::new(self.deps.store.clone(), Arc::clone(&self.deps.ids))
    }

    pub(crate) fn decisions(&self) -> DecisionService {
        let (store, ids, liveness) = self.parts();
        DecisionService::new(store, ids, liveness)
    }

    pub(crate) fn projects(&self) -> ProjectService {
        let (store, ids, liveness) = self.parts();
        ProjectService::new(store, ids, liveness)
    }

    pub(crate) fn actors(&self) -> ActorRegistry {
        let models = self.deps.adapters.configured_models();
        ActorRegistry::new(self.deps.store.clone(), Arc::clone(&self.deps.ids)).with_models(&models)
    }

    pub(crate) fn profiles(&self) -> ProfileRegistry {
        ProfileRegistry::new(self.deps.store.clone(), Arc::clone(&self.deps.ids))
    }

    pub(crate) fn validations(&self) -> ValidationRegistry {
        ValidationRegistry::new(self.deps.store.clone(), Arc::clone(&self.deps.ids))
    }

    pub(crate) fn invariants(&self) -> InvariantService {
        InvariantService::new(self.deps.store.clone(), Arc::clone(&self.deps.ids))
    }

    /// Returns the registry of consents to use files of repositories.
    pub(crate) fn trust(&self) -> TrustRegistry {
        TrustRegistry::new(self.deps.store.clone(), Arc::clone(&self.deps.ids))
    }

    pub(crate) fn error_history(&self) -> ErrorRecovery {
        ErrorRecovery::new(self.deps.store.clone(), Arc::clone(&self.deps.ids))
    }

    /// Returns what most services are built from.
    pub(crate) fn parts(&self) -> (StoreHandle, Arc<dyn Ids>, Arc<dyn Liveness>) {
        let deps = &self.deps;
        (
            deps.store.clone(),
            Arc::clone(&deps.ids),
            Arc::clone(&deps.liveness),
        )
    }
}
