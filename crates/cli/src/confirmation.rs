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
    } else if print_question(question).is_ok() {
        read_confirmation()
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
    // Installed before the question is printed, so that a Ctrl-C at the question is not lost.
    let mut interrupts = SignalListener::for_interrupts();
    if print_question(question).is_err() {
        return Some(Confirmation::No);
    }
    let (sender, answer) = oneshot::channel();
    // The thread is never joined: it may block on the terminal until the process exits.
    thread::spawn(move || sender.send(read_confirmation()));
    tokio::select! {
        biased;
        () = interrupts.recv() => {
            // Ends the line of the question, so that the next message starts on its own line.
            let _ = io::stderr().write_all(b"\n");
            None
        }
        answer = answer => Some(answer.unwrap_or(Confirmation::No)),
    }
}

/// Whether a user can be asked.
pub fn is_interactive(environment: &Environment) -> bool {
    environment.stdin.is_terminal() && environment.stderr.is_terminal()
}

fn print_question(question: &str) -> io::Result<()> {
    let mut terminal = io::stderr();
    terminal.write_all(format!("{question} [y/N] ").as_bytes())?;
    terminal.flush()
}

fn read_confirmation() -> Confirmation {
    let mut line = String::new();
    match io::stdin().lock().read_line(&mut line) {
        Ok(_) => parse_confirmation(&line),
        Err(_) => Confirmation::No,
    }
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
