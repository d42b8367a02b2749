//! Users, logins, sessions, the setup link.
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use gateway::{Deed, Options, ServeError, Trail};
use muster_tests::peer::TOKEN;
use muster_tests::runner::Case;
use muster_tests::{PATIENCE, Peer, cases, eventually};
use muster_tests_gateway::browser::Browser;
use muster_tests_gateway::{Face, generous, refused, upstream};
use serde_json::{Value, json};
use tokio::time::sleep;

pub fn all() -> Vec<Case> {
    cases![people: the_setup_link_makes_the_first_administrator_once, the_demo_has_its_admin_on_loopback_only,
        an_operators_password_makes_the_first_user, a_session_is_its_users_and_ends, another_password_ends_the_other_sessions,
        a_changed_or_deleted_user_is_logged_out, what_users_may_do_is_what_the_api_grants, tokens_need_no_session,
        a_user_is_made_with_a_secret, who_gets_in_is_written_down_and_what_was_typed_is_not]
}

const PASSWORD: &str = "correct horse battery";

/// A face with the user `admin`.
async fn admins(peer: &Peer) -> Face {
    Face::console(peer, |face| face.first_admin(fleet::Secret::new(PASSWORD))).await
}

/// Waits until a session is over.
async fn until_out(browser: &Browser) {
    eventually("the session is over", || async { browser.status().await == 401 }).await;
}

async fn the_setup_link_makes_the_first_administrator_once(peer: &Peer) {
    let face = Face::console(peer, |face| face).await;
    let link = face.link.clone().unwrap();
    let (page, token) = link.split_once("/setup#t=").unwrap();
    assert_eq!(page, format!("http://{}", face.address));
    let mut browser = Browser::new(&face);
    let nobody = refused(&browser.get("/wapi/v1/session").await, 401);
    assert_eq!((&nobody["details"]["setup"], &nobody["details"]["demo"]), (&json!(true), &json!(false)));
    let setup = async |token: &str, user: &str, password: &str| {
        browser.post("/wapi/v1/setup", json!({"token": token, "user": user, "password": password})).await
    };
    refused(&setup("wrong", "setup.ann", PASSWORD).await, 403);
    refused(&setup(token, "Setup Ann", PASSWORD).await, 422);
    refused(&setup(token, "setup.ann", "short").await, 422);
    let (one, two) = tokio::join!(setup(token, "setup.ann", PASSWORD), setup(token, "setup.bob", PASSWORD));
    let (made, other) = if one.status == 200 { (one, two) } else { (two, one) };
    assert!(matches!(other.status, 403 | 409), "{}", other.text());
    refused(&setup(token, "setup.eve", PASSWORD).await, 403);
    browser.take(&made);
    let session = browser.get("/wapi/v1/session").await.ok(200);
    assert_eq!(session["groups"], json!(["system:masters"]));
    assert_eq!((&session["mustChange"], &session["demo"]), (&json!(false), &json!(false)));
    // The administrator is one towards the API too.
    browser.get("/apiext/v1/core/v1/namespaces").await.ok(200);
    let nobody = refused(&Browser::new(&face).get("/wapi/v1/session").await, 401);
    assert_eq!(nobody["details"]["setup"], false);
}

async fn the_demo_has_its_admin_on_loopback_only(peer: &Peer) {
    let open = Options { limits: generous(), ..Options::new(([0, 0, 0, 0], 0).into()) };
    let refusal = gateway::Face::new(open, upstream(peer).await).console().demo_admin().bind().await;
    assert!(matches!(refusal, Err(ServeError::DemoInTheOpen(_))));
    let face = Face::console(peer, |face| face.demo_admin()).await;
    assert_eq!(face.link, None);
    let browser = Browser::login(&face, "admin", "teleport").await;
    let session = browser.get("/wapi/v1/session").await.ok(200);
    assert_eq!(
        (&session["user"], &session["mustChange"], &session["demo"]),
        (&json!("admin"), &json!(true), &json!(true))
    );
    // It asks; nothing is refused for it.
    browser.get("/apiext/v1/core/v1/namespaces").await.ok(200);
    let change = browser.post("/wapi/v1/password", json!({"old": "teleport", "new": PASSWORD})).await;
    assert_eq!(change.status, 204, "{}", change.text());
    assert_eq!(browser.get("/wapi/v1/session").await.ok(200)["mustChange"], false);
    refused(&browser.try_login("admin", "teleport").await, 401);
    Browser::login(&face, "admin", PASSWORD).await;
}

