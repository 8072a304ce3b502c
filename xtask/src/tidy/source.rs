//! A Rust file parsed far enough to distinguish code, comments, strings and test modules.

/// Replaces the contents of strings: it is text on a line, but not a word of the code.
const STRING_FILLER: char = '·';

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct SourceLine {
    /// The code, without comments and with the contents of strings replaced.
    pub code: String,
    /// The text of the comments.
    pub comment: String,
    /// The inside of the strings.
    pub text: String,
    /// Whether it belongs to a `#[cfg(test)] mod … { }` block.
    pub in_test_module: bool,
}

/// A Rust file, line by line.
#[derive(Debug)]
pub struct RustSource {
    pub path: String,
    pub lines: Vec<SourceLine>,
}

impl RustSource {
    /// Parses a file.
    pub fn new(path: String, text: &str) -> RustSource {
        let mut lines = Scanner::scan(text);
        mark_test_modules(&mut lines);
        RustSource { path, lines }
    }

    /// The number of code lines outside test modules, without blank lines and comments.
    pub fn code_lines(&self) -> usize {
        self.lines
            .iter()
            .filter(|line| !line.in_test_module && !line.code.trim().is_empty())
            .count()
    }

    /// The numbers, from 1, of the lines whose code has `word` as a whole word.
    pub fn lines_with<'a>(&'a self, word: &'a str) -> impl Iterator<Item = usize> + 'a {
        self.lines
            .iter()
            .enumerate()
            .filter(move |(_, line)| has_word(&line.code, word))
            .map(|(index, _)| index + 1)
    }
}

