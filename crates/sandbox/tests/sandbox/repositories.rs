//! Repositories of every kind: how they are reported, and what a sandbox of them contains.

use std::fs;
use std::path::Path;

use cleveragents_domain::{BaseSource, FileOperation, ResourceType};
use cleveragents_ports::sandbox::{
    Checkout, CheckoutCoverage, HistoryCompleteness, Inspection, NewSandbox, ObjectCompleteness,
    ObjectFormat, OmissionReason, OmittedPath, RepositoryHead, Sandbox, SandboxError, Sandboxes,
    TouchedPaths, UncommittedKind, Warning,
};
use cleveragents_ports::stop::StopSignal;

use crate::environment::{SandboxTestWorld, capture, link, listing, path, paths, write};

fn inspect(world: &SandboxTestWorld, path: &Path) -> Inspection {
    world.sandboxes.inspect(path).unwrap()
}

/// Uses the sandbox once: captures a change and restores the base.
fn check_capture_and_restore(sandbox: &mut dyn Sandbox) {
    let before = listing(sandbox.tree());
    write(&sandbox.tree().join("new/file"), b"new\n");
    let base = sandbox.base().clone();
    let captured = capture(sandbox);
    assert_eq!(captured.changes.len(), 1);
    sandbox.restore(&base, &StopSignal::new()).unwrap();
    assert_eq!(listing(sandbox.tree()), before);
    let again = sandbox
        .capture(&base, &TouchedPaths::Unknown, &StopSignal::new())
        .unwrap();
    assert_eq!((again.tree, again.changes), (base, Vec::new()));
    sandbox.restore(&captured.tree, &StopSignal::new()).unwrap();
    assert!(sandbox.tree().join("new/file").exists());
}

#[test]
fn an_ordinary_repository() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n"), ("dir/b", "2\n")]);
    let state = world.state_of(&repository);
    let inspection = inspect(&world, &repository);
    assert_eq!(inspection.checkout, Checkout::At(repository.clone()));
    assert_eq!(inspection.git_dir, repository.join(".git"));
    assert_eq!(inspection.object_format, ObjectFormat::Sha1);
    let commit = world.git(&repository, &["rev-parse", "HEAD"]);
    let reference = "refs/heads/main".to_owned();
    assert_eq!(
        inspection.head,
        RepositoryHead::Branch {
            reference,
            commit: commit.clone()
        }
    );
    assert_eq!(inspection.history, HistoryCompleteness::Complete);
    assert_eq!(inspection.objects, ObjectCompleteness::Complete);
    assert_eq!(inspection.coverage, CheckoutCoverage::Complete);
    assert_eq!(inspection.uncommitted, []);
    let (created, mut sandbox) = world.create(&repository);
    assert_eq!(created.base_commit, Some(commit));
    assert_eq!(created.warnings, []);
    assert_eq!(listing(&created.tree), listing(&repository));
    assert_eq!(
        created.base.files(),
        world.git(&repository, &["rev-parse", "HEAD^{tree}"])
    );
    check_capture_and_restore(&mut *sandbox);
    assert_eq!(world.state_of(&repository), state);
}

#[test]
fn an_agent_can_read_history_with_its_own_git() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n")]);
    let (created, _) = world.create(&repository);
    // If root runs the tests, the tree belongs to another user, whose home has this setting.
    let git = |arguments: &[&str]| {
        let arguments = [&["-c", "safe.directory=*"], arguments].concat();
        world.git(&created.tree, &arguments)
    };
    assert_eq!(git(&["status", "--porcelain"]), "");
    assert!(git(&["log", "--oneline"]).contains("a commit"));
    write(&created.tree.join("a"), b"2\n");
    assert!(git(&["diff"]).contains("+2"));
}

