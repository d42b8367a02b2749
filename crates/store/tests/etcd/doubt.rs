//! Lost answers: what is told is true, and nothing is written twice.

use std::time::Duration;

use store::etcd::Config;
use store::testing::{clients, delete, history, key, put};
use store::{Error, Expect, Options};

use super::peer::Cluster;
use super::proxy::{Mode, Proxy};
use super::{config, open, take, text, write};

#[tokio::test(flavor = "multi_thread")]
async fn a_write_whose_answer_is_lost_is_told_as_it_is_and_happens_once() {
    let Some(etcd) = Cluster::start(1) else { return };
    let proxy = Proxy::start(etcd.members[0].client).await;
    let quick = Config { attempt: Duration::from_millis(400), ..config(vec![proxy.url(), etcd.members[0].url()]) };
    let k = |item: &str| key("core/things", item);
    let witness = open(config(etcd.urls()), Options::default()).await;
    // Each case has a store whose requests go through the proxy first.
    for (mode, name) in [(Mode::Mute, "mute"), (Mode::BlackHole, "hole"), (Mode::Cut, "cut")] {
        for (case, expect) in [("any", Expect::Anything), ("absent", Expect::Absent), ("at", Expect::At(0))] {
            let item = k(&format!("{name}-{case}"));
            proxy.set(Mode::Pass);
            let store = open(quick.clone(), Options::default()).await;
            let expect = match expect {
                Expect::At(_) => Expect::At(write(&store, &item, "before").await),
                other => other,
            };
            store.sync().await.unwrap();
            let mut seen = witness.watch(&item.collection, &item.item, witness.sync().await.unwrap()).unwrap();
            proxy.set(mode);
            let written = store.write(put(&item, expect, "once")).await.unwrap();
            assert_eq!(store.get(&item).unwrap().revision, written.revision);
            assert_eq!(written.prev.is_some(), case == "at");
            let after = write(&witness, &item, "after").await;
            let events = take(&mut seen, 2).await;
            let told: Vec<_> = events.iter().map(|e| (e.revision, text(e))).collect();
            let expected = [(written.revision, "once"), (after, "after")];
            assert_eq!(told, expected.map(|(r, v)| (r, format!("{}={v}", item.item))), "{name} {case}");
        }
    }

    // A delete bears no mark: done or not is told only where it is sure.
    for (mode, sure) in [(Mode::Mute, false), (Mode::BlackHole, true)] {
        proxy.set(Mode::Pass);
        let store = open(quick.clone(), Options::default()).await;
        let item = k(&format!("delete-{sure}"));
        let at = write(&store, &item, "1").await;
        store.sync().await.unwrap();
        proxy.set(mode);
        match store.write(delete(&item, Expect::At(at))).await {
            Ok(_) => assert!(sure),
            Err(Error::Unknown(_)) => assert!(!sure),
            Err(other) => panic!("{other}"),
        }
        assert!(store.get(&item).is_none());
        // Someone tidies up what he does not know: the store finds its feet.
        etcd.members[0].ctl(&["del", "--prefix", "/muster/.fence"]);
        write(&store, &item, "2").await;
        assert!(matches!(
            store.write(put(&item, Expect::Absent, "3")).await,
            Err(Error::Conflict { current: Some(_) })
        ));
    }
    proxy.set(Mode::Pass);
}

/// F-3 with lost requests and answers: whatever the clients were told fits one order, and the watches saw it.
#[tokio::test(flavor = "multi_thread")]
async fn f3_lost_requests_and_answers_leave_one_order() {
    let Some(etcd) = Cluster::start(1) else { return };
    let (one, two) = (Proxy::start(etcd.members[0].client).await, Proxy::start(etcd.members[0].client).await);
    let quick = Config { attempt: Duration::from_millis(250), ..config(vec![one.url(), two.url()]) };
    let store = open(quick, Options::default()).await;
    let running = {
        let store = store.clone();
        tokio::spawn(async move { clients::run(&store, 12, 250).await })
    };
    let modes =
        [Mode::Mute, Mode::Pass, Mode::Cut, Mode::BlackHole, Mode::Pass, Mode::Delay(Duration::from_millis(15))];
    let mut turn = 0;
    while !running.is_finished() {
        one.set(modes[turn % modes.len()]);
        two.set(modes[(turn * 5 + 2) % modes.len()]);
        turn += 1;
        tokio::time::sleep(Duration::from_millis(120)).await;
    }
    one.set(Mode::Pass);
    let (ops, watches) = running.await.unwrap();
    let told = |outcome: fn(&history::Outcome) -> bool| {
        let is = |op: &&history::Op| matches!(&op.act, history::Act::Write { outcome: o, .. } if outcome(o));
        ops.iter().filter(is).count()
    };
    println!(
        "F-3 through broken connections: {} operations, {} writes done, {} unknown, {} failed, {turn} changes of weather",
        ops.len(),
        told(|o| matches!(o, history::Outcome::Done(_))),
        told(|o| matches!(o, history::Outcome::Unknown)),
        told(|o| matches!(o, history::Outcome::Failed)),
    );
    let found = history::check(&ops, &watches);
    assert!(found.is_empty(), "{found:#?}");
}
