//! No known secret passes, in any form and however the text is cut; everything else does.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn secrets(values: &[(&str, &str)]) -> Secrets {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Secrets::new(values.iter().map(owned).collect()).unwrap()
}

#[test]
fn a_known_value_is_hidden_anywhere() {
    let secrets = secrets(&[("K", "hunter2hunter2")]);
    for (text, clean) in [
        ("hunter2hunter2", "«secret:K»"),
        ("hunter2hunter2 end", "«secret:K» end"),
        ("xhunter2hunter2y", "x«secret:K»y"),
        ("hunter2hunter2hunter2", "«secret:K»"),
        ("hunter2hunter2-hunter2hunter2", "«secret:K»-«secret:K»"),
        ("größe hunter2hunter2 日本", "größe «secret:K» 日本"),
        ("hunter2hunter", "hunter2hunter"),
        ("", ""),
    ] {
        assert_eq!(secrets.mask(text), clean);
        assert_eq!(secrets.mask_bytes(text.as_bytes()), clean.as_bytes());
        assert_eq!(secrets.mask(clean), clean, "a mask is no secret");
    }
}

#[test]
fn text_without_secrets_is_not_copied() {
    let secrets = secrets(&[("K", "hunter2hunter2")]);
    assert!(matches!(secrets.mask("nothing"), Cow::Borrowed("nothing")));
    assert!(matches!(secrets.mask_bytes(b"no"), Cow::Borrowed(b"no")));
    let none = Secrets::new(Vec::new()).unwrap();
    assert!(matches!(none.mask("hunter2hunter2"), Cow::Borrowed(_)));
}

#[test]
fn overlapping_values_use_the_longest_name() {
    let secrets = secrets(&[
        ("SHORT", "abcdefgh"),
        ("LONG", "abcdefgh-and-more"),
        ("TAIL", "more-of-the-tail"),
    ]);
    for (text, clean) in [
        ("abcdefgh", "«secret:SHORT»"),
        ("abcdefgh-and-more", "«secret:LONG»"),
        ("<abcdefgh-and-more-of-the-tail>", "<«secret:LONG»>"),
        ("abcdefghabcdefgh", "«secret:SHORT»«secret:SHORT»"),
    ] {
        assert_eq!(secrets.mask(text), clean);
    }
}

#[test]
fn short_values_and_the_space_around_values_are_no_secrets() {
    let secrets = secrets(&[
        ("SEVEN", "1234567"),
        ("PADDED", "   short   "),
        ("UMLAUTS", "ääääääää"),
        ("LINE", "with-a-line-break\n"),
        ("EMPTY", ""),
    ]);
    assert_eq!(
        secrets.mask("1234567 short ääääääää with-a-line-break."),
        "1234567 short «secret:UMLAUTS» «secret:LINE»."
    );
}

#[test]
fn long_lines_of_a_multiline_value_are_hidden() {
    let key = "-----BEGIN KEY-----\nMC4CAQAwBQYDK2VwBCIEIA\r\nshort\n-----END KEY-----";
    let secrets = secrets(&[("K", key)]);
    for (text, clean) in [
        (key, "«secret:K»"),
        ("2: MC4CAQAwBQYDK2VwBCIEIA", "2: «secret:K»"),
        ("-----BEGIN KEY-----", "-----BEGIN KEY-----"),
        ("a short text", "a short text"),
    ] {
        assert_eq!(secrets.mask(text), clean);
    }
}

#[test]
fn a_value_with_two_names_uses_the_first() {
    let secrets = secrets(&[("ONE", "same-value"), ("TWO", "same-value")]);
    assert_eq!(secrets.mask("same-value"), "«secret:ONE»");
}

