//! The handbook says what the program does.

use std::path::Path;

use cleveragents_cli::settings::registry::{Preset, SETTINGS};

fn handbook() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/usage.md");
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn the_table_of_settings_is_the_registry() {
    let rows: Vec<String> = SETTINGS
        .iter()
        .map(|setting| {
            let preset = match setting.preset {
                Preset::Text(text) => format!("`{text}`"),
                Preset::DatabaseInDataDirectory => "SQLite in the data directory".to_owned(),
                Preset::Nothing => "none".to_owned(),
            };
            let vendor = setting.vendor_variable;
            let vendor = vendor.map_or(String::new(), |name| format!(", `{name}`"));
            format!(
                "| `{}` | `{}`{vendor} | {preset} | {} |",
                setting.name,
                setting.variable(),
                setting.description
            )
        })
        .collect();
    let text = handbook();
    let found: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("| `") && line.contains("CLEVERAGENTS_"))
        .collect();
    assert_eq!(found, rows, "\nthe table should be\n{}\n", rows.join("\n"));
}

#[test]
fn every_command_is_in_the_handbook() {
    let text = handbook();
    for command in cleveragents_cli::command().get_subcommands() {
        let name = format!("`agents {}", command.get_name());
        assert!(text.contains(&name), "{name}` is not explained");
    }
}
