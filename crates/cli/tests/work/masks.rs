//! Item 3 of the threat model: secrets are masked where they are stored, never where they are used.

use std::process::Command;

use serde_json::{Value, json};

use crate::thinking_secrets::places;
use crate::world::{ALONE, Run, World};

const SECRET: &str = "sk-4f9a8b7c6d5e4f3a2b1c0d9e8f7a6b5c";
const MASK: &str = "«secret:SHOP_API_KEY»";
const ARGUMENT: &str = "arguments: [{name: key, type: string, required: true}]\n";

/// Our program with the key in its environment.
fn with_key(world: &World, words: &[&str]) -> Command {
    let mut command = world.command(&[words, &["--format", "json"]].concat());
    command.env("SHOP_API_KEY", SECRET);
    command
}

fn run(world: &World, words: &[&str]) -> Run {
    Run::of(with_key(world, words).output().unwrap())
}

/// A plan of the job that is given the key.
#[track_caller]
fn plan_with_key(world: &World) -> String {
    let argument = format!("key={SECRET}");
    let words = ["plan", "use", "job", "shop", "--automation-profile", ALONE];
    let made = run(world, &[&words[..], &["--arg", &argument]].concat()).succeeded();
    assert!(!made.stdout.contains(SECRET), "{made:?}");
    let data = made.data();
    assert_eq!(data["inputs"]["key"], MASK, "{data}");
    data["plan_id"].as_str().unwrap().to_owned()
}

