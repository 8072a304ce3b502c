//! Paths where people and programs keep credentials.

use std::io::Read;
use std::path::{Path, PathBuf};

/// Below a home. Matters only if a setting makes a home readable.
const IN_HOME: [&str; 90] = [
    ".ssh",
    ".aws",
    ".gnupg",
    ".netrc",
    ".config/gh",
    ".config/hub",
    ".config/glab-cli",
    ".config/gcloud",
    ".config/git/credentials",
    ".config/op",
    ".config/rclone",
    ".config/sops",
    ".config/google-chrome",
    ".config/chromium",
    ".config/BraveSoftware",
    ".config/github-copilot",
    ".azure",
    ".kube",
    ".docker",
    ".git-credentials",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".pypirc",
    ".pgpass",
    ".my.cnf",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".m2/settings.xml",
    ".m2/settings-security.xml",
    ".gradle/gradle.properties",
    ".terraform.d",
    ".vault-token",
    ".password-store",
    ".local/share/keyrings",
    ".mozilla",
    ".thunderbird",
    ".claude",
    ".claude.json",
    ".codex",
    ".gemini",
    ".bash_history",
    ".zsh_history",
    ".python_history",
    ".mysql_history",
    ".psql_history",
    ".node_repl_history",
    ".viminfo",
    ".lesshst",
    ".sqlite_history",
    ".local/share/fish/fish_history",
    ".ipython",
    ".config/google-chrome-beta",
    ".config/microsoft-edge",
    ".config/vivaldi",
    ".config/opera",
    ".opera",
    ".Xauthority",
    ".ICEauthority",
    ".config/containers/auth.json",
    ".cache/huggingface/token",
    ".huggingface/token",
    ".pulumi",
    ".composer/auth.json",
    ".config/composer/auth.json",
    ".bundle/config",
    ".authinfo",
    ".authinfo.gpg",
    ".ivy2/.credentials",
    ".sbt/.credentials",
    ".local/share/kwalletd",
    ".conan2/credentials.json",
    ".config/pypoetry/auth.toml",
    ".databrickscfg",
    ".config/doctl",
    ".config/heroku",
    ".config/fly",
    ".fly",
    ".config/stripe",
    ".config/ngrok",
    ".boto",
    ".s3cfg",
    ".oci",
    ".config/age",
    ".config/libsecret",
    ".pki",
    ".subversion/auth",
    ".wget-hsts",
    ".local/share/uv/credentials",
];

/// Names of credential files and folders inside a toolchain.
const IN_TOOLCHAIN: [&str; 15] = [
    "credentials",
    "credentials.toml",
    ".npmrc",
    "npmrc",
    ".netrc",
    ".pypirc",
    ".git-credentials",
    "auth.json",
    "gradle.properties",
    "init.gradle",
    "settings.xml",
    "settings-security.xml",
    "NuGet.Config",
    "pip.conf",
    ".git",
];

/// Prefixes of the names of files with secrets, including copies such as `.env.local`.
const SECRET_FILES: [&str; 2] = [".env", "credentials"];

/// Settings of cargo, which may contain registry tokens.
const CARGO_SETTINGS: [&str; 2] = ["config", "config.toml"];
/// Maximum number of bytes searched for a token.
const CARGO_SETTINGS_MAXIMUM: usize = 1 << 16;

/// Returns credential paths below this home, whether or not they exist.
pub(super) fn in_home(home: &Path) -> impl Iterator<Item = PathBuf> {
    let home = home.to_owned();
    IN_HOME.iter().map(move |name| home.join(name))
}

/// Returns whether a file of this name in the folder of a toolchain is secret.
pub(super) fn is_secret_in_toolchain(name: &[u8]) -> bool {
    IN_TOOLCHAIN.iter().any(|known| known.as_bytes() == name)
        || SECRET_FILES
            .iter()
            .any(|it| name.starts_with(it.as_bytes()))
}

/// Returns whether a settings file of a toolchain contains a token. A file that cannot be searched
/// completely, because it is too large or not text, counts as containing one.
pub(super) fn has_token(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    let is_settings = CARGO_SETTINGS.iter().any(|it| name == *it);
    if !is_settings || !path.is_file() {
        return false;
    }
    let mut content = String::new();
    let read = std::fs::File::open(path).and_then(|file| {
        // One more byte shows that the file is too large.
        let mut start = file.take(CARGO_SETTINGS_MAXIMUM as u64 + 1);
        start.read_to_string(&mut content)
    });
    read.is_err() || content.len() > CARGO_SETTINGS_MAXIMUM || content.contains("token")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_cargo_that_cannot_be_searched_as_a_whole_count_as_a_token() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        let token = "[registry]\ntoken = \"SECRET\"\n";
        let padded = |length: usize| format!("{}\n", "#".repeat(length - 1));
        for (content, expected) in [
            (String::new(), false),
            (token.to_owned(), true),
            (padded(CARGO_SETTINGS_MAXIMUM), false),
            (padded(CARGO_SETTINGS_MAXIMUM + 1), true),
            (padded(CARGO_SETTINGS_MAXIMUM) + token, true),
        ] {
            crate::files::replace(&path, content.as_bytes()).unwrap();
            assert_eq!(has_token(&path), expected, "{} bytes", content.len());
        }
        crate::files::replace(&path, b"\xff").unwrap();
        assert!(has_token(&path));
        assert!(!has_token(&folder.path().join("absent")));
    }
}
