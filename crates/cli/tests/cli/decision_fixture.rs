//! A data directory with a plan and its decisions, written by the services themselves, with the
//! same ids in every run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use cleveragents_cli::arguments::GlobalArguments;
use cleveragents_cli::bootstrap::{AppContext, Bootstrap};
use cleveragents_cli::environment::{Environment, Terminal};
use cleveragents_cli::settings::{Locations, Settings};
use cleveragents_definitions::{DefinitionSource, read_action};
use cleveragents_domain::id::{DecisionId, PlanId, ProjectId, ResourceId};
use cleveragents_domain::{
    AbsolutePath, BaseSource, BuiltInProfile, Confidence, CorrectionMode, Decision, DecisionType,
    ErrorCategory, Phase, ProfileName, Project, Resource, ResourceType, Timestamp, WaitReason,
};
use cleveragents_engine::decisions::{
    ContextItem, CorrectionRequest, DecisionContext, DecisionDraft, DecisionService,
};
use cleveragents_engine::error_history::{ErrorRecovery, NewErrorRecord};
use cleveragents_engine::lifecycle::{
    ActionChoice, ActionRegistry, PlanLifecycle, UseActionRequest,
};
use cleveragents_engine::runs::{ClaimOutcome, RunLease};
use cleveragents_integration_tests::plan_driver::{claim_run, start_phase};
use cleveragents_ports::{Ids, Slots, StoreError, StoreOperation};
use ulid::Ulid;

use crate::environment::TestEnvironment;

const ACTION: &str = "\
name: local/lint
description: Lint the shop
strategy_actor: builtin/planner
execution_actor: builtin/worker
definition_of_done: no warnings are left
invariants: ['keep the public interface']
";

/// Sequential ids from a start that can be changed.
#[derive(Debug)]
struct SequentialIds(AtomicU64);

/// An old timestamp, so that ids made by the program look different.
const FIRST_ID: u128 = 0x0197_FFFF_FFFF << 80;

impl Ids for SequentialIds {
    fn next(&self) -> Ulid {
        let number = self.0.fetch_add(1, Ordering::Relaxed);
        Ulid(FIRST_ID + u128::from(number))
    }
}

/// The fixture's plan and its decisions.
#[derive(Debug, Clone)]
pub(crate) struct DecisionFixture {
    pub(crate) plan: PlanId,
    pub(crate) root: DecisionId,
    /// `Begin with the cart`, on which the next two depend.
    pub(crate) cart: Decision,
    pub(crate) files: Decision,
    /// Influenced by `files`, below the root.
    pub(crate) tests: Decision,
}

/// Returns the program's own access to the data directory, for tests that write to it.
pub(crate) fn bootstrap(environment: &TestEnvironment) -> Bootstrap {
    let directory = environment.path(".cleveragents");
    let arguments = GlobalArguments {
        data_dir: Some(directory),
        ..GlobalArguments::default()
    };
    let environment_without_terminal = Environment {
        executable: None,
        arguments: Vec::new(),
        variables: environment.variables(),
        working_directory: Some(environment.path("work")),
        stdin: Terminal::None,
        stdout: Terminal::None,
        stderr: Terminal::None,
        width: 100,
        started: Timestamp::default(),
        started_instant: Instant::now(),
    };
    let locations = Locations::find(&arguments, &environment_without_terminal).unwrap();
    let settings = Settings::load(locations, &arguments, &environment_without_terminal).unwrap();
    Bootstrap::announce(&settings, &environment_without_terminal, "a test").unwrap()
}

/// Writes the fixture.
struct FixtureBuilder<'a> {
    app: &'a AppContext<'a>,
    ids: Arc<SequentialIds>,
    lifecycle: PlanLifecycle,
    decisions: DecisionService,
}

impl<'a> FixtureBuilder<'a> {
    fn new(app: &'a AppContext<'a>) -> Self {
        let ids = Arc::new(SequentialIds(AtomicU64::new(1)));
        let store = app.store().clone();
        Self {
            app,
            lifecycle: PlanLifecycle::new(store.clone(), ids.clone(), app.liveness()),
            decisions: DecisionService::new(store, ids.clone(), app.liveness()),
            ids,
        }
    }

    /// Sets the next id, so that it does not depend on how many were used before.
    fn set_next_id(&self, number: u64) {
        self.ids.0.store(number, Ordering::Relaxed);
    }

