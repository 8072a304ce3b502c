//! Checks of the storage: data directory, disk and database.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cleveragents_domain::StreamId;
use cleveragents_ports::StoreError;

use super::HealthCheck;
use crate::bootstrap::{
    AppContext, Bootstrap, Engine, HealthFinding, NEWEST_SCHEMA, ProcessInfo, file_system,
};
use crate::commands::CommandContext;
use crate::disk;
use crate::failure::{CommandFailure, FailureKind};
use crate::output::format_count;

const FREE_WARNING: u64 = 1 << 30;
const FREE_ERROR: u64 = 100 << 20;
/// The maximum number of journal streams to verify; more would take too long.
const STREAMS_MAXIMUM: usize = 200;

pub(super) fn checks(context: &CommandContext<'_>) -> Vec<HealthCheck> {
    let bootstrap = context.bootstrap();
    let mut checks = match context.locations() {
        Ok(locations) => {
            let mut checks = directory(&locations.data_directory, &bootstrap);
            let database = locations.data_directory.join("cleveragents.db");
            checks.push(private_files(&[locations.config_file, database]));
            checks
        }
        Err(failure) => vec![HealthCheck::from_failure("data_directory", &failure)],
    };
    match bootstrap {
        Ok(bootstrap) => {
            checks.push(processes(&bootstrap));
            match bootstrap.open_to_read() {
                Ok(app) => checks.extend(database(&app)),
                Err(error) => checks.push(HealthCheck::from_failure("database", &error.into())),
            }
            checks.push(postgres(&bootstrap));
        }
        Err(failure) => {
            let detail = format!("not checked: {}", failure.message);
            checks.push(HealthCheck::error("database", detail));
        }
    }
    checks
}

fn directory(path: &Path, bootstrap: &Result<Bootstrap, CommandFailure>) -> Vec<HealthCheck> {
    let mut checks = vec![match bootstrap {
        Ok(bootstrap) => HealthCheck::ok(
            "data_directory",
            bootstrap.directory().display().to_string(),
        ),
        Err(failure) => HealthCheck::from_failure("data_directory", failure),
    }];
    let Ok(facts) = path.metadata() else {
        return checks;
    };
    let mode = facts.permissions().mode() & 0o777;
    checks.push(match mode & 0o077 {
        0 => HealthCheck::ok("permissions", format!("{mode:04o}: only you have access")),
        _ => HealthCheck::warning(
            "permissions",
            format!("{mode:04o}: other users have access"),
        )
        .with_hint(format!("chmod 700 '{}'", path.display())),
    });
    let access = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    checks.push(match rustix::fs::access(path, access) {
        Ok(()) => HealthCheck::ok("writable", "files can be created"),
        Err(error) => HealthCheck::error("writable", format!("files cannot be created: {error}"))
            .with_hint(format!("ls -ld '{}'", path.display())),
    });
    let kind = file_system(path).unwrap_or_else(|| "unknown".to_owned());
    checks.push(match bootstrap {
        Err(failure) if failure.kind == FailureKind::NetworkFileSystem => {
            HealthCheck::from_failure("file_system", failure)
        }
        _ => HealthCheck::ok("file_system", format!("{kind}, local")),
    });
    checks.push(free_space(path));
    checks
}

/// Checks that other users cannot read files with content or keys. Missing files are fine.
fn private_files(files: &[PathBuf]) -> HealthCheck {
    const NAME: &str = "private_files";
    let mode = |file: &Path| Some(file.metadata().ok()?.permissions().mode() & 0o777);
    let open = files.iter().filter_map(|file| {
        let mode = mode(file).filter(|mode| mode & 0o077 != 0)?;
        Some((file.display(), mode))
    });
    let open: Vec<_> = open.collect();
    if open.is_empty() {
        return HealthCheck::ok(NAME, "settings and database are readable by you only");
    }
    let shown = open
        .iter()
        .map(|(file, mode)| format!("{file} ({mode:04o})"));
    let shown: Vec<String> = shown.collect();
    let quoted: Vec<String> = open.iter().map(|(file, _)| format!("'{file}'")).collect();
    HealthCheck::warning(NAME, format!("open to others: {}", shown.join(", ")))
        .with_hint(format!("chmod 600 {}", quoted.join(" ")))
}

fn free_space(path: &Path) -> HealthCheck {
    const NAME: &str = "disk";
    match disk::free_space(path) {
        Err(error) => HealthCheck::warning(NAME, format!("free space is not known: {error}")),
        Ok(free) => {
            let detail = format!("{} free", disk::format_size(free));
            match free {
                _ if free < FREE_ERROR => HealthCheck::error(NAME, detail).with_hint("agents gc"),
                _ if free < FREE_WARNING => {
                    HealthCheck::warning(NAME, detail).with_hint("agents gc")
                }
                _ => HealthCheck::ok(NAME, detail),
            }
        }
    }
}

fn processes(bootstrap: &Bootstrap) -> HealthCheck {
    const NAME: &str = "processes";
    let shown =
        |card: &ProcessInfo| format!("{} (pid {}, since {})", card.command, card.pid, card.since);
    match bootstrap.other_processes() {
        Ok(others) if others.is_empty() => {
            HealthCheck::ok(NAME, "no other process uses the directory")
        }
        Ok(others) => {
            let others: Vec<String> = others.iter().map(shown).collect();
            HealthCheck::ok(NAME, format!("also running: {}", others.join(", ")))
        }
        Err(error) => HealthCheck::from_failure(NAME, &error.into()),
    }
}

