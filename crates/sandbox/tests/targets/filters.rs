//! Files with a filter, above all Git LFS: unchanged they cause no conflict, and if allowed a plan
//! changes them in the form that git stores. No filter is run, and no file that went through one is
//! overwritten.

use std::fs;
use std::path::{Path, PathBuf};

use cleveragents_domain::BaseSource;
use cleveragents_ports::sandbox::{OmissionReason, OmittedPath, Warning};
use cleveragents_ports::targets::{ApplyRequest, ConflictReason, Destination};
use cleveragents_sandbox::{LocalSandboxes, LocalTargets};

use crate::apply_helpers::{
    apply_id, check_health, commit_metadata, path_reasons, prepare_and_commit, prepare_blocked,
    request_on_head, targets, with_destination,
};
use crate::environment::{
    SandboxTestWorld, append, capture, git_settings, path, paths, script, write,
};

const CONTENT: &str = "what the user sees\n";

/// A filter that keeps contents elsewhere and gives git a pointer, and the reverse.
const CLEAN: &str = r#"#!/bin/sh
echo clean >> "ROOT/ran"
cat > "ROOT/taken.$$"
if head -n 1 "ROOT/taken.$$" | grep -q '^version https://git-lfs'; then
    cat "ROOT/taken.$$"
else
    hash=$(sha256sum < "ROOT/taken.$$" | cut -d ' ' -f 1)
    cp "ROOT/taken.$$" "ROOT/kept.$hash"
    printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %s\n' \
        "$hash" "$(wc -c < "ROOT/taken.$$" | tr -d ' ')"
fi
rm "ROOT/taken.$$"
"#;
const SMUDGE: &str = r#"#!/bin/sh
echo smudge >> "ROOT/ran"
pointer=$(cat; echo .)
pointer=${pointer%.}
hash=$(printf %s "$pointer" | sed -n 's/^oid sha256://p')
if test -f "ROOT/kept.$hash"; then cat "ROOT/kept.$hash"; else printf %s "$pointer"; fi
"#;

/// What git stores for a content that does not exist.
fn pointer(digit: char) -> String {
    let hash = digit.to_string().repeat(64);
    format!("version https://git-lfs.github.com/spec/v1\noid sha256:{hash}\nsize 7\n")
}

/// Creates an environment whose plans may change files with these filters, and a repository with a
/// smudged LFS file.
fn user_repository(allowed: &[&str]) -> (SandboxTestWorld, PathBuf) {
    let mut world = SandboxTestWorld::new();
    let settings = git_settings(world.path("home"));
    let sandboxes = LocalSandboxes::open(&world.path("data"), settings).unwrap();
    world.sandboxes = sandboxes.with_allowed_filters(allowed.iter().map(ToString::to_string));
    let repository = world.init("user", &[]);
    let root = world.path("");
    let root = root.to_str().unwrap().trim_end_matches('/');
    for (name, text) in [("clean", CLEAN), ("smudge", SMUDGE)] {
        let program = world.path(name);
        script(&program, &text.replace("ROOT", root));
        let key = format!("filter.lfs.{name}");
        world.git(&repository, &["config", &key, program.to_str().unwrap()]);
    }
    world.git(&repository, &["config", "filter.lfs.required", "true"]);
    let files = [
        (".gitattributes", "*.bin filter=lfs -text\n"),
        ("a", "1\n"),
        ("x.bin", CONTENT),
    ];
    world.commit(&repository, &files);
    assert!(stored_content(&world, &repository, "HEAD:x.bin").starts_with("version "));
    // Checked out long ago: git recognises the file by its times, without running the filter.
    let file = fs::File::options()
        .append(true)
        .open(repository.join("x.bin"));
    let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    file.unwrap().set_modified(long_ago).unwrap();
    assert_eq!(world.git(&repository, &["status", "--porcelain"]), "");
    (world, repository)
}

