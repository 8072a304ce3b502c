//! No dead ends: from every unfinished position of the lifecycle table, commands lead to `applied`
//! and to another final state. Every command that is hinted at succeeds or says why not.
//!
//! The positions are generated from the table. Each is reached from a plan that real commands
//! brought close to it, by the remaining moves.

use std::collections::{BTreeSet, VecDeque};
use std::path::Path;

use cleveragents_cli::bootstrap::AppContext;
use cleveragents_domain::id::PlanId;
use cleveragents_domain::strategy::Approver;
use cleveragents_domain::{Move, Phase, Plan, PlanState, Position, Timestamp, WaitReason};
use cleveragents_engine::lifecycle::{LifecycleError, PlanLifecycle};
use cleveragents_engine::runs::RunLease;
use cleveragents_integration_tests::plan_driver::{PassingProbe, claim_run};
use cleveragents_ports::{StoreError, Transaction};
use serde_json::{Value, json};

use crate::kill_at_step::WorldSnapshot;
use crate::manual_recovery::set_up_stuck_apply;
use crate::run_command::{run_words, shop_path, world_without_project};
use crate::world::{AGENTS, AgentsRun, TRUSTED, TestWorld};

const EDIT: &str = "- {tool: builtin/file-edit, input: {path: a, old: '2', new: two}}\n";
const STEPS: &str = "\
- {tool: builtin/file-edit, input: {path: a, old: '2', new: two}}
- {tool: builtin/file-write, input: {path: made, content: made}}
";

const WAITING_KINDS: [WaitReason; 5] = [
    WaitReason::Slot,
    WaitReason::Approval { decision: None },
    WaitReason::Answer { decision: None },
    WaitReason::Budget,
    WaitReason::Until {
        until: Timestamp::from_micros(1),
    },
];

/// Returns the moves that need no record besides the plan itself.
fn plain_moves() -> Vec<Move> {
    let mut moves = vec![Move::Start, Move::Fail, Move::Constrain, Move::Retry];
    moves.extend(WAITING_KINDS.map(Move::Wait));
    moves.extend([Phase::Execute, Phase::Apply].map(Move::Advance));
    moves
}

fn every_move() -> Vec<Move> {
    let mut moves = plain_moves();
    moves.extend([
        Move::Complete,
        Move::Decide,
        Move::Apply,
        Move::Abort,
        Move::Unapply,
        Move::Resume,
        Move::Cancel,
    ]);
    moves
}

/// Returns every position that `moves` reach from `from`, with the shortest path to it.
fn reachable(from: Position, moves: &[Move]) -> Vec<(Position, Vec<Move>)> {
    let mut found = vec![(from, Vec::new())];
    let mut open = VecDeque::from([0]);
    while let Some(next) = open.pop_front() {
        let (at, way) = found[next].clone();
        for next_move in moves {
            if let Ok(to) = at.after(*next_move)
                && !found.iter().any(|(known, _)| *known == to)
            {
                open.push_back(found.len());
                found.push((to, [way.as_slice(), &[*next_move]].concat()));
            }
        }
    }
    found
}

/// A plan in a state that real commands reached.
struct PlanFixture {
    world: TestWorld,
    plan: String,
}

impl PlanFixture {
    fn all() -> Vec<Self> {
        vec![
            Self::used(),
            Self::strategized(),
            Self::executed(),
            Self::stopped(),
        ]
    }

    fn used() -> Self {
        let world = TestWorld::new();
        world.define_worker(EDIT);
        world.define_worker_job("");
        let plan = world.create_plan(TRUSTED);
        Self { world, plan }
    }

    fn strategized() -> Self {
        let world = TestWorld::new();
        world.define_worker(EDIT);
        world.define_worker_job("");
        let plan = world.create_plan("supervised");
        world.execute(&plan).exits(5);
        Self { world, plan }
    }

    fn executed() -> Self {
        let world = TestWorld::new();
        let plan = world.create_executed_plan(EDIT);
        Self { world, plan }
    }

    fn stopped() -> Self {
        let world = TestWorld::new();
        let plan = world.create_executed_plan(STEPS);
        set_up_stuck_apply(&world, &plan);
        world.run(&["init"]).succeeded();
        Self { world, plan }
    }

