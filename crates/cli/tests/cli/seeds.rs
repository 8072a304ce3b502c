//! Report 1281 and commands on one plan, as eight real processes at a time: what many do at once is
//! lost by nobody, done twice by nobody, and never seen half done.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::environment::{Run, TestEnvironment};
use crate::postgres::Schema;
use crate::story::fail_plan;

/// Runs each test on both engines.
macro_rules! on_both_engines {
    ($($test:ident),+ $(,)?) => {
        mod sqlite {
            $(#[test] fn $test() { super::$test(&$crate::seeds::Stage::on_sqlite()); })+
        }
        mod postgres {
            $(#[test] fn $test() {
                $crate::seeds::Stage::on_postgres(stringify!($test), super::$test);
            })+
        }
    };
}
pub(crate) use on_both_engines;

on_both_engines! {
    of_eight_who_create_one_action_one_does,
    eight_who_create_different_actions_all_do,
    eight_who_use_one_action_make_eight_plans,
    of_eight_who_use_a_single_use_action_one_does,
    of_eight_who_use_a_single_use_file_one_does,
    eight_with_one_key_get_one_plan,
    a_plan_has_one_version_of_its_action_whole,
    of_eight_who_cancel_one_plan_one_does,
    of_eight_who_revert_one_plan_one_does,
    eight_who_prompt_one_plan_are_all_heard,
    of_eight_who_cancel_revert_and_prompt_nobody_breaks_the_plan,
}

const PROCESSES: usize = 8;
const ROUNDS: usize = 5;
/// A move of one plan is asked for less often: each round looks at its whole journal too.
const MOVE_ROUNDS: usize = 2;

/// A data directory with the project `local/shop`.
pub(crate) struct Stage {
    pub(crate) environment: TestEnvironment,
}

impl Stage {
    pub(crate) fn on_sqlite() -> Self {
        Self::furnished(TestEnvironment::new())
    }

    /// Runs a test in a schema of its own, which goes when the test succeeds.
    pub(crate) fn on_postgres(test: &str, run: fn(&Stage)) {
        let mut environment = TestEnvironment::new();
        let name: String = test.chars().take(40).collect();
        let schema = Schema::new(&environment, &name);
        environment.set_variable("CLEVERAGENTS_DATABASE_URL", schema.url());
        let stage = Self::furnished(environment);
        run(&stage);
        schema.drop(&stage.environment);
    }

    fn furnished(environment: TestEnvironment) -> Self {
        let create = ["project", "create", "local/shop", "--path", "."];
        environment.run(&create).succeeded();
        Self { environment }
    }

    /// What a command that must succeed answers.
    pub(crate) fn ask(&self, arguments: &[&str]) -> Value {
        let run = self
            .environment
            .run(&[arguments, &["--format", "json"]].concat());
        run.succeeded().json()["data"].clone()
    }

    /// A definition of `name` that says throughout who wrote it.
    fn define(&self, file: &str, name: &str, by: &str, more: &str) {
        let text = format!(
            "name: {name}\ndescription: by {by}\nstrategy_actor: builtin/planner\n\
             execution_actor: builtin/worker\ndefinition_of_done: {by} is done\n\
             invariants: ['keep {by}']\n{more}"
        );
        self.environment.write(&format!("work/{file}"), text);
    }

    fn register(&self, name: &str, more: &str) {
        self.define("registered.yaml", name, "one", more);
        self.ask(&["action", "create", "--config", "registered.yaml"]);
    }

    fn new_plan(&self) -> String {
        let data = self.ask(&["plan", "use", "local/lint", "local/shop"]);
        data["plan_id"].as_str().unwrap().to_owned()
    }

    /// All commands at once, and beside them some who look.
    fn race(&self, commands: Vec<Vec<String>>) -> Vec<Run> {
        let count = commands.len();
        let lookers = [["plan", "list"], ["action", "list"]];
        let lookers = lookers.map(|words| words.map(str::to_owned).to_vec());
        let mut all: Vec<Vec<String>> = commands.into_iter().chain(lookers).collect();
        for words in &mut all {
            words.extend(["--format", "json"].map(str::to_owned));
        }
        let mut runs = self.environment.at_once(&all);
        for seen in runs.split_off(count) {
            whole(&seen.succeeded().json()["data"]);
        }
        runs
    }

