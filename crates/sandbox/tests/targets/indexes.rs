//! Indexes of every kind: after Apply an index is what the user's own git would have produced.
//!
//! One repository is prepared twice. Apply changes the first; in the second `git read-tree -m -u`
//! makes the same change. Then both must look the same to git.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use cleveragents_ports::targets::{ApplyRequest, ApplyTargets, ConflictReason, PrepareOutcome};
use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence};

use crate::apply_helpers::{
    apply_id, check_health, commit_done, commit_metadata, path_reasons, prepare_and_commit,
    request_on_head, targets, write_program,
};
use crate::environment::{SandboxTestWorld, TreeListing, append, listing, write};

/// Files of the first commit. The last one is outside every sparse checkout below.
const FILES: [&str; 9] = [
    "in/a",
    "in/b",
    "in/deep/c",
    "mid/d",
    "out/x",
    "out/y",
    "out/z/w",
    "top",
    "zone/last",
];

/// Files that a plan may add.
const NEW: [&str; 4] = ["in/new", "out/new", "out/z/new", "zz/new"];

/// A file that is announced with `git add -N` and not committed.
const ANNOUNCED: &str = "in/announced";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SparseMode {
    Off,
    Cone,
    ConeWithSparseIndex,
    Patterns,
}

#[derive(Debug, Clone)]
struct RepositoryKind {
    sparse: SparseMode,
    split: bool,
    untracked_cache: bool,
    fsmonitor: bool,
    announced: bool,
    /// Indexes of the files whose entries have the flag.
    skipped: Option<usize>,
    assumed_unchanged: Option<usize>,
    unmerged: Option<usize>,
    version: u8,
}

/// What a plan does to one path.
#[derive(Debug, Clone)]
enum PlannedChange {
    Append(usize),
    Remove(usize),
    MakeExecutable(usize),
    Add(usize),
    AddAnnounced,
}

impl PlannedChange {
    fn path(&self) -> &'static str {
        match self {
            Self::Append(at) | Self::Remove(at) | Self::MakeExecutable(at) => FILES[*at],
            Self::Add(at) => NEW[*at],
            Self::AddAnnounced => ANNOUNCED,
        }
    }

    fn apply_to(&self, tree: &Path) {
        let path = tree.join(self.path());
        match self {
            Self::Append(_) if path.exists() => append(&path, b"plan\n"),
            Self::Remove(_) if path.exists() => fs::remove_file(&path).unwrap(),
            Self::MakeExecutable(_) if path.exists() => {
                crate::environment::set_mode(&path, 0o755);
            }
            Self::Add(_) | Self::AddAnnounced => write(&path, b"added\n"),
            _ => {}
        }
    }
}

fn kinds() -> impl Strategy<Value = RepositoryKind> {
    let sparse = prop_oneof![
        2 => Just(SparseMode::Off),
        2 => Just(SparseMode::Cone),
        3 => Just(SparseMode::ConeWithSparseIndex),
        2 => Just(SparseMode::Patterns),
    ];
    let some_file = || prop::option::weighted(0.3, 0..FILES.len());
    let flags = (
        prop::bool::weighted(0.3),
        prop::bool::weighted(0.3),
        prop::bool::weighted(0.3),
        prop::bool::weighted(0.3),
    );
    let unmerged = prop::option::weighted(0.1, 0..FILES.len());
    let marks = (some_file(), some_file(), unmerged);
    (sparse, flags, marks, 2_u8..=4).prop_map(|(sparse, flags, marks, version)| {
        let (split, untracked_cache, fsmonitor, announced) = flags;
        let is_sparse_index = sparse == SparseMode::ConeWithSparseIndex;
        // Git itself crashes when it expands a sparse index with an announced file.
        let marks = if is_sparse_index && announced {
            (None, None, None)
        } else {
            marks
        };
        RepositoryKind {
            sparse,
            // Git does not support a split index in sparse form.
            split: split && !is_sparse_index,
            untracked_cache,
            fsmonitor,
            announced,
            skipped: marks.0,
            assumed_unchanged: marks.1,
            unmerged: marks.2,
            version,
        }
    })
}

