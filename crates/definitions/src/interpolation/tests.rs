use std::collections::BTreeSet;

use serde_json::json;

use super::*;

fn scope() -> TemplateScope {
    let arguments = BTreeMap::from([
        ("name".to_owned(), json!("World")),
        ("max-files".to_owned(), json!(4)),
        ("deep".to_owned(), json!(true)),
    ]);
    let mut steps = StepOutputs::default();
    steps.record(
        "read",
        &json!({"content": "a\nb\n", "size": 4, "ratio": 0.5, "tags": ["x", "y"]}),
    );
    steps.skip("search");
    TemplateScope::default()
        .with_arguments(&arguments)
        .with_steps(&steps)
}

fn fill_template(template: &str) -> Result<Json, FillError> {
    fill("input.x", &json!(template), &scope())
}

fn refusal(template: &str) -> String {
    fill_template(template).unwrap_err().to_string()
}

#[test]
fn a_single_expression_keeps_its_type() {
    for (template, expected) in [
        ("{{ args.name }}", json!("World")),
        ("{{ args.max_files }}", json!(4)),
        ("{{args.max_files}}", json!(4)),
        ("{{- args.max_files -}}", json!(4)),
        ("{{ args.max_files + 1 }}", json!(5)),
        ("{{ args.deep }}", json!(true)),
        ("{{ steps.read.ratio }}", json!(0.5)),
        ("{{ steps.read.tags }}", json!(["x", "y"])),
        (
            "{{ steps.read }}",
            json!({"content": "a\nb\n", "size": 4, "ratio": 0.5, "tags": ["x", "y"]}),
        ),
        ("{{ none }}", json!(null)),
        (
            "{{ {'a': [1, {'b': none}]} }}",
            json!({"a": [1, {"b": null}]}),
        ),
        ("{{ \"}} {{\" }}", json!("}} {{")),
        ("{{ steps.read.content | lines | length }}", json!(2)),
        ("{{ args.nope | default(3) }}", json!(3)),
        ("{{ args.nope is defined }}", json!(false)),
        ("{{ steps.search is skipped }}", json!(true)),
        ("{{ steps.read is skipped }}", json!(false)),
        (
            "{{ 18446744073709551615 }}",
            json!(18_446_744_073_709_551_615u64),
        ),
    ] {
        assert_eq!(fill_template(template).unwrap(), expected, "{template}");
    }
}

#[test]
fn anything_else_is_text() {
    for (template, expected) in [
        ("", ""),
        ("plain * text", "plain * text"),
        (" {{ args.max_files }}", " 4"),
        ("{{ args.max_files }}\n", "4\n"),
        ("{{ args.name }}{{ args.deep }}", "Worldtrue"),
        ("{{ args.name }} and {{ args.max_files }}", "World and 4"),
        ("<{{ none }}>", "<>"),
        ("tags: {{ steps.read.tags }}", "tags: [\"x\",\"y\"]"),
        ("{{ steps.read.tags | join(', ') }}.", "x, y."),
        ("{% if args.deep %}deep{% else %}flat{% endif %}", "deep"),
        ("{% raw %}{{ a * b }}{% endraw %}", "{{ a * b }}"),
        ("{ \"a\": {} }", "{ \"a\": {} }"),
        (
            "{{ args.name | upper }} {{ {'a': 1} | json }}",
            "WORLD {\"a\":1}",
        ),
    ] {
        assert_eq!(
            fill_template(template).unwrap(),
            json!(expected),
            "{template}"
        );
    }
}

#[test]
fn every_nested_string_is_filled_but_no_key() {
    let value =
        json!({"{{ args.name }}": ["{{ args.max_files }}", {"b": "<{{ args.name }}>"}], "n": 1});
    assert_eq!(
        fill("input", &value, &scope()).unwrap(),
        json!({"{{ args.name }}": [4, {"b": "<World>"}], "n": 1})
    );
    let wrong = json!({"a": [{"b": "{{ args.nope }}"}]});
    let said = fill("input", &wrong, &scope()).unwrap_err().to_string();
    assert!(
        said.starts_with("`input.a[0].b`, line 1: there is no `args.nope`"),
        "{said}"
    );
}

