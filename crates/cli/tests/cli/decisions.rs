//! x
use crate::environment::TestEnvironment;
use crate::story;

#[test]
fn look() {
    let environment = TestEnvironment::new();
    let told = story::tell_corrected(&environment);
    println!("{told:#?}");
    let plan = told.plan.to_string();
    let cart = told.cart.decision_id.to_string();
    for arguments in [
        &[
            "plan",
            "tree",
            &plan,
            "--format",
            "rich",
            "--show-superseded",
        ][..],
        &[
            "plan",
            "explain",
            &cart,
            "--format",
            "rich",
            "--show-context",
            "--show-reasoning",
        ],
    ] {
        let run = environment.run(arguments);
        println!("{}{}", run.stdout, run.stderr);
    }
}
