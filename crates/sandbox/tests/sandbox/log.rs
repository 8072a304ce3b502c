//! The commit history of a base.

use cleveragents_domain::{BaseSource, ResourceType};

use crate::environment::{SandboxTestWorld, path, write};

#[test]
fn the_log_is_newest_first_for_all_paths_or_one() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n"), ("d/b", "1\n")]);
    write(&repository.join("a"), b"2\n");
    world.git(&repository, &["commit", "-qam", "second: change a\n\nwhy"]);
    write(&repository.join("d/b"), b"2\n");
    world.git(&repository, &["commit", "-qam", "third"]);
    let (_, sandbox) = world.create(&repository);
    // Later commits of the user are not in the base.
    world.git(
        &repository,
        &["commit", "-q", "--allow-empty", "-m", "later"],
    );
    let subjects = |given: Option<&str>, limit| {
        let given = given.map(path);
        let log = sandbox.log(given.as_ref(), limit).unwrap();
        log.into_iter().map(|it| it.subject).collect::<Vec<_>>()
    };
    assert_eq!(
        subjects(None, 10),
        ["third", "second: change a", "a commit"]
    );
    assert_eq!(subjects(None, 2), ["third", "second: change a"]);
    assert_eq!(subjects(Some("a"), 10), ["second: change a", "a commit"]);
    assert_eq!(subjects(Some("d"), 10), ["third", "a commit"]);
    assert!(subjects(Some("nothing"), 10).is_empty());
    // A path is never treated as a pattern.
    assert!(subjects(Some("*"), 10).is_empty());
    let entry = &sandbox.log(None, 1).unwrap()[0];
    let id = world.git(&repository, &["rev-parse", "--short=12", "HEAD~1"]);
    assert_eq!(
        (entry.id.as_str(), entry.author.as_str()),
        (id.as_str(), "User")
    );
    assert!(entry.seconds > 1_600_000_000);
}

#[test]
fn a_shallow_history_ends_early_and_a_folder_has_none() {
    let world = SandboxTestWorld::new();
    let origin = world.repository("origin", &[("a", "1\n")]);
    world.commit(&origin, &[("a", "2\n")]);
    let url = format!("file://{}", origin.display());
    let clone = world.path("clone");
    world.git(
        &world.path(""),
        &["clone", "-q", "--depth=1", &url, clone.to_str().unwrap()],
    );
    let (_, sandbox) = world.create(&clone);
    assert_eq!(sandbox.log(None, 10).unwrap().len(), 1);
    let folder = world.path("folder");
    write(&folder.join("a"), b"1\n");
    let (_, sandbox) = world.create_from(&folder, ResourceType::FsDirectory, BaseSource::Head);
    assert_eq!(sandbox.log(None, 10).unwrap(), []);
}
