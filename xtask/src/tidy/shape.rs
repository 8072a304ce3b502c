//! Shapes: how many methods a type has, and how many parameters a function takes.

use std::collections::BTreeMap;

use super::TidyFinding;
use super::source::RustSource;
use super::tree::SourceTree;

/// The maximum number of inherent methods of a type; trait implementations do not count.
const MAX_METHODS: usize = 25;

/// The maximum number of parameters of a function without `self`; each element of a tuple counts.
const MAX_PARAMETERS: usize = 5;

/// Reports types with too many methods, functions with too many parameters and parameters that are
/// bundled in a tuple, outside tests.
pub fn check(tree: &SourceTree) -> Vec<TidyFinding> {
    let mut types: BTreeMap<(String, String), TypeShape> = BTreeMap::new();
    let mut findings = Vec::new();
    let sources = tree.sources.iter();
    for source in sources.filter(|source| source.path.contains("/src/")) {
        let code = Code::new(source);
        findings.extend(code.function_findings(&source.path));
        for block in code.inherent_impls() {
            let package = source.path.split("/src/").next().unwrap_or_default();
            let shape = types.entry((package.to_owned(), block.name)).or_default();
            shape.methods += block.methods;
            // The finding is reported where the type has most of its methods.
            if block.methods > shape.most {
                shape.most = block.methods;
                shape.place = (source.path.clone(), block.line);
            }
        }
    }
    for ((_, name), shape) in types {
        if shape.methods > MAX_METHODS {
            let message = format!(
                "{name} has {} methods; {MAX_METHODS} are allowed: split it by subject",
                shape.methods
            );
            let (file, line) = &shape.place;
            findings.push(TidyFinding::error("methods", file, *line, message));
        }
    }
    findings
}

#[derive(Debug, Default)]
struct TypeShape {
    methods: usize,
    most: usize,
    place: (String, usize),
}

/// An `impl` block without a trait.
struct InherentImpl {
    name: String,
    methods: usize,
    line: usize,
}

/// The name of a function and the text of each parameter.
struct FunctionShape {
    line: usize,
    name: String,
    parameters: Vec<String>,
}

impl FunctionShape {
    fn problems(&self) -> Vec<String> {
        let (name, mut problems) = (&self.name, Vec::new());
        let numbers = self.parameters.iter().map(|it| count_parameters(it));
        let number: usize = numbers.sum();
        if number > MAX_PARAMETERS {
            problems.push(format!(
                "{name} takes {number} parameters; {MAX_PARAMETERS} are allowed, elements of \
                 tuples included: give it a struct"
            ));
        }
        let patterns = self.parameters.iter().filter_map(|it| tuple_pattern(it));
        problems.extend(patterns.map(|pattern| {
            format!("{name} takes {pattern} as a tuple: pass separate parameters or a struct")
        }));
        problems
    }
}

/// The code of a file outside test modules, without comments, with the line of each character.
struct Code {
    text: Vec<char>,
    lines: Vec<usize>,
}

impl Code {
    fn new(source: &RustSource) -> Self {
        let (mut text, mut lines) = (Vec::new(), Vec::new());
        for (index, line) in source.lines.iter().enumerate() {
            let code = if line.in_test_module { "" } else { &line.code };
            for character in code.chars().chain(['\n']) {
                text.push(character);
                lines.push(index + 1);
            }
        }
        Self { text, lines }
    }

    fn function_findings(&self, path: &str) -> Vec<TidyFinding> {
        let functions = self.words("fn").filter_map(|at| self.function(at));
        let findings = functions.flat_map(|function| {
            let line = function.line;
            let problems = function.problems().into_iter();
            problems.map(move |problem| TidyFinding::error("parameters", path, line, problem))
        });
        findings.collect()
    }

    /// Returns the function whose `fn` is at `at`.
    fn function(&self, at: usize) -> Option<FunctionShape> {
        let (name, after) = self.word_after(at + 2)?;
        let open = match self.text[self.skip_spaces(after)] {
            '<' => self.skip_spaces(self.closing(self.skip_spaces(after))? + 1),
            _ => self.skip_spaces(after),
        };
        if self.text.get(open) != Some(&'(') {
            return None;
        }
        let inside: String = self.text[open + 1..self.closing(open)?].iter().collect();
        Some(FunctionShape {
            line: self.lines[at],
            name,
            parameters: split(&inside),
        })
    }

