//! Actors as users write them.

use cleveragents_domain::actor::{ActorError, STEPS_MAXIMUM, StepError, StepList};
use cleveragents_domain::{Actor, ActorKind, ActorStep, ActorType, ToolActor};
use serde_json::{Map, Value, json};

use super::conversion::Conversion;
use super::error::{DefinitionErrors, Problem, Problems};
use super::filling::{self, FillError, Names};
use super::nearest::nearest;
use super::record::{Read, Tree, record};
use super::version::open;
use super::yaml::{Node, Source, Variables};

/// Why a key that other types of actors have is refused.
const OF_OTHER_TYPES: &str = "it belongs to types of actors that are not supported yet";

/// What the texts of a step may name.
const ROOTS: [&str; 2] = ["args", "steps"];

record! {
    /// Somebody who does the work of an action: today one that calls tools in a fixed order.
    #[schemars(
        title = "CleverAgents actor",
        extend("examples" = [example()])
    )]
    ActorFile refusing [
        ("provider", OF_OTHER_TYPES),
        ("model", OF_OTHER_TYPES),
        ("system_prompt", OF_OTHER_TYPES),
        ("temperature", OF_OTHER_TYPES),
        ("max_tokens", OF_OTHER_TYPES),
        ("top_p", OF_OTHER_TYPES),
        ("tools", OF_OTHER_TYPES),
        ("skills", OF_OTHER_TYPES),
        ("route", OF_OTHER_TYPES),
        ("memory", OF_OTHER_TYPES),
        ("context", OF_OTHER_TYPES),
        ("context_view", OF_OTHER_TYPES),
        ("lsp", OF_OTHER_TYPES),
        ("env_vars", "write `${VAR}` where its value is wanted"),
        ("role_hint", OF_OTHER_TYPES),
        ("response_format", OF_OTHER_TYPES),
        ("actors", "write one actor per file"),
        ("agents", "write one actor per file"),
    ] {
        /// The version of this format; 1 if left out.
        #[schemars(range(min = 1, max = 1))]
        version: Option<u64> = "version",
        /// The actor's name, `[[server:]namespace/]name`; without a namespace it is in `local/`.
        #[schemars(length(min = 1))]
        name: String = "name",
        /// How the actor works: `tool` calls the tools of its steps, without a model.
        #[schemars(extend("enum" = ["tool"]))]
        actor_type: String = "type",
        /// What the actor does, in a sentence or two.
        #[schemars(length(min = 1))]
        description: String = "description",
        /// The calls, in their order.
        #[schemars(length(min = 1, max = STEPS_MAXIMUM))]
        steps: Vec<StepEntry> = "steps",
        /// The calls that may mend what required validations found wrong, before they are asked again.
        #[schemars(length(max = STEPS_MAXIMUM))]
        fix: Option<Vec<StepEntry>> = "fix",
    }
}

record! {
    /// One call of a tool.
    #[schemars(title = "Step")]
    StepEntry refusing [] {
        /// The tool to call, such as `builtin/file-write`.
        #[schemars(length(min = 1))]
        tool: String = "tool",
        /// What the tool is given. Strings are templates of `args` and `steps`; one that is a single `{{ expression }}` keeps its type.
        input: Option<Tree> = "input",
        /// The name under which later steps see the answer, as `{{ steps.ID.… }}`.
        #[schemars(length(min = 1, max = 100))]
        id: Option<String> = "id",
        /// An expression of `args` and `steps`; if it is false the step is skipped.
        #[schemars(length(min = 1))]
        when: Option<String> = "when",
        /// The resource of the plan that the call works in; needed only if there are several.
        #[schemars(length(min = 1))]
        resource: Option<String> = "resource",
    }
}

/// Reads the actor in `source`, or says everything that is wrong with it. That its tools are there
/// is for whoever runs it to say.
pub fn read_actor(
    source: &Source<'_>,
    variables: Variables<'_>,
) -> Result<Actor, DefinitionErrors> {
    let mut problems = Problems::default();
    let actor = read(source, variables, &mut problems);
    problems.conclude(source.name, actor)
}

fn read(source: &Source<'_>, variables: Variables<'_>, problems: &mut Problems) -> Option<Actor> {
    let node = open(source, variables, "an actor", problems)?;
    if let Some(refusal) = refused_type(&node) {
        // The keys of another type would all seem wrong.
        problems.add(refusal);
        return None;
    }
    let file = ActorFile::read(&node, "", problems)?;
    let mut conversion = Conversion {
        node: &node,
        problems,
    };
    let actor = conversion.actor(file)?;
    conversion.check_actor(&actor);
    Some(actor)
}

