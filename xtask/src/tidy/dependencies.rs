//! Dependency rules: allowed edges between crates, where adapters may be named, and where SQL may
//! be used.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::TidyFinding;
use super::source::RustSource;
use super::tree::{SourceTree, TextFile};

/// The document with the table of crates and their allowed dependencies.
const TABLE_DOCUMENT: &str = "ARCHITECTURE.md";

/// The last column of that table.
const TABLE_COLUMN: &str = "may depend on";

/// The workspace crates that a crate may depend on, without the common prefix.
#[derive(Debug, Default)]
struct AllowedEdges {
    always: Vec<String>,
    /// Only as dev-dependencies.
    in_tests: Vec<String>,
}

/// Crates that implement ports; the command line names them in `bootstrap` only.
const ADAPTERS: [&str; 5] = [
    "cleveragents_store",
    "cleveragents_context",
    "cleveragents_models",
    "cleveragents_tools",
    "cleveragents_sandbox",
];

/// Packages that access a database.
const SQL_CLIENTS: [&str; 2] = ["rusqlite", "postgres"];

/// Folders whose sources may use them: the store, and the bare loops of benchmarks.
const SQL_FOLDERS: [&str; 2] = ["crates/store/src/", "xtask/src/bench/"];

/// Forbidden edges, adapters outside `bootstrap`, SQL outside the store.
pub fn check(tree: &SourceTree) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    let mut manifests = BTreeMap::new();
    for document in &tree.manifests {
        match document.text.parse::<Table>() {
            Ok(manifest) => drop(manifests.insert(document.path.as_str(), manifest)),
            Err(error) => {
                let message = format!("not a manifest: {}", error.message());
                findings.push(TidyFinding::error("edges", &document.path, 1, message));
            }
        }
    }
    let table = dependency_table(tree);
    for document in &tree.manifests {
        if let Some(manifest) = manifests.get(document.path.as_str()) {
            let workspace = manifests.get("Cargo.toml");
            findings.extend(check_edges(document, manifest, workspace, &table));
        }
    }
    findings.extend(check_table(tree, &table));
    for source in &tree.sources {
        findings.extend(check_adapters(source));
        findings.extend(check_sql(source, &manifests));
    }
    findings
}

/// Reads the table of crates: a row is `| `name` | contents | `edge`, `edge` (tests: `edge`) |`.
fn dependency_table(tree: &SourceTree) -> BTreeMap<String, AllowedEdges> {
    let Some(document) = tree.documents.iter().find(|it| it.path == TABLE_DOCUMENT) else {
        return BTreeMap::new();
    };
    document
        .text
        .lines()
        .skip_while(|line| !line.trim_end().ends_with(&format!("{TABLE_COLUMN} |")))
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .filter_map(|row| {
            let cells: Vec<&str> = row.trim().trim_matches('|').split('|').collect();
            let (first, last) = (cells.first()?, cells.last()?);
            let (always, in_tests) = last.split_once("(tests:").unwrap_or((last, ""));
            let edges = AllowedEdges {
                always: quoted_names(always),
                in_tests: quoted_names(in_tests),
            };
            Some((quoted_names(first).pop()?, edges))
        })
        .collect()
}

