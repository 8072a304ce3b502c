//! Reads definition files, which requests carry as values.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use cleveragents_api::DefinitionText;
use cleveragents_api::definition_text::DefinitionOwner;
use cleveragents_definitions::{
    DefinitionErrors, DefinitionSource, DefinitionVariables, SOURCE_MAXIMUM,
};

use crate::commands::CommandContext;
use crate::environment::Environment;
use crate::failure::{CommandFailure, FailureKind, display_path};

/// The name of standard input in messages.
const STANDARD_INPUT: &str = "standard input";

/// The bytes of a file and its name in messages.
#[derive(Debug)]
pub struct DefinitionFile {
    pub name: String,
    /// The user's name of the file: its path, or `-`.
    argument: String,
    bytes: Vec<u8>,
    /// The base of relative paths in the file.
    folder: Option<PathBuf>,
    owner: DefinitionOwner,
}

impl DefinitionFile {
    /// Reads the file at `path`; `-` is standard input.
    pub fn read(path: &Path, context: &CommandContext<'_>) -> Result<Self, CommandFailure> {
        if path.as_os_str() == "-" {
            let read = Self::from_reader(STANDARD_INPUT.to_owned(), io::stdin().lock())?;
            return Ok(Self {
                argument: "-".to_owned(),
                folder: context.environment.working_directory.clone(),
                ..read
            });
        }
        let absolute = context.absolute(path);
        let file =
            File::open(&absolute).map_err(|error| unreadable_failure(path).caused_by(&error))?;
        Ok(Self {
            argument: display_path(path),
            folder: absolute.parent().map(Path::to_owned),
            owner: owner_of(&absolute),
            ..Self::from_reader(display_path(path), file)?
        })
    }

    /// Reads at most one byte more than a definition may have. The parser then reports that it is
    /// too large.
    pub fn from_reader(name: String, input: impl Read) -> Result<Self, CommandFailure> {
        let mut bytes = Vec::new();
        let limit = SOURCE_MAXIMUM as u64 + 1;
        match input.take(limit).read_to_end(&mut bytes) {
            Ok(_) => Ok(Self {
                argument: name.clone(),
                name,
                bytes,
                folder: None,
                owner: DefinitionOwner::User,
            }),
            Err(error) => Err(unreadable_failure(Path::new(&name)).caused_by(&error)),
        }
    }

    /// Returns the file as the value of a request, with the variables that it names.
    pub fn into_text(self, environment: &Environment) -> DefinitionText {
        let variables = named_variables(&self.bytes).into_iter();
        let variables = variables.filter_map(|name| {
            let value = environment.variables.get(&name)?.to_str()?.to_owned();
            Some((name, value))
        });
        DefinitionText {
            variables: variables.collect(),
            name: self.name,
            argument: self.argument,
            content: self.bytes,
            folder: self.folder,
            owner: self.owner,
        }
    }

    /// Parses the file with `reader`.
    pub fn parse_with<T>(
        &self,
        environment: &Environment,
        reader: impl Fn(&DefinitionSource<'_>, DefinitionVariables<'_>) -> Result<T, DefinitionErrors>,
    ) -> Result<T, DefinitionErrors> {
        let variables = |name: &str| {
            let value = environment.variables.get(name)?;
            value.to_str().map(str::to_owned)
        };
        let source = DefinitionSource::new(&self.name, &self.bytes);
        let source = match &self.folder {
            Some(folder) => source.in_folder(folder),
            None => source,
        };
        let source = match self.owner {
            DefinitionOwner::User => source,
            DefinitionOwner::Repository => source.from_repository(),
        };
        reader(&source, &variables)
    }
}

/// Returns the owner of a file. A file below an `.agents` folder belongs to the repository, even if
/// the user passes its path explicitly.
fn owner_of(path: &Path) -> DefinitionOwner {
    let real = path.canonicalize();
    let real = real.as_deref().unwrap_or(path);
    // Both paths count, so that a symbolic link does not hide that the file is in a repository.
    let is_ours = |path: &Path| path.components().any(|it| it.as_os_str() == ".agents");
    if is_ours(path) || is_ours(real) {
        DefinitionOwner::Repository
    } else {
        DefinitionOwner::User
    }
}

/// Returns the names after each `${` in the text.
fn named_variables(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let is_part = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let name = |rest: &str| {
        let end = rest.find(|it| !is_part(it)).unwrap_or(rest.len());
        rest[..end].to_owned()
    };
    text.split("${").skip(1).map(name).collect()
}

fn unreadable_failure(path: &Path) -> CommandFailure {
    CommandFailure::usage(format!("cannot read {}", display_path(path)))
        .kind(FailureKind::Unreadable)
        .hint("give a file that can be read, or `-` for standard input")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_stops_after_the_size_limit() {
        let file = DefinitionFile::from_reader("x".to_owned(), io::repeat(b'a')).unwrap();
        assert_eq!(file.bytes.len(), SOURCE_MAXIMUM + 1);
        assert_eq!(file.name, "x");
    }
}
