use cleveragents_domain::ValidationMode;

use super::*;

fn read(text: &str) -> Result<Validation, String> {
    read_validation(&DefinitionSource::new("v.yaml", text), &|_| None)
        .map_err(|errors| errors.to_string())
}

const HEAD: &str = "name: tests\ndescription: The tests pass\nmode: required\n";

fn with(rest: &str) -> Result<Validation, String> {
    read(&format!("{HEAD}{rest}"))
}

#[test]
fn a_command_and_a_tool_are_read() {
    let command = with("run: make test\n").unwrap();
    assert_eq!(command.name.to_string(), "local/tests");
    assert_eq!(command.mode, ValidationMode::Required);
    assert_eq!(command.timeout, 300);
    assert_eq!(
        command.source,
        ValidationSource::Run("make test".to_owned())
    );
    let tool = with(
        "wraps: builtin/file-search\ninput: {pattern: '{{ args.p }}'}\ntransform: output.count == 0\ntimeout: 86400\n",
    );
    let tool = tool.unwrap();
    assert_eq!(tool.timeout, 86_400);
    let ValidationSource::Wraps(wrapped) = tool.source else {
        panic!("{tool:?}");
    };
    assert_eq!(wrapped.input, json!({"pattern": "{{ args.p }}"}));
}

#[test]
fn the_examples_of_the_schema_are_read() {
    for example in [example_of_a_command(), example_of_a_tool()] {
        let yaml = serde_saphyr::to_string(&example).unwrap();
        read(&yaml).unwrap();
    }
}

#[test]
fn a_validation_is_a_command_or_a_tool() {
    assert_eq!(
        with("").unwrap_err(),
        "v.yaml:1:1: a validation needs `run`, a command, or `wraps`, the name of a tool"
    );
    assert_eq!(
        with("run: x\nwraps: a/b\n").unwrap_err(),
        "v.yaml:5:8: a validation has either `run` or `wraps`, not both"
    );
    assert_eq!(
        with("run: x\ninput: {}\ntransform: output\n").unwrap_err(),
        "v.yaml:5:8: `input` goes with `wraps`, not with `run`\n\
         v.yaml:6:12: `transform` goes with `wraps`, not with `run`"
    );
    let said = with("wraps: a/b\n").unwrap_err();
    assert!(
        said.starts_with("v.yaml:4:8: the key `transform` is missing"),
        "{said}"
    );
}

#[test]
fn wrong_values_are_reported_with_positions() {
    for (rest, expected) in [
        (
            "run: x\ntimeout: 86401\n",
            "v.yaml:5:10: `timeout` must be from 1 to 86400 seconds, not 86401",
        ),
        ("run: ' '\n", "v.yaml:4:6: `run` must not be empty"),
        (
            "run: x\ncode: y\n",
            "v.yaml:5:1: the key `code` is not supported \
             (write a command as `run`, or name a tool in `wraps`)",
        ),
        (
            "run: x\ntimeuot: 3\n",
            "v.yaml:5:1: there is no key `timeuot` (did you mean `timeout`?)",
        ),
        (
            "run: echo {{ steps.x }}\n",
            "v.yaml:4:6: `run`, line 1: there is no `steps`; known are args",
        ),
        (
            "wraps: a/b\ntransform: '{{ output }}'\n",
            "v.yaml:5:12: `transform` is an expression: write it without `{{` and `}}`",
        ),
        (
            "wraps: a/b\ntransform: ouptut.x\n",
            "v.yaml:5:12: `transform`, line 1: there is no `ouptut`; \
             did you mean `output`? Known are output, args",
        ),
        (
            "wraps: a/b\ninput: {a: ['{{ x }}']}\ntransform: output\n",
            "v.yaml:5:13: `input.a[0]`, line 1: there is no `x`; known are args",
        ),
    ] {
        assert_eq!(with(rest).unwrap_err(), expected);
    }
    let said = read("name: builtin/x\ndescription: y\nmode: requierd\nrun: z\n").unwrap_err();
    assert_eq!(
        said,
        "v.yaml:3:7: `mode`: invalid mode of a validation `requierd`: use required, informational"
    );
    let said = read("name: builtin/x\ndescription: y\nmode: required\nrun: z\n").unwrap_err();
    assert!(said.contains("are this program's own"), "{said}");
    let said = read("version: 9\n").unwrap_err();
    assert!(
        said.contains("version 9 of a validation is newer"),
        "{said}"
    );
}
