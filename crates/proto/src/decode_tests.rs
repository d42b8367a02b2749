use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::sync::OnceLock;

use flate2::read::GzDecoder;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::encode;
use crate::wire::Writer;

/// A body of `kind` whose message is given byte by byte.
fn body(api_version: &str, kind: &str, message: &[u8], content_type: &str) -> Vec<u8> {
    let mut type_meta = Writer::default();
    type_meta.bytes(1, api_version.as_bytes());
    type_meta.bytes(2, kind.as_bytes());
    let mut writer = Writer { out: MAGIC.to_vec() };
    writer.bytes(1, &type_meta.out);
    writer.bytes(2, message);
    writer.bytes(4, content_type.as_bytes());
    writer.out
}

/// The form of `schema::decode`: where every way into the server meets.
fn settled(mut value: Value) -> Value {
    let facts = Facts::builtin();
    let api_version = value["apiVersion"].as_str().unwrap();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let ty = facts.kind(group, version, value["kind"].as_str().unwrap()).unwrap();
    let unknown = schema::decode(facts, ty, &mut value).unwrap().unknown;
    assert_eq!(unknown, [""; 0]);
    value
}

/// Where two values differ first, and how: whole objects of this size are no help in a failure.
fn difference(left: &Value, right: &Value) -> Option<String> {
    match (left, right) {
        (Value::Object(a), Value::Object(b)) => {
            a.keys().chain(b.keys()).find_map(|key| match (a.get(key), b.get(key)) {
                (Some(a), Some(b)) => difference(a, b).map(|d| format!(".{key}{d}")),
                (a, b) => Some(format!(".{key}: {a:?} is not {b:?}")),
            })
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).enumerate().find_map(|(at, (a, b))| difference(a, b).map(|d| format!("[{at}]{d}")))
        }
        _ => (left != right).then(|| format!(": {left} is not {right}")),
    }
}

/// A body as a Go client sends it, and the JSON that Go writes for it.
struct Sample {
    name: String,
    protobuf: Vec<u8>,
    json: Value,
}

/// Every kind that can be a body, with all fields set, with zeros, and with nothing (`make facts`).
fn every_kind() -> Vec<Sample> {
    let packed = std::fs::File::open(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/every-kind.jsonl.gz")).unwrap();
    let lines = BufReader::new(GzDecoder::new(packed)).lines();
    let sample = |line: String| {
        let mut line: Value = serde_json::from_str(&line).unwrap();
        let protobuf = STANDARD.decode(line["protobuf"].as_str().unwrap()).unwrap();
        Sample { name: line["name"].as_str().unwrap().to_owned(), protobuf, json: line["json"].take() }
    };
    lines.map(|line| sample(line.unwrap())).collect()
}

/// The samples that stand in files of their own.
fn files() -> Vec<Sample> {
    let entries = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata")).unwrap();
    let bodies = entries.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some_and(|e| e == "pb"));
    let sample = |path: PathBuf| Sample {
        name: path.display().to_string(),
        protobuf: std::fs::read(&path).unwrap(),
        json: serde_json::from_slice(&std::fs::read(path.with_extension("json")).unwrap()).unwrap(),
    };
    bodies.map(sample).collect()
}

#[test]
fn bodies_of_a_go_client_decode_to_the_json_it_writes() {
    let samples = files().into_iter().chain(every_kind()).collect::<Vec<_>>();
    assert!(samples.len() > 200, "{} samples", samples.len());
    for Sample { name, protobuf, json: expected } in samples {
        let decoded = decode(&protobuf).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(decoded.kind, expected["kind"], "{name}");
        for (way, value) in [
            ("from protobuf", decoded.value),
            ("from JSON", expected.clone()),
            ("there and back", decode(&encode(&expected).unwrap()).unwrap().value),
        ] {
            assert_eq!(difference(&settled(value), &expected), None, "{name} {way}");
        }
    }
}

#[test]
fn no_kind_of_the_table_is_without_samples() {
    let sampled: BTreeSet<(String, String)> = every_kind()
        .iter()
        .map(|sample| {
            (sample.json["apiVersion"].as_str().unwrap().to_owned(), sample.json["kind"].as_str().unwrap().to_owned())
        })
        .collect();
    let missing: Vec<String> = Facts::builtin()
        .types()
        .filter_map(|ty| ty.kind)
        // Lists, and what only answers hold.
        .filter(|kind| !kind.kind.ends_with("List") && kind.group != "meta.k8s.io")
        .map(|kind| {
            (format!("{}/{}", kind.group, kind.version).trim_start_matches('/').to_owned(), kind.kind.to_owned())
        })
        .filter(|kind| !sampled.contains(kind))
        .map(|(version, kind)| format!("{version} {kind}"))
        .collect();
    assert_eq!(missing, [""; 0]);
}

