//! `kubectl delete --cascade`: what becomes of dependents. The garbage collector of Kubernetes lives in another process, so these run on muster alone.

/// Every mode on an owner with a dependent; what was wrong, if anything. `run` takes a command line and its input.
pub fn cascade(run: impl Fn(&str, &str) -> (i32, String)) -> Result<(), String> {
    let must = |line: &str, input: &str| match run(line, input) {
        (0, text) => Ok(text),
        (code, text) => Err(format!("kubectl {line}: exit {code}: {text}")),
    };
    let gone = |name: &str| match run(&format!("get cm {name} -n cascades"), "") {
        (1, text) if text.contains("NotFound") => Ok(()),
        (code, text) => Err(format!("{name} is not gone: {code} {text}")),
    };
    must("create namespace cascades", "")?;
    let family = |prefix: &str, finalizers: &str| {
        must(&format!("create cm {prefix}-owner -n cascades"), "")?;
        let uid = must(&format!("get cm {prefix}-owner -n cascades -o jsonpath={{.metadata.uid}}"), "")?;
        let dependent = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {prefix}-dependent\n  finalizers: [{finalizers}]\n  \
             ownerReferences: [{{apiVersion: v1, kind: ConfigMap, name: {prefix}-owner, uid: {}, blockOwnerDeletion: true}}]\n",
            uid.trim()
        );
        must("create -n cascades -f -", &dependent)
    };

    family("background", "")?;
    must("delete cm background-owner -n cascades --cascade=background", "")?;
    gone("background-owner")?;
    must("wait --for=delete cm/background-dependent -n cascades --timeout=60s", "")?;

    // The default is the background.
    family("plain", "")?;
    must("delete cm plain-owner -n cascades", "")?;
    must("wait --for=delete cm/plain-dependent -n cascades --timeout=60s", "")?;

    // The owner stays until its dependent has gone, and the dependent stays until its finalizer has.
    family("foreground", "example.com/hold")?;
    must("delete cm foreground-owner -n cascades --cascade=foreground --wait=false", "")?;
    let state = "-n cascades -o jsonpath={.metadata.finalizers}{.metadata.deletionTimestamp}";
    must("wait --for=jsonpath={.metadata.deletionTimestamp} cm/foreground-dependent -n cascades --timeout=60s", "")?;
    let owner = must(&format!("get cm foreground-owner {state}"), "")?;
    if !owner.contains("[\"foregroundDeletion\"]") || owner.trim().ends_with(']') {
        return Err(format!("the owner does not wait for its dependent: {owner}"));
    }
    must(r#"patch cm foreground-dependent -n cascades --type=merge -p {"metadata":{"finalizers":null}}"#, "")?;
    must("wait --for=delete cm/foreground-owner cm/foreground-dependent -n cascades --timeout=60s", "")?;
    family("quick", "")?;
    must("delete cm quick-owner -n cascades --cascade=foreground --timeout=60s", "")?;
    gone("quick-owner")?;
    gone("quick-dependent")?;

    family("orphan", "")?;
    must("delete cm orphan-owner -n cascades --cascade=orphan --timeout=60s", "")?;
    gone("orphan-owner")?;
    let owners = must(
        "get cm orphan-dependent -n cascades -o jsonpath={.metadata.ownerReferences}{.metadata.deletionTimestamp}",
        "",
    )?;
    if !owners.trim().is_empty() {
        return Err(format!("the orphan still has an owner, or goes: {owners}"));
    }
    must("delete namespace cascades --timeout=60s", "")?;
    Ok(())
}
