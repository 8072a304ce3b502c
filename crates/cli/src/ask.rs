//! Questions to the person at the terminal. Without one nothing is ever asked.

use std::io::{self, BufRead, Write};

use crate::environment::Environment;

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
    if !environment.stdin.is_terminal() || !environment.stderr.is_terminal() {
        return Reply::Nobody;
    }
    let asked = io::stderr()
        .write_all(format!("{question} [y/N] ").as_bytes())
        .and_then(|()| io::stderr().flush());
    let mut line = String::new();
    if asked.is_err() || io::stdin().lock().read_line(&mut line).is_err() {
        return Reply::No;
    }
    reply(&line)
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
