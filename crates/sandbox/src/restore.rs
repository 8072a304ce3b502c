//! Restore: the tree is made again beside itself, then swapped.
//!
//! A kill at any point leaves either tree in place and the other recognisable; [`finish`] puts
//! that right before anything else is done with the sandbox.

use std::os::fd::AsFd;
use std::path::Path;
use std::thread;

use cleveragents_beneath::ignore_rules::Entry;
use cleveragents_beneath::reach::make_folder;
use cleveragents_engine::ports::sandbox::{SandboxResult, TreeId};
use rustix::fs::{AtFlags, FileType, statat};

use crate::account::Account;
use crate::beneath::{FileStat, failed, open_root, stat_beneath};
use crate::entries::Entries;
use crate::files::{
    Sync, create_private_folder, failed as io_failed, path_of, remove, replace_quickly,
};
use crate::known::Known;
use crate::limits::CaptureLimits;
use crate::making::joined;
use crate::ownership;
use crate::placing::{move_over, rename};
use crate::sandbox::LocalSandbox;
use crate::walk::Walker;

/// What an agent's own git reads. The host never asks it for anything.
pub(crate) const GIT_FILE: &[u8] = b"gitdir: ../git\n";

pub(crate) fn restore(sandbox: &mut LocalSandbox, tree: &TreeId) -> SandboxResult<()> {
    let next = sandbox.layout.next_tree();
    let entries = check_out(sandbox, tree, &next)?;
    rename(&sandbox.layout.tree(), &sandbox.layout.old_tree())?;
    rename(&next, &sandbox.layout.tree())?;
    finish(sandbox)?;
    note(sandbox, tree, entries)
}

/// Finishes what a killed restore left behind.
pub(crate) fn finish(sandbox: &LocalSandbox) -> SandboxResult<()> {
    let (tree, old) = (sandbox.layout.tree(), sandbox.layout.old_tree());
    let is_there = |path: &Path| path.symlink_metadata().is_ok();
    match (is_there(&tree), is_there(&old)) {
        (false, true) => rename(&old, &tree),
        (true, true) => {
            carry_over(sandbox)?;
            remove(&old)
        }
        (_, false) => Ok(()),
    }
}

/// Makes `tree` in the new folder `target`.
pub(crate) fn check_out(
    sandbox: &LocalSandbox,
    tree: &TreeId,
    target: &Path,
) -> SandboxResult<Entries> {
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
        (joined(files), entries)
    });
    files?;
    let entries = entries?;
    sandbox.store.keep_index(&index, tree.files())?;
    let root = open_root(target)?;
    for path in &entries.empty_directories {
        sandbox.store.check_stop()?;
        make_folder(root.as_fd(), path).map_err(|error| failed(target, error))?;
    }
    replace_quickly(&target.join(".git"), GIT_FILE, Sync::No)?;
    give_to_commands(sandbox, target)?;
    Ok(entries)
}

/// Gives a tree that was just made to the user its commands run as.
pub(crate) fn give_to_commands(sandbox: &LocalSandbox, tree: &Path) -> SandboxResult<()> {
    let account = Account::of_sandbox(&sandbox.layout.folder);
    ownership::give(tree, account).map_err(io_failed(tree))
}

/// Notes how the files of a tree look that was just made and that nobody else has seen yet.
pub(crate) fn note(
    sandbox: &mut LocalSandbox,
    tree: &TreeId,
    mut entries: Entries,
) -> SandboxResult<()> {
    let root = open_root(&sandbox.layout.tree())?;
    let now = sandbox.now()?;
    for (path, entry) in &mut entries.files {
        let stat = statat(&root, path_of(path), AtFlags::SYMLINK_NOFOLLOW);
        let stat = stat.ok().map(|stat| FileStat::from(&stat));
        entry.stat = stat.filter(|stat| stat.changed < now);
    }
    sandbox.known = Some(Known::of(&sandbox.layout.entries(), tree, entries)?);
    Ok(())
}

/// Ignored files are outside the promise, but a build folder is too good to throw away.
fn carry_over(sandbox: &LocalSandbox) -> SandboxResult<()> {
    let (tree, old) = (sandbox.layout.tree(), sandbox.layout.old_tree());
    if !old.symlink_metadata().is_ok_and(|found| found.is_dir()) {
        return Ok(());
    }
    let rules = sandbox.rules()?;
    // What was captured once is no ignored file, whatever the rules say by now.
    let tracked = Known::load(&sandbox.layout.entries())?;
    let tracked = tracked.map(|known| known.entries).unwrap_or_default();
    let stop = &sandbox.store.stop;
    let mut walker = Walker::new(&old, &rules, &tracked)?.bounded(stop, CaptureLimits::NONE);
    walker.all()?;
    let (from, to) = (open_root(&old)?, open_root(&tree)?);
    let nothing = Entries::default();
    let mut target = Walker::new(&tree, &rules, &nothing)?;
    for path in &walker.walked.ignored {
        sandbox.store.check_stop()?;
        let stat = stat_beneath(from.as_fd(), path).ok();
        let entry = match stat.is_some_and(|stat| stat.kind() == FileType::Directory) {
            true => Entry::Directory,
            false => Entry::Other,
        };
        // Where the rules are gone it would be a new file of the restored tree.
        if target.would_ignore(path, entry)? {
            move_over(from.as_fd(), to.as_fd(), path);
        }
    }
    Ok(())
}
