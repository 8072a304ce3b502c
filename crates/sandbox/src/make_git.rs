//! A sandbox of a git repository.
//!
//! Objects are borrowed through `objects/info/alternates` and pinned by a ref of ours; nothing is
//! hard-linked and no worktree is added, so the user's repository is neither at an agent's mercy
//! nor locked by ours. A sparse checkout becomes a whole one: which files are there is a matter of
//! the user's disk, not of the commit.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::thread;

use cleveragents_domain::{Base, ResourcePath};
use cleveragents_engine::ports::sandbox::{
    Checkout, Coverage, History, Objects, Omitted, OmittedWhy, SandboxError, SandboxResult, TreeId,
    Uncommitted, UncommittedKind, Warning,
};

use crate::attributes::{self, Attribute, Attributes, AutoCrlf};
use crate::entries::{Entries, GITLINK};
use crate::files::{Sync, failed, path_of, replace, replace_quickly, resource_path};
use crate::filters::Storable;
use crate::layout::{Conversion, Layout, Made, Marker};
use crate::making::{begin, content_of, copy_if_there, include, joined};
use crate::placing::rename;
use crate::repository::{Commit, Repository, text};
use crate::sandbox::LocalSandbox;
use crate::view::View;
use crate::{git::Git, git_files, references, restore};

/// Makes store and tree; what is worth keeping of it.
pub(crate) fn make(
    git: &Git,
    layout: &Layout,
    marker: &Marker,
    locks: &Path,
) -> SandboxResult<Made> {
    let resource = path_of(marker.resource.as_bytes());
    let repository = Repository::known(git, resource)?;
    let top_level = top_level(&repository, resource)?;
    let mut sandbox = begin(git, layout, marker, locks, repository.object_format)?;
    borrow_from(&sandbox, &repository)?;
    sandbox.set_shaping(repository.settings.shaping.clone());
    let commit = pin(&sandbox, &repository)?;
    let mut warnings = Vec::new();
    let (tree, uncommitted, entries) = match marker.base {
        Base::Head => {
            let tree = base_tree(&sandbox, &repository, commit.as_ref())?;
            sandbox.set_attributes(tree.files().to_owned());
            // What is not committed is only told, and finding it takes as long as the files.
            let (uncommitted, entries) = thread::scope(|scope| {
                let uncommitted = scope.spawn(|| repository.uncommitted());
                let entries = restore::check_out(&sandbox, &tree, &layout.next_tree());
                (joined(uncommitted), entries)
            });
            (tree, uncommitted?, entries?)
        }
        Base::Worktree => {
            let uncommitted = repository.uncommitted()?;
            require_objects(&sandbox, &repository, commit.as_ref())?;
            let files = snapshot(&sandbox, &repository, &uncommitted, &mut warnings)?;
            let base = commit.as_ref().map(|commit| commit.id.as_str());
            sandbox.store.copy_borrowed(&files, base)?;
            let tree = TreeId::new(&files, None)?;
            sandbox.set_attributes(files);
            let entries = restore::check_out(&sandbox, &tree, &layout.next_tree())?;
            (tree, uncommitted, entries)
        }
    };
    let commit = commit.map(|commit| commit.id);
    rename(&layout.next_tree(), &layout.tree())?;
    show_agents(&sandbox, commit.as_deref(), &tree)?;
    let rules = sandbox.rules()?;
    let trusted = &marker.trusted_includes;
    warnings.extend(include(&sandbox, &top_level, &rules, &entries, trusted)?);
    warn_of_repository(&repository, &uncommitted, marker.base, &mut warnings);
    warn_of_files(&mut sandbox, &repository, &entries, &mut warnings)?;
    restore::note(&mut sandbox, &tree, entries)?;
    Ok(Made {
        tree,
        base_commit: commit,
        warnings,
        ..sandbox.made
    })
}

