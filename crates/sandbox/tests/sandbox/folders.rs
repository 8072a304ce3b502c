//! Sandboxes of folders, and how sandboxes are created and discarded.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;

use cleveragents_domain::{BaseSource, ResourceType};
use cleveragents_ports::sandbox::{
    CommitMetadata, DiscardOutcome, OmissionReason, OmittedPath, SandboxError, Sandboxes,
    TouchedPaths, Warning,
};
use cleveragents_ports::stop::StopSignal;

use crate::environment::{
    SandboxTestWorld, append, capture, link, listing, os, path, set_mode, write,
};

#[test]
fn a_folder_is_copied_without_ignored_files() {
    let world = SandboxTestWorld::new();
    let folder = world.path("user");
    let write_in = |name: &str, content: &[u8]| write(&folder.join(name), content);
    write_in("a", b"1\n");
    write_in("run", b"#!/bin/sh\n");
    set_mode(&folder.join("run"), 0o755);
    write(&folder.join(os(b"odd \xff")), b"\0");
    write_in(".gitignore", b"*.log\n");
    write_in(".worktreeinclude", b"keep.log\n");
    write_in("keep.log", b"1\n");
    write_in("x.log", b"1\n");
    write_in("nested/.git/config", b"1\n");
    write_in("nested/n", b"1\n");
    link(&folder.join("link"), "/etc/passwd");
    fs::create_dir_all(folder.join("empty/inner")).unwrap();
    let _socket = UnixListener::bind(folder.join("socket")).unwrap();
    let (created, mut sandbox) =
        world.create_from(&folder, ResourceType::FsDirectory, BaseSource::Worktree);
    let mut expected = listing(&folder);
    for path in ["x.log", "nested/.git", "nested/.git/config", "socket"] {
        expected.remove(path.as_bytes()).unwrap();
    }
    assert_eq!(listing(&created.tree), expected);
    let omitted = [
        ("nested/.git", OmissionReason::NestedRepository),
        ("socket", OmissionReason::Socket),
    ];
    let omitted = omitted.map(|(text, why)| OmittedPath {
        path: path(text),
        why,
    });
    assert_eq!(created.warnings, [Warning::Omitted(omitted.to_vec())]);
    assert_eq!(created.base_commit, None);
    // Nothing is shared with the user's files.
    let inode = |path: &std::path::Path| path.metadata().unwrap().ino();
    assert_ne!(inode(&created.tree.join("a")), inode(&folder.join("a")));

    append(&created.tree.join("a"), b"2\n");
    fs::remove_dir(created.tree.join("empty/inner")).unwrap();
    let captured = capture(&mut *sandbox);
    assert_eq!(captured.changes.len(), 1);
    sandbox.restore(&created.base, &StopSignal::new()).unwrap();
    assert_eq!(listing(&created.tree), expected);
    let base = created.base.clone();
    assert_eq!(
        sandbox
            .capture(&base, &TouchedPaths::Unknown, &StopSignal::new())
            .unwrap()
            .tree,
        base
    );
    let words = CommitMetadata {
        name: "A".into(),
        email: "a@localhost".into(),
        seconds: 0,
        message: "m".into(),
    };
    assert_eq!(
        sandbox.publish(&base, &words, &StopSignal::new()),
        Err(SandboxError::NoRepository)
    );
}

#[test]
fn a_file_is_refused_as_a_folder() {
    let world = SandboxTestWorld::new();
    let file = world.path("file");
    write(&file, b"1\n");
    let new = world.new_sandbox(&file, ResourceType::FsDirectory, BaseSource::Head);
    let error = world.sandboxes.create(&new);
    assert_eq!(error, Err(SandboxError::NotAFolder { path: file }));
}

#[test]
fn creating_a_sandbox_is_idempotent() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n")]);
    let new = world.new_sandbox(&repository, ResourceType::GitCheckout, BaseSource::Head);
    let first = world.sandboxes.create(&new).unwrap();
    append(&first.tree.join("a"), b"work\n");
    world.commit(&repository, &[("a", "later\n")]);
    assert_eq!(world.sandboxes.create(&new).unwrap(), first);
    assert_eq!(fs::read(first.tree.join("a")).unwrap(), b"1\nwork\n");
}

