//! Whatever an agent does to its tree is captured, restored and shown as a patch exactly.

use std::fs;

use cleveragents_domain::{BaseSource, ResourceType};
use cleveragents_ports::sandbox::{Sandbox, Sandboxes, TouchedPaths, TreeId};
use cleveragents_ports::stop::StopSignal;
use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence};

use crate::edits::{AgentEdit, apply, captured_listing, edits, find_uncaptured};
use crate::environment::{SandboxTestWorld, link, listing, write};

fn capture_from(sandbox: &mut dyn Sandbox, previous: &TreeId, touched: &TouchedPaths) -> TreeId {
    sandbox
        .capture(previous, touched, &StopSignal::new())
        .unwrap()
        .tree
}

fn check(
    resource_type: ResourceType,
    base: Vec<AgentEdit>,
    first: &[AgentEdit],
    second: &[AgentEdit],
) {
    let world = SandboxTestWorld::new();
    let repository = world.init("user", &[]);
    for edit in &base {
        apply(&world, &repository, edit);
    }
    let with_commit = resource_type == ResourceType::GitCheckout;
    if with_commit {
        for nested in find_uncaptured(&repository) {
            let _ = fs::remove_dir_all(&nested).or_else(|_| fs::remove_file(&nested));
        }
        world.commit(&repository, &[]);
    }
    let (created, mut sandbox) = world.create_from(&repository, resource_type, BaseSource::Head);
    let new = world.new_sandbox(&repository, resource_type, BaseSource::Head);
    world.sandboxes.create(&new).unwrap();
    let mut other = world.sandboxes.open(new.id).unwrap();
    let tree = &created.tree;

    // Step by step with known paths, and all at once without: the same tree.
    let mut known = created.base.clone();
    for edit in first {
        let touched = apply(&world, tree, edit);
        apply(&world, other.tree(), edit);
        known = capture_from(&mut *sandbox, &known, &TouchedPaths::Paths(touched));
    }
    let base = other.base().clone();
    assert_eq!(
        capture_from(&mut *other, &base, &TouchedPaths::Unknown),
        known
    );
    assert_eq!(
        capture_from(&mut *sandbox, &created.base, &TouchedPaths::Unknown),
        known
    );
    let expected = captured_listing(tree);

    // A checkpoint, more edits, and back.
    for edit in second {
        apply(&world, tree, edit);
    }
    let later = capture_from(&mut *sandbox, &known, &TouchedPaths::Unknown);
    let after = captured_listing(tree);
    sandbox.restore(&known, &StopSignal::new()).unwrap();
    assert_eq!(captured_listing(tree), expected);
    sandbox.restore(&later, &StopSignal::new()).unwrap();
    assert_eq!(captured_listing(tree), after);
    assert_eq!(
        capture_from(&mut *sandbox, &known, &TouchedPaths::Unknown),
        later
    );

    if with_commit {
        let diff = sandbox
            .diff(&created.base, &later, &[], &StopSignal::new())
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

/// The edit generator must produce what the properties are about.
#[test]
fn generated_edits_are_applied() {
    let world = SandboxTestWorld::new();
    let tree = world.path("tree");
    fs::create_dir(&tree).unwrap();
    for edit in [
        AgentEdit::Write(0, b"1".to_vec()),
        AgentEdit::Folder(3),
        AgentEdit::Repository(3),
        AgentEdit::Fifo(1),
        AgentEdit::Link(2, b"a".to_vec()),
        AgentEdit::Mode(0, 0o755),
        AgentEdit::Rename(0, 4),
    ] {
        assert!(!apply(&world, &tree, &edit).is_empty(), "{edit:?}");
    }
    let found = listing(&tree);
    let kinds: String = found.values().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, "lsddfx");
    assert_eq!(captured_listing(&tree).len(), 3);
    link(&tree.join("x"), "y");
}