#[test]
fn usual_encodings_are_hidden_too() {
    let secrets = secrets(&[("Q", "p@ss \"wörd\"/+\n2nd")]);
    let inner = json!({"key": "p@ss \"wörd\"/+\n2nd"}).to_string();
    let outer = json!({"arguments": inner}).to_string();
    for (text, clean) in [
        (inner.as_str(), "{\"key\":\"«secret:Q»\"}"),
        (
            outer.as_str(),
            "{\"arguments\":\"{\\\"key\\\":\\\"«secret:Q»\\\"}\"}",
        ),
        ("\"p@ss \\\"w\\u00f6rd\\\"/+\\n2nd\"", "\"«secret:Q»\""),
        (
            "?key=p%40ss%20%22w%C3%B6rd%22%2F%2B%0A2nd&x",
            "?key=«secret:Q»&x",
        ),
        ("key=p%40ss+%22w%c3%b6rd%22%2f%2b%0a2nd", "key=«secret:Q»"),
        ("cEBzcyAid8O2cmQiLysKMm5k", "«secret:Q»"),
    ] {
        assert_eq!(secrets.mask(text), clean, "{text}");
    }
}

#[test]
fn the_header_of_basic_authorization_shows_nothing_of_the_password() {
    let secrets = secrets(&[("P", "correct-horse")]);
    // "u:…", "me:…" and "you:…": the password starts at each of the three offsets in a group.
    for header in [
        "Basic dTpjb3JyZWN0LWhvcnNl",
        "Basic bWU6Y29ycmVjdC1ob3JzZQ==",
        "Basic eW91OmNvcnJlY3QtaG9yc2U=",
    ] {
        let hidden = secrets.mask(header);
        let (before, after) = hidden.split_once("«secret:P»").unwrap();
        assert!(before.len() <= "Basic eW91Om".len(), "{hidden}");
        assert!(after.len() <= 3, "{hidden}");
    }
}

#[test]
fn strings_keys_and_numbers_of_json_are_hidden() {
    let secrets = secrets(&[("Q", "with \"quotes\"\nand lines"), ("N", "1234567890")]);
    let mut value = json!({
        "list": ["with \"quotes\"\nand lines", 1, null, true, 1_234_567_890_u64],
        "with \"quotes\"\nand lines": {"deep": "a with \"quotes\"\nand lines b"},
        "with \\\"quotes\\\"\\nand lines": 2,
    });
    secrets.mask_json(&mut value);
    assert_eq!(
        value,
        json!({
            "list": ["«secret:Q»", 1, null, true, "«secret:N»"],
            "«secret:Q»": {"deep": "a «secret:Q» b"},
            "«secret:Q»'": 2,
        })
    );
}

#[test]
fn bytes_need_not_be_text() {
    let secrets = secrets(&[("K", "hunter2hunter2")]);
    let bytes = [b"\xff\x00hunter2hunter2".as_slice(), b"\xfe"].concat();
    let clean = [b"\xff\x00".as_slice(), "«secret:K»".as_bytes(), b"\xfe"].concat();
    assert_eq!(secrets.mask_bytes(&bytes), clean);
}

#[test]
fn debugging_shows_names_only() {
    let secrets = secrets(&[("K", "hunter2hunter2"), ("SHORT", "short")]);
    assert_eq!(format!("{secrets:?}"), "Secrets([\"K\"])");
    let mut masker = secrets.stream_masker();
    assert_eq!(masker.push("hunter2"), "");
    assert!(!format!("{masker:?}").contains("hunter2"), "{masker:?}");
    assert_eq!(masker.finish(), "hunter2");
}

#[test]
fn secret_names_are_recognized() {
    for name in [
        "OPENAI_API_KEY",
        "GITHUB_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "pgpassword",
        "MYSQL_PASSWD",
        "SSH_PASSPHRASE",
        "GOOGLE_APPLICATION_CREDENTIALS",
    ] {
        assert!(is_secret_name(name), "{name}");
    }
    for name in ["HOME", "PATH", "LANG", "CARGO_HOME", "KEYCLOAK_URL"] {
        assert!(!is_secret_name(name), "{name}");
    }
}

#[test]
fn a_masker_buffers_no_more_than_needed() {
    let secrets = secrets(&[("A", "aaaaaaaa")]);
    let mut masker = secrets.stream_masker();
    for _ in 0..10_000 {
        assert_eq!(masker.push("aaaaa"), "", "it may still go on");
        assert!(masker.push("").is_empty());
    }
    let shown = format!("{masker:?}");
    assert!(shown.contains("bytes: 1"), "about a dozen: {shown}");
    assert_eq!(masker.push("b"), "");
    assert_eq!(masker.finish(), "«secret:A»b");
}

