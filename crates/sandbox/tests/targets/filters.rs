//! Files with a filter, Git LFS above all: left alone they are in nobody's way, and with leave a
//! plan changes them as git stores them. No filter is run, and no file that went through one is
//! overwritten.

use std::fs;
use std::path::{Path, PathBuf};

use cleveragents_domain::Base;
use cleveragents_engine::ports::sandbox::{Omitted, OmittedWhy, Warning};
use cleveragents_engine::ports::targets::{ApplyRequest, ConflictReason, Destination};
use cleveragents_sandbox::{LocalSandboxes, LocalTargets};

use crate::environment::{World, append, capture, git_settings, path, paths, script, write};
use crate::home::{apply_id, blocked, bring_home, check_health, on_head, targets, to, told, words};

const CONTENT: &str = "what the user sees\n";

/// What a filter does that keeps contents elsewhere and gives git a pointer, and back.
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

/// What git stores for a content that nobody has.
fn pointer(digit: char) -> String {
    let hash = digit.to_string().repeat(64);
    format!("version https://git-lfs.github.com/spec/v1\noid sha256:{hash}\nsize 7\n")
}

/// A world whose plans may change files with these filters, and a repository with a file of LFS
/// that is as people see it.
fn user(allowed: &[&str]) -> (World, PathBuf) {
    let mut world = World::new();
    let settings = git_settings(world.path("home"));
    let sandboxes = LocalSandboxes::open(&world.path("data"), settings).unwrap();
    world.sandboxes = sandboxes.allowing(allowed.iter().map(ToString::to_string));
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
    assert!(stored(&world, &repository, "HEAD:x.bin").starts_with("version "));
    // Checked out a while ago: git knows the file by its times, without running the filter.
    let file = fs::File::options()
        .append(true)
        .open(repository.join("x.bin"));
    let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    file.unwrap().set_modified(long_ago).unwrap();
    assert_eq!(world.git(&repository, &["status", "--porcelain"]), "");
    (world, repository)
}

fn allowing(world: &World, allowed: &[&str]) -> LocalTargets {
    targets(world).allowing(allowed.iter().map(ToString::to_string))
}

fn stored(world: &World, repository: &Path, object: &str) -> String {
    world.git(repository, &["cat-file", "blob", object]) + "\n"
}

fn content(repository: &Path, name: &str) -> String {
    fs::read_to_string(repository.join(name)).unwrap()
}

/// How often a filter was run so far; whoever asks twice proves that none was in between.
fn runs(world: &World) -> usize {
    let ran = fs::read_to_string(world.path("ran")).unwrap_or_default();
    ran.lines().count()
}

/// The user's checkout holds what git stores, as after `GIT_LFS_SKIP_SMUDGE=1 git checkout`.
fn unsmudge(world: &World, repository: &Path) {
    world.git(repository, &["config", "filter.lfs.smudge", "cat"]);
    fs::remove_file(repository.join("x.bin")).unwrap();
    world.git(repository, &["checkout", "-q", "x.bin"]);
    assert_eq!(
        content(repository, "x.bin"),
        stored(world, repository, "HEAD:x.bin")
    );
    assert_eq!(world.git(repository, &["status", "--porcelain"]), "");
}

fn by_filter(name: &str, filter: &str) -> Vec<(String, ConflictReason)> {
    let filter = ConflictReason::Filtered {
        name: filter.to_owned(),
    };
    vec![(name.to_owned(), filter)]
}

fn change_pointer(world: &World, repository: &Path) -> ApplyRequest {
    on_head(world, repository, |tree| {
        write(&tree.join("x.bin"), pointer('b').as_bytes());
    })
}

