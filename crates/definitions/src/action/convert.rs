//! Converts an action file to the draft and back.

use std::fmt::Display;

use cleveragents_domain::action::{ActionError, ArgumentDeclarationError, DESCRIPTION_MAXIMUM};
use cleveragents_domain::id::ActionId;
use cleveragents_domain::{
    Action, ActionState, Actors, Argument, ArgumentType, Budget, Check, Timestamp,
};
use serde_json::Value;
use ulid::Ulid;

use super::wire::{ActionFile, ArgumentEntry, BudgetEntry, CheckEntry};
use super::{ARGUMENTS_MAXIMUM, ActionDraft, templates};
use crate::conversion::DefinitionConversion;
use crate::error::Problems;
use crate::pattern::Pattern;
use crate::record::scalar_to_json;
use crate::template::TemplateSamples;
use crate::version::FORMAT_VERSION;
use crate::yaml::{ResolvedScalar, YamlNode, escape};

/// Converts `file` to a draft; `node` gives the positions of its parts.
pub(super) fn convert(
    file: ActionFile,
    node: &YamlNode,
    problems: &mut Problems,
) -> Option<ActionDraft> {
    let mut conversion = DefinitionConversion { node, problems };
    let draft = convert_draft(&mut conversion, file)?;
    check_draft(&mut conversion, &draft);
    Some(draft)
}

/// Converts all parts before it returns `None`, so that every problem is recorded.
fn convert_draft(
    conversion: &mut DefinitionConversion<'_>,
    file: ActionFile,
) -> Option<ActionDraft> {
    let name = conversion.parse("name", &file.name);
    let strategy_actor = conversion.parse("strategy_actor", &file.strategy_actor);
    let execution_actor = conversion.parse("execution_actor", &file.execution_actor);
    let estimation_actor = conversion.parse_optional("estimation_actor", &file.estimation_actor);
    let review_actor = conversion.parse_optional("review_actor", &file.review_actor);
    let apply_actor = conversion.parse_optional("apply_actor", &file.apply_actor);
    let invariant_actor = conversion.parse_optional("invariant_actor", &file.invariant_actor);
    let profile = conversion.parse_optional("automation_profile", &file.automation_profile);
    let state = conversion.parse_optional::<ActionState>("state", &file.state);
    let skills = conversion.parse_all("skills", &file.skills.unwrap_or_default());
    let arguments = convert_arguments(conversion, file.arguments.unwrap_or_default());
    Some(ActionDraft {
        name: name?,
        description: file.description,
        long_description: file.long_description,
        actors: Actors {
            strategy_actor: strategy_actor?,
            execution_actor: execution_actor?,
            estimation_actor: estimation_actor?,
            review_actor: review_actor?,
            apply_actor: apply_actor?,
            invariant_actor: invariant_actor?,
        },
        definition_of_done: file.definition_of_done,
        reusable: file.reusable.unwrap_or(true),
        read_only: file.read_only.unwrap_or(false),
        state: state?.unwrap_or_default(),
        arguments: arguments?,
        automation_profile: profile?,
        invariants: file.invariants.unwrap_or_default(),
        checks: file
            .checks
            .unwrap_or_default()
            .into_iter()
            .map(check)
            .collect(),
        budget: file.budget.map(budget).unwrap_or_default(),
        skills: skills?,
    })
}

fn convert_arguments(
    conversion: &mut DefinitionConversion<'_>,
    entries: Vec<ArgumentEntry>,
) -> Option<Vec<Argument>> {
    let count = entries.len();
    if count > ARGUMENTS_MAXIMUM {
        let what =
            format!("an action may have {ARGUMENTS_MAXIMUM} arguments, this one has {count}");
        conversion.problem("arguments", what);
        return None;
    }
    conversion.convert_all("arguments", entries, convert_argument)
}

fn convert_argument(
    conversion: &mut DefinitionConversion<'_>,
    path: &str,
    entry: ArgumentEntry,
) -> Option<Argument> {
    let argument_type = conversion.parse(&format!("{path}.type"), &entry.argument_type)?;
    let default = convert_default(
        conversion,
        &format!("{path}.default"),
        entry.default,
        argument_type,
    );
    Some(Argument {
        name: entry.name,
        argument_type,
        required: entry.required.unwrap_or(false),
        default,
        description: entry.description.unwrap_or_default(),
        pattern: entry.pattern,
        choices: entry.choices.unwrap_or_default(),
    })
}