    async fn create_project_and_action(&self) {
        let project = Project {
            id: ProjectId::new(self.ids.next()),
            name: "local/shop".parse().unwrap(),
            description: None,
            automation_profile: None,
            created_at: Timestamp::default(),
            updated_at: Timestamp::default(),
            version: 1,
        };
        let folder = Resource {
            id: ResourceId::new(self.ids.next()),
            name: "local/folder".parse().unwrap(),
            resource_type: ResourceType::FsDirectory,
            path: AbsolutePath::from_bytes(b"/srv/shop").unwrap(),
            created_at: Timestamp::default(),
            version: 1,
        };
        let operation = StoreOperation::new(&*self.ids, "test.add-project");
        let added = self.app.store().write(operation, move |tx| {
            tx.insert_project(&project)?;
            tx.insert_resource(&folder)?;
            tx.link_resource(&project.name, &folder.name)?;
            Ok::<_, StoreError>(())
        });
        added.await.unwrap();
        let draft = read_action(&DefinitionSource::new("lint.yaml", ACTION), &|_| None).unwrap();
        let actions = ActionRegistry::new(self.app.store().clone(), self.ids.clone());
        actions.create(draft, "eva").await.unwrap();
    }

    async fn use_action(&self) -> (PlanId, DecisionId) {
        let request = UseActionRequest {
            action: ActionChoice::Registered("local/lint".parse().unwrap()),
            projects: vec!["local/shop".parse().unwrap()],
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
            actor: "eva".to_owned(),
        };
        let plan = self.lifecycle.use_action(request).await.unwrap();
        (plan.identity.plan_id, plan.decision_root_id.unwrap())
    }

    async fn claim(&self, plan: PlanId) -> RunLease {
        claim_run(&self.app.runs(), plan, Phase::Strategize).await
    }

    async fn start(&self, plan: PlanId) -> RunLease {
        let run = self.claim(plan).await;
        start_phase(&self.lifecycle, &run).await;
        run
    }

    async fn record_decision(
        &self,
        run: &RunLease,
        choice: DecisionDraft,
        number: u64,
    ) -> Decision {
        self.set_next_id(number);
        self.decisions.record(run, choice).await.unwrap()
    }
}

fn new_choice(parent: DecisionId, question: &str, chosen: &str) -> DecisionDraft {
    DecisionDraft {
        parent,
        decision_type: DecisionType::StrategyChoice,
        question: question.to_owned(),
        chosen: chosen.to_owned(),
        alternatives: Vec::new(),
        rationale: String::new(),
        confidence: None,
        reasoning: None,
        context: DecisionContext::default(),
        influences: Vec::new(),
    }
}

fn cart_choice(root: DecisionId) -> DecisionDraft {
    DecisionDraft {
        alternatives: vec![
            "Begin with the prices".to_owned(),
            "Begin everywhere at once".to_owned(),
        ],
        rationale: "Most findings are there, and nothing else depends on it.".to_owned(),
        confidence: Some(Confidence::new(0.82).unwrap()),
        reasoning: Some("37 of 41 findings are in src/cart.rs.\nI begin there.".to_owned()),
        context: DecisionContext {
            items: vec![
                ContextItem {
                    name: "src/cart.rs".to_owned(),
                    text: "fn total() -> u32 {\n\tlet unused = 1;\n\t0\n}\n".to_owned(),
                },
                ContextItem {
                    name: "findings".to_owned(),
                    text: "41 findings: \u{201c}unused\u{201d}\n".to_owned(),
                },
            ],
            resources: vec!["local/folder".to_owned()],
            actor_state: Some(b"state".to_vec()),
            request: None,
        },
        ..new_choice(root, "Where to begin?", "Begin with the cart")
    }
}

/// Creates a plan at `strategize/processing` without a running process.
pub(crate) fn create(environment: &TestEnvironment) -> DecisionFixture {
    let bootstrap = bootstrap(environment);
    let app = bootstrap.open().unwrap();
    let builder = FixtureBuilder::new(&app);
    app.block_on(async {
        builder.create_project_and_action().await;
        builder.set_next_id(0x10000);
        let (plan, root) = builder.use_action().await;
        let run = builder.start(plan).await;
        let cart = builder
            .record_decision(&run, cart_choice(root), 0x20000)
            .await;
        let files = DecisionDraft {
            decision_type: DecisionType::ResourceSelection,
            confidence: Some(Confidence::new(0.9).unwrap()),
            ..new_choice(
                cart.decision_id,
                "Which files?",
                "src/cart.rs\nand its tests",
            )
        };
        let files = builder.record_decision(&run, files, 0x30000).await;
        let tests = DecisionDraft {
            influences: vec![files.decision_id],
            ..new_choice(root, "How is it checked?", "Run the tests of the cart")
        };
        let tests = builder.record_decision(&run, tests, 0x40000).await;
        builder.lifecycle.release(run).await.unwrap();
        DecisionFixture {
            plan,
            root,
            cart,
            files,
            tests,
        }
    })
}

