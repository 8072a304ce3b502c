//! Certificates for this run only: our own authority and a server certificate that it signs.
//!
//! One self-signed certificate would be shorter, but strict clients refuse an authority as a
//! server.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::account::ClusterAccount;
use crate::{files, process};

const NEW_KEY: [&str; 5] = [
    "-newkey",
    "ec",
    "-pkeyopt",
    "ec_paramgen_curve:prime256v1",
    "-nodes",
];

const SERVER_EXTENSIONS: &str = "\
basicConstraints=critical,CA:FALSE
keyUsage=critical,digitalSignature
extendedKeyUsage=serverAuth
subjectAltName=DNS:localhost,IP:127.0.0.1
";

/// Writes `ca.pem` to `folder`, and `server.crt` with `server.key` to the account's `home`.
pub fn create(folder: &Path, home: &Path, account: &ClusterAccount) -> Result<()> {
    let openssl = || -> Command {
        let mut command = account.command("openssl");
        command.current_dir(home);
        command
    };
    process::capture(
        openssl()
            .args(["req", "-x509", "-days", "30", "-out", "ca.pem"])
            .args(["-keyout", "ca.key", "-subj", "/CN=CleverAgents test CA"])
            .args(NEW_KEY),
    )?;
    process::capture(
        openssl()
            .args(["req", "-new", "-out", "server.csr"])
            .args(["-keyout", "server.key", "-subj", "/CN=localhost"])
            .args(NEW_KEY),
    )?;
    let extensions = folder.join("server.ext");
    files::write(&extensions, SERVER_EXTENSIONS)?;
    process::capture(
        openssl()
            .args(["x509", "-req", "-days", "30", "-in", "server.csr"])
            .args(["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"])
            .args(["-out", "server.crt", "-extfile"])
            .arg(&extensions),
    )?;
    std::fs::remove_file(home.join("ca.key"))?;
    files::write(&folder.join("ca.pem"), &files::read(&home.join("ca.pem"))?)
}
