//! Editing: exactly once, everywhere, or not at all.

use cleveragents_engine::ports::tools::ToolFailure;
use proptest::prelude::*;
use serde_json::json;

use crate::world::{World, touched};

#[test]
fn one_place_is_changed_and_shown() {
    let world = World::new();
    world.write("a.rs", "fn one() {}\nfn two() {}\nfn three() {}\n");
    let input = json!({"path": "a.rs", "old": "two()", "new": "zwei()"});
    let output = world.run("file-edit", &input).unwrap();
    assert_eq!(output.data["replaced"], 1);
    assert_eq!(
        output.data["diff"],
        "@@ -1,3 +1,3 @@\n fn one() {}\n-fn two() {}\n+fn zwei() {}\n fn three() {}\n"
    );
    assert_eq!(output.touched, touched(&["a.rs"]));
    assert_eq!(
        world.content("a.rs"),
        "fn one() {}\nfn zwei() {}\nfn three() {}\n"
    );
    // Its own edit is known to the actor.
    let again = json!({"path": "a.rs", "content": ""});
    assert_eq!(world.data("file-write", &again)["result"], "replaced");
}

#[test]
fn what_is_not_there_or_there_twice_is_refused_with_what_is_near() {
    let world = World::new();
    world.write("a", "let total = 1;\nlet total = 2;\n");
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
        let failure = world.failure("file-edit", &json!({"path": "a", "old": old, "new": "x"}));
        assert!(matches!(failure, ToolFailure::Failed { .. }));
        assert!(failure.to_string().starts_with(said), "{failure}");
    }
    let same = json!({"path": "a", "old": "let", "new": "let"});
    assert_eq!(
        world.failure("file-edit", &same).to_string(),
        "`old` and `new` are the same"
    );
    let all = json!({"path": "a", "old": "let total", "new": "let sum", "all": true});
    assert_eq!(world.data("file-edit", &all)["replaced"], 2);
}

#[test]
fn bytes_around_the_place_stay_whatever_they_are() {
    let world = World::new();
    world.write("mixed", b"\xff\xfe old \r\n\0end");
    world.data(
        "file-edit",
        &json!({"path": "mixed", "old": "old", "new": "new"}),
    );
    assert_eq!(
        std::fs::read(world.path("mixed")).unwrap(),
        b"\xff\xfe new \r\n\0end"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// An edit and its reverse give the file back, wherever the marker stands.
    #[test]
    fn an_edit_can_be_undone(before in "[a-c\\r\\n é]{0,40}", after in "[a-c\\r\\n]{0,40}", new in "[x-z\\n]{1,8}") {
        let world = World::new();
        let content = format!("{before}«»{after}");
        world.write("a", &content);
        let there = world.data("file-edit", &json!({"path": "a", "old": "«»", "new": format!("<{new}>")}));
        prop_assert_eq!(there["replaced"].as_u64(), Some(1));
        prop_assert_eq!(world.content("a"), content.replace("«»", &format!("<{new}>")));
        world.data("file-edit", &json!({"path": "a", "old": format!("<{new}>"), "new": "«»"}));
        prop_assert_eq!(world.content("a"), content);
    }
}
