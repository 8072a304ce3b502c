//! Races between commands of the program.

use anyhow::Result;

use super::race_machine::{CommandWords, RaceMachine, lost, split_words, stuck, write_step};
use crate::attack::plans;
use crate::attack::tally::AttackVerdict;

/// Every command that moves a plan, concurrently on the same plan.
pub fn commands_on_one_plan(race_machine: &mut RaceMachine) -> Result<AttackVerdict> {
    race_machine.define("job", &write_step("made", "made"))?;
    let plan = plans::create_executed_plan(&race_machine.machine, "job", "one")?;
    let before = race_machine.commits("one")?;
    let verbs = [
        "apply PLAN --yes",
        "apply PLAN --yes",
        "cancel PLAN",
        "revert PLAN",
        "resume PLAN",
        "execute PLAN",
        "unapply PLAN --yes",
    ];
    let mut commands: Vec<CommandWords> = verbs
        .iter()
        .map(|it| split_words(&format!("plan {}", it.replace("PLAN", &plan))))
        .collect();
    race_machine.shuffle(&mut commands);
    let answers = race_machine.race(&commands)?;
    let ended = race_machine.check(&answers, std::slice::from_ref(&plan))?;
    if ended != AttackVerdict::Held {
        return Ok(ended);
    }
    let leads_on = match race_machine.random.below(2) {
        0 => race_machine.drive_to_applied(&plan)?,
        _ => race_machine.drive_to_end(&plan)?,
    };
    if let Some(broken) = leads_on {
        return Ok(broken);
    }
    let position = race_machine.position(&plan)?;
    let made = race_machine.machine.path("one/made").exists();
    let added = race_machine.commits("one")? - before;
    match (position.as_str(), added, made) {
        ("apply/applied", 1, true) | ("apply/unapplied", 2, false) => Ok(AttackVerdict::Held),
        // It may have been applied, unapplied and reverted before.
        (it, 0 | 2, false) if it.ends_with("/cancelled") => Ok(AttackVerdict::Held),
        (it, added, made) => lost(format!(
            "{it}, yet {added} commits and the file is there: {made}"
        )),
    }
}

/// The same plan executed by several processes: each step is executed once.
pub fn execute_by_many(race_machine: &mut RaceMachine) -> Result<AttackVerdict> {
    let step =
        "- {tool: builtin/shell, resource: local/one, input: {command: 'echo once >> log'}}\n";
    race_machine.define("job", step)?;
    let plan = plans::create_plan(&race_machine.machine, "job", "one", plans::PROFILE)?;
    let commands = vec![split_words(&format!("plan execute {plan}")); 5];
    let answers = race_machine.race(&commands)?;
    if let Some(broken) = race_machine.drive_to_applied(&plan)? {
        return Ok(broken);
    }
    match race_machine.machine.read("one/log").as_str() {
        "once\n" => race_machine.check(&answers, &[plan]),
        other => lost(format!("the step was made not once but: {other:?}")),
    }
}

/// The same plan applied by several processes: one commit.
pub fn apply_by_many(race_machine: &mut RaceMachine) -> Result<AttackVerdict> {
    race_machine.define("job", &write_step("made", "made"))?;
    let plan = plans::create_executed_plan(&race_machine.machine, "job", "one")?;
    let before = race_machine.commits("one")?;
    let answers = race_machine.race(&vec![split_words(&format!("plan apply {plan} --yes")); 5])?;
    if let Some(broken) = race_machine.drive_to_applied(&plan)? {
        return Ok(broken);
    }
    match race_machine.commits("one")? - before {
        1 => race_machine.check(&answers, &[plan]),
        other => lost(format!("applied by {other} commits")),
    }
}

/// Plans that change the same line, applied concurrently: one wins, and each loser can be continued
/// or ended.
pub fn same_line(race_machine: &mut RaceMachine) -> Result<AttackVerdict> {
    let mut all = Vec::new();
    for number in 0..4 {
        let name = format!("job{number}");
        let step = format!(
            "- {{tool: builtin/file-edit, resource: local/one, input: {{path: a, old: \"3\\n\", new: \"plan {number}\\n\"}}}}\n"
        );
        race_machine.define(&name, &step)?;
        all.push(plans::create_executed_plan(
            &race_machine.machine,
            &name,
            "one",
        )?);
    }
    let before = race_machine.commits("one")?;
    let commands: Vec<CommandWords> = all
        .iter()
        .map(|it| split_words(&format!("plan apply {it} --yes")))
        .collect();
    let answers = race_machine.race(&commands)?;
    let mut applied = 0;
    for plan in &all {
        applied += usize::from(race_machine.position(plan)? == "apply/applied");
    }
    let content = race_machine.machine.read("one/a");
    if applied != 1
        || race_machine.commits("one")? != before + 1
        || content.matches("plan ").count() != 1
    {
        return lost(format!(
            "{applied} plans say that they are applied; the file has {content:?}"
        ));
    }
    for plan in &all {
        if race_machine.position(plan)? == "apply/applied" {
            continue;
        }
        if let Some(broken) = race_machine.drive_to_end(plan)? {
            return Ok(broken);
        }
    }
    race_machine.check(&answers, &all)
}

