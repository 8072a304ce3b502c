//! No dead ends: from every position of the lifecycle's table at which a plan is not finished, the
//! program leads on to `applied` and to another finished state, and every command it hints at
//! succeeds or says why not.
//!
//! The positions are generated from the table. Each is reached from a plan that real commands
//! brought to the nearest point, by the moves that are left.

use std::collections::{BTreeSet, VecDeque};

use cleveragents_cli::wiring::Wired;
use cleveragents_domain::id::PlanId;
use cleveragents_domain::{
    Move, NamespacedName, Phase, Plan, Position, Resource, State, Timestamp, Waiting,
};
use cleveragents_engine::StoreError;
use cleveragents_engine::lifecycle::{LifecycleError, PlanLifecycle, Surroundings};
use cleveragents_engine::ports::{Slots, Unit};
use cleveragents_engine::runs::{Outcome, RunLease, RunService};
use serde_json::Value;

use crate::dying::Snapshot;
use crate::settling::stopped_for_good;
use crate::world::{ALONE, Run, World};

const EDIT: &str = "- {tool: builtin/file-edit, input: {path: a, old: '2', new: two}}\n";
const STEPS: &str = "\
- {tool: builtin/file-edit, input: {path: a, old: '2', new: two}}
- {tool: builtin/file-write, input: {path: made, content: made}}
";

const WAITS: [Waiting; 5] = [
    Waiting::Slot,
    Waiting::Approval { decision: None },
    Waiting::Answer { decision: None },
    Waiting::Budget,
    Waiting::Until {
        until: Timestamp::from_micros(1),
    },
];

