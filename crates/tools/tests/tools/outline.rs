//! Outlines: every language, what is left out, and what cannot be outlined.

use cleveragents_ports::tools::ToolFailure;
use serde_json::{Value, json};

use crate::fixture::{ToolFixture, touched};
use crate::outline_samples::FILES;

fn outline(fixture: &ToolFixture, path: &str) -> Value {
    fixture.data("outline", &json!({"path": path}))
}

/// One readable line per symbol.
fn symbol_lines(data: &Value) -> Vec<String> {
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
fn symbols_of_every_language_are_found() {
    let fixture = ToolFixture::new();
    for (path, language, content, expected) in FILES {
        fixture.write(path, content);
        let data = outline(&fixture, path);
        assert_eq!(data["language"], *language, "{path}");
        assert_eq!(symbol_lines(&data), *expected, "{path}");
        assert_eq!(data["left_out"], 0, "{path}");
        assert_eq!(data["total_lines"], content.lines().count(), "{path}");
        assert_eq!(data["syntax_errors"], false, "{path}");
        assert_eq!(data.get("note"), None, "{path}");
    }
}

#[test]
fn an_outline_does_not_count_as_a_read() {
    let fixture = ToolFixture::new();
    fixture.write("src/a.rs", "fn one() {}\n");
    fixture.link("link", "src/a.rs");
    let output = fixture.run("outline", &json!({"path": "link"})).unwrap();
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
    // An actor that saw only the outline does not know the content it would overwrite.
    let write = json!({"path": "src/a.rs", "content": "mine\n"});
    let refused = fixture.failure("file-write", &write);
    assert!(matches!(refused, ToolFailure::Stale { .. }), "{refused:?}");
    assert_eq!(fixture.content("src/a.rs"), "fn one() {}\n");
}

#[test]
fn excess_inner_symbols_are_omitted_and_counted() {
    let fixture = ToolFixture::new();
    let class = |number: usize| {
        let methods = "    def go(self): pass\n".repeat(9);
        format!("class C{number}:\n{methods}")
    };
    fixture.write("many.py", (0..100).map(class).collect::<String>());
    let data = outline(&fixture, "many.py");
    let lines = symbol_lines(&data);
    assert_eq!((lines.len(), &data["left_out"]), (500, &json!(500)));
    assert_eq!(
        lines.iter().filter(|it| it.starts_with("class")).count(),
        100
    );
    assert_eq!(lines[..2], ["class C0 1-10", "  method go 2-2"]);
    assert_eq!(lines[499], "class C99 991-1000");
    let long = format!("fn {}() {{}}\n", "é".repeat(500)).repeat(1000);
    fixture.write("long.rs", &long);
    let data = outline(&fixture, "long.rs");
    assert!(data.to_string().len() < 128 << 10);
    let name = data["symbols"][0]["name"].as_str().unwrap();
    assert_eq!(name, format!("{}…", "é".repeat(60)));
}

#[test]
fn a_file_with_syntax_errors_is_outlined_partially() {
    let fixture = ToolFixture::new();
    fixture.write("a.rs", "fn one() {}\n\nfn two( {{{\n\nstruct Three;\n");
    let data = outline(&fixture, "a.rs");
    assert_eq!(symbol_lines(&data)[0], "function one 1-1");
    assert_eq!(data["syntax_errors"], true);
    fixture.write("b.go", "package b\nfunc one() {}\n)))\nfunc two() {}\n");
    let data = outline(&fixture, "b.go");
    assert_eq!(
        symbol_lines(&data),
        ["function one 2-2", "function two 4-4"]
    );
    assert_eq!(data["syntax_errors"], true);
}

#[test]
fn input_that_breaks_a_grammar_is_refused() {
    let fixture = ToolFixture::new();
    let nested = |levels: usize| -> String {
        let level = |at: usize| format!("{}if a:\n", " ".repeat(at));
        let code: String = (0..levels).map(level).collect();
        // The scanner stores an open string in addition to all levels.
        format!("{code}{}b = f\"\"\"{{c\n", " ".repeat(levels))
    };
    fixture.write("deep.py", nested(150));
    assert_eq!(outline(&fixture, "deep.py")["language"], "python");
    for levels in [300, 511, 512, 600] {
        fixture.write("deeper.py", nested(levels));
        let refused = fixture.failure("outline", &json!({"path": "deeper.py"}));
        assert!(
            refused.to_string().contains("nested too deeply"),
            "{refused}"
        );
    }
    for path in ["a.rb", "a.sh"] {
        fixture.write(path, "<<~\"x\n");
        let refused = fixture.failure("outline", &json!({"path": path}));
        assert!(refused.to_string().contains("no language"), "{refused}");
    }
}

#[test]
fn unusual_contents_are_outlined() {
    let fixture = ToolFixture::new();
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
        fixture.write(path, content);
        let data = outline(&fixture, path);
        assert_eq!(symbol_lines(&data), symbols, "{path}");
        assert_eq!(data["total_lines"], lines, "{path}");
        assert_eq!(data.get("note"), None, "{path}");
    }
    fixture.write(
        "latin.py",
        b"# caf\xe9\nclass One:\n    x = '\xff'\n\ndef tw\xe9(): pass\n",
    );
    let data = outline(&fixture, "latin.py");
    assert_eq!(symbol_lines(&data)[0], "class One 2-3");
    assert!(data["note"].as_str().unwrap().contains("UTF-8"));
    fixture.write("name.js", "exports['a\u{1b}[2J\n b'] = () => 1;\n");
    let data = outline(&fixture, "name.js");
    let name = data["symbols"][0]["name"].as_str().unwrap();
    assert!(!name.contains(char::is_control), "{name:?}");
}

#[test]
fn a_refused_outline_reports_reason_and_alternative() {
    let fixture = ToolFixture::new();
    fixture.write("notes.txt", "fn one() {}\n");
    fixture.write("plain", "fn one() {}\n");
    fixture.write("binary.rs", b"fn one() {}\n\0");
    fixture.write("large.rs", "//\n".repeat(350_000));
    fixture.write("involved.js", ";".repeat(300_000));
    fixture.write("src/a.rs", "");
    for (path, said) in [
        (
            "notes.txt",
            "notes.txt is in no language that can be outlined; known are c (.c .h), ",
        ),
        ("notes.txt", "Use builtin/file-read or builtin/file-search"),
        ("plain", "plain is in no language"),
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
        let failure = fixture.failure("outline", &json!({"path": path}));
        let ToolFailure::Failed { reason, .. } = &failure else {
            panic!("{path}: {failure:?}");
        };
        assert!(reason.contains(said), "{path}: {reason}");
    }
}

#[test]
fn deep_nesting_does_not_overflow_the_stack() {
    let fixture = ToolFixture::new();
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
        fixture.write(path, content);
        // The stack size of the threads on which tools run.
        let data = std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().stack_size(2 << 20);
            let run = thread
                .spawn_scoped(scope, || outline(&fixture, path))
                .unwrap();
            run.join().unwrap()
        });
        assert!(data["symbols"].as_array().unwrap().len() <= 500, "{path}");
    }
    let data = outline(&fixture, "a.rs");
    assert_eq!(data["left_out"], DEEP - 500);
    assert_eq!(data["symbols"][499]["depth"], 499);
}
