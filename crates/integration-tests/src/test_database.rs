//! Somewhere a database can be, and opening it.

#![expect(
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "tests set up here; a set-up that fails must fail the test"
)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use cleveragents_domain::id::OwnerId;
use cleveragents_engine::ports::{Clock, Ids, Result, StoreHandle, StoreOperation};
use cleveragents_engine::system::{SystemClock, SystemIds};
use cleveragents_store::{
    AlteredBackupPolicy, DataDirectory, Database, ExistingDataPolicy, ProcessInfo, ProcessPresence,
    ProgressCallback, RestoreReport, RestoreTarget, StoreOptions,
};
use tempfile::TempDir;

use crate::environment::postgres_url;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    Memory,
    Sqlite,
    Postgres,
}

/// An empty database's home. Dropping it removes the folder; what PostgreSQL holds goes with its
/// throw-away cluster.
#[derive(Debug)]
pub struct TestDatabase {
    pub backend: Backend,
    folder: TempDir,
    pub url: Option<String>,
}

/// An open database with everything a test asks for.
#[derive(Debug)]
pub struct OpenTestDatabase {
    pub database: Arc<Database>,
    pub store: StoreHandle,
    pub presence: Arc<ProcessPresence>,
    pub owner: OwnerId,
}

impl TestDatabase {
    pub fn new(backend: Backend) -> Self {
        let folder = TempDir::with_prefix("agents-proof-").expect("a temporary folder");
        let url = (backend == Backend::Postgres).then(create_schema);
        Self {
            backend,
            folder,
            url,
        }
    }

    /// A database on a server of the test's own.
    pub fn on_server(url: String) -> Self {
        Self {
            backend: Backend::Postgres,
            folder: TempDir::with_prefix("agents-proof-").expect("a temporary folder"),
            url: Some(url),
        }
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn database_file(&self) -> PathBuf {
        self.folder.path().join("cleveragents.db")
    }

    pub fn open(&self) -> OpenTestDatabase {
        self.try_open().expect("the database opens")
    }

    pub fn try_open(&self) -> Result<OpenTestDatabase> {
        open(
            self.backend,
            self.folder.path(),
            self.url.as_deref(),
            Arc::new(SystemClock),
        )
    }

    /// Opened with a clock of the test's own; PostgreSQL keeps its own time all the same.
    pub fn open_with_clock(&self, clock: Arc<dyn Clock>) -> OpenTestDatabase {
        open(self.backend, self.folder.path(), self.url.as_deref(), clock)
            .expect("the database opens")
    }
}

impl TestDatabase {
    /// Restores the backup at `path` to here. Not on a thread of the runtime.
    pub fn restore(
        &self,
        path: &Path,
        altered: AlteredBackupPolicy,
        existing: &ExistingDataPolicy,
    ) -> Result<RestoreReport> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let target = RestoreTarget {
            options: options(self.folder.path(), &clock)?,
            url: self.url.clone(),
            altered,
        };
        cleveragents_store::restore(&target, path, existing, &no_progress())
    }
}

/// Progress that nobody hears of.
pub fn no_progress() -> ProgressCallback {
    Arc::new(|_, _| {})
}

/// Opens the database of `backend` at `folder` or `url`, as a process of its own would.
pub fn open(
    backend: Backend,
    folder: &Path,
    url: Option<&str>,
    clock: Arc<dyn Clock>,
) -> Result<OpenTestDatabase> {
    let options = options(folder, &clock)?;
    let database = match backend {
        Backend::Memory => Database::memory(clock)?,
        Backend::Sqlite => Database::sqlite(&options)?,
        Backend::Postgres => Database::open(url, &options)?,
    };
    let presence = options.presence;
    Ok(OpenTestDatabase {
        store: database.handle(),
        database,
        owner: presence.owner(),
        presence,
    })
}

/// What a new process in `folder` opens or restores a database with.
fn options(folder: &Path, clock: &Arc<dyn Clock>) -> Result<StoreOptions> {
    let directory = DataDirectory::open(folder)?;
    let owner = OwnerId::new(SystemIds.next());
    let card = ProcessInfo {
        pid: std::process::id(),
        command: "proof".to_owned(),
        since: clock.now(),
    };
    let node = directory.node(&SystemIds)?;
    let presence = Arc::new(ProcessPresence::announce(
        directory.path(),
        node,
        owner,
        &card,
    )?);
    Ok(StoreOptions {
        directory,
        presence,
        clock: Arc::clone(clock),
        command: "proof".to_owned(),
    })
}

/// A write's name nobody has used.
pub fn new_operation(label: &'static str) -> StoreOperation {
    StoreOperation::new(&SystemIds, label)
}

/// Runs `sql` on the throw-away cluster with `psql`, from outside of what is tested.
///
/// # Panics
///
/// If the statement fails.
pub fn psql(url: &str, sql: &str) -> String {
    let output = Command::new("psql")
        .args([
            "-X",
            "-q",
            "-t",
            "-A",
            "-v",
            "ON_ERROR_STOP=1",
            "-d",
            url,
            "-c",
            sql,
        ])
        .output()
        .expect("psql starts");
    assert!(
        output.status.success(),
        "{sql}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Each place lives in a schema of its own, so tests cannot see each other.
fn create_schema() -> String {
    let url = postgres_url();
    let name = format!("t_{}", SystemIds.next().to_string().to_lowercase());
    psql(&url, &format!("CREATE SCHEMA {name}"));
    let joint = if url.contains('?') { '&' } else { '?' };
    format!("{url}{joint}options=-csearch_path%3D{name}")
}
