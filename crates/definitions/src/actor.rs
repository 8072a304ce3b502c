//! Reads actor files: one file format per actor type.

mod llm;

use cleveragents_domain::actor::{ActorError, STEPS_MAXIMUM, StepError, StepList};
use cleveragents_domain::{Actor, ActorKind, ActorStep, ActorType, ToolActor};
use serde_json::{Map, Value, json};

use super::conversion::DefinitionConversion;
use super::error::{DefinitionErrors, Problem, Problems};
use super::interpolation::{self, TemplateNames};
use super::nearest::nearest;
use super::record::{FromYaml, JsonTree, record};
use super::version::parse_versioned;
use super::yaml::{DefinitionSource, DefinitionVariables, YamlKind, YamlNode};
use llm::{LlmActorFile, convert_llm_actor};

const UNSUPPORTED_TYPE_KEY_HINT: &str = "it belongs to types of actors that are not supported yet";

/// Hint for a missing or wrong type.
const TYPE_HINT: &str = "write `type: llm`, which lets a model decide, or `type: tool`, which calls \
                     tools in a fixed order";

/// Hint for a key of an actor with a model.
const LLM_KEY_HINT: &str = "it is a key of actors of the type `llm`";

/// Names that the templates of a step may use.
const ROOTS: [&str; 2] = ["args", "steps"];

/// An actor runs the steps of an action.
///
/// Which of the two a file is, is read from its type first, so that what is wrong is said of that
/// one alone.
#[derive(Debug, schemars::JsonSchema)]
#[schemars(
    untagged,
    title = "CleverAgents actor",
    description = "An actor runs the steps of an action"
)]
pub(super) enum ActorFile {
    Tool(ToolActorFile),
    Llm(LlmActorFile),
}

