//! A pseudo-terminal, so that programs print what users see.

use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::process;

/// Returns everything a command writes to a terminal of that width. Fails if the command fails.
pub(super) fn capture_terminal(mut command: Command, columns: u16) -> Result<String> {
    let shown = process::command_line(&command);
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).context("no pseudo-terminal")?;
    grantpt(&ours)?;
    unlockpt(&ours)?;
    let size = Winsize {
        ws_row: 50,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&ours, size)?;
    let name = ptsname(&ours, Vec::new())?.into_string()?;
    let theirs = OpenOptions::new().read(true).write(true).open(name)?;
    command
        .stdin(Stdio::null())
        .stdout(theirs.try_clone()?)
        .stderr(theirs);
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot start `{shown}`"))?;
    // The command keeps our copies of the other end, which would keep the terminal open forever.
    drop(command);
    let mut bytes = Vec::new();
    // Linux reports the closed terminal as an error after the last byte.
    let _ = File::from(ours).read_to_end(&mut bytes);
    let status = child.wait()?;
    let text = String::from_utf8(bytes)?.replace("\r\n", "\n");
    if !status.success() {
        bail!("`{shown}` failed: {status}\n{text}");
    }
    Ok(text)
}

/// The text on the screen after progress lines were redrawn: everything after the last cursor
/// movement.
pub(super) fn final_screen(text: &str) -> &str {
    let mut rest = text;
    let mut after = text;
    while let Some((_, next)) = rest.split_once("\x1b[") {
        let digits = next.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
        if let Some(behind) = digits.strip_prefix(['A', 'B', 'K']) {
            after = behind;
        }
        rest = next;
    }
    after.trim_start_matches('\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_sees_a_terminal_of_that_width() {
        let mut shell = process::command("sh");
        shell.args(["-c", "test -t 1 && stty size <&1"]);
        assert_eq!(capture_terminal(shell, 77).unwrap(), "50 77\n");
        let mut shell = process::command("sh");
        shell.args(["-c", "echo why; exit 3"]);
        let error = capture_terminal(shell, 77).unwrap_err().to_string();
        assert!(error.contains("why"), "{error}");
    }

    #[test]
    fn overdrawn_lines_are_dropped() {
        let text = "begin\n\x1b[36ma\x1b[0m: 1\r\x1b[2K\x1b[1A\x1b[2K\r\x1b[1mend\x1b[0m\n";
        assert_eq!(final_screen(text), "\x1b[1mend\x1b[0m\n");
        assert_eq!(final_screen("\x1b[31mred\x1b[0m"), "\x1b[31mred\x1b[0m");
    }
}
