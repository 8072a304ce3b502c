//! `builtin/shell`: a command in the sandbox, confined by the port of processes.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cleveragents_domain::process::{Confinement, Network};
use cleveragents_domain::tool::{Access, Capability, Repeatable, Safety};
use cleveragents_engine::ports::processes::{
    ConfinedCommand, Ended, Finished, Kept, ProcessError, Processes, TreeAccess,
};
use cleveragents_engine::ports::sandbox::Touched;
use cleveragents_engine::ports::tools::{Call, ToolFailure, ToolOutput};
use serde::Deserialize;
use serde_json::json;

use crate::builtin::{Description, Work, input, unusable};
use crate::excerpt::{is_binary, whole_end, whole_start};
use crate::schema_parts::{count, object, one_of, some_text, text, whole_number};

/// How much longer than its command a call may take: to start it, and to end all of it.
const GRACE_SECONDS: u64 = 30;

/// How commands are run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellSettings {
    pub network: Network,
    /// Folders outside the sandbox that commands may write to.
    pub writable: Vec<PathBuf>,
    /// How long a command may take unless the call says otherwise.
    pub timeout: Duration,
    /// How long any command may take, whatever the call says.
    pub longest: Duration,
    /// How many bytes of each of stdout and stderr are kept.
    pub output_limit: usize,
}

