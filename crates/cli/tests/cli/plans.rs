//! Plans for tests of commands that only look at them.

use cleveragents_cli::arguments::GlobalArguments;
use cleveragents_cli::environment::Environment;
use cleveragents_cli::settings::{Locations, Settings};
use cleveragents_cli::wiring::Wiring;
use cleveragents_domain::{Base, BuiltIn, Plan, ProfileName};
use cleveragents_engine::definitions::{Source, read_action};
use cleveragents_engine::lifecycle::{ActionChoice, UseRequest};

use crate::environment::TestEnvironment;

const ACTION: &str = "\
name: local/lint
description: Lint
strategy_actor: builtin/direct
execution_actor: builtin/direct
definition_of_done: It is clean
";

/// Makes a plan on the project as another process of ours would.
pub(crate) fn make_plan(environment: &TestEnvironment, project: &str) -> Plan {
    let arguments = GlobalArguments {
        data_dir: Some(environment.path(".cleveragents")),
        ..GlobalArguments::default()
    };
    let mut process = Environment::of_this_process();
    process.variables.clear();
    process.working_directory = Some(environment.path("work"));
    let locations = Locations::find(&arguments, &process).unwrap();
    let settings = Settings::load(locations, &arguments, &process).unwrap();
    let wiring = Wiring::announce(&settings, "a test").unwrap();
    let wired = wiring.open().unwrap();
    let draft = read_action(&Source::new("lint.yaml", ACTION), &|_| None).unwrap();
    let request = UseRequest {
        action: ActionChoice::Given(Box::new(draft)),
        projects: vec![project.parse().unwrap()],
        arguments: Vec::new(),
        automation_profile: None,
        default_profile: ProfileName::BuiltIn(BuiltIn::Supervised),
        invariants: Vec::new(),
        strategy_actor: None,
        execution_actor: None,
        base: Base::Head,
        idempotency_key: None,
        actor: "a test".to_owned(),
    };
    let lifecycle = wired.lifecycle();
    wired.wait(lifecycle.use_action(request)).unwrap()
}