/// Reads a default that contains a variable's value as the argument's type; any other keeps the
/// type it is written in.
fn convert_default(
    conversion: &DefinitionConversion<'_>,
    path: &str,
    written: Option<Value>,
    kind: ArgumentType,
) -> Option<Value> {
    let written = written?;
    let scalar = conversion
        .node
        .scalar_at(path)
        .filter(|scalar| scalar.is_substituted());
    let read = scalar.and_then(|scalar| match kind {
        ArgumentType::String | ArgumentType::Path | ArgumentType::Choice => {
            scalar_to_json(scalar, ResolvedScalar::Text)
        }
        ArgumentType::Integer | ArgumentType::Number | ArgumentType::Boolean => {
            scalar_to_json(scalar, scalar.resolve_typed())
        }
    });
    Some(read.unwrap_or(written))
}

/// Runs all checks of the domain, part by part, so that each problem gets its own position.
fn check_draft(conversion: &mut DefinitionConversion<'_>, draft: &ActionDraft) {
    let action = draft
        .clone()
        .into_action(ActionId::new(Ulid::nil()), Timestamp::default());
    check_parts(conversion, &action);
    for (index, argument) in action.arguments.iter().enumerate() {
        check_pattern(conversion, &format!("arguments[{index}]"), argument);
    }
    let samples = TemplateSamples::new(&action.arguments);
    for (name, text) in templates(&action) {
        if let Err(error) = samples.check(&name, text) {
            conversion.problem(&name, error.to_string());
        }
    }
}

fn check_parts(conversion: &mut DefinitionConversion<'_>, action: &Action) {
    let mut part = Action {
        arguments: Vec::new(),
        invariants: Vec::new(),
        checks: Vec::new(),
        ..action.clone()
    };
    validate_part(conversion, &part, "");
    // The other parts are replaced by valid ones, so that a problem belongs to this part.
    part.description = "x".to_owned();
    part.definition_of_done = "x".to_owned();
    part.long_description = None;
    part.budget = Budget::default();
    for (index, text) in action.invariants.iter().enumerate() {
        part.invariants = vec![text.clone()];
        validate_part(conversion, &part, &format!("invariants[{index}]"));
    }
    part.invariants.clear();
    for (index, check) in action.checks.iter().enumerate() {
        part.checks = vec![check.clone()];
        validate_part(conversion, &part, &format!("checks[{index}]"));
    }
    part.checks.clear();
    let mut sound = true;
    for (index, argument) in action.arguments.iter().enumerate() {
        part.arguments = vec![argument.clone()];
        sound &= validate_part(conversion, &part, &format!("arguments[{index}]"));
    }
    if sound {
        part.arguments.clone_from(&action.arguments);
        validate_part(conversion, &part, "arguments");
    }
}

/// Whether `part` is valid; if not, records its problem below `path`.
fn validate_part(conversion: &mut DefinitionConversion<'_>, part: &Action, path: &str) -> bool {
    let Err(error) = part.validate() else {
        return true;
    };
    let path = match &error {
        ActionError::Budget { .. } => "budget.usd".to_owned(),
        ActionError::Argument(error) => argument_path(part, path, error),
        ActionError::Empty { field }
        | ActionError::TooLong { field, .. }
        | ActionError::Nul { field } => match (path, field.split_once('.')) {
            ("", _) => (*field).to_owned(),
            (path, Some((_, field))) => format!("{path}.{field}"),
            (path, None) => path.to_owned(),
        },
    };
    conversion.problem(&path, error.to_string());
    false
}

fn check_pattern(conversion: &mut DefinitionConversion<'_>, path: &str, argument: &Argument) {
    let Some(text) = &argument.pattern else {
        return;
    };
    let path = &format!("{path}.pattern");
    let name = &argument.name;
    if !matches!(
        argument.argument_type,
        ArgumentType::String | ArgumentType::Path
    ) {
        let kind = argument.argument_type;
        let what =
            format!("the argument `{name}` is a {kind}; only a string or a path takes a `pattern`");
        return conversion.problem(path, what);
    }
    if text.len() > DESCRIPTION_MAXIMUM {
        let what = format!("`{path}` is longer than {DESCRIPTION_MAXIMUM} bytes");
        return conversion.problem(path, what);
    }
    let pattern = match Pattern::new(text) {
        Ok(pattern) => pattern,
        Err(reason) => {
            let what = format!("`{path}` is not a regular expression: {reason}");
            return conversion.problem(path, what);
        }
    };
    if let Some(Value::String(default)) = &argument.default
        && !pattern.matches(default)
    {
        let what = format!("the default of `{name}` does not match its pattern `{text}`");
        conversion.problem(path, what);
    }
}

