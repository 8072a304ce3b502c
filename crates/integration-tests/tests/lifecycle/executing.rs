//! Plans driven by the executor, with a hook at the point between its checks and its work.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cleveragents_definitions::{DefinitionSource, read_action, read_actor};
use cleveragents_domain::apply_record::Destination;
use cleveragents_domain::automation::Thresholds;
use cleveragents_domain::id::{PlanId, SandboxId};
use cleveragents_domain::process::Network;
use cleveragents_domain::tool_call::ToolCallRecord;
use cleveragents_domain::{
    AbsolutePath, Actor, AutomationProfile, BuiltInProfile, Phase, PlanState, ProfileName,
    Resource, ResourceType, Threshold,
};
use cleveragents_engine::actors::{ActorRegistry, DuplicatePolicy};
use cleveragents_engine::applying::{ApplyQueueOutcome, ApplyService, PlanApplyRequest};
use cleveragents_engine::breaker::{BreakerSettings, CircuitBreaker};
use cleveragents_engine::execution::{
    CheckpointPolicy, EngineServices, ExecuteOutcome, ExecutionPolicy, Executor, ExecutorDeps,
    QueueOutcome, SlotQueue,
};
use cleveragents_engine::lifecycle::{ActionChoice, UseActionRequest};
use cleveragents_engine::profiles::ProfileRegistry;
use cleveragents_engine::retry::RetryPolicy;
use cleveragents_engine::secrets::Secrets;
use cleveragents_integration_tests::lifecycle_samples::resource;
use cleveragents_integration_tests::samples::name;
use cleveragents_integration_tests::store_access::{read, write};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};
use cleveragents_ports::StoreHandle;
use cleveragents_ports::models::NoModels;
use cleveragents_ports::processes::Processes;
use cleveragents_ports::progress::NoProgress;
use cleveragents_ports::sandbox::{
    CreatedSandbox, DiscardOutcome, Inspection, NewSandbox, PublishedCommit, Sandbox, SandboxBase,
    SandboxMarker, SandboxResult, Sandboxes,
};
use cleveragents_ports::system::{SystemClock, SystemIds};
use cleveragents_sandbox::confine::{LocalProcesses, ProcessSettings, RequestedConfinement};
use cleveragents_sandbox::{GitSettings, LocalSandboxes, LocalTargets, NoWatcher};
use cleveragents_tools::{BuiltinTools, ShellSettings, ToolSettings};
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::fixture::{LifecycleFixture, request};
use super::tool_calls::search_path;

contract! {
    an_actor_updated_after_its_check_does_not_run,
    a_profile_does_not_approve_an_actor_that_became_riskier,
    a_user_named_like_a_profile_approves_as_a_user,
    an_automatic_apply_is_only_for_the_plan_that_was_assessed,
    a_command_approves_no_strategy_that_was_made_after_it,
}

/// The check cannot run without confinement, so it always fails and the actor's fix steps run.
const ACTION: &str = "name: local/work\ndescription: Work\ndefinition_of_done: It is done\n\
                      strategy_actor: builtin/direct\nexecution_actor: local/worker\n\
                      checks: [{run: 'true'}]\n";

/// An actor that writes this text, and again to repair a failed check.
fn worker(text: &str) -> Actor {
    let source = format!(
        "name: local/worker\ntype: tool\ndescription: Works\nsteps:\n\
         - {{tool: builtin/file-write, input: {{path: made, content: {text}}}}}\n\
         fix:\n\
         - {{tool: builtin/file-write, input: {{path: fixed, content: {text}}}}}\n"
    );
    read_actor(&DefinitionSource::new("actor.yaml", &source), &|_| None).unwrap()
}

/// An actor of the same name that deletes so many files that its confidence is low.
fn risky_worker() -> Actor {
    let delete = "- {tool: builtin/file-delete, input: {path: made}}\n";
    let source = format!(
        "name: local/worker\ntype: tool\ndescription: Deletes\nsteps:\n{}",
        delete.repeat(40)
    );
    read_actor(&DefinitionSource::new("actor.yaml", &source), &|_| None).unwrap()
}

async fn put_worker(store: &StoreHandle, text: &str) {
    put_actor(store, worker(text)).await;
}

async fn put_actor(store: &StoreHandle, actor: Actor) {
    ActorRegistry::new(store.clone(), Arc::new(SystemIds))
        .add(actor, DuplicatePolicy::Replace, "eva")
        .await
        .unwrap();
}

