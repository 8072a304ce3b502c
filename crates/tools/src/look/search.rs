//! `builtin/file-search`

use std::io;
use std::os::fd::AsFd;

use cleveragents_beneath::path_of;
use cleveragents_beneath::reach::open_file;
use cleveragents_domain::ResourcePath;
use cleveragents_domain::tool::Capability;
use cleveragents_engine::ports::Stop;
use cleveragents_engine::ports::tools::{Call, ToolFailure, ToolOutput};
use globset::{GlobBuilder, GlobMatcher};
use grep_matcher::LineTerminator;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkMatch};
use rustix::fs::FileType;
use serde::Deserialize;
use serde_json::{Value, json};

use super::walk::{Met, Visitor, walk};
use crate::builtin::{Description, Work, input, stopped, untouched, unusable};
use crate::excerpt::beginning;
use crate::place::{Purpose, Somewhere, Spot, Tree};
use crate::schema_parts::{count, list, object, path, some_text, text};

/// The most matches that are shown, and the most bytes of each line.
const MOST_MATCHES: usize = 250;
const MOST_LINE: usize = 400;

/// A file with a longer line than this is passed over.
const MOST_BUFFERED: usize = 16 << 20;

#[derive(Debug)]
pub(crate) struct FileSearch;

#[derive(Debug, Deserialize)]
struct Input {
    pattern: String,
    path: Option<String>,
    glob: Option<String>,
}

impl Work for FileSearch {
    fn describe(&self) -> Description {
        Description {
            name: "file-search",
            text: format!(
                "Search text files for a regular expression, line by line. What `.gitignore` \
                 ignores and binary files are passed over. At most {MOST_MATCHES} matches are \
                 shown, in order of paths; `left_out` counts the rest."
            ),
            input: object([
                (
                    "pattern",
                    some_text("A regular expression of Rust's syntax; `(?i)` ignores case."),
                ),
                (
                    "path?",
                    path("The file or folder to search; the root if it is left out."),
                ),
                (
                    "glob?",
                    some_text(
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
            capability: Capability::reads(),
            timeout_seconds: 120,
        }
    }

    fn run(&self, call: &Call<'_>) -> Result<ToolOutput, ToolFailure> {
        let input: Input = input(call)?;
        let matcher = RegexMatcherBuilder::new()
            .multi_line(true)
            .crlf(true)
            .size_limit(10 << 20)
            .build(&input.pattern)
            .map_err(|error| unusable(format!("`pattern` cannot be used: {error}")))?;
        let glob = input.glob.as_deref().map(Glob::new).transpose()?;
        let tree = Tree::of(call)?;
        let start = tree.find(input.path.as_deref().unwrap_or("."), Purpose::Look)?;
        let mut search = Search {
            matcher,
            glob,
            searcher: SearcherBuilder::new()
                .binary_detection(BinaryDetection::quit(0))
                .line_terminator(LineTerminator::crlf())
                .line_number(true)
                .heap_limit(Some(MOST_BUFFERED))
                .build(),
            stop: call.stop,
            found: Found::default(),
        };
        match &start {
            Somewhere::Spot(spot) if spot.kind()? != FileType::Directory => search.one(spot)?,
            _ => walk(call, &tree, &start, &mut search)?,
        }
        Ok(untouched(search.found.tell()))
    }
}

/// Which paths are searched.
struct Glob {
    matcher: GlobMatcher,
    covers: Covers,
}

/// What a glob is held against.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Covers {
    Path,
    Name,
}

impl Glob {
    fn new(text: &str) -> Result<Self, ToolFailure> {
        let plain = text.strip_prefix("./").unwrap_or(text);
        let glob = GlobBuilder::new(plain).literal_separator(true).build();
        let glob = glob.map_err(|error| unusable(format!("`glob` cannot be used: {error}")))?;
        Ok(Self {
            matcher: glob.compile_matcher(),
            covers: if plain.contains('/') {
                Covers::Path
            } else {
                Covers::Name
            },
        })
    }

    fn matches(&self, path: &ResourcePath) -> bool {
        let path = path.as_bytes();
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        self.matcher.is_match(path_of(match self.covers {
            Covers::Path => path,
            Covers::Name => name,
        }))
    }
}

struct Search<'a> {
    matcher: RegexMatcher,
    glob: Option<Glob>,
    searcher: Searcher,
    stop: &'a Stop,
    found: Found,
}

#[derive(Default)]
struct Found {
    matches: Vec<Value>,
    total: usize,
    files: usize,
    passed_over: usize,
}

impl Found {
    fn tell(self) -> Value {
        json!({
            "left_out": self.total - self.matches.len(),
            "matches": self.matches,
            "files": self.files,
            "passed_over": self.passed_over,
        })
    }
}

impl Search<'_> {
    /// A file that was named; one that cannot be read is a failure.
    fn one(&mut self, spot: &Spot) -> Result<(), ToolFailure> {
        let file = spot.open_file()?;
        self.file(&file, &spot.path)
    }

    fn file(&mut self, file: &std::fs::File, path: &ResourcePath) -> Result<(), ToolFailure> {
        let mut lines = Lines {
            path,
            stop: self.stop,
            found: &mut self.found,
        };
        let searched = self.searcher.search_file(&self.matcher, file, &mut lines);
        self.stop.check().map_err(stopped)?;
        match searched {
            Ok(()) => self.found.files += 1,
            Err(_) => self.found.passed_over += 1,
        }
        Ok(())
    }
}

impl Visitor for Search<'_> {
    fn meet(&mut self, met: Met<'_>) -> Result<(), ToolFailure> {
        let is_file = met.stat.kind() == FileType::RegularFile;
        let is_wanted = self
            .glob
            .as_ref()
            .is_none_or(|glob| glob.matches(&met.path));
        if !is_file || !is_wanted {
            return Ok(());
        }
        let file = open_file(met.folder.as_fd(), met.name).ok();
        match file.filter(|file| file.metadata().is_ok_and(|it| it.is_file())) {
            Some(file) => self.file(&file, &met.path),
            None => {
                self.found.passed_over += 1;
                Ok(())
            }
        }
    }

    fn goes_into(&self, _depth: usize) -> bool {
        true
    }

    fn unreadable(&mut self, _path: ResourcePath) {
        self.found.passed_over += 1;
    }
}

/// Takes the matching lines of one file.
struct Lines<'a> {
    path: &'a ResourcePath,
    stop: &'a Stop,
    found: &'a mut Found,
}

impl Sink for Lines<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        self.found.total += 1;
        if self.found.matches.len() < MOST_MATCHES {
            let line = String::from_utf8_lossy(found.bytes());
            let line = line.trim_end_matches(['\n', '\r']);
            let short = beginning(line, MOST_LINE);
            let more = if short.len() < line.len() { "…" } else { "" };
            self.found.matches.push(json!({
                "path": self.path,
                "line": found.line_number(),
                "text": format!("{short}{more}"),
            }));
        }
        Ok(self.stop.check().is_ok())
    }
}
