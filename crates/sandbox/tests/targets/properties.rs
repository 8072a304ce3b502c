//! Whatever a plan did, the target gets exactly that, and gets back exactly what it had.

use std::fs;
use std::path::Path;

use cleveragents_domain::ResourceType;
use cleveragents_engine::ports::sandbox::Sandboxes;
use cleveragents_engine::ports::stop::Stop;
use cleveragents_engine::ports::targets::{
    ApplyRequest, Conflict, ConflictReason, Prepared, RequestedChange, Targets,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence};

use crate::edits::{Edit, apply, edits, promised, promised_away};
use crate::environment::{Listing, World};
use crate::home::{
    apply_id, bring_home, check_health, done, left_over, on_folder, on_head, targets, words,
};

/// What git keeps of a tree.
fn files(root: &Path) -> Listing {
    let mut found = promised(root);
    found.retain(|_, (kind, _)| *kind != 'd');
    found
}

fn begin(world: &World, resource: &Path, base: &[Edit]) {
    for edit in base {
        apply(world, resource, edit);
    }
    for nested in promised_away(resource) {
        let _ = fs::remove_dir_all(&nested).or_else(|_| fs::remove_file(&nested));
    }
}

fn check(resource_type: ResourceType, base: &[Edit], edits: &[Edit]) {
    let world = World::new();
    let is_git = resource_type == ResourceType::GitCheckout;
    let resource = match is_git {
        true => world.init("user", &[]),
        false => {
            fs::create_dir(world.path("user")).unwrap();
            world.path("user")
        }
    };
    begin(&world, &resource, base);
    if is_git {
        world.commit(&resource, &[]);
    }
    let look = match is_git {
        true => files,
        false => promised,
    };
    let before = look(&resource);
    let mut result = Listing::new();
    let edit = |tree: &Path| {
        for edit in edits {
            apply(&world, tree, edit);
        }
        result = look(tree);
    };
    let request = match is_git {
        true => on_head(&world, &resource, edit),
        false => on_folder(&world, &resource, edit),
    };
    let targets = targets(&world);
    let intent = match targets.prepare(&request).unwrap() {
        Prepared::Ready(intent) => intent,
        Prepared::Nothing => {
            assert_eq!(before, result);
            return;
        }
        Prepared::Blocked(conflicts) => panic!("{conflicts:?}"),
    };
    done(&targets, &intent);
    assert_eq!(look(&resource), result);
    let tree = |world: &World| world.git(&resource, &["rev-parse", "HEAD^{tree}"]);
    if let (true, RequestedChange::Result { to, .. }) = (is_git, &request.change) {
        assert_eq!(tree(&world), to.files());
        assert_eq!(check_health(&world, &resource), "");
    }
    let reverse = ApplyRequest::reverse(apply_id(&world), &intent, words("back"));
    bring_home(&targets, &reverse);
    assert_eq!(look(&resource), before);
    assert_eq!(left_over(&resource), Vec::<std::path::PathBuf>::new());
    if let (true, RequestedChange::Result { from, .. }) = (is_git, &request.change) {
        assert_eq!(tree(&world), from.files());
        assert_eq!(check_health(&world, &resource), "");
    }
}

/// What the user committed meanwhile is merged with exactly as the user's own git would.
fn check_merge(base: &[Edit], edits: &[Edit], meanwhile: &[Edit]) {
    let world = World::new();
    let repository = world.init("user", &[]);
    begin(&world, &repository, base);
    world.commit(&repository, &[]);
    let request = on_head(&world, &repository, |tree| {
        for edit in edits {
            apply(&world, tree, edit);
        }
    });
    let RequestedChange::Result { sandbox, to, .. } = &request.change else {
        panic!();
    };
    let sandbox = world.sandboxes.open(*sandbox).unwrap();
    let result = sandbox
        .publish(to, &words("result"), &Stop::new())
        .unwrap()
        .commit;
    begin(&world, &repository, meanwhile);
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
        (Prepared::Ready(intent), Some(expected)) => {
            done(&targets(&world), &intent);
            assert_eq!(tree(), expected);
        }
        (Prepared::Nothing, Some(expected)) => assert_eq!(expected, before),
        (Prepared::Blocked(conflicts), None) => {
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
        cases: 16 * crate::dying::rounds(),
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        ..Config::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_edits_of_a_checkout_come_home_and_go_back(base in edits(), edits in edits()) {
        check(ResourceType::GitCheckout, &base, &edits);
    }

    #[test]
    fn any_edits_meanwhile_are_merged_with(base in edits(), edits in edits(), meanwhile in edits()) {
        check_merge(&base, &edits, &meanwhile);
    }

    #[test]
    fn any_edits_of_a_folder_come_home_and_go_back(base in edits(), edits in edits()) {
        check(ResourceType::FsDirectory, &base, &edits);
    }
}
