//! Reads definitions that a request carries.

use cleveragents_api::DefinitionText;
use cleveragents_api::definition_text::DefinitionOwner;
use cleveragents_definitions::{DefinitionErrors, DefinitionSource, DefinitionVariables};

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
