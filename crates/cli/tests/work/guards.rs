//! Guards of tool calls, tested through `plan execute`: a refused call is not made, is recorded as
//! an event, and fails the plan unless the user can approve it.

use serde_json::Value;

use crate::world::{TRUSTED, TestWorld};

const WRITE: &str = "- {tool: builtin/file-write, input: {path: made, content: made}}";

/// A plan whose call is refused.
struct RefusedCall {
    profile: &'static str,
    action: &'static str,
    steps: &'static str,
    kind: &'static str,
    words: &'static str,
}

const REFUSED: &[RefusedCall] = &[
    RefusedCall {
        profile: "guards: {tool_denylist: [builtin/file-write]}\n",
        action: "",
        steps: WRITE,
        kind: "guard",
        words: "denylist",
    },
    RefusedCall {
        profile: "guards: {tool_allowlist: [builtin/file-read]}\n",
        action: "",
        steps: WRITE,
        kind: "guard",
        words: "allowlist",
    },
    RefusedCall {
        profile: "",
        action: "read_only: true\n",
        steps: WRITE,
        kind: "read_only_plan",
        words: "read-only",
    },
    RefusedCall {
        profile: "",
        action: "read_only: true\n",
        steps: "- {tool: builtin/shell, input: {command: 'echo made > made'}}",
        kind: "read_only_plan",
        words: "read-only",
    },
    RefusedCall {
        profile: "",
        action: "",
        steps: "- {tool: builtin/file-write, input: {path: made}}",
        kind: "input",
        words: "content",
    },
    RefusedCall {
        profile: "",
        action: "",
        steps: "- {tool: builtin/file-write, input: {path: 7, content: made}}",
        kind: "input",
        words: "path",
    },
    RefusedCall {
        profile: "",
        action: "",
        steps: "- {tool: builtin/file-write, input: {path: made, content: made, mode: 7}}",
        kind: "input",
        words: "mode",
    },
    RefusedCall {
        profile: "",
        action: "",
        steps: "- {tool: builtin/file-write, resource: local/other, \
                input: {path: made, content: made}}",
        kind: "resource",
        words: "local/other",
    },
];

#[test]
fn a_refused_call_is_recorded_and_not_run() {
    let world = TestWorld::new();
    for (number, case) in REFUSED.iter().enumerate() {
        let name = format!("local/guard-{number}");
        world.define_profile(&name, case.profile);
        world.define_worker(case.steps);
        world.define_worker_job(case.action);
        let plan = world.create_plan(&name);
        let run = world
            .execute(&plan)
            .exits(1)
            .reports_state("execute/errored");
        run.prints(case.words).prints("agents plan errors");
        let refused = world.events_of_kind(&plan, "tool_refused");
        assert_eq!(refused.len(), 1, "{}", case.steps);
        let payload = &refused[0]["payload"];
        assert_eq!(payload["kind"], case.kind, "{payload}");
        assert_eq!(payload["step"], 1, "{payload}");
        let errors = world.errors(&plan);
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].contains(case.words), "{errors:?}");
        assert_eq!(world.events_of_kind(&plan, "tool_invoked").len(), 0);
        assert_eq!(world.sandbox_files(&plan), world.files("shop"));
        world.apply(&plan).exits(4);
        // Executing again is refused by the same guard.
        world
            .execute(&plan)
            .exits(1)
            .reports_state("execute/errored");
        assert_eq!(world.events_of_kind(&plan, "tool_refused").len(), 2);
    }
}

#[test]
fn a_read_only_plan_may_read() {
    let world = TestWorld::new();
    world.define_worker("- {tool: builtin/file-read, input: {path: a}}");
    world.define_worker_job("read_only: true\n");
    let plan = world.create_plan(TRUSTED);
    world
        .execute(&plan)
        .succeeded()
        .reports_state("execute/complete");
    world
        .apply(&plan)
        .succeeded()
        .reports_state("apply/applied");
    assert_eq!(world.commits("shop"), 1);
}

#[test]
fn an_unknown_tool_stops_the_plan_at_start() {
    let world = TestWorld::new();
    world.define_worker("- {tool: builtin/file-wriet, input: {path: made, content: made}}");
    world.define_worker_job("");
    let plan = world.create_plan(TRUSTED);
    let run = world.execute(&plan).exits(1);
    run.prints("builtin/file-wriet").prints("agents tool list");
    assert_eq!(world.state(&plan), "strategize/queued");
    assert_eq!(world.events_of_kind(&plan, "tool_invoked").len(), 0);
    assert_eq!(world.files("shop").get("made"), None);
    // After the definition is corrected, the plan continues.
    world.define_worker(WRITE);
    world
        .execute(&plan)
        .succeeded()
        .reports_state("execute/complete");
}

