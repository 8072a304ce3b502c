//! The owner's side: starts supervisors, and ends what dead owners left.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cleveragents_domain::process::{Confinement, ProcessMark};
use cleveragents_engine::ports::limits::{Limit, OverLimit};
use cleveragents_engine::ports::processes::{
    ConfinedCommand, Ended, Finished, Kept, ProcessError, ProcessResult, Processes, Waiting,
};
use cleveragents_engine::ports::stop::{Stop, Stopped};
use rustix::process::Signal;

use super::family::{self, Process, State};
use super::limits::{CommandLimits, ProcessLimits};
use super::orphans::end_orphans;
use super::places::{self, ProcessSettings};
use super::policy::{Enforcement, Policy, absolute};
use super::supervisor::{GO, Report};
use super::{kept, level, scratch, system_calls};

/// Commands on this machine.
#[derive(Debug)]
pub struct LocalProcesses {
    settings: ProcessSettings,
    limits: ProcessLimits,
    /// Found when it is first asked for; the machine does not change while we run.
    enforcement: OnceLock<ProcessResult<Enforcement>>,
}

impl LocalProcesses {
    pub fn new(settings: ProcessSettings) -> Self {
        Self {
            settings,
            limits: ProcessLimits::default(),
            enforcement: OnceLock::new(),
        }
    }

    /// The same, where one command uses no more than this.
    #[must_use]
    pub fn limited(mut self, limits: ProcessLimits) -> Self {
        self.limits = limits;
        self
    }

    fn command_limits(&self, command: &ConfinedCommand) -> CommandLimits {
        let folders = [&command.tree, &command.scratch];
        CommandLimits {
            limits: self.limits,
            folders: folders.into_iter().filter_map(|it| absolute(it)).collect(),
        }
    }

    fn enforcement(&self) -> ProcessResult<Enforcement> {
        self.enforcement
            .get_or_init(|| level::find(&self.settings))
            .clone()
    }

    fn policy(&self, command: &ConfinedCommand) -> ProcessResult<Policy> {
        let tree = command.tree.canonicalize().map_err(|error| {
            let tree = command.tree.display();
            cannot_start(format!("{tree}: {error}"))
        })?;
        let enforced_by = self.enforcement()?;
        let sandbox = tree.parent().unwrap_or(&tree);
        let account = level::account(&enforced_by, sandbox);
        Ok(Policy {
            enforced_by,
            account,
            network: command.network,
            tree: absolute(&tree).ok_or_else(|| cannot_start("the tree has no path"))?,
            rules: places::rules(&self.settings, command),
        })
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the supervisor is started here, with an environment of our making"
    )]
    fn start(
        &self,
        command: &ConfinedCommand,
        policy: &Policy,
        control: OwnedFd,
    ) -> ProcessResult<Child> {
        let temporary = scratch::prepare(command, policy.account).map_err(cannot_start)?;
        let policy = serde_json::to_string(policy).map_err(cannot_start)?;
        let limits = serde_json::to_string(&self.command_limits(command)).map_err(cannot_start)?;
        let mut supervisor = Command::new(&self.settings.program);
        supervisor.args(["__run", "--policy", &policy, "--limits", &limits, "--"]);
        supervisor.args(&command.argv);
        supervisor.env_clear();
        let variables = self.settings.variables.iter();
        supervisor.envs(variables.map(|(name, value)| (name, value)));
        supervisor.env("HOME", &command.scratch);
        supervisor.env("TMPDIR", &temporary);
        supervisor.current_dir("/").process_group(0);
        supervisor.stdin(Stdio::from(control));
        supervisor.stdout(Stdio::piped()).stderr(Stdio::piped());
        supervisor.spawn().map_err(cannot_start)
    }
}

impl Processes for LocalProcesses {
    fn confinement(&self) -> ProcessResult<Confinement> {
        Ok(self.enforcement()?.level())
    }

