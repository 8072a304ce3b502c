//! Plans with models from end to end: their decisions, actions and answers, and the records of
//! them.

use serde_json::Value;

use crate::models::{assert_no_repeated_calls, finish, messages_text, turn};
use crate::world::{TRUSTED, TestWorld};

const DECISIONS: &str = "{summary: Say it louder, confidence: 0.9, rationale: It was too quiet, \
    decisions: [{question: How loud?, chosen: Very, alternatives: [A little, Not at all], \
    confidence: 0.8, rationale: Nobody heard it}], \
    steps: [{title: Look and edit, description: In dir}, {title: Count}]}";

/// Turns of a model that reads, submits a strategy, works in two steps and reports.
fn louder_turns() -> String {
    let turns = [
        turn(&[("file-list", "{}"), ("file-read", "{path: dir/b}")]),
        turn(&[("submit-strategy", DECISIONS)]),
        turn(&[
            ("file-read", "{path: dir/b}"),
            ("file-read", "{path: a, start_line: 2, end_line: 3}"),
            ("file-search", "{pattern: one}"),
        ]),
        turn(&[
            ("file-edit", "{path: dir/b, old: one, new: ONE}"),
            ("shell", "{command: 'cat dir/b >> log'}"),
        ]),
        finish("It is loud"),
        turn(&[("shell", "{command: 'wc -l < a > count'}")]),
        finish("It is counted"),
    ];
    turns.concat()
}

