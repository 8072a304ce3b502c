//! The shell: what is asked of the port of processes, in which order, and what is told.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use cleveragents_domain::process::{Confinement, Network, ProcessMark};
use cleveragents_domain::tool::Repeatable;
use cleveragents_engine::ports::processes::{
    ConfinedCommand, Ended, Finished, Kept, ProcessError, ProcessResult, Processes, TreeAccess,
    Waiting,
};
use cleveragents_engine::ports::sandbox::Touched;
use cleveragents_engine::ports::tools::{Call, ToolFailure};
use cleveragents_engine::ports::{Stop, Stopped, StoreError};
use cleveragents_tools::ShellSettings;
use serde_json::{Value, json};

use crate::world::{World, tree_id};

/// Plays commands: records what it is asked, and ends as it was told to.
#[derive(Debug, Clone)]
struct Played {
    ended: Ended,
    output: Kept,
    seen: Arc<Mutex<Vec<String>>>,
    commands: Arc<Mutex<Vec<ConfinedCommand>>>,
    denies_network: bool,
}

impl Played {
    fn new(ended: Ended) -> Self {
        Self {
            ended,
            output: Kept {
                start: b"said\n".to_vec(),
                left_out: 0,
                end: Vec::new(),
            },
            seen: Arc::default(),
            commands: Arc::default(),
            denies_network: false,
        }
    }

    fn world(&self) -> World {
        World::with(Some(Arc::new(self.clone())), ShellSettings::default())
    }

    fn note(&self, what: &str) {
        self.seen.lock().unwrap().push(what.to_owned());
    }
}

impl Processes for Played {
    fn confinement(&self) -> ProcessResult<Confinement> {
        Ok(Confinement::Landlock)
    }

    fn denies_network(&self) -> bool {
        self.denies_network
    }

    fn prepare(&self, command: &ConfinedCommand) -> ProcessResult<Box<dyn Waiting>> {
        self.note("prepare");
        self.commands.lock().unwrap().push(command.clone());
        if command.argv[2].to_str() == Some("broken") {
            let reason = "no such shell".into();
            return Err(ProcessError::Start { reason });
        }
        Ok(Box::new(PlayedWaiting {
            played: self.clone(),
            mark: ProcessMark {
                process_group: 7,
                started: 1,
                boot_id: "boot".into(),
                confinement: Confinement::Landlock,
            },
        }))
    }

    fn end(&self, _: &ProcessMark) -> ProcessResult<()> {
        Ok(())
    }
}

#[derive(Debug)]
struct PlayedWaiting {
    played: Played,
    mark: ProcessMark,
}

impl Waiting for PlayedWaiting {
    fn mark(&self) -> &ProcessMark {
        &self.mark
    }

    fn go(self: Box<Self>, _: &Stop) -> ProcessResult<Finished> {
        self.played.note("go");
        Ok(Finished {
            ended: self.played.ended,
            stdout: self.played.output.clone(),
            stderr: Kept {
                start: Vec::new(),
                left_out: 0,
                end: Vec::new(),
            },
            elapsed: Duration::from_secs(1),
        })
    }
}

fn run(world: &World, command: &str) -> Value {
    world.data("shell", &json!({"command": command}))
}

#[test]
fn a_command_runs_in_the_tree_confined_and_its_end_is_told() {
    for (ended, code) in [
        (Ended::Exited(0), 0),
        (Ended::Exited(3), 3),
        (Ended::Signalled(9), 137),
    ] {
        let played = Played::new(ended);
        let world = played.world();
        let output = world
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
        assert_eq!(output.touched, Touched::Unknown);
        let commands = played.commands.lock().unwrap();
        let command = &commands[0];
        assert_eq!(command.argv, ["sh", "-c", "make test"]);
        assert_eq!(command.tree, world.path("").components().as_path());
        assert_eq!(command.scratch, world.sandbox.scratch);
        assert_eq!(
            (command.access, command.network),
            (TreeAccess::Writable, Network::Deny)
        );
        assert_eq!(command.timeout, Duration::from_secs(120));
    }
}

