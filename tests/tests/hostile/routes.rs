//! Hostile bodies and queries on every route there is (B-1, B-2): every path of our own OpenAPI documents, subresources and a custom kind included, with every verb.
//!
//! Which body and which query meet which route is drawn by a seed that changes every day (`MUSTER_HOSTILE_SEED`, printed); `MUSTER_HOSTILE_REQUESTS` bounds their number.
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use futures_util::StreamExt;
use muster_tests::differential::load;
use muster_tests::mutation::chosen;
use muster_tests::proto::MEDIA;
use muster_tests::runner::Case;
use muster_tests::{PATIENCE, Peer, cases};
use serde_json::{Value, json};

pub fn cases() -> Vec<Case> {
    cases![hostile: every_route_survives_hostile_bodies_and_queries]
}

const NAMESPACE: &str = "mutants";
const WIDTH: usize = 8;
const DAY: u64 = 24 * 60 * 60;
const PATCHES: [&str; 4] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];
const VERBS: [(&str, &str); 8] = [
    ("GET", ""),
    ("POST", ""),
    ("PUT", ""),
    ("DELETE", ""),
    ("PATCH", PATCHES[0]),
    ("PATCH", PATCHES[1]),
    ("PATCH", PATCHES[2]),
    ("PATCH", PATCHES[3]),
];

/// xorshift: the same requests for the same seed on every machine.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % n.max(1) as u64).unwrap_or(0)
    }

    fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

#[derive(Clone, Debug)]
struct Request {
    verb: &'static str,
    path: String,
    media: String,
    body: Vec<u8>,
}

// B-1, B-2
async fn every_route_survives_hostile_bodies_and_queries(shared: &Peer) {
    // A server of its own: what is written here must not meet the other cases.
    let peer = &Peer::start(shared.kind).await.unwrap();
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let today = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() / DAY;
    let seed = number("MUSTER_HOSTILE_SEED").unwrap_or(today);
    let most = number("MUSTER_HOSTILE_REQUESTS").map_or(6_000, |n| n as usize);
    let samples = fill(peer).await;
    let routes = routes(peer).await;
    assert!(routes.len() > 150, "only {} routes are documented", routes.len());
    for part in [
        "/pods/{name}/eviction",
        "/deployments/{name}/scale",
        "/widgets/{name}/status",
        "/serviceaccounts/{name}/token",
    ] {
        assert!(routes.iter().any(|route| route.ends_with(part)), "no route ends with {part}");
    }
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let pairs: Vec<_> = routes.iter().flat_map(|route| VERBS.iter().map(move |verb| (route, *verb))).collect();
    // Every route with every verb, as often as there is time for.
    let rounds = (most / pairs.len()).max(1);
    let drawn = (0..rounds).flat_map(|_| &pairs).map(|(route, verb)| request(&mut dice, route, *verb, &samples));
    let requests: Vec<Request> = chosen(drawn.collect(), most, seed);
    eprintln!("seed {seed}: {} requests on {} routes", requests.len(), routes.len());

    let before = peer.memory().resident;
    let sending = requests.clone().into_iter().map(|request| async move { send(peer, &request).await });
    let sent = futures_util::stream::iter(sending).buffer_unordered(WIDTH);
    let outcomes: Vec<(u16, Option<String>)> = sent.collect().await;
    let wrong: Vec<&String> = outcomes.iter().filter_map(|(_, wrong)| wrong.as_ref()).collect();
    wrong.iter().take(20).for_each(|line| eprintln!("{line}"));
    assert!(wrong.is_empty(), "{} of {} requests broke something (seed {seed})", wrong.len(), requests.len());
    // Neither all refused at the door nor all let through.
    let count = |codes: std::ops::Range<u16>| outcomes.iter().filter(|(code, _)| codes.contains(code)).count();
    assert!(
        count(200..300) > 100 && count(422..423) > 50,
        "{} taken, {} judged invalid",
        count(200..300),
        count(422..423)
    );
    // What got in can be read.
    for post in samples.keys().filter(|post| !is_review(post)) {
        let answer = peer.get(post).await;
        assert!(answer.status < 400, "{post}: {} {:.300}", answer.status, answer.text());
    }
    super::still_well(peer, before, 400).await;
}

/// Kinds that are asked about and never kept.
fn is_review(post: &str) -> bool {
    post.contains("reviews") || post.contains("/token") || post.contains("/eviction") || post.contains("/binding")
}

