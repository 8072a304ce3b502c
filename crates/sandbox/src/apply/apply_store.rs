//! The private git store in which an apply is computed. It reads the objects of the user's repository
//! and of the sandbox, and writes into neither.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use cleveragents_ports::sandbox::{CommitMetadata, ObjectFormat, SandboxError, SandboxResult};
use cleveragents_ports::stop::StopSignal;
use cleveragents_ports::targets::{PathChange, PathState, TargetError, TargetResult};

use crate::apply::record::LocalApplyRecord;
use crate::files::{replace, resource_path};
use crate::git::Git;
use crate::git_files;
use crate::make_common::copy_if_exists;
use crate::make_git::alternates_line;
use crate::private_dir::PrivateGitDir;
use crate::publish::with_identity;
use crate::repository::{UserRepository, trimmed_text};
use crate::store::{ObjectReader, PrivateStore};
use crate::user_settings::{SignCommits, Signing};

/// Creates an empty store with these object folders as alternates.
pub(crate) fn create(
    git: &Git,
    record: &LocalApplyRecord,
    format: ObjectFormat,
    objects: &[&Path],
) -> SandboxResult<PrivateStore> {
    let mut store = PrivateStore {
        git: git.clone(),
        dir: PrivateGitDir::new(record.store()),
        format,
        shaping: Vec::new(),
        attributes: String::new(),
        reader: ObjectReader::default(),
        stop: StopSignal::new(),
    };
    store.init()?;
    set_alternates(&store, objects)?;
    // Attributes always come from a tree that the caller names; until then from the empty one.
    store.attributes = store.empty_tree()?;
    Ok(store)
}

/// Replaces the alternates of the store.
pub(crate) fn set_alternates(store: &PrivateStore, objects: &[&Path]) -> SandboxResult<()> {
    let mut lines = Vec::new();
    for folder in objects {
        lines.extend(alternates_line(folder.as_os_str().as_bytes()));
    }
    replace(&store.dir.join("objects/info/alternates"), &lines)
}

/// Copies the user's settings that affect history and file content.
pub(crate) fn with_user_settings(
    mut store: PrivateStore,
    repository: &UserRepository,
) -> SandboxResult<PrivateStore> {
    let (common, dir) = (&repository.common_dir, &store.dir);
    git_files::copy(common, "shallow", &dir.join("shallow"))?;
    git_files::copy(common, "info/attributes", &dir.join("info/attributes"))?;
    let own = &repository.settings.attributes_file;
    copy_if_exists(own, &store.user_attributes())?;
    store.shaping.clone_from(&repository.settings.shaping);
    Ok(store)
}

/// Returns the same store with the attributes of `tree`.
pub(crate) fn with_attributes(store: &PrivateStore, tree: &str) -> PrivateStore {
    PrivateStore {
        attributes: tree.to_owned(),
        ..store.clone()
    }
}

pub(crate) fn commit_tree(store: &PrivateStore, commit: &str) -> SandboxResult<String> {
    let tree = format!("{commit}^{{tree}}");
    store.call(["rev-parse", "--verify", &tree]).line()
}

pub(crate) fn has_object(store: &PrivateStore, object: &str) -> SandboxResult<bool> {
    let ended = store.call(["cat-file", "-e", object]).output()?;
    Ok(ended.status.success())
}

#[derive(Debug)]
pub(crate) enum TreeMerge {
    Clean(String),
    /// Paths, and git's name for each conflict.
    Conflicts(Vec<(Vec<u8>, String)>),
}

/// Runs a three-way merge of trees on objects alone, without files or an index.
pub(crate) fn merge(
    store: &PrivateStore,
    base: &str,
    ours: &str,
    theirs: &str,
) -> SandboxResult<TreeMerge> {
    if base == ours || ours == theirs {
        return Ok(TreeMerge::Clean(theirs.to_owned()));
    }
    if base == theirs {
        return Ok(TreeMerge::Clean(ours.to_owned()));
    }
    let store = with_attributes(store, ours);
    // Only the trees matter, but `git merge-tree` takes commits. With fixed author and time, equal
    // trees give equal commits.
    let neutral_author = CommitMetadata {
        name: "CleverAgents".to_owned(),
        email: "agents@localhost".to_owned(),
        seconds: 0,
        message: String::new(),
    };
    let commit = |tree: &str| {
        let call = with_identity(store.call(["commit-tree", tree]), &neutral_author);
        call.line()
    };
    let (base, ours, theirs) = (commit(base)?, commit(ours)?, commit(theirs)?);
    let call = [
        "merge-tree",
        "--write-tree",
        "-z",
        "--name-only",
        "--messages",
    ];
    let call = store.call(call).argument(format!("--merge-base={base}"));
    let ended = call.arguments([&ours, &theirs]).output()?;
    match ended.status.code() {
        Some(0) => {
            let tree = ended.stdout.split(|byte| *byte == 0).next();
            Ok(TreeMerge::Clean(trimmed_text(tree.unwrap_or_default())))
        }
        Some(1) => Ok(TreeMerge::Conflicts(parse_conflicts(&ended.stdout))),
        _ => Err(SandboxError::Git {
            command: "git merge-tree".to_owned(),
            status: ended.status.to_string(),
            stderr: ended.stderr,
        }),
    }
}