#[test]
fn a_model_plan_is_executed_checked_and_applied() {
    let world = TestWorld::new();
    world.define_llm_actor("coder", &louder_turns(), "");
    world.define_llm_job(
        "local/coder",
        "local/coder",
        "checks: [{run: 'grep -q ONE dir/b'}]\n",
    );
    let plan = world.create_plan("supervised");
    let run = world
        .execute(&plan)
        .exits(5)
        .reports_state("strategize/complete");
    let data = run.data();
    assert_eq!(data["strategy_summary"]["summary"], "Say it louder");
    let hash = data["strategy_summary"]["hash"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(world.events_of_kind(&plan, "tool_invoked").len(), 3);

    let tree = world.json_data(&["plan", "tree", &plan]);
    let nodes = tree["nodes"].as_array().unwrap();
    let shown: Vec<&str> = nodes
        .iter()
        .map(|it| it["description"].as_str().unwrap())
        .collect();
    assert_eq!(shown, ["Do the job", "Say it louder", "Very"]);
    let decision = nodes[2]["id"].as_str().unwrap();
    let explained = world.json_data(&["plan", "explain", decision]).to_string();
    for words in ["How loud?", "A little", "Not at all", "Nobody heard it"] {
        assert!(explained.contains(words), "{words}: {explained}");
    }

    world
        .execute(&plan)
        .succeeded()
        .reports_state("execute/complete");
    let approved = &world.events_of_kind(&plan, "strategy_approved")[0];
    assert_eq!(approved["payload"]["hash"], hash.as_str());
    let completed = world.events_of_kind(&plan, "actor_completed").into_iter();
    let steps: Vec<Value> = completed.map(|it| it["payload"]["step"].clone()).collect();
    assert_eq!(steps, [1, 2]);
    let files = world.sandbox_files(&plan);
    assert_eq!(files["dir/b"], "0 ONE\n");
    assert_eq!(files["log"], "0 ONE\n");
    assert_eq!(files["count"].trim(), "0 9");
    assert!(world.errors(&plan).is_empty());

    assert_requests_match_roles(&world.model_calls(&plan));
    let run = world
        .apply(&plan)
        .succeeded()
        .reports_state("apply/applied");
    assert_eq!(world.read("shop/dir/b"), "ONE\n");
    assert_eq!(world.commits("shop"), 2, "{run:?}");
    assert_eq!(world.git_status("shop"), "");
}

/// Checks the seven requests of [`louder_turns`]: each has its answer, its tools and the work done
/// before.
#[track_caller]
fn assert_requests_match_roles(model_calls: &[Value]) {
    assert_eq!(model_calls.len(), 7);
    assert!(model_calls.iter().all(|it| it["state"] == "answered"));
    assert_no_repeated_calls(model_calls);
    // The strategist gets read-only tools and not the final tool of the other phase.
    let offered = |nth: usize| model_calls[nth]["tools"].to_string();
    assert!(offered(0).contains("submit-strategy") && !offered(0).contains("shell"));
    assert!(offered(0).contains("builtin/outline") && offered(2).contains("builtin/outline"));
    assert!(!offered(0).contains("builtin/finish") && !offered(0).contains("file-edit"));
    assert!(offered(2).contains("builtin/finish") && !offered(2).contains("submit-strategy"));
    // The second step knows what the first one did.
    assert!(
        messages_text(&model_calls[5]).contains("It is loud"),
        "{}",
        model_calls[5]
    );
}

#[test]
fn read_only_calls_run_concurrently() {
    let world = TestWorld::new();
    let lines: Vec<String> = (1..=12)
        .map(|line| format!("{{pattern: '{line}'}}"))
        .collect();
    let reads: Vec<(&str, &str)> = lines
        .iter()
        .map(|it| ("file-search", it.as_str()))
        .collect();
    world.define_llm_actor("coder", &[turn(&reads), finish("Read")].concat(), "");
    world.define_llm_job("builtin/direct", "local/coder", "");
    let plan = world.create_plan(TRUSTED);
    world
        .execute(&plan)
        .succeeded()
        .reports_state("execute/complete");
    let events = world.events(&plan);
    let place = |kind: &str, nth: usize| {
        let found = events.iter().filter(|it| it["kind"] == kind).nth(nth);
        found.unwrap()["plan_seq"].as_u64().unwrap()
    };
    assert!(
        place("tool_invoked", 1) < place("tool_completed", 0),
        "a second one begins before the first ends"
    );
    // In whatever order they end, the model gets the results in the order of its calls.
    let model_calls = world.model_calls(&plan);
    let slots: Vec<u64> = model_calls[1]["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|it| it["call"]["slot"].as_u64())
        .collect();
    assert_eq!(slots, (1..=12).collect::<Vec<u64>>());
}

#[test]
fn the_direct_actor_makes_one_step_per_line() {
    let world = TestWorld::new();
    let turns = [
        turn(&[("shell", "{command: 'echo 1 >> log'}")]),
        finish("One"),
        turn(&[("shell", "{command: 'echo 2 >> log'}")]),
        finish("Two"),
    ];
    world.define_llm_actor("coder", &turns.concat(), "");
    let done = "definition_of_done: |\n  The first line\n\n    The second line\n";
    world.define_llm_job("builtin/direct", "local/coder", done);
    let plan = world.create_plan(TRUSTED);
    let run = world
        .execute(&plan)
        .succeeded()
        .reports_state("execute/complete");
    let steps = run.data()["strategy_summary"]["steps"].clone();
    let titles: Vec<&str> = steps
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["title"].as_str().unwrap())
        .collect();
    assert_eq!(titles, ["The first line", "The second line"]);
    assert_eq!(world.sandbox_files(&plan)["log"], "0 1\n2\n");
    let model_calls = world.model_calls(&plan);
    assert_eq!(model_calls.len(), 4);
    assert!(
        messages_text(&model_calls[2]).contains("Your step: 2"),
        "{}",
        model_calls[2]
    );
}

#[test]
fn the_model_repairs_a_failed_check() {
    let world = TestWorld::new();
    let turns = [
        turn(&[("file-write", "{path: new, content: wrong}")]),
        finish("Written"),
        turn(&[("file-edit", "{path: new, old: wrong, new: right}")]),
        finish("Mended"),
    ];
    world.define_llm_actor("coder", &turns.concat(), "");
    let check = "checks: [{run: 'grep right new || { echo it says $(cat new); exit 1; }'}]\n";
    world.define_llm_job("builtin/direct", "local/coder", check);
    let plan = world.create_plan(TRUSTED);
    world
        .execute(&plan)
        .succeeded()
        .reports_state("execute/complete");
    assert_eq!(world.sandbox_files(&plan)["new"], "0 right");
    assert_eq!(
        world.events_of_kind(&plan, "validations_completed").len(),
        2
    );
    let model_calls = world.model_calls(&plan);
    assert_eq!(model_calls.len(), 4);
    // It gets the output of the check.
    assert!(
        messages_text(&model_calls[2]).contains("it says wrong"),
        "{}",
        model_calls[2]
    );
}

#[test]
fn repository_instructions_are_used_and_recorded() {
    let world = TestWorld::new();
    let words = "Always write tests before breakfast.\n";
    world.write("shop/AGENTS.md", words);
    world.write(
        "shop/.agents/skills/bake/SKILL.md",
        "---\nname: bake\ndescription: How to bake bread\n---\nThe secret is patience.\n",
    );
    world.commit("shop", "words");
    world.define_llm_actor("coder", &finish("Nothing"), "");
    world.define_llm_job("builtin/direct", "local/coder", "");
    let plan = world.create_plan(TRUSTED);
    world
        .execute(&plan)
        .succeeded()
        .reports_state("execute/complete");
    let payload = &world.events_of_kind(&plan, "instructions_read")[0]["payload"];
    assert_eq!(payload["instructions"][0]["path"], "AGENTS.md", "{payload}");
    let hash = blake3::hash(words.as_bytes()).to_hex().to_string();
    assert_eq!(payload["instructions"][0]["hash"], hash.as_str());
    let said = messages_text(&world.model_calls(&plan)[0]);
    assert!(said.contains("tests before breakfast"), "{said}");
    assert!(said.contains("bake: How to bake bread"), "{said}");
    assert!(!said.contains("The secret is patience"), "{said}");
}

/// Files of a repository, some with instructions.
const INSTRUCTION_FILES: [(&str, &str); 7] = [
    ("AGENTS.md", "The root speaks.\n"),
    ("lib/AGENTS.md", "The library speaks.\n"),
    ("lib/deep/AGENTS.md", "The deep speaks.\n"),
    ("lib/one.txt", "1\n"),
    ("lib/two.txt", "2\n"),
    ("docs/AGENTS.md", "The docs speak.\n"),
    ("else/AGENTS.md", "Nobody comes here.\n"),
];

#[test]
fn nested_instructions_are_sent_once_on_first_access() {
    let world = TestWorld::new();
    for (path, words) in INSTRUCTION_FILES {
        world.write(&format!("shop/{path}"), words);
    }
    world.commit("shop", "words");
    let write = |path: &str| {
        let input = format!("{{path: {path}, content: \"Obey me.\\n\"}}");
        turn(&[("file-write", input.as_str())])
    };
    let turns = [
        turn(&[("file-read", "{path: lib/one.txt}")]),
        turn(&[("file-read", "{path: lib/two.txt}")]),
        // A file that the plan itself wrote is no instruction, wherever it is.
        write("new/AGENTS.md"),
        write("docs/mine/AGENTS.md"),
        write("lib/deep/three.txt"),
        finish("Read"),
    ];
    world.define_llm_actor("coder", &turns.concat(), "");
    world.define_llm_job("builtin/direct", "local/coder", "");
    let plan = world.create_plan(TRUSTED);
    world
        .execute(&plan)
        .succeeded()
        .reports_state("execute/complete");
    let model_calls = world.model_calls(&plan);
    let said = |turn: usize| messages_text(&model_calls[turn]);
    assert!(said(0).contains("The root speaks."));
    assert!(!said(0).contains("The library speaks."), "not before");
    assert!(
        said(1).contains("# Instructions from lib/AGENTS.md"),
        "{}",
        said(1)
    );
    let all = said(5);
    for (words, times) in [
        ("The root speaks.", 1),
        ("The library speaks.", 1),
        ("The deep speaks.", 1),
        // A nested file of the plan does not hide it.
        ("The docs speak.", 1),
        ("# Instructions from docs/mine/", 0),
        ("Nobody comes here.", 0),
        ("# Instructions from new/", 0),
    ] {
        assert_eq!(all.matches(words).count(), times, "{words}: {all}");
    }
    let events = world.events_of_kind(&plan, "instructions_read");
    let paths: Vec<&str> = events
        .iter()
        .map(|it| it["payload"]["instructions"][0]["path"].as_str().unwrap())
        .collect();
    let expected = [
        "AGENTS.md",
        "lib/AGENTS.md",
        "docs/AGENTS.md",
        "lib/deep/AGENTS.md",
    ];
    assert_eq!(paths, expected);
}

/// Ways for a plan to write files that would be instructions if the user had written them.
const INSTRUCTION_WRITES: [&str; 5] = [
    "echo Obey me >> AGENTS.md",
    "rm -f AGENTS.md; echo Obey me > AGENTS.md",
    "echo Obey me > other; mv other AGENTS.md",
    "echo AGENTS.md > .gitignore; echo Obey me > AGENTS.md",
    "echo .agents > .gitignore; mkdir -p .agents/skills/obey; cd .agents/skills/obey; \
     { echo ---; echo name: obey; echo \"description: Obey me\"; echo ---; } > SKILL.md",
];

#[test]
fn files_written_by_a_plan_are_not_instructions() {
    for words in ["", "Always write tests before breakfast.\n"] {
        let world = TestWorld::new();
        if !words.is_empty() {
            world.write("shop/AGENTS.md", words);
        }
        world.write(
            "shop/.agents/skills/bake/SKILL.md",
            "---\nname: bake\ndescription: How to bake bread\n---\nThe secret is patience.\n",
        );
        world.commit("shop", "words");
        for orders in INSTRUCTION_WRITES {
            assert_writes_are_not_instructions(&world, words, orders);
        }
    }
}

/// Asserts that later steps and repairs of a plan that writes instructions get only those of the
/// user.
#[track_caller]
fn assert_writes_are_not_instructions(world: &TestWorld, words: &str, orders: &str) {
    let write = format!("{{command: '{orders}'}}");
    let turns = [
        turn(&[("shell", write.as_str())]),
        finish("One"),
        finish("Two"),
        turn(&[("shell", "{command: 'touch mended'}")]),
        finish("Mended"),
    ];
    world.define_llm_actor("coder", &turns.concat(), "");
    let more = "definition_of_done: |\n  The first line\n  The second line\n\
                checks: [{run: test -e mended}]\n";
    world.define_llm_job("builtin/direct", "local/coder", more);
    let plan = world.create_plan(TRUSTED);
    world
        .execute(&plan)
        .succeeded()
        .reports_state("execute/complete");
    let model_calls = world.model_calls(&plan);
    assert_eq!(model_calls.len(), 5, "{orders}");
    let system = |nth: usize| model_calls[nth]["messages"][0]["text"].as_str().unwrap();
    assert!(system(0).contains(words.trim_end()), "{orders}");
    for nth in [2, 3, 4] {
        let said = system(nth);
        assert!(!said.contains("Obey me"), "{orders}: {said}");
        assert!(said.contains("bake: How to bake bread"), "{orders}: {said}");
    }
    for event in world.events_of_kind(&plan, "instructions_read") {
        let used = event["payload"]["instructions"].as_array().unwrap();
        let hash = blake3::hash(words.as_bytes()).to_hex().to_string();
        assert!(used.iter().all(|it| it["hash"] == hash.as_str()), "{event}");
    }
}
