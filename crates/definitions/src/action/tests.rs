use proptest::prelude::*;

use super::*;

const MINIMAL: &str = "\
name: coverage
description: Raise coverage
strategy_actor: planner
execution_actor: builtin/direct
definition_of_done: Coverage is 90 %
";

fn variables(name: &str) -> Option<String> {
    match name {
        "TARGET" => Some("90".to_owned()),
        "ONCE" => Some("false".to_owned()),
        "TEAM" => Some("team".to_owned()),
        "EVIL" => Some("x\nread_only: true\n\"'#".to_owned()),
        _ => None,
    }
}

fn read(text: &str) -> Result<ActionDraft, String> {
    read_action(&DefinitionSource::new("a.yaml", text), &variables)
        .map_err(|errors| errors.to_string())
}

/// A minimal action with more lines.
fn with(more: &str) -> Result<ActionDraft, String> {
    read(&format!("{MINIMAL}{more}"))
}

#[track_caller]
fn assert_refused(more: &str, said: &str) {
    let error = with(more).unwrap_err();
    assert!(error.contains(said), "{more}\nsaid {error}\nnot  {said}");
}

#[test]
fn a_minimal_action_has_the_defaults() {
    let draft = read(MINIMAL).unwrap();
    assert_eq!(draft.name.to_string(), "local/coverage");
    assert!(draft.reusable && !draft.read_only);
    assert_eq!(draft.state, ActionState::Available);
    assert_eq!(draft.budget, Budget::default());
    assert_eq!(with("version: 1\n").as_ref(), Ok(&draft));
    let id = "01JZZZZZZZ0000000000ABCDEF".parse().unwrap();
    let at = Timestamp::from_micros(5);
    let action = draft.clone().into_action(id, at);
    assert_eq!(action.validate(), Ok(()));
    assert_eq!((action.id, action.created_at, action.version), (id, at, 1));
    assert_eq!(ActionDraft::from(&action), draft);
    let stored = Action {
        version: 7,
        ..action
    };
    let later = draft.into_replacement(&stored, Timestamp::from_micros(9));
    assert_eq!((later.id, later.created_at, later.version), (id, at, 7));
    assert_eq!(later.updated_at, Timestamp::from_micros(9));
}

#[test]
fn a_repository_defines_no_built_in_and_gets_no_variable() {
    let of_repository = |text: &str| {
        let source = DefinitionSource::new("a.yaml", text).from_repository();
        read_action(&source, &variables).map_err(|errors| errors.to_string())
    };
    assert_eq!(of_repository(MINIMAL), read(MINIMAL));
    let built_in = MINIMAL.replace("name: coverage", "name: builtin/do");
    assert!(read(&built_in).is_ok());
    assert_eq!(
        of_repository(&built_in).unwrap_err(),
        "a.yaml:1:7: `name`: a repository cannot define `builtin/do` \
         (names in `builtin/` belong to this program)"
    );
    assert_eq!(
        of_repository(&format!("{MINIMAL}long_description: by ${{TEAM}}\n")).unwrap_err(),
        "a.yaml:6:22: `${TEAM}` is not filled in: this file belongs to a repository \
         (write the value itself, or make it an argument; write `$${` for a literal `${`)"
    );
    let literal = of_repository(&format!("{MINIMAL}long_description: by $${{TEAM}}\n")).unwrap();
    assert_eq!(literal.long_description.as_deref(), Some("by ${TEAM}"));
}

#[test]
fn the_example_of_the_schema_is_an_action() {
    let draft = read(&serde_saphyr::to_string(&example()).unwrap()).unwrap();
    assert_eq!(draft.arguments.len(), 2);
    let yaml = serde_saphyr::to_string(&ActionFile::from(&draft)).unwrap();
    assert_eq!(read(&yaml), Ok(draft));
}