#[test]
fn a_plan_that_leaves_them_alone_works_and_applies() {
    for allowed in [&[][..], &["lfs"]] {
        let (world, repository) = user(allowed);
        let before = runs(&world);
        let (created, _) = world.create(&repository);
        let warned = match allowed {
            [] => vec![Warning::Filtered(paths(&["x.bin"]))],
            _ => Vec::new(),
        };
        assert_eq!(created.warnings, warned);
        let in_sandbox = content(&created.tree, "x.bin");
        assert_eq!(in_sandbox, stored(&world, &repository, "HEAD:x.bin"));
        let request = on_head(&world, &repository, |tree| append(&tree.join("a"), b"2\n"));
        bring_home(&allowing(&world, allowed), &request);
        assert_eq!(runs(&world), before, "a filter was run");
        assert_eq!(content(&repository, "a"), "1\n2\n");
        assert_eq!(content(&repository, "x.bin"), CONTENT);
        assert_eq!(check_health(&world, &repository), "");
    }
}

#[test]
fn without_leave_no_change_of_them_is_taken() {
    let (world, repository) = user(&[]);
    let before = runs(&world);
    let (created, mut sandbox) = world.create(&repository);
    write(&created.tree.join("x.bin"), pointer('b').as_bytes());
    write(&created.tree.join("y.bin"), pointer('c').as_bytes());
    let captured = capture(&mut *sandbox);
    let omitted = ["x.bin", "y.bin"].map(|name| Omitted {
        path: path(name),
        why: OmittedWhy::Filtered,
    });
    assert_eq!(
        (captured.omitted, captured.changes),
        (omitted.to_vec(), vec![])
    );
    // That a file is gone is seen, and does not come home.
    let request = on_head(&world, &repository, |tree| {
        fs::remove_file(tree.join("x.bin")).unwrap();
    });
    let conflicts = blocked(&targets(&world), &request);
    assert_eq!(told(&conflicts), by_filter("x.bin", "lfs"));
    assert_eq!(runs(&world), before, "a filter was run");
    // Leave that was taken back counts, whenever the work was done.
    let (world, repository) = user(&["lfs"]);
    let request = change_pointer(&world, &repository);
    unsmudge(&world, &repository);
    let conflicts = blocked(&targets(&world), &request);
    assert_eq!(told(&conflicts), by_filter("x.bin", "lfs"));
}

#[test]
fn a_file_is_removed_without_leave_where_none_that_went_through_its_filter_has_to_go() {
    let (world, repository) = user(&[]);
    let before = runs(&world);
    let gone = |tree: &Path| fs::remove_file(tree.join("x.bin")).unwrap();
    let targets = targets(&world);
    let request = on_head(&world, &repository, gone);
    bring_home(&targets, &to(request, Destination::Branch("topic".into())));
    let names = ["ls-tree", "-r", "--name-only", "topic"];
    assert_eq!(world.git(&repository, &names), ".gitattributes\na");
    assert_eq!(content(&repository, "x.bin"), CONTENT);
    assert_eq!(runs(&world), before, "a filter was run");
    unsmudge(&world, &repository);
    let before = runs(&world);
    bring_home(&targets, &on_head(&world, &repository, gone));
    assert!(!repository.join("x.bin").exists());
    assert_eq!(runs(&world), before, "a filter was run");
    assert_eq!(check_health(&world, &repository), "");
}

#[test]
fn files_are_known_to_have_a_filter_before_they_are_changed() {
    let names = paths(&["a", "x.bin", "new/y.bin", "t"]);
    for (allowed, expected) in [
        (&[][..], &["x.bin", "new/y.bin", "t"][..]),
        (&["lfs"], &["t"]),
        (&["lfs", "tidy"], &[]),
    ] {
        let (world, repository) = user(allowed);
        let attributes = "*.bin filter=lfs -text\nt filter=tidy\n";
        world.commit(&repository, &[(".gitattributes", attributes)]);
        let (created, sandbox) = world.create(&repository);
        // What a plan writes there says nothing.
        write(&created.tree.join(".gitattributes"), b"a filter=lfs\n");
        assert_eq!(sandbox.filtered(&names).unwrap(), paths(expected));
        let folder = world.repository("plain", &[("a", "1\n")]);
        let (_, sandbox) = world.create(&folder);
        assert_eq!(sandbox.filtered(&names).unwrap(), []);
    }
}

