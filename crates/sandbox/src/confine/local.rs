//! The owner's side: starts supervisors, and kills the processes that dead owners left.

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

use cleveragents_domain::process::{Confinement, ProcessIdentity};
use cleveragents_ports::limits::{Limit, OverLimit};
use cleveragents_ports::processes::{
    CommandExit, ConfinedCommand, FinishedCommand, PreparedCommand, ProcessError, ProcessResult,
    Processes, TruncatedOutput,
};
use cleveragents_ports::stop::{StopReason, StopSignal};
use rustix::process::Signal;

use super::limits::{CommandLimits, ProcessLimits};
use super::machine_rules::{self, ProcessSettings};
use super::orphans::end_orphans;
use super::policy::{Enforcement, Policy, to_absolute_path};
use super::process_tree::{self, Process, ProcessState};
use super::supervisor::{START, SupervisorReport};
use super::{captured_output, level, scratch, system_calls};

#[derive(Debug)]
pub struct LocalProcesses {
    settings: ProcessSettings,
    limits: ProcessLimits,
    /// Detected on first use; the machine does not change while we run.
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

    /// Sets the limits of each command.
    #[must_use]
    pub fn with_limits(mut self, limits: ProcessLimits) -> Self {
        self.limits = limits;
        self
    }

    fn command_limits(&self, command: &ConfinedCommand) -> CommandLimits {
        let folders = [&command.tree, &command.scratch];
        CommandLimits {
            limits: self.limits,
            folders: folders
                .into_iter()
                .filter_map(|it| to_absolute_path(it))
                .collect(),
        }
    }

    fn enforcement(&self) -> ProcessResult<Enforcement> {
        self.enforcement
            .get_or_init(|| level::find_enforcement(&self.settings))
            .clone()
    }

