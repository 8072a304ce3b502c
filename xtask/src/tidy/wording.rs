//! Words that must not occur in finished sources.

use super::TidyFinding;
use super::source::{RustSource, has_word};
use super::tree::SourceTree;

/// Forbidden code, and what to do instead.
const UNFINISHED: [(&str, &str); 4] = [
    (
        "#[ignore]",
        "a test that does not run proves nothing: fix or delete it",
    ),
    (
        "#[ignore ",
        "a test that does not run proves nothing: fix or delete it",
    ),
    (
        "todo!",
        "finish it, or return an error that says what is not supported",
    ),
    (
        "unimplemented!",
        "finish it, or return an error that says what is not supported",
    ),
];

/// Reports ignored tests, unfinished code, and tests that wait for a fixed time.
pub fn check(tree: &SourceTree) -> Vec<TidyFinding> {
    tree.sources.iter().flat_map(check_source).collect()
}

fn check_source(source: &RustSource) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for (index, line) in source.lines.iter().enumerate() {
        let mut report = |rule, message: String| {
            findings.push(TidyFinding::error(rule, &source.path, index + 1, message));
        };
        if has_word(&line.code, "cfg_attr") && has_word(&line.code, "ignore") {
            report(
                "unfinished",
                "a test that runs only sometimes: fix or delete it".into(),
            );
        }
        for (word, advice) in UNFINISHED {
            if has_word(&line.code, word) {
                report("unfinished", format!("`{}`: {advice}", word.trim_end()));
            }
        }
        if has_word(&line.comment, concat!("FIX", "ME")) {
            report(
                "unfinished",
                "a known fault left in place: fix it or open an issue".into(),
            );
        }
        if is_test_file(&source.path) && has_word(&line.code, "sleep(") {
            report(
                "sleep",
                "tests wait for a condition, not for the clock".into(),
            );
        }
    }
    findings
}

fn is_test_file(path: &str) -> bool {
    path.split('/').any(|part| part == "tests")
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{assert_clean, assert_only};

    #[test]
    fn unfinished_code_is_found() {
        for text in [
            "#[ignore]\nfn a() {}\n",
            "#[ignore = \"slow\"]\nfn a() {}\n",
            "#[cfg_attr(miri, ignore)]\nfn a() {}\n",
            "todo!();\n",
            "unimplemented!();\n",
            concat!("// FIX", "ME later\n"),
        ] {
            assert_only(
                &[("crates/store/src/a.rs", text)],
                "crates/store/src/a.rs:1: error [unfinished]",
            );
        }
        assert_clean(&[("crates/store/src/a.rs", "let a = \"todo!() #[ignore]\";\n")]);
    }

    #[test]
    fn only_tests_may_not_sleep() {
        let text = "thread::sleep(pause);\n";
        assert_only(
            &[("crates/store/tests/a.rs", text)],
            "crates/store/tests/a.rs:1: error [sleep]",
        );
        assert_clean(&[("crates/store/src/a.rs", text)]);
    }
}
