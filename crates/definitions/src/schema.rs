//! The JSON Schemas of the YAML files in `docs/schemas`, for editors, are those of the wire types.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use cleveragents_domain::{ActionState, ArgumentType, ThresholdName, ValidationMode};
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Value, json};

use super::action::ActionFile;
use super::actor::ActorFile;
use super::profile::ProfileFile;
use super::providers::ModelsFile;
use super::script::ScriptFile;
use super::validation::ValidationFile;

fn schema_of<T: JsonSchema>() -> Value {
    SchemaGenerator::default()
        .into_root_schema_for::<T>()
        .to_value()
}

/// Whether the docs contain `generated`. If not, it is written beside the build, to be copied.
fn is_current(name: &str, generated: &Value) -> bool {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let kept = fs::read_to_string(root.join("docs/schemas").join(name)).unwrap_or_default();
    if serde_json::from_str::<Value>(&kept).ok().as_ref() == Some(generated) {
        return true;
    }
    let folder = root.join("target/schemas");
    fs::create_dir_all(&folder).unwrap();
    let text = serde_json::to_string_pretty(generated).unwrap() + "\n";
    let mut fresh = File::create(folder.join(name)).unwrap();
    fresh.write_all(text.as_bytes()).unwrap();
    false
}

#[test]
fn the_docs_have_the_current_schemas() {
    let schemas = [
        ("action.schema.json", schema_of::<ActionFile>()),
        ("actor.schema.json", schema_of::<ActorFile>()),
        ("automation-profile.schema.json", schema_of::<ProfileFile>()),
        ("models.schema.json", schema_of::<ModelsFile>()),
        ("script.schema.json", schema_of::<ScriptFile>()),
        ("validation.schema.json", schema_of::<ValidationFile>()),
    ];
    let stale: Vec<&str> = schemas
        .iter()
        .filter(|(name, generated)| !is_current(name, generated))
        .map(|(name, _)| *name)
        .collect();
    assert!(
        stale.is_empty(),
        "{stale:?} in docs/schemas are not what the types say: \
         run `cp target/schemas/*.json docs/schemas/` and look at the difference"
    );
}

#[test]
fn a_schema_lists_required_keys_and_allows_no_others() {
    let schema = schema_of::<ActionFile>();
    assert_eq!(
        schema["required"],
        json!([
            "name",
            "description",
            "strategy_actor",
            "execution_actor",
            "definition_of_done"
        ])
    );
    assert_eq!(schema["additionalProperties"], json!(false));
    assert_eq!(schema["title"], "CleverAgents action");
    assert!(schema["examples"][0]["name"].is_string());
    for (_, definition) in schema["$defs"].as_object().unwrap() {
        assert_eq!(definition["additionalProperties"], json!(false));
    }
}

#[test]
fn a_schema_uses_the_domain_values() {
    let schema = schema_of::<ActionFile>();
    let types: Vec<&str> = ArgumentType::ALL.iter().map(|word| word.as_str()).collect();
    let argument = &schema["$defs"]["ArgumentEntry"]["properties"];
    assert_eq!(argument["type"]["enum"], json!(types));
    let mut states: Vec<Value> = ActionState::ALL.iter().map(|word| json!(word)).collect();
    states.push(Value::Null);
    assert_eq!(schema["properties"]["state"]["enum"], json!(states));
    let modes: Vec<&str> = ValidationMode::ALL
        .iter()
        .map(|word| word.as_str())
        .collect();
    assert_eq!(
        schema_of::<ValidationFile>()["properties"]["mode"]["enum"],
        json!(modes)
    );
    let profile = schema_of::<ProfileFile>();
    let thresholds: Vec<&str> = ThresholdName::ALL
        .iter()
        .map(|word| word.as_str())
        .collect();
    assert_eq!(
        profile["$defs"]["ThresholdsEntry"]["required"],
        json!(thresholds)
    );
}
