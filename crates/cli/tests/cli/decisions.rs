//! Decision commands: the output matches the stored data, a refused command changes nothing, and
//! each error has its exit code.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::decision_fixture::{self, DecisionFixture};
use crate::environment::{CliRun, TestEnvironment};
use crate::terminal::terminal_output_with_reply;

fn run_json(environment: &TestEnvironment, arguments: &[&str]) -> Value {
    let arguments = [arguments, &["--format", "json"]].concat();
    environment.run(&arguments).succeeded().json()
}

/// Returns all data of the fixture's plan.
fn decision_tree(environment: &TestEnvironment, fixture: &DecisionFixture) -> Value {
    let plan = fixture.plan.to_string();
    let mut tree = run_json(environment, &["plan", "tree", "--show-superseded", &plan]);
    tree["data"].take()
}

#[track_caller]
fn assert_refused(run: &CliRun, code: i32, parts: &[&str]) {
    assert_eq!(run.code, Some(code), "{run:?}");
    assert_eq!(run.stdout, "");
    assert!(run.stderr.starts_with("error: "), "{run:?}");
    assert!(!run.stderr.contains("a bug in agents"), "{run:?}");
    for part in parts {
        assert!(run.stderr.contains(part), "no {part:?} in {}", run.stderr);
    }
}

fn correct_arguments<'a>(decision: &'a str, guidance: &'a str) -> Vec<&'a str> {
    vec![
        "plan", "correct", "--mode", "revert", "-g", guidance, decision,
    ]
}

#[test]
fn the_printed_context_has_the_stored_hash() {
    let environment = TestEnvironment::new();
    let fixture = decision_fixture::create(&environment);
    let id = fixture.cart.decision_id.to_string();
    let answer = run_json(&environment, &["plan", "explain", "--show-context", &id]);
    let printed = answer["data"]["context"].as_str().unwrap();
    let hash = blake3::hash(printed.as_bytes()).to_hex();
    let snapshot = &answer["data"]["context_snapshot"];
    assert_eq!(snapshot["hot_context_hash"], format!("blake3:{hash}"));
    assert_eq!(fixture.cart.context_snapshot.hash, hash.to_string());
    let context: Value = serde_json::from_str(printed).unwrap();
    assert_eq!(context["items"][0]["name"], "src/cart.rs");
    let without = run_json(&environment, &["plan", "explain", &id]);
    assert!(without["data"].get("context").is_none());
    assert!(without["data"].get("reasoning").is_none());
}

#[test]
fn damaged_and_released_contexts_are_reported() {
    let environment = TestEnvironment::new();
    let fixture = decision_fixture::create(&environment);
    let id = fixture.cart.decision_id.to_string();
    let hash = &fixture.cart.context_snapshot.hash;
    environment.sql(&format!(
        "UPDATE blobs SET content = CAST(replace(content, 'cart', 'tart') AS BLOB) \
         WHERE hash = '{hash}'"
    ));
    let run = environment.run(&["plan", "explain", &id]);
    assert_refused(&run, 1, &[&id, hash, "damaged"]);
    environment.sql(&format!(
        "DELETE FROM blob_references WHERE hash = '{hash}'; DELETE FROM blobs WHERE hash = '{hash}'"
    ));
    let answer = run_json(&environment, &["plan", "explain", "--show-context", &id]);
    assert_eq!(answer["status"], "warn");
    assert_eq!(answer["data"]["context"], Value::Null);
    assert_eq!(answer["data"]["context_snapshot"]["state"], "released");
    let said = answer["messages"].to_string();
    assert!(said.contains("no longer kept"), "{said}");
}

#[test]
fn invalid_corrections_have_their_exit_codes() {
    let environment = TestEnvironment::new();
    let fixture = decision_fixture::create_corrected(&environment);
    let before = decision_tree(&environment, &fixture);
    let given_up = fixture.cart.decision_id.to_string();
    let active = fixture.root.to_string();
    let unknown = "01JZZZZZZZ00000000000ABCDE";
    for command in [&["plan", "explain"][..], &correct_arguments("", "x")[..6]] {
        let with = |decision| environment.run(&[command, &[decision]].concat());
        assert_refused(&with(unknown), 3, &["there is no decision"]);
        assert_refused(&with("01JZZ"), 2, &["is ambiguous", &active, "next: "]);
        for malformed in ["", "abc", "über-den-fluss", "01JZZZZZZZ00000000000ABCDEF"] {
            assert_refused(&with(malformed), 2, &["DECISION"]);
        }
    }
    for malformed in ["", "abc", "no/such plan"] {
        let run = environment.run(&["plan", "tree", malformed]);
        assert_refused(&run, 2, &["PLAN"]);
    }
    assert_refused(
        &environment.run(&["plan", "tree", unknown]),
        3,
        &["no plan"],
    );
    let run = environment.run(&correct_arguments(&given_up, "again"));
    assert_refused(&run, 4, &["was superseded", "agents plan explain"]);
    let long = "x".repeat(64 * 1024 + 1);
    for (guidance, part) in [("", "empty"), (" \n", "empty"), (&*long, "65536 bytes")] {
        assert_refused(
            &environment.run(&correct_arguments(&active, guidance)),
            2,
            &[part],
        );
    }
    let run = environment.run(&["plan", "correct", "--mode", "undo", "-g", "x", &active]);
    assert_refused(&run, 2, &["revert"]);
    let run = environment.run(&["plan", "correct", "--mode", "revert", &active]);
    assert_refused(&run, 2, &["--guidance"]);
    assert_eq!(
        decision_tree(&environment, &fixture),
        before,
        "nothing was changed"
    );
}