#[test]
fn a_folder_that_is_no_repository_or_not_its_top_is_refused_by_name() {
    let world = SandboxTestWorld::new();
    let plain = world.path("plain");
    fs::create_dir(&plain).unwrap();
    let error = world.try_create(&plain, BaseSource::Head);
    assert_eq!(
        error,
        Err(SandboxError::NotARepository {
            path: plain.clone()
        })
    );
    assert!(world.sandboxes.inspect(&plain.join("absent")).is_err());
    let repository = world.repository("user", &[("dir/a", "1\n")]);
    let error = world
        .try_create(&repository.join("dir"), BaseSource::Head)
        .unwrap_err();
    assert!(
        matches!(&error, SandboxError::NotTopLevel { top_level, .. } if *top_level == repository)
    );
    let file = repository.join("dir/a");
    assert_eq!(
        world.sandboxes.inspect(&file),
        Err(SandboxError::NotAFolder { path: file })
    );
}

#[test]
fn a_bare_repository_is_refused_by_name() {
    let world = SandboxTestWorld::new();
    let repository = world.init("user", &["--bare"]);
    let inspection = inspect(&world, &repository);
    assert_eq!(inspection.checkout, Checkout::Bare);
    let error = world.try_create(&repository, BaseSource::Head);
    assert_eq!(error, Err(SandboxError::Bare { path: repository }));
}

#[test]
fn before_the_first_commit_the_base_is_empty() {
    let world = SandboxTestWorld::new();
    let repository = world.init("user", &[]);
    write(&repository.join("untracked"), b"1\n");
    let inspection = inspect(&world, &repository);
    assert!(matches!(inspection.head, RepositoryHead::Unborn { .. }));
    let (created, mut sandbox) = world.create(&repository);
    assert_eq!(created.base_commit, None);
    assert_eq!(
        created.warnings,
        [Warning::Uncommitted(paths(&["untracked"]))]
    );
    assert_eq!(listing(&created.tree).len(), 0);
    check_capture_and_restore(&mut *sandbox);
    let base = BaseSource::Worktree;
    let created = world.try_create(&repository, base).unwrap();
    assert_eq!(listing(&created.tree), listing(&repository));
}

#[test]
fn detached_shallow_and_linked_repositories_work() {
    let world = SandboxTestWorld::new();
    let origin = world.repository("origin", &[("a", "1\n")]);
    world.commit(&origin, &[("a", "2\n")]);
    let url = format!("file://{}", origin.display());
    world.git(
        &world.path(""),
        &["clone", "-q", "--depth=1", &url, "shallow"],
    );
    let shallow = world.path("shallow");
    assert_eq!(
        inspect(&world, &shallow).history,
        HistoryCompleteness::Shallow
    );
    let (created, mut sandbox) = world.create(&shallow);
    assert_eq!(created.warnings, [Warning::Shallow]);
    check_capture_and_restore(&mut *sandbox);

    let linked = world.path("linked");
    let text = linked.to_str().unwrap();
    world.git(
        &origin,
        &["worktree", "add", "-q", "--detach", text, "HEAD~1"],
    );
    let inspection = inspect(&world, &linked);
    assert!(matches!(inspection.head, RepositoryHead::Detached { .. }));
    assert_eq!(inspection.common_dir, origin.join(".git"));
    assert_ne!(inspection.git_dir, inspection.common_dir);
    let (created, mut sandbox) = world.create(&linked);
    assert_eq!(fs::read(created.tree.join("a")).unwrap(), b"1\n");
    check_capture_and_restore(&mut *sandbox);
}

#[test]
fn a_repository_that_borrows_objects_itself_works() {
    let world = SandboxTestWorld::new();
    let origin = world.repository("origin", &[("a", "1\n")]);
    let text = origin.to_str().unwrap();
    world.git(
        &world.path(""),
        &["clone", "-q", "--shared", text, "borrower #\"1\" é"],
    );
    let borrower = world.path("borrower #\"1\" é");
    let (created, mut sandbox) = world.create(&borrower);
    assert_eq!(listing(&created.tree), listing(&origin));
    check_capture_and_restore(&mut *sandbox);
}

