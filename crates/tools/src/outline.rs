//! `builtin/outline`: the symbols of one source file.
//!
//! The file is parsed in this process and may be written by an actor. So everything is limited: the
//! size of the file, the steps of its parser, the number of symbols and the length of names.
//! Parsing and walking check the stop signal. No function is recursive, so deep nesting is
//! harmless. An outline shows no content, so it stamps nothing: an actor that has seen it has not
//! read the file. `language` selects the grammar, `languages` says which nodes are symbols,
//! `symbols` collects them.

mod language;
mod languages;
mod symbols;

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

use cleveragents_domain::ResourcePath;
use cleveragents_domain::tool::Capability;
use cleveragents_ports::StopSignal;
use cleveragents_ports::tools::{ToolFailure, ToolInvocation, ToolOutput};
use serde::Deserialize;
use serde_json::{Value, json};
use tree_sitter::{ParseOptions, Parser, Tree as Syntax};

use self::language::SourceLanguage;
use self::symbols::{SymbolKind, Symbols};
use crate::builtin::{ToolDescription, ToolImpl, failed, parse_input, read_only_output, stopped};
use crate::excerpt::is_binary;
use crate::file_content::read_chunks;
use crate::paths::{PathPurpose, SandboxTree};
use crate::schema_parts::{boolean, count, list, object, one_of, path, text};

/// The largest file that is parsed: a syntax tree takes many times the memory of its text.
const MAX_BYTES: usize = 1 << 20;

/// Maximum number of progress reports of a parser, which come every hundred steps. Code takes about
/// one step per byte. Ambiguous text takes more steps, and more memory with them.
const MAX_PROGRESS_REPORTS: usize = 15_000;

/// Maximum number of symbols shown.
const MAX_SYMBOLS: usize = 500;

/// Maximum number of distinct indentation widths in Python code. The grammar's scanner writes out of
/// bounds at about five hundred levels, and a text cannot have more levels than widths.
const MAX_INDENTATIONS: usize = 200;

#[derive(Debug, Default)]
pub(crate) struct Outline {
    /// Syntax trees take much memory, so concurrent calls parse one at a time.
    parse_lock: Mutex<()>,
}

#[derive(Debug, Deserialize)]
struct OutlineInput {
    path: String,
}

impl ToolImpl for Outline {
    fn describe(&self) -> ToolDescription {
        ToolDescription {
            name: "outline",
            text: format!(
                "List the symbols of one source file (types, functions, methods, constants) with \
                 their lines, in the order of the file: a quick way to know what to read. Known \
                 are {}. At most {MAX_SYMBOLS} symbols are shown, the outer ones first; \
                 `left_out` counts the rest. It does not count as reading the file.",
                SourceLanguage::names().join(", ")
            ),
            input: object([("path", path("The source file."))]),
            output: object([
                ("path", text("The file, links resolved.")),
                (
                    "language",
                    one_of(&SourceLanguage::names(), "The language it is parsed as."),
                ),
                (
                    "symbols",
                    list(symbol_schema(), "In the order of the file."),
                ),
                ("left_out", count("How many more symbols there are.")),
                ("total_lines", count("How many lines the file has.")),
                (
                    "syntax_errors",
                    boolean("Whether there are any; what is around one may be missing."),
                ),
                ("note?", text("What is special about the file.")),
            ]),
            capability: Capability::read_only(),
            timeout_seconds: 60,
        }
    }

    fn run(&self, call: &ToolInvocation<'_>) -> Result<ToolOutput, ToolFailure> {
        let input: OutlineInput = parse_input(call)?;
        let target = SandboxTree::open(call)?.resolve_path(&input.path, PathPurpose::Read)?;
        let file = target.open_file()?;
        let mut content = Vec::new();
        read_chunks(&file, &target.path, call.stop, |piece| {
            content.extend_from_slice(piece);
            if content.len() > MAX_BYTES {
                let why = format!("is larger than {} MiB", MAX_BYTES >> 20);
                Err(too_complex(&target.path, &why))
            } else {
                Ok(())
            }
        })?;
        let languages = language::detect_languages(&target.path, &content);
        if languages.is_empty() {
            return Err(unknown_language(&target.path));
        }
        if is_binary(&content) {
            let path = &target.path;
            return Err(failed(format!(
                "{path} is a binary file, it has no outline"
            )));
        }
        if languages.contains(&SourceLanguage::Python)
            && count_indentations(&content) > MAX_INDENTATIONS
        {
            return Err(too_complex(&target.path, "is nested too deeply"));
        }
        let _turn = self
            .parse_lock
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let (language, syntax) = parse_best(languages, &target.path, &content, call.stop)?;
        let symbols = Symbols::collect(&syntax, language, &content, call.stop)?;
        let mut data = symbols.into_output(MAX_SYMBOLS);
        data["path"] = json!(target.path);
        data["language"] = json!(language.name());
        data["syntax_errors"] = json!(syntax.root_node().has_error());
        data["total_lines"] = json!(count_lines(&content));
        if std::str::from_utf8(&content).is_err() {
            data["note"] = json!("bytes that are not UTF-8 are shown as \u{fffd}");
        }
        Ok(read_only_output(data))
    }
}

