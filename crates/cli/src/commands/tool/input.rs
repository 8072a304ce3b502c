//! Reads the input of a tool: JSON on the command line, in a file, or on stdin.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde_json::{Map, Value};

use crate::commands::CommandContext;
use crate::failure::{CommandFailure, FailureKind, display_path, excerpt};

/// The size limit for an input, in bytes.
const MAXIMUM: u64 = 64 << 20;

/// Reads the value of `--input`; none is an empty object.
pub(super) fn read(
    given: Option<&str>,
    context: &CommandContext<'_>,
) -> Result<Value, CommandFailure> {
    match given {
        None => Ok(Value::Object(Map::new())),
        Some("-") => parse(
            &read_limited("standard input", io::stdin().lock())?,
            "standard input",
        ),
        Some(text) => match text.strip_prefix('@') {
            None => parse(text.as_bytes(), &format!("`{}`", excerpt(text))),
            Some(path) => {
                let path = Path::new(path);
                let shown = display_path(path);
                let file = File::open(context.absolute(path));
                let file = file.map_err(|error| unreadable_failure(&shown).caused_by(&error))?;
                parse(&read_limited(&shown, file)?, &shown)
            }
        },
    }
}

fn read_limited(name: &str, input: impl Read) -> Result<Vec<u8>, CommandFailure> {
    let mut bytes = Vec::new();
    let read = input.take(MAXIMUM + 1).read_to_end(&mut bytes);
    read.map_err(|error| unreadable_failure(name).caused_by(&error))?;
    if bytes.len() as u64 > MAXIMUM {
        Err(unreadable_failure(name).because(format!("it has more than {MAXIMUM} bytes")))
    } else {
        Ok(bytes)
    }
}

fn parse(bytes: &[u8], name: &str) -> Result<Value, CommandFailure> {
    serde_json::from_slice(bytes).map_err(|error| {
        CommandFailure::usage(format!("{name} is not valid JSON"))
            .kind(FailureKind::Json)
            .caused_by(&error)
            .hint(
                "give an object, such as --input '{\"path\": \"src\"}', --input @FILE or --input -",
            )
    })
}

fn unreadable_failure(name: &str) -> CommandFailure {
    CommandFailure::usage(format!("cannot read {name}"))
        .kind(FailureKind::Unreadable)
        .hint("give JSON, @FILE or - for standard input")
}
