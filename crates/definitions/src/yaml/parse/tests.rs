use super::*;

fn variables(name: &str) -> Option<String> {
    match name {
        "NAME" => Some("x: 1\n- \"y\" # z".to_owned()),
        "ESCAPE" => Some("\u{1b}[31m".to_owned()),
        "MY_TOKEN" => Some("0123456789".to_owned()),
        "BIG" => Some("x".repeat(1 << 20)),
        _ => None,
    }
}

fn read(text: &str) -> YamlNode {
    parse(text, &variables, SubstitutionPolicy::Stored).unwrap()
}

fn refusal(text: &str) -> (usize, usize, String) {
    let problems = parse(text, &variables, SubstitutionPolicy::Stored).unwrap_err();
    let errors = problems.into_result::<()>("x", None).unwrap_err();
    let error = &errors.as_slice()[0];
    let what = match &error.hint {
        Some(hint) => format!("{} ({hint})", error.message),
        None => error.message.clone(),
    };
    (error.line, error.column, what)
}

/// The scalars of a tree, with their paths.
fn scalars(node: &YamlNode, path: &str, into: &mut Vec<(String, String)>) {
    match &node.kind {
        YamlKind::Scalar(scalar) => into.push((path.to_owned(), scalar.text.clone())),
        YamlKind::Sequence(items) => {
            for (index, item) in items.iter().enumerate() {
                scalars(item, &format!("{path}[{index}]"), into);
            }
        }
        YamlKind::Mapping(entries) => {
            for entry in entries {
                scalars(&entry.value, &format!("{path}.{}", entry.key), into);
            }
        }
    }
}

fn flatten(text: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    scalars(&read(text), "", &mut all);
    all
}

fn pair(path: &str, text: &str) -> (String, String) {
    (path.to_owned(), text.to_owned())
}

#[test]
fn a_tree_has_node_positions() {
    let node = read("# first\na:\n  - b: x\n    é: [1, ü]\n");
    let at = |path: &str| {
        let SourcePosition { line, column } = node.locate(path);
        (line, column)
    };
    assert_eq!(at("a[0].b"), (3, 8));
    assert_eq!(at("a[0].é[1]"), (4, 12));
    assert_eq!(at("a[0].missing.deeper"), (3, 5));
    assert_eq!(at("a[7]"), (3, 3));
}

#[test]
fn a_value_cannot_change_the_structure() {
    let said = "x: 1\n- \"y\" # z";
    assert_eq!(
        flatten("a: ${NAME}\nb: \"${NAME}\"\nc: '${NAME}'\nd: [\"${NAME}\", x]\n"),
        [
            pair(".a", said),
            pair(".b", said),
            pair(".c", said),
            pair(".d[0]", said),
            pair(".d[1]", "x"),
        ]
    );
    assert_eq!(
        flatten("a: |\n  1 ${NAME}\n  2\nb: >\n  3\n  ${NAME}\n"),
        [
            pair(".a", &format!("1 {said}\n2\n")),
            pair(".b", &format!("3 {said}\n")),
        ]
    );
}

#[test]
fn keys_and_comments_are_not_filled_in() {
    assert_eq!(
        flatten("# ${UNSET}\n${NAME}: 1 # ${UNSET}\n"),
        [pair(".${NAME}", "1")]
    );
    assert_eq!(flatten("a: $${NAME}\n"), [pair(".a", "${NAME}")]);
}

#[test]
fn an_unset_variable_is_reported_on_its_line() {
    let (line, column, what) = refusal("a: 1\nb: |\n  first\n  then ${UNSET} this\n");
    assert_eq!((line, column), (4, 8));
    assert_eq!(
        what,
        "the variable `UNSET` is not set and has no default (set it, or write \
         `${UNSET:DEFAULT}`; write `$${` for a literal `${`)"
    );
    let (line, column, what) = refusal("a: 1\nb: key ${MY_TOKEN}\n");
    assert_eq!((line, column), (2, 8));
    assert!(
        what.starts_with("the variable `MY_TOKEN` is named like a secret"),
        "{what}"
    );
    let (line, column, what) = refusal("a: \"x ${NAME\"\n");
    assert_eq!((line, column), (1, 7));
    assert!(what.starts_with("`${` has no closing `}`"), "{what}");
    let several = parse(
        "a: ${ONE}\nb: [x, '${TWO}', \"${\"]\n",
        &variables,
        SubstitutionPolicy::Stored,
    )
    .unwrap_err();
    let said = several
        .into_result::<()>("x", None)
        .unwrap_err()
        .to_string();
    assert!(said.contains("x:1:4: the variable `ONE`"), "{said}");
    assert!(said.contains("x:2:9: the variable `TWO`"), "{said}");
    assert_eq!(said.lines().count(), 3, "{said}");
    let (_, _, what) = refusal("a: x ${not a name}\n");
    assert!(what.starts_with("`${not a name}` names no"), "{what}");
}

