//! Swaps folders and files for links while tools use them: at no moment is anything outside shown or
//! changed.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};

use crate::fixture::{SECRET, ToolFixture, write_file};

/// Number of calls of each tool while names change.
const ROUNDS: usize = 300;

/// Ends the swapping, also if an assertion fails.
struct SwapStopGuard<'a>(&'a AtomicBool);

impl Drop for SwapStopGuard<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Calls tools while the two `places` are swapped repeatedly. A writing tool replaces the link by a
/// file, so `renew` restores the link before each round.
fn run_tools_while_swapping(
    fixture: &ToolFixture,
    places: [&str; 2],
    renew: impl Fn(&ToolFixture),
    calls: &[(&str, Value)],
) {
    run_rounds_while_swapping(fixture, places, || {
        renew(fixture);
        for (tool, input) in calls {
            let shown = match fixture.run(tool, input) {
                Ok(output) => output.data.to_string(),
                Err(failure) => format!("{failure:?}"),
            };
            assert!(!shown.contains(SECRET.trim()), "{tool}: {shown}");
        }
    });
}

fn run_rounds_while_swapping(fixture: &ToolFixture, [one, other]: [&str; 2], round: impl Fn()) {
    let done = AtomicBool::new(false);
    let swaps = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (one, other) = (fixture.path(one), fixture.path(other));
            while !done.load(Ordering::Relaxed) {
                // A tool may have removed one of them.
                if renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).is_ok() {
                    swaps.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        let _done = SwapStopGuard(&done);
        (0..ROUNDS).for_each(|_| round());
    });
    assert!(swaps.load(Ordering::Relaxed) > 0);
    fixture.assert_outside_untouched();
}

#[test]
fn a_folder_swapped_for_a_link_is_safe() {
    let fixture = ToolFixture::new();
    write_file(&fixture.path("d/secret"), b"harmless\n");
    fixture.link("l", fixture.outside());
    run_tools_while_swapping(
        &fixture,
        ["d", "l"],
        |_| {},
        &[
            ("file-read", json!({"path": "d/secret"})),
            ("file-write", json!({"path": "d/mine", "content": "mine\n"})),
            (
                "file-write",
                json!({"path": "d/new/mine", "content": "mine\n"}),
            ),
            (
                "file-edit",
                json!({"path": "d/secret", "old": "s", "new": "z"}),
            ),
            ("file-copy", json!({"from": "d/secret", "to": "d/copy"})),
            ("file-delete", json!({"path": "d/mine"})),
            ("dir-create", json!({"path": "d/folder"})),
            ("dir-delete", json!({"path": "d/folder"})),
            ("file-search", json!({"pattern": "outside", "path": "d"})),
        ],
    );
}

/// Restores one file and one link, whichever is which at this moment.
fn restore_file_and_link(fixture: &ToolFixture) {
    let is_link = |name: &str| {
        let found = fs::symlink_metadata(fixture.path(name)).ok();
        found.map(|found| found.is_symlink())
    };
    loop {
        match (is_link("f"), is_link("l")) {
            (Some(true), Some(false)) | (Some(false), Some(true)) => break,
            (Some(false), _) => {
                let _ = fs::remove_file(fixture.path("l"));
                let _ = symlink(fixture.outside().join("secret"), fixture.path("l"));
            }
            _ => {
                let _ = fs::remove_file(fixture.path("f"));
                // Never through a link that has just appeared there.
                let made = fs::File::create_new(fixture.path("f"));
                let _ = made.and_then(|mut file| file.write_all(b"harmless\n"));
            }
        }
    }
}

#[test]
fn a_file_swapped_for_a_link_is_safe() {
    let fixture = ToolFixture::new();
    write_file(&fixture.path("f"), b"harmless\n");
    run_tools_while_swapping(
        &fixture,
        ["f", "l"],
        restore_file_and_link,
        &[
            ("file-read", json!({"path": "f"})),
            ("file-search", json!({"pattern": ".*", "path": "f"})),
            ("file-search", json!({"pattern": "outside"})),
            (
                "file-edit",
                json!({"path": "f", "old": "harm", "new": "charm"}),
            ),
            (
                "file-edit",
                json!({"path": "f", "old": "charm", "new": "harm"}),
            ),
            ("file-copy", json!({"from": "f", "to": "copy"})),
            ("file-delete", json!({"path": "copy"})),
        ],
    );
    assert!(fs::read(fixture.outside().join("secret")).is_ok());
}

#[test]
fn an_outline_never_follows_a_swapped_link() {
    let fixture = ToolFixture::new();
    write_file(&fixture.path("f.py"), b"def harmless(): pass\n");
    fixture.link("l.py", fixture.outside().join("secret"));
    run_rounds_while_swapping(&fixture, ["f.py", "l.py"], || {
        if let Ok(output) = fixture.run("outline", &json!({"path": "f.py"})) {
            assert_eq!(output.data["symbols"][0]["name"], "harmless");
        }
    });
}
