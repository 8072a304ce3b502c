//! A stale reader can never act: who read a plan before another opening applied it is told so,
//! whatever it asks.

use cleveragents_domain::{Move, MoveKind, Phase};
use cleveragents_engine::ports::StoreError;
use cleveragents_proof::verbs::{attempt, give_back};
use cleveragents_proof::{Backend, Place, block_on, contract};

use super::asks::{Ask, Caller, Told, Way};
use super::scene::{AllThere, Scene};

contract! {
    durable: who_read_a_plan_before_it_was_applied_cannot_move_it,
}

fn who_read_a_plan_before_it_was_applied_cannot_move_it(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let stale = Scene::furnished(&place).await;
        let id = stale.new_plan().await.identity.plan_id;
        let old = stale.claim(id).await;
        let read_before = stale.lifecycle.start(&old, &AllThere).await.unwrap();

        let other = Scene::open_believing_all_dead(&place);
        let run = other.claim(id).await;
        let service = &other.lifecycle;
        service.complete(&run).await.unwrap();
        for phase in [Phase::Execute, Phase::Apply] {
            service.advance_as_owner(&run, phase).await.unwrap();
            service.start(&run, &AllThere).await.unwrap();
            if phase == Phase::Execute {
                service.complete(&run).await.unwrap();
            }
        }
        service.decide(&run).await.unwrap();
        let applied = service.applied(&run).await.unwrap();
        give_back(run).await;

        for ask in Ask::all() {
            let caller = Caller {
                scene: &stale,
                run: Some(&old),
                plan: id,
                name: "late",
            };
            let told = ask.perform(&caller, ask.asked(read_before.position)).await;
            let wanted = match ask.way {
                Way::Owner => Told::LeaseLost,
                // A correction is never one that was made before.
                Way::Command if ask.kind == MoveKind::Correct => Told::Illegal(applied.position),
                Way::Command => Told::Stands(applied.position),
            };
            assert_eq!(told, wanted, "{ask:?}");
        }
        // Nor can it write back what it had read.
        let mut moved = read_before.make_move(Move::Complete, applied.timestamps.updated_at);
        let again = moved.as_mut().unwrap().clone();
        let written = attempt(&stale.opened.store, move |unit| unit.update_plan(&again)).await;
        assert!(matches!(written, Err(StoreError::Conflict { .. })));
        assert_eq!(stale.plan(id).await, applied);
        stale.assert_journal_agrees(id).await;
    });
}
