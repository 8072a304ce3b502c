//! The removal of sandboxes: only unneeded ones, never while in use, and an interrupted removal is
//! finished by the next one.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cleveragents_domain::id::{PlanId, SandboxId};
use cleveragents_domain::sandbox::{FolderState, SandboxRecord, SandboxState};
use cleveragents_domain::{AbsolutePath, EventKind, ResourceType, StreamId};
use cleveragents_engine::sandboxes::{GcMode, GcRequest, GcVerdict, SandboxService, SweptSandbox};
use cleveragents_integration_tests::execution_samples::sandbox;
use cleveragents_integration_tests::store_access::{events, read, write};
use cleveragents_integration_tests::test_database::new_operation;
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};
use cleveragents_ports::sandbox::{
    CreatedSandbox, DiscardOutcome, Inspection, NewSandbox, PublishedCommit, Sandbox, SandboxBase,
    SandboxError, SandboxMarker, SandboxResult, Sandboxes,
};
use cleveragents_ports::system::SystemIds;
use cleveragents_ports::{Liveness, StoreError};

use super::fixture::LifecycleFixture;

contract! {
    only_unneeded_sandboxes_are_removed,
    an_interrupted_removal_is_finished_later,
    a_sandbox_in_use_is_not_removed,
    unknown_folders_are_kept_for_a_day,
}

/// The outcome of a removal from disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DiskRemoval {
    Succeeds,
    /// The folder stays.
    FailsBefore,
    /// The folder is gone, and the removing process died.
    FailsAfter,
}

/// Folders that exist only as names.
#[derive(Debug)]
struct FakeSandboxes {
    existing: Mutex<BTreeSet<SandboxId>>,
    withdrawn: Mutex<BTreeSet<PlanId>>,
    removal: Mutex<DiskRemoval>,
    mark: Option<SandboxMarker>,
}

impl FakeSandboxes {
    fn new(mark: Option<SandboxMarker>) -> Arc<Self> {
        Arc::new(Self {
            existing: Mutex::default(),
            withdrawn: Mutex::default(),
            removal: Mutex::new(DiskRemoval::Succeeds),
            mark,
        })
    }

    fn add(&self, id: SandboxId) {
        self.existing.lock().unwrap().insert(id);
    }

    fn has(&self, id: SandboxId) -> bool {
        self.existing.lock().unwrap().contains(&id)
    }

    fn set_removal(&self, removal: DiskRemoval) {
        *self.removal.lock().unwrap() = removal;
    }
}

fn no_repository<T>() -> SandboxResult<T> {
    Err(SandboxError::NoRepository)
}

impl Sandboxes for FakeSandboxes {
    fn inspect(&self, _: &Path) -> SandboxResult<Inspection> {
        no_repository()
    }

    fn check_usable(&self, _: &AbsolutePath, _: ResourceType) -> SandboxResult<()> {
        no_repository()
    }

    fn create(&self, _: &NewSandbox) -> SandboxResult<CreatedSandbox> {
        no_repository()
    }

    fn open(&self, id: SandboxId) -> SandboxResult<Box<dyn Sandbox>> {
        Err(SandboxError::NotFound { id })
    }

    fn set_base(&self, id: SandboxId, _: &SandboxBase) -> SandboxResult<()> {
        Err(SandboxError::NotFound { id })
    }

    fn discard(&self, id: SandboxId) -> SandboxResult<DiscardOutcome> {
        let removal = *self.removal.lock().unwrap();
        if removal == DiskRemoval::FailsBefore {
            return no_repository();
        }
        let was = self.existing.lock().unwrap().remove(&id);
        match (removal, was) {
            (DiskRemoval::FailsAfter, _) => no_repository(),
            (_, true) => Ok(DiscardOutcome::Removed),
            (_, false) => Ok(DiscardOutcome::Absent),
        }
    }

    fn list(&self) -> SandboxResult<Vec<SandboxId>> {
        Ok(self.existing.lock().unwrap().iter().copied().collect())
    }

    fn read_marker(&self, id: SandboxId) -> SandboxResult<Option<SandboxMarker>> {
        match &self.mark {
            Some(mark) => Ok(Some(mark.clone())),
            None => Err(SandboxError::Foreign {
                path: id.to_string().into(),
                reason: "it has no sandbox marker".to_owned(),
            }),
        }
    }

    fn find_published(
        &self,
        _: &AbsolutePath,
        _: PlanId,
    ) -> SandboxResult<Option<PublishedCommit>> {
        Ok(None)
    }

    fn withdraw(&self, _: &AbsolutePath, plan: PlanId) -> SandboxResult<()> {
        self.withdrawn.lock().unwrap().insert(plan);
        Ok(())
    }
}

