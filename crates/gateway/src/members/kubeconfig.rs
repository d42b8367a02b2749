//! Kubeconfigs that are given out: with a token of the member that ends by itself, unless what we keep is asked for by its name (SC-9, B-20).

use std::time::Duration;

use fleet::{Access, NotLent};
use serde_json::json;

use super::Members;
use super::listing::Parameters;
use super::reach::{Reach, Reached, Scope, What};
use super::route::Places;
use super::views::KNOWN;
use crate::access::Get;
use crate::caller::Caller;
use crate::problem::Problem;
use crate::visit::{Answered, json as json_answer};

/// How long a token is good, in seconds. Kubernetes gives none for less than ten minutes; what is longer than a day is not short.
const TTL: u64 = 3_600;
const SHORTEST: u64 = 600;
const LONGEST: u64 = 86_400;

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
enum Wish {
    /// A token that ends; on a member without the account for it, that account is made if its rights are said.
    Lent { ttl: Duration, make: Option<Access> },
    /// The credentials we keep ourselves.
    Kept,
}

impl Wish {
    fn parse(query: &str) -> Result<Self, Problem> {
        let parameters = Parameters::only(query, &["action", "ttlSeconds", "longLived", "createAccount"], &[])?;
        if parameters.get("action") != Some("getkubeconfig") {
            return Err(Problem::bad_request("the action of a cluster is getkubeconfig").with("parameter", "action"));
        }
        let make = match parameters.get("createAccount") {
            None => None,
            Some("read") => Some(Access::Read),
            Some("operate") => Some(Access::Operate),
            Some(_) => {
                let why = "createAccount is read or operate: what the account may do on the cluster";
                return Err(Problem::bad_request(why).with("parameter", "createAccount"));
            }
        };
        if parameters.flag("longLived")? {
            if make.is_some() || parameters.get("ttlSeconds").is_some() {
                let why = "longLived is the credential that is kept already: it has no ttlSeconds and needs no account";
                return Err(Problem::bad_request(why).with("parameter", "longLived"));
            }
            return Ok(Self::Kept);
        }
        let ttl = parameters.number("ttlSeconds", LONGEST)?.unwrap_or(TTL);
        if ttl < SHORTEST {
            let why = format!("ttlSeconds is at least {SHORTEST}: no Kubernetes gives a token for less");
            return Err(Problem::bad_request(why).with("parameter", "ttlSeconds"));
        }
        Ok(Self::Lent { ttl: Duration::from_secs(ttl), make })
    }
}

impl Members {
    /// `POST …/clusters/{name}?action=getkubeconfig`: a right of its own, `clusters/kubeconfig`, which only administrators have by
    /// default. What we keep ourselves, and what is made on a cluster with it, is another, `clusters/credentials`: whoever has it could
    /// do the same with kubectl.
    pub(super) async fn zcloud_act(&self, caller: &Caller, places: &Places, query: &str) -> Answered {
        let (wish, name) = (Wish::parse(query)?, places.get("name"));
        let right = |sub| What::all(&KNOWN.clusters).sub(sub);
        let scope = Scope::One(name.to_owned());
        if !matches!(wish, Wish::Lent { make: None, .. }) {
            let _: Reach<Get> = self.reaching.reach(caller, right("credentials"), &scope).await?;
        }
        let sub = if wish == Wish::Kept { "credentials" } else { "kubeconfig" };
        let reach: Reach<Get> = self.reaching.reach(caller, right(sub), &scope).await?;
        let reached = reach.one()?;
        let who = caller.name().unwrap_or("(token)");
        match wish {
            Wish::Kept => {
                let kept = reached.itself()?.kubeconfig().ok_or_else(|| not_lent(&reached, NotLent::Here))?;
                tracing::warn!(user = who, cluster = name, "gave out the credentials that are kept for a cluster");
                Ok(json_answer(200, &json!({"kubeconfig": kept.reveal(), "longLived": true})))
            }
            Wish::Lent { ttl, make } => {
                let member = reached.itself()?;
                if let Some(access) = make.filter(|_| !member.is_here()) {
                    member.make_lending_account(access).await.map_err(|why| not_lent(&reached, why))?;
                    tracing::info!(user = who, cluster = name, ?access, "made the account for kubeconfigs");
                }
                let lent = member.lend(ttl).await.map_err(|why| not_lent(&reached, why))?;
                tracing::info!(user = who, cluster = name, expires = %lent.expires, "gave out a kubeconfig of a cluster");
                Ok(json_answer(
                    200,
                    &json!({"kubeconfig": lent.kubeconfig.reveal(), "longLived": false, "account": lent.account,
                        "expires": lent.expires.to_string()}),
                ))
            }
        }
    }
}

/// Why there is none, and what can be done about it.
fn not_lent(reached: &Reached<'_, Get>, why: NotLent) -> Problem {
    let name = reached.name();
    let problem = match &why {
        NotLent::Here => Problem::new(
            409,
            "NoKubeconfig",
            format!(
                "{name} is simulated in this process and has no address; `muster simulate` serves simulated clusters with kubeconfigs"
            ),
        ),
        NotLent::NoAccount(account) => Problem::new(
            409,
            "NoAccount",
            format!(
                "{name} has no account {account}, whose tokens end (createAccount=read|operate makes it, as does the manifest of GET \
                 /wapi/v1/member-role; longLived=true gives out what muster itself uses)"
            ),
        ),
        NotLent::Refused(..) => Problem::new(
            502,
            "ClusterRefused",
            format!(
                "{name}: {why}; apply the manifest of GET /wapi/v1/member-role there, or ask for what muster itself uses with longLived=true"
            ),
        ),
        NotLent::Strange(_) => Problem::new(502, "ClusterFailed", format!("{name}: {why}")),
        NotLent::Call(error) => return reached.trouble(error),
    };
    problem.with("cluster", &**name)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_token_ends_unless_the_lasting_credential_is_asked_for() {
        // B-20, SC-9
        let asked = |query: &str| Wish::parse(&format!("action=getkubeconfig{query}"));
        let lent = |secs, make| Wish::Lent { ttl: Duration::from_secs(secs), make };
        assert_eq!(asked("").unwrap(), lent(3_600, None));
        assert_eq!(asked("&ttlSeconds=600&createAccount=read").unwrap(), lent(600, Some(Access::Read)));
        assert_eq!(asked("&createAccount=operate&longLived=false").unwrap(), lent(3_600, Some(Access::Operate)));
        assert_eq!(asked("&longLived=true").unwrap(), Wish::Kept);
        for wrong in [
            "&ttlSeconds=599",
            "&ttlSeconds=86401",
            "&ttlSeconds=-1",
            "&ttlSeconds=1h",
            "&longLived=yes",
            "&longLived=true&ttlSeconds=600",
            "&longLived=true&createAccount=read",
            "&createAccount=admin",
            "&ttl=600",
            "&longLived=false&longLived=true",
        ] {
            assert_eq!(asked(wrong).unwrap_err().code, 400, "{wrong}");
        }
        assert_eq!(Wish::parse("action=delete").unwrap_err().code, 400);
    }
}
