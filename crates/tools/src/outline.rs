//! `builtin/outline`: the symbols of one source file.
//!
//! The file is parsed here, in this process, and may be an actor's work. So all is bounded: the size
//! of the file, the steps of its parser, the number of symbols and the length of their names. While
//! it is parsed and walked the word to stop is heard, and nothing calls itself, so that no depth of
//! nesting is too much.
//!
//! `language` says which grammar reads a file, `languages` which of its nodes are symbols, and
//! `symbols` walks a tree and collects them. An outline shows no content, so it stamps nothing:
//! who has seen it has not read the file.

mod language;
mod languages;
mod symbols;

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

use cleveragents_domain::ResourcePath;
use cleveragents_domain::tool::Capability;
use cleveragents_engine::ports::Stop;
use cleveragents_engine::ports::tools::{Call, ToolFailure, ToolOutput};
use serde::Deserialize;
use serde_json::{Value, json};
use tree_sitter::{ParseOptions, Parser, Tree as Syntax};

use self::language::Language;
use self::symbols::{Kind, Symbols};
use crate::builtin::{Description, Work, failed, input, stopped, untouched};
use crate::excerpt::is_binary;
use crate::place::{Purpose, Tree};
use crate::reading::read_through;
use crate::schema_parts::{count, list, object, one_of, path, text, yes_or_no};

/// The largest file that is parsed: a syntax tree takes many times the room of its text.
const MOST_BYTES: usize = 1 << 20;

/// How often a parser may say that it is still at work, which it does every hundred steps. Code
/// takes about one step a byte; text that can be read in many ways takes more of them, and with
/// them memory.
const MOST_REPORTS: usize = 15_000;

/// The most symbols that are shown.
const MOST_SYMBOLS: usize = 500;

/// How many widths of indentation a text in Python may have: its grammar's scanner writes past its
/// own memory with some five hundred levels, and no text has more levels than widths.
const MOST_INDENTATIONS: usize = 200;

#[derive(Debug, Default)]
pub(crate) struct Outline {
    /// Trees take much memory, so there is one at a time however many are asked for at once.
    turn: Mutex<()>,
}

#[derive(Debug, Deserialize)]
struct Input {
    path: String,
}

impl Work for Outline {
    fn describe(&self) -> Description {
        Description {
            name: "outline",
            text: format!(
                "List the symbols of one source file (types, functions, methods, constants) with \
                 their lines, in the order of the file: a quick way to know what to read. Known \
                 are {}. At most {MOST_SYMBOLS} symbols are shown, the outer ones first; \
                 `left_out` counts the rest. It is no reading of the file.",
                Language::words().join(", ")
            ),
            input: object([("path", path("The source file."))]),
            output: object([
                ("path", text("The file, links resolved.")),
                (
                    "language",
                    one_of(&Language::words(), "What it is read as."),
                ),
                ("symbols", list(symbol(), "In the order of the file.")),
                ("left_out", count("How many more symbols there are.")),
                ("total_lines", count("How many lines the file has.")),
                (
                    "syntax_errors",
                    yes_or_no("Whether there are any; what is around one may be missing."),
                ),
                ("note?", text("What is special about the file.")),
            ]),
            capability: Capability::reads(),
            timeout_seconds: 60,
        }
    }