/// Plans that change different files, applied concurrently: all are applied.
pub fn different_files(race_machine: &mut RaceMachine) -> Result<AttackVerdict> {
    let mut all = Vec::new();
    for number in 0..5 {
        let name = format!("job{number}");
        race_machine.define(&name, &write_step(&format!("made{number}"), "made"))?;
        all.push(plans::create_executed_plan(
            &race_machine.machine,
            &name,
            "one",
        )?);
    }
    let before = race_machine.commits("one")?;
    let commands: Vec<CommandWords> = all
        .iter()
        .map(|it| split_words(&format!("plan apply {it} --yes")))
        .collect();
    let answers = race_machine.race(&commands)?;
    for plan in &all {
        if let Some(broken) = race_machine.drive_to_applied(plan)? {
            return Ok(broken);
        }
    }
    for number in 0..5 {
        if !race_machine
            .machine
            .path(&format!("one/made{number}"))
            .exists()
        {
            return lost(format!("the file of plan {number} is missing"));
        }
    }
    match race_machine.commits("one")? - before {
        5 => race_machine.check(&answers, &all),
        other => lost(format!("{other} commits of 5 plans")),
    }
}

/// `gc` and `sandbox gc` beside plans that execute and apply.
pub fn gc_beside_work(race_machine: &mut RaceMachine) -> Result<AttackVerdict> {
    let mut all = Vec::new();
    for number in 0..3 {
        let name = format!("job{number}");
        race_machine.define(&name, &write_step(&format!("made{number}"), "made"))?;
        all.push(plans::create_plan(
            &race_machine.machine,
            &name,
            "one",
            plans::PROFILE,
        )?);
    }
    let gc = [
        split_words("sandbox gc --older-than 0d"),
        split_words("gc"),
        split_words("sandbox gc"),
    ];
    let mut answers = Vec::new();
    for verb in ["execute PLAN", "apply PLAN --yes"] {
        let mut commands: Vec<CommandWords> = all
            .iter()
            .map(|it| split_words(&format!("plan {}", verb.replace("PLAN", it))))
            .collect();
        commands.extend(gc.iter().cloned());
        race_machine.shuffle(&mut commands);
        answers.extend(race_machine.race(&commands)?);
    }
    for plan in &all {
        if let Some(broken) = race_machine.drive_to_applied(plan)? {
            return Ok(broken);
        }
    }
    race_machine.check(&answers, &all)
}

/// Many requests with one key: one plan.
pub fn same_key(race_machine: &mut RaceMachine) -> Result<AttackVerdict> {
    race_machine.define("job", &write_step("made", "made"))?;
    let answers = race_machine.race(&vec![
        split_words(
            "plan use local/job one --idempotency-key k"
        );
        6
    ])?;
    let mut ids: Vec<String> = answers
        .iter()
        .filter_map(|it| it.data()["plan_id"].as_str().map(str::to_owned))
        .collect();
    ids.sort();
    ids.dedup();
    match ids.len() {
        1 => race_machine.check(&answers, &ids),
        0 => stuck(answers[0].summary()),
        count => lost(format!("{count} plans of one key")),
    }
}

/// Settings written concurrently by several processes are all kept.
pub fn settings_by_many(race_machine: &mut RaceMachine) -> Result<AttackVerdict> {
    let settings = [
        ("plan.concurrency", "3"),
        ("retention.operations-days", "31"),
        ("retention.blob-grace-hours", "25"),
        ("core.log-level", "error"),
    ];
    let commands: Vec<CommandWords> = settings
        .iter()
        .map(|(key, value)| split_words(&format!("config set {key} {value}")))
        .collect();
    let answers = race_machine.race(&commands)?;
    let text = race_machine.machine.read("home/.cleveragents/config.toml");
    let names = [
        "concurrency",
        "operations-days",
        "blob-grace-hours",
        "log-level",
    ];
    match names.iter().find(|it| !text.contains(*it)) {
        Some(missing) => lost(format!("`{missing}` is not in the settings: {text:?}")),
        None => race_machine.check(&answers, &[]),
    }
}
