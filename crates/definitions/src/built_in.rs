//! Built-in actions and the built-in list of models.

use cleveragents_domain::action::{Actors, Budget};
use cleveragents_domain::plan::ANY_TASK_ACTION;
use cleveragents_domain::provider::ModelDefinition;
use cleveragents_domain::{ActionState, Argument, ArgumentType, NamespacedName};

use super::{ActionDraft, DefinitionErrors, DefinitionSource, read_models};

/// The built-in list of models, in the format of a user's file.
const MODELS: &str = include_str!("models.yaml");

/// Returns the built-in statements about models.
pub fn built_in_models() -> Result<Vec<ModelDefinition>, DefinitionErrors> {
    let source = DefinitionSource::new("the list of known models", MODELS);
    Ok(read_models(&source, &|_| None)?.models)
}

/// `builtin/do`: does what the user wrote, with an actor that uses the configured model.
pub fn built_in_do_action() -> ActionDraft {
    let coder = NamespacedName::in_namespace("builtin", "coder");
    let argument = |name: &str, description: &str| Argument {
        name: name.to_owned(),
        argument_type: ArgumentType::String,
        required: true,
        default: None,
        description: description.to_owned(),
        pattern: None,
        choices: Vec::new(),
    };
    ActionDraft {
        name: NamespacedName::built_in(ANY_TASK_ACTION),
        description: "{{ args.title }}".to_owned(),
        long_description: None,
        actors: Actors {
            strategy_actor: coder.clone(),
            execution_actor: coder,
            estimation_actor: None,
            review_actor: None,
            apply_actor: None,
            invariant_actor: None,
        },
        definition_of_done: "{{ args.task }}".to_owned(),
        reusable: true,
        read_only: false,
        state: ActionState::Available,
        arguments: vec![
            argument("title", "The task in a line"),
            argument("task", "What is to be done"),
        ],
        automation_profile: None,
        invariants: Vec::new(),
        checks: Vec::new(),
        budget: Budget::default(),
        skills: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_model_has_a_price_and_limits() {
        let models = built_in_models().unwrap();
        assert!(models.len() > 5);
        for model in models {
            assert!(model.price.is_some(), "{}", model.choice);
            assert!(
                model.answer_tokens < model.context_tokens,
                "{}",
                model.choice
            );
        }
    }
}
