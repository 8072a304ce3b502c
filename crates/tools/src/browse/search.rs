//! `builtin/file-search`

use std::io;
use std::os::fd::AsFd;

use cleveragents_domain::ResourcePath;
use cleveragents_domain::tool::Capability;
use cleveragents_ports::StopSignal;
use cleveragents_ports::tools::{ToolFailure, ToolInvocation, ToolOutput};
use cleveragents_safe_fs::file_access::open_file;
use cleveragents_safe_fs::path_from_bytes;
use globset::{GlobBuilder, GlobMatcher};
use grep_matcher::LineTerminator;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkMatch};
use rustix::fs::FileType;
use serde::Deserialize;
use serde_json::{Value, json};

use super::walk::{Visitor, WalkEntry, walk};
use crate::builtin::{
    ToolDescription, ToolImpl, invalid_input, parse_input, read_only_output, stopped,
};
use crate::excerpt::truncate_str;
use crate::paths::{PathPurpose, SandboxTree, TreeLocation, TreePath};
use crate::schema_parts::{count, list, non_empty_text, object, path, text};

/// Maximum number of matches shown, and of bytes of each line.
const MAX_MATCHES: usize = 250;
const MAX_LINE_BYTES: usize = 400;

/// A file with a longer line is skipped.
const MAX_BUFFERED: usize = 16 << 20;

#[derive(Debug)]
pub(crate) struct FileSearch;

#[derive(Debug, Deserialize)]
struct FileSearchInput {
    pattern: String,
    path: Option<String>,
    glob: Option<String>,
}

impl ToolImpl for FileSearch {
    fn describe(&self) -> ToolDescription {
        ToolDescription {
            name: "file-search",
            text: format!(
                "Search text files for a regular expression, line by line. What `.gitignore` \
                 ignores and binary files are passed over. At most {MAX_MATCHES} matches are \
                 shown, in order of paths; `left_out` counts the rest."
            ),
            input: object([
                (
                    "pattern",
                    non_empty_text("A regular expression of Rust's syntax; `(?i)` ignores case."),
                ),
                (
                    "path?",
                    path("The file or folder to search; the root if it is left out."),
                ),
                (
                    "glob?",
                    non_empty_text(
                        "Only files whose path matches, as in `src/**/*.rs`; without a `/` it is \
                         the name that must match.",
                    ),
                ),
            ]),
            output: object([
                (
                    "matches",
                    list(
                        object([
                            ("path", text("The file.")),
                            ("line", count("The number of the line, from 1.")),
                            ("text", text("The line, cut if it is long.")),
                        ]),
                        "The lines that match.",
                    ),
                ),
                ("left_out", count("How many more lines match.")),
                ("files", count("How many files were searched.")),
                (
                    "passed_over",
                    count("How many files or folders could not be searched."),
                ),
            ]),
            capability: Capability::read_only(),
            timeout_seconds: 120,
        }
    }

    fn run(&self, call: &ToolInvocation<'_>) -> Result<ToolOutput, ToolFailure> {
        let input: FileSearchInput = parse_input(call)?;
        let matcher = RegexMatcherBuilder::new()
            .multi_line(true)
            .crlf(true)
            // The pattern comes from a model; this bounds the memory of its automaton.
            .size_limit(10 << 20)
            .build(&input.pattern)
            .map_err(|error| invalid_input(format!("`pattern` cannot be used: {error}")))?;
        let glob = input.glob.as_deref().map(Glob::new).transpose()?;
        let tree = SandboxTree::open(call)?;
        let start = tree.resolve(input.path.as_deref().unwrap_or("."), PathPurpose::Read)?;
        let mut search = SearchVisitor {
            matcher,
            glob,
            searcher: SearcherBuilder::new()
                .binary_detection(BinaryDetection::quit(0))
                .line_terminator(LineTerminator::crlf())
                .line_number(true)
                .heap_limit(Some(MAX_BUFFERED))
                .build(),
            stop: call.stop,
            results: SearchResults::default(),
        };
        match &start {
            TreeLocation::Path(target) if target.kind()? != FileType::Directory => {
                search.search_named_file(target)?
            }
            _ => walk(call, &tree, &start, &mut search)?,
        }
        Ok(read_only_output(search.results.into_output()))
    }
}

