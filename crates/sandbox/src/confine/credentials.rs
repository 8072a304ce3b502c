//! Where people and programs keep what opens other doors.

use std::path::{Path, PathBuf};

/// Below a home. It matters only where a setting makes a home readable.
const IN_HOME: [&str; 45] = [
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
];

/// Directly in the folder of a toolchain, or in one of these.
const IN_TOOLCHAIN: [&str; 13] = [
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
];

/// What files with secrets in a project are called, and what they begin with.
const SECRET_FILES: &str = ".env";

/// Credentials below this home, whether or not they are there now.
pub(super) fn in_home(home: &Path) -> impl Iterator<Item = PathBuf> {
    let home = home.to_owned();
    IN_HOME.iter().map(move |name| home.join(name))
}

/// Whether a file of this name in the folder of a toolchain is for its owner only.
pub(super) fn is_secret_in_toolchain(name: &[u8]) -> bool {
    IN_TOOLCHAIN.iter().any(|known| known.as_bytes() == name)
        || name.starts_with(SECRET_FILES.as_bytes())
}
