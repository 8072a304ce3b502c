//! Yes/no questions at the terminal. Without a terminal no question is asked.

use std::io::{self, BufRead, Write};
use std::thread;

use tokio::sync::oneshot;

use crate::environment::Environment;
use crate::signals::SignalListener;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confirmation {
    Yes,
    No,
    /// Stdin or stderr is not a terminal, so the question was not asked.
    NoTerminal,
}

/// Asks a yes/no question; every answer but yes counts as no.
pub fn confirm(question: &str, environment: &Environment) -> Confirmation {
    if !is_interactive(environment) {
        Confirmation::NoTerminal
    } else if print(&format!("{question} [y/N] ")).is_ok() {
        parse_confirmation(&read_line())
    } else {
        Confirmation::No
    }
}

/// Asks a yes/no question in a process that handles Ctrl-C itself. Returns `None` if Ctrl-C is
/// pressed instead of an answer.
pub async fn confirm_unless_interrupted(
    question: &str,
    environment: &Environment,
) -> Option<Confirmation> {
    if !is_interactive(environment) {
        return Some(Confirmation::NoTerminal);
    }
    let line = ask_unless_interrupted(&format!("{question} [y/N] ")).await?;
    Some(parse_confirmation(&line))
}

/// Asks for a line on the terminal, in a process that handles Ctrl-C itself. Returns `None` if
/// Ctrl-C is pressed instead, and an empty line at the end of the input.
pub async fn ask_unless_interrupted(prompt: &str) -> Option<String> {
    // Installed before the question is printed, so that a Ctrl-C at the question is not lost.
    let mut interrupts = SignalListener::for_interrupts();
    if print(prompt).is_err() {
        return Some(String::new());
    }
    let (sender, line) = oneshot::channel();
    // The thread is never joined: it may block on the terminal until the process exits.
    thread::spawn(move || sender.send(read_line()));
    tokio::select! {
        biased;
        () = interrupts.recv() => {
            // Ends the line of the question, so that the next message starts on its own line.
            let _ = io::stderr().write_all(b"\n");
            None
        }
        line = line => Some(line.unwrap_or_default()),
    }
}

/// Whether a user can be asked.
pub fn is_interactive(environment: &Environment) -> bool {
    environment.stdin.is_terminal() && environment.stderr.is_terminal()
}

fn print(prompt: &str) -> io::Result<()> {
    let mut terminal = io::stderr();
    terminal.write_all(prompt.as_bytes())?;
    terminal.flush()
}

/// Returns the next line of the input; an error counts as its end.
fn read_line() -> String {
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    read.map(|_| line).unwrap_or_default()
}

fn parse_confirmation(line: &str) -> Confirmation {
    match line.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Confirmation::Yes,
        _ => Confirmation::No,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anything_but_yes_is_a_no() {
        for (line, expected) in [
            ("y\n", Confirmation::Yes),
            (" YES \n", Confirmation::Yes),
            ("\n", Confirmation::No),
            ("", Confirmation::No),
            ("yep\n", Confirmation::No),
        ] {
            assert_eq!(parse_confirmation(line), expected, "{line:?}");
        }
    }
}