#[test]
fn a_running_plan_cannot_be_corrected() {
    let environment = TestEnvironment::new();
    let (fixture, running) = decision_fixture::create_running(&environment);
    let id = fixture.cart.decision_id.to_string();
    let before = decision_tree(&environment, &fixture);
    let run = environment.run(&correct_arguments(&id, "otherwise"));
    assert_refused(&run, 4, &["is being run by", "agents plan cancel"]);
    assert_eq!(decision_tree(&environment, &fixture), before);
    // The owner's process is gone, which its free lock proves, so the lease need not expire.
    drop(running);
    environment
        .run(&correct_arguments(&id, "otherwise"))
        .succeeded();
}

#[test]
fn a_dry_run_shows_its_effects_and_writes_nothing() {
    let environment = TestEnvironment::new();
    let fixture = decision_fixture::create(&environment);
    let id = fixture.cart.decision_id.to_string();
    let before = decision_tree(&environment, &fixture);
    let dry = [&correct_arguments(&id, "otherwise")[..], &["--dry-run"]].concat();
    let preview = run_json(&environment, &dry);
    assert_eq!(decision_tree(&environment, &fixture), before);
    let listed = preview["data"]["would_revert"].as_array().unwrap();
    let listed: Vec<&str> = listed.iter().map(|it| it["id"].as_str().unwrap()).collect();
    let wanted =
        [&fixture.cart, &fixture.files, &fixture.tests].map(|it| it.decision_id.to_string());
    assert_eq!(listed, wanted);
    let done = run_json(&environment, &correct_arguments(&id, "otherwise"));
    let after = decision_tree(&environment, &fixture);
    let given_up = after["nodes"].as_array().unwrap().iter();
    let given_up = given_up.filter(|node| node["superseded"] == true).count();
    assert_eq!(given_up, listed.len());
    assert_eq!(after["summary"]["superseded"], listed.len());
    for key in ["decisions_invalidated", "unaffected_decisions"] {
        let (done, said) = (&done["data"]["affected_subtree"], &preview["data"]);
        assert_eq!(done[key], said["affected_subtree"][key]);
    }
    assert_eq!(done["data"]["correction"]["attempt"], 2);
    assert_eq!(preview["data"]["correction"]["attempt"], 2);
}

#[test]
fn the_flat_list_and_the_tree_agree() {
    let environment = TestEnvironment::new();
    let fixture = decision_fixture::create_corrected(&environment);
    let data = decision_tree(&environment, &fixture);
    let mut flat: BTreeMap<&str, Option<&str>> = BTreeMap::new();
    for node in data["nodes"].as_array().unwrap() {
        flat.insert(node["id"].as_str().unwrap(), node["parent_id"].as_str());
    }
    let mut nested = BTreeMap::new();
    let mut open = vec![(None, &data["tree"])];
    while let Some((parent, node)) = open.pop() {
        let id = node["id"].as_str().unwrap();
        nested.insert(id, parent);
        let children = node["children"].as_array().unwrap();
        open.extend(children.iter().map(|child| (Some(id), child)));
    }
    assert_eq!(nested, flat);
    assert_eq!(data["summary"]["nodes"], flat.len());
    assert_eq!(data["decision_ids"].as_object().unwrap().len(), flat.len());
    assert_eq!(data["decision_ids"]["root"], fixture.root.to_string());
}

#[test]
fn ten_thousand_nested_decisions_are_shown() {
    const LEVELS: usize = 10_000;
    let environment = TestEnvironment::new();
    let fixture = decision_fixture::create_deep(&environment, LEVELS);
    let plan = fixture.plan.to_string();
    let answer = run_json(&environment, &["plan", "tree", &plan]);
    let data = &answer["data"];
    let nodes = data["nodes"].as_array().unwrap();
    assert_eq!(data["summary"]["depth"], LEVELS + 2);
    assert_eq!(nodes.len(), LEVELS + 6);
    assert_eq!(nodes.last().unwrap()["depth"], LEVELS + 1);
    let mut node = &data["tree"];
    let mut levels = 1;
    while let Some(child) = node["children"].as_array().unwrap().last() {
        node = child;
        levels += 1;
    }
    assert_eq!(levels, 51);
    assert_eq!(node["deeper"], LEVELS + 2 - levels);
    for format in ["rich", "plain", "yaml"] {
        let run = environment.run(&["plan", "tree", &plan, "--format", format]);
        let lines = run.succeeded().stdout.lines().count();
        assert!(lines > LEVELS, "{format}: {lines}");
    }
    let id = fixture.tests.decision_id.to_string();
    let dry = [&correct_arguments(&id, "otherwise")[..], &["--dry-run"]].concat();
    let preview = run_json(&environment, &dry);
    let listed = preview["data"]["would_revert"].as_array().unwrap().len();
    assert_eq!(listed, LEVELS + 1);
}

#[test]
fn dropping_several_decisions_needs_confirmation() {
    let environment = TestEnvironment::new();
    let fixture = decision_fixture::create(&environment);
    let id = fixture.cart.decision_id.to_string();
    let before = decision_tree(&environment, &fixture);
    let seen =
        terminal_output_with_reply(&environment, &correct_arguments(&id, "otherwise"), "n\n");
    assert!(seen.contains("Supersede 3 decisions and return to strategize?"));
    assert!(seen.contains("nothing was corrected"), "{seen}");
    assert_eq!(decision_tree(&environment, &fixture), before);
    // Reverting a single decision asks no question.
    let leaf = fixture.tests.decision_id.to_string();
    let seen =
        terminal_output_with_reply(&environment, &correct_arguments(&leaf, "otherwise"), "n\n");
    assert!(seen.contains("Correction applied"), "{seen}");
    let seen =
        terminal_output_with_reply(&environment, &correct_arguments(&id, "otherwise"), "y\n");
    assert!(seen.contains("Correction applied"), "{seen}");
}
