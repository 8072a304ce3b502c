//! Actors with a scripted model, and the recorded requests and answers.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::event_follower::Follower;
use crate::world::{AgentsRun, TestWorld};

/// Prints the recorded model requests of a plan: conversation, turn, ordinal, state, cost and every
/// message of each.
const MODEL_CALLS_SCRIPT: &str = r#"
import json, pathlib, sqlite3, sys
data, plan = pathlib.Path(sys.argv[1]), sys.argv[2]
store = sqlite3.connect(data / "cleveragents.db")

def blob(name):
    place, content = store.execute("SELECT place, content FROM blobs WHERE hash = ?", (name,)).fetchone()
    if place == "file":
        content = (data / "blobs" / name[:2] / name).read_bytes()
    return json.loads(content)

def messages(name):
    manifest = blob(name)
    before = messages(manifest["previous"]) if manifest.get("previous") else []
    return before + [blob(it) for it in manifest["messages"]]

rows = store.execute(
    "SELECT number, actor, ordinal, conversation, state, body, ended, tokens, usd, undone_by "
    "FROM model_calls WHERE plan_id = ? ORDER BY number", (plan,))
found = []
for number, actor, ordinal, conversation, state, body, ended, tokens, usd, undone in rows.fetchall():
    call = json.loads(body)
    manifest = blob(call["request"])
    found.append({
        "number": number, "actor": actor, "ordinal": ordinal, "conversation": conversation,
        "state": state, "turn": call["turn"], "tokens": tokens, "usd": usd, "undone": undone,
        "reserved": call["reserved"], "maximum": call.get("maximum"), "messages": messages(call["request"]),
        "tools": [it["name"] for it in blob(manifest["tools"])],
    })
print(json.dumps(found))
"#;

impl TestWorld {
    /// Defines an actor with a model that answers these turns, with more keys of the script.
    pub(crate) fn define_llm_actor(&self, name: &str, turns: &str, more: &str) {
        self.write(
            &format!("home/{name}-script.yaml"),
            &format!("turns:\n{turns}{more}"),
        );
        self.define_llm_actor_with(
            name,
            &format!("provider: scripted\nmodel: {name}-script.yaml\n"),
        );
    }

    /// Starts a process on a plan and kills it before its first request is answered.
    pub(crate) fn kill_during_first_model_call(&self, plan: &str) {
        let mut follower = Follower::start(self, plan);
        let mut child = self.start(&["plan", "execute", plan]);
        follower.wait_for("model_asked");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Defines an actor with a model and these keys.
    pub(crate) fn define_llm_actor_with(&self, name: &str, keys: &str) {
        let text = format!("name: local/{name}\ntype: llm\ndescription: Thinks\n{keys}");
        self.write(&format!("home/{name}.yaml"), &text);
        let file = format!("{name}.yaml");
        self.run(&["actor", "add", "--config", &file, "--update"])
            .succeeded();
    }

    /// Defines `local/job` for two actors.
    pub(crate) fn define_llm_job(&self, strategist: &str, worker: &str, more: &str) {
        let text = format!(
            "name: local/job\ndescription: Do the job\nstrategy_actor: {strategist}\n\
             execution_actor: {worker}\n{more}"
        );
        let done = if more.contains("definition_of_done") {
            ""
        } else {
            "definition_of_done: It is done\n"
        };
        self.write("home/job.yaml", &format!("{text}{done}"));
        self.run(&["action", "create", "--config", "job.yaml", "--update"])
            .succeeded();
    }

    /// Returns every model request of the plan.
    #[track_caller]
    pub(crate) fn model_calls(&self, plan: &str) -> Vec<Value> {
        let data = self.path("home/.cleveragents").display().to_string();
        let mut command = self.other_program(
            "/usr/bin/python3".as_ref(),
            &["-c", MODEL_CALLS_SCRIPT, &data, plan],
        );
        let run = AgentsRun::from_output(command.output().unwrap()).succeeded();
        let records: Value = serde_json::from_str(&run.stdout).unwrap();
        records.as_array().unwrap().clone()
    }

    /// Returns the states of the plan's model requests, in order.
    #[track_caller]
    pub(crate) fn model_call_states(&self, plan: &str) -> Vec<String> {
        let state = |it: &Value| it["state"].as_str().unwrap().to_owned();
        self.model_calls(plan).iter().map(state).collect()
    }

    /// Asserts what the plan waits for.
    #[track_caller]
    pub(crate) fn assert_waiting_for(&self, plan: &str, kind: &str) {
        let data = self.json_data(&["plan", "status", plan]);
        assert_eq!(data["waiting"]["kind"], kind, "{data}");
        assert_eq!(data["state"], "queued", "{data}");
    }

    /// Returns the categories of the plan's errors, repeated by their occurrences.
    #[track_caller]
    pub(crate) fn error_kinds(&self, plan: &str) -> Vec<String> {
        let data = self.json_data(&["plan", "errors", plan]);
        let errors = data["errors"].as_array().unwrap().iter();
        errors
            .flat_map(|it| {
                let times = usize::try_from(it["occurrences"].as_u64().unwrap()).unwrap();
                vec![it["category"].as_str().unwrap().to_owned(); times]
            })
            .collect()
    }

    pub(crate) fn resume(&self, plan: &str) -> AgentsRun {
        self.run_json(&["plan", "resume", plan])
    }
}

/// Returns a turn that calls these tools, with their inputs as JSON.
pub(crate) fn turn(calls: &[(&str, &str)]) -> String {
    let call = |(tool, input): &(&str, &str)| {
        format!("      - {{tool: builtin/{tool}, input: {input}}}\n")
    };
    let calls: String = calls.iter().map(call).collect();
    format!("  - tool_calls:\n{calls}")
}

/// Returns the turn that ends a step.
pub(crate) fn finish(summary: &str) -> String {
    turn(&[("finish", &format!("{{summary: '{summary}'}}"))])
}

/// Returns the turn that submits a strategy with these steps.
pub(crate) fn strategy(steps: &[&str]) -> String {
    let steps: Vec<String> = steps
        .iter()
        .map(|it| format!("{{title: '{it}'}}"))
        .collect();
    let input = format!(
        "{{summary: 'A plan', confidence: 0.9, steps: [{}]}}",
        steps.join(", ")
    );
    turn(&[("submit-strategy", &input)])
}

/// Returns all messages of a request as one text.
pub(crate) fn messages_text(model_call: &Value) -> String {
    model_call["messages"].to_string()
}

/// Asserts that each turn of each conversation has one answer and no request after it, and that
/// each request of an actor takes the next turn of its script.
#[track_caller]
pub(crate) fn assert_no_repeated_calls(model_calls: &[Value]) {
    let mut answered = BTreeSet::new();
    let mut ordinals: BTreeMap<String, u64> = BTreeMap::new();
    for call in model_calls {
        let ordinal = ordinals.entry(call["actor"].to_string()).or_default();
        assert_eq!(call["ordinal"], *ordinal);
        *ordinal += 1;
        let conversation = call["conversation"].to_string();
        let place = (conversation, call["turn"].as_u64().unwrap());
        assert!(!answered.contains(&place), "{place:?} is asked again");
        let before = (place.0.clone(), place.1 - 1);
        let follows = place.1 == 1 || answered.contains(&before);
        assert!(follows, "{place:?} comes too early");
        if call["state"] == "answered" {
            answered.insert(place);
        }
    }
}