#[test]
fn variables_are_typed_and_change_nothing_else() {
    let draft = with(
        "reusable: ${ONCE}\n\
         skills: [\"${TEAM}/lint\"]\n\
         budget:\n  tokens: ${TARGET}0\n  usd: ${LIMIT:2.5}\n  wall: ${WALL:}\n\
         long_description: ${EVIL}\n\
         arguments:\n\
         - {name: i, type: integer, default: '${TARGET}'}\n\
         - {name: s, type: string, default: '${TARGET}', description: '${TARGET}'}\n",
    )
    .unwrap();
    assert!(!draft.reusable && !draft.read_only);
    assert_eq!(draft.skills[0].to_string(), "team/lint");
    assert_eq!(
        draft.budget,
        Budget {
            usd: Some(2.5),
            tokens: Some(900),
            wall: None
        }
    );
    assert_eq!(
        draft.long_description.as_deref(),
        Some("x\nread_only: true\n\"'#")
    );
    assert_eq!(draft.arguments[0].default, Some(json!(90)));
    assert_eq!(draft.arguments[1].default, Some(json!("90")));
    assert_refused(
        "skills: [\"${NO_TEAM}/lint\"]\n",
        "a.yaml:6:11: the variable `NO_TEAM` is not set",
    );
}

#[test]
fn every_problem_is_reported_with_its_position() {
    let yaml = "\
name: a b
description: ''
strategy_actor: ../x
execution_actor: builtin/direct
definition_of_done: All of {{ args.tarhet }}
state: gone
arguments:
  - {name: target, type: int}
  - {name: target, type: integer}
descripton: x
";
    assert_eq!(
        read(yaml).unwrap_err(),
        "a.yaml:1:7: `name`: ` ` is not allowed in the last part of a name: \
         use letters, digits, `-`, `_` and `.`, beginning with a letter or digit\n\
         a.yaml:3:17: `strategy_actor`: `.` is not allowed in the namespace of a name: \
         use letters, digits, `-`, `_` and `.`, beginning with a letter or digit\n\
         a.yaml:6:8: `state`: invalid action state `gone`: use available, archived\n\
         a.yaml:8:26: `arguments[0].type`: invalid argument type `int`: \
         use string, integer, number, boolean, path, choice\n\
         a.yaml:10:1: there is no key `descripton` (did you mean `description`?)"
    );
}

#[test]
fn each_domain_error_has_its_position() {
    let said = with(
        "invariants: [fine, ' ']\n\
         checks:\n\
         - {run: cargo test}\n\
         - {run: '', name: x}\n\
         budget: {usd: -1}\n\
         arguments:\n\
         - {name: 9, type: string}\n",
    )
    .unwrap_err();
    // The name is not a string, so the other keys are not checked yet.
    assert!(
        said.contains("a.yaml:12:10: `arguments[0].name` must be a text"),
        "{said}"
    );
    let said = with(
        "invariants: [fine, ' ']\n\
         checks:\n\
         - {run: cargo test}\n\
         - {run: '', name: x}\n\
         budget: {usd: -1}\n\
         arguments:\n\
         - {name: '9', type: string}\n\
         - {name: a, type: integer, default: x}\n\
         - {name: b, type: choice}\n\
         - {name: c, type: string, choices: [x]}\n\
         - {name: d, type: string, pattern: '('}\n\
         - {name: e, type: string, pattern: '[a-z]+', default: '1'}\n\
         - {name: f, type: boolean, pattern: x}\n",
    )
    .unwrap_err();
    let places: Vec<&str> = said
        .lines()
        .filter_map(|line| line.split(": ").next())
        .collect();
    assert_eq!(
        places,
        [
            "a.yaml:6:20",
            "a.yaml:9:9",
            "a.yaml:10:15",
            "a.yaml:12:10",
            "a.yaml:13:37",
            "a.yaml:14:19",
            "a.yaml:15:36",
            "a.yaml:16:36",
            "a.yaml:17:36",
            "a.yaml:18:37",
        ],
        "{said}"
    );
    assert_refused(
        "arguments:\n- {name: a-b, type: string}\n- {name: a_b, type: string}\n",
        "a.yaml:8:10: the arguments `a-b` and `a_b` are the same",
    );
}

