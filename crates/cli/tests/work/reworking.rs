//! Plans that are reverted, corrected, rolled back or partly rejected: what the next attempt starts
//! from, what its model gets, and what the records show.

use serde_json::Value;

use crate::models::{finish, messages_text, strategy, turn};
use crate::world::{BASE, TRUSTED, TestWorld};

fn edit(new: &str) -> String {
    let input = format!("{{path: a, old: '2', new: {new}}}");
    turn(&[("file-read", "{path: a}"), ("file-edit", &input)])
}

/// Reads the file before a strategy is submitted.
fn look_and_plan(title: &str) -> String {
    [
        turn(&[("file-read", "{path: a}")]),
        turn(&[("file-list", "{}")]),
        strategy(&[title]),
    ]
    .concat()
}

/// Returns the descriptions of the decisions in the tree that are about strategies.
fn strategies(world: &TestWorld, plan: &str) -> Vec<String> {
    let tree = world.json_data(&["plan", "tree", plan]);
    let nodes = tree["nodes"].as_array().unwrap().iter();
    let about = nodes.filter(|it| {
        let kind = it["type"].as_str().unwrap();
        ["strategy_choice", "implementation_choice"].contains(&kind)
    });
    let text = |it: &Value| it["description"].as_str().unwrap().to_owned();
    about.map(text).collect()
}

/// Returns the text of every result that the model got from reading the file.
fn read_results(world: &TestWorld, plan: &str) -> Vec<String> {
    let completed = world.model_calls(plan).into_iter();
    let last = completed.filter(|it| {
        it["conversation"]
            .as_str()
            .unwrap()
            .starts_with("strategize")
    });
    last.map(|it| messages_text(&it)).collect()
}

#[test]
fn a_new_strategy_is_made_for_the_base() {
    let world = TestWorld::new();
    let script = [look_and_plan("First"), look_and_plan("Second")].concat();
    world.define_llm_actor("planner", &script, "");
    let work = [
        edit("two"),
        finish("Did it"),
        edit("zwei"),
        finish("Did it again"),
    ]
    .concat();
    world.define_llm_actor("coder", &work, "");
    world.define_llm_job("local/planner", "local/coder", "");
    let plan = world.create_plan(TRUSTED);
    world
        .execute(&plan)
        .succeeded()
        .reports_state("execute/complete");
    assert_eq!(
        world.sandbox_files(&plan)["a"],
        format!("0 {}", BASE.replace('2', "two"))
    );
    assert_eq!(strategies(&world, &plan).len(), 2);
    world
        .run_json(&["plan", "revert", &plan, "--reason", "in German"])
        .succeeded()
        .reports_state("strategize/queued");
    // The rejected strategy and its work do not stand any more.
    assert_eq!(strategies(&world, &plan), [""; 0]);
    let tree = world.json_data(&["plan", "tree", &plan]);
    assert_eq!(tree["strategy"], Value::Null, "{tree}");
    let status = world.json_data(&["plan", "status", &plan]);
    assert_eq!(status["execution"]["files_modified"], 0, "{status}");
    world
        .execute(&plan)
        .succeeded()
        .reports_state("execute/complete");
    // Both strategists read the same file, the second one the reason too.
    let read = read_results(&world, &plan);
    assert!(!read.concat().contains("two"), "{read:?}");
    assert!(read.last().unwrap().contains("in German"), "{read:?}");
    assert_eq!(
        world.sandbox_files(&plan)["a"],
        format!("0 {}", BASE.replace('2', "zwei"))
    );
    assert_eq!(strategies(&world, &plan).len(), 2);
    let all = world.json_data(&["plan", "tree", &plan, "--show-superseded"]);
    assert!(all["summary"]["superseded"].as_u64().unwrap() >= 2, "{all}");
}

#[test]
fn a_corrected_strategy_is_made_for_the_base() {
    for mode in ["revert", "append"] {
        let world = TestWorld::new();
        let script = [look_and_plan("First"), look_and_plan("Second")].concat();
        world.define_llm_actor("planner", &script, "");
        let work = [
            edit("two"),
            finish("Did it"),
            edit("zwei"),
            finish("Did it again"),
        ]
        .concat();
        world.define_llm_actor("coder", &work, "");
        world.define_llm_job("local/planner", "local/coder", "");
        let plan = world.create_plan(TRUSTED);
        world.execute(&plan).succeeded();
        // An addition returns to Strategize only from Apply.
        world.write("shop/a", "mine\n");
        world.apply(&plan).exits(4);
        let tree = world.json_data(&["plan", "tree", &plan]);
        let decision = tree["strategy"]["decision_id"].as_str().unwrap();
        let guidance = ["--guidance", "in German"];
        let correct = ["plan", "correct", decision, "--mode", mode];
        world
            .run_json(&[&correct[..], &guidance, &["--yes"]].concat())
            .succeeded();
        world
            .execute(&plan)
            .succeeded()
            .reports_state("execute/complete");
        let read = read_results(&world, &plan);
        assert!(!read.concat().contains("two"), "{mode}: {read:?}");
        assert!(
            read.last().unwrap().contains("in German"),
            "{mode}: {read:?}"
        );
        assert_eq!(strategies(&world, &plan).len(), 2, "{mode}");
    }
}

