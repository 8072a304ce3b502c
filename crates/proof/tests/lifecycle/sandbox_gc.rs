//! The removal of sandboxes: only what nobody needs, never under somebody's hands, and finished by
//! the next one if it was stopped in between.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cleveragents_domain::id::{PlanId, SandboxId};
use cleveragents_domain::sandbox::{FolderState, SandboxRecord, SandboxState};
use cleveragents_domain::{AbsolutePath, EventKind, ResourceType, StreamId};
use cleveragents_engine::ports::sandbox::{
    Created, Discarded, Inspection, Mark, NewSandbox, Published, Sandbox, SandboxBase,
    SandboxError, SandboxResult, Sandboxes,
};
use cleveragents_engine::ports::{Liveness, StoreError};
use cleveragents_engine::sandboxes::{GcAsk, Mode, SandboxService, Swept, Verdict};
use cleveragents_engine::system::SystemIds;
use cleveragents_proof::execution_samples::sandbox;
use cleveragents_proof::place::operation;
use cleveragents_proof::verbs::{events, read, write};
use cleveragents_proof::{Backend, Place, block_on, contract};

use super::scene::Scene;

contract! {
    only_what_nobody_needs_is_removed,
    a_removal_that_was_stopped_is_finished_by_the_next,
    nothing_is_removed_under_the_hands_of_its_owner,
    folders_that_nobody_knows_are_left_for_a_day,
}

/// How a removal from the disk ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Removal {
    Works,
    /// The folder stays.
    FailsBefore,
    /// The folder is gone, and whoever removed it with it.
    FailsAfter,
}

/// Folders that are only names.
#[derive(Debug)]
struct Folders {
    there: Mutex<BTreeSet<SandboxId>>,
    withdrawn: Mutex<BTreeSet<PlanId>>,
    removal: Mutex<Removal>,
    mark: Option<Mark>,
}

impl Folders {
    fn new(mark: Option<Mark>) -> Arc<Self> {
        Arc::new(Self {
            there: Mutex::default(),
            withdrawn: Mutex::default(),
            removal: Mutex::new(Removal::Works),
            mark,
        })
    }

    fn make(&self, id: SandboxId) {
        self.there.lock().unwrap().insert(id);
    }

    fn has(&self, id: SandboxId) -> bool {
        self.there.lock().unwrap().contains(&id)
    }

    fn let_removal(&self, removal: Removal) {
        *self.removal.lock().unwrap() = removal;
    }
}

fn nothing<T>() -> SandboxResult<T> {
    Err(SandboxError::NoRepository)
}

impl Sandboxes for Folders {
    fn inspect(&self, _: &Path) -> SandboxResult<Inspection> {
        nothing()
    }

    fn usable(&self, _: &AbsolutePath, _: ResourceType) -> SandboxResult<()> {
        nothing()
    }

    fn create(&self, _: &NewSandbox) -> SandboxResult<Created> {
        nothing()
    }

    fn open(&self, id: SandboxId) -> SandboxResult<Box<dyn Sandbox>> {
        Err(SandboxError::NotFound { id })
    }

    fn adopt(&self, id: SandboxId, _: &SandboxBase) -> SandboxResult<()> {
        Err(SandboxError::NotFound { id })
    }

    fn discard(&self, id: SandboxId) -> SandboxResult<Discarded> {
        let removal = *self.removal.lock().unwrap();
        if removal == Removal::FailsBefore {
            return nothing();
        }
        let was = self.there.lock().unwrap().remove(&id);
        match (removal, was) {
            (Removal::FailsAfter, _) => nothing(),
            (_, true) => Ok(Discarded::Removed),
            (_, false) => Ok(Discarded::Absent),
        }
    }

    fn list(&self) -> SandboxResult<Vec<SandboxId>> {
        Ok(self.there.lock().unwrap().iter().copied().collect())
    }

    fn mark(&self, id: SandboxId) -> SandboxResult<Option<Mark>> {
        match &self.mark {
            Some(mark) => Ok(Some(mark.clone())),
            None => Err(SandboxError::Foreign {
                path: id.to_string().into(),
                reason: "it has no marker of ours".to_owned(),
            }),
        }
    }

    fn published(&self, _: &AbsolutePath, _: PlanId) -> SandboxResult<Option<Published>> {
        Ok(None)
    }

    fn withdraw(&self, _: &AbsolutePath, plan: PlanId) -> SandboxResult<()> {
        self.withdrawn.lock().unwrap().insert(plan);
        Ok(())
    }
}

