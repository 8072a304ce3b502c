//! The format of an action file.

use serde_json::Value;

use crate::record::{LIST_MAXIMUM, record};

record! {
    /// A reusable, typed template of work for CleverAgents: what to do, by whom, and when it is done.
    #[schemars(
        title = "CleverAgents action",
        extend("examples" = [super::example()])
    )]
    ActionFile refusing [
        ("inputs_schema", "declare `arguments` instead"),
        ("safety_profile", "name an `automation_profile`; its flags and guards say what is safe"),
    ] {
        /// The version of this format; 1 if left out.
        #[schemars(range(min = 1, max = 1))]
        version: Option<u64> = "version",
        /// The action's name, `[[server:]namespace/]name`; without a namespace it is in `local/`.
        #[schemars(length(min = 1))]
        name: String = "name",
        /// The action's purpose, in a sentence or two.
        #[schemars(length(min = 1))]
        description: String = "description",
        /// A longer description for people.
        long_description: Option<String> = "long_description",
        /// The actor that plans the work.
        strategy_actor: String = "strategy_actor",
        /// The actor that does the work.
        execution_actor: String = "execution_actor",
        /// The actor that estimates cost and risk before Execute.
        estimation_actor: Option<String> = "estimation_actor",
        /// The actor that reviews the result.
        review_actor: Option<String> = "review_actor",
        /// The actor that helps to apply the result.
        apply_actor: Option<String> = "apply_actor",
        /// The actor that reconciles invariants.
        invariant_actor: Option<String> = "invariant_actor",
        /// When the work is done, for actors and people: one criterion per line. Only `checks` and required validations gate.
        #[schemars(length(min = 1))]
        definition_of_done: String = "definition_of_done",
        /// Whether the action may be used more than once; true if left out.
        reusable: Option<bool> = "reusable",
        /// Whether plans of this action may only read; false if left out.
        read_only: Option<bool> = "read_only",
        /// `available` (if left out) or `archived`, which cannot be used.
        #[schemars(extend("enum" = ["available", "archived", null]))]
        state: Option<String> = "state",
        /// The arguments of the action; templates read them as `{{ args.NAME }}`.
        #[schemars(length(max = super::ARGUMENTS_MAXIMUM))]
        arguments: Option<Vec<ArgumentEntry>> = "arguments",
        /// The automation profile of its plans: a built-in one or the name of a custom one.
        automation_profile: Option<String> = "automation_profile",
        /// Rules that every plan of this action must keep.
        #[schemars(length(max = LIST_MAXIMUM))]
        invariants: Option<Vec<String>> = "invariants",
        /// Commands that must succeed before the work counts as done.
        #[schemars(length(max = LIST_MAXIMUM))]
        checks: Option<Vec<CheckEntry>> = "checks",
        /// Limits on the resources of a plan and its children.
        budget: Option<BudgetEntry> = "budget",
        /// The names of skills its actors get.
        #[schemars(length(max = LIST_MAXIMUM))]
        skills: Option<Vec<String>> = "skills",
    }
}

record! {
    /// An argument that is given when the action is used.
    #[schemars(title = "Argument")]
    ArgumentEntry refusing [] {
        /// Letters, digits, `_` and `-`; in templates a hyphen reads as `_`.
        #[schemars(length(min = 1, max = 100))]
        name: String = "name",
        /// The type of its values.
        #[schemars(extend("enum" = ["string", "integer", "number", "boolean", "path", "choice"]))]
        argument_type: String = "type",
        /// Whether it must be given; false if left out.
        required: Option<bool> = "required",
        /// Its value if it is not given.
        #[schemars(extend("type" = ["string", "number", "boolean", "null"]))]
        default: Option<Value> = "default",
        /// Its purpose.
        description: Option<String> = "description",
        /// A regular expression that the whole value must match; for `string` and `path`.
        pattern: Option<String> = "pattern",
        /// The values a `choice` may have.
        #[schemars(length(max = LIST_MAXIMUM))]
        choices: Option<Vec<String>> = "choices",
    }
}

record! {
    /// A command that must succeed before the work counts as done.
    #[schemars(title = "Check")]
    CheckEntry refusing [] {
        /// The command, run by `sh -c` in the sandbox.
        #[schemars(length(min = 1))]
        run: String = "run",
        /// The name of the check in messages.
        #[schemars(length(min = 1))]
        name: Option<String> = "name",
        /// The longest it may take, in seconds.
        timeout: Option<u64> = "timeout",
    }
}

record! {
    /// Limits of a plan and its children; a missing field means no limit.
    #[schemars(title = "Budget")]
    BudgetEntry refusing [] {
        /// In US dollars.
        #[schemars(range(min = 0))]
        usd: Option<f64> = "usd",
        /// Input and output tokens of all model calls.
        tokens: Option<u64> = "tokens",
        /// Time from the first phase on, in seconds.
        wall: Option<u64> = "wall",
    }
}