fn changes() -> impl Strategy<Value = Vec<PlannedChange>> {
    let file = 0..FILES.len();
    let change = prop_oneof![
        5 => file.clone().prop_map(PlannedChange::Append),
        3 => file.clone().prop_map(PlannedChange::Remove),
        1 => file.prop_map(PlannedChange::MakeExecutable),
        3 => (0..NEW.len()).prop_map(PlannedChange::Add),
        1 => Just(PlannedChange::AddAnnounced),
    ];
    prop::collection::vec(change, 1..5)
}

/// Creates a repository of this kind.
fn make_repository(world: &SandboxTestWorld, name: &str, kind: &RepositoryKind) -> PathBuf {
    let contents: Vec<String> = FILES.iter().map(|path| format!("{path}\n")).collect();
    let files = FILES.iter().zip(&contents);
    let files: Vec<(&str, &str)> = files.map(|(path, text)| (*path, text.as_str())).collect();
    let repository = world.repository(name, &files);
    let git = |arguments: &[&str]| world.git(&repository, arguments);
    match kind.sparse {
        SparseMode::Off => {}
        SparseMode::Cone => drop(git(&["sparse-checkout", "set", "--cone", "in"])),
        SparseMode::ConeWithSparseIndex => drop(git(&[
            "sparse-checkout",
            "set",
            "--cone",
            "--sparse-index",
            "in",
        ])),
        SparseMode::Patterns => drop(git(&[
            "sparse-checkout",
            "set",
            "--no-cone",
            "/in/",
            "/top",
            "new",
            "!/zz/",
        ])),
    }
    if kind.split {
        git(&["update-index", "--split-index"]);
    }
    if kind.untracked_cache {
        git(&["update-index", "--force-untracked-cache"]);
    }
    if kind.announced {
        write(&repository.join(ANNOUNCED), b"mine\n");
        git(&["add", "-N", ANNOUNCED]);
    }
    let version = kind.version.to_string();
    git(&["update-index", "--index-version", &version]);
    if let Some(at) = kind.skipped {
        git(&["update-index", "--skip-worktree", FILES[at]]);
    }
    if let Some(at) = kind.assumed_unchanged {
        git(&["update-index", "--assume-unchanged", FILES[at]]);
    }
    if kind.fsmonitor {
        let monitor = write_program(world, "monitor", "#!/bin/sh\nprintf 'token\\0/\\0'\n");
        git(&["config", "core.fsmonitor", monitor.to_str().unwrap()]);
        git(&["config", "core.fsmonitorHookVersion", "2"]);
        git(&["update-index", "--fsmonitor"]);
    }
    if let Some(at) = kind.unmerged {
        unmerge(world, &repository, FILES[at]);
    }
    git(&["status"]);
    repository
}

/// Puts a path into the state of an unresolved merge.
fn unmerge(world: &SandboxTestWorld, repository: &Path, path: &str) {
    let object = world.git(repository, &["rev-parse", &format!("HEAD:{path}")]);
    let nothing = "0".repeat(object.len());
    let mut lines = format!("0 {nothing}\t{path}\n");
    for stage in 1..=3 {
        lines.push_str(&format!("100644 {object} {stage}\t{path}\n"));
    }
    write(&world.path("lines"), lines.as_bytes());
    let command = format!(
        "git update-index --index-info < '{}'",
        world.path("lines").display()
    );
    let ended = world.command(repository, "sh", &["-c", &command]);
    assert!(ended.status.success(), "{ended:?}");
}

/// Everything that git reports about a repository.
#[derive(Debug, PartialEq, Eq)]
struct RepositoryReport {
    entries: String,
    tree: String,
    status: String,
    files: TreeListing,
}

fn read_report(world: &SandboxTestWorld, repository: &Path) -> RepositoryReport {
    let git = |arguments: &[&str]| world.git(repository, arguments);
    let status = ["status", "--porcelain=v2", "--untracked-files=all"];
    RepositoryReport {
        entries: git(&["ls-files", "--stage", "-v"]),
        tree: git(&["write-tree"]),
        status: git(&status),
        files: listing(repository),
    }
}

