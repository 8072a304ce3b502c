//! A data directory, a repository and an executor, set up as the program does.

#![expect(
    clippy::disallowed_methods,
    reason = "a bench makes the repository that its plans work on, and finds git where its caller does"
)]

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use cleveragents_definitions::{
    DefinitionSource, SOURCE_MAXIMUM, read_action, read_actor, read_script,
};
use cleveragents_domain::id::PlanId;
use cleveragents_domain::process::Network;
use cleveragents_domain::{
    AbsolutePath, BaseSource, BuiltInProfile, Plan, ProfileName, ResourceType, StreamId,
};
use cleveragents_engine::actors::{ActorRegistry, DuplicatePolicy};
use cleveragents_engine::breaker::{BreakerSettings, CircuitBreaker};
use cleveragents_engine::execution::{
    CheckpointPolicy, EngineServices, ExecutionPolicy, Executor, ExecutorDeps, SlotQueue,
};
use cleveragents_engine::journal::verify;
use cleveragents_engine::lifecycle::{
    ActionChoice, ActionRegistry, PlanLifecycle, UseActionRequest,
};
use cleveragents_engine::projects::{LocatedResource, NewProject, ProjectService};
use cleveragents_engine::retry::RetryPolicy;
use cleveragents_engine::secrets::Secrets;
use cleveragents_integration_tests::samples::name;
use cleveragents_integration_tests::store_access::{events, read};
use cleveragents_integration_tests::{Backend, OpenTestDatabase, TestDatabase};
use cleveragents_models::{ConfiguredModels, ModelSettings, Proxies, ScriptSettings};
use cleveragents_ports::models::Models;
use cleveragents_ports::processes::Processes;
use cleveragents_ports::progress::NoProgress;
use cleveragents_ports::system::{SystemClock, SystemIds};
use cleveragents_sandbox::confine::{LocalProcesses, ProcessSettings, RequestedConfinement};
use cleveragents_sandbox::{GitSettings, LocalSandboxes};
use cleveragents_tools::{BuiltinTools, ShellSettings, ToolSettings};
use tempfile::TempDir;
use tokio::sync::watch;

const PROJECT: &str = "local/shop";
const ACTION: &str = "name: local/work\ndescription: Work\ndefinition_of_done: It is done\n\
                      strategy_actor: builtin/direct\nexecution_actor: local/worker\n\
                      automation_profile: trusted\n";
const ACTOR: &str = "name: local/worker\ntype: llm\ndescription: Works\nprovider: scripted\n\
                     model: script.yaml\n";
/// The number of files in the repository.
const FILES: usize = 50;
/// The maximum number of concurrent validations of a plan; there are none here.
const VALIDATIONS: usize = 4;

pub(crate) struct BenchEnvironment {
    folder: TempDir,
    pub(crate) test_db: TestDatabase,
    pub(crate) opened: OpenTestDatabase,
    lifecycle: PlanLifecycle,
    interrupt: watch::Sender<bool>,
}

/// The number of stored records of a plan, by kind.
pub(crate) type PlanRecordCounts = BTreeMap<String, usize>;

impl BenchEnvironment {
    /// Sets up a repository, a project, an actor that follows `script`, and an action.
    pub(crate) async fn open(script: &str) -> Self {
        let folder = TempDir::with_prefix("agents-bench-").expect("a folder");
        std::fs::write(folder.path().join("script.yaml"), script).expect("a script");
        create_repository(&folder.path().join("checkout"));
        let test_db = TestDatabase::new(Backend::Sqlite);
        let opened = test_db.open();
        let lifecycle = PlanLifecycle::new(
            opened.store.clone(),
            Arc::new(SystemIds),
            opened.presence.clone(),
        );
        let office = Self {
            folder,
            test_db,
            opened,
            lifecycle,
            interrupt: watch::Sender::new(false),
        };
        office.create_definitions().await;
        office
    }

    async fn create_definitions(&self) {
        let store = || self.opened.store.clone();
        let checkout = self.folder.path().join("checkout");
        let new = NewProject {
            name: name(PROJECT),
            description: None,
            automation_profile: None,
            locations: vec![LocatedResource {
                path: AbsolutePath::from_bytes(checkout.as_os_str().as_bytes()).expect("a path"),
                resource_type: ResourceType::GitCheckout,
            }],
            invariants: Vec::new(),
        };
        let projects =
            ProjectService::new(store(), Arc::new(SystemIds), self.opened.presence.clone());
        projects.create(new, "bench").await.expect("a project");
        let actor =
            read_actor(&DefinitionSource::new("actor.yaml", ACTOR), &|_| None).expect("an actor");
        ActorRegistry::new(store(), Arc::new(SystemIds))
            .add(actor, DuplicatePolicy::Refuse, "bench")
            .await
            .expect("an actor");
        let draft = read_action(&DefinitionSource::new("action.yaml", ACTION), &|_| None);
        let draft = draft.expect("an action");
        let made = ActionRegistry::new(store(), Arc::new(SystemIds))
            .create(draft, "bench")
            .await;
        made.expect("an action");
    }

