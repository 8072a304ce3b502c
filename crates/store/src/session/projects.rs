//! Store operations on projects.

use cleveragents_domain::validation::AttachmentScopeKind;
use cleveragents_domain::{InvariantScopeKind, NamespacedName, Project};
use cleveragents_engine::ports::{Projects, Result};

use super::StoreSession;
use super::rows::{VersionCheck, decode_entity, not_found_error, to_json_body};
use crate::value::{SqlRow, params};

impl Projects for StoreSession<'_> {
    fn insert_project(&mut self, project: &Project) -> Result<()> {
        let name = project.name.to_string();
        let inserted = self.execute(
            "INSERT INTO projects (id, name, body, version, created_at, updated_at) \
             VALUES (?1, ?2, ?3, 1, ?4, ?5) ON CONFLICT DO NOTHING",
            params![
                project.id.to_string(),
                &name,
                to_json_body(project)?,
                project.created_at,
                project.updated_at,
            ],
        )?;
        self.check_inserted(
            inserted,
            "the project name",
            &name,
            "SELECT id FROM projects WHERE name = ?1",
        )
    }

    fn project(&mut self, name: &NamespacedName) -> Result<Project> {
        self.find_project("SELECT body, version FROM projects WHERE name = ?1", name)
    }

    fn lock_project(&mut self, name: &NamespacedName) -> Result<Project> {
        self.find_project(
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
                to_json_body(project)?,
                project.updated_at,
            ],
        )?;
        let check = version_check(project, "SELECT version FROM projects WHERE id = ?1");
        self.check_updated(updated, check)
    }

    fn delete_project(&mut self, project: &Project) -> Result<()> {
        // A transaction that links to the project or adds a rule waits for this row and then finds
        // it deleted.
        self.lock_version(version_check(
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
            params![InvariantScopeKind::Project.as_str(), &name],
        )?;
        self.delete_scope_attachments(AttachmentScopeKind::Project, &name)?;
        self.execute("DELETE FROM projects WHERE id = ?1", params![&id])?;
        Ok(())
    }

    fn projects(&mut self) -> Result<Vec<Project>> {
        let rows = self.query(
            "SELECT body, version FROM projects ORDER BY created_at DESC, id DESC",
            &[],
        )?;
        rows.iter().map(project_from_row).collect()
    }
}

impl StoreSession<'_> {
    pub(super) fn find_project(&mut self, sql: &str, name: &NamespacedName) -> Result<Project> {
        let row = self.find(sql, params![name.to_string()])?;
        row.map(|row| project_from_row(&row))
            .unwrap_or_else(|| Err(not_found_error("project", name)))
    }
}

fn version_check(project: &Project, sql: &'static str) -> VersionCheck {
    VersionCheck {
        what: "project",
        id: project.id.to_string(),
        version: project.version,
        sql,
    }
}

fn project_from_row(row: &SqlRow) -> Result<Project> {
    let mut project: Project = decode_entity(row, 0)?;
    project.version = row.integer(1)?;
    Ok(project)
}
