//! Cancellation and request limits.

use std::sync::atomic::Ordering;
use std::time::Duration;

use cleveragents_domain::provider::ProviderKind;
use cleveragents_ports::models::Delta;
use futures_util::StreamExt as _;
use futures_util::future::join_all;

use super::fixture::{collect_response, open_model, provider, user_request};
use super::server::{ServerAction, TestServer, chunk, stream_end, stream_head};

/// Longer than anything takes, even on a slow machine.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

#[tokio::test]
async fn dropping_the_stream_closes_the_connection() {
    for parts in [
        vec![ServerAction::Hang],
        vec![stream_head(), chunk("Hel"), ServerAction::Hang],
    ] {
        let begins = parts.len() > 1;
        let mut server = TestServer::replying(parts).await;
        let model = open_model(provider(ProviderKind::OpenAi, &server.url));
        let mut stream = model.stream(&user_request("hi"), 0);
        if begins {
            let first = stream.next().await.unwrap().unwrap();
            assert_eq!(first, Delta::Text("Hel".to_owned()));
        } else {
            // The request is sent as soon as the stream is polled.
            let arrived = server.active.wait_for(|active| *active == 1);
            tokio::select! {
                _ = stream.next() => panic!("nothing was answered"),
                arrived = arrived => drop(arrived.unwrap()),
            }
        }
        drop(stream);
        let closed = tokio::time::timeout(TEST_TIMEOUT, server.closed.recv()).await;
        assert_eq!(closed, Ok(Some(())));
    }
}

#[tokio::test]
async fn concurrent_requests_stay_within_the_limit() {
    const LIMIT: usize = 3;
    const REQUESTS: usize = 12;
    let parts = vec![stream_head(), ServerAction::Wait, chunk("x"), stream_end()];
    let mut server = TestServer::replying(parts).await;
    let mut settings = provider(ProviderKind::OpenAi, &server.url);
    settings.concurrency = 3;
    let model = open_model(settings);
    let asking = tokio::spawn(async move {
        let request = user_request("hi");
        let all = (0..REQUESTS).map(|_| collect_response(&*model, &request));
        join_all(all).await
    });
    let full = server.active.wait_for(|active| *active >= LIMIT);
    drop(
        tokio::time::timeout(TEST_TIMEOUT, full)
            .await
            .unwrap()
            .unwrap(),
    );
    assert_eq!(server.requests().len(), LIMIT);
    for _ in 0..REQUESTS {
        let busy = server.active.wait_for(|active| *active > 0);
        drop(
            tokio::time::timeout(TEST_TIMEOUT, busy)
                .await
                .unwrap()
                .unwrap(),
        );
        server.release(1);
    }
    let answers = asking.await.unwrap();
    assert!(answers.iter().all(|(_, error)| error.is_none()));
    assert_eq!(server.requests().len(), REQUESTS);
    assert_eq!(server.peak.load(Ordering::Relaxed), LIMIT);
}

#[tokio::test]
async fn a_permit_is_released_after_failure_and_cancel() {
    let server = TestServer::start(|number| match number {
        0 => super::server::response("500 Internal Server Error", "", ""),
        1 => vec![stream_head(), chunk("x"), ServerAction::Hang],
        _ => vec![stream_head(), chunk("x"), stream_end()],
    })
    .await;
    let mut settings = provider(ProviderKind::OpenAi, &server.url);
    settings.concurrency = 1;
    let model = open_model(settings);
    let (_, error) = collect_response(&*model, &user_request("hi")).await;
    assert!(error.is_some());
    let mut stream = model.stream(&user_request("hi"), 1);
    stream.next().await.unwrap().unwrap();
    drop(stream);
    let again =
        tokio::time::timeout(TEST_TIMEOUT, collect_response(&*model, &user_request("hi"))).await;
    assert_eq!(again.unwrap().1, None);
}
