//! Where changes are brought to, as commands take it.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use cleveragents_domain::AbsolutePath;
use cleveragents_engine::ports::targets::Destination;

use crate::commands::Context;
use crate::failure::Failure;
use crate::places::quoted;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Where {
    Current,
    Branch,
    Worktree,
    Patch,
}

#[derive(Debug, Args)]
pub(crate) struct To {
    /// Where to: the branch checked out, another branch, only the files, or a patch file
    #[arg(
        long,
        num_args = 1..=2,
        value_names = ["WHERE", "NAME"],
        default_value = "current"
    )]
    to: Vec<String>,
}

impl To {
    /// As it was typed, to be repeated; nothing if it goes where it always goes.
    pub(crate) fn typed(&self) -> String {
        match self.to.as_slice() {
            [only] if only == "current" => String::new(),
            words => {
                let quoted = words.iter().map(|word| quoted(Path::new(word)));
                format!(" --to {}", quoted.collect::<Vec<_>>().join(" "))
            }
        }
    }

    /// For people who are asked: the folder's branch, or where else.
    pub(crate) fn shown(&self, folder: &str) -> String {
        match self.to.as_slice() {
            [only] if only == "current" => folder.to_owned(),
            words => format!("{folder}, {}", words.join(" ")),
        }
    }

    /// Where to, as it was typed.
    pub(crate) fn destination(&self, context: &Context<'_>) -> Result<Destination, Failure> {
        let words = "use current, branch NAME, worktree or patch FILE";
        let wrong = |what: String| Failure::usage(what).kind("destination").because(words);
        let (first, name) = match self.to.as_slice() {
            [first] => (first, None),
            [first, name] => (first, Some(name)),
            _ => return Err(wrong("--to takes one or two words".to_owned())),
        };
        let first =
            Where::from_str(first, true).map_err(|_| wrong(format!("--to {first} is nowhere")))?;
        match (first, name) {
            (Where::Current, None) => Ok(Destination::Current),
            (Where::Worktree, None) => Ok(Destination::Worktree),
            (Where::Branch, Some(name)) => Ok(Destination::Branch(name.clone())),
            (Where::Patch, Some(file)) => {
                let path = context.absolute(&PathBuf::from(file));
                let path: PathBuf = path.components().collect();
                AbsolutePath::from_bytes(path.as_os_str().as_bytes())
                    .map(Destination::Patch)
                    .map_err(|error| wrong(format!("--to patch {file}: {error}")))
            }
            (Where::Branch, None) => {
                Err(wrong("--to branch needs the name of a branch".to_owned()))
            }
            (Where::Patch, None) => Err(wrong("--to patch needs the name of a file".to_owned())),
            (_, Some(name)) => Err(wrong(format!(
                "--to takes no second word here, not `{name}`"
            ))),
        }
    }
}
