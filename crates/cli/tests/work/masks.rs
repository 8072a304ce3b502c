//! Item 3 of the threat model: secrets are masked where they are stored, never where they are used.

use std::process::Command;

use serde_json::{Value, json};

use crate::event_follower::{is_process_running, wait_until_true};
use crate::llm_actor_secrets::find_files_with_text;
use crate::world::{AgentsRun, TRUSTED, TestWorld};

const SECRET: &str = "sk-4f9a8b7c6d5e4f3a2b1c0d9e8f7a6b5c";
const MASK: &str = "«secret:SHOP_API_KEY»";
const ARGUMENT: &str = "arguments: [{name: key, type: string, required: true}]\n";

/// Returns our program with the key in its environment.
fn command_with_key(world: &TestWorld, words: &[&str]) -> Command {
    let mut command = world.command(&[words, &["--format", "json"]].concat());
    command.env("SHOP_API_KEY", SECRET);
    command
}

fn run_with_key(world: &TestWorld, words: &[&str]) -> AgentsRun {
    AgentsRun::from_output(command_with_key(world, words).output().unwrap())
}

/// Creates a plan whose job gets the key as an argument.
#[track_caller]
fn create_plan_with_key(world: &TestWorld) -> String {
    let argument = format!("key={SECRET}");
    let words = [
        "plan",
        "use",
        "job",
        "shop",
        "--automation-profile",
        TRUSTED,
    ];
    let made = run_with_key(world, &[&words[..], &["--arg", &argument]].concat()).succeeded();
    assert!(!made.stdout.contains(SECRET), "{made:?}");
    let data = made.data();
    assert_eq!(data["inputs"]["key"], MASK, "{data}");
    data["plan_id"].as_str().unwrap().to_owned()
}

