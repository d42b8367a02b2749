//! Whether a key is the same on both servers.
//!
//! Equal DUMPs are equal values. Unequal ones need not differ: a large set or hash is dumped in the order of its hash table, which
//! is different in every process, and another version may encode otherwise. Then the elements are compared, in pieces.

use super::{
    pages::{Hitch, Pair},
    resp::{Command, Connection, Error, Reply, command},
};

/// Elements compared at once.
const PIECE: i64 = 1000;
/// The clocks of two servers, and the time between reading and writing.
const TTL_TOLERANCE_MS: i64 = 10_000;

/// What a comparison came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The same value, about the same time to live.
    Alike,
    /// Not on the source any more.
    Gone,
    /// Different, and how.
    Unlike(&'static str),
}

/// Compares some keys.
pub async fn alike(pair: &mut Pair, keys: &[Vec<u8>]) -> Result<Vec<Verdict>, Hitch> {
    let commands: Vec<Command> = keys.iter().flat_map(|key| [command!["DUMP", key], command!["PTTL", key]]).collect();
    let Pair { source, dest } = &mut *pair;
    let (from, to) = tokio::join!(source.pipeline(&commands), dest.pipeline(&commands));
    let (mut from, mut to) = (from.map_err(Hitch::Source)?.into_iter(), to.map_err(Hitch::Dest)?.into_iter());
    let mut verdicts = Vec::with_capacity(keys.len());
    for key in keys {
        let [a, b] = [dump_and_ttl(&mut from).map_err(Hitch::Source)?, dump_and_ttl(&mut to).map_err(Hitch::Dest)?];
        verdicts.push(match (a, b) {
            ((None, _), _) => Verdict::Gone,
            // It ran out on one side a moment before the other.
            ((Some(_), 0..=1000), (None, _)) => Verdict::Gone,
            (_, (None, _)) => Verdict::Unlike("missing"),
            ((_, a), (_, b)) if !close(a, b) => Verdict::Unlike("time to live"),
            ((Some(a), _), (Some(b), _)) if a == b => Verdict::Alike,
            _ => same(pair, key).await?.map_or(Verdict::Alike, Verdict::Unlike),
        });
    }
    Ok(verdicts)
}

fn dump_and_ttl(replies: &mut impl Iterator<Item = Reply>) -> Result<(Option<Vec<u8>>, i64), Error> {
    let missing = || Error::Protocol("an answer is missing".to_owned());
    let dump = replies.next().ok_or_else(missing)?.bytes()?;
    let ttl = replies.next().ok_or_else(missing)?.integer()?;
    Ok((dump, ttl))
}

fn close(a: i64, b: i64) -> bool {
    (a < 0) == (b < 0) && (a - b).abs() <= TTL_TOLERANCE_MS
}

/// Compares the values of one key by their type; says how they differ.
pub async fn same(pair: &mut Pair, key: &[u8]) -> Result<Option<&'static str>, Hitch> {
    let (from, to) = both(pair, command!["TYPE", key]).await?;
    let kind = from.text().map_err(Hitch::Source)?;
    if kind != to.text().map_err(Hitch::Dest)? {
        return Ok(Some("type"));
    }
    match kind.as_str() {
        "none" => Ok(None),
        "string" => equal(pair, command!["GET", key]).await,
        "list" => in_order(pair, command!["LLEN", key], |at, end| command!["LRANGE", key, at, end]).await,
        "zset" => {
            in_order(pair, command!["ZCARD", key], |at, end| command!["ZRANGE", key, at, end, "WITHSCORES"]).await
        }
        "set" => members(pair, key).await,
        "hash" => fields(pair, key).await,
        "stream" => stream(pair, key).await,
        // A module's type: only its DUMP is known, and a destination with the module would have dumped the same.
        _ => equal(pair, command!["DUMP", key]).await,
    }
}

async fn both(pair: &mut Pair, command: Command) -> Result<(Reply, Reply), Hitch> {
    let (from, to) = tokio::join!(pair.source.call(command.clone()), pair.dest.call(command));
    Ok((from.map_err(Hitch::Source)?, to.map_err(Hitch::Dest)?))
}

async fn equal(pair: &mut Pair, command: Command) -> Result<Option<&'static str>, Hitch> {
    let (from, to) = both(pair, command).await?;
    Ok((from != to).then_some("value"))
}

