//! Traces the writer's system calls: every acknowledgement is sent after the sync of the data it
//! acknowledges.

use std::collections::HashMap;

use cleveragents_integration_tests::child::{Ack, Hammer, HammerJob};
use cleveragents_integration_tests::{Backend, TestDatabase};

use crate::HAMMER;

#[test]
fn each_acknowledgement_follows_the_sync_of_its_write() {
    let (acks, calls) = run_traced(1, 20);
    assert_eq!(acks.len(), 20);
    for ack in &acks {
        assert_synced(ack, &calls);
        assert_all_synced(ack, &calls);
    }
}

#[test]
fn each_acknowledgement_of_a_group_follows_the_groups_sync() {
    let (acks, calls) = run_traced(16, 10);
    assert_eq!(acks.len(), 160);
    for ack in &acks {
        assert_synced(ack, &calls);
    }
}

/// The traced calls, in order.
#[derive(Debug)]
enum TracedCall {
    /// A write to the database's log, with its data.
    LogWrite(String),
    /// The end of a sync of the log, with the index at which it began.
    LogSynced { begun: usize },
    /// A line printed to the parent.
    Printed(String),
}

/// A sync that began after the operation was written to the log ended before it was acknowledged.
fn assert_synced(ack: &Ack, calls: &[TracedCall]) {
    let id = ack.write.id().unwrap().to_string();
    let written = calls
        .iter()
        .position(|call| matches!(call, TracedCall::LogWrite(bytes) if bytes.contains(&id)))
        .expect("the operation is in the log");
    let said = acknowledgement_index(&id, calls);
    let synced = calls[..said]
        .iter()
        .any(|call| matches!(call, TracedCall::LogSynced { begun } if *begun > written));
    assert!(synced, "acknowledged before it was synced: {ack:?}");
}

/// With one writer, the whole log is synced when it acknowledges.
fn assert_all_synced(ack: &Ack, calls: &[TracedCall]) {
    let id = ack.write.id().unwrap().to_string();
    let said = acknowledgement_index(&id, calls);
    let is_write = |call: &TracedCall| matches!(call, TracedCall::LogWrite(_));
    let last = calls[..said]
        .iter()
        .rposition(is_write)
        .expect("the log was written");
    let synced = calls[last..said]
        .iter()
        .any(|call| matches!(call, TracedCall::LogSynced { begun } if *begun > last));
    assert!(synced, "acknowledged with unsynced writes: {ack:?}");
}

fn acknowledgement_index(id: &str, calls: &[TracedCall]) -> usize {
    calls
        .iter()
        .position(|call| matches!(call, TracedCall::Printed(line) if line.contains(id)))
        .expect("the operation was acknowledged")
}

fn run_traced(threads: u32, count: u32) -> (Vec<Ack>, Vec<TracedCall>) {
    let test_db = TestDatabase::new(Backend::Sqlite);
    let trace = test_db.folder().join("trace").display().to_string();
    let wanted = "trace=pwrite64,pwritev,pwritev2,write,writev,fdatasync,fsync";
    let mut program = vec![
        "strace", "-f", "-y", "-s", "5000", "-e", wanted, "-o", &trace,
    ];
    program.extend(HAMMER);
    let job = HammerJob {
        threads,
        count,
        ..HammerJob::new("append")
    };
    let mut hammer = Hammer::start(&program, &test_db, &job);
    hammer.expect_line("ready");
    hammer.send_line("go");
    let mut acks = Vec::new();
    while let Some(ack) = hammer.next_ack() {
        acks.push(ack);
    }
    assert!(hammer.finish());
    let text = std::fs::read(&trace).unwrap();
    (acks, parse(&String::from_utf8_lossy(&text)))
}

/// A line is `PID call(FD<path>, …) = result`, or its first half ending in `<unfinished ...>`, or
/// its second half beginning with `<... call resumed>`.
fn parse(text: &str) -> Vec<TracedCall> {
    let mut calls = Vec::new();
    let mut unfinished: HashMap<&str, usize> = HashMap::new();
    for line in text.lines() {
        let Some((pid, call)) = line.split_once(' ') else {
            continue;
        };
        let call = call.trim_start();
        if call.starts_with("<... ") {
            if let Some(begun) = unfinished.remove(pid)
                && call.ends_with("= 0")
            {
                calls.push(TracedCall::LogSynced { begun });
            }
            continue;
        }
        let Some((name, arguments)) = call.split_once('(') else {
            continue;
        };
        let of_log = arguments.contains("cleveragents.db-wal>");
        match name {
            "fdatasync" | "fsync" if of_log && call.ends_with("<unfinished ...>") => {
                unfinished.insert(pid, calls.len());
            }
            "fdatasync" | "fsync" if of_log && call.ends_with("= 0") => {
                calls.push(TracedCall::LogSynced { begun: calls.len() });
            }
            "pwrite64" | "pwritev" | "pwritev2" if of_log => {
                calls.push(TracedCall::LogWrite(arguments.to_owned()));
            }
            "write" | "writev" if arguments.starts_with("1<") => {
                calls.push(TracedCall::Printed(arguments.to_owned()));
            }
            _ => {}
        }
    }
    calls
}

#[test]
fn a_trace_is_read_in_the_order_of_its_calls() {
    let text = "\
7  pwrite64(5</d/cleveragents.db-wal>, \"one\", 3, 0) = 3
7  fdatasync(5</d/cleveragents.db-wal> <unfinished ...>
8  write(1<pipe:[1]>, \"ack\", 3) = 3
7  <... fdatasync resumed>) = 0
7  fdatasync(4</d/cleveragents.db>) = 0
";
    let calls = parse(text);
    assert!(
        matches!(
            calls[..],
            [
                TracedCall::LogWrite(_),
                TracedCall::Printed(_),
                TracedCall::LogSynced { begun: 1 }
            ]
        ),
        "{calls:?}"
    );
}
