//! The committed JSON Schemas are those of the types: one per request, one of
//! the failure, and one of the items of a watch.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use cleveragents_api::{WatchItem, all_requests, failure_schema};
use serde_json::Value;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn requests_are_sorted_by_name_and_named_once() {
    let names: Vec<&str> = all_requests().iter().map(|it| it.name).collect();
    let sorted: BTreeSet<&str> = names.iter().copied().collect();
    assert_eq!(names, sorted.into_iter().collect::<Vec<_>>());
}

/// Returns all schemas by file name.
fn schemas() -> BTreeMap<String, Value> {
    let requests = all_requests().into_iter();
    let requests = requests.map(|it| (format!("{}.json", it.name), it.schema()));
    let others = [
        ("failure.json".to_owned(), failure_schema()),
        ("watch.json".to_owned(), WatchItem::schema()),
    ];
    requests.chain(others).collect()
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a generated file may be lost")]
fn the_docs_have_all_schemas() {
    let (docs, folder) = (
        workspace().join("docs/schemas/api"),
        workspace().join("target/schemas/api"),
    );
    fs::create_dir_all(&folder).unwrap();
    let mut stale = Vec::new();
    for (file, schema) in schemas() {
        let kept = fs::read_to_string(docs.join(&file)).unwrap_or_default();
        if serde_json::from_str::<Value>(&kept).ok().as_ref() != Some(&schema) {
            let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
            fs::write(folder.join(&file), text).unwrap();
            stale.push(file);
        }
    }
    assert!(
        stale.is_empty(),
        "{stale:?} in docs/schemas/api are not what the types say: \
         run `cp target/schemas/api/*.json docs/schemas/api/` and look at the difference"
    );
}

#[test]
fn the_docs_have_no_other_schema() {
    let schemas = schemas();
    for entry in fs::read_dir(workspace().join("docs/schemas/api")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(
            schemas.contains_key(&name),
            "docs/schemas/api/{name}: no such type"
        );
    }
}
