//! Repeats tests of root as an unprivileged user.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::world::AGENTS_VARIABLE;

/// The user `nobody`, which every machine has.
const USER_ID: &str = "65534";

const AS_USER_VARIABLE: &str = "CONFINEMENT_TEST_AS_USER";

/// Returns whether a test of root started this process as that user.
#[expect(
    clippy::disallowed_methods,
    reason = "the environment says what part this process plays"
)]
pub(crate) fn is_another_user() -> bool {
    std::env::var_os(AS_USER_VARIABLE).is_some()
}

/// An unprivileged user with a home and with our programs in a place that the user can access.
pub(crate) struct OtherUser {
    folder: TempDir,
    test: PathBuf,
    agents: PathBuf,
}

impl OtherUser {
    /// Returns `None` unless root runs the tests.
    pub(crate) fn new() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let folder = tempfile::tempdir_in("/tmp").unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let reachable = |program: &Path, name: &str| {
            let copy = folder.path().join(name);
            fs::hard_link(program, &copy)
                .or_else(|_| fs::copy(program, &copy).map(drop))
                .unwrap();
            copy
        };
        let test = reachable(&std::env::current_exe().unwrap(), "test");
        let agents = reachable(Path::new(env!("CARGO_BIN_EXE_agents")), "agents");
        Some(Self {
            test,
            agents,
            folder,
        })
    }

    /// Runs one test of this binary as the user.
    #[expect(clippy::disallowed_methods, reason = "tests play another user")]
    pub(crate) fn run(&self, test: &str) {
        let output = Command::new("setpriv")
            .args([
                "--reuid",
                USER_ID,
                "--regid",
                USER_ID,
                "--clear-groups",
                "--",
            ])
            .arg(&self.test)
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
            .env("HOME", self.folder.path())
            .env(AS_USER_VARIABLE, "1")
            .env(AGENTS_VARIABLE, &self.agents)
            .current_dir(self.folder.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let complained = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}{complained}");
        assert!(said.contains("1 passed"), "{said}");
    }
}
