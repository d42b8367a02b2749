//! Verifying: every key of the source is compared with the destination's, value and time to live.

use runtime::phase::{Handler, Progress, Step, Trouble};

use super::{
    Env, Overwrite, Stage,
    compare::{Verdict, alike},
    pages::{Hitch, Pair, Tally, Work, shown, walk},
};

/// The second part of Migrate.
pub struct Verify;

impl Handler<Stage, Env> for Verify {
    async fn run(&self, env: &Env, progress: &mut Progress) -> Result<Step<Stage>, Trouble> {
        if !env.spec().verify {
            progress.note("copied; not compared, because spec.verify is false");
            return Ok(Step::Done);
        }
        let walked = walk(self, env, progress).await?;
        let kept = match walked.tally.kept {
            0 => String::new(),
            kept => format!(", {kept} left as they were"),
        };
        progress.note(format!("{} keys copied and compared{kept}", walked.tally.done));
        Ok(Step::Done)
    }
}

impl Work for Verify {
    const WORD: &'static str = "compared";

    async fn keys(&self, env: &Env, pair: &mut Pair, keys: &[Vec<u8>]) -> Result<Tally, Hitch> {
        let mut tally = Tally::default();
        let mut differing = Vec::new();
        for (key, verdict) in keys.iter().zip(alike(pair, keys).await?) {
            match verdict {
                Verdict::Alike => tally.done += 1,
                Verdict::Gone => tally.vanished += 1,
                Verdict::Unlike(_) if env.spec().overwrite == Overwrite::Keep => tally.kept += 1,
                Verdict::Unlike(how) => differing.push(format!("{} ({how})", shown(key))),
            }
        }
        if differing.is_empty() {
            return Ok(tally);
        }
        // Said at once: a difference that waited for the last page could be forgotten by a restart.
        differing.truncate(5);
        Err(Hitch::Trouble(Trouble::fatal(
            "VerificationFailed",
            format!(
                "keys differ after copying: {}; was the source written to meanwhile? Stop its writers and migrate again \
                 with spec.overwrite Always",
                differing.join(", ")
            ),
        )))
    }
}
