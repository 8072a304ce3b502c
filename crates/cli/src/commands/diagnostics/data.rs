//! Where data is kept: the directory, the disk and the database in it.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cleveragents_domain::StreamId;
use cleveragents_engine::StoreError;

use super::Check;
use crate::commands::Context;
use crate::commands::info::engine_name;
use crate::disk;
use crate::failure::Failure;
use crate::output::counted;
use crate::wiring::{Card, Engine, Finding, NEWEST_SCHEMA, Wired, Wiring, file_system};

const FREE_WARNING: u64 = 1 << 30;
const FREE_ERROR: u64 = 100 << 20;
/// So many streams of the journal are verified; more would take too long.
const STREAMS_MAXIMUM: usize = 200;

pub(super) fn checks(context: &Context<'_>) -> Vec<Check> {
    let wiring = context.wiring();
    let mut checks = match context.locations() {
        Ok(locations) => {
            let mut checks = directory(&locations.data_directory, &wiring);
            let database = locations.data_directory.join("cleveragents.db");
            checks.push(private_files(&[locations.config_file, database]));
            checks
        }
        Err(failure) => vec![Check::failed("data_directory", &failure)],
    };
    match wiring {
        Ok(wiring) => {
            checks.push(processes(&wiring));
            match wiring.open_to_read() {
                Ok(wired) => checks.extend(database(&wired)),
                Err(error) => checks.push(Check::failed("database", &error.into())),
            }
            checks.push(postgres(&wiring));
        }
        Err(failure) => {
            let detail = format!("it was not looked at: {}", failure.what);
            checks.push(Check::error("database", detail));
        }
    }
    checks
}

fn directory(path: &Path, wiring: &Result<Wiring, Failure>) -> Vec<Check> {
    let mut checks = vec![match wiring {
        Ok(wiring) => Check::ok("data_directory", wiring.directory().display().to_string()),
        Err(failure) => Check::failed("data_directory", failure),
    }];
    let Ok(facts) = path.metadata() else {
        return checks;
    };
    let mode = facts.permissions().mode() & 0o777;
    checks.push(match mode & 0o077 {
        0 => Check::ok(
            "permissions",
            format!("{mode:04o}: only you can look inside"),
        ),
        _ => Check::warning("permissions", format!("{mode:04o}: others can look inside"))
            .hint(format!("chmod 700 '{}'", path.display())),
    });
    let access = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    checks.push(match rustix::fs::access(path, access) {
        Ok(()) => Check::ok("writable", "files can be created"),
        Err(error) => Check::error("writable", format!("files cannot be created: {error}"))
            .hint(format!("ls -ld '{}'", path.display())),
    });
    let kind = file_system(path).unwrap_or_else(|| "unknown".to_owned());
    checks.push(match wiring {
        Err(failure) if failure.kind == "network_file_system" => {
            Check::failed("file_system", failure)
        }
        _ => Check::ok("file_system", format!("{kind}, local")),
    });
    checks.push(free_space(path));
    checks
}

/// Whether others can read what holds contents and keys. Files that are not there are fine.
fn private_files(files: &[PathBuf]) -> Check {
    const NAME: &str = "private_files";
    let mode = |file: &Path| Some(file.metadata().ok()?.permissions().mode() & 0o777);
    let open = files.iter().filter_map(|file| {
        let mode = mode(file).filter(|mode| mode & 0o077 != 0)?;
        Some((file.display(), mode))
    });
    let open: Vec<_> = open.collect();
    if open.is_empty() {
        return Check::ok(NAME, "settings and database are readable by you only");
    }
    let shown = open
        .iter()
        .map(|(file, mode)| format!("{file} ({mode:04o})"));
    let shown: Vec<String> = shown.collect();
    let quoted: Vec<String> = open.iter().map(|(file, _)| format!("'{file}'")).collect();
    Check::warning(NAME, format!("open to others: {}", shown.join(", ")))
        .hint(format!("chmod 600 {}", quoted.join(" ")))
}

fn free_space(path: &Path) -> Check {
    const NAME: &str = "disk";
    match disk::free(path) {
        Err(error) => Check::warning(NAME, format!("free space is not known: {error}")),
        Ok(free) => {
            let detail = format!("{} free", disk::shown(free));
            match free {
                _ if free < FREE_ERROR => Check::error(NAME, detail).hint("agents gc"),
                _ if free < FREE_WARNING => Check::warning(NAME, detail).hint("agents gc"),
                _ => Check::ok(NAME, detail),
            }
        }
    }
}

fn processes(wiring: &Wiring) -> Check {
    const NAME: &str = "processes";
    let shown = |card: &Card| format!("{} (pid {}, since {})", card.command, card.pid, card.since);
    match wiring.others() {
        Ok(others) if others.is_empty() => Check::ok(NAME, "no other process uses the directory"),
        Ok(others) => {
            let others: Vec<String> = others.iter().map(shown).collect();
            Check::ok(NAME, format!("also running: {}", others.join(", ")))
        }
        Err(error) => Check::failed(NAME, &error.into()),
    }
}