/// Lists and sorted sets: position by position.
async fn in_order(
    pair: &mut Pair,
    count: Command,
    range: impl Fn(String, String) -> Command,
) -> Result<Option<&'static str>, Hitch> {
    let (from, to) = both(pair, count).await?;
    let length = from.integer().map_err(Hitch::Source)?;
    if length != to.integer().map_err(Hitch::Dest)? {
        return Ok(Some("length"));
    }
    for at in (0..length).step_by(PIECE as usize) {
        let piece = range(at.to_string(), (at + PIECE - 1).to_string());
        if equal(pair, piece).await?.is_some() {
            return Ok(Some("value"));
        }
    }
    Ok(None)
}

/// The elements of one page of SSCAN or HSCAN.
async fn page(source: &mut Connection, verb: &str, key: &[u8], cursor: &str) -> Result<(String, Vec<Vec<u8>>), Error> {
    let mut answer = source.call(command![verb, key, cursor, "COUNT", PIECE.to_string()]).await?.list()?.into_iter();
    let cursor = answer.next().map_or(Ok("0".to_owned()), Reply::text)?;
    let elements = answer.next().map_or(Ok(Vec::new()), Reply::list)?;
    let elements: Result<_, _> = elements.into_iter().map(|e| e.bytes().map(Option::unwrap_or_default)).collect();
    Ok((cursor, elements?))
}

/// Sets: as many members, and each of the source's is one of the destination's.
async fn members(pair: &mut Pair, key: &[u8]) -> Result<Option<&'static str>, Hitch> {
    if equal(pair, command!["SCARD", key]).await?.is_some() {
        return Ok(Some("size"));
    }
    let mut cursor = "0".to_owned();
    loop {
        let (next, members) = page(&mut pair.source, "SSCAN", key, &cursor).await.map_err(Hitch::Source)?;
        let asks: Vec<Command> = members.iter().map(|member| command!["SISMEMBER", key, member]).collect();
        for answer in pair.dest.pipeline(&asks).await.map_err(Hitch::Dest)? {
            if answer.integer().map_err(Hitch::Dest)? != 1 {
                return Ok(Some("value"));
            }
        }
        if next == "0" {
            return Ok(None);
        }
        cursor = next;
    }
}

/// Hashes: as many fields, and each of the source's has the same value.
async fn fields(pair: &mut Pair, key: &[u8]) -> Result<Option<&'static str>, Hitch> {
    if equal(pair, command!["HLEN", key]).await?.is_some() {
        return Ok(Some("size"));
    }
    let mut cursor = "0".to_owned();
    loop {
        let (next, pairs) = page(&mut pair.source, "HSCAN", key, &cursor).await.map_err(Hitch::Source)?;
        let asks: Vec<Command> = pairs.chunks(2).map(|field| command!["HGET", key, field[0]]).collect();
        let answers = pair.dest.pipeline(&asks).await.map_err(Hitch::Dest)?;
        for (field, answer) in pairs.chunks(2).zip(answers) {
            if answer.bytes().map_err(Hitch::Dest)?.as_ref() != field.get(1) {
                return Ok(Some("value"));
            }
        }
        if next == "0" {
            return Ok(None);
        }
        cursor = next;
    }
}

/// Streams: entries in order, then the groups that read them.
async fn stream(pair: &mut Pair, key: &[u8]) -> Result<Option<&'static str>, Hitch> {
    if equal(pair, command!["XLEN", key]).await?.is_some() {
        return Ok(Some("length"));
    }
    let mut after = "-".to_owned();
    loop {
        let (from, to) = both(pair, command!["XRANGE", key, after, "+", "COUNT", PIECE.to_string()]).await?;
        if from != to {
            return Ok(Some("value"));
        }
        let entries = from.list().map_err(Hitch::Source)?;
        let full = entries.len() as i64 == PIECE;
        let last = entries.into_iter().next_back().and_then(|entry| entry.list().ok()?.into_iter().next()?.text().ok());
        match last {
            Some(id) if full => after = format!("({id}"),
            _ => break,
        }
    }
    Ok(equal(pair, command!["XINFO", "GROUPS", key]).await?.map(|_| "groups"))
}