#[test]
fn a_step_stops_at_its_number_of_calls() {
    let world = TestWorld::new();
    world.define_profile("local/three", "guards: {max_tool_calls_per_step: 3}\n");
    let call = |number: u32| {
        format!("- {{tool: builtin/shell, input: {{command: 'echo {number} >> log'}}}}\n")
    };
    world.define_worker(&(1..=5).map(call).collect::<String>());
    world.define_worker_job("");
    let plan = world.create_plan("local/three");
    for round in 1..=2 {
        let run = world
            .execute(&plan)
            .exits(6)
            .reports_state("execute/errored");
        run.prints("its limit is 3");
        assert_eq!(world.events_of_kind(&plan, "tool_refused").len(), round);
        assert_eq!(world.events_of_kind(&plan, "tool_invoked").len(), 3);
        assert_eq!(world.sandbox_files(&plan)["log"], "0 1\n2\n3\n");
    }
    assert_eq!(world.errors(&plan).len(), 1, "the same again is counted");
    world.apply(&plan).exits(4);
    // Exactly the limit is allowed.
    world.define_worker(&(1..=3).map(call).collect::<String>());
    let plan = world.create_plan("local/three");
    world
        .execute(&plan)
        .succeeded()
        .reports_state("apply/applied");
}

#[test]
fn each_approval_allows_one_write() {
    let world = TestWorld::new();
    world.define_profile("local/ask", "guards: {require_approval_for_writes: true}\n");
    world.define_worker(
        "- {tool: builtin/file-read, input: {path: a}}\n\
         - {tool: builtin/shell, input: {command: 'echo 1 >> log'}}\n\
         - {tool: builtin/file-list, input: {}}\n\
         - {tool: builtin/shell, input: {command: 'echo 2 >> log'}}\n\
         - {tool: builtin/shell, input: {command: 'echo 3 >> log'}}\n",
    );
    world.define_worker_job("");
    let plan = world.create_plan("local/ask");
    // Reads need no approval; the first write waits for one.
    for (round, log) in [None, Some("0 1\n"), Some("0 1\n2\n")]
        .into_iter()
        .enumerate()
    {
        let run = world
            .execute(&plan)
            .exits(5)
            .reports_state("execute/queued");
        let data = run.prints("requires your approval").data();
        assert_eq!(data["waiting"]["kind"], "approval", "{data}");
        let files = world.sandbox_files(&plan);
        assert_eq!(files.get("log").map(String::as_str), log, "round {round}");
        // An approval is used up: resuming approves nothing.
        world
            .resume(&plan)
            .exits(5)
            .prints("requires your approval");
        let files = world.sandbox_files(&plan);
        assert_eq!(files.get("log").map(String::as_str), log, "round {round}");
        world.apply(&plan).exits(4);
    }
    world
        .execute(&plan)
        .succeeded()
        .reports_state("apply/applied");
    assert_eq!(world.read("shop/log"), "1\n2\n3\n");
    let invoked = world.events_of_kind(&plan, "tool_invoked");
    let tools: Vec<&Value> = invoked.iter().map(|it| &it["payload"]["tool"]).collect();
    let wanted = ["file-read", "shell", "file-list", "shell", "shell"];
    let wanted: Vec<Value> = wanted.map(|it| format!("builtin/{it}").into()).to_vec();
    assert!(
        tools.into_iter().eq(wanted.iter()),
        "no call is made twice: {invoked:?}"
    );
    assert_eq!(
        world.errors(&plan),
        Vec::<String>::new(),
        "asking is no error"
    );
}

#[test]
fn of_several_resources_a_call_must_name_one() {
    let world = TestWorld::empty();
    world.create_repository("shop");
    world.create_folder("docs");
    world.create_project("shop", &["shop", "docs"]);
    world.define_job_without_resource();
    let plan = world.create_plan(TRUSTED);
    let run = world
        .execute(&plan)
        .exits(1)
        .reports_state("execute/errored");
    run.prints("must name one of local/shop, local/docs");
    assert_eq!(
        world.events_of_kind(&plan, "tool_refused")[0]["payload"]["kind"],
        "resource"
    );
    assert_eq!(world.errors(&plan).len(), 1);
    assert_eq!(world.events_of_kind(&plan, "tool_invoked").len(), 0);
    world.define_worker(
        "- {tool: builtin/file-write, resource: local/docs, input: {path: made, content: made}}",
    );
    world
        .execute(&plan)
        .succeeded()
        .reports_state("execute/complete");
    let trees = world.sandbox_trees(&plan);
    assert!(!trees[0].join("made").exists());
    assert!(trees[1].join("made").exists());
}

#[test]
fn a_project_without_resources_cannot_be_executed() {
    let world = TestWorld::empty();
    world.create_project("shop", &[]);
    world.define_job_without_resource();
    let plan = world.create_plan(TRUSTED);
    world
        .execute(&plan)
        .exits(1)
        .prints("no project of the plan has a resource");
    assert_eq!(world.state(&plan), "strategize/queued");
}

impl TestWorld {
    /// Defines a job whose call does not name a resource.
    fn define_job_without_resource(&self) {
        self.define_worker(WRITE);
        self.define_worker_job("");
    }
}
