//! Store operations on actors.

use cleveragents_domain::{Actor, NamespacedName};
use cleveragents_ports::{ActorRecords, ActorRow, Entity, Result};

use super::StoreSession;
use super::definitions::{DefinitionTable, NewDefinition, StoredDefinition};

const ACTORS: DefinitionTable = DefinitionTable {
    table: "actors",
    entity: Entity::Actor,
};

impl ActorRecords for StoreSession<'_> {
    fn insert_actor(&mut self, row: &ActorRow) -> Result<()> {
        ACTORS.insert(self, &new_definition(row))
    }

    fn replace_actor(&mut self, row: &ActorRow) -> Result<i64> {
        ACTORS.replace(self, &new_definition(row))
    }

    fn actor(&mut self, name: &NamespacedName) -> Result<ActorRow> {
        ACTORS.find(self, name).map(actor_from_definition)
    }

    fn actors(&mut self) -> Result<Vec<ActorRow>> {
        let all = ACTORS.all(self)?;
        Ok(all.into_iter().map(actor_from_definition).collect())
    }

    fn delete_actor(&mut self, row: &ActorRow) -> Result<()> {
        ACTORS.lock(self, &row.actor.name, row.version)?;
        ACTORS.delete(self, &row.actor.name)
    }
}

fn new_definition(row: &ActorRow) -> NewDefinition<'_, Actor> {
    NewDefinition {
        name: &row.actor.name,
        kind: row.actor.kind.actor_type().as_str(),
        definition: &row.actor,
        hash: &row.hash,
        created_at: row.created_at,
        updated_at: row.updated_at,
        version: row.version,
    }
}

fn actor_from_definition(defined: StoredDefinition<Actor>) -> ActorRow {
    ActorRow {
        actor: defined.definition,
        hash: defined.hash,
        created_at: defined.created_at,
        updated_at: defined.updated_at,
        version: defined.version,
    }
}
