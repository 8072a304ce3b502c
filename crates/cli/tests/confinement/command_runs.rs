//! How a command is started, gets its input, returns its output and ends.

use std::os::fd::AsRawFd;
use std::time::Duration;

use cleveragents_domain::process::Confinement;
use cleveragents_ports::processes::{CommandExit, ProcessError};
use cleveragents_ports::stop::{StopReason, StopSignal};

use rustix::fs::{Mode, OFlags, open};

use crate::world::{ConfinementWorld, LEVELS, text, write};

const ALL_LEVELS: [Confinement; 3] = [
    Confinement::Namespaces,
    Confinement::Landlock,
    Confinement::None,
];

#[test]
fn exit_codes_and_signals_are_reported() {
    for level in ALL_LEVELS {
        let world = ConfinementWorld::new(level);
        assert_eq!(world.processes.confinement(), Ok(level));
        for (script, expected) in [
            ("true", CommandExit::Exited(0)),
            ("exit 3", CommandExit::Exited(3)),
            ("exit 125", CommandExit::Exited(125)),
            ("kill -SEGV $$", CommandExit::Signalled(11)),
            ("kill -KILL $$", CommandExit::Signalled(9)),
        ] {
            let finished = world.run(&world.command(script));
            assert_eq!(finished.exit, expected, "{level}: {script}");
        }
        let waiting = world.processes.prepare(&world.command("true")).unwrap();
        let mark = waiting.identity().clone();
        assert_eq!(mark.confinement, level);
        assert!(mark.process_group > 1 && mark.started > 0 && !mark.boot_id.is_empty());
    }
}

#[test]
fn open_files_of_the_owner_do_not_reach_a_command() {
    for level in ALL_LEVELS {
        let world = ConfinementWorld::new(level);
        let secret = world.path("left-open");
        write(&secret, "a secret");
        // Opened without `CLOEXEC`, so a child would inherit it.
        let left_open = open(&secret, OFlags::RDONLY, Mode::empty()).unwrap();
        let number = left_open.as_raw_fd();
        let script = format!("test -L /proc/self/fd/{number} && echo open || echo closed");
        assert_eq!(world.run_script(&script), "closed\n", "{level}");
    }
}

#[test]
fn a_command_that_cannot_start_is_reported() {
    for level in ALL_LEVELS {
        let world = ConfinementWorld::new(level);
        for argv in [&["no-such-program"][..], &["./absent"], &["./a"], &["/"]] {
            let error = world.try_run(&world.argv_command(argv)).unwrap_err();
            let expected = format!(
                "the command cannot be started: there is no program `{}`",
                argv[0]
            );
            assert_eq!(error.to_string(), expected, "{level}");
        }
        let empty = world.try_run(&world.argv_command(&[])).unwrap_err();
        assert!(matches!(empty, ProcessError::Start { .. }), "{empty}");
        let mut nowhere = world.command("true");
        nowhere.tree = world.path("absent");
        assert!(matches!(
            world.try_run(&nowhere),
            Err(ProcessError::Start { .. })
        ));
    }
}

#[test]
fn the_internal_run_command_is_hidden_and_guarded() {
    let world = ConfinementWorld::new(Confinement::None);
    for (arguments, complaint) in [
        (
            &["__run"][..],
            "agents: this is how agents starts commands, for its own use\n",
        ),
        (
            &["__run", "--help"],
            "agents: this is how agents starts commands, for its own use\n",
        ),
        (&["__run", "--policy"], "agents: --policy needs a text\n"),
        (&["__run", "--", "true"], "agents: no policy is given\n"),
    ] {
        let output = world.run_agents(arguments);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            (output.status.code(), message.as_str()),
            (Some(2), complaint)
        );
        assert!(output.stdout.is_empty());
    }
    let help = String::from_utf8(world.run_agents(&["--help"]).stdout).unwrap();
    assert!(
        help.contains("diagnostics") && !help.contains("__run"),
        "{help}"
    );
}