    fn position(&self) -> Position {
        let bootstrap = self.world.bootstrap();
        let app = bootstrap.open_to_read().unwrap();
        let plan = {
            let id: PlanId = self.plan.parse().unwrap();
            app.block_on(app.store().read(move |tx| tx.plan(id)))
        };
        plan.unwrap().position
    }

    /// Makes the moves as commands and owners do. An owner that still runs at the end dies.
    fn make_moves(&self, way: &[Move]) {
        let bootstrap = self.world.bootstrap();
        let app = bootstrap.open_to_read().unwrap();
        let id = self.plan.parse().unwrap();
        let lifecycle = PlanLifecycle::new(app.store().clone(), app.ids(), app.liveness());
        let runs = app.runs();
        app.block_on(async {
            let mut held: Option<RunLease> = None;
            for next_move in way {
                match next_move {
                    Move::Retry => drop(lifecycle.retry(id, "a test").await.unwrap()),
                    Move::Advance(to) => {
                        if *to == Phase::Execute {
                            approve(&app, id).await;
                        }
                        lifecycle.advance(id, *to, "a test").await.unwrap();
                    }
                    next_move => {
                        let run = match held.take() {
                            Some(run) => run,
                            None => claim_run(&runs, id, Phase::Execute).await,
                        };
                        let plan = make_move(&lifecycle, &run, *next_move).await.unwrap();
                        if plan.position.state() == PlanState::Processing {
                            held = Some(run);
                        } else {
                            lifecycle.release(run).await.unwrap();
                        }
                    }
                }
            }
        });
    }

    fn run_json(&self, words: &[&str]) -> AgentsRun {
        self.world.run_json(words)
    }

    /// Returns the commands that the status names, of which there must be one.
    fn status_hints(&self, at: &str) -> Vec<String> {
        let run = self.run_json(&["plan", "status", &self.plan]).succeeded();
        let named = hints(&run);
        let names_command = named.iter().any(|it| it.starts_with("agents "));
        assert!(names_command, "{at} names no command: {run:?}");
        hints_of(&run, &self.plan)
    }

    /// Runs a hint right after the command that printed it.
    fn follow_hint(&self, at: &str, hint: &str) {
        let words = self.next_command();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.run_json(&words);
        self.run_hint(at, hint);
    }

    /// Runs a hint: it succeeds or says why not.
    fn run_hint(&self, at: &str, hint: &str) {
        // The only quoted text is the last argument.
        let (line, quoted) = hint.split_once(" '").unwrap_or((hint, ""));
        let mut words: Vec<&str> = line.split(' ').skip(1).collect();
        if !quoted.is_empty() {
            words.push(quoted.trim_end_matches('\''));
        }
        if words.get(1) == Some(&"apply") && !words.contains(&"--yes") {
            words.push("--yes");
        }
        let run = self.run_json(&words);
        let envelope: Value = serde_json::from_str(&run.stdout).unwrap_or_default();
        let messages = envelope["messages"].as_array().cloned().unwrap_or_default();
        let is_error = |it: &Value| it["level"] == "error" && it["text"] != "";
        let says_why = matches!(run.code, Some(4..=7 | 75)) && messages.iter().any(is_error);
        assert!(run.code == Some(0) || says_why, "{at}: {hint}: {run:?}");
    }

    fn status(&self) -> Value {
        self.world.json_data(&["plan", "status", &self.plan])
    }

    fn state(&self) -> String {
        self.world.state(&self.plan)
    }

