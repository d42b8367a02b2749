//! kubectl drains a node: what holds it up, what a disruption budget allows, and what is left. There is no kubelet, so pods go without a grace period.

const NODE: &str =
    "apiVersion: v1\nkind: Node\nmetadata: {name: drained}\nstatus:\n  conditions: [{type: Ready, status: \"True\"}]\n";
const BUDGET: &str = "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: guard}\nspec: {minAvailable: 1, selector: {matchLabels: {app: guarded}}}\n";
const BLOCKED: &str = r#"patch pdb guard -n drains --subresource=status --type=merge -p {"status":{"observedGeneration":1,"disruptionsAllowed":0,"currentHealthy":1,"desiredHealthy":1,"expectedPods":1}}"#;
const ALLOWED: &str = r#"patch pdb guard -n drains --subresource=status --type=merge -p {"status":{"observedGeneration":1,"disruptionsAllowed":1,"currentHealthy":2,"desiredHealthy":1,"expectedPods":2}}"#;
const AGENT: &str = "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: agent}\nspec:\n  selector: {matchLabels: {app: agent}}\n  template:\n    metadata: {labels: {app: agent}}\n    spec: {containers: [{name: c, image: x}]}\n";

/// A pod on the node; it runs, for a budget guards only what does.
fn pod(name: &str, app: &str, owners: &str, volumes: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n  labels: {{app: {app}}}\n  ownerReferences: [{owners}]\nspec:\n  nodeName: drained\n  \
         containers: [{{name: c, image: x}}]\n  volumes: [{volumes}]\n"
    )
}

const RUNS: &str = r#"{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}"#;

/// The outputs of all commands, to be compared between servers; `run` takes a command line and its input.
pub fn drain(run: impl Fn(&str, &str) -> (i32, String)) -> Vec<(String, i32, String)> {
    let mut seen = Vec::new();
    let mut told = |line: &str, input: &str| {
        let (code, text) = run(line, input);
        seen.push((line.to_owned(), code, text));
    };
    told("create namespace drains", "");
    told("create -f -", NODE);
    told("create -n drains -f -", &pod("alone", "guarded", "", ""));
    told(&format!("patch pod alone -n drains --subresource=status --type=merge -p {RUNS}"), "");
    told("create -n drains -f -", BUDGET);
    // Nobody would make it again.
    told("drain drained", "");
    told("get node drained", "");
    told(BLOCKED, "");
    told("drain drained --force --grace-period=0 --timeout=4s", "");
    told("get pods -n drains -o name", "");
    told(ALLOWED, "");
    told("drain drained --force --grace-period=0 --dry-run=server --timeout=60s", "");
    told("drain drained --force --grace-period=0 --timeout=60s", "");
    told("get pods -n drains -o name", "");
    told("get pdb guard -n drains -o jsonpath={.status.disruptionsAllowed}", "");
    // Data on the node, then a pod of a daemon set.
    told("create -n drains -f -", &pod("scratch", "free", "", "{name: v, emptyDir: {}}"));
    told("drain drained --force --grace-period=0", "");
    told("drain drained --force --grace-period=0 --delete-emptydir-data --timeout=60s", "");
    told("create -n drains -f -", AGENT);
    let uid = run("get ds agent -n drains -o jsonpath={.metadata.uid}", "").1;
    let owner = format!("{{apiVersion: apps/v1, kind: DaemonSet, name: agent, uid: {}, controller: true}}", uid.trim());
    told("create -n drains -f -", &pod("agent-1", "agent", &owner, ""));
    told("drain drained", "");
    told("drain drained --ignore-daemonsets", "");
    told("get pods -n drains -o name", "");
    told("uncordon drained", "");
    told("get node drained", "");
    told("delete node drained", "");
    told("delete namespace drains --wait=false", "");
    seen
}

/// The step must have ended so, on whichever server.
pub fn is_drained(seen: &[(String, i32, String)]) -> Result<(), String> {
    let of = |line: &str| {
        seen.iter()
            .filter(|(l, ..)| l == line)
            .map(|(_, code, text)| (*code, text.trim().to_owned()))
            .collect::<Vec<_>>()
    };
    let left = of("get pods -n drains -o name");
    let expected = [(0, "pod/alone".to_owned()), (0, String::new()), (0, "pod/agent-1".to_owned())];
    if left != expected {
        return Err(format!("pods left: {left:?}"));
    }
    let allowed = of("get pdb guard -n drains -o jsonpath={.status.disruptionsAllowed}");
    if allowed != [(0, "0".to_owned())] {
        return Err(format!("disruptions still allowed: {allowed:?}"));
    }
    let codes: Vec<i32> =
        seen.iter().filter(|(line, ..)| line.starts_with("drain")).map(|(_, code, _)| *code).collect();
    if codes != [1, 1, 0, 0, 1, 0, 1, 0] {
        return Err(format!("exit codes of drains: {codes:?}"));
    }
    Ok(())
}
