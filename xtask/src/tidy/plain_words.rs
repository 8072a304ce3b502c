//! Words that names, comments, documents and texts for users must not use, because no reader outside
//! the project knows their meaning here.

use super::TidyFinding;
use super::documents::without_inline_code;
use super::source::{RustSource, has_word};
use super::tree::{SourceTree, TextFile};

/// Parts of identifiers (`first_told`, `Told`), and what to write instead.
const NAME_PARTS: [(&str, &str); 25] = [
    ("told", "`payload`, `message` or what it holds"),
    ("whoever", "the role: `owner`, `caller`, `user`"),
    ("whom", "the role: `owner`, `caller`, `user`"),
    ("nobody", "`unowned`, `none` or the state"),
    ("somebody", "the role: `owner`, `caller`, `user`"),
    ("anybody", "the role: `owner`, `caller`, `user`"),
    ("mend", "`repair` or `fix`"),
    ("mends", "`repair` or `fix`"),
    ("mended", "`repaired` or `fixed`"),
    ("mending", "`repair` or `fix`"),
    ("inn", "`sandbox_guard`"),
    ("seat", "`sandbox_handle`"),
    ("seats", "`sandbox_handles`"),
    ("furnish", "`open`"),
    ("trouble", "`error`"),
    ("twig", "`tree_row`"),
    ("dice", "`random_fraction`"),
    ("surroundings", "what it holds: `probe`, `environment`"),
    ("scene", "`fixture` or what it holds"),
    ("meddler", "what it does"),
    ("patience", "`timeout`"),
    ("wired", "`app`"),
    ("wiring", "`bootstrap`"),
    ("workshop", "what it holds"),
    ("stands", "`unchanged`, `active` or the state"),
];

/// Phrases in string literals, comments and documents, and what to write instead. Doc comments are
/// also help texts and descriptions of JSON Schemas.
const PHRASES: [(&str, &str); 13] = [
    ("nobody", "name the role or the state: `not running`"),
    ("somebody", "name the role: `another process`, `you`"),
    ("whoever", "name the role: `the next run`, `you`"),
    ("told", "`got`, `was asked to`, or the message itself"),
    ("mend", "`fix`"),
    ("mends", "`fixes`"),
    ("mended", "`fixed`"),
    ("mending", "`fixing`"),
    ("stands at", "`state`"),
    ("the word to", "`start signal`, `stop signal`"),
    ("take a plan on", "`run a plan`"),
    ("something is in the way", "`conflicting files`"),
    ("nothing is outstanding", "`nothing to run`"),
];

/// Further phrases in comments and documents.
const PROSE_PHRASES: [(&str, &str); 6] = [
    ("everybody", "name the role: `all users`, `every process`"),
    ("accompany", "`run with`, `beside`"),
    ("accompanies", "`runs with`, `beside`"),
    ("undisturbed", "`without conflicts`, `without interference`"),
    ("telling", "`secret`, or name the fact that it reveals"),
    ("beneath", "`below`, `inside`"),
];

/// Dialect in identifiers everywhere, in texts and comments outside tests, and in the documents
/// below `docs`.
pub fn check(tree: &SourceTree) -> Vec<TidyFinding> {
    let sources = tree.sources.iter().flat_map(check_source);
    let documents = tree.documents.iter();
    let documents = documents.filter(|it| it.path.starts_with("docs/"));
    sources.chain(documents.flat_map(check_document)).collect()
}

fn check_document(document: &TextFile) -> Vec<TidyFinding> {
    let lines = document.text.lines().enumerate();
    lines
        .flat_map(|(index, line)| {
            let report = |(phrase, advice)| finding(&document.path, index, phrase, advice);
            phrases_of_prose(line).map(report).collect::<Vec<_>>()
        })
        .collect()
}

/// Returns the phrases in a line of a comment or document, with the advice for each. Inline code
/// quotes other texts, such as the user `nobody`, and is not checked.
fn phrases_of_prose(line: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let text = without_inline_code(line).to_lowercase();
    let phrases = PHRASES.into_iter().chain(PROSE_PHRASES);
    phrases.filter(move |(phrase, _)| has_word(&text, phrase))
}

fn finding(path: &str, index: usize, what: &str, advice: &str) -> TidyFinding {
    let message = format!("`{what}` is not a plain word here: write {advice}");
    TidyFinding::error("plain-words", path, index + 1, message)
}

