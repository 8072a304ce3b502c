//! The host obeys nothing that an agent writes, and nothing outside its tree changes.

use std::fs;
use std::path::Path;

use cleveragents_ports::sandbox::{CommitMetadata, Sandbox, TouchedPaths};
use cleveragents_ports::stop::StopSignal;

use crate::environment::{SandboxTestWorld, append, capture, link, listing, script, write};

/// Everything a host may do with a sandbox.
fn use_sandbox_fully(sandbox: &mut dyn Sandbox) {
    let base = sandbox.base().clone();
    let captured = capture(sandbox);
    sandbox
        .diff(&base, &captured.tree, &[], &StopSignal::new())
        .unwrap();
    sandbox.restore(&captured.tree, &StopSignal::new()).unwrap();
    let again = sandbox
        .capture(&base, &TouchedPaths::Unknown, &StopSignal::new())
        .unwrap();
    assert_eq!(again.tree, captured.tree);
    let words = CommitMetadata {
        name: "A".into(),
        email: "a@localhost".into(),
        seconds: 0,
        message: "m".into(),
    };
    sandbox
        .publish(&captured.tree, &words, &StopSignal::new())
        .unwrap();
}

/// A configuration that runs `program` wherever git can be configured to.
fn evil_configuration(program: &Path) -> String {
    let program = program.display();
    let hooks = Path::new("hooks").display();
    format!(
        "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = {program}\n\thooksPath = {hooks}\n\
         \tpager = {program}\n\tsshCommand = {program}\n\talternateRefsCommand = {program}\n\
         \teditor = {program}\n\taskPass = {program}\n\
         [filter \"evil\"]\n\tclean = {program}\n\tsmudge = {program}\n\tprocess = {program}\n\
         [diff]\n\texternal = {program}\n[diff \"evil\"]\n\tcommand = {program}\n\ttextconv = {program}\n\
         [merge \"evil\"]\n\tdriver = {program}\n[gpg]\n\tprogram = {program}\n[commit]\n\tgpgSign = true\n\
         [credential]\n\thelper = {program}\n[alias]\n\tdiff-tree = !{program}\n"
    )
}

#[test]
fn nothing_an_agent_writes_is_executed() {
    let world = SandboxTestWorld::new();
    let files = [
        ("a", "1\n"),
        ("dir/b", "1\n"),
        (".gitattributes", "*.txt text\n"),
        ("c.txt", "1\n"),
    ];
    let repository = world.repository("user", &files);
    let state = world.state_of(&repository);
    let ran = world.path("ran");
    let evil = world.path("evil");
    script(
        &evil,
        &format!("#!/bin/sh\ntouch '{}'\ncat\n", ran.display()),
    );
    let configuration = evil_configuration(&evil);
    for (what, plant) in config_plants() {
        let (created, mut sandbox) = world.create(&repository);
        let tree = &created.tree;
        write(
            &tree.join(".gitattributes"),
            b"* filter=evil diff=evil merge=evil ident text eol=crlf\n",
        );
        let modules = format!(
            "[submodule \"x\"]\n\tpath = x\n\turl = ext::{}\n",
            evil.display()
        );
        write(&tree.join(".gitmodules"), modules.as_bytes());
        append(&tree.join("a"), b"2\n");
        append(&tree.join("c.txt"), b"$Id$\n");
        write(&tree.join("new"), b"1\n");
        plant(tree, &configuration, &evil);
        use_sandbox_fully(&mut *sandbox);
        assert!(!ran.exists(), "{what}: something was run");
        // With a filter on all files of the store, none may change.
        let expected: &[u8] = if what == "the store's own configuration" {
            b"1\n"
        } else {
            b"1\n$Id$\n"
        };
        assert_eq!(fs::read(tree.join("c.txt")).unwrap(), expected, "{what}");
    }
    assert_eq!(world.state_of(&repository), state);
    world.git(&repository, &["fsck", "--full"]);
}

type PlantConfig = fn(&Path, &str, &Path);

/// Ways to make git read a configuration: by what an agent may write, and by what it should not be
/// able to write.
fn config_plants() -> Vec<(&'static str, PlantConfig)> {
    vec![
        (
            "a repository in place of the link",
            |tree, configuration, evil| {
                fs::remove_file(tree.join(".git")).unwrap();
                plant_repository(&tree.join(".git"), configuration, evil);
            },
        ),
        (
            "another repository linked to",
            |tree, configuration, evil| {
                plant_repository(&tree.join("fake"), configuration, evil);
                write(&tree.join(".git"), b"gitdir: fake\n");
            },
        ),
        (
            "a link in place of the file",
            |tree, configuration, evil| {
                plant_repository(&tree.join("fake"), configuration, evil);
                fs::remove_file(tree.join(".git")).unwrap();
                link(&tree.join(".git"), "fake");
            },
        ),
        ("a nested repository", |tree, configuration, evil| {
            plant_repository(&tree.join("dir/.git"), configuration, evil);
        }),
        (
            "the store's own configuration",
            |tree, configuration, evil| {
                plant_repository(&tree.join("../git"), configuration, evil);
                write(
                    &tree.join("../git/info/attributes"),
                    b"* filter=evil diff=evil\n",
                );
            },
        ),
        (
            "a common directory for the store",
            |tree, configuration, evil| {
                plant_repository(&tree.join("fake"), configuration, evil);
                write(&tree.join("../git/commondir"), b"../tree/fake\n");
            },
        ),
    ]
}

