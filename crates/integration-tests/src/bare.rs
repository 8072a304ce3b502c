//! SQLite without the store: the baseline of the benchmark, and access from outside.

#![expect(
    clippy::expect_used,
    reason = "tests and benches set up here; a set-up that fails must fail them"
)]

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

/// One row per commit, with the store's settings and nothing else.
#[derive(Debug)]
pub struct BareLoop {
    connection: Connection,
}

impl BareLoop {
    pub fn create(path: &Path) -> Self {
        let connection =
            Connection::open_with_flags(path, OpenFlags::default()).expect("a new database");
        connection
            .execute_batch(
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; \
                 CREATE TABLE IF NOT EXISTS rows (id INTEGER PRIMARY KEY, payload TEXT NOT NULL)",
            )
            .expect("a table");
        Self { connection }
    }

    pub fn commit_one(&self, payload: &str) {
        self.connection
            .prepare_cached("INSERT INTO rows (payload) VALUES (?1)")
            .and_then(|mut statement| statement.execute([payload]))
            .expect("a committed row");
    }
}

/// Returns the single number that `sql` selects, bypassing the store.
pub fn query_number(path: &Path, sql: &str) -> i64 {
    let connection =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE).expect("a database");
    let found = connection.query_row(sql, [], |row| row.get(0));
    found.expect("a number")
}
