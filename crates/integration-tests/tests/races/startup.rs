//! Ten processes that start concurrently without a database.

use std::collections::HashSet;

use cleveragents_integration_tests::child::{Hammer, HammerJob};
use cleveragents_integration_tests::test_database::psql;
use cleveragents_integration_tests::{Backend, TestDatabase, bare, trials};
use cleveragents_store::NEWEST_SCHEMA;

use crate::HAMMER;

engines! {
    ten_processes_create_one_database,
}

const VERSIONS: &str = "SELECT count(*) FROM schema_versions";

fn ten_processes_create_one_database(backend: Backend) {
    for _ in 0..trials(30, 3) {
        let test_db = TestDatabase::new(backend);
        let mut hammers: Vec<Hammer> = (0..10)
            .map(|_| Hammer::start(HAMMER, &test_db, &HammerJob::new("open")))
            .collect();
        hammers
            .iter_mut()
            .for_each(|hammer| drop(hammer.expect_line("ready")));
        hammers.iter_mut().for_each(|hammer| hammer.send_line("go"));
        let nodes: HashSet<String> = hammers
            .iter_mut()
            .map(|hammer| hammer.expect_line("opened "))
            .collect();
        assert_eq!(nodes.len(), 1, "one folder is one node: {nodes:?}");
        let versions = match &test_db.url {
            Some(url) => psql(url, VERSIONS).parse().unwrap(),
            None => bare::query_number(&test_db.database_file(), VERSIONS),
        };
        assert_eq!(versions, NEWEST_SCHEMA, "each migration ran once");
        for hammer in &mut hammers {
            hammer.stop();
            hammer.expect_line("done");
        }
    }
}
