use aws_lc_rs::hmac;
use proptest::prelude::*;

use super::*;
use crate::{KeyError, MASTERS};

const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
const NOW: i64 = 1_800_000_000;

/// Objects that are there, by kind and item; everything else is gone.
#[derive(Default)]
struct World(Mutex<HashMap<(BoundKind, String), String>>, Mutex<Option<Vec<u8>>>);

impl World {
    fn put(&self, kind: BoundKind, item: &str, uid: &str) {
        self.0.lock().unwrap().insert((kind, item.to_owned()), uid.to_owned());
    }
    fn remove(&self, kind: BoundKind, item: &str) {
        self.0.lock().unwrap().remove(&(kind, item.to_owned()));
    }
}

impl Objects for World {
    fn find(&self, kind: BoundKind, item: &Arc<str>, uid: &str, _: i64) -> Found {
        match self.0.lock().unwrap().get(&(kind, item.to_string())) {
            None => Found::Gone,
            Some(is) if is == uid => Found::Same,
            Some(is) => Found::Other(is.clone()),
        }
    }
    fn token_in(&self, _: &Arc<str>) -> Option<Vec<u8>> {
        self.1.lock().unwrap().clone()
    }
}

fn keys() -> SigningKeys {
    SigningKeys::parse(SigningKeys::generate().unwrap().as_bytes(), &[]).unwrap()
}

fn issuer() -> (Issuer, Arc<World>) {
    let issuer = Issuer::new(IssuerOptions { issuer: ISSUER.to_owned(), audiences: Vec::new(), keys: keys() });
    let world = Arc::new(World::default());
    world.put(BoundKind::ServiceAccount, "d/bot", "u1");
    issuer.look_up_in(world.clone());
    (issuer, world)
}

fn ticket<'a>(audiences: &'a [String], bound: &'a [Bound]) -> Ticket<'a> {
    Ticket { id: "j1", namespace: "d", account: "bot", uid: "u1", audiences, bound, now: NOW, seconds: 3600 }
}

fn ours() -> Vec<String> {
    vec![ISSUER.to_owned()]
}

fn encoded(text: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(text)
}

/// A token over these texts, signed as ours are.
fn signed(issuer: &Issuer, header: &str, claims: &str) -> String {
    let mut token = format!("{}.{}", encoded(header), encoded(claims));
    let signature = issuer.keys().sign(token.as_bytes()).unwrap();
    token.push('.');
    token.push_str(&BASE64_URL_SAFE_NO_PAD.encode(signature));
    token
}

