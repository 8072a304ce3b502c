//! Rolling back to a checkpoint, continuing from there, and undoing the rollback.

use cleveragents_domain::id::{DecisionId, PlanId};
use cleveragents_domain::{Decision, DecisionType};
use cleveragents_ports::StoreError;
use serde_json::Value;

use crate::world::TestWorld;

const STEPS: &str = "\
- {tool: builtin/shell, input: {command: 'echo 1 >> log; chmod +x dir/b; ln -s a link'}}
- {tool: builtin/file-write, input: {path: dir/new/c, content: c}}
- {tool: builtin/file-delete, input: {path: a}}
- {tool: builtin/file-move, input: {from: run.sh, to: moved.sh}}
- {tool: builtin/shell, input: {command: 'echo 5 >> log; chmod -x moved.sh; rm link'}}
";

fn checkpoints(world: &TestWorld, plan: &str) -> Vec<Value> {
    let listed = world.json_data(&["plan", "checkpoints", plan]);
    let mut found = listed["checkpoints"].as_array().unwrap().clone();
    found.reverse();
    found
}

/// Returns the number of the last checkpoint of the state after this many calls.
#[track_caller]
fn checkpoint_after_calls(world: &TestWorld, plan: &str, calls: i64) -> String {
    let found = checkpoints(world, plan);
    let it = found.iter().rfind(|it| it["call_number"] == calls);
    it.unwrap_or_else(|| panic!("{found:?}"))["number"].to_string()
}

fn rollback(world: &TestWorld, plan: &str, checkpoint: &str) -> Value {
    let run = world.run_json(&["plan", "rollback", plan, checkpoint]);
    run.succeeded().reports_state("execute/queued").data()
}

#[test]
fn rollback_restores_files_and_repeats_later_steps() {
    let world = TestWorld::new();
    let plan = world.create_executed_plan(STEPS);
    let end = world.sandbox_files(&plan);
    // Compares with the state after each number of calls, taken from a plan that stops there.
    for calls in (0..5_usize).rev() {
        let first: String = STEPS
            .lines()
            .take(calls)
            .flat_map(|it| [it, "\n"])
            .collect();
        let wanted = match calls {
            0 => world.files("shop"),
            _ => {
                let other = world.create_executed_plan(&first);
                world.sandbox_files(&other)
            }
        };
        let data = rollback(
            &world,
            &plan,
            &checkpoint_after_calls(&world, &plan, calls as i64),
        );
        assert_eq!(world.sandbox_files(&plan), wanted, "after {calls} calls");
        assert_eq!(data["impact"]["tool_calls_after_cp"], 5 - calls, "{data}");
        world.define_worker(STEPS);
        world
            .execute(&plan)
            .succeeded()
            .reports_state("execute/complete");
        assert_eq!(world.sandbox_files(&plan), end);
    }
    world.apply(&plan).succeeded();
    assert_eq!(world.files("shop"), end);
    // An applied plan cannot be rolled back.
    let run = world.run_json(&["plan", "rollback", &plan, "1"]);
    run.exits(4);
}

#[test]
fn a_rollback_can_be_undone() {
    let world = TestWorld::new();
    let plan = world.create_executed_plan(STEPS);
    let end = world.sandbox_files(&plan);
    let before = world.json_data(&["plan", "status", &plan]);
    let data = rollback(&world, &plan, &checkpoint_after_calls(&world, &plan, 2));
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
    // Everything is done, so no call is repeated.
    let calls = world.events_of_kind(&plan, "tool_invoked").len();
    world
        .execute(&plan)
        .succeeded()
        .reports_state("execute/complete");
    assert_eq!(world.events_of_kind(&plan, "tool_invoked").len(), calls);
    assert_eq!(world.sandbox_files(&plan), end);
    let after = world.json_data(&["plan", "status", &plan]);
    assert_eq!(after["name"], before["name"]);
    world.apply(&plan).succeeded();
    assert_eq!(world.files("shop"), end);
}

/// Records a decision about the work, as an actor does during execution.
fn insert_decision(world: &TestWorld, plan: &str) -> String {
    let bootstrap = world.bootstrap();
    let app = bootstrap.open().unwrap();
    let id: PlanId = plan.parse().unwrap();
    let made = DecisionId::new(app.ids().next());
    let write = app.store().write(app.operation("test.decide"), move |tx| {
        let root = tx.plan(id)?.decision_root_id;
        let root = tx.decision(root.unwrap())?;
        let now = tx.now()?;
        tx.insert_decision(&Decision {
            decision_id: made,
            parent_decision_id: Some(root.decision_id),
            decision_type: DecisionType::ImplementationChoice,
            created_at: now,
            ..root
        })?;
        Ok::<_, StoreError>(())
    });
    app.block_on(write).unwrap();
    made.to_string()
}

fn is_in_tree(world: &TestWorld, plan: &str, decision: &str) -> bool {
    let tree = world.json_data(&["plan", "tree", plan]);
    tree.to_string().contains(decision)
}

