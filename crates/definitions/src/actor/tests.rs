use super::*;

const GOOD: &str = "\
version: 1
name: greeter
type: tool
description: Greets
steps:
  - tool: builtin/file-write
    id: write
    input: {path: hello.txt, content: 'Hello, {{ args.name }}!'}
  - tool: builtin/shell
    when: steps.write.created
    resource: local/shop
    input:
      command: cat {{ steps.write.path }}
      timeout: 5
";

fn read(text: &str) -> Result<Actor, String> {
    let source = DefinitionSource::new("a.yaml", text);
    let variables = |name: &str| (name == "SHOP").then(|| "local/shop".to_owned());
    read_actor(&source, &variables).map_err(|errors| errors.to_string())
}

fn with_steps(steps: &str) -> Result<Actor, String> {
    read(&format!(
        "name: a\ntype: tool\ndescription: x\nsteps:\n{steps}"
    ))
}

#[test]
fn an_actor_is_read() {
    let actor = read(GOOD).unwrap();
    assert_eq!(actor.name.to_string(), "local/greeter");
    let [write, shell] = actor.steps() else {
        panic!("{actor:?}");
    };
    assert_eq!(write.id.as_deref(), Some("write"));
    assert_eq!(
        shell.input,
        json!({"command": "cat {{ steps.write.path }}", "timeout": 5})
    );
    assert_eq!(shell.when.as_deref(), Some("steps.write.created"));
    let variable = GOOD.replace("resource: local/shop", "resource: ${SHOP}");
    assert_eq!(read(&variable), Ok(actor));
}

#[test]
fn the_example_of_the_schema_is_read() {
    let yaml = serde_saphyr::to_string(&example()).unwrap();
    assert_eq!(read(&yaml).unwrap().steps().len(), 3);
}

#[test]
fn unsupported_types_are_reported_by_name() {
    let types = "(write `type: llm`, which lets a model decide, or `type: tool`, \
                 which calls tools in a fixed order)";
    assert_eq!(
        read("name: a\ntype: graph\nroute: x\nprompt: x\n").unwrap_err(),
        format!("a.yaml:2:7: actors of the type `graph` are not supported yet {types}")
    );
    assert_eq!(
        read("type: tol\n").unwrap_err(),
        "a.yaml:1:7: `type`: invalid type of actor `tol`: use llm, tool, graph \
         (did you mean `tool`?)"
    );
    let missing = read("name: a\nmodel: x\nsteps: [{tool: b}]\n").unwrap_err();
    assert_eq!(
        missing,
        format!("a.yaml:1:1: the key `type` is missing {types}")
    );
    let number = read("type: 3\nname: a\ndescription: x\nsteps: [{tool: b}]\n").unwrap_err();
    assert!(number.contains("`type` must be a text"), "{number}");
    let list = read("[1]\n").unwrap_err();
    assert!(list.contains("must be a mapping"), "{list}");
}

#[test]
fn a_step_cannot_use_control_tools() {
    assert_eq!(
        with_steps("- {tool: a/b}\n- {id: x, tool: builtin/finish, input: {summary: x}}\n")
            .unwrap_err(),
        "a.yaml:6:17: `steps[1]`: `builtin/finish` is for actors with a model; an actor of type \
         `tool` cannot use it"
    );
}

#[test]
fn wrong_keys_and_versions_are_reported() {
    let said = read(&GOOD.replace("version: 1", "version: 2")).unwrap_err();
    assert!(
        said.contains("version 2 of an actor is newer than this program"),
        "{said}"
    );
    let said = read(&GOOD.replace("description: Greets", "descripton: Greets\nmodel: gpt"));
    assert_eq!(
        said.unwrap_err(),
        "a.yaml:1:1: the key `description` is missing\n\
         a.yaml:4:1: there is no key `descripton` (did you mean `description`?)\n\
         a.yaml:5:1: the key `model` is not supported \
         (it is a key of actors of the type `llm`)"
    );
    let said = with_steps("- {tool: a/b, inputs: {}}\n").unwrap_err();
    assert_eq!(
        said,
        "a.yaml:5:15: there is no key `inputs` in `steps[0]` (did you mean `input`?)"
    );
}

#[test]
fn every_step_problem_is_reported_with_its_position() {
    let steps = "\
- {tool: a b, id: one}
- tool: a/b
  id: one
  when: steps.two.done
  input:
    path: |
      fine
      {{ steps.three.path }}
    deep: [{x: '{{ args. }}'}]
- {tool: a/b, id: two-b, resource: //}
- {tool: a/b, input: [1]}
";
    assert_eq!(
        with_steps(steps).unwrap_err(),
        "a.yaml:15:22: `steps[3].input` must be a mapping with keys and values, not a list"
    );
    let steps = steps.replace("input: [1]", "input: {}");
    assert_eq!(
        with_steps(&steps).unwrap_err(),
        "a.yaml:5:10: `steps[0].tool`: ` ` is not allowed in the last part of a name: \
         use letters, digits, `-`, `_` and `.`, beginning with a letter or digit\n\
         a.yaml:14:36: `steps[2].resource`: the namespace of a name must not be empty; \
         names are written [[server:]namespace/]name"
    );
    let steps = steps.replace("a b", "a/b").replace("//", "shop");
    assert_eq!(
        with_steps(&steps).unwrap_err(),
        "a.yaml:7:7: `steps[1]`: the id `one` is that of `steps[0]` already\n\
         a.yaml:8:9: `steps[1].when`, line 1: there is no `steps.two`; known are steps.one\n\
         a.yaml:11:7: `steps[1].input.path`, line 2: there is no `steps.three`; \
         known are steps.one\n\
         a.yaml:13:16: `steps[1].input.deep[0].x`, line 1: this cannot be filled in: \
         syntax error: unexpected end of variable block, expected identifier or integer\n\
         a.yaml:14:19: `steps[2]`: invalid step id `two-b`: use letters, digits and `_`, \
         beginning with a letter or `_`, at most 100 characters"
    );
}

#[test]
fn a_step_sees_only_earlier_steps() {
    let said = with_steps("- {tool: a/b, id: me, when: steps.me}\n").unwrap_err();
    assert!(
        said.contains("there is no `steps.me`; nothing is known there"),
        "{said}"
    );
}

#[test]
fn steps_are_required_and_bounded() {
    let none = read("name: a\ntype: tool\ndescription: x\nsteps: []\n").unwrap_err();
    assert_eq!(
        none,
        "a.yaml:4:8: an actor of the type `tool` needs at least one step"
    );
    let many = "- {tool: a/b}\n".repeat(STEPS_MAXIMUM + 1);
    let said = with_steps(&many).unwrap_err();
    assert!(said.contains("`steps` has 1001 entries"), "{said}");
}

#[test]
fn built_in_names_are_reserved() {
    let said = read(&GOOD.replace("name: greeter", "name: builtin/direct")).unwrap_err();
    assert_eq!(
        said,
        "a.yaml:2:7: names in `builtin/` are this program's own: \
         `builtin/direct` cannot be defined"
    );
}
