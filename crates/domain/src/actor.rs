//! Actors: the definitions that do the strategizing and the work of a plan.
//!
//! An [`Actor`] is a parsed YAML definition. This module runs the checks that need no template
//! engine and no registry. The texts inside a step are templates; the engine checks and renders
//! them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::action::DESCRIPTION_MAXIMUM;
use crate::model::{ModelChoice, ModelOptions};
use crate::name::{NamespacedName, PART_MAXIMUM, is_name_part};
use crate::text_enum::text_enum;
use crate::tool::control::is_control_tool;

/// Maximum number of steps of a tool actor.
pub const STEPS_MAXIMUM: usize = 1_000;
/// The longest a step's id may be, in characters.
pub const STEP_ID_MAXIMUM: usize = 100;
/// The largest a step's input may be as it is written, in bytes of JSON.
pub const INPUT_MAXIMUM: usize = 1 << 20;
/// The longest a system prompt may be, in bytes.
pub const PROMPT_MAXIMUM: usize = 256 << 10;
/// The longest a provider's name for a model, or a script's path, may be, in bytes.
pub const MODEL_MAXIMUM: usize = 4_096;
/// Maximum number of skills of an actor.
pub const SKILLS_MAXIMUM: usize = 100;
/// The longest the name of a skill may be, in characters.
pub const SKILL_MAXIMUM: usize = 100;
/// The provider whose models are script files with predefined answers.
pub const SCRIPTED_PROVIDER: &str = "scripted";
/// The namespace reserved for built-in names.
pub const RESERVED_NAMESPACE: &str = "builtin";

/// An actor that can fill a role of an action.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Actor {
    pub name: NamespacedName,
    pub description: String,
    pub kind: ActorKind,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ActorKind {
    /// Calls tools in a fixed order, without a model.
    Tool(ToolActor),
    /// Lets a model decide which tools to call.
    Llm(LlmActor),
    /// `builtin/direct`, which has no definition. As strategy actor it produces the obvious steps;
    /// as execution actor it completes without a change.
    Direct,
}

/// A model with its prompt, tools and skills.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LlmActor {
    /// `None` means the configured default model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelChoice>,
    /// Sent to the model before the plan's own context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    #[serde(default, skip_serializing_if = "is_plain")]
    pub options: ModelOptions,
    /// The allowed tools. Without a list, every built-in tool that the phase allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<NamespacedName>>,
    /// The skills listed to the model by name. Without a list, all skills of the project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skills: Option<Vec<String>>,
}

fn is_plain(options: &ModelOptions) -> bool {
    *options == ModelOptions::default()
}

/// The calls of a tool actor, in execution order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolActor {
    pub steps: Vec<ActorStep>,
    /// The calls that may repair what required validations reported.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fix: Vec<ActorStep>,
}

/// One tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ActorStep {
    pub tool: NamespacedName,
    /// A JSON object. Strings at any depth are templates.
    #[serde(default = "empty_input")]
    pub input: Value,
    /// The name under which later steps can read this step's output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// An expression. The step is skipped if it evaluates to false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// The plan resource that the call works in; required only if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<NamespacedName>,
}

fn empty_input() -> Value {
    Value::Object(serde_json::Map::new())
}

text_enum! {
    /// The step lists of a tool actor.
    StepList: "list of steps" {
        Steps = "steps",
        Fix = "fix",
    }
}

text_enum! {
    /// Every known actor type. Only some of them can be defined today.
    ActorType: "type of actor" {
        Llm = "llm",
        Tool = "tool",
        Graph = "graph",
    }
}

text_enum! {
    /// The actors built into this program. They are code and are never stored.
    BuiltInActor: "built-in actor" {
        /// Uses the configured default model.
        Coder = "builtin/coder",
        Direct = "builtin/direct",
    }
}

