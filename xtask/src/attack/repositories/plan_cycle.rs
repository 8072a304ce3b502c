//! A plan's lifecycle on one repository, and the checks after each step.

use std::collections::BTreeMap;

use anyhow::Result;

use super::RepositoryCase;
use super::table::{BASE, ExpectedResult};
use crate::attack::machine::{CommandOutput, Machine, Setup};
use crate::attack::options::AttackAccount;
use crate::attack::plans;
use crate::attack::tally::{AttackVerdict, BrokenPromise};

/// Leaves a trace when anything runs it, and passes its input on as a filter would.
const TRIPWIRE: &str = "#!/bin/sh\necho \"$0 $*\" >> \"ROOT/fired\"\ncat 2>/dev/null\n";

/// Files by path: their content, or the target of a link.
type RepositoryListing = BTreeMap<String, String>;

/// Runs a plan on the repository from its creation to `unapply`. Fails if the repository itself
/// cannot be created.
pub fn run_plan_cycle(
    setup: &Setup,
    account: AttackAccount,
    case: &RepositoryCase,
) -> Result<AttackVerdict> {
    let machine = Machine::new(setup, account)?;
    create_repository(&machine, case)?;
    let before = list_files(&machine, "shop")?;
    let touched = expected_changes(&machine, &case.change)?;
    let staged = staged_changes(&machine)?;
    let created = create_plan(&machine)?;
    if !created.is_ok() {
        return check_refusal(&machine, case, &created, &before);
    }
    let command = serde_json::json!({"command": case.change}).to_string();
    plans::define(
        &machine,
        "job",
        &format!("- {{tool: builtin/shell, input: {command}}}"),
        "",
    )?;
    let plan = plans::create_plan(&machine, "job", "shop", plans::PROFILE)?;
    let executed = machine.agents(&["plan", "execute", &plan])?;
    if !executed.is_ok() {
        return check_refusal(&machine, case, &executed, &before);
    }
    machine.agents(&["plan", "diff", &plan])?;
    let applied = machine.agents(&["plan", "apply", &plan, "--yes"])?;
    if !applied.is_ok() {
        return check_refusal(&machine, case, &applied, &before);
    }
    if let Some(broken) = tripwire_verdict(&machine) {
        return Ok(broken);
    }
    if let Some(broken) = check_changes_present(&machine, case, &touched)? {
        return Ok(broken);
    }
    if let Some(broken) = check_git(&machine, &staged)? {
        return Ok(broken);
    }
    check_unapply(&machine, case, &plan, &before)
}

fn create_repository(machine: &Machine, case: &RepositoryCase) -> Result<()> {
    let root = machine.root().display().to_string();
    machine.write("trip", TRIPWIRE.replace("ROOT", &root).as_bytes())?;
    machine.must_shell("chmod +x trip; mkdir shop")?;
    machine.must_shell(&format!("cd shop && {BASE}"))?;
    machine.must_shell(&format!(
        "export TRIP={root}/trip; cd shop || exit 1; {}; true",
        case.script
    ))?;
    machine.must_shell("rm -f fired")?;
    Ok(())
}

fn create_plan(machine: &Machine) -> Result<CommandOutput> {
    let path = machine.path("shop").display().to_string();
    machine.agents(&["project", "create", "shop", "--path", &path])
}

/// Everything except git's own files.
fn list_files(machine: &Machine, folder: &str) -> Result<RepositoryListing> {
    let script = "cd \"$0\" || exit 1; find . -name .git -prune -o -type f -exec sha1sum -z {} + \
                  -o -type l -printf 'link %l  %p\\0' | LC_ALL=C sort -z";
    let mut command = machine.command(&["sh", "-c", script, folder]);
    let text = machine
        .run_command(&mut command, crate::attack::machine::LIMIT)?
        .stdout;
    let rows = text.split('\0').filter_map(|row| row.split_once("  "));
    Ok(rows
        .map(|(content, path)| (path.to_owned(), content.to_owned()))
        .collect())
}

/// The effect of the change on each path, determined in a plain copy.
fn expected_changes(machine: &Machine, change: &str) -> Result<BTreeMap<String, Option<String>>> {
    machine.must_shell(
        "mkdir plain && cd shop && tar --exclude=.git -cf - . | tar -xf - -C ../plain",
    )?;
    let before = list_files(machine, "plain")?;
    machine.must_shell(&format!("cd plain || exit 1; {change}; true"))?;
    let after = list_files(machine, "plain")?;
    let changed = after
        .iter()
        .filter(|(path, it)| before.get(*path) != Some(it));
    let mut touched: BTreeMap<String, Option<String>> = changed
        .map(|(path, it)| (path.clone(), Some(it.clone())))
        .collect();
    let removed = before.keys().filter(|path| !after.contains_key(*path));
    touched.extend(removed.map(|path| (path.clone(), None)));
    Ok(touched)
}

fn tripwire_verdict(machine: &Machine) -> Option<AttackVerdict> {
    let trace = machine.read("fired");
    (!trace.is_empty()).then(|| {
        AttackVerdict::Broken(
            BrokenPromise::Escaped,
            format!("the tripwire fired: {trace}"),
        )
    })
}

