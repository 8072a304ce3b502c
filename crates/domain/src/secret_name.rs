//! Recognises variables that hold secrets by their names and, if the name alone is a weak sign, by
//! their values.

/// Minimum length of a masked value. Masking shorter ones would make ordinary words unreadable.
pub const SHORTEST_SECRET: usize = 8;

/// Parts of a name that indicate a secret anywhere, even inside a word (`PGPASSWORD`).
const ANYWHERE: [&str; 6] = [
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "SECRET",
    "TOKEN",
    "CREDENTIAL",
];

/// Words that indicate a secret only as whole words: `API_KEY`, but not `KEYCLOAK` or `MONKEY`.
const WHOLE_WORDS: [&str; 11] = [
    "KEY",
    "KEYS",
    "APIKEY",
    "APIKEYS",
    "ACCESSKEY",
    "AUTHKEY",
    "ENCRYPTIONKEY",
    "MASTERKEY",
    "PRIVATEKEY",
    "SIGNINGKEY",
    "SSHKEY",
];

/// Numbers with fewer digits are counts, ports and ids.
const NUMBER_DIGITS: usize = 16;

/// A longer part of a URL may be a token (`https://hooks.example/services/T0/XXXXXXXX…`).
const URL_PART_MAXIMUM: usize = 20;

/// Whether a variable of this name may hold a secret.
pub fn is_secret_name(name: &str) -> bool {
    is_always_secret(name) || has_word(name)
}

/// Whether a variable of this name and value holds a secret. If the name only contains a word like
/// `KEY`, obvious other values do not count: switches, short numbers, paths, and URLs without
/// credentials.
pub fn is_secret(name: &str, value: &str) -> bool {
    is_always_secret(name) || (has_word(name) && !is_plain(value.trim()))
}

fn is_always_secret(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    ANYWHERE.iter().any(|part| upper.contains(part))
}

fn has_word(name: &str) -> bool {
    words(name)
        .iter()
        .any(|word| WHOLE_WORDS.contains(&word.as_str()))
}

/// Returns the words of a name in capitals: split at non-letters and at case changes
/// (`openaiApiKey`, `APIKey`).
fn words(name: &str) -> Vec<String> {
    let characters: Vec<char> = name.chars().collect();
    let mut words = vec![String::new()];
    for (index, character) in characters.iter().enumerate() {
        if !character.is_ascii_alphabetic() {
            words.push(String::new());
            continue;
        }
        let is_lower = |at: usize| characters.get(at).is_some_and(char::is_ascii_lowercase);
        let is_upper = |at: usize| characters.get(at).is_some_and(char::is_ascii_uppercase);
        let before = index.checked_sub(1);
        let begins = character.is_ascii_uppercase()
            && before.is_some_and(|before| {
                is_lower(before) || (is_upper(before) && is_lower(index + 1))
            });
        if begins {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut() {
            word.push(character.to_ascii_uppercase());
        }
    }
    words
}

fn is_plain(value: &str) -> bool {
    is_switch(value) || is_short_number(value) || is_path(value) || is_plain_url(value)
}

fn is_switch(value: &str) -> bool {
    const SWITCHES: [&str; 8] = [
        "true", "false", "yes", "no", "on", "off", "enabled", "disabled",
    ];
    SWITCHES.contains(&value.to_ascii_lowercase().as_str())
}

fn is_short_number(value: &str) -> bool {
    value.len() < NUMBER_DIGITS && value.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether the value is a path and not a base64 key, which may start with `/` too: it has a
/// character that base64 lacks.
fn is_path(value: &str) -> bool {
    let begins = ["/", "~/", "./", "../"]
        .iter()
        .any(|start| value.starts_with(start));
    begins && value.contains(['.', '-', '_', '~']) && !value.contains(['\n', '='])
}

/// Whether the value is a URL without user and query, with only short parts.
fn is_plain_url(value: &str) -> bool {
    let Some((scheme, rest)) = value.split_once("://") else {
        return false;
    };
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    let mut parts = rest.split('/');
    let host = parts.next().unwrap_or_default();
    !scheme.is_empty()
        && scheme.chars().all(is_scheme)
        && !host.is_empty()
        && !rest.contains(['@', '?', '#', ';', ' '])
        && parts.all(|part| part.len() <= URL_PART_MAXIMUM)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_by_whole_words() {
        for name in [
            "OPENAI_API_KEY",
            "API_KEY",
            "OPENAI_KEY",
            "KEY",
            "KEY2",
            "deploy-key",
            "provider.openai.api-key",
            "openaiApiKey",
            "APIKey",
            "MY_APIKEY",
            "privatekey",
            "SIGNING_KEYS",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in [
            "KEYCLOAK_URL",
            "KEYBOARD",
            "MONKEY",
            "KEYCLOAK",
            "TURKEY_CITY",
            "KEYSTONE_HOST",
            "HOME",
            "PATH",
            "",
            "_",
            "日本",
        ] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn some_words_mark_secrets_inside_other_words() {
        for name in [
            "PGPASSWORD",
            "pgpassword",
            "MYSQL_PASSWD",
            "SSH_PASSPHRASE",
            "GITHUB_TOKEN",
            "githubToken",
            "CLIENTSECRET",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "MyCredential",
        ] {
            assert!(is_secret_name(name), "{name}");
            assert!(is_secret(name, "http://localhost:8080"), "{name}");
        }
    }

    #[test]
    fn plain_values_under_a_key_are_no_secrets() {
        for value in [
            "http://localhost:8080",
            "https://keys.example.com/v1/",
            "/etc/ssl/server.pem",
            "~/.ssh/id_ed25519",
            "../keys/my_key",
            "disabled",
            "TRUE",
            "12345678",
            " 8080 ",
        ] {
            assert!(!is_secret("SSH_KEY", value), "{value}");
        }
        for value in [
            "sk-4f9a8b7c6d5e4f3a",
            "https://me:pass@example.com",
            "https://example.com/?key=1",
            "https://hooks.example.com/services/T0000000/B0000000/abcdefghijklmnopqrstuvwx",
            "/9j/4AAQSkZJRgABAQAAAQABAAD",
            "1234567890123456",
            "not://",
            "correct horse battery",
        ] {
            assert!(is_secret("SSH_KEY", value), "{value}");
        }
        assert!(!is_secret("KEYCLOAK_URL", "sk-4f9a8b7c6d5e4f3a"));
    }
}
