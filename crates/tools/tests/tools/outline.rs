//! Outlines: every language, what is left out, and what cannot be outlined.

use cleveragents_engine::ports::tools::ToolFailure;
use serde_json::{Value, json};

use crate::outlined::FILES;
use crate::world::{World, touched};

fn outline(world: &World, path: &str) -> Value {
    world.data("outline", &json!({"path": path}))
}

/// One line a symbol, as people would note it down.
fn told(data: &Value) -> Vec<String> {
    let symbols = data["symbols"].as_array().unwrap().iter();
    symbols
        .map(|it| {
            let indent = "  ".repeat(usize::try_from(it["depth"].as_u64().unwrap()).unwrap());
            let word = |key: &str| it[key].as_str().unwrap().to_owned();
            let lines = format!("{}-{}", it["line"], it["end_line"]);
            format!("{indent}{} {} {lines}", word("kind"), word("name"))
        })
        .collect()
}

#[test]
fn the_symbols_of_every_language_are_found_where_they_are() {
    let world = World::new();
    for (path, language, content, expected) in FILES {
        world.write(path, content);
        let data = outline(&world, path);
        assert_eq!(data["language"], *language, "{path}");
        assert_eq!(told(&data), *expected, "{path}");
        assert_eq!(data["left_out"], 0, "{path}");
        assert_eq!(data["total_lines"], content.lines().count(), "{path}");
        assert_eq!(data["syntax_errors"], false, "{path}");
        assert_eq!(data.get("note"), None, "{path}");
    }
}

#[test]
fn an_outline_is_exactly_this_and_is_no_reading() {
    let world = World::new();
    world.write("src/a.rs", "fn one() {}\n");
    world.link("link", "src/a.rs");
    let output = world.run("outline", &json!({"path": "link"})).unwrap();
    assert_eq!(
        output.data,
        json!({
            "path": "src/a.rs",
            "language": "rust",
            "symbols": [{"kind": "function", "name": "one", "line": 1, "end_line": 1, "depth": 0}],
            "left_out": 0,
            "syntax_errors": false,
            "total_lines": 1,
        })
    );
    assert_eq!(output.touched, touched(&[]));
    // Who has seen the names has not seen what would be lost.
    let write = json!({"path": "src/a.rs", "content": "mine\n"});
    let refused = world.failure("file-write", &write);
    assert!(matches!(refused, ToolFailure::Stale { .. }), "{refused:?}");
    assert_eq!(world.content("src/a.rs"), "fn one() {}\n");
}

#[test]
fn what_is_too_much_is_left_out_from_the_inside_and_counted() {
    let world = World::new();
    let class = |number: usize| {
        let methods = "    def go(self): pass\n".repeat(9);
        format!("class C{number}:\n{methods}")
    };
    world.write("many.py", (0..100).map(class).collect::<String>());
    let data = outline(&world, "many.py");
    let told = told(&data);
    assert_eq!((told.len(), &data["left_out"]), (500, &json!(500)));
    assert_eq!(
        told.iter().filter(|it| it.starts_with("class")).count(),
        100
    );
    assert_eq!(told[..2], ["class C0 1-10", "  method go 2-2"]);
    assert_eq!(told[499], "class C99 991-1000");
    let long = format!("fn {}() {{}}\n", "é".repeat(500)).repeat(1000);
    world.write("long.rs", &long);
    let data = outline(&world, "long.rs");
    assert!(data.to_string().len() < 128 << 10);
    let name = data["symbols"][0]["name"].as_str().unwrap();
    assert_eq!(name, format!("{}…", "é".repeat(60)));
}

#[test]
fn a_file_with_errors_is_outlined_as_far_as_it_is_understood() {
    let world = World::new();
    world.write("a.rs", "fn one() {}\n\nfn two( {{{\n\nstruct Three;\n");
    let data = outline(&world, "a.rs");
    assert_eq!(told(&data)[0], "function one 1-1");
    assert_eq!(data["syntax_errors"], true);
    world.write("b.go", "package b\nfunc one() {}\n)))\nfunc two() {}\n");
    let data = outline(&world, "b.go");
    assert_eq!(told(&data), ["function one 2-2", "function two 4-4"]);
    assert_eq!(data["syntax_errors"], true);
}

#[test]
fn what_a_grammar_cannot_stand_is_not_given_to_it() {
    let world = World::new();
    let nested = |levels: usize| -> String {
        let level = |at: usize| format!("{}if a:\n", " ".repeat(at));
        let code: String = (0..levels).map(level).collect();
        // The scanner keeps a string that is open beside all levels.
        format!("{code}{}b = f\"\"\"{{c\n", " ".repeat(levels))
    };
    world.write("deep.py", nested(150));
    assert_eq!(outline(&world, "deep.py")["language"], "python");
    for levels in [300, 511, 512, 600] {
        world.write("deeper.py", nested(levels));
        let refused = world.failure("outline", &json!({"path": "deeper.py"}));
        assert!(
            refused.to_string().contains("nested too deeply"),
            "{refused}"
        );
    }
    for path in ["a.rb", "a.sh"] {
        world.write(path, "<<~\"x\n");
        let refused = world.failure("outline", &json!({"path": path}));
        assert!(refused.to_string().contains("no language"), "{refused}");
    }
}

