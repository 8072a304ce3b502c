use cleveragents_ports::models::ModelErrorKind;

use super::*;
use crate::arguments::GlobalArguments;
use crate::settings::Locations;

/// A data directory with files, and an environment.
struct ModelsFixture {
    folder: tempfile::TempDir,
    environment: Environment,
}

impl ModelsFixture {
    fn new(models: &str, variables: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        if !models.is_empty() {
            let path = folder.path().join(FILE);
            std::io::Write::write_all(&mut File::create(path).unwrap(), models.as_bytes()).unwrap();
        }
        let mut environment = Environment::from_process();
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), value.into());
        environment.variables = variables.iter().map(pair).collect();
        let home = folder.path().to_str().unwrap().to_owned();
        let directory = ("CLEVERAGENTS_DATA_DIR".to_owned(), home.into());
        environment.variables.extend([directory]);
        environment.working_directory = Some(folder.path().to_owned());
        Self {
            folder,
            environment,
        }
    }

    fn settings(&self) -> Settings {
        let arguments = GlobalArguments::default();
        let locations = Locations::find(&arguments, &self.environment).unwrap();
        Settings::load(locations, &arguments, &self.environment).unwrap()
    }

    fn models(&self) -> Result<Arc<dyn Models>, CommandFailure> {
        models(&self.settings(), &self.environment)
    }

    fn configured(&self) -> Vec<String> {
        let models = self.models().unwrap();
        models
            .configured()
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    /// Returns the usable providers and the origin of each.
    fn ready(&self) -> Vec<(String, String)> {
        let providers = model_providers(&self.settings(), &self.environment).unwrap();
        let ready = providers
            .into_iter()
            .filter_map(|it| Some((it.name, it.origin?)));
        let folder = self.folder.path().to_str().unwrap();
        ready
            .map(|(name, origin)| (name, origin.to_string().replace(folder, "…")))
            .collect()
    }
}

fn pair(name: &str, origin: &str) -> (String, String) {
    (name.to_owned(), origin.to_owned())
}

#[test]
fn with_nothing_set_nothing_is_configured() {
    let place = ModelsFixture::new("", &[]);
    assert_eq!(place.ready(), []);
    assert_eq!(place.configured(), [""; 0]);
    let error = place
        .models()
        .unwrap()
        .open(&"openai/gpt-5".parse().unwrap());
    assert_eq!(error.unwrap_err().kind, ModelErrorKind::Unavailable);
}

#[test]
fn a_key_of_the_environment_or_an_address_is_enough() {
    let place = ModelsFixture::new(
        "",
        &[
            ("OPENAI_API_KEY", "sk-one-two-three"),
            (
                "CLEVERAGENTS_PROVIDER_OLLAMA_BASE_URL",
                "http://127.0.0.1:9/v1",
            ),
        ],
    );
    assert_eq!(
        place.ready(),
        [
            pair("openai", "key from OPENAI_API_KEY"),
            pair(
                "ollama",
                "address from CLEVERAGENTS_PROVIDER_OLLAMA_BASE_URL"
            ),
        ]
    );
    let configured = place.configured();
    assert!(
        configured.iter().all(|it| it.starts_with("openai/")),
        "{configured:?}"
    );
    assert!(!format!("{:?}", place.models().unwrap()).contains("sk-one"));
}

#[test]
fn a_compatible_server_needs_no_key() {
    let variables = [(
        "CLEVERAGENTS_PROVIDER_OPENAI_BASE_URL",
        "http://127.0.0.1:9/v1",
    )];
    let place = ModelsFixture::new("", &variables);
    let model = place.models().unwrap().open(&"openai/any".parse().unwrap());
    assert!(model.is_ok(), "{model:?}");
}

const MODELS_FILE: &str = "
providers:
  - {name: workstation, base_url: 'http://192.0.2.7:8000/v1', key_variable: WORK_KEY, concurrency: 1}
  - {name: vllm, requests_per_minute: 6}
models:
  - {model: workstation/qwen3, price: {input: 0, output: 0}, context_tokens: 1000}
  - {model: vllm/llama}
";

#[test]
fn the_file_defines_providers_and_models() {
    let place = ModelsFixture::new(MODELS_FILE, &[("WORK_KEY", "secret-of-work\n")]);
    assert_eq!(
        place.ready(),
        [
            pair("vllm", "from …/models.yaml"),
            pair("workstation", "key from WORK_KEY"),
        ]
    );
    assert_eq!(place.configured(), ["vllm/llama", "workstation/qwen3"]);
    let model = place
        .models()
        .unwrap()
        .open(&"workstation/qwen3".parse().unwrap());
    let facts = model.unwrap().facts().clone();
    assert_eq!(facts.context_tokens, 1000);
    assert!(facts.price.is_some());
    let without_key = ModelsFixture::new(MODELS_FILE, &[]);
    assert_eq!(without_key.configured(), ["vllm/llama"]);
    let error = without_key
        .models()
        .unwrap()
        .open(&"workstation/qwen3".parse().unwrap());
    assert_eq!(
        error.unwrap_err().message,
        "workstation needs a key and none is set; set WORK_KEY"
    );
}

#[test]
fn the_model_to_prefer_is_first() {
    let mut variables = vec![("ANTHROPIC_API_KEY", "key-of-anthropic")];
    variables.push(("CLEVERAGENTS_MODEL_DEFAULT", "anthropic/claude-haiku-4-5"));
    assert_eq!(
        ModelsFixture::new("", &variables).configured()[0],
        "anthropic/claude-haiku-4-5"
    );
    let place = ModelsFixture::new("", &[("CLEVERAGENTS_MODEL_DEFAULT", "haiku")]);
    let failure = place.models().unwrap_err();
    assert_eq!(
        failure.message,
        "invalid value for the setting model.default"
    );
}

#[test]
fn a_wrong_file_is_refused_where_it_is_wrong() {
    let place = ModelsFixture::new("providers: [{name: x, key_variable: WORK}]\n", &[]);
    let failure = place.models().unwrap_err().to_string();
    assert!(
        failure.contains("the variable `WORK` cannot hold the key of x"),
        "{failure}"
    );
    let place = ModelsFixture::new("providers:\n- {nam: x}\n", &[]);
    let failure = place.models().unwrap_err().to_string();
    assert!(failure.contains("models.yaml:2:3: "), "{failure}");
}

#[test]
fn proxies_are_those_of_the_environment_and_never_for_this_machine() {
    let place = ModelsFixture::new("", &[]);
    assert_eq!(proxies(&place.environment).https, None);
    let variables = [
        ("HTTP_PROXY", "http://evil:1"),
        ("HTTPS_PROXY", "http://proxy:1"),
        ("NO_PROXY", "example.org"),
    ];
    let found = proxies(&ModelsFixture::new("", &variables).environment);
    assert_eq!(found.http, None);
    assert_eq!(found.https, Some(Secret::new("http://proxy:1")));
    assert_eq!(
        found.no_proxy.unwrap(),
        format!("example.org,{OWN_MACHINE}")
    );
}
