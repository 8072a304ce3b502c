//! What a backup holds of the database: these columns of these tables, in the order in which
//! they can be inserted again. Blobs travel by themselves, for each engine keeps them elsewhere.

use cleveragents_engine::ports::{Result, StoreError};
use serde_json::Value as Json;

use crate::session::Session;
use crate::value::{Param, Row, Value};

pub(super) struct Table {
    pub(super) name: &'static str,
    pub(super) columns: &'static [&'static str],
    /// The columns, first of all, that a page begins behind.
    key: usize,
}

pub(super) const TABLES: &[Table] = &[
    Table {
        name: "operations",
        columns: &["id", "label", "result", "at"],
        key: 1,
    },
    Table {
        name: "streams",
        columns: &["id", "head_seq", "head_hash"],
        key: 1,
    },
    Table {
        name: "events",
        columns: &[
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
        key: 1,
    },
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
        ],
        key: 1,
    },
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
        ],
        key: 1,
    },
    Table {
        name: "nodes",
        columns: &["node", "claims"],
        key: 1,
    },
    Table {
        name: "runs",
        columns: &[
            "plan_id",
            "phase",
            "owner",
            "node",
            "counts",
            "epoch",
            "claimed_at",
            "expires_at",
        ],
        key: 1,
    },
    Table {
        name: "locks",
        columns: &[
            "name",
            "owner",
            "node",
            "epoch",
            "holds",
            "acquired_at",
            "expires_at",
        ],
        key: 1,
    },
];

/// References are inserted after the blobs they name.
pub(super) const REFERENCES: Table = Table {
    name: "blob_references",
    columns: &["hash", "holder"],
    key: 2,
};

const PAGE: i64 = 1000;

impl Table {
    /// The page behind `last`, a row of the page before.
    pub(super) fn page(&self, session: &mut Session<'_>, last: Option<&Row>) -> Result<Vec<Row>> {
        let columns = self.columns.join(", ");
        let key = self.columns[..self.key].join(", ");
        let behind = if last.is_none() {
            String::new()
        } else {
            let marks: Vec<String> = (1..=self.key).map(|n| format!("?{n}")).collect();
            format!("WHERE ({key}) > ({})", marks.join(", "))
        };
        let sql = format!(
            "SELECT {columns} FROM {} {behind} ORDER BY {key} LIMIT {PAGE}",
            self.name
        );
        let params: Vec<Param<'_>> = last.map_or_else(Vec::new, |row| {
            row.0[..self.key].iter().map(stored_param).collect()
        });
        session.query(&sql, &params)
    }

    pub(super) fn insert(&self, session: &mut Session<'_>, row: &Row) -> Result<()> {
        let marks: Vec<String> = (1..=self.columns.len()).map(|n| format!("?{n}")).collect();
        let sql = format!(
            "INSERT INTO {} ({}) VALUES ({})",
            self.name,
            self.columns.join(", "),
            marks.join(", ")
        );
        let params: Vec<Param<'_>> = row.0.iter().map(stored_param).collect();
        session.execute(&sql, &params)?;
        Ok(())
    }

    /// A line of a backup: the row as a JSON array, texts as they are stored.
    pub(super) fn line(row: &Row) -> Result<String> {
        let values: Result<Vec<Json>> = row.0.iter().map(json_of).collect();
        serde_json::to_string(&values?).map_err(StoreError::internal)
    }

    pub(super) fn row(&self, line: &str) -> Result<Row> {
        let malformed = |reason: String| {
            StoreError::internal(format!("a row of {} in the backup {reason}", self.name))
        };
        let values: Vec<Json> =
            serde_json::from_str(line).map_err(|e| malformed(format!("is malformed: {e}")))?;
        if values.len() != self.columns.len() {
            return Err(malformed(format!("has {} columns", values.len())));
        }
        let values: Option<Vec<Value>> = values.into_iter().map(value_of).collect();
        values
            .map(Row)
            .ok_or_else(|| malformed("has a value of no known type".to_owned()))
    }
}

/// A value that comes from the database goes back as it is, without escaping it once more.
fn stored_param(value: &Value) -> Param<'_> {
    match value {
        Value::Null => Param::Null,
        Value::Integer(integer) => Param::Integer(*integer),
        Value::Real(real) => Param::Real(*real),
        Value::Text(text) => Param::Text(text.as_str().into()),
        Value::Bytes(bytes) => Param::Bytes(bytes),
    }
}

fn json_of(value: &Value) -> Result<Json> {
    match value {
        Value::Null => Ok(Json::Null),
        Value::Integer(integer) => Ok(Json::from(*integer)),
        Value::Real(real) => Ok(Json::from(*real)),
        Value::Text(text) => Ok(Json::from(text.as_str())),
        Value::Bytes(_) => Err(StoreError::internal("bytes have no place in a row's line")),
    }
}

fn value_of(json: Json) -> Option<Value> {
    match json {
        Json::Null => Some(Value::Null),
        Json::String(text) => Some(Value::Text(text)),
        Json::Number(number) => number
            .as_i64()
            .map(Value::Integer)
            .or_else(|| number.as_f64().map(Value::Real)),
        _ => None,
    }
}