/// Error of an invalid actor definition. Steps are identified by index, counted from 0.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ActorError {
    #[error("names in `{RESERVED_NAMESPACE}/` are this program's own: `{name}` cannot be defined")]
    Reserved { name: NamespacedName },
    #[error("`description` must not be empty")]
    DescriptionEmpty,
    #[error("`description` may be {DESCRIPTION_MAXIMUM} bytes long, this one has {length}")]
    DescriptionTooLong { length: usize },
    #[error("an actor of the type `tool` needs at least one step")]
    NoSteps,
    #[error("an actor may have {STEPS_MAXIMUM} steps, this one has {count}")]
    TooManySteps { count: usize },
    #[error("`system_prompt` may be {PROMPT_MAXIMUM} bytes long, this one has {length}")]
    PromptTooLong { length: usize },
    #[error(
        "`{provider}` cannot be the name of a provider: use letters, digits, `-`, `_` and `.`, \
         beginning with a letter or digit, at most {PART_MAXIMUM} characters"
    )]
    Provider { provider: String },
    #[error("`model` is empty")]
    ModelEmpty,
    #[error("`model` may be {MODEL_MAXIMUM} bytes long, this one has {length}")]
    ModelTooLong { length: usize },
    #[error("`model` must be one line without spaces around it")]
    ModelText,
    #[error("`tools[{index}]`: `{tool}` is that of `tools[{first}]` already")]
    RepeatedTool {
        tool: NamespacedName,
        index: usize,
        first: usize,
    },
    #[error("an actor may name {SKILLS_MAXIMUM} skills, this one names {count}")]
    TooManySkills { count: usize },
    #[error("`skills[{index}]`: {error}")]
    Skill { index: usize, error: SkillError },
    #[error("`{key}` must be {bounds}")]
    Option {
        key: &'static str,
        bounds: &'static str,
    },
    #[error("`{list}[{step}]`: {error}")]
    Step {
        list: StepList,
        step: usize,
        error: StepError,
    },
}

/// Error of an invalid skill name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SkillError {
    #[error("the name of a skill must not be empty")]
    Empty,
    #[error("the name of a skill may be {SKILL_MAXIMUM} characters long, this one has {length}")]
    TooLong { length: usize },
    #[error("the name of a skill is one line of text")]
    Lines,
    #[error("`{skill}` is that of `skills[{first}]` already")]
    Repeated { skill: String, first: usize },
}

/// Error of an invalid step.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    #[error(
        "invalid step id `{id}`: use letters, digits and `_`, beginning with a letter or `_`, \
         at most {STEP_ID_MAXIMUM} characters"
    )]
    Id { id: String },
    #[error("the id `{id}` is that of `{list}[{first}]` already")]
    RepeatedId {
        id: String,
        list: StepList,
        first: usize,
    },
    #[error("`{tool}` is for actors with a model; an actor of type `tool` cannot use it")]
    ControlTool { tool: NamespacedName },
    #[error("`input` must be a mapping")]
    InputNotAnObject,
    #[error("`input` may be {INPUT_MAXIMUM} bytes of JSON, this one has {length}")]
    InputTooLarge { length: usize },
}

/// The maximum number of characters of an invalid id that an error message repeats.
const SHOWN_MAXIMUM: usize = 40;

impl Actor {
    /// Runs every check that needs neither a template engine nor a registry. Returns the first
    /// problem.
    pub fn validate(&self) -> Result<(), ActorError> {
        self.problems().into_iter().next().map_or(Ok(()), Err)
    }

    /// Returns every problem that [`Self::validate`] could report.
    pub fn problems(&self) -> Vec<ActorError> {
        let mut problems = Vec::new();
        if is_reserved(&self.name) {
            let name = self.name.clone();
            problems.push(ActorError::Reserved { name });
        }
        let length = self.description.len();
        if self.description.trim().is_empty() {
            problems.push(ActorError::DescriptionEmpty);
        } else if length > DESCRIPTION_MAXIMUM {
            problems.push(ActorError::DescriptionTooLong { length });
        }
        match &self.kind {
            ActorKind::Direct => {}
            ActorKind::Tool(tool) => problems.extend(tool.problems()),
            ActorKind::Llm(llm) => problems.extend(llm.problems()),
        }
        problems
    }

    /// Returns the fixed steps of a tool actor; empty for every other actor.
    pub fn steps(&self) -> &[ActorStep] {
        match &self.kind {
            ActorKind::Tool(tool) => &tool.steps,
            ActorKind::Direct | ActorKind::Llm(_) => &[],
        }
    }

    /// Returns the calls that may repair what required validations reported.
    pub fn fix(&self) -> &[ActorStep] {
        match &self.kind {
            ActorKind::Tool(tool) => &tool.fix,
            ActorKind::Direct | ActorKind::Llm(_) => &[],
        }
    }
}

impl ActorKind {
    /// `builtin/direct` calls no model, so it counts as a tool actor.
    pub const fn actor_type(&self) -> ActorType {
        match self {
            Self::Tool(_) | Self::Direct => ActorType::Tool,
            Self::Llm(_) => ActorType::Llm,
        }
    }
}