async fn an_operators_password_makes_the_first_user(peer: &Peer) {
    let face = admins(peer).await;
    assert_eq!(face.link, None);
    let browser = Browser::login(&face, "admin", PASSWORD).await;
    assert_eq!(browser.get("/wapi/v1/session").await.ok(200)["mustChange"], false);
    let weak = gateway::Face::new(Options::new(([127, 0, 0, 1], 0).into()), upstream(peer).await);
    let weak = weak.console().first_admin(fleet::Secret::new("teleport")).bind().await;
    assert!(matches!(weak, Err(ServeError::Users(_))));
}

async fn a_session_is_its_users_and_ends(peer: &Peer) {
    let face = admins(peer).await;
    let (here, there) =
        (Browser::login(&face, "admin", PASSWORD).await, Browser::login(&face, "admin", PASSWORD).await);
    assert_ne!((&here.cookie, &here.csrf), (&there.cookie, &there.csrf));
    let sessions = here.get("/wapi/v1/sessions").await.ok(200);
    assert_eq!(sessions["count"], 2);
    let items = sessions["items"].as_array().unwrap();
    let other = items.iter().find(|session| session["current"] == false).unwrap()["id"].as_str().unwrap();
    assert!(!sessions.to_string().contains(&here.csrf));
    let ended = here.call("DELETE", &format!("/wapi/v1/sessions/{other}")).send().await;
    assert_eq!(ended.status, 204);
    assert_eq!((here.status().await, there.status().await), (200, 401));
    refused(&here.call("DELETE", &format!("/wapi/v1/sessions/{other}")).send().await, 404);
    let out = here.call("POST", "/wapi/v1/logout").send().await;
    assert_eq!(out.status, 204);
    assert!(out.header("set-cookie").contains("Max-Age=0"));
    assert_eq!(here.status().await, 401);
}

async fn another_password_ends_the_other_sessions(peer: &Peer) {
    let face = admins(peer).await;
    let (here, there) =
        (Browser::login(&face, "admin", PASSWORD).await, Browser::login(&face, "admin", PASSWORD).await);
    let change = async |old: &str, new: &str| here.post("/wapi/v1/password", json!({"old": old, "new": new})).await;
    refused(&change("wrong", "another horse battery").await, 403);
    refused(&change(PASSWORD, "short").await, 422);
    refused(&change(PASSWORD, PASSWORD).await, 422);
    assert_eq!(change(PASSWORD, "another horse battery").await.status, 204);
    assert_eq!(there.status().await, 401);
    // The watch brings the change too; whoever made it stays.
    sleep(Duration::from_millis(500)).await;
    assert_eq!(here.status().await, 200);
    assert_eq!(change("another horse battery", PASSWORD).await.status, 204);
    sleep(Duration::from_millis(500)).await;
    assert_eq!(here.status().await, 200, "also the second time");
}

async fn a_changed_or_deleted_user_is_logged_out(peer: &Peer) {
    // B-20
    let face = admins(peer).await;
    let browser = Browser::login(&face, "admin", PASSWORD).await;
    let place = face.secret("admin");
    let groups = BASE64_STANDARD.encode("nobodies");
    peer.patch(&place, "application/merge-patch+json", json!({"data": {"groups": groups}})).await.ok(200);
    until_out(&browser).await;
    let browser = Browser::login(&face, "admin", PASSWORD).await;
    assert_eq!(browser.get("/wapi/v1/session").await.ok(200)["groups"], json!(["nobodies"]));
    refused(&browser.get("/apiext/v1/core/v1/secrets").await, 403);
    peer.delete(&place).await.ok(200);
    until_out(&browser).await;
    refused(&browser.try_login("admin", PASSWORD).await, 401);
}

