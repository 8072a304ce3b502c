//! Plans with models that are set back to a checkpoint, or to another strategy.

use serde_json::Value;

use crate::models::{finish, messages_text, strategy, turn};
use crate::world::{TRUSTED, TestWorld};

fn append_turn(number: u32) -> String {
    let command = format!("{{command: 'echo {number} >> log'}}");
    turn(&[("shell", command.as_str())])
}

/// Returns the number of the last checkpoint of the state after this many calls.
#[track_caller]
fn checkpoint_after_calls(world: &TestWorld, plan: &str, calls: i64) -> String {
    let listed = world.json_data(&["plan", "checkpoints", plan]);
    let found = listed["checkpoints"].as_array().unwrap();
    let it = found.iter().find(|it| it["call_number"] == calls);
    it.unwrap_or_else(|| panic!("{listed}"))["number"].to_string()
}

#[test]
fn rollback_keeps_earlier_model_answers() {
    let world = TestWorld::new();
    // A repeated request gets a later turn of the script.
    let later = [append_turn(3), finish("Again")].concat();
    let turns = [append_turn(1), append_turn(2), finish("Done"), later].concat();
    world.define_llm_actor("coder", &turns, "");
    world.define_llm_job("builtin/direct", "local/coder", "");
    let plan = world.create_plan(TRUSTED);
    world
        .execute(&plan)
        .succeeded()
        .reports_state("execute/complete");
    assert_eq!(world.sandbox_files(&plan)["log"], "0 1\n2\n");
    let checkpoint = checkpoint_after_calls(&world, &plan, 1);
    world
        .run_json(&["plan", "rollback", &plan, &checkpoint])
        .succeeded()
        .reports_state("execute/queued");
    assert_eq!(world.sandbox_files(&plan)["log"], "0 1\n");
    world
        .execute(&plan)
        .succeeded()
        .reports_state("execute/complete");
    let files = world.sandbox_files(&plan);
    let model_calls = world.model_calls(&plan);
    // The answer with the second call is undone along with the call.
    assert_eq!(files["log"], "0 1\n3\n", "{model_calls:?}");
    let undone: Vec<bool> = model_calls
        .iter()
        .map(|it| !it["undone"].is_null())
        .collect();
    assert_eq!(undone, [false, true, true, false, false]);
}

#[test]
fn a_corrected_strategy_uses_the_guidance() {
    let world = TestWorld::new();
    let turns = [
        turn(&[("file-read", "{path: dir/b}")]),
        strategy(&["The wrong way"]),
        append_turn(1),
        finish("Wrong"),
        turn(&[("file-read", "{path: dir/b}")]),
        strategy(&["The right way", "And more"]),
        append_turn(2),
        finish("Right"),
        append_turn(3),
        finish("More"),
    ];
    world.define_llm_actor("coder", &turns.concat(), "");
    world.define_llm_job("local/coder", "local/coder", "");
    let plan = world.create_plan(TRUSTED);
    world
        .execute(&plan)
        .succeeded()
        .reports_state("execute/complete");
    let tree = world.json_data(&["plan", "tree", &plan]);
    let decision = tree["decision_ids"]["strategy"].as_str().unwrap();
    assert_eq!(tree["strategy"]["decision_id"], decision, "{tree}");
    let correct = ["plan", "correct", "--mode", "revert", "-g"];
    let more = ["Go the other way round", decision, "--yes"];
    world.run_json(&[&correct[..], &more].concat()).succeeded();
    // The reverted strategy is no longer listed.
    let tree = world.json_data(&["plan", "tree", &plan]);
    assert!(tree["strategy"].is_null(), "{tree}");
    let run = world
        .execute(&plan)
        .succeeded()
        .reports_state("execute/complete");
    let steps = run.data()["strategy_summary"]["steps"].clone();
    assert_eq!(steps.as_array().map(Vec::len), Some(2), "{steps}");
    // Nothing is left of the first strategy.
    assert_eq!(world.sandbox_files(&plan)["log"], "0 2\n3\n");
    let model_calls = world.model_calls(&plan);
    assert_eq!(model_calls.len(), 10);
    for nth in [4, 6, 8] {
        let said = messages_text(&model_calls[nth]);
        assert!(said.contains("Go the other way round"), "{nth}: {said}");
    }
    // Files read for the first strategy are read again for the second.
    let reads = world.events_of_kind(&plan, "tool_invoked").into_iter();
    let reads: Vec<Value> = reads
        .filter(|it| it["payload"]["tool"] == "builtin/file-read")
        .collect();
    assert_eq!(reads.len(), 2, "{reads:?}");
}

