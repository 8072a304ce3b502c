//! A data directory with many plans, and the measured calls.

#![expect(
    clippy::disallowed_methods,
    reason = "a bench starts the program that it measures"
)]

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use cleveragents_definitions::{DefinitionSource, read_action};
use cleveragents_domain::{BaseSource, BuiltInProfile, InvariantScope, Plan, ProfileName, Project};
use cleveragents_engine::lifecycle::{
    ActionChoice, ActionRegistry, PlanLifecycle, UseActionRequest,
};
use cleveragents_integration_tests::lifecycle_samples::{invariant, project};
use cleveragents_integration_tests::samples::name;
use cleveragents_integration_tests::store_access::{read, run_concurrently, write};
use cleveragents_integration_tests::{Backend, OpenTestDatabase, TestDatabase, block_on};
use cleveragents_ports::PlanFilter;
use cleveragents_ports::system::SystemIds;
use tokio::runtime::Runtime;

const ACTION: &str = "\
name: local/lint
description: Lint the shop
strategy_actor: builtin/planner
execution_actor: builtin/worker
definition_of_done: no warnings are left
invariants: ['keep the public interface']
";

const PROJECT: &str = "local/shop";
const LIMIT: u32 = 100;
/// The number of concurrent inserts while filling a database.
const PARALLEL_INSERTS: usize = 16;

/// A measured call.
#[derive(Debug, Clone, Copy)]
pub(crate) enum BenchCall {
    Status,
    Use,
    List,
    ListOfProject,
}

impl BenchCall {
    pub(crate) const ALL: [Self; 4] = [Self::Status, Self::Use, Self::List, Self::ListOfProject];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Status => "plan status",
            Self::Use => "plan use",
            Self::List => "plan list --limit 100",
            Self::ListOfProject => "plan list --project --limit 100",
        }
    }

    fn arguments(self, plan: &str) -> Vec<&str> {
        match self {
            Self::Status => vec!["plan", "status", plan],
            Self::Use => vec!["plan", "use", "local/lint", PROJECT],
            Self::List => vec!["plan", "list", "--limit", "100"],
            Self::ListOfProject => {
                vec!["plan", "list", "--project", PROJECT, "--limit", "100"]
            }
        }
    }
}

pub(crate) struct PlanDatabase {
    test_db: TestDatabase,
    opened: OpenTestDatabase,
    lifecycle: PlanLifecycle,
    runtime: Runtime,
    /// A plan from the middle of the list.
    plan: Plan,
}

impl PlanDatabase {
    /// Creates a directory with this many plans, each created as a user would.
    pub(crate) fn with_plans(backend: Backend, plans: usize) -> Self {
        let test_db = TestDatabase::new(backend);
        let opened = test_db.open();
        let lifecycle = PlanLifecycle::new(
            opened.store.clone(),
            Arc::new(SystemIds),
            opened.presence.clone(),
        );
        let made = block_on(async {
            let shop = Project {
                automation_profile: None,
                ..project(PROJECT, 0)
            };
            write(&opened.store, move |tx| tx.insert_project(&shop)).await;
            let draft = read_action(&DefinitionSource::new("lint.yaml", ACTION), &|_| None);
            let draft = draft.expect("an action");
            ActionRegistry::new(opened.store.clone(), Arc::new(SystemIds))
                .create(draft, "bench")
                .await
                .expect("an action");
            let made = run_concurrently(PARALLEL_INSERTS, |filler| {
                let lifecycle = lifecycle.clone();
                async move {
                    let mut last = None;
                    for _ in (filler..plans).step_by(PARALLEL_INSERTS) {
                        last = Some(lifecycle.use_action(request()).await.expect("a plan"));
                    }
                    last
                }
            });
            made.await
        });
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_time()
            .build()
            .expect("a runtime");
        Self {
            test_db,
            opened,
            lifecycle,
            runtime,
            plan: made.into_iter().flatten().next().expect("a plan"),
        }
    }

    /// Adds global rules until there are this many.
    pub(crate) fn add_rules(&self, target: usize) {
        self.runtime.block_on(async {
            let there = read(&self.opened.store, |tx| tx.invariants()).await;
            let first = there.len();
            write(&self.opened.store, move |tx| {
                for number in first..target {
                    tx.insert_invariant(&invariant(
                        &format!("{number}"),
                        InvariantScope::Global,
                        0,
                    ))?;
                }
                Ok(())
            })
            .await;
        });
    }

    /// Milliseconds that the program takes from start to exit.
    pub(crate) fn time_process(&self, agents: &Path, call: BenchCall) -> f64 {
        let plan = self.plan.identity.plan_id.to_string();
        let mut command = Command::new(agents);
        command
            .args(call.arguments(&plan))
            .arg("--data-dir")
            .arg(self.test_db.folder())
            .env_clear()
            .env("HOME", self.test_db.folder())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if let Some(url) = &self.test_db.url {
            command.env("CLEVERAGENTS_DATABASE_URL", url);
        }
        let begun = Instant::now();
        let status = command.status().expect("the program starts");
        let taken = begun.elapsed().as_secs_f64() * 1000.0;
        assert!(status.success(), "{call:?}: {status}");
        taken
    }

    /// Milliseconds that the engine takes in a running process.
    pub(crate) fn time_engine(&self, call: BenchCall) -> f64 {
        let lifecycle = &self.lifecycle;
        let id = self.plan.identity.plan_id;
        let list = |project: Option<&str>| PlanFilter {
            limit: Some(LIMIT),
            projects: project.map(name).into_iter().collect(),
            ..PlanFilter::default()
        };
        let begun = Instant::now();
        self.runtime.block_on(async {
            match call {
                BenchCall::Status => {
                    let fragment = id.to_string().parse().expect("an id");
                    let found = lifecycle.find_plan(fragment).await.expect("the plan");
                    assert_eq!(found.identity.plan_id, id);
                    let run = self.opened.store.read(move |tx| tx.run_of(id)).await;
                    assert_eq!(run.expect("an answer"), None);
                }
                BenchCall::Use => {
                    lifecycle.use_action(request()).await.expect("a plan");
                }
                BenchCall::List | BenchCall::ListOfProject => {
                    let project = matches!(call, BenchCall::ListOfProject).then_some(PROJECT);
                    let page = lifecycle.list_plans(list(project)).await.expect("a page");
                    assert_eq!(page.plans.len(), LIMIT as usize);
                }
            }
        });
        begun.elapsed().as_secs_f64() * 1000.0
    }
}

fn request() -> UseActionRequest {
    UseActionRequest {
        action: ActionChoice::Registered(name("local/lint")),
        projects: vec![name(PROJECT)],
        arguments: Vec::new(),
        automation_profile: None,
        default_profile: ProfileName::BuiltIn(BuiltInProfile::Supervised),
        repository_profile: None,
        invariants: vec!["no new dependencies".to_owned()],
        strategy_actor: None,
        execution_actor: None,
        base: BaseSource::Head,
        idempotency_key: None,
        max_usd: None,
        destination: None,
        actor: "bench".to_owned(),
    }
}
