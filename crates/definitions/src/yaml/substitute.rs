//! Substitutes `${VAR}` and `${VAR:default}` in a scalar; `$${` is a literal `${`.

use cleveragents_domain::secret_name::{SHORTEST_SECRET, is_secret};

/// Looks up the value of a variable; `None` if it is not set.
pub type DefinitionVariables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The use of a definition, which decides the values that may be substituted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SubstitutionPolicy {
    /// It is stored as read, so secrets must not be substituted.
    Stored,
    /// It is read again whenever it is used.
    Used,
    /// It comes with a repository, whose author must not learn the values of the user's variables.
    Repository,
}

/// Result of substituting a scalar's text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Substitution {
    /// It contains no variables.
    Unchanged,
    /// Only `$${` was unescaped.
    Unescaped(String),
    /// At least one variable or default was substituted.
    Filled(String),
}

/// Error of a scalar that could not be substituted.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SubstitutionError {
    Unset {
        name: String,
    },
    NotAName {
        name: String,
    },
    /// The variable's name indicates a secret.
    Secret {
        name: String,
    },
    /// A repository's file uses a variable or its default.
    Untrusted {
        name: String,
    },
    Unclosed,
}

/// Substitutes every variable in `text`. Substituted values are not expanded again.
pub(super) fn substitute(
    text: &str,
    variables: DefinitionVariables<'_>,
    policy: SubstitutionPolicy,
) -> Result<Substitution, SubstitutionError> {
    if !text.contains("${") {
        return Ok(Substitution::Unchanged);
    }
    let mut filled = false;
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(dollar) = rest.find('$') {
        result.push_str(&rest[..dollar]);
        rest = &rest[dollar..];
        if let Some(after) = rest.strip_prefix("$${") {
            result.push_str("${");
            rest = after;
        } else if let Some(after) = rest.strip_prefix("${") {
            let (inside, after) = after.split_once('}').ok_or(SubstitutionError::Unclosed)?;
            // The value is not scanned again, or a variable could refer to others.
            result.push_str(&resolve_variable(inside, variables, policy)?);
            filled = true;
            rest = after;
        } else {
            result.push('$');
            rest = &rest[1..];
        }
    }
    result.push_str(rest);
    Ok(if filled {
        Substitution::Filled(result)
    } else {
        Substitution::Unescaped(result)
    })
}

/// The inverse of [`substitute`] for a text without variables.
pub(crate) fn escape(text: &str) -> String {
    text.replace("${", "$${")
}

fn resolve_variable(
    inside: &str,
    variables: DefinitionVariables<'_>,
    policy: SubstitutionPolicy,
) -> Result<String, SubstitutionError> {
    let (name, default) = match inside.split_once(':') {
        Some((name, default)) => (name, Some(default)),
        None => (inside, None),
    };
    let owned = || name.to_owned();
    if !is_variable_name(name) {
        return Err(SubstitutionError::NotAName { name: owned() });
    }
    // Refused also with a default: the author of the file could read the variable from the result.
    if policy == SubstitutionPolicy::Repository {
        return Err(SubstitutionError::Untrusted { name: owned() });
    }
    match (variables(name), default) {
        // A value too short to be masked is not a secret, for example a number of tokens.
        (Some(value), _)
            if policy == SubstitutionPolicy::Stored
                && is_secret(name, &value)
                && value.trim().chars().count() >= SHORTEST_SECRET =>
        {
            Err(SubstitutionError::Secret { name: owned() })
        }
        (Some(value), _) => Ok(value),
        (None, Some(default)) => Ok(default.to_owned()),
        (None, None) => Err(SubstitutionError::Unset { name: owned() }),
    }
}

fn is_variable_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(name: &str) -> Option<String> {
        match name {
            "A" => Some("one".to_owned()),
            "EMPTY" => Some(String::new()),
            "MAX_TOKENS" => Some("4096".to_owned()),
            "API_KEY" => Some("sk-12345".to_owned()),
            "NESTED" => Some("${A} $${A}".to_owned()),
            _ => None,
        }
    }

    fn substitute_stored(text: &str) -> Result<Substitution, SubstitutionError> {
        substitute(text, &variables, SubstitutionPolicy::Stored)
    }

    #[test]
    fn variables_and_defaults_are_substituted_once() {
        for (text, expected) in [
            ("${A}", "one"),
            ("<${A}${A}>", "<oneone>"),
            ("${A:two}", "one"),
            ("${B:two}", "two"),
            ("${B:}", ""),
            ("${B:a:b $x}", "a:b $x"),
            ("${EMPTY:two}", ""),
            ("${NESTED}", "${A} $${A}"),
            ("$A $$ ${A} $", "$A $$ one $"),
            ("$${A} ${A}", "${A} one"),
        ] {
            assert_eq!(
                substitute_stored(text),
                Ok(Substitution::Filled(expected.to_owned()))
            );
        }
    }

    #[test]
    fn a_text_without_variables_stays() {
        assert_eq!(
            substitute_stored("a $ b $$ {c} }"),
            Ok(Substitution::Unchanged)
        );
        assert_eq!(
            substitute_stored("$${A}"),
            Ok(Substitution::Unescaped("${A}".to_owned()))
        );
    }

    #[test]
    fn invalid_substitutions_are_refused() {
        let name = |text: &str| text.to_owned();
        assert_eq!(
            substitute_stored("x ${B}"),
            Err(SubstitutionError::Unset { name: name("B") })
        );
        assert_eq!(substitute_stored("${A"), Err(SubstitutionError::Unclosed));
        for (text, wrong) in [
            ("${}", ""),
            ("${1A}", "1A"),
            ("${A B}", "A B"),
            ("${é}", "é"),
        ] {
            assert_eq!(
                substitute_stored(text),
                Err(SubstitutionError::NotAName { name: name(wrong) })
            );
        }
    }

    #[test]
    fn secrets_are_never_substituted_into_stored_values() {
        let name = || "API_KEY".to_owned();
        for text in ["${API_KEY}", "a ${API_KEY:b}"] {
            assert_eq!(
                substitute_stored(text),
                Err(SubstitutionError::Secret { name: name() })
            );
        }
        for (text, expected) in [("${MAX_TOKENS}", "4096"), ("${KEYBOARD:qwerty}", "qwerty")] {
            assert_eq!(
                substitute_stored(text),
                Ok(Substitution::Filled(expected.to_owned()))
            );
        }
        let used = substitute("${API_KEY}", &variables, SubstitutionPolicy::Used);
        assert_eq!(used, Ok(Substitution::Filled("sk-12345".to_owned())));
    }

    #[test]
    fn a_repository_gets_no_variable_and_no_default() {
        let untrusted = |text: &str| substitute(text, &variables, SubstitutionPolicy::Repository);
        for (text, name) in [
            ("${A}", "A"),
            ("x ${B:two}", "B"),
            ("$${A} ${EMPTY}", "EMPTY"),
        ] {
            let name = name.to_owned();
            assert_eq!(untrusted(text), Err(SubstitutionError::Untrusted { name }));
        }
        assert_eq!(
            untrusted("$${A}"),
            Ok(Substitution::Unescaped("${A}".to_owned()))
        );
    }

    #[test]
    fn an_escaped_text_reads_back() {
        for text in ["", "${A}", "$${A}", "$$${A}${", "a $ b"] {
            let read = match substitute_stored(&escape(text)).unwrap() {
                Substitution::Unchanged => text.to_owned(),
                Substitution::Unescaped(read) => read,
                Substitution::Filled(read) => panic!("{read}"),
            };
            assert_eq!(read, text);
        }
    }
}
