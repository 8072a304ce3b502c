//! Tool calls through the runner: which calls may share a sandbox, and what is recorded.

use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use cleveragents_domain::automation::guards::Approval;
use cleveragents_domain::tool::{Capability, ToolDefinition};
use cleveragents_domain::tool_call::{ToolCallRecord, ToolCallState};
use cleveragents_domain::{NamespacedName, Plan, Resource, ResourcePath, ResourceType};
use cleveragents_engine::execution::{
    CallOutcome, CheckpointPolicy, ExecutionContext, RefusalKind, ToolCallContext as Work,
    ToolRequest, ToolRunner, Workspace,
};
use cleveragents_integration_tests::lifecycle_samples::resource;
use cleveragents_integration_tests::samples::name;
use cleveragents_integration_tests::store_access::{read, write};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};
use cleveragents_ports::sandbox::{Sandboxes, TouchedPaths};
use cleveragents_ports::system::SystemIds;
use cleveragents_ports::tools::{
    FileStamps, Tool, ToolFailure, ToolInvocation, ToolOutput, Toolbox,
};
use cleveragents_sandbox::{GitSettings, LocalSandboxes};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::fixture::LifecycleFixture;

contract! {
    writers_are_exclusive_in_a_sandbox,
    readers_share_a_sandbox,
    concurrent_calls_stay_within_the_limit,
}

const WRITERS: usize = 12;

/// Tools that detect concurrent calls.
#[derive(Debug)]
struct ProbeTools {
    definitions: [ToolDefinition; 2],
    active: AtomicUsize,
    peak: AtomicUsize,
    readers: Mutex<usize>,
    readers_met: Condvar,
}

#[derive(Debug)]
struct ProbeTool<'a> {
    tools: &'a ProbeTools,
    definition: &'a ToolDefinition,
}

impl ProbeTools {
    fn new() -> Self {
        let definition = |text: &str, capability| ToolDefinition {
            name: name(text),
            description: String::new(),
            input_schema: json!(true),
            output_schema: json!(true),
            capability,
            timeout_seconds: 120,
        };
        Self {
            definitions: [
                definition("test/read", Capability::read_only()),
                definition("test/write", Capability::read_write()),
            ],
            active: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            readers: Mutex::new(0),
            readers_met: Condvar::new(),
        }
    }

    /// Appends a line to the file, slowly enough to be caught by a concurrent call.
    fn write(&self, call: &ToolInvocation<'_>) -> ToolOutput {
        let now = self.active.fetch_add(1, Ordering::SeqCst) + 1;
        self.peak.fetch_max(now, Ordering::SeqCst);
        let path = call.sandbox.tree().join("log");
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        for _ in 0..200 {
            std::thread::yield_now();
        }
        let mut file = std::fs::File::create(&path).unwrap();
        writeln!(file, "{text}{}", call.input).unwrap();
        self.active.fetch_sub(1, Ordering::SeqCst);
        let log = ResourcePath::from_bytes("log").unwrap();
        ToolOutput {
            data: Value::Null,
            touched: TouchedPaths::Paths(vec![log]),
        }
    }

    /// Waits until both readers are here.
    fn read(&self) -> ToolOutput {
        let mut readers = self.readers.lock().unwrap();
        *readers += 1;
        self.readers_met.notify_all();
        let met =
            self.readers_met
                .wait_timeout_while(readers, Duration::from_secs(60), |readers| *readers < 2);
        assert_eq!(*met.unwrap().0, 2, "readers do not share the sandbox");
        ToolOutput {
            data: Value::Null,
            touched: TouchedPaths::Paths(Vec::new()),
        }
    }
}

/// The toolbox hands out references, so the tools live as long as it does.
#[derive(Debug)]
struct ProbeToolbox {
    tools: &'static ProbeTools,
    read: ProbeTool<'static>,
    write: ProbeTool<'static>,
}

impl ProbeToolbox {
    fn new() -> Self {
        let tools: &'static ProbeTools = Box::leak(Box::new(ProbeTools::new()));
        let [read, write] = &tools.definitions;
        Self {
            tools,
            read: ProbeTool {
                tools,
                definition: read,
            },
            write: ProbeTool {
                tools,
                definition: write,
            },
        }
    }
}

impl Toolbox for ProbeToolbox {
    fn definitions(&self) -> Vec<&ToolDefinition> {
        self.tools.definitions.iter().collect()
    }

    fn tool(&self, name: &NamespacedName) -> Option<&dyn Tool> {
        [&self.read, &self.write]
            .into_iter()
            .find(|tool| tool.definition.name == *name)
            .map(|tool| tool as &dyn Tool)
    }
}

impl Tool for ProbeTool<'_> {
    fn definition(&self) -> &ToolDefinition {
        self.definition
    }

    fn check_input(&self, _: &Value) -> Result<(), ToolFailure> {
        Ok(())
    }

    fn check_output(&self, _: &ToolOutput) -> Result<(), ToolFailure> {
        Ok(())
    }

    fn run(&self, call: &ToolInvocation<'_>) -> Result<ToolOutput, ToolFailure> {
        Ok(match self.definition.name.to_string().as_str() {
            "test/write" => self.tools.write(call),
            _ => self.tools.read(),
        })
    }
}

/// A plan in Execute on a folder, with everything needed to make calls.
struct ToolCallFixture {
    fixture: LifecycleFixture,
    plan: Plan,
    folder: tempfile::TempDir,
}

