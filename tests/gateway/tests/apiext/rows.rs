//! Lists: rows, pages, order, filters, search, projection, count. // KC-8
use muster_tests::runner::Case;
use muster_tests::{Peer, cases, eventually};
use muster_tests_gateway::{Face, define_things, deployment, refused};
use serde_json::json;

pub fn all() -> Vec<Case> {
    cases![rows: rows_are_flat, pages_and_cursors_cover_everything_once, order_filter_search_and_selector, a_list_of_all_namespaces_is_in_order_of_place,
        custom_kinds_have_a_face_as_soon_as_they_are_defined, data_of_secrets_is_shown_only_when_asked_for, kinds_without_a_watch_are_listed_too,
        a_definition_that_goes_takes_its_face_with_it]
}

async fn rows_are_flat(peer: &Peer) {
    let (face, ns) = (Face::start(peer).await, peer.namespace().await);
    let place = format!("/apiext/v1/apps/v1/namespaces/{ns}/deployments");
    face.post(&place, deployment("web", 2)).await.ok(201);
    let page = face.get(&place).await.ok(200);
    assert_eq!(
        (&page["kind"], &page["apiVersion"], &page["count"], &page["page"]),
        (&json!("Deployment"), &json!("apps/v1"), &json!(1), &json!(1))
    );
    let row = &page["items"][0];
    let mut fields: Vec<&str> = row.as_object().unwrap().keys().map(String::as_str).collect();
    fields.retain(|field| *field != "phase");
    assert_eq!(
        fields,
        [
            "annotations",
            "created",
            "generation",
            "id",
            "labels",
            "name",
            "namespace",
            "resourceVersion",
            "spec",
            "status"
        ],
        "{row}"
    );
    assert_eq!((&row["name"], &row["namespace"], &row["spec"]["replicas"]), (&json!("web"), &json!(ns), &json!(2)));
    // One object is the same row.
    assert_eq!(&face.get(&format!("{place}/web")).await.ok(200), row);
    assert_eq!(
        face.get(&format!("{place}/web?fields=name,spec.replicas")).await.ok(200),
        json!({"name": "web", "spec": {"replicas": 2}})
    );
    refused(&face.get(&format!("{place}/gone")).await, 404);
    // A cluster-wide kind has no namespace.
    let space = face.get(&format!("/apiext/v1/core/v1/namespaces/{ns}")).await.ok(200);
    assert_eq!((&space["phase"], space.get("namespace")), (&json!("Active"), None));
}