/// The moves that need nothing on record beside the plan itself.
fn plain_moves() -> Vec<Move> {
    let mut moves = vec![Move::Start, Move::Fail, Move::Constrain, Move::Retry];
    moves.extend(WAITS.map(Move::Wait));
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

/// Every position that `moves` lead to from `from`, with the shortest way there.
fn reachable(from: Position, moves: &[Move]) -> Vec<(Position, Vec<Move>)> {
    let mut found = vec![(from, Vec::new())];
    let mut open = VecDeque::from([0]);
    while let Some(next) = open.pop_front() {
        let (at, way) = found[next].clone();
        for asked in moves {
            if let Ok(to) = at.after(*asked)
                && !found.iter().any(|(known, _)| *known == to)
            {
                open.push_back(found.len());
                found.push((to, [way.as_slice(), &[*asked]].concat()));
            }
        }
    }
    found
}

/// A plan that real commands brought somewhere.
struct Base {
    world: World,
    plan: String,
}

impl Base {
    fn all() -> Vec<Self> {
        vec![
            Self::used(),
            Self::strategized(),
            Self::executed(),
            Self::stopped(),
        ]
    }

    fn used() -> Self {
        let world = World::new();
        world.worker(EDIT);
        world.job("");
        let plan = world.plan(ALONE);
        Self { world, plan }
    }

    fn strategized() -> Self {
        let world = World::new();
        world.worker(EDIT);
        world.job("");
        let plan = world.plan("supervised");
        world.execute(&plan).exits(5);
        Self { world, plan }
    }

    fn executed() -> Self {
        let world = World::new();
        let plan = world.executed(EDIT);
        Self { world, plan }
    }

    fn stopped() -> Self {
        let world = World::new();
        let plan = world.executed(STEPS);
        stopped_for_good(&world, &plan);
        world.run(&["init"]).succeeded();
        Self { world, plan }
    }

    fn position(&self) -> Position {
        let wiring = self.world.wiring();
        let wired = wiring.open_to_read().unwrap();
        let plan = wired.wait(wired.lifecycle().plan(self.plan.parse().unwrap()));
        plan.unwrap().position
    }

    /// Makes the moves as commands and owners do; an owner that is at work in the end dies.
    fn walk(&self, way: &[Move]) {
        let wiring = self.world.wiring();
        let wired = wiring.open_to_read().unwrap();
        let id = self.plan.parse().unwrap();
        let (lifecycle, runs) = (wired.lifecycle(), wired.runs());
        wired.wait(async {
            let mut held: Option<RunLease> = None;
            for asked in way {
                match asked {
                    Move::Retry => drop(lifecycle.retry(id, "a test").await.unwrap()),
                    Move::Advance(to) => {
                        if *to == Phase::Execute {
                            approve(&wired, id).await;
                        }
                        lifecycle.advance(id, *to, "a test").await.unwrap();
                    }
                    asked => {
                        let run = match held.take() {
                            Some(run) => run,
                            None => claim(&runs, id).await,
                        };
                        let plan = make(&lifecycle, &run, *asked).await.unwrap();
                        if plan.position.state() == State::Processing {
                            held = Some(run);
                        } else {
                            lifecycle.give_back(run).await.unwrap();
                        }
                    }
                }
            }
        });
    }

    fn ask(&self, words: &[&str]) -> Run {
        self.world.ask(words)
    }

    /// Runs a hint right after the command that gave it: it succeeds, or says why not.
    fn follow(&self, at: &str, hint: &str) {
        let words = self.next();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.ask(&words);
        let mut words: Vec<&str> = hint.split(' ').skip(1).collect();
        if words.get(1) == Some(&"apply") && !words.contains(&"--yes") {
            words.push("--yes");
        }
        let run = self.ask(&words);
        let says_why = matches!(run.code, Some(4..=7 | 75))
            && run.data()["error"]["message"]
                .as_str()
                .is_some_and(|it| !it.is_empty());
        assert!(run.code == Some(0) || says_why, "{at}: {hint}: {run:?}");
    }

    fn status(&self) -> Value {
        self.world.data(&["plan", "status", &self.plan])
    }

    fn state(&self) -> String {
        self.world.state(&self.plan)
    }

    /// The command that a user gives to get on.
    fn next(&self) -> Vec<String> {
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

    /// Commands until the plan is applied; the hints on the way.
    fn go_forward(&self, at: &str) -> Vec<(String, String)> {
        let mut hints = Vec::new();
        for _ in 0..8 {
            let words = self.next();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let run = self.ask(&words);
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
                let run = self.ask(&["plan", "rebase", &self.plan]);
                assert!(matches!(run.code, Some(0 | 5)), "{at}: {run:?}");
                // The user had moved the branch beneath the files, and now brings them there.
                let checkout = ["checkout", "-q", "-f", "HEAD"];
                self.world.git(&self.world.path("shop"), &checkout);
                continue;
            }
            assert!(matches!(run.code, Some(0 | 5)), "{at}: {words:?}: {run:?}");
        }
        panic!("{at}: never applied, it is at {}", self.state());
    }
}

async fn claim(runs: &RunService, plan: PlanId) -> RunLease {
    let claimed = runs
        .claim(plan, Phase::Execute, Slots::Shared)
        .await
        .unwrap();
    match claimed {
        Outcome::Won(run) => run,
        other => panic!("{other:?}"),
    }
}

async fn make(
    lifecycle: &PlanLifecycle,
    run: &RunLease,
    asked: Move,
) -> Result<Plan, LifecycleError> {
    match asked {
        Move::Start => lifecycle.start(run, &AllThere).await,
        Move::Fail => lifecycle.fail(run, "it failed").await,
        Move::Constrain => lifecycle.constrain(run, "a rule stopped it").await,
        Move::Wait(waiting) => lifecycle.wait(run, waiting).await,
        other => panic!("{other:?} is not made here"),
    }
}

/// The yes to a strategy that a human gives.
async fn approve(wired: &Wired<'_>, plan: PlanId) {
    let operation = wired.operation("test.approve");
    let approved = wired.store().write(operation, move |unit: &mut dyn Unit| {
        if let Some(mut strategy) = unit.newest_strategy(plan)? {
            strategy.approved_by = Some("a test".to_owned());
            strategy.approved_at = Some(unit.now()?);
            unit.approve_strategy(&strategy)?;
        }
        Ok::<_, StoreError>(())
    });
    approved.await.unwrap();
}

#[derive(Debug)]
struct AllThere;

impl Surroundings for AllThere {
    fn actor(&self, _: &NamespacedName) -> Result<(), String> {
        Ok(())
    }

    fn tool(&self, _: &NamespacedName) -> Result<(), String> {
        Ok(())
    }

    fn readable(&self, _: &Resource) -> Result<(), String> {
        Ok(())
    }

    fn sandboxed(&self, _: &Resource) -> Result<(), String> {
        Ok(())
    }

    fn checkpointed(&self, _: &Resource) -> Result<(), String> {
        Ok(())
    }
}

/// The commands that an answer tells to run next, as words.
fn hints_of(run: &Run, plan: &str) -> Vec<String> {
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

/// What tells one position from another here: the number of reversions does not.
fn class(at: Position) -> String {
    let waiting = at.waiting().map(|it| it.kind().as_str());
    format!(
        "{at} {} {}",
        waiting.unwrap_or("-"),
        at.point_of_no_return()
    )
}

#[test]
fn the_program_leads_on_from_everywhere_and_out_of_everywhere() {
    let open = reachable(Position::new(), &every_move()).into_iter();
    let open = open.map(|(at, _)| at).filter(|at| !at.is_terminal());
    let mut left: BTreeSet<String> = open.map(class).collect();
    assert!(left.len() > 30, "{left:?}");
    let mut tried = BTreeSet::new();
    for base in Base::all() {
        let snapshot = Snapshot::of(&base.world, &["home", "shop"]);
        for (at, way) in reachable(base.position(), &plain_moves()) {
            let name = class(at);
            if !left.remove(&name) {
                continue;
            }
            let set_up = || {
                snapshot.put_back();
                base.walk(&way);
                assert_eq!(class(base.position()), name);
            };
            set_up();
            let hints = base.go_forward(&name);
            set_up();
            let run = base.ask(&["plan", "cancel", &base.plan]);
            let state = base.state();
            assert!(state.ends_with("/cancelled"), "{name}: {state}: {run:?}");
            for hint in hints_of(&run, &base.plan) {
                let words: Vec<&str> = hint.split(' ').skip(1).collect();
                base.ask(&words).succeeded();
            }
            for (state, hint) in hints {
                if tried.insert((state.clone(), hint.replace(&base.plan, "PLAN"))) {
                    set_up();
                    base.follow(&name, &hint);
                }
            }
        }
    }
    assert!(left.is_empty(), "no plan came to {left:?}");
}