    fn run(&self, call: &Call<'_>) -> Result<ToolOutput, ToolFailure> {
        let input: Input = input(call)?;
        let spot = Tree::of(call)?.spot(&input.path, Purpose::Look)?;
        let file = spot.open_file()?;
        let mut content = Vec::new();
        read_through(&file, &spot.path, call.stop, |piece| {
            content.extend_from_slice(piece);
            match content.len() > MOST_BYTES {
                false => Ok(()),
                true => {
                    let why = format!("is larger than {} MiB", MOST_BYTES >> 20);
                    Err(too_much(&spot.path, &why))
                }
            }
        })?;
        let languages = language::of(&spot.path, &content);
        if languages.is_empty() {
            return Err(unknown(&spot.path));
        }
        if is_binary(&content) {
            let path = &spot.path;
            return Err(failed(format!(
                "{path} is a binary file, it has no outline"
            )));
        }
        if languages.contains(&Language::Python) && indentations(&content) > MOST_INDENTATIONS {
            return Err(too_much(&spot.path, "is nested too deeply"));
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let (language, syntax) = read_as(languages, &spot.path, &content, call.stop)?;
        let symbols = Symbols::of(&syntax, language, &content, call.stop)?;
        let mut data = symbols.tell(MOST_SYMBOLS);
        data["path"] = json!(spot.path);
        data["language"] = json!(language.word());
        data["syntax_errors"] = json!(syntax.root_node().has_error());
        data["total_lines"] = json!(lines(&content));
        if std::str::from_utf8(&content).is_err() {
            data["note"] = json!("bytes that are not UTF-8 are shown as \u{fffd}");
        }
        Ok(untouched(data))
    }
}

fn symbol() -> Value {
    object([
        ("kind", one_of(&Kind::words(), "What it is.")),
        ("name", text("Its name, cut if it is long.")),
        ("line", count("Its first line, from 1.")),
        ("end_line", count("Its last line.")),
        (
            "depth",
            count("How many of the symbols before it are around it."),
        ),
    ])
}

/// The first language that reads the content without an error, else the first of all.
fn read_as(
    languages: &'static [Language],
    path: &ResourcePath,
    content: &[u8],
    stop: &Stop,
) -> Result<(Language, Syntax), ToolFailure> {
    let mut best = None;
    for language in languages {
        let mut reports = 0;
        let syntax = parse(*language, content, || {
            reports += 1;
            reports <= MOST_REPORTS && stop.check().is_ok()
        })?;
        stop.check().map_err(stopped)?;
        match syntax {
            Some(syntax) if !syntax.root_node().has_error() => return Ok((*language, syntax)),
            Some(syntax) => drop(best.get_or_insert((*language, syntax))),
            None => {}
        }
    }
    best.ok_or_else(|| too_much(path, "takes too many steps to parse"))
}

/// Nothing if it was not let go on.
fn parse(
    language: Language,
    content: &[u8],
    mut goes_on: impl FnMut() -> bool,
) -> Result<Option<Syntax>, ToolFailure> {
    let mut parser = Parser::new();
    let grammar = parser.set_language(&language.grammar());
    grammar.map_err(|error| failed(format!("{} cannot be read: {error}", language.word())))?;
    let mut ask = |_: &_| match goes_on() {
        true => ControlFlow::Continue(()),
        false => ControlFlow::Break(()),
    };
    let options = ParseOptions::new().progress_callback(&mut ask);
    let mut rest = |at: usize, _| content.get(at..).unwrap_or_default();
    Ok(parser.parse_with_options(&mut rest, None, Some(options)))
}

/// How many different beginnings of white space its lines have.
fn indentations(content: &[u8]) -> usize {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\x0c' | b'\r');
    let lines = content.split(|byte| *byte == b'\n');
    let beginnings = lines.map(|line| {
        let end = line.iter().position(|byte| !is_blank(byte));
        &line[..end.unwrap_or(line.len())]
    });
    beginnings.collect::<HashSet<_>>().len()
}

fn lines(content: &[u8]) -> usize {
    let ended = memchr::memchr_iter(b'\n', content).count();
    ended + usize::from(content.last().is_some_and(|byte| *byte != b'\n'))
}

fn too_much(path: &ResourcePath, why: &str) -> ToolFailure {
    failed(format!(
        "{path} {why}, there is no outline of it: use builtin/file-search or builtin/file-read"
    ))
}

fn unknown(path: &ResourcePath) -> ToolFailure {
    failed(format!(
        "{path} is of no language that can be outlined; known are {}. Use builtin/file-read or \
         builtin/file-search",
        language::known()
    ))
}

#[cfg(test)]
mod tests {
    use cleveragents_engine::ports::Stopped;

    use super::*;

    #[test]
    fn parsing_and_walking_end_when_told_to() {
        let content = "fn a() { b(c[1 + 2]); }\n".repeat(1000);
        let content = content.as_bytes();
        let mut asked = 0;
        let left = parse(Language::Rust, content, || {
            asked += 1;
            asked < 3
        });
        assert!(left.unwrap().is_none());
        assert_eq!(asked, 3);
        let syntax = parse(Language::Rust, content, || true).unwrap().unwrap();
        let stop = Stop::new();
        stop.stop(Stopped::TimedOut);
        let path = "a.rs".parse().unwrap();
        let read = read_as(&[Language::Rust], &path, content, &stop);
        let walked = Symbols::of(&syntax, Language::Rust, content, &stop);
        for failure in [read.map(drop), walked.map(drop)] {
            let Err(ToolFailure::Stopped { why, .. }) = failure else {
                panic!("{failure:?}");
            };
            assert_eq!(why, Stopped::TimedOut);
        }
    }
}
