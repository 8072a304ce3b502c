//! A command that exceeds a limit is killed, and the result names the limit.

use std::fs;

use cleveragents_domain::process::Confinement;
use cleveragents_ports::limits::{Limit, OverLimit};
use cleveragents_ports::processes::CommandExit;

use crate::world::{ConfinementWorld, text};

const ALL_LEVELS: [Confinement; 3] = [
    Confinement::Namespaces,
    Confinement::Landlock,
    Confinement::None,
];

/// Runs a script that must be killed by this limit; returns the reported excess.
#[track_caller]
fn run_over_limit(world: &ConfinementWorld, script: &str, limit: Limit) -> OverLimit {
    let finished = world.run(&world.command(script));
    match finished.exit {
        CommandExit::OverLimit(over) if over.limit == limit => over,
        other => panic!("{other:?}: {}", text(&finished.stderr)),
    }
}

#[test]
fn a_fork_bomb_is_ended_at_the_limit_of_processes() {
    for level in ALL_LEVELS {
        let world = ConfinementWorld::with_settings(level, &["sandbox.limits.processes=40"]);
        // Each branch exits by itself long after the test would have failed.
        let bomb = "bomb() { test $1 -gt 8 && sleep 600 && return; \
                    bomb $(($1 + 1)) & bomb $(($1 + 1)) & wait; }; bomb 0";
        let found = run_over_limit(&world, bomb, Limit::Processes);
        assert_eq!(found.allowed, 40, "{level}");
        assert!(found.found > Some(40), "{level}: {found}");
        // Nothing of it is left, so the next command can run.
        assert_eq!(world.run_script("echo done"), "done\n", "{level}");
    }
}

#[test]
fn threads_count_as_processes_do() {
    let world =
        ConfinementWorld::with_settings(Confinement::None, &["sandbox.limits.processes=40"]);
    let threads = "exec python3 -c 'import threading, time\n\
                   for i in range(200): threading.Thread(target=time.sleep, args=(600,)).start()'";
    run_over_limit(&world, threads, Limit::Processes);
}

#[test]
fn a_command_that_takes_too_much_memory_is_ended() {
    for level in ALL_LEVELS {
        let world = ConfinementWorld::with_settings(level, &["sandbox.limits.memory-mib=64"]);
        let hog = "exec python3 -c 'import time; kept = b\"x\" * (200 << 20); time.sleep(600)'";
        let found = run_over_limit(&world, hog, Limit::Memory);
        assert_eq!(found.allowed, 64 << 20, "{level}");
        let message = found.to_string();
        assert!(message.contains("`sandbox.limits.memory-mib`"), "{message}");
    }
}

#[test]
fn folders_in_memory_hold_no_more_than_the_limit_of_memory() {
    let settings = ["sandbox.limits.memory-mib=64"];
    let world = ConfinementWorld::with_settings(Confinement::Namespaces, &settings);
    for folder in ["/tmp", "/var/tmp", "/run", "/dev/shm"] {
        let fill = format!("head -c 40000000 /dev/zero > {folder}/file");
        let finished = world.run(&world.command(&fill));
        let said = text(&finished.stderr);
        assert_eq!(finished.exit, CommandExit::Exited(1), "{folder}: {said}");
        assert!(said.contains("No space left on device"), "{folder}: {said}");
    }
    let sizes = world.run_script("df -k --output=size /tmp /var/tmp /run /dev/shm");
    let sizes: Vec<u64> = sizes
        .lines()
        .filter_map(|it| it.trim().parse().ok())
        .collect();
    assert_eq!(sizes.len(), 4, "{sizes:?}");
    assert!(sizes.iter().sum::<u64>() <= 64 << 10, "{sizes:?}");
    world.run_script("head -c 10000000 /dev/zero > /tmp/small");
}

#[test]
fn shared_memory_counts_once() {
    let world =
        ConfinementWorld::with_settings(Confinement::None, &["sandbox.limits.memory-mib=200"]);
    let sharing = "import mmap, os, time\n\
                   kept = mmap.mmap(-1, 100 << 20)\n\
                   kept.write(bytes(100 << 20))\n\
                   children = [os.fork() for _ in range(2)]\n\
                   total = sum(kept[at] for at in range(0, 100 << 20, 4096))\n\
                   time.sleep(1)\n";
    let finished = world.run(&world.argv_command(&["python3", "-c", sharing]));
    assert_eq!(
        finished.exit,
        CommandExit::Exited(0),
        "{}",
        text(&finished.stderr)
    );
}

#[test]
fn no_file_grows_beyond_its_limit() {
    for level in ALL_LEVELS {
        let world = ConfinementWorld::with_settings(level, &["sandbox.limits.file-mib=1"]);
        for script in [
            "truncate -s 1T x",
            "head -c 2000000 /dev/zero > y",
            "true; head -c 2000000 /dev/zero > \"$HOME/z\"",
        ] {
            let found = run_over_limit(&world, script, Limit::FileSize);
            assert_eq!(found.allowed, 1 << 20, "{level}: {script}");
        }
        for name in ["x", "y"] {
            let size = fs::metadata(world.tree().join(name)).unwrap().len();
            assert!(size <= 1 << 20, "{level}: {name} has {size}");
        }
        world.run_script("head -c 1000000 /dev/zero > small");
    }
}

#[test]
fn a_sandbox_that_takes_too_much_space_ends_its_command() {
    for level in ALL_LEVELS {
        let world = ConfinementWorld::with_settings(level, &["sandbox.limits.disk-mib=8"]);
        let fills =
            "for i in 1 2 3; do head -c 5000000 /dev/urandom > \"$HOME/$i\"; done; sleep 600";
        run_over_limit(&world, fills, Limit::Disk);
        world.run_script("rm -r \"$HOME\"/[123]");
    }
}

#[test]
fn no_command_leaves_a_core_dump() {
    for level in ALL_LEVELS {
        let world = ConfinementWorld::new(level);
        assert_eq!(
            world.run_script("ulimit -c; ulimit -Hc"),
            "0\n0\n",
            "{level}"
        );
    }
}