#[test]
fn invalid_documents_are_refused() {
    for (text, line, said) in [
        ("", 1, "the file is empty"),
        ("# only this\n", 1, "the file is empty"),
        ("---\n...\n", 1, "the file is empty"),
        ("~\n", 1, "the file is empty"),
        ("a: 1\n---\nb: 2\n", 2, "more than one document"),
        ("a: 1\n...\n---\nb: 2\n", 3, "more than one document"),
        ("a: 1\nb: 2\na: 3\n", 3, "duplicate key `a`"),
        ("a: {b: 1, 'b': 2}\n", 1, "duplicate key `b`"),
        ("a:\n\tb: 1\n", 2, "indent with spaces, not with tabs"),
        ("a: [1, 2\nb: 3\n", 2, "this is not YAML"),
        ("a: b: c\n", 1, "this is not YAML"),
        ("a: {b: ${NAME}}\n", 1, "put `${VAR}` in quotes"),
        ("a: *missing\n", 1, "this is not YAML"),
        ("a: !!int 5\n", 1, "the tag `!!int` is not supported"),
        ("a: !include x\n", 1, "the tag `!include` is not supported"),
        ("a: &a {b: 1}\nc:\n  <<: *a\n", 3, "merge keys"),
        ("? [a, b]\n: 1\n", 1, "a key must be text"),
        ("a: &a [*a]\n", 1, "a value that contains it"),
        ("a: \"x\\0\"\n", 1, "U+0000 is not allowed in `a`"),
        ("b: 1\na: ${ESCAPE}\n", 2, "U+001B is not allowed in `a`"),
        ("\"a\\n\": 1\n", 1, "U+000A is not allowed"),
    ] {
        let (at, _, what) = refusal(text);
        assert!(what.contains(said), "{text:?}: {what}");
        assert_eq!(at, line, "{text:?}: {what}");
    }
}

#[test]
fn aliases_repeat_whole_values() {
    assert_eq!(
        flatten("a: &x {k: 1}\nb: *x\nc: [*x]\n"),
        [pair(".a.k", "1"), pair(".b.k", "1"), pair(".c[0].k", "1")]
    );
}

#[test]
fn an_alias_bomb_is_refused_at_once() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..20 {
        let below = format!("*a{}, ", level - 1).repeat(10);
        bomb.push_str(&format!("a{level}: &a{level} [{below}]\n"));
    }
    let (_, _, what) = refusal(&bomb);
    assert!(what.contains("more than 100000 values"), "{what}");
    let long = format!(
        "a: &a \"{}\"\nb: [{}]\n",
        "x".repeat(500_000),
        "*a, ".repeat(20)
    );
    let (_, _, what) = refusal(&long);
    assert!(what.contains("more than 4194304 bytes"), "{what}");
    let (_, _, what) = refusal(&"- ${BIG}\n".repeat(5));
    assert!(what.contains("more than 4194304 bytes"), "{what}");
}

#[test]
fn a_deep_nest_is_refused_at_once() {
    let flow = "[".repeat(100_000);
    let block = (0..300).fold(String::new(), |text, depth| {
        text + &" ".repeat(depth) + "a:\n"
    });
    let dashes = "- ".repeat(100_000);
    for text in [flow, block, dashes] {
        let (_, _, what) = refusal(&text);
        assert_eq!(what, "lists and mappings are nested deeper than 32");
    }
    let fine = "[".repeat(DEPTH_MAXIMUM) + &"]".repeat(DEPTH_MAXIMUM);
    assert!(parse(&fine, &variables, SubstitutionPolicy::Stored).is_ok());
}