impl LlmActor {
    fn problems(&self) -> Vec<ActorError> {
        let mut problems: Vec<ActorError> = self.model.iter().flat_map(model_problems).collect();
        problems.extend(self.tools.iter().flat_map(|tools| tool_problems(tools)));
        problems.extend(self.skills.iter().flat_map(|skills| skill_problems(skills)));
        let length = self.system_prompt.as_ref().map_or(0, String::len);
        if length > PROMPT_MAXIMUM {
            problems.push(ActorError::PromptTooLong { length });
        }
        let ModelOptions {
            temperature,
            top_p,
            max_tokens,
        } = self.options;
        let within =
            |value: Option<f64>, most: f64| value.is_none_or(|value| (0.0..=most).contains(&value));
        if !within(temperature, 2.0) {
            let (key, bounds) = ("temperature", "from 0 to 2");
            problems.push(ActorError::Option { key, bounds });
        }
        if !within(top_p, 1.0) {
            let (key, bounds) = ("top_p", "from 0 to 1");
            problems.push(ActorError::Option { key, bounds });
        }
        if max_tokens == Some(0) {
            let (key, bounds) = ("max_tokens", "from 1");
            problems.push(ActorError::Option { key, bounds });
        }
        problems
    }
}

fn model_problems(choice: &ModelChoice) -> Vec<ActorError> {
    let ModelChoice { provider, model } = choice;
    let mut problems = Vec::new();
    if !is_name_part(provider) {
        let provider = provider.chars().take(SHOWN_MAXIMUM).collect();
        problems.push(ActorError::Provider { provider });
    }
    let length = model.len();
    if model.trim().is_empty() {
        problems.push(ActorError::ModelEmpty);
    } else if length > MODEL_MAXIMUM {
        problems.push(ActorError::ModelTooLong { length });
    } else if model.trim() != model || model.chars().any(char::is_control) {
        problems.push(ActorError::ModelText);
    }
    problems
}

fn tool_problems(tools: &[NamespacedName]) -> Vec<ActorError> {
    let repeated = |(index, tool): (usize, &NamespacedName)| {
        let first = tools[..index].iter().position(|earlier| earlier == tool)?;
        let tool = tool.clone();
        Some(ActorError::RepeatedTool { tool, index, first })
    };
    tools.iter().enumerate().filter_map(repeated).collect()
}

fn skill_problems(skills: &[String]) -> Vec<ActorError> {
    let count = skills.len();
    if count > SKILLS_MAXIMUM {
        return vec![ActorError::TooManySkills { count }];
    }
    let wrong = |(index, skill): (usize, &String)| {
        let length = skill.chars().count();
        let first = skills[..index].iter().position(|earlier| earlier == skill);
        let error = match first {
            _ if skill.trim().is_empty() => SkillError::Empty,
            _ if length > SKILL_MAXIMUM => SkillError::TooLong { length },
            _ if skill.chars().any(char::is_control) => SkillError::Lines,
            Some(first) => SkillError::Repeated {
                skill: skill.clone(),
                first,
            },
            None => return None,
        };
        Some(ActorError::Skill { index, error })
    };
    skills.iter().enumerate().filter_map(wrong).collect()
}

impl ToolActor {
    fn problems(&self) -> Vec<ActorError> {
        if self.steps.is_empty() {
            return vec![ActorError::NoSteps];
        }
        let count = self.steps.len().max(self.fix.len());
        if count > STEPS_MAXIMUM {
            return vec![ActorError::TooManySteps { count }];
        }
        let mut problems = step_problems(StepList::Steps, &self.steps);
        problems.extend(step_problems(StepList::Fix, &self.fix));
        problems
    }
}

fn step_problems(list: StepList, steps: &[ActorStep]) -> Vec<ActorError> {
    let mut problems = Vec::new();
    let mut seen: Vec<(&str, usize)> = Vec::new();
    for (step, each) in steps.iter().enumerate() {
        let mut add = |error| problems.push(ActorError::Step { list, step, error });
        if is_control_tool(&each.tool) {
            let tool = each.tool.clone();
            add(StepError::ControlTool { tool });
        }
        if let Err(error) = check_input(&each.input) {
            add(error);
        }
        let Some(id) = each.id.as_deref() else {
            continue;
        };
        match seen.iter().find(|(known, _)| *known == id) {
            _ if !is_identifier(id) => add(StepError::Id {
                id: id.chars().take(SHOWN_MAXIMUM).collect(),
            }),
            Some((_, first)) => add(StepError::RepeatedId {
                id: id.to_owned(),
                list,
                first: *first,
            }),
            None => seen.push((id, step)),
        }
    }
    problems
}