pub(crate) fn top_level(repository: &Repository, resource: &Path) -> SandboxResult<PathBuf> {
    let path = resource.to_owned();
    let Checkout::At(top_level) = &repository.checkout else {
        return Err(SandboxError::Bare { path });
    };
    let resolved = |path: &Path| path.canonicalize().map_err(failed(path));
    if resolved(resource)? != resolved(top_level)? {
        let top_level = top_level.clone();
        return Err(SandboxError::NotTopLevel { path, top_level });
    }
    resolved(top_level)
}

/// Lets the store see the user's objects, and takes along what shapes history and files.
pub(crate) fn borrow_from(sandbox: &LocalSandbox, repository: &Repository) -> SandboxResult<()> {
    let dir = &sandbox.store.dir;
    let objects = repository.objects_dir();
    let line = alternates_line(objects.as_os_str().as_bytes());
    replace(&dir.join("objects/info/alternates"), &line)?;
    let common = &repository.common_dir;
    git_files::copy(common, "shallow", &dir.join("shallow"))?;
    git_files::copy(common, "info/attributes", &dir.join("info/attributes"))?;
    let own = &repository.settings.attributes_file;
    copy_if_there(own, &sandbox.store.user_attributes())?;
    // Later lines win, as the repository's own rules win over the user's.
    let mut exclude = content_of(&repository.settings.excludes_file)?;
    exclude.push(b'\n');
    exclude.extend(git_files::read(common, "info/exclude")?.unwrap_or_default());
    match has_rules(&exclude) {
        true => replace(&sandbox.store.exclude(), &exclude),
        false => Ok(()),
    }
}

/// Whether there is more than comments in these rules.
fn has_rules(rules: &[u8]) -> bool {
    let mut lines = rules.split(|byte| *byte == b'\n');
    lines.any(|line| !line.trim_ascii().is_empty() && !line.starts_with(b"#"))
}

/// One path a line; what would not survive that is quoted as in C.
pub(crate) fn alternates_line(path: &[u8]) -> Vec<u8> {
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\' | b'#');
    if path.iter().all(is_plain) {
        return [path, b"\n"].concat();
    }
    let mut line = String::from("\"");
    for byte in path {
        match byte {
            b'"' | b'\\' => line.extend(['\\', char::from(*byte)]),
            b' ' => line.push(' '),
            byte if byte.is_ascii_graphic() => line.push(char::from(*byte)),
            byte => line.push_str(&format!("\\{byte:03o}")),
        }
    }
    line.push_str("\"\n");
    line.into_bytes()
}

/// Keeps the base from being collected. The pin of an earlier, killed attempt says what the base
/// is, so that the same call makes the same sandbox.
fn pin(sandbox: &LocalSandbox, repository: &Repository) -> SandboxResult<Option<Commit>> {
    let name = references::base(sandbox.marker.plan, sandbox.marker.id);
    let _turn = references::hold(&sandbox.locks, repository)?;
    let mut found = repository.commits(&[&name, "HEAD"])?;
    let (head, pinned) = (found.pop().flatten(), found.pop().flatten());
    if pinned.is_some() {
        return Ok(pinned);
    }
    match head {
        Some(commit) => {
            references::create(repository, &name, &commit.id)?;
            Ok(Some(commit))
        }
        // Before the first commit there is nothing to pin; anything else is an error.
        None => match repository.head()?.commit() {
            None => Ok(None),
            Some(commit) => Err(SandboxError::Malformed {
                what: format!("the commit {commit} at HEAD cannot be read"),
            }),
        },
    }
}

fn base_tree(
    sandbox: &LocalSandbox,
    repository: &Repository,
    commit: Option<&Commit>,
) -> SandboxResult<TreeId> {
    require_objects(sandbox, repository, commit)?;
    match commit {
        Some(commit) => Ok(TreeId::new(&commit.tree, None)?),
        None => Ok(sandbox.made.tree.clone()),
    }
}

