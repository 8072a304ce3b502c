//! Reads an actor's definition file for `actor add` and `actor validate`.

use std::path::Path;

use cleveragents_definitions::read_actor;
use cleveragents_domain::Actor;

use super::model;
use crate::commands::CommandContext;
use crate::definition_file::DefinitionFile;
use crate::failure::{CommandFailure, display_path};

/// Reads the file and the actor in it; `hint` is added to the failure for an invalid file.
pub(super) fn read(
    config: &Path,
    context: &CommandContext<'_>,
    hint: &str,
) -> Result<(DefinitionFile, Actor), CommandFailure> {
    let file = DefinitionFile::read(config, context)?;
    let actor = file
        .parse_with(context.environment, read_actor)
        .map_err(|errors| CommandFailure::from(errors).hint(hint))?;
    if let Some(script) = model::script(&actor) {
        check_script(&file.name, script)?;
    }
    Ok((file, actor))
}

/// Checks that the script exists. Its content is checked when the model is opened.
fn check_script(file: &str, script: &str) -> Result<(), CommandFailure> {
    let path = Path::new(script);
    let reason = match path.metadata() {
        Ok(found) if found.is_file() => return Ok(()),
        Ok(_) => "it is not a file".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(
        CommandFailure::usage(format!("{file}: the script of the model cannot be read"))
            .kind("script")
            .because(format!("{}: {reason}", display_path(path)))
            .hint("write `model` as the script's path, seen from the actor's file")
            .with("script", display_path(path).into()),
    )
}
