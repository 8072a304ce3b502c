//! Creates a sandbox of a git repository.
//!
//! Objects are borrowed through `objects/info/alternates` and protected by a ref of ours. Nothing
//! is hard-linked and no worktree is added, so agents cannot damage the user's repository and we do
//! not lock it. A sparse checkout becomes a full one: which files are present concerns the user's
//! disk, not the commit.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::thread;

use cleveragents_domain::{BaseSource, ResourcePath};
use cleveragents_ports::sandbox::{
    Checkout, CheckoutCoverage, HistoryCompleteness, ObjectCompleteness, OmissionReason,
    OmittedPath, SandboxError, SandboxResult, TreeId, UncommittedFile, UncommittedKind, Warning,
};

use crate::attributes::{self, Attribute, Attributes, AutoCrlf};
use crate::entries::{GITLINK, TreeEntries};
use crate::files::{Sync, io_error, path_from_bytes, replace, replace_with_sync, resource_path};
use crate::filters::StorableContent;
use crate::layout::{ContentConversion, Layout, Marker, SandboxProperties};
use crate::make_common::{
    copy_if_exists, copy_included_files, create_empty_sandbox, join_thread, read_or_empty,
};
use crate::repository::{Commit, UserRepository, trimmed_text};
use crate::sandbox::LocalSandbox;
use crate::tree_files::rename;
use crate::view::RepositoryView;
use crate::{git::Git, git_files, references, restore};

/// Creates store and tree. Returns the properties to keep.
pub(crate) fn make(
    git: &Git,
    layout: &Layout,
    marker: &Marker,
    locks: &Path,
) -> SandboxResult<SandboxProperties> {
    let resource = path_from_bytes(marker.resource.as_bytes());
    let repository = UserRepository::find_cached(git, resource)?;
    let top_level = top_level(&repository, resource)?;
    let mut sandbox = create_empty_sandbox(git, layout, marker, locks, repository.object_format)?;
    borrow_objects(&sandbox, &repository)?;
    sandbox.set_shaping(repository.settings.shaping.clone());
    let commit = pin(&sandbox, &repository)?;
    let mut warnings = Vec::new();
    let (tree, uncommitted, entries) = match marker.base {
        BaseSource::Head => {
            let tree = base_tree(&sandbox, &repository, commit.as_ref())?;
            sandbox.set_attributes(tree.files().to_owned());
            // Uncommitted files are only reported. Finding them takes as long as the checkout, so
            // do both at once.
            let (uncommitted, entries) = thread::scope(|scope| {
                let uncommitted = scope.spawn(|| repository.uncommitted());
                let entries = restore::check_out(&sandbox, &tree, &layout.next_tree());
                (join_thread(uncommitted), entries)
            });
            (tree, uncommitted?, entries?)
        }
        BaseSource::Worktree => {
            let uncommitted = repository.uncommitted()?;
            require_objects(&sandbox, &repository, commit.as_ref())?;
            let files = snapshot(&sandbox, &repository, &uncommitted, &mut warnings)?;
            let base = commit.as_ref().map(|commit| commit.id.as_str());
            // What was only staged is in no commit, and git may collect it.
            sandbox.store.copy_borrowed(&files, base)?;
            let tree = TreeId::new(&files, None)?;
            sandbox.set_attributes(files);
            let entries = restore::check_out(&sandbox, &tree, &layout.next_tree())?;
            (tree, uncommitted, entries)
        }
    };
    let commit = commit.map(|commit| commit.id);
    rename(&layout.next_tree(), &layout.tree())?;
    set_up_agent_git(&sandbox, commit.as_deref(), &tree)?;
    let rules = sandbox.ignore_rules()?;
    let trusted = &marker.trusted_includes;
    warnings.extend(copy_included_files(
        &sandbox, &top_level, &rules, &entries, trusted,
    )?);
    add_repository_warnings(&repository, &uncommitted, marker.base, &mut warnings);
    add_file_warnings(&mut sandbox, &repository, &entries, &mut warnings)?;
    restore::record_file_stats(&mut sandbox, &tree, entries)?;
    Ok(SandboxProperties {
        tree,
        base_commit: commit,
        warnings,
        ..sandbox.properties
    })
}

