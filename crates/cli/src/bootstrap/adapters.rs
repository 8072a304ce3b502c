//! The application, built from the adapters that the settings choose.

use std::sync::Arc;

use cleveragents_app::{Adapters, App, AppDeps, Caller};
use cleveragents_ports::project_files::ProjectFiles;
use cleveragents_sandbox::LocalProjectFiles;

use super::AppContext;

/// The adapters of this process.
#[derive(Debug)]
struct LocalAdapters;

impl Adapters for LocalAdapters {
    fn project_files(&self) -> Arc<dyn ProjectFiles> {
        Arc::new(LocalProjectFiles)
    }
}

impl AppContext<'_> {
    /// Returns the application, which handles requests.
    pub fn app(&self) -> App {
        App::new(AppDeps {
            store: self.store.clone(),
            ids: self.ids(),
            liveness: self.liveness(),
            adapters: Arc::new(LocalAdapters),
        })
    }

    /// Returns this process as the caller of a request.
    pub fn caller(&self) -> Caller {
        Caller {
            who: self.actor().to_owned(),
        }
    }
}
