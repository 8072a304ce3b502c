//! Models in `agents diagnostics`: which are usable, why, and what is wrong.

use serde_json::Value;

use crate::data_directory::check;
use crate::environment::TestEnvironment;
use crate::resource_paths::create_repository;

fn model_keys(environment: &TestEnvironment, code: i32) -> Value {
    let run = environment.run(&["diagnostics", "--offline", "-f", "json"]);
    assert_eq!(run.code, Some(code), "{run:?}");
    assert!(!format!("{run:?}").contains("hunter2"), "{run:?}");
    check(&run.json()["data"], "model_keys")
}

fn new_environment() -> TestEnvironment {
    let mut environment = TestEnvironment::new();
    environment.set_variable("PATH", crate::environment::host_path());
    environment
}

#[test]
fn providers_are_listed_with_the_source_of_their_keys() {
    let mut environment = new_environment();
    environment.set_variable("WORKSTATION_KEY", "hunter2-hunter2");
    environment.write(
        ".cleveragents/models.yaml",
        "providers: [{name: workstation, base_url: 'http://192.0.2.7/v1', key_variable: WORKSTATION_KEY}]\n",
    );
    let found = model_keys(&environment, 0);
    assert_eq!(found["status"], "ok");
    assert_eq!(found["detail"], "workstation (key from WORKSTATION_KEY)");
}

#[test]
fn an_unavailable_default_model_is_a_warning() {
    let mut environment = new_environment();
    environment.set_variable("CLEVERAGENTS_MODEL_DEFAULT", "openai/gpt-5");
    let found = model_keys(&environment, 0);
    assert_eq!(found["status"], "warning");
    assert_eq!(
        found["detail"],
        "no provider is configured for `openai/gpt-5`, the value of model.default"
    );
    environment.set_variable("OPENAI_API_KEY", "hunter2-hunter2");
    assert_eq!(
        model_keys(&environment, 0)["detail"],
        "openai (key from OPENAI_API_KEY)"
    );
}

/// Not silently the model of another provider, and not "no model is configured".
#[test]
fn a_default_model_without_a_key_is_named() {
    let mut environment = new_environment();
    environment.set_variable("CLEVERAGENTS_MODEL_DEFAULT", "openai/gpt-5");
    environment.set_variable("ANTHROPIC_API_KEY", "hunter2-hunter2");
    create_repository(&environment, "work/shop");
    let run = environment.run(&["run", "Say hello", "--path", "shop", "-f", "json"]);
    assert_eq!(run.code, Some(2), "{run:?}");
    let json = run.json();
    assert_eq!(json["data"]["error"]["kind"], "no_model", "{json}");
    let text = json.to_string();
    let cause = "the default model openai/gpt-5 cannot be used: openai needs a key and none is set; \
                 set OPENAI_API_KEY";
    assert!(text.contains(cause), "{text}");
    assert!(!text.contains("export ANTHROPIC_API_KEY"), "{text}");
}

#[test]
fn an_invalid_models_file_is_reported_with_its_position() {
    let mut environment = new_environment();
    environment.write(
        ".cleveragents/models.yaml",
        "providers:\n  - {name: x, api_key: hunter2}\n",
    );
    let found = model_keys(&environment, 1);
    assert_eq!(found["status"], "error");
    let detail = found["detail"].as_str().unwrap();
    assert!(detail.contains("models.yaml:2:15: "), "{detail}");
    assert!(detail.contains("`key_variable`"), "{detail}");

    environment.write(".cleveragents/models.yaml", "version: 1\n");
    environment.set_variable("CLEVERAGENTS_MODEL_DEFAULT", "gpt-5");
    let found = model_keys(&environment, 1);
    let detail = found["detail"].as_str().unwrap();
    assert!(detail.contains("model.default"), "{detail}");
    assert!(detail.contains("PROVIDER/MODEL"), "{detail}");
}