fn targets_with_filters(world: &SandboxTestWorld, allowed: &[&str]) -> LocalTargets {
    targets(world).with_allowed_filters(allowed.iter().map(ToString::to_string))
}

fn stored_content(world: &SandboxTestWorld, repository: &Path, object: &str) -> String {
    world.git(repository, &["cat-file", "blob", object]) + "\n"
}

fn read_content(repository: &Path, name: &str) -> String {
    fs::read_to_string(repository.join(name)).unwrap()
}

/// Returns how often a filter was run. Two equal values prove that none was run in between.
fn count_filter_runs(world: &SandboxTestWorld) -> usize {
    let ran = fs::read_to_string(world.path("ran")).unwrap_or_default();
    ran.lines().count()
}

/// The user's checkout contains what git stores, as after `GIT_LFS_SKIP_SMUDGE=1 git checkout`.
fn unsmudge(world: &SandboxTestWorld, repository: &Path) {
    world.git(repository, &["config", "filter.lfs.smudge", "cat"]);
    fs::remove_file(repository.join("x.bin")).unwrap();
    world.git(repository, &["checkout", "-q", "x.bin"]);
    assert_eq!(
        read_content(repository, "x.bin"),
        stored_content(world, repository, "HEAD:x.bin")
    );
    assert_eq!(world.git(repository, &["status", "--porcelain"]), "");
}

fn filter_conflicts(name: &str, filter: &str) -> Vec<(String, ConflictReason)> {
    let filter = ConflictReason::Filtered {
        name: filter.to_owned(),
    };
    vec![(name.to_owned(), filter)]
}

fn change_pointer(world: &SandboxTestWorld, repository: &Path) -> ApplyRequest {
    request_on_head(world, repository, |tree| {
        write(&tree.join("x.bin"), pointer('b').as_bytes());
    })
}

#[test]
fn a_plan_without_filtered_changes_applies() {
    for allowed in [&[][..], &["lfs"]] {
        let (world, repository) = user_repository(allowed);
        let before = count_filter_runs(&world);
        let (created, _) = world.create(&repository);
        let warned = match allowed {
            [] => vec![Warning::Filtered(paths(&["x.bin"]))],
            _ => Vec::new(),
        };
        assert_eq!(created.warnings, warned);
        let in_sandbox = read_content(&created.tree, "x.bin");
        assert_eq!(
            in_sandbox,
            stored_content(&world, &repository, "HEAD:x.bin")
        );
        let request = request_on_head(&world, &repository, |tree| append(&tree.join("a"), b"2\n"));
        prepare_and_commit(&targets_with_filters(&world, allowed), &request);
        assert_eq!(count_filter_runs(&world), before, "a filter was run");
        assert_eq!(read_content(&repository, "a"), "1\n2\n");
        assert_eq!(read_content(&repository, "x.bin"), CONTENT);
        assert_eq!(check_health(&world, &repository), "");
    }
}

#[test]
fn filtered_changes_need_permission() {
    let (world, repository) = user_repository(&[]);
    let before = count_filter_runs(&world);
    let (created, mut sandbox) = world.create(&repository);
    write(&created.tree.join("x.bin"), pointer('b').as_bytes());
    write(&created.tree.join("y.bin"), pointer('c').as_bytes());
    let captured = capture(&mut *sandbox);
    let omitted = ["x.bin", "y.bin"].map(|name| OmittedPath {
        path: path(name),
        why: OmissionReason::Filtered,
    });
    assert_eq!(
        (captured.omitted, captured.changes),
        (omitted.to_vec(), vec![])
    );
    // The removal of a file is captured, but not applied.
    let request = request_on_head(&world, &repository, |tree| {
        fs::remove_file(tree.join("x.bin")).unwrap();
    });
    let conflicts = prepare_blocked(&targets(&world), &request);
    assert_eq!(path_reasons(&conflicts), filter_conflicts("x.bin", "lfs"));
    assert_eq!(count_filter_runs(&world), before, "a filter was run");
    // A permission that was withdrawn counts, even if the work was done before.
    let (world, repository) = user_repository(&["lfs"]);
    let request = change_pointer(&world, &repository);
    unsmudge(&world, &repository);
    let conflicts = prepare_blocked(&targets(&world), &request);
    assert_eq!(path_reasons(&conflicts), filter_conflicts("x.bin", "lfs"));
}