/// A refusal is acceptable where it is allowed, if it gives a reason and changes nothing.
fn check_refusal(
    machine: &Machine,
    case: &RepositoryCase,
    answer: &CommandOutput,
    before: &RepositoryListing,
) -> Result<AttackVerdict> {
    if let Some(broken) = tripwire_verdict(machine) {
        return Ok(broken);
    }
    if answer.timed_out || answer.text().contains("panicked") || answer.data().is_null() {
        return Ok(AttackVerdict::Broken(
            BrokenPromise::Stuck,
            answer.summary(),
        ));
    }
    if &list_files(machine, "shop")? != before {
        return Ok(AttackVerdict::Broken(
            BrokenPromise::Partial,
            format!("refused, but files changed: {}", answer.summary()),
        ));
    }
    Ok(match case.expected {
        ExpectedResult::Applied => AttackVerdict::Broken(BrokenPromise::Stuck, answer.summary()),
        ExpectedResult::AppliedOrRefused => AttackVerdict::Held,
    })
}

/// The plan's changes must be present after a successful apply.
fn check_changes_present(
    machine: &Machine,
    case: &RepositoryCase,
    touched: &BTreeMap<String, Option<String>>,
) -> Result<Option<AttackVerdict>> {
    // Git leaves the files of a removed submodule in place.
    let is_seen_in_commit = case.name.starts_with("sparse") || case.name == "submodule-removed";
    let found = if is_seen_in_commit {
        committed_files(machine)?
    } else {
        list_files(machine, "shop")?
    };
    for (path, expected) in touched {
        if path.contains("/.git/") {
            continue;
        }
        if found.get(path) != expected.as_ref() {
            let detail = format!("`{path}` is not as the plan left it, though the plan is applied");
            return Ok(Some(AttackVerdict::Broken(BrokenPromise::Lost, detail)));
        }
    }
    Ok(None)
}

/// The files of the last commit.
fn committed_files(machine: &Machine) -> Result<RepositoryListing> {
    machine.must_shell(
        "rm -rf archive; mkdir archive; git -C shop archive HEAD | tar -xf - -C archive",
    )?;
    list_files(machine, "archive")
}

/// The staged, uncommitted changes. Reads a copy of the index, because git may rewrite what it
/// reads.
fn staged_changes(machine: &Machine) -> Result<String> {
    let script = "cd shop && cp \"$(git rev-parse --git-path index)\" ../index-copy && \
                  GIT_INDEX_FILE=$PWD/../index-copy git -c core.fsmonitor=false \
                  diff --no-ext-diff --cached --name-only";
    Ok(machine.shell(script)?.stdout)
}

/// Checks the index, the objects and the user's next commit.
fn check_git(machine: &Machine, staged_before: &str) -> Result<Option<AttackVerdict>> {
    let broken = |detail: String| Ok(Some(AttackVerdict::Broken(BrokenPromise::Lost, detail)));
    let staged_after = staged_changes(machine)?;
    if staged_after != staged_before {
        return broken(format!(
            "staged before: {staged_before:?}, after: {staged_after:?}"
        ));
    }
    let doubled =
        "cd shop && git -c core.fsmonitor=false ls-files --stage | cut -f2 | sort | uniq -d";
    let doubled = machine.shell(doubled)?;
    if !doubled.stdout.trim().is_empty() {
        return broken(format!("the index has twice: {}", doubled.stdout));
    }
    let next = "cd shop && git -c core.fsmonitor=false -c core.hooksPath=/dev/null -c commit.gpgSign=false \
                commit -q --allow-empty -m next && git diff --no-ext-diff --no-textconv --name-only HEAD~1 HEAD";
    let next = machine.shell(next)?;
    if next.is_ok() && next.stdout != *staged_before {
        return broken(format!("the user's next commit changes {:?}", next.stdout));
    }
    let checked = machine.git("shop", &["fsck", "--no-dangling", "--no-progress"])?;
    if !checked.is_ok() {
        return broken(format!("fsck: {}", checked.summary()));
    }
    Ok(None)
}

/// `plan unapply` restores the files.
fn check_unapply(
    machine: &Machine,
    case: &RepositoryCase,
    plan: &str,
    before: &RepositoryListing,
) -> Result<AttackVerdict> {
    let answer = machine.agents(&["plan", "unapply", plan, "--yes"])?;
    if let Some(broken) = hook_verdict(machine) {
        return Ok(broken);
    }
    if !answer.is_ok() {
        let summary = format!("unapply: {}", answer.summary());
        return Ok(match case.expected {
            ExpectedResult::Applied => AttackVerdict::Broken(BrokenPromise::Stuck, summary),
            ExpectedResult::AppliedOrRefused if answer.timed_out => {
                AttackVerdict::Broken(BrokenPromise::Stuck, summary)
            }
            ExpectedResult::AppliedOrRefused => AttackVerdict::Held,
        });
    }
    let after = list_files(machine, "shop")?;
    let lost = before
        .iter()
        .find(|(path, it)| after.get(*path) != Some(it));
    Ok(match lost {
        Some((path, _)) => AttackVerdict::Broken(
            BrokenPromise::Lost,
            format!("unapply does not restore `{path}`"),
        ),
        None => AttackVerdict::Held,
    })
}

/// The suite's own git may have triggered the tripwire since the last check; only hooks count here.
fn hook_verdict(machine: &Machine) -> Option<AttackVerdict> {
    let trace = machine.read("fired");
    let hooks: Vec<&str> = trace.lines().filter(|it| it.contains("/hooks/")).collect();
    (!hooks.is_empty())
        .then(|| AttackVerdict::Broken(BrokenPromise::Escaped, format!("hooks ran: {hooks:?}")))
}