    fn inherent_impls(&self) -> Vec<InherentImpl> {
        self.words("impl")
            .filter(|at| self.starts_item(*at))
            .filter_map(|at| {
                let open = (at..self.text.len()).find(|at| self.text[*at] == '{')?;
                let head: String = self.text[at + 4..open].iter().collect();
                let name = inherent_type(&head)?;
                let end = self.closing(open)?;
                let methods = self
                    .words("fn")
                    .filter(|at| (open..end).contains(at) && self.depth(open, *at) == 1);
                Some(InherentImpl {
                    name,
                    methods: methods.count(),
                    line: self.lines[at],
                })
            })
            .collect()
    }

    /// Whether only spaces precede `at` on its line; `-> impl Trait` is no item.
    fn starts_item(&self, at: usize) -> bool {
        let before = self.text[..at].iter().rev();
        before.take_while(|it| **it != '\n').all(|it| *it == ' ')
    }

    /// The number of open braces between `from` and `to`.
    fn depth(&self, from: usize, to: usize) -> usize {
        let count = |brace| {
            self.text[from..to]
                .iter()
                .filter(|it| **it == brace)
                .count()
        };
        count('{').saturating_sub(count('}'))
    }

    /// The positions of a whole word.
    fn words<'a>(&'a self, word: &'a str) -> impl Iterator<Item = usize> + 'a {
        let letters: Vec<char> = word.chars().collect();
        (0..self.text.len()).filter(move |at| {
            let end = at + letters.len();
            self.text[*at..].starts_with(&letters)
                && !at.checked_sub(1).is_some_and(|at| is_word(self.text[at]))
                && !self.text.get(end).copied().is_some_and(is_word)
        })
    }

    fn word_after(&self, at: usize) -> Option<(String, usize)> {
        let start = self.skip_spaces(at);
        let word: String = self.text[start..]
            .iter()
            .take_while(|it| is_word(**it))
            .collect();
        let end = start + word.chars().count();
        (!word.is_empty()).then_some((word, end))
    }

    fn skip_spaces(&self, at: usize) -> usize {
        let spaces = self.text[at..].iter().take_while(|it| it.is_whitespace());
        (at + spaces.count()).min(self.text.len() - 1)
    }

