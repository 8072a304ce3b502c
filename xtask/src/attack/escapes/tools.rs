//! The file tools with paths that lead out of the tree.

/// Name, tool and input; `OUT` is the folder outside, `ROOT` the simulated machine. The tree has
/// the links `out` (to the folder outside) and `secret-link` (to the secret there).
pub const ATTEMPTS: &[(&str, &str, &str)] = &[
    (
        "tool-read-absolute",
        "file-read",
        r#"{"path": "OUT/secret"}"#,
    ),
    (
        "tool-read-dot-dot",
        "file-read",
        r#"{"path": "../../../../../outside/secret"}"#,
    ),
    ("tool-read-link", "file-read", r#"{"path": "secret-link"}"#),
    (
        "tool-read-linked-folder",
        "file-read",
        r#"{"path": "out/secret"}"#,
    ),
    (
        "tool-read-encoded",
        "file-read",
        r#"{"path": "%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/outside/secret"}"#,
    ),
    (
        "tool-read-proc",
        "file-read",
        r#"{"path": "/proc/self/environ"}"#,
    ),
    (
        "tool-write-absolute",
        "file-write",
        r#"{"path": "OUT/planted", "content": "x"}"#,
    ),
    (
        "tool-write-dot-dot",
        "file-write",
        r#"{"path": "../../../../../outside/planted", "content": "x"}"#,
    ),
    (
        "tool-write-linked-folder",
        "file-write",
        r#"{"path": "out/planted", "content": "x"}"#,
    ),
    (
        "tool-write-git",
        "file-write",
        r#"{"path": ".git", "content": "gitdir: OUT"}"#,
    ),
    (
        "tool-write-git-hook",
        "file-write",
        r#"{"path": ".git/hooks/pre-commit", "content": "x"}"#,
    ),
    (
        "tool-write-git-case",
        "file-write",
        r#"{"path": ".GIT/config", "content": "x"}"#,
    ),
    (
        "tool-edit-link",
        "file-edit",
        r#"{"path": "out/file", "old": "outside", "new": "edited"}"#,
    ),
    (
        "tool-move-out",
        "file-move",
        r#"{"from": "a", "to": "out/planted"}"#,
    ),
    (
        "tool-move-in",
        "file-move",
        r#"{"from": "out/secret", "to": "taken"}"#,
    ),
    (
        "tool-copy-in",
        "file-copy",
        r#"{"from": "out/secret", "to": "taken"}"#,
    ),
    (
        "tool-copy-out",
        "file-copy",
        r#"{"from": "a", "to": "OUT/planted"}"#,
    ),
    (
        "tool-delete-linked",
        "file-delete",
        r#"{"path": "out/file"}"#,
    ),
    ("tool-delete-folder", "dir-delete", r#"{"path": "out"}"#),
    (
        "tool-delete-dot-dot",
        "dir-delete",
        r#"{"path": "../../../../../outside"}"#,
    ),
    (
        "tool-make-folder",
        "dir-create",
        r#"{"path": "out/planted"}"#,
    ),
    ("tool-list-linked", "file-list", r#"{"path": "out"}"#),
    ("tool-list-absolute", "file-list", r#"{"path": "OUT"}"#),
    (
        "tool-search-linked",
        "file-search",
        r#"{"pattern": "[a-z]{20,}", "path": "out"}"#,
    ),
    (
        "tool-outline-linked",
        "outline",
        r#"{"path": "out/code.py"}"#,
    ),
    (
        "tool-diff-option",
        "git-diff",
        r#"{"path": "--output=OUT/planted"}"#,
    ),
    (
        "tool-log-option",
        "git-log",
        r#"{"path": "--output=OUT/planted"}"#,
    ),
];

/// The same input with a path inside the tree, for the control.
pub fn control_input(input: &str) -> String {
    let places = [
        ("--output=OUT/planted", "a"),
        ("\"old\": \"outside", "\"old\": \"inside"),
        ("gitdir: OUT", "x"),
        ("OUT", "inside"),
        ("%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/outside", "inside"),
        ("../../../../../outside", "inside"),
        ("/proc/self/environ", "inside/secret"),
        ("secret-link", "inside/secret"),
        (".git/hooks/pre-commit", "hooks"),
        (".GIT/config", "config"),
        ("\".git\"", "\"plain\""),
        ("\"out", "\"inside"),
    ];
    let replaced = |text: String, (from, to): (&str, &str)| text.replace(from, to);
    places.into_iter().fold(input.to_owned(), replaced)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_stay_inside_the_tree() {
        for (name, _, input) in ATTEMPTS {
            let inside = control_input(input);
            assert!(
                !inside.contains("OUT") && !inside.contains(".."),
                "{name}: {inside}"
            );
            assert_ne!(&inside, input, "{name}");
        }
    }
}
