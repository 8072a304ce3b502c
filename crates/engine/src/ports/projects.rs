//! Projects, resources and which of them are linked. A link and the removal of what it links
//! exclude each other, so no link leads nowhere.

use cleveragents_domain::{NamespacedName, Project, Resource};

use super::Result;

pub trait Projects {
    /// Stores a new project; a taken name is `Taken`, naming who has it.
    fn insert_project(&mut self, project: &Project) -> Result<()>;

    fn project(&mut self, name: &NamespacedName) -> Result<Project>;

    /// The project, which nobody can delete until this write ends.
    fn lock_project(&mut self, name: &NamespacedName) -> Result<Project>;

    /// Replaces the row if `project.version` is still the newest; answers with the next version.
    fn update_project(&mut self, project: &Project) -> Result<i64>;

    /// Removes the project, if `project.version` is still the newest, with its links, invariants
    /// and attachments of validations. Its resources and plans stay.
    fn delete_project(&mut self, project: &Project) -> Result<()>;

    /// All projects, newest first.
    fn projects(&mut self) -> Result<Vec<Project>>;
}

pub trait Resources {
    /// Stores a new resource; a taken name or path is `Taken`, naming the resource that has it.
    fn insert_resource(&mut self, resource: &Resource) -> Result<()>;

    fn resource(&mut self, name: &NamespacedName) -> Result<Resource>;

    /// All resources, newest first.
    fn resources(&mut self) -> Result<Vec<Resource>>;

    /// Removes a resource, if `resource.version` is still the newest, with the validations attached
    /// to it; one that is linked is `Taken`, naming the projects.
    fn delete_resource(&mut self, resource: &Resource) -> Result<()>;

    /// Links a resource to a project and says how many links are new: twice is once.
    fn link_resource(&mut self, project: &NamespacedName, resource: &NamespacedName)
    -> Result<u64>;

    /// Undoes a link and says how many there were.
    fn unlink_resource(
        &mut self,
        project: &NamespacedName,
        resource: &NamespacedName,
    ) -> Result<u64>;

    /// The resources of a project, in the order in which they were linked.
    fn resources_of(&mut self, project: &NamespacedName) -> Result<Vec<Resource>>;
}
