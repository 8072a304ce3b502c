//! Restores a tree: builds it beside the current one, then swaps both.
//!
//! A kill at any point leaves one tree in place and the other recognisable; [`finish_interrupted`]
//! repairs that before anything else is done with the sandbox.

use std::os::fd::AsFd;
use std::path::Path;
use std::thread;

use cleveragents_ports::sandbox::{SandboxResult, TreeId};
use cleveragents_safe_fs::file_access::make_folder;
use cleveragents_safe_fs::ignore_rules::IgnoreEntryKind;
use rustix::fs::{AtFlags, FileType, statat};

use crate::account::SandboxAccount;
use crate::captured_tree::CapturedTree;
use crate::entries::TreeEntries;
use crate::files::{
    Sync, create_private_folder, io_error as io_failed, path_from_bytes, remove, replace_with_sync,
};
use crate::limits::CaptureLimits;
use crate::make_common::join_thread;
use crate::ownership;
use crate::safe_fs::{FileStat, errno_error, open_root, stat_at};
use crate::sandbox::LocalSandbox;
use crate::tree_files::{move_between, rename};
use crate::walk::SandboxWalker;

/// The `.git` file for the agent's own git. The host never reads it.
pub(crate) const GIT_FILE: &[u8] = b"gitdir: ../git\n";

pub(crate) fn restore(sandbox: &mut LocalSandbox, tree: &TreeId) -> SandboxResult<()> {
    let next = sandbox.layout.next_tree();
    let entries = check_out(sandbox, tree, &next)?;
    // A kill between the renames leaves no current tree; `finish_interrupted` puts the old one back.
    rename(&sandbox.layout.tree(), &sandbox.layout.old_tree())?;
    rename(&next, &sandbox.layout.tree())?;
    finish_interrupted(sandbox)?;
    record_file_stats(sandbox, tree, entries)
}

/// Finishes a restore that was killed.
pub(crate) fn finish_interrupted(sandbox: &LocalSandbox) -> SandboxResult<()> {
    let (tree, old) = (sandbox.layout.tree(), sandbox.layout.old_tree());
    let is_there = |path: &Path| path.symlink_metadata().is_ok();
    match (is_there(&tree), is_there(&old)) {
        (false, true) => rename(&old, &tree),
        (true, true) => {
            move_ignored_files(sandbox)?;
            remove(&old)
        }
        (_, false) => Ok(()),
    }
}

/// Writes `tree` into the new folder `target`.
pub(crate) fn check_out(
    sandbox: &LocalSandbox,
    tree: &TreeId,
    target: &Path,
) -> SandboxResult<TreeEntries> {
    remove(target)?;
    create_private_folder(target)?;
    let index = sandbox.store.next_index()?;
    let call = sandbox
        .store
        .call(["read-tree", "--reset", "-u", tree.files()]);
    let call = call.index(&index).work_tree(target);
    let (files, entries) = thread::scope(|scope| {
        let files = scope.spawn(|| call.run());
        let entries = sandbox.store.entries_of(tree);
        (join_thread(files), entries)
    });
    files?;
    let entries = entries?;
    sandbox.store.keep_index(&index, tree.files())?;
    let root = open_root(target)?;
    for path in &entries.empty_directories {
        sandbox.store.check_stop()?;
        make_folder(root.as_fd(), path).map_err(|error| errno_error(target, error))?;
    }
    replace_with_sync(&target.join(".git"), GIT_FILE, Sync::No)?;
    chown_for_commands(sandbox, target)?;
    Ok(entries)
}

/// Gives a newly created tree to the user its commands run as.
pub(crate) fn chown_for_commands(sandbox: &LocalSandbox, tree: &Path) -> SandboxResult<()> {
    let account = SandboxAccount::for_sandbox(&sandbox.layout.folder);
    ownership::chown_tree(tree, account).map_err(io_failed(tree))
}

/// Records the stats of files in a new tree that no other process has accessed yet.
pub(crate) fn record_file_stats(
    sandbox: &mut LocalSandbox,
    tree: &TreeId,
    mut entries: TreeEntries,
) -> SandboxResult<()> {
    let root = open_root(&sandbox.layout.tree())?;
    let now = sandbox.filesystem_time()?;
    for (path, entry) in &mut entries.files {
        let stat = statat(&root, path_from_bytes(path), AtFlags::SYMLINK_NOFOLLOW);
        let stat = stat.ok().map(|stat| FileStat::from(&stat));
        // A file changed in this clock tick could change again without a different stat.
        entry.stat = stat.filter(|stat| stat.changed < now);
    }
    sandbox.captured = Some(CapturedTree::create(
        &sandbox.layout.entries(),
        tree,
        entries,
    )?);
    Ok(())
}

/// Restoring does not promise to keep ignored files, but a build folder is worth keeping.
fn move_ignored_files(sandbox: &LocalSandbox) -> SandboxResult<()> {
    let (tree, old) = (sandbox.layout.tree(), sandbox.layout.old_tree());
    if !old.symlink_metadata().is_ok_and(|found| found.is_dir()) {
        return Ok(());
    }
    let rules = sandbox.ignore_rules()?;
    // A path that was captured once is not an ignored file, whatever the rules say now.
    let tracked = CapturedTree::load(&sandbox.layout.entries())?;
    let tracked = tracked.map(|known| known.entries).unwrap_or_default();
    let stop = &sandbox.store.stop;
    let mut walker = SandboxWalker::new(&old, &rules, &tracked)?.bounded(stop, CaptureLimits::NONE);
    walker.walk_all()?;
    let (from, to) = (open_root(&old)?, open_root(&tree)?);
    let nothing = TreeEntries::default();
    let mut target = SandboxWalker::new(&tree, &rules, &nothing)?;
    for path in &walker.result.ignored {
        sandbox.store.check_stop()?;
        let stat = stat_at(from.as_fd(), path).ok();
        let entry = if stat.is_some_and(|stat| stat.kind() == FileType::Directory) {
            IgnoreEntryKind::Directory
        } else {
            IgnoreEntryKind::Other
        };
        // Without a matching rule it would be a new file of the restored tree.
        if target.would_ignore(path, entry)? {
            move_between(from.as_fd(), to.as_fd(), path);
        }
    }
    Ok(())
}
