//! Nothing of the kernel's own folders can be written from inside: every file in them is tried, at
//! both levels, as root and as a plain user.

use std::path::Path;

use cleveragents_domain::process::Confinement;

use crate::other_user::{OtherUser, is_another_user};
use crate::world::{LEVELS, World, visible_place};

const WALK: &str = include_str!("walk.py");

/// Devices that hold nothing, terminals of the command's own, and shared memory, which is said to be
/// the machine's at one level.
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

/// What could be written in these folders, the harmless apart, and how much was tried.
fn walk(world: &World, folders: &[&str]) -> (usize, Vec<String>) {
    let mut argv = vec!["python3", "-c", WALK];
    argv.extend(folders);
    let finished = world.run(&world.program(&argv));
    let said = crate::world::text(&finished.stdout);
    let mut lines = said.lines();
    let tried = lines.next().unwrap_or_else(|| {
        panic!(
            "{:?} {}",
            finished.ended,
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

fn walk_everything(place: &Path) {
    for level in LEVELS {
        let world = World::at(place, level, &[]);
        let (tried, written) = walk(&world, &["/proc", "/sys", "/dev"]);
        assert!(tried > 1000, "{level}: only {tried} were tried");
        assert_eq!(written, [""; 0], "{level}");
    }
}

#[test]
fn nothing_of_the_kernel_can_be_written() {
    walk_everything(&visible_place());
}

/// Runs as root only, and then as somebody else.
#[test]
fn nothing_of_the_kernel_can_be_written_by_a_plain_user() {
    if is_another_user() {
        return walk_everything(Path::new("/tmp"));
    }
    if let Some(user) = OtherUser::new() {
        user.run("walk::nothing_of_the_kernel_can_be_written_by_a_plain_user");
    }
}

/// The walk would find something: where nothing confines, a process may write its own settings.
#[test]
fn the_walk_finds_what_can_be_written() {
    let world = World::new(Confinement::None);
    let (_, written) = walk(&world, &["/proc/self"]);
    assert!(
        written.iter().any(|path| path.ends_with("/comm")),
        "{written:?}"
    );
}