#[test]
fn sha256_works() {
    let world = SandboxTestWorld::new();
    let repository = world.init("user", &["--object-format=sha256"]);
    world.commit(&repository, &[("a", "1\n")]);
    assert_eq!(
        inspect(&world, &repository).object_format,
        ObjectFormat::Sha256
    );
    let (created, mut sandbox) = world.create(&repository);
    assert_eq!(created.base.files().len(), 64);
    check_capture_and_restore(&mut *sandbox);
    fs::remove_file(created.tree.join("a")).unwrap();
    assert_eq!(capture(&mut *sandbox).changes.len(), 2);
}

#[test]
fn a_partial_clone_works_with_its_objects_and_is_refused_by_name_without() {
    let world = SandboxTestWorld::new();
    let origin = world.repository("origin", &[("a", "1\n"), ("b", "2\n")]);
    world.git(&origin, &["config", "uploadpack.allowFilter", "true"]);
    let url = format!("file://{}", origin.display());
    let arguments = ["clone", "-q", "--filter=blob:none", &url, "whole"];
    world.git(&world.path(""), &arguments);
    let whole = world.path("whole");
    assert_eq!(inspect(&world, &whole).objects, ObjectCompleteness::Partial);
    let (_, mut sandbox) = world.create(&whole);
    check_capture_and_restore(&mut *sandbox);
    let arguments = [
        "clone",
        "-q",
        "--no-checkout",
        "--filter=blob:none",
        &url,
        "holes",
    ];
    world.git(&world.path(""), &arguments);
    let error = world.try_create(&world.path("holes"), BaseSource::Head);
    assert!(
        matches!(error, Err(SandboxError::MissingObjects { count: 2, .. })),
        "{error:?}"
    );
}

#[test]
fn a_sparse_checkout_becomes_a_whole_one() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("in/a", "1\n"), ("out/b", "2\n")]);
    world.git(&repository, &["sparse-checkout", "set", "in"]);
    assert!(!repository.join("out/b").exists());
    assert_eq!(
        inspect(&world, &repository).coverage,
        CheckoutCoverage::Sparse
    );
    for base in [BaseSource::Head, BaseSource::Worktree] {
        let created = world.try_create(&repository, base).unwrap();
        assert_eq!(created.warnings, [Warning::Sparse]);
        assert!(created.tree.join("out/b").exists(), "{base:?}");
    }
}

#[test]
fn submodules_are_kept_as_they_are_without_their_files() {
    let world = SandboxTestWorld::new();
    let inner = world.repository("inner", &[("i", "1\n")]);
    let repository = world.repository("user", &[("a", "1\n")]);
    let allow = "protocol.file.allow=always";
    let arguments = [
        "-c",
        allow,
        "submodule",
        "--quiet",
        "add",
        inner.to_str().unwrap(),
        "sub",
    ];
    world.git(&repository, &arguments);
    world.commit(&repository, &[]);
    assert_eq!(inspect(&world, &repository).submodules, paths(&["sub"]));
    let (created, mut sandbox) = world.create(&repository);
    assert_eq!(created.warnings, [Warning::Submodules(paths(&["sub"]))]);
    assert!(created.tree.join("sub").is_dir());
    assert!(!created.tree.join("sub/i").exists());
    write(&created.tree.join("sub/new"), b"1\n");
    let captured = capture(&mut *sandbox);
    let omitted = OmittedPath {
        path: path("sub"),
        why: OmissionReason::Submodule,
    };
    assert_eq!(
        (captured.changes, captured.omitted),
        (Vec::new(), vec![omitted])
    );
    fs::remove_dir_all(created.tree.join("sub")).unwrap();
    let removed = capture(&mut *sandbox);
    assert_eq!(removed.omitted, []);
    let message: Vec<_> = removed
        .changes
        .iter()
        .map(|it| it.operation.clone())
        .collect();
    assert_eq!(message, [FileOperation::Delete]);
    assert_eq!(removed.changes[0].path, path("sub"));
    let names = ["ls-tree", "-r", "--name-only", removed.tree.files()];
    let git = created.tree.parent().unwrap().join("git");
    assert_eq!(world.git(&git, &names), ".gitmodules\na");
    let gone = sandbox
        .net_changes(&created.base, &removed.tree, &StopSignal::new())
        .unwrap();
    assert_eq!(gone.len(), 1);
    assert!(gone[0].before.is_some() && gone[0].after.is_none());
    let paths_only = TouchedPaths::Paths(paths(&["sub"]));
    let again = sandbox
        .capture(&created.base, &paths_only, &StopSignal::new())
        .unwrap();
    assert_eq!(again.tree, removed.tree);
    sandbox.restore(&created.base, &StopSignal::new()).unwrap();
    assert_eq!(capture(&mut *sandbox).tree, created.base);
    let created = world.try_create(&repository, BaseSource::Worktree).unwrap();
    assert_eq!(
        created.base.files(),
        world.git(&repository, &["rev-parse", "HEAD^{tree}"])
    );
}

