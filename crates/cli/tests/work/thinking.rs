//! Plans with models from end to end: what they decide, do and say, and what is on record of it.

use serde_json::Value;

use crate::models::{finish, nothing_is_asked_twice, text_of, turn};
use crate::world::{ALONE, World};

const DECISIONS: &str = "{summary: Say it louder, confidence: 0.9, rationale: It was too quiet, \
    decisions: [{question: How loud?, chosen: Very, alternatives: [A little, Not at all], \
    confidence: 0.8, rationale: Nobody heard it}], \
    steps: [{title: Look and edit, description: In dir}, {title: Count}]}";

/// The turns of a model that looks, plans, works in two steps and says so.
fn louder() -> String {
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
fn a_model_plans_works_is_checked_and_applied() {
    let world = World::new();
    world.thinker("coder", &louder(), "");
    world.thought_job(
        "local/coder",
        "local/coder",
        "checks: [{run: 'grep -q ONE dir/b'}]\n",
    );
    let plan = world.plan("supervised");
    let run = world.execute(&plan).exits(5).stands("strategize/complete");
    let data = run.data();
    assert_eq!(data["strategy_summary"]["summary"], "Say it louder");
    let hash = data["strategy_summary"]["hash"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(world.told(&plan, "tool_invoked").len(), 3);

    let tree = world.data(&["plan", "tree", &plan]);
    let nodes = tree["nodes"].as_array().unwrap();
    let shown: Vec<&str> = nodes
        .iter()
        .map(|it| it["description"].as_str().unwrap())
        .collect();
    assert_eq!(shown, ["Do the job", "Say it louder", "Very"]);
    let decision = nodes[2]["id"].as_str().unwrap();
    let explained = world.data(&["plan", "explain", decision]).to_string();
    for words in ["How loud?", "A little", "Not at all", "Nobody heard it"] {
        assert!(explained.contains(words), "{words}: {explained}");
    }

    world.execute(&plan).succeeded().stands("execute/complete");
    let approved = &world.told(&plan, "strategy_approved")[0];
    assert_eq!(approved["payload"]["hash"], hash.as_str());
    let completed = world.told(&plan, "actor_completed").into_iter();
    let steps: Vec<Value> = completed.map(|it| it["payload"]["step"].clone()).collect();
    assert_eq!(steps, [1, 2]);
    let files = world.sandbox_files(&plan);
    assert_eq!(files["dir/b"], "0 ONE\n");
    assert_eq!(files["log"], "0 ONE\n");
    assert_eq!(files["count"].trim(), "0 9");
    assert!(world.errors(&plan).is_empty());

    each_was_asked_for_what_is_theirs(&world.asked(&plan));
    let run = world.apply(&plan).succeeded().stands("apply/applied");
    assert_eq!(world.read("shop/dir/b"), "ONE\n");
    assert_eq!(world.commits("shop"), 2, "{run:?}");
    assert_eq!(world.dirt("shop"), "");
}

/// The seven requests of [`louder`]: each has its answer, its tools and what was done before.
#[track_caller]
fn each_was_asked_for_what_is_theirs(asked: &[Value]) {
    assert_eq!(asked.len(), 7);
    assert!(asked.iter().all(|it| it["state"] == "answered"));
    nothing_is_asked_twice(asked);
    // What looks only is offered to who plans, and the end of the other task is not.
    let offered = |nth: usize| asked[nth]["tools"].to_string();
    assert!(offered(0).contains("submit-strategy") && !offered(0).contains("shell"));
    assert!(offered(0).contains("builtin/outline") && offered(2).contains("builtin/outline"));
    assert!(!offered(0).contains("builtin/finish") && !offered(0).contains("file-edit"));
    assert!(offered(2).contains("builtin/finish") && !offered(2).contains("submit-strategy"));
    // The second step knows what the first one did.
    assert!(text_of(&asked[5]).contains("It is loud"), "{}", asked[5]);
}

#[test]
fn calls_that_only_read_are_made_at_once() {
    let world = World::new();
    let lines: Vec<String> = (1..=12)
        .map(|line| format!("{{pattern: '{line}'}}"))
        .collect();
    let reads: Vec<(&str, &str)> = lines
        .iter()
        .map(|it| ("file-search", it.as_str()))
        .collect();
    world.thinker("coder", &[turn(&reads), finish("Read")].concat(), "");
    world.thought_job("builtin/direct", "local/coder", "");
    let plan = world.plan(ALONE);
    world.execute(&plan).succeeded().stands("execute/complete");
    let events = world.events(&plan);
    let place = |kind: &str, nth: usize| {
        let found = events.iter().filter(|it| it["kind"] == kind).nth(nth);
        found.unwrap()["plan_seq"].as_u64().unwrap()
    };
    assert!(
        place("tool_invoked", 1) < place("tool_completed", 0),
        "a second one begins before the first ends"
    );
    // However they end, the model hears of them in the order it asked.
    let asked = world.asked(&plan);
    let slots: Vec<u64> = asked[1]["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|it| it["call"]["slot"].as_u64())
        .collect();
    assert_eq!(slots, (1..=12).collect::<Vec<u64>>());
}

#[test]
fn who_plans_directly_makes_a_step_of_each_line() {
    let world = World::new();
    let turns = [
        turn(&[("shell", "{command: 'echo 1 >> log'}")]),
        finish("One"),
        turn(&[("shell", "{command: 'echo 2 >> log'}")]),
        finish("Two"),
    ];
    world.thinker("coder", &turns.concat(), "");
    let done = "definition_of_done: |\n  The first line\n\n    The second line\n";
    world.thought_job("builtin/direct", "local/coder", done);
    let plan = world.plan(ALONE);
    let run = world.execute(&plan).succeeded().stands("execute/complete");
    let steps = run.data()["strategy_summary"]["steps"].clone();
    let titles: Vec<&str> = steps
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["title"].as_str().unwrap())
        .collect();
    assert_eq!(titles, ["The first line", "The second line"]);
    assert_eq!(world.sandbox_files(&plan)["log"], "0 1\n2\n");
    let asked = world.asked(&plan);
    assert_eq!(asked.len(), 4);
    assert!(text_of(&asked[2]).contains("Your step: 2"), "{}", asked[2]);
}

#[test]
fn a_check_that_fails_is_mended_by_the_model() {
    let world = World::new();
    let turns = [
        turn(&[("file-write", "{path: new, content: wrong}")]),
        finish("Written"),
        turn(&[("file-edit", "{path: new, old: wrong, new: right}")]),
        finish("Mended"),
    ];
    world.thinker("coder", &turns.concat(), "");
    let check = "checks: [{run: 'grep right new || { echo it says $(cat new); exit 1; }'}]\n";
    world.thought_job("builtin/direct", "local/coder", check);
    let plan = world.plan(ALONE);
    world.execute(&plan).succeeded().stands("execute/complete");
    assert_eq!(world.sandbox_files(&plan)["new"], "0 right");
    assert_eq!(world.told(&plan, "validations_completed").len(), 2);
    let asked = world.asked(&plan);
    assert_eq!(asked.len(), 4);
    // It hears what the check said.
    assert!(text_of(&asked[2]).contains("it says wrong"), "{}", asked[2]);
}

#[test]
fn what_the_repository_says_is_heeded_and_its_hash_is_on_record() {
    let world = World::new();
    let words = "Always write tests before breakfast.\n";
    world.write("shop/AGENTS.md", words);
    world.write(
        "shop/.agents/skills/bake/SKILL.md",
        "---\nname: bake\ndescription: How to bake bread\n---\nThe secret is patience.\n",
    );
    world.commit("shop", "words");
    world.thinker("coder", &finish("Nothing"), "");
    world.thought_job("builtin/direct", "local/coder", "");
    let plan = world.plan(ALONE);
    world.execute(&plan).succeeded().stands("execute/complete");
    let told = &world.told(&plan, "instructions_read")[0]["payload"];
    assert_eq!(told["instructions"][0]["path"], "AGENTS.md", "{told}");
    let hash = blake3::hash(words.as_bytes()).to_hex().to_string();
    assert_eq!(told["instructions"][0]["hash"], hash.as_str());
    let said = text_of(&world.asked(&plan)[0]);
    assert!(said.contains("tests before breakfast"), "{said}");
    assert!(said.contains("bake: How to bake bread"), "{said}");
    assert!(!said.contains("The secret is patience"), "{said}");
}

/// Files of a repository, some of which speak.
const SPEAKERS: [(&str, &str); 7] = [
    ("AGENTS.md", "The root speaks.\n"),
    ("lib/AGENTS.md", "The library speaks.\n"),
    ("lib/deep/AGENTS.md", "The deep speaks.\n"),
    ("lib/one.txt", "1\n"),
    ("lib/two.txt", "2\n"),
    ("docs/AGENTS.md", "The docs speak.\n"),
    ("else/AGENTS.md", "Nobody comes here.\n"),
];

#[test]
fn instructions_further_down_are_told_once_when_the_work_comes_there() {
    let world = World::new();
    for (path, words) in SPEAKERS {
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
        // What the plan writes itself is no instruction, wherever it stands.
        write("new/AGENTS.md"),
        write("docs/mine/AGENTS.md"),
        write("lib/deep/three.txt"),
        finish("Read"),
    ];
    world.thinker("coder", &turns.concat(), "");
    world.thought_job("builtin/direct", "local/coder", "");
    let plan = world.plan(ALONE);
    world.execute(&plan).succeeded().stands("execute/complete");
    let asked = world.asked(&plan);
    let said = |turn: usize| text_of(&asked[turn]);
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
        // What the plan put before it does not silence it.
        ("The docs speak.", 1),
        ("# Instructions from docs/mine/", 0),
        ("Nobody comes here.", 0),
        ("# Instructions from new/", 0),
    ] {
        assert_eq!(all.matches(words).count(), times, "{words}: {all}");
    }
    let told = world.told(&plan, "instructions_read");
    let paths: Vec<&str> = told
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

/// Ways in which a plan writes what would be heeded if the user had written it.
const ORDERS: [&str; 5] = [
    "echo Obey me >> AGENTS.md",
    "rm -f AGENTS.md; echo Obey me > AGENTS.md",
    "echo Obey me > other; mv other AGENTS.md",
    "echo AGENTS.md > .gitignore; echo Obey me > AGENTS.md",
    "echo .agents > .gitignore; mkdir -p .agents/skills/obey; cd .agents/skills/obey; \
     { echo ---; echo name: obey; echo \"description: Obey me\"; echo ---; } > SKILL.md",
];

#[test]
fn what_a_plan_writes_gives_no_orders_to_its_later_steps() {
    for words in ["", "Always write tests before breakfast.\n"] {
        let world = World::new();
        if !words.is_empty() {
            world.write("shop/AGENTS.md", words);
        }
        world.write(
            "shop/.agents/skills/bake/SKILL.md",
            "---\nname: bake\ndescription: How to bake bread\n---\nThe secret is patience.\n",
        );
        world.commit("shop", "words");
        for orders in ORDERS {
            gives_no_orders(&world, words, orders);
        }
    }
}

/// The later steps of a plan that writes orders, and who mends, hear what the user wrote only.
#[track_caller]
fn gives_no_orders(world: &World, words: &str, orders: &str) {
    let write = format!("{{command: '{orders}'}}");
    let turns = [
        turn(&[("shell", write.as_str())]),
        finish("One"),
        finish("Two"),
        turn(&[("shell", "{command: 'touch mended'}")]),
        finish("Mended"),
    ];
    world.thinker("coder", &turns.concat(), "");
    let more = "definition_of_done: |\n  The first line\n  The second line\n\
                checks: [{run: test -e mended}]\n";
    world.thought_job("builtin/direct", "local/coder", more);
    let plan = world.plan(ALONE);
    world.execute(&plan).succeeded().stands("execute/complete");
    let asked = world.asked(&plan);
    assert_eq!(asked.len(), 5, "{orders}");
    let system = |nth: usize| asked[nth]["messages"][0]["text"].as_str().unwrap();
    assert!(system(0).contains(words.trim_end()), "{orders}");
    for nth in [2, 3, 4] {
        let said = system(nth);
        assert!(!said.contains("Obey me"), "{orders}: {said}");
        assert!(said.contains("bake: How to bake bread"), "{orders}: {said}");
    }
    for told in world.told(&plan, "instructions_read") {
        let used = told["payload"]["instructions"].as_array().unwrap();
        let hash = blake3::hash(words.as_bytes()).to_hex().to_string();
        assert!(used.iter().all(|it| it["hash"] == hash.as_str()), "{told}");
    }
}
