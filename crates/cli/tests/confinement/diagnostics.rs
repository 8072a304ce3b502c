//! What `agents diagnostics` reports about confinement.

use cleveragents_domain::process::Confinement;

use crate::world::ConfinementWorld;

const NO_PROGRAMS: &str = "/nonexistent";
const PROGRAMS: &str = "/usr/bin:/bin";

/// Returns status, detail and hint of a check; `None` if it was not made.
fn run_check(
    world: &ConfinementWorld,
    search_path: &str,
    setting: &str,
    name: &str,
) -> Option<(String, String, Option<String>)> {
    let arguments = ["--set", setting, "--format", "json", "diagnostics"];
    let output = world.run_agents_with_path(search_path, &arguments);
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = answer["data"]["checks"].as_array().unwrap();
    let found = checks.iter().find(|check| check["name"] == name)?;
    let text = |key: &str| found[key].as_str().map(str::to_owned);
    Some((text("status")?, text("detail")?, text("hint")))
}

#[test]
fn the_working_level_is_reported_with_a_hint() {
    let world = ConfinementWorld::new(Confinement::None);
    let install = "install bubblewrap, and allow it to make user namespaces";
    let ok = |detail: &str| ("ok".to_owned(), detail.to_owned(), None);
    let finding = |status: &str, detail: &str, hint: &str| {
        (status.to_owned(), detail.to_owned(), Some(hint.to_owned()))
    };
    let (best, only) = ("sandbox.confinement=best", "sandbox.confinement=namespaces");
    for (search_path, setting, expected) in [
        (
            PROGRAMS,
            best,
            ok("bubblewrap works: commands have their own files, processes and network"),
        ),
        (
            NO_PROGRAMS,
            best,
            finding(
                "warning",
                "bubblewrap does not work here, Landlock does: commands see and change only what \
                 they may, but share processes and /dev/shm with the machine",
                install,
            ),
        ),
        (
            NO_PROGRAMS,
            only,
            finding(
                "error",
                "commands cannot be confined here: bubblewrap is not installed",
                &format!("{install}; or: agents config unset sandbox.confinement"),
            ),
        ),
        (
            PROGRAMS,
            "sandbox.confinement=landlock",
            ok("Landlock works, as you chose"),
        ),
        (
            PROGRAMS,
            "sandbox.confinement=none",
            finding(
                "warning",
                "commands of plans are not confined, as you chose",
                "agents config unset sandbox.confinement",
            ),
        ),
    ] {
        let reported = run_check(&world, search_path, setting, "confinement");
        assert_eq!(reported, Some(expected), "{setting}");
    }
}

#[test]
fn a_missing_or_invalid_writable_path_is_reported() {
    let world = ConfinementWorld::new(Confinement::None);
    let absent = "sandbox.writable-paths=/usr,~/not there";
    let (status, detail, hint) = run_check(&world, PROGRAMS, absent, "writable_paths").unwrap();
    let path = world.path("home/not there");
    let expected = format!(
        "sandbox.writable-paths names {}, which does not exist",
        path.display()
    );
    assert_eq!((status.as_str(), detail), ("warning", expected));
    assert_eq!(hint, Some(format!("mkdir -p '{}'", path.display())));
    let present = "sandbox.writable-paths=/tmp";
    assert_eq!(run_check(&world, PROGRAMS, present, "writable_paths"), None);
    let arguments = ["config", "set", "sandbox.writable-paths", "/usr,build"];
    let output = world.run_agents(&arguments);
    let message =
        String::from_utf8(output.stderr).unwrap() + &String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(2), "{message}");
    let expected = "expected a list of paths that begin with `/` or `~/`, found `build`";
    assert!(message.contains(expected), "{message}");
}