#[test]
fn files_with_a_filter_are_named_and_not_changed() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n")]);
    let ran = world.path("ran");
    let command = format!("touch {} && cat", ran.display());
    world.commit(
        &repository,
        &[
            (".gitattributes", "*.bin filter=big\n"),
            ("x.bin", "pointer\n"),
        ],
    );
    world.git(&repository, &["config", "filter.big.clean", &command]);
    world.git(&repository, &["config", "filter.big.smudge", &command]);
    world.git(&repository, &["config", "filter.big.required", "true"]);
    let (created, mut sandbox) = world.create(&repository);
    assert_eq!(created.warnings, [Warning::Filtered(paths(&["x.bin"]))]);
    assert_eq!(inspect(&world, &repository).filtered, paths(&["x.bin"]));
    write(&created.tree.join("x.bin"), b"pointer\n");
    assert_eq!(capture(&mut *sandbox).omitted, []);
    write(&created.tree.join("x.bin"), b"changed\n");
    write(&created.tree.join("only/y.bin"), b"new\n");
    let captured = capture(&mut *sandbox);
    let refused = |text| OmittedPath {
        path: path(text),
        why: OmissionReason::Filtered,
    };
    assert_eq!(captured.omitted, [refused("only/y.bin"), refused("x.bin")]);
    assert_eq!(captured.changes, []);
    write(&repository.join("x.bin"), b"dirty\n");
    let created = world.try_create(&repository, BaseSource::Worktree).unwrap();
    assert_eq!(
        created.warnings[0],
        Warning::Omitted(vec![refused("x.bin")])
    );
    assert_eq!(
        created.base.files(),
        world.git(&repository, &["rev-parse", "HEAD^{tree}"])
    );
    assert!(!ran.exists(), "a filter was run");
}

