//! Applying results: what blocks it, what it does not touch, its destinations, and unapplying.

use std::process::Child;

use serde_json::Value;

use crate::world::{AgentsRun, TRUSTED, TestWorld};

const EDIT: &str = "\
- {tool: builtin/file-edit, input: {path: a, old: '2', new: two}}
- {tool: builtin/file-write, input: {path: made, content: made}}
- {tool: builtin/file-delete, input: {path: dir/b}}
";

const EDITED: &str = "1\ntwo\n3\n4\n5\n6\n7\n8\n9\n";

#[track_caller]
fn assert_blocked(world: &TestWorld, plan: &str, wanted: &[&str]) {
    let run = world
        .apply(plan)
        .exits(4)
        .reports_state("apply/constrained");
    let data = run.prints(&format!("agents plan apply {plan}")).data();
    let conflicts = data["conflicts"].as_array().unwrap();
    let paths: Vec<&str> = conflicts
        .iter()
        .filter_map(|it| it["path"].as_str())
        .collect();
    assert_eq!(paths, wanted, "{data}");
    assert!(
        conflicts.iter().all(|it| it["reason"].is_string()),
        "{data}"
    );
    assert_eq!(world.state(plan), "apply/constrained");
}

#[test]
fn a_missing_repository_blocks_the_apply() {
    let world = TestWorld::new();
    let plan = world.create_executed_plan(EDIT);
    let (shop, away) = (world.path("shop"), world.path("away"));
    std::fs::rename(&shop, &away).unwrap();
    for _ in 0..2 {
        let run = world
            .apply(&plan)
            .exits(4)
            .reports_state("apply/constrained");
        let data = run.prints(&format!("agents plan apply {plan}")).data();
        assert_eq!(
            data["conflicts"][0]["place"],
            shop.to_str().unwrap(),
            "{data}"
        );
        let reason = data["conflicts"][0]["reason"].as_str().unwrap();
        assert!(reason.contains("restore it"), "{reason}");
        assert_eq!(world.state(&plan), "apply/constrained");
    }
    // A folder that is no longer a repository cannot get a commit either.
    std::fs::create_dir(&shop).unwrap();
    let run = world
        .apply(&plan)
        .exits(4)
        .reports_state("apply/constrained");
    run.prints("restore it");
    std::fs::remove_dir(&shop).unwrap();
    std::fs::rename(&away, &shop).unwrap();
    world
        .apply(&plan)
        .succeeded()
        .reports_state("apply/applied");
    assert_eq!(world.read("shop/a"), EDITED);
    // A plan that cannot be applied can be cancelled.
    let plan =
        world.create_executed_plan("- {tool: builtin/file-write, input: {path: b, content: b}}\n");
    std::fs::rename(&shop, &away).unwrap();
    world.apply(&plan).exits(4);
    world.run_json(&["plan", "cancel", &plan]).succeeded();
}

#[test]
fn uncommitted_changes_to_the_same_files_block() {
    let world = TestWorld::new();
    let plan = world.create_executed_plan(EDIT);
    // Of the plan's files one is dirty, one staged and one untracked; an unrelated file is dirty
    // too.
    world.write("shop/a", "mine\n");
    world.write("shop/made", "mine\n");
    world.write("shop/dir/b", "staged\n");
    world.git(&world.path("shop"), &["add", "dir/b"]);
    world.write("shop/run.sh", "elsewhere\n");
    world.write("shop/other", "elsewhere\n");
    let (before, dirt) = (world.files("shop"), world.git_status("shop"));
    for _ in 0..2 {
        assert_blocked(&world, &plan, &["a", "dir/b", "made"]);
        assert_eq!(world.files("shop"), before);
        assert_eq!(world.git_status("shop"), dirt);
        assert_eq!(world.commits("shop"), 1);
    }
    let shop = world.path("shop");
    world.git(&shop, &["reset", "-q", "--", "dir/b"]);
    world.git(&shop, &["checkout", "-q", "--", "a", "dir/b"]);
    assert_blocked(&world, &plan, &["made"]);
    std::fs::remove_file(world.path("shop/made")).unwrap();
    world
        .apply(&plan)
        .succeeded()
        .reports_state("apply/applied");
    let mut wanted = before;
    wanted.remove("dir/b");
    wanted.insert("a".to_owned(), format!("0 {EDITED}"));
    wanted.insert("made".to_owned(), "0 made".to_owned());
    assert_eq!(world.files("shop"), wanted);
    assert_eq!(world.git_status("shop"), " M run.sh\n?? other\n");
    assert_eq!(world.commits("shop"), 2);
    let changed = ["show", "--name-status", "--format=", "HEAD"];
    assert_eq!(world.git(&shop, &changed), "M\ta\nD\tdir/b\nA\tmade\n");
}