/// Returns whether `code` contains `word` with no letter, digit or `_` on either side.
pub fn has_word(code: &str, word: &str) -> bool {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    let open_ended = !word.ends_with(is_part);
    code.match_indices(word).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        !before.is_some_and(is_part) && (open_ended || !after.is_some_and(is_part))
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScannerState {
    Code,
    LineComment,
    BlockComment { depth: usize },
    Text { hashes: Option<usize> },
}

struct Scanner {
    lines: Vec<SourceLine>,
    state: ScannerState,
}

impl Scanner {
    fn scan(text: &str) -> Vec<SourceLine> {
        let mut scanner = Scanner {
            lines: vec![SourceLine::default()],
            state: ScannerState::Code,
        };
        let characters: Vec<char> = text.chars().collect();
        let mut at = 0;
        while at < characters.len() {
            at += scanner.step(&characters[..at], &characters[at..]);
        }
        scanner.lines
    }

    /// Consumes the next token and returns its length in characters.
    fn step(&mut self, before: &[char], rest: &[char]) -> usize {
        if rest[0] == '\n' {
            self.lines.push(SourceLine::default());
            if self.state == ScannerState::LineComment {
                self.state = ScannerState::Code;
            }
            return 1;
        }
        match self.state {
            ScannerState::Code => self.step_code(before, rest),
            ScannerState::LineComment => self.comment(rest[0], 1),
            ScannerState::BlockComment { depth } => self.step_block(depth, rest),
            ScannerState::Text { hashes } => self.step_text(hashes, rest),
        }
    }

    fn step_code(&mut self, before: &[char], rest: &[char]) -> usize {
        if rest.starts_with(&['/', '/']) {
            self.state = ScannerState::LineComment;
            return self.comment('/', 2);
        }
        if rest.starts_with(&['/', '*']) {
            self.state = ScannerState::BlockComment { depth: 1 };
            return self.comment('/', 2);
        }
        if let Some((hashes, length)) = raw_string_start(before, rest) {
            self.state = ScannerState::Text {
                hashes: Some(hashes),
            };
            return self.code('"', length);
        }
        match rest[0] {
            '"' => {
                self.state = ScannerState::Text { hashes: None };
                self.code('"', 1)
            }
            '\'' => match character_length(rest) {
                Some(length) => self.code(STRING_FILLER, length),
                None => self.code('\'', 1),
            },
            other => self.code(other, 1),
        }
    }

    fn step_block(&mut self, depth: usize, rest: &[char]) -> usize {
        if rest.starts_with(&['*', '/']) {
            self.state = match depth {
                1 => ScannerState::Code,
                _ => ScannerState::BlockComment { depth: depth - 1 },
            };
            return self.comment('/', 2);
        }
        if rest.starts_with(&['/', '*']) {
            self.state = ScannerState::BlockComment { depth: depth + 1 };
            return self.comment('/', 2);
        }
        self.comment(rest[0], 1)
    }

    fn step_text(&mut self, hashes: Option<usize>, rest: &[char]) -> usize {
        if hashes.is_none() && rest[0] == '\\' && rest.get(1).is_some_and(|next| *next != '\n') {
            self.text(' ');
            return self.code(STRING_FILLER, 2);
        }
        let closing = hashes.unwrap_or(0);
        let closes = rest[0] == '"'
            && rest.len() > closing
            && rest[1..=closing].iter().all(|hash| *hash == '#');
        if closes {
            self.text(' ');
            self.state = ScannerState::Code;
            return self.code('"', 1 + closing);
        }
        let shown = if rest[0].is_whitespace() {
            ' '
        } else {
            STRING_FILLER
        };
        self.text(rest[0]);
        self.code(shown, 1)
    }

    fn text(&mut self, character: char) {
        if let Some(line) = self.lines.last_mut() {
            line.text.push(character);
        }
    }

    fn code(&mut self, character: char, length: usize) -> usize {
        if let Some(line) = self.lines.last_mut() {
            line.code.push(character);
        }
        length
    }

    fn comment(&mut self, character: char, length: usize) -> usize {
        if let Some(line) = self.lines.last_mut() {
            line.comment.push(character);
        }
        length
    }
}

/// `r"`, `r#"`, `br##"`, `cr"`: the number of hashes and the length of the opening.
fn raw_string_start(before: &[char], rest: &[char]) -> Option<(usize, usize)> {
    if before
        .last()
        .is_some_and(|last| last.is_alphanumeric() || *last == '_')
    {
        return None;
    }
    let prefix = match rest {
        ['r', ..] => 1,
        ['b' | 'c', 'r', ..] => 2,
        _ => return None,
    };
    let hashes = rest[prefix..]
        .iter()
        .take_while(|next| **next == '#')
        .count();
    let length = prefix + hashes + 1;
    (rest.get(length - 1) == Some(&'"')).then_some((hashes, length))
}

/// The length of a character literal; `None` for a lifetime.
fn character_length(rest: &[char]) -> Option<usize> {
    match rest {
        ['\'', '\\', tail @ ..] => tail
            .iter()
            .skip(1)
            .position(|next| *next == '\'')
            .map(|at| at + 4),
        ['\'', _, '\'', ..] => Some(3),
        _ => None,
    }
}

fn mark_test_modules(lines: &mut [SourceLine]) {
    let mut index = 0;
    while index < lines.len() {
        if lines[index].code.contains("#[cfg(test)]")
            && let Some(end) = test_module_end(&lines[index..])
        {
            for line in &mut lines[index..=index + end] {
                line.in_test_module = true;
            }
            index += end;
        }
        index += 1;
    }
}

/// The line on which the module opened after the attribute closes; `None` if no module with a body
/// follows.
fn test_module_end(lines: &[SourceLine]) -> Option<usize> {
    let mut depth = 0_usize;
    let mut is_module = false;
    for (index, line) in lines.iter().enumerate() {
        is_module |= has_word(&line.code, "mod");
        for character in line.code.chars() {
            match character {
                '{' if !is_module => return None,
                ';' if depth == 0 => return None,
                '{' => depth += 1,
                '}' => {
                    depth = depth.checked_sub(1)?;
                    if depth == 0 {
                        return Some(index);
                    }
                }
                _ => {}
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> RustSource {
        RustSource::new("some.rs".into(), text)
    }

    #[test]
    fn comments_and_blank_lines_are_no_code() {
        let text = "//! doc\n\nfn a() {} // why\n/* one\n two */\nfn b() {}\n";
        assert_eq!(source(text).code_lines(), 2);
    }

    #[test]
    fn words_in_strings_and_comments_are_not_code() {
        let text = "let a = \"todo!() \\\" todo!()\"; // todo!()\nlet b = r#\"todo!() \" \"#;";
        assert_eq!(source(text).lines_with("todo!").count(), 0);
        assert_eq!(source("x(); todo!()").lines_with("todo!").count(), 1);
    }

    #[test]
    fn lifetimes_do_not_open_a_literal() {
        let parsed =
            source("fn a<'a>(x: &'a str) -> char { '\"' } // end\nlet q = '\\''; rusqlite");
        assert!(parsed.lines[0].comment.contains("end"));
        assert_eq!(parsed.lines_with("rusqlite").collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn a_test_module_is_left_out() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() { \"}\"; }\n}\nfn c() {}\n";
        assert_eq!(source(text).code_lines(), 2);
        let other = "#[cfg(test)]\nmod tests;\nfn a() {\n}\n";
        assert_eq!(source(other).code_lines(), 4);
    }

    #[test]
    fn a_word_is_whole() {
        assert!(has_word("use rusqlite::Connection;", "rusqlite"));
        assert!(!has_word("my_rusqlite", "rusqlite"));
        assert!(has_word("thread::sleep(x)", "sleep("));
    }
}
