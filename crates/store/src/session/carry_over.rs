//! What a migration cannot say in SQL that both engines understand: values that stand in the JSON
//! bodies of rows an older program wrote.

use cleveragents_engine::ports::{Result, StoreError};
use serde_json::Value as Json;

use super::Session;
use super::rows::tail_of;
use crate::value::{Row, params};

const PAGE: i64 = 500;

impl Session<'_> {
    /// Brings rows of the schema `from` up to date after the tables were changed. Doing it twice
    /// equals doing it once.
    pub(crate) fn carry_over(&mut self, from: i64) -> Result<()> {
        if from == 1 {
            self.each_body("actions", &mut Session::carry_action)?;
            self.each_body("plans", &mut Session::carry_plan)?;
        }
        if from < 4 {
            self.execute(
                "UPDATE plan_projects SET state = \
                 (SELECT plans.state FROM plans WHERE plans.id = plan_projects.plan_id)",
                &[],
            )?;
        }
        Ok(())
    }

    /// Goes through `table` in pages: id, body and when the row was made.
    fn each_body(
        &mut self,
        table: &str,
        carry: &mut dyn FnMut(&mut Self, &str, &Json, &Row) -> Result<()>,
    ) -> Result<()> {
        let sql = format!(
            "SELECT id, body, created_at FROM {table} WHERE id > ?1 ORDER BY id LIMIT {PAGE}"
        );
        let mut last = String::new();
        loop {
            let rows = self.query(&sql, params![&last])?;
            let Some(end) = rows.last() else {
                return Ok(());
            };
            last = end.text(0)?;
            for row in &rows {
                let body = serde_json::from_str(&row.text(1)?).map_err(StoreError::internal)?;
                carry(self, &row.text(0)?, &body, row)?;
            }
        }
    }

    fn carry_action(&mut self, id: &str, body: &Json, _row: &Row) -> Result<()> {
        let single_use = body["reusable"] == Json::Bool(false);
        self.execute(
            "UPDATE actions SET single_use = ?2, \
             uses = (SELECT count(*) FROM plans WHERE plans.action = actions.name) WHERE id = ?1",
            params![id, i64::from(single_use)],
        )?;
        Ok(())
    }

    fn carry_plan(&mut self, id: &str, body: &Json, row: &Row) -> Result<()> {
        self.execute(
            "UPDATE plans SET tail = ?2 WHERE id = ?1",
            params![id, tail_of(id)],
        )?;
        let projects = body["brief"]["projects"].as_array();
        for project in projects.into_iter().flatten().filter_map(Json::as_str) {
            self.execute(
                "INSERT INTO plan_projects (plan_id, project, created_at) VALUES (?1, ?2, ?3) \
                 ON CONFLICT (plan_id, project) DO NOTHING",
                params![id, project, row.integer(2)?],
            )?;
        }
        Ok(())
    }
}
