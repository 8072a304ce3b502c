//! What a plan may use up: reserved before a model is asked, and never given back by a kill.

use crate::models::{finish, turn};
use crate::world::{ALONE, World};

/// Each turn says that it used so many tokens.
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

/// A dollar for a thousand tokens.
const PRICE: &str = "answer_tokens: 100\nprice: {input: 1000, output: 1000}\n";

/// What the first request of the job reserves, in tokens and dollars.
fn first_reservation(world: &World) -> (u64, f64) {
    world.thinker("coder", &turns(100), PRICE);
    world.thought_job("builtin/direct", "local/coder", "");
    let plan = world.plan(ALONE);
    world.execute(&plan).succeeded().stands("execute/complete");
    let asked = world.asked(&plan);
    let reserved = &asked[0]["reserved"];
    assert_eq!(
        asked[0]["tokens"], 110,
        "what was used counts, not what was reserved"
    );
    let tokens = reserved["tokens"].as_u64().unwrap();
    assert!(tokens > 0, "nothing was reserved");
    (tokens, reserved["usd"].as_f64().unwrap())
}

#[track_caller]
fn waits_for_budget(world: &World, plan: &str, words: &str) {
    world.waits_for(plan, "budget");
    let errors = world.errors(plan);
    assert!(errors.iter().any(|it| it.contains(words)), "{errors:?}");
    assert!(world.error_kinds(plan).contains(&"budget".to_owned()));
    assert!(!world.told(plan, "budget_exceeded").is_empty());
}

#[test]
fn a_budget_parks_the_plan_before_it_is_passed() {
    let world = World::new();
    let (tokens, usd) = first_reservation(&world);
    // The first request fits, and what it used leaves no room for the second.
    for (budget, words) in [
        (format!("budget: {{tokens: {}}}\n", tokens + 50), "tokens"),
        (format!("budget: {{usd: {}}}\n", usd + 0.05), "USD"),
    ] {
        world.thinker("coder", &turns(tokens), PRICE);
        world.thought_job("builtin/direct", "local/coder", &budget);
        let plan = world.plan(ALONE);
        let run = world.execute(&plan).exits(6).stands("execute/queued");
        run.says("does not allow another");
        waits_for_budget(&world, &plan, words);
        assert_eq!(world.ends_of_asking(&plan), ["answered"]);
        assert_eq!(world.sandbox_files(&plan)["log"], "0 1\n");
        // Going on does not make it larger.
        world.resume(&plan).exits(6);
        assert_eq!(world.asked(&plan).len(), 1);
    }
    // One that not even the first request fits in.
    world.thought_job("builtin/direct", "local/coder", "budget: {tokens: 50}\n");
    let plan = world.plan(ALONE);
    world.execute(&plan).exits(6);
    waits_for_budget(&world, &plan, "50 tokens");
    assert!(world.asked(&plan).is_empty());
}

#[test]
fn a_budget_that_is_nearly_used_up_is_told() {
    let world = World::new();
    let (tokens, _) = first_reservation(&world);
    world.thinker("coder", &turns(100), PRICE);
    let budget = format!("budget: {{tokens: {}}}\n", tokens * 108 / 100);
    world.thought_job("builtin/direct", "local/coder", &budget);
    let plan = world.plan(ALONE);
    world.execute(&plan);
    assert!(!world.told(&plan, "budget_warning").is_empty());
}

#[test]
fn what_a_killed_worker_had_reserved_is_used_up() {
    let world = World::new();
    let (tokens, _) = first_reservation(&world);
    let never = format!("{}    delay_ms: 80000000\n", finish("Never"));
    world.thinker("coder", &format!("{never}{}", turns(100)), PRICE);
    let budget = format!("budget: {{tokens: {}}}\n", tokens * 3 / 2);
    world.thought_job("builtin/direct", "local/coder", &budget);
    let plan = world.plan(ALONE);
    world.killed_at_the_first_question(&plan);
    world.resume(&plan).exits(6).stands("execute/queued");
    waits_for_budget(&world, &plan, "tokens");
    let asked = world.asked(&plan);
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0]["state"], "interrupted");
    assert_eq!(asked[0]["tokens"], tokens);
}

