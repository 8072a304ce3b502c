//! Actors with a model: refused definitions and output.

use serde_json::{Value, json};

use crate::bad_definitions::assert_refused;
use crate::cases::LLM;
use crate::environment::TestEnvironment;

fn count_custom_actors(environment: &TestEnvironment) -> u64 {
    let run = environment.run(&["actor", "list", "-f", "json"]);
    let json = run.succeeded().json();
    json["data"]["summary"]["custom"].as_u64().unwrap()
}

/// Definitions with an invalid model, each with the expected messages.
fn invalid_models() -> Vec<(String, Vec<&'static str>)> {
    let with = |from: &str, to: &str| LLM.replace(from, to);
    vec![
        (
            with("provider: openai\n", ""),
            vec!["bad.yaml:4:8: ", "has no provider", "provider/name"],
        ),
        (
            with("model: gpt\n", ""),
            vec!["bad.yaml:4:11: ", "`model` is missing"],
        ),
        (
            with("provider: openai", "provider: open/ai"),
            vec!["bad.yaml:4:11: ", "cannot be the name of a provider"],
        ),
        (
            with("model: gpt", "model: ' '"),
            vec!["bad.yaml:5:8: ", "`model` is empty"],
        ),
        (
            with("temperature: 0.2", "temperature: 2.1"),
            vec!["bad.yaml:9:14: ", "from 0 to 2"],
        ),
        (
            with("temperature: 0.2", "temperature: '0.2'"),
            vec!["must be a number", "take the quotes away"],
        ),
        (
            with("temperature: 0.2", "temperatur: 0.2"),
            vec!["bad.yaml:9:1: ", "did you mean `temperature`?"],
        ),
        (
            with("temperature: 0.2", "top_p: -1"),
            vec!["`top_p` must be from 0 to 1"],
        ),
        (
            with("max_tokens: 8000", "max_tokens: 0"),
            vec!["`max_tokens` must be from 1"],
        ),
        (
            with("max_tokens: 8000", "max_tokens: many"),
            vec!["`max_tokens` must be a whole number"],
        ),
    ]
}

/// Definitions with invalid tools or prompts, each with the expected messages.
fn invalid_tools_and_prompts() -> Vec<(String, Vec<&'static str>)> {
    let with = |from: &str, to: &str| LLM.replace(from, to);
    let speaks = "name: a\ntype: tool\ndescription: x\nsteps: [{tool: builtin/ask-user}]\n";
    vec![
        (
            speaks.to_owned(),
            vec![
                "bad.yaml:4:16: ",
                "`builtin/ask-user` is for actors with a model",
            ],
        ),
        (
            with("builtin/finish", "a b"),
            vec!["`tools[2]`: ` ` is not allowed"],
        ),
        (
            with("builtin/finish", "builtin/file-read"),
            vec!["is that of `tools[0]` already"],
        ),
        (
            with("[release-notes]", "release-notes"),
            vec!["`skills` must be a list"],
        ),
        (
            with("[release-notes]", "['']"),
            vec!["`skills[0]`: the name of a skill must not be empty"],
        ),
        (
            with("Make the smallest", &"x".repeat(300_000)),
            vec!["`system_prompt` may be 262144 bytes long"],
        ),
        (
            with("Make the smallest", "${NOBODY_SET_THIS}"),
            vec!["bad.yaml:7:3: ", "NOBODY_SET_THIS"],
        ),
        (
            with("local/coder", "builtin/coder"),
            vec!["this program's own"],
        ),
    ]
}

#[test]
fn an_invalid_llm_actor_is_refused_with_its_position() {
    let environment = TestEnvironment::new();
    for (text, parts) in invalid_models()
        .into_iter()
        .chain(invalid_tools_and_prompts())
    {
        environment.write("work/bad.yaml", &text);
        for command in ["validate", "add"] {
            let run = environment.run(&["actor", command, "--config", "bad.yaml"]);
            assert_refused(&run, 2, &parts);
        }
    }
    assert!(!environment.path(".cleveragents").exists());
    assert_eq!(count_custom_actors(&environment), 0);
}

#[test]
fn an_llm_actor_is_shown_as_it_was_written() {
    let environment = TestEnvironment::new();
    environment.write("work/llm.yaml", LLM);
    let add = ["actor", "add", "--config", "llm.yaml", "-f", "json"];
    let added = environment.run(&add).succeeded().json()["data"]["actor_added"].take();
    let show = ["actor", "show", "coder", "-f", "json"];
    let data = environment.run(&show).succeeded().json()["data"].take();
    for said in [&added, &data["actor_details"]] {
        assert_eq!(said["type"], "llm");
        assert_eq!(said["provider"], "openai");
        assert_eq!(said["model"], "gpt");
    }
    let options = json!({"temperature": 0.2, "max_tokens": 8000, "top_p": null});
    let tools = json!(["builtin/file-read", "builtin/file-edit", "builtin/finish"]);
    for said in [&added, &data] {
        assert_eq!(said["options"], options);
        assert_eq!(said["tools"], tools);
        assert_eq!(said["skills"], json!(["release-notes"]));
    }
    let prompt = data["system_prompt"].as_str().unwrap();
    assert!(prompt.starts_with("Make the smallest"), "{prompt}");
    let list = ["actor", "list", "--type", "llm", "-f", "json"];
    let listed = environment.run(&list).succeeded().json()["data"]["actors"].take();
    let models_shown: Vec<[&Value; 3]> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|actor| [&actor["name"], &actor["provider"], &actor["built_in"]])
        .collect();
    assert_eq!(
        json!(models_shown),
        json!([
            ["builtin/coder", null, true],
            ["local/coder", "openai", false]
        ])
    );
}

#[test]
fn a_script_path_is_relative_to_the_actor_file() {
    let environment = TestEnvironment::new();
    let text = LLM
        .replace("provider: openai", "provider: scripted")
        .replace("model: gpt", "model: ../turns.yaml");
    environment.write("work/actors/player.yaml", &text);
    let path = "actors/player.yaml";
    for command in ["validate", "add"] {
        let run = environment.run(&["actor", command, "--config", path]);
        assert_refused(
            &run,
            2,
            &["the script of the model cannot be read", "turns.yaml"],
        );
    }
    environment.write("work/turns.yaml/in-a-folder", "");
    let run = environment.run(&["actor", "add", "--config", path]);
    assert_refused(&run, 2, &["it is not a file"]);
    assert_eq!(count_custom_actors(&environment), 0);
    let good = text.replace("../turns.yaml", "../script.yaml");
    environment.write("work/actors/player.yaml", &good);
    environment.write("work/script.yaml", "turns: []\n");
    let validate = ["actor", "validate", "--config", path, "-f", "json"];
    let data = environment.run(&validate).succeeded().json()["data"].take();
    let model = data["model"].as_str().unwrap().to_owned();
    let wanted = environment.path("work/actors").join("../script.yaml");
    assert_eq!(model, wanted.to_str().unwrap());
    environment
        .run(&["actor", "add", "--config", path])
        .succeeded();
}
