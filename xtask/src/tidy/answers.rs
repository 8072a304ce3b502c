//! Answers of commands are types: their keys are part of the contract, and a reader finds them all
//! in one struct beside the command.

use super::TidyFinding;
use super::source::RustSource;
use super::tree::SourceTree;

const COMMANDS: &str = "crates/cli/src/commands";

/// Reports JSON that a command builds by hand.
pub fn check(tree: &SourceTree) -> Vec<TidyFinding> {
    let sources = tree.sources.iter();
    sources
        .filter(|source| is_command(&source.path))
        .flat_map(check_source)
        .collect()
}

/// Also `commands.rs` itself; not `tests.rs`, the test module of another file.
fn is_command(path: &str) -> bool {
    path.starts_with(COMMANDS) && !path.ends_with("/tests.rs")
}

fn check_source(source: &RustSource) -> Vec<TidyFinding> {
    let lines = source.lines_with("json!");
    let lines = lines.filter(|line| !source.lines[line - 1].in_test_module);
    let finding = |line| {
        let message = "JSON built by hand: derive `Serialize` for a struct beside the command";
        TidyFinding::error("answers", &source.path, line, message)
    };
    lines.map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{assert_clean, assert_only};

    #[test]
    fn json_built_by_hand_in_a_command_is_found() {
        let text = "//! Doc.\nfn a() -> Value { json!({\"a\": 1}) }\n";
        let found = "crates/cli/src/commands/a.rs:2: error [answers]";
        assert_only(&[("crates/cli/src/commands/a.rs", text)], found);
        assert_clean(&[("crates/cli/src/failure.rs", text)]);
    }

    #[test]
    fn tests_of_commands_may_build_json() {
        let text = "//! Doc.\n#[cfg(test)]\nmod tests {\n fn a() -> Value { json!(1) }\n}\n";
        assert_clean(&[("crates/cli/src/commands/a.rs", text)]);
        let text = "//! Doc.\nfn a() -> Value { json!(1) }\n";
        assert_clean(&[("crates/cli/src/commands/a/tests.rs", text)]);
    }
}