impl BuiltInActor {
    /// Returns the complete actor definition.
    pub fn actor(self) -> Actor {
        match self {
            Self::Coder => Actor {
                name: NamespacedName::built_in("coder"),
                description: "Uses the default model and every tool".to_owned(),
                kind: ActorKind::Llm(LlmActor::default()),
            },
            Self::Direct => Actor {
                name: NamespacedName::built_in("direct"),
                description: "Creates steps without a model".to_owned(),
                kind: ActorKind::Direct,
            },
        }
    }

    /// Returns the built-in actor with this name, if there is one.
    pub fn from_name(name: &NamespacedName) -> Option<Self> {
        name.to_string().parse().ok()
    }
}

/// Returns one actor per model, named `provider/model`. Characters that a name must not contain
/// become `-`. If several names collide, the later ones get a number.
pub fn model_actors(models: &[ModelChoice]) -> Vec<Actor> {
    let mut actors: Vec<Actor> = Vec::new();
    let mut seen: Vec<&ModelChoice> = Vec::new();
    for choice in models {
        if seen.contains(&choice) {
            continue;
        }
        seen.push(choice);
        let plain = NamespacedName::sanitize_in(&choice.provider, &choice.model);
        let is_free = |name: &NamespacedName| {
            !is_reserved(name) && actors.iter().all(|actor| actor.name != *name)
        };
        // Fewer names are taken than there are models, so one of these is free.
        let names = (1..)
            .take(models.len())
            .map(|number| plain.with_number(number));
        let Some(name) = names.into_iter().find(is_free) else {
            continue;
        };
        actors.push(Actor {
            name,
            description: format!("Uses {choice} and every tool"),
            kind: ActorKind::Llm(LlmActor {
                model: Some(choice.clone()),
                ..LlmActor::default()
            }),
        });
    }
    actors
}

/// Returns whether only this program may define the name.
pub fn is_reserved(name: &NamespacedName) -> bool {
    name.server().is_none() && name.namespace() == RESERVED_NAMESPACE
}

/// Whether a text can be used as a name in a template.
pub fn is_identifier(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && text.len() <= STEP_ID_MAXIMUM
}