    fn policy(&self, command: &ConfinedCommand) -> ProcessResult<Policy> {
        let tree = command.tree.canonicalize().map_err(|error| {
            let tree = command.tree.display();
            start_error(format!("{tree}: {error}"))
        })?;
        let enforced_by = self.enforcement()?;
        let sandbox = tree.parent().unwrap_or(&tree);
        let account = level::command_account(&enforced_by, sandbox);
        Ok(Policy {
            enforced_by,
            account,
            network: command.network,
            tree: to_absolute_path(&tree).ok_or_else(|| start_error("the tree has no path"))?,
            rules: machine_rules::command_rules(&self.settings, command),
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
        let temporary = scratch::prepare(command, policy.account).map_err(start_error)?;
        let policy = serde_json::to_string(policy).map_err(start_error)?;
        let limits = serde_json::to_string(&self.command_limits(command)).map_err(start_error)?;
        let mut supervisor = Command::new(&self.settings.program);
        supervisor.args(["__run", "--policy", &policy, "--limits", &limits, "--"]);
        supervisor.args(&command.argv);
        // The command gets exactly the variables of the settings, because ours may contain keys.
        supervisor.env_clear();
        let variables = self.settings.variables.iter();
        supervisor.envs(variables.map(|(name, value)| (name, value)));
        supervisor.env("HOME", &command.scratch);
        supervisor.env("TMPDIR", &temporary);
        // The id of the group is part of the process identity.
        supervisor.current_dir("/").process_group(0);
        supervisor.stdin(Stdio::from(control));
        supervisor.stdout(Stdio::piped()).stderr(Stdio::piped());
        supervisor.spawn().map_err(start_error)
    }
}

impl Processes for LocalProcesses {
    fn confinement(&self) -> ProcessResult<Confinement> {
        Ok(self.enforcement()?.level())
    }

    fn prepare(&self, command: &ConfinedCommand) -> ProcessResult<Box<dyn PreparedCommand>> {
        if command.argv.is_empty() {
            return Err(start_error("it is empty"));
        }
        let policy = self.policy(command)?;
        let (control, theirs) = UnixStream::pair().map_err(start_error)?;
        let mut supervisor = self.start(command, &policy, theirs.into())?;
        let output = supervisor.stdout.take().zip(supervisor.stderr.take());
        let Some(mark) = read_mark(&supervisor, policy.enforced_by.level()) else {
            // The closed socket ends the supervisor, which has started nothing yet.
            drop(control);
            let _ = supervisor.wait();
            return Err(start_error("the kernel does not report its start time"));
        };
        let mut waiting = LocalPreparedCommand {
            mark,
            supervisor,
            control,
            output,
            timeout: command.timeout,
            output_limit: command.output_limit,
            file_size: self.limits.file_size,
        };
        waiting.send_input(&command.stdin).map_err(start_error)?;
        Ok(Box::new(waiting))
    }

    fn kill_leftovers(&self, mark: &ProcessIdentity) -> ProcessResult<()> {
        let cannot_end = |error: io::Error| ProcessError::End {
            reason: error.to_string(),
        };
        // No process survives a reboot, and its id may belong to another process now.
        if process_tree::boot_id().map_err(cannot_end)? != mark.boot_id {
            return Ok(());
        }
        let supervisor = Process::from_pid(mark.process_group);
        if let Some(supervisor) = supervisor.filter(|it| it.started == mark.started) {
            kill_process_tree(supervisor).map_err(cannot_end)?;
        }
        // The supervisor alone may have been killed. Its descendants carry its token in their
        // environment.
        let token = process_tree::token(mark.process_group, mark.started);
        process_tree::kill_marked(&token).map_err(cannot_end)?;
        // Processes that cleared their environment are found by limits that they cannot change.
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

/// Kills a supervisor and all its descendants. It is stopped first: a stopped supervisor can neither
/// start nor release a process, so all descendants can be found.
fn kill_process_tree(supervisor: Process) -> io::Result<()> {
    supervisor.signal(Signal::STOP);
    while Process::from_pid(supervisor.pid)
        .is_some_and(|now| now.started == supervisor.started && now.state == ProcessState::Alive)
    {
        thread::yield_now();
    }
    loop {
        let family = process_tree::descendants(supervisor.pid);
        if supervisor.is_gone() || family.is_empty() {
            break;
        }
        family
            .iter()
            .try_for_each(|process| process.kill_and_wait())?;
    }
    supervisor.kill_and_wait()
}

fn read_mark(supervisor: &Child, confinement: Confinement) -> Option<ProcessIdentity> {
    let pid = i32::try_from(supervisor.id()).ok()?;
    Some(ProcessIdentity {
        process_group: pid,
        started: Process::from_pid(pid)?.started,
        boot_id: process_tree::boot_id().ok()?,
        confinement,
    })
}

fn start_error(reason: impl ToString) -> ProcessError {
    ProcessError::Start {
        reason: reason.to_string(),
    }
}

/// A supervisor that waits for the start signal.
#[derive(Debug)]
struct LocalPreparedCommand {
    supervisor: Child,
    /// Closing it is the signal to the supervisor that its owner ended.
    control: UnixStream,
    output: Option<(ChildStdout, ChildStderr)>,
    mark: ProcessIdentity,
    timeout: Duration,
    output_limit: usize,
    /// The largest file in bytes that the command may write.
    file_size: u64,
}

impl LocalPreparedCommand {
    fn send_input(&mut self, input: &[u8]) -> io::Result<()> {
        let length = (input.len() as u64).to_le_bytes();
        self.control.write_all(&length)?;
        self.control.write_all(input)
    }

    /// Reads the supervisor's report and waits for its end. If the supervisor was killed, kills
    /// what it left; otherwise those processes would keep our pipes open.
    fn wait_for_report(&mut self) -> io::Result<(Option<SupervisorReport>, ExitStatus)> {
        let mut report = Vec::new();
        // A killed supervisor reports nothing.
        let _ = self.control.read_to_end(&mut report);
        let status = self.supervisor.wait()?;
        let report = serde_json::from_slice(&report).ok();
        if report.is_none() {
            let token = process_tree::token(self.mark.process_group, self.mark.started);
            process_tree::kill_marked(&token)?;
            end_orphans()?;
        }
        Ok((report, status))
    }
}

fn command_outcome(
    supervisor_end: io::Result<(Option<SupervisorReport>, ExitStatus)>,
    stopped: Option<StopReason>,
    stderr: &TruncatedOutput,
) -> ProcessResult<CommandExit> {
    let (report, status) = supervisor_end.map_err(start_error)?;
    let failed = |reason| Err(start_error(append_stderr(reason, stderr)));
    match (report, stopped, status.signal()) {
        (Some(SupervisorReport::Exited(code)), _, _) => Ok(CommandExit::Exited(code)),
        (Some(SupervisorReport::Signalled(signal)), _, _) => Ok(CommandExit::Signalled(signal)),
        (Some(SupervisorReport::OverLimit(over)), _, _) => Ok(CommandExit::OverLimit(over)),
        (Some(SupervisorReport::NotStarted { reason }), _, _) => failed(reason),
        (Some(SupervisorReport::Stopped) | None, Some(why), _) => Ok(CommandExit::Stopped(why)),
        (None, None, Some(signal)) => Ok(CommandExit::Signalled(signal)),
        (Some(SupervisorReport::Stopped) | None, None, _) => {
            failed("its supervisor failed".to_owned())
        }
    }
}

/// A command that the kernel killed for a file that is too large exceeded our limit. A shell reports
/// that signal of its last command as its own exit code.
fn check_file_size_limit(ended: CommandExit, allowed: u64) -> CommandExit {
    let signal = Signal::XFSZ.as_raw();
    match ended {
        CommandExit::Signalled(number) if number == signal => {}
        CommandExit::Exited(code) if code == 128 + signal => {}
        other => return other,
    }
    CommandExit::OverLimit(OverLimit {
        limit: Limit::FileSize,
        allowed,
        found: None,
        path: None,
    })
}

/// Appends the last line of stderr, if any, because it often explains the failure.
fn append_stderr(reason: String, stderr: &TruncatedOutput) -> String {
    let stderr_text = [&stderr.start[..], &stderr.end[..]].concat();
    let stderr_text = String::from_utf8_lossy(&stderr_text).trim_end().to_owned();
    match stderr_text.lines().last() {
        Some(line) => format!("{reason}: {line}"),
        None => reason,
    }
}

impl PreparedCommand for LocalPreparedCommand {
    fn identity(&self) -> &ProcessIdentity {
        &self.mark
    }

    fn run(mut self: Box<Self>, stop: &StopSignal) -> ProcessResult<FinishedCommand> {
        let began = Instant::now();
        let Some((stdout, stderr)) = self.output.take() else {
            return Err(start_error("its pipes are missing"));
        };
        let control = self.control.try_clone().map_err(start_error)?;
        let (timeout, limit) = (self.timeout, self.output_limit);
        let file_size = self.file_size;
        if stop.check().is_ok() {
            // If the supervisor is gone, the missing report below says so.
            let _ = self.control.write_all(&[START]);
        }
        let ended = AtomicBool::new(false);
        let this = &mut *self;
        let (supervisor_end, stopped, stdout, stderr) = thread::scope(|scope| {
            let stdout = scope.spawn(move || captured_output::read_limited(stdout, limit));
            let stderr = scope.spawn(move || captured_output::read_limited(stderr, limit));
            let supervisor_end = scope.spawn(|| {
                let supervisor_end = this.wait_for_report();
                // Set before the wake-up, so that the waiter sees it.
                ended.store(true, Ordering::SeqCst);
                stop.wake_waiters();
                supervisor_end
            });
            let has_ended = || ended.load(Ordering::SeqCst);
            let stopped = match stop.wait_unless(timeout, has_ended) {
                None if !has_ended() => Some(StopReason::TimedOut),
                given => given,
            };
            if stopped.is_some() {
                // The supervisor sees the end of the socket and kills the command.
                let _ = control.shutdown(Shutdown::Write);
            }
            let gone = || Err(io::Error::other("an internal thread failed"));
            (
                supervisor_end.join().unwrap_or_else(|_| gone()),
                stopped,
                stdout.join().unwrap_or_else(|_| empty_output()),
                stderr.join().unwrap_or_else(|_| empty_output()),
            )
        });
        Ok(FinishedCommand {
            exit: check_file_size_limit(
                command_outcome(supervisor_end, stopped, &stderr)?,
                file_size,
            ),
            stdout,
            stderr,
            elapsed: began.elapsed(),
        })
    }
}

fn empty_output() -> TruncatedOutput {
    TruncatedOutput {
        start: Vec::new(),
        omitted_bytes: 0,
        end: Vec::new(),
    }
}

/// Dropping a command that waits or runs kills it.
impl Drop for LocalPreparedCommand {
    fn drop(&mut self) {
        let _ = self.control.shutdown(Shutdown::Both);
        // The supervisor ends only after every process of the command.
        let _ = self.supervisor.wait();
    }
}
