//! The target gets exactly what a plan did, and a reversal restores exactly what it had.

use std::fs;
use std::path::Path;

use cleveragents_domain::ResourceType;
use cleveragents_ports::sandbox::Sandboxes;
use cleveragents_ports::stop::StopSignal;
use cleveragents_ports::targets::{
    ApplyRequest, ApplyTargets, Conflict, ConflictReason, PrepareOutcome, RequestedChange,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence};

use crate::apply_helpers::{
    apply_id, check_health, commit_done, commit_metadata, find_leftovers, prepare_and_commit,
    request_on_folder, request_on_head, targets,
};
use crate::edits::{AgentEdit, apply, captured_listing, edits, find_uncaptured};
use crate::environment::{SandboxTestWorld, TreeListing};

/// What git records of a tree.
fn files(root: &Path) -> TreeListing {
    let mut found = captured_listing(root);
    found.retain(|_, (kind, _)| *kind != 'd');
    found
}

fn prepare_resource(world: &SandboxTestWorld, resource: &Path, base: &[AgentEdit]) {
    for edit in base {
        apply(world, resource, edit);
    }
    for nested in find_uncaptured(resource) {
        let _ = fs::remove_dir_all(&nested).or_else(|_| fs::remove_file(&nested));
    }
}

fn check(resource_type: ResourceType, base: &[AgentEdit], edits: &[AgentEdit]) {
    let world = SandboxTestWorld::new();
    let is_git = resource_type == ResourceType::GitCheckout;
    let resource = if is_git {
        world.init("user", &[])
    } else {
        fs::create_dir(world.path("user")).unwrap();
        world.path("user")
    };
    prepare_resource(&world, &resource, base);
    if is_git {
        world.commit(&resource, &[]);
    }
    let look = if is_git { files } else { captured_listing };
    let before = look(&resource);
    let mut result = TreeListing::new();
    let edit = |tree: &Path| {
        for edit in edits {
            apply(&world, tree, edit);
        }
        result = look(tree);
    };
    let request = if is_git {
        request_on_head(&world, &resource, edit)
    } else {
        request_on_folder(&world, &resource, edit)
    };
    let targets = targets(&world);
    let intent = match targets.prepare(&request).unwrap() {
        PrepareOutcome::Ready(intent) => intent,
        PrepareOutcome::Nothing => {
            assert_eq!(before, result);
            return;
        }
        PrepareOutcome::Blocked(conflicts) => panic!("{conflicts:?}"),
    };
    commit_done(&targets, &intent);
    assert_eq!(look(&resource), result);
    let tree = |world: &SandboxTestWorld| world.git(&resource, &["rev-parse", "HEAD^{tree}"]);
    if let (true, RequestedChange::Result { to, .. }) = (is_git, &request.change) {
        assert_eq!(tree(&world), to.files());
        assert_eq!(check_health(&world, &resource), "");
    }
    let reverse = ApplyRequest::reverse(apply_id(&world), &intent, commit_metadata("back"));
    prepare_and_commit(&targets, &reverse);
    assert_eq!(look(&resource), before);
    assert_eq!(find_leftovers(&resource), Vec::<std::path::PathBuf>::new());
    if let (true, RequestedChange::Result { from, .. }) = (is_git, &request.change) {
        assert_eq!(tree(&world), from.files());
        assert_eq!(check_health(&world, &resource), "");
    }
}

/// Later commits of the user are merged exactly as the user's own git would.
fn check_merge(base: &[AgentEdit], edits: &[AgentEdit], meanwhile: &[AgentEdit]) {
    let world = SandboxTestWorld::new();
    let repository = world.init("user", &[]);
    prepare_resource(&world, &repository, base);
    world.commit(&repository, &[]);
    let request = request_on_head(&world, &repository, |tree| {
        for edit in edits {
            apply(&world, tree, edit);
        }
    });
    let RequestedChange::Result { sandbox, to, .. } = &request.change else {
        panic!();
    };
    let sandbox = world.sandboxes.open(*sandbox).unwrap();
    let result = sandbox
        .publish(to, &commit_metadata("result"), &StopSignal::new())
        .unwrap()
        .commit;
    prepare_resource(&world, &repository, meanwhile);
    world.commit(&repository, &[]);
    let merged = world.try_git(
        &repository,
        &["merge-tree", "--write-tree", "HEAD", &result],
    );
    let merged = (merged.status.success()).then_some(merged.stdout);
    let expected = merged.map(|tree| String::from_utf8(tree).unwrap().trim().to_owned());
    let tree = || world.git(&repository, &["rev-parse", "HEAD^{tree}"]);
    let before = tree();
    match (targets(&world).prepare(&request).unwrap(), expected) {
        (PrepareOutcome::Ready(intent), Some(expected)) => {
            commit_done(&targets(&world), &intent);
            assert_eq!(tree(), expected);
        }
        (PrepareOutcome::Nothing, Some(expected)) => assert_eq!(expected, before),
        (PrepareOutcome::Blocked(conflicts), None) => {
            let is_merge = |it: &Conflict| matches!(it.reason, ConflictReason::Merge { .. });
            assert!(conflicts.iter().all(is_merge), "{conflicts:?}");
            assert_eq!(tree(), before);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(check_health(&world, &repository), "");
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
    fn any_checkout_edits_apply_and_revert(base in edits(), edits in edits()) {
        check(ResourceType::GitCheckout, &base, &edits);
    }

    #[test]
    fn any_concurrent_edits_are_merged(base in edits(), edits in edits(), meanwhile in edits()) {
        check_merge(&base, &edits, &meanwhile);
    }

    #[test]
    fn any_folder_edits_apply_and_revert(base in edits(), edits in edits()) {
        check(ResourceType::FsDirectory, &base, &edits);
    }
}