    /// The position of the bracket that closes the one at `open`. Only brackets of its kind count:
    /// a body may compare with `<`.
    fn closing(&self, open: usize) -> Option<usize> {
        let opening = self.text[open];
        let closing = match opening {
            '(' => ')',
            '<' => '>',
            _ => '}',
        };
        let mut depth = 0_usize;
        for at in open..self.text.len() {
            let is_arrow = self.text[at] == '>' && matches!(self.text[at - 1], '-' | '=');
            if self.text[at] == opening {
                depth += 1;
            } else if self.text[at] == closing && !is_arrow {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
        }
        None
    }
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// 1 for an opening bracket, -1 for a closing one. An arrow is no bracket.
fn bracket(character: char, before: char) -> i8 {
    match character {
        '(' | '[' | '{' | '<' => 1,
        '>' if before == '-' || before == '=' => 0,
        ')' | ']' | '}' | '>' => -1,
        _ => 0,
    }
}

/// Splits at commas outside brackets.
fn split(text: &str) -> Vec<String> {
    let (mut parts, mut depth, mut before) = (vec![String::new()], 0_i32, ' ');
    for character in text.chars() {
        depth += i32::from(bracket(character, before));
        match parts.last_mut() {
            Some(_) if character == ',' && depth == 0 => parts.push(String::new()),
            Some(part) => part.push(character),
            None => {}
        }
        before = character;
    }
    parts.retain(|part| !part.trim().is_empty());
    parts
}

/// The position of the colon between the pattern and the type of a parameter.
fn type_colon(parameter: &str) -> Option<usize> {
    let (mut depth, mut before) = (0_i32, ' ');
    let mut characters = parameter.char_indices();
    let colon = characters.find(|(_, character)| {
        depth += i32::from(bracket(*character, before));
        before = *character;
        *character == ':' && depth == 0
    });
    colon.map(|(at, _)| at)
}

/// The pattern of a parameter that takes a tuple apart.
fn tuple_pattern(parameter: &str) -> Option<&str> {
    let pattern = parameter[..type_colon(parameter)?].trim();
    pattern.starts_with('(').then_some(pattern)
}

/// The number of parameters that one stands for: none for `self`, the elements of a tuple.
fn count_parameters(parameter: &str) -> usize {
    let Some(colon) = type_colon(parameter) else {
        // `self`, `&mut self`
        return 0;
    };
    if parameter[..colon].split_whitespace().next_back() == Some("self") {
        return 0;
    }
    let mut kind = parameter[colon + 1..]
        .trim()
        .trim_start_matches('&')
        .trim_start();
    if let Some(rest) = kind.strip_prefix('\'') {
        kind = rest.trim_start_matches(is_word).trim_start();
    }
    kind = kind.strip_prefix("mut ").unwrap_or(kind);
    match kind.strip_prefix('(').and_then(|it| it.strip_suffix(')')) {
        Some(elements) => split(elements).len().max(1),
        None => 1,
    }
}

/// The name of the type in the head of an `impl` block; `None` if the block implements a trait.
fn inherent_type(head: &str) -> Option<String> {
    let mut head = head.trim_start();
    if head.starts_with('<') {
        let (mut depth, mut before) = (0_i32, ' ');
        let end = head.char_indices().find(|(_, character)| {
            depth += i32::from(bracket(*character, before));
            before = *character;
            depth == 0
        })?;
        head = head[end.0 + 1..].trim_start();
    }
    let words = head.split_whitespace();
    if words.clone().any(|word| word == "for") {
        return None;
    }
    let path: String = head
        .chars()
        .take_while(|it| is_word(*it) || *it == ':')
        .collect();
    path.rsplit("::").next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{assert_clean, assert_only};

    fn type_with(methods: usize) -> String {
        let half = methods / 2;
        let functions = |count| "    fn a(&self) { if a < b { c } }\n".repeat(count);
        format!(
            "struct Big;\nimpl Big {{\n{}}}\nimpl<'a> Big {{\n{}}}\nimpl Clone for Big {{\n{}}}\n",
            functions(half),
            functions(methods - half),
            functions(9)
        )
    }

    #[test]
    fn a_type_with_too_many_methods_is_found() {
        let path = "crates/store/src/big.rs";
        assert_clean(&[(path, &type_with(25))]);
        let error = "crates/store/src/big.rs:17: error [methods] Big has 27 methods";
        assert_only(&[(path, &type_with(27))], error);
    }

    #[test]
    fn elements_of_tuples_are_parameters() {
        let path = "crates/store/src/long.rs";
        let five =
            "fn a<T: Fn(u8) -> u8>(&self, a: (u8, u8), b: &[u8], c: Vec<(u8, u8)>, d: T) {}\n";
        assert_clean(&[(path, five)]);
        let six = "fn a(\n    &mut self,\n    ab: (u8, u8),\n    c: &mut (A<u8>, B, C),\n    d: u8,\n) {}\n";
        let error = "crates/store/src/long.rs:1: error [parameters] a takes 6 parameters";
        assert_only(&[(path, six)], error);
    }

    #[test]
    fn parameters_bundled_in_a_tuple_are_found() {
        let path = "crates/store/src/bundle.rs";
        let pair = "fn a(&self, size: (u8, u8)) { let add = |(a, b): (u8, u8)| a + b; }\n";
        assert_clean(&[(path, pair)]);
        let bundle = "fn a(\n    &self,\n    (name, (x, y)): (&str, (u8, u8)),\n) {}\n";
        let error =
            "crates/store/src/bundle.rs:1: error [parameters] a takes (name, (x, y)) as a tuple";
        assert_only(&[(path, bundle)], error);
    }

    #[test]
    fn tests_may_have_any_shape() {
        let text = "#[cfg(test)]\nmod tests {\n fn a(a: (A, B, C, D, E, F)) {}\n}\n";
        assert_clean(&[("crates/store/src/long.rs", text)]);
    }
}