/// Refuses a partial clone that lacks something of the commit: it would have to be fetched.
pub(crate) fn require_objects(
    sandbox: &LocalSandbox,
    repository: &Repository,
    commit: Option<&Commit>,
) -> SandboxResult<()> {
    let (Some(Commit { id: commit, .. }), Objects::Partial) = (commit, repository.settings.objects)
    else {
        return Ok(());
    };
    let call = [
        "rev-list",
        "--objects",
        "--no-walk",
        "--missing=print",
        commit,
    ];
    let answer = sandbox.store.call(call).run()?;
    let lines = answer.split(|byte| *byte == b'\n');
    match lines.filter(|line| line.first() == Some(&b'?')).count() {
        0 => Ok(()),
        count => Err(SandboxError::MissingObjects {
            path: repository.git_dir.clone(),
            commit: commit.clone(),
            count,
        }),
    }
}

/// Copies an index with its time. Git looks again at files that were changed in the moment the
/// index was written, and tells them by that time: a younger copy would make it trust stale entries.
pub(crate) fn copy_index(from: &Path, to: &Path) -> SandboxResult<()> {
    let written = std::fs::metadata(from)
        .and_then(|facts| facts.modified())
        .map_err(failed(from))?;
    std::fs::copy(from, to).map_err(failed(from))?;
    std::fs::File::options()
        .write(true)
        .open(to)
        .and_then(|copy| copy.set_modified(written))
        .map_err(failed(to))
}

/// The user's files as a tree, made with a copy of the user's index and our own object store:
/// nothing of the user's is written.
fn snapshot(
    sandbox: &LocalSandbox,
    repository: &Repository,
    uncommitted: &[Uncommitted],
    warnings: &mut Vec<Warning>,
) -> SandboxResult<String> {
    let view = View::of(repository)?;
    let objects = sandbox.store.dir.join("objects");
    let on_copy = |arguments: &[&str]| {
        let call = view.call(arguments.iter().copied());
        call.variable("GIT_OBJECT_DIRECTORY", &objects)
    };
    let (left_out, omitted) = not_snapshotted(repository, &view, uncommitted)?;
    if !omitted.is_empty() {
        warnings.push(Warning::Omitted(omitted));
    }
    let mut call = on_copy(&["add", "--all"]).setting("core.safecrlf", "false");
    if repository.coverage() == Coverage::Sparse {
        call = call.argument("--sparse");
    }
    call = call.argument("--").argument(":/");
    for path in left_out {
        let mut pathspec = b":(exclude,literal,top)".to_vec();
        pathspec.extend_from_slice(&path);
        call = call.argument(path_of(&pathspec));
    }
    call.run()?;
    let tree = on_copy(&["write-tree", "--missing-ok"]).run()?;
    Ok(text(&tree))
}

/// What stays as it is committed: submodules, repositories, and files whose filter we do not run.
fn not_snapshotted(
    repository: &Repository,
    view: &View,
    uncommitted: &[Uncommitted],
) -> SandboxResult<(Vec<Vec<u8>>, Vec<Omitted>)> {
    let submodules = repository.inspect()?.submodules;
    let mut left_out: Vec<Vec<u8>> = submodules.iter().map(bytes).collect();
    let mut omitted = Vec::new();
    let paths: Vec<&[u8]> = uncommitted.iter().map(|it| it.path.as_bytes()).collect();
    let found = attributes::of_paths(|| view.call([]), &paths, &[Attribute::Filter])?;
    for file in uncommitted {
        let attributes = found.get(file.path.as_bytes());
        let why = match file.kind {
            UncommittedKind::UntrackedRepository => OmittedWhy::NestedRepository,
            _ if attributes.is_some_and(|it| it.filter().is_some()) => OmittedWhy::Filtered,
            _ => continue,
        };
        left_out.push(bytes(&file.path));
        let path = file.path.clone();
        omitted.push(Omitted { path, why });
    }
    Ok((left_out, omitted))
}

fn bytes(path: &ResourcePath) -> Vec<u8> {
    path.as_bytes().to_vec()
}