async fn pages_and_cursors_cover_everything_once(peer: &Peer) {
    let (face, ns) = (Face::start(peer).await, peer.namespace().await);
    let place = format!("/apiext/v1/core/v1/namespaces/{ns}/configmaps");
    for i in 0..11 {
        face.post(&place, json!({"name": format!("c{i:02}"), "data": {"n": format!("{}", i % 3)}})).await.ok(201);
    }
    let all = face.names(&format!("{place}?sort=data.n,-name&filter=name+startswith+c")).await;
    assert_eq!(all, ["c09", "c06", "c03", "c00", "c10", "c07", "c04", "c01", "c08", "c05", "c02"]);
    let mut by_page = Vec::new();
    for page in 1..=4 {
        by_page.extend(
            face.names(&format!("{place}?sort=data.n,-name&filter=name+startswith+c&pageSize=3&page={page}")).await,
        );
    }
    assert_eq!(by_page, all);
    let (mut by_cursor, mut cursor) = (Vec::new(), String::new());
    loop {
        let page =
            face.get(&format!("{place}?sort=data.n,-name&filter=name+startswith+c&pageSize=4{cursor}")).await.ok(200);
        assert_eq!(page["count"], 11);
        by_cursor.extend(page["items"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap().to_owned()));
        match page["cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(by_cursor, all);
    let counted = face.get(&format!("{place}?pageSize=0&filter=name+startswith+c")).await.ok(200);
    assert_eq!((&counted["count"], &counted["items"]), (&json!(11), &json!([])));
    refused(&face.get(&format!("{place}?pageSize=4&sort=name{cursor}")).await, 400);
}

async fn order_filter_search_and_selector(peer: &Peer) {
    let (face, ns) = (Face::start(peer).await, peer.namespace().await);
    let place = format!("/apiext/v1/apps/v1/namespaces/{ns}/deployments");
    for (name, replicas) in [("shop", 3), ("web", 1), ("db", 2), ("web-canary", 0)] {
        face.post(&place, deployment(name, replicas)).await.ok(201);
    }
    for (query, expected) in [
        ("sort=-spec.replicas", vec!["shop", "db", "web", "web-canary"]),
        ("filter=spec.replicas+gt+0+and+not+name+eq+db&sort=name", vec!["shop", "web"]),
        ("filter=spec.template.spec.containers.image+contains+WEB", vec!["web", "web-canary"]),
        ("filter=name+in+(db,shop)&filter=spec.replicas+ge+3", vec!["shop"]),
        ("labelSelector=app+in+(web,db),app!=db", vec!["web"]),
        ("q=CANARY", vec!["web-canary"]),
        ("filter=status.readyReplicas+exists", vec![]),
    ] {
        assert_eq!(face.names(&format!("{place}?{query}")).await, expected, "{query}");
    }
    let page = face.get(&format!("{place}?fields=name,spec.replicas&sort=name&pageSize=1")).await.ok(200);
    assert_eq!(page["items"], json!([{"name": "db", "spec": {"replicas": 2}}]));
}

async fn a_list_of_all_namespaces_is_in_order_of_place(peer: &Peer) {
    let face = Face::start(peer).await;
    let (one, two) = (peer.namespace().await, peer.namespace().await);
    for ns in [&two, &one] {
        face.post(
            &format!("/apiext/v1/core/v1/namespaces/{ns}/configmaps"),
            json!({"name": "both", "labels": {"case": one.clone()}}),
        )
        .await
        .ok(201);
    }
    let page = face.get(&format!("/apiext/v1/core/v1/configmaps?labelSelector=case%3D{one}")).await.ok(200);
    let mut expected = [one.clone(), two];
    expected.sort();
    let places: Vec<&str> =
        page["items"].as_array().unwrap().iter().map(|row| row["namespace"].as_str().unwrap()).collect();
    assert_eq!(places, expected);
}

async fn custom_kinds_have_a_face_as_soon_as_they_are_defined(peer: &Peer) {
    let (face, ns) = (Face::start(peer).await, peer.namespace().await);
    refused(&face.get("/apiext/v1/rows.example.com/v1/things").await, 404);
    define_things(peer, "rows.example.com").await;
    let place = format!("/apiext/v1/rows.example.com/v1/namespaces/{ns}/things");
    for size in [5, 3, 9] {
        let thing =
            json!({"name": format!("t{size}"), "spec": {"size": size, "displayName": format!("Thing of {size}")}});
        let made = face.post(&place, thing).await;
        assert_eq!(made.status, 201, "{}", made.text());
    }
    assert_eq!(face.names(&format!("{place}?sort=-spec.size&filter=spec.size+lt+9")).await, ["t5", "t3"]);
    assert_eq!(face.names(&format!("{place}?q=of+9")).await, ["t9"]);
    // A status that its controller wrote becomes the phase of the row.
    let url = format!("/apis/rows.example.com/v1/namespaces/{ns}/things/t5/status");
    peer.patch(&url, "merge", json!({"status": {"phase": "Running", "message": "all is well"}})).await.ok(200);
    let shown = format!("{place}?filter=phase+exists&fields=phase,phaseMessage");
    let phase = json!([{"phase": "Running", "phaseMessage": "all is well"}]);
    eventually("the phase is shown", || async { face.get(&shown).await.ok(200)["items"] == phase }).await;
}

async fn a_definition_that_goes_takes_its_face_with_it(peer: &Peer) {
    let (face, ns) = (Face::start(peer).await, peer.namespace().await);
    define_things(peer, "gone.example.com").await;
    let place = format!("/apiext/v1/gone.example.com/v1/namespaces/{ns}/things");
    face.post(&place, json!({"name": "t", "spec": {}})).await.ok(201);
    assert_eq!(face.names(&place).await, ["t"]);
    peer.delete("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.gone.example.com").await.ok(200);
    eventually("the face is gone", || async {
        let answer = face.get(&place).await;
        assert!(answer.status < 500, "{}", answer.text());
        answer.status == 404
    })
    .await;
}

async fn data_of_secrets_is_shown_only_when_asked_for(peer: &Peer) {
    let (face, ns) = (Face::start(peer).await, peer.namespace().await);
    let place = format!("/apiext/v1/core/v1/namespaces/{ns}/secrets");
    let applied = json!({"kubectl.kubernetes.io/last-applied-configuration": "{\"data\":{\"k\":\"Y2FuYXJ5\"}}"});
    face.post(&place, json!({"name": "s", "annotations": applied, "data": {"k": "Y2FuYXJ5"}})).await.ok(201);
    for query in ["", "?fields=name", "?sort=data.k", "?q=s", "?fields=annotations", "?filter=data.k+exists"] {
        let answer = face.get(&format!("{place}{query}")).await;
        answer.ok(200);
        assert!(!answer.text().contains("Y2FuYXJ5"), "{query}: {}", answer.text());
    }
    // Nor can it be guessed letter by letter.
    assert_eq!(face.get(&format!("{place}?filter=data.k+startswith+Y")).await.ok(200)["count"], 0);
    assert_eq!(
        face.get(&format!("{place}?fields=name,data")).await.ok(200)["items"],
        json!([{"name": "s", "data": {"k": "Y2FuYXJ5"}}])
    );
    assert_eq!(face.get(&format!("{place}/s")).await.ok(200)["data"], json!({"k": "Y2FuYXJ5"}));
}

async fn kinds_without_a_watch_are_listed_too(peer: &Peer) {
    // The gateway's own identity may watch nothing here: lists go to the API as the caller.
    let ns = peer.namespace().await;
    let token = muster_tests_gateway::user(peer, &format!("poor-{ns}"), None, None).await;
    let face = Face::start_as(peer, &token).await;
    for i in 0..3 {
        peer.post(
            &format!("/api/v1/namespaces/{ns}/configmaps"),
            json!({"metadata": {"name": format!("m{i}"), "labels": {"i": format!("{i}")}}}),
        )
        .await
        .ok(201);
    }
    let place = format!("/apiext/v1/core/v1/namespaces/{ns}/configmaps");
    assert_eq!(face.names(&format!("{place}?filter=name+startswith+m&sort=-name&pageSize=2")).await, ["m2", "m1"]);
    assert_eq!(face.names(&format!("{place}?labelSelector=i%3D1")).await, ["m1"]);
}
