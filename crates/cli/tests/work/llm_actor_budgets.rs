//! Budgets of a plan: reserved before each model request, and not refunded by a crash.

use crate::models::{finish, turn};
use crate::world::{TRUSTED, TestWorld};

/// Returns turns that each report this many used tokens.
fn turns(used: u64) -> String {
    let usage = format!("    usage: {{input_tokens: {used}, output_tokens: 10}}\n");
    let work = turn(&[("shell", "{command: 'echo 1 >> log'}")]);
    let more = turn(&[("shell", "{command: 'echo 2 >> log'}")]);
    [
        work,
        usage.clone(),
        more,
        usage.clone(),
        finish("Done"),
        usage,
    ]
    .concat()
}

/// One dollar per thousand tokens.
const PRICE: &str = "answer_tokens: 100\nprice: {input: 1000, output: 1000}\n";

/// Returns what the first request of the job reserves, in tokens and dollars.
fn first_reservation(world: &TestWorld) -> (u64, f64) {
    world.define_llm_actor("coder", &turns(100), PRICE);
    world.define_llm_job("builtin/direct", "local/coder", "");
    let plan = world.create_plan(TRUSTED);
    world
        .execute(&plan)
        .succeeded()
        .reports_state("execute/complete");
    let model_calls = world.model_calls(&plan);
    let reserved = &model_calls[0]["reserved"];
    assert_eq!(
        model_calls[0]["tokens"], 110,
        "what was used counts, not what was reserved"
    );
    let tokens = reserved["tokens"].as_u64().unwrap();
    assert!(tokens > 0, "nothing was reserved");
    (tokens, reserved["usd"].as_f64().unwrap())
}

#[track_caller]
fn assert_waiting_for_budget(world: &TestWorld, plan: &str, words: &str) {
    world.assert_waiting_for(plan, "budget");
    let errors = world.errors(plan);
    assert!(errors.iter().any(|it| it.contains(words)), "{errors:?}");
    assert!(world.error_kinds(plan).contains(&"budget".to_owned()));
    assert!(!world.events_of_kind(plan, "budget_exceeded").is_empty());
}

#[test]
fn the_status_shows_what_was_spent() {
    let world = TestWorld::new();
    world.define_llm_actor("coder", &turns(100), PRICE);
    world.define_llm_job("builtin/direct", "local/coder", "");
    let plan = world.create_plan(TRUSTED);
    let before = &world.json_data(&["plan", "status", &plan])["cost"];
    assert_eq!(before["tokens_used"], 0, "{before}");
    world.execute(&plan).succeeded();
    let cost = &world.json_data(&["plan", "status", &plan])["cost"];
    assert_eq!(cost["tokens_used"], 330, "{cost}");
    let usd = cost["cost_so_far"].as_f64().unwrap();
    assert!((usd - 0.33).abs() < 1e-9, "{cost}");
}

#[test]
fn a_plan_waits_before_exceeding_its_budget() {
    let world = TestWorld::new();
    let (tokens, usd) = first_reservation(&world);
    // The first request fits; its usage leaves no room for the second.
    for (budget, words) in [
        (format!("budget: {{tokens: {}}}\n", tokens + 50), "tokens"),
        (format!("budget: {{usd: {}}}\n", usd + 0.05), "USD"),
    ] {
        world.define_llm_actor("coder", &turns(tokens), PRICE);
        world.define_llm_job("builtin/direct", "local/coder", &budget);
        let plan = world.create_plan(TRUSTED);
        let run = world
            .execute(&plan)
            .exits(6)
            .reports_state("execute/queued");
        run.prints("does not allow another");
        assert_waiting_for_budget(&world, &plan, words);
        assert_eq!(world.model_call_states(&plan), ["answered"]);
        assert_eq!(world.sandbox_files(&plan)["log"], "0 1\n");
        // A resume does not raise the budget.
        world.resume(&plan).exits(6);
        assert_eq!(world.model_calls(&plan).len(), 1);
    }
    // A budget that is too small for the first request.
    world.define_llm_job("builtin/direct", "local/coder", "budget: {tokens: 50}\n");
    let plan = world.create_plan(TRUSTED);
    world.execute(&plan).exits(6);
    assert_waiting_for_budget(&world, &plan, "50 tokens");
    assert!(world.model_calls(&plan).is_empty());
}

#[test]
fn a_nearly_used_budget_is_reported() {
    let world = TestWorld::new();
    let (tokens, _) = first_reservation(&world);
    world.define_llm_actor("coder", &turns(100), PRICE);
    let budget = format!("budget: {{tokens: {}}}\n", tokens * 108 / 100);
    world.define_llm_job("builtin/direct", "local/coder", &budget);
    let plan = world.create_plan(TRUSTED);
    world.execute(&plan);
    assert!(!world.events_of_kind(&plan, "budget_warning").is_empty());
}