#[test]
fn later_commits_are_merged_or_conflict() {
    let world = TestWorld::new();
    let merges = world.create_executed_plan(EDIT);
    let conflicts = world.create_executed_plan(EDIT);
    world.write("shop/a", "1\n2\n3\n4\n5\n6\n7\n8\nnine\n");
    world.write("shop/other", "other\n");
    world.commit("shop", "meanwhile");
    world
        .apply(&merges)
        .succeeded()
        .reports_state("apply/applied");
    assert_eq!(world.read("shop/a"), EDITED.replace('9', "nine"));
    assert_eq!(world.read("shop/other"), "other\n");
    assert_eq!(world.commits("shop"), 3);
    world.write("shop/a", "1\nzwei\n3\n");
    world.commit("shop", "theirs");
    assert_blocked(&world, &conflicts, &["a"]);
    assert_eq!(world.read("shop/a"), "1\nzwei\n3\n");
    assert_eq!(world.git_status("shop"), "");
    // The second execution starts from the current commit.
    assert_eq!(world.commits("shop"), 4);
}

#[test]
fn results_go_to_a_branch_the_files_or_a_patch() {
    let world = TestWorld::new();
    let shop = world.path("shop");
    let head = world.git(&shop, &["rev-parse", "HEAD"]);
    let before = world.files("shop");
    let to = |plan: &str, words: &[&str]| {
        world.run_json(&[&["plan", "apply", plan, "--to"], words].concat())
    };
    let plan = world.create_executed_plan(EDIT);
    for wrong in [&["nowhere"][..], &["branch"], &["patch"], &["current", "x"]] {
        to(&plan, wrong).exits(2);
    }
    to(&plan, &["branch", "bad..name"]).exits(2);
    assert!(world.state(&plan).ends_with("/complete") || world.state(&plan).starts_with("apply/"));
    to(&plan, &["branch", "agents/work"])
        .succeeded()
        .reports_state("apply/applied");
    assert_eq!(world.git(&shop, &["rev-parse", "HEAD"]), head);
    assert_eq!(world.git(&shop, &["show", "agents/work:a"]), EDITED);
    assert_eq!(
        world.git(&shop, &["rev-list", "--count", "agents/work"]),
        "2\n"
    );
    assert_eq!(world.files("shop"), before);

    let plan = world.create_executed_plan(EDIT);
    let patch = world.path("out.patch");
    let words = ["patch", patch.to_str().unwrap()];
    to(&plan, &words).succeeded().reports_state("apply/applied");
    assert_eq!(world.files("shop"), before);
    world.git(&shop, &["apply", "--check", patch.to_str().unwrap()]);
    // A file of another owner is not overwritten.
    let other = world.create_executed_plan(EDIT);
    world.write("theirs.patch", "theirs\n");
    let theirs = world.path("theirs.patch");
    to(&other, &["patch", theirs.to_str().unwrap()]).exits(4);
    assert_eq!(world.read("theirs.patch"), "theirs\n");

    let plan = world.create_executed_plan(EDIT);
    to(&plan, &["worktree"])
        .succeeded()
        .reports_state("apply/applied");
    assert_eq!(world.git(&shop, &["rev-parse", "HEAD"]), head);
    assert_eq!(world.read("shop/a"), EDITED);
    assert!(!world.path("shop/dir/b").exists());
    assert_eq!(world.read("shop/made"), "made");
}

