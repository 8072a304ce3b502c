//! `agents __run`: the entry of a process that supervises a command or becomes it.
//!
//! ```text
//! agents __run --policy JSON --limits JSON -- ARGV…       supervises, told what to do on its stdin
//! agents __run --confined-by PID --policy JSON -- ARGV…   confines itself and becomes ARGV
//! ```

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::Command;

use cleveragents_domain::process::Network;
use rustix::process::{Signal, getppid, set_parent_process_death_signal, setsid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, set_capabilities, set_no_new_privs,
};

use super::limits::CommandLimits;
use super::policy::{Enforcement, Policy};
use super::{landlock, no_sockets, supervisor};

/// Nobody but agents calls this; who does all the same is told what every wrong command line is.
const USAGE: u8 = 2;

/// What `env` and `timeout` answer when they fail themselves, and what shells answer when a
/// command cannot be run or is not found.
const FAILED: u8 = 125;
const CANNOT_RUN: u8 = 126;
const NOT_FOUND: u8 = 127;

/// What was asked of this process.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) policy: Policy,
    pub(super) argv: Vec<OsString>,
    /// What the command may use; a supervisor is told.
    pub(super) limits: Option<CommandLimits>,
    /// The supervisor this process was started by; none if it is the supervisor.
    confined_by: Option<i32>,
}

/// Runs with the arguments behind `__run` in the environment this process has, and answers with
/// the exit code. A process that becomes the command does not come back.
pub fn run(arguments: &[OsString], search_path: Option<&OsString>) -> u8 {
    let request = match Request::read(arguments) {
        Ok(request) => request,
        Err(what) => return complain(USAGE, what),
    };
    match request.confined_by {
        None => match supervisor::supervise(&request, search_path) {
            Ok(()) => 0,
            Err(error) => complain(FAILED, error),
        },
        Some(supervisor) => become_command(&request, supervisor),
    }
}

impl Request {
    fn read(arguments: &[OsString]) -> Result<Self, String> {
        let mut words = arguments.iter();
        let (mut policy, mut limits, mut confined_by) = (None, None, None);
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
                confined_by = Some(number.ok_or("--confined-by needs a number")?);
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
                confined_by,
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
fn become_command(request: &Request, supervisor: i32) -> u8 {
    if let Err(why) = give_up_everything(&request.policy, supervisor) {
        return complain(FAILED, why);
    }
    let [program, arguments @ ..] = &request.argv[..] else {
        return FAILED;
    };
    let error = Command::new(program).args(arguments).exec();
    let code = match error.kind() {
        io::ErrorKind::NotFound => NOT_FOUND,
        _ => CANNOT_RUN,
    };
    complain(code, format!("{}: {error}", program.display()))
}

/// Leaves the terminal, ties this process to its supervisor, and gives up every right the policy
/// does not name.
fn give_up_everything(policy: &Policy, supervisor: i32) -> Result<(), String> {
    let failed = |what: &str, error: &dyn std::fmt::Display| format!("{what}: {error}");
    setsid().map_err(|error| failed("the session cannot be left", &error))?;
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| failed("no signal can be had for the supervisor's death", &error))?;
    // A supervisor that died before that gives no signal any more.
    if getppid().map(|parent| parent.as_raw_nonzero().get()) != Some(supervisor) {
        return Err("the supervisor is gone".to_owned());
    }
    if policy.enforced_by == Enforcement::Landlock {
        landlock::confine(policy).map_err(|error| failed("Landlock refuses", &error))?;
    }
    set_no_new_privs(true).map_err(|error| failed("privileges cannot be forsworn", &error))?;
    let nothing = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    clear_ambient_capability_set()
        .and_then(|()| set_capabilities(None, nothing))
        .map_err(|error| failed("capabilities cannot be given up", &error))?;
    if policy.enforced_by == Enforcement::Landlock && policy.network == Network::Deny {
        no_sockets::forbid().map_err(|error| failed("sockets cannot be forbidden", &error))?;
    }
    Ok(())
}

/// Tells whoever reads the command's stderr. Nobody may be left to hear it.
pub(super) fn complain(code: u8, what: impl std::fmt::Display) -> u8 {
    let _ = writeln!(io::stderr(), "agents: {what}");
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_request_is_told_and_nothing_is_run() {
        let request = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            Request::read(&words).map(drop)
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
        let policy = r#"{"enforced_by":"landlock","network":"deny","tree":"/","rules":{}}"#;
        assert_eq!(request(&["--policy", policy, "--", "true"]), Ok(()));
        assert!(request(&["--policy", policy, "--"]).is_err());
    }
}