record! {
    /// An actor that calls tools in a fixed order, without a model.
    #[schemars(
        title = "Actor without a model",
        extend("examples" = [example()])
    )]
    ToolActorFile refusing [
        ("provider", LLM_KEY_HINT),
        ("model", LLM_KEY_HINT),
        ("system_prompt", LLM_KEY_HINT),
        ("temperature", LLM_KEY_HINT),
        ("max_tokens", LLM_KEY_HINT),
        ("top_p", LLM_KEY_HINT),
        ("tools", LLM_KEY_HINT),
        ("skills", LLM_KEY_HINT),
        ("route", UNSUPPORTED_TYPE_KEY_HINT),
        ("memory", UNSUPPORTED_TYPE_KEY_HINT),
        ("context", UNSUPPORTED_TYPE_KEY_HINT),
        ("context_view", UNSUPPORTED_TYPE_KEY_HINT),
        ("lsp", UNSUPPORTED_TYPE_KEY_HINT),
        ("env_vars", "write `${VAR}` where its value is wanted"),
        ("role_hint", UNSUPPORTED_TYPE_KEY_HINT),
        ("response_format", UNSUPPORTED_TYPE_KEY_HINT),
        ("actors", "write one actor per file"),
        ("agents", "write one actor per file"),
    ] {
        /// The version of this format; 1 if left out.
        #[schemars(range(min = 1, max = 1))]
        version: Option<u64> = "version",
        /// The actor's name, `[[server:]namespace/]name`; without a namespace it is in `local/`.
        #[schemars(length(min = 1))]
        name: String = "name",
        /// The kind of the actor: `tool` calls the tools of its steps, without a model.
        #[schemars(extend("enum" = ["tool"]))]
        actor_type: String = "type",
        /// The actor's purpose, in a sentence or two.
        #[schemars(length(min = 1))]
        description: String = "description",
        /// The calls, in their order.
        #[schemars(length(min = 1, max = STEPS_MAXIMUM))]
        steps: Vec<StepEntry> = "steps",
        /// The calls that may repair failures of required validations, before these run again.
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
        /// The input of the tool. Strings are templates of `args` and `steps`; one that is a single `{{ expression }}` keeps its type.
        input: Option<JsonTree> = "input",
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

/// Reads the actor in `source`, or returns every problem found. Whether its tools exist is checked
/// when it runs.
pub fn read_actor(
    source: &DefinitionSource<'_>,
    variables: DefinitionVariables<'_>,
) -> Result<Actor, DefinitionErrors> {
    let mut problems = Problems::default();
    let actor = read(source, variables, &mut problems);
    problems.into_result(source.name, actor)
}

fn read(
    source: &DefinitionSource<'_>,
    variables: DefinitionVariables<'_>,
    problems: &mut Problems,
) -> Option<Actor> {
    let node = parse_versioned(source, variables, "an actor", problems)?;
    let shape = actor_file_kind(&node, problems)?;
    let read = match shape {
        ActorFileKind::Tool => ToolActorFile::read(&node, "", problems).map(ActorFile::Tool),
        ActorFileKind::Llm => LlmActorFile::read(&node, "", problems).map(ActorFile::Llm),
    };
    let mut conversion = DefinitionConversion {
        node: &node,
        problems,
    };
    let actor = match read? {
        ActorFile::Tool(file) => convert_tool_actor(&mut conversion, file),
        ActorFile::Llm(file) => convert_llm_actor(&mut conversion, file, source.folder),
    }?;
    check_actor(&mut conversion, &actor);
    Some(actor)
}

/// The supported file formats.
#[derive(Debug, Clone, Copy)]
enum ActorFileKind {
    Tool,
    Llm,
}

/// Returns the file format for the type. Without a known type nothing else is read: the keys of
/// another format would all be reported as wrong.
fn actor_file_kind(node: &YamlNode, problems: &mut Problems) -> Option<ActorFileKind> {
    let YamlKind::Mapping(entries) = &node.kind else {
        // The reader of any format reports that the document must be a mapping.
        return Some(ActorFileKind::Tool);
    };
    let Some(entry) = entries.iter().find(|entry| entry.key == "type") else {
        let missing = Problem::new(node.position, "type", "the key `type` is missing");
        problems.add(missing.hint(TYPE_HINT));
        return None;
    };
    let written = String::read(&entry.value, "type", problems)?;
    let problem = |what: String| Problem::new(entry.value.position, "type", what);
    match written.parse::<ActorType>() {
        Ok(ActorType::Tool) => Some(ActorFileKind::Tool),
        Ok(ActorType::Llm) => Some(ActorFileKind::Llm),
        Ok(known @ ActorType::Graph) => {
            let what = format!("actors of the type `{known}` are not supported yet");
            problems.add(problem(what).hint(TYPE_HINT));
            None
        }
        Err(error) => {
            let words = ActorType::ALL.iter().map(|word| word.as_str());
            let problem = problem(format!("`type`: {error}"));
            problems.add(match nearest(&written, words) {
                Some(near) => problem.hint(format!("did you mean `{near}`?")),
                None => problem,
            });
            None
        }
    }
}

fn convert_tool_actor(
    conversion: &mut DefinitionConversion<'_>,
    file: ToolActorFile,
) -> Option<Actor> {
    let name = conversion.parse("name", &file.name);
    let fix = file.fix.unwrap_or_default();
    let steps = conversion.convert_all(StepList::Steps.as_str(), file.steps, convert_step);
    let fix = conversion.convert_all(StepList::Fix.as_str(), fix, convert_step);
    Some(Actor {
        name: name?,
        description: file.description,
        kind: ActorKind::Tool(ToolActor {
            steps: steps?,
            fix: fix?,
        }),
    })
}

fn convert_step(
    conversion: &mut DefinitionConversion<'_>,
    path: &str,
    entry: StepEntry,
) -> Option<ActorStep> {
    let tool = conversion.parse(&format!("{path}.tool"), &entry.tool);
    let resource = conversion.parse_optional(&format!("{path}.resource"), &entry.resource);
    Some(ActorStep {
        tool: tool?,
        input: Value::Object(entry.input.map_or_else(Map::new, |tree| tree.0)),
        id: entry.id,
        when: entry.when,
        resource: resource?,
    })
}

fn check_actor(conversion: &mut DefinitionConversion<'_>, actor: &Actor) {
    for error in actor.problems() {
        let path = match (&error, conversion.node.scalar_at("provider")) {
            // The provider was written before the first `/` of the model.
            (ActorError::Provider { .. }, None) => "model".to_owned(),
            _ => error_path(&error),
        };
        conversion.problem(&path, error.to_string());
    }
    for (list, steps) in [
        (StepList::Steps, actor.steps()),
        (StepList::Fix, actor.fix()),
    ] {
        check_steps(conversion, list, steps);
    }
}

fn check_steps(conversion: &mut DefinitionConversion<'_>, list: StepList, all: &[ActorStep]) {
    let mut steps = TemplateNames {
        roots: &ROOTS,
        ..TemplateNames::default()
    };
    for (index, step) in all.iter().enumerate() {
        let path = format!("{list}[{index}]");
        let mut found = interpolation::check(&format!("{path}.input"), &step.input, &steps);
        if let Some(when) = &step.when {
            let text = format!("{path}.when");
            found.extend(interpolation::check_expression(&text, when, &steps).err());
        }
        for error in found {
            conversion.fill_problem(&error);
        }
        steps.steps.extend(step.id.as_deref());
    }
}

fn error_path(error: &ActorError) -> String {
    match error {
        ActorError::Reserved { .. } => "name".to_owned(),
        ActorError::DescriptionEmpty | ActorError::DescriptionTooLong { .. } => {
            "description".to_owned()
        }
        ActorError::NoSteps | ActorError::TooManySteps { .. } => "steps".to_owned(),
        ActorError::PromptTooLong { .. } => "system_prompt".to_owned(),
        ActorError::Provider { .. } => "provider".to_owned(),
        ActorError::ModelEmpty | ActorError::ModelTooLong { .. } | ActorError::ModelText => {
            "model".to_owned()
        }
        ActorError::RepeatedTool { index, .. } => format!("tools[{index}]"),
        ActorError::TooManySkills { .. } => "skills".to_owned(),
        ActorError::Skill { index, .. } => format!("skills[{index}]"),
        ActorError::Option { key, .. } => (*key).to_owned(),
        ActorError::Step { list, step, error } => {
            let key = match error {
                StepError::Id { .. } | StepError::RepeatedId { .. } => "id",
                StepError::ControlTool { .. } => "tool",
                StepError::InputNotAnObject | StepError::InputTooLarge { .. } => "input",
            };
            format!("{list}[{step}].{key}")
        }
    }
}

/// A small actor that uses every key.
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