async fn what_users_may_do_is_what_the_api_grants(peer: &Peer) {
    let face = admins(peer).await;
    let admin = Browser::login(&face, "admin", PASSWORD).await;
    let ns = peer.namespace().await;
    admin.post(&format!("/apiext/v1/core/v1/namespaces/{ns}/configmaps"), json!({"name": "x"})).await.ok(201);
    let got = admin.get(&format!("/apiext/v1/core/v1/namespaces/{ns}/configmaps/x")).await.ok(200);
    assert_eq!(got["name"], "x");
    let call = admin.call("DELETE", &format!("/apiext/v1/core/v1/namespaces/{ns}/configmaps/x"));
    assert_eq!(call.send().await.status, 200);
}

async fn tokens_need_no_session(peer: &Peer) {
    let face = Face::console(peer, |face| face).await;
    let about = face.get("/wapi/v1/session").await.ok(200);
    assert_eq!((&about["csrf"], &about["mustChange"]), (&json!(""), &json!(false)));
    assert!(about["groups"].as_array().unwrap().contains(&json!("system:masters")), "{about}");
    face.post("/wapi/v1/ticket", json!({})).await.ok(200);
    refused(&face.call("GET", "/wapi/v1/session").token(Some("wrong")).send().await, 401);
    refused(&face.call("POST", "/wapi/v1/logout").send().await, 400);
    assert_eq!(face.call("GET", "/apiext/v1/core/v1/namespaces").token(Some(TOKEN)).send().await.status, 200);
}

async fn a_user_is_made_with_a_secret(peer: &Peer) {
    let face = admins(peer).await;
    let hash = peer.get(&face.secret("admin")).await.ok(200)["data"]["hash"].clone();
    let text = |text: &str| BASE64_STANDARD.encode(text);
    let secrets = format!("/api/v1/namespaces/{}/secrets", face.namespace);
    let make = async |object: &str, data: Value| {
        let secret = json!({"metadata": {"name": object}, "type": "muster.dev/user", "data": data});
        peer.post(&secrets, secret).await.ok(201);
    };
    make("muster-user-bob", json!({"name": text("bob"), "groups": text("dev\nops"), "hash": hash})).await;
    // Those that pose as somebody are nobody.
    make("other", json!({"name": text("eve"), "groups": text("system:masters"), "hash": hash})).await;
    make("muster-user-eve", json!({"name": text("system:admin"), "hash": hash})).await;
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let answer = Browser::new(&face).try_login("bob", PASSWORD).await;
        if answer.status == 200 {
            assert_eq!(answer.json()["groups"], json!(["dev", "ops"]));
            for nobody in ["eve", "system:admin", "other"] {
                refused(&Browser::new(&face).try_login(nobody, PASSWORD).await, 401);
            }
            return;
        }
        sleep(Duration::from_millis(500)).await;
    }
    panic!("bob cannot log in");
}

/// The lines of an audit log, in memory.
#[derive(Default)]
struct Lines(Mutex<Vec<Deed>>);

impl Trail for Lines {
    fn note(&self, deed: &Deed) {
        self.0.lock().unwrap().push(deed.clone());
    }
}

impl Lines {
    /// Those since the last look: verb, user, object, code and reason.
    fn fresh(&self) -> Vec<String> {
        let noted = std::mem::take(&mut *self.0.lock().unwrap());
        let lines = noted.into_iter().map(|deed| {
            assert!(deed.source.is_some_and(|from| from.is_loopback()) && !deed.request_id.is_empty(), "{deed:?}");
            assert!(deed.path.starts_with("/wapi/v1/") && deed.cluster.is_empty(), "{deed:?}");
            format!("{} {} {}/{} {} {}", deed.verb, deed.user, deed.resource, deed.name, deed.code, deed.reason)
        });
        lines.collect()
    }
}