#[test]
fn calls_name_their_resource_in_multi_resource_plans() {
    let world = TestWorld::empty();
    world.create_repository("shop");
    world.create_repository("docs");
    world.create_project("shop", &["shop", "docs"]);
    let turns = [
        turn(&[("file-write", "{path: new, content: nowhere}")]),
        turn(&[
            (
                "file-write",
                "{path: new, content: s, resource: local/shop}",
            ),
            (
                "file-write",
                "{path: new, content: d, resource: local/docs}",
            ),
            ("file-read", "{path: a, resource: local/elsewhere}"),
        ]),
        finish("Both"),
    ];
    world.define_llm_actor("coder", &turns.concat(), "");
    world.define_llm_job("builtin/direct", "local/coder", "");
    let plan = world.create_plan(TRUSTED);
    world
        .execute(&plan)
        .succeeded()
        .reports_state("execute/complete");
    assert_eq!(world.events_of_kind(&plan, "tool_refused").len(), 2);
    world
        .apply(&plan)
        .succeeded()
        .reports_state("apply/applied");
    assert_eq!(
        (world.read("shop/new"), world.read("docs/new")),
        ("s".to_owned(), "d".to_owned())
    );
}

#[test]
fn secrets_reach_neither_model_nor_store() {
    let world = TestWorld::new();
    let secret = "sk-4f9a8b7c6d5e4f3a2b1c0d9e8f7a6b5c";
    world.write("shop/notes", &format!("the key is {secret}\n"));
    world.commit("shop", "notes");
    let turns = [
        turn(&[
            ("file-read", "{path: notes}"),
            ("shell", "{command: 'cat notes; env'}"),
        ]),
        turn(&[("file-search", "{pattern: 'the key'}")]),
        finish("Seen"),
    ];
    world.define_llm_actor("coder", &turns.concat(), "");
    world.define_llm_job("builtin/direct", "local/coder", "");
    let plan = world.create_plan(TRUSTED);
    let mut command = world.command(&["plan", "execute", &plan]);
    let output = command.env("OPENAI_API_KEY", secret).output().unwrap();
    crate::world::AgentsRun::from_output(output).succeeded();
    let model_calls = world.model_calls(&plan);
    let said = messages_text(model_calls.last().unwrap());
    assert!(said.contains("«secret:OPENAI_API_KEY»"), "{said}");
    assert!(!said.contains(secret), "{said}");
    for name in ["cleveragents.db", "cleveragents.db-wal", "cleveragents.log"] {
        let file = world.path("home/.cleveragents").join(name);
        let bytes = std::fs::read(file).unwrap_or_default();
        let found = bytes
            .windows(secret.len())
            .any(|it| it == secret.as_bytes());
        assert!(!found, "{name} has it");
    }
}

#[test]
fn a_secret_mask_is_never_written_to_files() {
    let world = TestWorld::new();
    let secret = "sk-4f9a8b7c6d5e4f3a2b1c0d9e8f7a6b5c";
    world.write("shop/settings", &format!("key={secret}\ncolour=red\n"));
    world.commit("shop", "settings");
    let turns = [
        turn(&[("file-read", "{path: settings}")]),
        // It writes back what it was shown.
        turn(&[(
            "file-write",
            "{path: settings, content: \"key=«secret:OPENAI_API_KEY»\\ncolour=blue\\n\"}",
        )]),
        turn(&[(
            "file-edit",
            "{path: settings, old: colour=red, new: 'colour=«secret:OPENAI_API_KEY»'}",
        )]),
        turn(&[(
            "file-edit",
            "{path: settings, old: colour=red, new: colour=blue}",
        )]),
        turn(&[(
            "shell",
            "{command: 'echo key=«secret:OPENAI_API_KEY» > settings'}",
        )]),
        finish("It is blue"),
    ];
    world.define_llm_actor("coder", &turns.concat(), "");
    world.define_llm_job("builtin/direct", "local/coder", "");
    let plan = world.create_plan(TRUSTED);
    let mut command = world.command(&["plan", "execute", &plan]);
    let output = command.env("OPENAI_API_KEY", secret).output().unwrap();
    crate::world::AgentsRun::from_output(output).succeeded();
    assert_eq!(world.events_of_kind(&plan, "tool_refused").len(), 3);
    let said = messages_text(world.model_calls(&plan).last().unwrap());
    assert!(said.contains("represents a secret"), "{said}");
    let files = world.sandbox_files(&plan);
    assert_eq!(files["settings"], format!("0 key={secret}\ncolour=blue\n"));
}
