//! `builtin/file-move`

use cleveragents_domain::ResourcePath;
use cleveragents_domain::tool::Capability;
use cleveragents_ports::sandbox::TouchedPaths;
use cleveragents_ports::tools::{ToolFailure, ToolInvocation, ToolOutput};
use cleveragents_safe_fs::path_from_bytes;
use rustix::fs::{FileType, RenameFlags, renameat, renameat_with};
use rustix::io::Errno;
use serde::Deserialize;
use serde_json::json;

use crate::builtin::{ToolDescription, ToolImpl, failed, invalid_input, parse_input};
use crate::folders::inventory::inspect_folder;
use crate::paths::{PathPurpose, SandboxTree, TreePath};
use crate::schema_parts::{object, one_of, path, text};
use crate::stale_check::{check_change, check_replace};
use crate::storable::check_storable;

#[derive(Debug)]
pub(crate) struct FileMove;

#[derive(Debug, Deserialize)]
struct FileMoveInput {
    from: String,
    to: String,
}

impl ToolImpl for FileMove {
    fn describe(&self) -> ToolDescription {
        ToolDescription {
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
                    one_of(
                        &["created", "replaced"],
                        "What was done to the destination.",
                    ),
                ),
            ]),
            capability: Capability::read_write(),
            timeout_seconds: 60,
        }
    }

    fn run(&self, call: &ToolInvocation<'_>) -> Result<ToolOutput, ToolFailure> {
        let input: FileMoveInput = parse_input(call)?;
        let tree = SandboxTree::open(call)?;
        let from = tree.resolve_path(&input.from, PathPurpose::Relocate)?;
        let to = tree.resolve_path(&input.to, PathPurpose::Relocate)?;
        // All checks come before the rename, because a refused call must leave no change.
        let (kind, known) = check_source(call, &from, &to)?;
        check_storable(call, &[&from, &to])?;
        let result = check_destination(call, &to)?;
        if kind == "folder" && result == "replaced" {
            let to = &to.path;
            return Err(failed(format!(
                "{to} is a file, a folder cannot replace it"
            )));
        }
        rename(&from, &to).map_err(|error| move_failure(&from, &to, error))?;
        // The content is the same, so the actor still knows it at the new path.
        restamp(call, known, &from, &to);
        Ok(ToolOutput {
            data: json!({"from": from.path, "to": to.path, "kind": kind, "result": result}),
            touched: TouchedPaths::Paths(vec![from.path, to.path]),
        })
    }
}

/// Hashes that the actor knows, by path.
type KnownHashes = Vec<(ResourcePath, String)>;

fn check_source(
    call: &ToolInvocation<'_>,
    from: &TreePath,
    to: &TreePath,
) -> Result<(&'static str, KnownHashes), ToolFailure> {
    let kind = from.kind()?;
    if from.path == to.path {
        return Err(invalid_input(format!(
            "{} cannot be moved to itself",
            from.path
        )));
    }
    match kind {
        FileType::RegularFile => {
            let known = check_change(call, from)?;
            let known = known.map(|digest| (from.path.clone(), digest.hash));
            Ok(("file", known.into_iter().collect()))
        }
        FileType::Symlink => Ok(("link", KnownHashes::new())),
        FileType::Directory => Ok(("folder", inspect_folder(call, from)?.known_hashes)),
        other => Err(from.wrong_kind(other, "a file, a link or a folder")),
    }
}

/// Fails unless the destination is free or a file that may be replaced.
pub(super) fn check_destination(
    call: &ToolInvocation<'_>,
    to: &TreePath,
) -> Result<&'static str, ToolFailure> {
    match to.entry.stat.map(|stat| stat.kind()) {
        None => Ok("created"),
        Some(FileType::RegularFile) => check_replace(call, to).map(|_| "replaced"),
        Some(FileType::Directory) => Err(failed(format!(
            "{} is a folder: name the full path in it, or remove it first",
            to.path
        ))),
        Some(other) => Err(to.wrong_kind(other, "a file or nothing")),
    }
}

fn rename(from: &TreePath, to: &TreePath) -> Result<(), Errno> {
    let folder = to.entry.make_folder()?;
    let (old, new) = (
        path_from_bytes(&from.entry.name),
        path_from_bytes(&to.entry.name),
    );
    // If the destination was free when it was resolved, it must still be free.
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

/// Reports both paths as touched, because parent folders may have been created.
fn move_failure(from: &TreePath, to: &TreePath, error: Errno) -> ToolFailure {
    let why = match error {
        Errno::INVAL => "a folder cannot be moved into itself".to_owned(),
        Errno::EXIST => "something was created there meanwhile".to_owned(),
        error => std::io::Error::from(error).to_string(),
    };
    ToolFailure::Failed {
        reason: format!("{} cannot be moved to {}: {why}", from.path, to.path),
        touched: TouchedPaths::Paths(vec![from.path.clone(), to.path.clone()]),
    }
}

/// Moves the actor's stamps to the new paths.
fn restamp(call: &ToolInvocation<'_>, known: KnownHashes, from: &TreePath, to: &TreePath) {
    // What the actor knew at the destination was replaced.
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