#[test]
fn a_file_that_went_through_its_filter_is_never_overwritten() {
    let (world, repository) = user(&["lfs"]);
    let targets = allowing(&world, &["lfs"]);
    let gone = |tree: &Path| fs::remove_file(tree.join("x.bin")).unwrap();
    let moved = |tree: &Path| fs::rename(tree.join("x.bin"), tree.join("z.bin")).unwrap();
    let before = runs(&world);
    for request in [
        change_pointer(&world, &repository),
        on_head(&world, &repository, gone),
        on_head(&world, &repository, moved),
    ] {
        for destination in [Destination::Current, Destination::Worktree] {
            let request = to(request.clone(), destination);
            let conflicts = blocked(&targets, &request);
            assert_eq!(told(&conflicts), by_filter("x.bin", "lfs"));
        }
    }
    assert_eq!(content(&repository, "x.bin"), CONTENT);
    // Where no file has to give way there is nothing to overwrite.
    let request = change_pointer(&world, &repository);
    let branch = to(request, Destination::Branch("other".into()));
    bring_home(&targets, &branch);
    assert_eq!(stored(&world, &repository, "other:x.bin"), pointer('b'));
    assert_eq!(runs(&world), before, "a filter was run");
    assert_eq!(content(&repository, "x.bin"), CONTENT);
    assert_eq!(check_health(&world, &repository), "");
}

#[test]
fn a_checkout_of_pointers_takes_changes_and_gives_them_back() {
    let (world, repository) = user(&["lfs"]);
    unsmudge(&world, &repository);
    let old = content(&repository, "x.bin");
    let targets = allowing(&world, &["lfs"]);
    let before = runs(&world);
    let request = on_head(&world, &repository, |tree| {
        fs::rename(tree.join("x.bin"), tree.join("moved.bin")).unwrap();
        write(&tree.join("new.bin"), pointer('c').as_bytes());
        write(&tree.join("empty.bin"), b"");
    });
    let (intent, _) = bring_home(&targets, &request);
    assert_eq!(content(&repository, "moved.bin"), old);
    assert_eq!(content(&repository, "new.bin"), pointer('c'));
    assert_eq!(content(&repository, "empty.bin"), "");
    assert!(!repository.join("x.bin").exists());
    assert_eq!(stored(&world, &repository, "HEAD:new.bin"), pointer('c'));
    let back = ApplyRequest::reverse(apply_id(&world), &intent, words("back"));
    bring_home(&targets, &back);
    assert_eq!(content(&repository, "x.bin"), old);
    assert!(!repository.join("new.bin").exists());
    assert_eq!(runs(&world), before, "a filter was run");
    assert_eq!(check_health(&world, &repository), "");
}

#[test]
fn of_lfs_only_pointers_are_taken_and_of_others_anything_that_is_named() {
    let (world, repository) = user(&["lfs", "tidy"]);
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
    // Attributes that a plan brings along say nothing in its sandbox, and count when it goes home.
    let request = on_head(&world, &repository, |tree| {
        write(&tree.join("e/.gitattributes"), b"big filter=lfs\n");
        write(&tree.join("e/big"), b"no pointer\n");
    });
    let conflicts = blocked(&allowing(&world, &["lfs"]), &request);
    assert_eq!(told(&conflicts), by_filter("e/big", "lfs"));
}

#[test]
fn uncommitted_files_with_a_filter_stay_as_they_are_committed() {
    let (world, repository) = user(&["lfs"]);
    append(&repository.join("x.bin"), b"more\n");
    append(&repository.join("a"), b"2\n");
    let before = runs(&world);
    let created = world.try_create(&repository, Base::Worktree).unwrap();
    assert_eq!(runs(&world), before, "a filter was run");
    let omitted = Omitted {
        path: path("x.bin"),
        why: OmittedWhy::Filtered,
    };
    assert_eq!(created.warnings, [Warning::Omitted(vec![omitted])]);
    assert_eq!(content(&created.tree, "a"), "1\n2\n");
    assert!(content(&created.tree, "x.bin").starts_with("version "));
}