    fn prepare(&self, command: &ConfinedCommand) -> ProcessResult<Box<dyn Waiting>> {
        if command.argv.is_empty() {
            return Err(cannot_start("it is empty"));
        }
        let policy = self.policy(command)?;
        let (control, theirs) = UnixStream::pair().map_err(cannot_start)?;
        let mut supervisor = self.start(command, &policy, theirs.into())?;
        let output = supervisor.stdout.take().zip(supervisor.stderr.take());
        let Some(mark) = mark_of(&supervisor, policy.enforced_by.level()) else {
            drop(control);
            let _ = supervisor.wait();
            return Err(cannot_start("the kernel does not say when it was started"));
        };
        let mut waiting = LocalWaiting {
            mark,
            supervisor,
            control,
            output,
            timeout: command.timeout,
            output_limit: command.output_limit,
            file_size: self.limits.file_size,
        };
        waiting.send_input(&command.stdin).map_err(cannot_start)?;
        Ok(Box::new(waiting))
    }

    fn end(&self, mark: &ProcessMark) -> ProcessResult<()> {
        let cannot_end = |error: io::Error| ProcessError::End {
            reason: error.to_string(),
        };
        if family::boot_id().map_err(cannot_end)? != mark.boot_id {
            return Ok(());
        }
        let supervisor = Process::with_number(mark.process_group);
        if let Some(supervisor) = supervisor.filter(|it| it.started == mark.started) {
            end_with_family(supervisor).map_err(cannot_end)?;
        }
        // Somebody may have killed the supervisor alone; what it left bears its mark.
        let token = family::token(mark.process_group, mark.started);
        family::sweep(&token).map_err(cannot_end)?;
        // What cleared its environment is found by what it cannot clear.
        end_orphans().map_err(cannot_end)
    }

    fn denies_network(&self) -> bool {
        match self.enforcement() {
            Ok(Enforcement::Bubblewrap(_)) => true,
            Ok(Enforcement::Landlock) => system_calls::can_be_filtered(),
            Ok(Enforcement::Nothing) | Err(_) => false,
        }
    }
}

/// Ends a supervisor and all that descends from it. While it is stopped it starts nothing and lets
/// nobody go, so all of them can be found.
fn end_with_family(supervisor: Process) -> io::Result<()> {
    supervisor.signal(Signal::STOP);
    while Process::with_number(supervisor.pid)
        .is_some_and(|now| now.started == supervisor.started && now.state == State::Alive)
    {
        thread::yield_now();
    }
    loop {
        let family = family::descendants(supervisor.pid);
        if supervisor.is_gone() || family.is_empty() {
            break;
        }
        family.iter().try_for_each(|process| process.end())?;
    }
    supervisor.end()
}

fn mark_of(supervisor: &Child, confinement: Confinement) -> Option<ProcessMark> {
    let pid = i32::try_from(supervisor.id()).ok()?;
    Some(ProcessMark {
        process_group: pid,
        started: Process::with_number(pid)?.started,
        boot_id: family::boot_id().ok()?,
        confinement,
    })
}

fn cannot_start(reason: impl ToString) -> ProcessError {
    ProcessError::Start {
        reason: reason.to_string(),
    }
}

/// A supervisor that waits for its word.
#[derive(Debug)]
struct LocalWaiting {
    supervisor: Child,
    /// Its end is what tells the supervisor that we are gone.
    control: UnixStream,
    output: Option<(ChildStdout, ChildStderr)>,
    mark: ProcessMark,
    timeout: Duration,
    output_limit: usize,
    /// The largest file the command may write.
    file_size: u64,
}

impl LocalWaiting {
    fn send_input(&mut self, input: &[u8]) -> io::Result<()> {
        let length = (input.len() as u64).to_le_bytes();
        self.control.write_all(&length)?;
        self.control.write_all(input)
    }

    /// Reads what the supervisor reports and waits for its end. If somebody killed it, what it left
    /// is ended here; else that would hold our pipes.
    fn attend(&mut self) -> io::Result<(Option<Report>, ExitStatus)> {
        let mut report = Vec::new();
        // A supervisor that was killed reports nothing.
        let _ = self.control.read_to_end(&mut report);
        let status = self.supervisor.wait()?;
        let report = serde_json::from_slice(&report).ok();
        if report.is_none() {
            let token = family::token(self.mark.process_group, self.mark.started);
            family::sweep(&token)?;
            end_orphans()?;
        }
        Ok((report, status))
    }
}

