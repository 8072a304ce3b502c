//! `agents actor show`

use clap::Args;
use cleveragents_domain::NamespacedName;
use cleveragents_engine::actors::RegisteredActor;
use serde_json::{Value, json};

use super::{model, registry_failure, view};
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::names;
use crate::output::CommandAnswer;

/// Show an actor: its steps or model, its tools, and the actions that use it
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents actor show local/greeter
  agents actor show builtin/direct --format json")]
pub struct ActorShowArgs {
    /// The name of the actor
    #[arg(value_name = "NAME")]
    name: String,
}

impl ActorShowArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let name = names::parse_name("actor", &self.name)?;
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open_to_read()?;
        let found = app.block_on(app.actors().actor_in_use(name.clone()));
        let (registered, actions) = found.map_err(|error| registry_failure(error, &name, &app))?;
        let view = view::panels(&registered, &actions);
        Ok(CommandAnswer::new(data(&registered, &actions), view))
    }
}

/// Returns the actor for JSON output. Fields that apply only to a model are `null` without one.
fn data(registered: &RegisteredActor, actions: &[NamespacedName]) -> Value {
    let actor = registered.actor();
    let row = match registered {
        RegisteredActor::Added(row) => Some(row),
        RegisteredActor::BuiltIn(_) => None,
    };
    json!({
        "actor_details": {
            "name": actor.name,
            "description": actor.description,
            "provider": model::provider(actor),
            "model": model::model(actor),
            "default": false,
            "builtin": row.is_none(),
            "unsafe": false,
            "type": actor.kind.actor_type(),
            "created": row.map(|row| row.created_at),
            "updated": row.map(|row| row.updated_at),
            "config": actor,
            "config_hash": row.map(|row| &row.hash),
            "version": row.map(|row| row.version),
        },
        "options": model::options(actor),
        "system_prompt": model::llm(actor).and_then(|llm| llm.system_prompt.as_deref()),
        "graph_structure": null,
        "steps": actor.steps(),
        "tools": model::tools(actor),
        "skills": model::skills(actor),
        "access": {"unsafe": false, "filesystem": null, "network": null},
        "usage": {
            "referenced_by_actions": actions,
            "active_in_sessions": null,
            "total_runs": null,
            "avg_cost_per_run": null,
        },
    })
}
