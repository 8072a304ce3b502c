//! Reads and registers definitions that a request carries.

use cleveragents_api::DefinitionText;
use cleveragents_api::definition_change::DefinitionChange;
use cleveragents_api::definition_text::DefinitionOwner;
use cleveragents_definitions::{DefinitionErrors, DefinitionSource, DefinitionVariables};
use cleveragents_engine::actors::{DuplicatePolicy, RegistryChange};

/// Parses the definition with `reader`.
pub(crate) fn parse<T>(
    text: &DefinitionText,
    reader: impl Fn(&DefinitionSource<'_>, DefinitionVariables<'_>) -> Result<T, DefinitionErrors>,
) -> Result<T, DefinitionErrors> {
    let source = DefinitionSource::new(&text.name, &text.content);
    let source = match &text.folder {
        Some(folder) => source.in_folder(folder),
        None => source,
    };
    let source = match text.owner {
        DefinitionOwner::User => source,
        DefinitionOwner::Repository => source.from_repository(),
    };
    reader(&source, &|name| text.variables.get(name).cloned())
}

/// Returns what happens to a definition of the same name.
pub(crate) fn duplicate_policy(update: bool) -> DuplicatePolicy {
    if update {
        DuplicatePolicy::Replace
    } else {
        DuplicatePolicy::Refuse
    }
}

pub(crate) fn change(registered: RegistryChange) -> DefinitionChange {
    match registered {
        RegistryChange::Added => DefinitionChange::Added,
        RegistryChange::Updated => DefinitionChange::Updated,
    }
}
