//! Asking one validation: a command or a tool, confined, on what was captured.

use std::sync::Arc;
use std::time::Duration;

use cleveragents_domain::automation::guards::{Approval, GuardedCall, ToolEffect};
use cleveragents_domain::process::Network;
use cleveragents_domain::tool::Access;
use cleveragents_domain::validation::applicable::Applicable;
use cleveragents_domain::validation::verdict::{CommandOutcome, Ending, Verdict};
use cleveragents_domain::{Guards, NamespacedName, ValidationSource};
use serde_json::Value;
use tokio::sync::OwnedRwLockWriteGuard;

use super::workspace::Inside;
use crate::ports::processes::{ConfinedCommand, Ended, Kept, Processes, TreeAccess};
use crate::ports::stop::{Stop, Stopped};
use crate::ports::tools::{Call, Stamps, Toolbox};
use crate::secrets::masks::{find_mask, find_mask_in, why_refused};
use crate::validations::{Prepared, judge_output, prepare};

/// How much of each stream of a command's output is kept.
const OUTPUT_MAXIMUM: usize = 64 * 1024;

/// Something that must pass, or is only asked.
#[derive(Debug, Clone)]
pub(super) struct Gate {
    pub(super) applicable: Applicable,
    pub(super) origin: Origin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// A check of the plan's action.
    Check,
    /// A validation attached to a resource.
    Attached,
}

/// Asks one validation.
pub(super) struct Judge {
    pub(super) inside: Arc<OwnedRwLockWriteGuard<Inside>>,
    pub(super) toolbox: Arc<dyn Toolbox>,
    pub(super) processes: Arc<dyn Processes>,
    pub(super) network: Network,
    /// Of the plan's profile: a tool that judges is a tool like any other.
    pub(super) guards: Guards,
    pub(super) stop: Stop,
}

impl Judge {
    pub(super) fn judge(&self, gate: &Gate) -> Verdict {
        let one = &gate.applicable;
        // The texts of a check were filled in when the plan was made.
        if let (Origin::Check, ValidationSource::Run(command)) =
            (gate.origin, &one.validation.source)
        {
            return Verdict::of_command(&self.command(command, one.validation.timeout));
        }
        match prepare(&one.validation, &one.attachment.args) {
            Err(error) => Verdict::failed(error.to_string()),
            Ok(Prepared::Command(command)) => {
                Verdict::of_command(&self.command(&command, one.validation.timeout))
            }
            Ok(Prepared::Tool { tool, input }) => match self.tool(&tool, &input) {
                Ok(output) => judge_output(&one.validation, &one.attachment.args, &output),
                Err(reason) => Verdict::failed(reason),
            },
        }
    }

    fn command(&self, command: &str, seconds: u64) -> CommandOutcome {
        match self.run(command, seconds) {
            Ok(outcome) => outcome,
            Err(reason) => CommandOutcome {
                ending: Ending::Failed { reason },
                stdout: String::new(),
                stderr: String::new(),
            },
        }
    }

    fn run(&self, command: &str, seconds: u64) -> std::result::Result<CommandOutcome, String> {
        if let Some(mask) = find_mask(command) {
            return Err(why_refused(mask));
        }
        let sandbox = &self.inside.sandbox;
        let confined = ConfinedCommand {
            argv: vec!["sh".into(), "-c".into(), command.into()],
            tree: sandbox.tree().to_owned(),
            scratch: sandbox.scratch().map_err(|error| error.to_string())?,
            access: TreeAccess::Writable,
            network: self.network,
            timeout: Duration::from_secs(seconds),
            output_limit: OUTPUT_MAXIMUM,
            stdin: Vec::new(),
        };
        let waiting = self.processes.prepare(&confined);
        let finished = waiting
            .and_then(|waiting| waiting.go(&self.stop))
            .map_err(|error| error.to_string())?;
        Ok(CommandOutcome {
            ending: match finished.ended {
                Ended::Exited(code) => Ending::Exited { code },
                Ended::Signalled(signal) => Ending::Signalled { signal },
                Ended::Stopped(Stopped::TimedOut) => Ending::TimedOut { seconds },
                Ended::Stopped(why) => Ending::Failed {
                    reason: why.to_string(),
                },
                Ended::OverLimit(over) => Ending::Failed {
                    reason: over.to_string(),
                },
            },
            stdout: text(&finished.stdout),
            stderr: text(&finished.stderr),
        })
    }

    fn tool(&self, name: &NamespacedName, input: &Value) -> std::result::Result<Value, String> {
        let tool = self.toolbox.tool(name);
        let tool = tool.ok_or_else(|| format!("there is no tool {name}"))?;
        if tool.definition().capability.access == Access::Writes {
            return Err(format!("the tool {name} writes, and validations only look"));
        }
        let call = GuardedCall {
            tool: name,
            effect: ToolEffect::Read,
            calls_so_far: 0,
            cost_so_far: 0.0,
            approval: Approval::Missing,
        };
        self.guards
            .check(&call)
            .map_err(|error| error.to_string())?;
        if let Some(mask) = find_mask_in(input) {
            return Err(why_refused(mask));
        }
        tool.check_input(input).map_err(|error| error.to_string())?;
        let answer = tool.run(&Call {
            input,
            sandbox: &*self.inside.sandbox,
            tree: &self.inside.tree,
            stamps: &Stamps::new(),
            stop: &self.stop,
            announce: &|_| Ok(()),
        });
        answer
            .map(|output| output.data)
            .map_err(|error| error.to_string())
    }
}

/// What was kept of an output, as text.
fn text(kept: &Kept) -> String {
    let lossy = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let (start, end) = (lossy(&kept.start), lossy(&kept.end));
    match kept.left_out {
        0 => format!("{start}{end}"),
        bytes => format!("{start}\n[… {bytes} bytes left out …]\n{end}"),
    }
}
