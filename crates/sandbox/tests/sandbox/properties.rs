//! Whatever an agent does to its tree, it is captured, restored and told as a patch exactly.

use std::fs;

use cleveragents_domain::{Base, ResourceType};
use cleveragents_engine::ports::sandbox::{Sandbox, Sandboxes, Touched, TreeId};
use cleveragents_engine::ports::stop::Stop;
use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence};

use crate::edits::{Edit, apply, edits, promised, promised_away};
use crate::environment::{World, link, listing, write};

fn capture_from(sandbox: &mut dyn Sandbox, previous: &TreeId, touched: &Touched) -> TreeId {
    sandbox
        .capture(previous, touched, &Stop::new())
        .unwrap()
        .tree
}

fn check(resource_type: ResourceType, base: Vec<Edit>, first: &[Edit], second: &[Edit]) {
    let world = World::new();
    let repository = world.init("user", &[]);
    for edit in &base {
        apply(&world, &repository, edit);
    }
    let with_commit = resource_type == ResourceType::GitCheckout;
    if with_commit {
        for nested in promised_away(&repository) {
            let _ = fs::remove_dir_all(&nested).or_else(|_| fs::remove_file(&nested));
        }
        world.commit(&repository, &[]);
    }
    let (created, mut sandbox) = world.create_from(&repository, resource_type, Base::Head);
    let new = world.new_sandbox(&repository, resource_type, Base::Head);
    world.sandboxes.create(&new).unwrap();
    let mut other = world.sandboxes.open(new.id).unwrap();
    let tree = &created.tree;

    // Step by step with known paths, and all at once without: the same tree.
    let mut known = created.base.clone();
    for edit in first {
        let touched = apply(&world, tree, edit);
        apply(&world, other.tree(), edit);
        known = capture_from(&mut *sandbox, &known, &Touched::Paths(touched));
    }
    let base = other.base().clone();
    assert_eq!(capture_from(&mut *other, &base, &Touched::Unknown), known);
    assert_eq!(
        capture_from(&mut *sandbox, &created.base, &Touched::Unknown),
        known
    );
    let expected = promised(tree);

    // A checkpoint, more edits, and back.
    for edit in second {
        apply(&world, tree, edit);
    }
    let later = capture_from(&mut *sandbox, &known, &Touched::Unknown);
    let after = promised(tree);
    sandbox.restore(&known, &Stop::new()).unwrap();
    assert_eq!(promised(tree), expected);
    sandbox.restore(&later, &Stop::new()).unwrap();
    assert_eq!(promised(tree), after);
    assert_eq!(
        capture_from(&mut *sandbox, &known, &Touched::Unknown),
        later
    );

    if with_commit {
        let diff = sandbox
            .diff(&created.base, &later, &[], &Stop::new())
            .unwrap();
        let patch = world.path("patch");
        write(&patch, &diff.patch);
        if !diff.patch.is_empty() {
            world.git(&repository, &["apply", "--cached", patch.to_str().unwrap()]);
        }
        assert_eq!(world.git(&repository, &["write-tree"]), later.files());
    }
}

fn config() -> Config {
    Config {
        cases: 16,
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        ..Config::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_edits_of_a_checkout(base in edits(), first in edits(), second in edits()) {
        check(ResourceType::GitCheckout, base, &first, &second);
    }

    #[test]
    fn any_edits_of_a_folder(base in edits(), first in edits(), second in edits()) {
        check(ResourceType::FsDirectory, base, &first, &second);
    }
}

/// The helper itself must be able to make what the properties are about.
#[test]
fn edits_make_what_they_say() {
    let world = World::new();
    let tree = world.path("tree");
    fs::create_dir(&tree).unwrap();
    for edit in [
        Edit::Write(0, b"1".to_vec()),
        Edit::Folder(3),
        Edit::Repository(3),
        Edit::Fifo(1),
        Edit::Link(2, b"a".to_vec()),
        Edit::Mode(0, 0o755),
        Edit::Rename(0, 4),
    ] {
        assert!(!apply(&world, &tree, &edit).is_empty(), "{edit:?}");
    }
    let found = listing(&tree);
    let kinds: String = found.values().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, "lsddfx");
    assert_eq!(promised(&tree).len(), 3);
    link(&tree.join("x"), "y");
}
