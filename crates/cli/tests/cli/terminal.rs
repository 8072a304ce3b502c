//! Output on a terminal, tested with a pseudo-terminal.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::environment::TestEnvironment;
use crate::plan_fixture::create_plan;

/// Returns everything that the program writes to a terminal of this width.
fn terminal_output(environment: &TestEnvironment, arguments: &[&str], width: u16) -> String {
    let command = environment.command(arguments);
    run_on_terminal(command, width, None).0
}

/// Like [`terminal_output`], with the exit code.
pub(crate) fn terminal_output_and_code(
    environment: &TestEnvironment,
    arguments: &[&str],
) -> (String, Option<i32>) {
    run_on_terminal(environment.command(arguments), 100, None)
}

/// Like [`terminal_output`], with a typed reply.
pub(crate) fn terminal_output_with_reply(
    environment: &TestEnvironment,
    arguments: &[&str],
    reply: &str,
) -> String {
    run_on_terminal(environment.command(arguments), 100, Some(reply)).0
}

fn run_on_terminal(mut command: Command, width: u16, reply: Option<&str>) -> (String, Option<i32>) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let size = Winsize {
        ws_row: 40,
        ws_col: width,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&ours, size).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
    let theirs = OpenOptions::new()
        .read(true)
        .write(true)
        .open(name)
        .unwrap();
    if reply.is_some() {
        command.stdin(Stdio::from(theirs.try_clone().unwrap()));
    }
    command
        .stdout(Stdio::from(theirs.try_clone().unwrap()))
        .stderr(Stdio::from(theirs));
    let mut child = command.spawn().unwrap();
    // Our copies of the other end would keep the terminal open forever.
    drop(command);
    let mut bytes = Vec::new();
    let mut terminal = File::from(ours);
    // The terminal buffers the input until it is read.
    terminal
        .write_all(reply.unwrap_or_default().as_bytes())
        .unwrap();
    // Linux reports a closed terminal as an error after the last byte.
    let _ = terminal.read_to_end(&mut bytes);
    let ended = child.wait().unwrap();
    let text = String::from_utf8(bytes).unwrap().replace("\r\n", "\n");
    (text, ended.code())
}

#[test]
fn boxes_fit_the_width_of_the_terminal() {
    let environment = TestEnvironment::new();
    let text = terminal_output(&environment, &["config", "list"], 72);
    assert!(text.contains('\x1b') && text.contains('╭'), "{text}");
    let plain: Vec<usize> = text
        .lines()
        .map(|line| strip_colour(line).chars().count())
        .collect();
    assert!(plain.iter().all(|width| *width == plain[0]), "{text}");
    assert!(plain[0] <= 72, "{text}");
    let text = terminal_output(
        &environment,
        &["config", "set", "plan.concurrency", "2"],
        72,
    );
    let footer = strip_colour(text.lines().last().unwrap());
    assert_eq!(footer, "✓ OK plan.concurrency set");
}

#[test]
fn colour_can_be_refused_and_dumb_terminals_get_plain() {
    let mut environment = TestEnvironment::new();
    environment.set_variable("NO_COLOR", "1");
    let text = terminal_output(&environment, &["version"], 80);
    assert!(!text.contains('\x1b') && text.contains('╭'), "{text}");
    environment.remove_variable("NO_COLOR");
    environment.set_variable("TERM", "dumb");
    for arguments in [&["version"][..], &["version", "-f", "rich"], &["nope"]] {
        let text = terminal_output(&environment, arguments, 80);
        assert!(!text.contains(['\x1b', '╭']), "{text}");
    }
}

#[test]
fn a_very_narrow_terminal_works() {
    let environment = TestEnvironment::new();
    for width in [1, 20, 33] {
        for format in ["rich", "color", "table", "plain"] {
            let text = terminal_output(&environment, &["config", "list", "-f", format], width);
            assert!(text.contains("core"), "{text}");
        }
    }
}

#[test]
fn a_restore_needs_confirmation() {
    let environment = TestEnvironment::new();
    environment.run(&["init"]).succeeded();
    environment.run(&["backup", "saved.tar"]).succeeded();
    let restore = ["restore", "saved.tar", "--force"];
    let text = terminal_output_with_reply(&environment, &restore, "n\n");
    assert!(text.contains("Replace 2 events in "), "{text}");
    assert!(text.contains("nothing was restored"), "{text}");
    assert!(!environment.path(".cleveragents/backups").exists());
    let text = terminal_output_with_reply(&environment, &restore, "yes\n");
    assert!(text.contains("restored and verified"), "{text}");
    let text = terminal_output_with_reply(&environment, &[&restore[..], &["--yes"]].concat(), "");
    assert!(!text.contains("[y/N]"), "{text}");
    assert!(text.contains("restored and verified"), "{text}");
}

#[test]
fn deleting_a_project_needs_confirmation() {
    let environment = TestEnvironment::new();
    environment.run(&["project", "create", "shop"]).succeeded();
    let delete = ["project", "delete", "shop"];
    let text = terminal_output_with_reply(&environment, &delete, "n\n");
    assert!(text.contains("Delete project local/shop? [y/N]"), "{text}");
    assert!(text.contains("nothing was deleted"), "{text}");
    environment.run(&["project", "show", "shop"]).succeeded();
    create_plan(&environment, "local/shop");
    let text = terminal_output_with_reply(&environment, &delete, "y\n");
    assert!(!text.contains("[y/N]"), "{text}");
    let forced = [&delete[..], &["--force"]].concat();
    let text = terminal_output_with_reply(&environment, &forced, "y\n");
    assert!(text.contains("and cancel 1 plan? [y/N]"), "{text}");
    assert!(text.contains("project local/shop deleted"), "{text}");
    let run = environment.run(&["project", "show", "shop"]);
    assert_eq!(run.code, Some(3), "{run:?}");
}

pub(crate) fn strip_colour(line: &str) -> String {
    let mut clean = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('\x1b') {
        clean.push_str(before);
        let end = |c: char| c.is_ascii_alphabetic();
        rest = after.split_once(end).map_or("", |(_, rest)| rest);
    }
    clean + rest
}
