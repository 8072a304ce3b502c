//! The lifecycle in Rust, without the command line: creates a plan from an action and runs its
//! first phase.
//!
//! `cargo run -p cleveragents-integration-tests --example lifecycle`

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "an example shows what is asked for and says what came of it"
)]

use std::sync::Arc;

use cleveragents_definitions::{DefinitionSource, read_action};
use cleveragents_domain::id::{OwnerId, ProjectId, ResourceId};
use cleveragents_domain::{
    AbsolutePath, BaseSource, BuiltInProfile, Phase, ProfileName, Project, Resource, ResourceType,
};
use cleveragents_engine::lifecycle::{
    ActionChoice, ActionRegistry, PlanLifecycle, UseActionRequest,
};
use cleveragents_engine::runs::{ClaimOutcome, RunService};
use cleveragents_integration_tests::block_on;
use cleveragents_integration_tests::plan_driver::PassingProbe;
use cleveragents_ports::system::{SystemClock, SystemIds};
use cleveragents_ports::{Clock, Ids, Liveness, OwnerStatus, Slots, StoreOperation};
use cleveragents_store::Database;

const ACTION: &str = "\
name: local/greet
description: Greet {{ args.whom }}
strategy_actor: builtin/direct
execution_actor: builtin/direct
definition_of_done: '{{ args.whom }} is greeted'
arguments:
  - {name: whom, type: string, required: true}
";

pub(crate) fn main() {
    block_on(async {
        // A database, and the identity of this process. A real program opens one with
        // `Database::open`.
        let database = Database::memory(Arc::new(SystemClock)).expect("a database");
        let (store, ids) = (database.handle(), Arc::new(SystemIds));
        let owner = OwnerId::new(ids.next());
        let alone: Arc<dyn Liveness> = Arc::new(SingleProcess);
        let lifecycle = PlanLifecycle::new(store.clone(), ids.clone(), Arc::clone(&alone));
        let runs = RunService::new(store.clone(), ids.clone(), alone, owner);

        // Parse an action from the text of its file.
        let draft = read_action(&DefinitionSource::new("greet.yaml", ACTION), &|_| None);
        let draft = draft.expect("a well-formed action");
        let actions = ActionRegistry::new(store.clone(), ids.clone());
        let action = actions.create(draft, "example").await;
        let action = action.expect("a free name");

        // A project with a resource.
        let (project, folder) = (project(), folder());
        let name = project.name.clone();
        let made = store.write(StoreOperation::new(&*ids, "example"), move |tx| {
            tx.insert_project(&project)?;
            tx.insert_resource(&folder)?;
            tx.link_resource(&project.name, &folder.name)
        });
        made.await.expect("a new project");

        // Using the action creates a plan; no work starts yet.
        let plan = lifecycle.use_action(UseActionRequest {
            action: ActionChoice::Registered(action.name),
            projects: vec![name],
            arguments: vec!["whom=world".to_owned()],
            automation_profile: None,
            default_profile: ProfileName::BuiltIn(BuiltInProfile::Supervised),
            repository_profile: None,
            invariants: Vec::new(),
            strategy_actor: None,
            execution_actor: None,
            base: BaseSource::Head,
            idempotency_key: None,
            max_usd: None,
            destination: None,
            actor: "example".to_owned(),
        });
        let plan = plan.await.expect("a plan");
        assert_eq!(plan.brief.description, "Greet world");
        println!("{} is at {}", plan.name, plan.position);

        // A worker claims the run first; every move requires the claim.
        let claimed = runs.claim(plan.identity.plan_id, Phase::Strategize, Slots::Limit(4));
        let ClaimOutcome::Won(run) = claimed.await.expect("an answer") else {
            panic!("no other process claims it");
        };
        let started = lifecycle
            .as_owner(&run)
            .start(&PassingProbe)
            .await
            .expect("all is here");
        println!("{} is at {}", started.name, started.position);
        let complete = lifecycle
            .as_owner(&run)
            .complete()
            .await
            .expect("a legal move");
        println!("{} is at {}", complete.name, complete.position);
        assert_eq!(complete.position.to_string(), "strategize/complete");
        lifecycle.release(run).await.expect("still ours");
    });
}

fn project() -> Project {
    Project {
        id: ProjectId::new(SystemIds.next()),
        name: "local/world".parse().expect("a name"),
        description: None,
        automation_profile: None,
        created_at: SystemClock.now(),
        updated_at: SystemClock.now(),
        version: 1,
    }
}

fn folder() -> Resource {
    Resource {
        id: ResourceId::new(SystemIds.next()),
        name: "local/folder".parse().expect("a name"),
        resource_type: ResourceType::FsDirectory,
        path: AbsolutePath::from_bytes(b"/srv/world").expect("a path"),
        created_at: SystemClock.now(),
        version: 1,
    }
}

/// The only process on its node.
#[derive(Debug)]
struct SingleProcess;

impl Liveness for SingleProcess {
    fn node(&self) -> &str {
        "here"
    }

    fn owner_status(&self, _: OwnerId) -> OwnerStatus {
        OwnerStatus::Unknown
    }

    fn process_id(&self, _: OwnerId) -> Option<u32> {
        None
    }

    fn keep_lock_file(&self) {}
}