#[test]
fn a_killed_workers_reservation_counts_as_used() {
    let world = TestWorld::new();
    let (tokens, _) = first_reservation(&world);
    let never = format!("{}    delay_ms: 80000000\n", finish("Never"));
    world.define_llm_actor("coder", &format!("{never}{}", turns(100)), PRICE);
    let budget = format!("budget: {{tokens: {}}}\n", tokens * 3 / 2);
    world.define_llm_job("builtin/direct", "local/coder", &budget);
    let plan = world.create_plan(TRUSTED);
    world.kill_during_first_model_call(&plan);
    world.resume(&plan).exits(6).reports_state("execute/queued");
    assert_waiting_for_budget(&world, &plan, "tokens");
    let model_calls = world.model_calls(&plan);
    assert_eq!(model_calls.len(), 1);
    assert_eq!(model_calls[0]["state"], "interrupted");
    assert_eq!(model_calls[0]["reserved"]["tokens"], tokens);
    // The longest answer that the budget paid for.
    let maximum = &model_calls[0]["maximum"]["tokens"];
    assert!(maximum.as_u64().unwrap() >= tokens, "{maximum}");
    assert_eq!(&model_calls[0]["tokens"], maximum);
}

#[test]
fn a_profile_bounds_what_a_plan_may_cost() {
    let world = TestWorld::new();
    let (tokens, usd) = first_reservation(&world);
    world.define_llm_actor("coder", &turns(tokens), PRICE);
    world.define_llm_job("builtin/direct", "local/coder", "");
    let guard = format!("guards:\n  max_total_cost: {}\n", usd + 0.05);
    world.define_profile("local/thrifty", &guard);
    let plan = world.create_plan("local/thrifty");
    world
        .execute(&plan)
        .exits(6)
        .reports_state("execute/queued");
    assert_waiting_for_budget(&world, &plan, "USD");
    assert_eq!(world.model_call_states(&plan), ["answered"]);
    let more = world.run_json(&["plan", "resume", &plan, "--max-usd", "1000"]);
    more.exits(2).prints("local/thrifty allows at most");
    assert!(
        world
            .events_of_kind(&plan, "plan_budget_changed")
            .is_empty()
    );
}

#[test]
fn a_model_without_a_price_is_refused_under_a_budget_in_dollars() {
    let world = TestWorld::new();
    // Nothing listens there, and no request is sent.
    world.write(
        "home/.cleveragents/models.yaml",
        "providers: [{name: here, kind: openai, base_url: 'http://127.0.0.1:9/v1'}]\n\
         models: [{model: here/small, context_tokens: 32000, answer_tokens: 1000}]\n",
    );
    world.define_llm_actor_with("coder", "provider: here\nmodel: small\n");
    world.define_llm_job("builtin/direct", "local/coder", "budget: {usd: 1}\n");
    let plan = world.create_plan(TRUSTED);
    let run = world
        .execute(&plan)
        .exits(6)
        .reports_state("execute/errored");
    run.prints("here/small has no price");
    assert!(world.model_calls(&plan).is_empty());
    assert_eq!(world.error_kinds(&plan), ["budget"]);
}

#[test]
fn time_is_a_budget_too() {
    let world = TestWorld::new();
    // A command that exceeds the time is killed and undone.
    let slow = "{command: 'echo 1 >> log; sleep 600', timeout: 900}";
    world.define_llm_actor(
        "coder",
        &[turn(&[("shell", slow)]), finish("Done")].concat(),
        "",
    );
    world.define_llm_job("builtin/direct", "local/coder", "budget: {wall: 5}\n");
    let plan = world.create_plan(TRUSTED);
    let run = world
        .execute(&plan)
        .exits(6)
        .reports_state("execute/queued");
    run.prints("budget of 5 seconds is used up");
    world.assert_waiting_for(&plan, "budget");
    assert_eq!(world.error_kinds(&plan), ["budget"]);
    assert_eq!(world.model_calls(&plan).len(), 1);
    assert_eq!(world.events_of_kind(&plan, "tool_interrupted").len(), 1);
    assert_eq!(world.sandbox_files(&plan), world.files("shop"));

    // A slow model is not waited for.
    let never = format!("{}    delay_ms: 80000000\n", finish("Never"));
    world.define_llm_actor("coder", &[never, finish("Done")].concat(), "");
    let plan = world.create_plan(TRUSTED);
    world
        .execute(&plan)
        .exits(6)
        .reports_state("execute/queued");
    world.assert_waiting_for(&plan, "budget");
    assert_eq!(world.model_call_states(&plan), ["interrupted"]);
    // Without time left nothing is reserved, because no request will be sent.
    world.resume(&plan).exits(6).reports_state("execute/queued");
    assert_eq!(world.model_call_states(&plan), ["interrupted"]);
}

