//! The workspace follows its own rules.

use xtask::{environment, output, tidy};

#[test]
fn the_workspace_is_tidy() {
    let findings = tidy::check(&environment::workspace_root()).unwrap();
    for finding in &findings {
        output::line(&finding.to_string());
    }
    assert_eq!(tidy::errors(&findings), 0, "findings are listed above");
}
