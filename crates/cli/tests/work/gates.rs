//! What gates Apply: checks, validations, and the actor's attempts to repair failures.

use serde_json::Value;

use cleveragents_ports::{OutcomeCounts, StoreError, Transaction};

use crate::world::{TRUSTED, TestWorld};

fn add_validation(world: &TestWorld, name: &str, mode: &str, rest: &str) {
    let text = format!("name: local/{name}\ndescription: It is {name}\nmode: {mode}\n{rest}\n");
    world.write("home/validation.yaml", &text);
    let add = ["validation", "add", "--config", "validation.yaml"];
    world.run(&add).succeeded();
    let attach = [
        "validation",
        "attach",
        "local/shop",
        &format!("local/{name}"),
    ];
    world.run(&attach).succeeded();
}

/// Creates a plan whose check passes after this many repair attempts.
fn plan_repaired_after(world: &TestWorld, rounds: u32) -> String {
    world.define_worker(
        "- {tool: builtin/file-write, input: {path: made, content: made}}\n\
         fix:\n\
         - {tool: builtin/shell, input: {command: 'echo x >> mended'}}\n",
    );
    world.define_worker_job(&format!(
        "checks: [{{run: 'touch mended; test $(wc -l < mended) -ge {rounds}', name: mended}}]\n"
    ));
    world.create_plan(TRUSTED)
}

#[test]
fn the_actor_repairs_a_failed_check_within_three_attempts() {
    let world = TestWorld::new();
    for rounds in 0..=3_u32 {
        let plan = plan_repaired_after(&world, rounds);
        let data = world
            .execute(&plan)
            .succeeded()
            .reports_state("execute/complete");
        let data = data.data();
        assert_eq!(data["validation"]["required_passed"], 1, "{data}");
        let completed = world.events_of_kind(&plan, "validations_completed");
        assert_eq!(completed.len() as u32, rounds + 1);
        // The failures are recorded even though they were repaired.
        let errors = world.events_of_kind(&plan, "error_recorded");
        assert_eq!(errors.len() as u32, rounds);
        let of_checks = |it: &serde_json::Value| it["payload"]["category"] == "validation";
        assert!(errors.iter().all(of_checks), "{errors:?}");
        let repaired = "x\n".repeat(rounds as usize);
        let files = world.sandbox_files(&plan);
        let wanted = (rounds > 0).then(|| format!("0 {repaired}"));
        assert_eq!(
            files.get("mended"),
            wanted.as_ref(),
            "what a check leaves does not count"
        );
    }
}

#[test]
fn a_check_that_cannot_be_repaired_constrains_the_plan() {
    let world = TestWorld::new();
    let plan = plan_repaired_after(&world, 5);
    let run = world
        .execute(&plan)
        .exits(7)
        .reports_state("execute/constrained");
    run.prints("Required validations failed");
    assert_eq!(
        world.events_of_kind(&plan, "validations_completed").len(),
        4
    );
    assert_eq!(world.sandbox_files(&plan)["mended"], "0 x\nx\nx\n");
    let run = world.apply(&plan);
    assert!(run.code == Some(7) || run.code == Some(4), "{run:?}");
    assert_eq!(world.commits("shop"), 1);
    assert_eq!(world.git_status("shop"), "");
    // Each further `execute` allows three more attempts.
    world
        .execute(&plan)
        .succeeded()
        .reports_state("execute/complete");
    assert_eq!(world.sandbox_files(&plan)["mended"], "0 x\nx\nx\nx\nx\n");
    world
        .apply(&plan)
        .succeeded()
        .reports_state("apply/applied");
}

#[test]
fn a_failed_check_without_fix_steps_constrains_the_plan() {
    let world = TestWorld::new();
    world.define_worker("- {tool: builtin/file-write, input: {path: made, content: made}}");
    world.define_worker_job(
        "checks: [{run: 'test -e made', name: one}, {run: 'echo why >&2; exit 3'}]\n",
    );
    let plan = world.create_plan("full-auto");
    let run = world
        .execute(&plan)
        .exits(7)
        .reports_state("execute/constrained");
    let data = run.prints("why").data();
    assert_eq!(data["validation"]["required_passed"], 1, "{data}");
    assert_eq!(data["validation"]["required_failed"], 1, "{data}");
    assert_eq!(world.commits("shop"), 1);
}