#[test]
fn used_time_counts_until_the_budget_is_raised() {
    let world = TestWorld::new();
    world.define_worker("- {tool: builtin/shell, input: {command: 'sleep 600', timeout: 900}}\n");
    world.define_worker_job("budget: {wall: 5}\n");
    let plan = world.create_plan(TRUSTED);
    world
        .execute(&plan)
        .exits(6)
        .reports_state("execute/queued");
    // A resume does not reset the used time, so even a fast call is not started.
    world.define_worker("- {tool: builtin/shell, input: {command: 'echo 1 >> log'}}\n");
    let run = world.resume(&plan).exits(6).reports_state("execute/queued");
    run.prints("budget of 5 seconds is used up");
    assert!(world.events_of_kind(&plan, "tool_completed").is_empty());
    world
        .run_json(&["plan", "resume", &plan, "--max-wall", "3600"])
        .succeeded()
        .reports_state("execute/complete");
    let changed = world.events_of_kind(&plan, "plan_budget_changed");
    assert_eq!(changed[0]["payload"]["from"]["wall"], 5);
    assert_eq!(changed[0]["payload"]["to"]["wall"], 3600);
}

#[test]
fn a_larger_budget_lets_a_plan_continue() {
    let world = TestWorld::new();
    let (tokens, _) = first_reservation(&world);
    let budget = format!("budget: {{tokens: {}}}\n", tokens - 1);
    world.define_llm_job("builtin/direct", "local/coder", &budget);
    let plan = world.create_plan(TRUSTED);
    world.execute(&plan).exits(6);
    world.assert_waiting_for(&plan, "budget");
    world
        .run_json(&["plan", "resume", &plan])
        .exits(6)
        .prints("--max-tokens");
    for wrong in [
        ["--max-tokens", "0"],
        ["--max-usd", "-1"],
        ["--max-wall", "x"],
    ] {
        let words = [&["plan", "resume", &plan][..], &wrong].concat();
        world.run_json(&words).exits(2);
    }
    world
        .run_json(&["plan", "resume", &plan, "--max-tokens", "100000000"])
        .succeeded()
        .reports_state("execute/complete");
    assert_eq!(world.events_of_kind(&plan, "plan_budget_changed").len(), 1);
}

/// Almost free input and output, and one dollar per thousand tokens written to the provider's
/// cache.
const EXPENSIVE_CACHE_PRICE: &str = "answer_tokens: 100\n\
                            price: {input: 1, output: 1, cached_input: 0.1, cache_write: 1000}\n";

#[test]
fn cache_writes_are_reserved_at_their_price() {
    let world = TestWorld::new();
    world.define_llm_actor("coder", &turns(100), EXPENSIVE_CACHE_PRICE);
    world.define_llm_job("builtin/direct", "local/coder", "");
    let plan = world.create_plan(TRUSTED);
    world
        .execute(&plan)
        .succeeded()
        .reports_state("execute/complete");
    let reserved = world.model_calls(&plan)[0]["reserved"].clone();
    let usd = reserved["usd"].as_f64().unwrap();
    #[expect(clippy::cast_precision_loss, reason = "no request is that long")]
    let worst = (reserved["tokens"].as_u64().unwrap() - 100) as f64 / 1000.0;
    assert!((usd - worst).abs() < 0.01, "{reserved}");

    // No call is made if the budget is smaller than what it may cost.
    for (budget, made) in [(usd - 0.01, false), (usd + 0.01, true)] {
        let text = format!("budget: {{usd: {budget}}}\n");
        world.define_llm_job("builtin/direct", "local/coder", &text);
        let plan = world.create_plan(TRUSTED);
        let run = world.execute(&plan);
        let model_calls = world.model_calls(&plan);
        assert_eq!(model_calls.is_empty(), !made, "{budget}: {run:?}");
        if made {
            continue;
        }
        let run = run.exits(6).reports_state("execute/queued");
        run.prints("does not allow another")
            .prints(&format!("agents plan errors {plan}"));
        assert_waiting_for_budget(&world, &plan, "USD");
        assert_eq!(world.error_kinds(&plan), ["budget"]);
        let payload = &world.events_of_kind(&plan, "budget_exceeded")[0]["payload"];
        assert_eq!(payload["wanted"], reserved, "{payload}");
        assert_eq!(world.events_of_kind(&plan, "model_asked").len(), 0);
        world.resume(&plan).exits(6);
    }
    // The same with the option of `agents run`.
    let path = world.path("shop").display().to_string();
    let budget = (usd - 0.01).to_string();
    world.define_llm_job("builtin/direct", "local/coder", "");
    let words = ["run", "job", "--path", &path, "--yes", "--max-usd", &budget];
    let run = world
        .run_json(&words)
        .exits(6)
        .reports_state("execute/queued");
    let plan = run.data()["plan_id"].as_str().unwrap().to_owned();
    assert!(world.model_calls(&plan).is_empty());
    assert_eq!(world.commits("shop"), 1);
}
