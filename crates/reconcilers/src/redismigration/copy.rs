//! Copying: DUMP and PTTL at the source, RESTORE at the destination. Doing a key again changes nothing.

use runtime::phase::{Handler, Progress, Step, Trouble};

use super::{
    Env, Overwrite, Stage, compare,
    pages::{Hitch, Pair, Tally, Work, shown, walk},
    resp::{Command, Error, Reply, command},
};

/// The first part of Migrate.
pub struct Copy;

impl Handler<Stage, Env> for Copy {
    async fn run(&self, env: &Env, progress: &mut Progress) -> Result<Step<Stage>, Trouble> {
        walk(self, env, progress).await?;
        Ok(Step::Done)
    }
}

impl Work for Copy {
    const WORD: &'static str = "copied";

    async fn keys(&self, env: &Env, pair: &mut Pair, keys: &[Vec<u8>]) -> Result<Tally, Hitch> {
        let mut tally = Tally::default();
        let read: Vec<Command> = keys.iter().flat_map(|key| [command!["DUMP", key], command!["PTTL", key]]).collect();
        let mut read = pair.source.pipeline(&read).await.map_err(Hitch::Source)?.into_iter();
        let (mut writes, mut written) = (Vec::new(), Vec::new());
        for key in keys {
            let value = read.next().map_or(Ok(None), Reply::bytes).map_err(Hitch::Source)?;
            let ttl = read.next().map_or(Ok(-2), Reply::integer).map_err(Hitch::Source)?;
            let Some(value) = value.filter(|_| ttl != -2) else {
                tally.vanished += 1;
                continue;
            };
            tally.bytes += value.len() as u64;
            written.push(key);
            writes.push(restore(key, ttl, value, env.spec().overwrite == Overwrite::Always));
        }
        let answers = pair.dest.pipeline(&writes).await.map_err(Hitch::Dest)?;
        for (key, answer) in written.into_iter().zip(answers) {
            match answer.ok() {
                Ok(_) => tally.done += 1,
                Err(error) if error.code() == "BUSYKEY" => tally += present(env, pair, key).await?,
                Err(error) => return Err(Hitch::Dest(about(key, error))),
            }
        }
        Ok(tally)
    }
}

fn restore(key: &[u8], ttl: i64, value: Vec<u8>, replace: bool) -> Command {
    // PTTL says -1 for a key that stays, RESTORE 0. A key about to expire keeps its last millisecond.
    let ttl = if ttl < 0 { 0 } else { ttl.max(1) };
    let mut command: Command = command!["RESTORE", key, ttl.to_string()];
    command.push(value);
    if replace {
        command.push(b"REPLACE".to_vec());
    }
    command
}

/// The destination has the key already: perhaps from us, before a crash.
async fn present(env: &Env, pair: &mut Pair, key: &[u8]) -> Result<Tally, Hitch> {
    if compare::same(pair, key).await?.is_none() {
        return Ok(Tally { done: 1, ..Tally::default() });
    }
    match env.spec().overwrite {
        Overwrite::Keep => Ok(Tally { kept: 1, ..Tally::default() }),
        _ => Err(Hitch::Trouble(Trouble::fatal(
            "KeyExists",
            format!(
                "dest already has the key {} with another value; set spec.overwrite to Always or Keep in a new migration",
                shown(key)
            ),
        ))),
    }
}

/// A refusal, with the key it was about.
fn about(key: &[u8], error: Error) -> Error {
    match error {
        Error::Refused(text) => Error::Refused(format!("{text} (key {})", shown(key))),
        other => other,
    }
}
