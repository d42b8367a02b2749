//! Precheck: both servers answer, let us in, and the destination has room.

use runtime::phase::{Handler, Progress, Step, Trouble};
use serde::{Deserialize, Serialize};

use super::{
    Env, Side, Stage,
    resp::{Connection, Error, command},
    server::Facts,
};

/// A server that is being restarted gets this many chances, some seconds apart; then it counts as missing.
const CHANCES: u32 = 3;
/// How many pages of SCAN are looked at to see which share of the keys a pattern matches.
const SAMPLE_PAGES: u32 = 20;
const SAMPLE_PAGE: u64 = 500;

/// The server can be reached, lets us in and can play its part.
pub struct Reachable(pub Side);

#[derive(Default, Serialize, Deserialize)]
struct Tried {
    tries: u32,
}

impl Handler<Stage, Env> for Reachable {
    async fn run(&self, env: &Env, progress: &mut Progress) -> Result<Step<Stage>, Trouble> {
        let endpoint = env.endpoint(self.0).await?;
        let facts = async { Facts::of(&mut endpoint.connect().await?).await }.await;
        let facts = match facts {
            Ok(facts) => facts,
            Err(error) if error.is_passing() => {
                let mut tried: Tried = progress.checkpoint()?;
                tried.tries += 1;
                progress.save(&tried).await?;
                if tried.tries >= CHANCES {
                    let why = format!(
                        "{error}; asked {CHANCES} times. Is it running, and is the address in its Secret right?"
                    );
                    return Err(endpoint.fatal("Unreachable", why));
                }
                return Err(endpoint.trouble(&error));
            }
            Err(error) => return Err(endpoint.trouble(&error)),
        };
        if facts.is_cluster {
            return Err(endpoint
                .fatal("ClusterUnsupported", "it is part of a Redis Cluster; migrate from or to single servers"));
        }
        if self.0 == Side::Dest && !facts.is_master {
            return Err(endpoint.fatal("ReadOnly", "it is a replica and takes no writes; name its master"));
        }
        progress.note(format!("{} is Redis {}", self.0.word(), facts.version));
        Ok(Step::Done)
    }
}

/// The destination has room for what will come.
pub struct Room;

impl Handler<Stage, Env> for Room {
    async fn run(&self, env: &Env, progress: &mut Progress) -> Result<Step<Stage>, Trouble> {
        let source = env.endpoint(Side::Source).await?;
        let dest = env.endpoint(Side::Dest).await?;
        let asked = async {
            let mut connection = source.connect().await?;
            let facts = Facts::of(&mut connection).await?;
            let share = share(&mut connection, &env.spec().key_pattern).await?;
            Ok((facts, share))
        };
        let (from, share) = asked.await.map_err(|error| source.trouble(&error))?;
        let asked = async { Facts::of(&mut dest.connect().await?).await };
        let to = asked.await.map_err(|error| dest.trouble(&error))?;
        if from.run_id == to.run_id && source.db == dest.db {
            return Err(Trouble::fatal(
                "SameDatabase",
                "source and dest are the same database; name two different ones",
            ));
        }
        let needed = (from.bytes_of(source.db) as f64 * share) as u64;
        let free = to.limit.map(|limit| limit.saturating_sub(to.used));
        if let Some(free) = free.filter(|free| *free < needed) {
            let why = format!(
                "not enough memory: about {} are needed and {} are free; raise its maxmemory or narrow spec.keyPattern",
                size(needed),
                size(free)
            );
            return Err(dest.fatal("NotEnoughMemory", why));
        }
        progress.note(format!("about {} to copy", size(needed)));
        Ok(Step::Done)
    }
}

/// Which share of the keys a pattern matches, from a sample.
async fn share(connection: &mut Connection, pattern: &str) -> Result<f64, Error> {
    if pattern == "*" {
        return Ok(1.0);
    }
    let (mut cursor, mut seen, mut matched) = ("0".to_owned(), 0u64, 0u64);
    for _ in 0..SAMPLE_PAGES {
        let command = command!["SCAN", cursor, "MATCH", pattern, "COUNT", SAMPLE_PAGE.to_string()];
        let mut answer = connection.call(command).await?.list()?.into_iter();
        cursor = answer.next().map_or(Ok("0".to_owned()), |next| next.text())?;
        matched += answer.next().map_or(Ok(0), |keys| keys.list().map(|keys| keys.len() as u64))?;
        seen += SAMPLE_PAGE;
        if cursor == "0" {
            seen = seen.min(connection.call(command!["DBSIZE"]).await?.integer()?.max(1) as u64);
            break;
        }
    }
    Ok((matched as f64 / seen.max(1) as f64).min(1.0))
}

fn size(bytes: u64) -> String {
    const MIB: f64 = 1024.0 * 1024.0;
    if bytes < 1024 * 1024 { format!("{} KiB", bytes / 1024) } else { format!("{:.1} MiB", bytes as f64 / MIB) }
}
