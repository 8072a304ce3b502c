//! `agents __run`: the entry point of a process that supervises a command or becomes it.
//!
//! ```text
//! agents __run --policy JSON --limits JSON -- ARGV…       supervises, controlled through its stdin
//! agents __run --confined-by PID --policy JSON -- ARGV…   confines itself and becomes ARGV
//! agents __run --in-bubblewrap --policy JSON -- ARGV…     the same inside bubblewrap
//! ```

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Signal, chdir, getppid, set_parent_process_death_signal, setsid};

use super::limits::CommandLimits;
use super::policy::{Enforcement, Policy};
use super::system_calls::{Scheduling, SocketAccess};
use super::{landlock, orphans, own_mounts, privileges, supervisor, system_calls};

/// The exit code of an invalid command line. Only agents itself is meant to call this.
const USAGE: u8 = 2;

/// The exit codes of `env` and `timeout` for their own failures, and of shells for a command that
/// cannot be run or is not found.
const FAILED: u8 = 125;
const CANNOT_RUN: u8 = 126;
const NOT_FOUND: u8 = 127;

/// The first file descriptor after the standard streams.
const FIRST_INHERITED: i32 = 3;

#[derive(Debug)]
pub(super) struct ConfineRequest {
    pub(super) policy: Policy,
    pub(super) argv: Vec<OsString>,
    /// The limits of the command; only a supervisor gets them.
    pub(super) limits: Option<CommandLimits>,
    role: ConfinedRole,
}

/// The role of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConfinedRole {
    Supervisor,
    /// The command itself, started by the supervisor with this process id.
    Child {
        supervisor: i32,
    },
    /// The command itself, started by bubblewrap.
    InBubblewrap,
}

/// Runs with the arguments after `__run` and the environment of this process. Returns the exit code.
/// A process that becomes the command does not return.
pub fn run(arguments: &[OsString], search_path: Option<&OsString>) -> u8 {
    // The parent of agents may have left files and sockets open. Inherited by the command, they
    // would be a way out of the sandbox.
    close_fds::set_fds_cloexec(FIRST_INHERITED, &[]);
    let request = match ConfineRequest::parse(arguments) {
        Ok(request) => request,
        Err(what) => return report_error(USAGE, what),
    };
    match request.role {
        ConfinedRole::Supervisor => match supervisor::supervise(&request, search_path) {
            Ok(()) => 0,
            Err(error) => report_error(FAILED, error),
        },
        ConfinedRole::Child { .. } | ConfinedRole::InBubblewrap => exec_command(&request),
    }
}