#[test]
fn texts_are_checked_as_templates() {
    assert_refused(
        "invariants: ['Keep {{ args.x }}']\n",
        "a.yaml:6:14: `invariants[0]`, line 1: there is no `args.x`; this action has no arguments",
    );
    assert_refused(
        "arguments: [{name: max-files, type: integer, required: true}]\n\
         checks: [{run: 'true'}, {run: 'head -n {{ args.max_fils }}'}]\n",
        "`checks[1].run`, line 1: there is no `args.max_fils`; did you mean `args.max_files`?",
    );
    let good = with(
        "arguments: [{name: max-files, type: integer, required: true}]\n\
         checks: [{run: 'head -n {{ args.max_files }}'}]\n",
    );
    assert!(good.is_ok(), "{good:?}");
}

#[test]
fn keys_that_are_not_supported_are_refused_by_name() {
    assert_refused(
        "inputs_schema: {}\n",
        "a.yaml:6:1: the key `inputs_schema` is not supported (declare `arguments` instead)",
    );
    assert_refused(
        "safety_profile: x\n",
        "the key `safety_profile` is not supported (name an",
    );
    assert_refused(
        "checks: [{cmd: x}]\n",
        "the key `run` of `checks[0]` is missing",
    );
    assert_refused(
        "budget: {usd: 1, dollars: 2}\n",
        "there is no key `dollars` in `budget`",
    );
}

#[test]
fn versions_are_refused_by_name() {
    assert_refused(
        "version: 2\n",
        "a.yaml:6:10: version 2 of an action is newer",
    );
    assert_refused(
        "version: 0\n",
        "there is no version 0 of an action (write `version: 1`)",
    );
    assert_refused("version: '1'\n", "`version` must be a whole number");
    // Unknown keys of a newer file are not reported.
    let said = with("version: 3\nfuture: x\n").unwrap_err();
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn bad_input_is_refused() {
    let many = format!("invariants:\n{}", "- keep\n".repeat(10_000));
    assert_refused(
        &many,
        "`invariants` has 10000 entries; a list may have 1000",
    );
    for name in [
        "..",
        "a/../b",
        "\"a\\0\"",
        "\"a\\e[31m\"",
        "'a\tb'",
        "''",
        "123",
    ] {
        let text = MINIMAL.replace("name: coverage", &format!("name: {name}"));
        let said = read(&text).unwrap_err();
        assert!(said.starts_with("a.yaml:1:7: "), "{name}: {said}");
        assert!(!said.contains(['\0', '\u{1b}']), "{name}: {said:?}");
    }
    let arguments = format!("arguments:\n{}", "- {name: a, type: string}\n".repeat(101));
    assert_refused(
        &arguments,
        "an action may have 100 arguments, this one has 101",
    );
    let long = format!("long_description: {}\n", "x".repeat(70_000));
    assert_refused(&long, "`long_description` may be 65536 bytes long");
    assert!(read("- a\n").unwrap_err().contains("must be a mapping"));
    assert!(read("").unwrap_err().contains("the file is empty"));
}

/// Texts with characters that matter to YAML, variables and terminals; no templates.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[a-z0-9 ]{1,8}",
        1 => prop::sample::select(vec![
            ": ", " #", "\"", "'", "\n", "\n\n  ", "- ", "\t", "${", "$${X}", "${X:y}", "$", "}", "|", ">",
            "&a", "*a", "!!int", "---\n", "...", "~", "null", "true", "1.10", "0x1F", "é", "\u{1F980}", "\\", "%",
            "@", "`", "\r", "\u{feff}", "\u{2028}", "\u{a0}", "[", "]", ",", "?", "=", "<<", " ",
        ]).prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 1..8)
        .prop_map(|pieces| pieces.concat())
        .prop_filter("an empty text is refused", |text| !text.trim().is_empty())
        .prop_filter("templates are another matter", |text| {
            !["{{", "{%", "{#"].iter().any(|mark| text.contains(mark))
        })
}