fn service(fixture: &LifecycleFixture, folders: &Arc<FakeSandboxes>) -> SandboxService {
    let liveness = Arc::clone(&fixture.opened.presence) as Arc<dyn Liveness>;
    let folders = Arc::clone(folders) as Arc<dyn Sandboxes>;
    SandboxService::new(
        fixture.opened.store.clone(),
        Arc::new(SystemIds),
        liveness,
        folders,
    )
}

fn gc_request(mode: GcMode) -> GcRequest {
    GcRequest {
        mode,
        older_than: Duration::ZERO,
        actor: "ann".to_owned(),
    }
}

/// Stores a sandbox of a new plan, with its folder.
async fn store_sandbox(
    fixture: &LifecycleFixture,
    folders: &FakeSandboxes,
    path: &[SandboxState],
) -> SandboxRecord {
    let plan = fixture.new_plan().await;
    let mut record = SandboxRecord {
        folder: FolderState::Kept,
        resource_type: ResourceType::GitCheckout,
        node: None,
        ..sandbox(plan.identity.plan_id, 0)
    };
    folders.add(record.id);
    let first = record.clone();
    write(&fixture.opened.store, move |tx| tx.insert_sandbox(&first)).await;
    for state in path {
        record.state = *state;
        let next = record.clone();
        let version = write(&fixture.opened.store, move |tx| tx.update_sandbox(&next)).await;
        record.version = version;
    }
    record
}

async fn reload_sandbox(fixture: &LifecycleFixture, id: SandboxId) -> SandboxRecord {
    read(&fixture.opened.store, move |tx| tx.sandbox(id)).await
}

fn verdict(swept: &[SweptSandbox], id: SandboxId) -> GcVerdict {
    let found = swept.iter().find(|it| it.sandbox.id == id);
    found.map(|it| it.verdict.clone()).unwrap()
}

fn is_removed(swept: &[SweptSandbox], id: SandboxId) -> bool {
    matches!(verdict(swept, id), GcVerdict::Remove(_))
}

fn only_unneeded_sandboxes_are_removed(backend: Backend) {
    use SandboxState::{Active, Captured, Discarded};
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let folders = FakeSandboxes::new(None);
        let service = service(&fixture, &folders);
        let working = store_sandbox(&fixture, &folders, &[Active]).await;
        let waiting = store_sandbox(&fixture, &folders, &[Active, Captured]).await;
        let unwanted = store_sandbox(&fixture, &folders, &[Discarded]).await;
        let half = store_sandbox(&fixture, &folders, &[]).await;
        let cancelled = store_sandbox(&fixture, &folders, &[Active]).await;
        let cancel = fixture.lifecycle.cancel(cancelled.plan_id, "enough", "ann");
        cancel.await.unwrap();

        let recent = GcRequest {
            older_than: Duration::from_secs(3600),
            ..gc_request(GcMode::DryRun)
        };
        let swept = service.gc(&recent).await.unwrap();
        assert!(
            !is_removed(&swept, cancelled.id),
            "it was cancelled just now"
        );
        let looked = service.gc(&gc_request(GcMode::DryRun)).await.unwrap();
        assert_eq!(folders.list().unwrap().len(), 5, "a look changes nothing");
        assert_eq!(reload_sandbox(&fixture, half.id).await, half);
        let swept = service.gc(&gc_request(GcMode::Remove)).await.unwrap();
        assert_eq!(swept, looked);
        for kept in [&working, &waiting] {
            assert!(!is_removed(&swept, kept.id));
            assert!(folders.has(kept.id));
            assert_eq!(reload_sandbox(&fixture, kept.id).await, *kept);
        }
        for gone in [&unwanted, &half, &cancelled] {
            assert!(is_removed(&swept, gone.id));
            assert!(!folders.has(gone.id));
            let record = reload_sandbox(&fixture, gone.id).await;
            assert_eq!(record.folder, FolderState::Gone);
            let all = events(&fixture.opened.store, StreamId::Plan(gone.plan_id)).await;
            let message = all.iter().filter(|it| it.kind == EventKind::SandboxRemoved);
            assert_eq!(message.count(), 1);
        }
        assert_eq!(reload_sandbox(&fixture, half.id).await.state, Discarded);
        assert_eq!(reload_sandbox(&fixture, cancelled.id).await.state, Active);
        let withdrawn = folders.withdrawn.lock().unwrap().clone();
        assert_eq!(withdrawn, BTreeSet::from([cancelled.plan_id]));
        let again = service.gc(&gc_request(GcMode::Remove)).await.unwrap();
        assert_eq!(again.len(), 2, "what is gone is not told again");
    });
}

