//! What stands before each tool call, asked through `plan execute`: a call that is refused is not
//! made, is an event, and is an error of the plan unless a human can let it through.

use serde_json::Value;

use crate::world::{ALONE, World};

const WRITE: &str = "- {tool: builtin/file-write, input: {path: made, content: made}}";

/// A plan whose call is refused.
struct Refused {
    profile: &'static str,
    action: &'static str,
    steps: &'static str,
    kind: &'static str,
    words: &'static str,
}

const REFUSED: &[Refused] = &[
    Refused {
        profile: "guards: {tool_denylist: [builtin/file-write]}\n",
        action: "",
        steps: WRITE,
        kind: "guard",
        words: "denylist",
    },
    Refused {
        profile: "guards: {tool_allowlist: [builtin/file-read]}\n",
        action: "",
        steps: WRITE,
        kind: "guard",
        words: "allowlist",
    },
    Refused {
        profile: "",
        action: "read_only: true\n",
        steps: WRITE,
        kind: "read_only_plan",
        words: "only reads",
    },
    Refused {
        profile: "",
        action: "read_only: true\n",
        steps: "- {tool: builtin/shell, input: {command: 'echo made > made'}}",
        kind: "read_only_plan",
        words: "only reads",
    },
    Refused {
        profile: "",
        action: "",
        steps: "- {tool: builtin/file-write, input: {path: made}}",
        kind: "input",
        words: "content",
    },
    Refused {
        profile: "",
        action: "",
        steps: "- {tool: builtin/file-write, input: {path: 7, content: made}}",
        kind: "input",
        words: "path",
    },
    Refused {
        profile: "",
        action: "",
        steps: "- {tool: builtin/file-write, input: {path: made, content: made, mode: 7}}",
        kind: "input",
        words: "mode",
    },
    Refused {
        profile: "",
        action: "",
        steps: "- {tool: builtin/file-write, resource: local/other, \
                input: {path: made, content: made}}",
        kind: "resource",
        words: "local/other",
    },
];

#[test]
fn a_call_that_is_refused_is_not_made_and_is_on_record() {
    let world = World::new();
    for (number, case) in REFUSED.iter().enumerate() {
        let name = format!("local/guard-{number}");
        world.profile(&name, case.profile);
        world.worker(case.steps);
        world.job(case.action);
        let plan = world.plan(&name);
        let run = world.execute(&plan).exits(1).stands("execute/errored");
        run.says(case.words).says("agents plan errors");
        let refused = world.told(&plan, "tool_refused");
        assert_eq!(refused.len(), 1, "{}", case.steps);
        let payload = &refused[0]["payload"];
        assert_eq!(payload["kind"], case.kind, "{payload}");
        assert_eq!(payload["step"], 1, "{payload}");
        let errors = world.errors(&plan);
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].contains(case.words), "{errors:?}");
        assert_eq!(world.told(&plan, "tool_invoked").len(), 0);
        assert_eq!(world.sandbox_files(&plan), world.files("shop"));
        world.apply(&plan).exits(4);
        // The same word again meets the same guard.
        world.execute(&plan).exits(1).stands("execute/errored");
        assert_eq!(world.told(&plan, "tool_refused").len(), 2);
    }
}

#[test]
fn a_read_only_plan_may_read() {
    let world = World::new();
    world.worker("- {tool: builtin/file-read, input: {path: a}}");
    world.job("read_only: true\n");
    let plan = world.plan(ALONE);
    world.execute(&plan).succeeded().stands("execute/complete");
    world.apply(&plan).succeeded().stands("apply/applied");
    assert_eq!(world.commits("shop"), 1);
}

#[test]
fn a_tool_that_nobody_has_stops_the_plan_before_it_begins() {
    let world = World::new();
    world.worker("- {tool: builtin/file-wriet, input: {path: made, content: made}}");
    world.job("");
    let plan = world.plan(ALONE);
    let run = world.execute(&plan).exits(1);
    run.says("builtin/file-wriet").says("agents tool list");
    assert_eq!(world.state(&plan), "strategize/queued");
    assert_eq!(world.told(&plan, "tool_invoked").len(), 0);
    assert_eq!(world.files("shop").get("made"), None);
    // Mended, it goes on.
    world.worker(WRITE);
    world.execute(&plan).succeeded().stands("execute/complete");
}