/// What an agent's git finds: the base checked out, nothing changed.
fn show_agents(sandbox: &LocalSandbox, commit: Option<&str>, tree: &TreeId) -> SandboxResult<()> {
    show_agents_head(sandbox, commit)?;
    let dir = &sandbox.store.dir;
    let kept = dir.join(format!("index-{}", tree.files()));
    std::fs::copy(&kept, dir.join("index")).map_err(failed(&kept))?;
    Ok(())
}

/// Ours do without it; should a power cut take it, it is made again like a new store's.
pub(crate) fn show_agents_head(sandbox: &LocalSandbox, commit: Option<&str>) -> SandboxResult<()> {
    let Some(commit) = commit else {
        return Ok(());
    };
    let head = sandbox.store.dir.join("HEAD");
    replace_quickly(&head, format!("{commit}\n").as_bytes(), Sync::No)
}

fn warn_of_repository(
    repository: &Repository,
    uncommitted: &[Uncommitted],
    base: Base,
    warnings: &mut Vec<Warning>,
) {
    if base == Base::Head && !uncommitted.is_empty() {
        let paths = uncommitted.iter().map(|it| it.path.clone()).collect();
        warnings.push(Warning::Uncommitted(paths));
    }
    if repository.coverage() == Coverage::Sparse {
        warnings.push(Warning::Sparse);
    }
    if repository.history() == History::Shallow {
        warnings.push(Warning::Shallow);
    }
}

/// Submodules, filtered files, and whether git may store other bytes than the tree has.
pub(crate) fn warn_of_files(
    sandbox: &mut LocalSandbox,
    repository: &Repository,
    entries: &Entries,
    warnings: &mut Vec<Warning>,
) -> SandboxResult<()> {
    let submodules = entries.files.iter().filter(|(_, it)| it.mode == GITLINK);
    let submodules: Vec<ResourcePath> = submodules
        .map(|(path, _)| resource_path(path))
        .collect::<SandboxResult<_>>()?;
    if !submodules.is_empty() {
        warnings.push(Warning::Submodules(submodules));
    }
    let in_tree = entries
        .files
        .keys()
        .any(|path| path.ends_with(b".gitattributes"));
    let has_attributes = in_tree
        || repository
            .settings
            .has_own_attributes(&repository.common_dir);
    if has_attributes || AutoCrlf::of(&sandbox.made.shaping) == AutoCrlf::On {
        sandbox.made.conversion = Conversion::Possible;
    }
    if !has_attributes {
        return Ok(());
    }
    let paths: Vec<&[u8]> = entries.files.keys().map(Vec::as_slice).collect();
    let found = attributes::of_paths(|| sandbox.store.call([]), &paths, &[Attribute::Filter])?;
    let allowed = &sandbox.store.git.allowed;
    let is_refused = |it: &Attributes| match it.filter() {
        Some(name) => allowed.storable(name) == Storable::Nothing,
        None => false,
    };
    let filtered = found.iter().filter(|(_, it)| is_refused(it));
    let filtered: Vec<ResourcePath> = filtered
        .map(|(path, _)| resource_path(path))
        .collect::<SandboxResult<_>>()?;
    if !filtered.is_empty() {
        warnings.push(Warning::Filtered(filtered));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copied_index_is_as_old_as_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let (users, copy) = (folder.path().join("users"), folder.path().join("copy"));
        let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
        let file = std::fs::File::create(&users).unwrap();
        file.set_modified(long_ago).unwrap();
        copy_index(&users, &copy).unwrap();
        let copied = std::fs::metadata(&copy).unwrap().modified().unwrap();
        assert_eq!(copied, long_ago);
    }

    #[test]
    fn a_path_of_any_bytes_is_one_line() {
        for (path, line) in [
            (&b"/home/a/objects"[..], "/home/a/objects\n"),
            (b"/a b", "\"/a b\"\n"),
            (b"/a\n\xff#\"", "\"/a\\012\\377#\\\"\"\n"),
        ] {
            assert_eq!(alternates_line(path), line.as_bytes());
        }
    }
}