type Hook = Box<dyn FnOnce() + Send>;

/// Sandboxes that call a hook before the first one is created.
#[derive(Debug)]
struct HookedSandboxes {
    inner: LocalSandboxes,
    on_create: HookSlot,
}

#[derive(Default)]
struct HookSlot(Mutex<Option<Hook>>);

impl std::fmt::Debug for HookSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HookSlot")
    }
}

impl Sandboxes for HookedSandboxes {
    fn inspect(&self, path: &Path) -> SandboxResult<Inspection> {
        self.inner.inspect(path)
    }

    fn check_usable(&self, path: &AbsolutePath, kind: ResourceType) -> SandboxResult<()> {
        self.inner.check_usable(path, kind)
    }

    fn create(&self, new: &NewSandbox) -> SandboxResult<CreatedSandbox> {
        if let Some(hook) = self.on_create.0.lock().unwrap().take() {
            hook();
        }
        self.inner.create(new)
    }

    fn open(&self, id: SandboxId) -> SandboxResult<Box<dyn Sandbox>> {
        self.inner.open(id)
    }

    fn set_base(&self, id: SandboxId, base: &SandboxBase) -> SandboxResult<()> {
        self.inner.set_base(id, base)
    }

    fn discard(&self, id: SandboxId) -> SandboxResult<DiscardOutcome> {
        self.inner.discard(id)
    }

    fn list(&self) -> SandboxResult<Vec<SandboxId>> {
        self.inner.list()
    }

    fn read_marker(&self, id: SandboxId) -> SandboxResult<Option<SandboxMarker>> {
        self.inner.read_marker(id)
    }

    fn find_published(
        &self,
        path: &AbsolutePath,
        plan: PlanId,
    ) -> SandboxResult<Option<PublishedCommit>> {
        self.inner.find_published(path, plan)
    }

    fn withdraw(&self, path: &AbsolutePath, plan: PlanId) -> SandboxResult<()> {
        self.inner.withdraw(path, plan)
    }
}

fn git_settings(home: &Path) -> GitSettings {
    GitSettings {
        program: "git".into(),
        search_path: search_path(),
        home: home.to_owned(),
        timeout: Duration::from_secs(120),
    }
}

/// A plan of `local/work` on a folder, and the services to execute it.
struct ExecutingFixture {
    fixture: LifecycleFixture,
    folder: tempfile::TempDir,
    sandboxes: Arc<HookedSandboxes>,
    interrupt: watch::Sender<bool>,
}