#[test]
fn a_timeout_is_as_asked_and_never_longer_than_allowed() {
    let played = Played::new(Ended::Exited(0));
    let settings = ShellSettings {
        timeout: Duration::from_secs(500),
        longest: Duration::from_secs(60),
        ..ShellSettings::default()
    };
    let world = World::with(Some(Arc::new(played.clone())), settings);
    run(&world, "true");
    world.data("shell", &json!({"command": "true", "timeout": 5}));
    let commands = played.commands.lock().unwrap();
    let timeouts: Vec<u64> = commands.iter().map(|it| it.timeout.as_secs()).collect();
    assert_eq!(timeouts, [60, 5]);
}

#[test]
fn nothing_runs_before_its_mark_is_known() {
    let played = Played::new(Ended::Exited(0));
    let world = played.world();
    let input = json!({"command": "true"});
    let tree = tree_id('b');
    let call = |announce: &(dyn Fn(&ProcessMark) -> Result<(), StoreError> + Sync)| {
        world.tool("shell").run(&Call {
            input: &input,
            sandbox: &world.sandbox,
            tree: &tree,
            stamps: &world.stamps,
            stop: &world.stop,
            announce,
        })
    };
    let marked = |mark: &ProcessMark| {
        assert_eq!(mark.process_group, 7);
        played.note("announce");
        Ok(())
    };
    call(&marked).unwrap();
    assert_eq!(*played.seen.lock().unwrap(), ["prepare", "announce", "go"]);
    played.seen.lock().unwrap().clear();
    let refused = |_: &ProcessMark| Err(StoreError::internal("no"));
    let failure = call(&refused);
    assert!(matches!(failure, Err(ToolFailure::Store(_))), "{failure:?}");
    assert_eq!(*played.seen.lock().unwrap(), ["prepare"]);
}

#[test]
fn what_was_stopped_or_could_not_start_is_a_failure() {
    for why in [Stopped::TimedOut, Stopped::Cancelled, Stopped::LeaseLost] {
        let world = Played::new(Ended::Stopped(why)).world();
        let failure = world.failure("shell", &json!({"command": "sleep 9"}));
        assert!(
            matches!(failure, ToolFailure::Stopped { why: found, touched: Touched::Unknown } if found == why),
            "{failure:?}"
        );
    }
    let world = Played::new(Ended::Exited(0)).world();
    let failure = world.failure("shell", &json!({"command": "broken"}));
    assert!(matches!(failure, ToolFailure::Process(_)), "{failure:?}");
    let failure = world.failure("shell", &json!({"command": "a\0b"}));
    assert!(matches!(failure, ToolFailure::Input { .. }), "{failure:?}");
    let failure = World::new().failure("shell", &json!({"command": "true"}));
    assert!(
        failure.to_string().contains("nobody to run commands"),
        "{failure}"
    );
}

#[test]
fn long_output_has_its_middle_left_out() {
    let mut played = Played::new(Ended::Exited(0));
    played.output = Kept {
        start: b"begin".to_vec(),
        left_out: 1_000_000,
        end: b"end\n".to_vec(),
    };
    let data = run(&played.world(), "yes");
    assert_eq!(data["stdout"], "begin\n[… 1000000 bytes left out …]\nend\n");
    assert_eq!(data["left_out"], 1_000_000);
}

#[test]
fn a_shell_that_cannot_be_cut_off_from_the_network_says_so() {
    let mut played = Played::new(Ended::Exited(0));
    let world = played.world();
    let capability = &world.tool("shell").definition().capability;
    assert!(capability.side_effects[0].contains("cannot be denied fully"));
    assert_eq!(capability.repeatable, Repeatable::OnceOnly);
    played.denies_network = true;
    let world = played.world();
    let capability = &world.tool("shell").definition().capability;
    assert_eq!(capability.side_effects, [""; 0]);
    assert_eq!(capability.repeatable, Repeatable::Idempotent);
}