#[test]
fn failed_checks_are_forced_only_where_the_profile_allows_it() {
    let world = TestWorld::new();
    world.define_worker("- {tool: builtin/file-write, input: {path: made, content: made}}");
    world.define_worker_job("checks: [{run: 'exit 3', name: online}]\n");
    let force = |plan: &str| {
        let reason = "it needs the network";
        world.run_json(&["plan", "apply", plan, "--yes", "--force-checks", reason])
    };
    let plan = world.create_plan(TRUSTED);
    world.execute(&plan).exits(7);
    // The refusal names the check and commands.
    let run = world.apply(&plan).exits(4).prints("online");
    assert!(!run.stdout.contains("--force-checks"), "{run:?}");
    run.prints(&format!("agents plan execute {plan}"));
    let run = force(&plan).exits(4).prints("allow_forced_checks");
    run.reports_state("execute/constrained");
    assert_eq!(world.commits("shop"), 1);

    world.define_profile("local/forced", "allow_forced_checks: true\n");
    let plan = world.create_plan("local/forced");
    world
        .execute(&plan)
        .exits(7)
        .reports_state("execute/constrained");
    world.apply(&plan).exits(4).prints("--force-checks REASON");
    let empty = ["plan", "apply", &plan, "--yes", "--force-checks", "  "];
    world
        .run_json(&empty)
        .exits(2)
        .prints("--force-checks REASON");
    let before = outcome_counts(&world);
    force(&plan).succeeded().reports_state("apply/applied");
    assert_eq!(outcome_counts(&world), before, "it is no success");
    assert_eq!(world.read("shop/made"), "made");
    let forced = forced_decisions(&world, &plan);
    assert_eq!(forced.len(), 1, "{forced:?}");
    assert!(forced[0].contains("online"), "{forced:?}");
}

fn outcome_counts(world: &TestWorld) -> Vec<OutcomeCounts> {
    let bootstrap = world.bootstrap();
    let app = bootstrap.open_to_read().unwrap();
    let counts = app.block_on(app.store().read(|tx: &mut dyn Transaction| {
        let operations = ["phase.execute", "phase.apply"].into_iter();
        let counts = operations.map(|it| tx.outcome_counts(it));
        counts.collect::<Result<Vec<_>, StoreError>>()
    }));
    counts.unwrap()
}

/// Returns the decisions of the plan to apply it although the network is missing.
fn forced_decisions(world: &TestWorld, plan: &str) -> Vec<String> {
    let decisions = world.events_of_kind(plan, "decision_created").into_iter();
    let texts = decisions.map(|it| it["payload"].to_string());
    texts
        .filter(|it| it.contains("it needs the network"))
        .collect()
}

#[test]
fn a_resumed_forced_apply_is_decided_once() {
    let world = TestWorld::new();
    world.define_worker("- {tool: builtin/file-write, input: {path: made, content: made}}");
    world.define_worker_job("checks: [{run: 'exit 3', name: online}]\n");
    world.define_profile("local/forced", "allow_forced_checks: true\n");
    let plan = world.create_plan("local/forced");
    world.execute(&plan).exits(7);
    let patch = world.path("later/out.patch");
    let reason = "it needs the network";
    let to = ["--to", "patch", patch.to_str().unwrap()];
    let words = ["plan", "apply", &plan, "--yes", "--force-checks", reason];
    world.run_json(&[&words[..], &to].concat()).exits(4);
    assert_eq!(world.state(&plan), "apply/errored");
    std::fs::create_dir(world.path("later")).unwrap();
    world
        .resume(&plan)
        .succeeded()
        .reports_state("apply/applied");
    let forced = forced_decisions(&world, &plan);
    assert_eq!(forced.len(), 1, "{forced:?}");
}

