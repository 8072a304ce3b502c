//! Runs one validation: a command or a tool, confined, on the captured tree.

use std::sync::Arc;
use std::time::Duration;

use cleveragents_domain::automation::guards::{Approval, GuardedCall};
use cleveragents_domain::process::Network;
use cleveragents_domain::tool::ToolAccess;
use cleveragents_domain::validation::applicable::ApplicableValidation;
use cleveragents_domain::validation::verdict::{CommandOutcome, ValidationExit, ValidationVerdict};
use cleveragents_domain::{Guards, NamespacedName, ValidationSource};
use serde_json::Value;
use tokio::sync::OwnedRwLockWriteGuard;

use super::workspace::OpenSandbox;
use crate::validations::{PreparedValidation, evaluate_output, prepare};
use cleveragents_domain::secret_mask::{find_mask, find_mask_in, refusal_message};
use cleveragents_ports::processes::{
    CommandExit, ConfinedCommand, Processes, TreeAccess, TruncatedOutput,
};
use cleveragents_ports::stop::{StopReason, StopSignal};
use cleveragents_ports::tools::{FileStamps, ToolInvocation, Toolbox};

/// Maximum kept size of each output stream of a command, in bytes.
const OUTPUT_MAXIMUM: usize = 64 * 1024;

/// A check or validation to run, required or informational.
#[derive(Debug, Clone)]
pub(super) struct ValidationGate {
    pub(super) applicable: ApplicableValidation,
    pub(super) origin: GateOrigin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GateOrigin {
    /// A check of the plan's action.
    Check,
    /// A validation attached to a resource.
    Attached,
}

pub(super) struct ValidationRunner {
    pub(super) open_sandbox: Arc<OwnedRwLockWriteGuard<OpenSandbox>>,
    pub(super) toolbox: Arc<dyn Toolbox>,
    pub(super) processes: Arc<dyn Processes>,
    pub(super) network: Network,
    /// Guards of the plan's profile. They apply to validation tools as to any other tool.
    pub(super) guards: Guards,
    pub(super) stop: StopSignal,
}

impl ValidationRunner {
    pub(super) fn validate(&self, gate: &ValidationGate) -> ValidationVerdict {
        let one = &gate.applicable;
        // The templates of a check were filled in when the plan was created.
        if let (GateOrigin::Check, ValidationSource::Run(command)) =
            (gate.origin, &one.validation.source)
        {
            return ValidationVerdict::from_command(
                &self.run_command(command, one.validation.timeout),
            );
        }
        match prepare(&one.validation, &one.attachment.args) {
            Err(error) => ValidationVerdict::failed(error.to_string()),
            Ok(PreparedValidation::Command(command)) => {
                ValidationVerdict::from_command(&self.run_command(&command, one.validation.timeout))
            }
            Ok(PreparedValidation::Tool { tool, input }) => match self.run_tool(&tool, &input) {
                Ok(output) => evaluate_output(&one.validation, &one.attachment.args, &output),
                Err(reason) => ValidationVerdict::failed(reason),
            },
        }
    }

    fn run_command(&self, command: &str, seconds: u64) -> CommandOutcome {
        match self.run_confined(command, seconds) {
            Ok(outcome) => outcome,
            Err(reason) => CommandOutcome {
                exit: ValidationExit::Failed { reason },
                stdout: String::new(),
                stderr: String::new(),
            },
        }
    }

    fn run_confined(
        &self,
        command: &str,
        seconds: u64,
    ) -> std::result::Result<CommandOutcome, String> {
        if let Some(mask) = find_mask(command) {
            return Err(refusal_message(mask));
        }
        let sandbox = &self.open_sandbox.sandbox;
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
            .and_then(|waiting| waiting.run(&self.stop))
            .map_err(|error| error.to_string())?;
        Ok(CommandOutcome {
            exit: match finished.exit {
                CommandExit::Exited(code) => ValidationExit::Exited { code },
                CommandExit::Signalled(signal) => ValidationExit::Signalled { signal },
                CommandExit::Stopped(StopReason::TimedOut) => ValidationExit::TimedOut { seconds },
                CommandExit::Stopped(why) => ValidationExit::Failed {
                    reason: why.to_string(),
                },
                CommandExit::OverLimit(over) => ValidationExit::Failed {
                    reason: over.to_string(),
                },
            },
            stdout: output_text(&finished.stdout),
            stderr: output_text(&finished.stderr),
        })
    }

    fn run_tool(&self, name: &NamespacedName, input: &Value) -> std::result::Result<Value, String> {
        let tool = self.toolbox.tool(name);
        let tool = tool.ok_or_else(|| format!("there is no tool {name}"))?;
        if tool.definition().capability.access == ToolAccess::Writes {
            return Err(format!(
                "the tool {name} writes, but validations are read-only"
            ));
        }
        let call = GuardedCall {
            tool: name,
            access: ToolAccess::ReadOnly,
            calls_so_far: 0,
            cost_so_far: 0.0,
            approval: Approval::Missing,
        };
        self.guards
            .check(&call)
            .map_err(|error| error.to_string())?;
        if let Some(mask) = find_mask_in(input) {
            return Err(refusal_message(mask));
        }
        tool.check_input(input).map_err(|error| error.to_string())?;
        let answer = tool.run(&ToolInvocation {
            input,
            sandbox: &*self.open_sandbox.sandbox,
            tree: &self.open_sandbox.tree,
            stamps: &FileStamps::new(),
            stop: &self.stop,
            on_process_start: &|_| Ok(()),
        });
        answer
            .map(|output| output.data)
            .map_err(|error| error.to_string())
    }
}

fn output_text(kept: &TruncatedOutput) -> String {
    let lossy = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let (start, end) = (lossy(&kept.start), lossy(&kept.end));
    match kept.omitted_bytes {
        0 => format!("{start}{end}"),
        bytes => format!("{start}\n[… {bytes} bytes left out …]\n{end}"),
    }
}
