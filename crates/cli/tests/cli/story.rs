//! A data directory in which a plan was thought about, written by the services themselves, with
//! the same ids every time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use cleveragents_cli::arguments::GlobalArguments;
use cleveragents_cli::environment::{Environment, Terminal};
use cleveragents_cli::settings::{Locations, Settings};
use cleveragents_cli::wiring::{Wired, Wiring};
use cleveragents_domain::id::{DecisionId, PlanId, ProjectId, ResourceId};
use cleveragents_domain::{
    AbsolutePath, Base, BuiltIn, Confidence, CorrectionMode, Decision, DecisionType, ErrorCategory,
    NamespacedName, Phase, ProfileName, Project, Resource, ResourceType, Timestamp, Waiting,
};
use cleveragents_engine::decisions::{
    Choice, Context, ContextItem, CorrectRequest, DecisionService,
};
use cleveragents_engine::definitions::{Source, read_action};
use cleveragents_engine::lifecycle::{ActionChoice, PlanLifecycle, Surroundings, UseRequest};
use cleveragents_engine::ports::{Ids, Operation, Slots, StoreError};
use cleveragents_engine::recovery::{ErrorRecovery, Trouble};
use cleveragents_engine::runs::{Outcome, RunLease};
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

/// Ids one after the other, from a beginning that can be moved.
#[derive(Debug)]
struct Numbered(AtomicU64);

/// Long ago, so that ids made by the program look different.
const BEGINNING: u128 = 0x0197_FFFF_FFFF << 80;

impl Ids for Numbered {
    fn next(&self) -> Ulid {
        let number = self.0.fetch_add(1, Ordering::Relaxed);
        Ulid(BEGINNING + u128::from(number))
    }
}

/// A world in which everything is there.
#[derive(Debug)]
struct AllThere;

impl Surroundings for AllThere {
    fn actor(&self, _: &NamespacedName) -> Result<(), String> {
        Ok(())
    }

    fn tool(&self, _: &NamespacedName) -> Result<(), String> {
        Ok(())
    }

    fn readable(&self, _: &Resource) -> Result<(), String> {
        Ok(())
    }

    fn sandboxed(&self, _: &Resource) -> Result<(), String> {
        Ok(())
    }

    fn checkpointed(&self, _: &Resource) -> Result<(), String> {
        Ok(())
    }
}

/// The plan of the story and what was decided in it.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    pub(crate) plan: PlanId,
    pub(crate) root: DecisionId,
    /// `Begin with the cart`, on which the next two hang.
    pub(crate) cart: Decision,
    pub(crate) files: Decision,
    /// Influenced by `files`, below the root.
    pub(crate) tests: Decision,
}

/// The program's own way to a data directory, for tests that write to it.
pub(crate) fn wiring(environment: &TestEnvironment) -> Wiring {
    let directory = environment.path(".cleveragents");
    let arguments = GlobalArguments {
        data_dir: Some(directory),
        ..GlobalArguments::default()
    };
    let nobody = Environment {
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
    let locations = Locations::find(&arguments, &nobody).unwrap();
    let settings = Settings::load(locations, &arguments, &nobody).unwrap();
    Wiring::announce(&settings, &nobody, "a test").unwrap()
}

/// Who tells the story.
struct Teller<'a> {
    wired: &'a Wired<'a>,
    ids: Arc<Numbered>,
    lifecycle: PlanLifecycle,
    decisions: DecisionService,
}

impl<'a> Teller<'a> {
    fn new(wired: &'a Wired<'a>) -> Self {
        let ids = Arc::new(Numbered(AtomicU64::new(1)));
        let store = wired.store().clone();
        Self {
            wired,
            lifecycle: PlanLifecycle::new(store.clone(), ids.clone(), wired.liveness()),
            decisions: DecisionService::new(store, ids.clone(), wired.liveness()),
            ids,
        }
    }

    /// What is made next gets its ids from here on, however many were taken before.
    fn begin_at(&self, number: u64) {
        self.ids.0.store(number, Ordering::Relaxed);
    }

