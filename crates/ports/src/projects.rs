//! Projects, resources and the links between them. Linking and deleting the linked items exclude
//! each other, so there are no dangling links.

use cleveragents_domain::{AbsolutePath, NamespacedName, Project, Resource};

use super::Result;

pub trait Projects {
    /// Stores a new project. Fails with `Taken`, which names the holder, if the name is taken.
    fn insert_project(&mut self, project: &Project) -> Result<()>;

    fn project(&mut self, name: &NamespacedName) -> Result<Project>;

    /// Returns the project and locks it against deletion until the transaction ends.
    fn lock_project(&mut self, name: &NamespacedName) -> Result<Project>;

    /// Updates the row if `project.version` is the newest; returns the next version.
    fn update_project(&mut self, project: &Project) -> Result<i64>;

    /// Deletes the project, if `project.version` is the newest, with its links, invariants and
    /// validation attachments. Its resources and plans stay.
    fn delete_project(&mut self, project: &Project) -> Result<()>;

    /// Returns all projects, newest first.
    fn projects(&mut self) -> Result<Vec<Project>>;

    /// Stores a new resource. Fails with `Taken`, which names the other resource, if its name or
    /// path is taken.
    fn insert_resource(&mut self, resource: &Resource) -> Result<()>;

    fn resource(&mut self, name: &NamespacedName) -> Result<Resource>;

    /// Returns all resources, newest first.
    fn resources(&mut self) -> Result<Vec<Resource>>;

    /// Deletes a resource, if `resource.version` is the newest, with the validations attached to
    /// it. Fails with `Referenced`, which names the projects, if it is linked.
    fn delete_resource(&mut self, resource: &Resource) -> Result<()>;

    /// Links a resource to a project and returns the number of new links. Idempotent.
    fn link_resource(&mut self, project: &NamespacedName, resource: &NamespacedName)
    -> Result<u64>;

    /// Removes a link and returns how many there were.
    fn unlink_resource(
        &mut self,
        project: &NamespacedName,
        resource: &NamespacedName,
    ) -> Result<u64>;

    /// Returns the names of the projects with a resource at exactly this path, in alphabetical
    /// order.
    fn projects_at(&mut self, path: &AbsolutePath) -> Result<Vec<NamespacedName>>;

    /// Returns the resources of a project, in the order in which they were linked.
    fn resources_of(&mut self, project: &NamespacedName) -> Result<Vec<Resource>>;
}
