//! The tables and columns of a backup, in an order in which they can be inserted again. Blobs are
//! handled separately, because each engine stores them differently.

use cleveragents_ports::{Result, StoreError};
use serde_json::Value as Json;

use crate::session::StoreSession;
use crate::value::{Param, SqlRow, SqlValue};

pub(super) struct Table {
    pub(super) name: &'static str,
    pub(super) columns: &'static [&'static str],
    /// The number of leading columns that form the paging key.
    key_columns: usize,
    /// The number of trailing columns that a backup of an older schema lacks. They have defaults,
    /// and [`backfill_rows`](crate::session::backfill_rows) fills them in.
    added_columns: usize,
}

/// A table whose columns never changed.
const fn table(name: &'static str, key: usize, columns: &'static [&'static str]) -> Table {
    Table {
        name,
        columns,
        key_columns: key,
        added_columns: 0,
    }
}

/// The columns of every table of named definitions.
const DEFINITION: &[&str] = &[
    "name",
    "kind",
    "definition",
    "hash",
    "created_at",
    "updated_at",
    "version",
];

pub(super) const TABLES: &[Table] = &[
    table("operations", 1, &["id", "label", "result", "at"]),
    table("streams", 1, &["id", "head_seq", "head_hash"]),
    table(
        "events",
        1,
        &[
            "seq",
            "stream",
            "stream_seq",
            "kind",
            "v",
            "at",
            "actor",
            "payload",
            "payload_hash",
            "prev_hash",
            "hash",
        ],
    ),
    Table {
        name: "actions",
        columns: &[
            "id",
            "name",
            "state",
            "body",
            "version",
            "created_at",
            "updated_at",
            "uses",
            "single_use",
        ],
        key_columns: 1,
        added_columns: 2,
    },
    table("given_action_uses", 2, &["name", "content_hash", "plan_id"]),
    Table {
        name: "plans",
        columns: &[
            "id",
            "name",
            "action",
            "phase",
            "state",
            "body",
            "version",
            "created_at",
            "updated_at",
            "tail",
        ],
        key_columns: 1,
        added_columns: 1,
    },
    Table {
        name: "plan_projects",
        columns: &["plan_id", "project", "created_at", "state"],
        key_columns: 2,
        added_columns: 1,
    },
    table(
        "projects",
        1,
        &["id", "name", "body", "version", "created_at", "updated_at"],
    ),
    table(
        "resources",
        1,
        &["id", "name", "path_hash", "body", "version", "created_at"],
    ),
    table(
        "project_resources",
        2,
        &["project_id", "resource_id", "position"],
    ),
    table(
        "decisions",
        1,
        &[
            "id",
            "tail",
            "plan_id",
            "sequence",
            "decision_type",
            "superseded",
            "body",
        ],
    ),
    table("decision_influences", 2, &["from_id", "to_id", "plan_id"]),
    table(
        "corrections",
        1,
        &[
            "id",
            "tail",
            "plan_id",
            "state",
            "body",
            "version",
            "created_at",
        ],
    ),
    table(
        "invariants",
        1,
        &[
            "id",
            "tail",
            "scope",
            "target",
            "text_hash",
            "body",
            "created_at",
        ],
    ),
    table("automation_profiles", 1, &["name", "body", "version"]),
    table(
        "repository_file_consents",
        3,
        &["repository", "path", "hash", "actor", "given_at"],
    ),
    table("actors", 1, DEFINITION),
    table("validations", 1, DEFINITION),
    table(
        "validation_attachments",
        1,
        &[
            "id",
            "tail",
            "validation",
            "resource_id",
            "scope",
            "target",
            "args",
            "args_hash",
            "created_at",
        ],
    ),
    table(
        "errors",
        1,
        &[
            "id",
            "plan_id",
            "identity",
            "sequence",
            "occurrences",
            "body",
        ],
    ),
    table("outcomes", 1, &["operation", "successes", "failures"]),
    table(
        "plan_messages",
        1,
        &["id", "plan_id", "sequence", "kind", "body", "taken_at"],
    ),
    table(
        "sandboxes",
        1,
        &[
            "id",
            "tail",
            "plan_id",
            "number",
            "resource_id",
            "state",
            "body",
            "version",
            "created_at",
        ],
    ),
    table(
        "changesets",
        1,
        &[
            "id",
            "plan_id",
            "number",
            "sandbox_id",
            "attempt",
            "step",
            "state",
            "entries",
            "started_at",
            "closed_at",
        ],
    ),
    table(
        "change_entries",
        2,
        &[
            "changeset_id",
            "sequence",
            "plan_id",
            "call_number",
            "undone_by",
            "body",
        ],
    ),
    table(
        "tool_calls",
        1,
        &[
            "id",
            "plan_id",
            "number",
            "sandbox_id",
            "attempt",
            "step",
            "state",
            "body",
            "process",
            "output",
            "error",
            "tree_after",
            "started_at",
            "finished_at",
            "undone_by",
        ],
    ),
    Table {
        name: "model_calls",
        columns: &[
            "id",
            "plan_id",
            "number",
            "actor",
            "ordinal",
            "conversation",
            "after_call",
            "state",
            "body",
            "ended",
            "tokens",
            "usd",
            "started_at",
            "finished_at",
            "undone_by",
            "input_tokens",
            "output_tokens",
            "cached_tokens",
            "is_estimate",
            "is_priced",
        ],
        key_columns: 1,
        added_columns: 5,
    },
    table(
        "checkpoints",
        1,
        &["id", "plan_id", "number", "undone_by", "body"],
    ),
    table(
        "strategies",
        2,
        &[
            "plan_id",
            "number",
            "hash",
            "body",
            "approved_by",
            "approved_at",
        ],
    ),
    table(
        "validation_runs",
        3,
        &["plan_id", "attempt", "round", "summary", "stored_at"],
    ),
    table(
        "applies",
        1,
        &["id", "plan_id", "number", "state", "body", "version"],
    ),
    table("nodes", 1, &["node", "claims"]),
    table(
        "runs",
        1,
        &[
            "plan_id",
            "phase",
            "owner",
            "node",
            "counts",
            "epoch",
            "claimed_at",
            "expires_at",
        ],
    ),
    table(
        "locks",
        1,
        &[
            "name",
            "owner",
            "node",
            "epoch",
            "holds",
            "acquired_at",
            "expires_at",
        ],
    ),
];

/// References are inserted after the blobs they name.
pub(super) const REFERENCES: Table = table("blob_references", 2, &["hash", "holder"]);

const PAGE: i64 = 1000;

impl Table {
    /// Returns the page after `last`, the last row of the previous page.
    pub(super) fn page(
        &self,
        session: &mut StoreSession<'_>,
        last: Option<&SqlRow>,
    ) -> Result<Vec<SqlRow>> {
        let columns = self.columns.join(", ");
        let key = self.columns[..self.key_columns].join(", ");
        let behind = if last.is_none() {
            String::new()
        } else {
            let marks: Vec<String> = (1..=self.key_columns).map(|n| format!("?{n}")).collect();
            // A row comparison continues after the last key, so pages stay fast at any depth;
            // OFFSET would read all rows before.
            format!("WHERE ({key}) > ({})", marks.join(", "))
        };
        let sql = format!(
            "SELECT {columns} FROM {} {behind} ORDER BY {key} LIMIT {PAGE}",
            self.name
        );
        let params: Vec<Param<'_>> = last.map_or_else(Vec::new, |row| {
            row.0[..self.key_columns].iter().map(stored_param).collect()
        });
        session.query(&sql, &params)
    }

    pub(super) fn insert(&self, session: &mut StoreSession<'_>, row: &SqlRow) -> Result<()> {
        // Omitted trailing columns of an older backup get their defaults.
        let columns = &self.columns[..row.0.len()];
        let marks: Vec<String> = (1..=columns.len()).map(|n| format!("?{n}")).collect();
        let sql = format!(
            "INSERT INTO {} ({}) VALUES ({})",
            self.name,
            columns.join(", "),
            marks.join(", ")
        );
        let params: Vec<Param<'_>> = row.0.iter().map(stored_param).collect();
        session.execute(&sql, &params)?;
        Ok(())
    }

    /// Encodes a row as one line: a JSON array, texts in their stored (escaped) form.
    pub(super) fn to_line(row: &SqlRow) -> Result<String> {
        let values: Result<Vec<Json>> = row.0.iter().map(json_from_value).collect();
        serde_json::to_string(&values?).map_err(StoreError::internal)
    }

    pub(super) fn parse_row(&self, line: &str) -> Result<SqlRow> {
        let malformed = |reason: String| {
            StoreError::internal(format!("a row of {} in the backup {reason}", self.name))
        };
        let values: Vec<Json> =
            serde_json::from_str(line).map_err(|e| malformed(format!("is malformed: {e}")))?;
        let known = self.columns.len();
        if !(known - self.added_columns..=known).contains(&values.len()) {
            return Err(malformed(format!("has {} columns", values.len())));
        }
        let values: Option<Vec<SqlValue>> = values.into_iter().map(value_from_json).collect();
        values
            .map(SqlRow)
            .ok_or_else(|| malformed("has a value of no known type".to_owned()))
    }
}