#[test]
fn an_unfiltered_copy_is_removed_without_permission() {
    let (world, repository) = user_repository(&[]);
    let before = count_filter_runs(&world);
    let gone = |tree: &Path| fs::remove_file(tree.join("x.bin")).unwrap();
    let targets = targets(&world);
    let request = request_on_head(&world, &repository, gone);
    prepare_and_commit(
        &targets,
        &with_destination(request, Destination::Branch("topic".into())),
    );
    let names = ["ls-tree", "-r", "--name-only", "topic"];
    assert_eq!(world.git(&repository, &names), ".gitattributes\na");
    assert_eq!(read_content(&repository, "x.bin"), CONTENT);
    assert_eq!(count_filter_runs(&world), before, "a filter was run");
    unsmudge(&world, &repository);
    let before = count_filter_runs(&world);
    prepare_and_commit(&targets, &request_on_head(&world, &repository, gone));
    assert!(!repository.join("x.bin").exists());
    assert_eq!(count_filter_runs(&world), before, "a filter was run");
    assert_eq!(check_health(&world, &repository), "");
}

#[test]
fn filters_of_unchanged_files_are_reported() {
    let names = paths(&["a", "x.bin", "new/y.bin", "t"]);
    for (allowed, expected) in [
        (&[][..], &["x.bin", "new/y.bin", "t"][..]),
        (&["lfs"], &["t"]),
        (&["lfs", "tidy"], &[]),
    ] {
        let (world, repository) = user_repository(allowed);
        let attributes = "*.bin filter=lfs -text\nt filter=tidy\n";
        world.commit(&repository, &[(".gitattributes", attributes)]);
        let (created, sandbox) = world.create(&repository);
        // Attributes that a plan writes have no effect.
        write(&created.tree.join(".gitattributes"), b"a filter=lfs\n");
        assert_eq!(sandbox.filtered_paths(&names).unwrap(), paths(expected));
        let folder = world.repository("plain", &[("a", "1\n")]);
        let (_, sandbox) = world.create(&folder);
        assert_eq!(sandbox.filtered_paths(&names).unwrap(), []);
    }
}

#[test]
fn a_smudged_file_is_never_overwritten() {
    let (world, repository) = user_repository(&["lfs"]);
    let targets = targets_with_filters(&world, &["lfs"]);
    let gone = |tree: &Path| fs::remove_file(tree.join("x.bin")).unwrap();
    let moved = |tree: &Path| fs::rename(tree.join("x.bin"), tree.join("z.bin")).unwrap();
    let before = count_filter_runs(&world);
    for request in [
        change_pointer(&world, &repository),
        request_on_head(&world, &repository, gone),
        request_on_head(&world, &repository, moved),
    ] {
        for destination in [Destination::Current, Destination::Worktree] {
            let request = with_destination(request.clone(), destination);
            let conflicts = prepare_blocked(&targets, &request);
            assert_eq!(path_reasons(&conflicts), filter_conflicts("x.bin", "lfs"));
        }
    }
    assert_eq!(read_content(&repository, "x.bin"), CONTENT);
    // If no file of the user has to be replaced, nothing is overwritten.
    let request = change_pointer(&world, &repository);
    let branch = with_destination(request, Destination::Branch("other".into()));
    prepare_and_commit(&targets, &branch);
    assert_eq!(
        stored_content(&world, &repository, "other:x.bin"),
        pointer('b')
    );
    assert_eq!(count_filter_runs(&world), before, "a filter was run");
    assert_eq!(read_content(&repository, "x.bin"), CONTENT);
    assert_eq!(check_health(&world, &repository), "");
}

