//! What a server says about itself: INFO, read for the few facts a migration needs.

use std::collections::HashMap;

use super::resp::{Connection, Error, command};

/// Facts about a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Made anew at each start; cursors of SCAN mean nothing to another one.
    pub run_id: String,
    /// `7.0.15`.
    pub version: String,
    /// Whether it takes writes of its own.
    pub is_master: bool,
    /// Whether keys are spread over several servers.
    pub is_cluster: bool,
    /// Bytes in use.
    pub used: u64,
    /// Bytes the keys and values take.
    pub dataset: u64,
    /// Bytes it may use; `None` when there is no limit.
    pub limit: Option<u64>,
    /// Keys per database.
    pub keys: HashMap<u32, u64>,
}

impl Facts {
    /// Asks.
    pub async fn of(connection: &mut Connection) -> Result<Self, Error> {
        Self::read(&connection.call(command!["INFO"]).await?.text()?)
    }

    fn read(info: &str) -> Result<Self, Error> {
        let fields: HashMap<&str, &str> = info.lines().filter_map(|line| line.trim().split_once(':')).collect();
        let text = |name: &str| fields.get(name).copied().unwrap_or_default();
        let number = |name: &str| text(name).parse::<u64>().unwrap_or(0);
        let run_id = text("run_id").to_owned();
        if run_id.is_empty() {
            return Err(Error::Protocol("INFO has no run_id".to_owned()));
        }
        // The stricter of what is configured and what the machine has.
        let machine = Some(number("total_system_memory")).filter(|bytes| *bytes > 0);
        let configured = Some(number("maxmemory")).filter(|bytes| *bytes > 0);
        let keys = fields.iter().filter_map(|(name, value)| {
            let db = name.strip_prefix("db")?.parse().ok()?;
            let count = value.split(',').find_map(|part| part.strip_prefix("keys="))?.parse().ok()?;
            Some((db, count))
        });
        Ok(Self {
            run_id,
            version: text("redis_version").to_owned(),
            is_master: text("role") != "slave",
            is_cluster: text("cluster_enabled") == "1",
            used: number("used_memory"),
            dataset: number("used_memory_dataset"),
            limit: [machine, configured].into_iter().flatten().min(),
            keys: keys.collect(),
        })
    }

    /// About how many bytes the keys of one database take: its share by number of keys.
    pub fn bytes_of(&self, db: u32) -> u64 {
        let all: u64 = self.keys.values().sum();
        let these = self.keys.get(&db).copied().unwrap_or(0);
        if all == 0 { 0 } else { (u128::from(self.dataset) * u128::from(these) / u128::from(all)) as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn info_is_read_for_what_matters() {
        // KC-7
        let info = "# Server\r\nredis_version:7.0.15\r\nrun_id:abc\r\n# Memory\r\nused_memory:1000\r\nused_memory_dataset:800\r\n\
            maxmemory:5000\r\ntotal_system_memory:9000\r\nrole:master\r\ncluster_enabled:0\r\n# Keyspace\r\n\
            db0:keys=30,expires=0,avg_ttl=0\r\ndb3:keys=10,expires=0,avg_ttl=0\r\n";
        let facts = Facts::read(info).unwrap();
        assert_eq!((facts.bytes_of(0), facts.bytes_of(3), facts.bytes_of(1)), (600, 200, 0));
        assert_eq!(facts.limit, Some(5000));
        assert!(facts.is_master && !facts.is_cluster);
        assert!(Facts::read("hello").is_err());
    }
}