    /// Creates a plan that is not started.
    pub(crate) async fn create_plan(&self) -> PlanId {
        let request = UseActionRequest {
            action: ActionChoice::Registered(name("local/work")),
            projects: vec![name(PROJECT)],
            arguments: Vec::new(),
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
            actor: "bench".to_owned(),
        };
        let made = self.lifecycle.use_action(request).await.expect("a plan");
        made.identity.plan_id
    }

    pub(crate) async fn reload_plan(&self, plan: PlanId) -> Plan {
        self.lifecycle.plan(plan).await.expect("the plan")
    }

    /// The scripts in this environment's folder.
    pub(crate) fn scripted_models(&self) -> Arc<dyn Models> {
        let settings = ModelSettings {
            providers: Vec::new(),
            models: Vec::new(),
            built_in_models: Vec::new(),
            preferred: None,
            scripts: ScriptSettings {
                folder: self.folder.path().to_owned(),
                size_maximum: SOURCE_MAXIMUM as u64,
                parse: Arc::new(|name, bytes| {
                    let source = DefinitionSource::new(name, bytes);
                    read_script(&source, &|_| None).map_err(|errors| errors.to_string())
                }),
            },
            proxies: Proxies::default(),
            clock: Arc::new(SystemClock),
        };
        Arc::new(ConfiguredModels::new(settings))
    }

    /// An executor with this concurrency that uses these models.
    pub(crate) fn executor(&self, models: Arc<dyn Models>, concurrency: u32) -> Executor {
        let processes: Arc<dyn Processes> = Arc::new(self.processes());
        let tools = BuiltinTools::new(ToolSettings {
            shell: ShellSettings::default(),
            processes: Some(Arc::clone(&processes)),
        });
        let git = GitSettings {
            program: "git".into(),
            search_path: search_path(),
            home: self.folder.path().to_owned(),
            timeout: Duration::from_secs(120),
        };
        let sandboxes = LocalSandboxes::open(self.test_db.folder(), git).expect("sandboxes");
        Executor::new(EngineServices::new(ExecutorDeps {
            store: self.opened.store.clone(),
            ids: Arc::new(SystemIds),
            clock: Arc::new(SystemClock),
            liveness: self.opened.presence.clone(),
            owner: self.opened.owner,
            sandboxes: Arc::new(sandboxes),
            toolbox: Arc::new(tools.expect("tools")),
            processes,
            models,
            breaker: CircuitBreaker::new(BreakerSettings::default(), Vec::new()),
            slot_queue: SlotQueue::default(),
            secrets: Secrets::default(),
            interrupt: self.interrupt.subscribe(),
            progress: Arc::new(NoProgress),
            policy: ExecutionPolicy {
                checkpoints: CheckpointPolicy::default(),
                concurrency,
                parallel_validations: VALIDATIONS,
                network: Network::Deny,
                reserved_answer_tokens: 8192,
                retry: RetryPolicy::default(),
            },
        }))
    }

    /// Would start commands; no plan here does.
    fn processes(&self) -> LocalProcesses {
        LocalProcesses::new(ProcessSettings {
            program: PathBuf::from("agents"),
            bubblewrap: None,
            confinement: RequestedConfinement::Best,
            data_directory: self.test_db.folder().to_owned(),
            home: None,
            secret_files: Vec::new(),
            toolchains: Vec::new(),
            readable: Vec::new(),
            writable: Vec::new(),
            variables: Vec::new(),
        })
    }

    /// Counts the plan's rows and events; its journal must verify.
    pub(crate) async fn count_records(&self, plan: PlanId) -> PlanRecordCounts {
        let store = &self.opened.store;
        let stream = StreamId::Plan(plan);
        let verified = verify(store, stream, None).await.expect("an answer");
        verified.expect("the journal is whole");
        let rows = read(store, move |tx| {
            let mut changes = 0;
            for changeset in tx.changesets_of(plan)? {
                changes += tx.changes_after(changeset.id, 0, u32::MAX)?.len();
            }
            Ok([
                (
                    "rows of tool calls",
                    tx.tool_calls_after(plan, 0, u32::MAX)?.len(),
                ),
                (
                    "rows of model calls",
                    tx.model_calls_after(plan, 0, u32::MAX)?.len(),
                ),
                ("rows of changes", changes),
            ])
        });
        let rows = rows.await.map(|(what, count)| (what.to_owned(), count));
        let mut found = PlanRecordCounts::from(rows);
        for event in events(store, stream).await {
            *found.entry(event.kind.to_string()).or_default() += 1;
        }
        found
    }
}

/// A repository with one commit.
fn create_repository(checkout: &Path) {
    std::fs::create_dir(checkout).expect("a folder");
    for number in 0..FILES {
        let path = checkout.join(format!("file-{number}.txt"));
        std::fs::write(path, "line\n".repeat(40)).expect("a file");
    }
    for arguments in [
        &["init", "-q", "-b", "main"][..],
        &["config", "user.name", "A"],
        &["config", "user.email", "a@localhost"],
        &["add", "-A"],
        &["commit", "-qm", "all"],
    ] {
        let mut git = Command::new("git");
        git.args(arguments).current_dir(checkout);
        let status = git.env("HOME", checkout).status().expect("git runs");
        assert!(status.success(), "{git:?}: {status}");
    }
}

fn search_path() -> std::ffi::OsString {
    std::env::var_os("PATH").unwrap_or_default()
}