    async fn furnish(&self) {
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
        let operation = Operation::new(&*self.ids, "story.furnish");
        let furnished = self.wired.store().write(operation, move |unit| {
            unit.insert_project(&project)?;
            unit.insert_resource(&folder)?;
            unit.link_resource(&project.name, &folder.name)?;
            Ok::<_, StoreError>(())
        });
        furnished.await.unwrap();
        let draft = read_action(&Source::new("lint.yaml", ACTION), &|_| None).unwrap();
        self.lifecycle.create_action(draft, "eva").await.unwrap();
    }

    async fn use_action(&self) -> (PlanId, DecisionId) {
        let request = UseRequest {
            action: ActionChoice::Registered("local/lint".parse().unwrap()),
            projects: vec!["local/shop".parse().unwrap()],
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
            actor: "eva".to_owned(),
        };
        let plan = self.lifecycle.use_action(request).await.unwrap();
        (plan.identity.plan_id, plan.decision_root_id.unwrap())
    }

    async fn claim(&self, plan: PlanId) -> RunLease {
        let runs = self.wired.runs();
        let claimed = runs.claim(plan, Phase::Strategize, Slots::Shared).await;
        let Outcome::Won(run) = claimed.unwrap() else {
            panic!("somebody else runs the plan of this story");
        };
        run
    }

    async fn start(&self, plan: PlanId) -> RunLease {
        let run = self.claim(plan).await;
        self.lifecycle.start(&run, &AllThere).await.unwrap();
        run
    }

    async fn decide(&self, run: &RunLease, choice: Choice, number: u64) -> Decision {
        self.begin_at(number);
        self.decisions.record(run, choice).await.unwrap()
    }
}

fn choice(parent: DecisionId, question: &str, chosen: &str) -> Choice {
    Choice {
        parent,
        decision_type: DecisionType::StrategyChoice,
        question: question.to_owned(),
        chosen: chosen.to_owned(),
        alternatives: Vec::new(),
        rationale: String::new(),
        confidence: None,
        reasoning: None,
        context: Context::default(),
        influences: Vec::new(),
    }
}

fn cart(root: DecisionId) -> Choice {
    Choice {
        alternatives: vec![
            "Begin with the prices".to_owned(),
            "Begin everywhere at once".to_owned(),
        ],
        rationale: "Most findings are there, and nothing else depends on it.".to_owned(),
        confidence: Some(Confidence::new(0.82).unwrap()),
        reasoning: Some("37 of 41 findings are in src/cart.rs.\nI begin there.".to_owned()),
        context: Context {
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
        },
        ..choice(root, "Where to begin?", "Begin with the cart")
    }
}

/// Writes the story: a plan at `strategize/processing` that nobody runs.
pub(crate) fn tell(environment: &TestEnvironment) -> Told {
    let wiring = wiring(environment);
    let wired = wiring.open().unwrap();
    let teller = Teller::new(&wired);
    wired.wait(async {
        teller.furnish().await;
        teller.begin_at(0x10000);
        let (plan, root) = teller.use_action().await;
        let run = teller.start(plan).await;
        let cart = teller.decide(&run, cart(root), 0x20000).await;
        let files = Choice {
            decision_type: DecisionType::ResourceSelection,
            confidence: Some(Confidence::new(0.9).unwrap()),
            ..choice(
                cart.decision_id,
                "Which files?",
                "src/cart.rs\nand its tests",
            )
        };
        let files = teller.decide(&run, files, 0x30000).await;
        let tests = Choice {
            influences: vec![files.decision_id],
            ..choice(root, "How is it checked?", "Run the tests of the cart")
        };
        let tests = teller.decide(&run, tests, 0x40000).await;
        teller.lifecycle.give_back(run).await.unwrap();
        Told {
            plan,
            root,
            cart,
            files,
            tests,
        }
    })
}

/// The story, and that its strategy was corrected.
pub(crate) fn tell_corrected(environment: &TestEnvironment) -> Told {
    let told = tell(environment);
    let wiring = wiring(environment);
    let wired = wiring.open().unwrap();
    let teller = Teller::new(&wired);
    teller.begin_at(0x50000);
    let corrected = teller.decisions.correct(CorrectRequest {
        decision: told.cart.decision_id,
        mode: CorrectionMode::Revert,
        guidance: "Begin with the prices".to_owned(),
        actor: "eva".to_owned(),
    });
    wired.wait(corrected).unwrap();
    told
}

