//! Folders without git: each file by compare-and-swap.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use cleveragents_ports::targets::{
    ApplyRequest, ApplyTargets, CommitOutcome, ConflictReason, PrepareOutcome, TargetError,
};

use crate::apply_helpers::{
    apply_id, commit_metadata, find_leftovers, path_reasons, prepare_and_commit, prepare_blocked,
    prepare_ready, request_on_folder, targets, with_new_id,
};
use crate::environment::{SandboxTestWorld, append, link, listing, set_mode, write};

fn make_every_kind_of_change(tree: &Path) {
    append(&tree.join("a"), b"2\n");
    fs::remove_file(tree.join("go/away")).unwrap();
    fs::remove_dir(tree.join("go")).unwrap();
    fs::remove_file(tree.join("swap")).unwrap();
    write(&tree.join("swap/inside"), b"2\n");
    fs::remove_dir_all(tree.join("dir")).unwrap();
    link(&tree.join("dir"), "swap");
    append(&tree.join("secret"), b"2\n");
    fs::create_dir_all(tree.join("now/empty")).unwrap();
    fs::remove_dir(tree.join("was-empty")).unwrap();
}

#[test]
fn a_folder_gets_the_changes_and_can_be_reverted() {
    let world = SandboxTestWorld::new();
    let folder = world.path("user");
    for name in ["a", "go/away", "swap", "dir/x", "secret", ".gitignore"] {
        write(
            &folder.join(name),
            if name == ".gitignore" {
                b"*.log\n"
            } else {
                b"1\n"
            },
        );
    }
    fs::create_dir(folder.join("was-empty")).unwrap();
    set_mode(&folder.join("secret"), 0o600);
    write(&folder.join("go/mine.log"), b"ignored\n");
    let request = request_on_folder(&world, &folder, make_every_kind_of_change);
    let before = listing(&folder);
    let targets = targets(&world);
    let (intent, _) = prepare_and_commit(&targets, &request);
    let found = listing(&folder);
    assert_eq!(found[&b"a"[..]], ('f', b"1\n2\n".to_vec()));
    assert!(!folder.join("go/away").exists());
    assert!(
        folder.join("go/mine.log").exists(),
        "ignored files are nobody's business"
    );
    assert_eq!(found[&b"dir"[..]], ('l', b"swap".to_vec()));
    assert_eq!(found[&b"swap/inside"[..]], ('f', b"2\n".to_vec()));
    assert!(folder.join("now/empty").is_dir());
    assert!(!folder.join("was-empty").exists());
    let mode = fs::metadata(folder.join("secret"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(
        targets.prepare(&with_new_id(&world, &request)),
        Ok(PrepareOutcome::Nothing)
    );
    // Reversed without the sandbox. The user's work on other paths stays.
    write(&folder.join("mine"), b"mine\n");
    let reverse = ApplyRequest::reverse(apply_id(&world), &intent, commit_metadata("back"));
    prepare_and_commit(&targets, &reverse);
    let mut after = listing(&folder);
    assert!(after.remove(&b"mine"[..]).is_some());
    assert_eq!(after, before);
    targets.forget(intent.id).unwrap();
    let error = targets.prepare(&ApplyRequest::reverse(
        apply_id(&world),
        &intent,
        commit_metadata("x"),
    ));
    assert!(
        matches!(error, Err(TargetError::Forgotten { .. })),
        "{error:?}"
    );
}

#[test]
fn a_file_that_changed_since_blocks_a_folder() {
    let world = SandboxTestWorld::new();
    let folder = world.path("user");
    for name in ["a", "b", "dir/c"] {
        write(&folder.join(name), b"1\n");
    }
    let request = request_on_folder(&world, &folder, |tree| {
        append(&tree.join("a"), b"2\n");
        fs::remove_file(tree.join("b")).unwrap();
        append(&tree.join("dir/c"), b"2\n");
        write(&tree.join("dir/new"), b"2\n");
    });
    let targets = targets(&world);
    append(&folder.join("a"), b"mine\n");
    // Same size, so that only the content differs.
    write(&folder.join("b"), b"9\n");
    write(&folder.join("dir/new"), b"mine\n");
    let conflicts = prepare_blocked(&targets, &request);
    let expected = [
        ("a".to_owned(), ConflictReason::Edited),
        ("b".to_owned(), ConflictReason::Edited),
        ("dir/new".to_owned(), ConflictReason::Edited),
    ];
    assert_eq!(path_reasons(&conflicts), expected);
    for (name, content) in [("a", &b"1\n"[..]), ("b", b"1\n")] {
        write(&folder.join(name), content);
    }
    fs::remove_file(folder.join("dir/new")).unwrap();
    let intent = prepare_ready(&targets, &request);
    // A link in place of a folder is never followed.
    fs::rename(folder.join("dir"), world.path("outside")).unwrap();
    link(&folder.join("dir"), world.path("outside").to_str().unwrap());
    let outside = listing(&world.path("outside"));
    let Ok(CommitOutcome::Stopped(stopped)) = targets.commit(&intent) else {
        panic!();
    };
    let expected = [
        ("dir/c".to_owned(), ConflictReason::BehindLink),
        ("dir/new".to_owned(), ConflictReason::BehindLink),
    ];
    assert_eq!(path_reasons(&stopped.conflicts), expected);
    assert_eq!(stopped.written, []);
    assert_eq!(listing(&world.path("outside")), outside);
    assert_eq!(fs::read(folder.join("a")).unwrap(), b"1\n");
    assert_eq!(find_leftovers(&folder), Vec::<std::path::PathBuf>::new());
}
