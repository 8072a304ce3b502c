use super::super::super::yaml::DefinitionSource;
use super::super::read_actor;
use super::*;

const HEAD: &str = "name: coder\ntype: llm\ndescription: Writes code\n";

fn read_in(text: &str, folder: Option<&str>) -> Result<Actor, String> {
    let source = DefinitionSource::new("a.yaml", text);
    let source = match folder {
        Some(folder) => source.in_folder(Path::new(folder)),
        None => source,
    };
    let variables = |name: &str| match name {
        "MODEL" => Some("openai/gpt".to_owned()),
        "HEAT" => Some("0.5".to_owned()),
        _ => None,
    };
    read_actor(&source, &variables).map_err(|errors| errors.to_string())
}

fn llm(text: &str) -> Result<LlmActor, String> {
    let actor = read_in(&format!("{HEAD}{text}"), None)?;
    match actor.kind {
        ActorKind::Llm(llm) => Ok(llm),
        other => panic!("{other:?}"),
    }
}

fn model(text: &str) -> Option<String> {
    let model = llm(text).unwrap().model;
    model.map(|it| format!("{} {}", it.provider, it.model))
}

#[test]
fn an_actor_with_a_model_is_read() {
    assert_eq!(llm(""), Ok(LlmActor::default()));
    let full = llm("provider: openai\nmodel: gpt-4.1\nsystem_prompt: |\n  Be brief, {{ name }}.\n\
                    temperature: ${HEAT}\ntop_p: 1\nmax_tokens: 100\ntools: [builtin/finish, shell]\n\
                    skills: [release notes]\n")
    .unwrap();
    assert_eq!(
        full.system_prompt.as_deref(),
        Some("Be brief, {{ name }}.\n")
    );
    assert_eq!(
        full.options,
        ModelOptions {
            temperature: Some(0.5),
            top_p: Some(1.0),
            max_tokens: Some(100),
        }
    );
    let tools: Vec<String> = full
        .tools
        .unwrap()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(tools, ["builtin/finish", "local/shell"]);
    assert_eq!(full.skills, Some(vec!["release notes".to_owned()]));
    assert_eq!(llm("tools: []\n").unwrap().tools, Some(Vec::new()));
    let yaml = serde_saphyr::to_string(&example()).unwrap();
    assert_eq!(
        read_in(&yaml, None).unwrap().name.to_string(),
        "local/careful-coder"
    );
}

#[test]
fn a_model_is_named_in_either_form() {
    for (text, wanted) in [
        ("", None),
        ("model: openai/gpt\n", Some("openai gpt")),
        ("model: ${MODEL}\n", Some("openai gpt")),
        (
            "model: router/meta/llama:free\n",
            Some("router meta/llama:free"),
        ),
        (
            "provider: router\nmodel: meta/llama\n",
            Some("router meta/llama"),
        ),
        (
            "provider: ollama\nmodel: qwen2.5:7b\n",
            Some("ollama qwen2.5:7b"),
        ),
    ] {
        assert_eq!(model(text).as_deref(), wanted, "{text}");
    }
}

#[test]
fn a_script_path_is_relative_to_the_file() {
    for (text, folder, wanted) in [
        (
            "provider: scripted\nmodel: a.yaml\n",
            Some("/x/y"),
            "/x/y/a.yaml",
        ),
        (
            "model: scripted/./in/../a.yaml\n",
            Some("/x/y"),
            "/x/y/in/../a.yaml",
        ),
        (
            "provider: scripted\nmodel: /z/a.yaml\n",
            Some("/x/y"),
            "/z/a.yaml",
        ),
        ("provider: scripted\nmodel: a.yaml\n", None, "a.yaml"),
        ("provider: other\nmodel: a.yaml\n", Some("/x/y"), "a.yaml"),
    ] {
        let actor = read_in(&format!("{HEAD}{text}"), folder).unwrap();
        let ActorKind::Llm(llm) = actor.kind else {
            panic!("{text}");
        };
        assert_eq!(llm.model.unwrap().model, wanted, "{text}");
    }
    let said = read_in(
        &format!("{HEAD}provider: scripted\nmodel: ''\n"),
        Some("/x"),
    );
    assert_eq!(said.unwrap_err(), "a.yaml:5:8: `model` is empty");
}

/// The text after the header of an actor, and the expected message.
const WRONG: &[(&str, &str)] = &[
    (
        "model: gpt\n",
        "a.yaml:4:8: `model` has no provider \
             (write `provider` too, or `model: provider/name`)",
    ),
    (
        "provider: openai\n",
        "a.yaml:4:11: `provider` is given, but `model` is missing \
             (write `model` too, or neither of them)",
    ),
    (
        "model: /gpt\n",
        "a.yaml:4:8: `` cannot be the name of a provider: use letters, digits, `-`, `_` and `.`, \
             beginning with a letter or digit, at most 100 characters",
    ),
    (
        "provider: open ai\nmodel: gpt\n",
        "a.yaml:4:11: `open ai` cannot be the name of a provider: use letters, digits, `-`, `_` \
             and `.`, beginning with a letter or digit, at most 100 characters",
    ),
    ("model: openai/\n", "a.yaml:4:8: `model` is empty"),
    (
        "model: 7\n",
        "a.yaml:4:8: `model` must be a text, not the number \"7\" (put it in quotes)",
    ),
    (
        "model: openai/gpt\ntemperature: 3\n",
        "a.yaml:5:14: `temperature` must be from 0 to 2",
    ),
    (
        "temperature: hot\n",
        "a.yaml:4:14: `temperature` must be a number, not the text \"hot\"",
    ),
    ("top_p: 1.5\n", "a.yaml:4:8: `top_p` must be from 0 to 1"),
    (
        "max_tokens: 0\n",
        "a.yaml:4:13: `max_tokens` must be from 1",
    ),
    (
        "max_tokens: 1.5\n",
        "a.yaml:4:13: `max_tokens` must be a whole number from 0 to 9007199254740991, \
             not the number \"1.5\"",
    ),
    (
        "tools: builtin/shell\n",
        "a.yaml:4:8: `tools` must be a list, not the text \"builtin/shell\"",
    ),
    (
        "tools: [a/b, a b, a/b]\n",
        "a.yaml:4:14: `tools[1]`: ` ` is not allowed in the last part of a name: \
             use letters, digits, `-`, `_` and `.`, beginning with a letter or digit",
    ),
    (
        "tools: [a/b, a/b]\n",
        "a.yaml:4:14: `tools[1]`: `a/b` is that of `tools[0]` already",
    ),
    (
        "skills: [x, '']\n",
        "a.yaml:4:13: `skills[1]`: the name of a skill must not be empty",
    ),
    (
        "steps: [{tool: a/b}]\nfix: []\n",
        "a.yaml:4:1: the key `steps` is not supported \
             (it is a key of actors of the type `tool`; a model decides for itself)\n\
             a.yaml:5:1: the key `fix` is not supported \
             (it is a key of actors of the type `tool`; a model decides for itself)",
    ),
    (
        "sytem_prompt: x\n",
        "a.yaml:4:1: there is no key `sytem_prompt` (did you mean `system_prompt`?)",
    ),
    (
        "system_prompt: ${NOBODY}\n",
        "a.yaml:4:16: the variable `NOBODY` is not set and has no default",
    ),
];

#[test]
fn every_problem_is_reported_with_its_position() {
    for (text, said) in WRONG {
        let found = llm(text).unwrap_err();
        assert!(found.starts_with(said), "{text}{found}");
        assert_eq!(found.lines().count(), said.lines().count(), "{found}");
    }
}