/// After the tree git prints the conflicting paths, an empty field, and then messages: number of
/// paths, the paths, the kind, the text.
fn parse_conflicts(answer: &[u8]) -> Vec<(Vec<u8>, String)> {
    let mut fields = answer.split(|byte| *byte == 0).skip(1);
    let mut conflicts: Vec<(Vec<u8>, String)> = Vec::new();
    for path in fields.by_ref().take_while(|field| !field.is_empty()) {
        conflicts.push((path.to_vec(), "contents".to_owned()));
    }
    while let Some(count) = fields.next() {
        let Ok(count) = trimmed_text(count).parse::<usize>() else {
            break;
        };
        let paths: Vec<&[u8]> = fields.by_ref().take(count).collect();
        let kind = trimmed_text(fields.next().unwrap_or_default());
        fields.next();
        let Some(kind) = kind.strip_prefix("CONFLICT (") else {
            continue;
        };
        let kind = kind.trim_end_matches(')');
        for (path, known) in &mut conflicts {
            if paths.contains(&path.as_slice()) {
                *known = kind.to_owned();
            }
        }
    }
    conflicts
}

/// Creates the commit, signed if the user's commits are signed.
pub(crate) fn commit(
    store: &PrivateStore,
    tree: &str,
    parent: Option<&str>,
    commit_metadata: &CommitMetadata,
    signing: &Signing,
) -> TargetResult<String> {
    let call = store.call(["commit-tree", tree]);
    let call = match parent {
        Some(parent) => call.arguments(["-p", parent]),
        None => call,
    };
    let call = with_identity(call, commit_metadata);
    if signing.sign_commits == SignCommits::No {
        return Ok(trimmed_text(
            &call.run_with(commit_metadata.message.as_bytes())?,
        ));
    }
    if let Some(key) = signing.refused.first() {
        let reason = format!(
            "the repository's own configuration sets `{key}`; only your own may configure signing \
             (`git config --global {key} …`)"
        );
        return Err(TargetError::Signing { reason });
    }
    // Signing needs the user's home to find keys; which key and which program is passed explicitly.
    let call = call.settings(&signing.settings).argument("-S");
    let signed = call
        .with_user_configuration()
        .run_with(commit_metadata.message.as_bytes());
    match signed {
        Ok(commit) => Ok(trimmed_text(&commit)),
        Err(SandboxError::Git { stderr, .. }) => {
            let reason = stderr.lines().next().unwrap_or_default().to_owned();
            Err(TargetError::Signing { reason })
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns the paths that differ between two trees, sorted.
pub(crate) fn changes(
    store: &PrivateStore,
    old: &str,
    new: &str,
) -> SandboxResult<Vec<PathChange>> {
    let call = [
        "diff-tree",
        "-r",
        "-z",
        "--raw",
        "--no-renames",
        "--no-abbrev",
    ];
    let call = store.call(call).arguments([old, new]);
    let answer = call.run()?;
    let malformed = || SandboxError::Malformed {
        what: "git diff-tree returned unexpected output".to_owned(),
    };
    let mut fields = answer.split(|byte| *byte == 0);
    let mut changes = Vec::new();
    while let Some(record) = fields.next().filter(|record| !record.is_empty()) {
        let record = std::str::from_utf8(record).map_err(|_| malformed())?;
        let path = fields.next().ok_or_else(malformed)?;
        let parts: Vec<&str> = record.trim_start_matches(':').split(' ').collect();
        let [old_mode, new_mode, old_object, new_object, _] = parts[..] else {
            return Err(malformed());
        };
        changes.push(PathChange {
            path: resource_path(path)?,
            old: parse_state(old_mode, old_object).ok_or_else(malformed)?,
            new: parse_state(new_mode, new_object).ok_or_else(malformed)?,
            keeps_edits: false,
        });
    }
    Ok(changes)
}

/// Mode 0 means that there is no file (`Some(None)`). Returns `None` if the mode is not a number.
fn parse_state(mode: &str, object: &str) -> Option<Option<PathState>> {
    let mode = u32::from_str_radix(mode, 8).ok()?;
    Some((mode != 0).then(|| PathState {
        mode,
        object: object.to_owned(),
        content: None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conflicts_include_gits_conflict_type() {
        let answer = b"a1a1\0f\0g\0\x001\0f\0Auto-merging\0Auto-merging f\n\0\
            1\0f\0CONFLICT (contents)\0CONFLICT (content): f\n\0\
            2\0g\0h\0CONFLICT (modify/delete)\0g\n\0";
        let expected = [("f", "contents"), ("g", "modify/delete")];
        let expected = expected.map(|(path, kind)| (path.as_bytes().to_vec(), kind.to_owned()));
        assert_eq!(parse_conflicts(answer), expected);
        assert_eq!(parse_conflicts(b"a1a1\0"), []);
    }
}
