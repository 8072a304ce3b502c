//! A process that uses the store as a real one would, controlled by its parent.
//!
//! It communicates in lines. On stdout: `ready` once the database is open, one line per completed
//! operation, flushed after it is durable, `error …` for what must not happen, `done` at the end.
//! It waits for a line on stdin before it starts, so that several start together; the end of stdin
//! stops it, so it never outlives its parent. [`crate::child`] is the parent's side.

mod contention;
mod owner;
mod recorder;

use std::collections::BTreeMap;
use std::io::{BufRead, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cleveragents_ports::system::SystemClock;
use cleveragents_ports::{Result, StoreError, StoreHandle};
use tokio::runtime::Runtime;

use crate::test_database::{Backend, OpenTestDatabase, open};
use crate::workload::HammerWrite;

/// The job given by the parent.
#[derive(Debug)]
struct HammerArguments(BTreeMap<String, String>);

impl HammerArguments {
    fn parse(words: impl Iterator<Item = String>) -> Self {
        let words: Vec<String> = words.collect();
        let pairs = words.chunks(2).filter_map(|pair| match pair {
            [key, value] => Some((key.trim_start_matches('-').to_owned(), value.clone())),
            _ => None,
        });
        Self(pairs.collect())
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    fn value<T: FromStr>(&self, key: &str) -> Result<T> {
        self.text(key)
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| StoreError::internal(format!("--{key} is missing or malformed")))
    }

    fn open(&self) -> Result<OpenTestDatabase> {
        let backend = match self.text("backend") {
            Some("sqlite") => Backend::Sqlite,
            Some("postgres") => Backend::Postgres,
            _ => return Err(StoreError::internal("--backend sqlite|postgres")),
        };
        let folder: PathBuf = self.value("folder")?;
        open(backend, &folder, self.text("url"), Arc::new(SystemClock))
    }
}

/// Runs the job given by the arguments.
pub fn run(words: impl Iterator<Item = String>) -> ExitCode {
    let arguments = HammerArguments::parse(words);
    let done = match arguments.text("verb") {
        Some("append") => append(&arguments),
        Some("open") => open_on_signal(&arguments),
        Some("claim") => owner::claim(&arguments),
        Some("contend-lock") => contention::contend_for_locks(&arguments),
        Some("contend-run") => contention::contend_for_runs(&arguments),
        Some("record-errors") => contention::record_errors(&arguments),
        Some("record-changes") => recorder::record(&arguments),
        _ => Err(StoreError::internal(
            "--verb append|open|claim|contend-lock|contend-run|record-errors|record-changes",
        )),
    };
    match done {
        Ok(()) => {
            print_line("done");
            ExitCode::SUCCESS
        }
        Err(error) => {
            print_line(&format!("error {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Prints one line, flushed when this returns.
fn print_line(line: &str) {
    let mut out = std::io::stdout().lock();
    // A parent that no longer reads is about to stop this process anyway.
    let _ = out
        .write_all(format!("{line}\n").as_bytes())
        .and_then(|()| out.flush());
}

/// The next line from the parent; `None` at the end.
fn read_line() -> Option<String> {
    let mut line = String::new();
    match std::io::stdin().lock().read_line(&mut line) {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(line.trim().to_owned()),
    }
}

/// A single-threaded runtime: the store's own threads do the work.
fn runtime() -> Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .map_err(StoreError::internal)
}

/// Opens the database only after the parent's line, so that many processes create it at once.
fn open_on_signal(arguments: &HammerArguments) -> Result<()> {
    print_line("ready");
    if read_line().is_none() {
        return Ok(());
    }
    let opened = arguments.open()?;
    let node = cleveragents_ports::Liveness::node(&*opened.presence).to_owned();
    print_line(&format!("opened {node}"));
    while read_line().is_some() {}
    Ok(())
}

/// Appends with `--threads` threads, `--count` writes each, until done or stopped.
fn append(arguments: &HammerArguments) -> Result<()> {
    let (threads, count): (u32, u32) = (arguments.value("threads")?, arguments.value("count")?);
    let seed = arguments.value("seed")?;
    let patient = arguments.text("patient").is_some();
    let opened = arguments.open()?;
    print_line("ready");
    if read_line().is_none() {
        return Ok(());
    }
    let stop = Arc::new(AtomicBool::new(false));
    let message = Arc::clone(&stop);
    std::thread::spawn(move || {
        while read_line().is_some() {}
        message.store(true, Ordering::Relaxed);
    });
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (store, stop) = (&opened.store, &*stop);
            let writes = (0..count).map(move |number| HammerWrite {
                seed,
                thread,
                number,
            });
            scope.spawn(move || {
                if let Err(error) = append_all(store, writes, stop, patient) {
                    print_line(&format!("error {error}"));
                }
            });
        }
    });
    Ok(())
}

/// With `retry`, resends a write with the same id when the store is unavailable.
fn append_all(
    store: &StoreHandle,
    writes: impl Iterator<Item = HammerWrite>,
    stop: &AtomicBool,
    retry: bool,
) -> Result<()> {
    let runtime = runtime()?;
    for write in writes {
        loop {
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            match runtime.block_on(write.append(store)) {
                Ok(head) => {
                    let id = write.id()?;
                    let HammerWrite { thread, number, .. } = write;
                    print_line(&format!("ack {thread} {number} {id} {}", head.stream_seq));
                    break;
                }
                Err(error) if retry && error.is_temporary() => {
                    print_line(&format!("again {error}"))
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}
