//! Questions on a terminal about plans whose apply was interrupted: what is said after "no" is true.

use cleveragents_cli::bootstrap::ApplyStep;

use crate::kill_at_step::kill_when_reached;
use crate::manual_recovery::set_up_stuck_apply;
use crate::run_command::run_on_terminal;
use crate::world::{BASE, TestWorld};

const EDIT: &str = "\
- {tool: builtin/file-edit, input: {path: a, old: '2', new: two}}
- {tool: builtin/file-write, input: {path: made, content: made}}
";

/// Runs a command that dies after it has changed some files.
fn kill_half_done(world: &TestWorld, words: &[&str]) {
    kill_when_reached(world, words, &["home", "shop"], ApplyStep::IndexReplaced);
}

#[test]
fn an_interrupted_apply_is_finished_before_the_question() {
    let world = TestWorld::new();
    let plan = world.create_executed_plan(EDIT);
    kill_half_done(&world, &["plan", "apply", &plan, "--yes"]);
    let (code, seen) = run_on_terminal(&world, &["plan", "apply", &plan], "n\n");
    assert_eq!(code, Some(0), "{seen}");
    assert!(seen.contains("an interrupted apply was finished"), "{seen}");
    assert!(!seen.contains("[y/N]"), "{seen}");
    assert_eq!(world.state(&plan), "apply/applied");
    assert_eq!(world.read("shop/made"), "made");
    assert_eq!(world.git_status("shop"), "");
}

#[test]
fn an_interrupted_unapply_is_finished_before_the_question() {
    let world = TestWorld::new();
    let plan = world.create_executed_plan(EDIT);
    world.apply(&plan).succeeded();
    kill_half_done(&world, &["plan", "unapply", &plan, "--yes"]);
    let (code, seen) = run_on_terminal(&world, &["plan", "unapply", &plan], "n\n");
    assert_eq!(code, Some(0), "{seen}");
    assert!(!seen.contains("[y/N]"), "{seen}");
    assert_eq!(world.state(&plan), "apply/unapplied");
    assert_eq!(world.read("shop/a"), BASE);
    assert!(!world.path("shop/made").exists());
}

#[test]
fn a_question_about_a_stopped_apply_says_that_files_may_be_changed() {
    let world = TestWorld::new();
    let plan = world.create_executed_plan(EDIT);
    set_up_stuck_apply(&world, &plan);
    // The first command tries to finish the apply; the second finds it stopped.
    for _ in 0..2 {
        let (code, seen) = run_on_terminal(&world, &["plan", "apply", &plan], "n\n");
        assert_eq!(code, Some(5), "{seen}");
        assert!(seen.contains("some files may be changed already"), "{seen}");
        assert!(seen.contains("the apply was not continued"), "{seen}");
        assert!(!seen.contains("nothing was applied"), "{seen}");
    }
    let words = ["plan", "apply", &plan, "--mark-applied"];
    let (code, seen) = run_on_terminal(&world, &words, "n\n");
    assert_eq!(code, Some(5), "{seen}");
    assert!(seen.contains("was not marked as applied"), "{seen}");
    assert_eq!(world.state(&plan), "apply/errored");
}

#[test]
fn nothing_is_applied_or_undone_without_a_yes() {
    let world = TestWorld::new();
    let plan = world.create_executed_plan(EDIT);
    let (code, seen) = run_on_terminal(&world, &["plan", "apply", &plan], "n\n");
    assert_eq!(code, Some(5), "{seen}");
    assert!(seen.contains("nothing was applied"), "{seen}");
    assert_eq!(world.state(&plan), "execute/complete");
    world.apply(&plan).succeeded();
    let (code, seen) = run_on_terminal(&world, &["plan", "unapply", &plan], "n\n");
    assert_eq!(code, Some(5), "{seen}");
    assert!(seen.contains("the plan was not unapplied"), "{seen}");
    assert_eq!(world.read("shop/made"), "made");
}

/// A rollback abandons the apply, so it must not finish it before the question.
#[test]
fn a_refused_rollback_leaves_an_interrupted_apply_as_it_was() {
    let world = TestWorld::new();
    let plan = world.create_executed_plan(EDIT);
    kill_half_done(&world, &["plan", "apply", &plan, "--yes"]);
    let words = ["plan", "rollback", &plan, "1"];
    let (code, seen) = run_on_terminal(&world, &words, "n\n");
    assert_eq!(code, Some(5), "{seen}");
    assert!(seen.contains("nothing was rolled back"), "{seen}");
    assert_eq!(world.state(&plan), "apply/processing");
    let (code, seen) = run_on_terminal(&world, &words, "y\n");
    assert_eq!(code, Some(0), "{seen}");
    assert_eq!(world.read("shop/a"), BASE);
}
