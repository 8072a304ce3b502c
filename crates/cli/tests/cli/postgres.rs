//! The same commands on a real PostgreSQL server, with one schema per test.

use crate::data_directory::{check, json_data};
use crate::environment::{CliRun, TestEnvironment, host_path, postgres_url};

/// A schema in the test database, dropped with this value.
pub(crate) struct TestSchema {
    name: String,
}

impl TestSchema {
    pub(crate) fn new(environment: &TestEnvironment, name: &str) -> Self {
        let name = format!("cli_{name}_{}", std::process::id());
        psql(environment, &format!("CREATE SCHEMA {name}"));
        Self { name }
    }

    pub(crate) fn url(&self) -> String {
        let separator = if postgres_url().contains('?') {
            '&'
        } else {
            '?'
        };
        format!(
            "{}{separator}options=-csearch_path%3D{}",
            postgres_url(),
            self.name
        )
    }

    pub(crate) fn drop(self, environment: &TestEnvironment) {
        psql(environment, &format!("DROP SCHEMA {} CASCADE", self.name));
    }
}

pub(crate) fn psql(environment: &TestEnvironment, sql: &str) -> String {
    let url = postgres_url();
    let words = [url.as_str(), "-v", "ON_ERROR_STOP=1", "-qAtc", sql];
    let mut command = environment.other_program("psql", &words);
    let output = command.env("PATH", host_path()).output();
    let output = output.unwrap_or_else(|error| panic!("psql is needed here: {error}"));
    CliRun::from_output(output).succeeded().stdout
}

#[test]
fn data_moves_from_sqlite_to_postgresql_and_back() {
    let mut environment = TestEnvironment::new();
    environment.run(&["init"]).succeeded();
    environment.run(&["backup"]).succeeded();
    let first = json_data(&environment, &["backup", "sqlite.tar"]);
    let schema = TestSchema::new(&environment, "move");
    environment.set_variable("CLEVERAGENTS_DATABASE_URL", schema.url());
    let restored = json_data(&environment, &["restore", "sqlite.tar"]);
    assert_eq!(restored["contents"], first["contents"]);
    let there = json_data(&environment, &["info"]);
    assert_eq!(there["database"]["engine"], "postgresql");
    assert_eq!(there["statistics"]["events"], 3);
    let health = environment.run(&["diagnostics", "-f", "json"]).json()["data"].clone();
    assert_eq!(check(&health, "postgresql")["status"], "ok");
    assert_eq!(check(&health, "journal")["status"], "ok");
    let full = environment.run(&["restore", "sqlite.tar"]);
    assert_eq!(full.code, Some(4), "{full:?}");
    let second = json_data(&environment, &["backup", "postgresql.tar"]);
    assert_eq!(second["contents"]["events"], 3);

    environment.remove_variable("CLEVERAGENTS_DATABASE_URL");
    let back = ["restore", "postgresql.tar", "--data-dir", "back"];
    let restored = json_data(&environment, &back);
    assert_eq!(restored["contents"], second["contents"]);
    let back = json_data(&environment, &["info", "--data-dir", "back"]);
    assert_eq!(back["database"]["engine"], "sqlite");
    assert_eq!(back["statistics"]["events"], 4);
    schema.drop(&environment);
}

#[test]
fn ten_concurrent_inits_initialise_postgresql_once() {
    let mut environment = TestEnvironment::new();
    let schema = TestSchema::new(&environment, "init");
    environment.set_variable("CLEVERAGENTS_DATABASE_URL", schema.url());
    let children: Vec<_> = (0..10).map(|_| environment.start(&["init"])).collect();
    for child in children {
        CliRun::from_output(child.wait_with_output().unwrap()).succeeded();
    }
    let sql = format!("SELECT kind FROM {}.events", schema.name);
    assert_eq!(psql(&environment, &sql), "store_initialised\n");
    schema.drop(&environment);
}

#[test]
fn the_password_is_shown_by_no_command() {
    let mut environment = TestEnvironment::new();
    let schema = TestSchema::new(&environment, "secret");
    environment.set_variable("CLEVERAGENTS_DATABASE_URL", schema.url());
    let url = postgres_url();
    let password = url.split(['@', ':']).nth(2).unwrap().to_owned();
    assert!(password.len() > 8, "{url}");
    for arguments in [
        &["info", "-vvv"][..],
        &["diagnostics", "-vvv"],
        &["init", "-vvv"],
        &["config", "get", "core.database-url", "-v"],
    ] {
        let run = environment.run(arguments);
        let all = run.stdout + &run.stderr;
        assert!(!all.contains(&password), "{arguments:?}: {all}");
    }
    schema.drop(&environment);
}
