//! `builtin/shell`: runs a command in the sandbox, confined by the process port.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cleveragents_domain::process::{Confinement, Network};
use cleveragents_domain::tool::{Capability, Repeatability, Safety, ToolAccess, ToolEffect};
use cleveragents_ports::processes::{
    CommandExit, ConfinedCommand, FinishedCommand, ProcessError, Processes, TreeAccess,
    TruncatedOutput,
};
use cleveragents_ports::sandbox::TouchedPaths;
use cleveragents_ports::tools::{ToolFailure, ToolInvocation, ToolOutput};
use serde::Deserialize;
use serde_json::json;

use crate::builtin::{ToolDescription, ToolImpl, invalid_input, parse_input};
use crate::excerpt::{is_binary, trim_partial_end, trim_partial_start};
use crate::schema_parts::{count, integer, non_empty_text, object, one_of, text};

/// Extra time of a call beyond the timeout of its command, to start it and to kill all of it.
const GRACE_SECONDS: u64 = 30;

/// Settings of the commands that the shell tool runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellSettings {
    pub network: Network,
    /// Folders outside the sandbox that commands may write to.
    pub writable: Vec<PathBuf>,
    /// Timeout of a command if the call sets none.
    pub timeout: Duration,
    /// Maximum timeout, whatever the call sets.
    pub max_timeout: Duration,
    /// Maximum bytes kept of each of stdout and stderr.
    pub output_limit: usize,
}

