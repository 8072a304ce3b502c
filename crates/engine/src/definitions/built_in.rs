//! Built-in actions.

use cleveragents_domain::action::{Actors, Budget};
use cleveragents_domain::{ActionState, Argument, ArgumentType, NamespacedName};

use super::ActionDraft;

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
        name: NamespacedName::in_namespace("builtin", "do"),
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