#[test]
fn check_templates_are_rendered_once() {
    let world = TestWorld::new();
    world.define_worker(
        "- {tool: builtin/file-write, input: {path: made, content: '{{ args.text }}'}}",
    );
    world.define_worker_job(
        "arguments: [{name: text, type: string, required: true}]\n\
         checks: [{run: 'test \"$(cat made)\" = \"{{ args.text }}\"'}]\n",
    );
    // Text in an argument that looks like a template is not expanded.
    let plan = world.create_plan_for("shop", TRUSTED, &["--arg", "text={{ nothing }}"]);
    world
        .execute(&plan)
        .succeeded()
        .reports_state("execute/complete");
}

#[test]
fn validations_run_in_parallel_and_required_ones_gate() {
    let world = TestWorld::new();
    world.define_worker("- {tool: builtin/file-write, input: {path: made, content: TODO}}");
    world.define_worker_job("");
    add_validation(&world, "told", "informational", "run: 'false'");
    add_validation(&world, "there", "required", "run: 'test -e made'");
    add_validation(
        &world,
        "judged",
        "informational",
        "wraps: builtin/file-search\ninput: {pattern: TODO}\n\
         transform: \"{'passed': output.matches | length == 1}\"",
    );
    add_validation(
        &world,
        "says",
        "required",
        "run: 'echo \"{\\\"passed\\\": true}\"; exit 0'",
    );
    let plan = world.create_plan(TRUSTED);
    let data = world.execute(&plan).succeeded().data();
    let summary = &data["validation"];
    assert_eq!(summary["required_passed"], 2, "{summary}");
    assert_eq!(summary["required_failed"], 0, "{summary}");
    assert_eq!(summary["informational_passed"], 1, "{summary}");
    assert_eq!(summary["informational_failed"], 1, "{summary}");
    // Two checks that wait for each other pass only if they run in parallel.
    let meet = |mine: &str, other: &str| {
        format!(
            "run: 'touch {mine}; n=0; until test -e {other}; do n=$((n+1)); test $n -lt 600 || exit 1; sleep 0.1; done'"
        )
    };
    add_validation(&world, "left", "required", &meet("left", "right"));
    add_validation(&world, "right", "required", &meet("right", "left"));
    let plan = world.create_plan(TRUSTED);
    let data = world.execute(&plan).succeeded().data();
    assert_eq!(data["validation"]["required_passed"], 4, "{data}");
    let files = world.sandbox_files(&plan);
    assert!(
        !files.contains_key("left") && !files.contains_key("right"),
        "{files:?}"
    );
    world.apply(&plan).succeeded();
    assert_eq!(world.git_status("shop"), "");
}

#[test]
fn files_written_by_validations_are_discarded() {
    let world = TestWorld::new();
    world.define_worker("- {tool: builtin/file-write, input: {path: made, content: made}}");
    world.define_worker_job(
        "checks: [{run: 'echo more > more; rm a; echo worse > made; mkdir -p x/y; chmod +x dir/b'}]\n",
    );
    let plan = world.create_plan(TRUSTED);
    world.execute(&plan).succeeded();
    let mut wanted = world.files("shop");
    wanted.insert("made".to_owned(), "0 made".to_owned());
    assert_eq!(world.sandbox_files(&plan), wanted);
    world.apply(&plan).succeeded();
    assert_eq!(world.files("shop"), wanted);
}

#[test]
fn a_check_that_takes_too_long_has_not_passed() {
    let world = TestWorld::new();
    world.define_worker("- {tool: builtin/file-write, input: {path: made, content: made}}");
    world.define_worker_job("checks: [{run: 'sleep 31536078', timeout: 1}]\n");
    let plan = world.create_plan(TRUSTED);
    let data = world
        .execute(&plan)
        .exits(7)
        .reports_state("execute/constrained")
        .data();
    assert_eq!(data["validation"]["required_failed"], 1, "{data}");
    assert!(!crate::event_follower::is_process_running("31536078"));
    let none = Value::Null;
    assert_ne!(data["validation"]["results"], none, "{data}");
}
