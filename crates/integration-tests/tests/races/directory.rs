//! A data directory that disappears while a process uses it.

mod sqlite {
    use std::fs;

    use cleveragents_domain::StreamId;
    use cleveragents_integration_tests::samples::event;
    use cleveragents_integration_tests::store_access::try_write;
    use cleveragents_integration_tests::{Backend, TestDatabase, block_on};
    use cleveragents_ports::StoreError;

    #[test]
    fn a_removed_data_directory_is_noticed() {
        let test_db = TestDatabase::new(Backend::Sqlite);
        let opened = test_db.open();
        let append = || try_write(&opened.store, |tx| tx.append(StreamId::System, &[event(1)]));
        block_on(async {
            append().await.unwrap();
            fs::remove_file(test_db.database_file()).unwrap();
            let refused = append().await;
            assert!(
                matches!(refused, Err(StoreError::Vanished { .. })),
                "a write into a file without a name was answered with {refused:?}"
            );
        });
    }
}
