//! Races between commands of the program.

use anyhow::Result;

use super::ground::{Ground, Words, lost, stuck, words, write_step};
use crate::attack::plans;
use crate::attack::tally::Verdict;

/// Every command that moves a plan, on the same plan.
pub fn commands_on_one_plan(ground: &mut Ground) -> Result<Verdict> {
    ground.define("job", &write_step("made", "made"))?;
    let plan = plans::executed(&ground.machine, "job", "one")?;
    let before = ground.commits("one")?;
    let verbs = [
        "apply PLAN --yes",
        "apply PLAN --yes",
        "cancel PLAN",
        "revert PLAN",
        "resume PLAN",
        "execute PLAN",
        "unapply PLAN --yes",
    ];
    let mut commands: Vec<Words> = verbs
        .iter()
        .map(|it| words(&format!("plan {}", it.replace("PLAN", &plan))))
        .collect();
    ground.shuffle(&mut commands);
    let answers = ground.race(&commands)?;
    let ended = ground.check(&answers, std::slice::from_ref(&plan))?;
    if ended != Verdict::Held {
        return Ok(ended);
    }
    let leads_on = match ground.random.below(2) {
        0 => ground.lead_to_applied(&plan)?,
        _ => ground.lead_to_end(&plan)?,
    };
    if let Some(broken) = leads_on {
        return Ok(broken);
    }
    let position = ground.position(&plan)?;
    let made = ground.machine.path("one/made").exists();
    let added = ground.commits("one")? - before;
    match (position.as_str(), added, made) {
        ("apply/applied", 1, true) | ("apply/unapplied", 2, false) => Ok(Verdict::Held),
        // It may have been applied, unapplied and reverted before.
        (it, 0 | 2, false) if it.ends_with("/cancelled") => Ok(Verdict::Held),
        (it, added, made) => lost(format!(
            "{it}, yet {added} commits and the file is there: {made}"
        )),
    }
}

/// The same plan executed by several processes: each step is made once.
pub fn execute_by_many(ground: &mut Ground) -> Result<Verdict> {
    let step =
        "- {tool: builtin/shell, resource: local/one, input: {command: 'echo once >> log'}}\n";
    ground.define("job", step)?;
    let plan = plans::plan(&ground.machine, "job", "one", plans::PROFILE)?;
    let commands = vec![words(&format!("plan execute {plan}")); 5];
    let answers = ground.race(&commands)?;
    if let Some(broken) = ground.lead_to_applied(&plan)? {
        return Ok(broken);
    }
    match ground.machine.read("one/log").as_str() {
        "once\n" => ground.check(&answers, &[plan]),
        other => lost(format!("the step was made not once but: {other:?}")),
    }
}

/// The same plan applied by several processes: one commit.
pub fn apply_by_many(ground: &mut Ground) -> Result<Verdict> {
    ground.define("job", &write_step("made", "made"))?;
    let plan = plans::executed(&ground.machine, "job", "one")?;
    let before = ground.commits("one")?;
    let answers = ground.race(&vec![words(&format!("plan apply {plan} --yes")); 5])?;
    if let Some(broken) = ground.lead_to_applied(&plan)? {
        return Ok(broken);
    }
    match ground.commits("one")? - before {
        1 => ground.check(&answers, &[plan]),
        other => lost(format!("applied by {other} commits")),
    }
}

/// Plans that change the same line, applied at once: one wins, and each loser has a way on and a way out.
pub fn same_line(ground: &mut Ground) -> Result<Verdict> {
    let mut all = Vec::new();
    for number in 0..4 {
        let name = format!("job{number}");
        let step = format!(
            "- {{tool: builtin/file-edit, resource: local/one, input: {{path: a, old: \"3\\n\", new: \"plan {number}\\n\"}}}}\n"
        );
        ground.define(&name, &step)?;
        all.push(plans::executed(&ground.machine, &name, "one")?);
    }
    let before = ground.commits("one")?;
    let commands: Vec<Words> = all
        .iter()
        .map(|it| words(&format!("plan apply {it} --yes")))
        .collect();
    let answers = ground.race(&commands)?;
    let mut applied = 0;
    for plan in &all {
        applied += usize::from(ground.position(plan)? == "apply/applied");
    }
    let content = ground.machine.read("one/a");
    if applied != 1 || ground.commits("one")? != before + 1 || content.matches("plan ").count() != 1
    {
        return lost(format!(
            "{applied} plans say that they are applied; the file has {content:?}"
        ));
    }
    for plan in &all {
        if ground.position(plan)? == "apply/applied" {
            continue;
        }
        if let Some(broken) = ground.lead_to_end(plan)? {
            return Ok(broken);
        }
    }
    ground.check(&answers, &all)
}

