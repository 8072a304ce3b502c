use super::*;

fn read(text: &str) -> Result<ModelDefinitions, String> {
    let source = DefinitionSource::new("models.yaml", text);
    read_models(&source, &|_| None).map_err(|errors| errors.to_string())
}

#[test]
fn the_example_of_the_schema_is_read() {
    let yaml = serde_saphyr::to_string(&example()).unwrap();
    let definitions = read(&yaml).unwrap();
    let [provider] = &definitions.providers[..] else {
        panic!("{definitions:?}");
    };
    assert_eq!(provider.kind, Some(ProviderKind::OpenAi));
    assert_eq!(provider.concurrency, Some(2));
    assert_eq!(
        provider.timeouts.between_parts,
        Some(Duration::from_secs(120))
    );
    let [model] = &definitions.models[..] else {
        panic!("{definitions:?}");
    };
    assert_eq!(model.choice.provider, "workstation");
    assert!(model.price.unwrap().input.abs() < f64::EPSILON);
    assert_eq!(model.context_tokens, Some(131_072));
}

#[test]
fn a_file_may_have_only_one_section() {
    assert_eq!(read("version: 1\n"), Ok(ModelDefinitions::default()));
    let models = read("models: [{model: openai/x}]\n").unwrap().models;
    assert_eq!((models[0].price, models[0].answer_tokens), (None, None));
}

/// A text, and the expected message.
const BAD: &[(&str, &str)] = &[
    (
        "providers: [{nme: x}]\n",
        "models.yaml:1:13: the key `name` of `providers[0]` is missing\n\
             models.yaml:1:14: there is no key `nme` in `providers[0]` (did you mean `name`?)",
    ),
    (
        "providers: [{name: x, api_key: sk-secret}]\n",
        "models.yaml:1:23: the key `api_key` is not supported \
             (put the key into an environment variable and name that in `key_variable`)",
    ),
    (
        "providers:\n- {name: x y}\n",
        "models.yaml:2:10: a name of a provider has letters, digits, `-`, `_` and `.`",
    ),
    (
        "providers:\n- {name: x}\n- {name: x}\n",
        "models.yaml:3:10: `providers[1].name`: `x` already exists",
    ),
    (
        "providers:\n- {name: x, kind: gemini}\n",
        "models.yaml:2:19: `providers[0].kind`: invalid kind of provider `gemini`: \
             use openai, anthropic, scripted",
    ),
    (
        "providers:\n- {name: x, kind: scripted}\n",
        "models.yaml:2:19: `scripted` is built in: a script is named by its path, \
             as `scripted/PATH`",
    ),
    (
        "providers:\n- {name: x, base_url: 127.0.0.1}\n",
        "models.yaml:2:23: `providers[0].base_url` must begin with http:// or https://",
    ),
    (
        "providers:\n- {name: x, base_url: 'https://'}\n",
        "models.yaml:2:23: `providers[0].base_url` names no host",
    ),
    (
        "providers:\n- {name: x, base_url: 'https://me:hunter2@host'}\n",
        "models.yaml:2:23: `providers[0].base_url` must not hold a user or a password: \
             name a variable in `key_variable`",
    ),
    (
        "providers:\n- {name: x, concurrency: 0}\n",
        "models.yaml:2:26: `providers[0].concurrency` must be from 1 to 10000",
    ),
    (
        "providers:\n- {name: x, timeouts: {whole: 0}}\n",
        "models.yaml:2:31: `providers[0].timeouts.whole` must be from 1 to 86400 seconds",
    ),
    (
        "models:\n- model: gpt-5\n",
        "models.yaml:2:10: `models[0].model`: a model is written PROVIDER/MODEL, \
             such as `openai/gpt-5-mini`",
    ),
    (
        "models:\n- {model: a/b, price: {input: 1}}\n",
        "models.yaml:2:23: the key `output` of `models[0].price` is missing",
    ),
    (
        "models:\n- {model: a/b, price: {input: -1, output: 2}}\n",
        "models.yaml:2:31: `models[0].price.input` must not be negative",
    ),
    (
        "models:\n- {model: a/b, price: 0}\n",
        "models.yaml:2:23: `models[0].price` must be a mapping with keys and values, \
             not the number \"0\"",
    ),
    (
        "models:\n- {model: a/b, context_tokens: 0}\n",
        "models.yaml:2:32: `models[0].context_tokens` must be at least 1",
    ),
    (
        "prices: {}\n",
        "models.yaml:1:1: the key `prices` is not supported \
             (write `models`, each with its `price`)",
    ),
];

#[test]
fn bad_files_are_reported_with_positions() {
    for (text, said) in BAD {
        assert_eq!(read(text).unwrap_err(), *said, "{text:?}");
    }
}
