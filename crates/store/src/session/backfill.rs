//! Migrations that SQL common to both engines cannot express: values inside the JSON bodies of rows
//! that an older program wrote.

use cleveragents_ports::{Result, StoreError};
use serde_json::Value as Json;

use super::StoreSession;
use super::rows::reverse_id;
use crate::value::{SqlRow, params};

const PAGE: i64 = 500;

/// Updates the rows of schema `from` after the tables were changed. Idempotent.
pub(crate) fn backfill_rows(session: &mut StoreSession<'_>, from: i64) -> Result<()> {
    // Schema 1 lacks these columns; from 2 on every writer fills them.
    if from == 1 {
        for_each_body(session, "actions", backfill_action)?;
        for_each_body(session, "plans", backfill_plan)?;
    }
    if from < 4 {
        session.execute(
            "UPDATE plan_projects SET state = \
             (SELECT plans.state FROM plans WHERE plans.id = plan_projects.plan_id)",
            &[],
        )?;
    }
    Ok(())
}

/// Visits `table` in pages: id, body and creation time of each row.
fn for_each_body(
    session: &mut StoreSession<'_>,
    table: &str,
    backfill: fn(&mut StoreSession<'_>, &str, &Json, &SqlRow) -> Result<()>,
) -> Result<()> {
    let sql =
        format!("SELECT id, body, created_at FROM {table} WHERE id > ?1 ORDER BY id LIMIT {PAGE}");
    let mut last = String::new();
    loop {
        let rows = session.query(&sql, params![&last])?;
        let Some(end) = rows.last() else {
            return Ok(());
        };
        last = end.text(0)?;
        for row in &rows {
            let body = serde_json::from_str(&row.text(1)?).map_err(StoreError::internal)?;
            backfill(session, &row.text(0)?, &body, row)?;
        }
    }
}

fn backfill_action(
    session: &mut StoreSession<'_>,
    id: &str,
    body: &Json,
    _row: &SqlRow,
) -> Result<()> {
    let single_use = body["reusable"] == Json::Bool(false);
    session.execute(
        "UPDATE actions SET single_use = ?2, \
         uses = (SELECT count(*) FROM plans WHERE plans.action = actions.name) WHERE id = ?1",
        params![id, i64::from(single_use)],
    )?;
    Ok(())
}

fn backfill_plan(
    session: &mut StoreSession<'_>,
    id: &str,
    body: &Json,
    row: &SqlRow,
) -> Result<()> {
    session.execute(
        "UPDATE plans SET tail = ?2 WHERE id = ?1",
        params![id, reverse_id(id)],
    )?;
    let projects = body["brief"]["projects"].as_array();
    for project in projects.into_iter().flatten().filter_map(Json::as_str) {
        session.execute(
            "INSERT INTO plan_projects (plan_id, project, created_at) VALUES (?1, ?2, ?3) \
             ON CONFLICT (plan_id, project) DO NOTHING",
            params![id, project, row.integer(2)?],
        )?;
    }
    Ok(())
}