fn postgres(wiring: &Wiring) -> Check {
    const NAME: &str = "postgresql";
    match wiring.engine() {
        Engine::Postgres => Check::ok(NAME, "configured"),
        _ => Check::warning(
            NAME,
            "not configured: SQLite serves one machine, several need PostgreSQL",
        )
        .hint("agents config set core.database-url postgresql://USER@HOST/DATABASE"),
    }
}

fn database(wired: &Wired<'_>) -> Vec<Check> {
    let place = format!("{} at {}", engine_name(wired.engine()), wired.place());
    let schema = format!("version {NEWEST_SCHEMA}, the newest this program knows");
    vec![
        Check::ok("database", place),
        Check::ok("schema", schema),
        structure(wired),
        journal(wired),
        runs(wired),
        locks(wired),
    ]
}

fn structure(wired: &Wired<'_>) -> Check {
    const NAME: &str = "structure";
    let findings = match wired.check() {
        Ok(findings) => findings,
        Err(error) => return Check::failed(NAME, &error.into()),
    };
    match findings.first() {
        None => Check::ok(NAME, "no damage found"),
        Some(Finding::Damaged { detail }) => {
            let number = findings.len();
            Check::error(NAME, format!("damaged in {number} places, first: {detail}"))
                .hint("agents restore FILE --force (the damaged file is kept beside)")
        }
        Some(Finding::NotDurable { detail }) => {
            Check::warning(NAME, format!("{detail}: a power cut could lose data"))
                .hint("turn it on in postgresql.conf")
        }
    }
}

/// Walks the hash chains of the streams, the installation's own first.
fn journal(wired: &Wired<'_>) -> Check {
    const NAME: &str = "journal";
    match verify_streams(wired, STREAMS_MAXIMUM) {
        Ok(verified) => verified.check(NAME),
        Err(error) => Check::failed(NAME, &error.into()),
    }
}

/// How many streams and events were looked at, and what is wrong with them.
#[derive(Debug, Default)]
struct Verified {
    streams: usize,
    events: i64,
    left_out: usize,
    faults: Vec<String>,
}

fn verify_streams(wired: &Wired<'_>, maximum: usize) -> Result<Verified, StoreError> {
    let mut streams = wired.streams()?;
    streams.sort_by_key(|stream| *stream != StreamId::System);
    let mut verified = Verified {
        streams: streams.len().min(maximum),
        left_out: streams.len().saturating_sub(maximum),
        ..Verified::default()
    };
    for stream in streams.into_iter().take(maximum) {
        match wired.verify(stream)? {
            Ok(found) => verified.events += found.events,
            Err(fault) => verified.faults.push(fault.to_string()),
        }
    }
    Ok(verified)
}

impl Verified {
    fn check(&self, name: &'static str) -> Check {
        let count = |number: usize, what| counted(i64::try_from(number).unwrap_or(i64::MAX), what);
        let mut rest = String::new();
        if self.left_out > 0 {
            rest = format!("; {} not looked at", count(self.left_out, "further stream"));
        }
        let streams = count(self.streams, "stream");
        match self.faults.first() {
            None => {
                let events = counted(self.events, "event");
                Check::ok(name, format!("{events} in {streams} verified{rest}"))
            }
            Some(first) => {
                let bad = self.faults.len();
                Check::error(
                    name,
                    format!("{bad} of {streams} altered, first: {first}{rest}"),
                )
                .hint("someone altered the journal; agents restore FILE --force")
            }
        }
    }
}

fn runs(wired: &Wired<'_>) -> Check {
    let stale = wired.stale_runs().map(|runs| {
        let shown = runs.iter().map(|run| {
            let (plan, owner) = (run.plan.short(), run.owner.short());
            format!(
                "plan {plan}, phase {}, left by {owner} on {} since {}",
                run.phase, run.node, run.claimed_at
            )
        });
        shown.collect()
    });
    stale_check("runs", stale)
}

fn locks(wired: &Wired<'_>) -> Check {
    let stale = wired.stale_locks().map(|locks| {
        let shown = locks.iter().map(|lock| {
            let owner = lock.owner.short();
            format!(
                "`{}`, left by {owner} since {}",
                lock.name, lock.acquired_at
            )
        });
        shown.collect()
    });
    stale_check("locks", stale)
}

/// What dead processes left behind; the next who wants it takes it over.
fn stale_check(name: &'static str, stale: Result<Vec<String>, StoreError>) -> Check {
    match stale {
        Ok(stale) if stale.is_empty() => Check::ok(name, "none is stale"),
        Ok(stale) => Check::warning(name, format!("stale: {}", stale.join("; ")))
            .hint("nothing has to be done: whoever needs it next takes it over"),
        Err(error) => Check::failed(name, &error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::diagnostics::Health;

    #[test]
    fn what_was_left_out_is_said() {
        let mut verified = Verified {
            streams: 200,
            events: 1234,
            left_out: 1,
            faults: Vec::new(),
        };
        let check = verified.check("journal");
        assert_eq!(check.status, Health::Ok);
        assert_eq!(
            check.detail,
            "1234 events in 200 streams verified; 1 further stream not looked at"
        );
        verified.left_out = 0;
        verified.faults = vec!["one".to_owned(), "two".to_owned()];
        let check = verified.check("journal");
        assert_eq!(check.status, Health::Error);
        assert_eq!(check.detail, "2 of 200 streams altered, first: one");
    }
}
