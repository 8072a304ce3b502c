//! Editing: exactly once, everywhere, or not at all.

use cleveragents_ports::tools::ToolFailure;
use proptest::prelude::*;
use serde_json::json;

use crate::fixture::{ToolFixture, touched};

#[test]
fn one_match_is_replaced_and_shown() {
    let fixture = ToolFixture::new();
    fixture.write("a.rs", "fn one() {}\nfn two() {}\nfn three() {}\n");
    let input = json!({"path": "a.rs", "old": "two()", "new": "zwei()"});
    let output = fixture.run("file-edit", &input).unwrap();
    assert_eq!(output.data["replaced"], 1);
    assert_eq!(
        output.data["diff"],
        "@@ -1,3 +1,3 @@\n fn one() {}\n-fn two() {}\n+fn zwei() {}\n fn three() {}\n"
    );
    assert_eq!(output.touched, touched(&["a.rs"]));
    assert_eq!(
        fixture.content("a.rs"),
        "fn one() {}\nfn zwei() {}\nfn three() {}\n"
    );
    // The actor knows the result of its own edit.
    let again = json!({"path": "a.rs", "content": ""});
    assert_eq!(fixture.data("file-write", &again)["result"], "replaced");
}

#[test]
fn a_missing_or_ambiguous_text_is_refused_with_hints() {
    let fixture = ToolFixture::new();
    fixture.write("a", "let total = 1;\nlet total = 2;\n");
    for (old, said) in [
        (
            "let totl = 1;",
            "a was not changed: `old` is not in it; the nearest lines are:\n1: let total = 1;\n2: let total = 2;",
        ),
        ("let total", "a was not changed: `old` is in it 2 times"),
        (
            "LET",
            "a was not changed: `old` is not in it, nor anything like it",
        ),
    ] {
        let failure = fixture.failure("file-edit", &json!({"path": "a", "old": old, "new": "x"}));
        assert!(matches!(failure, ToolFailure::Failed { .. }));
        assert!(failure.to_string().starts_with(said), "{failure}");
    }
    let same = json!({"path": "a", "old": "let", "new": "let"});
    assert_eq!(
        fixture.failure("file-edit", &same).to_string(),
        "`old` and `new` are the same"
    );
    let all = json!({"path": "a", "old": "let total", "new": "let sum", "all": true});
    assert_eq!(fixture.data("file-edit", &all)["replaced"], 2);
}

#[test]
fn bytes_around_the_match_are_unchanged() {
    let fixture = ToolFixture::new();
    fixture.write("mixed", b"\xff\xfe old \r\n\0end");
    fixture.data(
        "file-edit",
        &json!({"path": "mixed", "old": "old", "new": "new"}),
    );
    assert_eq!(
        std::fs::read(fixture.path("mixed")).unwrap(),
        b"\xff\xfe new \r\n\0end"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// An edit and its reverse restore the file, wherever the marker is.
    #[test]
    fn an_edit_can_be_undone(before in "[a-c\\r\\n é]{0,40}", after in "[a-c\\r\\n]{0,40}", new in "[x-z\\n]{1,8}") {
        let fixture = ToolFixture::new();
        let content = format!("{before}«»{after}");
        fixture.write("a", &content);
        let there = fixture.data("file-edit", &json!({"path": "a", "old": "«»", "new": format!("<{new}>")}));
        prop_assert_eq!(there["replaced"].as_u64(), Some(1));
        prop_assert_eq!(fixture.content("a"), content.replace("«»", &format!("<{new}>")));
        fixture.data("file-edit", &json!({"path": "a", "old": format!("<{new}>"), "new": "«»"}));
        prop_assert_eq!(fixture.content("a"), content);
    }
}