#[test]
fn a_profile_bounds_what_a_plan_may_cost() {
    let world = World::new();
    let (tokens, usd) = first_reservation(&world);
    world.thinker("coder", &turns(tokens), PRICE);
    world.thought_job("builtin/direct", "local/coder", "");
    let guard = format!("guards:\n  max_total_cost: {}\n", usd + 0.05);
    world.profile("local/thrifty", &guard);
    let plan = world.plan("local/thrifty");
    world.execute(&plan).exits(6).stands("execute/queued");
    waits_for_budget(&world, &plan, "USD");
    assert_eq!(world.ends_of_asking(&plan), ["answered"]);
    let more = world.ask(&["plan", "resume", &plan, "--max-usd", "1000"]);
    more.exits(2).says("local/thrifty allows at most");
    assert!(world.told(&plan, "plan_budget_changed").is_empty());
}

#[test]
fn a_model_without_a_price_is_refused_under_a_budget_in_dollars() {
    let world = World::new();
    // Nothing listens there, and nobody asks.
    world.write(
        "home/.cleveragents/models.yaml",
        "providers: [{name: here, kind: openai, base_url: 'http://127.0.0.1:9/v1'}]\n\
         models: [{model: here/small, context_tokens: 32000, answer_tokens: 1000}]\n",
    );
    world.thinker_of("coder", "provider: here\nmodel: small\n");
    world.thought_job("builtin/direct", "local/coder", "budget: {usd: 1}\n");
    let plan = world.plan(ALONE);
    let run = world.execute(&plan).exits(6).stands("execute/errored");
    run.says("here/small has no price");
    assert!(world.asked(&plan).is_empty());
    assert_eq!(world.error_kinds(&plan), ["budget"]);
}

#[test]
fn time_is_a_budget_too() {
    let world = World::new();
    // A command that takes too long is ended, and never happened.
    let slow = "{command: 'echo 1 >> log; sleep 600', timeout: 900}";
    world.thinker(
        "coder",
        &[turn(&[("shell", slow)]), finish("Done")].concat(),
        "",
    );
    world.thought_job("builtin/direct", "local/coder", "budget: {wall: 5}\n");
    let plan = world.plan(ALONE);
    let run = world.execute(&plan).exits(6).stands("execute/queued");
    run.says("budget of 5 seconds is used up");
    world.waits_for(&plan, "budget");
    assert_eq!(world.error_kinds(&plan), ["budget"]);
    assert_eq!(world.asked(&plan).len(), 1);
    assert_eq!(world.told(&plan, "tool_interrupted").len(), 1);
    assert_eq!(world.sandbox_files(&plan), world.files("shop"));

    // A model that takes its time is not waited for.
    let never = format!("{}    delay_ms: 80000000\n", finish("Never"));
    world.thinker("coder", &[never, finish("Done")].concat(), "");
    let plan = world.plan(ALONE);
    world.execute(&plan).exits(6).stands("execute/queued");
    world.waits_for(&plan, "budget");
    assert_eq!(world.ends_of_asking(&plan), ["interrupted"]);
    // Who has no time left reserves nothing for what will not be asked.
    world.resume(&plan).exits(6).stands("execute/queued");
    assert_eq!(world.ends_of_asking(&plan), ["interrupted"]);
}

#[test]
fn time_that_was_used_up_stays_so_until_a_human_gives_more() {
    let world = World::new();
    world.worker("- {tool: builtin/shell, input: {command: 'sleep 600', timeout: 900}}\n");
    world.job("budget: {wall: 5}\n");
    let plan = world.plan(ALONE);
    world.execute(&plan).exits(6).stands("execute/queued");
    // Going on does not begin to count again: what would take no time is not begun either.
    world.worker("- {tool: builtin/shell, input: {command: 'echo 1 >> log'}}\n");
    let run = world.resume(&plan).exits(6).stands("execute/queued");
    run.says("budget of 5 seconds is used up");
    assert!(world.told(&plan, "tool_completed").is_empty());
    world
        .ask(&["plan", "resume", &plan, "--max-wall", "3600"])
        .succeeded()
        .stands("execute/complete");
    let changed = world.told(&plan, "plan_budget_changed");
    assert_eq!(changed[0]["payload"]["from"]["wall"], 5);
    assert_eq!(changed[0]["payload"]["to"]["wall"], 3600);
}

