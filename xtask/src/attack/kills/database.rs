//! A PostgreSQL database that can be reset to a saved state.

use anyhow::Result;

use crate::cluster::{PostgresCluster, packages};
use crate::process;

/// One database and its saved copy.
#[derive(Debug, Clone)]
pub struct AttackDatabase {
    cluster_url: String,
    name: String,
}

impl AttackDatabase {
    /// Creates an empty database.
    pub fn new(cluster: &PostgresCluster, name: &str) -> Result<AttackDatabase> {
        let database = AttackDatabase {
            cluster_url: cluster.url(),
            name: name.to_owned(),
        };
        database.execute(&format!("CREATE DATABASE {name}"))?;
        Ok(database)
    }

    pub fn url(&self) -> String {
        match self.cluster_url.rsplit_once('/') {
            Some((server, _)) => format!("{server}/{}?sslmode=disable", self.name),
            None => self.cluster_url.clone(),
        }
    }

    pub fn save(&self) -> Result<()> {
        let name = &self.name;
        self.execute(&format!("CREATE DATABASE {name}_saved TEMPLATE {name}"))
    }

    pub fn restore(&self) -> Result<()> {
        let name = &self.name;
        self.execute(&format!("DROP DATABASE {name} WITH (FORCE)"))?;
        self.execute(&format!("CREATE DATABASE {name} TEMPLATE {name}_saved"))
    }

    fn execute(&self, sql: &str) -> Result<()> {
        let programs = packages::ensure()?;
        let mut psql = process::command(programs.postgres.join("psql"));
        psql.args([
            &self.cluster_url,
            "-qAt",
            "-v",
            "ON_ERROR_STOP=1",
            "-c",
            sql,
        ]);
        process::capture(&mut psql)?;
        Ok(())
    }
}