pub(crate) fn top_level(repository: &UserRepository, resource: &Path) -> SandboxResult<PathBuf> {
    let path = resource.to_owned();
    let Checkout::At(top_level) = &repository.checkout else {
        return Err(SandboxError::Bare { path });
    };
    let resolved = |path: &Path| path.canonicalize().map_err(io_error(path));
    if resolved(resource)? != resolved(top_level)? {
        let top_level = top_level.clone();
        return Err(SandboxError::NotTopLevel { path, top_level });
    }
    resolved(top_level)
}

/// Lets the store read the user's objects, and copies the settings that affect history and files.
pub(crate) fn borrow_objects(
    sandbox: &LocalSandbox,
    repository: &UserRepository,
) -> SandboxResult<()> {
    let dir = &sandbox.store.dir;
    let objects = repository.objects_dir();
    let line = alternates_line(objects.as_os_str().as_bytes());
    replace(&dir.join("objects/info/alternates"), &line)?;
    let common = &repository.common_dir;
    git_files::copy(common, "shallow", &dir.join("shallow"))?;
    git_files::copy(common, "info/attributes", &dir.join("info/attributes"))?;
    let own = &repository.settings.attributes_file;
    copy_if_exists(own, &sandbox.store.user_attributes())?;
    // Later lines win: the repository's own rules override the user's.
    let mut exclude = read_or_empty(&repository.settings.excludes_file)?;
    exclude.push(b'\n');
    exclude.extend(git_files::read(common, "info/exclude")?.unwrap_or_default());
    if has_rules(&exclude) {
        replace(&sandbox.store.exclude(), &exclude)
    } else {
        Ok(())
    }
}

/// Returns whether these rules contain more than comments.
fn has_rules(rules: &[u8]) -> bool {
    let mut lines = rules.split(|byte| *byte == b'\n');
    lines.any(|line| !line.trim_ascii().is_empty() && !line.starts_with(b"#"))
}

/// Returns one line of `info/alternates`. Special characters are quoted as in C.
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

/// Protects the base from garbage collection. The ref of an earlier, killed attempt determines the
/// base, so that a retry creates the same sandbox.
fn pin(sandbox: &LocalSandbox, repository: &UserRepository) -> SandboxResult<Option<Commit>> {
    let name = references::base_ref(sandbox.marker.plan, sandbox.marker.id);
    let _turn = references::lock_repository(&sandbox.locks, repository)?;
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
        // Before the first commit there is nothing to pin. Anything else is an error.
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
    repository: &UserRepository,
    commit: Option<&Commit>,
) -> SandboxResult<TreeId> {
    require_objects(sandbox, repository, commit)?;
    match commit {
        Some(commit) => Ok(TreeId::new(&commit.tree, None)?),
        None => Ok(sandbox.properties.tree.clone()),
    }
}