    /// The kinds of a plan's events; its journal verifies.
    pub(crate) fn story(&self, plan: &str) -> Vec<String> {
        let verified = self.ask(&["plan", "verify", plan]);
        assert_eq!(verified["verified"], true);
        let log = self.ask(&["plan", "log", plan]);
        let events = log["events"].as_array().unwrap();
        let places: Vec<i64> = events
            .iter()
            .map(|event| event["plan_seq"].as_i64().unwrap())
            .collect();
        assert_eq!(places, (1..=events.len() as i64).collect::<Vec<_>>());
        assert_eq!(verified["events"], events.len());
        let kinds = events.iter().map(|event| event["kind"].as_str().unwrap());
        kinds.map(str::to_owned).collect()
    }

    fn state(&self, plan: &str) -> String {
        let status = self.ask(&["plan", "status", plan]);
        format!(
            "{}/{}",
            status["phase"].as_str().unwrap(),
            status["state"].as_str().unwrap()
        )
    }
}

/// What a looker sees is whole: everything counted is listed, everything listed has all it needs.
#[track_caller]
fn whole(seen: &Value) {
    let total = seen["summary"]["total"].as_u64().unwrap();
    if let Some(plans) = seen["plans"].as_array() {
        let states = [
            "processing",
            "completed",
            "errored",
            "cancelled",
            "queued",
            "constrained",
        ];
        let counted: u64 = states
            .iter()
            .map(|state| seen["summary"][state].as_u64().unwrap())
            .sum();
        assert_eq!((total, counted), (plans.len() as u64, plans.len() as u64));
        for plan in plans {
            for key in ["plan_id", "name", "phase", "state", "action", "project"] {
                assert!(plan[key].is_string(), "{key} of {plan}");
            }
        }
        return;
    }
    let actions = seen["actions"].as_array().unwrap();
    assert_eq!(total, actions.len() as u64);
    for action in actions {
        for key in ["name", "state", "description", "strategy_actor", "source"] {
            assert!(action[key].is_string(), "{key} of {action}");
        }
    }
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

/// Splits runs into those that succeeded and those that were a conflict; there are no others.
#[track_caller]
fn divided(runs: Vec<Run>) -> (Vec<Value>, Vec<Value>) {
    let (mut done, mut refused) = (Vec::new(), Vec::new());
    for run in runs {
        match run.code {
            Some(0) => done.push(run.json()["data"].clone()),
            Some(4) => refused.push(run.json()),
            _ => panic!("{run:?}"),
        }
    }
    (done, refused)
}

#[track_caller]
fn all_done(runs: Vec<Run>) -> Vec<Value> {
    let (done, refused) = divided(runs);
    assert_eq!(refused, Vec::<Value>::new());
    done
}

fn texts(values: &[Value], key: &str) -> BTreeSet<String> {
    let text = |value: &Value| value[key].as_str().unwrap().to_owned();
    values.iter().map(text).collect()
}

fn of_eight_who_create_one_action_one_does(stage: &Stage) {
    for round in 0..ROUNDS {
        let name = format!("local/same-{round}");
        let create = |process| {
            let file = format!("same-{process}.yaml");
            stage.define(&file, &name, &format!("process {process}"), "");
            words(&format!("action create --config {file}"))
        };
        let (made, refused) = divided(stage.race((0..PROCESSES).map(create).collect()));
        assert_eq!((made.len(), refused.len()), (1, PROCESSES - 1));
        for refusal in refused {
            assert_eq!(refusal["data"]["holder"], made[0]["id"], "{refusal}");
            assert!(refusal.to_string().contains(&name), "{refusal}");
        }
        // Nobody wrote over the one who was first.
        let found = stage.ask(&["action", "show", &name]);
        assert_eq!(found, made[0]);
    }
    let list = stage.ask(&["action", "list"]);
    assert_eq!(list["summary"]["total"], ROUNDS);
}

fn eight_who_create_different_actions_all_do(stage: &Stage) {
    let mut made = Vec::new();
    for round in 0..ROUNDS {
        let create = |process| {
            let (file, by) = (format!("own-{process}.yaml"), format!("{round}-{process}"));
            stage.define(&file, &format!("local/own-{by}"), &by, "");
            words(&format!("action create --config {file}"))
        };
        made.extend(all_done(stage.race((0..PROCESSES).map(create).collect())));
    }
    let list = stage.ask(&["action", "list"]);
    let list = list["actions"].as_array().unwrap();
    assert_eq!(list.len(), PROCESSES * ROUNDS);
    assert_eq!(texts(list, "name"), texts(&made, "name"));
    for action in list {
        let by = action["name"]
            .as_str()
            .unwrap()
            .trim_start_matches("local/own-");
        assert_eq!(action["description"], format!("by {by}"));
    }
}

fn eight_who_use_one_action_make_eight_plans(stage: &Stage) {
    stage.register("local/lint", "");
    let mut made = Vec::new();
    for round in 1..=ROUNDS {
        let uses = vec![words("plan use local/lint local/shop"); PROCESSES];
        made.extend(all_done(stage.race(uses)));
        let action = stage.ask(&["action", "show", "local/lint"]);
        assert_eq!(action["plans"], PROCESSES * round);
    }
    let list = stage.ask(&["plan", "list"]);
    let list = list["plans"].as_array().unwrap();
    assert_eq!(list.len(), PROCESSES * ROUNDS);
    for key in ["plan_id", "name"] {
        assert_eq!(texts(list, key).len(), PROCESSES * ROUNDS);
        assert_eq!(texts(list, key), texts(&made, key));
    }
    let of_project = stage.ask(&["plan", "list", "--project", "local/shop"]);
    assert_eq!(of_project["summary"]["total"], PROCESSES * ROUNDS);
}

/// One plan was made of `name` and everybody else was told by which.
#[track_caller]
fn used_once(stage: &Stage, name: &str) {
    let uses = vec![words(&format!("plan use {name} local/shop --trust")); PROCESSES];
    let (made, refused) = divided(stage.race(uses));
    assert_eq!((made.len(), refused.len()), (1, PROCESSES - 1));
    let plan = made[0]["name"].as_str().unwrap();
    for refusal in refused {
        assert!(refusal.to_string().contains(plan), "{refusal}");
    }
    let list = stage.ask(&["plan", "list", "--action", name]);
    assert_eq!(list["summary"]["total"], 1);
    assert_eq!(list["plans"][0]["name"], plan);
}

fn of_eight_who_use_a_single_use_action_one_does(stage: &Stage) {
    for round in 0..ROUNDS {
        let name = format!("local/once-{round}");
        stage.register(&name, "reusable: false\n");
        used_once(stage, &name);
        let action = stage.ask(&["action", "show", &name]);
        assert_eq!(action["plans"], 1);
    }
}

fn of_eight_who_use_a_single_use_file_one_does(stage: &Stage) {
    for round in 0..ROUNDS {
        let name = format!("local/file-{round}");
        let file = format!(".agents/actions/{round}.yaml");
        stage.define(&file, &name, "the file", "reusable: false\n");
        used_once(stage, &name);
    }
}

fn eight_with_one_key_get_one_plan(stage: &Stage) {
    stage.register("local/lint", "");
    for round in 1..=ROUNDS {
        let use_it = format!("plan use local/lint local/shop --idempotency-key build-{round}");
        let made = all_done(stage.race(vec![words(&use_it); PROCESSES]));
        assert_eq!(made.len(), PROCESSES);
        assert_eq!(texts(&made, "plan_id").len(), 1);
        let list = stage.ask(&["plan", "list"]);
        assert_eq!(list["summary"]["total"], round);
        let action = stage.ask(&["action", "show", "local/lint"]);
        assert_eq!(action["plans"], round);
    }
}

fn a_plan_has_one_version_of_its_action_whole(stage: &Stage) {
    stage.register("local/lint", "");
    for round in 0..ROUNDS {
        let command = |process| match process % 2 {
            0 => words("plan use local/lint local/shop"),
            _ => {
                let file = format!("update-{process}.yaml");
                stage.define(&file, "local/lint", &format!("{round} {process}"), "");
                words(&format!("action create --update --config {file}"))
            }
        };
        let done = all_done(stage.race((0..PROCESSES).map(command).collect()));
        let plans = done.iter().filter(|it| it["plan_id"].is_string());
        assert_eq!(plans.clone().count(), PROCESSES / 2);
        for plan in plans {
            let by = plan["description"]
                .as_str()
                .unwrap()
                .trim_start_matches("by ");
            let rules = plan["invariants"].as_array().unwrap();
            assert_eq!(rules.len(), 1, "{plan}");
            assert_eq!(rules[0]["text"], format!("keep {by}"));
            let id = plan["plan_id"].as_str().unwrap();
            let tree = stage.ask(&["plan", "tree", id]).to_string();
            assert!(tree.contains(&format!("by {by}")), "{tree}");
            assert!(tree.contains(&format!("keep {by}")), "{tree}");
        }
    }
    let action = stage.ask(&["action", "show", "local/lint"]);
    assert_eq!(action["version"], 1 + ROUNDS * PROCESSES / 2);
    assert_eq!(action["plans"], ROUNDS * PROCESSES / 2);
}

fn of_eight_who_cancel_one_plan_one_does(stage: &Stage) {
    stage.register("local/lint", "");
    for _ in 0..MOVE_ROUNDS {
        let plan = stage.new_plan();
        let cancel = |process| words(&format!("plan cancel {plan} --reason process-{process}"));
        let done = all_done(stage.race((0..PROCESSES).map(cancel).collect()));
        // Everybody is told the reason that counted.
        let reasons = texts(&done, "reason");
        assert_eq!(reasons.len(), 1, "{reasons:?}");
        let kinds = stage.story(&plan);
        assert_eq!(kinds.iter().filter(|it| *it == "plan_cancelled").count(), 1);
        assert_eq!(stage.state(&plan), "strategize/cancelled");
    }
}

fn of_eight_who_revert_one_plan_one_does(stage: &Stage) {
    stage.register("local/lint", "");
    for _ in 0..MOVE_ROUNDS {
        let plan = stage.new_plan();
        fail_plan(&stage.environment, plan.parse().unwrap());
        assert_eq!(stage.state(&plan), "strategize/errored");
        let revert = |process| words(&format!("plan revert {plan} --reason process-{process}"));
        let done = all_done(stage.race((0..PROCESSES).map(revert).collect()));
        assert_eq!(done.len(), PROCESSES);
        let kinds = stage.story(&plan);
        assert_eq!(kinds.iter().filter(|it| *it == "plan_reverted").count(), 1);
        assert_eq!(stage.state(&plan), "strategize/queued");
    }
}

fn eight_who_prompt_one_plan_are_all_heard(stage: &Stage) {
    stage.register("local/lint", "");
    let plan = stage.new_plan();
    for round in 1..=MOVE_ROUNDS {
        let prompt = |process| words(&format!("plan prompt {plan} hint-{round}-{process}"));
        let done = all_done(stage.race((0..PROCESSES).map(prompt).collect()));
        let places = done.iter().map(|it| it["sequence"].as_u64().unwrap());
        let places: BTreeSet<u64> = places.collect();
        let last = (round * PROCESSES) as u64;
        assert_eq!(places, (last - 7..=last).collect());
        let kinds = stage.story(&plan);
        let sent = kinds.iter().filter(|it| *it == "message_sent").count();
        assert_eq!(sent, round * PROCESSES);
    }
}

fn of_eight_who_cancel_revert_and_prompt_nobody_breaks_the_plan(stage: &Stage) {
    stage.register("local/lint", "");
    for _ in 0..MOVE_ROUNDS {
        let plan = stage.new_plan();
        fail_plan(&stage.environment, plan.parse().unwrap());
        let command = |process| match process % 3 {
            0 => words(&format!("plan cancel {plan}")),
            1 => words(&format!("plan revert {plan}")),
            _ => words(&format!("plan prompt {plan} careful")),
        };
        // Who comes after the cancel is told how the plan ended, or that it cannot be told more.
        let (done, _) = divided(stage.race((0..PROCESSES).map(command).collect()));
        assert!(done.len() >= 3, "all three who cancel succeed: {done:?}");
        let kinds = stage.story(&plan);
        let count = |kind: &str| kinds.iter().filter(|it| *it == kind).count();
        assert_eq!(count("plan_cancelled"), 1);
        assert!(count("plan_reverted") <= 1);
        assert_eq!(stage.state(&plan), "strategize/cancelled");
    }
}