/// Creates a good object of every kind, and a kind of our own; the samples by where they were created.
async fn fill(peer: &Peer) -> BTreeMap<String, Value> {
    peer.post("/api/v1/namespaces", json!({"metadata": {"name": NAMESPACE}})).await.ok(201);
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"replicas": {"type": "integer", "maximum": 10}, "any": {"x-kubernetes-preserve-unknown-fields": true},
            "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}}},
            "either": {"x-kubernetes-int-or-string": true}, "time": {"type": "string", "format": "date-time"}},
            "x-kubernetes-validations": [{"rule": "!has(self.replicas) || self.replicas != 7"}]},
        "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}}}});
    let subresources = json!({"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}});
    let crd = json!({"metadata": {"name": "widgets.hostile.example.com"}, "spec": {"group": "hostile.example.com", "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}, "subresources": subresources}]}});
    peer.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd).await.ok(201);
    let mut samples = BTreeMap::new();
    let widget = json!({"apiVersion": "hostile.example.com/v1", "kind": "Widget", "metadata": {"name": "w"},
        "spec": {"replicas": 1, "any": {"a": [1]}, "list": [{"k": "a"}], "either": "x", "time": "2020-01-01T00:00:00Z"}});
    samples.insert(format!("/apis/hostile.example.com/v1/namespaces/{NAMESPACE}/widgets"), widget);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("mutations");
    for sample in load::<Value>(&folder.join("samples.yaml")) {
        samples.insert(sample["post"].as_str().unwrap().to_owned(), sample["object"].clone());
    }
    for (post, object) in &samples {
        let answer = peer.post(post, object).await;
        // Events and autoscalers are seen in two versions, and made once.
        assert!(matches!(answer.status, 200 | 201 | 409), "{post}: {}", answer.text());
    }
    samples
}

/// Every path of the documents, as they name it: `/api/v1/namespaces/{namespace}/pods/{name}/log`.
async fn routes(peer: &Peer) -> Vec<String> {
    let index = peer.get("/openapi/v3").await.ok(200);
    let mut routes = Vec::new();
    for document in index["paths"].as_object().unwrap().values() {
        let url = document["serverRelativeURL"].as_str().unwrap();
        let paths = peer.get(url).await.ok(200)["paths"].clone();
        routes.extend(paths.as_object().into_iter().flat_map(|paths| paths.keys().cloned()));
    }
    routes.sort();
    routes.dedup();
    routes
}

fn request(
    dice: &mut Dice,
    route: &str,
    (verb, media): (&'static str, &str),
    samples: &BTreeMap<String, Value>,
) -> Request {
    let path = route.replace("{namespace}", NAMESPACE);
    let (collection, _) = path.split_once("/{name}").unwrap_or((&path, ""));
    let sample = samples
        .get(collection)
        .cloned()
        .unwrap_or_else(|| json!({"metadata": {"name": "hostile"}, "spec": {}, "status": {}}));
    let name = sample["metadata"]["name"].as_str().unwrap_or("hostile");
    // Now and then nobody is there.
    let name = if dice.below(8) == 0 { "nobody" } else { name };
    let mut path = path.replace("{name}", name).replace("{path}", "x/y");
    path.push_str(&query(dice, verb, media));
    let (media, body) = match verb {
        "GET" => (String::new(), Vec::new()),
        "DELETE" => ("application/json".to_owned(), dry(dice.pick::<&str>(DELETIONS)).into_bytes()),
        "PATCH" => (media.to_owned(), patch(dice, media, &sample)),
        _ => whole(dice, &sample),
    };
    Request { verb, path, media, body }
}

/// Nothing goes, for the next request wants it, too. A body that says anything outweighs the query.
fn dry(options: &str) -> String {
    match options.strip_prefix('{') {
        Some("}") => "{\"dryRun\":[\"All\"]}".to_owned(),
        Some(rest) => format!("{{\"dryRun\":[\"All\"],{rest}"),
        None => options.to_owned(),
    }
}

const DELETIONS: &[&str] = &[
    "",
    "{}",
    "5",
    "[]",
    "{\"kind\":\"Pod\",\"apiVersion\":\"v1\"}",
    "{\"gracePeriodSeconds\":-1}",
    "{\"gracePeriodSeconds\":9223372036854775807}",
    "{\"gracePeriodSeconds\":\"soon\"}",
    "{\"propagationPolicy\":\"Sideways\"}",
    "{\"propagationPolicy\":7}",
    "{\"orphanDependents\":true,\"propagationPolicy\":\"Orphan\"}",
    "{\"preconditions\":{\"uid\":\"x\",\"resourceVersion\":\"y\"}}",
    "{\"preconditions\":[]}",
    "{\"dryRun\":\"All\"}",
    "{\"dryRun\":[\"Some\"]}",
    "{\"ignoreStoreReadErrorWithClusterBreakingPotential\":true}",
];

/// Bodies that fit nothing.
const BODIES: &[&str] = &[
    "",
    "{",
    "null",
    "true",
    "-0",
    "1e999",
    "\"text\"",
    "[]",
    "[{}]",
    "{}",
    "{\"metadata\":null}",
    "{\"metadata\":5}",
    "{\"metadata\":[]}",
    "{\"metadata\":{\"name\":5}}",
    "{\"metadata\":{\"name\":\"a\",\"name\":\"b\"}}",
    "{\"metadata\":{\"generateName\":\"\\u0000\"}}",
    "{\"metadata\":{\"name\":\"x\",\"ownerReferences\":[{}]}}",
    "{\"metadata\":{\"name\":\"x\",\"managedFields\":[{\"fieldsV1\":5}]}}",
    "{\"metadata\":{\"name\":\"x\",\"managedFields\":[{\"manager\":\"m\",\"operation\":\"Apply\",\"apiVersion\":\"v9\",\"fieldsType\":\"FieldsV1\",\"fieldsV1\":{\"f:\":{},\"k:{\":{},\"v:\":{},\"i:-1\":{}}}]}}",
    "{\"metadata\":{\"name\":\"x\",\"deletionTimestamp\":\"yesterday\",\"finalizers\":[\"\"]}}",
    "{\"metadata\":{\"name\":\"x\",\"labels\":{\"\":\"\",\"a/b/c\":\"d\"},\"annotations\":{\"\":null}}}",
    "{\"apiVersion\":\"\",\"kind\":\"\"}",
    "{\"apiVersion\":\"v1/v1/v1\",\"kind\":\"Pod\"}",
    "{\"apiVersion\":5,\"kind\":{}}",
    "{\"kind\":\"List\",\"apiVersion\":\"v1\",\"items\":[{}]}",
    "{\"kind\":\"Status\",\"apiVersion\":\"v1\"}",
    "{\"spec\":null,\"status\":null}",
    "{\"spec\":[],\"status\":\"x\"}",
    "{\"spec\":{\"replicas\":-9223372036854775808}}",
    "{\"spec\":{\"replicas\":1e308},\"status\":{\"replicas\":0.5}}",
    "{\"metadata\":{\"name\":\"x\"},\"target\":{}}",
    "\u{feff}{}",
    "metadata: &a {name: *a}",
    "? [a]\n: b",
    "--- !!binary x",
];

const PATCH_LISTS: &[&str] = &[
    "[]",
    "null",
    "{}",
    "[null]",
    "[{}]",
    "[{\"op\":\"remove\",\"path\":\"\"}]",
    "[{\"op\":\"replace\",\"path\":\"\",\"value\":[]}]",
    "[{\"op\":\"replace\",\"path\":\"/metadata\",\"value\":null}]",
    "[{\"op\":\"remove\",\"path\":\"/metadata/uid\"}]",
    "[{\"op\":\"replace\",\"path\":\"/kind\",\"value\":5}]",
    "[{\"op\":\"replace\",\"path\":\"/apiVersion\",\"value\":\"v9\"}]",
    "[{\"op\":\"copy\",\"from\":\"\",\"path\":\"/metadata/annotations\"}]",
    "[{\"op\":\"move\",\"from\":\"/metadata\",\"path\":\"/metadata/labels\"}]",
    "[{\"op\":\"test\",\"path\":\"/nothing\",\"value\":null}]",
    "[{\"op\":\"add\",\"path\":\"/metadata/managedFields/0\",\"value\":{\"fieldsV1\":[]}}]",
    "[{\"op\":\"replace\",\"path\":\"/metadata/managedFields\",\"value\":[{}]}]",
    "[{\"op\":\"add\",\"path\":\"/metadata/finalizers/-\",\"value\":5}]",
    "[{\"op\":\"add\",\"path\":\"/~2\",\"value\":1}]",
];

const MERGES: &[&str] = &[
    "null",
    "[]",
    "5",
    "{\"metadata\":null}",
    "{\"metadata\":{\"name\":null,\"uid\":null}}",
    "{\"metadata\":{\"managedFields\":[{}]}}",
    "{\"metadata\":{\"resourceVersion\":\"x\"}}",
    "{\"metadata\":{\"ownerReferences\":[{\"$patch\":\"delete\"}]}}",
    "{\"apiVersion\":null,\"kind\":null}",
    "{\"kind\":\"Other\"}",
    "{\"spec\":null}",
    "{\"spec\":{\"$patch\":\"replace\"}}",
    "{\"spec\":{\"$patch\":\"odd\"}}",
    "{\"spec\":{\"$retainKeys\":5}}",
    "{\"spec\":{\"$setElementOrder/containers\":[{}],\"containers\":[{\"$patch\":\"merge\"}]}}",
    "{\"spec\":{\"$deleteFromPrimitiveList/finalizers\":{}}}",
    "{\"$patch\":\"delete\"}",
    "{\"status\":{\"conditions\":[{}]}}",
];

/// Values that are no good anywhere.
fn poison(dice: &mut Dice) -> Value {
    let deep = (0..60).fold(json!(1), |inner, _| json!({ "a": inner }));
    let nested = (0..60).fold(json!([]), |inner, _| json!([inner]));
    let all = [
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(0.1),
        json!(1e308),
        json!(i64::MAX),
        json!(i64::MIN),
        json!(u64::MAX),
        json!(2_147_483_648_u64),
        json!(""),
        json!(" "),
        json!("\u{0}"),
        json!("\u{202e}💥"),
        json!("x".repeat(5000)),
        json!("../../x"),
        json!("-1Gi"),
        json!("1e99999999"),
        json!("999999999999999999999999999999m"),
        json!("2020-99-99T99:99:99Z"),
        json!("%"),
        json!("*"),
        json!("a=b=c"),
        json!("(("),
        json!([]),
        json!([null]),
        json!([{}]),
        json!(["a", 1, null, {}]),
        json!({}),
        json!({"": ""}),
        json!({"a": null}),
        json!({"matchExpressions": [{"key": "", "operator": "?", "values": [1]}]}),
        deep,
        nested,
    ];
    dice.pick(&all).clone()
}

/// A pointer to some place in a document.
fn place(dice: &mut Dice, document: &Value) -> String {
    let mut path = String::new();
    let mut at = document;
    loop {
        let (key, next) = match at {
            Value::Object(map) if !map.is_empty() => {
                let key = map.keys().nth(dice.below(map.len())).cloned().unwrap_or_default();
                (key.replace('~', "~0").replace('/', "~1"), &map[&key])
            }
            Value::Array(list) if !list.is_empty() => {
                let i = dice.below(list.len());
                (i.to_string(), &list[i])
            }
            _ => return path,
        };
        path = format!("{path}/{key}");
        at = next;
        if dice.below(3) == 0 {
            return path;
        }
    }
}

fn poisoned(dice: &mut Dice, sample: &Value) -> Value {
    let mut object = sample.clone();
    for _ in 0..=dice.below(3) {
        let path = place(dice, &object);
        let new = poison(dice);
        // The metadata as a whole is what the fixed bodies are about.
        if path.len() > 1
            && path != "/metadata"
            && let Some(slot) = object.pointer_mut(&path)
        {
            *slot = new;
        }
    }
    object
}

/// A body for POST and PUT with its media type.
fn whole(dice: &mut Dice, sample: &Value) -> (String, Vec<u8>) {
    match dice.below(10) {
        0 => {
            let mut bytes = b"k8s\0".to_vec();
            bytes.extend((0..dice.below(200)).map(|_| dice.below(256) as u8).collect::<Vec<_>>());
            (MEDIA.to_owned(), bytes)
        }
        1 => ("application/yaml".to_owned(), dice.pick(BODIES).as_bytes().to_vec()),
        2..=4 => ("application/json".to_owned(), dice.pick(BODIES).as_bytes().to_vec()),
        5 => ("application/yaml".to_owned(), poisoned(dice, sample).to_string().into_bytes()),
        _ => ("application/json".to_owned(), poisoned(dice, sample).to_string().into_bytes()),
    }
}

fn patch(dice: &mut Dice, media: &str, sample: &Value) -> Vec<u8> {
    let fixed = dice.below(3) == 0;
    if media == PATCHES[0] {
        if fixed {
            return dice.pick(PATCH_LISTS).as_bytes().to_vec();
        }
        let operations: Vec<Value> = (0..=dice.below(4))
            .map(|_| {
                let (path, from) = (place(dice, sample), place(dice, sample));
                let op = *dice.pick(&["add", "replace", "remove", "move", "copy", "test", "odd"]);
                let suffix = *dice.pick(&["", "", "", "/-", "/0", "/99999", "/~1", "/x"]);
                json!({"op": op, "path": format!("{path}{suffix}"), "from": from, "value": poison(dice)})
            })
            .collect();
        return json!(operations).to_string().into_bytes();
    }
    if fixed {
        return dice.pick(MERGES).as_bytes().to_vec();
    }
    poisoned(dice, sample).to_string().into_bytes()
}

const QUERIES: &[&str] = &[
    "",
    "",
    "",
    "dryRun=All",
    "dryRun=Some",
    "dryRun=All&dryRun=None",
    "fieldManager=%00",
    "fieldManager=m&force=true",
    "fieldManager=m&force=perhaps",
    "fieldValidation=Strict",
    "fieldValidation=Warn",
    "fieldValidation=Odd",
    "labelSelector=a%20in%20(((",
    "labelSelector=%ff",
    "labelSelector=a%3E99999999999999999999",
    "fieldSelector=%3D%3D%3D",
    "fieldSelector=metadata.name%3D%00",
    "fieldSelector=spec.nothing%3Dx",
    "limit=-1",
    "limit=99999999999999999999",
    "limit=1&continue=AAAA",
    "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiLi4vLi4vIn0",
    "resourceVersion=-1",
    "resourceVersion=x",
    "resourceVersion=1&resourceVersionMatch=Odd",
    "resourceVersion=0&resourceVersionMatch=Exact",
    "watch=1&timeoutSeconds=1",
    "watch=1&timeoutSeconds=1&resourceVersion=1",
    "watch=1&timeoutSeconds=1&sendInitialEvents=true",
    "watch=maybe&timeoutSeconds=1",
    "timeoutSeconds=-9",
    "propagationPolicy=Odd",
    "gracePeriodSeconds=-1",
    "gracePeriodSeconds=x",
    "orphanDependents=maybe",
    "pretty=%00",
    "includeObject=Odd",
    "timeout=-1s",
    "timeout=x",
    "container=%00&tailLines=-1&sinceSeconds=x&limitBytes=0",
    "command=%00&stdin=perhaps&tty=1",
    "ports=-1,99999",
    "%00=%00",
    "=",
    "a=1&a=2&a=3&&&",
];

fn query(dice: &mut Dice, verb: &str, media: &str) -> String {
    let mut words: Vec<&str> = vec![*dice.pick(QUERIES)];
    if verb == "DELETE" {
        words.push("dryRun=All");
    }
    if media == PATCHES[3] && dice.below(6) > 0 {
        words.push("fieldManager=hostile&force=true");
    }
    // A watch that was opened by the path alone must end as well.
    if verb == "GET" && !words[0].contains("timeoutSeconds") {
        words.push("timeoutSeconds=1");
    }
    words.retain(|word| !word.is_empty());
    if words.is_empty() { String::new() } else { format!("?{}", words.join("&")) }
}

/// The code, and what was wrong with the answer.
async fn send(peer: &Peer, request: &Request) -> (u16, Option<String>) {
    let mut call = peer.call(request.verb, &request.path).limit(PATIENCE);
    if !request.media.is_empty() {
        call = call.body(request.body.clone()).media(&request.media);
    }
    let what = || {
        let body: String = String::from_utf8_lossy(&request.body).chars().take(400).collect();
        format!("{} {} {} {body:?}", request.verb, request.path, request.media)
    };
    let answer = match call.try_send().await {
        Ok(answer) => answer,
        Err(why) => return (0, Some(format!("{}: no answer: {why:?}", what()))),
    };
    let refusal: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let wrong = match answer.status {
        500.. => true,
        // What Kubernetes answers, too, where there is nothing at all.
        404 if &answer.body[..] == b"404 page not found\n" => false,
        // A refusal says what it is.
        400.. => refusal["kind"] != "Status" || refusal["message"].as_str().is_none_or(str::is_empty),
        _ => false,
    };
    (answer.status, wrong.then(|| format!("{}: {} {:.400}", what(), answer.status, answer.text())))
}
