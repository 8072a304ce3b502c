//! JSON Schemas of the YAML files, for editors. They are generated from the wire types and stored
//! in `docs/schemas`; a test compares the two.

use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;

use super::action::ActionFile;
use super::actor::ActorFile;
use super::profile::ProfileFile;
use super::providers::ModelsFile;
use super::script::ScriptFile;
use super::validation::ValidationFile;

/// Returns the schema of an action file.
pub fn action_schema() -> Value {
    schema_of::<ActionFile>()
}

/// Returns the schema of an actor file.
pub fn actor_schema() -> Value {
    schema_of::<ActorFile>()
}

/// Returns the schema of a validation file.
pub fn validation_schema() -> Value {
    schema_of::<ValidationFile>()
}

/// Returns the schema of an automation profile file.
pub fn profile_schema() -> Value {
    schema_of::<ProfileFile>()
}

/// Returns the schema of the file of providers and models.
pub fn models_schema() -> Value {
    schema_of::<ModelsFile>()
}

/// Returns the schema of a scripted model's script.
pub fn script_schema() -> Value {
    schema_of::<ScriptFile>()
}

fn schema_of<T: JsonSchema>() -> Value {
    SchemaGenerator::default()
        .into_root_schema_for::<T>()
        .to_value()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::Write;
    use std::path::Path;

    use cleveragents_domain::{ActionState, ArgumentType, ThresholdName, ValidationMode};
    use serde_json::json;

    use super::*;

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
            ("action.schema.json", action_schema()),
            ("actor.schema.json", actor_schema()),
            ("automation-profile.schema.json", profile_schema()),
            ("models.schema.json", models_schema()),
            ("script.schema.json", script_schema()),
            ("validation.schema.json", validation_schema()),
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
        let schema = action_schema();
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
        let schema = action_schema();
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
            validation_schema()["properties"]["mode"]["enum"],
            json!(modes)
        );
        let profile = profile_schema();
        let thresholds: Vec<&str> = ThresholdName::ALL
            .iter()
            .map(|word| word.as_str())
            .collect();
        assert_eq!(
            profile["$defs"]["ThresholdsEntry"]["required"],
            json!(thresholds)
        );
    }
}
