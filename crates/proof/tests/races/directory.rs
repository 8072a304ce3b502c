//! A data directory that disappears under a running process.

mod sqlite {
    use std::fs;

    use cleveragents_domain::StreamId;
    use cleveragents_engine::StoreError;
    use cleveragents_proof::samples::event;
    use cleveragents_proof::verbs::attempt;
    use cleveragents_proof::{Backend, Place, block_on};

    #[test]
    fn a_removed_data_directory_is_noticed() {
        let place = Place::new(Backend::Sqlite);
        let opened = place.open();
        let append = || {
            attempt(&opened.store, |unit| {
                unit.append(StreamId::System, &[event(1)])
            })
        };
        block_on(async {
            append().await.unwrap();
            fs::remove_file(place.database_file()).unwrap();
            let refused = append().await;
            assert!(
                matches!(refused, Err(StoreError::Vanished { .. })),
                "a write into a file without a name was answered with {refused:?}"
            );
        });
    }
}