async fn who_gets_in_is_written_down_and_what_was_typed_is_not(peer: &Peer) {
    // B-17
    let lines = Arc::new(Lines::default());
    let kept = lines.clone();
    let face = Face::console(peer, |face| face.trail(kept)).await;
    let link = face.link.clone().unwrap();
    let setup = async |token: &str, user: &str, password: &str| {
        let body = json!({"token": token, "user": user, "password": password});
        Browser::new(&face).post("/wapi/v1/setup", body).await
    };
    let token = link.split_once("#t=").unwrap().1;
    refused(&setup("canary-token", "ann", PASSWORD).await, 403);
    assert_eq!(lines.fresh(), ["setup (unknown) users/ 403 WrongSetupLink"]);
    refused(&setup(token, "ann", "canary").await, 422);
    assert_eq!(lines.fresh(), ["setup (unknown) users/ 422 Invalid"]);
    setup(token, "ann", PASSWORD).await.ok(200);
    assert_eq!(lines.fresh(), ["setup ann users/ann 200 "]);

    let mut browser = Browser::new(&face);
    refused(&browser.try_login("ann", "canary-wrong-password").await, 401);
    assert_eq!(lines.fresh(), ["login ann sessions/ 401 WrongPassword"]);
    // A password where the name belongs is nobody's name.
    refused(&browser.try_login("canary-password-as-name", PASSWORD).await, 401);
    assert_eq!(lines.fresh(), ["login (unknown) sessions/ 401 UnknownUser"]);
    browser.take(&browser.try_login("ann", PASSWORD).await);
    assert_eq!(lines.fresh(), ["login ann sessions/ 200 "]);

    let change =
        async |old: &str, new: &str| browser.post("/wapi/v1/password", json!({"old": old, "new": new})).await.status;
    assert_eq!(change("canary-old-password", "canary-new-password").await, 403);
    assert_eq!(change(PASSWORD, "canary").await, 422);
    assert_eq!(change(PASSWORD, "another horse battery").await, 204);
    let said = ["403 WrongPassword", "422 Invalid", "204 "].map(|end| format!("password ann users/ann {end}"));
    assert_eq!(lines.fresh(), said);

    // Reads, tickets and what is not understood are no logins.
    browser.get("/wapi/v1/sessions").await.ok(200);
    browser.ticket().await;
    refused(&browser.post("/wapi/v1/login", json!({"user": "ann"})).await, 400);
    assert_eq!(lines.fresh(), [""; 0]);
    let other = Browser::login(&face, "ann", "another horse battery").await;
    let own = other.get("/wapi/v1/sessions").await.ok(200);
    let other_id = own["items"].as_array().unwrap().iter().find(|one| one["current"] == true).unwrap()["id"].clone();
    let other_id = other_id.as_str().unwrap();
    lines.fresh();
    browser.call("DELETE", &format!("/wapi/v1/sessions/{other_id}")).send().await;
    assert_eq!(browser.post("/wapi/v1/logout", json!({})).await.status, 204);
    assert_eq!(lines.fresh(), [format!("logout ann sessions/{other_id} 204 "), "logout ann sessions/ 204 ".to_owned()]);

    // Guesses have a line each; those that are turned away unread have none, so nobody can fill the log.
    let tries = (0..20).map(|_| browser.try_login("ann", "canary-guess"));
    let answers = futures_util::future::join_all(tries).await;
    let judged = answers.iter().filter(|answer| answer.status == 401).count();
    let noted = lines.fresh();
    assert!(noted.len() == judged && judged < 20, "{judged} {noted:?}");
}
