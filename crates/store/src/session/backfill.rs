//! Migrations that SQL common to both engines cannot express: values inside the JSON bodies of rows
//! that an older program wrote.

use cleveragents_domain::event::payloads::{PlanStateChanged, SandboxStateChanged, StateChange};
use cleveragents_domain::id::PlanId;
use cleveragents_domain::lifecycle::MoveKind;
use cleveragents_domain::sandbox::SandboxState;
use cleveragents_domain::{EventKind, EventPayload, Move, NewEvent, Plan, PlanState, StreamId};
use cleveragents_ports::{Journal, Plans, Result, SandboxRecords, StoreError};
use serde_json::Value as Json;

use super::StoreSession;
use super::rows::reverse_id;
use crate::schema::UNAPPLIED_PLANS;
use crate::value::{SqlRow, params};

const PAGE: i64 = 500;

/// Updates the rows of schema `from` after the tables were changed. Idempotent.
pub(crate) fn backfill_rows(session: &mut StoreSession<'_>, from: i64) -> Result<()> {
    // Schema 1 lacks these columns; from 2 on every writer fills them.
    if from == 1 {
        let created = "body, created_at";
        for_each_body(session, "actions", created, backfill_action)?;
        for_each_body(session, "plans", created, backfill_plan)?;
    }
    if from < 4 {
        session.execute(
            "UPDATE plan_projects SET state = \
             (SELECT plans.state FROM plans WHERE plans.id = plan_projects.plan_id)",
            &[],
        )?;
    }
    if (7..10).contains(&from) {
        let ended = "coalesce(ended, '{}')";
        for_each_body(session, "model_calls", ended, backfill_model_call)?;
    }
    if from < UNAPPLIED_PLANS {
        backfill_unapplied_plans(session)?;
    }
    Ok(())
}

/// Moves the plans that an older program unapplied, which kept the state `applied`.
fn backfill_unapplied_plans(session: &mut StoreSession<'_>) -> Result<()> {
    let sql = format!(
        "SELECT id FROM plans WHERE state = '{}' AND id > ?1 ORDER BY id LIMIT {PAGE}",
        PlanState::Applied
    );
    let mut last = String::new();
    loop {
        let rows = session.query(&sql, params![&last])?;
        let Some(end) = rows.last() else {
            return Ok(());
        };
        last = end.text(0)?;
        for row in &rows {
            let plan: PlanId = row.parsed(0)?;
            // The journal decides: the records of an apply that was aborted in the middle and
            // finished later end with a reversal, too.
            let kinds = [EventKind::PlanApplied, EventKind::PlanUnapplied];
            let newest = session.newest_events(StreamId::Plan(plan), &kinds, i64::MAX, 1)?;
            if newest.iter().any(|it| it.kind == EventKind::PlanUnapplied) {
                mark_unapplied(session, plan)?;
            }
        }
    }
}

/// Makes the move that the older program left out, with its events (law 2).
fn mark_unapplied(session: &mut StoreSession<'_>, plan: PlanId) -> Result<()> {
    let before = session.plan(plan)?;
    let moved = before.make_move(Move::Unapply, before.timestamps.updated_at);
    let after = Plan {
        timestamps: before.timestamps,
        ..moved.map_err(StoreError::internal)?
    };
    session.update_plan(&after)?;
    let mut events = Vec::new();
    for mut sandbox in session.sandboxes_of(plan)? {
        if sandbox.state != SandboxState::Applied {
            continue;
        }
        sandbox.state = SandboxState::Captured;
        session.update_sandbox(&sandbox)?;
        events.push(new_event(&SandboxStateChanged {
            sandbox_id: sandbox.id,
            from: SandboxState::Applied,
            to: sandbox.state,
            folder: None,
            tree: sandbox.tree,
            warnings: None,
        })?);
    }
    let (from, to) = (before.position, after.position);
    events.push(new_event(&PlanStateChanged(StateChange {
        phase: to.phase(),
        from: from.state(),
        to: to.state(),
        by: MoveKind::Unapply,
        waiting: None,
        point_of_no_return: to.point_of_no_return(),
        reason: Some("unapplied by an earlier version".to_owned()),
    }))?);
    session.append(StreamId::Plan(plan), &events)?;
    Ok(())
}

fn new_event(payload: &impl EventPayload) -> Result<NewEvent> {
    NewEvent::of("migration", payload).map_err(StoreError::internal)
}

/// Visits `table` in pages: id, then `columns`, of which the first is a JSON body.
fn for_each_body(
    session: &mut StoreSession<'_>,
    table: &str,
    columns: &str,
    backfill: fn(&mut StoreSession<'_>, &str, &Json, &SqlRow) -> Result<()>,
) -> Result<()> {
    let sql = format!("SELECT id, {columns} FROM {table} WHERE id > ?1 ORDER BY id LIMIT {PAGE}");
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

/// Schema 9 has the usage of a call only in its body. Spending beyond that usage was an estimate,
/// and it does not distinguish an unknown price from a price of 0: both become unknown.
fn backfill_model_call(
    session: &mut StoreSession<'_>,
    id: &str,
    ended: &Json,
    _row: &SqlRow,
) -> Result<()> {
    let usage = |key: &str| ended["usage"][key].as_i64().unwrap_or(0);
    let (input, output) = (usage("input_tokens"), usage("output_tokens"));
    let is_reported = ended["spent"]["tokens"].as_i64() == Some(input + output);
    session.execute(
        "UPDATE model_calls SET input_tokens = ?2, output_tokens = ?3, cached_tokens = ?4, \
         is_estimate = ?5, is_priced = CASE WHEN tokens > 0 AND usd = 0 THEN 0 ELSE 1 END \
         WHERE id = ?1",
        params![
            id,
            input,
            output,
            usage("cached_tokens"),
            i64::from(!is_reported)
        ],
    )?;
    Ok(())
}