/// The fixture with a corrected strategy.
pub(crate) fn create_corrected(environment: &TestEnvironment) -> DecisionFixture {
    let fixture = create(environment);
    let bootstrap = bootstrap(environment);
    let app = bootstrap.open().unwrap();
    let builder = FixtureBuilder::new(&app);
    builder.set_next_id(0x50000);
    let corrected = builder.decisions.correct(CorrectionRequest {
        decision: fixture.cart.decision_id,
        mode: CorrectionMode::Revert,
        guidance: "Begin with the prices".to_owned(),
        actor: "eva".to_owned(),
    });
    app.block_on(corrected).unwrap();
    fixture
}

/// The fixture with a live run of its plan, which ends when the returned value is dropped.
pub(crate) fn create_running(environment: &TestEnvironment) -> (DecisionFixture, Bootstrap) {
    let fixture = create(environment);
    let bootstrap = bootstrap(environment);
    {
        let app = bootstrap.open().unwrap();
        let runs = app.runs();
        let claimed = app.block_on(runs.claim(fixture.plan, Phase::Strategize, Slots::Shared));
        assert!(matches!(claimed.unwrap(), ClaimOutcome::Won(_)));
    }
    (fixture, bootstrap)
}

/// The fixture with a chain of `levels` decisions below its root.
pub(crate) fn create_deep(environment: &TestEnvironment, levels: usize) -> DecisionFixture {
    let fixture = create(environment);
    let bootstrap = bootstrap(environment);
    let app = bootstrap.open().unwrap();
    let below = fixture.tests.clone();
    let operation = app.operation("test.add-depth");
    let inserted = app.store().write(operation, move |tx| {
        let mut parent = below.clone();
        for level in 0..levels {
            let next = Decision {
                decision_id: DecisionId::new(Ulid(FIRST_ID + (1 << 40) + level as u128)),
                parent_decision_id: Some(parent.decision_id),
                ..parent.clone()
            };
            tx.insert_decision(&next)?;
            parent = next;
        }
        Ok::<_, StoreError>(())
    });
    app.block_on(inserted).unwrap();
    fixture
}

/// The fixture with two kinds of errors, one of them twice, and the plan errored.
pub(crate) fn create_failed(environment: &TestEnvironment) {
    let fixture = create(environment);
    let bootstrap = bootstrap(environment);
    let app = bootstrap.open().unwrap();
    let builder = FixtureBuilder::new(&app);
    let recovery = ErrorRecovery::new(app.store().clone(), builder.ids.clone());
    let limit = NewErrorRecord {
        category: ErrorCategory::RateLimit,
        message: "the model is busy".to_owned(),
        step: Some(2),
        cause_chain: vec!["HTTP 429".to_owned(), "retry after 7 s".to_owned()],
    };
    let tool = NewErrorRecord {
        category: ErrorCategory::Tool,
        message: "cargo test failed".to_owned(),
        step: Some(2),
        cause_chain: Vec::new(),
    };
    app.block_on(async {
        builder.set_next_id(0x70000);
        let run = builder.claim(fixture.plan).await;
        for error in [limit.clone(), limit, tool] {
            recovery.record(fixture.plan, error, "eva").await.unwrap();
        }
        let reason = "cargo test failed";
        builder.lifecycle.as_owner(&run).fail(reason).await.unwrap();
        builder.lifecycle.release(run).await.unwrap();
    });
}

/// The fixture with a waiting plan.
pub(crate) fn create_waiting(environment: &TestEnvironment, waiting: WaitReason) {
    let fixture = create(environment);
    let bootstrap = bootstrap(environment);
    let app = bootstrap.open().unwrap();
    let builder = FixtureBuilder::new(&app);
    app.block_on(async {
        builder.set_next_id(0x70000);
        let run = builder.claim(fixture.plan).await;
        builder
            .lifecycle
            .as_owner(&run)
            .wait(waiting)
            .await
            .unwrap();
        builder.lifecycle.release(run).await.unwrap();
    });
}

/// Makes the strategy of a queued plan fail.
pub(crate) fn fail_plan(environment: &TestEnvironment, plan: PlanId) {
    let bootstrap = bootstrap(environment);
    let app = bootstrap.open().unwrap();
    app.block_on(async {
        let runs = app.runs();
        let claimed = runs.claim(plan, Phase::Strategize, Slots::Shared).await;
        let ClaimOutcome::Won(run) = claimed.unwrap() else {
            panic!("somebody else runs the plan");
        };
        let lifecycle = PlanLifecycle::new(app.store().clone(), app.ids(), app.liveness());
        start_phase(&lifecycle, &run).await;
        lifecycle.as_owner(&run).fail("no strategy").await.unwrap();
        lifecycle.release(run).await.unwrap();
    });
}
