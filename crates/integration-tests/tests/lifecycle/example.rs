//! The documented example does what it says.

#[path = "../../examples/lifecycle.rs"]
mod lifecycle;

#[test]
fn the_example_runs() {
    lifecycle::main();
}