#[test]
fn concurrent_applies_take_effect_once() {
    let world = TestWorld::new();
    for round in 2..5 {
        let edit =
            format!("- {{tool: builtin/file-write, input: {{path: made-{round}, content: made}}}}");
        let plan = world.create_executed_plan(&edit);
        let words = ["plan", "apply", &plan, "--format", "json"];
        let children: Vec<Child> = (0..4).map(|_| world.start(&words)).collect();
        for child in children {
            let run = AgentsRun::from_output(child.wait_with_output().unwrap());
            assert!(matches!(run.code, Some(0 | 4)), "{run:?}");
        }
        assert_eq!(world.state(&plan), "apply/applied");
        assert_eq!(world.commits("shop"), round);
        assert_eq!(world.events_of_kind(&plan, "plan_applied").len(), 1);
        world
            .apply(&plan)
            .succeeded()
            .reports_state("apply/applied");
        assert_eq!(world.commits("shop"), round);
    }
}

#[test]
fn an_applied_plan_is_unapplied_once() {
    let world = TestWorld::new();
    let before = world.files("shop");
    let plan = world.create_executed_plan(EDIT);
    world.apply(&plan).succeeded();
    world.write("shop/other", "mine\n");
    world.commit("shop", "since");
    world.write("shop/run.sh", "dirty elsewhere\n");
    let unapply = ["plan", "unapply", &plan, "--yes"];
    // A changed file of the user blocks it.
    world.write("shop/a", "mine\n");
    let run = world.run_json(&unapply).exits(4);
    assert_eq!(run.data()["conflicts"][0]["path"], "a");
    assert_eq!(world.read("shop/a"), "mine\n");
    world.git(&world.path("shop"), &["checkout", "-q", "--", "a"]);
    world
        .run_json(&unapply)
        .succeeded()
        .reports_state("apply/unapplied");
    assert_eq!(world.commits("shop"), 4);
    world.run_json(&unapply).succeeded();
    assert_eq!(world.commits("shop"), 4);
    let mut wanted = before;
    wanted.insert("other".to_owned(), "0 mine\n".to_owned());
    let mut found = world.files("shop");
    wanted.remove("run.sh");
    found.remove("run.sh");
    assert_eq!(found, wanted);
    assert_eq!(world.events_of_kind(&plan, "plan_unapplied").len(), 1);
}

/// What the user has undone by hand already is left alone, and the rest is undone.
#[test]
fn files_that_the_user_restored_do_not_block_an_unapply() {
    for (resource, to) in [("shop", "worktree"), ("docs", "current")] {
        for restored in ["a", "dir/b", "made"] {
            let world = TestWorld::empty();
            world.create_repository("shop");
            world.create_folder("docs");
            world.create_project("shop", &[resource]);
            let before = world.files(resource);
            let (edited, deleted) = (format!("{resource}/a"), format!("{resource}/dir/b"));
            let old = [world.read(&edited), world.read(&deleted)];
            let plan = world.create_executed_plan(EDIT);
            world
                .run_json(&["plan", "apply", &plan, "--to", to, "--yes"])
                .succeeded()
                .reports_state("apply/applied");
            match restored {
                "a" => world.write(&edited, &old[0]),
                "dir/b" => world.write(&deleted, &old[1]),
                _ => std::fs::remove_file(world.path(resource).join("made")).unwrap(),
            }
            let run = world.run_json(&["plan", "unapply", &plan, "--yes"]);
            run.succeeded().reports_state("apply/unapplied");
            assert_eq!(world.files(resource), before, "{resource}: {restored}");
        }
    }
}