impl ExecutingFixture {
    async fn new(test_db: &TestDatabase) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let fixture = LifecycleFixture::with_samples(test_db).await;
        let path = folder.path().join("shop");
        std::fs::create_dir(&path).unwrap();
        let real = Resource {
            resource_type: ResourceType::FsDirectory,
            ..resource("local/real", path.as_os_str().as_bytes(), 0)
        };
        write(&fixture.opened.store, move |tx| {
            tx.unlink_resource(&name("local/shop"), &name("local/folder"))?;
            tx.insert_resource(&real)?;
            tx.link_resource(&name("local/shop"), &real.name)
        })
        .await;
        put_worker(&fixture.opened.store, "approved").await;
        let source = DefinitionSource::new("action.yaml", ACTION);
        let draft = read_action(&source, &|_| None).unwrap();
        let created = fixture.actions.create(draft, "eva").await;
        created.unwrap();
        let git = git_settings(folder.path());
        let sandboxes = HookedSandboxes {
            inner: LocalSandboxes::open(&folder.path().join("data"), git).unwrap(),
            on_create: HookSlot::default(),
        };
        Self {
            fixture,
            folder,
            sandboxes: Arc::new(sandboxes),
            interrupt: watch::Sender::new(false),
        }
    }

    async fn new_plan(&self) -> PlanId {
        let supervised = ProfileName::BuiltIn(BuiltInProfile::Supervised);
        self.new_plan_with(supervised).await
    }

    async fn new_plan_with(&self, profile: ProfileName) -> PlanId {
        let request = UseActionRequest {
            action: ActionChoice::Registered(name("local/work")),
            automation_profile: Some(profile),
            arguments: Vec::new(),
            invariants: Vec::new(),
            ..request()
        };
        let plan = self.fixture.lifecycle.use_action(request).await.unwrap();
        plan.identity.plan_id
    }

    fn executor(&self, store: StoreHandle) -> Executor {
        Executor::new(self.services(store))
    }

    fn services(&self, store: StoreHandle) -> Arc<EngineServices> {
        let processes: Arc<dyn Processes> = Arc::new(self.processes());
        let tools = BuiltinTools::new(ToolSettings {
            shell: ShellSettings::default(),
            processes: Some(Arc::clone(&processes)),
        });
        EngineServices::new(ExecutorDeps {
            store,
            ids: Arc::new(SystemIds),
            clock: Arc::new(SystemClock),
            liveness: self.fixture.opened.presence.clone(),
            owner: self.fixture.owner(),
            sandboxes: self.sandboxes.clone(),
            toolbox: Arc::new(tools.unwrap()),
            processes,
            models: Arc::new(NoModels),
            breaker: CircuitBreaker::new(BreakerSettings::default(), Vec::new()),
            slot_queue: SlotQueue::default(),
            secrets: Secrets::default(),
            interrupt: self.interrupt.subscribe(),
            progress: Arc::new(NoProgress),
            policy: ExecutionPolicy {
                checkpoints: CheckpointPolicy::default(),
                concurrency: 4,
                parallel_validations: 1,
                network: Network::Deny,
                reserved_answer_tokens: 8192,
                retry: RetryPolicy::default(),
            },
        })
    }

    /// Cannot start a command, because its program does not exist.
    fn processes(&self) -> LocalProcesses {
        LocalProcesses::new(ProcessSettings {
            program: PathBuf::from("/nonexistent/agents"),
            bubblewrap: None,
            confinement: RequestedConfinement::Best,
            data_directory: self.folder.path().to_owned(),
            home: None,
            secret_files: Vec::new(),
            toolchains: Vec::new(),
            readable: Vec::new(),
            writable: Vec::new(),
            variables: Vec::new(),
        })
    }

    async fn tool_calls(&self, plan: PlanId) -> Vec<ToolCallRecord> {
        read(&self.fixture.opened.store, move |tx| {
            tx.tool_calls_after(plan, 0, 1000)
        })
        .await
    }
}

fn an_actor_updated_after_its_check_does_not_run(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = ExecutingFixture::new(&test_db).await;
        let store = fixture.fixture.opened.store.clone();
        let executor = fixture.executor(store.clone());
        let plan = fixture.new_plan().await;
        let outcome = executor.execute(plan, "eva").await.unwrap();
        assert!(
            matches!(outcome, ExecuteOutcome::NeedsApproval { .. }),
            "{outcome:?}"
        );
        // The sandbox is created after the actor was compared with the approved strategy and before
        // its first call.
        let update: Hook = Box::new(move || {
            Handle::current().block_on(put_worker(&store, "unapproved"));
        });
        *fixture.sandboxes.on_create.0.lock().unwrap() = Some(update);
        let outcome = executor.execute(plan, "eva").await.unwrap();
        assert!(
            matches!(outcome, ExecuteOutcome::Constrained { .. }),
            "{outcome:?}"
        );
        let hook = fixture.sandboxes.on_create.0.lock().unwrap().take();
        assert!(hook.is_none(), "the actor was not updated");
        let calls = fixture.tool_calls(plan).await;
        let written = |path: &str| {
            let of_path = calls.iter().filter(|it| it.call.input["path"] == path);
            let texts = of_path.map(|it| it.call.input["content"].as_str().unwrap());
            texts.collect::<Vec<_>>()
        };
        assert_eq!(written("made"), ["approved"]);
        assert_eq!(written("fixed"), ["approved"; 3]);
        // The next request notices that the actor changed.
        let changed = executor.execute(plan, "eva").await.unwrap();
        let ExecuteOutcome::Failed { reason, .. } = changed else {
            panic!("{changed:?}");
        };
        assert!(reason.contains("local/worker"), "{reason}");
    });
}

