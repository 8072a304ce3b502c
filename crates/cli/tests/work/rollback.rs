//! Going back to a checkpoint, going on from there, and undoing that.

use cleveragents_domain::id::{DecisionId, PlanId};
use cleveragents_domain::{Decision, DecisionType};
use cleveragents_engine::StoreError;
use serde_json::Value;

use crate::world::World;

const STEPS: &str = "\
- {tool: builtin/shell, input: {command: 'echo 1 >> log; chmod +x dir/b; ln -s a link'}}
- {tool: builtin/file-write, input: {path: dir/new/c, content: c}}
- {tool: builtin/file-delete, input: {path: a}}
- {tool: builtin/file-move, input: {from: run.sh, to: moved.sh}}
- {tool: builtin/shell, input: {command: 'echo 5 >> log; chmod -x moved.sh; rm link'}}
";

fn checkpoints(world: &World, plan: &str) -> Vec<Value> {
    let listed = world.data(&["plan", "checkpoints", plan]);
    let mut found = listed["checkpoints"].as_array().unwrap().clone();
    found.reverse();
    found
}

/// The number of the last checkpoint that holds how things stood after so many calls.
#[track_caller]
fn after_calls(world: &World, plan: &str, calls: i64) -> String {
    let found = checkpoints(world, plan);
    let it = found.iter().rfind(|it| it["call_number"] == calls);
    it.unwrap_or_else(|| panic!("{found:?}"))["number"].to_string()
}

fn rollback(world: &World, plan: &str, checkpoint: &str) -> Value {
    let run = world.ask(&["plan", "rollback", plan, checkpoint]);
    run.succeeded().stands("execute/queued").data()
}

#[test]
fn files_are_exactly_as_they_were_and_the_rest_is_done_again() {
    let world = World::new();
    let plan = world.executed(STEPS);
    let end = world.sandbox_files(&plan);
    // How it stood after each number of calls, from a plan that stops there.
    for calls in (0..5_usize).rev() {
        let first: String = STEPS
            .lines()
            .take(calls)
            .flat_map(|it| [it, "\n"])
            .collect();
        let wanted = match calls {
            0 => world.files("shop"),
            _ => {
                let other = world.executed(&first);
                world.sandbox_files(&other)
            }
        };
        let data = rollback(&world, &plan, &after_calls(&world, &plan, calls as i64));
        assert_eq!(world.sandbox_files(&plan), wanted, "after {calls} calls");
        assert_eq!(data["impact"]["tool_calls_after_cp"], 5 - calls, "{data}");
        world.worker(STEPS);
        world.execute(&plan).succeeded().stands("execute/complete");
        assert_eq!(world.sandbox_files(&plan), end);
    }
    world.apply(&plan).succeeded();
    assert_eq!(world.files("shop"), end);
    // What is applied is not set back.
    let run = world.ask(&["plan", "rollback", &plan, "1"]);
    run.exits(4);
}

#[test]
fn a_rollback_is_undone_by_another() {
    let world = World::new();
    let plan = world.executed(STEPS);
    let end = world.sandbox_files(&plan);
    let before = world.data(&["plan", "status", &plan]);
    let data = rollback(&world, &plan, &after_calls(&world, &plan, 2));
    assert_ne!(world.sandbox_files(&plan), end);
    let undone = |found: &[Value]| found.iter().filter(|it| !it["undone_by"].is_null()).count();
    assert!(undone(&checkpoints(&world, &plan)) > 0);
    let undo = data["undo"]["number"].to_string();
    let back = rollback(&world, &plan, &undo);
    assert_eq!(world.sandbox_files(&plan), end);
    assert_eq!(back["impact"]["tool_calls_after_cp"], 0, "{back}");
    let standing = checkpoints(&world, &plan);
    let standing = standing.iter().filter(|it| it["undone_by"].is_null());
    assert!(standing.count() >= 5);
    // Everything is done: nothing is made again.
    let calls = world.told(&plan, "tool_invoked").len();
    world.execute(&plan).succeeded().stands("execute/complete");
    assert_eq!(world.told(&plan, "tool_invoked").len(), calls);
    assert_eq!(world.sandbox_files(&plan), end);
    let after = world.data(&["plan", "status", &plan]);
    assert_eq!(after["name"], before["name"]);
    world.apply(&plan).succeeded();
    assert_eq!(world.files("shop"), end);
}

/// Puts a decision about the work on record, as an actor does that decides on its way.
fn decide(world: &World, plan: &str) -> String {
    let wiring = world.wiring();
    let wired = wiring.open().unwrap();
    let id: PlanId = plan.parse().unwrap();
    let made = DecisionId::new(wired.ids().next());
    let write = wired
        .store()
        .write(wired.operation("test.decide"), move |unit| {
            let root = unit.plan(id)?.decision_root_id;
            let root = unit.decision(root.unwrap())?;
            let now = unit.now()?;
            unit.insert_decision(&Decision {
                decision_id: made,
                parent_decision_id: Some(root.decision_id),
                decision_type: DecisionType::ImplementationChoice,
                created_at: now,
                ..root
            })?;
            Ok::<_, StoreError>(())
        });
    wired.wait(write).unwrap();
    made.to_string()
}

fn stands(world: &World, plan: &str, decision: &str) -> bool {
    let tree = world.data(&["plan", "tree", plan]);
    tree.to_string().contains(decision)
}

