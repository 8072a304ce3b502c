//! The files users write definitions in, read for the engine, which opens none itself.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use cleveragents_engine::definitions::{
    ActionDraft, DefinitionErrors, SOURCE_MAXIMUM, Source, Variables, read_action,
};

use cleveragents_engine::trust::content_hash;

use crate::commands::Context;
use crate::environment::Environment;
use crate::failure::{Failure, shown_path};

/// What a definition read from standard input is called in messages.
const STANDARD_INPUT: &str = "standard input";

/// A file's bytes and the name it has in messages.
#[derive(Debug)]
pub struct DefinitionFile {
    pub name: String,
    bytes: Vec<u8>,
    /// Where the paths in it are seen from.
    folder: Option<PathBuf>,
    owner: FileOwner,
}

/// Whose file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileOwner {
    User,
    /// It comes with a repository: no variable is filled in, and it defines nothing built-in.
    Repository,
}

impl DefinitionFile {
    /// Reads the file someone named; `-` is standard input.
    pub fn read(path: &Path, context: &Context<'_>) -> Result<Self, Failure> {
        if path.as_os_str() == "-" {
            let read = Self::from(STANDARD_INPUT.to_owned(), io::stdin().lock())?;
            return Ok(Self {
                folder: context.environment.working_directory.clone(),
                ..read
            });
        }
        let absolute = context.absolute(path);
        let file = File::open(&absolute).map_err(|error| unreadable(path).caused_by(&error))?;
        Ok(Self {
            folder: absolute.parent().map(Path::to_owned),
            owner: owner_of(&absolute),
            ..Self::from(shown_path(path), file)?
        })
    }

    /// Reads a file that comes with a repository.
    pub fn of_repository(name: String, input: impl Read) -> Result<Self, Failure> {
        Ok(Self {
            owner: FileOwner::Repository,
            ..Self::from(name, input)?
        })
    }

    /// Reads `input` up to a byte more than a definition may have: whoever reads the definition
    /// says then that it is too large.
    pub fn from(name: String, input: impl Read) -> Result<Self, Failure> {
        let mut bytes = Vec::new();
        let limit = SOURCE_MAXIMUM as u64 + 1;
        match input.take(limit).read_to_end(&mut bytes) {
            Ok(_) => Ok(Self {
                name,
                bytes,
                folder: None,
                owner: FileOwner::User,
            }),
            Err(error) => Err(unreadable(Path::new(&name)).caused_by(&error)),
        }
    }

    /// The hash of what was read.
    pub fn hash(&self) -> String {
        content_hash(&self.bytes)
    }

    /// The action that a repository's file defines.
    pub fn repository_action(&self) -> Result<ActionDraft, DefinitionErrors> {
        let source = Source::new(&self.name, &self.bytes).of_repository();
        read_action(&source, &|_| None)
    }

    /// The action the file defines; `${VAR}` comes from the process's environment.
    pub fn action(&self, environment: &Environment) -> Result<ActionDraft, DefinitionErrors> {
        self.with(environment, read_action)
    }

    /// Reads the file as `reader` does.
    pub fn with<T>(
        &self,
        environment: &Environment,
        reader: impl Fn(&Source<'_>, Variables<'_>) -> Result<T, DefinitionErrors>,
    ) -> Result<T, DefinitionErrors> {
        let variables = |name: &str| {
            let value = environment.variables.get(name)?;
            value.to_str().map(str::to_owned)
        };
        let source = Source::new(&self.name, &self.bytes);
        let source = match &self.folder {
            Some(folder) => source.in_folder(folder),
            None => source,
        };
        let source = match self.owner {
            FileOwner::User => source,
            FileOwner::Repository => source.of_repository(),
        };
        reader(&source, &variables)
    }
}

/// A file below an `.agents` folder belongs to the repository, whoever names it.
fn owner_of(path: &Path) -> FileOwner {
    let real = path.canonicalize();
    let real = real.as_deref().unwrap_or(path);
    let is_ours = |path: &Path| path.components().any(|it| it.as_os_str() == ".agents");
    if is_ours(path) || is_ours(real) {
        FileOwner::Repository
    } else {
        FileOwner::User
    }
}

fn unreadable(path: &Path) -> Failure {
    Failure::usage(format!("cannot read {}", shown_path(path)))
        .kind("unreadable")
        .hint("give a file that can be read, or `-` for standard input")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_read_than_shows_that_it_is_too_much() {
        let file = DefinitionFile::from("x".to_owned(), io::repeat(b'a')).unwrap();
        assert_eq!(file.bytes.len(), SOURCE_MAXIMUM + 1);
        assert_eq!(file.name, "x");
    }
}