impl Default for ShellSettings {
    fn default() -> Self {
        Self {
            network: Network::Deny,
            writable: Vec::new(),
            timeout: Duration::from_secs(120),
            longest: Duration::from_secs(1800),
            output_limit: 64 << 10,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Shell {
    settings: ShellSettings,
    processes: Option<Arc<dyn Processes>>,
}

#[derive(Debug, Deserialize)]
struct Input {
    command: String,
    timeout: Option<u64>,
}

impl Shell {
    pub(crate) fn new(settings: ShellSettings, processes: Option<Arc<dyn Processes>>) -> Self {
        Self {
            settings,
            processes,
        }
    }

    fn confinement(&self) -> Confinement {
        let processes = self.processes.as_ref();
        processes
            .map_or(Ok(Confinement::Namespaces), |it| it.confinement())
            .unwrap_or(Confinement::None)
    }

    fn denies_network(&self) -> bool {
        let processes = self.processes.as_ref();
        processes.is_some_and(|it| it.denies_network())
    }

    /// What a command may do depends on how well it can be kept inside.
    fn capability(&self) -> Capability {
        let mut side_effects = Vec::new();
        if self.settings.network == Network::Allow {
            side_effects.push("may use the network".to_owned());
        }
        let writable = self.settings.writable.iter();
        side_effects.extend(writable.map(|it| format!("may change files in {}", it.display())));
        match self.confinement() {
            Confinement::Namespaces => {}
            Confinement::Landlock if self.settings.network == Network::Allow => {}
            Confinement::Landlock if self.denies_network() => {}
            Confinement::Landlock => {
                side_effects.push("may use the network: it cannot be denied fully here".to_owned());
            }
            Confinement::None => {
                side_effects.push(
                    "may change files outside the sandbox: it is not confined here".to_owned(),
                );
            }
        }
        let repeatable = match side_effects.is_empty() {
            true => Repeatable::Idempotent,
            false => Repeatable::OnceOnly,
        };
        Capability {
            access: Access::Writes,
            repeatable,
            safety: Safety::Safe,
            side_effects,
        }
    }

    fn command(&self, input: &Input, call: &Call<'_>) -> Result<ConfinedCommand, ToolFailure> {
        if input.command.contains('\0') {
            return Err(unusable("no command has a NUL character in it"));
        }
        let asked = input.timeout.map(Duration::from_secs);
        Ok(ConfinedCommand {
            argv: ["sh", "-c", &input.command].map(Into::into).to_vec(),
            tree: call.sandbox.tree().to_owned(),
            scratch: call.sandbox.scratch()?,
            access: TreeAccess::Writable,
            network: self.settings.network,
            timeout: asked
                .unwrap_or(self.settings.timeout)
                .min(self.settings.longest),
            output_limit: self.settings.output_limit,
            stdin: Vec::new(),
        })
    }
}

impl Work for Shell {
    fn describe(&self) -> Description {
        let (usual, longest) = (
            self.settings.timeout.min(self.settings.longest).as_secs(),
            self.settings.longest.as_secs(),
        );
        let network = match self.settings.network {
            Network::Deny => "There is no network.",
            Network::Allow => "It may use the network.",
        };
        let levels = [
            Confinement::Namespaces.as_str(),
            Confinement::Landlock.as_str(),
            Confinement::None.as_str(),
        ];
        Description {
            name: "shell",
            text: format!(
                "Run a command with `sh -c` in the root of the sandbox, where alone it can write. \
                 {network} When it ends, everything it started is ended too. A command that fails \
                 is told by `exit_code`; of long output the middle is left out."
            ),
            input: object([
                ("command", some_text("The command line.")),
                (
                    "timeout?",
                    whole_number(
                        1,
                        longest.max(1),
                        &format!("Seconds it may take; {usual} if it is left out."),
                    ),
                ),
            ]),
            output: object([
                (
                    "exit_code",
                    count("How it ended; 128 and more if a signal ended it."),
                ),
                ("stdout", text("What it said.")),
                ("stderr", text("What it complained about.")),
                ("left_out", count("Bytes of both that are not shown.")),
                (
                    "confinement",
                    one_of(&levels, "How well it was kept inside the sandbox."),
                ),
            ]),
            capability: self.capability(),
            timeout_seconds: longest + GRACE_SECONDS,
        }
    }

    fn run(&self, call: &Call<'_>) -> Result<ToolOutput, ToolFailure> {
        let input: Input = input(call)?;
        let command = self.command(&input, call)?;
        let Some(processes) = &self.processes else {
            let reason = "there is nobody to run commands in this build".to_owned();
            return Err(ProcessError::Unconfined { reason }.into());
        };
        let waiting = processes.prepare(&command)?;
        let mark = waiting.mark().clone();
        (call.announce)(&mark)?;
        let Finished {
            ended,
            stdout,
            stderr,
            ..
        } = waiting.go(call.stop)?;
        let touched = Touched::Unknown;
        let exit_code = match ended {
            Ended::Exited(code) => code,
            Ended::Signalled(signal) => 128 + signal,
            Ended::Stopped(why) => return Err(ToolFailure::Stopped { why, touched }),
            Ended::OverLimit(over) => {
                let reason = format!("the command was ended: {over}");
                return Err(ToolFailure::Failed { reason, touched });
            }
        };
        Ok(ToolOutput {
            data: json!({
                "exit_code": exit_code,
                "stdout": output_text(&stdout),
                "stderr": output_text(&stderr),
                "left_out": stdout.left_out + stderr.left_out,
                "confinement": mark.confinement.as_str(),
            }),
            touched,
        })
    }
}

/// Output as text: the part that was left out is marked, and what is no text is only counted.
fn output_text(kept: &Kept) -> String {
    let whole = (kept.start.len() + kept.end.len()) as u64 + kept.left_out;
    if is_binary(&kept.start) || is_binary(&kept.end) {
        return format!("[binary output, {whole} bytes]");
    }
    if kept.left_out == 0 {
        return String::from_utf8_lossy(&[&kept.start[..], &kept.end].concat()).into_owned();
    }
    let (start, end) = (whole_start(&kept.start), whole_end(&kept.end));
    let left_out = whole - (start.len() + end.len()) as u64;
    let (start, end) = (String::from_utf8_lossy(start), String::from_utf8_lossy(end));
    format!("{start}\n[… {left_out} bytes left out …]\n{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(start: &[u8], left_out: u64, end: &[u8]) -> String {
        output_text(&Kept {
            start: start.to_vec(),
            left_out,
            end: end.to_vec(),
        })
    }

    #[test]
    fn what_is_left_out_is_marked_and_no_character_is_cut() {
        assert_eq!(kept(b"all", 0, b""), "all");
        assert_eq!(kept("é".as_bytes(), 0, b""), "é");
        // A character across the seam is whole when nothing is left out.
        assert_eq!(kept(b"\xc3", 0, b"\xa9"), "é");
        assert_eq!(kept(b"a\xc3", 7, b"\xa9z"), "a\n[… 9 bytes left out …]\nz");
        assert_eq!(kept(b"\xff", 0, b""), "\u{fffd}");
        assert_eq!(kept(b"\0\x01", 5, b"x"), "[binary output, 8 bytes]");
        assert_eq!(kept(b"", 0, b""), "");
    }

    #[test]
    fn a_command_that_may_write_outside_its_sandbox_runs_once_only() {
        let of = |writable| {
            let settings = ShellSettings {
                writable,
                ..ShellSettings::default()
            };
            Shell::new(settings, None).capability()
        };
        assert_eq!(of(Vec::new()).repeatable, Repeatable::Idempotent);
        let capability = of(vec!["/srv/build".into()]);
        assert_eq!(capability.repeatable, Repeatable::OnceOnly);
        assert_eq!(capability.side_effects, ["may change files in /srv/build"]);
    }
}
