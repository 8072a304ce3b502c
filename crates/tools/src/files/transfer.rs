//! `builtin/file-move`

use cleveragents_beneath::path_of;
use cleveragents_domain::ResourcePath;
use cleveragents_domain::tool::Capability;
use cleveragents_engine::ports::sandbox::Touched;
use cleveragents_engine::ports::tools::{Call, ToolFailure, ToolOutput};
use rustix::fs::{FileType, RenameFlags, renameat, renameat_with};
use rustix::io::Errno;
use serde::Deserialize;
use serde_json::json;

use crate::builtin::{Description, Work, failed, input, unusable};
use crate::folders::inside::look_inside;
use crate::place::{Purpose, Spot, Tree};
use crate::schema_parts::{object, one_of, path, text};
use crate::stale::{may_change, may_replace};
use crate::storable::check_storable;

#[derive(Debug)]
pub(crate) struct FileMove;

#[derive(Debug, Deserialize)]
struct Input {
    from: String,
    to: String,
}

impl Work for FileMove {
    fn describe(&self) -> Description {
        Description {
            name: "file-move",
            text: "Move or rename a file, a link or a whole folder; folders it needs are made. A \
                   file that is at the destination must have been read or written before, and is \
                   replaced; a folder there is not."
                .to_owned(),
            input: object([
                ("from", path("What to move.")),
                (
                    "to",
                    path("Where it goes: its full new path, not the folder to put it in."),
                ),
            ]),
            output: object([
                ("from", text("Where it was.")),
                ("to", text("Where it is.")),
                (
                    "kind",
                    one_of(&["file", "folder", "link"], "What was moved."),
                ),
                (
                    "result",
                    one_of(&["created", "replaced"], "What became of the destination."),
                ),
            ]),
            capability: Capability::writes(),
            timeout_seconds: 60,
        }
    }

    fn run(&self, call: &Call<'_>) -> Result<ToolOutput, ToolFailure> {
        let input: Input = input(call)?;
        let tree = Tree::of(call)?;
        let from = tree.spot(&input.from, Purpose::Rearrange)?;
        let to = tree.spot(&input.to, Purpose::Rearrange)?;
        let (kind, known) = check_source(call, &from, &to)?;
        check_storable(call, &[&from, &to])?;
        let result = check_destination(call, &to)?;
        if kind == "folder" && result == "replaced" {
            let to = &to.path;
            return Err(failed(format!(
                "{to} is a file, a folder cannot replace it"
            )));
        }
        rename(&from, &to).map_err(|error| unmoved(&from, &to, error))?;
        restamp(call, known, &from, &to);
        Ok(ToolOutput {
            data: json!({"from": from.path, "to": to.path, "kind": kind, "result": result}),
            touched: Touched::Paths(vec![from.path, to.path]),
        })
    }
}

/// Contents the actor knows, by their paths.
type Known = Vec<(ResourcePath, String)>;

fn check_source(
    call: &Call<'_>,
    from: &Spot,
    to: &Spot,
) -> Result<(&'static str, Known), ToolFailure> {
    let kind = from.kind()?;
    if from.path == to.path {
        return Err(unusable(format!("{} cannot be moved to itself", from.path)));
    }
    match kind {
        FileType::RegularFile => {
            let known = may_change(call, from)?;
            let known = known.map(|digest| (from.path.clone(), digest.hash));
            Ok(("file", known.into_iter().collect()))
        }
        FileType::Symlink => Ok(("link", Known::new())),
        FileType::Directory => Ok(("folder", look_inside(call, from)?.known)),
        other => Err(from.is_instead(other, "a file, a link or a folder")),
    }
}

/// That the destination is free, or a file that may be replaced.
pub(super) fn check_destination(call: &Call<'_>, to: &Spot) -> Result<&'static str, ToolFailure> {
    match to.entry.stat.map(|stat| stat.kind()) {
        None => Ok("created"),
        Some(FileType::RegularFile) => may_replace(call, to).map(|_| "replaced"),
        Some(FileType::Directory) => Err(failed(format!(
            "{} is a folder: name the full path in it, or remove it first",
            to.path
        ))),
        Some(other) => Err(to.is_instead(other, "a file or nothing")),
    }
}

fn rename(from: &Spot, to: &Spot) -> Result<(), Errno> {
    let folder = to.entry.make_folder()?;
    let (old, new) = (path_of(&from.entry.name), path_of(&to.entry.name));
    match to.entry.stat {
        Some(_) => renameat(from.entry.folder()?, old, &folder, new),
        None => renameat_with(
            from.entry.folder()?,
            old,
            &folder,
            new,
            RenameFlags::NOREPLACE,
        ),
    }
}

/// Folders may have been made on the way.
fn unmoved(from: &Spot, to: &Spot, error: Errno) -> ToolFailure {
    let why = match error {
        Errno::INVAL => "a folder cannot be moved into itself".to_owned(),
        Errno::EXIST => "something has just come to be there".to_owned(),
        error => std::io::Error::from(error).to_string(),
    };
    ToolFailure::Failed {
        reason: format!("{} cannot be moved to {}: {why}", from.path, to.path),
        touched: Touched::Paths(vec![from.path.clone(), to.path.clone()]),
    }
}

/// What the actor knew it knows under its new name.
fn restamp(call: &Call<'_>, known: Known, from: &Spot, to: &Spot) {
    call.stamps.forget(&to.path);
    for (path, hash) in known {
        let rest = &path.as_bytes()[from.path.as_bytes().len()..];
        let moved = [to.path.as_bytes(), rest].concat();
        if let Ok(moved) = ResourcePath::from_bytes(moved) {
            call.stamps.stamp(&moved, &hash);
        }
        call.stamps.forget(&path);
    }
}
