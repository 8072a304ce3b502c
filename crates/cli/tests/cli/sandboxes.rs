//! Sandbox commands: what is kept, what is removed, and recovery after a killed removal.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::environment::TestEnvironment;
use crate::executed_plan::{create_executed_plan, execute_until_done, run_script, use_action};

fn run_json(environment: &TestEnvironment, arguments: &[&str]) -> Value {
    let run = environment.run(&[arguments, &["--format", "json"]].concat());
    run.succeeded().json()["data"].clone()
}

fn sandbox_of(environment: &TestEnvironment, plan: &str) -> (String, PathBuf) {
    let found = run_json(environment, &["sandbox", "list", "--plan", plan]);
    let id = found["sandboxes"][0]["id"].as_str().unwrap().to_owned();
    let folder = environment.path(".cleveragents/sandboxes").join(&id);
    (id, folder)
}

fn list_references(environment: &TestEnvironment) -> String {
    run_script(environment, "git -C shop for-each-ref refs/cleveragents").stdout
}

#[test]
fn sandboxes_and_their_pins_are_removed_after_apply() {
    let mut environment = TestEnvironment::new();
    let applied = create_executed_plan(&mut environment);
    let waiting = use_action(&mut environment);
    execute_until_done(&environment, &waiting).succeeded();
    let (_, gone) = sandbox_of(&environment, &applied);
    let (_, kept) = sandbox_of(&environment, &waiting);
    environment
        .run(&["plan", "apply", &applied, "--yes"])
        .succeeded();
    let dry = run_json(&environment, &["sandbox", "gc", "--dry-run"]);
    assert_eq!(dry["summary"]["removed"], 1);
    assert!(gone.is_dir());
    let later = run_json(&environment, &["sandbox", "gc", "--older-than", "1d"]);
    assert_eq!(later["summary"]["removed"], 0);
    let swept = run_json(&environment, &["sandbox", "gc"]);
    assert_eq!(swept["removed"][0]["plan_id"], applied.as_str());
    assert_eq!(
        swept["kept"][0]["reason"],
        "its plan is at execute/complete"
    );
    assert!(!gone.exists() && kept.is_dir());
    let left = list_references(&environment);
    assert!(!left.contains(&applied), "{left}");
    assert!(left.contains(&format!("plan-{waiting}")), "{left}");
    assert!(left.contains(&format!("base/{waiting}/")), "{left}");
    run_script(&environment, "git -C shop fsck --strict");
    let diff = environment.run(&["plan", "diff", &applied]);
    assert_eq!(diff.code, Some(3), "{diff:?}");
    assert!(
        diff.stderr.contains("the sandbox of local/shop is gone"),
        "{diff:?}"
    );
    let again = run_json(&environment, &["sandbox", "gc"]);
    assert_eq!(again["summary"]["removed"], 0);
}

#[test]
fn an_interrupted_removal_is_finished() {
    let mut environment = TestEnvironment::new();
    let plan = create_executed_plan(&mut environment);
    let (id, folder) = sandbox_of(&environment, &plan);
    environment.run(&["plan", "cancel", &plan]);
    environment.sql(&format!(
        "UPDATE sandboxes SET body = replace(body, '\"folder\":\"kept\"', '\"folder\":\"leaving\"') \
         WHERE id = '{id}';"
    ));
    fs::remove_dir_all(folder.join("tree")).unwrap();
    let shown = run_json(&environment, &["sandbox", "show", &id]);
    assert_eq!(shown["folder"], "leaving");
    let swept = run_json(&environment, &["sandbox", "gc"]);
    assert_eq!(swept["removed"][0]["reason"], "its removal has started");
    assert!(!folder.exists());
    assert_eq!(list_references(&environment), "");
    let shown = run_json(&environment, &["sandbox", "show", &id]);
    assert_eq!(
        (shown["folder"].as_str(), shown["on_disk"].as_bool()),
        (Some("gone"), Some(false))
    );
}

#[test]
fn foreign_folders_are_not_removed() {
    let mut environment = TestEnvironment::new();
    let plan = create_executed_plan(&mut environment);
    environment.run(&["plan", "cancel", &plan]);
    let (_, folder) = sandbox_of(&environment, &plan);
    let marker = folder.join("marker.json");
    let text = environment.read(&marker);
    let other = "01JZZZZZZZ0000000000ABCDEF";
    environment.write(
        marker
            .strip_prefix(environment.path(""))
            .unwrap()
            .to_str()
            .unwrap(),
        text.replacen(folder.file_name().unwrap().to_str().unwrap(), other, 1),
    );
    environment.write(&format!(".cleveragents/sandboxes/{other}/precious"), "x");
    let run = environment.run(&["sandbox", "gc", "--format", "json"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    let data = run.json()["data"].clone();
    assert!(
        data["failed"][0]["reason"]
            .as_str()
            .unwrap()
            .contains("another sandbox"),
        "{data}"
    );
    assert_eq!(data["kept"][0]["id"], other);
    assert!(folder.join("tree").is_dir());
    assert!(
        environment
            .path(&format!(".cleveragents/sandboxes/{other}/precious"))
            .exists()
    );
    let list = environment.run(&["sandbox", "list"]).succeeded();
    assert!(list.stderr.contains("1 more on disk"), "{list:?}");
}

#[test]
fn invalid_sandbox_arguments_are_refused() {
    let mut environment = TestEnvironment::new();
    create_executed_plan(&mut environment);
    for (arguments, code, said) in [
        (&["sandbox", "list", "--state", "lost"][..], 2, "creating"),
        (
            &["sandbox", "list", "--plan", "0000"],
            3,
            "agents plan list",
        ),
        (&["sandbox", "show", "0000"], 3, "agents sandbox list"),
        (&["sandbox", "show", "abc"], 2, "too short"),
        (&["sandbox", "gc", "--older-than", "soon"], 2, "such as 7d"),
        (&["sandbox", "gc", "--older-than=-1d"], 2, "such as 7d"),
    ] {
        let run = environment.run(arguments);
        assert_eq!(run.code, Some(code), "{arguments:?}: {run:?}");
        assert!(run.stderr.contains(said), "{arguments:?}: {run:?}");
    }
}
