//! File names, and the header comments of crates and folder modules.

use super::TidyFinding;
use super::source::RustSource;
use super::tree::SourceTree;

/// Names that say nothing about the contents.
const EMPTY_NAMES: [&str; 5] = ["utils", "helpers", "common", "imp", "misc"];

/// Reports meaningless names and missing headers.
pub fn check(tree: &SourceTree) -> Vec<TidyFinding> {
    tree.sources
        .iter()
        .flat_map(|source| {
            let silent = is_module_root(tree, &source.path) && !has_module_doc(source);
            let opening = silent.then(|| {
                let advice =
                    "open with `//!`: what it is for, what it must not know, where to start";
                TidyFinding::error("opening", &source.path, 1, advice)
            });
            empty_name(&source.path).into_iter().chain(opening)
        })
        .collect()
}

fn empty_name(path: &str) -> Option<TidyFinding> {
    let stem = path.strip_suffix(".rs").unwrap_or(path);
    let name = stem.split('/').find(|part| EMPTY_NAMES.contains(part))?;
    let message = format!("`{name}` says nothing: name the file after what it holds");
    Some(TidyFinding::error("names", path, 1, message))
}

/// A crate root, a `mod.rs`, or a file beside a folder of its own name.
fn is_module_root(tree: &SourceTree, path: &str) -> bool {
    let Some(stem) = path.strip_suffix(".rs") else {
        return false;
    };
    let name = stem.rsplit('/').next().unwrap_or(stem);
    ["lib", "main", "mod"].contains(&name) || path.contains("/src/bin/") || tree.contains(stem)
}

fn has_module_doc(source: &RustSource) -> bool {
    source
        .lines
        .iter()
        .find(|line| !line.code.trim().is_empty() || !line.comment.is_empty())
        .is_some_and(|line| line.code.trim().is_empty() && line.comment.starts_with("/!"))
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{assert_clean, assert_only};

    #[test]
    fn crate_roots_and_folder_modules_need_a_doc() {
        for path in [
            "crates/store/src/lib.rs",
            "crates/cli/src/main.rs",
            "crates/store/src/sqlite/mod.rs",
        ] {
            assert_only(
                &[(path, "fn a() {}\n")],
                &format!("{path}:1: error [opening]"),
            );
            assert_clean(&[(path, "\n//! What it is for.\n")]);
        }
        assert_only(
            &[
                ("crates/store/src/sqlite.rs", "mod writer;\n"),
                ("crates/store/src/sqlite/writer.rs", "fn a() {}\n"),
            ],
            "crates/store/src/sqlite.rs:1: error [opening]",
        );
    }

    #[test]
    fn an_empty_name_is_refused_for_files_and_folders() {
        for path in ["crates/cli/src/utils.rs", "crates/cli/tests/common/run.rs"] {
            assert_only(&[(path, "\n")], &format!("{path}:1: error [names]"));
        }
        assert_clean(&[("crates/cli/src/commonplace.rs", "\n")]);
    }
}