fn a_profile_does_not_approve_an_actor_that_became_riskier(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = ExecutingFixture::new(&test_db).await;
        let store = fixture.fixture.opened.store.clone();
        let executor = fixture.executor(store.clone());
        let half_sure = AutomationProfile {
            name: ProfileName::Custom(name("local/half-sure")),
            thresholds: Thresholds::all(Threshold::new(0.5).unwrap()),
            ..BuiltInProfile::Cautious.profile()
        };
        let profiles = ProfileRegistry::new(store.clone(), Arc::new(SystemIds));
        let profile = profiles.add(half_sure, "eva").await.unwrap().profile.name;
        let plan = fixture.new_plan_with(profile).await;
        let outcome = executor.execute(plan, "eva").await.unwrap();
        assert!(
            matches!(outcome, ExecuteOutcome::Constrained { .. }),
            "{outcome:?}"
        );
        // An actor with the same risk runs: the profile approves it too.
        put_worker(&store, "updated").await;
        let outcome = executor.execute(plan, "eva").await.unwrap();
        assert!(
            matches!(outcome, ExecuteOutcome::Constrained { .. }),
            "{outcome:?}"
        );
        let calls = fixture.tool_calls(plan).await;
        assert_eq!(calls.last().unwrap().call.input["content"], "updated");
        put_actor(&store, risky_worker()).await;
        let changed = executor.execute(plan, "eva").await.unwrap();
        let ExecuteOutcome::Failed { reason, .. } = changed else {
            panic!("{changed:?}");
        };
        assert!(reason.contains("local/worker"), "{reason}");
        assert_eq!(fixture.tool_calls(plan).await, calls);
    });
}

fn a_user_named_like_a_profile_approves_as_a_user(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = ExecutingFixture::new(&test_db).await;
        let store = fixture.fixture.opened.store.clone();
        let executor = fixture.executor(store.clone());
        let plan = fixture.new_plan().await;
        let user = "profile supervised";
        let outcome = executor.execute(plan, user).await.unwrap();
        assert!(
            matches!(outcome, ExecuteOutcome::NeedsApproval { .. }),
            "{outcome:?}"
        );
        put_worker(&store, "unapproved").await;
        let changed = executor.execute(plan, user).await.unwrap();
        let ExecuteOutcome::Failed { reason, .. } = changed else {
            panic!("{changed:?}");
        };
        assert!(reason.contains("local/worker"), "{reason}");
        assert_eq!(fixture.tool_calls(plan).await, []);
    });
}

fn an_automatic_apply_is_only_for_the_plan_that_was_assessed(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = ExecutingFixture::new(&test_db).await;
        let store = fixture.fixture.opened.store.clone();
        let data = fixture.folder.path().join("data");
        let git = git_settings(fixture.folder.path());
        let targets = LocalTargets::open(&data, git, Arc::new(NoWatcher)).unwrap();
        let service = ApplyService::new(fixture.services(store), Arc::new(targets));
        let plan = fixture.new_plan().await;
        let version = fixture.fixture.plan(plan).await.version;
        let request = |version| PlanApplyRequest {
            plan,
            destination: Destination::Current,
            author: None,
            actor: "eva".to_owned(),
            version,
            forced: None,
        };
        let outdated = service.enqueue(&request(Some(version - 1))).await.unwrap();
        let ApplyQueueOutcome::Unchanged(found, None) = outdated else {
            panic!("{outdated:?} instead of an unchanged plan");
        };
        assert_eq!(found.version, version);
        // The plan cannot be applied yet, but this request is about the plan as it is.
        for current in [Some(version), None] {
            let refused = service.enqueue(&request(current)).await;
            assert!(refused.is_err(), "{refused:?}");
        }
    });
}

fn a_command_approves_no_strategy_that_was_made_after_it(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = ExecutingFixture::new(&test_db).await;
        let store = fixture.fixture.opened.store.clone();
        let executor = fixture.executor(store);
        let id = fixture.new_plan().await;
        // Two commands are given at the same time, and the first makes the strategy.
        let seen = fixture.fixture.plan(id).await;
        let outcome = executor.execute(id, "eva").await.unwrap();
        assert!(
            matches!(outcome, ExecuteOutcome::NeedsApproval { .. }),
            "{outcome:?}"
        );
        let queued = executor.enqueue(&seen, "bob").await.unwrap();
        assert!(matches!(queued, QueueOutcome::Unapproved(_)), "{queued:?}");
        let plan = fixture.fixture.plan(id).await;
        let position = (plan.position.phase(), plan.position.state());
        assert_eq!(position, (Phase::Strategize, PlanState::Complete));
        // Given again, the command is about the strategy that is there now. Of two that saw it, one
        // approves it.
        let queued = executor.enqueue(&plan, "bob").await.unwrap();
        assert!(matches!(queued, QueueOutcome::Queued(_)), "{queued:?}");
        assert_eq!(
            fixture.fixture.plan(id).await.position.phase(),
            Phase::Execute
        );
        assert_eq!(fixture.tool_calls(id).await, []);
    });
}