/// What became of the command.
fn outcome(
    attended: io::Result<(Option<Report>, ExitStatus)>,
    stopped: Option<Stopped>,
    stderr: &Kept,
) -> ProcessResult<Ended> {
    let (report, status) = attended.map_err(cannot_start)?;
    let failed = |reason| Err(cannot_start(with_complaint(reason, stderr)));
    match (report, stopped, status.signal()) {
        (Some(Report::Exited(code)), _, _) => Ok(Ended::Exited(code)),
        (Some(Report::Signalled(signal)), _, _) => Ok(Ended::Signalled(signal)),
        (Some(Report::OverLimit(over)), _, _) => Ok(Ended::OverLimit(over)),
        (Some(Report::NotStarted { reason }), _, _) => failed(reason),
        (Some(Report::Told) | None, Some(why), _) => Ok(Ended::Stopped(why)),
        (None, None, Some(signal)) => Ok(Ended::Signalled(signal)),
        (Some(Report::Told) | None, None, _) => failed("its supervisor failed".to_owned()),
    }
}

/// A command that the kernel ended for a file that is too large went over a limit of ours. A shell
/// reports that signal of its last command by its own code.
fn within_file_size(ended: Ended, allowed: u64) -> Ended {
    let signal = Signal::XFSZ.as_raw();
    match ended {
        Ended::Signalled(number) if number == signal => {}
        Ended::Exited(code) if code == 128 + signal => {}
        other => return other,
    }
    Ended::OverLimit(OverLimit {
        limit: Limit::FileSize,
        allowed,
        found: None,
        path: None,
    })
}

/// The last line that was said, if any, says more than we know.
fn with_complaint(reason: String, stderr: &Kept) -> String {
    let said = [&stderr.start[..], &stderr.end[..]].concat();
    let said = String::from_utf8_lossy(&said).trim_end().to_owned();
    match said.lines().last() {
        Some(line) => format!("{reason}: {line}"),
        None => reason,
    }
}

impl Waiting for LocalWaiting {
    fn mark(&self) -> &ProcessMark {
        &self.mark
    }

    fn go(mut self: Box<Self>, stop: &Stop) -> ProcessResult<Finished> {
        let began = Instant::now();
        let Some((stdout, stderr)) = self.output.take() else {
            return Err(cannot_start("its pipes are missing"));
        };
        let control = self.control.try_clone().map_err(cannot_start)?;
        let (timeout, limit) = (self.timeout, self.output_limit);
        let file_size = self.file_size;
        if stop.check().is_ok() {
            // A supervisor that is gone is told of below.
            let _ = self.control.write_all(&[GO]);
        }
        let ended = AtomicBool::new(false);
        let this = &mut *self;
        let (attended, stopped, stdout, stderr) = thread::scope(|scope| {
            let stdout = scope.spawn(move || kept::read(stdout, limit));
            let stderr = scope.spawn(move || kept::read(stderr, limit));
            let attended = scope.spawn(|| {
                let attended = this.attend();
                ended.store(true, Ordering::SeqCst);
                stop.nudge();
                attended
            });
            let has_ended = || ended.load(Ordering::SeqCst);
            let stopped = match stop.wait_unless(timeout, has_ended) {
                None if !has_ended() => Some(Stopped::TimedOut),
                given => given,
            };
            if stopped.is_some() {
                let _ = control.shutdown(Shutdown::Write);
            }
            let gone = || Err(io::Error::other("a thread of ours failed"));
            (
                attended.join().unwrap_or_else(|_| gone()),
                stopped,
                stdout.join().unwrap_or_else(|_| nothing()),
                stderr.join().unwrap_or_else(|_| nothing()),
            )
        });
        Ok(Finished {
            ended: within_file_size(outcome(attended, stopped, &stderr)?, file_size),
            stdout,
            stderr,
            elapsed: began.elapsed(),
        })
    }
}

fn nothing() -> Kept {
    Kept {
        start: Vec::new(),
        left_out: 0,
        end: Vec::new(),
    }
}

/// Whoever gives up a command that waits or runs ends it.
impl Drop for LocalWaiting {
    fn drop(&mut self) {
        let _ = self.control.shutdown(Shutdown::Both);
        let _ = self.supervisor.wait();
    }
}
