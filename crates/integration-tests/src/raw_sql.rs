//! Database access that bypasses the store, as an attacker, a repair or a foreign program would:
//! PostgreSQL through `psql`, SQLite through Python's `sqlite3` module. Using our own client would
//! prove nothing about foreign ones.

#![expect(
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "tests set up here; a set-up that fails must fail the test"
)]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::test_database::psql;
use crate::{Backend, TestDatabase};

const SCRIPT: &str = "import sqlite3, sys\n\
    database = sqlite3.connect(sys.argv[1], timeout=30)\n\
    database.executescript(sys.argv[2])\n\
    database.commit()\n";

/// Runs statements on the test database from outside.
///
/// # Panics
///
/// If a statement fails, or for a memory database, which cannot be accessed from outside.
pub fn run_sql(test_db: &TestDatabase, sql: &str) {
    match (test_db.backend, &test_db.url) {
        (Backend::Postgres, Some(url)) => {
            psql(url, sql);
        }
        (Backend::Sqlite, _) => run_python(test_db, sql),
        _ => panic!("a database in memory cannot be reached from outside"),
    }
}

/// Returns the single number that `sql` selects.
///
/// # Panics
///
/// As [`run_sql`].
pub fn query_number(test_db: &TestDatabase, sql: &str) -> i64 {
    match (test_db.backend, &test_db.url) {
        (Backend::Postgres, Some(url)) => psql(url, sql).parse().expect("a number"),
        (Backend::Sqlite, _) => crate::bare::query_number(&test_db.database_file(), sql),
        _ => panic!("a database in memory cannot be reached from outside"),
    }
}

/// Writes `content` to the file `path`, replacing what was there.
///
/// # Panics
///
/// If it cannot be written.
pub fn write_file(path: &Path, content: impl AsRef<[u8]>) {
    std::fs::write(path, content).expect("a file");
}

fn run_python(test_db: &TestDatabase, sql: &str) {
    let output = Command::new("python3")
        .args(["-c", SCRIPT])
        .arg(test_db.database_file())
        .arg(sql)
        .output()
        .expect("python3 starts");
    assert!(
        output.status.success(),
        "{sql}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// A `psql` session that stays open, so that a transaction can be held.
#[derive(Debug)]
pub struct PsqlSession {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl PsqlSession {
    /// Connects to `url`.
    ///
    /// # Panics
    ///
    /// If `psql` cannot be started.
    pub fn open(url: &str) -> Self {
        let mut child = Command::new("psql")
            .args(["-X", "-q", "-t", "-A", "-v", "ON_ERROR_STOP=1", "-d", url])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("psql starts");
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("its output"));
        Self {
            child,
            input,
            output,
        }
    }

    /// Runs statements and returns their output once they are done.
    ///
    /// # Panics
    ///
    /// If a statement fails, which ends the session.
    pub fn run(&mut self, sql: &str) -> String {
        const END: &str = "-- end of the answer --";
        let input = self.input.as_mut().expect("an open session");
        writeln!(input, "{sql};\n\\echo '{END}'").expect("psql listens");
        input.flush().expect("psql listens");
        let mut answer = String::new();
        loop {
            let mut line = String::new();
            let length = self.output.read_line(&mut line).expect("psql answers");
            assert!(length > 0, "psql gave up at: {sql}");
            if line.trim_end() == END {
                return answer.trim().to_owned();
            }
            answer.push_str(&line);
        }
    }
}

impl Drop for PsqlSession {
    fn drop(&mut self) {
        // At the end of its input psql exits, and the server rolls back what was not committed.
        self.input = None;
        let _ = self.child.wait();
    }
}
