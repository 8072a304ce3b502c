//! Which git directories are used for a folder, and which of their files.

use std::fs;
use std::path::Path;

use cleveragents_domain::{BaseSource, ResourceType};
use cleveragents_ports::sandbox::{SandboxError, Sandboxes};
use cleveragents_sandbox::{GitSettings, LocalSandboxes};

use crate::environment::{SandboxTestWorld, git_settings, link, script, write};

/// A folder of foreign origin may name any repository of the machine as its own.
#[test]
fn a_git_directory_of_another_folder_is_refused() {
    let world = SandboxTestWorld::new();
    let other = world.repository("other", &[("a", "1\n")]);
    let git_dir = other.join(".git");
    let line = |start: &str| format!("{start}{}\n", git_dir.display()).into_bytes();
    let evil = |name: &str| world.repository(name, &[("a", "1\n")]);

    let by_file = world.path("by-file");
    write(&by_file.join(".git"), &line("gitdir: "));
    let by_link = world.path("by-link");
    fs::create_dir(&by_link).unwrap();
    std::os::unix::fs::symlink(&git_dir, by_link.join(".git")).unwrap();
    let by_common = evil("by-common");
    write(&by_common.join(".git/commondir"), &line(""));
    let by_setting = evil("by-setting");
    let target = other.to_str().unwrap();
    world.git(&by_setting, &["config", "core.worktree", target]);
    fs::create_dir(world.path("around")).unwrap();
    let around = evil("around/inner");
    let parent = around.parent().unwrap().to_str().unwrap();
    world.git(&around, &["config", "core.worktree", parent]);
    for folder in [by_file, by_link, by_common, by_setting, around] {
        let error = world.sandboxes.inspect(&folder).unwrap_err();
        let is_refused = matches!(error, SandboxError::Refused { .. });
        assert!(is_refused, "{}: {error:?}", folder.display());
    }
}

#[test]
fn separate_git_directories_that_name_their_folder_work() {
    let world = SandboxTestWorld::new();
    let inner = world.repository("inner", &[("b", "1\n")]);
    let outer = world.repository("outer", &[("a", "1\n")]);
    let add = [
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
    ];
    let add = [&add[..], &[inner.to_str().unwrap(), "sub"]].concat();
    world.git(&outer, &add);
    world.sandboxes.inspect(&outer.join("sub")).unwrap();

    let apart = world.repository("apart", &[("a", "1\n")]);
    let kept = world.path("kept.git");
    world.git(
        &apart,
        &["init", "-q", "--separate-git-dir", kept.to_str().unwrap()],
    );
    let error = world.sandboxes.inspect(&apart).unwrap_err().to_string();
    assert!(error.contains("core.worktree"), "{error}");
    world.git(
        &apart,
        &["config", "core.worktree", apart.to_str().unwrap()],
    );
    world.sandboxes.inspect(&apart).unwrap();
}

/// What git uses by name in a git directory must be inside it: a link could lead into another
/// repository, or to any file.
#[test]
fn a_git_directory_with_links_out_of_it_is_refused() {
    let world = SandboxTestWorld::new();
    let other = world.repository("other", &[("private", "1\n")]);
    for (place, name) in [
        "objects",
        "objects/pack",
        "refs",
        "refs/heads",
        "refs/cleveragents",
        "logs",
        "logs/HEAD",
        "logs/refs/heads",
        "index",
        "packed-refs",
        "config",
    ]
    .into_iter()
    .enumerate()
    {
        let repository = world.repository(&format!("user-{place}"), &[("a", "1\n")]);
        let path = repository.join(".git").join(name);
        let target = other.join(".git").join(name);
        if !target.exists() {
            fs::create_dir(&target).unwrap();
        }
        if path.exists() {
            fs::rename(&path, world.path(&format!("before-{place}"))).unwrap();
        }
        link(&path, target.to_str().unwrap());
        let refused = world.sandboxes.inspect(&repository).unwrap_err();
        assert!(
            matches!(&refused, SandboxError::Foreign { path: named, .. } if *named == path),
            "{name}: {refused:?}"
        );
        // Git would also follow a dangling link when it creates the file.
        fs::remove_file(&path).unwrap();
        link(&path, world.path("nothing").to_str().unwrap());
        world.sandboxes.inspect(&repository).unwrap_err();
    }
}

