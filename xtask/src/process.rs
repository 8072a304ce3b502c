//! The only module that starts programs.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::environment;

/// Prepares a program to be started.
#[expect(
    clippy::disallowed_methods,
    reason = "xtask's one home for starting programs"
)]
pub fn command(program: impl AsRef<OsStr>) -> Command {
    Command::new(program)
}

/// The cargo that started us, in `folder`.
pub fn cargo(folder: &Path) -> Command {
    let mut command = command(environment::cargo());
    command.current_dir(folder);
    // The variables that `cargo run` set describe xtask, not what the nested cargo builds.
    for name in [
        "CARGO_MANIFEST_DIR",
        "CARGO_MANIFEST_PATH",
        "CARGO_PKG_NAME",
    ] {
        command.env_remove(name);
    }
    command
}

/// Runs a program with our own input and output. Fails, naming the program, unless it succeeds.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| cannot_start(command))?;
    if !status.success() {
        bail!("`{}` failed: {status}", command_line(command));
    }
    Ok(())
}

/// Returns a program's standard output. Fails with its error output unless it succeeds.
pub fn capture(command: &mut Command) -> Result<String> {
    let answer = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| cannot_start(command))?;
    if !answer.status.success() {
        bail!(
            "`{}` failed: {}\n{}{}",
            command_line(command),
            answer.status,
            String::from_utf8_lossy(&answer.stdout),
            String::from_utf8_lossy(&answer.stderr),
        );
    }
    Ok(String::from_utf8_lossy(&answer.stdout).into_owned())
}

/// Runs a program and passes on its lines, standard output and error merged in the order they were
/// written.
pub fn stream(command: &mut Command, mut each: impl FnMut(&str)) -> Result<ExitStatus> {
    let mut child = start_merged(command)?;
    let mut reader = BufReader::new(child.lines);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        each(String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']));
        line.clear();
    }
    Ok(child.process.wait()?)
}

/// The outcome of a program with a time limit.
#[derive(Debug)]
pub enum CollectedOutput {
    Exited { success: bool, text: String },
    TimedOut { text: String },
}

/// Longest wait for the rest of the output of a killed group.
const REST_LIMIT: Duration = Duration::from_secs(5);

/// Runs a program and collects its output; after `limit` its whole process group is killed. A
/// process that left the group may hold the output open; what it writes later is lost.
pub fn collect_within(command: &mut Command, limit: Duration) -> Result<CollectedOutput> {
    // A group of its own, so that the time limit also ends processes that the program started.
    let mut child = start_merged(command.process_group(0))?;
    let reader = OutputReader::start(child.lines);
    // Polled, because the standard library has no wait with a timeout.
    let status = wait_until(&mut child.process, Instant::now() + limit)?;
    // Processes that the program left behind would hold the output open and disturb the next run.
    kill_group(child.process.id());
    if status.is_none() {
        child.process.wait()?;
    }
    let text = reader.text_within(REST_LIMIT);
    Ok(match status {
        Some(status) => CollectedOutput::Exited {
            success: status.success(),
            text,
        },
        None => CollectedOutput::TimedOut { text },
    })
}

/// A thread that reads an output to its end.
struct OutputReader {
    bytes: Arc<Mutex<Vec<u8>>>,
    thread: JoinHandle<()>,
}

impl OutputReader {
    fn start(mut lines: std::io::PipeReader) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let collected = Arc::clone(&bytes);
        let thread = thread::spawn(move || {
            let mut buffer = [0; 8192];
            // An output that cannot be read has ended.
            while let Ok(length @ 1..) = lines.read(&mut buffer) {
                let mut bytes = collected.lock().unwrap_or_else(PoisonError::into_inner);
                bytes.extend_from_slice(&buffer[..length]);
            }
        });
        Self { bytes, thread }
    }

    /// Returns the output once it has ended, or what there is of it after the limit.
    fn text_within(self, limit: Duration) -> String {
        let deadline = Instant::now() + limit;
        while !self.thread.is_finished() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

struct MergedProcess {
    process: Child,
    lines: std::io::PipeReader,
}

fn start_merged(command: &mut Command) -> Result<MergedProcess> {
    let (lines, writer) = std::io::pipe()?;
    command
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer);
    let process = command.spawn().with_context(|| cannot_start(command))?;
    // The command keeps our copies of the writing end; without this the reader never sees the end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    Ok(MergedProcess { process, lines })
}

fn wait_until(process: &mut Child, deadline: Instant) -> Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = process.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(20));
    }
}

fn kill_group(leader: u32) {
    // By the shell: the standard library cannot signal a group.
    let mut kill = command("sh");
    kill.args(["-c", &format!("kill -KILL -{leader}")]);
    // An empty group is the desired state, so the result does not matter.
    let _ = kill.stdout(Stdio::null()).stderr(Stdio::null()).status();
}

fn cannot_start(command: &Command) -> String {
    format!("cannot start `{}`", command_line(command))
}

/// The command line as a user would type it.
pub fn command_line(command: &Command) -> String {
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|part| part.to_string_lossy())
        .map(|part| match part.rsplit_once('/') {
            Some((_, "cargo")) => "cargo".into(),
            _ => part,
        })
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut shell = command("sh");
        shell.args(["-c", script]);
        shell
    }

    #[test]
    fn stream_keeps_the_order_of_both_outputs() {
        let mut lines = Vec::new();
        let status = stream(&mut shell("echo a; echo b >&2; echo c; exit 3"), |line| {
            lines.push(line.to_owned());
        })
        .unwrap();
        assert_eq!(lines, ["a", "b", "c"]);
        assert_eq!(status.code(), Some(3));
    }

    #[test]
    fn a_time_limit_ends_the_whole_group() {
        let started = Instant::now();
        let limit = Duration::from_millis(200);
        let ended = collect_within(&mut shell("echo begun; sleep 60 & sleep 60"), limit).unwrap();
        assert!(matches!(ended, CollectedOutput::TimedOut { text } if text == "begun\n"));
        assert!(started.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn a_process_outside_the_group_holds_nothing_up() {
        let limit = Duration::from_millis(500);
        let started = Instant::now();
        let script = "echo begun; setsid sleep 60 & sleep 60";
        let ended = collect_within(&mut shell(script), limit).unwrap();
        assert!(matches!(ended, CollectedOutput::TimedOut { text } if text == "begun\n"));
        assert!(started.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_failed_program_is_named() {
        let error = capture(&mut shell("echo why >&2; exit 1")).unwrap_err();
        assert!(error.to_string().contains("why"), "{error}");
    }
}
