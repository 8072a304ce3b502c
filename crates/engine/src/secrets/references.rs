//! References: a value that is executed later is stored with masks in place of its secrets, and
//! they are resolved where it is executed.
//!
//! The stored value must resolve to exactly the given one, or it is refused. A secret in an encoded
//! form, or overlapping another, cannot be restored from its mask. A mask in the input would insert
//! a secret that the author of the input does not have.

use serde_json::Value;

use super::Secrets;
use cleveragents_domain::secret_mask::{find_mask_in, mask_name, mask_range};

/// Error of a value that cannot be stored as a reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    #[error("it contains {mask}, which represents a secret: give the value itself")]
    Mask { mask: String },
    #[error(
        "it holds a secret in a form that cannot be stored: encoded, as a number, or joined with \
         another; give the plain value as a text of its own"
    )]
    NotRestorable,
}

/// A reference to a secret that this process does not know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the secret {name} is not known here: set the variable or setting {name} and try again")]
pub struct UnknownSecret {
    pub name: String,
}

impl Secrets {
    /// Replaces the secrets in the value with references. Fails unless [`resolve`](Self::resolve)
    /// would return exactly this value.
    pub fn to_references(&self, value: &Value) -> Result<Value, ReferenceError> {
        if let Some(mask) = find_mask_in(value) {
            let mask = mask.to_owned();
            return Err(ReferenceError::Mask { mask });
        }
        let mut stored = value.clone();
        self.mask_json(&mut stored);
        match self.resolve(&stored) {
            Ok(resolved) if resolved == *value => Ok(stored),
            _ => Err(ReferenceError::NotRestorable),
        }
    }

    /// Like [`Self::to_references`], for a text.
    pub fn to_reference(&self, text: &str) -> Result<String, ReferenceError> {
        match self.to_references(&Value::from(text))? {
            Value::String(stored) => Ok(stored),
            _ => Err(ReferenceError::NotRestorable),
        }
    }

    /// Replaces every reference in the value with its secret, as known to this process.
    pub fn resolve(&self, value: &Value) -> Result<Value, UnknownSecret> {
        Ok(match value {
            Value::String(text) => Value::String(self.resolve_text(text)?),
            Value::Array(items) => {
                let items = items.iter().map(|item| self.resolve(item));
                Value::Array(items.collect::<Result<_, _>>()?)
            }
            Value::Object(map) => {
                let entry = |(key, item): (&String, &Value)| {
                    Ok((self.resolve_text(key)?, self.resolve(item)?))
                };
                Value::Object(map.iter().map(entry).collect::<Result<_, _>>()?)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        })
    }

    /// Like [`Self::resolve`], for a text.
    pub fn resolve_text(&self, text: &str) -> Result<String, UnknownSecret> {
        let mut resolved = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(mask) = mask_range(rest) {
            let name = mask_name(&rest[mask.clone()]);
            let value = self.value_of(name).ok_or_else(|| UnknownSecret {
                name: name.to_owned(),
            })?;
            resolved.push_str(&rest[..mask.start]);
            resolved.push_str(value);
            rest = &rest[mask.end..];
        }
        resolved.push_str(rest);
        Ok(resolved)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secrets(values: &[(&str, &str)]) -> Secrets {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Secrets::new(values.iter().map(owned).collect()).unwrap()
    }

    #[test]
    fn a_stored_value_is_restored_with_its_secrets() {
        let secrets = secrets(&[("A", "hunter2hunter2"), ("B", "correct horse")]);
        let value = json!({"url": "x hunter2hunter2 y correct horse", "n": [1, true, null]});
        let stored = secrets.to_references(&value).unwrap();
        assert_eq!(
            stored,
            json!({"url": "x «secret:A» y «secret:B»", "n": [1, true, null]})
        );
        assert_eq!(secrets.resolve(&stored), Ok(value.clone()));
        let rotated = self::secrets(&[("A", "another-value"), ("B", "correct horse")]);
        assert_eq!(
            rotated.resolve(&stored).unwrap()["url"],
            "x another-value y correct horse"
        );
        let unknown = self::secrets(&[("B", "correct horse")]).resolve(&stored);
        assert_eq!(
            unknown,
            Err(UnknownSecret {
                name: "A".to_owned()
            })
        );
        assert_eq!(Secrets::default().to_references(&value), Ok(value));
    }

    #[test]
    fn values_that_cannot_be_restored_are_refused() {
        let secrets = secrets(&[
            ("A", "hunter2hunter2"),
            ("PIN", "1234567890"),
            ("T", "2-tail-of-it"),
        ]);
        for value in [
            json!("aHVudGVyMmh1bnRlcjI="),
            json!(1_234_567_890_u64),
            json!("hunter2hunter2-tail-of-it"),
            json!({"hunter2hunter2": 1, "aHVudGVyMmh1bnRlcjI": 2}),
        ] {
            let refused = secrets.to_references(&value);
            assert_eq!(refused, Err(ReferenceError::NotRestorable), "{value}");
        }
        // A mask in the input must not be resolved to the secret.
        for (value, mask) in [
            (json!("«secret:A»"), "«secret:A»"),
            (json!(["hunter2hunter2 «secret:NOBODY»"]), "«secret:NOBODY»"),
        ] {
            let mask = mask.to_owned();
            assert_eq!(
                secrets.to_references(&value),
                Err(ReferenceError::Mask { mask })
            );
        }
    }

    #[test]
    fn only_the_first_value_of_a_name_is_referenced() {
        let secrets = secrets(&[("U", "raw%2Fvalue"), ("U", "raw/value")]);
        assert!(secrets.to_reference("raw%2Fvalue").is_ok());
        assert_eq!(
            secrets.to_reference("raw/value"),
            Err(ReferenceError::NotRestorable)
        );
    }
}