#[test]
fn several_resources_are_applied_atomically() {
    let world = TestWorld::empty();
    world.create_repository("shop");
    world.create_folder("docs");
    world.create_project("shop", &["shop", "docs"]);
    let edit = |resource: &str| {
        format!(
            "- {{tool: builtin/file-edit, resource: local/{resource}, \
             input: {{path: a, old: '2', new: two}}}}\n\
             - {{tool: builtin/file-write, resource: local/{resource}, \
             input: {{path: made, content: made}}}}\n"
        )
    };
    let plan = world.create_executed_plan(&(edit("shop") + &edit("docs")));
    let (shop, docs) = (world.files("shop"), world.files("docs"));
    world.write("docs/a", "mine\n");
    let run = world
        .apply(&plan)
        .exits(4)
        .reports_state("apply/constrained");
    assert_eq!(run.data()["conflicts"].as_array().unwrap().len(), 1);
    assert_eq!(world.files("shop"), shop);
    assert_eq!(world.commits("shop"), 1);
    assert_eq!(world.read("docs/a"), "mine\n");
    assert!(!world.path("docs/made").exists());
    world.write("docs/a", "1\n2\n3\n");
    world.write("shop/a", "mine\n");
    world
        .apply(&plan)
        .exits(4)
        .reports_state("apply/constrained");
    assert_eq!(world.files("docs"), docs);
    world.git(&world.path("shop"), &["checkout", "-q", "--", "a"]);
    let data = world
        .apply(&plan)
        .succeeded()
        .reports_state("apply/applied")
        .data();
    assert_eq!(data["resources"].as_array().unwrap().len(), 2, "{data}");
    assert_eq!(world.read("shop/a"), EDITED);
    assert_eq!(world.read("docs/a"), "1\ntwo\n3\n");
    assert_eq!(world.read("docs/made"), "made");
    let unapply = ["plan", "unapply", &plan, "--yes"];
    world.run_json(&unapply).succeeded();
    assert_eq!(world.files("shop"), shop);
    assert_eq!(world.files("docs"), docs);
}

#[test]
fn commits_name_their_author() {
    let mut world = TestWorld::new();
    let author = |world: &TestWorld| {
        let format = ["log", "-1", "--format=%an <%ae>|%s"];
        world.git(&world.path("shop"), &format)
    };
    let made = |text: &str| {
        format!("- {{tool: builtin/file-write, input: {{path: {text}, content: made}}}}")
    };
    let plan = world.create_executed_plan(&made("one"));
    world.apply(&plan).succeeded();
    assert_eq!(
        author(&world),
        "CleverAgents <agents@localhost>|Do the job\n"
    );
    let shop = world.path("shop");
    world.git(&shop, &["config", "user.name", "Ada"]);
    world.git(&shop, &["config", "user.email", "ada@example.org"]);
    let plan = world.create_executed_plan(&made("two"));
    world.apply(&plan).succeeded();
    assert_eq!(author(&world), "Ada <ada@example.org>|Do the job\n");
    world.author = Some(("Bob", "bob@example.org"));
    let plan = world.create_executed_plan(&made("three"));
    world.apply(&plan).succeeded();
    assert_eq!(author(&world), "Bob <bob@example.org>|Do the job\n");
}

#[test]
fn a_linked_worktree_is_a_resource_like_any_other() {
    let world = TestWorld::empty();
    world.create_repository("main");
    let side = world.path("shop");
    let add = [
        "worktree",
        "add",
        "-q",
        "-b",
        "side",
        side.to_str().unwrap(),
    ];
    world.git(&world.path("main"), &add);
    world.create_project("shop", &["shop"]);
    let main = world.files("main");
    let plan = world.create_executed_plan(EDIT);
    world
        .apply(&plan)
        .succeeded()
        .reports_state("apply/applied");
    assert_eq!(world.read("shop/a"), EDITED);
    assert_eq!(world.git_status("shop"), "");
    assert_eq!((world.commits("shop"), world.commits("main")), (2, 1));
    assert_eq!(world.files("main"), main);
    assert_eq!(world.git_status("main"), "");
}

#[test]
fn a_plan_can_start_from_uncommitted_files() {
    let world = TestWorld::new();
    world.write("shop/draft", "draft\n");
    world.define_worker("- {tool: builtin/file-edit, input: {path: draft, old: draft, new: done}}");
    world.define_worker_job("");
    let plan = world.create_plan(TRUSTED);
    world
        .execute(&plan)
        .exits(1)
        .reports_state("execute/errored");
    let plan = world.create_plan_for("shop", TRUSTED, &["--base", "worktree"]);
    world
        .execute(&plan)
        .succeeded()
        .reports_state("execute/complete");
    assert_eq!(world.sandbox_files(&plan)["draft"], "0 done\n");
    assert_eq!(world.read("shop/draft"), "draft\n");
    let status: Value = world.json_data(&["plan", "status", &plan]);
    assert_eq!(status["state"], "complete");
}