/// Values over few letters, so that they overlap themselves and each other.
fn values() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec("[abäX ]{8,12}", 1..4)
}

/// Texts over the same letters, containing the values.
fn text(values: &[String]) -> impl Strategy<Value = String> + use<> {
    let values = values.to_vec();
    let part = prop_oneof!["[abäX 日]{0,9}", prop::sample::select(values)];
    prop::collection::vec(part, 0..8).prop_map(|parts| parts.concat())
}

fn numbered_secrets(values: &[String]) -> Secrets {
    let named = |(number, value): (usize, &String)| (format!("N{number}"), value.clone());
    Secrets::new(values.iter().enumerate().map(named).collect()).unwrap()
}

fn maskable_values(values: &[String]) -> impl Iterator<Item = &str> {
    let trimmed = values.iter().map(|value| value.trim());
    trimmed.filter(|value| value.chars().count() >= SHORTEST_SECRET)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn no_value_comes_through(
        (values, text) in values().prop_flat_map(|values| {
            let text = text(&values);
            (Just(values), text)
        }),
    ) {
        let secrets = numbered_secrets(&values);
        let clean = secrets.mask(&text).into_owned();
        for value in maskable_values(&values) {
            prop_assert!(!clean.contains(value), "{value:?} in {clean:?} of {text:?}");
        }
        prop_assert_eq!(secrets.mask_bytes(text.as_bytes()), clean.as_bytes());
        prop_assert_eq!(secrets.mask(&clean), clean.clone());
    }

    #[test]
    fn chunked_masking_equals_whole_masking(
        (values, text) in values().prop_flat_map(|values| {
            let text = text(&values);
            (Just(values), text)
        }),
        cuts in prop::collection::vec(0_usize..60, 0..12),
    ) {
        let secrets = numbered_secrets(&values);
        let mut masker = secrets.stream_masker();
        let mut clean = String::new();
        let mut rest = text.as_str();
        for cut in cuts {
            let (piece, behind) = rest.split_at(rest.floor_char_boundary(cut.min(rest.len())));
            clean.push_str(&masker.push(piece));
            for value in maskable_values(&values) {
                prop_assert!(!clean.contains(value), "{value:?} in {clean:?}");
            }
            rest = behind;
        }
        clean.push_str(&masker.push(rest));
        clean.push_str(&masker.finish());
        prop_assert_eq!(clean, secrets.mask(&text).into_owned());
    }

    #[test]
    fn no_encoding_of_any_value_comes_through(value in "[ -~äöü日]{8,20}", before in "[ -~]{0,5}") {
        let secrets = numbered_secrets(std::slice::from_ref(&value));
        if value.trim().chars().count() >= SHORTEST_SECRET {
            let inner = serde_json::to_string(&format!("{before}{value}")).unwrap();
            let outer = serde_json::to_string(&inner).unwrap();
            for text in [inner, outer] {
                prop_assert!(secrets.mask(&text).contains("«secret:N0»"), "{text}");
            }
        }
    }
}

#[test]
fn masked_and_plain_values_compare_equal() {
    let plain = json!({"command": "echo production >> log; echo production", "number": 12345678});
    let masked = json!({
        "command": "echo «secret:MODE» >> log; echo «secret:MODE»",
        "number": "«secret:PIN»",
    });
    for (one, other) in [(&plain, &masked), (&masked, &plain), (&plain, &plain)] {
        assert!(equal_ignoring_secrets(one, other), "{one} {other}");
    }
    for other in [
        json!({"command": "echo production >> tail; echo production", "number": 12345678}),
        json!({"command": "echo production", "number": 12345678}),
        json!({"command": "echo production >> log; echo production"}),
    ] {
        assert!(!equal_ignoring_secrets(&masked, &other), "{other}");
    }
    assert!(!equal_ignoring_secrets(&json!(["a"]), &json!(["a", "b"])));
}
