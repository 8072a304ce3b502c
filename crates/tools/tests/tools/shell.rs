//! The shell: the calls to the process port, their order, and the output.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use cleveragents_domain::process::{Confinement, Network, ProcessIdentity};
use cleveragents_domain::tool::Repeatability;
use cleveragents_ports::processes::{
    CommandExit, ConfinedCommand, FinishedCommand, PreparedCommand, ProcessError, ProcessResult,
    Processes, TreeAccess, TruncatedOutput,
};
use cleveragents_ports::sandbox::TouchedPaths;
use cleveragents_ports::tools::{ToolFailure, ToolInvocation};
use cleveragents_ports::{StopReason, StopSignal, StoreError};
use cleveragents_tools::ShellSettings;
use serde_json::{Value, json};

use crate::fixture::{ToolFixture, tree_id};

/// A fake process port: records its calls and returns the configured outcome.
#[derive(Debug, Clone)]
struct FakeProcesses {
    ended: CommandExit,
    output: TruncatedOutput,
    events: Arc<Mutex<Vec<String>>>,
    commands: Arc<Mutex<Vec<ConfinedCommand>>>,
    denies_network: bool,
}

impl FakeProcesses {
    fn new(ended: CommandExit) -> Self {
        Self {
            ended,
            output: TruncatedOutput {
                start: b"said\n".to_vec(),
                omitted_bytes: 0,
                end: Vec::new(),
            },
            events: Arc::default(),
            commands: Arc::default(),
            denies_network: false,
        }
    }

    fn fixture(&self) -> ToolFixture {
        ToolFixture::with(Some(Arc::new(self.clone())), ShellSettings::default())
    }

    fn record_event(&self, what: &str) {
        self.events.lock().unwrap().push(what.to_owned());
    }
}

impl Processes for FakeProcesses {
    fn confinement(&self) -> ProcessResult<Confinement> {
        Ok(Confinement::Landlock)
    }

    fn denies_network(&self) -> bool {
        self.denies_network
    }

    fn prepare(&self, command: &ConfinedCommand) -> ProcessResult<Box<dyn PreparedCommand>> {
        self.record_event("prepare");
        self.commands.lock().unwrap().push(command.clone());
        if command.argv[2].to_str() == Some("broken") {
            let reason = "no such shell".into();
            return Err(ProcessError::Start { reason });
        }
        Ok(Box::new(FakeWaitingProcess {
            processes: self.clone(),
            mark: ProcessIdentity {
                process_group: 7,
                started: 1,
                boot_id: "boot".into(),
                confinement: Confinement::Landlock,
            },
        }))
    }

    fn kill_leftovers(&self, _: &ProcessIdentity) -> ProcessResult<()> {
        Ok(())
    }
}

#[derive(Debug)]
struct FakeWaitingProcess {
    processes: FakeProcesses,
    mark: ProcessIdentity,
}

impl PreparedCommand for FakeWaitingProcess {
    fn identity(&self) -> &ProcessIdentity {
        &self.mark
    }

    fn run(self: Box<Self>, _: &StopSignal) -> ProcessResult<FinishedCommand> {
        self.processes.record_event("go");
        Ok(FinishedCommand {
            exit: self.processes.ended,
            stdout: self.processes.output.clone(),
            stderr: TruncatedOutput {
                start: Vec::new(),
                omitted_bytes: 0,
                end: Vec::new(),
            },
            elapsed: Duration::from_secs(1),
        })
    }
}

fn run(fixture: &ToolFixture, command: &str) -> Value {
    fixture.data("shell", &json!({"command": command}))
}

#[test]
fn a_command_runs_confined_and_reports_its_exit() {
    for (ended, code) in [
        (CommandExit::Exited(0), 0),
        (CommandExit::Exited(3), 3),
        (CommandExit::Signalled(9), 137),
    ] {
        let processes = FakeProcesses::new(ended);
        let fixture = processes.fixture();
        let output = fixture
            .run("shell", &json!({"command": "make test"}))
            .unwrap();
        assert_eq!(
            output.data,
            json!({
                "exit_code": code,
                "stdout": "said\n",
                "stderr": "",
                "left_out": 0,
                "confinement": "landlock",
            })
        );
        assert_eq!(output.touched, TouchedPaths::Unknown);
        let commands = processes.commands.lock().unwrap();
        let command = &commands[0];
        assert_eq!(command.argv, ["sh", "-c", "make test"]);
        assert_eq!(command.tree, fixture.path("").components().as_path());
        assert_eq!(command.scratch, fixture.sandbox.scratch);
        assert_eq!(
            (command.access, command.network),
            (TreeAccess::Writable, Network::Deny)
        );
        assert_eq!(command.timeout, Duration::from_secs(120));
    }
}