fn symbol_schema() -> Value {
    object([
        ("kind", one_of(&SymbolKind::names(), "What it is.")),
        ("name", text("Its name, cut if it is long.")),
        ("line", count("Its first line, from 1.")),
        ("end_line", count("Its last line.")),
        (
            "depth",
            count("How many of the symbols before it are around it."),
        ),
    ])
}

/// Returns the tree of the first language that parses without an error, otherwise of the first one.
fn parse_best(
    languages: &'static [SourceLanguage],
    path: &ResourcePath,
    content: &[u8],
    stop: &StopSignal,
) -> Result<(SourceLanguage, Syntax), ToolFailure> {
    let mut best = None;
    for language in languages {
        let mut reports = 0;
        let syntax = parse(*language, content, || {
            reports += 1;
            reports <= MAX_PROGRESS_REPORTS && stop.check().is_ok()
        })?;
        stop.check().map_err(stopped)?;
        match syntax {
            Some(syntax) if !syntax.root_node().has_error() => return Ok((*language, syntax)),
            Some(syntax) => drop(best.get_or_insert((*language, syntax))),
            None => {}
        }
    }
    best.ok_or_else(|| too_complex(path, "takes too many steps to parse"))
}

/// Returns `None` if `should_continue` ended the parse.
fn parse(
    language: SourceLanguage,
    content: &[u8],
    mut should_continue: impl FnMut() -> bool,
) -> Result<Option<Syntax>, ToolFailure> {
    let mut parser = Parser::new();
    let grammar = parser.set_language(&language.grammar());
    grammar.map_err(|error| failed(format!("{} cannot be read: {error}", language.name())))?;
    let mut ask = |_: &_| {
        if should_continue() {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    };
    let options = ParseOptions::new().progress_callback(&mut ask);
    let mut rest = |at: usize, _| content.get(at..).unwrap_or_default();
    Ok(parser.parse_with_options(&mut rest, None, Some(options)))
}

/// Counts the distinct indentations of the lines.
fn count_indentations(content: &[u8]) -> usize {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\x0c' | b'\r');
    let lines = content.split(|byte| *byte == b'\n');
    let beginnings = lines.map(|line| {
        let end = line.iter().position(|byte| !is_blank(byte));
        &line[..end.unwrap_or(line.len())]
    });
    beginnings.collect::<HashSet<_>>().len()
}

fn count_lines(content: &[u8]) -> usize {
    let ended = memchr::memchr_iter(b'\n', content).count();
    ended + usize::from(content.last().is_some_and(|byte| *byte != b'\n'))
}

fn too_complex(path: &ResourcePath, why: &str) -> ToolFailure {
    failed(format!(
        "{path} {why}, there is no outline of it: use builtin/file-search or builtin/file-read"
    ))
}

fn unknown_language(path: &ResourcePath) -> ToolFailure {
    failed(format!(
        "{path} is in no language that can be outlined; known are {}. Use builtin/file-read or \
         builtin/file-search",
        language::describe_known_languages()
    ))
}

#[cfg(test)]
mod tests {
    use cleveragents_ports::StopReason;

    use super::*;

    #[test]
    fn parsing_and_walking_stop_on_a_stop_signal() {
        let content = "fn a() { b(c[1 + 2]); }\n".repeat(1000);
        let content = content.as_bytes();
        let mut asked = 0;
        let left = parse(SourceLanguage::Rust, content, || {
            asked += 1;
            asked < 3
        });
        assert!(left.unwrap().is_none());
        assert_eq!(asked, 3);
        let syntax = parse(SourceLanguage::Rust, content, || true)
            .unwrap()
            .unwrap();
        let stop = StopSignal::new();
        stop.stop(StopReason::TimedOut);
        let path = "a.rs".parse().unwrap();
        let read = parse_best(&[SourceLanguage::Rust], &path, content, &stop);
        let walked = Symbols::collect(&syntax, SourceLanguage::Rust, content, &stop);
        for failure in [read.map(drop), walked.map(drop)] {
            let Err(ToolFailure::Stopped { why, .. }) = failure else {
                panic!("{failure:?}");
            };
            assert_eq!(why, StopReason::TimedOut);
        }
    }
}
