use serde_json::json;

use super::*;

fn declared() -> Vec<Argument> {
    serde_json::from_value(json!([
        {"name": "folder", "type": "path", "required": true},
        {"name": "max-files", "type": "integer", "default": 4},
        {"name": "note", "type": "string"},
        {"name": "deep", "type": "boolean"},
        {"name": "share", "type": "number"},
        {"name": "level", "type": "choice", "choices": ["low", "high"]},
    ]))
    .unwrap()
}

fn with(values: serde_json::Value) -> TemplateArguments {
    TemplateArguments::new(&declared(), &serde_json::from_value(values).unwrap())
}

fn rendered(text: &str) -> Result<String, TemplateError> {
    let values = json!({"folder": "src/<a>", "max-files": 4, "deep": true, "share": 0.5});
    render("definition_of_done", text, &with(values))
}

fn refusal(text: &str) -> String {
    rendered(text).unwrap_err().to_string()
}

#[test]
fn arguments_are_inserted_verbatim() {
    for (text, expected) in [
        ("plain\n", "plain\n"),
        ("{{ args.folder }}\n", "src/<a>\n"),
        ("{{ args.max_files }} {{ args['max_files'] + 1 }}", "4 5"),
        ("{{ args.share }} {{ args.deep }}", "0.5 true"),
        ("[{{ args.note }}]", "[]"),
        ("{{ args.note | default('none given') }}", "none given"),
        ("{{ args.folder | upper | lower | trim }}", "src/<a>"),
        (
            "{% if args.note %}a{% elif args.deep %}b{% else %}c{% endif %}",
            "b",
        ),
        (
            "{%- if args.max_files > 3 and 'src' in args.folder -%} x {%- endif %}",
            "x",
        ),
        ("{% raw %}{{.State}}{% endraw %}", "{{.State}}"),
        ("{{ \"{\" }}%s", "{%s"),
    ] {
        assert_eq!(rendered(text).unwrap(), expected, "{text}");
    }
}

#[test]
fn a_value_is_not_a_template() {
    let values = json!({"folder": "{{ args.note }}{% if x %}"});
    assert_eq!(
        render("x", "{{ args.folder }}", &with(values)).unwrap(),
        "{{ args.note }}{% if x %}"
    );
}

#[test]
fn an_unknown_name_is_reported_with_known_names() {
    assert_eq!(
        refusal("a\nb {{ args.fodler }}"),
        "`definition_of_done`, line 2: there is no `args.fodler`; did you mean `args.folder`? \
         Known are args.deep, args.folder, args.level, args.max_files, args.note, args.share"
    );
    let hidden = refusal("{% if args.note %}\n{{ zzz }}{% endif %}");
    assert!(
        hidden.contains("line 2: there is no `zzz`; known are args.deep"),
        "{hidden}"
    );
    let none = TemplateSamples::new(&[])
        .check("description", "{{ args.x }}")
        .unwrap_err();
    assert!(
        none.to_string().ends_with("this action has no arguments"),
        "{none}"
    );
    let hyphen = refusal("{{ args.max-files }}");
    assert!(hyphen.contains("`args.max_files`"), "{hyphen}");
    let dynamic = refusal("\n{{ args['x' ~ 'y'] }}");
    assert!(
        dynamic.contains("line 2") && dynamic.contains("undefined"),
        "{dynamic}"
    );
}

#[test]
fn costly_or_external_templates_are_refused() {
    for text in [
        "{% set a = 1 %}",
        "{%+set a = 1 %}",
        "{%-\n set a = 1 %}",
        "{% with a = 1 %}{% endwith %}",
        "{% for a in [1] %}{% endfor %}",
        "{% include 'x' %}",
        "{% import 'x' as y %}",
        "{% extends 'x' %}",
        "{% macro a() %}{% endmacro %}",
        "{{ \"{% raw %}\" }}{% set a = 1 %}",
        "{% ſet %}",
        "{%",
    ] {
        let said = refusal(text);
        assert!(said.contains("unknown statement `{% "), "{text}: {said}");
    }
    for text in [
        "{{ range(5) }}",
        "{{ debug() }}",
        "{{ env.HOME }}",
        "{{ lipsum }}",
    ] {
        assert!(refusal(text).contains("there is no `"), "{text}");
    }
    for text in [
        "{{ args.folder",
        "{{ 1 + }}",
        "{% if %}",
        "{{ 'a' | replace('a', 'b') }}",
    ] {
        assert!(refusal(text).contains("cannot be rendered"), "{text}");
    }
}

#[test]
fn a_template_has_bounds() {
    // A short text would create a value larger than memory before any output is written.
    for costly in ["{{ args.folder * 4000000000 }}", "{{ 9 ** 9 }}"] {
        assert_eq!(
            refusal(costly),
            "`definition_of_done`, line 1: `*` is not available in templates; compute it in a \
             tool"
        );
    }
    let joined = format!("{{{{ args.folder{} }}}}", " ~ args.folder".repeat(40));
    assert!(refusal(&joined).contains("may join 20 values"));
    assert_eq!(
        refusal(&"x".repeat(OUTPUT_MAXIMUM + 1)),
        "`definition_of_done` would be longer than 1048576 bytes"
    );
    let busy = "{{ 1 }}".repeat(20_000);
    assert_eq!(
        refusal(&busy),
        "`definition_of_done` takes too long to render"
    );
    let deep = format!("{{{{ {}1{} }}}}", "(".repeat(10_000), ")".repeat(10_000));
    assert!(refusal(&deep).contains("cannot be rendered"));
    assert!(refusal(&"{% if 1 %}".repeat(5_000)).contains("cannot be rendered"));
}

#[test]
fn a_check_finds_render_errors() {
    let samples = TemplateSamples::new(&declared());
    let check = |text: &str| samples.check("definition_of_done", text);
    for good in [
        "{{ args.folder }} {{ args.level }} {{ args.share }}",
        "{% if args.note %}{{ args.note ~ 'x' }}{% endif %}",
        "{{ args.max_files + 1 }}",
    ] {
        assert_eq!(check(good), Ok(()), "{good}");
    }
    for wrong in [
        "{{ args.nope }}",
        "{{ args.share + 1 }}",
        "{{ args.folder + 1 }}",
    ] {
        assert!(check(wrong).is_err(), "{wrong}");
    }
}