fn check_input(input: &Value) -> Result<(), StepError> {
    if !input.is_object() {
        return Err(StepError::InputNotAnObject);
    }
    let length = input.to_string().len();
    if length > INPUT_MAXIMUM {
        return Err(StepError::InputTooLarge { length });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn actor(steps: Value) -> Actor {
        serde_json::from_value(json!({
            "name": "local/greeter",
            "description": "Greets",
            "kind": {"type": "tool", "steps": steps},
        }))
        .unwrap()
    }

    fn error_messages(actor: &Actor) -> Vec<String> {
        let problems = actor.problems();
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_actor_reads_back_without_absent_fields() {
        let full = json!({
            "name": "local/greeter",
            "description": "Greets",
            "kind": {"type": "tool", "steps": [
                {"tool": "builtin/file-write", "input": {"path": "a", "content": "{{ args.x }}"},
                 "id": "write", "when": "args.x", "resource": "local/shop"},
                {"tool": "builtin/git-status", "input": {}},
            ]},
        });
        let read: Actor = serde_json::from_value(full.clone()).unwrap();
        assert_eq!(read.validate(), Ok(()));
        assert_eq!(serde_json::to_value(&read).unwrap(), full);
        assert_eq!(actor(json!([{"tool": "a/b"}])).steps()[0].input, json!({}));
    }

    #[test]
    fn the_built_in_actor_is_valid_and_reserved() {
        let direct = BuiltInActor::Direct.actor();
        assert_eq!(direct.name.to_string(), "builtin/direct");
        assert_eq!(
            BuiltInActor::from_name(&direct.name),
            Some(BuiltInActor::Direct)
        );
        assert_eq!(
            BuiltInActor::from_name(&"local/direct".parse().unwrap()),
            None
        );
        assert!(direct.steps().is_empty());
        assert_eq!(
            error_messages(&direct),
            ["names in `builtin/` are this program's own: `builtin/direct` cannot be defined"]
        );
        assert!(!is_reserved(&"hub:builtin/direct".parse().unwrap()));
        let coder = BuiltInActor::Coder.actor();
        assert_eq!(
            BuiltInActor::from_name(&coder.name),
            Some(BuiltInActor::Coder)
        );
        assert_eq!(coder.kind, ActorKind::Llm(LlmActor::default()));
    }

    #[test]
    fn each_model_has_an_actor_with_a_legal_name() {
        let choice = |text: &str| {
            let (provider, model) = text.split_once('/').unwrap();
            ModelChoice {
                provider: provider.to_owned(),
                model: model.to_owned(),
            }
        };
        let long = format!("long/{}", "m".repeat(300));
        let models = [
            "openai/gpt-4.1",
            "ollama/qwen2.5:7b",
            "ollama/qwen2.5/7b",
            "ollama/qwen2.5:7b",
            "router/meta/llama 3",
            "builtin/direct",
            "odd/:",
            &long,
            &format!("{long}m"),
        ]
        .map(choice);
        let actors = model_actors(&models);
        let names: Vec<String> = actors.iter().map(|it| it.name.to_string()).collect();
        assert_eq!(
            names[..5],
            [
                "openai/gpt-4.1",
                "ollama/qwen2.5-7b",
                "ollama/qwen2.5-7b-2",
                "router/meta-llama-3",
                "odd/unnamed",
            ]
        );
        assert_eq!(names.len(), 7, "{names:?}");
        assert!(names[6].ends_with("m-2"), "{names:?}");
        for (name, actor) in names.iter().zip(&actors) {
            assert_eq!(name.parse(), Ok(actor.name.clone()));
            assert_eq!(actor.validate(), Ok(()));
        }
        let ActorKind::Llm(llm) = &actors[2].kind else {
            panic!("{:?}", actors[2]);
        };
        assert_eq!(llm.model.as_ref(), Some(&models[2]));
    }

    fn llm_errors(mut kind: Value) -> Vec<String> {
        kind["type"] = json!("llm");
        let actor = json!({"name": "a", "description": "b", "kind": kind});
        error_messages(&serde_json::from_value(actor).unwrap())
    }

    fn assert_errors(cases: impl IntoIterator<Item = (Vec<String>, &'static str)>) {
        for (found, wanted) in cases {
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].starts_with(wanted), "{found:?}");
        }
    }

    #[test]
    fn a_wrong_model_is_reported() {
        let model = |provider: &str, model: &str| {
            llm_errors(json!({"model": {"provider": provider, "model": model}}))
        };
        assert!(llm_errors(json!({})).is_empty());
        assert!(model("openai", "org/a:b c").is_empty());
        let around = "`model` must be one line without spaces around it";
        assert_errors([
            (
                model("", "x"),
                "`` cannot be the name of a provider: use letters",
            ),
            (model("a b", "x"), "`a b` cannot be the name of a provider"),
            (model("a", ""), "`model` is empty"),
            (model("a", "x\ny"), around),
            (model("a", " x"), around),
            (
                model("a", &"x".repeat(MODEL_MAXIMUM + 1)),
                "`model` may be 4096 bytes long, this one has 4097",
            ),
        ]);
    }

    #[test]
    fn wrong_tools_skills_and_options_are_reported() {
        let skills = |skills: Value| llm_errors(json!({ "skills": skills }));
        let option = |key: &str, value: f64| llm_errors(json!({"options": {key: value}}));
        assert_errors([
            (
                llm_errors(json!({"tools": ["a/b", "a/c", "a/b"]})),
                "`tools[2]`: `a/b` is that of `tools[0]` already",
            ),
            (
                skills(json!(vec!["s"; SKILLS_MAXIMUM + 1])),
                "an actor may name 100 skills, this one names 101",
            ),
            (
                skills(json!(["a", " "])),
                "`skills[1]`: the name of a skill must not be empty",
            ),
            (
                skills(json!(["a", "a"])),
                "`skills[1]`: `a` is that of `skills[0]` already",
            ),
            (
                skills(json!(["a\nb"])),
                "`skills[0]`: the name of a skill is one line of text",
            ),
            (
                skills(json!(["s".repeat(101)])),
                "`skills[0]`: the name of a skill may be 100 characters long, this one has 101",
            ),
            (
                option("temperature", 2.1),
                "`temperature` must be from 0 to 2",
            ),
            (option("top_p", -0.1), "`top_p` must be from 0 to 1"),
            (
                llm_errors(json!({"options": {"max_tokens": 0}})),
                "`max_tokens` must be from 1",
            ),
        ]);
    }

    #[test]
    fn control_tools_cannot_be_steps() {
        for tool in crate::tool::control::ControlTool::ALL {
            assert_eq!(
                error_messages(&actor(json!([{"tool": tool}]))),
                [format!(
                    "`steps[0]`: `{tool}` is for actors with a model; an actor of type `tool` \
                     cannot use it"
                )]
            );
        }
    }

    #[test]
    fn an_actor_needs_a_step_and_has_a_limit() {
        assert_eq!(
            error_messages(&actor(json!([]))),
            ["an actor of the type `tool` needs at least one step"]
        );
        let many = vec![json!({"tool": "a/b"}); STEPS_MAXIMUM];
        assert_eq!(actor(json!(many)).validate(), Ok(()));
        let more = vec![json!({"tool": "a/b"}); STEPS_MAXIMUM + 1];
        assert_eq!(
            error_messages(&actor(json!(more))),
            ["an actor may have 1000 steps, this one has 1001"]
        );
    }

    #[test]
    fn every_wrong_step_is_reported() {
        let long = "i".repeat(STEP_ID_MAXIMUM + 1);
        let steps = json!([
            {"tool": "a/b", "id": "one"},
            {"tool": "a/b", "id": "one"},
            {"tool": "a/b", "id": "is-no-word"},
            {"tool": "a/b", "id": "1st"},
            {"tool": "a/b", "id": ""},
            {"tool": "a/b", "id": long},
            {"tool": "a/b", "input": [1]},
            {"tool": "a/b", "input": {"x": "y".repeat(INPUT_MAXIMUM)}},
        ]);
        let said = error_messages(&actor(steps));
        assert_eq!(said.len(), 7, "{said:#?}");
        assert_eq!(
            said[0],
            "`steps[1]`: the id `one` is that of `steps[0]` already"
        );
        assert!(said[1].contains("invalid step id `is-no-word`: use letters"));
        assert!(said[2].contains("`1st`") && said[3].contains("``") && said[4].len() < 200);
        assert_eq!(said[5], "`steps[6]`: `input` must be a mapping");
        assert!(said[6].contains("may be 1048576 bytes of JSON"));
    }

    #[test]
    fn fix_steps_are_checked_like_other_steps() {
        let mut actor = actor(json!([{"tool": "a/b", "id": "one"}]));
        let ActorKind::Tool(tool) = &mut actor.kind else {
            panic!("not a tool actor")
        };
        tool.fix = tool.steps.clone();
        assert_eq!(
            error_messages(&actor),
            [""; 0],
            "ids of two lists are apart"
        );
        let ActorKind::Tool(tool) = &mut actor.kind else {
            panic!("not a tool actor")
        };
        tool.fix.push(tool.steps[0].clone());
        assert_eq!(
            error_messages(&actor),
            ["`fix[1]`: the id `one` is that of `fix[0]` already"]
        );
    }

    #[test]
    fn the_options_of_a_model_are_bounded() {
        let llm = |options: Value| -> Actor {
            let kind = json!({"type": "llm", "options": options});
            let actor = json!({"name": "local/coder", "description": "Codes", "kind": kind});
            serde_json::from_value(actor).unwrap()
        };
        let good = llm(json!({"temperature": 2.0, "top_p": 0.0, "max_tokens": 1}));
        assert_eq!(good.validate(), Ok(()));
        assert_eq!(good.kind.actor_type(), ActorType::Llm);
        let bad = json!({"temperature": 2.1, "top_p": -0.1, "max_tokens": 0});
        assert_eq!(
            error_messages(&llm(bad)),
            [
                "`temperature` must be from 0 to 2",
                "`top_p` must be from 0 to 1",
                "`max_tokens` must be from 1"
            ]
        );
        let mut long = llm(json!({}));
        long.kind = ActorKind::Llm(LlmActor {
            system_prompt: Some("x".repeat(PROMPT_MAXIMUM + 1)),
            ..LlmActor::default()
        });
        assert!(error_messages(&long)[0].contains("may be 262144 bytes long"));
    }

    #[test]
    fn a_description_is_required_and_bounded() {
        let mut actor = actor(json!([{"tool": "a/b"}]));
        actor.description = " \n".to_owned();
        assert_eq!(error_messages(&actor), ["`description` must not be empty"]);
        actor.description = "x".repeat(DESCRIPTION_MAXIMUM + 1);
        assert_eq!(
            error_messages(&actor),
            ["`description` may be 4096 bytes long, this one has 4097"]
        );
    }
}
