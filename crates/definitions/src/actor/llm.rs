//! Reads files of actors with a model.

use std::path::{Path, PathBuf};

use cleveragents_domain::actor::{PROMPT_MAXIMUM, SCRIPTED_PROVIDER, SKILLS_MAXIMUM};
use cleveragents_domain::model::{ModelChoice, ModelOptions};
use cleveragents_domain::{Actor, ActorKind, LlmActor};
use serde_json::{Value, json};

use super::super::conversion::DefinitionConversion;
use super::super::record::record;
use super::UNSUPPORTED_TYPE_KEY_HINT;

const TOOL_KEY_HINT: &str = "it is a key of actors of the type `tool`; a model decides for itself";

record! {
    /// An actor that lets a model decide which tools to call.
    #[schemars(
        title = "Actor with a model",
        extend("examples" = [example()])
    )]
    LlmActorFile refusing [
        ("steps", TOOL_KEY_HINT),
        ("fix", TOOL_KEY_HINT),
        ("options", "write `temperature`, `max_tokens` and `top_p` beside `model`"),
        ("prompt", "write it as `system_prompt`"),
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
        /// The kind of the actor: `llm` lets a model decide which tools to call.
        #[schemars(extend("enum" = ["llm"]))]
        actor_type: String = "type",
        /// The actor's purpose, in a sentence or two.
        #[schemars(length(min = 1))]
        description: String = "description",
        /// Whose model: the name under which a provider is configured, such as `openai`, or `scripted`.
        #[schemars(length(min = 1))]
        provider: Option<String> = "provider",
        /// The provider's name for the model; `provider/model` if `provider` is left out. The configured default if both are. A script's path, seen from this file, for `scripted`.
        #[schemars(length(min = 1))]
        model: Option<String> = "model",
        /// The system prompt of the model, before the task. Plain text, no template.
        #[schemars(length(max = PROMPT_MAXIMUM))]
        system_prompt: Option<String> = "system_prompt",
        /// The sampling temperature, from 0 to 2.
        #[schemars(range(min = 0, max = 2))]
        temperature: Option<f64> = "temperature",
        /// Maximum number of tokens of an answer.
        #[schemars(range(min = 1))]
        max_tokens: Option<u64> = "max_tokens",
        /// The nucleus sampling probability (top-p), from 0 to 1.
        #[schemars(range(min = 0, max = 1))]
        top_p: Option<f64> = "top_p",
        /// The tools it may use, such as `builtin/file-read`; every built-in tool that the phase allows if left out.
        tools: Option<Vec<String>> = "tools",
        /// The skills available to it, by name; all skills of the project if left out.
        #[schemars(length(max = SKILLS_MAXIMUM))]
        skills: Option<Vec<String>> = "skills",
    }
}

/// Converts the file. A script's path is relative to `folder`, if given.
pub(super) fn convert_llm_actor(
    conversion: &mut DefinitionConversion<'_>,
    file: LlmActorFile,
    folder: Option<&Path>,
) -> Option<Actor> {
    let name = conversion.parse("name", &file.name);
    let model = convert_model_choice(conversion, file.provider, file.model, folder);
    let tools = match &file.tools {
        None => Some(None),
        Some(tools) => conversion.parse_all("tools", tools).map(Some),
    };
    Some(Actor {
        name: name?,
        description: file.description,
        kind: ActorKind::Llm(LlmActor {
            model: model?,
            system_prompt: file.system_prompt,
            options: ModelOptions {
                temperature: file.temperature,
                top_p: file.top_p,
                max_tokens: file.max_tokens,
            },
            tools: tools?,
            skills: file.skills,
        }),
    })
}

fn convert_model_choice(
    conversion: &mut DefinitionConversion<'_>,
    provider: Option<String>,
    model: Option<String>,
    folder: Option<&Path>,
) -> Option<Option<ModelChoice>> {
    let (provider, model) = match (provider, model) {
        (None, None) => return Some(None),
        (Some(provider), Some(model)) => (provider, model),
        (Some(_), None) => {
            let what = "`provider` is given, but `model` is missing";
            conversion.problem_with_hint("provider", what, "write `model` too, or neither of them");
            return None;
        }
        (None, Some(text)) => match text.split_once('/') {
            Some((provider, model)) => (provider.to_owned(), model.to_owned()),
            None => {
                let what = "`model` has no provider";
                let hint = "write `provider` too, or `model: provider/name`";
                conversion.problem_with_hint("model", what, hint);
                return None;
            }
        },
    };
    let model = match (provider.as_str(), folder) {
        (SCRIPTED_PROVIDER, Some(folder)) if !model.is_empty() => {
            convert_script_path(conversion, &model, folder)?
        }
        _ => model,
    };
    Some(Some(ModelChoice { provider, model }))
}

fn convert_script_path(
    conversion: &mut DefinitionConversion<'_>,
    model: &str,
    folder: &Path,
) -> Option<String> {
    // `components` removes redundant parts such as `./`.
    let path: PathBuf = folder.join(model).components().collect();
    let text = path.to_str().map(str::to_owned);
    if text.is_none() {
        let what = "`model`: the path of the script is not UTF-8";
        conversion.problem_with_hint(
            "model",
            what,
            "put the file into a folder with another name",
        );
    }
    text
}

/// An actor that uses every key.
pub(super) fn example() -> Value {
    json!({
        "version": 1,
        "name": "local/careful-coder",
        "type": "llm",
        "description": "Changes little and tests what it changes",
        "provider": "openai",
        "model": "gpt-4.1",
        "system_prompt": "Make the smallest change that does it.\nRun the tests before you finish.\n",
        "temperature": 0.2,
        "top_p": 0.9,
        "max_tokens": 8000,
        "tools": ["builtin/file-read", "builtin/file-edit", "builtin/shell", "builtin/finish"],
        "skills": ["release-notes"],
    })
}

#[cfg(test)]
mod tests;
