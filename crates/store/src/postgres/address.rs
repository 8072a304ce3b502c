//! The address of a PostgreSQL database: a URL with TLS settings in libpq's syntax.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use cleveragents_ports::{Result, StoreError};
use postgres::Config;
use postgres::config::{Host, SslMode};

/// The TLS mode; names and meanings are libpq's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encryption {
    Disable,
    /// Encrypt if the server supports it; the server's identity is not verified.
    Prefer,
    /// Encrypt or fail; the server's identity is not verified.
    Require,
    /// Encrypt and verify certificate and host name.
    VerifyFull,
}

#[derive(Debug, Clone)]
pub(crate) struct Address {
    pub(crate) config: Config,
    pub(crate) encryption: Encryption,
    /// Certificates to trust instead of the system's.
    pub(crate) root_certificates: Option<PathBuf>,
}

impl Address {
    pub(crate) fn parse(url: &str, command: &str) -> Result<Self> {
        let (url, encryption, root_certificates) = split_tls_settings(url)?;
        let mut config =
            Config::from_str(&url).map_err(|e| malformed_address(error_with_source(&e)))?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(malformed_address("it names no host"));
        }
        if config.get_dbname().is_none() {
            return Err(malformed_address("it names no database"));
        }
        config.ssl_mode(match encryption {
            Encryption::Disable => SslMode::Disable,
            Encryption::Prefer => SslMode::Prefer,
            Encryption::Require | Encryption::VerifyFull => SslMode::Require,
        });
        // Without a timeout an unreachable host blocks the thread for as long as the system
        // retries, which is minutes.
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(Duration::from_secs(10));
        }
        let name: String = format!("{command} (pid {})", std::process::id());
        // The server cuts application names after 63 bytes.
        config.application_name(name.chars().take(63).collect::<String>().as_str());
        Ok(Self {
            config,
            encryption,
            root_certificates,
        })
    }

    /// Host and database, for messages; never contains the password.
    pub(crate) fn location(&self) -> String {
        let host = match self.config.get_hosts().first() {
            Some(Host::Tcp(name)) => name.clone(),
            Some(Host::Unix(path)) => path.display().to_string(),
            None => match self.config.get_hostaddrs().first() {
                Some(address) => address.to_string(),
                None => "localhost".to_owned(),
            },
        };
        let port = self.config.get_ports().first().copied().unwrap_or(5432);
        let database = self.config.get_dbname().unwrap_or_default();
        format!("postgresql://{host}:{port}/{database}")
    }
}

fn error_with_source(error: &postgres::Error) -> String {
    // The client library puts the reason into the source error.
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

fn malformed_address(reason: impl std::fmt::Display) -> StoreError {
    StoreError::Address {
        reason: format!(
            "{reason}; write it as postgresql://user@host:5432/database?sslmode=require"
        ),
    }
}

/// Removes `sslmode` and `sslrootcert` from the URL, because the client supports only some of their
/// values.
fn split_tls_settings(url: &str) -> Result<(String, Encryption, Option<PathBuf>)> {
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    let mut encryption = Encryption::Prefer;
    let mut roots = None;
    let mut rest = Vec::new();
    for setting in query.split('&').filter(|setting| !setting.is_empty()) {
        match setting.split_once('=') {
            Some(("sslmode", mode)) => encryption = parse_encryption(mode)?,
            Some(("sslrootcert", path)) => roots = Some(PathBuf::from(percent_decode(path))),
            _ => rest.push(setting),
        }
    }
    let url = if rest.is_empty() {
        base.to_owned()
    } else {
        format!("{base}?{}", rest.join("&"))
    };
    Ok((url, encryption, roots))
}

fn parse_encryption(mode: &str) -> Result<Encryption> {
    match mode {
        "disable" => Ok(Encryption::Disable),
        "allow" | "prefer" => Ok(Encryption::Prefer),
        "require" => Ok(Encryption::Require),
        // Stricter than libpq: `verify-ca` does not check the host name there.
        "verify-ca" | "verify-full" => Ok(Encryption::VerifyFull),
        other => Err(malformed_address(format!(
            "sslmode `{other}` is unknown (disable, prefer, require, verify-full)"
        ))),
    }
}

/// Percent-decodes a path; malformed escapes are kept unchanged.
fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut index = 0;
    while index < bytes.len() {
        let digits = text.get(index + 1..index + 3);
        let code = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match (bytes[index], code) {
            (b'%', Some(code)) => {
                decoded.push(code);
                index += 3;
            }
            (byte, _) => {
                decoded.push(byte);
                index += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Address> {
        Address::parse(url, "agents test")
    }

    #[test]
    fn tls_settings_are_parsed_and_the_password_is_hidden() {
        let address = parse(
            "postgresql://me:hunter22@db.example/work?sslmode=verify-full&sslrootcert=/a%20b",
        )
        .unwrap();
        assert_eq!(address.encryption, Encryption::VerifyFull);
        assert_eq!(address.root_certificates, Some(PathBuf::from("/a b")));
        assert_eq!(address.location(), "postgresql://db.example:5432/work");
    }

    #[test]
    fn every_invalid_address_reports_the_reason() {
        for (url, reason) in [
            ("postgresql://h/d?sslmode=maybe", "sslmode `maybe`"),
            ("postgresql:///d", "no host"),
            ("postgresql://h", "no database"),
            ("postgresql://h:port/d", "port"),
            ("postgresql://h/d?colour=blue", "colour"),
        ] {
            let error = parse(url).unwrap_err().to_string();
            assert!(error.contains(reason), "{url}: {error}");
        }
    }
}