/// What can be on disk if creation is killed: an empty folder, a marker, a half-written store, a
/// half-written tree, and everything except the final marker.
#[test]
fn a_half_created_sandbox_is_recreated_on_the_same_base() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n"), ("b", "1\n")]);
    for point in 0..5 {
        let new = world.new_sandbox(&repository, ResourceType::GitCheckout, BaseSource::Head);
        let made = world.sandboxes.create(&new).unwrap();
        let folder = made.tree.parent().unwrap();
        let marker = fs::read_to_string(folder.join("marker.json")).unwrap();
        let mut value: serde_json::Value = serde_json::from_str(&marker).unwrap();
        value["made"] = serde_json::Value::Null;
        write(&folder.join("marker.json"), value.to_string().as_bytes());
        match point {
            0 => {
                fs::remove_dir_all(folder).unwrap();
                fs::create_dir(folder).unwrap();
            }
            1 => {
                fs::remove_dir_all(folder.join("tree")).unwrap();
                fs::remove_dir_all(folder.join("git")).unwrap();
            }
            2 => fs::remove_dir_all(folder.join("git/objects")).unwrap(),
            3 => fs::rename(&made.tree, folder.join("tree.next")).unwrap(),
            _ => {}
        }
        assert!(world.sandboxes.open(new.id).is_err(), "point {point}");
        world.commit(&repository, &[("a", &format!("later {point}\n"))]);
        assert_eq!(world.sandboxes.create(&new).unwrap(), made, "point {point}");
        let scratch = world.sandboxes.open(new.id).unwrap().scratch().unwrap();
        write(&scratch.join("tmp/left"), b"by a command\n");
        assert_eq!(world.sandboxes.discard(new.id), Ok(DiscardOutcome::Removed));
    }
    assert_eq!(world.sandboxes.list(), Ok(Vec::new()));
    assert_eq!(
        world.git(&repository, &["for-each-ref", "refs/cleveragents"]),
        ""
    );
}

#[test]
fn only_our_own_folder_with_the_right_id_is_removed() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n")]);
    let one = world.new_sandbox(&repository, ResourceType::GitCheckout, BaseSource::Head);
    let other = world.new_sandbox(&repository, ResourceType::GitCheckout, BaseSource::Head);
    let made = world.sandboxes.create(&one).unwrap();
    let folder = made.tree.parent().unwrap().to_owned();
    let root = folder.parent().unwrap().to_owned();
    let stolen = root.join(other.id.to_string());
    assert_eq!(
        world.sandboxes.discard(other.id),
        Ok(DiscardOutcome::Absent)
    );
    let is_foreign = |what: &str| {
        for error in [
            world.sandboxes.discard(other.id).err(),
            world.sandboxes.create(&other).err(),
        ] {
            assert!(
                matches!(error, Some(SandboxError::Foreign { .. })),
                "{what}: {error:?}"
            );
        }
    };
    // A foreign folder, another sandbox's marker, a link to elsewhere, a file.
    write(&stolen.join("precious"), b"1\n");
    is_foreign("no sandbox marker");
    assert!(stolen.join("precious").exists());
    fs::copy(folder.join("marker.json"), stolen.join("marker.json")).unwrap();
    is_foreign("another's marker");
    fs::rename(&stolen, world.path("elsewhere")).unwrap();
    link(&stolen, world.path("elsewhere").to_str().unwrap());
    is_foreign("a link");
    fs::remove_file(&stolen).unwrap();
    write(&stolen, b"a file\n");
    is_foreign("a file");
    assert!(world.path("elsewhere/precious").exists());
    fs::remove_file(&stolen).unwrap();
    assert_eq!(world.sandboxes.list(), Ok(vec![one.id]));
    // The user's repository may be gone by then.
    fs::remove_dir_all(&repository).unwrap();
    assert_eq!(world.sandboxes.discard(one.id), Ok(DiscardOutcome::Removed));
    assert_eq!(world.sandboxes.discard(one.id), Ok(DiscardOutcome::Absent));
    assert!(matches!(
        world.sandboxes.open(one.id),
        Err(SandboxError::NotFound { .. })
    ));
}

#[test]
fn the_scratch_folder_is_removed_with_the_sandbox() {
    let world = SandboxTestWorld::new();
    let folder = world.path("folder");
    write(&folder.join("a"), b"1\n");
    let new = world.new_sandbox(&folder, ResourceType::FsDirectory, BaseSource::Head);
    let created = world.sandboxes.create(&new).unwrap();
    let sandbox = world.sandboxes.open(new.id).unwrap();
    let scratch = sandbox.scratch().unwrap();
    write(&scratch.join("cache/closed/file"), b"1\n");
    set_mode(&scratch.join("cache/closed"), 0o500);
    drop(sandbox);
    assert_eq!(world.sandboxes.discard(new.id), Ok(DiscardOutcome::Removed));
    assert!(!created.tree.parent().unwrap().exists());
}