fn header(issuer: &Issuer) -> String {
    format!(r#"{{"alg":"ES256","kid":"{}"}}"#, issuer.keys().signing_id())
}

fn claims(changes: &[(&str, Value)]) -> String {
    let mut claims = json!({
        "iss": ISSUER, "sub": "system:serviceaccount:d:bot", "aud": [ISSUER], "exp": NOW + 60, "iat": NOW, "nbf": NOW, "jti": "j",
        "kubernetes.io": {"namespace": "d", "serviceaccount": {"name": "bot", "uid": "u1"}},
    });
    for (key, value) in changes {
        match value {
            Value::Null => claims.as_object_mut().unwrap().remove(*key),
            value => claims.as_object_mut().unwrap().insert((*key).to_owned(), value.clone()),
        };
    }
    claims.to_string()
}

#[test]
fn a_token_says_who_its_bearer_is() {
    let (issuer, world) = issuer();
    world.put(BoundKind::Pod, "d/web", "p1");
    let bound = [
        Bound { kind: BoundKind::Pod, name: "web".into(), uid: "p1".into() },
        Bound { kind: BoundKind::Node, name: "n".into(), uid: "n1".into() },
    ];
    let token = issuer.issue(&ticket(&ours(), &bound)).unwrap();
    let user = issuer.authenticate(token.as_bytes(), NOW).unwrap();
    assert_eq!((user.name.as_str(), user.uid.as_str()), ("system:serviceaccount:d:bot", "u1"));
    assert_eq!(user.groups, ["system:serviceaccounts", "system:serviceaccounts:d", "system:authenticated"]);
    let extra: Vec<(String, String)> = user.extra.iter().map(|(k, v)| (k.clone(), v.join(","))).collect();
    let about = |key: &str, value: &str| (format!("authentication.kubernetes.io/{key}"), value.to_owned());
    assert_eq!(
        extra,
        [
            about("credential-id", "JTI=j1"),
            about("node-name", "n"),
            about("node-uid", "n1"),
            about("pod-name", "web"),
            about("pod-uid", "p1"),
        ]
    );
    let body = BASE64_URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(
        body,
        json!({"iss": ISSUER, "sub": "system:serviceaccount:d:bot", "aud": [ISSUER], "iat": NOW, "nbf": NOW, "exp": NOW + 3600,
            "jti": "j1", "kubernetes.io": {"namespace": "d", "serviceaccount": {"name": "bot", "uid": "u1"},
            "pod": {"name": "web", "uid": "p1"}, "node": {"name": "n", "uid": "n1"}}})
    );
}

#[test]
fn forged_tokens_are_refused() {
    // B-10: CVE-2022-29165, CVE-2023-22482 and their kin.
    let (issuer, _) = issuer();
    let good = signed(&issuer, &header(&issuer), &claims(&[]));
    assert!(issuer.authenticate(good.as_bytes(), NOW).is_ok());
    let (body, signature) = good.rsplit_once('.').unwrap();
    let (_, payload) = body.split_once('.').unwrap();
    let kid = issuer.keys().signing_id();

    // The public key as the secret of a symmetric algorithm.
    let confused = encoded(&format!(r#"{{"alg":"HS256","kid":"{kid}"}}"#));
    let text = format!("{confused}.{payload}");
    let set = issuer.keys().key_set().to_string();
    let mac = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, set.as_bytes()), text.as_bytes());
    let confused = format!("{text}.{}", BASE64_URL_SAFE_NO_PAD.encode(mac));

    let with_header = |text: &str| signed(&issuer, text, &claims(&[]));
    let swapped = claims(&[("sub", json!("system:serviceaccount:kube-system:root"))]);
    let table = [
        ("no algorithm", format!("{}.{payload}.", encoded(r#"{"alg":"none"}"#))),
        ("none with a key", format!("{}.{payload}.", encoded(&format!(r#"{{"alg":"none","kid":"{kid}"}}"#)))),
        ("None", with_header(&format!(r#"{{"alg":"None","kid":"{kid}"}}"#))),
        ("public key as secret", confused),
        ("another algorithm, our signature", with_header(&format!(r#"{{"alg":"RS256","kid":"{kid}"}}"#))),
        ("no key id", with_header(r#"{"alg":"ES256"}"#)),
        ("another key id", with_header(r#"{"alg":"ES256","kid":"other"}"#)),
        ("a path as key id", with_header(r#"{"alg":"ES256","kid":"../../../../dev/null"}"#)),
        ("a key of its own", with_header(&format!(r#"{{"alg":"ES256","kid":"x","jwk":{set}}}"#))),
        ("critical extensions", with_header(&format!(r#"{{"alg":"ES256","kid":"{kid}","crit":["b64"]}}"#))),
        ("the algorithm twice", with_header(&format!(r#"{{"alg":"none","alg":"ES256","kid":"{kid}"}}"#))),
        ("no signature", format!("{body}.")),
        ("half a signature", format!("{body}.{}", &signature[..43])),
        ("another payload", format!("{}.{}.{signature}", encoded(&header(&issuer)), encoded(&swapped))),
        ("two parts", body.to_owned()),
        ("four parts", format!("{good}.x")),
        ("padding", format!("{good}==")),
        ("not base64", format!("{}.!!.{signature}", encoded(&header(&issuer)))),
        ("a zero signature", format!("{body}.{}", BASE64_URL_SAFE_NO_PAD.encode([0; 64]))),
        ("huge", format!("{}.{signature}", "a".repeat(1 << 20))),
        ("dots", "..".to_owned()),
        ("nothing", String::new()),
    ];
    for (what, token) in table {
        let found = issuer.authenticate(token.as_bytes(), NOW);
        assert!(matches!(found, Err(Refused::NotOurs | Refused::Signature)), "{what}: {found:?}");
    }
    let stranger = Issuer::new(IssuerOptions { issuer: ISSUER.to_owned(), audiences: Vec::new(), keys: keys() });
    let foreign = stranger.issue(&ticket(&ours(), &[])).unwrap();
    assert_eq!(issuer.authenticate(foreign.as_bytes(), NOW), Err(Refused::Signature));
}

#[test]
fn claims_that_do_not_fit_are_refused_even_when_signed() {
    let (issuer, _) = issuer();
    let head = header(&issuer);
    let twice = claims(&[]).replacen('{', r#"{"sub":"system:serviceaccount:d:root","#, 1);
    let table = [
        ("another issuer", claims(&[("iss", json!("https://evil.example"))]), Refused::NotOurs),
        ("no issuer", claims(&[("iss", Value::Null)]), Refused::NotOurs),
        ("another audience", claims(&[("aud", json!(["vault"]))]), Refused::NotOurs),
        ("an audience that begins like ours", claims(&[("aud", json!([format!("{ISSUER}.evil")]))]), Refused::NotOurs),
        ("no audience", claims(&[("aud", Value::Null)]), Refused::NotOurs),
        ("empty audiences", claims(&[("aud", json!([]))]), Refused::NotOurs),
        ("expired", claims(&[("exp", json!(NOW - 61))]), Refused::Expired),
        ("no end", claims(&[("exp", Value::Null)]), Refused::NotOurs),
        ("an end that is no number", claims(&[("exp", json!("never"))]), Refused::NotOurs),
        ("not yet", claims(&[("nbf", json!(NOW + 61))]), Refused::NotYet),
        ("issued tomorrow", claims(&[("iat", json!(NOW + 86400))]), Refused::Future),
        (
            "a subject that is not the account",
            claims(&[("sub", json!("system:serviceaccount:d:root"))]),
            Refused::NotOurs,
        ),
        ("a person of our issuer", claims(&[("kubernetes.io", Value::Null)]), Refused::NotOurs),
        ("a claim twice", twice, Refused::NotOurs),
        ("no claims", "[]".to_owned(), Refused::NotOurs),
    ];
    for (what, body, why) in table {
        assert_eq!(issuer.authenticate(signed(&issuer, &head, &body).as_bytes(), NOW), Err(why), "{what}");
    }
    let edges = claims(&[("exp", json!(NOW - 60)), ("nbf", json!(NOW + 60)), ("iat", json!(NOW + 60))]);
    assert!(issuer.authenticate(signed(&issuer, &head, &edges).as_bytes(), NOW).is_ok());
}

#[test]
fn a_token_dies_with_what_it_is_bound_to() {
    let (issuer, world) = issuer();
    for (kind, item) in [(BoundKind::Secret, "d/s"), (BoundKind::Pod, "d/s"), (BoundKind::Node, "s")] {
        world.put(kind, item, "b1");
        let bound = [Bound { kind, name: "s".into(), uid: "b1".into() }];
        let token = issuer.issue(&ticket(&ours(), &bound)).unwrap();
        let ask = || issuer.authenticate(token.as_bytes(), NOW).map(|_| ());
        assert_eq!(ask(), Ok(()), "{kind:?}");
        world.put(kind, item, "b2");
        let other = Refused::BoundUid { kind: kind.word(), is: "b2".into(), claimed: "b1".into() };
        assert_eq!(ask(), Err(other), "made anew: {kind:?}");
        world.remove(kind, item);
        assert_eq!(ask(), Err(Refused::Invalidated), "{kind:?}");
    }
    let token = issuer.issue(&ticket(&ours(), &[])).unwrap();
    assert!(issuer.authenticate(token.as_bytes(), NOW).is_ok());
    world.put(BoundKind::ServiceAccount, "d/bot", "u2");
    assert!(matches!(issuer.authenticate(token.as_bytes(), NOW), Err(Refused::Account(_))));
    world.remove(BoundKind::ServiceAccount, "d/bot");
    assert!(matches!(issuer.authenticate(token.as_bytes(), NOW), Err(Refused::Account(_))));
}

#[test]
fn a_token_of_a_secret_is_good_while_the_secret_holds_it() {
    let (issuer, world) = issuer();
    let token = issuer.issue_for_secret("d", "bot", "u1", "s").unwrap();
    assert_eq!(issuer.authenticate(token.as_bytes(), NOW), Err(Refused::Invalidated));
    *world.1.lock().unwrap() = Some(token.clone().into_bytes());
    let user = issuer.authenticate(token.as_bytes(), NOW).unwrap();
    assert_eq!(user.name, "system:serviceaccount:d:bot");
    assert!(user.extra.is_empty());
    *world.1.lock().unwrap() = Some(b"another".to_vec());
    assert_eq!(issuer.authenticate(token.as_bytes(), NOW), Err(Refused::Invalidated));
}

#[test]
fn a_persons_token_needs_no_object_and_is_for_us_only() {
    let (issuer, _) = issuer();
    let person = User::authenticated("ann", "7", [MASTERS.to_owned()]);
    let token = issuer.issue_for_user(&person, "j9", NOW, 600).unwrap();
    let user = issuer.authenticate(token.as_bytes(), NOW).unwrap();
    assert_eq!((user.name.as_str(), user.uid.as_str()), ("ann", "7"));
    assert_eq!(user.groups, [MASTERS, "system:authenticated"]);
    assert_eq!(issuer.authenticate(token.as_bytes(), NOW + 661), Err(Refused::Expired));
    // It is not one of the published issuer's tokens, and cannot pass for an account.
    let body = BASE64_URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
    assert_ne!(serde_json::from_slice::<Value>(&body).unwrap()["iss"], ISSUER);
    let account = claims(&[("iss", json!(USER_ISSUER))]);
    let posing = signed(&issuer, &header(&issuer), &account);
    assert_eq!(issuer.authenticate(posing.as_bytes(), NOW), Err(Refused::NotOurs));
}

#[test]
fn reviews_answer_for_the_audiences_asked_for() {
    let (issuer, _) = issuer();
    let wanted = |list: &[&str]| list.iter().map(|a| (*a).to_owned()).collect::<Vec<_>>();
    let token = issuer.issue(&ticket(&wanted(&["vault", "db"]), &[])).unwrap();
    assert!(issuer.authenticate(token.as_bytes(), NOW).is_err());
    let (_, for_whom) = issuer.verify(token.as_bytes(), &wanted(&["db", "x"]), NOW).unwrap();
    assert_eq!(for_whom, ["db"]);
    let refused = issuer.verify(token.as_bytes(), &ours(), NOW).unwrap_err().to_string();
    assert_eq!(refused, format!("token audiences [\"vault\" \"db\"] is invalid for the target audiences [{ISSUER:?}]"));
}

#[test]
fn keys_rotate_and_those_that_leave_take_their_tokens_along() {
    let (old, new) = (SigningKeys::generate().unwrap(), SigningKeys::generate().unwrap());
    let parse = |text: &str| SigningKeys::parse(text.as_bytes(), &[]).unwrap();
    let issuer = Issuer::new(IssuerOptions { issuer: ISSUER.to_owned(), audiences: Vec::new(), keys: parse(&old) });
    let world = Arc::new(World::default());
    world.put(BoundKind::ServiceAccount, "d/bot", "u1");
    issuer.look_up_in(world);
    let first = issuer.issue(&ticket(&ours(), &[])).unwrap();
    issuer.replace_keys(parse(&format!("{new}{old}")));
    let second = issuer.issue(&ticket(&ours(), &[])).unwrap();
    let good = |token: &str| issuer.authenticate(token.as_bytes(), NOW).is_ok();
    assert!(good(&first) && good(&second));
    assert_eq!(issuer.keys().key_set()["keys"].as_array().unwrap().len(), 2);
    issuer.replace_keys(parse(&new));
    assert!(!good(&first) && good(&second));
}

#[test]
fn key_files_hold_p256_keys_and_one_to_sign_with() {
    let private = SigningKeys::generate().unwrap();
    let keys = SigningKeys::parse(private.as_bytes(), &[]).unwrap();
    let rsa = "-----BEGIN RSA PRIVATE KEY-----\nMAA=\n-----END RSA PRIVATE KEY-----\n";
    let refused = |text: &str| SigningKeys::parse(text.as_bytes(), &[]).unwrap_err();
    assert_eq!(refused(rsa), KeyError::NotP256(1));
    assert_eq!(refused("nothing"), KeyError::NotPem);
    assert_eq!(refused(""), KeyError::NotPem);
    let jwk = &keys.key_set()["keys"][0];
    assert_eq!((jwk["alg"].as_str(), jwk["crv"].as_str()), (Some("ES256"), Some("P-256")));
    // The public half alone verifies, and cannot sign.
    let part = |name: &str| BASE64_URL_SAFE_NO_PAD.decode(jwk[name].as_str().unwrap()).unwrap();
    let der = [&crate::keys::SPKI[..], &[4], &part("x"), &part("y")].concat();
    let public = format!(
        "-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n",
        base64::prelude::BASE64_STANDARD.encode(der)
    );
    assert_eq!(refused(&public), KeyError::NoPrivate);
    let other = SigningKeys::parse(SigningKeys::generate().unwrap().as_bytes(), &[public.into_bytes()]).unwrap();
    assert!(other.ids().any(|id| id == keys.signing_id()));
    let signature = keys.sign(b"text").unwrap();
    assert!(other.verifies(&keys.signing_id(), b"text", &signature));
    assert!(!other.verifies(&other.signing_id(), b"text", &signature));
}

proptest! {
    /// No change of a single byte leaves a token good.
    #[test]
    fn a_changed_token_is_no_token(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let (issuer, _) = issuer();
        let good = issuer.issue(&ticket(&ours(), &[])).unwrap().into_bytes();
        let mut bad = good.clone();
        let at = at.index(bad.len());
        prop_assume!(bad[at] != byte);
        bad[at] = byte;
        prop_assert!(issuer.authenticate(&bad, NOW).is_err());
    }

    #[test]
    fn no_text_makes_it_panic(text in prop::collection::vec(any::<u8>(), 0..300)) {
        let (issuer, _) = issuer();
        prop_assert!(issuer.authenticate(&text, NOW).is_err());
    }
}