#[test]
fn uncommitted_files_are_listed_and_the_index_stays_as_it_is() {
    let world = SandboxTestWorld::new();
    let repository = world.repository(
        "user",
        &[
            ("a", "1\n"),
            ("b", "1\n"),
            ("c", "1\n"),
            ("d", "1\n"),
            (".gitignore", "*.log\n"),
        ],
    );
    write(&repository.join("a"), b"2\n");
    write(&repository.join("b"), b"2\n");
    world.git(&repository, &["add", "b"]);
    fs::remove_file(repository.join("c")).unwrap();
    // Same content with another time: git would like to refresh its index.
    write(&repository.join("d"), b"1\n");
    write(&repository.join("new dir/x y"), b"1\n");
    write(&repository.join("x.log"), b"1\n");
    fs::create_dir(repository.join("nested")).unwrap();
    world.git(&repository.join("nested"), &["init", "-q"]);
    write(&repository.join("nested/n"), b"1\n");
    let state = world.state_of(&repository);
    let inspection = inspect(&world, &repository);
    let found: Vec<_> = inspection
        .uncommitted
        .iter()
        .map(|it| (it.path.to_string(), it.kind))
        .collect();
    let expected = [
        ("a", UncommittedKind::Changed),
        ("b", UncommittedKind::Staged),
        ("c", UncommittedKind::Changed),
        ("nested", UncommittedKind::UntrackedRepository),
        ("new dir/x y", UncommittedKind::Untracked),
    ];
    assert_eq!(found, expected.map(|(path, kind)| (path.to_owned(), kind)));
    let (created, _) = world.create(&repository);
    let all = ["a", "b", "c", "nested", "new dir/x y"];
    assert_eq!(created.warnings, [Warning::Uncommitted(paths(&all))]);
    assert_eq!(fs::read(created.tree.join("a")).unwrap(), b"1\n");
    assert_eq!(world.state_of(&repository), state);
}

#[test]
fn a_working_tree_base_includes_changes_and_touches_nothing() {
    let world = SandboxTestWorld::new();
    let repository = world.repository(
        "user",
        &[("a", "1\n"), ("gone", "1\n"), (".gitignore", "*.log\n")],
    );
    write(&repository.join("a"), b"2\n");
    fs::remove_file(repository.join("gone")).unwrap();
    write(&repository.join("new/x"), b"1\n");
    link(&repository.join("link"), "a");
    write(&repository.join("x.log"), b"1\n");
    let state = world.state_of(&repository);
    let objects = world.git(&repository, &["count-objects", "-v"]);
    let (created, mut sandbox) = world.create_from(
        &repository,
        cleveragents_domain::ResourceType::GitCheckout,
        BaseSource::Worktree,
    );
    let mut expected = listing(&repository);
    expected.remove(&b"x.log"[..]);
    assert_eq!(listing(&created.tree), expected);
    assert_eq!(
        created.base_commit,
        Some(world.git(&repository, &["rev-parse", "HEAD"]))
    );
    check_capture_and_restore(&mut *sandbox);
    assert_eq!(world.state_of(&repository), state);
    assert_eq!(world.git(&repository, &["count-objects", "-v"]), objects);
}

#[test]
fn named_ignored_files_are_copied() {
    let world = SandboxTestWorld::new();
    let files = [
        (".gitignore", "*.log\n/cache/\n"),
        (".worktreeinclude", "*.log\ncache/keep\n!no.log\n"),
        ("a", "1\n"),
    ];
    let repository = world.repository("user", &files);
    for name in [
        "x.log",
        "no.log",
        "deep/y.log",
        "cache/keep",
        "cache/drop",
        "untracked",
    ] {
        write(&repository.join(name), b"1\n");
    }
    let (created, mut sandbox) = world.create(&repository);
    let found = listing(&created.tree);
    for (name, there) in [
        ("x.log", true),
        ("deep/y.log", true),
        ("cache/keep", true),
        ("cache/drop", false),
        ("no.log", false),
        ("untracked", false),
    ] {
        assert_eq!(found.contains_key(name.as_bytes()), there, "{name}");
    }
    assert_eq!(capture(&mut *sandbox).changes, []);
}

/// Reading one of these files must neither block on a writer nor fill the memory.
#[test]
fn special_and_huge_files_are_not_read() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n")]);
    let include = repository.join(".worktreeinclude");
    let mode = rustix::fs::Mode::RWXU;
    rustix::fs::mkfifoat(rustix::fs::CWD, &include, mode).unwrap();
    world.create(&repository);
    fs::remove_file(&include).unwrap();
    for path in [include, repository.join(".git/info/exclude")] {
        let before = fs::read(&path).unwrap_or_default();
        let file = fs::File::create(&path).unwrap();
        file.set_len(1 << 32).unwrap();
        let new = world.new_sandbox(&repository, ResourceType::GitCheckout, BaseSource::Head);
        let error = world.sandboxes.create(&new).map(drop).unwrap_err();
        assert!(error.to_string().contains("larger than"), "{error}");
        write(&path, &before);
    }
}