#[test]
fn a_value_is_not_a_template() {
    let arguments = BTreeMap::from([("x".to_owned(), json!("{{ args.y }} {% if %}"))]);
    let scope = TemplateScope::default().with_arguments(&arguments);
    for template in ["{{ args.x }}", "<{{ args.x }}>"] {
        let filled = fill("x", &json!(template), &scope).unwrap();
        assert!(filled.as_str().unwrap().contains("{{ args.y }} {% if %}"));
    }
}

#[test]
fn a_text_name_does_not_enable_escaping() {
    let filled = fill("input.index.html", &json!("a {{ '<b>' }}"), &scope());
    assert_eq!(filled.unwrap(), json!("a <b>"));
}

#[test]
fn an_unknown_name_is_reported_with_known_names() {
    assert_eq!(
        refusal("a\n{{ args.nmae }}"),
        "`input.x`, line 2: there is no `args.nmae`; did you mean `args.name`? \
         Known are args.deep, args.max_files, args.name"
    );
    assert_eq!(
        refusal("{{ steps.search.content }}"),
        "`input.x`, line 1: there is no `steps.search.content`; known are steps.search.skipped"
    );
    assert!(refusal("{{ steps.raed.content }}").contains("did you mean `steps.read`?"));
    assert!(refusal("{{ output }}").contains("known are args, steps"));
    assert!(refusal("x {{ steps['no' ~ 'pe'] }}").contains("does not exist"));
    assert!(refusal("{{ args.name.first }}").contains("there is no `args.name.first`"));
    assert!(refusal("{% if args.nope %}x{% endif %}").contains("there is no `args.nope`"));
}

#[test]
fn costly_or_external_templates_are_refused() {
    for template in [
        "x {% set a = 1 %}",
        "{% for a in [1] %}{% endfor %}",
        "{%- include 'x' %}",
        "{% macro a() %}{% endmacro %}",
    ] {
        let said = refusal(template);
        assert!(said.contains("unknown statement `{% "), "{said}");
    }
    for template in [
        "{{ 'x' * 100000000 }}",
        "{{ [['x'] * 1000] * 1000 }}",
        "a {{ 2 ** 3 }}",
        "{% if 2 * 2 %}{% endif %}",
        "{% raw %}{{ ' {% endraw %}{{ [1] * 9 }}{{ ' }}",
        "{{ {'a': {'b': 1}} }} {{ 3 * 3 }}",
        "{# {{ ' #}{{ 3 * 3 }}{# ' }} #}",
    ] {
        let said = refusal(template);
        assert!(said.contains("`*` is not available"), "{template}: {said}");
    }
    for template in ["{{ range(5) }}", "{{ env.HOME }}", "{{ debug() }}"] {
        let said = refusal(template);
        assert!(
            said.contains("there is no `") || said.contains("unknown"),
            "{said}"
        );
    }
    for template in [
        "{{ args.name",
        "{{ 1 + }}",
        "{{ 'a' | replace('a', 'b') }} ",
    ] {
        assert!(
            refusal(template).contains("cannot be filled in"),
            "{template}"
        );
    }
}