#[test]
fn a_requested_timeout_is_capped() {
    let processes = FakeProcesses::new(CommandExit::Exited(0));
    let settings = ShellSettings {
        timeout: Duration::from_secs(500),
        max_timeout: Duration::from_secs(60),
        ..ShellSettings::default()
    };
    let fixture = ToolFixture::with(Some(Arc::new(processes.clone())), settings);
    run(&fixture, "true");
    fixture.data("shell", &json!({"command": "true", "timeout": 5}));
    let commands = processes.commands.lock().unwrap();
    let timeouts: Vec<u64> = commands.iter().map(|it| it.timeout.as_secs()).collect();
    assert_eq!(timeouts, [60, 5]);
}

#[test]
fn no_process_runs_before_its_mark_is_announced() {
    let processes = FakeProcesses::new(CommandExit::Exited(0));
    let fixture = processes.fixture();
    let input = json!({"command": "true"});
    let tree = tree_id('b');
    let call = |announce: &(dyn Fn(&ProcessIdentity) -> Result<(), StoreError> + Sync)| {
        fixture.tool("shell").run(&ToolInvocation {
            input: &input,
            sandbox: &fixture.sandbox,
            tree: &tree,
            stamps: &fixture.stamps,
            stop: &fixture.stop,
            on_process_start: announce,
        })
    };
    let marked = |mark: &ProcessIdentity| {
        assert_eq!(mark.process_group, 7);
        processes.record_event("announce");
        Ok(())
    };
    call(&marked).unwrap();
    assert_eq!(
        *processes.events.lock().unwrap(),
        ["prepare", "announce", "go"]
    );
    processes.events.lock().unwrap().clear();
    let refused = |_: &ProcessIdentity| Err(StoreError::internal("no"));
    let failure = call(&refused);
    assert!(matches!(failure, Err(ToolFailure::Store(_))), "{failure:?}");
    assert_eq!(*processes.events.lock().unwrap(), ["prepare"]);
}

#[test]
fn a_stopped_or_unstartable_command_fails() {
    for why in [
        StopReason::TimedOut,
        StopReason::Cancelled,
        StopReason::LeaseLost,
    ] {
        let fixture = FakeProcesses::new(CommandExit::Stopped(why)).fixture();
        let failure = fixture.failure("shell", &json!({"command": "sleep 9"}));
        assert!(
            matches!(failure, ToolFailure::Stopped { why: found, touched: TouchedPaths::Unknown } if found == why),
            "{failure:?}"
        );
    }
    let fixture = FakeProcesses::new(CommandExit::Exited(0)).fixture();
    let failure = fixture.failure("shell", &json!({"command": "broken"}));
    assert!(matches!(failure, ToolFailure::Process(_)), "{failure:?}");
    let failure = fixture.failure("shell", &json!({"command": "a\0b"}));
    assert!(matches!(failure, ToolFailure::Input { .. }), "{failure:?}");
    let failure = ToolFixture::new().failure("shell", &json!({"command": "true"}));
    assert!(
        failure.to_string().contains("cannot run commands"),
        "{failure}"
    );
}

#[test]
fn the_middle_of_long_output_is_omitted() {
    let mut processes = FakeProcesses::new(CommandExit::Exited(0));
    processes.output = TruncatedOutput {
        start: b"begin".to_vec(),
        omitted_bytes: 1_000_000,
        end: b"end\n".to_vec(),
    };
    let data = run(&processes.fixture(), "yes");
    assert_eq!(data["stdout"], "begin\n[… 1000000 bytes left out …]\nend\n");
    assert_eq!(data["left_out"], 1_000_000);
}

#[test]
fn a_shell_without_network_isolation_declares_it() {
    let mut processes = FakeProcesses::new(CommandExit::Exited(0));
    let fixture = processes.fixture();
    let capability = &fixture.tool("shell").definition().capability;
    assert!(capability.side_effects[0].contains("cannot be denied fully"));
    assert_eq!(capability.repeatable, Repeatability::OnceOnly);
    processes.denies_network = true;
    let fixture = processes.fixture();
    let capability = &fixture.tool("shell").definition().capability;
    assert_eq!(capability.side_effects, [""; 0]);
    assert_eq!(capability.repeatable, Repeatability::Idempotent);
}
