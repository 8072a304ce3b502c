//! `@last`, `@N`, the commands for the newest plan of a repository, and lists inside a repository.

use serde_json::Value;

use crate::environment::{CliRun, TestEnvironment};
use crate::executed_plan::run_script;
use crate::plan_fixture::create_plan;

/// Two projects with a repository each.
fn with_two_projects() -> TestEnvironment {
    let environment = TestEnvironment::new();
    for project in ["shop", "bank"] {
        run_script(
            &environment,
            &format!("git init -q {project} && mkdir {project}/src"),
        );
        let create = ["project", "create", project, "--path", project];
        environment.run(&create).succeeded();
    }
    environment
}

/// Runs the program in a folder below the work directory.
fn run_in(environment: &TestEnvironment, folder: &str, arguments: &[&str]) -> CliRun {
    let mut command = environment.command(arguments);
    command.current_dir(environment.path("work").join(folder));
    CliRun::from_output(command.output().unwrap())
}

fn plan_in(environment: &TestEnvironment, folder: &str, arguments: &[&str]) -> Value {
    let arguments = [arguments, &["--format", "json"]].concat();
    let run = run_in(environment, folder, &arguments).succeeded();
    run.json()["data"]["plan_id"].clone()
}

#[test]
fn the_newest_plans_of_a_repository_have_numbers() {
    let environment = with_two_projects();
    let first = create_plan(&environment, "shop");
    let second = create_plan(&environment, "shop");
    let of_bank = create_plan(&environment, "bank");
    for (folder, reference, plan) in [
        ("shop", "@last", &second),
        ("shop", "@1", &second),
        ("shop/src", "@2", &first),
        ("bank", "@last", &of_bank),
    ] {
        let shown = plan_in(&environment, folder, &["plan", "status", reference]);
        assert_eq!(shown, **plan, "{reference} in {folder}");
    }
    assert_eq!(plan_in(&environment, "shop/src", &["status"]), *second);
    assert_eq!(plan_in(&environment, "shop", &["status", "@2"]), *first);
    assert_eq!(plan_in(&environment, "bank", &["log"]), *of_bank);
}

#[test]
fn a_number_without_a_plan_is_not_found() {
    let environment = with_two_projects();
    create_plan(&environment, "shop");
    for (folder, reference, message) in [
        ("shop", "@2", "there is only 1 plan on"),
        ("bank", "@last", "there is no plan on"),
        (".", "@1", "there is no plan on"),
    ] {
        let run = run_in(&environment, folder, &["plan", "status", reference]);
        assert_eq!(run.code, Some(3), "{run:?}");
        assert!(run.stderr.contains(message), "{run:?}");
        assert!(run.stderr.contains("agents plan list"), "{run:?}");
    }
    let invalid = run_in(&environment, "shop", &["plan", "status", "@0"]);
    assert_eq!(invalid.code, Some(2), "{invalid:?}");
}

#[test]
fn every_end_of_a_shown_id_names_the_plan() {
    let environment = with_two_projects();
    let plan = create_plan(&environment, "shop");
    let shown = &plan[plan.len() - 8..];
    for part in [shown, &shown[..4], &shown[..5], &shown[4..], &plan[..12]] {
        let found = plan_in(&environment, ".", &["plan", "status", part]);
        assert_eq!(found, plan, "{part}");
    }
}

#[test]
fn people_see_the_plans_of_their_repository_first() {
    let environment = with_two_projects();
    let of_shop = create_plan(&environment, "shop");
    let of_bank = create_plan(&environment, "bank");
    let short = |plan: &str| plan[plan.len() - 8..].to_lowercase();
    let listed = |folder: &str, arguments: &[&str]| {
        let run = run_in(&environment, folder, arguments).succeeded();
        let has = |plan: &str| run.stdout.contains(plan) || run.stdout.contains(&short(plan));
        (has(&of_shop), has(&of_bank))
    };
    assert_eq!(listed("shop/src", &["plan", "list"]), (true, false));
    assert_eq!(listed("shop", &["plan", "list", "--all"]), (true, true));
    assert_eq!(listed(".", &["plan", "list"]), (true, true));
    let of_other = ["plan", "list", "--project", "bank"];
    assert_eq!(listed("shop", &of_other), (false, true));
    let json = ["plan", "list", "--format", "json"];
    assert_eq!(listed("shop", &json), (true, true));
}