impl ConfineRequest {
    fn parse(arguments: &[OsString]) -> Result<Self, String> {
        let mut words = arguments.iter();
        let (mut policy, mut limits, mut role) = (None, None, ConfinedRole::Supervisor);
        loop {
            let word = words.next().map(OsString::as_os_str);
            if word == Some(OsStr::new("--policy")) {
                let text = words.next().and_then(|text| text.to_str());
                let text = text.ok_or("--policy needs a text")?;
                let read = serde_json::from_str(text);
                policy = Some(read.map_err(|error| format!("the policy cannot be read: {error}"))?);
            } else if word == Some(OsStr::new("--limits")) {
                let text = words.next().and_then(|text| text.to_str());
                let text = text.ok_or("--limits needs a text")?;
                let read = serde_json::from_str(text);
                limits = Some(read.map_err(|error| format!("invalid limits: {error}"))?);
            } else if word == Some(OsStr::new("--confined-by")) {
                let number = words.next().and_then(|text| text.to_str()?.parse().ok());
                let supervisor = number.ok_or("--confined-by needs a number")?;
                role = ConfinedRole::Child { supervisor };
            } else if word == Some(OsStr::new("--in-bubblewrap")) {
                role = ConfinedRole::InBubblewrap;
            } else if word == Some(OsStr::new("--")) {
                break;
            } else {
                return Err("this is how agents starts commands, for its own use".to_owned());
            }
        }
        let argv: Vec<OsString> = words.cloned().collect();
        match (policy, argv.is_empty()) {
            (Some(policy), false) => Ok(Self {
                policy,
                argv,
                limits,
                role,
            }),
            (None, _) => Err("no policy is given".to_owned()),
            (_, true) => Err("no command is given".to_owned()),
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "nothing is started: this process becomes the command"
)]
fn exec_command(request: &ConfineRequest) -> u8 {
    if let Err(why) = drop_all_rights(&request.policy, request.role) {
        return report_error(FAILED, why);
    }
    let [program, arguments @ ..] = &request.argv[..] else {
        return FAILED;
    };
    let error = Command::new(program).args(arguments).exec();
    let code = match error.kind() {
        io::ErrorKind::NotFound => NOT_FOUND,
        _ => CANNOT_RUN,
    };
    report_error(code, format!("{}: {error}", program.display()))
}

/// Leaves the terminal, becomes the command's user, ties this process to its supervisor, and drops
/// every right that the policy does not grant. Landlock and the system call filter come last, because
/// they must apply to the command and nothing else.
fn drop_all_rights(policy: &Policy, role: ConfinedRole) -> Result<(), String> {
    let failed = |what: &str, error: &dyn std::fmt::Display| format!("{what}: {error}");
    if let ConfinedRole::Child { .. } = role {
        setsid().map_err(|error| failed("the session cannot be left", &error))?;
    }
    if policy.account.is_some() && policy.enforced_by == Enforcement::Landlock {
        own_mounts::mount_grants(&policy.rules)
            .map_err(|error| failed("the sandbox cannot be mounted", &error))?;
    }
    let landlock = match &policy.enforced_by {
        Enforcement::Landlock => Some(landlock::prepare(policy)),
        Enforcement::Bubblewrap(_) if landlock::is_supported() => Some(landlock::prepare(policy)),
        Enforcement::Bubblewrap(_) | Enforcement::Nothing => None,
    };
    let landlock = landlock.transpose();
    let landlock = landlock.map_err(|error| failed("Landlock refuses", &error))?;
    privileges::drop_privileges(policy.account)
        .map_err(|error| failed("privileges cannot be dropped", &error))?;
    // Only now is the tree mounted in place and accessible to this process.
    chdir(policy.tree()).map_err(|error| failed("the tree cannot be entered", &error))?;
    if let ConfinedRole::Child { supervisor } = role {
        die_with_supervisor(supervisor)?;
    }
    orphans::mark().map_err(|error| failed("limits cannot be set", &error))?;
    if let Some(landlock) = landlock {
        let restricted = landlock.restrict_self();
        restricted.map_err(|error| failed("Landlock refuses", &error))?;
    }
    if policy.enforced_by != Enforcement::Nothing {
        let sockets = SocketAccess::for_policy(&policy.enforced_by, policy.network);
        let scheduling = Scheduling::for_enforcement(&policy.enforced_by);
        system_calls::forbid(sockets, scheduling)
            .map_err(|error| failed("system calls cannot be forbidden", &error))?;
    }
    Ok(())
}

/// Makes the kernel kill this process when its supervisor ends. Must come after the change of user,
/// which would reset it.
fn die_with_supervisor(supervisor: i32) -> Result<(), String> {
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| format!("no signal can be had for the supervisor's death: {error}"))?;
    // A supervisor that ended before the call above sends no signal.
    if getppid().map(|parent| parent.as_raw_nonzero().get()) != Some(supervisor) {
        return Err("the supervisor is gone".to_owned());
    }
    Ok(())
}

/// Writes an error to the command's stderr. Write errors are ignored because the reader may be gone.
pub(super) fn report_error(code: u8, what: impl std::fmt::Display) -> u8 {
    let _ = writeln!(io::stderr(), "agents: {what}");
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_request_is_refused() {
        let request = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            ConfineRequest::parse(&words).map(drop)
        };
        for words in [
            &[][..],
            &["--"],
            &["--policy"],
            &["--policy", "{}", "--", "true"],
            &["--confined-by", "x", "--", "true"],
            &["true"],
        ] {
            assert!(request(words).is_err(), "{words:?}");
        }
        let policy = r#"{"enforced_by":"landlock","network":"deny","tree":"/",
            "rules":{"paths":{},"links":{}},"account":null}"#;
        assert_eq!(request(&["--policy", policy, "--", "true"]), Ok(()));
        assert!(request(&["--policy", policy, "--"]).is_err());
    }
}
