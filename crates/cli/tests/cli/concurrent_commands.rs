//! Report 1281 and commands on one plan, with eight real processes at a time: no work is lost or
//! done twice, and no reader sees a partial state.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::decision_fixture::fail_plan;
use crate::environment::{CliRun, TestEnvironment};
use crate::postgres::TestSchema;

macro_rules! on_both_engines {
    ($($test:ident),+ $(,)?) => {
        mod sqlite {
            $(#[test] fn $test() { super::$test(&$crate::concurrent_commands::ConcurrencyFixture::on_sqlite()); })+
        }
        mod postgres {
            $(#[test] fn $test() {
                $crate::concurrent_commands::ConcurrencyFixture::on_postgres(stringify!($test), super::$test);
            })+
        }
    };
}
pub(crate) use on_both_engines;

on_both_engines! {
    one_of_eight_creates_of_an_action_wins,
    eight_different_actions_are_created,
    eight_uses_of_an_action_make_eight_plans,
    a_single_use_action_is_used_once,
    a_single_use_file_is_used_once,
    eight_uses_with_one_key_get_one_plan,
    a_plan_uses_one_version_of_its_action,
    one_of_eight_cancels_takes_effect,
    one_of_eight_reverts_takes_effect,
    eight_prompts_are_all_recorded,
    concurrent_moves_keep_the_plan_consistent,
}

const PROCESSES: usize = 8;
const ROUNDS: usize = 5;
/// Fewer rounds for transitions of a plan, because each round also reads its whole journal.
const MOVE_ROUNDS: usize = 2;

/// A data directory with the project `local/shop`.
pub(crate) struct ConcurrencyFixture {
    pub(crate) environment: TestEnvironment,
}

impl ConcurrencyFixture {
    pub(crate) fn on_sqlite() -> Self {
        Self::with_project(TestEnvironment::new())
    }

    /// Runs a test in its own schema, which is dropped if the test succeeds.
    pub(crate) fn on_postgres(test: &str, run: fn(&ConcurrencyFixture)) {
        let mut environment = TestEnvironment::new();
        let name: String = test.chars().take(40).collect();
        let schema = TestSchema::new(&environment, &name);
        environment.set_variable("CLEVERAGENTS_DATABASE_URL", schema.url());
        let fixture = Self::with_project(environment);
        run(&fixture);
        schema.drop(&fixture.environment);
    }

    fn with_project(environment: TestEnvironment) -> Self {
        let create = ["project", "create", "local/shop", "--path", "."];
        environment.run(&create).succeeded();
        Self { environment }
    }

    /// Runs a command that must succeed and returns its data.
    pub(crate) fn run_json(&self, arguments: &[&str]) -> Value {
        let run = self
            .environment
            .run(&[arguments, &["--format", "json"]].concat());
        run.succeeded().json()["data"].clone()
    }

    /// Writes a definition of `name` whose every text names its writer.
    fn write_action(&self, file: &str, name: &str, by: &str, more: &str) {
        let text = format!(
            "name: {name}\ndescription: by {by}\nstrategy_actor: builtin/planner\n\
             execution_actor: builtin/worker\ndefinition_of_done: {by} is done\n\
             invariants: ['keep {by}']\n{more}"
        );
        self.environment.write(&format!("work/{file}"), text);
    }

    fn create_action(&self, name: &str, more: &str) {
        self.write_action("registered.yaml", name, "one", more);
        self.run_json(&["action", "create", "--config", "registered.yaml"]);
    }

    fn create_plan(&self) -> String {
        let data = self.run_json(&["plan", "use", "local/lint", "local/shop"]);
        data["plan_id"].as_str().unwrap().to_owned()
    }