fn service(scene: &Scene, folders: &Arc<Folders>) -> SandboxService {
    let liveness = Arc::clone(&scene.opened.presence) as Arc<dyn Liveness>;
    let folders = Arc::clone(folders) as Arc<dyn Sandboxes>;
    SandboxService::new(
        scene.opened.store.clone(),
        Arc::new(SystemIds),
        liveness,
        folders,
    )
}

fn ask(mode: Mode) -> GcAsk {
    GcAsk {
        mode,
        older_than: Duration::ZERO,
        actor: "ann".to_owned(),
    }
}

/// A sandbox of a new plan, with its folder.
async fn stored(scene: &Scene, folders: &Folders, path: &[SandboxState]) -> SandboxRecord {
    let plan = scene.new_plan().await;
    let mut record = SandboxRecord {
        folder: FolderState::Kept,
        resource_type: ResourceType::GitCheckout,
        node: None,
        ..sandbox(plan.identity.plan_id, 0)
    };
    folders.make(record.id);
    let first = record.clone();
    write(&scene.opened.store, move |unit| unit.insert_sandbox(&first)).await;
    for state in path {
        record.state = *state;
        let next = record.clone();
        let version = write(&scene.opened.store, move |unit| unit.update_sandbox(&next)).await;
        record.version = version;
    }
    record
}

async fn now(scene: &Scene, id: SandboxId) -> SandboxRecord {
    read(&scene.opened.store, move |unit| unit.sandbox(id)).await
}

fn verdict(swept: &[Swept], id: SandboxId) -> Verdict {
    let found = swept.iter().find(|it| it.about.id == id);
    found.map(|it| it.verdict.clone()).unwrap()
}

fn is_removed(swept: &[Swept], id: SandboxId) -> bool {
    matches!(verdict(swept, id), Verdict::Remove(_))
}

fn only_what_nobody_needs_is_removed(backend: Backend) {
    use SandboxState::{Active, Captured, Discarded};
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let folders = Folders::new(None);
        let service = service(&scene, &folders);
        let working = stored(&scene, &folders, &[Active]).await;
        let waiting = stored(&scene, &folders, &[Active, Captured]).await;
        let unwanted = stored(&scene, &folders, &[Discarded]).await;
        let half = stored(&scene, &folders, &[]).await;
        let cancelled = stored(&scene, &folders, &[Active]).await;
        let cancel = scene.lifecycle.cancel(cancelled.plan_id, "enough", "ann");
        cancel.await.unwrap();

        let recent = GcAsk {
            older_than: Duration::from_secs(3600),
            ..ask(Mode::Look)
        };
        let swept = service.gc(&recent).await.unwrap();
        assert!(
            !is_removed(&swept, cancelled.id),
            "it was cancelled just now"
        );
        let looked = service.gc(&ask(Mode::Look)).await.unwrap();
        assert_eq!(folders.list().unwrap().len(), 5, "a look changes nothing");
        assert_eq!(now(&scene, half.id).await, half);
        let swept = service.gc(&ask(Mode::Remove)).await.unwrap();
        assert_eq!(swept, looked);
        for kept in [&working, &waiting] {
            assert!(!is_removed(&swept, kept.id));
            assert!(folders.has(kept.id));
            assert_eq!(now(&scene, kept.id).await, *kept);
        }
        for gone in [&unwanted, &half, &cancelled] {
            assert!(is_removed(&swept, gone.id));
            assert!(!folders.has(gone.id));
            let record = now(&scene, gone.id).await;
            assert_eq!(record.folder, FolderState::Gone);
            let all = events(&scene.opened.store, StreamId::Plan(gone.plan_id)).await;
            let told = all.iter().filter(|it| it.kind == EventKind::SandboxRemoved);
            assert_eq!(told.count(), 1);
        }
        assert_eq!(now(&scene, half.id).await.state, Discarded);
        assert_eq!(now(&scene, cancelled.id).await.state, Active);
        let withdrawn = folders.withdrawn.lock().unwrap().clone();
        assert_eq!(withdrawn, BTreeSet::from([cancelled.plan_id]));
        let again = service.gc(&ask(Mode::Remove)).await.unwrap();
        assert_eq!(again.len(), 2, "what is gone is not told again");
    });
}

