//! Detects the language of a file: by its name, and for a script without extension by its first line.

use cleveragents_domain::ResourcePath;
use tree_sitter::{Language as Grammar, Node};

use super::languages::{c, go, java, javascript, python, rust};
use super::symbols::{NamedSymbol, NodeContext};

/// A language with a grammar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SourceLanguage {
    C,
    Cpp,
    Go,
    Java,
    JavaScript,
    Python,
    Rust,
    TypeScript,
    Tsx,
}

use SourceLanguage::{C, Cpp, Go, Java, JavaScript, Python, Rust, Tsx, TypeScript};

/// Languages by file extension. A header may be C or C++: nearly all C is valid C++, while the C
/// grammar parses a class as a function.
const EXTENSIONS: &[(&[&str], &[SourceLanguage])] = &[
    (&["c"], &[C]),
    (&["h"], &[Cpp, C]),
    (&["cc", "cpp", "cxx", "hh", "hpp", "hxx", "ipp"], &[Cpp]),
    (&["go"], &[Go]),
    (&["java"], &[Java]),
    (&["js", "mjs", "cjs", "jsx"], &[JavaScript]),
    (&["py", "pyi"], &[Python]),
    (&["rs"], &[Rust]),
    (&["ts", "mts", "cts"], &[TypeScript]),
    (&["tsx"], &[Tsx]),
];

/// Interpreter names in the first line of a script, without versions.
const INTERPRETERS: &[(&[&str], &[SourceLanguage])] =
    &[(&["python"], &[Python]), (&["node"], &[JavaScript])];

/// Maximum length in bytes of a first line that is examined.
const MAX_FIRST_LINE: usize = 256;

impl SourceLanguage {
    const ALL: [Self; 9] = [C, Cpp, Go, Java, JavaScript, Python, Rust, TypeScript, Tsx];

    pub(super) fn names() -> [&'static str; 9] {
        Self::ALL.map(Self::name)
    }

    /// The name in outputs.
    pub(super) const fn name(self) -> &'static str {
        match self {
            C => "c",
            Cpp => "cpp",
            Go => "go",
            Java => "java",
            JavaScript => "javascript",
            Python => "python",
            Rust => "rust",
            TypeScript => "typescript",
            Tsx => "tsx",
        }
    }

    pub(super) fn grammar(self) -> Grammar {
        match self {
            C => tree_sitter_c::LANGUAGE,
            Cpp => tree_sitter_cpp::LANGUAGE,
            Go => tree_sitter_go::LANGUAGE,
            Java => tree_sitter_java::LANGUAGE,
            JavaScript => tree_sitter_javascript::LANGUAGE,
            Python => tree_sitter_python::LANGUAGE,
            Rust => tree_sitter_rust::LANGUAGE,
            TypeScript => tree_sitter_typescript::LANGUAGE_TYPESCRIPT,
            Tsx => tree_sitter_typescript::LANGUAGE_TSX,
        }
        .into()
    }

    /// Returns the symbols that a node defines; most nodes define none.
    pub(super) fn symbols(self, node: Node<'_>, context: &NodeContext<'_>) -> Vec<NamedSymbol> {
        match self {
            C | Cpp => c::symbols(node, context),
            Go => go::symbols(node, context),
            Java => java::symbols(node, context),
            JavaScript | TypeScript | Tsx => javascript::symbols(node, context),
            Python => python::symbols(node, context),
            Rust => rust::symbols(node, context),
        }
    }
}

/// Returns the possible languages of a file, most likely first. Empty if none is known.
pub(super) fn detect_languages(path: &ResourcePath, content: &[u8]) -> &'static [SourceLanguage] {
    let path = String::from_utf8_lossy(path.as_bytes());
    let name = path.rsplit('/').next().unwrap_or_default();
    match name.rsplit_once('.') {
        // A name such as `.bashrc` has no extension.
        Some((start, ending)) if !start.is_empty() => {
            find_languages(EXTENSIONS, &ending.to_ascii_lowercase())
        }
        _ => find_languages(INTERPRETERS, &interpreter(content)),
    }
}

/// Lists all languages and their file extensions for users.
pub(super) fn describe_known_languages() -> String {
    let all = SourceLanguage::ALL.iter().map(|language| {
        let of_it = EXTENSIONS.iter().filter(|(_, it)| it.contains(language));
        let endings: Vec<String> = of_it
            .flat_map(|(endings, _)| endings.iter().map(|ending| format!(".{ending}")))
            .collect();
        format!("{} ({})", language.name(), endings.join(" "))
    });
    all.collect::<Vec<_>>().join(", ")
}

fn find_languages(
    list: &'static [(&[&str], &[SourceLanguage])],
    key: &str,
) -> &'static [SourceLanguage] {
    let row = list.iter().find(|(words, _)| words.contains(&key));
    row.map_or(&[], |(_, languages)| languages)
}

/// Returns `python` for `#!/usr/bin/env -S python3.12 -u`, and an empty string without interpreter.
fn interpreter(content: &[u8]) -> String {
    let start = &content[..content.len().min(MAX_FIRST_LINE)];
    let line = start
        .split(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line
        .strip_prefix("#!")
        .unwrap_or_default()
        .split_whitespace();
    let name_of = |word: &str| word.rsplit('/').next().unwrap_or_default().to_owned();
    let first = words.next().map(name_of).unwrap_or_default();
    let named = match first.as_str() {
        "env" => words
            .find(|word| !word.starts_with('-') && !word.contains('='))
            .map(name_of),
        _ => Some(first),
    };
    let plain = named.unwrap_or_default();
    let version = |sign: char| sign.is_ascii_digit() || sign == '.';
    plain.trim_end_matches(version).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_language_has_an_extension_and_a_grammar() {
        for language in SourceLanguage::ALL {
            assert!(EXTENSIONS.iter().any(|(_, it)| it.contains(&language)));
            let mut parser = tree_sitter::Parser::new();
            parser.set_language(&language.grammar()).unwrap();
        }
    }

    #[test]
    fn a_name_or_a_first_line_gives_the_language() {
        for (path, content, expected) in [
            ("a.rs", "", &[Rust][..]),
            ("deep/er/A.PY", "", &[Python]),
            ("a.b.tsx", "", &[Tsx]),
            ("a.h", "", &[Cpp, C]),
            ("run", "#!/bin/sh\n", &[]),
            ("run", "#!/usr/bin/env python3.12", &[Python]),
            (
                "run",
                "#! /usr/bin/env -S LANG=C node --flag\n",
                &[JavaScript],
            ),
            ("run", "#!/usr/bin/awk -f\n", &[]),
            ("run", "#!", &[]),
            ("run", "#!/usr/bin/env", &[]),
            ("run", "text\n", &[]),
            ("notes.txt", "#!/bin/sh\n", &[]),
            (".rs", "", &[]),
            ("rs", "", &[]),
            ("a.", "", &[]),
            ("a.rs/b", "", &[]),
        ] {
            let found = detect_languages(&path.parse().unwrap(), content.as_bytes());
            assert_eq!(found, expected, "{path} {content}");
        }
    }
}