#[test]
fn filled_values_are_bounded() {
    let large = "x".repeat(FILLED_MAXIMUM / 2);
    let mut steps = StepOutputs::default();
    steps.record("read", &json!({"content": large}));
    steps.record("huge", &json!({"content": "x".repeat(3 << 20), "size": 5}));
    let scope = TemplateScope::default().with_steps(&steps);
    let fill = |value: Json| fill("input", &value, &scope);
    assert!(fill(json!({"a": "{{ steps.read.content }}"})).is_ok());
    for value in [
        json!({"a": "{{ steps.read.content }}", "b": "{{ steps.read.content }}", "c": "x"}),
        json!({"a": "<{{ steps.read.content }}>{{ steps.read.content }}"}),
        json!({"a": "{{ steps.huge.content }}"}),
        json!({"a": "{{ [steps.read, steps.read] }}"}),
        json!({"a": "{{ [steps.read.content, steps.read.content] | join('--') }}"}),
    ] {
        let said = fill(value).unwrap_err().to_string();
        assert!(
            said.contains("larger than 1048576 bytes") || said.contains("too large"),
            "{said}"
        );
    }
    // An output that is too large to copy can still be queried.
    assert_eq!(fill(json!("{{ steps.huge.size }}")).unwrap(), json!(5));
    assert_eq!(
        fill(json!("{{ steps.huge.content | length }}")).unwrap(),
        json!(3 << 20)
    );
    let one = format!(
        "{{{{ (steps.huge.content{}) | length }}}}",
        " ~ steps.huge.content".repeat(19)
    );
    assert_eq!(fill(json!(one)).unwrap(), json!(20 * (3 << 20)));
    let said = fill(json!(one.repeat(40))).unwrap_err().to_string();
    assert!(said.contains("takes too long"), "{said}");
    let many = format!("{{{{ 1{} }}}}", " + 1".repeat(20));
    let said = fill(json!(many)).unwrap_err().to_string();
    assert!(said.contains("may join 20 values"), "{said}");
    let escapes = "\u{1}".repeat(FILLED_MAXIMUM / 2);
    let scope = TemplateScope::default().with("output", &json!(escapes));
    assert!(super::fill("x", &json!("{{ output }}"), &scope).is_err());
}

#[test]
fn a_decision_must_be_a_boolean() {
    let decide = |expression: &str| evaluate_bool("when", expression, &scope());
    assert_eq!(decide("args.max_files > 3"), Ok(true));
    assert_eq!(decide("args.nope is defined and args.nope"), Ok(false));
    assert_eq!(decide("not steps.search is skipped"), Ok(false));
    for (expression, said) in [
        (
            "args.max_files",
            "`when` must give true or false, not the value 4",
        ),
        ("args.name", "not the value \"World\""),
        ("none", "not nothing"),
        ("[true]", "not a list"),
        ("args.nope", "there is no `args.nope`"),
        ("{{ args.deep }}", "cannot be filled in"),
        ("args.name +", "cannot be filled in"),
    ] {
        let error = decide(expression).unwrap_err().to_string();
        assert!(error.contains(said), "{expression}: {error}");
    }
}

#[test]
fn names_are_checked_before_there_are_values() {
    let names = TemplateNames {
        roots: &["args", "steps"],
        steps: BTreeSet::from(["read"]),
    };
    let value = json!({
        "good": ["{{ args.anything }}", "{{ steps.read.x }}", "{{ steps['any'] }}", 3],
        "later": "{{ steps.write.content }}",
        "root": "a\n{{ arg.x }}",
        "hidden": "{% if args.x %}{{ steps.wriet }}{% endif %}",
        "broken": "{{ args.",
    });
    let said: Vec<String> = check("input", &value, &names)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(said.len(), 4, "{said:#?}");
    assert!(said[0].starts_with("`input.broken`, line 1: this cannot be filled in"));
    assert_eq!(
        said[2],
        "`input.later`, line 1: there is no `steps.write`; known are steps.read"
    );
    assert_eq!(
        said[3],
        "`input.root`, line 2: there is no `arg`; did you mean `args`? Known are args, steps"
    );
    let braces = check_expression("when", "{{ args.x }}", &names).unwrap_err();
    assert!(braces.to_string().contains("without `{{` and `}}`"));
    assert_eq!(check_expression("when", "args.x == 1", &names), Ok(()));
}

#[test]
fn named_arguments_are_listed() {
    let value = json!({"a": "{{ args.one }}", "b": ["{{ args.two.x }} {{ args.one }}", 3]});
    let named = arguments_in("input", &value).unwrap();
    assert_eq!(named, BTreeSet::from(["one".to_owned(), "two".to_owned()]));
}