#[test]
fn json_inside_the_envelope_passes_through() {
    let decoded = decode(&body("v1", "ConfigMap", br#"{"data":{"a":"b"}}"#, "application/json")).unwrap();
    assert_eq!(decoded.value, json!({"apiVersion":"v1","kind":"ConfigMap","data":{"a":"b"}}));
    assert!(matches!(decode(&body("v1", "ConfigMap", b"", "text/plain")), Err(ProtoError::ContentType(_))));
}

#[test]
fn what_is_no_kubernetes_protobuf_is_refused() {
    assert!(matches!(decode(b"{}"), Err(ProtoError::NoMagic)));
    assert!(matches!(decode(b"k8s\0"), Err(ProtoError::UnknownKind { .. })));
    assert!(matches!(decode(&body("v1", "Nope", b"", "")), Err(ProtoError::UnknownKind { .. })));
    // data as a number
    assert!(matches!(
        decode(&body("v1", "ConfigMap", &[0x10, 1], "")),
        Err(ProtoError::WireType { field: "data", .. })
    ));
    // a group
    assert!(matches!(decode(&body("v1", "ConfigMap", &[0x0b], "")), Err(ProtoError::Malformed(_))));
}

#[test]
fn unknown_members_are_skipped_and_scalars_keep_the_last() {
    let mut message = Writer::default();
    message.varint(1000, 7);
    message.varint(4, 1);
    message.varint(4, 0);
    let decoded = decode(&body("v1", "ConfigMap", &message.out, "")).unwrap();
    assert_eq!(decoded.value, json!({"apiVersion":"v1","kind":"ConfigMap","immutable":false}));
}

#[test]
fn packed_and_unpacked_and_negative_numbers() {
    let group = |writer: &mut Writer| {
        for n in [1i64, -1] {
            writer.varint(4, n as u64); // supplementalGroups
        }
        let mut packed = Writer::default();
        packed.raw_varint(5);
        packed.raw_varint((-7i64) as u64);
        writer.bytes(4, &packed.out);
    };
    let mut context = Writer::default();
    group(&mut context);
    let mut spec = Writer::default();
    spec.bytes(14, &context.out);
    let mut pod = Writer::default();
    pod.bytes(2, &spec.out);
    let value = decode(&body("v1", "Pod", &pod.out, "")).unwrap().value;
    assert_eq!(value["spec"]["securityContext"]["supplementalGroups"], json!([1, -1, 5, -7]));
}

#[test]
fn messages_within_messages_end_somewhere() {
    // JSONSchemaProps.not (28) refers to itself.
    let mut schema = Vec::new();
    for _ in 0..2000 {
        let mut outer = Writer::default();
        outer.bytes(28, &schema);
        schema = outer.out;
    }
    let mut message = schema;
    for tag in [1, 4, 7, 2] {
        let mut outer = Writer::default();
        outer.bytes(tag, &message);
        message = outer.out;
    }
    let body = body("apiextensions.k8s.io/v1", "CustomResourceDefinition", &message, "");
    assert!(matches!(decode(&body), Err(ProtoError::Depth)));
}

#[test]
fn a_small_body_cannot_take_much_memory() {
    // Two bytes for an empty container, a hundred thousand times.
    let spec: Vec<u8> = [0x12, 0x00].repeat(100_000);
    let mut pod = Writer::default();
    pod.bytes(2, &spec);
    assert!(matches!(decode(&body("v1", "Pod", &pod.out, "")), Err(ProtoError::TooLarge)));
}

proptest! {
    #[test]
    fn never_panics_on_any_message(kind in prop::sample::select(vec!["Pod", "Event", "ConfigMap", "Secret", "Node", "DeleteOptions"]), message: Vec<u8>) {
        let _ = decode(&body("v1", kind, &message, ""));
    }

    #[test]
    fn never_panics_on_broken_real_bodies(sample in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), byte: u8, cut in any::<prop::sample::Index>()) {
        static SAMPLES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
        let samples = SAMPLES.get_or_init(|| files().into_iter().map(|sample| sample.protobuf).collect());
        let mut bytes = sample.get(samples).clone();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        for body in [&bytes[..], &bytes[..cut.index(bytes.len())]] {
            if let Ok(decoded) = decode(body) {
                let (group, version) = decoded.api_version.split_once('/').unwrap_or(("", &decoded.api_version));
                let mut value = decoded.value;
                if let Some(ty) = Facts::builtin().kind(group, version, &decoded.kind) {
                    let _ = schema::decode(Facts::builtin(), ty, &mut value);
                }
            }
        }
    }

    #[test]
    fn objects_survive_the_way_there_and_back(
        name in "[a-z]{0,5}", data in prop::collection::btree_map("[a-z.]{1,8}", "\\PC{0,20}", 0..5), count in any::<i32>(),
        seconds in -62_135_596_799i64..253_402_300_800, micros in 0u32..1_000_000, immutable: Option<bool>, grace: Option<i64>,
    ) {
        let moment = Moment { seconds, nanos: micros * 1000 };
        let time = moment.format(Precision::Seconds);
        let micro = moment.format(Precision::Micros);
        for object in [
            json!({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":name,"annotations":data},"data":data,"immutable":immutable}),
            json!({"apiVersion":"v1","kind":"Event","metadata":{"name":name},"count":count,"lastTimestamp":time,"eventTime":micro,"message":name}),
            json!({"apiVersion":"coordination.k8s.io/v1","kind":"Lease","spec":{"renewTime":micro,"leaseTransitions":count}}),
            json!({"apiVersion":"apps/v1","kind":"DeleteOptions","gracePeriodSeconds":grace,"preconditions":{"uid":name}}),
            json!({"apiVersion":"v1","kind":"Service","spec":{"selector":data,"ports":[{"port":count,"targetPort":name},{"port":1,"targetPort":count}]}}),
        ] {
            let object = settled(object);
            let back = decode(&encode(&object).unwrap()).unwrap();
            prop_assert_eq!(settled(back.value), object);
        }
    }
}
