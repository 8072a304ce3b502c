//! Line endings: those of the user's checkout in the tree, git's own in the store.

use cleveragents_ports::sandbox::{CreatedSandbox, Sandbox};
use cleveragents_ports::stop::StopSignal;

use crate::environment::{SandboxTestWorld, capture, listing, path, paths, write};

/// A changed file is stored with git's line endings, reported with its own, and restored.
fn check_changes(created: &CreatedSandbox, sandbox: &mut dyn Sandbox, setting: &str, name: &str) {
    write(&created.tree.join("a.txt"), b"1\r\n2\r\n3\r\n");
    // Attributes that an agent writes change nothing.
    let ends: &[u8] = if setting == "true" { b"\r\n" } else { b"\n" };
    write(
        &created.tree.join(".gitattributes"),
        &[b"* -text", ends].concat(),
    );
    let captured = capture(sandbox);
    let change = captured
        .changes
        .iter()
        .find(|it| it.path == path("a.txt"))
        .unwrap();
    let hash = |bytes: &[u8]| blake3::hash(bytes).to_hex().to_string();
    assert_eq!(
        change.before.as_ref().unwrap().hash,
        hash(b"1\r\n2\r\n"),
        "{name}"
    );
    assert_eq!(
        change.after.as_ref().unwrap().hash,
        hash(b"1\r\n2\r\n3\r\n"),
        "{name}"
    );
    let diff = sandbox
        .diff(
            &created.base,
            &captured.tree,
            &paths(&["a.txt"]),
            &StopSignal::new(),
        )
        .unwrap();
    let patch = String::from_utf8(diff.patch).unwrap();
    assert!(
        patch.ends_with("@@ -1,2 +1,3 @@\n 1\n 2\n+3\n"),
        "{name}: {patch}"
    );
    let expected = listing(&created.tree);
    sandbox.restore(&created.base, &StopSignal::new()).unwrap();
    sandbox.restore(&captured.tree, &StopSignal::new()).unwrap();
    assert_eq!(listing(&created.tree), expected, "{name}");
}

#[test]
fn line_ends_follow_the_checkout_and_are_stored_like_git() {
    let world = SandboxTestWorld::new();
    for (name, setting, attributes) in [
        ("by setting", "true", ""),
        (
            "by attribute",
            "false",
            "*.txt text eol=crlf\nb.bin -text\n",
        ),
        ("by guess", "input", "*.txt text=auto eol=crlf\n"),
    ] {
        let repository = world.init(name, &[]);
        world.git(&repository, &["config", "core.autocrlf", "false"]);
        let files = [
            (".gitattributes", attributes),
            ("a.txt", "1\n2\n"),
            ("b.bin", "1\r\n\0\n"),
        ];
        world.commit(&repository, &files);
        world.git(&repository, &["config", "core.autocrlf", setting]);
        let mut expected = listing(&repository);
        expected.insert(b"a.txt".to_vec(), ('f', b"1\r\n2\r\n".to_vec()));
        if setting == "true" {
            expected.insert(b".gitattributes".to_vec(), ('f', Vec::new()));
        }
        let (created, mut sandbox) = world.create(&repository);
        assert_eq!(listing(&created.tree), expected, "{name}");
        // Written again with the same content, nothing has changed.
        write(&created.tree.join("a.txt"), b"1\r\n2\r\n");
        write(&created.tree.join("b.bin"), b"1\r\n\0\n");
        assert_eq!(capture(&mut *sandbox).changes, [], "{name}");
        check_changes(&created, &mut *sandbox, setting, name);
    }
}
