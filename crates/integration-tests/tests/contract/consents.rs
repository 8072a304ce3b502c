//! Consents to repository files: one row and one event per content of a file.

use std::sync::Arc;

use cleveragents_domain::event::payloads::RepositoryFileTrusted;
use cleveragents_domain::{
    AbsolutePath, Consent, EventKind, RepositoryFile, ResourcePath, StreamId, Timestamp, TrustState,
};
use cleveragents_engine::trust::TrustRegistry;
use cleveragents_integration_tests::store_access::{
    events, payload_of, read, run_concurrently, try_write,
};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};
use cleveragents_ports::system::SystemIds;

contract! {
    a_consent_is_stored_once_for_each_content,
    a_consent_and_its_event_are_committed_once,
}

fn file(repository: &str, path: &str, hash: &str) -> RepositoryFile {
    RepositoryFile {
        repository: AbsolutePath::from_bytes(repository).unwrap(),
        path: ResourcePath::from_bytes(path).unwrap(),
        hash: hash.to_owned(),
    }
}

fn a_consent_is_stored_once_for_each_content(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let consent = |file: RepositoryFile, micros: i64| Consent {
        file,
        actor: "a user".to_owned(),
        given_at: Timestamp::from_micros(micros),
    };
    let rows = [
        consent(file("/a b", "x/ü.yaml", "2"), 1),
        consent(file("/a b", "x/ü.yaml", "1"), 2),
        consent(file("/a b", "y", "1"), 3),
        consent(file("/c", "x/ü.yaml", "1"), 4),
    ];
    block_on(async {
        for row in &rows {
            for is_new in [true, false] {
                let row = row.clone();
                let inserted = try_write(&opened.store, move |tx| tx.insert_consent(&row)).await;
                assert_eq!(inserted.unwrap(), is_new);
            }
        }
        let asked = rows[0].file.clone();
        let found = read(&opened.store, move |tx| {
            tx.consents_to(&asked.repository, &asked.path)
        })
        .await;
        assert_eq!(found, rows[..2]);
        let none = file("/none", "x", "1");
        let found = read(&opened.store, move |tx| {
            tx.consents_to(&none.repository, &none.path)
        })
        .await;
        assert_eq!(found, []);
    });
}

fn a_consent_and_its_event_are_committed_once(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let registry = TrustRegistry::new(opened.store.clone(), Arc::new(SystemIds));
    let wanted = file("/srv/shop", ".agents/actions/lint.yaml", "1");
    block_on(async {
        let state = |file: RepositoryFile| registry.state_of(file);
        assert_eq!(state(wanted.clone()).await.unwrap(), TrustState::FirstUse);
        let answers = run_concurrently(16, |_| {
            let (registry, wanted) = (registry.clone(), wanted.clone());
            async move { registry.record(wanted, "a user").await }
        })
        .await;
        answers.into_iter().for_each(Result::unwrap);
        assert_eq!(state(wanted.clone()).await.unwrap(), TrustState::Trusted);
        let changed = file("/srv/shop", ".agents/actions/lint.yaml", "2");
        assert_eq!(state(changed).await.unwrap(), TrustState::Changed);
        let message = events(&opened.store, StreamId::System).await;
        let message: Vec<_> = message
            .iter()
            .filter(|it| it.kind == EventKind::RepositoryFileTrusted)
            .collect();
        assert_eq!(message.len(), 1);
        let RepositoryFileTrusted(trusted) = payload_of(message[0]);
        assert_eq!(trusted, wanted);
    });
}