fn argument_path(part: &Action, path: &str, error: &ArgumentDeclarationError) -> String {
    let field = match error {
        ArgumentDeclarationError::Repeated { second, .. } => {
            let same = |argument: &Argument| argument.name == *second;
            let index = part.arguments.iter().rposition(same).unwrap_or_default();
            return format!("{path}[{index}].name");
        }
        ArgumentDeclarationError::Name { .. } => "name",
        ArgumentDeclarationError::ChoicesMissing { .. } => "type",
        ArgumentDeclarationError::ChoicesNotAllowed { .. }
        | ArgumentDeclarationError::ChoiceRepeated { .. } => "choices",
        ArgumentDeclarationError::Default { .. } => "default",
        ArgumentDeclarationError::DescriptionTooLong { .. } => "description",
    };
    format!("{path}.{field}")
}

fn check(entry: CheckEntry) -> Check {
    Check {
        run: entry.run,
        name: entry.name,
        timeout: entry.timeout,
    }
}

fn budget(entry: BudgetEntry) -> Budget {
    Budget {
        usd: entry.usd,
        tokens: entry.tokens,
        wall: entry.wall,
    }
}

impl From<&ActionDraft> for ActionFile {
    fn from(draft: &ActionDraft) -> Self {
        let actors = &draft.actors;
        let text = |name: &dyn Display| name.to_string();
        let optional = |text: &Option<String>| text.as_deref().map(escape);
        Self {
            version: Some(FORMAT_VERSION),
            name: text(&draft.name),
            description: escape(&draft.description),
            long_description: optional(&draft.long_description),
            strategy_actor: text(&actors.strategy_actor),
            execution_actor: text(&actors.execution_actor),
            estimation_actor: actors.estimation_actor.as_ref().map(ToString::to_string),
            review_actor: actors.review_actor.as_ref().map(ToString::to_string),
            apply_actor: actors.apply_actor.as_ref().map(ToString::to_string),
            invariant_actor: actors.invariant_actor.as_ref().map(ToString::to_string),
            definition_of_done: escape(&draft.definition_of_done),
            reusable: (!draft.reusable).then_some(false),
            read_only: draft.read_only.then_some(true),
            state: (draft.state != ActionState::default()).then(|| draft.state.to_string()),
            arguments: list(&draft.arguments, |argument| argument.into()),
            automation_profile: draft.automation_profile.as_ref().map(ToString::to_string),
            invariants: list(&draft.invariants, |text| escape(text)),
            checks: list(&draft.checks, |check| CheckEntry {
                run: escape(&check.run),
                name: optional(&check.name),
                timeout: check.timeout,
            }),
            budget: (draft.budget != Budget::default()).then_some(BudgetEntry {
                usd: draft.budget.usd,
                tokens: draft.budget.tokens,
                wall: draft.budget.wall,
            }),
            skills: list(&draft.skills, ToString::to_string),
        }
    }
}

impl From<&Argument> for ArgumentEntry {
    fn from(argument: &Argument) -> Self {
        let default = argument.default.as_ref().map(|value| match value {
            Value::String(text) => Value::from(escape(text)),
            other => other.clone(),
        });
        let description = &argument.description;
        Self {
            name: argument.name.clone(),
            argument_type: argument.argument_type.to_string(),
            required: argument.required.then_some(true),
            default,
            description: (!description.is_empty()).then(|| escape(description)),
            pattern: argument.pattern.as_deref().map(escape),
            choices: list(&argument.choices, |choice| escape(choice)),
        }
    }
}

/// An empty list is not written.
fn list<T, U>(items: &[T], convert: impl FnMut(&T) -> U) -> Option<Vec<U>> {
    (!items.is_empty()).then(|| items.iter().map(convert).collect())
}