#[track_caller]
fn is_stored_nowhere(world: &World, text: &str) {
    let mut found = Vec::new();
    places(&world.path("home/.cleveragents"), text, &mut found);
    // What a plan wrote is the user's own, in the objects of its sandbox too.
    found.retain(|path| !path.contains("/sandboxes/"));
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn a_value_that_only_has_a_name_like_a_secret_is_written_as_it_is() {
    let world = World::new();
    world.worker("- {tool: builtin/file-write, input: {path: url, content: 'at {{ args.key }}'}}");
    world.job(ARGUMENT);
    let url = "http://localhost:8080";
    let argument = format!("key={url}");
    let words = ["run", "local/job", "--yes", "--arg", &argument, "--path"];
    let path = world.path("shop").display().to_string();
    let mut command = world.command(&[&words[..], &[&path, "--format", "json"]].concat());
    command.env("KEYCLOAK_URL", url).env("KEYSTORE_KEY", url);
    let run = Run::of(command.output().unwrap()).succeeded();
    run.stands("apply/applied");
    assert_eq!(world.read("shop/url"), format!("at {url}"));
}

#[test]
fn a_tool_is_given_the_secret_itself_and_nothing_else_is() {
    let world = World::new();
    world.worker(
        "- {tool: builtin/file-write, input: {path: settings, content: 'key={{ args.key }}'}}\n\
         - {tool: builtin/shell, input: {command: 'test \"{{ args.key }}\" = \"$(cut -c5- settings)\"'}}",
    );
    world.job(&format!(
        "{ARGUMENT}checks: [{{run: 'grep -q {{{{ args.key }}}} settings'}}]\n"
    ));
    let plan = plan_with_key(&world);
    run(&world, &["plan", "execute", &plan])
        .succeeded()
        .stands("execute/complete");
    assert_eq!(
        world.sandbox_files(&plan)["settings"],
        format!("0 key={SECRET}")
    );
    is_stored_nowhere(&world, SECRET);
    let invoked = world.told(&plan, "tool_invoked");
    assert_eq!(
        invoked[0]["payload"]["input"]["content"],
        format!("key={MASK}")
    );
    run(&world, &["plan", "apply", &plan])
        .succeeded()
        .stands("apply/applied");
    assert_eq!(world.read("shop/settings"), format!("key={SECRET}"));
}

/// Tools cut long answers before secrets are masked in them.
#[test]
fn what_a_cut_leaves_of_a_secret_is_masked() {
    let world = World::new();
    let many = "yes \"{{ args.key }}\" | head -n 40000 | tr -d \"\\n\"";
    let steps = ["", "x", "xxxxxxxxxxxxxxxxxxx"].map(|start| {
        format!("- {{tool: builtin/shell, input: {{command: 'printf %s \"{start}\"; {many}'}}}}\n")
    });
    world.worker(&steps.concat());
    world.job(ARGUMENT);
    let plan = plan_with_key(&world);
    run(&world, &["plan", "execute", &plan]).succeeded();
    let calls = world.told(&plan, "tool_completed").len();
    assert_eq!(calls, steps.len());
    is_stored_nowhere(&world, &SECRET[..8]);
    is_stored_nowhere(&world, &SECRET[SECRET.len() - 8..]);
}

#[test]
fn a_process_without_the_secret_says_so_and_one_with_it_goes_on() {
    let world = World::new();
    world
        .worker("- {tool: builtin/file-write, input: {path: settings, content: '{{ args.key }}'}}");
    world.job(ARGUMENT);
    let plan = plan_with_key(&world);
    let failed = world.execute(&plan);
    assert_ne!(failed.code, Some(0), "{failed:?}");
    let said = world.errors(&plan).join("\n");
    assert!(
        said.contains("the secret SHOP_API_KEY is not known here"),
        "{said}"
    );
    assert!(!world.sandbox_files(&plan).contains_key("settings"));
    run(&world, &["plan", "execute", &plan])
        .succeeded()
        .stands("execute/complete");
    assert_eq!(
        world.sandbox_files(&plan)["settings"],
        format!("0 {SECRET}")
    );
}

#[test]
fn what_a_step_read_is_given_to_the_next_as_it_is() {
    let world = World::new();
    world.write("shop/old", &format!("key={SECRET}\n"));
    world.commit("shop", "a key");
    world.worker(
        "- {tool: builtin/file-read, id: read, input: {path: old}}\n\
         - {tool: builtin/shell, input: {command: 'test -e /nowhere/{{ args.go }} || test {{ args.go }} = yes'}}\n\
         - {tool: builtin/file-write, input: {path: new, content: '{{ steps.read.content }}'}}",
    );
    world.job("arguments: [{name: go, type: string, required: true}]\n");
    let plan = |go: &str| world.plan_of("shop", ALONE, &["--arg", &format!("go={go}")]);
    let done = plan("yes");
    run(&world, &["plan", "execute", &done]).succeeded();
    assert_eq!(
        world.sandbox_files(&done)["new"],
        format!("0 key={SECRET}\n")
    );

    // What is only on record is masked, and a mask is not written.
    let stopped = plan("no");
    assert_ne!(run(&world, &["plan", "execute", &stopped]).code, Some(0));
    assert_ne!(run(&world, &["plan", "execute", &stopped]).code, Some(0));
    let said = world.errors(&stopped).join("\n");
    assert!(said.contains("the output of call 1 had a secret"), "{said}");
    assert!(said.contains("agents plan rollback"), "{said}");
    assert!(!world.sandbox_files(&stopped).contains_key("new"));
}

#[test]
fn a_mask_in_a_definition_or_an_argument_is_refused() {
    let world = World::new();
    world.job("");
    for (tool, input) in [
        ("file-write", format!("{{path: x, content: 'a {MASK}'}}")),
        ("file-write", format!("{{path: '{MASK}', content: a}}")),
        ("shell", format!("{{command: 'echo {MASK} > x'}}")),
        ("file-search", format!("{{pattern: '{MASK}'}}")),
        ("dir-create", format!("{{path: '{MASK}'}}")),
    ] {
        world.worker(&format!("- {{tool: builtin/{tool}, input: {input}}}"));
        let plan = world.plan(ALONE);
        assert_ne!(run(&world, &["plan", "execute", &plan]).code, Some(0));
        assert_eq!(world.told(&plan, "tool_invoked").len(), 0, "{tool}");
        assert_eq!(world.told(&plan, "tool_refused").len(), 1, "{tool}");
        let said = world.errors(&plan).join("\n");
        assert!(said.contains("stands for a secret"), "{tool}: {said}");
    }
    // Nobody gets a secret by naming it.
    world.job(ARGUMENT);
    let encoded = "c2stNGY5YThiN2M2ZDVlNGYzYTJiMWMwZDllOGY3YTZiNWM=";
    for value in [MASK, encoded] {
        let argument = format!("key={value}");
        let used = run(&world, &["plan", "use", "job", "shop", "--arg", &argument]);
        used.exits(2).says("the argument `key` cannot be used");
    }
    world.job(&format!("checks: [{{run: 'curl http://x/{MASK}'}}]\n"));
    let used = run(&world, &["plan", "use", "job", "shop"]);
    used.exits(2).says("checks[0].run cannot be used");
}

fn conflicts(run: &Run) -> Value {
    run.data()["conflicts"].clone()
}

#[test]
fn apply_refuses_a_file_into_which_a_mask_was_written() {
    let world = World::new();
    world.write("shop/notes", &format!("A mask looks like {MASK}.\nmore\n"));
    world.commit("shop", "notes");
    // A command may write what it was not given.
    let hidden =
        "printf \"\\\\302\\\\253secret:OTHER_KEY\\\\302\\\\273\" > dir/b; echo more >> notes";
    let plan = world.executed(&format!(
        "- {{tool: builtin/shell, input: {{command: '{hidden}'}}}}"
    ));
    let path = world.path("a.patch").display().to_string();
    for to in [&[][..], &["--to", "worktree"], &["--to", "patch", &path]] {
        let refused = world.ask(&[&["plan", "apply", &plan], to].concat());
        let refused = refused.exits(4).stands("apply/constrained");
        let found = conflicts(&refused);
        let found: Vec<&Value> = found
            .as_array()
            .unwrap()
            .iter()
            .map(|it| &it["path"])
            .collect();
        assert_eq!(found, [&json!("dir/b")], "{refused:?}");
        refused.says("«secret:OTHER_KEY»");
    }
    assert_eq!(
        (world.commits("shop"), world.dirt("shop")),
        (2, String::new())
    );
    world.data(&["plan", "reject", &plan, "dir/b", "--why", "a mask"]);
    world.apply(&plan).succeeded().stands("apply/applied");
    assert!(world.read("shop/notes").ends_with("more\nmore\n"));
}

#[test]
fn diagnostics_names_what_is_masked() {
    let world = World::new();
    let set = ["config", "set", "provider.openai.api-key", SECRET];
    world.run(&set).succeeded();
    let mut command = with_key(&world, &["diagnostics"]);
    command.env("PGPASSWORD", "correct-horse");
    command.env("KEYCLOAK_URL", "http://localhost:8080");
    command.env("MONKEY", "capuchin-and-more");
    let shown = Run::of(command.output().unwrap());
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
