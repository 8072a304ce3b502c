//! Recognises credential files by their names.
//!
//! The list errs towards too many names: a file that is left out is reported in a warning and can
//! be allowed, but a copied key stays copied.

/// Whole names.
const NAMES: [&str; 29] = [
    ".netrc",
    "_netrc",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".pypirc",
    ".pgpass",
    ".my.cnf",
    ".git-credentials",
    ".gitconfig",
    ".htpasswd",
    ".vault-token",
    ".dockercfg",
    ".s3cfg",
    ".boto",
    "kubeconfig",
    "auth.json",
    "credentials",
    "credentials.json",
    "credentials.toml",
    "credentials.yml",
    "credentials.yaml",
    "master.key",
    "terraform.tfvars",
    ".dev.vars",
    "local.settings.json",
    "nuget.config",
    "wp-config.php",
    "database.yml",
];

/// Prefixes.
const BEGINNINGS: [&str; 5] = [".env", "id_", "secrets.", "secret.", "service-account"];

/// Suffixes.
const ENDINGS: [&str; 16] = [
    ".env",
    ".pem",
    ".key",
    ".p12",
    ".pfx",
    ".jks",
    ".keystore",
    ".kdbx",
    ".ppk",
    ".asc",
    ".gpg",
    ".p8",
    ".tfstate",
    ".ovpn",
    ".auto.tfvars",
    ".token",
];

/// Whole words within a name.
const WORDS: [&str; 4] = ["credential", "credentials", "secret", "secrets"];

/// Folders that hold only credentials.
const FOLDERS: [&str; 10] = [
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".gcloud",
    ".kube",
    ".docker",
    "secrets",
    ".secrets",
    "credentials",
];

/// Names that match a prefix or suffix above but hold no credentials.
const HARMLESS: [&str; 5] = [
    ".env.example",
    ".env.sample",
    ".env.template",
    ".env.dist",
    ".envrc.example",
];

/// Whether the file at `path`, relative to its repository, is likely to hold credentials. Ignores
/// case, because some file systems do.
pub fn is_credential_file(path: &[u8]) -> bool {
    let path = String::from_utf8_lossy(path).to_ascii_lowercase();
    let mut components = path.rsplit('/');
    let name = components.next().unwrap_or_default();
    if components.any(|folder| FOLDERS.contains(&folder)) {
        return true;
    }
    if HARMLESS.contains(&name) {
        return false;
    }
    NAMES.contains(&name)
        || BEGINNINGS.iter().any(|part| name.starts_with(part))
        || ENDINGS.iter().any(|part| name.ends_with(part))
        || (is_settings(name) && words(name).any(|word| WORDS.contains(&word)))
}

/// Whether the name is that of a settings file rather than a program.
fn is_settings(name: &str) -> bool {
    let endings = [
        ".json", ".yml", ".yaml", ".toml", ".ini", ".cfg", ".conf", ".xml", ".txt",
    ];
    endings.iter().any(|it| name.ends_with(it))
}

fn words(name: &str) -> impl Iterator<Item = &str> {
    name.split(|it: char| !it.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_known_by_their_names() {
        for path in [
            ".env",
            ".env.local",
            "deep/down/.ENV.production",
            "prod.env",
            ".npmrc",
            "home/.netrc",
            "certs/server.pem",
            "certs/server.KEY",
            "id_rsa",
            "id_ed25519",
            ".ssh/config",
            "a/.aws/anything",
            "secrets/x",
            "config/master.key",
            "credentials.json",
            "google-credentials.json",
            "prod.secret.yaml",
            ".dev.vars",
            "config/database.yml",
        ] {
            assert!(is_credential_file(path.as_bytes()), "{path}");
        }
    }

    #[test]
    fn other_files_are_not_credentials() {
        for path in [
            "keep.log",
            "cache/keep",
            "node_modules/x/index.js",
            ".env.example",
            "environment.yml",
            "src/keyboard.rs",
            "ids.txt",
            "src/my-secret.rs",
            "docs/secretary.txt",
            "target/debug/app",
        ] {
            assert!(!is_credential_file(path.as_bytes()), "{path}");
        }
        assert!(!is_credential_file(b""));
        assert!(is_credential_file(b"odd \xff/.env"));
    }
}