    /// Runs all commands concurrently, with readers beside them.
    fn run_race(&self, commands: Vec<Vec<String>>) -> Vec<CliRun> {
        let count = commands.len();
        let lookers = [["plan", "list"], ["action", "list"]];
        let lookers = lookers.map(|words| words.map(str::to_owned).to_vec());
        let mut all: Vec<Vec<String>> = commands.into_iter().chain(lookers).collect();
        for words in &mut all {
            words.extend(["--format", "json"].map(str::to_owned));
        }
        let mut runs = self.environment.run_concurrently(&all);
        for seen in runs.split_off(count) {
            assert_complete_listing(&seen.succeeded().json()["data"]);
        }
        runs
    }

    /// Returns the kinds of a plan's events, after verifying its journal.
    pub(crate) fn event_kinds(&self, plan: &str) -> Vec<String> {
        let verified = self.run_json(&["plan", "verify", plan]);
        assert_eq!(verified["verified"], true);
        let log = self.run_json(&["plan", "log", plan]);
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
        let status = self.run_json(&["plan", "status", plan]);
        format!(
            "{}/{}",
            status["phase"].as_str().unwrap(),
            status["state"].as_str().unwrap()
        )
    }
}

/// Asserts that a reader saw a complete state: all counted items are listed, and all listed items
/// have their parts.
#[track_caller]
fn assert_complete_listing(seen: &Value) {
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

fn split_words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

/// Splits runs into successes and conflicts; fails on any other outcome.
#[track_caller]
fn split_outcomes(runs: Vec<CliRun>) -> (Vec<Value>, Vec<Value>) {
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
fn assert_all_succeeded(runs: Vec<CliRun>) -> Vec<Value> {
    let (done, refused) = split_outcomes(runs);
    assert_eq!(refused, Vec::<Value>::new());
    done
}

fn text_values(values: &[Value], key: &str) -> BTreeSet<String> {
    let text = |value: &Value| value[key].as_str().unwrap().to_owned();
    values.iter().map(text).collect()
}

fn one_of_eight_creates_of_an_action_wins(fixture: &ConcurrencyFixture) {
    for round in 0..ROUNDS {
        let name = format!("local/same-{round}");
        let create = |process| {
            let file = format!("same-{process}.yaml");
            fixture.write_action(&file, &name, &format!("process {process}"), "");
            split_words(&format!("action create --config {file}"))
        };
        let (made, refused) =
            split_outcomes(fixture.run_race((0..PROCESSES).map(create).collect()));
        assert_eq!((made.len(), refused.len()), (1, PROCESSES - 1));
        for refusal in refused {
            assert_eq!(refusal["data"]["holder"], made[0]["id"], "{refusal}");
            assert!(refusal.to_string().contains(&name), "{refusal}");
        }
        // The first write was not overwritten.
        let found = fixture.run_json(&["action", "show", &name]);
        assert_eq!(found, made[0]);
    }
    let list = fixture.run_json(&["action", "list"]);
    assert_eq!(list["summary"]["total"], ROUNDS);
}

fn eight_different_actions_are_created(fixture: &ConcurrencyFixture) {
    let mut made = Vec::new();
    for round in 0..ROUNDS {
        let create = |process| {
            let (file, by) = (format!("own-{process}.yaml"), format!("{round}-{process}"));
            fixture.write_action(&file, &format!("local/own-{by}"), &by, "");
            split_words(&format!("action create --config {file}"))
        };
        made.extend(assert_all_succeeded(
            fixture.run_race((0..PROCESSES).map(create).collect()),
        ));
    }
    let list = fixture.run_json(&["action", "list"]);
    let list = list["actions"].as_array().unwrap();
    assert_eq!(list.len(), PROCESSES * ROUNDS);
    assert_eq!(text_values(list, "name"), text_values(&made, "name"));
    for action in list {
        let by = action["name"]
            .as_str()
            .unwrap()
            .trim_start_matches("local/own-");
        assert_eq!(action["description"], format!("by {by}"));
    }
}

fn eight_uses_of_an_action_make_eight_plans(fixture: &ConcurrencyFixture) {
    fixture.create_action("local/lint", "");
    let mut made = Vec::new();
    for round in 1..=ROUNDS {
        let uses = vec![split_words("plan use local/lint local/shop"); PROCESSES];
        made.extend(assert_all_succeeded(fixture.run_race(uses)));
        let action = fixture.run_json(&["action", "show", "local/lint"]);
        assert_eq!(action["plans"], PROCESSES * round);
    }
    let list = fixture.run_json(&["plan", "list"]);
    let list = list["plans"].as_array().unwrap();
    assert_eq!(list.len(), PROCESSES * ROUNDS);
    for key in ["plan_id", "name"] {
        assert_eq!(text_values(list, key).len(), PROCESSES * ROUNDS);
        assert_eq!(text_values(list, key), text_values(&made, key));
    }
    let of_project = fixture.run_json(&["plan", "list", "--project", "local/shop"]);
    assert_eq!(of_project["summary"]["total"], PROCESSES * ROUNDS);
}

/// Asserts that exactly one plan was created from `name`, and that the other answers name it.
#[track_caller]
fn assert_used_once(fixture: &ConcurrencyFixture, name: &str) {
    let uses = vec![split_words(&format!("plan use {name} local/shop --trust")); PROCESSES];
    let (made, refused) = split_outcomes(fixture.run_race(uses));
    assert_eq!((made.len(), refused.len()), (1, PROCESSES - 1));
    let plan = made[0]["name"].as_str().unwrap();
    for refusal in refused {
        assert!(refusal.to_string().contains(plan), "{refusal}");
    }
    let list = fixture.run_json(&["plan", "list", "--action", name]);
    assert_eq!(list["summary"]["total"], 1);
    assert_eq!(list["plans"][0]["name"], plan);
}

fn a_single_use_action_is_used_once(fixture: &ConcurrencyFixture) {
    for round in 0..ROUNDS {
        let name = format!("local/once-{round}");
        fixture.create_action(&name, "reusable: false\n");
        assert_used_once(fixture, &name);
        let action = fixture.run_json(&["action", "show", &name]);
        assert_eq!(action["plans"], 1);
    }
}

fn a_single_use_file_is_used_once(fixture: &ConcurrencyFixture) {
    for round in 0..ROUNDS {
        let name = format!("local/file-{round}");
        let file = format!(".agents/actions/{round}.yaml");
        fixture.write_action(&file, &name, "the file", "reusable: false\n");
        assert_used_once(fixture, &name);
    }
}

fn eight_uses_with_one_key_get_one_plan(fixture: &ConcurrencyFixture) {
    fixture.create_action("local/lint", "");
    for round in 1..=ROUNDS {
        let use_it = format!("plan use local/lint local/shop --idempotency-key build-{round}");
        let made = assert_all_succeeded(fixture.run_race(vec![split_words(&use_it); PROCESSES]));
        assert_eq!(made.len(), PROCESSES);
        assert_eq!(text_values(&made, "plan_id").len(), 1);
        let list = fixture.run_json(&["plan", "list"]);
        assert_eq!(list["summary"]["total"], round);
        let action = fixture.run_json(&["action", "show", "local/lint"]);
        assert_eq!(action["plans"], round);
    }
}

fn a_plan_uses_one_version_of_its_action(fixture: &ConcurrencyFixture) {
    fixture.create_action("local/lint", "");
    for round in 0..ROUNDS {
        let command = |process| match process % 2 {
            0 => split_words("plan use local/lint local/shop"),
            _ => {
                let file = format!("update-{process}.yaml");
                fixture.write_action(&file, "local/lint", &format!("{round} {process}"), "");
                split_words(&format!("action create --update --config {file}"))
            }
        };
        let done = assert_all_succeeded(fixture.run_race((0..PROCESSES).map(command).collect()));
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
            let tree = fixture.run_json(&["plan", "tree", id]).to_string();
            assert!(tree.contains(&format!("by {by}")), "{tree}");
            assert!(tree.contains(&format!("keep {by}")), "{tree}");
        }
    }
    let action = fixture.run_json(&["action", "show", "local/lint"]);
    assert_eq!(action["version"], 1 + ROUNDS * PROCESSES / 2);
    assert_eq!(action["plans"], ROUNDS * PROCESSES / 2);
}

fn one_of_eight_cancels_takes_effect(fixture: &ConcurrencyFixture) {
    fixture.create_action("local/lint", "");
    for _ in 0..MOVE_ROUNDS {
        let plan = fixture.create_plan();
        let cancel =
            |process| split_words(&format!("plan cancel {plan} --reason process-{process}"));
        let done = assert_all_succeeded(fixture.run_race((0..PROCESSES).map(cancel).collect()));
        // Every answer has the reason that was recorded.
        let reasons = text_values(&done, "reason");
        assert_eq!(reasons.len(), 1, "{reasons:?}");
        let kinds = fixture.event_kinds(&plan);
        assert_eq!(kinds.iter().filter(|it| *it == "plan_cancelled").count(), 1);
        assert_eq!(fixture.state(&plan), "strategize/cancelled");
    }
}

fn one_of_eight_reverts_takes_effect(fixture: &ConcurrencyFixture) {
    fixture.create_action("local/lint", "");
    for _ in 0..MOVE_ROUNDS {
        let plan = fixture.create_plan();
        fail_plan(&fixture.environment, plan.parse().unwrap());
        assert_eq!(fixture.state(&plan), "strategize/errored");
        let revert =
            |process| split_words(&format!("plan revert {plan} --reason process-{process}"));
        let done = assert_all_succeeded(fixture.run_race((0..PROCESSES).map(revert).collect()));
        assert_eq!(done.len(), PROCESSES);
        let kinds = fixture.event_kinds(&plan);
        assert_eq!(kinds.iter().filter(|it| *it == "plan_reverted").count(), 1);
        assert_eq!(fixture.state(&plan), "strategize/queued");
    }
}

fn eight_prompts_are_all_recorded(fixture: &ConcurrencyFixture) {
    fixture.create_action("local/lint", "");
    let plan = fixture.create_plan();
    for round in 1..=MOVE_ROUNDS {
        let prompt = |process| split_words(&format!("plan prompt {plan} hint-{round}-{process}"));
        let done = assert_all_succeeded(fixture.run_race((0..PROCESSES).map(prompt).collect()));
        let places = done.iter().map(|it| it["sequence"].as_u64().unwrap());
        let places: BTreeSet<u64> = places.collect();
        let last = (round * PROCESSES) as u64;
        assert_eq!(places, (last - 7..=last).collect());
        let kinds = fixture.event_kinds(&plan);
        let sent = kinds.iter().filter(|it| *it == "message_sent").count();
        assert_eq!(sent, round * PROCESSES);
    }
}

fn concurrent_moves_keep_the_plan_consistent(fixture: &ConcurrencyFixture) {
    fixture.create_action("local/lint", "");
    for _ in 0..MOVE_ROUNDS {
        let plan = fixture.create_plan();
        fail_plan(&fixture.environment, plan.parse().unwrap());
        let command = |process| match process % 3 {
            0 => split_words(&format!("plan cancel {plan}")),
            1 => split_words(&format!("plan revert {plan}")),
            _ => split_words(&format!("plan prompt {plan} careful")),
        };
        // A command after the cancel gets the final state, or is refused with a conflict.
        let (done, _) = split_outcomes(fixture.run_race((0..PROCESSES).map(command).collect()));
        assert!(done.len() >= 3, "all three who cancel succeed: {done:?}");
        let kinds = fixture.event_kinds(&plan);
        let count = |kind: &str| kinds.iter().filter(|it| *it == kind).count();
        assert_eq!(count("plan_cancelled"), 1);
        assert!(count("plan_reverted") <= 1);
        assert_eq!(fixture.state(&plan), "strategize/cancelled");
    }
}
