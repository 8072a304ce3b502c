//! Results of plans: patches that git accepts, and the errors when there is none.

use std::fs;

use crate::environment::TestEnvironment;
use crate::executed_plan::{
    create_executed_plan, create_plan_with, execute_until_done, run_script,
};

#[test]
fn git_apply_accepts_the_patch() {
    let mut environment = TestEnvironment::new();
    let plan = create_executed_plan(&mut environment);
    let patch = ["plan", "diff", &plan, "--patch"];
    let output = environment.command(&patch).output().unwrap();
    assert!(output.status.success());
    assert!(
        output.stdout.windows(6).any(|it| it == b"-Caf\xe9:"),
        "bytes that are no text survive"
    );
    environment.write("work/it.patch", &output.stdout);
    run_script(
        &environment,
        "cp -r shop other && cd other && git apply --check ../it.patch && git apply ../it.patch",
    );
    let apply = ["plan", "apply", &plan, "--yes"];
    environment.run(&apply).succeeded();
    run_script(&environment, "diff -r --exclude=.git shop other");
    // The format does not matter: to a pipe, a patch alone is written unchanged.
    let rich = [&patch[..], &["--format", "rich"]].concat();
    assert_eq!(
        environment.command(&rich).output().unwrap().stdout,
        output.stdout
    );
    let json = environment
        .run(&["plan", "diff", &plan, "-f", "json"])
        .succeeded()
        .json();
    let data = &json["data"];
    assert_eq!(data["resources"][0]["patch_is_exact"], false);
    assert_eq!(data["diff_summary"]["files_changed"], 4);
    assert_eq!(data["diff_summary"]["net_change"], "+2 lines");
    assert_eq!(
        data["risk_assessment"]["breaking_changes"],
        serde_json::Value::Null
    );
    let preview = data["patch_preview"].as_array().unwrap();
    assert_eq!(preview[0]["file"], "cart.txt");
    assert_eq!(preview[0]["hunks"][1]["insertions"][0], "last line but two");
}

#[test]
fn a_filtered_diff_keeps_a_rename() {
    let mut environment = TestEnvironment::new();
    let plan = create_executed_plan(&mut environment);
    for name in [
        "kept/new name.txt",
        "./kept/",
        "old name.txt",
        "kept/new%20name.txt",
    ] {
        let patch = environment.run(&["plan", "diff", &plan, "--patch", "--file", name]);
        let patch = patch.succeeded().stdout;
        assert!(
            patch.contains("rename from old name.txt"),
            "{name}: {patch}"
        );
        assert_eq!(patch.matches("diff --git").count(), 1, "{name}: {patch}");
    }
}

#[test]
fn a_patch_covers_one_resource() {
    let mut environment = TestEnvironment::new();
    let actor = "\
name: local/tidy
type: tool
description: Writes in two places
steps:
  - {tool: builtin/file-write, resource: local/shop, input: {path: new.txt, content: shop}}
  - {tool: builtin/file-write, resource: local/docs, input: {path: new.txt, content: docs}}
";
    let action = "\
name: local/tidy-up
description: Tidy up
strategy_actor: builtin/direct
execution_actor: local/tidy
definition_of_done: It is tidy
";
    environment.write("work/docs/a.md", "a\n");
    let plan = create_plan_with(&mut environment, actor, action);
    let add = ["resource", "add", "fs-directory", "docs", "--path", "docs"];
    environment.run(&add).succeeded();
    let link = ["project", "link-resource", "shop", "local/docs"];
    environment.run(&link).succeeded();
    execute_until_done(&environment, &plan).succeeded();
    let run = environment.run(&["plan", "diff", &plan, "--patch"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""));
    for name in ["local/shop", "local/docs"] {
        assert!(
            run.stderr.contains(&format!("--resource {name}")),
            "{run:?}"
        );
    }
    let one = ["plan", "diff", &plan, "--patch", "--resource", "docs"];
    let one = environment.run(&one).succeeded();
    assert!(one.stdout.contains("+docs\n"), "{one:?}");
    let json = environment
        .run(&["plan", "diff", &plan, "-f", "json"])
        .succeeded()
        .json();
    assert_eq!(json["data"]["patch"], serde_json::Value::Null);
    assert_eq!(json["data"]["resources"].as_array().unwrap().len(), 2);
    let all = environment
        .run(&["plan", "diff", &plan, "--stat"])
        .succeeded();
    assert!(
        all.stdout.contains("new.txt\tadded\t+1 -0\tlocal/docs"),
        "{all:?}"
    );
    let artifacts = environment.run(&["plan", "artifacts", &plan, "-f", "json"]);
    let artifacts = artifacts.succeeded().json();
    assert_eq!(artifacts["data"]["summary"]["writes"], 2);
}

#[test]
fn a_sandbox_without_folder_names_its_result() {
    let mut environment = TestEnvironment::new();
    let plan = create_executed_plan(&mut environment);
    fs::remove_dir_all(environment.path(".cleveragents/sandboxes")).unwrap();
    for command in ["diff", "artifacts"] {
        let run = environment.run(&["plan", command, &plan]);
        assert_eq!(run.code, Some(3), "{run:?}");
        let hint = format!("git -C {} show", environment.path("work/shop").display());
        assert!(run.stderr.contains(&hint), "{run:?}");
    }
    run_script(
        &environment,
        "cd shop && git show --stat $(git for-each-ref --format='%(refname)' refs/cleveragents/plan-*) | grep -q notes.md",
    );
    fs::remove_dir_all(environment.path("work/shop")).unwrap();
    let run = environment.run(&["plan", "diff", &plan]);
    assert_eq!(run.code, Some(3), "{run:?}");
    assert!(run.stderr.contains("agents plan log"), "{run:?}");
}

#[test]
fn invalid_diff_arguments_are_refused() {
    let mut environment = TestEnvironment::new();
    let plan = create_executed_plan(&mut environment);
    let plan = plan.as_str();
    for (arguments, code, said) in [
        (
            &["plan", "diff", plan, "--stat", "--patch"][..],
            2,
            "cannot be used with",
        ),
        (&["plan", "diff", plan, "--file"], 2, "a value is required"),
        (
            &["plan", "diff", plan, "--file", "../x"],
            3,
            "did not change",
        ),
        (
            &["plan", "diff", plan, "--file", "crat.txt"],
            3,
            "did you mean cart.txt?",
        ),
        (
            &["plan", "diff", plan, "--resource", "a b"],
            2,
            "cannot be the name of a resource",
        ),
        (
            &["plan", "diff", plan, "--resource", "bank"],
            3,
            "it has local/shop",
        ),
        (&["plan", "diff", "0000"], 3, "agents plan list"),
        (&["plan", "artifacts", "0000"], 3, "agents plan list"),
    ] {
        let run = environment.run(arguments);
        assert_eq!(run.code, Some(code), "{arguments:?}: {run:?}");
        assert!(run.stderr.contains(said), "{arguments:?}: {run:?}");
    }
}