#[test]
fn a_step_stops_at_its_number_of_calls() {
    let world = World::new();
    world.profile("local/three", "guards: {max_tool_calls_per_step: 3}\n");
    let call = |number: u32| {
        format!("- {{tool: builtin/shell, input: {{command: 'echo {number} >> log'}}}}\n")
    };
    world.worker(&(1..=5).map(call).collect::<String>());
    world.job("");
    let plan = world.plan("local/three");
    for round in 1..=2 {
        let run = world.execute(&plan).exits(6).stands("execute/errored");
        run.says("its limit is 3");
        assert_eq!(world.told(&plan, "tool_refused").len(), round);
        assert_eq!(world.told(&plan, "tool_invoked").len(), 3);
        assert_eq!(world.sandbox_files(&plan)["log"], "0 1\n2\n3\n");
    }
    assert_eq!(world.errors(&plan).len(), 1, "the same again is counted");
    world.apply(&plan).exits(4);
    // Exactly as many are enough.
    world.worker(&(1..=3).map(call).collect::<String>());
    let plan = world.plan("local/three");
    world.execute(&plan).succeeded().stands("apply/applied");
}

#[test]
fn each_word_of_a_human_lets_one_write_through() {
    let world = World::new();
    world.profile("local/ask", "guards: {require_approval_for_writes: true}\n");
    world.worker(
        "- {tool: builtin/file-read, input: {path: a}}\n\
         - {tool: builtin/shell, input: {command: 'echo 1 >> log'}}\n\
         - {tool: builtin/file-list, input: {}}\n\
         - {tool: builtin/shell, input: {command: 'echo 2 >> log'}}\n\
         - {tool: builtin/shell, input: {command: 'echo 3 >> log'}}\n",
    );
    world.job("");
    let plan = world.plan("local/ask");
    // Reads need nobody; the first write waits.
    for (round, log) in [None, Some("0 1\n"), Some("0 1\n2\n")]
        .into_iter()
        .enumerate()
    {
        let run = world.execute(&plan).exits(5).stands("execute/queued");
        let data = run.says("wants a human's approval").data();
        assert_eq!(data["waiting"]["kind"], "approval", "{data}");
        let files = world.sandbox_files(&plan);
        assert_eq!(files.get("log").map(String::as_str), log, "round {round}");
        world.apply(&plan).exits(4);
    }
    world.execute(&plan).succeeded().stands("apply/applied");
    assert_eq!(world.read("shop/log"), "1\n2\n3\n");
    let invoked = world.told(&plan, "tool_invoked");
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
    let world = World::empty();
    world.repository("shop");
    world.folder("docs");
    world.project("shop", &["shop", "docs"]);
    world.job_of_nobody();
    let plan = world.plan(ALONE);
    let run = world.execute(&plan).exits(1).stands("execute/errored");
    run.says("must name one of local/shop, local/docs");
    assert_eq!(
        world.told(&plan, "tool_refused")[0]["payload"]["kind"],
        "resource"
    );
    assert_eq!(world.errors(&plan).len(), 1);
    assert_eq!(world.told(&plan, "tool_invoked").len(), 0);
    world.worker(
        "- {tool: builtin/file-write, resource: local/docs, input: {path: made, content: made}}",
    );
    world.execute(&plan).succeeded().stands("execute/complete");
    let trees = world.trees(&plan);
    assert!(!trees[0].join("made").exists());
    assert!(trees[1].join("made").exists());
}

#[test]
fn a_project_without_resources_has_nowhere_to_work() {
    let world = World::empty();
    world.project("shop", &[]);
    world.job_of_nobody();
    let plan = world.plan(ALONE);
    world
        .execute(&plan)
        .exits(1)
        .says("no project of the plan has a resource");
    assert_eq!(world.state(&plan), "strategize/queued");
}

impl World {
    /// A job whose call does not say where it works.
    fn job_of_nobody(&self) {
        self.worker(WRITE);
        self.job("");
    }
}