#[test]
fn undoing_a_rollback_reinstates_decisions() {
    let world = TestWorld::new();
    let plan = world.create_executed_plan(STEPS);
    let made = insert_decision(&world, &plan);
    assert!(is_in_tree(&world, &plan, &made));
    let early = checkpoint_after_calls(&world, &plan, 2);
    let data = rollback(&world, &plan, &early);
    assert!(!is_in_tree(&world, &plan, &made), "it was made later");
    assert_eq!(world.events_of_kind(&plan, "decision_reinstated").len(), 0);
    let undo = data["undo"]["number"].to_string();
    let data = rollback(&world, &plan, &undo);
    assert!(is_in_tree(&world, &plan, &made), "it is active again");
    let reinstated = world.events_of_kind(&plan, "decision_reinstated");
    assert_eq!(reinstated.len(), 1);
    assert!(reinstated[0].to_string().contains(&made));
    // A later decision is undone alone.
    let later = insert_decision(&world, &plan);
    let redo = data["undo"]["number"].to_string();
    rollback(&world, &plan, &redo);
    assert!(!is_in_tree(&world, &plan, &later));
}

#[test]
fn a_blocked_apply_can_be_rolled_back() {
    let world = TestWorld::new();
    let plan = world.create_executed_plan(STEPS);
    world.write("shop/a", "mine\n");
    world
        .apply(&plan)
        .exits(4)
        .reports_state("apply/constrained");
    let status = world.json_data(&["plan", "status", &plan]);
    assert!(
        status["execution"]["last_checkpoint"].is_string(),
        "{status}"
    );
    rollback(&world, &plan, &checkpoint_after_calls(&world, &plan, 2));
    // This does not change what blocked the plan.
    world.define_worker(
        &STEPS
            .lines()
            .take(2)
            .flat_map(|it| [it, "\n"])
            .collect::<String>(),
    );
    world
        .execute(&plan)
        .succeeded()
        .reports_state("execute/complete");
    world
        .apply(&plan)
        .succeeded()
        .reports_state("apply/applied");
    assert_eq!(world.read("shop/a"), "mine\n");
    assert_eq!(world.read("shop/dir/new/c"), "c");
}

#[test]
fn each_strategy_records_its_own_step_decisions() {
    let world = TestWorld::new();
    let plan = world.create_executed_plan(STEPS);
    let about_step = || {
        let created = world.events_of_kind(&plan, "decision_created");
        let about = |it: &&Value| it.to_string().contains("How is step 1 done");
        created.iter().filter(about).count()
    };
    assert_eq!(about_step(), 1);
    world.run_json(&["plan", "revert", &plan]).succeeded();
    world
        .execute(&plan)
        .succeeded()
        .reports_state("execute/complete");
    assert_eq!(about_step(), 2, "the strategy is another one");
}

#[test]
fn an_unknown_checkpoint_is_not_found() {
    let world = TestWorld::new();
    let plan = world.create_executed_plan(STEPS);
    let before = world.sandbox_files(&plan);
    for unknown in ["99", "01JZZZZZZZ0000000000000000", "zzzz"] {
        world
            .run_json(&["plan", "rollback", &plan, unknown])
            .exits(3);
    }
    for wrong in ["", "-", "x", "not a checkpoint"] {
        let run = world.run_json(&["plan", "rollback", &plan, wrong]);
        run.exits(2);
    }
    // A checkpoint of another plan is refused.
    let other = world.create_executed_plan(STEPS);
    let theirs = checkpoints(&world, &other)[0]["id"].clone();
    let run = world.run_json(&["plan", "rollback", &plan, theirs.as_str().unwrap()]);
    run.exits(3);
    assert_eq!(world.state(&plan), "execute/complete");
    assert_eq!(world.sandbox_files(&plan), before);
    // By id as well as by number.
    let mine = checkpoints(&world, &plan)[0]["id"].clone();
    rollback(&world, &plan, mine.as_str().unwrap());
    assert_eq!(world.sandbox_files(&plan), world.files("shop"));
}

#[test]
fn reverting_a_step_decision_restores_its_files() {
    let world = TestWorld::new();
    let plan = world.create_executed_plan(STEPS);
    let end = world.sandbox_files(&plan);
    // The steps change `log`, `dir/b`, `link`, `dir/new/c`, `a`, `run.sh` and `moved.sh`.
    let changed_files = 7;
    let tree = world.json_data(&["plan", "tree", &plan]).to_string();
    let created = world.events_of_kind(&plan, "decision_created");
    let step = created
        .iter()
        .rfind(|it| it.to_string().contains("How is step 1 done"))
        .unwrap_or_else(|| panic!("{tree}"));
    let decision = find_id(&step["payload"]).unwrap();
    let words = ["plan", "correct", &decision, "--mode", "revert"];
    let more = ["--guidance", "do it again", "--yes"];
    let run = world.run_json(&[&words[..], &more].concat());
    let data = run.succeeded().data();
    let rollback = &data["sandbox_rollback"];
    assert_eq!(rollback["status"], "rolled_back", "{data}");
    // The initial state has no checkpoint.
    assert_eq!(rollback["checkpoint"], Value::Null);
    assert_eq!(rollback["files_reverted"], changed_files, "{data}");
    assert_eq!(
        data["affected_subtree"]["artifacts_archived"],
        changed_files
    );
    assert_eq!(world.events_of_kind(&plan, "checkpoint_restored").len(), 1);
    let active = checkpoints(&world, &plan);
    let active = active.iter().filter(|it| it["undone_by"].is_null());
    assert_eq!(
        active.count(),
        1,
        "only the checkpoint of the undone work is active"
    );
    // Nothing of the undone work is left when the work is repeated.
    world.define_worker("- {tool: builtin/file-write, input: {path: other, content: other}}");
    world
        .execute(&plan)
        .succeeded()
        .reports_state("execute/complete");
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
