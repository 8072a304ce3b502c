//! Conflicts are reported by path, and nothing changes.

use std::fs;
use std::path::Path;

use cleveragents_ports::targets::{
    ApplyRequest, ApplyTargets, Conflict, ConflictReason,
    ConflictReason::{BehindLink, Changed, Staged, Untracked},
    Destination, RequestedChange,
};

use crate::apply_helpers::{
    absolute, commit_done, find_leftovers, path_reasons, prepare_blocked, prepare_ready,
    request_on_head, targets, with_destination,
};
use crate::environment::{SandboxTestWorld, append, link, listing, write};

const LINES: &str = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";

/// A repository, and a change of `a` and a new file `new`.
fn user_repository(world: &SandboxTestWorld) -> (std::path::PathBuf, ApplyRequest) {
    let files = [
        ("a", LINES),
        ("b", LINES),
        ("dir/c", LINES),
        (".gitignore", "*.log\n"),
    ];
    let repository = world.repository("user", &files);
    let request = request_on_head(world, &repository, |tree| {
        append(&tree.join("a"), b"2\n");
        append(&tree.join("dir/c"), b"2\n");
        write(&tree.join("new"), b"2\n");
        write(&tree.join("dir/deep/more"), b"2\n");
    });
    (repository, request)
}

/// Asserts that preparing reports conflicts and changes neither files, refs nor index.
fn check_blocked(
    world: &SandboxTestWorld,
    repository: &Path,
    request: &ApplyRequest,
) -> Vec<Conflict> {
    let state = world.state_of(repository);
    let files = listing(repository);
    let conflicts = prepare_blocked(&targets(world), request);
    assert_eq!(world.state_of(repository), state);
    assert_eq!(listing(repository), files);
    assert_eq!(find_leftovers(repository), Vec::<std::path::PathBuf>::new());
    let refs = ["for-each-ref", "refs/cleveragents/apply"];
    assert_eq!(world.git(repository, &refs), "");
    assert_eq!(fs::read_dir(world.path("data/applies")).unwrap().count(), 0);
    conflicts
}

fn reasons(reasons: &[(&str, ConflictReason)]) -> Vec<(String, ConflictReason)> {
    let reasons = reasons.iter();
    reasons
        .map(|(path, reason)| ((*path).to_owned(), reason.clone()))
        .collect()
}

/// A description, what the user did, and the expected conflicts.
type ConflictCase = (
    &'static str,
    fn(&SandboxTestWorld, &Path),
    &'static [(&'static str, ConflictReason)],
);

const CASES: [ConflictCase; 11] = [
    (
        "changed",
        |_, user| append(&user.join("a"), b"mine\n"),
        &[("a", Changed)],
    ),
    (
        "the same change",
        |_, user| append(&user.join("a"), b"2\n"),
        &[("a", Changed)],
    ),
    (
        "deleted",
        |_, user| fs::remove_file(user.join("a")).unwrap(),
        &[("a", Changed)],
    ),
    (
        "staged, and the file put back",
        stage_change,
        &[("a", Staged)],
    ),
    (
        "untracked",
        |_, user| write(&user.join("new"), b"mine\n"),
        &[("new", Untracked)],
    ),
    (
        "untracked, and the same",
        |_, user| write(&user.join("new"), b"2\n"),
        &[("new", Untracked)],
    ),
    (
        "untracked files in a folder of that name",
        |_, user| write(&user.join("new/mine"), b"mine\n"),
        &[("new", Untracked)],
    ),
    (
        "ignored files in a folder of that name",
        |_, user| write(&user.join("new/mine.log"), b"mine\n"),
        &[("new", Untracked)],
    ),
    (
        "a file where a folder is needed",
        |_, user| write(&user.join("dir/deep"), b"mine\n"),
        &[("dir/deep/more", Untracked)],
    ),
    (
        "a new file, only staged",
        |world, user| {
            write(&user.join("new"), b"mine\n");
            world.git(user, &["add", "new"]);
            fs::remove_file(user.join("new")).unwrap();
        },
        &[("new", Staged)],
    ),
    (
        "a folder that became a link",
        |_, user| {
            fs::rename(user.join("dir"), user.join("elsewhere")).unwrap();
            link(&user.join("dir"), "elsewhere");
        },
        &[("dir/c", BehindLink), ("dir/deep/more", BehindLink)],
    ),
];

fn stage_change(world: &SandboxTestWorld, repository: &Path) {
    append(&repository.join("a"), b"mine\n");
    world.git(repository, &["add", "a"]);
    write(&repository.join("a"), LINES.as_bytes());
}

#[test]
fn user_changes_on_a_changed_path_block() {
    for (name, deed, expected) in CASES {
        let world = SandboxTestWorld::new();
        let (repository, request) = user_repository(&world);
        deed(&world, &repository);
        let conflicts = check_blocked(&world, &repository, &request);
        assert_eq!(path_reasons(&conflicts), reasons(expected), "{name}");
        let place = Some(absolute(&repository));
        assert!(conflicts.iter().all(|it| it.place == place), "{name}");
    }
}