    /// Returns the next command of a user who wants to finish the plan.
    fn next_command(&self) -> Vec<String> {
        let status = self.status();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (phase, state) = (text(&status["phase"]), text(&status["state"]));
        let plan = self.plan.as_str();
        let words: &[&str] = match text(&status["waiting"]["kind"]).as_str() {
            _ if phase == "apply" => &["plan", "apply", plan, "--yes"],
            "answer" => &["plan", "prompt", plan, "go on"],
            "budget" => &["plan", "resume", plan, "--max-tokens", "1000000"],
            _ if phase == "execute" && state == "complete" => &["plan", "apply", plan, "--yes"],
            _ => &["plan", "execute", plan],
        };
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    /// Runs commands until the plan is applied; returns the hints seen.
    fn drive_to_applied(&self, at: &str) -> Vec<(String, String)> {
        let mut hints = Vec::new();
        for _ in 0..8 {
            let words = self.next_command();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let run = self.run_json(&words);
            let state = self.state();
            hints.extend(
                hints_of(&run, &self.plan)
                    .into_iter()
                    .map(|hint| (state.clone(), hint)),
            );
            if state == "apply/applied" {
                return hints;
            }
            let rebase = format!("agents plan rebase {}", self.plan);
            if run.code == Some(4) && hints_of(&run, &self.plan).contains(&rebase) {
                let run = self.run_json(&["plan", "rebase", &self.plan]);
                assert!(matches!(run.code, Some(0 | 5)), "{at}: {run:?}");
                // The user had moved the branch without its files; this checks them out.
                let checkout = ["checkout", "-q", "-f", "HEAD"];
                self.world.git(&self.world.path("shop"), &checkout);
                continue;
            }
            assert!(matches!(run.code, Some(0 | 5)), "{at}: {words:?}: {run:?}");
        }
        panic!("{at}: never applied, it is at {}", self.state());
    }
}

async fn make_move(
    lifecycle: &PlanLifecycle,
    run: &RunLease,
    next_move: Move,
) -> Result<Plan, LifecycleError> {
    match next_move {
        Move::Start => lifecycle.as_owner(run).start(&PassingProbe).await,
        Move::Fail => lifecycle.as_owner(run).fail("it failed").await,
        Move::Constrain => lifecycle.as_owner(run).constrain("a rule stopped it").await,
        Move::Wait(waiting) => lifecycle.as_owner(run).wait(waiting).await,
        other => panic!("{other:?} is not made here"),
    }
}

/// Approves a strategy as a user does.
async fn approve(app: &AppContext<'_>, plan: PlanId) {
    let operation = app.operation("test.approve");
    let approved = app
        .store()
        .write(operation, move |tx: &mut dyn Transaction| {
            if let Some(mut strategy) = tx.newest_strategy(plan)? {
                strategy.approved_by = Some(Approver::User("a test".to_owned()));
                strategy.approved_at = Some(tx.now()?);
                tx.approve_strategy(&strategy)?;
            }
            Ok::<_, StoreError>(())
        });
    approved.await.unwrap();
}

/// Returns the commands that an answer hints at.
fn hints_of(run: &AgentsRun, plan: &str) -> Vec<String> {
    let envelope: Value = serde_json::from_str(&run.stdout).unwrap_or_default();
    let listed = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let messages = listed(&envelope["messages"]).into_iter();
    let messages = messages.filter(|it| it["level"] == "hint");
    let messages = messages.map(|it| it["text"].clone());
    let hints = messages.chain(listed(&envelope["data"]["error"]["hints"]));
    let hints = hints.filter_map(|hint| Some(hint.as_str()?.to_owned()));
    let is_command = |hint: &String| {
        hint.starts_with("agents plan ") && hint.contains(plan) && !hint.contains(['"', '…'])
    };
    let mut hints: Vec<String> = hints.filter(is_command).collect();
    hints.retain(|hint| !hint.contains("--follow"));
    hints
}

/// Identifies a position for this test; ignores the number of reversions.
fn position_class(at: Position) -> String {
    let waiting = at.waiting().map(|it| it.kind().as_str());
    format!(
        "{at} {} {}",
        waiting.unwrap_or("-"),
        at.point_of_no_return()
    )
}

#[test]
fn no_position_is_a_dead_end() {
    let open = reachable(Position::new(), &every_move()).into_iter();
    let open = open.map(|(at, _)| at).filter(|at| !at.is_terminal());
    let mut left: BTreeSet<String> = open.map(position_class).collect();
    assert!(left.len() > 30, "{left:?}");
    let mut tried = BTreeSet::new();
    for base in PlanFixture::all() {
        let snapshot = WorldSnapshot::capture(&base.world, &["home", "shop"]);
        for (at, way) in reachable(base.position(), &plain_moves()) {
            let name = position_class(at);
            if !left.remove(&name) {
                continue;
            }
            let set_up = || {
                snapshot.restore();
                base.make_moves(&way);
                assert_eq!(position_class(base.position()), name);
            };
            set_up();
            let named = base.status_hints(&name);
            for hint in named {
                if tried.insert((format!("status of {name}"), hint.clone())) {
                    base.run_hint(&name, &hint);
                    set_up();
                }
            }
            let hints = base.drive_to_applied(&name);
            base.status_hints("apply/applied");
            set_up();
            let run = base.run_json(&["plan", "cancel", &base.plan]);
            base.status_hints("cancelled");
            let state = base.state();
            assert!(state.ends_with("/cancelled"), "{name}: {state}: {run:?}");
            start_over(&base.world, &base.plan);
            for hint in hints_of(&run, &base.plan) {
                let words: Vec<&str> = hint.split(' ').skip(1).collect();
                base.run_json(&words).succeeded();
            }
            for (state, hint) in hints {
                if tried.insert((state.clone(), hint.replace(&base.plan, "PLAN"))) {
                    set_up();
                    base.follow_hint(&name, &hint);
                }
            }
        }
    }
    assert!(left.is_empty(), "no plan came to {left:?}");
}

/// The hints of a run that answered with an envelope.
fn hints(run: &AgentsRun) -> Vec<String> {
    let envelope: Value = serde_json::from_str(&run.stdout).unwrap();
    let texts = |list: &Value| -> Vec<Value> { list.as_array().cloned().unwrap_or_default() };
    let messages = texts(&envelope["messages"]).into_iter();
    let messages = messages.filter(|it| it["level"] == "hint");
    let messages = messages.map(|it| it["text"].clone());
    let all = messages.chain(texts(&envelope["data"]["error"]["hints"]));
    all.map(|it| it.as_str().unwrap().to_owned()).collect()
}

/// Runs the command that `status` of a cancelled plan names; returns the plan that it creates.
fn start_over(world: &TestWorld, plan: &str) -> Value {
    let named = hints(&world.run_json(&["plan", "status", plan]).succeeded());
    let use_again = |it: &&String| it.starts_with("agents plan use ");
    let line = named.iter().find(use_again).unwrap();
    let script = format!("agents() {{ '{AGENTS}' \"$@\" --format json; }}; {line}");
    let mut shell = world.other_program(Path::new("/bin/sh"), &["-c", &script]);
    let run = AgentsRun::from_output(shell.output().unwrap());
    run.succeeded().data()
}

/// Asserts that the command repeats all that the user chose for the plan, from another folder.
fn starts_over_as(world: &TestWorld, plan: &Value) {
    let id = plan["plan_id"].as_str().unwrap();
    world.run_json(&["plan", "cancel", id]).succeeded();
    let status = world.json_data(&["plan", "status", id]);
    let again = start_over(world, id);
    assert_ne!(again["plan_id"], id);
    for key in ["action", "projects"] {
        assert_eq!(again[key], status[key], "{key}");
    }
    let id: PlanId = id.parse().unwrap();
    let other: PlanId = again["plan_id"].as_str().unwrap().parse().unwrap();
    let bootstrap = world.bootstrap();
    let app = bootstrap.open_to_read().unwrap();
    let read = app
        .store()
        .read(move |tx| Ok::<_, StoreError>((tx.plan(id)?, tx.plan(other)?)));
    let (first, second) = app.block_on(read).unwrap();
    assert_eq!(first.brief.actors, second.brief.actors);
    assert_eq!(first.brief.arguments, second.brief.arguments);
    assert_eq!(first.brief.invariants, second.brief.invariants);
    assert_eq!(first.brief.base, second.brief.base);
    let profiles = [&first, &second].map(|it| it.brief.automation_profile.name.clone());
    assert_eq!(profiles[0], profiles[1]);
}

#[test]
fn a_cancelled_run_is_started_over_with_its_task_and_options() {
    let world = world_without_project();
    let path = shop_path(&world);
    let options = ["--base", "worktree", "--automation-profile", "supervised"];
    let run = world.run_json(&run_words(&["make it's \"own\""], &options, &path));
    let plan = run.exits(5).data();
    assert_eq!(plan["action"], "builtin/do", "{plan}");
    starts_over_as(&world, &plan);
}

#[test]
fn a_cancelled_plan_is_started_over_with_its_options() {
    let world = TestWorld::new();
    world.define_worker(EDIT);
    world.define_worker_job("arguments: [{name: level, type: integer, required: true}]\n");
    let actor = "name: local/other\ntype: tool\ndescription: Works\nsteps:\n";
    world.write("home/other.yaml", &format!("{actor}  {EDIT}"));
    world
        .run(&["actor", "add", "--config", "other.yaml"])
        .succeeded();
    let more = [
        "--arg",
        "level=3",
        "--base",
        "worktree",
        "--invariant",
        "Don't touch $HOME",
        "--execution-actor",
        "local/other",
    ];
    let plan = world.create_plan_for("shop", TRUSTED, &more);
    starts_over_as(&world, &json!({ "plan_id": plan }));
}

#[test]
fn a_diff_hints_at_a_command_that_works() {
    let world = TestWorld::new();
    world.define_worker("- {tool: builtin/file-write, input: {path: made, content: made}}");
    world.define_worker_job("checks: [{run: 'test -e a'}]\n");
    let plan = world.create_plan(TRUSTED);
    world.execute(&plan).succeeded();
    let found = hints(&world.run_json(&["plan", "diff", &plan]));
    assert_eq!(found, [format!("agents plan apply {plan}")]);
    world.define_worker_job("checks: [{run: 'test ! -e made'}]\n");
    let plan = world.create_plan(TRUSTED);
    world
        .execute(&plan)
        .exits(7)
        .reports_state("execute/constrained");
    let found = hints(&world.run_json(&["plan", "diff", &plan]));
    assert_eq!(found, [format!("agents plan execute {plan}")]);
    // What a refused apply names are commands.
    let refused = world.apply(&plan).exits(4);
    for hint in hints(&refused) {
        assert!(hint.starts_with("agents plan "), "{refused:?}");
    }
    assert!(!refused.stdout.contains("legal now"), "{refused:?}");
}

#[test]
fn an_unapplied_plan_names_its_destination() {
    let world = TestWorld::new();
    let patch = world.path("made.patch").display().to_string();
    for to in [&["branch", "other"][..], &["patch", &patch]] {
        let plan = world
            .create_executed_plan("- {tool: builtin/file-write, input: {path: made, content: x}}");
        let apply = ["plan", "apply", &plan, "--yes", "--to"];
        world.run_json(&[&apply[..], to].concat()).succeeded();
        let unapplied = world.run_json(&["plan", "unapply", &plan, "--yes"]);
        let found = hints(&unapplied.succeeded());
        let [hint] = &found[..] else {
            panic!("{found:?}");
        };
        let words: Vec<String> = hint
            .split(' ')
            .skip(1)
            .map(|it| it.replace('\'', ""))
            .collect();
        assert_eq!(words[3..], [&["--to"], to].concat());
        world.run(&words).succeeded();
        assert_eq!(world.commits("shop"), 1);
    }
}

#[test]
fn hints_repeat_the_options_that_find_the_plan() {
    let world = TestWorld::new();
    let plan = world.create_executed_plan(EDIT);
    std::fs::rename(
        world.path("home/.cleveragents"),
        world.path("home/other data"),
    )
    .unwrap();
    let options = ["--data-dir", "other data"];
    for words in [
        &["plan", "diff", &plan][..],
        &["plan", "status", &plan],
        &["plan", "unapply", &plan, "--yes"],
    ] {
        let run = world.run_json(&[words, &options].concat());
        let found = hints(&run);
        assert!(!found.is_empty(), "{run:?}");
        for hint in found {
            assert!(hint.contains("agents --data-dir 'other data' "), "{hint}");
        }
    }
}

/// A strategy was approved for an actor as it was then, so executing again cannot help.
#[test]
fn a_changed_actor_leads_to_a_new_strategy() {
    let world = TestWorld::new();
    world.define_worker(EDIT);
    world.define_worker_job("");
    let plan = world.create_plan("supervised");
    world.execute(&plan).exits(5);
    world.define_worker(STEPS);
    let run = world.execute(&plan).exits(1).prints("local/worker");
    let revert = format!("agents plan revert {plan} --to-phase strategize");
    for run in [run, world.run_json(&["plan", "status", &plan])] {
        assert!(hints(&run).contains(&revert), "{run:?}");
    }
    let words: Vec<&str> = revert.split(' ').skip(1).collect();
    world.run_json(&words).succeeded();
    world.execute(&plan).exits(5);
    world.execute(&plan).succeeded();
    world.apply(&plan).succeeded();
}