/// The story while somebody is working on its plan; drop the answer to end that.
pub(crate) fn tell_running(environment: &TestEnvironment) -> (Told, Wiring) {
    let told = tell(environment);
    let wiring = wiring(environment);
    {
        let wired = wiring.open().unwrap();
        let runs = wired.runs();
        let claimed = wired.wait(runs.claim(told.plan, Phase::Strategize, Slots::Shared));
        assert!(matches!(claimed.unwrap(), Outcome::Won(_)));
    }
    (told, wiring)
}

/// The story with a chain of so many decisions below its root.
pub(crate) fn tell_deep(environment: &TestEnvironment, levels: usize) -> Told {
    let told = tell(environment);
    let wiring = wiring(environment);
    let wired = wiring.open().unwrap();
    let below = told.tests.clone();
    let operation = wired.operation("story.deepen");
    let deepened = wired.store().write(operation, move |unit| {
        let mut parent = below.clone();
        for level in 0..levels {
            let next = Decision {
                decision_id: DecisionId::new(Ulid(BEGINNING + (1 << 40) + level as u128)),
                parent_decision_id: Some(parent.decision_id),
                ..parent.clone()
            };
            unit.insert_decision(&next)?;
            parent = next;
        }
        Ok::<_, StoreError>(())
    });
    wired.wait(deepened).unwrap();
    told
}

/// The story with a bad end: two kinds of errors, one of them twice, and the plan errored.
pub(crate) fn tell_failed(environment: &TestEnvironment) {
    let told = tell(environment);
    let wiring = wiring(environment);
    let wired = wiring.open().unwrap();
    let teller = Teller::new(&wired);
    let recovery = ErrorRecovery::new(wired.store().clone(), teller.ids.clone());
    let limit = Trouble {
        category: ErrorCategory::RateLimit,
        message: "the model is busy".to_owned(),
        step: Some(2),
        cause_chain: vec!["HTTP 429".to_owned(), "retry after 7 s".to_owned()],
    };
    let tool = Trouble {
        category: ErrorCategory::Tool,
        message: "cargo test failed".to_owned(),
        step: Some(2),
        cause_chain: Vec::new(),
    };
    wired.wait(async {
        teller.begin_at(0x70000);
        let run = teller.claim(told.plan).await;
        for trouble in [limit.clone(), limit, tool] {
            recovery.record(told.plan, trouble, "eva").await.unwrap();
        }
        let reason = "cargo test failed";
        teller.lifecycle.fail(&run, reason).await.unwrap();
        teller.lifecycle.give_back(run).await.unwrap();
    });
}

/// The story up to where the plan waits.
pub(crate) fn tell_waiting(environment: &TestEnvironment, waiting: Waiting) {
    let told = tell(environment);
    let wiring = wiring(environment);
    let wired = wiring.open().unwrap();
    let teller = Teller::new(&wired);
    wired.wait(async {
        teller.begin_at(0x70000);
        let run = teller.claim(told.plan).await;
        teller.lifecycle.wait(&run, waiting).await.unwrap();
        teller.lifecycle.give_back(run).await.unwrap();
    });
}

/// Lets the strategy of a queued plan end in an error.
pub(crate) fn fail_plan(environment: &TestEnvironment, plan: PlanId) {
    let wiring = wiring(environment);
    let wired = wiring.open().unwrap();
    wired.wait(async {
        let runs = wired.runs();
        let claimed = runs.claim(plan, Phase::Strategize, Slots::Shared).await;
        let Outcome::Won(run) = claimed.unwrap() else {
            panic!("somebody else runs the plan");
        };
        let lifecycle = wired.lifecycle();
        lifecycle.start(&run, &AllThere).await.unwrap();
        lifecycle.fail(&run, "no strategy").await.unwrap();
        lifecycle.give_back(run).await.unwrap();
    });
}
