//! The only module that names adapters. It builds the store and the services from the settings and
//! passes them to commands as values.
//!
//! [`Bootstrap`] registers this process in the data directory; [`AppContext`] adds the open
//! database. Both are released on drop. A command drops them before it returns its answer, so
//! nothing is open when the process exits. `store_failure` turns their errors into messages.

mod adapters;
mod execution;
mod models;
mod processes;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cleveragents_api::RequestKind;
use cleveragents_app::{App, ProgressHub};
use cleveragents_domain::id::OwnerId;
use cleveragents_domain::{ChainFault, StreamId, Timestamp};
use cleveragents_engine::journal::verify;
use cleveragents_engine::locks::LockService;
use cleveragents_engine::runs::RunService;
use cleveragents_ports::journal_verification::Verification;
use cleveragents_ports::limits::Limit;
use cleveragents_ports::processes::{ProcessResult, Processes};
use cleveragents_ports::runs::Holder;
use cleveragents_ports::sandbox::{SandboxResult, Sandboxes};
use cleveragents_ports::system::{SystemClock, SystemIds};
use cleveragents_ports::tools::Toolbox;
use cleveragents_ports::{Clock, Ids, Liveness, LockRow, Result, StoreOperation};
use cleveragents_ports::{StoreError, StoreHandle};
pub use cleveragents_sandbox::{ApplyStep, NoWatcher, Watcher};
use cleveragents_sandbox::{CaptureLimits, GitSettings, LocalSandboxes};
pub use cleveragents_store::{
    AlteredBackupPolicy, BackupManifest, BackupReport, Engine, ExistingDataPolicy, HealthFinding,
    NEWEST_SCHEMA, ProcessInfo, ProgressCallback, RestoreReport, Statistics, sqlite_version,
};
use cleveragents_store::{DataDirectory, Database, ProcessPresence, RestoreTarget, StoreOptions};
pub use cleveragents_tools::ShellSettings;
use cleveragents_tools::{BuiltinTools, ToolSettings};
use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::environment::Environment;
use crate::settings::Settings;
use crate::settings::resolve::DatabaseSetting;
use crate::unfinished_applies::{log_unfinished_applies, recover_applies};

pub use adapters::script_problem;
pub use cleveragents_app::plan::PlanWork;
pub use execution::secrets;
pub use models::{ModelProvider, ProviderOrigin, ProviderReply, model_providers, models};
pub use processes::{
    INHERITED_VARIABLES, RUN_COMMAND, commands_keep_root, paths_visible_to_commands, processes,
    run_command,
};

/// Timeout for one run of git.
const GIT_TIMEOUT: Duration = Duration::from_secs(60);

/// This process, registered in its data directory, with everything needed to open the database.
#[derive(Debug)]
pub struct Bootstrap {
    runtime: Runtime,
    /// Stop signal for all work in this process.
    interrupt: watch::Sender<bool>,
    options: StoreOptions,
    /// `None` means SQLite in the data directory.
    url: Option<String>,
    ids: Arc<dyn Ids>,
    node: String,
    settings: Settings,
    environment: Environment,
    watcher: Arc<dyn Watcher>,
    progress: ProgressHub,
}

#[derive(Debug)]
pub struct AppContext<'a> {
    bootstrap: &'a Bootstrap,
    database: Arc<Database>,
    store: StoreHandle,
    app: App,
}

impl Bootstrap {
    /// Creates the data directory if needed and registers there that `command` is running.
    pub fn announce(settings: &Settings, environment: &Environment, command: &str) -> Result<Self> {
        let url = database_url(settings)?;
        let directory = DataDirectory::open(&settings.locations.data_directory)?;
        let ids: Arc<dyn Ids> = Arc::new(SystemIds);
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let node = directory.node(&*ids)?;
        let card = ProcessInfo {
            pid: std::process::id(),
            command: command.to_owned(),
            since: clock.now(),
        };
        let owner = OwnerId::new(ids.next());
        // Before the database is opened: other processes must see this one as alive as soon as it
        // can own a run.
        let presence = ProcessPresence::announce(directory.path(), node.clone(), owner, &card)?;
        // One thread is enough: blocking work runs on threads of its own, and starting more costs
        // time at each command.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(StoreError::internal)?;
        Ok(Self {
            runtime,
            interrupt: watch::Sender::new(false),
            options: StoreOptions {
                directory,
                presence: Arc::new(presence),
                clock,
                command: command.to_owned(),
            },
            url,
            ids,
            node,
            settings: settings.clone(),
            environment: environment.clone(),
            watcher: Arc::new(NoWatcher),
            progress: ProgressHub::default(),
        })
    }

