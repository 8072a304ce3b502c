//! The parent's side of a hammer process: start, read, stop.

#![expect(
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "tests start their processes here; a start that fails must fail the test"
)]

use std::io::{BufRead, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::test_database::{Backend, TestDatabase};
use crate::wait;
use crate::workload::HammerWrite;

/// The job of a hammer; see [`crate::hammer`].
#[derive(Debug, Clone, Copy)]
pub struct HammerJob<'a> {
    pub verb: &'a str,
    pub threads: u32,
    pub count: u32,
    pub seed: u32,
    /// Additional arguments, in pairs.
    pub more: &'a [&'a str],
}

impl<'a> HammerJob<'a> {
    pub fn new(verb: &'a str) -> Self {
        Self {
            verb,
            threads: 1,
            count: u32::MAX,
            seed: 1,
            more: &[],
        }
    }

    pub fn arguments(&self, test_db: &TestDatabase) -> Vec<String> {
        let backend = match test_db.backend {
            Backend::Postgres => "postgres",
            Backend::Sqlite | Backend::Memory => "sqlite",
        };
        let folder = test_db.folder().display().to_string();
        let (threads, count) = (self.threads.to_string(), self.count.to_string());
        let seed = self.seed.to_string();
        let mut words = vec![
            "--backend",
            backend,
            "--folder",
            &folder,
            "--verb",
            self.verb,
        ];
        words.extend(["--threads", &threads, "--count", &count, "--seed", &seed]);
        if let Some(url) = &test_db.url {
            words.extend(["--url", url]);
        }
        words.extend(self.more);
        words.into_iter().map(str::to_owned).collect()
    }
}

/// A write that the child reported as durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack {
    pub write: HammerWrite,
    pub stream_seq: i64,
}

/// A message of an appending hammer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HammerMessage {
    Ack(Ack),
    /// The store was unavailable; the same write is sent again.
    Retry,
    Other,
}

/// A running hammer; killed when dropped.
#[derive(Debug)]
pub struct Hammer {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
    seed: u32,
    /// The number of writes resent because the store was unavailable.
    pub retries: usize,
}

impl Hammer {
    /// Starts `program` (a path, or a path and leading arguments).
    pub fn start(program: &[&str], test_db: &TestDatabase, job: &HammerJob<'_>) -> Self {
        let (path, first) = program.split_first().expect("a program");
        let mut child = Command::new(path)
            .args(first)
            .args(job.arguments(test_db))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the hammer starts");
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().expect("its output is piped");
        Self {
            child,
            stdin,
            lines: BufReader::new(stdout).lines(),
            seed: job.seed,
            retries: 0,
        }
    }

    /// The next line, including errors; `None` once the process has ended.
    pub fn next_raw_line(&mut self) -> Option<String> {
        Some(self.lines.next()?.expect("the hammer's output is text"))
    }

    /// The next line; `None` once the process has ended. An error line fails the test.
    pub fn next_line(&mut self) -> Option<String> {
        let line = self.next_raw_line()?;
        assert!(!line.starts_with("error"), "the hammer says: {line}");
        Some(line)
    }

    /// Reads the next line, which must begin with `beginning`.
    pub fn expect_line(&mut self, beginning: &str) -> String {
        let line = self
            .next_line()
            .unwrap_or_else(|| panic!("no `{beginning}` but the end"));
        assert!(
            line.starts_with(beginning),
            "`{beginning}` expected: {line}"
        );
        line
    }

    /// Sends a line. Ignores a child that has ended.
    pub fn send_line(&mut self, order: &str) {
        if let Some(orders) = &mut self.stdin {
            let _ = orders.write_all(format!("{order}\n").as_bytes());
        }
    }

    /// Lets an appending child finish its current writes.
    pub fn stop(&mut self) {
        self.stdin = None;
    }

    /// The next acknowledgement, skipping other lines; `None` at the end.
    pub fn next_ack(&mut self) -> Option<Ack> {
        loop {
            if let HammerMessage::Ack(ack) = self.next_message()? {
                return Some(ack);
            }
        }
    }

    /// The next message of an appending child.
    pub fn next_message(&mut self) -> Option<HammerMessage> {
        let line = self.next_line()?;
        if let Some(words) = line.strip_prefix("ack ") {
            return Some(HammerMessage::Ack(self.parse(words)));
        }
        if line.starts_with("again ") {
            self.retries += 1;
            return Some(HammerMessage::Retry);
        }
        Some(HammerMessage::Other)
    }

    fn parse(&self, words: &str) -> Ack {
        let words: Vec<&str> = words.split(' ').collect();
        let number = |at: usize| words.get(at).and_then(|word| word.parse().ok());
        let write = HammerWrite {
            seed: self.seed,
            thread: number(0).expect("a thread"),
            number: number(1).expect("a number"),
        };
        let id = write.id().expect("an operation").to_string();
        assert_eq!(words.get(2), Some(&id.as_str()), "another's operation");
        let stream_seq = words.get(3).and_then(|word| word.parse().ok());
        Ack {
            write,
            stream_seq: stream_seq.expect("a place in the stream"),
        }
    }

    /// Sends `kill -9`; returns when the process is gone. Its earlier output can still be read.
    pub fn kill(&mut self) {
        self.child.kill().expect("the hammer can be killed");
        self.child.wait().expect("the hammer can be waited for");
    }

    /// Waits for a process whose output was read to the end; returns whether it succeeded.
    pub fn finish(&mut self) -> bool {
        let status = self.child.wait().expect("the hammer can be waited for");
        status.success()
    }

    /// Sends SIGSTOP and waits until the process is stopped.
    pub fn freeze(&self) {
        kill_process(self.pid(), Signal::STOP).expect("a signal");
        let path = format!("/proc/{}/stat", self.child.id());
        wait::until("the hammer hangs", || {
            let facts = std::fs::read_to_string(&path).unwrap_or_default();
            facts
                .rsplit(") ")
                .next()
                .is_some_and(|rest| rest.starts_with('T'))
        });
    }

    pub fn thaw(&self) {
        kill_process(self.pid(), Signal::CONT).expect("a signal");
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Hammer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