impl ToolCallFixture {
    async fn new(test_db: &TestDatabase) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let fixture = LifecycleFixture::with_samples(test_db).await;
        let path = folder.path().join("shop");
        std::fs::create_dir(&path).unwrap();
        use std::os::unix::ffi::OsStrExt as _;
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
        let plan = fixture.new_plan().await;
        Self {
            fixture,
            plan,
            folder,
        }
    }

    fn sandboxes(&self) -> Arc<dyn Sandboxes> {
        let git = GitSettings {
            program: "git".into(),
            search_path: search_path(),
            home: self.folder.path().to_owned(),
            timeout: Duration::from_secs(120),
        };
        Arc::new(LocalSandboxes::open(&self.folder.path().join("data"), git).unwrap())
    }

    /// Runs this many concurrent calls of the tool; returns the records and the file's content.
    async fn run_calls(
        &self,
        tool: &str,
        number: usize,
    ) -> (Arc<ProbeToolbox>, Vec<ToolCallRecord>, String) {
        let (tools, outcomes, log) = self.run_outcomes(tool, number).await;
        for outcome in outcomes {
            assert!(matches!(outcome, CallOutcome::Completed(_)));
        }
        let id = self.plan.identity.plan_id;
        let records = read(&self.fixture.opened.store, move |tx| {
            tx.tool_calls_after(id, 0, 1000)
        });
        (tools, records.await, log)
    }

    /// Returns the outcome of each call and the file's content.
    async fn run_outcomes(
        &self,
        tool: &str,
        number: usize,
    ) -> (Arc<ProbeToolbox>, Vec<CallOutcome>, String) {
        let run = self.fixture.claim(self.plan.identity.plan_id).await;
        self.fixture.start(&run).await;
        let ids = Arc::new(SystemIds);
        let workspace = Workspace::open(
            run.fenced_writer(),
            ids.clone(),
            self.sandboxes(),
            &self.plan,
        )
        .await;
        let workspace = workspace.unwrap();
        let handle = workspace.sandbox(None).unwrap();
        let store = self.fixture.opened.store.clone();
        let context = ExecutionContext::new(store, ids.clone(), run.lease().clone());
        let changeset = context
            .start_changeset(handle.id, 1, Some(1))
            .await
            .unwrap();
        let tools = Arc::new(ProbeToolbox::new());
        let (_sender, stop) = watch::channel(None);
        let policy = CheckpointPolicy::default();
        let runner = ToolRunner::new(run.fenced_writer(), ids, tools.clone(), policy, stop);
        let stamps = Arc::new(FileStamps::new());
        let calls = (0..number).map(|turn| {
            let work = Work {
                plan: &self.plan,
                sandbox: handle,
                changeset: &changeset,
                stamps: &stamps,
            };
            let request = ToolRequest {
                tool: name(tool),
                input: json!(turn),
                actor: name("local/actor"),
                step: Some(1),
                turn: u32::try_from(turn).unwrap() + 1,
                slot: 1,
                approval: Approval::Missing,
            };
            runner.call(work, request)
        });
        let outcomes = join_all(calls).await.into_iter();
        let outcomes = outcomes.map(Result::unwrap).collect();
        let sandbox = self.sandboxes().open(handle.id).unwrap();
        let log = std::fs::read_to_string(sandbox.tree().join("log")).unwrap_or_default();
        (tools, outcomes, log)
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "git is found where the caller's is"
)]
pub(crate) fn search_path() -> std::ffi::OsString {
    std::env::var_os("PATH").unwrap()
}

async fn join_all<F: Future>(all: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut all: Vec<_> = all.map(Box::pin).map(Some).collect();
    let mut done: Vec<Option<F::Output>> = all.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (slot, answer) in all.iter_mut().zip(&mut done) {
            if let Some(future) = slot
                && let std::task::Poll::Ready(output) = future.as_mut().poll(context)
            {
                *answer = Some(output);
                *slot = None;
            }
        }
        if all.iter().all(Option::is_none) {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    done.into_iter().map(Option::unwrap).collect()
}

fn writers_are_exclusive_in_a_sandbox(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = ToolCallFixture::new(&test_db).await;
        let (tools, records, log) = fixture.run_calls("test/write", WRITERS).await;
        assert_eq!(tools.tools.peak.load(Ordering::SeqCst), 1);
        assert_eq!(log.lines().count(), WRITERS, "a line was lost: {log}");
        assert_eq!(records.len(), WRITERS);
        // Each call started with the tree that the previous one left.
        let mut trees: Vec<_> = records.iter().map(|it| &it.call.tree_before).collect();
        trees.push(records.last().unwrap().tree_after.as_ref().unwrap());
        for (record, next) in records.iter().zip(&trees[1..]) {
            assert_eq!(record.state, ToolCallState::Completed);
            assert_eq!(record.tree_after.as_ref(), Some(*next));
        }
    });
}

fn readers_share_a_sandbox(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = ToolCallFixture::new(&test_db).await;
        let (_, records, log) = fixture.run_calls("test/read", 2).await;
        assert_eq!(records.len(), 2);
        assert_eq!(log, "");
    });
}

fn concurrent_calls_stay_within_the_limit(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let mut fixture = ToolCallFixture::new(&test_db).await;
        let guards = &mut fixture.plan.brief.automation_profile.guards;
        guards.max_tool_calls_per_step = Some(2);
        let (_, outcomes, _) = fixture.run_outcomes("test/read", 12).await;
        let (mut completed, mut refused) = (0, 0);
        for outcome in outcomes {
            match outcome {
                CallOutcome::Completed(_) => completed += 1,
                CallOutcome::Refused(refusal) if refusal.kind == RefusalKind::Limit => refused += 1,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((completed, refused), (2, 10));
    });
}
