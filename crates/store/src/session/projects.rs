//! The verbs of projects.

use cleveragents_domain::validation::AttachmentScopeKind;
use cleveragents_domain::{NamespacedName, Project, ScopeKind};
use cleveragents_engine::ports::{Projects, Result};

use super::Session;
use super::rows::{Stale, body_of, entity_in, not_found};
use crate::value::{Row, params};

impl Projects for Session<'_> {
    fn insert_project(&mut self, project: &Project) -> Result<()> {
        let name = project.name.to_string();
        let inserted = self.execute(
            "INSERT INTO projects (id, name, body, version, created_at, updated_at) \
             VALUES (?1, ?2, ?3, 1, ?4, ?5) ON CONFLICT DO NOTHING",
            params![
                project.id.to_string(),
                &name,
                body_of(project)?,
                project.created_at,
                project.updated_at,
            ],
        )?;
        self.inserted_or_taken(
            inserted,
            "the project name",
            &name,
            "SELECT id FROM projects WHERE name = ?1",
        )
    }

    fn project(&mut self, name: &NamespacedName) -> Result<Project> {
        self.project_by("SELECT body, version FROM projects WHERE name = ?1", name)
    }

    fn hold_project(&mut self, name: &NamespacedName) -> Result<Project> {
        self.project_by(
            "SELECT body, version FROM projects WHERE name = ?1 FOR KEY SHARE",
            name,
        )
    }

    fn update_project(&mut self, project: &Project) -> Result<i64> {
        let updated = self.execute(
            "UPDATE projects SET body = ?3, updated_at = ?4, version = version + 1 \
             WHERE id = ?1 AND version = ?2",
            params![
                project.id.to_string(),
                project.version,
                body_of(project)?,
                project.updated_at,
            ],
        )?;
        let stale = stale(project, "SELECT version FROM projects WHERE id = ?1");
        self.updated_or_stale(updated, stale)
    }

    fn delete_project(&mut self, project: &Project) -> Result<()> {
        // Who wants to link to the project, or to add a rule, waits for this row and finds it gone.
        self.lock_version(stale(
            project,
            "SELECT version FROM projects WHERE id = ?1 FOR UPDATE",
        ))?;
        let id = project.id.to_string();
        let name = project.name.to_string();
        self.execute(
            "DELETE FROM project_resources WHERE project_id = ?1",
            params![&id],
        )?;
        self.execute(
            "DELETE FROM invariants WHERE scope = ?1 AND target = ?2",
            params![ScopeKind::Project.as_str(), &name],
        )?;
        self.delete_attachments_of(AttachmentScopeKind::Project, &name)?;
        self.execute("DELETE FROM projects WHERE id = ?1", params![&id])?;
        Ok(())
    }

    fn projects(&mut self) -> Result<Vec<Project>> {
        let rows = self.query(
            "SELECT body, version FROM projects ORDER BY created_at DESC, id DESC",
            &[],
        )?;
        rows.iter().map(project_of).collect()
    }
}

impl Session<'_> {
    pub(super) fn project_by(&mut self, sql: &str, name: &NamespacedName) -> Result<Project> {
        let row = self.find(sql, params![name.to_string()])?;
        row.map(|row| project_of(&row))
            .unwrap_or_else(|| Err(not_found("project", name)))
    }
}

fn stale(project: &Project, sql: &'static str) -> Stale {
    Stale {
        what: "project",
        id: project.id.to_string(),
        version: project.version,
        sql,
    }
}

fn project_of(row: &Row) -> Result<Project> {
    let mut project: Project = entity_in(row, 0)?;
    project.version = row.integer(1)?;
    Ok(project)
}
