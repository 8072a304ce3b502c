//! The application: what handlers work with, and how they are called.

use std::fmt;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cleveragents_api::info::{DiskUsage, Installation};
use cleveragents_api::{Failure, Message, NextStep, Reply, Request, RequestKind};
use cleveragents_domain::id::{OwnerId, SandboxId};
use cleveragents_domain::model::ModelChoice;
use cleveragents_engine::secrets::Secrets;
use cleveragents_ports::commit_history::CommitHistory;
use cleveragents_ports::maintenance::Retention;
use cleveragents_ports::models::Models;
use cleveragents_ports::project_files::ProjectFiles;
use cleveragents_ports::sandbox::Sandboxes;
use cleveragents_ports::targets::{ApplyTargets, Author};
use cleveragents_ports::tools::Toolbox;
use cleveragents_ports::{Clock, Ids, Liveness, Maintenance, StoreError, StoreHandle};
use tokio::sync::watch;

use crate::execution::{EngineAdapters, TargetLockWait};
use crate::failure::RequestError;
use crate::notices::log_notices;
use crate::progress::ProgressHub;
use crate::recover_applies::{recover_applies, unfinished_apply_warnings};
use crate::resource_directory::ResourceDirectory;
use crate::services::Services;

/// The adapters that a front end chose. One that costs something to build, or may be missing, is
/// built when a handler asks for it.
pub trait Adapters: fmt::Debug + Send + Sync {
    /// Returns access to the files that belong to the product in a project's folder.
    fn project_files(&self) -> Arc<dyn ProjectFiles>;

    /// Returns the sandboxes of this machine. Fails if git is missing.
    fn sandboxes(&self) -> Result<Arc<dyn Sandboxes>, RequestError>;

    /// Returns access to the commits of the user's repositories. Fails if git is missing.
    fn commit_history(&self) -> Result<Arc<dyn CommitHistory>, RequestError>;

    /// Returns the folder with the files of a sandbox of this machine, whether or not it exists.
    fn sandbox_tree(&self, id: SandboxId) -> PathBuf;

    /// Returns the bytes of all files of a sandbox of this machine; 0 if it does not exist.
    fn sandbox_size(&self, id: SandboxId) -> u64;

    /// Returns the known secrets, which are masked in everything that is stored.
    fn secrets(&self) -> Result<Secrets, RequestError>;

    /// Inspects the directory at `path`, which may become a resource. Fails if it cannot be read,
    /// or if it is, contains or is inside the program's own data.
    fn inspect_directory(&self, path: &Path) -> Result<ResourceDirectory, RequestError>;

    /// Returns the usable models in order of preference; none if the settings of models are wrong.
    // Not a `Result`: commands that need no model must work with wrong settings.
    fn configured_models(&self) -> Vec<ModelChoice>;

    /// Returns why the script of a scripted model cannot be read, without reading it.
    fn script_problem(&self, path: &Path) -> Option<String>;

    /// Returns how long data is kept that nothing refers to.
    fn retention(&self) -> Retention;

    /// Returns the files and folders of the program on this machine.
    fn installation(&self) -> Installation;

    /// Measures the space that the data directory takes.
    fn disk_usage(&self) -> DiskUsage;

    /// Returns all tools, to describe them. They cannot run commands.
    fn toolbox(&self) -> Result<Box<dyn Toolbox>, StoreError>;

    /// Returns what runs the tools and commands of plans. Fails if commands cannot be confined as
    /// the settings ask.
    fn engine_adapters(&self) -> Result<EngineAdapters, RequestError>;

    /// Returns all models. Nothing is connected or loaded yet. Fails if the settings of models are
    /// wrong.
    fn models(&self) -> Result<Arc<dyn Models>, RequestError>;

    /// Returns the targets of applies on this machine. Fails if git is missing.
    fn apply_targets(&self, wait: TargetLockWait) -> Result<Arc<dyn ApplyTargets>, RequestError>;

    /// Returns the command that a live process on this machine runs, if it recorded one.
    fn process_command(&self, owner: OwnerId) -> Option<String>;