/// Selects the paths to search.
struct Glob {
    matcher: GlobMatcher,
    scope: GlobScope,
}

/// Whether a glob is matched against the whole path or the file name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum GlobScope {
    Path,
    Name,
}

impl Glob {
    fn new(text: &str) -> Result<Self, ToolFailure> {
        let plain = text.strip_prefix("./").unwrap_or(text);
        let glob = GlobBuilder::new(plain).literal_separator(true).build();
        let glob =
            glob.map_err(|error| invalid_input(format!("`glob` cannot be used: {error}")))?;
        Ok(Self {
            matcher: glob.compile_matcher(),
            scope: if plain.contains('/') {
                GlobScope::Path
            } else {
                GlobScope::Name
            },
        })
    }

    fn matches(&self, path: &ResourcePath) -> bool {
        let path = path.as_bytes();
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        self.matcher.is_match(path_from_bytes(match self.scope {
            GlobScope::Path => path,
            GlobScope::Name => name,
        }))
    }
}

struct SearchVisitor<'a> {
    matcher: RegexMatcher,
    glob: Option<Glob>,
    searcher: Searcher,
    stop: &'a StopSignal,
    results: SearchResults,
}

#[derive(Default)]
struct SearchResults {
    matches: Vec<Value>,
    total: usize,
    files: usize,
    passed_over: usize,
}

impl SearchResults {
    fn into_output(self) -> Value {
        json!({
            "left_out": self.total - self.matches.len(),
            "matches": self.matches,
            "files": self.files,
            "passed_over": self.passed_over,
        })
    }
}

impl SearchVisitor<'_> {
    /// Searches a file that the call names. Fails if it cannot be read.
    fn search_named_file(&mut self, target: &TreePath) -> Result<(), ToolFailure> {
        let file = target.open_file()?;
        self.search_file(&file, &target.path)
    }

    fn search_file(
        &mut self,
        file: &std::fs::File,
        path: &ResourcePath,
    ) -> Result<(), ToolFailure> {
        let mut lines = MatchSink {
            path,
            stop: self.stop,
            results: &mut self.results,
        };
        let searched = self.searcher.search_file(&self.matcher, file, &mut lines);
        // A stopped search ends without an error, so the signal is checked first.
        self.stop.check().map_err(stopped)?;
        match searched {
            Ok(()) => self.results.files += 1,
            Err(_) => self.results.passed_over += 1,
        }
        Ok(())
    }
}

impl Visitor for SearchVisitor<'_> {
    fn visit(&mut self, entry: WalkEntry<'_>) -> Result<(), ToolFailure> {
        let is_file = entry.stat.kind() == FileType::RegularFile;
        let is_wanted = self
            .glob
            .as_ref()
            .is_none_or(|glob| glob.matches(&entry.path));
        if !is_file || !is_wanted {
            return Ok(());
        }
        // Opened without following a link and checked when open: it may have been replaced since
        // its stat.
        let file = open_file(entry.folder.as_fd(), entry.name).ok();
        match file.filter(|file| file.metadata().is_ok_and(|it| it.is_file())) {
            Some(file) => self.search_file(&file, &entry.path),
            None => {
                self.results.passed_over += 1;
                Ok(())
            }
        }
    }

    fn should_descend(&self, _depth: usize) -> bool {
        true
    }

    fn visit_unreadable(&mut self, _path: ResourcePath) {
        self.results.passed_over += 1;
    }
}

/// Receives the matching lines of one file.
struct MatchSink<'a> {
    path: &'a ResourcePath,
    stop: &'a StopSignal,
    results: &'a mut SearchResults,
}

impl Sink for MatchSink<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        self.results.total += 1;
        if self.results.matches.len() < MAX_MATCHES {
            let line = String::from_utf8_lossy(found.bytes());
            let line = line.trim_end_matches(['\n', '\r']);
            let short = truncate_str(line, MAX_LINE_BYTES);
            let more = if short.len() < line.len() { "…" } else { "" };
            self.results.matches.push(json!({
                "path": self.path,
                "line": found.line_number(),
                "text": format!("{short}{more}"),
            }));
        }
        Ok(self.stop.check().is_ok())
    }
}
