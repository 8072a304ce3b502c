//! A real cluster: tests can reach it, restart it and kill it, and it leaves nothing behind.

use std::path::Path;

use anyhow::Result;
use xtask::cluster::PostgresCluster;
use xtask::process;

fn query(cluster: &PostgresCluster, sql: &str) -> Result<String> {
    let ca = cluster.ca();
    process::capture(
        process::command("psql")
            .arg(format!(
                "{}?sslmode=verify-full&sslrootcert={}",
                cluster.url(),
                ca.display()
            ))
            .args(["--no-psqlrc", "--tuples-only", "--no-align", "-c", sql]),
    )
}

fn control(cluster: &PostgresCluster, verb: &str) -> Result<String> {
    process::capture(process::command(cluster.control()).arg(verb))
}

fn servers_in(folder: &Path) -> Result<usize> {
    let folder = folder.display().to_string();
    let processes = std::fs::read_dir("/proc")?;
    Ok(processes
        .filter_map(|entry| std::fs::read(entry.ok()?.path().join("cmdline")).ok())
        .filter(|line| String::from_utf8_lossy(line).contains(&folder))
        .count())
}

#[test]
fn a_cluster_obeys_its_script_and_leaves_nothing() -> Result<()> {
    let cluster = PostgresCluster::start()?;
    let folder = cluster.folder().to_path_buf();
    let encrypted = "select ssl from pg_stat_ssl where pid = pg_backend_pid()";
    assert_eq!(query(&cluster, encrypted)?, "t\n");
    assert_eq!(query(&cluster, "show fsync")?, "on\n");
    query(&cluster, "create table kept as select 1 as one")?;

    control(&cluster, "stop")?;
    assert!(query(&cluster, "select 1").is_err());
    control(&cluster, "stop")?;
    control(&cluster, "start")?;
    assert_eq!(query(&cluster, "select one from kept")?, "1\n");
    control(&cluster, "restart")?;
    assert_eq!(query(&cluster, "select one from kept")?, "1\n");
    for _ in 0..3 {
        control(&cluster, "kill")?;
        assert!(query(&cluster, "select 1").is_err());
        control(&cluster, "start")?;
        assert_eq!(query(&cluster, "select one from kept")?, "1\n");
    }

    drop(cluster);
    assert!(!folder.exists());
    assert_eq!(servers_in(&folder)?, 0);
    Ok(())
}
