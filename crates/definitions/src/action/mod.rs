//! Reads action files.
//!
//! [`wire`] is the file, [`convert`](mod@convert) turns it into an [`ActionDraft`] and checks
//! everything that needs no registry. The draft becomes an `Action` when it gets its id.

mod convert;
mod wire;

use cleveragents_domain::actor::RESERVED_NAMESPACE;
use cleveragents_domain::id::ActionId;
use cleveragents_domain::{
    Action, ActionState, Actors, Argument, Budget, Check, NamespacedName, ProfileName, Timestamp,
};
use serde_json::{Value, json};

use super::error::{DefinitionErrors, Problem, Problems};
use super::record::FromYaml;
use super::version::parse_versioned;
use super::yaml::{DefinitionSource, DefinitionVariables};

pub(super) use wire::ActionFile;

/// Maximum number of arguments of an action.
pub(super) const ARGUMENTS_MAXIMUM: usize = 100;

/// A checked action file without an id.
#[derive(Debug, Clone, PartialEq)]
pub struct ActionDraft {
    pub name: NamespacedName,
    pub description: String,
    pub long_description: Option<String>,
    pub actors: Actors,
    pub definition_of_done: String,
    pub reusable: bool,
    pub read_only: bool,
    pub state: ActionState,
    pub arguments: Vec<Argument>,
    pub automation_profile: Option<ProfileName>,
    pub invariants: Vec<String>,
    pub checks: Vec<Check>,
    pub budget: Budget,
    pub skills: Vec<NamespacedName>,
}

/// Reads the action in `source`, or returns every problem found.
pub fn read_action(
    source: &DefinitionSource<'_>,
    variables: DefinitionVariables<'_>,
) -> Result<ActionDraft, DefinitionErrors> {
    let mut problems = Problems::default();
    let draft = read(source, variables, &mut problems);
    problems.into_result(source.name, draft)
}

fn read(
    source: &DefinitionSource<'_>,
    variables: DefinitionVariables<'_>,
    problems: &mut Problems,
) -> Option<ActionDraft> {
    let node = parse_versioned(source, variables, "an action", problems)?;
    let file = ActionFile::read(&node, "", problems)?;
    let draft = convert::convert(file, &node, problems)?;
    let namespace = draft.name.namespace();
    if source.is_from_repository() && namespace.eq_ignore_ascii_case(RESERVED_NAMESPACE) {
        let what = format!("`name`: a repository cannot define `{}`", draft.name);
        let problem = Problem::new(node.locate("name"), "name", what).hint(format!(
            "names in `{RESERVED_NAMESPACE}/` belong to this program"
        ));
        problems.add(problem);
        return None;
    }
    Some(draft)
}

impl ActionDraft {
    pub fn into_action(self, id: ActionId, at: Timestamp) -> Action {
        Action {
            id,
            name: self.name,
            description: self.description,
            long_description: self.long_description,
            actors: self.actors,
            definition_of_done: self.definition_of_done,
            reusable: self.reusable,
            read_only: self.read_only,
            state: self.state,
            arguments: self.arguments,
            automation_profile: self.automation_profile,
            invariants: self.invariants,
            checks: self.checks,
            budget: self.budget,
            skills: self.skills,
            created_at: at,
            updated_at: at,
            version: 1,
        }
    }

    /// Returns `action` replaced by this draft; its id, creation time and version stay.
    pub fn into_replacement(self, action: &Action, at: Timestamp) -> Action {
        Action {
            created_at: action.created_at,
            version: action.version,
            ..self.into_action(action.id, at)
        }
    }

    /// Returns the hash of the content: equal content has an equal hash, independent of the file.
    pub fn content_hash(&self) -> Result<String, serde_json::Error> {
        let content = serde_json::to_string(&ActionFile::from(self))?;
        Ok(blake3::hash(content.as_bytes()).to_hex().to_string())
    }
}

impl From<&Action> for ActionDraft {
    fn from(action: &Action) -> Self {
        Self {
            name: action.name.clone(),
            description: action.description.clone(),
            long_description: action.long_description.clone(),
            actors: action.actors.clone(),
            definition_of_done: action.definition_of_done.clone(),
            reusable: action.reusable,
            read_only: action.read_only,
            state: action.state,
            arguments: action.arguments.clone(),
            automation_profile: action.automation_profile.clone(),
            invariants: action.invariants.clone(),
            checks: action.checks.clone(),
            budget: action.budget,
            skills: action.skills.clone(),
        }
    }
}

/// Returns the texts of an action that are templates, each with its name for messages. When an
/// action is used, only these are rendered.
pub(super) fn templates(action: &Action) -> Vec<(String, &str)> {
    let mut texts = vec![("description".to_owned(), action.description.as_str())];
    if let Some(text) = &action.long_description {
        texts.push(("long_description".to_owned(), text));
    }
    texts.push(("definition_of_done".to_owned(), &action.definition_of_done));
    for (index, text) in action.invariants.iter().enumerate() {
        texts.push((format!("invariants[{index}]"), text));
    }
    for (index, check) in action.checks.iter().enumerate() {
        texts.push((format!("checks[{index}].run"), &check.run));
    }
    texts
}

/// A small action that uses most keys, for the schema.
fn example() -> Value {
    json!({
        "version": 1,
        "name": "local/code-coverage",
        "description": "Raise the test coverage of {{ args.folder }}",
        "strategy_actor": "local/planner",
        "execution_actor": "local/coder",
        "definition_of_done": "Coverage of {{ args.folder }} is at least {{ args.target }} %\nAll tests pass\n",
        "arguments": [
            {"name": "folder", "type": "path", "required": true, "description": "What to cover"},
            {"name": "target", "type": "integer", "default": 90},
        ],
        "automation_profile": "supervised",
        "invariants": ["Change no public interface"],
        "checks": [{"run": "cargo test", "name": "tests", "timeout": 600}],
        "budget": {"usd": 2.5, "wall": 3600},
    })
}

#[cfg(test)]
mod tests;
