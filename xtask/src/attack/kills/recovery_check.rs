//! The checks after a kill.

use anyhow::Result;

use super::scenario::PreparedScenario;
use crate::attack::plans;
use crate::attack::tally::{AttackVerdict, BrokenPromise, shorten};

/// The number of hints to follow before the plan counts as stuck.
const ROUNDS: usize = 3;

/// Recovers with the commands that the program offers, and checks every guarantee on the way.
pub fn check_recovery(prepared: &PreparedScenario) -> Result<AttackVerdict> {
    let machine = &prepared.machine;
    let listed = machine.agents(&["plan", "list"])?;
    if !listed.is_ok() {
        return Ok(AttackVerdict::Broken(
            BrokenPromise::Stuck,
            format!("plan list: {}", listed.summary()),
        ));
    }
    let resumed = machine.agents(&["plan", "resume", &prepared.plan])?;
    if resumed.timed_out {
        return Ok(AttackVerdict::Broken(
            BrokenPromise::Stuck,
            "plan resume hangs".into(),
        ));
    }
    if let Some(broken) = check_partial(prepared)? {
        return Ok(broken);
    }
    let mut answer = prepared.run_command()?;
    for _ in 0..ROUNDS {
        if prepared.states()? == prepared.after {
            break;
        }
        for words in plans::hints(&answer) {
            machine.agents(&words.iter().map(String::as_str).collect::<Vec<_>>())?;
        }
        answer = prepared.run_command()?;
    }
    let states = prepared.states()?;
    if states != prepared.after {
        let fault = if is_partial(prepared, &states) {
            BrokenPromise::Partial
        } else {
            BrokenPromise::Stuck
        };
        let detail = format!(
            "{}; {}",
            answer.summary(),
            difference(&prepared.after, &states)
        );
        return Ok(AttackVerdict::Broken(fault, detail));
    }
    check_after_recovery(prepared)
}

/// Checks that later commands have nothing left to report or repair.
fn check_after_recovery(prepared: &PreparedScenario) -> Result<AttackVerdict> {
    let machine = &prepared.machine;
    // The first command may still report its cleanup.
    machine.agents(&["plan", "list"])?;
    let listed = machine.agents(&["plan", "list"])?;
    let warnings = plans::warnings(&listed);
    if !listed.is_ok() || !warnings.is_empty() {
        let detail = format!(
            "plan list still says: {} {}",
            warnings.join("; "),
            listed.summary()
        );
        return Ok(AttackVerdict::Broken(BrokenPromise::Stuck, detail));
    }
    let verified = machine.agents(&["plan", "verify", &prepared.plan])?;
    if verified.data()["verified"] != true {
        let detail = format!("the journal does not verify: {}", verified.summary());
        return Ok(AttackVerdict::Broken(BrokenPromise::Lost, detail));
    }
    if let Some(damage) = prepared.damage()? {
        return Ok(AttackVerdict::Broken(BrokenPromise::Lost, damage));
    }
    Ok(AttackVerdict::Held)
}

/// After a recovery, no target may be as before the command while another is as after it.
fn check_partial(prepared: &PreparedScenario) -> Result<Option<AttackVerdict>> {
    let states = prepared.states()?;
    Ok(is_partial(prepared, &states).then(|| {
        let detail = format!("after resume: {}", difference(&prepared.after, &states));
        AttackVerdict::Broken(BrokenPromise::Partial, detail)
    }))
}

fn is_partial(prepared: &PreparedScenario, states: &[String]) -> bool {
    let mut some_before = false;
    let mut some_after = false;
    for (index, state) in states.iter().enumerate() {
        some_before |= state == &prepared.before[index] && state != &prepared.after[index];
        some_after |= state == &prepared.after[index] && state != &prepared.before[index];
    }
    some_before && some_after
}

/// The first lines that differ.
fn difference(expected: &[String], found: &[String]) -> String {
    let expected: Vec<&str> = expected.iter().flat_map(|it| it.lines()).collect();
    let found: Vec<&str> = found.iter().flat_map(|it| it.lines()).collect();
    let missing = expected.iter().filter(|it| !found.contains(it)).take(3);
    let extra = found.iter().filter(|it| !expected.contains(it)).take(3);
    let missing: Vec<&str> = missing.copied().collect();
    let extra: Vec<&str> = extra.copied().collect();
    shorten(&format!("missing {missing:?}, instead {extra:?}"))
}
