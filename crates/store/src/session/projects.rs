//! Store operations on projects, resources and the links between them.
//!
//! Linking takes a shared lock on the resource's row, removal an exclusive one, so the second
//! transaction sees what the first did. The project's row is always locked before the resource's,
//! which prevents deadlocks.

use cleveragents_domain::validation::AttachmentScopeKind;
use cleveragents_domain::{AbsolutePath, InvariantScopeKind, NamespacedName, Project, Resource};
use cleveragents_ports::{Entity, Projects, Result, StoreError, UniqueKey};

use super::StoreSession;
use super::rows::{VersionCheck, decode_entity, hash_text, not_found_error, to_json_body};
use super::validations::delete_scope_attachments;
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
            UniqueKey::Name(Entity::Project),
            &name,
            "SELECT id FROM projects WHERE name = ?1",
        )
    }

    fn project(&mut self, name: &NamespacedName) -> Result<Project> {
        find_project(
            self,
            "SELECT body, version FROM projects WHERE name = ?1",
            name,
        )
    }

    fn lock_project(&mut self, name: &NamespacedName) -> Result<Project> {
        find_project(
            self,
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
        delete_scope_attachments(self, AttachmentScopeKind::Project, &name)?;
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

    fn insert_resource(&mut self, resource: &Resource) -> Result<()> {
        let (name, path) = (resource.name.to_string(), resource.path.to_string());
        let inserted = self.execute(
            "INSERT INTO resources (id, name, path_hash, body, version, created_at) \
             VALUES (?1, ?2, ?3, ?4, 1, ?5) ON CONFLICT DO NOTHING",
            params![
                resource.id.to_string(),
                &name,
                hash_text(&path),
                to_json_body(resource)?,
                resource.created_at,
            ],
        )?;
        if inserted == 1 {
            return Ok(());
        }
        let other = self.find(
            "SELECT name FROM resources WHERE path_hash = ?1",
            params![hash_text(&path)],
        )?;
        // Registering the same path again reports that, even under the same name.
        if let Some(row) = other {
            return Err(StoreError::Taken {
                key: UniqueKey::ResourcePath,
                name: path,
                holder: row.text(0)?,
            });
        }
        self.check_inserted(
            inserted,
            UniqueKey::Name(Entity::Resource),
            &name,
            "SELECT id FROM resources WHERE name = ?1",
        )
    }

    fn resource(&mut self, name: &NamespacedName) -> Result<Resource> {
        let row = self.find(
            "SELECT body, version FROM resources WHERE name = ?1",
            params![name.to_string()],
        )?;
        row.map(|row| resource_from_row(&row))
            .unwrap_or_else(|| Err(not_found_error(Entity::Resource, name)))
    }

    fn resources(&mut self) -> Result<Vec<Resource>> {
        let rows = self.query(
            "SELECT body, version FROM resources ORDER BY created_at DESC, id DESC",
            &[],
        )?;
        rows.iter().map(resource_from_row).collect()
    }

    fn delete_resource(&mut self, resource: &Resource) -> Result<()> {
        let id = resource.id.to_string();
        self.lock_version(VersionCheck {
            entity: Entity::Resource,
            id: id.clone(),
            version: resource.version,
            sql: "SELECT version FROM resources WHERE id = ?1 FOR UPDATE",
        })?;
        let rows = self.query(
            "SELECT projects.name FROM project_resources \
             JOIN projects ON projects.id = project_resources.project_id \
             WHERE project_resources.resource_id = ?1 ORDER BY projects.name",
            params![&id],
        )?;
        if !rows.is_empty() {
            let projects: Result<Vec<String>> = rows.iter().map(|row| row.text(0)).collect();
            return Err(StoreError::Referenced {
                entity: Entity::Resource,
                name: resource.name.to_string(),
                referrers: projects?,
            });
        }
        self.execute(
            "DELETE FROM validation_attachments WHERE resource_id = ?1",
            params![&id],
        )?;
        self.execute("DELETE FROM resources WHERE id = ?1", params![&id])?;
        Ok(())
    }

    fn link_resource(
        &mut self,
        project: &NamespacedName,
        resource: &NamespacedName,
    ) -> Result<u64> {
        // Links of one project wait for its row, which gives them an order.
        let project = find_project(
            self,
            "SELECT body, version FROM projects WHERE name = ?1 FOR NO KEY UPDATE",
            project,
        )?;
        let held = self.find(
            "SELECT id FROM resources WHERE name = ?1 FOR SHARE",
            params![resource.to_string()],
        )?;
        let Some(held) = held else {
            return Err(not_found_error(Entity::Resource, resource));
        };
        self.execute(
            "INSERT INTO project_resources (project_id, resource_id, position) VALUES (?1, ?2, \
             (SELECT coalesce(max(position), 0) + 1 FROM project_resources WHERE project_id = ?1)) \
             ON CONFLICT (project_id, resource_id) DO NOTHING",
            params![project.id.to_string(), held.text(0)?],
        )
    }

    fn unlink_resource(
        &mut self,
        project: &NamespacedName,
        resource: &NamespacedName,
    ) -> Result<u64> {
        let project = self.lock_project(project)?;
        let resource = self.resource(resource)?;
        self.execute(
            "DELETE FROM project_resources WHERE project_id = ?1 AND resource_id = ?2",
            params![project.id.to_string(), resource.id.to_string()],
        )
    }

    fn projects_at(&mut self, path: &AbsolutePath) -> Result<Vec<NamespacedName>> {
        let rows = self.query(
            "SELECT projects.name FROM resources \
             JOIN project_resources ON project_resources.resource_id = resources.id \
             JOIN projects ON projects.id = project_resources.project_id \
             WHERE resources.path_hash = ?1 ORDER BY projects.name",
            params![hash_text(&path.to_string())],
        )?;
        rows.iter().map(|row| row.parsed(0)).collect()
    }

    fn resources_of(&mut self, project: &NamespacedName) -> Result<Vec<Resource>> {
        let project = self.project(project)?;
        let rows = self.query(
            "SELECT resources.body, resources.version FROM project_resources \
             JOIN resources ON resources.id = project_resources.resource_id \
             WHERE project_resources.project_id = ?1 ORDER BY project_resources.position",
            params![project.id.to_string()],
        )?;
        rows.iter().map(resource_from_row).collect()
    }
}

fn find_project(
    session: &mut StoreSession<'_>,
    sql: &str,
    name: &NamespacedName,
) -> Result<Project> {
    let row = session.find(sql, params![name.to_string()])?;
    row.map(|row| project_from_row(&row))
        .unwrap_or_else(|| Err(not_found_error(Entity::Project, name)))
}

fn version_check(project: &Project, sql: &'static str) -> VersionCheck {
    VersionCheck {
        entity: Entity::Project,
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

fn resource_from_row(row: &SqlRow) -> Result<Resource> {
    let mut resource: Resource = decode_entity(row, 0)?;
    resource.version = row.integer(1)?;
    Ok(resource)
}
