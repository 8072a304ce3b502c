//! Questions to the person at the terminal. Without one nothing is ever asked.

use std::io::{self, BufRead, Write};
use std::thread;

use tokio::sync::oneshot;

use crate::environment::Environment;
use crate::signals::Listener;

/// What the person said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    Yes,
    No,
    /// There is nobody to ask.
    Nobody,
}

/// Asks a question to be answered with yes or no; anything but a yes is a no.
pub fn confirm(question: &str, environment: &Environment) -> Reply {
    match is_somebody_there(environment) {
        true if put(question).is_ok() => hear(),
        true => Reply::No,
        false => Reply::Nobody,
    }
}

/// Asks where an interrupt no longer ends this process by itself: one instead of an answer is
/// none.
pub async fn confirm_unless_interrupted(
    question: &str,
    environment: &Environment,
) -> Option<Reply> {
    if !is_somebody_there(environment) {
        return Some(Reply::Nobody);
    }
    let mut interrupts = Listener::of_interrupts();
    if put(question).is_err() {
        return Some(Reply::No);
    }
    let (tell, answer) = oneshot::channel();
    // Nobody waits for this thread: it may sit at the terminal until the process ends.
    thread::spawn(move || tell.send(hear()));
    tokio::select! {
        biased;
        () = interrupts.heard() => {
            // What is said next does not stand in the line of the question.
            let _ = io::stderr().write_all(b"\n");
            None
        }
        answer = answer => Some(answer.unwrap_or(Reply::No)),
    }
}

fn is_somebody_there(environment: &Environment) -> bool {
    environment.stdin.is_terminal() && environment.stderr.is_terminal()
}

fn put(question: &str) -> io::Result<()> {
    let mut terminal = io::stderr();
    terminal.write_all(format!("{question} [y/N] ").as_bytes())?;
    terminal.flush()
}

fn hear() -> Reply {
    let mut line = String::new();
    match io::stdin().lock().read_line(&mut line) {
        Ok(_) => reply(&line),
        Err(_) => Reply::No,
    }
}

fn reply(line: &str) -> Reply {
    match line.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Reply::Yes,
        _ => Reply::No,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_yes_is_a_yes() {
        for (line, expected) in [
            ("y\n", Reply::Yes),
            (" YES \n", Reply::Yes),
            ("\n", Reply::No),
            ("", Reply::No),
            ("yep\n", Reply::No),
        ] {
            assert_eq!(reply(line), expected, "{line:?}");
        }
    }
}