/// Plans that change different files, applied at once: all arrive.
pub fn different_files(ground: &mut Ground) -> Result<Verdict> {
    let mut all = Vec::new();
    for number in 0..5 {
        let name = format!("job{number}");
        ground.define(&name, &write_step(&format!("made{number}"), "made"))?;
        all.push(plans::executed(&ground.machine, &name, "one")?);
    }
    let before = ground.commits("one")?;
    let commands: Vec<Words> = all
        .iter()
        .map(|it| words(&format!("plan apply {it} --yes")))
        .collect();
    let answers = ground.race(&commands)?;
    for plan in &all {
        if let Some(broken) = ground.lead_to_applied(plan)? {
            return Ok(broken);
        }
    }
    for number in 0..5 {
        if !ground.machine.path(&format!("one/made{number}")).exists() {
            return lost(format!("the file of plan {number} is missing"));
        }
    }
    match ground.commits("one")? - before {
        5 => ground.check(&answers, &all),
        other => lost(format!("{other} commits of 5 plans")),
    }
}

/// `gc` and `sandbox gc` beside plans that execute and apply.
pub fn gc_beside_work(ground: &mut Ground) -> Result<Verdict> {
    let mut all = Vec::new();
    for number in 0..3 {
        let name = format!("job{number}");
        ground.define(&name, &write_step(&format!("made{number}"), "made"))?;
        all.push(plans::plan(&ground.machine, &name, "one", plans::PROFILE)?);
    }
    let gc = [
        words("sandbox gc --older-than 0d"),
        words("gc"),
        words("sandbox gc"),
    ];
    let mut answers = Vec::new();
    for verb in ["execute PLAN", "apply PLAN --yes"] {
        let mut commands: Vec<Words> = all
            .iter()
            .map(|it| words(&format!("plan {}", verb.replace("PLAN", it))))
            .collect();
        commands.extend(gc.iter().cloned());
        ground.shuffle(&mut commands);
        answers.extend(ground.race(&commands)?);
    }
    for plan in &all {
        if let Some(broken) = ground.lead_to_applied(plan)? {
            return Ok(broken);
        }
    }
    ground.check(&answers, &all)
}

/// One key, many requests: one plan.
pub fn same_key(ground: &mut Ground) -> Result<Verdict> {
    ground.define("job", &write_step("made", "made"))?;
    let answers = ground.race(&vec![
        words("plan use local/job one --idempotency-key k");
        6
    ])?;
    let mut ids: Vec<String> = answers
        .iter()
        .filter_map(|it| it.data()["plan_id"].as_str().map(str::to_owned))
        .collect();
    ids.sort();
    ids.dedup();
    match ids.len() {
        1 => ground.check(&answers, &ids),
        0 => stuck(answers[0].summary()),
        count => lost(format!("{count} plans of one key")),
    }
}

/// Settings that several processes write at once all stay.
pub fn settings_by_many(ground: &mut Ground) -> Result<Verdict> {
    let settings = [
        ("plan.concurrency", "3"),
        ("retention.operations-days", "31"),
        ("retention.blob-grace-hours", "25"),
        ("core.log-level", "error"),
    ];
    let commands: Vec<Words> = settings
        .iter()
        .map(|(key, value)| words(&format!("config set {key} {value}")))
        .collect();
    let answers = ground.race(&commands)?;
    let text = ground.machine.read("home/.cleveragents/config.toml");
    let names = [
        "concurrency",
        "operations-days",
        "blob-grace-hours",
        "log-level",
    ];
    match names.iter().find(|it| !text.contains(*it)) {
        Some(missing) => lost(format!("`{missing}` is not in the settings: {text:?}")),
        None => ground.check(&answers, &[]),
    }
}