fn check_source(source: &RustSource) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    let has_user_texts = has_user_texts(&source.path);
    for (index, line) in source.lines.iter().enumerate() {
        let mut report = |what: &str, advice: &str| {
            findings.push(finding(&source.path, index, what, advice));
        };
        for name in identifiers(&line.code) {
            for (part, advice) in NAME_PARTS {
                if name_parts(name).any(|it| it.eq_ignore_ascii_case(part)) {
                    report(name, advice);
                }
            }
        }
        if has_checked_comments(&source.path) && !line.in_test_module {
            phrases_of_prose(&line.comment).for_each(|(phrase, advice)| report(phrase, advice));
        }
        if has_user_texts && !line.in_test_module {
            let text = line.text.to_lowercase();
            for (phrase, advice) in PHRASES {
                if has_word(&text, phrase) {
                    report(phrase, advice);
                }
            }
        }
    }
    findings
}

/// Texts of tests, and of this list itself, are not for users.
fn has_user_texts(path: &str) -> bool {
    path.starts_with("crates/")
        && path.contains("/src/")
        && !path.starts_with("crates/integration-tests/")
        && !path.ends_with("tests.rs")
}

/// Comments of tests may quote the words.
fn has_checked_comments(path: &str) -> bool {
    path.contains("/src/") && !path.ends_with("tests.rs")
}

fn identifiers(code: &str) -> impl Iterator<Item = &str> {
    code.split(|character: char| !character.is_alphanumeric() && character != '_')
        .filter(|name| !name.is_empty())
}

/// The words of `snake_case` and `CamelCase` names.
fn name_parts(name: &str) -> impl Iterator<Item = &str> {
    name.split('_').flat_map(|part| {
        let is_start = |(at, character): (usize, char)| {
            let follows_lower = part[..at].ends_with(|it: char| it.is_lowercase());
            (character.is_uppercase() && follows_lower).then_some(at)
        };
        let mut starts: Vec<usize> = part.char_indices().filter_map(is_start).collect();
        starts.insert(0, 0);
        let ends = starts.iter().skip(1).copied().chain([part.len()]);
        let ranges: Vec<(usize, usize)> = starts.iter().copied().zip(ends).collect();
        ranges.into_iter().map(|(start, end)| &part[start..end])
    })
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{assert_clean, assert_only};
    use super::name_parts;

    #[test]
    fn names_are_cut_into_words() {
        let parts = |name: &'static str| name_parts(name).collect::<Vec<_>>();
        assert_eq!(parts("first_seat_row"), ["first", "seat", "row"]);
        assert_eq!(parts("FirstSeat"), ["First", "Seat"]);
        assert_eq!(parts("SEAT"), ["SEAT"]);
    }

    #[test]
    fn dialect_in_a_name_is_found() {
        for text in [
            "fn mend_it() {}\n",
            "struct FirstSeat;\n",
            "const DICE: u8 = 1;\n",
        ] {
            let found = "crates/store/tests/a.rs:1: error [plain-words]";
            assert_only(&[("crates/store/tests/a.rs", text)], found);
        }
        let plain = "fn amend_seating() { innermost(\"told\") }\n";
        assert_clean(&[("crates/store/tests/a.rs", plain)]);
    }

    #[test]
    fn dialect_in_a_text_for_users_is_found() {
        let text = "//! Doc.\nfn a() -> &'static str { \"It Stands at 3.\" }\n";
        assert_only(
            &[("crates/store/src/a.rs", text)],
            "crates/store/src/a.rs:2: error [plain-words] `stands at`",
        );
        assert_clean(&[("crates/store/tests/a.rs", text)]);
    }

    #[test]
    fn dialect_in_a_comment_is_found() {
        for text in [
            "//! Doc.\n/// Tells whoever waits.\nfn a() {}\n",
            "//! Doc.\n//! For everybody.\nfn a() {}\n",
            "//! Doc.\n// Runs undisturbed.\nfn a() {}\n",
        ] {
            let found = "crates/store/src/a.rs:2: error [plain-words]";
            assert_only(&[("crates/store/src/a.rs", text)], found);
        }
        let plain = "//! Doc.\n/// The user `nobody`.\nfn a() {}\n";
        assert_clean(&[("crates/store/src/a.rs", plain)]);
        let test = "//! Doc.\n// The user is told.\nfn a() {}\n";
        assert_clean(&[("crates/store/tests/a.rs", test)]);
    }

    #[test]
    fn dialect_in_a_document_is_found() {
        let text = "# Guide\n\nA file that nobody reads.\n";
        assert_only(
            &[("docs/guide/a.md", text)],
            "docs/guide/a.md:3: error [plain-words] `nobody`",
        );
        assert_clean(&[("CHANGELOG.md", text)]);
        assert_clean(&[("docs/guide/a.md", "The user `nobody`.\n")]);
    }
}
