//! The owner's moves: through its lease only, strict, on the record, and fenced once it is lost.

use cleveragents_domain::{MoveKind, Phase, Position, State};
use cleveragents_engine::lifecycle::Cancelled;
use cleveragents_proof::verbs::give_back;
use cleveragents_proof::{Backend, Place, block_on, contract};

use super::asks::{Ask, Caller, Told, Way, move_of};
use super::scene::{AllThere, Scene};

contract! {
    an_owner_takes_a_plan_all_the_way,
    an_owners_repeat_is_refused,
    every_move_of_an_owner_that_was_taken_over_from_is_refused,
    an_owner_takes_each_message_once,
}

fn an_owner_takes_a_plan_all_the_way(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let id = scene.new_plan().await.identity.plan_id;
        let run = scene.claim(id).await;
        let caller = Caller {
            scene: &scene,
            run: Some(&run),
            plan: id,
            name: "nobody",
        };
        let way = [
            MoveKind::Start,
            MoveKind::Complete,
            MoveKind::Advance,
            MoveKind::Start,
            MoveKind::Complete,
            MoveKind::Advance,
            MoveKind::Start,
            MoveKind::Decide,
            MoveKind::Apply,
        ];
        let mut at = Position::new();
        for kind in way {
            let ask = Ask {
                kind,
                way: Way::Owner,
            };
            let asked = move_of(kind, at);
            at = at.after(asked).unwrap();
            assert_eq!(ask.perform(&caller, asked).await, Told::Moved(at));
        }
        let plan = scene.plan(id).await;
        assert_eq!((plan.position, plan.version), (at, 10));
        assert!(plan.timestamps.finished_at.is_some());
        scene.assert_journal_agrees(id).await;
        give_back(run).await;
    });
}

fn an_owners_repeat_is_refused(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let id = scene.new_plan().await.identity.plan_id;
        let run = scene.claim(id).await;
        scene.lifecycle.start(&run, &AllThere).await.unwrap();
        let failed = scene.lifecycle.fail(&run, "no net").await.unwrap();
        assert_eq!(failed.error_message.as_deref(), Some("no net"));
        let refused = scene.lifecycle.fail(&run, "again").await.unwrap_err();
        let said = refused.to_string();
        assert!(
            said.starts_with("cannot fail: the plan is at strategize/errored; legal now:"),
            "{said}"
        );
        assert_eq!(scene.plan(id).await, failed);
    });
}

fn every_move_of_an_owner_that_was_taken_over_from_is_refused(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let id = scene.new_plan().await.identity.plan_id;
        let old = scene.claim(id).await;
        // A claim against exactly the owner and epoch that were proven dead, as a takeover is.
        let new = scene.take_over(&old).await;
        let plan = scene.lifecycle.start(&new, &AllThere).await.unwrap();
        for ask in Ask::all().into_iter().filter(|ask| ask.way == Way::Owner) {
            let caller = Caller {
                scene: &scene,
                run: Some(&old),
                plan: id,
                name: "old",
            };
            let told = ask.perform(&caller, ask.asked(plan.position)).await;
            assert_eq!(told, Told::LeaseLost, "{ask:?}");
        }
        scene.lifecycle.take_messages(&old).await.unwrap_err();
        assert_eq!(scene.plan(id).await, plan);
        let done = scene.lifecycle.complete(&new).await.unwrap();
        assert_eq!(done.position.state(), State::Complete);
        assert_eq!(done.position.phase(), Phase::Strategize);
    });
}

fn an_owner_takes_each_message_once(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let id = scene.new_plan().await.identity.plan_id;
        let run = scene.claim(id).await;
        scene.lifecycle.prompt(id, "slowly", "eva").await.unwrap();
        let asked = scene.lifecycle.cancel(id, "enough", "eva").await.unwrap();
        assert!(matches!(asked, Cancelled::Requested(_)));
        let messages = scene.lifecycle.take_messages(&run).await.unwrap();
        let bodies: Vec<&str> = messages.iter().map(|it| it.body.as_str()).collect();
        assert_eq!(bodies, ["slowly", "enough"]);
        assert!(
            scene
                .lifecycle
                .take_messages(&run)
                .await
                .unwrap()
                .is_empty()
        );
        let ended = scene.lifecycle.cancel_as_owner(&run, "enough").await;
        assert_eq!(ended.unwrap().position.state(), State::Cancelled);
    });
}
