//! Cancelling, and how much is asked at once.

use std::sync::atomic::Ordering;
use std::time::Duration;

use cleveragents_domain::provider::ProviderKind;
use cleveragents_engine::ports::models::Delta;
use futures_util::StreamExt as _;
use futures_util::future::join_all;

use super::server::{Part, Server, chunk, end, stream_head};
use super::set_up::{ask, open, provider, say};

/// Longer than anything takes, even here.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn dropping_the_stream_closes_the_connection() {
    for parts in [
        vec![Part::Hang],
        vec![stream_head(), chunk("Hel"), Part::Hang],
    ] {
        let begins = parts.len() > 1;
        let mut server = Server::always(parts).await;
        let model = open(provider(ProviderKind::OpenAi, &server.url));
        let mut stream = model.stream(&say("hi"), 0);
        if begins {
            let first = stream.next().await.unwrap().unwrap();
            assert_eq!(first, Delta::Text("Hel".to_owned()));
        } else {
            // The request is on its way as soon as somebody wants its answer.
            let arrived = server.active.wait_for(|active| *active == 1);
            tokio::select! {
                _ = stream.next() => panic!("nothing was answered"),
                arrived = arrived => drop(arrived.unwrap()),
            }
        }
        drop(stream);
        let closed = tokio::time::timeout(PATIENCE, server.closed.recv()).await;
        assert_eq!(closed, Ok(Some(())));
    }
}

#[tokio::test]
async fn never_more_requests_are_under_way_than_allowed() {
    const LIMIT: usize = 3;
    const REQUESTS: usize = 12;
    let parts = vec![stream_head(), Part::Wait, chunk("x"), end()];
    let mut server = Server::always(parts).await;
    let mut settings = provider(ProviderKind::OpenAi, &server.url);
    settings.concurrency = 3;
    let model = open(settings);
    let asking = tokio::spawn(async move {
        let request = say("hi");
        let all = (0..REQUESTS).map(|_| ask(&*model, &request));
        join_all(all).await
    });
    let full = server.active.wait_for(|active| *active >= LIMIT);
    drop(tokio::time::timeout(PATIENCE, full).await.unwrap().unwrap());
    assert_eq!(server.requests().len(), LIMIT);
    for _ in 0..REQUESTS {
        let busy = server.active.wait_for(|active| *active > 0);
        drop(tokio::time::timeout(PATIENCE, busy).await.unwrap().unwrap());
        server.release(1);
    }
    let answers = asking.await.unwrap();
    assert!(answers.iter().all(|(_, error)| error.is_none()));
    assert_eq!(server.requests().len(), REQUESTS);
    assert_eq!(server.peak.load(Ordering::Relaxed), LIMIT);
}

#[tokio::test]
async fn a_place_is_free_again_after_a_failure_and_after_a_cancel() {
    let server = Server::start(|number| match number {
        0 => super::server::answer("500 Internal Server Error", "", ""),
        1 => vec![stream_head(), chunk("x"), Part::Hang],
        _ => vec![stream_head(), chunk("x"), end()],
    })
    .await;
    let mut settings = provider(ProviderKind::OpenAi, &server.url);
    settings.concurrency = 1;
    let model = open(settings);
    let (_, error) = ask(&*model, &say("hi")).await;
    assert!(error.is_some());
    let mut stream = model.stream(&say("hi"), 1);
    stream.next().await.unwrap().unwrap();
    drop(stream);
    let again = tokio::time::timeout(PATIENCE, ask(&*model, &say("hi"))).await;
    assert_eq!(again.unwrap().1, None);
}