#[test]
fn odd_contents_are_answered() {
    let world = World::new();
    for (path, content, symbols, lines) in [
        ("empty.rs", &b""[..], &[][..], 0),
        ("blank.py", b"\n\n", &[], 2),
        (
            "bom.rs",
            b"\xef\xbb\xbffn one() {}",
            &["function one 1-1"],
            1,
        ),
        (
            "crlf.py",
            b"def one():\r\n    pass\r\n",
            &["function one 1-2"],
            2,
        ),
    ] {
        world.write(path, content);
        let data = outline(&world, path);
        assert_eq!(told(&data), symbols, "{path}");
        assert_eq!(data["total_lines"], lines, "{path}");
        assert_eq!(data.get("note"), None, "{path}");
    }
    world.write(
        "latin.py",
        b"# caf\xe9\nclass One:\n    x = '\xff'\n\ndef tw\xe9(): pass\n",
    );
    let data = outline(&world, "latin.py");
    assert_eq!(told(&data)[0], "class One 2-3");
    assert!(data["note"].as_str().unwrap().contains("UTF-8"));
    world.write("name.js", "exports['a\u{1b}[2J\n b'] = () => 1;\n");
    let data = outline(&world, "name.js");
    let name = data["symbols"][0]["name"].as_str().unwrap();
    assert!(!name.contains(char::is_control), "{name:?}");
}

#[test]
fn what_cannot_be_outlined_is_named_with_what_to_do() {
    let world = World::new();
    world.write("notes.txt", "fn one() {}\n");
    world.write("plain", "fn one() {}\n");
    world.write("binary.rs", b"fn one() {}\n\0");
    world.write("large.rs", "//\n".repeat(350_000));
    world.write("involved.js", ";".repeat(300_000));
    world.write("src/a.rs", "");
    for (path, said) in [
        (
            "notes.txt",
            "notes.txt is of no language that can be outlined; known are c (.c .h), ",
        ),
        ("notes.txt", "Use builtin/file-read or builtin/file-search"),
        ("plain", "plain is of no language"),
        ("binary.rs", "binary.rs is a binary file, it has no outline"),
        (
            "large.rs",
            "large.rs is larger than 1 MiB, there is no outline of it: use builtin/file-search or \
             builtin/file-read",
        ),
        (
            "involved.js",
            "involved.js takes too many steps to parse, there is no outline of it",
        ),
        ("missing.rs", "missing.rs does not exist"),
        ("src", "src is a folder, a file is needed"),
    ] {
        let failure = world.failure("outline", &json!({"path": path}));
        let ToolFailure::Failed { reason, .. } = &failure else {
            panic!("{path}: {failure:?}");
        };
        assert!(reason.contains(said), "{path}: {reason}");
    }
}

#[test]
fn nothing_nests_too_deeply() {
    let world = World::new();
    const DEEP: usize = 20_000;
    let nested = |open: &str, close: &str| open.repeat(DEEP) + &close.repeat(DEEP);
    for (path, content) in [
        ("a.rs", nested("mod a{", "}")),
        ("b.rs", format!("const X: u8 = {};", nested("(", ")"))),
        ("c.rs", "fn a(){".repeat(DEEP)),
        ("b.py", format!("x = {}", nested("[", "]"))),
        ("a.js", nested("function a(){", "}")),
        ("a.ts", format!("type A = {};", nested("{a:", "}"))),
        ("a.tsx", nested("<a>", "</a>")),
        ("a.go", format!("package a\nvar x = {}", nested("(", ")"))),
        ("A.java", nested("class A{", "}")),
        (
            "a.c",
            format!("int {}x{};", "(".repeat(DEEP), ")".repeat(DEEP)),
        ),
        ("b.c", format!("int {}x;", "*".repeat(DEEP))),
        ("a.cpp", nested("namespace a{", "}")),
        ("b.cpp", "a<".repeat(DEEP / 10)),
    ] {
        world.write(path, content);
        // As much stack as threads have on which tools run.
        let data = std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().stack_size(2 << 20);
            let run = thread
                .spawn_scoped(scope, || outline(&world, path))
                .unwrap();
            run.join().unwrap()
        });
        assert!(data["symbols"].as_array().unwrap().len() <= 500, "{path}");
    }
    let data = outline(&world, "a.rs");
    assert_eq!(data["left_out"], DEEP - 500);
    assert_eq!(data["symbols"][499]["depth"], 499);
}