/// Returns the texts between backticks.
fn quoted_names(cell: &str) -> Vec<String> {
    cell.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

/// Rows of the table without a crate.
fn check_table(tree: &SourceTree, table: &BTreeMap<String, AllowedEdges>) -> Vec<TidyFinding> {
    table
        .keys()
        .filter(|name| {
            !tree.contains(&format!("crates/{name}/Cargo.toml"))
                && !tree.contains(&format!("{name}/Cargo.toml"))
        })
        .map(|name| {
            let message = format!("the table of crates has `{name}`, which does not exist");
            TidyFinding::error("edges", TABLE_DOCUMENT, 1, message)
        })
        .collect()
}

fn check_edges(
    document: &TextFile,
    manifest: &Table,
    workspace: Option<&Table>,
    table: &BTreeMap<String, AllowedEdges>,
) -> Vec<TidyFinding> {
    let Some(package) = manifest.get("package").and_then(|it| it.get("name")) else {
        return Vec::new();
    };
    let package = short_name(package.as_str().unwrap_or_default());
    let Some(allowed) = table.get(package) else {
        let message =
            format!("crate `{package}` is not in the table of {TABLE_DOCUMENT}: add it there");
        return vec![TidyFinding::error("edges", &document.path, 1, message)];
    };
    dependency_names(manifest, workspace)
        .into_iter()
        .filter_map(|dependency| {
            let inner = dependency
                .package
                .strip_prefix("cleveragents-")
                .or((dependency.package == "xtask").then_some("xtask"))?;
            let is_listed = |list: &[String]| list.iter().any(|name| name == inner);
            let is_allowed = is_listed(&allowed.always)
                || (dependency.kind == DEV_DEPENDENCIES && is_listed(&allowed.in_tests));
            (!is_allowed).then(|| {
                let names = if allowed.always.is_empty() {
                    "no crate of the workspace".to_owned()
                } else {
                    allowed.always.join(", ")
                };
                let message = format!(
                    "`{package}` may not depend on `{inner}`, only on {names}: pass what it needs \
                     through a port, or change the table of {TABLE_DOCUMENT}"
                );
                let line = line_of(document, &dependency.key);
                TidyFinding::error("edges", &document.path, line, message)
            })
        })
        .collect()
}

fn short_name(package: &str) -> &str {
    package.strip_prefix("cleveragents-").unwrap_or(package)
}

fn line_of(document: &TextFile, key: &str) -> usize {
    let position = document.text.lines().position(|line| line.starts_with(key));
    position.map_or(1, |at| at + 1)
}

const DEV_DEPENDENCIES: &str = "dev-dependencies";

/// One entry of a manifest's dependencies.
struct DependencyEntry {
    key: String,
    /// The package's name, also behind a rename.
    package: String,
    /// The table it is in.
    kind: &'static str,
}

/// All dependencies of a manifest, including those of targets.
fn dependency_names(manifest: &Table, workspace: Option<&Table>) -> Vec<DependencyEntry> {
    let targets = manifest.get("target").and_then(Value::as_table);
    let tables = targets
        .into_iter()
        .flat_map(Table::values)
        .filter_map(Value::as_table);
    let shared = workspace.and_then(|root| root.get("workspace")?.get("dependencies"));
    let mut entries = Vec::new();
    for table in std::iter::once(manifest).chain(tables) {
        for kind in ["dependencies", DEV_DEPENDENCIES, "build-dependencies"] {
            let Some(dependencies) = table.get(kind).and_then(Value::as_table) else {
                continue;
            };
            for (key, value) in dependencies {
                let renamed = value
                    .get("package")
                    .or_else(|| shared?.get(key)?.get("package"));
                entries.push(DependencyEntry {
                    key: key.clone(),
                    package: renamed.and_then(Value::as_str).unwrap_or(key).to_owned(),
                    kind,
                });
            }
        }
    }
    entries
}

fn check_adapters(source: &RustSource) -> Vec<TidyFinding> {
    let path = source.path.as_str();
    let in_bootstrap =
        path == "crates/cli/src/bootstrap.rs" || path.starts_with("crates/cli/src/bootstrap/");
    if !path.starts_with("crates/cli/") || in_bootstrap {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for adapter in ADAPTERS {
        for line in source.lines_with(adapter) {
            let message = format!(
                "`{adapter}` is named outside `bootstrap`: take the port as a value instead"
            );
            findings.push(TidyFinding::error("bootstrap", path, line, message));
        }
    }
    findings
}

/// A crate that does not depend on a client cannot use it, so a module named `postgres` in it is
/// not a violation.
fn check_sql(source: &RustSource, manifests: &BTreeMap<&str, Table>) -> Vec<TidyFinding> {
    let path = source.path.as_str();
    if SQL_FOLDERS.iter().any(|home| path.starts_with(home)) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for client in SQL_CLIENTS {
        if client == "postgres" && !depends_on(client, path, manifests) {
            continue;
        }
        for line in uses(source, client) {
            let message =
                format!("`{client}` is used outside crates/store/src: add a verb to the store");
            findings.push(TidyFinding::error("sql-client", path, line, message));
        }
    }
    findings
}

fn depends_on(client: &str, path: &str, manifests: &BTreeMap<&str, Table>) -> bool {
    let mut parts = path.split('/');
    let folder = match (parts.next(), parts.next()) {
        (Some("crates"), Some(name)) => format!("crates/{name}"),
        (Some(first), _) => first.to_owned(),
        _ => return false,
    };
    manifests
        .get(format!("{folder}/Cargo.toml").as_str())
        .is_some_and(|manifest| {
            dependency_names(manifest, manifests.get("Cargo.toml"))
                .iter()
                .any(|dependency| dependency.package == client)
        })
}

/// Lines where the client's own path begins, so `crate::postgres::…` and `tokio_postgres` do not
/// count.
fn uses<'a>(source: &'a RustSource, client: &'a str) -> impl Iterator<Item = usize> + 'a {
    source.lines_with(client).filter(move |number| {
        let code = &source.lines[number - 1].code;
        code.match_indices(client).any(|(at, _)| {
            let path_follows = code[at + client.len()..].starts_with("::");
            let own = !code[..at].ends_with("::") || code[..at].ends_with(" ::");
            own && (path_follows || client == "rusqlite")
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{assert_clean, assert_only};

    const TABLE: (&str, &str) = (
        "ARCHITECTURE.md",
        "| crate | contents | may depend on |\n|---|---|---|\n\
         | `domain` | types | nothing |\n\
         | `engine` | use cases | `domain` |\n\
         | `integration-tests` | tests | `domain` |\n\
         | `store` | SQL | `domain` (tests: `engine`) |\n",
    );

    /// The table's crates, so that no row of it is without a crate.
    fn with_table<'a>(files: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
        let mut all = vec![
            TABLE,
            ("crates/domain/Cargo.toml", DOMAIN),
            ("crates/engine/Cargo.toml", ENGINE),
            ("crates/integration-tests/Cargo.toml", TESTS),
            ("crates/store/Cargo.toml", STORE),
        ];
        all.retain(|(path, _)| files.iter().all(|(other, _)| other != path));
        all.extend_from_slice(files);
        all
    }

    const DOMAIN: &str = "[package]\nname = \"cleveragents-domain\"\n";
    const ENGINE: &str = "[package]\nname = \"cleveragents-engine\"\n";
    const TESTS: &str = "[package]\nname = \"cleveragents-integration-tests\"\n";
    const STORE: &str = "[package]\nname = \"cleveragents-store\"\n";

    fn manifest(name: &str, rest: &str) -> String {
        format!("[package]\nname = \"{name}\"\n{rest}")
    }

    #[test]
    fn an_edge_outside_the_table_is_found_in_every_kind_of_dependency() {
        for kind in [
            "dependencies",
            "dev-dependencies",
            "target.'cfg(unix)'.dependencies",
        ] {
            let rest = format!("[{kind}]\ncleveragents-store.workspace = true\n");
            assert_only(
                &with_table(&[(
                    "crates/engine/Cargo.toml",
                    &manifest("cleveragents-engine", &rest),
                )]),
                "crates/engine/Cargo.toml:4: error [edges] `engine` may not depend on `store`",
            );
        }
    }

    #[test]
    fn a_rename_hides_no_edge() {
        let rest = "[dependencies]\nhidden = { package = \"cleveragents-store\", path = \"x\" }\n";
        assert_only(
            &with_table(&[(
                "crates/domain/Cargo.toml",
                &manifest("cleveragents-domain", rest),
            )]),
            "crates/domain/Cargo.toml:4: error [edges]",
        );
        let root = "[workspace.dependencies]\nhidden = { package = \"cleveragents-store\" }\n";
        let rest = "[dependencies]\nhidden.workspace = true\n";
        assert_only(
            &with_table(&[
                ("Cargo.toml", root),
                (
                    "crates/domain/Cargo.toml",
                    &manifest("cleveragents-domain", rest),
                ),
            ]),
            "crates/domain/Cargo.toml:4: error [edges]",
        );
    }

    #[test]
    fn an_edge_of_the_table_is_allowed_and_one_for_tests_in_tests_only() {
        let edge = "cleveragents-domain.workspace = true\nserde = \"1\"\n";
        let tests = "cleveragents-engine.workspace = true\n";
        let rest = format!("[dependencies]\n{edge}[dev-dependencies]\n{tests}");
        let path = "crates/store/Cargo.toml";
        assert_clean(&with_table(&[(
            path,
            &manifest("cleveragents-store", &rest),
        )]));
        let rest = format!("[dependencies]\n{tests}");
        assert_only(
            &with_table(&[(path, &manifest("cleveragents-store", &rest))]),
            "crates/store/Cargo.toml:4: error [edges] `store` may not depend on `engine`",
        );
    }

    #[test]
    fn a_crate_outside_the_table_is_found() {
        assert_only(
            &with_table(&[("crates/new/Cargo.toml", &manifest("cleveragents-new", ""))]),
            "crates/new/Cargo.toml:1: error [edges] crate `new` is not in the table",
        );
    }

    #[test]
    fn a_row_without_a_crate_is_found() {
        assert_only(
            &[
                TABLE,
                ("crates/domain/Cargo.toml", DOMAIN),
                ("crates/integration-tests/Cargo.toml", TESTS),
                ("crates/store/Cargo.toml", STORE),
            ],
            "ARCHITECTURE.md:1: error [edges] the table of crates has `engine`",
        );
    }

    #[test]
    fn adapters_are_named_in_bootstrap_only() {
        let text = "use cleveragents_store::Store;\n";
        assert_only(
            &[("crates/cli/src/info.rs", text)],
            "crates/cli/src/info.rs:1: error [bootstrap]",
        );
        assert_clean(&[("crates/cli/src/bootstrap.rs", text)]);
        assert_clean(&[("crates/cli/src/bootstrap/store.rs", text)]);
    }

    #[test]
    fn sql_is_used_in_the_store_only() {
        let text = "use rusqlite::Connection;\n";
        assert_only(
            &[("crates/engine/src/a.rs", text)],
            "crates/engine/src/a.rs:1: error [sql-client]",
        );
        assert_clean(&[("crates/store/src/a.rs", text)]);
    }

    #[test]
    fn a_module_called_postgres_is_no_client() {
        let text = "use crate::postgres::Cluster;\nlet a = postgres::start();\n";
        let path = "crates/integration-tests/src/a.rs";
        assert_clean(&[(path, text)]);
        let rest = "[dependencies]\npostgres.workspace = true\n";
        assert_only(
            &with_table(&[
                (path, text),
                (
                    "crates/integration-tests/Cargo.toml",
                    &manifest("cleveragents-integration-tests", rest),
                ),
            ]),
            "crates/integration-tests/src/a.rs:2: error [sql-client]",
        );
    }
}
