//! Checks that the documented example works as described.

#[path = "../../examples/lifecycle.rs"]
mod lifecycle;

#[test]
fn the_example_runs() {
    lifecycle::main();
}
