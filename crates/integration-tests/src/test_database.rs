//! The location of a test's database, and how to open it.

#![expect(
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "tests set up here; a set-up that fails must fail the test"
)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use cleveragents_domain::id::OwnerId;
use cleveragents_ports::system::{SystemClock, SystemIds};
use cleveragents_ports::{Clock, Ids, Result, StoreHandle, StoreOperation};
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

/// The location of an empty database. Dropping it removes the folder; PostgreSQL data is removed
/// with its temporary cluster.
#[derive(Debug)]
pub struct TestDatabase {
    pub backend: Backend,
    folder: TempDir,
    pub url: Option<String>,
}

/// An open database with everything a test needs.
#[derive(Debug)]
pub struct OpenTestDatabase {
    pub database: Arc<Database>,
    pub store: StoreHandle,
    pub presence: Arc<ProcessPresence>,
    pub owner: OwnerId,
}

impl TestDatabase {
    pub fn new(backend: Backend) -> Self {
        let folder = TempDir::with_prefix("agents-test-").expect("a temporary folder");
        let url = (backend == Backend::Postgres).then(create_schema);
        Self {
            backend,
            folder,
            url,
        }
    }

    /// A database on a server that only this test uses.
    pub fn on_server(url: String) -> Self {
        Self {
            backend: Backend::Postgres,
            folder: TempDir::with_prefix("agents-test-").expect("a temporary folder"),
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

    /// Opens the database with the test's clock. PostgreSQL uses its own time nevertheless.
    pub fn open_with_clock(&self, clock: Arc<dyn Clock>) -> OpenTestDatabase {
        open(self.backend, self.folder.path(), self.url.as_deref(), clock)
            .expect("the database opens")
    }
}

impl TestDatabase {
    /// Restores the backup at `path` here. Must not be called on a thread of the runtime.
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

/// A progress callback that does nothing.
pub fn no_progress() -> ProgressCallback {
    Arc::new(|_, _| {})
}

/// Opens the database of `backend` at `folder` or `url`, as a separate process would.
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

/// The options with which a new process in `folder` opens or restores a database.
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

/// An operation with a fresh id.
pub fn new_operation(label: &'static str) -> StoreOperation {
    StoreOperation::new(&SystemIds, label)
}

/// Runs `sql` on the temporary cluster with `psql`, bypassing the code under test.
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

/// Each test database has its own schema, so tests are isolated.
fn create_schema() -> String {
    let url = postgres_url();
    let name = format!("t_{}", SystemIds.next().to_string().to_lowercase());
    psql(&url, &format!("CREATE SCHEMA {name}"));
    let joint = if url.contains('?') { '&' } else { '?' };
    format!("{url}{joint}options=-csearch_path%3D{name}")
}
