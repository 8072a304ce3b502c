//! The `--to` argument: where changes are applied.

use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use cleveragents_domain::AbsolutePath;
use cleveragents_domain::apply_record::Destination;
use serde_json::Value;

use crate::commands::CommandContext;
use crate::failure::{CommandFailure, FailureKind};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DestinationKind {
    Current,
    Branch,
    Worktree,
    Patch,
}

#[derive(Debug, Args)]
pub(crate) struct DestinationArgs {
    /// Destination: the current branch, another branch, only the files, or a patch file [default:
    /// current]
    #[arg(long, num_args = 1..=2, value_names = ["WHERE", "NAME"])]
    to: Vec<String>,
}

impl DestinationArgs {
    /// Returns the argument in the form of a request, with a path as the user typed it.
    pub(crate) fn as_typed(&self) -> Value {
        match self.to.as_slice() {
            [first, name] => {
                // Absolute paths are percent-encoded in requests.
                let path = AbsolutePath::from_bytes(name.as_bytes());
                let name = path.map_or_else(|_| name.clone(), |path| path.to_string());
                Value::from_iter([(first.as_str(), name)])
            }
            words => words.concat().into(),
        }
    }

    /// Describes the destination for a question: the folder, or the branch or other target.
    pub(crate) fn describe(&self, folder: &str) -> String {
        match self.to.as_slice() {
            [] => folder.to_owned(),
            [only] if only == "current" => folder.to_owned(),
            words => format!("{folder}, {}", words.join(" ")),
        }
    }

    /// Parses the destination; `None` if there is none.
    pub(crate) fn destination(
        &self,
        context: &CommandContext<'_>,
    ) -> Result<Option<Destination>, CommandFailure> {
        if self.to.is_empty() {
            return Ok(None);
        }
        self.parse(context).map(Some)
    }

    fn parse(&self, context: &CommandContext<'_>) -> Result<Destination, CommandFailure> {
        let words = "use current, branch NAME, worktree or patch FILE";
        let wrong = |what: String| {
            CommandFailure::usage(what)
                .kind(FailureKind::Destination)
                .because(words)
        };
        let (first, name) = match self.to.as_slice() {
            [first] => (first, None),
            [first, name] => (first, Some(name)),
            _ => return Err(wrong("--to takes one or two values".to_owned())),
        };
        let first = DestinationKind::from_str(first, true)
            .map_err(|_| wrong(format!("invalid destination `{first}`")))?;
        match (first, name) {
            (DestinationKind::Current, None) => Ok(Destination::Current),
            (DestinationKind::Worktree, None) => Ok(Destination::Worktree),
            (DestinationKind::Branch, Some(name)) => Ok(Destination::Branch(name.clone())),
            (DestinationKind::Patch, Some(file)) => {
                let path = context.absolute(&PathBuf::from(file));
                let path: PathBuf = path.components().collect();
                AbsolutePath::from_bytes(path.as_os_str().as_bytes())
                    .map(Destination::Patch)
                    .map_err(|error| wrong(format!("--to patch {file}: {error}")))
            }
            (DestinationKind::Branch, None) => {
                Err(wrong("--to branch needs the name of a branch".to_owned()))
            }
            (DestinationKind::Patch, None) => {
                Err(wrong("--to patch needs the name of a file".to_owned()))
            }
            (_, Some(name)) => Err(wrong(format!("--to takes no second value here: `{name}`"))),
        }
    }
}
