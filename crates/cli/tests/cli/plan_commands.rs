//! Plan commands: user errors, and the event output that scripts read.

use std::io::{BufRead, BufReader};

use cleveragents_domain::WaitReason;
use serde_json::Value;

use crate::decision_fixture;
use crate::environment::{CliRun, TestEnvironment, host_path};
use crate::plan_fixture::{create_plan, register_action};
use crate::resource_paths::create_repository;

pub(crate) fn shop_environment() -> TestEnvironment {
    let environment = TestEnvironment::new();
    register_action(&environment);
    environment.run(&["project", "create", "shop"]).succeeded();
    environment
}

/// Arguments, the exit code, and parts of the output.
type InvalidUseCase<'a> = (&'a [&'a str], i32, &'a [&'a str]);

#[track_caller]
fn assert_refused(run: &CliRun, code: i32, words: &[&str]) {
    assert_eq!(run.code, Some(code), "{run:?}");
    assert_eq!(run.stdout, "", "{run:?}");
    for word in words {
        assert!(run.stderr.contains(word), "no {word:?} in {}", run.stderr);
    }
    assert!(run.stderr.len() < 2000, "an error must be readable");
}

#[test]
fn an_invalid_use_creates_no_plan() {
    let environment = shop_environment();
    let long = "x".repeat(70_000);
    let long_argument = format!("level={long}");
    let wrong: &[InvalidUseCase<'_>] = &[
        (&["lint", "shop", "--arg", "depth"], 2, &["NAME=VALUE"]),
        (&["lint", "shop", "--arg", "depth=deep"], 2, &["an integer"]),
        (
            &["lint", "shop", "--arg", "level=mild"],
            2,
            &["loose, strict"],
        ),
        (
            &["lint", "shop", "-a", "level=loose", "-a", "level=strict"],
            2,
            &["twice"],
        ),
        (&["lint", "shop", "--arg", "x=1"], 2, &["no argument `x`"]),
        (&["lint", "shop", "--arg", &long_argument], 2, &["level"]),
        (&["lint", "shop", "shop"], 2, &["named twice"]),
        (&["lint"], 2, &["PROJECT"]),
        (&["lint", "../shop"], 2, &["name"]),
        (&["li\u{1b}nt", "shop"], 2, &["name"]),
        (&["lint", &long], 2, &["name"]),
        (&["lint", "bank"], 3, &["local/bank", "agents project list"]),
        (&["fmt", "shop"], 3, &["local/fmt", "agents action list"]),
        (&["lint", "shop", "--base", "tail"], 2, &["head"]),
        (&["lint", "shop", "--invariant", " "], 2, &["text"]),
        (&["lint", "shop", "--invariant", &long], 2, &["4096"]),
        (
            &["lint", "shop", "--automation-profile", "bold"],
            3,
            &["local/bold"],
        ),
        (&["lint", "shop", "--strategy-actor", "a b"], 2, &["actor"]),
    ];
    for (arguments, code, words) in wrong {
        let run = environment.run(&[&["plan", "use"], *arguments].concat());
        assert_refused(&run, *code, words);
    }
    let listed = environment.run(&["plan", "list", "--format", "json"]);
    assert_eq!(listed.succeeded().json()["data"]["summary"]["total"], 0);
}

#[test]
fn a_missing_argument_is_asked_for_by_name() {
    let environment = shop_environment();
    environment.write(
        "work/strict.yaml",
        "name: strict\ndescription: d\nstrategy_actor: builtin/direct\n\
         execution_actor: builtin/direct\ndefinition_of_done: d\n\
         arguments: [{name: who, type: string, required: true}]\n",
    );
    let create = ["action", "create", "--config", "strict.yaml"];
    environment.run(&create).succeeded();
    let run = environment.run(&["plan", "use", "strict", "shop"]);
    assert_refused(&run, 2, &["`who` is required"]);
}

#[test]
fn every_verb_refuses_an_unknown_plan() {
    let environment = shop_environment();
    create_plan(&environment, "shop");
    create_plan(&environment, "shop");
    let verbs: &[&[&str]] = &[
        &["status"],
        &["cancel"],
        &["revert"],
        &["errors"],
        &["log"],
        &["verify"],
        &["delete"],
        &["purge"],
        &["tree"],
    ];
    for verb in verbs {
        let ask = |plan: &str| environment.run(&[&["plan"], *verb, &[plan]].concat());
        assert_refused(&ask("zzzzzzzz"), 3, &["there is no plan"]);
        // All ids of one day start with the same characters.
        assert_refused(&ask("01M"), 2, &["at least 4"]);
        assert_refused(&ask("uuuu"), 2, &["Crockford"]);
        assert_refused(&ask("../../x"), 2, &[]);
        assert_refused(&ask(&"0".repeat(27)), 2, &["27"]);
    }
    let prefix = environment.run(&["plan", "list", "--format", "json"]);
    let prefix = prefix.json()["data"]["plans"][0]["id"].clone();
    let prefix = &prefix.as_str().unwrap()[..4];
    let run = environment.run(&["plan", "status", prefix, "--format", "json"]);
    assert_eq!(run.code, Some(2), "{run:?}");
    let candidates = run.json()["data"]["candidates"].clone();
    assert_eq!(candidates.as_array().unwrap().len(), 2);
}

#[test]
fn lists_refuse_invalid_filters() {
    let environment = shop_environment();
    let wrong: &[InvalidUseCase<'_>] = &[
        (&["--phase", "plan"], 2, &["strategize"]),
        (&["--state", "done"], 2, &["complete"]),
        (&["--limit", "0"], 2, &[]),
        (&["--limit", "-1"], 2, &[]),
        (&["("], 2, &["regular expression"]),
        (&["(a{1000}){1000}"], 2, &["too large"]),
        (&["--project", "a/b/c"], 2, &["project"]),
        (&["--project", "bank"], 3, &["local/bank"]),
        (&["--action", "lnit"], 3, &["agents action show local/lint"]),
    ];
    for (arguments, code, words) in wrong {
        let run = environment.run(&[&["plan", "list"], *arguments].concat());
        assert_refused(&run, *code, words);
    }
}

#[test]
fn guidance_has_a_bounded_length() {
    let environment = shop_environment();
    let plan = create_plan(&environment, "shop");
    let long = "x".repeat(70_000);
    assert_refused(
        &environment.run(&["plan", "prompt", &plan, " "]),
        2,
        &["empty"],
    );
    assert_refused(
        &environment.run(&["plan", "prompt", &plan, &long]),
        2,
        &["65536"],
    );
    let log = environment.run(&["plan", "log", &plan, "--events"]);
    assert!(!log.succeeded().stdout.contains("message_sent"));
}

#[test]
fn a_prompt_answers_a_plan_that_waits_for_one() {
    let environment = TestEnvironment::new();
    decision_fixture::create_waiting(&environment, WaitReason::Answer { decision: None });
    let status = environment.run(&["plan", "status", "00002001"]).succeeded();
    assert!(status.stderr.contains("agents plan prompt"), "{status:?}");
    let prompted = environment.run(&["plan", "prompt", "00002001", "yes", "--format", "json"]);
    assert_eq!(prompted.succeeded().json()["data"]["waiting"], Value::Null);
    let tree = environment.run(&["plan", "tree", "00002001"]).succeeded();
    assert!(tree.stdout.contains("user_intervention"), "{tree:?}");
}

#[test]
fn people_see_local_times_and_internals_only_with_v() {
    let mut environment = shop_environment();
    let plan = create_plan(&environment, "shop");
    environment.set_variable("TZ", "XXX-99:30");
    let wrong = environment.run(&["plan", "log", &plan]).succeeded();
    environment.set_variable("TZ", "<+03>-3");
    let log = environment.run(&["plan", "log", &plan]).succeeded();
    let header = log.stdout.lines().next().unwrap();
    assert_eq!(header, "seq\tat\tkind\twhat");
    let json = environment.run(&["plan", "log", &plan, "-f", "json"]);
    let json = json.succeeded().json();
    let at = json["data"]["events"][0]["at"].as_str().unwrap();
    assert!(at.ends_with('Z') && at.len() == 27, "{at}");
    // Three hours later, on any day.
    let minutes = format!("{}:", &at[14..16]);
    let hour: u32 = at[11..13].parse().unwrap();
    let local = format!("{:02}:{minutes}", (hour + 3) % 24);
    let line = log.stdout.lines().nth(1).unwrap();
    assert!(line.contains(local.trim_end_matches(':')), "{line}: {at}");
    // An invalid zone is UTC.
    assert!(wrong.stdout.contains(&at[11..16]), "{wrong:?}");
    assert!(!log.stdout.contains('Z'), "{log:?}");

    let full = environment.run(&["plan", "log", &plan, "-v"]).succeeded();
    let hash = json["data"]["events"][0]["hash"].as_str().unwrap();
    for internal in [at, hash, "journal seq"] {
        assert!(full.stdout.contains(internal), "{full:?}");
        assert!(!log.stdout.contains(internal), "{log:?}");
    }
}

/// Splits the output of `--events`. Every line must be JSON, numbered without gaps; the last is the
/// envelope.
fn split_events(run: &CliRun) -> (Vec<Value>, Value) {
    let mut lines: Vec<Value> = run
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let envelope = lines.pop().unwrap();
    (lines, envelope)
}

#[test]
fn events_are_lines_without_gaps_and_the_envelope_comes_last() {
    let environment = shop_environment();
    let plan = create_plan(&environment, "shop");
    environment
        .run(&["plan", "prompt", &plan, "hurry"])
        .succeeded();
    let all = environment
        .run(&["plan", "log", &plan, "--events"])
        .succeeded();
    let (lines, envelope) = split_events(&all);
    let numbers: Vec<i64> = lines
        .iter()
        .map(|it| it["plan_seq"].as_i64().unwrap())
        .collect();
    assert_eq!(numbers, (1..=lines.len() as i64).collect::<Vec<_>>());
    assert_eq!(lines[0]["kind"], "plan_created");
    for key in ["seq", "at", "actor", "payload", "hash", "v"] {
        assert!(lines.iter().all(|it| !it[key].is_null()), "{key}");
    }
    assert_eq!(envelope["command"], "plan log");
    assert_eq!(envelope["data"]["events"], lines.len());
    assert_eq!(
        envelope["data"]["head"]["hash"],
        lines.last().unwrap()["hash"]
    );

    let rest = ["plan", "log", &plan, "--events", "--from-seq", "3"];
    let (rest, _) = split_events(&environment.run(&rest).succeeded());
    assert_eq!(rest, lines[2..]);

    let none = environment.run(&["plan", "log", "zzzzzzzz", "--events"]);
    assert_eq!(none.code, Some(3));
    let (lines, envelope) = split_events(&none);
    assert_eq!((lines.len(), envelope["exit_code"].clone()), (0, 3.into()));
}

#[test]
fn follow_shows_events_until_the_plan_ends() {
    let environment = shop_environment();
    let plan = create_plan(&environment, "shop");
    let mut follower = environment.start(&["plan", "log", &plan, "--follow", "--events"]);
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    let mut next = || -> Value {
        let line = lines.next().unwrap().unwrap();
        serde_json::from_str(&line).unwrap()
    };
    assert_eq!(next()["kind"], "plan_created");
    environment
        .run(&["plan", "prompt", &plan, "hurry"])
        .succeeded();
    while next()["kind"] != "plan_prompted" {}
    environment.run(&["plan", "cancel", &plan]).succeeded();
    while next()["kind"] != "plan_cancelled" {}
    let envelope = next();
    assert_eq!(envelope["status"], "ok");
    assert_eq!(
        envelope["data"]["last_seq"],
        envelope["data"]["head"]["plan_seq"]
    );
    assert!(follower.wait().unwrap().success());
}

#[test]
fn a_closed_pipe_stops_following() {
    let environment = shop_environment();
    let plan = create_plan(&environment, "shop");
    let script = format!("\"$AGENTS\" plan log {plan} --follow | head -1");
    let run = environment.shell(&[], &script);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.stdout.contains("plan_created"), "{run:?}");
}

#[test]
fn an_idempotency_key_identifies_one_request() {
    let environment = shop_environment();
    let keyed = [
        "plan",
        "use",
        "lint",
        "shop",
        "--idempotency-key",
        "build-1",
    ];
    let keyed = [&keyed[..], &["--format", "json"]].concat();
    let first = environment.run(&keyed).succeeded().json()["data"]["plan_id"].clone();
    let again = environment.run(&keyed).succeeded().json()["data"]["plan_id"].clone();
    assert_eq!(first, again);
    // A repeated request returns the plan's current state.
    let plan = first.as_str().unwrap();
    environment.run(&["plan", "cancel", plan]).succeeded();
    let later = environment.run(&keyed).succeeded().json();
    assert_eq!(later["data"]["state"], "cancelled");
    let other = [&keyed[..], &["--arg", "level=strict"]].concat();
    let other = environment.run(&other);
    assert_eq!(other.code, Some(4), "{other:?}");
    assert_eq!(other.json()["data"]["plan_id"], first);
    // Without a terminal there is no question, so only --yes deletes.
    let asked = environment.run(&["plan", "delete", plan, "--format", "json"]);
    assert_eq!(asked.code, Some(5), "{asked:?}");
    environment.run(&["plan", "status", plan]).succeeded();
    environment
        .run(&["plan", "delete", plan, "--yes"])
        .succeeded();
    let gone = environment.run(&keyed);
    assert_eq!(gone.code, Some(4), "{gone:?}");
    assert_eq!(gone.json()["data"]["error"]["kind"], "key_spent");
    let empty = ["plan", "use", "lint", "shop", "--idempotency-key", ""];
    assert_eq!(environment.run(&empty).code, Some(2));
}

#[test]
fn a_journal_that_was_altered_does_not_verify() {
    let environment = shop_environment();
    let plan = create_plan(&environment, "shop");
    environment
        .sql("UPDATE events SET actor = 'mallory' WHERE stream_seq = 2 AND stream <> 'system'");
    let run = environment.run(&["plan", "verify", &plan, "--format", "json"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert_eq!(run.json()["data"]["error"]["kind"], "altered");
}

#[test]
fn uncommitted_files_are_named_unless_included() {
    let mut environment = TestEnvironment::new();
    register_action(&environment);
    create_repository(&environment, "work/shop");
    let create = ["project", "create", "shop", "--path", "shop"];
    environment.run(&create).succeeded();
    environment.write("work/shop/new file.txt", "1");
    environment.set_variable("PATH", host_path());
    let used = ["plan", "use", "lint", "shop", "--format", "json"];
    let head = environment.run(&used).succeeded().json();
    assert_eq!(head["status"], "warn", "{head}");
    let files = &head["data"]["uncommitted"][0]["files"];
    assert_eq!(files[0]["path"], "new file.txt");
    assert_eq!(files[0]["kind"], "untracked");
    let warned = head["messages"].as_array().unwrap().iter();
    let mut warned = warned.filter(|it| it["level"] == "warn");
    let text = warned.next().unwrap()["text"].as_str().unwrap();
    assert!(text.contains("new file.txt; --base worktree"), "{text}");
    let worktree = [&used[..], &["--base", "worktree"]].concat();
    let worktree = environment.run(&worktree).succeeded().json();
    assert_eq!(worktree["data"]["uncommitted"], serde_json::json!([]));
}