fn name() -> impl Strategy<Value = NamespacedName> {
    "([a-z]{1,4}:)?[a-z0-9]{1,5}/[a-z0-9][a-zA-Z0-9._-]{0,8}".prop_map(|text| text.parse().unwrap())
}

fn argument() -> impl Strategy<Value = Argument> {
    let default = prop_oneof![
        Just(json!({"type": "string"})),
        (text(), any::<bool>()).prop_map(|(text, required)| json!({
            "type": "string", "default": text, "required": required, "pattern": "(?s).*"
        })),
        any::<i64>().prop_map(|value| json!({"type": "integer", "default": value})),
        any::<f64>()
            .prop_filter("JSON has no others", |value| value.is_finite())
            .prop_map(|value| json!({"type": "number", "default": value})),
        any::<bool>().prop_map(|value| json!({"type": "boolean", "default": value})),
        (text(), text())
            .prop_filter("choices differ", |(one, other)| one != other)
            .prop_map(|(one, other)| json!({
                "type": "choice", "choices": [one, other], "default": other
            })),
    ];
    (default, prop::option::of(text())).prop_map(|(mut value, description)| {
        value["name"] = json!("x");
        if let Some(description) = description {
            value["description"] = json!(description);
        }
        serde_json::from_value(value).unwrap()
    })
}

fn check() -> impl Strategy<Value = Check> {
    let timeout = prop::option::of(0..1_u64 << 53);
    (text(), prop::option::of(text()), timeout).prop_map(|(run, name, timeout)| Check {
        run,
        name,
        timeout,
    })
}

fn budget() -> impl Strategy<Value = Budget> {
    let whole = || prop::option::of(0..1_u64 << 53);
    (prop::option::of(0.0..1e300), whole(), whole()).prop_map(|(usd, tokens, wall)| Budget {
        usd,
        tokens,
        wall,
    })
}

prop_compose! {
    fn actors()(
        required in (name(), name()),
        optional in prop::array::uniform4(prop::option::of(name())),
    ) -> Actors {
        let [estimation_actor, review_actor, apply_actor, invariant_actor] = optional;
        Actors {
            strategy_actor: required.0,
            execution_actor: required.1,
            estimation_actor,
            review_actor,
            apply_actor,
            invariant_actor,
        }
    }
}

prop_compose! {
    fn draft()(
        own_name in name(),
        texts in (text(), prop::option::of(text()), text()),
        actors in actors(),
        flags in (any::<bool>(), any::<bool>(), prop::sample::select(ActionState::ALL)),
        mut arguments in prop::collection::vec(argument(), 0..3),
        profile in prop::option::of(prop::sample::select(vec!["ci", "team/own"])),
        lists in (prop::collection::vec(text(), 0..3), prop::collection::vec(check(), 0..3)),
        budget in budget(),
        skills in prop::collection::vec(name(), 0..3),
    ) -> ActionDraft {
        for (index, argument) in arguments.iter_mut().enumerate() {
            argument.name = format!("a-{index}");
        }
        ActionDraft {
            name: own_name,
            description: texts.0,
            long_description: texts.1,
            actors,
            definition_of_done: texts.2,
            reusable: flags.0,
            read_only: flags.1,
            state: flags.2,
            arguments,
            automation_profile: profile.map(|text| text.parse().unwrap()),
            invariants: lists.0,
            checks: lists.1,
            budget,
            skills,
        }
    }
}

proptest! {
    #[test]
    fn a_draft_reads_back_from_its_own_file(draft in draft()) {
        let yaml = serde_saphyr::to_string(&ActionFile::from(&draft)).unwrap();
        prop_assert_eq!(read(&yaml), Ok(draft), "{}", yaml);
    }

    #[test]
    fn no_text_causes_a_panic(text in "(?s).{0,200}") {
        let _ = read(&text);
        let _ = with(&text);
    }
}
