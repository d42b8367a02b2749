//! Going through all keys of the source, page by page, with a cursor that survives a restart.

use std::collections::HashSet;

use runtime::phase::{Progress, Trouble};
use serde::{Deserialize, Serialize};
use tokio::time::{Duration, Instant};

use super::{
    Env, Side,
    endpoint::Endpoint,
    resp::{Connection, Error, command},
    server::Facts,
};

/// How many keys are asked for at once.
const PAGE: u64 = 512;
/// How many values are under way at once per pair of connections.
pub const CHUNK: usize = 16;
/// A checkpoint is a write of the status: not more often than this.
const EVERY: Duration = Duration::from_secs(2);

/// Where the way through the keys stands.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Walk {
    /// The cursor of SCAN the next page begins at.
    pub cursor: String,
    /// The start of the server the cursor belongs to.
    pub run_id: String,
    /// Keys seen.
    pub seen: u64,
    /// About how many there are.
    pub total: u64,
    /// What happened to them.
    #[serde(flatten)]
    pub tally: Tally,
    /// How often the way was begun anew because the source was restarted.
    pub restarts: u32,
}

/// What happened to keys.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Tally {
    /// Written, or found equal.
    pub done: u64,
    /// Left as they are on the destination.
    pub kept: u64,
    /// Expired or deleted on the source in the meantime.
    pub vanished: u64,
    /// Bytes of their serialised values.
    pub bytes: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.done += other.done;
        self.kept += other.kept;
        self.vanished += other.vanished;
        self.bytes += other.bytes;
    }
}

/// A connection to each server.
pub struct Pair {
    /// Where the keys are.
    pub source: Connection,
    /// Where they go.
    pub dest: Connection,
}

/// What went wrong, and with whom.
pub enum Hitch {
    /// The source.
    Source(Error),
    /// The destination.
    Dest(Error),
    /// The migration itself.
    Trouble(Trouble),
}

/// What is done with some keys.
pub trait Work: Sync {
    /// The word for it in messages: `copied`.
    const WORD: &'static str;
    /// Does it.
    fn keys(&self, env: &Env, pair: &mut Pair, keys: &[Vec<u8>]) -> impl Future<Output = Result<Tally, Hitch>> + Send;
}

/// Goes through all keys and does `work` with each at least once.
pub async fn walk<W: Work>(work: &W, env: &Env, progress: &mut Progress) -> Result<Walk, Trouble> {
    let source = env.endpoint(Side::Source).await?;
    let dest = env.endpoint(Side::Dest).await?;
    let mut at: Walk = progress.checkpoint()?;
    let (mut scanner, mut pairs) = connect(&source, &dest, env.spec().concurrency).await?;
    let facts = Facts::of(&mut scanner).await.map_err(|error| source.trouble(&error))?;
    if at.run_id != facts.run_id {
        // A cursor of another process would skip keys. Doing keys again is harmless.
        let restarts = at.restarts + u32::from(!at.run_id.is_empty());
        at = Walk { run_id: facts.run_id.clone(), cursor: "0".to_owned(), restarts, ..Walk::default() };
    }
    at.total = facts.keys.get(&source.db).copied().unwrap_or(0);
    let mut saved = Instant::now();
    loop {
        let page = command!["SCAN", at.cursor, "MATCH", env.spec().key_pattern, "COUNT", PAGE.to_string()];
        let (next, keys) = scan(&mut scanner, page).await.map_err(|error| source.trouble(&error))?;
        at.seen += keys.len() as u64;
        at.tally += spread(work, env, &mut pairs, &keys).await.map_err(|hitch| match hitch {
            Hitch::Source(error) => source.trouble(&error),
            Hitch::Dest(error) => dest.trouble(&error),
            Hitch::Trouble(trouble) => trouble,
        })?;
        at.cursor = next;
        let Tally { done, kept, .. } = at.tally;
        let kept = if kept > 0 { format!(", {kept} left as they were") } else { String::new() };
        progress.note(format!("{done} of about {} keys {}{kept}", at.total.max(done), W::WORD));
        if at.cursor == "0" {
            progress.save(&at).await?;
            return Ok(at);
        }
        if saved.elapsed() >= EVERY || progress.stopping().is_cancelled() {
            progress.save(&at).await?;
            saved = Instant::now();
        }
    }
}

async fn connect(source: &Endpoint, dest: &Endpoint, pairs: u32) -> Result<(Connection, Vec<Pair>), Trouble> {
    let from = async || source.connect().await.map_err(|error| source.trouble(&error));
    let scanner = from().await?;
    let mut open = Vec::new();
    for _ in 0..pairs.clamp(1, 32) {
        let to = dest.connect().await.map_err(|error| dest.trouble(&error))?;
        open.push(Pair { source: from().await?, dest: to });
    }
    Ok((scanner, open))
}

/// One page: the next cursor and the keys, each once.
async fn scan(connection: &mut Connection, command: Vec<Vec<u8>>) -> Result<(String, Vec<Vec<u8>>), Error> {
    let mut answer = connection.call(command).await?.list()?.into_iter();
    let (Some(cursor), Some(keys), None) = (answer.next(), answer.next(), answer.next()) else {
        return Err(Error::Protocol("SCAN did not answer with a cursor and keys".to_owned()));
    };
    let mut seen = HashSet::new();
    let mut unique = Vec::new();
    for key in keys.list()? {
        let key = key.bytes()?.unwrap_or_default();
        if seen.insert(key.clone()) {
            unique.push(key);
        }
    }
    Ok((cursor.text()?, unique))
}

/// The keys of a page over all pairs, in chunks.
async fn spread<W: Work>(work: &W, env: &Env, pairs: &mut [Pair], keys: &[Vec<u8>]) -> Result<Tally, Hitch> {
    let share = keys.len().div_ceil(pairs.len().max(1)).max(1);
    let parts = pairs.iter_mut().zip(keys.chunks(share)).map(async |(pair, keys)| {
        let mut tally = Tally::default();
        for chunk in keys.chunks(CHUNK) {
            tally += work.keys(env, pair, chunk).await?;
        }
        Ok(tally)
    });
    let tallies = futures_util::future::try_join_all(parts).await?;
    Ok(tallies.into_iter().fold(Tally::default(), |mut all, tally| {
        all += tally;
        all
    }))
}

/// A key for people: text where it is text, shortened.
pub fn shown(key: &[u8]) -> String {
    let text: String = key.escape_ascii().to_string();
    if text.len() <= 80 { text } else { format!("{}…", &text[..80]) }
}