fn postgres(bootstrap: &Bootstrap) -> HealthCheck {
    const NAME: &str = "postgresql";
    match bootstrap.engine() {
        Engine::Postgres => HealthCheck::ok(NAME, "configured"),
        _ => HealthCheck::ok(
            NAME,
            "not configured; needed only to share data between machines",
        ),
    }
}

fn database(app: &AppContext<'_>) -> Vec<HealthCheck> {
    let place = format!("{} at {}", app.engine().as_str(), app.database_location());
    let schema = format!("version {NEWEST_SCHEMA}, current");
    vec![
        HealthCheck::ok("database", place),
        HealthCheck::ok("schema", schema),
        structure(app),
        journal(app),
        runs(app),
        locks(app),
    ]
}

fn structure(app: &AppContext<'_>) -> HealthCheck {
    const NAME: &str = "structure";
    let findings = match app.check() {
        Ok(findings) => findings,
        Err(error) => return HealthCheck::from_failure(NAME, &error.into()),
    };
    match findings.first() {
        None => HealthCheck::ok(NAME, "no damage found"),
        Some(HealthFinding::Damaged { detail }) => {
            let number = findings.len();
            HealthCheck::error(NAME, format!("damaged in {number} places, first: {detail}"))
                .with_hint("agents restore FILE --force (keeps the damaged file)")
        }
        Some(HealthFinding::NotDurable { detail }) => {
            HealthCheck::warning(NAME, format!("{detail}: a power cut could lose data"))
                .with_hint("turn it on in postgresql.conf")
        }
    }
}

/// Verifies the hash chains of the streams, starting with `system`.
fn journal(app: &AppContext<'_>) -> HealthCheck {
    const NAME: &str = "journal";
    match verify_streams(app, STREAMS_MAXIMUM) {
        Ok(verified) => verified.check(NAME),
        Err(error) => HealthCheck::from_failure(NAME, &error.into()),
    }
}

/// The number of verified streams and events, and their faults.
#[derive(Debug, Default)]
struct JournalVerification {
    streams: usize,
    events: i64,
    skipped: usize,
    faults: Vec<String>,
}

fn verify_streams(app: &AppContext<'_>, maximum: usize) -> Result<JournalVerification, StoreError> {
    let mut streams = app.streams()?;
    streams.sort_by_key(|stream| *stream != StreamId::System);
    let mut verified = JournalVerification {
        streams: streams.len().min(maximum),
        skipped: streams.len().saturating_sub(maximum),
        ..JournalVerification::default()
    };
    for stream in streams.into_iter().take(maximum) {
        match app.verify(stream)? {
            Ok(found) => verified.events += found.events,
            Err(fault) => verified.faults.push(fault.to_string()),
        }
    }
    Ok(verified)
}

impl JournalVerification {
    fn check(&self, name: &'static str) -> HealthCheck {
        let count =
            |number: usize, what| format_count(i64::try_from(number).unwrap_or(i64::MAX), what);
        let mut rest = String::new();
        if self.skipped > 0 {
            rest = format!("; {} not checked", count(self.skipped, "further stream"));
        }
        let streams = count(self.streams, "stream");
        match self.faults.first() {
            None => {
                let events = format_count(self.events, "event");
                HealthCheck::ok(name, format!("{events} in {streams} verified{rest}"))
            }
            Some(first) => {
                let bad = self.faults.len();
                HealthCheck::error(
                    name,
                    format!("{bad} of {streams} altered, first: {first}{rest}"),
                )
                .with_hint("the journal was altered; agents restore FILE --force")
            }
        }
    }
}

fn runs(app: &AppContext<'_>) -> HealthCheck {
    let stale = app.stale_runs().map(|runs| {
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

fn locks(app: &AppContext<'_>) -> HealthCheck {
    let stale = app.stale_locks().map(|locks| {
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

/// Reports leases or locks of dead processes; the next process that needs one takes it over.
fn stale_check(name: &'static str, stale: Result<Vec<String>, StoreError>) -> HealthCheck {
    match stale {
        Ok(stale) if stale.is_empty() => HealthCheck::ok(name, "none is stale"),
        Ok(stale) => HealthCheck::warning(name, format!("stale: {}", stale.join("; ")))
            .with_hint("no action needed: the next command takes it over"),
        Err(error) => HealthCheck::from_failure(name, &error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::diagnostics::Health;

    #[test]
    fn skipped_streams_are_reported() {
        let mut verified = JournalVerification {
            streams: 200,
            events: 1234,
            skipped: 1,
            faults: Vec::new(),
        };
        let check = verified.check("journal");
        assert_eq!(check.status, Health::Ok);
        assert_eq!(
            check.detail,
            "1234 events in 200 streams verified; 1 further stream not checked"
        );
        verified.skipped = 0;
        verified.faults = vec!["one".to_owned(), "two".to_owned()];
        let check = verified.check("journal");
        assert_eq!(check.status, Health::Error);
        assert_eq!(check.detail, "2 of 200 streams altered, first: one");
    }
}