impl Default for ShellSettings {
    fn default() -> Self {
        Self {
            network: Network::Deny,
            writable: Vec::new(),
            timeout: Duration::from_secs(120),
            max_timeout: Duration::from_secs(1800),
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
struct ShellInput {
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
            // An unknown level counts as none, so that the tool never promises too much.
            .unwrap_or(Confinement::None)
    }

    fn denies_network(&self) -> bool {
        let processes = self.processes.as_ref();
        processes.is_some_and(|it| it.denies_network())
    }

    /// The declared capability depends on how well a command can be confined.
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
        // Running a command again would repeat its effects outside the sandbox.
        let repeatable = if side_effects.is_empty() {
            Repeatability::Idempotent
        } else {
            Repeatability::OnceOnly
        };
        Capability {
            access: ToolAccess::Writes,
            effect: ToolEffect::RunsCommand,
            repeatable,
            safety: Safety::Safe,
            side_effects,
        }
    }

    fn command(
        &self,
        input: &ShellInput,
        call: &ToolInvocation<'_>,
    ) -> Result<ConfinedCommand, ToolFailure> {
        if input.command.contains('\0') {
            return Err(invalid_input("no command has a NUL character in it"));
        }
        let requested = input.timeout.map(Duration::from_secs);
        Ok(ConfinedCommand {
            argv: ["sh", "-c", &input.command].map(Into::into).to_vec(),
            tree: call.sandbox.tree().to_owned(),
            scratch: call.sandbox.scratch()?,
            access: TreeAccess::Writable,
            network: self.settings.network,
            timeout: requested
                .unwrap_or(self.settings.timeout)
                // The call's own timeout comes from a model, so the user's limit caps it.
                .min(self.settings.max_timeout),
            output_limit: self.settings.output_limit,
            // Empty: a command that waits for input would wait until its timeout.
            stdin: Vec::new(),
        })
    }
}

impl ToolImpl for Shell {
    fn describe(&self) -> ToolDescription {
        let (usual, longest) = (
            self.settings
                .timeout
                .min(self.settings.max_timeout)
                .as_secs(),
            self.settings.max_timeout.as_secs(),
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
        ToolDescription {
            name: "shell",
            text: format!(
                "Run a command with `sh -c` in the root of the sandbox, the only place it can \
                 write. {network} When it ends, everything it started is ended too. `exit_code` \
                 shows \
                 whether it failed; the middle of long output is left out."
            ),
            input: object([
                ("command", non_empty_text("The command line.")),
                (
                    "timeout?",
                    integer(
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
                ("stdout", text("Standard output.")),
                ("stderr", text("Standard error.")),
                ("left_out", count("Bytes of both that were left out.")),
                ("confinement", one_of(&levels, "The level of confinement.")),
            ]),
            capability: self.capability(),
            timeout_seconds: longest + GRACE_SECONDS,
        }
    }

    fn run(&self, call: &ToolInvocation<'_>) -> Result<ToolOutput, ToolFailure> {
        let input: ShellInput = parse_input(call)?;
        let command = self.command(&input, call)?;
        let Some(processes) = &self.processes else {
            let reason = "this build cannot run commands".to_owned();
            return Err(ProcessError::Unconfined { reason }.into());
        };
        let waiting = processes.prepare(&command)?;
        let mark = waiting.identity().clone();
        // The identity is durable before the command runs, so that a later owner can end it.
        (call.on_process_start)(&mark)?;
        let FinishedCommand {
            exit: ended,
            stdout,
            stderr,
            ..
        } = waiting.run(call.stop)?;
        // A command may have changed any file of the tree.
        let touched = TouchedPaths::Unknown;
        let exit_code = match ended {
            CommandExit::Exited(code) => code,
            // As shells report a signal.
            CommandExit::Signalled(signal) => 128 + signal,
            CommandExit::Stopped(why) => return Err(ToolFailure::Stopped { why, touched }),
            CommandExit::OverLimit(over) => {
                let reason = format!("the command was ended: {over}");
                return Err(ToolFailure::Failed { reason, touched });
            }
        };
        Ok(ToolOutput {
            data: json!({
                "exit_code": exit_code,
                "stdout": output_text(&stdout),
                "stderr": output_text(&stderr),
                "left_out": stdout.omitted_bytes + stderr.omitted_bytes,
                "confinement": mark.confinement.as_str(),
            }),
            touched,
        })
    }
}

/// Renders output as text: marks an omitted part, and reports only the size of binary output.
fn output_text(kept: &TruncatedOutput) -> String {
    let whole = (kept.start.len() + kept.end.len()) as u64 + kept.omitted_bytes;
    if is_binary(&kept.start) || is_binary(&kept.end) {
        return format!("[binary output, {whole} bytes]");
    }
    if kept.omitted_bytes == 0 {
        return String::from_utf8_lossy(&[&kept.start[..], &kept.end].concat()).into_owned();
    }
    let (start, end) = (trim_partial_end(&kept.start), trim_partial_start(&kept.end));
    let left_out = whole - (start.len() + end.len()) as u64;
    let (start, end) = (String::from_utf8_lossy(start), String::from_utf8_lossy(end));
    format!("{start}\n[… {left_out} bytes left out …]\n{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render_output(start: &[u8], left_out: u64, end: &[u8]) -> String {
        output_text(&TruncatedOutput {
            start: start.to_vec(),
            omitted_bytes: left_out,
            end: end.to_vec(),
        })
    }

    #[test]
    fn omitted_output_is_marked_and_no_character_is_split() {
        assert_eq!(render_output(b"all", 0, b""), "all");
        assert_eq!(render_output("é".as_bytes(), 0, b""), "é");
        // A character that spans both parts is complete if nothing was omitted in between.
        assert_eq!(render_output(b"\xc3", 0, b"\xa9"), "é");
        assert_eq!(
            render_output(b"a\xc3", 7, b"\xa9z"),
            "a\n[… 9 bytes left out …]\nz"
        );
        assert_eq!(render_output(b"\xff", 0, b""), "\u{fffd}");
        assert_eq!(
            render_output(b"\0\x01", 5, b"x"),
            "[binary output, 8 bytes]"
        );
        assert_eq!(render_output(b"", 0, b""), "");
    }

    #[test]
    fn a_command_that_may_write_outside_is_not_repeatable() {
        let of = |writable| {
            let settings = ShellSettings {
                writable,
                ..ShellSettings::default()
            };
            Shell::new(settings, None).capability()
        };
        assert_eq!(of(Vec::new()).repeatable, Repeatability::Idempotent);
        let capability = of(vec!["/srv/build".into()]);
        assert_eq!(capability.repeatable, Repeatability::OnceOnly);
        assert_eq!(capability.side_effects, ["may change files in /srv/build"]);
    }
}