/// Why actors of the type that is written cannot be read. One that is no text is for the reader of
/// the key to refuse.
fn refused_type(node: &Node) -> Option<Problem> {
    let written = node.scalar_at("type")?.as_text()?;
    let problem = |what: String| Problem::new(node.locate("type"), "type", what);
    match written.parse::<ActorType>() {
        Ok(ActorType::Tool) => None,
        Ok(known) => Some(
            problem(format!(
                "actors of the type `{known}` are not supported yet"
            ))
            .hint("write `type: tool`, which calls tools in a fixed order"),
        ),
        Err(error) => {
            let words = ActorType::ALL.iter().map(|word| word.as_str());
            let problem = problem(format!("`type`: {error}"));
            Some(match nearest(written, words) {
                Some(near) => problem.hint(format!("did you mean `{near}`?")),
                None => problem,
            })
        }
    }
}

impl Conversion<'_> {
    fn actor(&mut self, file: ActorFile) -> Option<Actor> {
        let name = self.parse("name", &file.name);
        let steps = self.steps(StepList::Steps, file.steps);
        let fix = self.steps(StepList::Fix, file.fix.unwrap_or_default());
        Some(Actor {
            name: name?,
            description: file.description,
            kind: ActorKind::Tool(ToolActor {
                steps: steps?,
                fix: fix?,
            }),
        })
    }

    /// Each is read before any is missed, so that every problem is recorded.
    fn steps(&mut self, list: StepList, entries: Vec<StepEntry>) -> Option<Vec<ActorStep>> {
        let convert = |(index, entry)| self.step(&format!("{list}[{index}]"), entry);
        let steps: Vec<Option<ActorStep>> = entries.into_iter().enumerate().map(convert).collect();
        steps.into_iter().collect()
    }

    fn step(&mut self, path: &str, entry: StepEntry) -> Option<ActorStep> {
        let tool = self.parse(&format!("{path}.tool"), &entry.tool);
        let resource = self.parse_optional(&format!("{path}.resource"), &entry.resource);
        Some(ActorStep {
            tool: tool?,
            input: Value::Object(entry.input.map_or_else(Map::new, |tree| tree.0)),
            id: entry.id,
            when: entry.when,
            resource: resource?,
        })
    }

    fn check_actor(&mut self, actor: &Actor) {
        for error in actor.problems() {
            let path = path_of(&error);
            self.problem(&path, error.to_string());
        }
        for (list, steps) in [
            (StepList::Steps, actor.steps()),
            (StepList::Fix, actor.fix()),
        ] {
            self.check_steps(list, steps);
        }
    }

    fn check_steps(&mut self, list: StepList, all: &[ActorStep]) {
        let mut steps = Names {
            roots: &ROOTS,
            ..Names::default()
        };
        for (index, step) in all.iter().enumerate() {
            let path = format!("{list}[{index}]");
            let mut found = filling::check(&format!("{path}.input"), &step.input, &steps);
            if let Some(when) = &step.when {
                let text = format!("{path}.when");
                found.extend(filling::check_expression(&text, when, &steps).err());
            }
            for error in found {
                self.fill_problem(&error);
            }
            steps.steps.extend(step.id.as_deref());
        }
    }

    /// A problem of a template, where the template stands.
    pub(super) fn fill_problem(&mut self, error: &FillError) {
        self.problem(error.text(), error.to_string());
    }
}

fn path_of(error: &ActorError) -> String {
    match error {
        ActorError::Reserved { .. } => "name".to_owned(),
        ActorError::DescriptionEmpty | ActorError::DescriptionTooLong { .. } => {
            "description".to_owned()
        }
        ActorError::NoSteps | ActorError::TooManySteps { .. } => "steps".to_owned(),
        ActorError::PromptTooLong { .. } => "system_prompt".to_owned(),
        ActorError::Option { key, .. } => (*key).to_owned(),
        ActorError::Step { list, step, error } => {
            let key = match error {
                StepError::Id { .. } | StepError::RepeatedId { .. } => "id",
                StepError::InputNotAnObject | StepError::InputTooLarge { .. } => "input",
            };
            format!("{list}[{step}].{key}")
        }
    }
}

/// A small actor that uses all there is.
fn example() -> Value {
    json!({
        "version": 1,
        "name": "local/header-writer",
        "type": "tool",
        "description": "Writes a licence header into a file",
        "steps": [
            {"id": "read", "tool": "builtin/file-read", "input": {"path": "{{ args.file }}"}},
            {
                "id": "write",
                "tool": "builtin/file-edit",
                "when": "args.licence not in steps.read.content",
                "input": {
                    "path": "{{ args.file }}",
                    "old": "{{ steps.read.content | lines | first }}",
                    "new": "// {{ args.licence }}\n{{ steps.read.content | lines | first }}",
                },
            },
            {"tool": "builtin/shell", "resource": "local/shop", "input": {"command": "make check", "timeout": 60}},
        ],
    })
}

#[cfg(test)]
mod tests;
