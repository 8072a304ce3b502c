//! Nothing in the kernel's folders is writable from inside: every file in them is tried, at both
//! levels, as root and as an unprivileged user.

use std::path::Path;

use cleveragents_domain::process::Confinement;

use crate::other_user::{OtherUser, is_another_user};
use crate::world::{ConfinementWorld, LEVELS, visible_folder};

const WALK_SCRIPT: &str = include_str!("walk.py");

/// Devices that hold nothing, the command's own terminals, and shared memory, which one level is
/// documented to share with the machine.
const HARMLESS: [&str; 10] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts/",
    "/dev/shm/",
    "/dev/stdin",
    "/dev/stdout",
    "/dev/stderr",
];

/// Returns how many files in these folders were tried, and which were writable, without the
/// harmless.
fn find_writable_files(world: &ConfinementWorld, folders: &[&str]) -> (usize, Vec<String>) {
    let mut argv = vec!["python3", "-c", WALK_SCRIPT];
    argv.extend(folders);
    let finished = world.run(&world.argv_command(&argv));
    let said = crate::world::text(&finished.stdout);
    let mut lines = said.lines();
    let tried = lines.next().unwrap_or_else(|| {
        panic!(
            "{:?} {}",
            finished.exit,
            crate::world::text(&finished.stderr)
        )
    });
    let is_harmless = |path: &str| {
        let mut harmless = HARMLESS.iter();
        harmless.any(|it| path == *it || it.ends_with('/') && path.starts_with(it))
    };
    let written = lines.filter(|path| !is_harmless(path));
    (tried.parse().unwrap(), written.map(str::to_owned).collect())
}

fn assert_nothing_writable(place: &Path) {
    for level in LEVELS {
        let world = ConfinementWorld::new_in(place, level, &[]);
        let (tried, written) = find_writable_files(&world, &["/proc", "/sys", "/dev"]);
        assert!(tried > 1000, "{level}: only {tried} were tried");
        assert_eq!(written, [""; 0], "{level}");
    }
}

#[test]
fn kernel_files_are_not_writable() {
    assert_nothing_writable(&visible_folder());
}

/// Runs only as root, which repeats the test as another user.
#[test]
fn kernel_files_are_not_writable_by_an_unprivileged_user() {
    if is_another_user() {
        return assert_nothing_writable(Path::new("/tmp"));
    }
    if let Some(user) = OtherUser::new() {
        user.run("kernel_files::kernel_files_are_not_writable_by_an_unprivileged_user");
    }
}

/// Proves that the walk finds something: without confinement a process may write its own `comm`.
#[test]
fn writable_files_are_found_without_confinement() {
    let world = ConfinementWorld::new(Confinement::None);
    let (_, written) = find_writable_files(&world, &["/proc/self"]);
    assert!(
        written.iter().any(|path| path.ends_with("/comm")),
        "{written:?}"
    );
}