fn check(kind: &RepositoryKind, changes: &[PlannedChange]) {
    let world = SandboxTestWorld::new();
    let user = make_repository(&world, "user", kind);
    let request = request_on_head(&world, &user, |tree| {
        changes.iter().for_each(|change| change.apply_to(tree));
    });
    let targets = targets(&world);
    let before = (world.state_of(&user), listing(&user));
    let changed: BTreeSet<&str> = changes.iter().map(PlannedChange::path).collect();
    // Git cannot expand a sparse index that has such an entry.
    let is_stuck = kind.sparse == SparseMode::ConeWithSparseIndex || changed.contains(ANNOUNCED);
    let is_blocked = kind.unmerged.is_some() || (kind.announced && is_stuck);
    let intent = match targets.prepare(&request).unwrap() {
        PrepareOutcome::Ready(intent) => intent,
        // A change and its opposite.
        PrepareOutcome::Nothing => return,
        PrepareOutcome::Blocked(conflicts) => {
            assert!(is_blocked, "{conflicts:?}");
            let reasons = [ConflictReason::Unmerged, ConflictReason::Staged];
            let mut message = path_reasons(&conflicts).into_iter();
            assert!(message.all(|(path, reason)| !path.is_empty() && reasons.contains(&reason)));
            assert_eq!((world.state_of(&user), listing(&user)), before);
            return;
        }
    };
    assert!(!is_blocked, "nothing was in the way");
    let unchanged = read_report(&world, &user);
    commit_done(&targets, &intent);
    let own = make_repository(&world, "own", kind);
    let path = user.to_str().unwrap();
    world.git(&own, &["fetch", "-q", path, "main"]);
    world.git(&own, &["read-tree", "-m", "-u", "HEAD", "FETCH_HEAD"]);
    world.git(&own, &["update-ref", "HEAD", "FETCH_HEAD"]);
    let applied = read_report(&world, &user);
    assert_eq!(applied, read_report(&world, &own));
    check_health(&world, &user);
    let tree = world.git(&user, &["rev-parse", "HEAD^{tree}"]);
    assert_eq!(applied.tree, tree);
    // The user's next commit contains the plan's change and nothing else.
    world.git(&user, &["commit", "-q", "--allow-empty", "-m", "next"]);
    assert_eq!(world.git(&user, &["rev-parse", "HEAD^{tree}"]), tree);
    let reverse = ApplyRequest::reverse(apply_id(&world), &intent, commit_metadata("back"));
    prepare_and_commit(&targets, &reverse);
    check_health(&world, &user);
    let back = read_report(&world, &user);
    assert_eq!(
        (back.tree, back.status, back.files),
        (unchanged.tree, unchanged.status, unchanged.files)
    );
}

fn plain_kind() -> RepositoryKind {
    RepositoryKind {
        sparse: SparseMode::Off,
        split: false,
        untracked_cache: false,
        fsmonitor: false,
        announced: false,
        skipped: None,
        assumed_unchanged: None,
        unmerged: None,
        version: 2,
    }
}

/// A folder at the end of a sparse index, which git itself forgets to expand.
#[test]
fn a_change_in_the_last_folder_of_a_sparse_index() {
    let kind = RepositoryKind {
        sparse: SparseMode::ConeWithSparseIndex,
        ..plain_kind()
    };
    check(&kind, &[PlannedChange::Append(8)]);
    check(&kind, &[PlannedChange::Add(3), PlannedChange::Remove(8)]);
}

#[test]
fn a_new_file_outside_of_a_sparse_checkout_is_not_written() {
    for sparse in [
        SparseMode::Cone,
        SparseMode::ConeWithSparseIndex,
        SparseMode::Patterns,
    ] {
        let kind = RepositoryKind {
            sparse,
            ..plain_kind()
        };
        check(
            &kind,
            &[
                PlannedChange::Add(0),
                PlannedChange::Add(1),
                PlannedChange::Add(3),
            ],
        );
    }
}

#[test]
fn flags_of_entries_are_kept_as_git_keeps_them() {
    let kind = RepositoryKind {
        skipped: Some(0),
        assumed_unchanged: Some(1),
        ..plain_kind()
    };
    let changes = [0, 1, 3].map(PlannedChange::Append);
    check(&kind, &changes);
}

#[test]
fn an_index_with_a_merge_that_is_not_resolved_is_left_alone() {
    for at in [0, 4] {
        let unmerged = Some(at);
        let kind = RepositoryKind {
            unmerged,
            ..plain_kind()
        };
        check(&kind, &[PlannedChange::Append(0)]);
    }
}

fn config() -> Config {
    Config {
        cases: 16 * crate::crash_process::rounds(),
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        ..Config::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_index_matches_gits_result(kind in kinds(), changes in changes()) {
        check(&kind, &changes);
    }
}
