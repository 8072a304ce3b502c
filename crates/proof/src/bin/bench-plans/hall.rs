//! A data directory full of plans, and the calls that are made in it.

#![expect(
    clippy::disallowed_methods,
    reason = "a bench starts the program that it measures"
)]

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use cleveragents_domain::{Base, BuiltIn, Plan, ProfileName, Project, Scope};
use cleveragents_engine::definitions::{Source, read_action};
use cleveragents_engine::lifecycle::{ActionChoice, PlanLifecycle, UseRequest};
use cleveragents_engine::ports::PlanFilter;
use cleveragents_engine::system::SystemIds;
use cleveragents_proof::lifecycle_samples::{invariant, project};
use cleveragents_proof::samples::name;
use cleveragents_proof::verbs::{read, together, write};
use cleveragents_proof::{Backend, Opened, Place, block_on};
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
/// How many fill a hall at once.
const FILLERS: usize = 16;

/// What is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Call {
    Status,
    Use,
    List,
    ListOfProject,
}

impl Call {
    pub(crate) const ALL: [Self; 4] = [Self::Status, Self::Use, Self::List, Self::ListOfProject];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Status => "plan status",
            Self::Use => "plan use",
            Self::List => "plan list --limit 100",
            Self::ListOfProject => "plan list --project --limit 100",
        }
    }

    fn words(self, plan: &str) -> Vec<&str> {
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

pub(crate) struct Hall {
    place: Place,
    opened: Opened,
    lifecycle: PlanLifecycle,
    runtime: Runtime,
    /// One of the middle.
    plan: Plan,
}

impl Hall {
    /// A directory with so many plans, each made as a user makes it.
    pub(crate) fn filled(backend: Backend, plans: usize) -> Self {
        let place = Place::new(backend);
        let opened = place.open();
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
            write(&opened.store, move |unit| unit.insert_project(&shop)).await;
            let draft = read_action(&Source::new("lint.yaml", ACTION), &|_| None);
            let draft = draft.expect("an action");
            lifecycle
                .create_action(draft, "bench")
                .await
                .expect("an action");
            let made = together(FILLERS, |filler| {
                let lifecycle = lifecycle.clone();
                async move {
                    let mut last = None;
                    for _ in (filler..plans).step_by(FILLERS) {
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
            place,
            opened,
            lifecycle,
            runtime,
            plan: made.into_iter().flatten().next().expect("a plan"),
        }
    }

    /// Adds rules for everything until there are so many.
    pub(crate) fn add_rules(&self, wanted: usize) {
        self.runtime.block_on(async {
            let there = read(&self.opened.store, |unit| unit.invariants()).await;
            let first = there.len();
            write(&self.opened.store, move |unit| {
                for number in first..wanted {
                    unit.insert_invariant(&invariant(&format!("{number}"), Scope::Global, 0))?;
                }
                Ok(())
            })
            .await;
        });
    }

    /// How many milliseconds the program takes, from its start to its end.
    pub(crate) fn process(&self, agents: &Path, call: Call) -> f64 {
        let plan = self.plan.identity.plan_id.to_string();
        let mut command = Command::new(agents);
        command
            .args(call.words(&plan))
            .arg("--data-dir")
            .arg(self.place.folder())
            .env_clear()
            .env("HOME", self.place.folder())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if let Some(url) = &self.place.url {
            command.env("CLEVERAGENTS_DATABASE_URL", url);
        }
        let begun = Instant::now();
        let status = command.status().expect("the program starts");
        let taken = begun.elapsed().as_secs_f64() * 1000.0;
        assert!(status.success(), "{call:?}: {status}");
        taken
    }

    /// How many milliseconds the engine takes in a process that is already there.
    pub(crate) fn engine(&self, call: Call) -> f64 {
        let lifecycle = &self.lifecycle;
        let id = self.plan.identity.plan_id;
        let list = |project: Option<&str>| PlanFilter {
            limit: Some(LIMIT),
            project: project.map(name),
            ..PlanFilter::default()
        };
        let begun = Instant::now();
        self.runtime.block_on(async {
            match call {
                Call::Status => {
                    let fragment = id.to_string().parse().expect("an id");
                    let found = lifecycle.find_plan(fragment).await.expect("the plan");
                    assert_eq!(found.identity.plan_id, id);
                    let run = self.opened.store.read(move |unit| unit.run_of(id)).await;
                    assert_eq!(run.expect("an answer"), None);
                }
                Call::Use => {
                    lifecycle.use_action(request()).await.expect("a plan");
                }
                Call::List | Call::ListOfProject => {
                    let project = matches!(call, Call::ListOfProject).then_some(PROJECT);
                    let page = lifecycle.list_plans(list(project)).await.expect("a page");
                    assert_eq!(page.plans.len(), LIMIT as usize);
                }
            }
        });
        begun.elapsed().as_secs_f64() * 1000.0
    }
}

fn request() -> UseRequest {
    UseRequest {
        action: ActionChoice::Registered(name("local/lint")),
        projects: vec![name(PROJECT)],
        arguments: Vec::new(),
        automation_profile: None,
        default_profile: ProfileName::BuiltIn(BuiltIn::Supervised),
        repository_profile: None,
        invariants: vec!["no new dependencies".to_owned()],
        strategy_actor: None,
        execution_actor: None,
        base: Base::Head,
        idempotency_key: None,
        max_usd: None,
        actor: "bench".to_owned(),
    }
}