fn an_interrupted_removal_is_finished_later(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        for stopped in [DiskRemoval::FailsBefore, DiskRemoval::FailsAfter] {
            let folders = FakeSandboxes::new(None);
            let service = service(&fixture, &folders);
            let record = store_sandbox(&fixture, &folders, &[SandboxState::Discarded]).await;
            folders.set_removal(stopped);
            let swept = service.gc(&gc_request(GcMode::Remove)).await.unwrap();
            assert!(matches!(verdict(&swept, record.id), GcVerdict::Failed(_)));
            let leaving = reload_sandbox(&fixture, record.id).await;
            assert_eq!(leaving.folder, FolderState::Leaving);
            folders.set_removal(DiskRemoval::Succeeds);
            let swept = service.gc(&gc_request(GcMode::Remove)).await.unwrap();
            assert!(is_removed(&swept, record.id));
            assert!(!folders.has(record.id));
            assert_eq!(
                reload_sandbox(&fixture, record.id).await.folder,
                FolderState::Gone
            );
        }
    });
}

/// The result of a plan's owner.
#[derive(Debug, PartialEq, Eq)]
enum OwnerFinding {
    /// Its half-created sandbox, which it completes.
    Sandbox,
    /// Nothing, so it creates another.
    Nothing,
}

fn a_sandbox_in_use_is_not_removed(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = Arc::new(LifecycleFixture::with_samples(&test_db).await);
        let other = match backend {
            Backend::Memory => Arc::clone(&fixture),
            Backend::Sqlite | Backend::Postgres => Arc::new(LifecycleFixture::open(&test_db)),
        };
        for round in 0..32 {
            let folders = FakeSandboxes::new(None);
            let record = store_sandbox(&fixture, &folders, &[]).await;
            let service = service(&other, &folders);
            let collect = tokio::spawn(async move {
                if round % 2 == 1 {
                    tokio::task::yield_now().await;
                }
                service.gc(&gc_request(GcMode::Remove)).await.unwrap()
            });
            let work = tokio::spawn({
                let (setup, folders) = (Arc::clone(&fixture), Arc::clone(&folders));
                let record = record.clone();
                async move { execute_plan(&setup, &folders, record).await }
            });
            let (swept, found) = (collect.await.unwrap(), work.await.unwrap());
            let here = is_removed(&swept, record.id);
            match found {
                OwnerFinding::Sandbox => {
                    assert!(!here, "removed under the hands of its owner: {swept:?}");
                    assert!(folders.has(record.id));
                    assert_eq!(
                        reload_sandbox(&fixture, record.id).await.state,
                        SandboxState::Active
                    );
                }
                OwnerFinding::Nothing => {
                    assert!(here, "{swept:?}");
                    assert!(!folders.has(record.id));
                }
            }
        }
    });
}

/// Does what `plan execute` does: claims the plan, looks up its sandboxes, creates the missing one
/// and records it.
async fn execute_plan(
    fixture: &LifecycleFixture,
    folders: &FakeSandboxes,
    record: SandboxRecord,
) -> OwnerFinding {
    let run = fixture.claim(record.plan_id).await;
    let plan = record.plan_id;
    let found = read(&fixture.opened.store, move |tx| tx.sandboxes_of(plan)).await;
    let Some(found) = found.into_iter().find(|it| it.id == record.id) else {
        return OwnerFinding::Nothing;
    };
    folders.add(found.id);
    let made = SandboxRecord {
        state: SandboxState::Active,
        ..found
    };
    let confirmed = run
        .write(new_operation("test.confirm"), move |tx| {
            tx.update_sandbox(&made)
        })
        .await;
    let _: i64 = confirmed.unwrap_or_else(|error: StoreError| panic!("{error}"));
    std::mem::forget(run);
    OwnerFinding::Sandbox
}

fn unknown_folders_are_kept_for_a_day(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let gone: PlanId = "01JZZZZZZZ0000000000000001".parse().unwrap();
        let mark = |plan| SandboxMarker {
            plan,
            resource: AbsolutePath::from_bytes(&b"/srv/shop"[..]).unwrap(),
            resource_type: ResourceType::GitCheckout,
        };
        let old: SandboxId = "01JZZZZZZZ0000000000000002".parse().unwrap();
        let young = SandboxId::new(cleveragents_ports::Ids::next(&SystemIds));

        let folders = FakeSandboxes::new(Some(mark(gone)));
        folders.add(old);
        folders.add(young);
        let swept = service(&fixture, &folders)
            .gc(&gc_request(GcMode::Remove))
            .await
            .unwrap();
        assert!(is_removed(&swept, old) && !folders.has(old));
        assert!(!is_removed(&swept, young) && folders.has(young));
        assert!(folders.withdrawn.lock().unwrap().contains(&gone));

        let plan = fixture.new_plan().await.identity.plan_id;
        for marks in [Some(mark(plan)), None] {
            let folders = FakeSandboxes::new(marks);
            folders.add(old);
            let swept = service(&fixture, &folders)
                .gc(&gc_request(GcMode::Remove))
                .await
                .unwrap();
            assert!(!is_removed(&swept, old), "{swept:?}");
            assert!(folders.has(old), "{swept:?}");
        }
    });
}