/// `.worktreeinclude` comes with the repository: it copies no credentials unless the user consented
/// to exactly its content.
#[test]
fn credential_files_are_copied_only_with_consent() {
    let world = SandboxTestWorld::new();
    let include = "*\n";
    let files = [
        (".gitignore", ".env*\n*.pem\nid_*\n*.log\n"),
        (".worktreeinclude", include),
    ];
    let repository = world.repository("user", &files);
    let credentials = [".env.local", "deep/server.pem", "id_ed25519"];
    for name in credentials.iter().chain(&["x.log"]) {
        write(&repository.join(name), b"1\n");
    }
    let folder = world.path("folder");
    for (name, content) in files {
        write(&folder.join(name), content.as_bytes());
    }
    for name in credentials.iter().chain(&["x.log"]) {
        write(&folder.join(name), b"1\n");
    }
    let hash = blake3::hash(include.as_bytes()).to_hex().to_string();
    let of_other_content = blake3::hash(b"x.log\n").to_hex().to_string();
    for (resource, resource_type) in [
        (&repository, ResourceType::GitCheckout),
        (&folder, ResourceType::FsDirectory),
    ] {
        for (trusted, is_there) in [
            (vec![], false),
            (vec![of_other_content.clone()], false),
            (vec![of_other_content.clone(), hash.clone()], true),
        ] {
            let new = NewSandbox {
                trusted_includes: trusted,
                ..world.new_sandbox(resource, resource_type, BaseSource::Head)
            };
            let created = world.sandboxes.create(&new).unwrap();
            let found = listing(&created.tree);
            assert!(found.contains_key(b"x.log".as_slice()));
            for name in credentials {
                assert_eq!(found.contains_key(name.as_bytes()), is_there, "{name}");
            }
            let warning = Warning::Credentials(credentials.map(path).to_vec());
            assert_eq!(created.warnings.contains(&warning), !is_there);
        }
    }
}

/// An apply of another plan is at work, or was killed.
#[test]
fn files_of_an_apply_are_not_the_users() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n")]);
    let folder = world.path("folder");
    write(&folder.join("a"), b"1\n");
    for root in [&repository, &folder] {
        for name in [
            "01JZZZZZZZ0000000000ABCDEF-0",
            "01JZZZZZZZ0000000000ABCDEF-1.part",
        ] {
            write(&root.join(format!(".agents-{name}")), b"2\n");
            write(&root.join(format!("dir/.agents-{name}")), b"2\n");
        }
        write(&root.join(".agents-mine"), b"1\n");
    }
    let mine = paths(&[".agents-mine"]);
    let uncommitted = inspect(&world, &repository).uncommitted.into_iter();
    assert_eq!(uncommitted.map(|it| it.path).collect::<Vec<_>>(), mine);
    let created = world.try_create(&repository, BaseSource::Head).unwrap();
    assert_eq!(created.warnings, [Warning::Uncommitted(mine)]);
    let names = |tree: &std::path::Path| {
        let files = listing(tree)
            .into_iter()
            .filter(|(_, (kind, _))| *kind == 'f');
        let names = files.map(|(name, _)| String::from_utf8(name).unwrap());
        names.collect::<Vec<String>>()
    };
    let created = world.try_create(&repository, BaseSource::Worktree).unwrap();
    assert_eq!(names(&created.tree), [".agents-mine", "a"]);
    let (created, _) = world.create_from(&folder, ResourceType::FsDirectory, BaseSource::Head);
    assert_eq!(names(&created.tree), [".agents-mine", "a"]);
}
