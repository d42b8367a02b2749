//! `Muster-Fence: NAMESPACE/NAME/HOLDER/TRANSITIONS`: a write made under a lease is refused when somebody else holds it by now.
//!
//! Looked at once per write, before anything else of it is. A write that passed a moment before the lease changed hands still
//! goes through; the client's own deadline, which ends well before anybody may take a lease over, covers that moment.

use crate::verbs::Call;
use http::HeaderName;
use meta::Status;
use meta::options::Version;

const HEADER: HeaderName = HeaderName::from_static("muster-fence");

struct Claim<'a> {
    namespace: &'a str,
    name: &'a str,
    holder: &'a str,
    transitions: i64,
}

impl<'a> Claim<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut words = text.split('/');
        let (namespace, name, holder) = (words.next()?, words.next()?, words.next()?);
        let transitions = words.next()?.parse().ok()?;
        let whole = ![namespace, name, holder].contains(&"") && words.next().is_none();
        whole.then_some(Claim { namespace, name, holder, transitions })
    }
}

impl Call<'_> {
    /// Refuses a write whose author says which lease it holds, and does not hold it.
    pub async fn check_fence(&self) -> Result<(), Status> {
        let Some(header) = self.headers.get(&HEADER) else { return Ok(()) };
        let claim = header.to_str().ok().and_then(Claim::parse).ok_or_else(|| {
            Status::bad_request("the header Muster-Fence must be NAMESPACE/NAME/HOLDER/TRANSITIONS of a Lease")
        })?;
        // Another server on the same store may have given the lease away.
        self.fresh(Version::MostRecent).await?;
        if self.holds(&claim)? {
            return Ok(());
        }
        // Who holds it instead is for those to know who may read leases.
        let why = format!(
            "it was sent under the lease {}/{}, which its author does not hold any more (Muster-Fence)",
            claim.namespace, claim.name
        );
        Err(Status::conflict(self.kind.resource(), self.name, &why))
    }

    fn holds(&self, claim: &Claim<'_>) -> Result<bool, Status> {
        let served = self.api.served.get();
        let kind = served.registry.find("coordination.k8s.io", "v1", "leases");
        let Some(kind) = kind else { return Ok(false) };
        let Some(entry) = self.api.store.get(&kind.key(claim.namespace, claim.name)) else { return Ok(false) };
        let lease = self.api.decode_stored(kind, &entry.value, entry.revision)?;
        let spec = lease.0.get("spec");
        let field = |name: &str| spec.and_then(|spec| spec.get(name));
        let holder = field("holderIdentity").and_then(|holder| holder.as_str());
        let transitions = field("leaseTransitions").and_then(|count| count.as_i64()).unwrap_or_default();
        Ok(holder == Some(claim.holder) && transitions == claim.transitions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_has_exactly_four_words() {
        let good = Claim::parse("muster/hub/host_1/7").unwrap();
        assert_eq!((good.namespace, good.name, good.holder, good.transitions), ("muster", "hub", "host_1", 7));
        for bad in ["", "a/b/c", "a/b/c/x", "a/b/c/1/2", "a//c/1", "/b/c/1", "a/b//1"] {
            assert!(Claim::parse(bad).is_none(), "{bad}");
        }
    }
}