#[test]
fn a_conflicting_ignored_file_is_not_overwritten() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[(".gitignore", "*.log\n"), ("a", "1\n")]);
    let request = request_on_head(&world, &repository, |tree| {
        write(&tree.join(".gitignore"), b"");
        write(&tree.join("build.log"), b"2\n");
    });
    write(&repository.join("build.log"), b"mine\n");
    let conflicts = check_blocked(&world, &repository, &request);
    assert_eq!(
        path_reasons(&conflicts),
        reasons(&[("build.log", ConflictReason::Untracked)])
    );
}

#[test]
fn both_sides_of_a_merge_are_named() {
    let world = SandboxTestWorld::new();
    let (repository, request) = user_repository(&world);
    append(&repository.join("a"), b"theirs\n");
    fs::remove_file(repository.join("dir/c")).unwrap();
    world.commit(&repository, &[]);
    let conflicts = check_blocked(&world, &repository, &request);
    let merge = |kind: &str| ConflictReason::Merge { kind: kind.into() };
    let expected = [("a", merge("contents")), ("dir/c", merge("modify/delete"))];
    assert_eq!(path_reasons(&conflicts), reasons(&expected));
    assert_eq!(
        conflicts[0].to_string(),
        "a: both the plan and the target changed it (contents)"
    );
}

#[test]
fn an_unfinished_git_operation_blocks() {
    for operation in ["merge", "cherry-pick", "revert", "rebase"] {
        let world = SandboxTestWorld::new();
        let (repository, request) = user_repository(&world);
        world.git(&repository, &["checkout", "-q", "-b", "side"]);
        world.commit(&repository, &[("b", "side\n")]);
        world.git(&repository, &["checkout", "-q", "main"]);
        world.commit(&repository, &[("b", "main\n")]);
        let arguments: &[&str] = match operation {
            "merge" => &["merge", "side"],
            "cherry-pick" => &["cherry-pick", "side"],
            "revert" => &["revert", "--no-commit", "side"],
            _ => &["rebase", "side"],
        };
        assert!(!world.try_git(&repository, arguments).status.success() || operation == "revert");
        let branch = with_destination(request, Destination::Branch("main".into()));
        let conflicts = check_blocked(&world, &repository, &branch);
        let in_progress = ConflictReason::InProgress {
            operation: operation.into(),
        };
        let found = path_reasons(&conflicts);
        assert!(found.contains(&(String::new(), in_progress)), "{found:?}");
    }
}

#[test]
fn filters_and_submodules_are_refused_by_name() {
    let world = SandboxTestWorld::new();
    let inner = world.repository("inner", &[("x", "1\n")]);
    let repository = world.init("user", &[]);
    let url = inner.to_str().unwrap();
    let add = [
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "add",
        "-q",
        url,
        "sub",
    ];
    world.git(&repository, &add);
    world.commit(
        &repository,
        &[(".gitattributes", "*.bin filter=lfs\n"), ("a", "1\n")],
    );
    let targets = targets(&world);
    // A filter that the plan itself adds, for its own file.
    let request = request_on_head(&world, &repository, |tree| {
        write(&tree.join("x/.gitattributes"), b"*.txt filter=mine\n");
        write(&tree.join("x/y.txt"), b"2\n");
    });
    let filtered = ConflictReason::Filtered {
        name: "mine".into(),
    };
    let conflicts = check_blocked(&world, &repository, &request);
    assert_eq!(path_reasons(&conflicts), reasons(&[("x/y.txt", filtered)]));
    // A filter that the user's own later commit adds.
    let request = request_on_head(&world, &repository, |tree| write(&tree.join("z"), b"2\n"));
    world.commit(&repository, &[(".gitattributes", "z filter=lfs\n")]);
    let filtered = ConflictReason::Filtered { name: "lfs".into() };
    let conflicts = check_blocked(&world, &repository, &request);
    assert_eq!(path_reasons(&conflicts), reasons(&[("z", filtered)]));
    // A change of another path succeeds and leaves the submodule alone.
    let request = request_on_head(&world, &repository, |tree| append(&tree.join("a"), b"2\n"));
    let intent = prepare_ready(&targets, &request);
    commit_done(&targets, &intent);
    targets.forget(intent.id).unwrap();
    assert_eq!(world.git(&repository, &["status", "--porcelain"]), "");
    // A result that moves the submodule. No sandbox produces it, so its trees are the user's own.
    let from = world.git(&repository, &["rev-parse", "HEAD^{tree}"]);
    let mut request = request_on_head(&world, &repository, |_| {});
    world.commit(&inner, &[("x", "2\n")]);
    let sub = repository.join("sub");
    world.git(&sub, &["-c", "protocol.file.allow=always", "fetch", "-q"]);
    world.git(&sub, &["checkout", "-q", "origin/main"]);
    world.commit(&repository, &[]);
    let to = world.git(&repository, &["rev-parse", "HEAD^{tree}"]);
    world.git(&repository, &["reset", "-q", "--hard", "HEAD^"]);
    world.git(&sub, &["checkout", "-q", "HEAD^"]);
    if let RequestedChange::Result {
        from: old, to: new, ..
    } = &mut request.change
    {
        (*old, *new) = (from.parse().unwrap(), to.parse().unwrap());
    }
    let conflicts = check_blocked(&world, &repository, &request);
    assert_eq!(
        path_reasons(&conflicts),
        reasons(&[("sub", ConflictReason::Submodule)])
    );
}
