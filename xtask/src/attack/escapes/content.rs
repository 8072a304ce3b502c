//! The content of the machine that sandboxes must not reach.

use anyhow::Result;

use super::credentials::{IN_HOME, OUTSIDE_HOME};
use super::target_machine::HomeKind;
use crate::attack::machine::{Machine, to_strings};
use crate::attack::options::AttackAccount;

/// Restores the folder outside, the repository and the folder of controls.
pub const RESET: &str = r#"cd "$OUT/.." || exit 1
chmod -R u+w outside/planted 2>/dev/null
rm -rf outside/planted outside/moved outside/pipe outside/fired control
[ "$(cat outside/file 2>/dev/null)" = outside ] || echo outside > outside/file
chmod 644 outside/file
[ -e outside/secret ] || printf %s "$HOST_SECRET" > outside/secret
printf %s "$HOST_SECRET" > outside/opened
rm -rf shop control && cp -a saved-shop shop || exit 1
mkdir -p control/tree control/scratch && cp shop/a control/tree/ && echo "gitdir: $PWD/shop/.git" > control/tree/.git
exit 0"#;

/// Creates the home, the repositories and the secret files.
pub fn create_content(machine: &Machine, name: &str) -> Result<()> {
    let homes = IN_HOME.iter().map(|path| format!("home/{path}"));
    let all = homes.chain(OUTSIDE_HOME.iter().map(|path| (*path).to_owned()));
    let repository = r#"put() { mkdir -p "$(dirname "$1")" && printf %s "$HOST_SECRET" > "$1"; }
set -e
git init -q -b main shop; cd shop
printf '1\n2\n3\n' > a; mkdir dir; echo b > dir/b; printf '.env*\n' > .gitignore
ln -s "$OUT" out; ln -s "$OUT/secret" secret-link
mkdir inside; echo inside > inside/file; echo inside > inside/secret; printf "def f():\n    pass\n" > inside/code.py
git init -q -b main library; echo l > library/l; git -C library add -A; git -C library commit -qm l
git -c protocol.file.allow=always submodule --quiet add ./library library 2>/dev/null || git add library
git add -A; git commit -qm first
git worktree add -q ../shop-linked -b linked
cd ..
mkdir -p plain home/.cargo/bin home/.nvm/versions/node/v1/bin home/.pyenv/shims home/go/bin
echo outside > outside/file; printf %s "$HOST_SECRET" > outside/opened; : > "outside/$HOST_SECRET"; printf "def $HOST_SECRET():\n    pass\n" > outside/code.py
"#;
    let mut script = repository.to_owned();
    for path in all {
        script += &format!("put '{path}'\n");
    }
    for place in ["/tmp", "/var/tmp", "/dev/shm"] {
        script += &format!("put {place}/{name}-secret\n");
    }
    script += "printf '[provider.openai]\\napi-key = \"%s\"\\n' \"$HOST_KEY\" > settings/config.toml\n\
               mkdir -p home/.cleveragents; chmod 700 home/.cleveragents\n\
               printf '# %s\\n' \"$HOST_SECRET\" > home/.cleveragents/config.toml\n\
               cp -a shop saved-shop\n";
    machine.must_shell(&script)?;
    machine.must_shell(RESET)?;
    Ok(())
}

pub fn set_home(machine: &mut Machine, home: HomeKind) -> Result<()> {
    if matches!(home, HomeKind::Usual | HomeKind::Temporary) {
        return Ok(());
    }
    let folder = machine.path("home").display().to_string();
    let id = if machine.account() == AttackAccount::Root {
        0
    } else {
        65534
    };
    let accounts = format!("root:x:{id}:{id}:made up:{folder}:/bin/sh\n");
    machine.write("passwd", accounts.as_bytes())?;
    let passwd = machine.path("passwd").display().to_string();
    let mount = r#"mount --bind "$0" /etc/passwd && exec "$@""#;
    let words = [
        "unshare",
        "-m",
        "--propagation",
        "private",
        "sh",
        "-c",
        mount,
    ];
    machine.outer = to_strings(&[&words[..], &[&passwd]].concat());
    let elsewhere = machine.path("elsewhere").display().to_string();
    machine.must_shell("mkdir elsewhere")?;
    let value = match home {
        HomeKind::Another => elsewhere,
        _ => String::new(),
    };
    machine.variables.push(("HOME".into(), value));
    let data = machine.path("home/.cleveragents").display().to_string();
    machine
        .variables
        .push(("CLEVERAGENTS_DATA_DIR".into(), data));
    Ok(())
}

/// The system's folders, and those that toolchains in the home add.
pub fn search_path(machine: &Machine) -> String {
    let homes = [
        ".cargo/bin",
        ".nvm/versions/node/v1/bin",
        ".pyenv/shims",
        "go/bin",
    ];
    let homes = homes.map(|it| machine.path("home").join(it).display().to_string());
    format!(
        "{}:{}",
        crate::attack::machine::SEARCH_PATH,
        homes.join(":")
    )
}
