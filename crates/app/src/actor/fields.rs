//! Fields of answers that are derived from an actor's definition.

use cleveragents_api::actor::{ActorModel, ActorOptions};
use cleveragents_domain::actor::SCRIPTED_PROVIDER;
use cleveragents_domain::model::ModelChoice;
use cleveragents_domain::tool::Safety;
use cleveragents_domain::{Actor, ActorKind, LlmActor, NamespacedName};
use cleveragents_ports::tools::Toolbox;

pub(super) fn llm(actor: &Actor) -> Option<&LlmActor> {
    match &actor.kind {
        ActorKind::Llm(llm) => Some(llm),
        ActorKind::Tool(_) | ActorKind::Direct => None,
    }
}

fn choice(actor: &Actor) -> Option<&ModelChoice> {
    llm(actor)?.model.as_ref()
}

/// Returns the script that replaces the model, if one does.
pub(super) fn script(actor: &Actor) -> Option<&str> {
    let choice = choice(actor)?;
    (choice.provider == SCRIPTED_PROVIDER).then_some(choice.model.as_str())
}

pub(super) fn model(actor: &Actor) -> ActorModel {
    let choice = choice(actor);
    ActorModel {
        provider: choice.map(|choice| choice.provider.clone()),
        model: choice.map(|choice| choice.model.clone()),
        options: options(actor),
        tools: tools(actor),
        skills: match llm(actor) {
            Some(llm) => llm.skills.clone(),
            None => Some(Vec::new()),
        },
    }
}

fn options(actor: &Actor) -> ActorOptions {
    let Some(llm) = llm(actor) else {
        return ActorOptions::default();
    };
    ActorOptions {
        temperature: llm.options.temperature,
        max_tokens: llm.options.max_tokens,
        top_p: llm.options.top_p,
    }
}

/// Returns the tools that the actor lists; `None` if the phase decides.
fn tools(actor: &Actor) -> Option<Vec<NamespacedName>> {
    if let Some(llm) = llm(actor) {
        return llm.tools.clone();
    }
    let steps = actor.steps().iter();
    let mut tools: Vec<NamespacedName> = steps.map(|step| step.tool.clone()).collect();
    tools.sort_by_key(ToString::to_string);
    tools.dedup();
    Some(tools)
}

/// Returns whether the actor may call a tool that a profile must allow explicitly; `None` if it
/// names a tool that is not known.
pub(super) fn is_unsafe(actor: &Actor, toolbox: &dyn Toolbox) -> Option<bool> {
    let named: Vec<&NamespacedName> = match &actor.kind {
        ActorKind::Direct => Vec::new(),
        ActorKind::Tool(tool) => {
            let steps = tool.steps.iter().chain(&tool.fix);
            steps.map(|step| &step.tool).collect()
        }
        ActorKind::Llm(llm) => match &llm.tools {
            Some(tools) => tools.iter().collect(),
            None => toolbox.definitions().iter().map(|it| &it.name).collect(),
        },
    };
    let safety = |name: &NamespacedName| Some(toolbox.tool(name)?.definition().capability.safety);
    let safeties: Vec<Option<Safety>> = named.into_iter().map(safety).collect();
    if safeties.contains(&Some(Safety::Unsafe)) {
        Some(true)
    } else if safeties.contains(&None) {
        None
    } else {
        Some(false)
    }
}

#[cfg(test)]
mod tests {
    use cleveragents_domain::tool::{Capability, ToolDefinition};
    use cleveragents_ports::tools::{Tool, ToolFailure, ToolInvocation, ToolOutput};
    use serde_json::{Value, json};

    use super::*;

    #[derive(Debug)]
    struct NamedTool(ToolDefinition);

    impl Tool for NamedTool {
        fn definition(&self) -> &ToolDefinition {
            &self.0
        }

        fn check_input(&self, _: &Value) -> Result<(), ToolFailure> {
            Ok(())
        }

        fn check_output(&self, _: &ToolOutput) -> Result<(), ToolFailure> {
            Ok(())
        }

        fn run(&self, _: &ToolInvocation<'_>) -> Result<ToolOutput, ToolFailure> {
            unreachable!("no test runs a tool")
        }
    }

    #[derive(Debug)]
    struct TwoTools([NamedTool; 2]);

    impl Toolbox for TwoTools {
        fn definitions(&self) -> Vec<&ToolDefinition> {
            self.0.iter().map(|tool| &tool.0).collect()
        }

        fn tool(&self, name: &NamespacedName) -> Option<&dyn Tool> {
            let found = self.0.iter().find(|tool| tool.0.name == *name);
            found.map(|tool| tool as &dyn Tool)
        }
    }

    fn tool(name: &str, safety: Safety) -> NamedTool {
        NamedTool(ToolDefinition {
            name: name.parse().unwrap(),
            description: String::new(),
            input_schema: json!({}),
            output_schema: json!({}),
            capability: Capability {
                safety,
                ..Capability::read_only()
            },
            timeout_seconds: 1,
        })
    }

    fn actor(kind: Value) -> Actor {
        let actor = json!({"name": "local/a", "description": "b", "kind": kind});
        serde_json::from_value(actor).unwrap()
    }

    #[test]
    fn an_actor_is_as_unsafe_as_the_tools_it_may_call() {
        let toolbox = TwoTools([
            tool("builtin/read", Safety::Safe),
            tool("builtin/launch", Safety::Unsafe),
        ]);
        for (kind, expected) in [
            (json!({"type": "direct"}), Some(false)),
            (json!({"type": "llm"}), Some(true)),
            (
                json!({"type": "llm", "tools": ["builtin/read"]}),
                Some(false),
            ),
            (json!({"type": "llm", "tools": ["team/other"]}), None),
            (
                json!({"type": "llm", "tools": ["team/other", "builtin/launch"]}),
                Some(true),
            ),
            (
                json!({"type": "tool", "steps": [{"tool": "builtin/read"}],
                    "fix": [{"tool": "builtin/launch"}]}),
                Some(true),
            ),
        ] {
            assert_eq!(
                is_unsafe(&actor(kind.clone()), &toolbox),
                expected,
                "{kind}"
            );
        }
    }

    #[test]
    fn each_tool_of_the_steps_is_listed_once() {
        let steps = json!([{"tool": "b/b"}, {"tool": "a/a"}, {"tool": "b/b"}]);
        let model = model(&actor(json!({"type": "tool", "steps": steps})));
        let names = |names: &[&str]| names.iter().map(|it| it.parse().unwrap()).collect();
        assert_eq!(model.tools, Some(names(&["a/a", "b/b"])));
        assert_eq!(model.skills, Some(Vec::new()));
    }
}
