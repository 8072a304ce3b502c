//! Commands cannot reach the terminal of their owner.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::path::Path;
use std::process::Stdio;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::world::{ConfinementWorld, LEVELS, owner_request, write};

/// Injects input into the terminal, by its name and as the controlling terminal.
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
        // `setsid` makes the terminal the owner's controlling terminal.
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
        // Linux reports a closed terminal as an error after the last byte.
        let _ = File::from(ours).read_to_end(&mut said);
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(owner.wait().unwrap().success(), "{level}: {said}");
        assert!(said.contains("the owner has a terminal"), "{level}: {said}");
        assert!(said.contains("tried"), "{level}: {said}");
        assert!(!said.contains("ESCAPED"), "{level}: {said}");
    }
}

/// The owner of the test above: has its terminal, and runs the script from the tree. Run as a
/// normal test, it checks that a command without a terminal finds none.
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
