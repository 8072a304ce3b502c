//! The verbs of actors.

use cleveragents_domain::{Actor, NamespacedName};
use cleveragents_engine::ports::{ActorRow, Actors, Result};

use super::Session;
use super::definitions::{Defined, Definitions, Written};

const ACTORS: Definitions = Definitions {
    table: "actors",
    what: "actor",
    name: "the actor name",
};

impl Actors for Session<'_> {
    fn insert_actor(&mut self, row: &ActorRow) -> Result<()> {
        self.insert_definition(&ACTORS, &written(row))
    }

    fn replace_actor(&mut self, row: &ActorRow) -> Result<i64> {
        self.replace_definition(&ACTORS, &written(row))
    }

    fn actor(&mut self, name: &NamespacedName) -> Result<ActorRow> {
        self.definition(&ACTORS, name).map(actor_row)
    }

    fn actors(&mut self) -> Result<Vec<ActorRow>> {
        let all = self.all_definitions(&ACTORS)?;
        Ok(all.into_iter().map(actor_row).collect())
    }

    fn delete_actor(&mut self, row: &ActorRow) -> Result<()> {
        self.lock_definition(&ACTORS, &row.actor.name, row.version)?;
        self.delete_definition(&ACTORS, &row.actor.name)
    }
}

fn written(row: &ActorRow) -> Written<'_, Actor> {
    Written {
        name: &row.actor.name,
        kind: row.actor.kind.actor_type().as_str(),
        definition: &row.actor,
        hash: &row.hash,
        created_at: row.created_at,
        updated_at: row.updated_at,
        version: row.version,
    }
}

fn actor_row(defined: Defined<Actor>) -> ActorRow {
    ActorRow {
        actor: defined.definition,
        hash: defined.hash,
        created_at: defined.created_at,
        updated_at: defined.updated_at,
        version: defined.version,
    }
}
