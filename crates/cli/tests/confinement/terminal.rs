//! An owner at a terminal: its commands cannot reach it.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::path::Path;
use std::process::Stdio;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::world::{ConfinementWorld, LEVELS, owner_request, write};

/// Types into the terminal, by its name and as its controlling one.
const TYPE_SCRIPT: &str = "python3 -c 'import fcntl, termios, sys
for name in sys.argv[1:]:
    try:
        with open(name, \"rb+\", buffering=0) as terminal:
            fcntl.ioctl(terminal, termios.TIOCSTI, b\"x\")
            print(\"ESCAPED\")
    except OSError as error:
        print(error)' /dev/tty TERMINAL; echo tried";

#[test]
fn a_command_cannot_type_into_its_owners_terminal() {
    for level in LEVELS {
        let world = ConfinementWorld::new(level);
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
        let open = || {
            let terminal = OpenOptions::new().read(true).write(true).open(&name);
            Stdio::from(terminal.unwrap())
        };
        write(
            &world.tree().join("types"),
            &TYPE_SCRIPT.replace("TERMINAL", &name),
        );
        let this = std::env::current_exe().unwrap();
        // `setsid` gives the owner the terminal as its controlling one.
        let mut command = world.other_process(Path::new("setsid"), level);
        command.args(["--ctty", "--wait"]).arg(this);
        command.args([
            "--exact",
            "terminal::helper_process_has_a_terminal",
            "--nocapture",
        ]);
        command.stdin(open()).stdout(open()).stderr(open());
        let mut owner = command.spawn().unwrap();
        drop(command);
        let mut said = Vec::new();
        // Linux reports the closed terminal as an error behind the last byte.
        let _ = File::from(ours).read_to_end(&mut said);
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(owner.wait().unwrap().success(), "{level}: {said}");
        assert!(said.contains("the owner has a terminal"), "{level}: {said}");
        assert!(said.contains("tried"), "{level}: {said}");
        assert!(!said.contains("ESCAPED"), "{level}: {said}");
    }
}

/// The owner of the test above: has its terminal, and runs what was laid into the tree. By itself
/// it looks whether a command without a terminal finds one.
#[test]
fn helper_process_has_a_terminal() {
    let Some((level, root)) = owner_request() else {
        let world = ConfinementWorld::new(LEVELS[0]);
        assert_eq!(world.run_script("echo x > /dev/tty || echo none"), "none\n");
        return;
    };
    let world = ConfinementWorld::reopen(level, &root);
    if File::open("/dev/tty").is_ok() {
        println!("the owner has a terminal");
    }
    println!("{}", world.run_script("sh ./types"));
}