#[track_caller]
fn assert_not_stored(world: &TestWorld, text: &str) {
    let mut found = Vec::new();
    find_files_with_text(&world.path("home/.cleveragents"), text, &mut found);
    // Files that a plan wrote belong to the user, also as objects in its sandbox.
    found.retain(|path| !path.contains("/sandboxes/"));
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn a_url_in_a_key_variable_is_not_masked() {
    let world = TestWorld::new();
    world.define_worker(
        "- {tool: builtin/file-write, input: {path: url, content: 'at {{ args.key }}'}}",
    );
    world.define_worker_job(ARGUMENT);
    let url = "http://localhost:8080";
    let argument = format!("key={url}");
    let words = ["run", "local/job", "--yes", "--arg", &argument, "--path"];
    let path = world.path("shop").display().to_string();
    let mut command = world.command(&[&words[..], &[&path, "--format", "json"]].concat());
    command.env("KEYCLOAK_URL", url).env("KEYSTORE_KEY", url);
    let run = AgentsRun::from_output(command.output().unwrap()).succeeded();
    run.reports_state("apply/applied");
    assert_eq!(world.read("shop/url"), format!("at {url}"));
}

#[test]
fn only_tools_receive_the_unmasked_secret() {
    let world = TestWorld::new();
    world.define_worker(
        "- {tool: builtin/file-write, input: {path: settings, content: 'key={{ args.key }}'}}\n\
         - {tool: builtin/shell, input: {command: 'test \"{{ args.key }}\" = \"$(cut -c5- settings)\"'}}",
    );
    world.define_worker_job(&format!(
        "{ARGUMENT}checks: [{{run: 'grep -q {{{{ args.key }}}} settings'}}]\n"
    ));
    let plan = create_plan_with_key(&world);
    run_with_key(&world, &["plan", "execute", &plan])
        .succeeded()
        .reports_state("execute/complete");
    assert_eq!(
        world.sandbox_files(&plan)["settings"],
        format!("0 key={SECRET}")
    );
    assert_not_stored(&world, SECRET);
    let invoked = world.events_of_kind(&plan, "tool_invoked");
    assert_eq!(
        invoked[0]["payload"]["input"]["content"],
        format!("key={MASK}")
    );
    run_with_key(&world, &["plan", "apply", &plan])
        .succeeded()
        .reports_state("apply/applied");
    assert_eq!(world.read("shop/settings"), format!("key={SECRET}"));
}

/// Tools truncate long answers before secrets are masked in them.
#[test]
fn a_truncated_secret_is_masked() {
    let world = TestWorld::new();
    let many = "yes \"{{ args.key }}\" | head -n 40000 | tr -d \"\\n\"";
    let steps = ["", "x", "xxxxxxxxxxxxxxxxxxx"].map(|start| {
        format!("- {{tool: builtin/shell, input: {{command: 'printf %s \"{start}\"; {many}'}}}}\n")
    });
    world.define_worker(&steps.concat());
    world.define_worker_job(ARGUMENT);
    let plan = create_plan_with_key(&world);
    run_with_key(&world, &["plan", "execute", &plan]).succeeded();
    let calls = world.events_of_kind(&plan, "tool_completed").len();
    assert_eq!(calls, steps.len());
    assert_not_stored(&world, &SECRET[..8]);
    assert_not_stored(&world, &SECRET[SECRET.len() - 8..]);
}

#[test]
fn resuming_requires_the_secret() {
    let world = TestWorld::new();
    world.define_worker(
        "- {tool: builtin/file-write, input: {path: settings, content: '{{ args.key }}'}}",
    );
    world.define_worker_job(ARGUMENT);
    let plan = create_plan_with_key(&world);
    let failed = world.execute(&plan);
    assert_ne!(failed.code, Some(0), "{failed:?}");
    let said = world.errors(&plan).join("\n");
    assert!(
        said.contains("the secret SHOP_API_KEY is not known here"),
        "{said}"
    );
    assert!(!world.sandbox_files(&plan).contains_key("settings"));
    run_with_key(&world, &["plan", "execute", &plan])
        .succeeded()
        .reports_state("execute/complete");
    assert_eq!(
        world.sandbox_files(&plan)["settings"],
        format!("0 {SECRET}")
    );
}

#[test]
fn step_outputs_are_passed_on_unmasked() {
    let world = TestWorld::new();
    world.write("shop/old", &format!("key={SECRET}\n"));
    world.commit("shop", "a key");
    world.define_worker(
        "- {tool: builtin/file-read, id: read, input: {path: old}}\n\
         - {tool: builtin/shell, input: {command: 'test -e /nowhere/{{ args.go }} || test {{ args.go }} = yes'}}\n\
         - {tool: builtin/file-write, input: {path: new, content: '{{ steps.read.content }}'}}",
    );
    world.define_worker_job("arguments: [{name: go, type: string, required: true}]\n");
    let plan = |go: &str| world.create_plan_for("shop", TRUSTED, &["--arg", &format!("go={go}")]);
    let done = plan("yes");
    run_with_key(&world, &["plan", "execute", &done]).succeeded();
    assert_eq!(
        world.sandbox_files(&done)["new"],
        format!("0 key={SECRET}\n")
    );

    // A stored result is masked, and a mask must not be written to a file.
    let stopped = plan("no");
    assert_ne!(
        run_with_key(&world, &["plan", "execute", &stopped]).code,
        Some(0)
    );
    assert_ne!(
        run_with_key(&world, &["plan", "execute", &stopped]).code,
        Some(0)
    );
    let said = world.errors(&stopped).join("\n");
    assert!(said.contains("the output of call 1 had a secret"), "{said}");
    assert!(said.contains("agents plan rollback"), "{said}");
    assert!(!world.sandbox_files(&stopped).contains_key("new"));
    // Nothing is kept before a call that only reads, so the first state is the way back.
    let way_on = format!("agents plan rollback {stopped} 0");
    assert!(said.contains(&way_on), "{said}");
    world.json_data(&["plan", "rollback", &stopped, "0"]);
    run_with_key(&world, &["plan", "execute", &stopped]).prints("ended with exit code 1");
}

/// The owner is killed after a call whose output has a secret: the hints lead on.
#[test]
fn a_plan_that_lacks_a_masked_output_names_the_rollback() {
    let world = TestWorld::new();
    world.define_worker(
        "- {tool: builtin/file-write, input: {path: first, content: first}}\n\
         - {tool: builtin/shell, id: told, input: {command: 'printf %s \"{{ args.key }}\"'}}\n\
         - {tool: builtin/file-write, input: {path: made, content: '{{ steps.told.stdout }}'}}\n\
         - {tool: builtin/shell, input: {command: 'test -e $HOME/go || { touch $HOME/go; exec sleep 31536008; }', timeout: 600}}\n\
         - {tool: builtin/file-write, input: {path: last, content: '{{ steps.told.stdout }}'}}",
    );
    world.define_worker_job(ARGUMENT);
    // `run --yes` approves the apply, and continuing is still no help.
    let (argument, path) = (format!("key={SECRET}"), world.path("shop"));
    let words = ["run", "job", "--yes", "--arg", &argument, "--path"];
    let words = [&words[..], &[path.to_str().unwrap()]].concat();
    let mut works = command_with_key(&world, &words).spawn().unwrap();
    // Not its shell, whose command line has the number from the beginning.
    wait_until_true("the command runs", || {
        is_process_running("sleep\u{0}31536008")
    });
    works.kill().unwrap();
    works.wait().unwrap();
    let plans = world.json_data(&["plan", "list", "--all"]);
    let plan = plans["plans"][0]["plan_id"].as_str().unwrap().to_owned();
    let resumed = run_with_key(&world, &["plan", "resume", &plan]).exits(1);
    let way_on = format!("agents plan rollback {plan} ");
    let hints = |run: &AgentsRun| {
        let envelope: Value = serde_json::from_str(&run.stdout).unwrap();
        let messages = envelope["messages"].as_array().unwrap().clone();
        let hints = messages.into_iter().filter(|it| it["level"] == "hint");
        let text = |it: Value| it["text"].as_str().unwrap().to_owned();
        hints.map(text).collect::<Vec<String>>()
    };
    let found = hints(&resumed);
    assert!(
        matches!(&found[..], [one] if one.starts_with(&way_on)),
        "{resumed:?}"
    );
    assert_eq!(found, hints(&world.run_json(&["plan", "status", &plan])));
    let words: Vec<&str> = found[0].split(' ').skip(1).collect();
    run_with_key(&world, &words).succeeded();
    assert_eq!(world.sandbox_files(&plan)["first"], "0 first");
    run_with_key(&world, &["plan", "execute", &plan])
        .succeeded()
        .reports_state("execute/complete");
    let files = world.sandbox_files(&plan);
    assert_eq!(files["last"], format!("0 {SECRET}"));
    assert_eq!(files["made"], format!("0 {SECRET}"));
}

#[test]
fn a_mask_in_a_definition_or_an_argument_is_refused() {
    let world = TestWorld::new();
    world.define_worker_job("");
    for (tool, input) in [
        ("file-write", format!("{{path: x, content: 'a {MASK}'}}")),
        ("file-write", format!("{{path: '{MASK}', content: a}}")),
        ("shell", format!("{{command: 'echo {MASK} > x'}}")),
        ("file-search", format!("{{pattern: '{MASK}'}}")),
        ("dir-create", format!("{{path: '{MASK}'}}")),
    ] {
        world.define_worker(&format!("- {{tool: builtin/{tool}, input: {input}}}"));
        let plan = world.create_plan(TRUSTED);
        assert_ne!(
            run_with_key(&world, &["plan", "execute", &plan]).code,
            Some(0)
        );
        assert_eq!(
            world.events_of_kind(&plan, "tool_invoked").len(),
            0,
            "{tool}"
        );
        assert_eq!(
            world.events_of_kind(&plan, "tool_refused").len(),
            1,
            "{tool}"
        );
        let said = world.errors(&plan).join("\n");
        assert!(said.contains("represents a secret"), "{tool}: {said}");
    }
    // A mask or an encoded secret as an argument does not give access to the secret.
    world.define_worker_job(ARGUMENT);
    let encoded = "c2stNGY5YThiN2M2ZDVlNGYzYTJiMWMwZDllOGY3YTZiNWM=";
    for value in [MASK, encoded] {
        let argument = format!("key={value}");
        let used = run_with_key(&world, &["plan", "use", "job", "shop", "--arg", &argument]);
        used.exits(2).prints("the argument `key` cannot be used");
    }
    world.define_worker_job(&format!("checks: [{{run: 'curl http://x/{MASK}'}}]\n"));
    let used = run_with_key(&world, &["plan", "use", "job", "shop"]);
    used.exits(2).prints("checks[0].run cannot be used");
}

fn conflicts_of(run: &AgentsRun) -> Value {
    run.data()["conflicts"].clone()
}

#[test]
fn apply_refuses_a_file_that_contains_a_mask() {
    let world = TestWorld::new();
    world.write("shop/notes", &format!("A mask looks like {MASK}.\nmore\n"));
    world.commit("shop", "notes");
    // A command can write a mask that was not in its input.
    let hidden =
        "printf \"\\\\302\\\\253secret:OTHER_KEY\\\\302\\\\273\" > dir/b; echo more >> notes";
    let plan = world.create_executed_plan(&format!(
        "- {{tool: builtin/shell, input: {{command: '{hidden}'}}}}"
    ));
    let path = world.path("a.patch").display().to_string();
    for to in [&[][..], &["--to", "worktree"], &["--to", "patch", &path]] {
        let refused = world.run_json(&[&["plan", "apply", &plan], to].concat());
        let refused = refused.exits(4).reports_state("apply/constrained");
        let found = conflicts_of(&refused);
        let found: Vec<&Value> = found
            .as_array()
            .unwrap()
            .iter()
            .map(|it| &it["path"])
            .collect();
        assert_eq!(found, [&json!("dir/b")], "{refused:?}");
        refused.prints("«secret:OTHER_KEY»");
    }
    assert_eq!(
        (world.commits("shop"), world.git_status("shop")),
        (2, String::new())
    );
    world.json_data(&["plan", "reject", &plan, "dir/b", "--why", "a mask"]);
    world
        .apply(&plan)
        .succeeded()
        .reports_state("apply/applied");
    assert!(world.read("shop/notes").ends_with("more\nmore\n"));
}

#[test]
fn diagnostics_names_what_is_masked() {
    let world = TestWorld::new();
    let set = ["config", "set", "provider.openai.api-key", SECRET];
    world.run(&set).succeeded();
    let mut command = command_with_key(&world, &["diagnostics", "--offline"]);
    command.env("PGPASSWORD", "correct-horse");
    command.env("KEYCLOAK_URL", "http://localhost:8080");
    command.env("MONKEY", "capuchin-and-more");
    let shown = AgentsRun::from_output(command.output().unwrap());
    let data = shown.data();
    let checks = data["checks"].as_array().unwrap();
    let masked = checks
        .iter()
        .find(|it| it["name"] == "masked_secrets")
        .unwrap();
    assert_eq!(
        masked["detail"], "PGPASSWORD, SHOP_API_KEY, provider.openai.api-key",
        "{masked}"
    );
    for value in [SECRET, "correct-horse"] {
        assert!(!shown.stdout.contains(value), "{shown:?}");
    }
}

/// The warnings of an answer.
fn warnings(run: &AgentsRun) -> Vec<String> {
    let envelope: Value = serde_json::from_str(&run.stdout).unwrap();
    let messages = envelope["messages"].as_array().unwrap().iter();
    let warnings = messages.filter(|it| it["level"] == "warn");
    let texts = warnings.map(|it| it["text"].as_str().unwrap().to_owned());
    texts.collect()
}

#[test]
fn a_secret_in_a_file_is_warned_of_before_and_after_apply() {
    let world = TestWorld::new();
    world.write("shop/old", &format!("key={SECRET}\n2\n"));
    world.commit("shop", "a key that is there already");
    world.define_worker(
        "- {tool: builtin/shell, input: {command: 'echo \"key={{ args.key }}\" > leak.txt; echo 3 >> old'}}\n\
         - {tool: builtin/shell, input: {command: 'printf \"\\000{{ args.key }}\" > binary'}}",
    );
    world.define_worker_job(ARGUMENT);
    let warning = "secret SHOP_API_KEY is in binary, leak.txt";
    let plan = create_plan_with_key(&world);
    run_with_key(&world, &["plan", "execute", &plan]).succeeded();
    for more in [&[][..], &["--stat"], &["--patch"]] {
        let diff = run_with_key(&world, &[&["plan", "diff", &plan], more].concat());
        assert_eq!(warnings(&diff.succeeded()), [warning], "{more:?}");
    }
    let only = run_with_key(&world, &["plan", "diff", &plan, "--file", "old"]);
    assert_eq!(warnings(&only.succeeded()), Vec::<String>::new());
    let applied = run_with_key(&world, &["plan", "apply", &plan]).succeeded();
    assert_eq!(warnings(&applied), [warning]);
    assert!(!applied.stdout.contains(SECRET), "{applied:?}");
    // In one command, with and without a yes.
    let path = world.path("shop").display().to_string();
    world.git(&world.path("shop"), &["rm", "-q", "leak.txt", "binary"]);
    world.commit("shop", "without it");
    let argument = format!("key={SECRET}");
    let words = ["run", "local/job", "--arg", &argument, "--path", &path];
    let stopped = run_with_key(&world, &words).exits(5);
    assert!(
        warnings(&stopped).contains(&warning.to_owned()),
        "{stopped:?}"
    );
    let applied = run_with_key(&world, &[&words[..], &["--yes"]].concat()).succeeded();
    assert!(
        warnings(&applied).contains(&warning.to_owned()),
        "{applied:?}"
    );
    assert_eq!(world.read("shop/leak.txt"), format!("key={SECRET}\n"));
}