#[test]
fn a_larger_budget_lets_a_plan_go_on() {
    let world = World::new();
    let (tokens, _) = first_reservation(&world);
    let budget = format!("budget: {{tokens: {}}}\n", tokens - 1);
    world.thought_job("builtin/direct", "local/coder", &budget);
    let plan = world.plan(ALONE);
    world.execute(&plan).exits(6);
    world.waits_for(&plan, "budget");
    world
        .ask(&["plan", "resume", &plan])
        .exits(6)
        .says("--max-tokens");
    for wrong in [
        ["--max-tokens", "0"],
        ["--max-usd", "-1"],
        ["--max-wall", "x"],
    ] {
        let words = [&["plan", "resume", &plan][..], &wrong].concat();
        world.ask(&words).exits(2);
    }
    world
        .ask(&["plan", "resume", &plan, "--max-tokens", "100000000"])
        .succeeded()
        .stands("execute/complete");
    assert_eq!(world.told(&plan, "plan_budget_changed").len(), 1);
}

/// Nothing to speak of for what is read, and a dollar for a thousand tokens that the vendor keeps.
const DEAR_TO_KEEP: &str = "answer_tokens: 100\n\
                            price: {input: 1, output: 1, cached_input: 0.1, cache_write: 1000}\n";

#[test]
fn what_a_vendor_may_keep_is_reserved_at_its_price() {
    let world = World::new();
    world.thinker("coder", &turns(100), DEAR_TO_KEEP);
    world.thought_job("builtin/direct", "local/coder", "");
    let plan = world.plan(ALONE);
    world.execute(&plan).succeeded().stands("execute/complete");
    let reserved = world.asked(&plan)[0]["reserved"].clone();
    let usd = reserved["usd"].as_f64().unwrap();
    #[expect(clippy::cast_precision_loss, reason = "no request is that long")]
    let worst = (reserved["tokens"].as_u64().unwrap() - 100) as f64 / 1000.0;
    assert!((usd - worst).abs() < 0.01, "{reserved}");

    // A budget that is smaller than what one call may cost lets none be made.
    for (budget, made) in [(usd - 0.01, false), (usd + 0.01, true)] {
        let text = format!("budget: {{usd: {budget}}}\n");
        world.thought_job("builtin/direct", "local/coder", &text);
        let plan = world.plan(ALONE);
        let run = world.execute(&plan);
        let asked = world.asked(&plan);
        assert_eq!(asked.is_empty(), !made, "{budget}: {run:?}");
        if made {
            continue;
        }
        let run = run.exits(6).stands("execute/queued");
        run.says("does not allow another")
            .says(&format!("agents plan errors {plan}"));
        waits_for_budget(&world, &plan, "USD");
        assert_eq!(world.error_kinds(&plan), ["budget"]);
        let told = &world.told(&plan, "budget_exceeded")[0]["payload"];
        assert_eq!(told["wanted"], reserved, "{told}");
        assert_eq!(world.told(&plan, "model_asked").len(), 0);
        world.resume(&plan).exits(6);
    }
    // The same on the line of a run.
    let path = world.path("shop").display().to_string();
    let budget = (usd - 0.01).to_string();
    world.thought_job("builtin/direct", "local/coder", "");
    let words = ["run", "job", "--path", &path, "--yes", "--max-usd", &budget];
    let run = world.ask(&words).exits(6).stands("execute/queued");
    let plan = run.data()["plan_id"].as_str().unwrap().to_owned();
    assert!(world.asked(&plan).is_empty());
    assert_eq!(world.commits("shop"), 1);
}
