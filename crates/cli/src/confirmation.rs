//! Questions to the person at the terminal. Without one nothing is ever asked.

use std::io::{self, BufRead, Write};
use std::thread;

use tokio::sync::oneshot;

use crate::environment::Environment;
use crate::signals::SignalListener;

/// What the person said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confirmation {
    Yes,
    No,
    /// There is nobody to ask.
    NoTerminal,
}

/// Asks a question to be answered with yes or no; anything but a yes is a no.
pub fn confirm(question: &str, environment: &Environment) -> Confirmation {
    match is_interactive(environment) {
        true if print_question(question).is_ok() => read_confirmation(),
        true => Confirmation::No,
        false => Confirmation::NoTerminal,
    }
}

/// Asks where an interrupt no longer ends this process by itself: one instead of an answer is
/// none.
pub async fn confirm_unless_interrupted(
    question: &str,
    environment: &Environment,
) -> Option<Confirmation> {
    if !is_interactive(environment) {
        return Some(Confirmation::NoTerminal);
    }
    let mut interrupts = SignalListener::for_interrupts();
    if print_question(question).is_err() {
        return Some(Confirmation::No);
    }
    let (tell, answer) = oneshot::channel();
    // Nobody waits for this thread: it may sit at the terminal until the process ends.
    thread::spawn(move || tell.send(read_confirmation()));
    tokio::select! {
        biased;
        () = interrupts.recv() => {
            // What is said next does not stand in the line of the question.
            let _ = io::stderr().write_all(b"\n");
            None
        }
        answer = answer => Some(answer.unwrap_or(Confirmation::No)),
    }
}

fn is_interactive(environment: &Environment) -> bool {
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