#[test]
fn a_pointer_checkout_accepts_changes_and_reversals() {
    let (world, repository) = user_repository(&["lfs"]);
    unsmudge(&world, &repository);
    let old = read_content(&repository, "x.bin");
    let targets = targets_with_filters(&world, &["lfs"]);
    let before = count_filter_runs(&world);
    let request = request_on_head(&world, &repository, |tree| {
        fs::rename(tree.join("x.bin"), tree.join("moved.bin")).unwrap();
        write(&tree.join("new.bin"), pointer('c').as_bytes());
        write(&tree.join("empty.bin"), b"");
    });
    let (intent, _) = prepare_and_commit(&targets, &request);
    assert_eq!(read_content(&repository, "moved.bin"), old);
    assert_eq!(read_content(&repository, "new.bin"), pointer('c'));
    assert_eq!(read_content(&repository, "empty.bin"), "");
    assert!(!repository.join("x.bin").exists());
    assert_eq!(
        stored_content(&world, &repository, "HEAD:new.bin"),
        pointer('c')
    );
    let back = ApplyRequest::reverse(apply_id(&world), &intent, commit_metadata("back"));
    prepare_and_commit(&targets, &back);
    assert_eq!(read_content(&repository, "x.bin"), old);
    assert!(!repository.join("new.bin").exists());
    assert_eq!(count_filter_runs(&world), before, "a filter was run");
    assert_eq!(check_health(&world, &repository), "");
}

#[test]
fn lfs_accepts_pointers_and_named_filters_accept_anything() {
    let (world, repository) = user_repository(&["lfs", "tidy"]);
    world.commit(
        &repository,
        &[("d/.gitattributes", "t filter=tidy\nu filter=other\n")],
    );
    let (created, mut sandbox) = world.create(&repository);
    write(&created.tree.join("x.bin"), b"\x89PNG\n");
    write(
        &created.tree.join("y.bin"),
        pointer('c').repeat(9).as_bytes(),
    );
    write(&created.tree.join("z.bin"), pointer('d').as_bytes());
    write(&created.tree.join("d/t"), b"anything\n");
    write(&created.tree.join("d/u"), b"anything\n");
    let captured = capture(&mut *sandbox);
    let omitted = captured.omitted.iter().map(|it| it.path.to_string());
    assert_eq!(omitted.collect::<Vec<_>>(), ["d/u", "x.bin", "y.bin"]);
    let changed = captured.changes.iter().map(|it| it.path.to_string());
    assert_eq!(changed.collect::<Vec<_>>(), ["d/t", "z.bin"]);
    // Attributes that a plan adds have no effect in its sandbox, but count when it is applied.
    let request = request_on_head(&world, &repository, |tree| {
        write(&tree.join("e/.gitattributes"), b"big filter=lfs\n");
        write(&tree.join("e/big"), b"no pointer\n");
    });
    let conflicts = prepare_blocked(&targets_with_filters(&world, &["lfs"]), &request);
    assert_eq!(path_reasons(&conflicts), filter_conflicts("e/big", "lfs"));
}

#[test]
fn uncommitted_files_with_a_filter_stay_as_they_are_committed() {
    let (world, repository) = user_repository(&["lfs"]);
    append(&repository.join("x.bin"), b"more\n");
    append(&repository.join("a"), b"2\n");
    let before = count_filter_runs(&world);
    let created = world.try_create(&repository, BaseSource::Worktree).unwrap();
    assert_eq!(count_filter_runs(&world), before, "a filter was run");
    let omitted = OmittedPath {
        path: path("x.bin"),
        why: OmissionReason::Filtered,
    };
    assert_eq!(created.warnings, [Warning::Omitted(vec![omitted])]);
    assert_eq!(read_content(&created.tree, "a"), "1\n2\n");
    assert!(read_content(&created.tree, "x.bin").starts_with("version "));
}