#[test]
fn links_that_stay_in_their_git_directory_are_followed() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n")]);
    // A symbolic `HEAD`, as old versions of git wrote it.
    let head = repository.join(".git/HEAD");
    fs::remove_file(&head).unwrap();
    link(&head, "refs/heads/main");
    world.try_create(&repository, BaseSource::Head).unwrap();
}

#[test]
fn a_ref_is_not_written_through_a_link() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n")]);
    let new = world.new_sandbox(&repository, ResourceType::GitCheckout, BaseSource::Head);
    let outside = world.path("outside");
    fs::create_dir(&outside).unwrap();
    let base = repository.join(".git/refs/cleveragents/base");
    fs::create_dir_all(&base).unwrap();
    link(&base.join(new.plan.to_string()), outside.to_str().unwrap());
    let refused = world.sandboxes.create(&new).unwrap_err();
    assert!(
        matches!(refused, SandboxError::Foreign { .. }),
        "{refused:?}"
    );
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
}

/// A killed git must not be taken for one that answers no.
#[test]
fn a_killed_git_is_an_error() {
    let mut world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n")]);
    let (draft, program) = (world.path("draft"), world.path("killed"));
    for command in ["symbolic-ref", "HEAD^{commit}"] {
        let text = format!(
            "#!/bin/sh\nfor argument; do test \"$argument\" = '{command}' && kill -9 $$; done\n\
             exec git \"$@\"\n"
        );
        script(&draft, &text);
        // Written by another process, so that no child started meanwhile has it open.
        let copy = ["-p", draft.to_str().unwrap(), program.to_str().unwrap()];
        assert!(world.command(Path::new("/"), "cp", &copy).status.success());
        let settings = GitSettings {
            program: program.clone(),
            ..git_settings(world.path("home"))
        };
        world.sandboxes = LocalSandboxes::open(&world.path("data"), settings).unwrap();
        let error = world.sandboxes.inspect(&repository).unwrap_err();
        assert!(
            matches!(&error, SandboxError::Git { status, .. } if status == "signal 9"),
            "{command}: {error:?}"
        );
    }
}

#[test]
fn links_in_a_git_directory_are_refused_and_not_read() {
    for name in ["info/exclude", "info/attributes", "info"] {
        let world = SandboxTestWorld::new();
        let repository = world.repository("user", &[("a", "1\n")]);
        let outside = world.path("outside");
        write(&outside.join("exclude"), b"*.mine\n");
        write(&outside.join("attributes"), b"* filter=lfs\n");
        let target = match name {
            "info" => outside.clone(),
            name => outside.join(name.trim_start_matches("info/")),
        };
        let place = repository.join(".git").join(name);
        let before = world.path("before");
        if place.exists() {
            fs::rename(&place, &before).unwrap();
        }
        link(&place, target.to_str().unwrap());
        for base in [BaseSource::Head, BaseSource::Worktree] {
            let refused = world.try_create(&repository, base).unwrap_err();
            let SandboxError::Foreign { path, reason } = refused else {
                panic!("{refused:?}");
            };
            assert_eq!(path, place, "{base:?}");
            assert!(reason.contains("Put a copy"), "{reason}");
        }
        // Does what the error message advises.
        fs::remove_file(&place).unwrap();
        let arguments = ["-r", target.to_str().unwrap(), place.to_str().unwrap()];
        let copied = world.command(&repository, "cp", &arguments);
        assert!(copied.status.success());
        world.try_create(&repository, BaseSource::Head).unwrap();
    }
}