/// Fails for a partial clone that lacks objects of the commit: they would have to be fetched.
pub(crate) fn require_objects(
    sandbox: &LocalSandbox,
    repository: &UserRepository,
    commit: Option<&Commit>,
) -> SandboxResult<()> {
    let (Some(Commit { id: commit, .. }), ObjectCompleteness::Partial) =
        (commit, repository.settings.objects)
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

/// Copies an index with its modification time. Git uses that time to recheck files changed at the
/// moment the index was written. A newer time would make it trust stale entries.
pub(crate) fn copy_index(from: &Path, to: &Path) -> SandboxResult<()> {
    let written = std::fs::metadata(from)
        .and_then(|facts| facts.modified())
        .map_err(io_error(from))?;
    std::fs::copy(from, to).map_err(io_error(from))?;
    std::fs::File::options()
        .write(true)
        .open(to)
        .and_then(|copy| copy.set_modified(written))
        .map_err(io_error(to))
}

/// Records the user's files as a tree, with a copy of the user's index and our own object store.
/// Writes nothing of the user's.
fn snapshot(
    sandbox: &LocalSandbox,
    repository: &UserRepository,
    uncommitted: &[UncommittedFile],
    warnings: &mut Vec<Warning>,
) -> SandboxResult<String> {
    let view = RepositoryView::new(repository)?;
    let objects = sandbox.store.dir.join("objects");
    let on_copy = |arguments: &[&str]| {
        let call = view.call(arguments.iter().copied());
        call.variable("GIT_OBJECT_DIRECTORY", &objects)
    };
    let (left_out, omitted) = find_excluded_paths(repository, &view, uncommitted)?;
    if !omitted.is_empty() {
        warnings.push(Warning::Omitted(omitted));
    }
    let mut call = on_copy(&["add", "--all"]).setting("core.safecrlf", "false");
    if repository.coverage() == CheckoutCoverage::Sparse {
        call = call.argument("--sparse");
    }
    call = call.arguments(["--", ":/"]);
    for path in left_out {
        let mut pathspec = b":(exclude,literal,top)".to_vec();
        pathspec.extend_from_slice(&path);
        call = call.argument(path_from_bytes(&pathspec));
    }
    call.run()?;
    let tree = on_copy(&["write-tree", "--missing-ok"]).run()?;
    Ok(trimmed_text(&tree))
}

/// Returns paths that stay as committed: submodules, repositories, files whose filter we do not run.
fn find_excluded_paths(
    repository: &UserRepository,
    view: &RepositoryView,
    uncommitted: &[UncommittedFile],
) -> SandboxResult<(Vec<Vec<u8>>, Vec<OmittedPath>)> {
    let submodules = repository.inspect()?.submodules;
    let mut left_out: Vec<Vec<u8>> = submodules.iter().map(path_bytes).collect();
    let mut omitted = Vec::new();
    let paths: Vec<&[u8]> = uncommitted.iter().map(|it| it.path.as_bytes()).collect();
    let found = attributes::query_attributes(|| view.call([]), &paths, &[Attribute::Filter])?;
    for file in uncommitted {
        let attributes = found.get(file.path.as_bytes());
        let why = match file.kind {
            UncommittedKind::UntrackedRepository => OmissionReason::NestedRepository,
            _ if attributes.is_some_and(|it| it.filter().is_some()) => OmissionReason::Filtered,
            _ => continue,
        };
        left_out.push(path_bytes(&file.path));
        let path = file.path.clone();
        omitted.push(OmittedPath { path, why });
    }
    Ok((left_out, omitted))
}

fn path_bytes(path: &ResourcePath) -> Vec<u8> {
    path.as_bytes().to_vec()
}

/// Sets up what an agent's git sees: the base checked out without changes.
fn set_up_agent_git(
    sandbox: &LocalSandbox,
    commit: Option<&str>,
    tree: &TreeId,
) -> SandboxResult<()> {
    write_agent_head(sandbox, commit)?;
    let dir = &sandbox.store.dir;
    let kept = dir.join(format!("index-{}", tree.files()));
    std::fs::copy(&kept, dir.join("index")).map_err(io_error(&kept))?;
    Ok(())
}

/// Not synced: we do not need it, and after a power failure it is created again.
pub(crate) fn write_agent_head(sandbox: &LocalSandbox, commit: Option<&str>) -> SandboxResult<()> {
    let Some(commit) = commit else {
        return Ok(());
    };
    let head = sandbox.store.dir.join("HEAD");
    replace_with_sync(&head, format!("{commit}\n").as_bytes(), Sync::No)
}

fn add_repository_warnings(
    repository: &UserRepository,
    uncommitted: &[UncommittedFile],
    base: BaseSource,
    warnings: &mut Vec<Warning>,
) {
    if base == BaseSource::Head && !uncommitted.is_empty() {
        let paths = uncommitted.iter().map(|it| it.path.clone()).collect();
        warnings.push(Warning::Uncommitted(paths));
    }
    if repository.coverage() == CheckoutCoverage::Sparse {
        warnings.push(Warning::Sparse);
    }
    if repository.history() == HistoryCompleteness::Shallow {
        warnings.push(Warning::Shallow);
    }
}

/// Warns of submodules and filtered files, and sets whether git may store other bytes than the tree
/// has.
pub(crate) fn add_file_warnings(
    sandbox: &mut LocalSandbox,
    repository: &UserRepository,
    entries: &TreeEntries,
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
    if has_attributes || AutoCrlf::from_settings(&sandbox.properties.shaping) == AutoCrlf::On {
        sandbox.properties.conversion = ContentConversion::Possible;
    }
    if !has_attributes {
        return Ok(());
    }
    let paths: Vec<&[u8]> = entries.files.keys().map(Vec::as_slice).collect();
    let found =
        attributes::query_attributes(|| sandbox.store.call([]), &paths, &[Attribute::Filter])?;
    let allowed = &sandbox.store.git.allowed;
    let is_refused = |it: &Attributes| match it.filter() {
        Some(name) => allowed.storable_content(name) == StorableContent::Nothing,
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
    fn a_copied_index_keeps_its_timestamp() {
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