#[test]
fn a_rolled_back_rejection_is_not_in_the_next_prompt() {
    let world = TestWorld::new();
    let script = [
        strategy(&["First"]),
        strategy(&["Second"]),
        strategy(&["Third"]),
    ]
    .concat();
    world.define_llm_actor("planner", &script, "");
    world.define_worker("- {tool: builtin/file-write, input: {path: made, content: made}}\n");
    world.define_llm_job("local/planner", "local/worker", "");
    let plan = world.create_plan(TRUSTED);
    world.execute(&plan).succeeded();
    let reject = ["plan", "reject", &plan, "made", "--why", "nobody needs it"];
    let reject_again = ["plan", "reject", &plan, "made", "--why", "too long"];
    let rejected = world.run_json(&reject).succeeded().data();
    let checkpoint = rejected["undo"]["number"].to_string();
    let undone = world.run_json(&["plan", "rollback", &plan, &checkpoint, "--yes"]);
    let undo = undone.succeeded().data()["undo"]["number"].to_string();
    assert_eq!(world.sandbox_files(&plan)["made"], "0 made");
    let is_in_next_prompt = |plan: &str| {
        world.run_json(&["plan", "revert", plan]).succeeded();
        world.execute(plan).succeeded();
        messages_text(world.model_calls(plan).last().unwrap()).contains("nobody needs it")
    };
    let tree = || world.json_data(&["plan", "tree", &plan]).to_string();
    assert!(!tree().contains("nobody needs it"));
    // Undoing the rollback brings the rejection back.
    world
        .run_json(&["plan", "rollback", &plan, &undo, "--yes"])
        .succeeded();
    assert!(tree().contains("nobody needs it"));
    assert!(!world.sandbox_files(&plan).contains_key("made"));
    // The next strategist gets it, and not if it is rolled back before.
    assert!(is_in_next_prompt(&plan));
    let rejected = world.run_json(&reject_again).succeeded().data();
    let checkpoint = rejected["undo"]["number"].to_string();
    world
        .run_json(&["plan", "rollback", &plan, &checkpoint, "--yes"])
        .succeeded();
    world.execute(&plan).succeeded();
    world.run_json(&["plan", "revert", &plan]).succeeded();
    world.execute(&plan).succeeded();
    let last = messages_text(world.model_calls(&plan).last().unwrap());
    assert!(!last.contains("too long"), "{last}");
}

#[test]
fn counts_do_not_include_what_was_rejected() {
    let world = TestWorld::new();
    let plan = world.create_executed_plan(
        "- {tool: builtin/file-edit, input: {path: a, old: '1', new: one}}\n\
         - {tool: builtin/file-edit, input: {path: a, old: '9', new: nine}}\n\
         - {tool: builtin/file-write, input: {path: made, content: made}}\n\
         - {tool: builtin/file-write, input: {path: brief, content: brief}}\n\
         - {tool: builtin/file-delete, input: {path: brief}}\n",
    );
    let files = || {
        let status = world.json_data(&["plan", "status", &plan]);
        let listed = world.json_data(&["plan", "artifacts", &plan]);
        let number = status["execution"]["files_modified"].as_u64().unwrap();
        assert_eq!(listed["artifacts"].as_array().unwrap().len() as u64, number);
        number
    };
    let changes = || world.execute(&plan).succeeded().data()["changes"].clone();
    assert_eq!((files(), changes()), (2, 3.into()));
    let reject = |part: &str| {
        world
            .run_json(&["plan", "reject", &plan, part, "--why", "not this"])
            .succeeded();
    };
    reject("made");
    assert_eq!((files(), changes()), (1, 2.into()));
    reject("a:1");
    assert_eq!(files(), 1);
    reject("a");
    assert_eq!((files(), changes()), (0, 0.into()));
}

#[test]
fn explain_shows_what_the_model_was_given() {
    let world = TestWorld::new();
    let decided = "{question: Where?, chosen: In b, alternatives: [In a], rationale: It is shorter, \
                   confidence: 0.7}";
    let script = [
        turn(&[("file-read", "{path: dir/b}")]),
        strategy(&["Look"]),
        turn(&[("file-read", "{path: a}")]),
        turn(&[("record-decision", decided)]),
        finish("Done"),
    ];
    world.define_llm_actor("coder", &script.concat(), "");
    world.define_llm_job("local/coder", "local/coder", "");
    let plan = world.create_plan(TRUSTED);
    world.execute(&plan).succeeded();
    let tree = world.json_data(&["plan", "tree", &plan]);
    let nodes = tree["nodes"].as_array().unwrap();
    let id = |text: &str| {
        let node = nodes.iter().find(|it| it["description"] == text);
        node.unwrap()["id"].as_str().unwrap().to_owned()
    };
    for (decision, request, result) in [(id("A plan"), 1, "one"), (id("In b"), 3, "9")] {
        let explained = world.json_data(&["plan", "explain", &decision, "--show-context"]);
        let items = explained["context_items"].as_array().unwrap();
        let given: Vec<&str> = items
            .iter()
            .map(|it| it["text"].as_str().unwrap())
            .collect();
        let sent = &world.model_calls(&plan)[request];
        let messages = sent["messages"].as_array().unwrap();
        // Its messages, and the names of the tools that it could call.
        assert_eq!(given.len(), messages.len() + 1, "{explained}");
        assert_eq!(items[0]["name"], "1 system");
        assert_eq!(messages[0]["text"], given[0]);
        assert_eq!(messages[1]["text"], given[1]);
        assert!(given[given.len() - 2].contains(result), "{explained}");
        assert!(given.last().unwrap().contains("builtin/file-read"));
        let snapshot = &explained["context_snapshot"];
        assert_eq!(snapshot["resources"][0], "local/shop");
        let shown = explained["context"].as_str().unwrap();
        let hash = blake3::hash(shown.as_bytes()).to_hex().to_string();
        assert_eq!(snapshot["hot_context_hash"], format!("blake3:{hash}"));
        let text = world.run(&["plan", "explain", &decision, "--show-context"]);
        text.succeeded().prints("You ").prints("hash checked");
    }
}
