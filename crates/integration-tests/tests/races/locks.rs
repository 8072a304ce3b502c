//! 32 contenders for one expired lock, round after round: exactly one winner each.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex};
use std::time::Duration;

use cleveragents_domain::StreamId;
use cleveragents_domain::id::OwnerId;
use cleveragents_integration_tests::child::{Hammer, HammerJob};
use cleveragents_integration_tests::samples::event;
use cleveragents_integration_tests::test_database::new_operation;
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, trials};
use cleveragents_ports::StoreHandle;
use cleveragents_ports::system::SystemIds;
use cleveragents_ports::{Ids, LockGrant, LockRequest, StoreError};

use crate::{HAMMER, ledger};

engines! {
    one_of_32_threads_takes_over_an_expired_lock,
    one_of_four_processes_takes_over_an_expired_lock,
}

const NAME: &str = "the-one";
const LIFETIME: Duration = Duration::from_secs(3600);
const CONTENDERS: usize = 32;

fn request(ttl: Duration) -> LockRequest {
    LockRequest {
        name: NAME.to_owned(),
        owner: OwnerId::new(SystemIds.next()),
        node: "here".to_owned(),
        ttl,
        dead_holder: None,
    }
}

async fn acquire(store: &StoreHandle, request: LockRequest) -> Result<LockGrant, StoreError> {
    store
        .write(new_operation("test.lock"), move |tx| {
            tx.acquire_lock(&request)
        })
        .await
}

/// Makes a held lock expire now.
async fn expire(store: &StoreHandle, grant: &LockGrant) -> Result<LockGrant, StoreError> {
    let grant = grant.clone();
    store
        .write(new_operation("test.expire"), move |tx| {
            tx.renew_lock(&grant, Duration::ZERO)
        })
        .await
}

/// A write under a lock that another owner holds by now.
async fn write_fenced(store: &StoreHandle, grant: &LockGrant) -> Result<(), StoreError> {
    let grant = grant.clone();
    store
        .write(new_operation("test.fenced"), move |tx| {
            // The fence comes last, so earlier writes of the transaction must be rolled back too.
            tx.append(StreamId::System, &[event(1)])?;
            tx.fence_lock(&grant)
        })
        .await
}

fn one_of_32_threads_takes_over_an_expired_lock(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let rounds = trials(1000, 50);
    let start = Barrier::new(CONTENDERS + 1);
    let over = AtomicBool::new(false);
    let answers = Mutex::new(Vec::new());
    let contend = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        loop {
            start.wait();
            if over.load(Ordering::Relaxed) {
                return;
            }
            let answer = runtime.block_on(acquire(&opened.store, request(LIFETIME)));
            answers.lock().unwrap().push(answer);
            start.wait();
        }
    };
    let mut held = block_on(acquire(&opened.store, request(Duration::ZERO))).unwrap();
    // Checked only after all threads have ended: a failure here would leave the others waiting.
    let judged = std::thread::scope(|scope| {
        for _ in 0..CONTENDERS {
            scope.spawn(contend);
        }
        let mut judged = Ok(());
        for _ in 0..rounds {
            start.wait();
            start.wait();
            let answers = std::mem::take(&mut *answers.lock().unwrap());
            match check_round(&opened.store, &held, answers) {
                Ok(grant) => held = grant,
                Err(fault) => {
                    judged = Err(fault);
                    break;
                }
            }
        }
        over.store(true, Ordering::Relaxed);
        start.wait();
        judged
    });
    assert_eq!(judged, Ok(()));
    assert_eq!(held.epoch, i64::from(rounds) + 1);
    let streams = ledger::all_streams(&opened.store);
    assert!(streams.is_empty(), "a refused write left something");
}

/// Returns the winner's grant, made to expire, or what is wrong with the round.
fn check_round(
    store: &StoreHandle,
    before: &LockGrant,
    answers: Vec<Result<LockGrant, StoreError>>,
) -> Result<LockGrant, String> {
    let fault = format!("after epoch {}: {answers:?}", before.epoch);
    let losers = answers
        .iter()
        .filter(|answer| matches!(answer, Err(StoreError::LockHeld { .. })));
    let lost = losers.count();
    let [grant] = &answers.into_iter().flatten().collect::<Vec<_>>()[..] else {
        return Err(fault);
    };
    if lost != CONTENDERS - 1 || grant.epoch != before.epoch + 1 {
        return Err(fault);
    }
    let late = block_on(write_fenced(store, before));
    if !matches!(late, Err(StoreError::LockLost { .. })) {
        return Err(format!("a write with an old epoch: {late:?}"));
    }
    block_on(expire(store, grant)).map_err(|error| error.to_string())?;
    Ok(grant.clone())
}

fn one_of_four_processes_takes_over_an_expired_lock(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let job = HammerJob {
        threads: 8,
        ..HammerJob::new("contend-lock")
    };
    let mut hammers: Vec<Hammer> = (0..4)
        .map(|_| Hammer::start(HAMMER, &test_db, &job))
        .collect();
    hammers
        .iter_mut()
        .for_each(|hammer| drop(hammer.expect_line("ready")));
    let mut held = block_on(acquire(&opened.store, request(Duration::ZERO))).unwrap();
    for _ in 0..trials(200, 10) {
        hammers.iter_mut().for_each(|hammer| hammer.send_line(NAME));
        let lines: Vec<String> = hammers
            .iter_mut()
            .flat_map(|hammer| {
                (0..8)
                    .map(|_| hammer.next_line().unwrap())
                    .collect::<Vec<_>>()
            })
            .collect();
        let won: Vec<&str> = lines
            .iter()
            .filter_map(|line| line.strip_prefix("won "))
            .collect();
        assert_eq!(won, [(held.epoch + 1).to_string()], "{lines:?}");
        let late = block_on(write_fenced(&opened.store, &held));
        assert!(matches!(late, Err(StoreError::LockLost { .. })), "{late:?}");
        held = current_grant(&opened.store);
        let losers = format!("held {}", held.owner);
        assert_eq!(
            lines.iter().filter(|line| **line == losers).count(),
            31,
            "{lines:?}"
        );
        block_on(expire(&opened.store, &held)).unwrap();
    }
}

/// The winner's grant, so that this process can make it expire.
fn current_grant(store: &StoreHandle) -> LockGrant {
    let rows = block_on(store.read(|tx| tx.locks()));
    let rows = rows.unwrap_or_else(|error: StoreError| panic!("{error}"));
    let [row] = &rows[..] else {
        panic!("one lock, not {rows:?}");
    };
    LockGrant {
        name: row.name.clone(),
        owner: row.owner,
        epoch: row.epoch,
        holds: 1,
        expires_at: row.expires_at,
    }
}
