//! A temporary PostgreSQL cluster for one run, with its own folder, port, password and certificate.
//!
//! It must leave nothing behind, however xtask ends. A small guard process therefore waits for the
//! end of a pipe that only xtask holds, then stops the cluster and removes the folder; success,
//! failure and `kill -9` all take that path. Start at [`PostgresCluster::start`]; `packages`
//! installs the programs, `account` selects the unprivileged user, `script` writes the control
//! script for tests.

pub mod account;
pub mod certificate;
pub mod packages;
pub mod script;

use std::io::Read as _;
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

use crate::{files, output, process};
use account::ClusterAccount;
use packages::Programs;

/// The variables through which the tests find the cluster.
pub const URL: &str = "CLEVERAGENTS_TEST_POSTGRES";
pub const CA: &str = "CLEVERAGENTS_TEST_POSTGRES_CA";
pub const CONTROL: &str = "CLEVERAGENTS_TEST_POSTGRES_CONTROL";

/// The end of its input means that xtask ended. It must survive an interrupt sent to the process
/// group.
const GUARD: &str = r#"trap '' INT TERM HUP QUIT
cat >/dev/null
[ -x "$1/control" ] && "$1/control" discard
rm -rf -- "$1""#;

const START_ATTEMPTS: usize = 3;

/// A running cluster; dropping it stops it and removes its folder.
#[derive(Debug)]
pub struct PostgresCluster {
    folder: PathBuf,
    password: String,
    port: u16,
    guard: Child,
}

impl PostgresCluster {
    /// Installs missing packages, then starts a fresh cluster that accepts connections.
    pub fn start() -> Result<PostgresCluster> {
        let programs = packages::ensure()?;
        let account = account::unprivileged()?;
        let folder = make_folder(&account)?;
        let mut cluster = PostgresCluster {
            // Started before anything else, so that even a failed start is cleaned up.
            guard: start_guard(&folder)?,
            folder,
            // Random, because other users of the machine can reach the port.
            password: random_password()?,
            port: 0,
        };
        cluster
            .set_up(&programs, &account)
            .context("cannot start a PostgreSQL cluster for the tests")?;
        output::line(&format!(
            "PostgreSQL for this run: 127.0.0.1:{}, as {}, in {}",
            cluster.port,
            account.name,
            cluster.folder.display()
        ));
        Ok(cluster)
    }

    /// The environment variables for the tests.
    pub fn variables(&self) -> Vec<(String, String)> {
        let control = self.control();
        vec![
            (URL.into(), self.url()),
            (CA.into(), self.ca().display().to_string()),
            (CONTROL.into(), control.display().to_string()),
        ]
    }

    /// Address, user, password and database in one.
    pub fn url(&self) -> String {
        format!(
            "postgres://agents:{}@127.0.0.1:{}/agents",
            self.password, self.port
        )
    }

    /// The certificate to trust.
    pub fn ca(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    /// The script with the commands `stop`, `start`, `restart`, `kill`.
    pub fn control(&self) -> PathBuf {
        self.folder.join("control")
    }

    /// The folder that holds everything of this cluster.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn set_up(&mut self, programs: &Programs, account: &ClusterAccount) -> Result<()> {
        let home = self.folder.join("home");
        std::fs::create_dir(&home)?;
        files::set_mode(&home, 0o700)?;
        account.give_ownership(&home)?;

        certificate::create(&self.folder, &home, account)?;
        self.initialise(programs, account, &home)?;
        let script = script::text(&programs.postgres, account, &home);
        files::write_script(&self.control(), &script)?;
        self.listen(account, &home)?;
        self.create_database(programs, account, &home)
    }

    fn initialise(&self, programs: &Programs, account: &ClusterAccount, home: &Path) -> Result<()> {
        let password_file = self.folder.join("password");
        files::write(&password_file, &self.password)?;
        files::set_mode(&password_file, 0o600)?;
        account.give_ownership(&password_file)?;
        process::capture(
            account
                .command(programs.postgres.join("initdb"))
                .current_dir(home)
                .args(["--username=agents", "--auth=scram-sha-256"])
                // The C locale sorts bytes, as SQLite does, and exists on every machine.
                .args(["--encoding=UTF8", "--locale=C", "--no-instructions"])
                .arg(format!("--pwfile={}", password_file.display()))
                .arg("--pgdata=data"),
        )?;
        // `initdb` has stored it as a hash.
        std::fs::remove_file(password_file)?;
        Ok(())
    }

    /// A port that was free may be taken a moment later, so several are tried.
    fn listen(&mut self, account: &ClusterAccount, home: &Path) -> Result<()> {
        let mut attempt = 1;
        loop {
            self.port = free_port()?;
            let settings = home.join("data/postgresql.auto.conf");
            files::write(&settings, &script::settings(self.port, home))?;
            account.give_ownership(&settings)?;
            match process::capture(process::command(self.control()).arg("start")) {
                Ok(_) => return Ok(()),
                Err(_) if attempt < START_ATTEMPTS => attempt += 1,
                Err(error) => return Err(error),
            }
        }
    }

    fn create_database(
        &self,
        programs: &Programs,
        account: &ClusterAccount,
        home: &Path,
    ) -> Result<()> {
        process::capture(
            account
                .command(programs.postgres.join("createdb"))
                .current_dir(home)
                .env("PGPASSWORD", &self.password)
                .arg(format!("--host={}", home.display()))
                .arg(format!("--port={}", self.port))
                .args(["--username=agents", "agents"]),
        )?;
        Ok(())
    }
}

impl Drop for PostgresCluster {
    fn drop(&mut self) {
        // The end of its input is the signal to stop the cluster.
        drop(self.guard.stdin.take());
        if let Err(error) = self.guard.wait() {
            let folder = self.folder.display();
            output::problem(&format!("{folder} may be left behind: {error}"));
        }
    }
}

/// The account must be able to reach the folder, which a private temporary folder of root does not
/// allow.
fn make_folder(account: &ClusterAccount) -> Result<PathBuf> {
    let preferred = std::env::temp_dir();
    let parent = if account.can_enter(&preferred) {
        preferred
    } else {
        PathBuf::from("/tmp")
    };
    let folder = tempfile::Builder::new()
        .prefix("cleveragents-postgres-")
        .tempdir_in(&parent)
        .with_context(|| format!("cannot make a folder in {}", parent.display()))?
        .keep();
    // The account must enter the folder; secrets in it have modes of their own.
    files::set_mode(&folder, 0o755)?;
    Ok(folder)
}

fn start_guard(folder: &Path) -> Result<Child> {
    let mut guard: Command = process::command("sh");
    guard
        .args(["-c", GUARD, "sh"])
        .arg(folder)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0);
    guard
        .spawn()
        .context("cannot start the guard of the PostgreSQL cluster")
}

fn free_port() -> Result<u16> {
    let probe = TcpListener::bind("127.0.0.1:0").context("no free port on 127.0.0.1")?;
    Ok(probe.local_addr()?.port())
}

fn random_password() -> Result<String> {
    let mut bytes = [0_u8; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