/// A value read from the database is already escaped and must not be escaped again.
fn stored_param(value: &SqlValue) -> Param<'_> {
    match value {
        SqlValue::Null => Param::Null,
        SqlValue::Integer(integer) => Param::Integer(*integer),
        SqlValue::Real(real) => Param::Real(*real),
        SqlValue::Text(text) => Param::Text(text.as_str().into()),
        SqlValue::Bytes(bytes) => Param::Bytes(bytes),
    }
}

fn json_from_value(value: &SqlValue) -> Result<Json> {
    match value {
        SqlValue::Null => Ok(Json::Null),
        SqlValue::Integer(integer) => Ok(Json::from(*integer)),
        SqlValue::Real(real) => Ok(Json::from(*real)),
        SqlValue::Text(text) => Ok(Json::from(text.as_str())),
        SqlValue::Bytes(_) => Err(StoreError::internal("bytes have no place in a row's line")),
    }
}

fn value_from_json(json: Json) -> Option<SqlValue> {
    match json {
        Json::Null => Some(SqlValue::Null),
        Json::String(text) => Some(SqlValue::Text(text)),
        // Integers first: a real would lose digits of large ones.
        Json::Number(number) => number
            .as_i64()
            .map(SqlValue::Integer)
            .or_else(|| number.as_f64().map(SqlValue::Real)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use cleveragents_ports::Clock;
    use cleveragents_ports::system::SystemClock;

    use super::*;
    use crate::session::backfill_rows;
    use crate::sqlite;

    #[test]
    fn a_backup_holds_every_column_of_every_table() {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let mut connection = sqlite::open_in_memory(&clock).unwrap();
        let mut session = StoreSession::new(&mut connection, None);
        let known: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
        // Blobs are handled separately.
        let by_themselves = ["blobs", "blob_chunks", "blob_references"];
        for name in crate::schema::TABLES {
            assert!(
                known.contains(name) || by_themselves.contains(name),
                "{name}"
            );
        }
        for table in TABLES {
            let sql = format!("SELECT name FROM pragma_table_info('{}')", table.name);
            let rows = session.query(&sql, &[]).unwrap();
            let there: BTreeSet<String> = rows.iter().map(|row| row.text(0).unwrap()).collect();
            let held: BTreeSet<String> = table.columns.iter().map(|&each| each.into()).collect();
            assert_eq!(held, there, "{}", table.name);
        }
    }

    #[test]
    fn a_row_of_the_first_schema_is_restored_and_backfilled() {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let mut connection = sqlite::open_in_memory(&clock).unwrap();
        let mut session = StoreSession::new(&mut connection, None);
        let table = |name: &str| TABLES.iter().find(|table| table.name == name).unwrap();
        let action = r#"["A1", "local/a", "available", "{\"reusable\": false}", 1, 0, 0]"#;
        let plan = r#"["P1", "local/a-1", "local/a", "strategize", "queued",
            "{\"brief\": {\"projects\": [\"local/shop\"]}}", 1, 7, 7]"#;
        for (name, line) in [("actions", action), ("plans", plan)] {
            let row = table(name).parse_row(line).unwrap();
            table(name).insert(&mut session, &row).unwrap();
        }
        backfill_rows(&mut session, 1).unwrap();
        let carried = session
            .query(
                "SELECT uses, single_use, plans.tail, project, plan_projects.created_at, \
                 plan_projects.state FROM actions, plans, plan_projects",
                &[],
            )
            .unwrap();
        let [row] = carried.as_slice() else {
            panic!("{carried:?}");
        };
        assert_eq!(
            row.0,
            [
                SqlValue::Integer(1),
                SqlValue::Integer(1),
                SqlValue::Text("1P".to_owned()),
                SqlValue::Text("local/shop".to_owned()),
                SqlValue::Integer(7),
                SqlValue::Text("queued".to_owned()),
            ]
        );
        assert!(table("plans").parse_row(r#"["P1"]"#).is_err());
        assert!(table("streams").parse_row(r#"["s", 1]"#).is_err());
    }
}