    /// Sets a watcher that is notified of each durable step of an apply.
    pub fn with_watcher(self, watcher: &Arc<dyn Watcher>) -> Self {
        Self {
            watcher: Arc::clone(watcher),
            ..self
        }
    }

    /// Opens the database for a command that writes; creates or migrates it first if needed. If a
    /// process on this machine died during an apply, that apply is finished or aborted before
    /// anything else. An apply that a live process holds is only reported.
    pub fn open(&self) -> Result<AppContext<'_>> {
        // The reserved space lets `gc` work on a full disk.
        crate::reserve::ensure(self.directory());
        let app = self.connect()?;
        // Commands without a request do not pass `App::call`, which does this for all others.
        app.block_on(recover_applies(&app))?;
        Ok(app)
    }

    /// Opens the database for a command that only reads. Unfinished applies are reported, and
    /// nothing waits.
    pub fn open_to_read(&self) -> Result<AppContext<'_>> {
        let app = self.connect()?;
        log_unfinished_applies(&app)?;
        Ok(app)
    }

    /// Opens the database to send requests. The application recovers or reports unfinished applies
    /// when it is called.
    pub fn open_for_requests(&self, kind: RequestKind) -> Result<AppContext<'_>> {
        if kind != RequestKind::Read {
            crate::reserve::ensure(self.directory());
        }
        self.connect()
    }

    fn connect(&self) -> Result<AppContext<'_>> {
        let database = Database::open(self.url.as_deref(), &self.options)?;
        Ok(AppContext {
            bootstrap: self,
            store: database.handle(),
            // Built once (law 8): the requests of a command share breaker, rate limits and slot
            // queue.
            app: App::new(self.app_deps(&database)),
            database,
        })
    }

    /// Restores a backup. The caller must not have the database open: a restore needs exclusive
    /// access.
    pub fn restore(
        &self,
        path: &Path,
        existing: &ExistingDataPolicy,
        altered: AlteredBackupPolicy,
        progress: &ProgressCallback,
    ) -> Result<RestoreReport> {
        let target = RestoreTarget {
            options: self.options.clone(),
            url: self.url.clone(),
            altered,
        };
        cleveragents_store::restore(&target, path, existing, progress)
    }

    /// Returns the sandboxes of this data directory, run with the git at `program`.
    pub fn sandboxes(
        &self,
        program: PathBuf,
        environment: &Environment,
    ) -> SandboxResult<Box<dyn Sandboxes>> {
        let git = git_settings(program, environment);
        let sandboxes = local_sandboxes(self.directory(), &self.settings, git)?;
        Ok(Box::new(sandboxes))
    }

    /// Returns the process runner for commands of plans, confined as the settings say.
    pub fn processes(
        &self,
        settings: &Settings,
        environment: &Environment,
    ) -> ProcessResult<Box<dyn Processes>> {
        processes(settings, self.directory(), environment)
    }

    pub fn ids(&self) -> Arc<dyn Ids> {
        Arc::clone(&self.ids)
    }

    /// Returns the canonical path of the data directory.
    pub fn directory(&self) -> &Path {
        self.options.directory.path()
    }

    pub fn database_file(&self) -> PathBuf {
        self.options.directory.database()
    }

    pub fn engine(&self) -> Engine {
        match self.url {
            Some(_) => Engine::Postgres,
            None => Engine::Sqlite,
        }
    }

    pub fn node(&self) -> &str {
        &self.node
    }

    pub fn now(&self) -> Timestamp {
        self.options.clock.now()
    }

    /// Returns the other live processes in this data directory.
    pub fn other_processes(&self) -> Result<Vec<ProcessInfo>> {
        self.options.presence.other_processes()
    }
}