fn a_removal_that_was_stopped_is_finished_by_the_next(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        for stopped in [Removal::FailsBefore, Removal::FailsAfter] {
            let folders = Folders::new(None);
            let service = service(&scene, &folders);
            let record = stored(&scene, &folders, &[SandboxState::Discarded]).await;
            folders.let_removal(stopped);
            let swept = service.gc(&ask(Mode::Remove)).await.unwrap();
            assert!(matches!(verdict(&swept, record.id), Verdict::Failed(_)));
            let leaving = now(&scene, record.id).await;
            assert_eq!(leaving.folder, FolderState::Leaving);
            folders.let_removal(Removal::Works);
            let swept = service.gc(&ask(Mode::Remove)).await.unwrap();
            assert!(is_removed(&swept, record.id));
            assert!(!folders.has(record.id));
            assert_eq!(now(&scene, record.id).await.folder, FolderState::Gone);
        }
    });
}

/// What the owner of a plan found and did.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    /// Its half-made sandbox, which it goes on with.
    Sandbox,
    /// Nothing: it makes another.
    Nothing,
}

fn nothing_is_removed_under_the_hands_of_its_owner(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Arc::new(Scene::furnished(&place).await);
        let other = match backend {
            Backend::Memory => Arc::clone(&scene),
            Backend::Sqlite | Backend::Postgres => Arc::new(Scene::open(&place)),
        };
        for round in 0..32 {
            let folders = Folders::new(None);
            let record = stored(&scene, &folders, &[]).await;
            let service = service(&other, &folders);
            let collect = tokio::spawn(async move {
                if round % 2 == 1 {
                    tokio::task::yield_now().await;
                }
                service.gc(&ask(Mode::Remove)).await.unwrap()
            });
            let work = tokio::spawn({
                let (scene, folders) = (Arc::clone(&scene), Arc::clone(&folders));
                let record = record.clone();
                async move { take_up(&scene, &folders, record).await }
            });
            let (swept, found) = (collect.await.unwrap(), work.await.unwrap());
            let here = is_removed(&swept, record.id);
            match found {
                Found::Sandbox => {
                    assert!(!here, "removed under the hands of its owner: {swept:?}");
                    assert!(folders.has(record.id));
                    assert_eq!(now(&scene, record.id).await.state, SandboxState::Active);
                }
                Found::Nothing => {
                    assert!(here, "{swept:?}");
                    assert!(!folders.has(record.id));
                }
            }
        }
    });
}

/// What `plan execute` does: claims the plan, looks for its sandboxes, makes the one that is meant
/// to be there, and says so.
async fn take_up(scene: &Scene, folders: &Folders, record: SandboxRecord) -> Found {
    let run = scene.claim(record.plan_id).await;
    let plan = record.plan_id;
    let found = read(&scene.opened.store, move |unit| unit.sandboxes_of(plan)).await;
    let Some(found) = found.into_iter().find(|it| it.id == record.id) else {
        return Found::Nothing;
    };
    folders.make(found.id);
    let made = SandboxRecord {
        state: SandboxState::Active,
        ..found
    };
    let confirmed = run
        .write(operation("test.confirm"), move |unit| {
            unit.update_sandbox(&made)
        })
        .await;
    let _: i64 = confirmed.unwrap_or_else(|error: StoreError| panic!("{error}"));
    std::mem::forget(run);
    Found::Sandbox
}

fn folders_that_nobody_knows_are_left_for_a_day(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let gone: PlanId = "01JZZZZZZZ0000000000000001".parse().unwrap();
        let mark = |plan| Mark {
            plan,
            resource: AbsolutePath::from_bytes(&b"/srv/shop"[..]).unwrap(),
            resource_type: ResourceType::GitCheckout,
        };
        let old: SandboxId = "01JZZZZZZZ0000000000000002".parse().unwrap();
        let young = SandboxId::new(cleveragents_engine::ports::Ids::next(&SystemIds));

        let folders = Folders::new(Some(mark(gone)));
        folders.make(old);
        folders.make(young);
        let swept = service(&scene, &folders)
            .gc(&ask(Mode::Remove))
            .await
            .unwrap();
        assert!(is_removed(&swept, old) && !folders.has(old));
        assert!(!is_removed(&swept, young) && folders.has(young));
        assert!(folders.withdrawn.lock().unwrap().contains(&gone));

        let plan = scene.new_plan().await.identity.plan_id;
        for marks in [Some(mark(plan)), None] {
            let folders = Folders::new(marks);
            folders.make(old);
            let swept = service(&scene, &folders)
                .gc(&ask(Mode::Remove))
                .await
                .unwrap();
            assert!(!is_removed(&swept, old), "{swept:?}");
            assert!(folders.has(old), "{swept:?}");
        }
    });
}