#[test]
fn decisions_that_were_given_up_stand_again_when_that_is_undone() {
    let world = World::new();
    let plan = world.executed(STEPS);
    let made = decide(&world, &plan);
    assert!(stands(&world, &plan, &made));
    let early = after_calls(&world, &plan, 2);
    let data = rollback(&world, &plan, &early);
    assert!(!stands(&world, &plan, &made), "it was made later");
    assert_eq!(world.told(&plan, "decision_reinstated").len(), 0);
    let undo = data["undo"]["number"].to_string();
    let data = rollback(&world, &plan, &undo);
    assert!(stands(&world, &plan, &made), "it stands again");
    let told = world.told(&plan, "decision_reinstated");
    assert_eq!(told.len(), 1);
    assert!(told[0].to_string().contains(&made));
    // One that is made after that is given up alone.
    let later = decide(&world, &plan);
    let redo = data["undo"]["number"].to_string();
    rollback(&world, &plan, &redo);
    assert!(!stands(&world, &plan, &later));
}

#[test]
fn what_apply_refuses_can_be_gone_back_from() {
    let world = World::new();
    let plan = world.executed(STEPS);
    world.write("shop/a", "mine\n");
    world.apply(&plan).exits(4).stands("apply/constrained");
    let status = world.data(&["plan", "status", &plan]);
    assert!(
        status["execution"]["last_checkpoint"].is_string(),
        "{status}"
    );
    rollback(&world, &plan, &after_calls(&world, &plan, 2));
    // What blocked is not changed by this.
    world.worker(
        &STEPS
            .lines()
            .take(2)
            .flat_map(|it| [it, "\n"])
            .collect::<String>(),
    );
    world.execute(&plan).succeeded().stands("execute/complete");
    world.apply(&plan).succeeded().stands("apply/applied");
    assert_eq!(world.read("shop/a"), "mine\n");
    assert_eq!(world.read("shop/dir/new/c"), "c");
}

#[test]
fn a_step_of_another_strategy_has_a_decision_of_its_own() {
    let world = World::new();
    let plan = world.executed(STEPS);
    let about_step = || {
        let told = world.told(&plan, "decision_created");
        let about = |it: &&Value| it.to_string().contains("How is step 1 done");
        told.iter().filter(about).count()
    };
    assert_eq!(about_step(), 1);
    world.ask(&["plan", "revert", &plan]).succeeded();
    world.execute(&plan).succeeded().stands("execute/complete");
    assert_eq!(about_step(), 2, "the strategy is another one");
}

#[test]
fn a_checkpoint_that_is_not_there_is_not_found() {
    let world = World::new();
    let plan = world.executed(STEPS);
    let before = world.sandbox_files(&plan);
    for unknown in ["99", "01JZZZZZZZ0000000000000000", "zzzz"] {
        world.ask(&["plan", "rollback", &plan, unknown]).exits(3);
    }
    for wrong in ["", "-", "x", "not a checkpoint"] {
        let run = world.ask(&["plan", "rollback", &plan, wrong]);
        run.exits(2);
    }
    // One of another plan is none of this one.
    let other = world.executed(STEPS);
    let theirs = checkpoints(&world, &other)[0]["id"].clone();
    let run = world.ask(&["plan", "rollback", &plan, theirs.as_str().unwrap()]);
    run.exits(3);
    assert_eq!(world.state(&plan), "execute/complete");
    assert_eq!(world.sandbox_files(&plan), before);
    // By its id as well as by its number.
    let mine = checkpoints(&world, &plan)[0]["id"].clone();
    rollback(&world, &plan, mine.as_str().unwrap());
    assert_eq!(world.sandbox_files(&plan), world.files("shop"));
}

#[test]
fn reverting_the_decision_of_a_step_sets_its_files_back() {
    let world = World::new();
    let plan = world.executed(STEPS);
    let end = world.sandbox_files(&plan);
    let tree = world.data(&["plan", "tree", &plan]).to_string();
    let told = world.told(&plan, "decision_created");
    let step = told
        .iter()
        .rfind(|it| it.to_string().contains("How is step 1 done"))
        .unwrap_or_else(|| panic!("{tree}"));
    let decision = find_id(&step["payload"]).unwrap();
    let words = ["plan", "correct", &decision, "--mode", "revert"];
    let more = ["--guidance", "do it again", "--yes"];
    let run = world.ask(&[&words[..], &more].concat());
    run.succeeded();
    assert_eq!(world.told(&plan, "checkpoint_restored").len(), 1);
    let standing = checkpoints(&world, &plan);
    let standing = standing.iter().filter(|it| it["undone_by"].is_null());
    assert_eq!(standing.count(), 1, "only what was set aside stands");
    // Nothing of what was given up is left when the work is done anew.
    world.worker("- {tool: builtin/file-write, input: {path: other, content: other}}");
    world.execute(&plan).succeeded().stands("execute/complete");
    let mut wanted = world.files("shop");
    wanted.insert("other".to_owned(), "0 other".to_owned());
    assert_eq!(world.sandbox_files(&plan), wanted);
    assert_ne!(wanted, end);
    world.apply(&plan).succeeded();
    assert_eq!(world.files("shop"), wanted);
}

fn find_id(payload: &Value) -> Option<String> {
    let direct = payload["decision_id"].as_str();
    let nested = payload["decision"]["decision_id"].as_str();
    direct.or(nested).map(str::to_owned)
}