impl AppContext<'_> {
    pub fn store(&self) -> &StoreHandle {
        &self.store
    }

    pub fn database(&self) -> &Arc<Database> {
        &self.database
    }

    /// Returns the actor name for the journal.
    pub fn actor(&self) -> &str {
        &self.bootstrap.options.command
    }

    pub fn operation(&self, label: &'static str) -> StoreOperation {
        StoreOperation::new(&*self.bootstrap.ids, label)
    }

    pub fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.bootstrap.runtime.block_on(work)
    }

    pub fn engine(&self) -> Engine {
        self.database.engine()
    }

    pub fn database_location(&self) -> String {
        self.database.location()
    }

    pub fn statistics(&self) -> Result<Statistics> {
        self.block_on(self.database.statistics())
    }

    pub fn check(&self) -> Result<Vec<HealthFinding>> {
        self.block_on(self.database.check())
    }

    pub fn backup(&self, path: &Path, progress: ProgressCallback) -> Result<BackupReport> {
        self.block_on(self.database.backup(path, progress))
    }

    pub fn streams(&self) -> Result<Vec<StreamId>> {
        self.block_on(self.store.read(|tx| tx.streams()))
    }

    pub fn verify(&self, stream: StreamId) -> Result<Result<Verification, ChainFault>> {
        self.block_on(verify(&self.store, stream, None))
    }

    pub fn ids(&self) -> Arc<dyn Ids> {
        self.bootstrap.ids()
    }

    pub fn liveness(&self) -> Arc<dyn Liveness> {
        Arc::<ProcessPresence>::clone(&self.bootstrap.options.presence)
    }

    /// Returns the run service, which claims runs in the name of this process.
    pub fn runs(&self) -> RunService {
        let owner = self.bootstrap.options.presence.owner();
        RunService::new(self.store.clone(), self.ids(), self.liveness(), owner)
    }

    pub fn stale_runs(&self) -> Result<Vec<Holder>> {
        self.block_on(self.runs().stale())
    }

    pub fn stale_locks(&self) -> Result<Vec<LockRow>> {
        let ids = Arc::clone(&self.bootstrap.ids);
        let presence = Arc::clone(&self.bootstrap.options.presence);
        let owner = presence.owner();
        self.block_on(LockService::new(self.store.clone(), ids, presence, owner).stale())
    }
}

/// Returns the sandboxes of a data directory, with the limits of the settings.
fn local_sandboxes(
    directory: &Path,
    settings: &Settings,
    git: GitSettings,
) -> SandboxResult<LocalSandboxes> {
    let sandboxes = LocalSandboxes::open(directory, git)?;
    let filters = settings.sandbox_allow_filters();
    let limits = CaptureLimits {
        new_files: settings.sandbox_limit(Limit::CapturedFiles),
        total_size: settings.sandbox_limit(Limit::CapturedSize),
        file_size: settings.sandbox_limit(Limit::FileSize),
    };
    Ok(sandboxes.with_allowed_filters(filters).with_limits(limits))
}

fn git_settings(program: PathBuf, environment: &Environment) -> GitSettings {
    // Only these two: any other variable of git could redirect it to another repository.
    let variable = |name| environment.variable(name).map(OsStr::to_owned);
    GitSettings {
        program,
        search_path: variable("PATH").unwrap_or_default(),
        home: variable("HOME").unwrap_or_default().into(),
        timeout: GIT_TIMEOUT,
    }
}

/// Returns all built-in tools. Without `processes` the shell tool refuses to run commands.
pub fn toolbox(
    processes: Option<Arc<dyn Processes>>,
    shell: ShellSettings,
) -> Result<Box<dyn Toolbox>> {
    let settings = ToolSettings { shell, processes };
    let tools = BuiltinTools::new(settings).map_err(StoreError::internal)?;
    Ok(Box::new(tools))
}

/// Returns the shell settings that the user's settings ask for.
pub fn shell_settings(settings: &Settings, environment: &Environment) -> ShellSettings {
    ShellSettings {
        network: settings.sandbox_network(),
        writable: settings.sandbox_writable_paths(environment.home().as_deref()),
        ..ShellSettings::default()
    }
}

/// Reads a whole backup and returns its manifest. Fails if the backup is damaged.
pub fn inspect_backup(path: &Path) -> Result<BackupManifest> {
    cleveragents_store::inspect_backup(path)
}

/// Returns the type of the file system that holds `path`, where the system reports it.
pub fn file_system(path: &Path) -> Option<String> {
    let table = std::fs::read("/proc/self/mountinfo").ok()?;
    let path = path.canonicalize().ok()?;
    cleveragents_store::file_system_type(&table, &path)
}

/// Returns the database URL; `None` means SQLite in the data directory.
fn database_url(settings: &Settings) -> Result<Option<String>> {
    let DatabaseSetting::Url(url) = settings.database() else {
        return Ok(None);
    };
    let Some(path) = url.strip_prefix("sqlite:") else {
        return Ok(Some(url));
    };
    let folder = &settings.locations.data_directory;
    // The same file by its URL. Another path would escape the lock and the presence files of the
    // data directory.
    if Path::new(path) == folder.join("cleveragents.db") {
        return Ok(None);
    }
    Err(StoreError::Address {
        reason: format!(
            "a SQLite database is always cleveragents.db in the data directory, {} here; \
             choose another directory instead",
            folder.display()
        ),
    })
}