fn plant_repository(path: &Path, configuration: &str, evil: &Path) {
    write(&path.join("config"), configuration.as_bytes());
    if !path.join("HEAD").exists() {
        write(&path.join("HEAD"), b"ref: refs/heads/main\n");
    }
    fs::create_dir_all(path.join("objects")).unwrap();
    fs::create_dir_all(path.join("refs")).unwrap();
    let hooks = [
        "post-index-change",
        "reference-transaction",
        "post-checkout",
        "pre-commit",
    ];
    for hook in hooks {
        fs::create_dir_all(path.join("hooks")).unwrap();
        fs::copy(evil, path.join("hooks").join(hook)).unwrap();
    }
}

#[test]
fn a_link_is_captured_as_a_link_and_never_followed() {
    let world = SandboxTestWorld::new();
    let repository = world.repository(
        "user",
        &[("dir/a", "1\n"), ("file", "1\n"), (".gitignore", "*.o\n")],
    );
    let outside = world.path("outside");
    write(&outside.join("a"), b"secret\n");
    write(&outside.join("sub/b"), b"secret\n");
    write(&outside.join(".gitignore"), b"*\n");
    let before = listing(&outside);
    let (created, mut sandbox) = world.create(&repository);
    let tree = &created.tree;
    let text = outside.to_str().unwrap();
    write(&tree.join("dir/x.o"), b"ignored\n");
    let earlier = capture(&mut *sandbox).tree;
    fs::rename(tree.join("dir"), tree.join("moved")).unwrap();
    link(&tree.join("dir"), text);
    fs::remove_file(tree.join("file")).unwrap();
    link(&tree.join("file"), outside.join("a").to_str().unwrap());
    link(
        &tree.join(".gitattributes"),
        outside.join("a").to_str().unwrap(),
    );
    fs::remove_file(tree.join(".gitignore")).unwrap();
    link(
        &tree.join(".gitignore"),
        outside.join(".gitignore").to_str().unwrap(),
    );
    write(&tree.join("x.o"), b"no longer ignored\n");
    let captured = capture(&mut *sandbox);
    let message = captured.changes.iter().map(|it| it.path.to_string());
    let message: Vec<String> = message.collect();
    let expected = [
        ".gitattributes",
        ".gitignore",
        "dir",
        "file",
        "moved/a",
        "moved/x.o",
        "x.o",
    ];
    assert_eq!(message, expected);
    let diff = sandbox
        .diff(&earlier, &captured.tree, &[], &StopSignal::new())
        .unwrap();
    assert!(!String::from_utf8_lossy(&diff.patch).contains("secret"));
    // From a tree where `dir` is a link to one where it is a folder, and back.
    let expected = listing(tree);
    sandbox.restore(&earlier, &StopSignal::new()).unwrap();
    write(&tree.join("dir/y.o"), b"ignored\n");
    sandbox.restore(&captured.tree, &StopSignal::new()).unwrap();
    assert_eq!(listing(tree), expected);
    assert_eq!(listing(&outside), before);
    fs::remove_dir_all(tree).unwrap();
    link(tree, text);
    let base = &created.base;
    let refused = sandbox.capture(base, &TouchedPaths::Unknown, &StopSignal::new());
    assert!(refused.is_err());
    sandbox.restore(base, &StopSignal::new()).unwrap();
    assert_eq!(listing(tree), listing(&repository));
    assert_eq!(listing(&outside), before);
}

/// A file and a link to a secret are swapped as fast as possible while captures run.
#[test]
fn swapping_a_file_for_a_link_leaks_nothing() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n")]);
    let secret = world.path("secret");
    write(&secret, b"secret\n");
    let (created, mut sandbox) = world.create(&repository);
    let (file, other) = (created.tree.join("swapped"), created.tree.join("other"));
    write(&file, b"plain\n");
    link(&other, secret.to_str().unwrap());
    let done = std::sync::atomic::AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                let aside = created.tree.join("../aside");
                fs::rename(&file, &aside).unwrap();
                fs::rename(&other, &file).unwrap();
                fs::rename(&aside, &other).unwrap();
            }
        });
        let mut seen = Vec::new();
        for _ in 0..60 {
            let base = sandbox.base().clone();
            // A concurrent change may be reported as an error, but the secret is never recorded.
            if let Ok(captured) = sandbox.capture(&base, &TouchedPaths::Unknown, &StopSignal::new())
            {
                let states = captured.changes.into_iter().filter_map(|it| it.after);
                seen.extend(states.map(|state| state.hash));
            }
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        seen
    });
    assert!(!seen.contains(&blake3::hash(b"secret\n").to_hex().to_string()));
    assert!(seen.contains(&blake3::hash(b"plain\n").to_hex().to_string()));
}
