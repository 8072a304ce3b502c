//! Ten processes that start at once on nothing.

use std::collections::HashSet;

use cleveragents_proof::child::{Hammer, Job};
use cleveragents_proof::place::psql;
use cleveragents_proof::{Backend, Place, bare, trials};
use cleveragents_store::NEWEST_SCHEMA;

use crate::HAMMER;

engines! {
    ten_processes_create_one_database,
}

const VERSIONS: &str = "SELECT count(*) FROM schema_versions";

fn ten_processes_create_one_database(backend: Backend) {
    for _ in 0..trials(30, 3) {
        let place = Place::new(backend);
        let mut hammers: Vec<Hammer> = (0..10)
            .map(|_| Hammer::start(HAMMER, &place, &Job::new("open")))
            .collect();
        hammers
            .iter_mut()
            .for_each(|hammer| drop(hammer.expect("ready")));
        hammers.iter_mut().for_each(|hammer| hammer.tell("go"));
        let nodes: HashSet<String> = hammers
            .iter_mut()
            .map(|hammer| hammer.expect("opened "))
            .collect();
        assert_eq!(nodes.len(), 1, "one folder is one node: {nodes:?}");
        let versions = match &place.url {
            Some(url) => psql(url, VERSIONS).parse().unwrap(),
            None => bare::number(&place.database_file(), VERSIONS),
        };
        assert_eq!(versions, NEWEST_SCHEMA, "each migration ran once");
        for hammer in &mut hammers {
            hammer.stop();
            hammer.expect("done");
        }
    }
}