    /// Returns a next step in the front end's own form, for answers with a key that holds it as a
    /// text.
    fn next_step_text(&self, step: &NextStep) -> String;
}

/// Dependencies of an [`App`].
#[derive(Debug, Clone)]
pub struct AppDeps {
    pub store: StoreHandle,
    /// The database of the store.
    pub maintenance: Arc<dyn Maintenance>,
    pub ids: Arc<dyn Ids>,
    pub clock: Arc<dyn Clock>,
    pub liveness: Arc<dyn Liveness>,
    /// The name of this machine.
    pub node: String,
    /// This process, as an owner of runs.
    pub owner: OwnerId,
    pub progress: ProgressHub,
    pub adapters: Arc<dyn Adapters>,
}

/// The origin of a request.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The name under which changes are recorded in the journal.
    pub who: String,
    /// The author of commits; `None` means the one that git is configured with.
    pub author: Option<Author>,
    /// Becomes true when the caller wants the work that it waits for to stop. The work stops at a
    /// point from which it can be resumed.
    pub cancel: watch::Receiver<bool>,
}

impl Caller {
    pub(crate) fn has_cancelled(&self) -> bool {
        *self.cancel.borrow()
    }
}

/// The product, with everything its handlers need. Cheap to clone.
#[derive(Debug, Clone)]
pub struct App {
    pub(crate) services: Services,
}

/// When a request recovers the applies that dead processes left unfinished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecoveryPolicy {
    /// Before it is handled. A request that only reads reports them instead.
    BeforeHandling,
    /// The handler decides, because the request abandons what a plan is doing: an unfinished apply
    /// of that plan must be aborted, not finished.
    ByHandler,
}

/// Handles one type of request.
pub trait Handler<R: Request> {
    const RECOVERY: RecoveryPolicy = RecoveryPolicy::BeforeHandling;

    fn handle(
        &self,
        request: R,
        caller: &Caller,
    ) -> impl Future<Output = Result<Reply<R::Answer>, RequestError>> + Send;
}

impl App {
    pub fn new(deps: AppDeps) -> Self {
        Self {
            services: Services::new(deps),
        }
    }

    /// Finishes or aborts the applies that dead processes left unfinished, as a request that writes
    /// does first. A front end calls it before it asks the user about an apply, so that the
    /// question is about the plan as it is then. Returns messages for the user about them.
    pub async fn recover_applies(&self, caller: &Caller) -> Result<Vec<Message>, StoreError> {
        recover_applies(&self.services, None, caller).await
    }

    /// Returns warnings about the applies that are unfinished, as the reply to a request that reads
    /// contains them.
    pub async fn unfinished_apply_warnings(&self) -> Result<Vec<Message>, StoreError> {
        unfinished_apply_warnings(&self.services).await
    }

    /// Logs messages that are not displayed as a part of a reply.
    pub fn log_messages(&self, messages: &[Message]) {
        log_notices(&self.services, messages);
    }

    /// Handles a request, after the recovery of unfinished applies. The reply begins with messages
    /// about them; if the request fails, these are logged.
    pub async fn call<R: Request>(
        &self,
        request: R,
        caller: &Caller,
    ) -> Result<Reply<R::Answer>, Failure>
    where
        Self: Handler<R>,
    {
        let app = Self {
            services: self.services.for_request(),
        };
        if Self::RECOVERY == RecoveryPolicy::BeforeHandling {
            // Recovery is not a background task (there is no daemon), so each request does it
            // first.
            let recovered = match request.kind() {
                // A request that only reads must not write to the user's files.
                RequestKind::Read => app.unfinished_apply_warnings().await,
                RequestKind::Write | RequestKind::Work => app.recover_applies(caller).await,
            };
            app.services
                .notices
                .add(recovered.map_err(RequestError::from)?);
        }
        let result = app.handle(request, caller).await;
        let notices = app.services.notices.take();
        match result {
            Ok(reply) => Ok(reply.after(notices)),
            Err(failure) => {
                log_notices(&self.services, &notices);
                Err(failure.into())
            }
        }
    }
}
