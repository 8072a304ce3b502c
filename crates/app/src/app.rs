//! The application: what handlers work with, and how they are called.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use cleveragents_api::{Failure, Reply, Request};
use cleveragents_engine::lifecycle::PlanLifecycle;
use cleveragents_ports::project_files::ProjectFiles;
use cleveragents_ports::{Ids, Liveness, StoreHandle};

use crate::failure::RequestError;

/// The adapters that a front end chose. One that costs something to build, or may be missing, is
/// built when a handler asks for it.
pub trait Adapters: fmt::Debug + Send + Sync {
    /// Returns access to the files that belong to the product in a project's folder.
    fn project_files(&self) -> Arc<dyn ProjectFiles>;
}

/// Dependencies of an [`App`].
#[derive(Debug, Clone)]
pub struct AppDeps {
    pub store: StoreHandle,
    pub ids: Arc<dyn Ids>,
    pub liveness: Arc<dyn Liveness>,
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

    pub(crate) fn lifecycle(&self) -> PlanLifecycle {
        let AppDeps {
            store,
            ids,
            liveness,
            ..
        } = &*self.deps;
        PlanLifecycle::new(store.clone(), Arc::clone(ids), Arc::clone(liveness))
    }
}