#[test]
fn input_and_output_are_passed_unchanged() {
    for level in ALL_LEVELS {
        let world = ConfinementWorld::new(level);
        let bytes: Vec<u8> = (0..=255).cycle().take(300_000).collect();
        let mut command = world.command("cat; printf told >&2");
        command.stdin = bytes.clone();
        let finished = world.run(&command);
        assert_eq!(
            [finished.stdout.start, finished.stdout.end].concat(),
            bytes,
            "{level}"
        );
        assert_eq!(text(&finished.stderr), "told", "{level}");
        // A command may ignore its input.
        let mut command = world.command("exit 4");
        command.stdin = vec![b'x'; 1 << 20];
        assert_eq!(world.run(&command).exit, CommandExit::Exited(4), "{level}");
        assert_eq!(world.run_script("cat"), "", "{level}");
    }
}

#[test]
fn large_output_keeps_its_start_and_end() {
    for level in LEVELS {
        let world = ConfinementWorld::new(level);
        let script = "(echo start; head -c 50000000 /dev/zero; echo end) & \
            (echo START; head -c 50000000 /dev/zero; echo END) >&2; wait";
        let mut command = world.command(script);
        command.output_limit = 1000;
        let finished = world.run(&command);
        assert_eq!(finished.exit, CommandExit::Exited(0), "{level}");
        for (kept, start, end) in [
            (&finished.stdout, &b"start\n\0"[..], &b"\0end\n"[..]),
            (&finished.stderr, b"START\n\0", b"\0END\n"),
        ] {
            assert!(
                kept.start.starts_with(start) && kept.end.ends_with(end),
                "{level}"
            );
            assert_eq!((kept.start.len(), kept.end.len()), (500, 500), "{level}");
            assert_eq!(kept.omitted_bytes, 50_000_000 + 6 + 4 - 1000, "{level}");
        }
    }
}

#[test]
fn a_command_that_takes_too_long_is_ended() {
    for level in ALL_LEVELS {
        let world = ConfinementWorld::new(level);
        let mut command = world.command("echo begun; trap '' TERM HUP INT; sleep 1000; echo ended");
        command.timeout = Duration::from_millis(300);
        let finished = world.run(&command);
        assert_eq!(
            finished.exit,
            CommandExit::Stopped(StopReason::TimedOut),
            "{level}"
        );
        assert_eq!(text(&finished.stdout), "begun\n", "{level}");
        assert!(finished.elapsed >= command.timeout, "{level}");
    }
}

#[test]
fn nothing_runs_without_the_required_level() {
    let world = ConfinementWorld::with_settings(Confinement::Namespaces, &[]);
    let mut environment = world.environment().clone();
    environment
        .variables
        .insert("PATH".to_owned(), "/nonexistent".into());
    let processes = world
        .bootstrap
        .processes(&world.settings, &environment)
        .unwrap();
    let error = processes.prepare(&world.command("true")).unwrap_err();
    let expected = "commands cannot be confined here: bubblewrap is not installed";
    assert_eq!(error.to_string(), expected);
    assert_eq!(processes.confinement().unwrap_err(), error);
}

#[test]
fn a_stop_before_the_start_signal_prevents_the_run() {
    for level in ALL_LEVELS {
        let world = ConfinementWorld::new(level);
        let waiting = world
            .processes
            .prepare(&world.command("touch ran"))
            .unwrap();
        let stop = StopSignal::new();
        stop.stop(StopReason::LeaseLost);
        let finished = waiting.run(&stop).unwrap();
        assert_eq!(
            finished.exit,
            CommandExit::Stopped(StopReason::LeaseLost),
            "{level}"
        );
        drop(
            world
                .processes
                .prepare(&world.command("touch ran"))
                .unwrap(),
        );
        assert!(!world.tree().join("ran").exists(), "{level}");
    }
}
