//! Operations that commands need and that confinement allows.

use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use cleveragents_domain::process::Network;
use cleveragents_ports::processes::{CommandExit, TreeAccess};

use crate::world::{ConfinementWorld, LEVELS, write};

#[test]
fn a_command_works_in_its_tree_with_a_home_of_its_own() {
    for level in LEVELS {
        let world = ConfinementWorld::new(level);
        let scratch = world.sandbox.scratch().unwrap();
        for (script, said) in [
            ("pwd", format!("{}\n", world.tree().display())),
            (
                "cat a dir/b; echo 2 >> a; mkdir new; echo 3 > new/c; rm dir/b",
                "1\n1\n".to_owned(),
            ),
            (
                "mv new/c c && ln c d && ln -s c e && mkfifo f && chmod 600 c && cat e",
                "3\n".into(),
            ),
            (
                "echo \"$HOME\"; cd; echo x > file; cat file",
                format!("{}\nx\n", scratch.display()),
            ),
            (
                "f=$(mktemp) && echo y > \"$f\" && cat \"$f\"",
                "y\n".to_owned(),
            ),
            ("echo x > /dev/null; echo \"$LANG\"", "C.UTF-8\n".to_owned()),
            ("echo x | tee /dev/stderr /dev/stdout", "x\nx\n".to_owned()),
            ("cat /dev/stdin", String::new()),
            ("cat $CARGO_HOME/registry/cached", "cached".to_owned()),
            (
                "ls /usr/bin/env; head -c1 /dev/urandom | wc -c",
                "/usr/bin/env\n1\n".to_owned(),
            ),
        ] {
            assert_eq!(world.run_script(script), said, "{level}: {script}");
        }
        assert_eq!(
            fs::read_to_string(world.tree().join("a")).unwrap(),
            "1\n2\n"
        );
    }
}

#[test]
fn git_reads_the_history_in_the_tree_and_writes_nothing() {
    for level in LEVELS {
        let world = ConfinementWorld::new(level);
        let before = world.files_outside_the_tree();
        assert_eq!(
            world.run_script("git log --format=%s"),
            "a commit\n",
            "{level}"
        );
        assert_eq!(
            world.run_script("echo 2 > a; git status --short"),
            " M a\n",
            "{level}"
        );
        assert!(world.run_script("git diff").contains("+2"), "{level}");
        assert_eq!(world.run_script("git show HEAD:dir/b"), "1\n", "{level}");
        let script = "git add a || git commit -qam x || git config a.b c || git tag t";
        let finished = world.run(&world.command(script));
        assert!(
            matches!(finished.exit, CommandExit::Exited(code) if code != 0),
            "{level}"
        );
        assert_eq!(world.files_outside_the_tree(), before, "{level}");
    }
}

/// Repository, data directory and sandbox may be below `/tmp`, which commands see as an empty
/// folder of their own.
#[test]
fn a_repository_below_tmp_works_like_any_other() {
    for level in LEVELS {
        let world = ConfinementWorld::new_in(Path::new("/tmp"), level, &[]);
        let before = world.files_outside_the_tree();
        assert_eq!(
            world.run_script("git log --format=%s; cat a; echo 2 > a"),
            "a commit\n1\n",
            "{level}"
        );
        let outside = world.path("outside");
        world.run_script(&format!(
            "! cat {0}/file && ! echo x > {0}/new",
            outside.display()
        ));
        assert_eq!(world.files_outside_the_tree(), before, "{level}");
        assert_eq!(fs::read_to_string(world.tree().join("a")).unwrap(), "2\n");
    }
}

#[test]
fn a_tree_can_be_read_only() {
    for level in LEVELS {
        let world = ConfinementWorld::new(level);
        let mut command = world.command("cat a; echo x > a; echo x > new; rm a; echo x > ~/mine");
        command.access = TreeAccess::ReadOnly;
        let finished = world.run(&command);
        assert_eq!(finished.exit, CommandExit::Exited(0), "{level}");
        assert_eq!(finished.stdout.start, b"1\n", "{level}");
        assert_eq!(fs::read_to_string(world.tree().join("a")).unwrap(), "1\n");
        assert!(!world.tree().join("new").exists(), "{level}");
    }
}

#[test]
fn configured_paths_are_writable_but_not_our_data() {
    for level in LEVELS {
        let paths = "sandbox.writable-paths=ROOT/outside,~/.cache,ROOT/home/.cleveragents,/nowhere";
        let world = ConfinementWorld::with_settings(level, &[paths]);
        write(&world.path("home/.cache/old"), "old");
        // When `agents` runs as root, commands run as a separate user that needs write permission
        // there.
        for name in ["outside", "home/.cache"] {
            let everybody = fs::Permissions::from_mode(0o777);
            fs::set_permissions(world.path(name), everybody).unwrap();
        }
        let script = format!(
            "echo new > {0}/outside/new && echo new > {0}/home/.cache/new && \
             ! echo x > {0}/home/.cleveragents/new && ! cat {0}/home/.cleveragents/node",
            world.root().display()
        );
        world.run_script(&script);
        for name in ["outside/new", "home/.cache/new"] {
            assert_eq!(
                fs::read_to_string(world.path(name)).unwrap(),
                "new\n",
                "{level}"
            );
        }
        assert!(!world.path("home/.cleveragents/new").exists());
    }
}

/// Servers and clients of a test can communicate inside the command's own network namespace.
#[test]
fn a_command_can_use_loopback_without_a_network() {
    let world = ConfinementWorld::new(cleveragents_domain::process::Confinement::Namespaces);
    for (family, address) in [
        ("AF_INET", "(\"127.0.0.1\", 0)"),
        ("AF_UNIX", "\"socket\""),
        ("AF_UNIX", "\"/tmp/socket\""),
        ("AF_UNIX", "\"\\0own\""),
    ] {
        let script = format!(
            "python3 -c 'import socket
server = socket.socket(socket.{family})
server.bind({address})
server.listen()
client = socket.socket(socket.{family})
client.connect(server.getsockname())
client.send(b\"x\")
print(server.accept()[0].recv(1))'"
        );
        assert_eq!(world.run_script(&script), "b'x'\n", "{family} {address}");
    }
}

#[test]
fn the_network_works_when_allowed() {
    for level in LEVELS {
        let world = ConfinementWorld::new(level);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let script = format!(
            "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port})).send(b\"x\")'"
        );
        let mut command = world.command(&script);
        command.network = Network::Allow;
        assert_eq!(world.run(&command).exit, CommandExit::Exited(0), "{level}");
        let mut received = [0];
        listener
            .accept()
            .unwrap()
            .0
            .read_exact(&mut received)
            .unwrap();
        assert_eq!(received, *b"x", "{level}");
    }
}
